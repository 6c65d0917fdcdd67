"""Where iterations begin: from a public Gaussian, never from the rows."""

from __future__ import annotations

import numpy as np

from privgmm.arrays import Array
from privgmm.mixture import Mixture
from privgmm.privacy.noise import NoiseSource

__all__ = ["everything", "spread_points", "spread_starts", "unit_gaussian"]

_CANDIDATES = 512
"""Points drawn to choose starts from: many more than components; a convention."""


def everything(points: Array) -> Array:
    """Return shares (m, 1) of a single group that holds all rows."""
    return np.ones((len(points), 1))


def unit_gaussian(d: int) -> Mixture:
    """Return one Gaussian as wide as the unit ball: what is known before any row is read."""
    return Mixture([1.0], np.zeros((1, d)), np.eye(d)[None] / d)


def spread_points(pooled: Mixture, k: int, source: NoiseSource) -> Array:
    """Choose k points (k, d) far apart from each other within a public Gaussian.

    Candidates are drawn from it, none in its far tail, which is no place for the middle of a
    component. The first taken is the one farthest from its mean, and each next one is farthest from
    those taken before: first of all along the longest axis, where rows differ most.
    """
    d = pooled.n_features
    drawn = source.normal((_CANDIDATES, d))
    length = np.maximum(np.linalg.norm(drawn, axis=1, keepdims=True), 1e-12)
    candidates = drawn * np.minimum(1.0, np.sqrt(d) / length) @ pooled.cholesky[0].T
    taken = [int(np.argmax(np.linalg.norm(candidates, axis=1)))]
    nearest = np.linalg.norm(candidates - candidates[taken[0]], axis=1)
    while len(taken) < k:
        taken.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, np.linalg.norm(candidates - candidates[taken[-1]], axis=1))
    return np.asarray(pooled.means[0] + candidates[taken])


def spread_starts(pooled: Mixture, k: int, source: NoiseSource) -> Mixture:
    """Place k equal components at `spread_points`, each a share of the public Gaussian's volume."""
    if k == 1:
        return pooled
    d = pooled.n_features
    root = pooled.cholesky[0] * k ** (-1 / d)
    return Mixture.from_roots(
        np.full(k, 1 / k), spread_points(pooled, k, source), np.repeat(root[None], k, axis=0)
    )
