"""The method of moments, in the line of Pearson and of Moitra and Valiant, then polished."""

from privgmm.learners.moments.fitting import MOST_COMPONENTS, Moments

__all__ = ["MOST_COMPONENTS", "Moments"]
