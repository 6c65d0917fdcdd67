"""Expectation maximisation over blocks, compiled: the default learner."""

from privgmm.learners.em.fitting import EM

__all__ = ["EM"]
