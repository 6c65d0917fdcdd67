"""Privacy losses: what the noise of a plan tells two data sets apart by, drawn and measured.

Spaces say what their masks draw (`privgmm.privacy.gaussian_pairs`), stages draw the losses of
their worst cases, and `guessing` plays with them; here drawn losses are turned into a measured
delta, to be set against the curve that a plan was priced by.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture
from privgmm.privacy.gaussian_pairs import GaussianPair
from privgmm.stages.agreement.lifted_space import Anchored
from privgmm.stages.agreement.space import MixtureSpace

__all__ = [
    "MeasuredDelta",
    "farthest_from",
    "mask_pair",
    "masked_from",
    "measured_delta",
    "whole_losses",
    "worst_pair",
]


def mask_pair(space: MixtureSpace, item_a: Any, item_b: Any) -> GaussianPair:
    """What the mask draws for either of two representatives, before it is squared and shuffled.

    Parameters
    ----------
    space : MixtureSpace
    item_a, item_b : object
        What ``space.representative`` gave for the two data sets.
    """
    return space.gaussian_pair(item_a, item_b)


def masked_from(item_a: Anchored, item_b: Anchored, seen: Array) -> Mixture:
    """The mixture that is published when a vector (m,) of `mask_pair` was drawn, not shuffled."""
    return item_a.published(item_b, seen)


def farthest_from(item: Anchored, gamma: float) -> Anchored:
    """Lifted components at distance gamma from each of `item`, in the direction that costs most."""
    return item.farther(gamma)


def worst_pair(plan: Plan) -> GaussianPair:
    """The mask on two representatives as far apart as the plan allows, gamma in each component."""
    return plan.agreement.worst_pair()


def whole_losses(plan: Plan, n: int, *, rng: np.random.Generator) -> Array:
    """Losses (n,) of all that a plan draws, each of its stages in its worst case.

    Losses of independent noise add. Raises `InvalidInput` for a plan that has no Rényi account to
    hold them against.
    """
    total = np.zeros(n)
    for stage in plan.stages:
        total += stage.worst_losses(n, rng=rng)
    return total


@dataclasses.dataclass(frozen=True, eq=False)
class MeasuredDelta:
    """delta at each epsilon, estimated from drawn losses, with bounds that hold at 95 % each."""

    epsilons: Array
    estimate: Array
    low: Array
    high: Array


def measured_delta(losses: Array, epsilons: npt.ArrayLike) -> MeasuredDelta:
    """``delta(epsilon) = E max(0, 1 - e^(epsilon - L))`` from losses L (n,) drawn from A.

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
