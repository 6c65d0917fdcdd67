"""Errors that an information in local coordinates allows, part by part."""

from __future__ import annotations

import numpy as np

from privgmm.arrays import Array
from privgmm.stages.sketch.structures import numbers_per_component

DRAWS = 400
"""A test needs no more of a median."""


def median_worst_errors(information: Array, weights: Array) -> Array:
    """Compute the median error of the worst component: weight, mean, covariance (3,).

    Mean and covariance are in the component's own units.
    """
    k, size = len(weights), len(information)
    width = size // k
    d = next(d for d in range(1, width) if numbers_per_component(d) == width)
    root = np.linalg.cholesky(np.linalg.inv(information))
    draws = np.random.default_rng(20240611).standard_normal((DRAWS, size))
    errors = (draws @ root.T).reshape(DRAWS, k, width)
    logs = errors[:, :, 0]
    weight = np.abs(weights * (logs - (logs @ weights)[:, None])).max(axis=1)
    mean = np.linalg.norm(errors[:, :, 1 : 1 + d], axis=2).max(axis=1)
    covariance = np.linalg.norm(errors[:, :, 1 + d :], axis=2).max(axis=1)
    return np.asarray(np.median([weight, mean, covariance], axis=1), dtype=np.float64)
