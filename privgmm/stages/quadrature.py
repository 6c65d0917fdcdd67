"""Compute expectations under a mixture, by points that stand for it.

What a stage expects of rows that follow a public mixture is a sum over points, the same every
time, so that results repeat to the last bit. Nothing here is drawn, and no row is looked at.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import scipy
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from privgmm.arrays import Array, frozen
from privgmm.mixture import Mixture

__all__ = ["normal_points", "points_of", "scores", "wave_moments"]

_POINTS = 1 << 13
"""Choice: points in all; sums over them are good to three digits or four."""
_FEWEST_BITS, _MOST_BITS = 7, 12
"""Of the points per component, before each gets its mirror image: 128 to 4,096."""


@functools.lru_cache(maxsize=16)
def normal_points(d: int, bits: int) -> Array:
    """Make 2^(bits+1) points (N, d) with mean zero and covariance I, spread like a normal law."""
    sobol = scipy.stats.qmc.Sobol(d, scramble=True, rng=np.random.default_rng(20230609))
    half = ndtri(np.clip(sobol.random_base2(bits), 1e-12, 1 - 1e-12))
    points = np.concatenate([half, -half])
    root = np.linalg.cholesky(points.T @ points / len(points))
    return frozen(solve_triangular(root, points.T, lower=True).T)


def points_of(mixture: Mixture, n_points: int = _POINTS) -> tuple[Array, Array]:
    """Make about `n_points` points (N, d) and weights (N,) that stand for a mixture in sums.

    Means and covariances of each component are exact; the rest is as good as points are many.
    """
    d = mixture.n_features
    bits = math.ceil(math.log2(max(n_points / (2 * mixture.n_components), 1)))
    # enough to distinguish all directions
    least = max(_FEWEST_BITS, math.ceil(math.log2(4 * d)))
    points = normal_points(d, min(max(bits, least), max(_MOST_BITS, least)))
    rows = np.concatenate(
        [points @ root.T + mean for root, mean in zip(mixture.cholesky, mixture.means, strict=True)]
    )
    return rows, np.repeat(mixture.weights / len(points), len(points))


def wave_moments(mixture: Mixture, frequencies: Array, rows: Array, values: Array) -> Array:
    """Compute expectations (2 m, P) of cosines and sines of waves, times what points contribute.

    Parameters
    ----------
    mixture : Mixture
    frequencies : array (m, d)
    rows : array (N, d)
        The points that stand for the mixture, as `points_of` gives them.
    values : array (N, P)

    Notes
    -----
    A component's points come in pairs ``c + v`` and ``c - v``, and ``cos(f.c +- f.v)`` is
    ``cos(f.c) cos(f.v) -+ sin(f.c) sin(f.v)``. So waves are evaluated for one of each pair only,
    and in single precision: the points stand for the mixture to three digits or four.
    """
    k, m = mixture.n_components, len(frequencies)
    out = np.zeros((2 * m, values.shape[1]))
    pairs = zip(np.split(rows, k), np.split(values, k), strict=True)
    for weight, centre, (points, seen) in zip(mixture.weights, mixture.means, pairs, strict=True):
        half = len(points) // 2
        ahead, behind = seen[:half], seen[half:]
        phases = ((points[:half] - centre) @ frequencies.T).astype(np.float32)
        even = np.cos(phases).T @ (ahead + behind).astype(np.float32)
        odd = np.sin(phases).T @ (ahead - behind).astype(np.float32)
        turn = (frequencies @ centre)[:, None]
        share = weight / len(points)
        out[:m] += share * (np.cos(turn) * even - np.sin(turn) * odd)
        out[m:] += share * (np.sin(turn) * even + np.cos(turn) * odd)
    return out


def scores(mixture: Mixture, rows: Array) -> Array:
    """Differentiate the log density at rows (n, d) in the mixture's local coordinates: (n, P).

    Those of a component are its log-weight, its mean in units of its own spread, and the
    logarithm M of its covariance relative to itself (``L exp(M) L'``), as svec: the upper triangle
    row by row, entries off the diagonal times sqrt 2.
    """
    k, d = mixture.means.shape
    joint = np.empty((len(rows), k))
    row, column = np.triu_indices(d)
    double = np.where(row == column, 1.0, math.sqrt(2))
    out = np.empty((len(rows), k, 1 + d + len(row)))
    for a in range(k):
        u = (rows - mixture.means[a]) @ np.linalg.inv(mixture.cholesky[a]).T
        volume = float(np.log(np.diagonal(mixture.cholesky[a])).sum())
        joint[:, a] = math.log(max(mixture.weights[a], 1e-300)) - volume
        joint[:, a] -= 0.5 * np.einsum("ij,ij->i", u, u)
        out[:, a, 0] = 1.0
        out[:, a, 1 : 1 + d] = u
        out[:, a, 1 + d :] = 0.5 * (u[:, row] * u[:, column] - (row == column)) * double
    share = np.exp(joint - joint.max(axis=1, keepdims=True))
    out *= (share / share.sum(axis=1, keepdims=True))[:, :, None]
    out[:, :, 0] -= mixture.weights
    return out.reshape(len(rows), -1)
