"""Choose the mixture that a request is about: the one it expects, or a typical one.

Forecasts are made at a mixture, because overlap decides them. A request that states no mixture
means any mixture of its separation. Of such mixtures a typical one is taken, and equal requests get
equal ones.
"""

from __future__ import annotations

import functools

import numpy as np

from privgmm.data.generators import random_mixture
from privgmm.methods.request import PlanRequest
from privgmm.mixture import Mixture
from privgmm.stages.agreement.scatter import component_weights

__all__ = [
    "SEPARATION",
    "expected_mixture",
    "typical_mixture",
    "whole_of",
]

SEPARATION = 4.0
"""Deviations between the nearest two means, where a request says nothing; by convention."""
_BALANCE = 0.7
"""The smallest weight, in units of 1/k, where a request says nothing; by convention."""
_CONDITION = 2.0
"""Condition number of the covariances of a typical mixture; by convention."""
_DRAWN = 15
"""Random mixtures of which the typical one is the median in width; by convention an odd number."""


def expected_mixture(request: PlanRequest) -> Mixture:
    """Return the mixture that is expected, or a typical one of the stated separation."""
    if request.expected is not None:
        return request.expected
    k = request.n_components
    smallest = _BALANCE / k if request.smallest_weight is None else request.smallest_weight
    separation = SEPARATION if request.separation is None else request.separation
    return typical_mixture(k, request.n_features, separation, smallest)


@functools.lru_cache(maxsize=64)
def typical_mixture(k: int, d: int, separation: float, smallest: float) -> Mixture:
    """Choose the random mixture that is neither wide nor narrow for its separation.

    A forecast depends most on the distance of the nearest two components, and next on the width of
    the whole compared with that distance. The width also differs most between random mixtures: of
    five components on a line two are bound to be near each other, and the rest far away.
    """
    weights = component_weights(k, None if k == 1 else smallest)
    shapes = [
        random_mixture(
            k,
            d,
            separation=separation,
            condition=_CONDITION if d > 1 else 1.0,
            weights=weights,
            rng=seed,
        )
        for seed in range(1 if k < 3 else _DRAWN)
    ]
    widths = [float(np.linalg.slogdet(whole_of(shape)[1])[1]) for shape in shapes]
    return shapes[int(np.argsort(widths)[len(widths) // 2])]


def whole_of(mixture: Mixture) -> tuple[np.ndarray, np.ndarray]:
    """Compute the mean and covariance of all components together."""
    mean = mixture.weights @ mixture.means
    gaps = mixture.means - mean
    spread = mixture.covariances + gaps[:, :, None] * gaps[:, None, :]
    return mean, np.einsum("k,kij->ij", mixture.weights, spread)
