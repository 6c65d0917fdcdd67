"""Privacy losses of a plan, drawn at their worst, and the delta that they show.

Stages draw the losses of their worst cases. Here they are added up, and turned into a measured
delta, to be held against the curve that the plan was priced by.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan

__all__ = ["MeasuredDelta", "measured_delta", "whole_losses"]


def whole_losses(plan: Plan, n: int, *, rng: np.random.Generator) -> Array:
    """Draw losses (n,) of all noise of a plan, each of its stages in its worst case.

    Losses of independent noise add up. Raises `InvalidInput` for a plan that has no Rényi account
    to hold them against.
    """
    total = np.zeros(n)
    for stage in plan.stages:
        total += stage.worst_losses(n, rng=rng)
    return total


@dataclasses.dataclass(frozen=True, eq=False)
class MeasuredDelta:
    """Estimates of delta at each epsilon, from drawn losses, with bounds that hold at 95 % each."""

    epsilons: Array
    estimate: Array
    low: Array
    high: Array


def measured_delta(losses: Array, epsilons: npt.ArrayLike) -> MeasuredDelta:
    """Estimate ``delta(epsilon) = E max(0, 1 - e^(epsilon - L))`` from losses L (n,) drawn from A.

    Notes
    -----
    Terms lie in [0, 1], so the empirical Bernstein bound of Maurer and Pontil (2009) holds for
    any n: ``sqrt(2 V ln(4/0.05) / n) + 7 ln(4/0.05) / (3 (n - 1))``, V the sample variance, for
    both sides together.
    """
    levels = np.asarray(epsilons, dtype=np.float64)
    n = losses.size
    if n < 2:
        raise InvalidInput(f"losses must hold at least two numbers, got {n}")
    terms = -np.expm1(np.minimum(levels[:, None] - losses, 0.0))
    mean, spread = terms.mean(axis=1), terms.var(axis=1, ddof=1)
    log = math.log(4 / 0.05)
    width = np.sqrt(2 * spread * log / n) + 7 * log / (3 * (n - 1))
    return MeasuredDelta(levels, mean, np.maximum(mean - width, 0), np.minimum(mean + width, 1))
