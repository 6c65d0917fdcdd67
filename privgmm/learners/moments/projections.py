"""Directions along which whitened rows differ from a Gaussian, and planes aimed at components.

Below `moments`. A mixture's components differ where the rows are least
Gaussian, so the first directions come from third and fourth moments; once there is a fit, the
next ones are where its own components differ most. All are made from the rows, never from the
axes, so that they turn with the data.
"""

from __future__ import annotations

import numpy as np

from privgmm.arrays import Array
from privgmm.learners.moments.equations import MixtureParts

__all__ = ["aim", "completed", "non_gaussian_directions"]

_ROWS = 2000  # that directions are sought on
_CLIMBS = 6  # gradient steps of each direction


def non_gaussian_directions(rows: Array, count: int, rng: np.random.Generator) -> Array:
    """Find up to `count` unit vectors, as columns (d, r), from whitened rows (n, d).

    Eigenvectors of slices of the third and fourth cumulants and a few directions from row to
    row, each moved uphill on ``skewness^2 / 6 + excess^2 / 24``, the first terms of the
    distance from a Gaussian; those uphill of one another are dropped. Signs make the skewness
    positive.
    """
    n, d = rows.shape
    if d == 1:
        return np.ones((1, 1))
    x = rows[:_ROWS]
    square = (x**2).sum(axis=1)
    pull = (square[:, None] * x).mean(axis=0)
    third = (x * (x @ pull)[:, None]).T @ x / len(x)
    fourth = (x * square[:, None]).T @ x / len(x)
    pairs = rng.integers(0, n, (count, 2))
    apart = rows[pairs[:, 0]] - rows[pairs[:, 1]]
    found = np.concatenate(
        [_eigenvectors(third), _eigenvectors(fourth), pull[:, None], apart.T], axis=1
    )
    length = np.linalg.norm(found, axis=0)
    found = found[:, length > 1e-9] / length[length > 1e-9]
    climbed = _uphill(x, found)
    score, _ = _far_from_gaussian(x, climbed)
    best = climbed.T[np.argsort(-score, kind="stable")]
    chosen: list[Array] = []
    # A third of the places go to directions as they came: uphill is not always apart.
    for candidates, places in ((best, count - count // 3), (found.T[::-1], count)):
        for u in candidates:
            if len(chosen) < places and all(abs(float(u @ v)) < 0.97 for v in chosen):
                chosen.append(u)
    out = np.stack(chosen, axis=1)
    s = x @ out
    sign = np.where((s * s * s).sum(axis=0) < 0, -1.0, 1.0)
    return np.asarray(out * sign, dtype=np.float64)


def _eigenvectors(matrix: Array) -> Array:
    return np.asarray(np.linalg.eigh((matrix + matrix.T) / 2)[1], dtype=np.float64)


def _far_from_gaussian(x: Array, u: Array) -> tuple[Array, Array]:
    """Compute the objective (r,) and its gradient (d, r) at directions u (d, r)."""
    s = x @ u
    square = s * s
    cube = square * s
    skew, excess = cube.mean(axis=0), (square * square).mean(axis=0) - 3
    gradient = x.T @ (skew * square + excess / 3 * cube) / len(x)
    return skew**2 / 6 + excess**2 / 24, gradient - u * (u * gradient).sum(axis=0)


def _uphill(x: Array, u: Array) -> Array:
    length = np.full(u.shape[1], 0.5)
    value, gradient = _far_from_gaussian(x, u)
    for _ in range(_CLIMBS):
        size = np.maximum(np.linalg.norm(gradient, axis=0), 1e-12)
        there = u + length * gradient / size
        there = there / np.linalg.norm(there, axis=0)
        new, slope = _far_from_gaussian(x, there)
        better = new > value
        u, value = np.where(better, there, u), np.where(better, new, value)
        gradient = np.where(better, slope, gradient)
        length = np.where(better, length, length / 3)
    return u


def aim(parts: MixtureParts) -> Array:
    """Build an orthonormal basis (d, d): first the directions in which the components differ most.

    For each pair of components, along their generalised eigenvectors and the direction of best
    linear separation, takes the Bhattacharyya distance of the pair as weight; then the leading
    eigenvectors of the weighted sum of ``u u^T``.
    """
    weights, means, covariances = parts
    k, d = means.shape
    total = np.zeros((d, d))
    for i in range(k):
        for j in range(i):
            pooled = (covariances[i] + covariances[j]) / 2
            root = np.linalg.cholesky(pooled)
            inverse = np.linalg.inv(root)
            turned = inverse @ covariances[i] @ inverse.T
            apart = means[i] - means[j]
            u = inverse.T @ np.column_stack([_eigenvectors(turned), inverse @ apart])
            length = np.maximum(np.linalg.norm(u, axis=0), 1e-12)
            u = u / length
            vi = np.einsum("ap,ab,bp->p", u, covariances[i], u)
            vj = np.einsum("ap,ab,bp->p", u, covariances[j], u)
            gap = apart @ u
            far = gap**2 / (vi + vj) / 4 + np.log((vi + vj) / 2 / np.sqrt(vi * vj)) / 2
            # capped: two components far apart already should not outweigh other pairs
            worth = np.sqrt(weights[i] * weights[j]) * np.minimum(far, 4.0) ** 2
            total += (u * worth) @ u.T
    basis = _eigenvectors(total)[:, ::-1]
    # signs that make the third moment positive: an eigenvector has none of its own
    along = means @ basis
    spread = np.einsum("ap,kab,bp->kp", basis, covariances, basis)
    third = weights @ (along**3 + 3 * along * spread)
    return np.asarray(basis * np.where(third < 0, -1.0, 1.0), dtype=np.float64)


def completed(direction: Array) -> Array:
    """Build an orthonormal basis (d, d) with a given first column (d,), by a reflection."""
    d = len(direction)
    mirror = direction.copy()
    # the sign that does not cancel; the first column is then set right
    mirror[0] += 1.0 if direction[0] >= 0 else -1.0
    basis = np.eye(d) - 2 * np.outer(mirror, mirror) / (mirror @ mirror)
    basis[:, 0] = direction
    return np.asarray(basis, dtype=np.float64)
