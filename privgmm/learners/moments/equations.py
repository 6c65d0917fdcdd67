"""The moment equations of a mixture in a few coordinates, solved by weighted least squares.

Above `features`. Finds the mixture under which every test function has the mean it has over the
rows: Levenberg-Marquardt on the residuals, each weighted by the inverse covariance of the test
functions (the two-step generalised method of moments). Many starts, and many projections, are
worked on at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privgmm.arrays import Array
from privgmm.learners.moments.features import Family

__all__ = ["MixtureParts", "Weighting", "imprecision", "match_moments", "weighting"]

_RIDGE = 1e-7  # share of its mean variance added to every test function
_FAR = 1e-4  # share of the ridge added to every entry, see `weighting`
_SHORTEST, _LONGEST = -7.0, 2.0  # natural log of a deviation, the whole having deviation 1
_FURTHEST = 30.0  # largest mean and largest entry of a root, the whole having deviation 1
_STEP = 1.0  # most that a parameter moves in one step
_LOGITS = 8.0  # largest centred logit: weights stay above 3e-8


class MixtureParts(NamedTuple):
    """Mixtures of leading shape (...): weights (..., k), means and covariances of the parts."""

    weights: Array
    means: Array
    covariances: Array

    def at(self, index: object) -> MixtureParts:
        """Return those at an index of the leading axis."""
        return MixtureParts(*(array[index] for array in self))  # type: ignore[call-overload]


class Weighting(NamedTuple):
    """A whitening of test functions.

    Attributes
    ----------
    factor : (..., q, q)
        W with ``W C W^T = I`` for the covariance C of the test functions.
    raw : (..., q + 1, q + 1)
        Whitening of their second moments, a constant function put first.
    rank : (...)
        How many independent functions they amount to, ``tr C (C + ridge)^-1``.
    """

    factor: Array
    raw: Array
    rank: Array


def weighting(family: Family, parts: MixtureParts, *, ridge: float = _RIDGE) -> Weighting:
    """Compute how to weight residuals when the rows come from these mixtures.

    Combinations of functions whose variance is below the `ridge` (as a share of their mean
    variance) count for little: what they see happens to few rows in one over the ridge.
    """
    second = family.second_moments(*parts)
    values = family.expectations(parts.means, parts.covariances).value
    first = (parts.weights[..., None] * values).sum(axis=-2)
    q = first.shape[-1]
    covariance = second - first[..., :, None] * first[..., None, :]
    size = np.einsum("...aa->...", covariance)[..., None, None] / q
    added = ridge * size
    # far functions are all but independent: the constant keeps factors out of the denormal range,
    # where arithmetic is a hundred times slower
    covariance += added * (np.eye(q) + _FAR)
    root = np.linalg.cholesky(covariance)
    factor = np.linalg.inv(root)
    # the second moments of (1, f) factor as [[1, 0], [E f, root]]: invert that by blocks
    raw = np.zeros((*first.shape[:-1], q + 1, q + 1))
    raw[..., 0, 0] = 1.0
    raw[..., 1:, 1:] = factor
    raw[..., 1:, 0] = -np.einsum("...ab,...b->...a", factor, first)
    rank = q - added[..., 0, 0] * (factor**2).sum(axis=(-2, -1))
    return Weighting(factor, raw, rank)


class _Guess(NamedTuple):
    """Parameters without constraints: logits (B, k), means (B, k, m), roots (B, k, m, m)."""

    logits: Array
    means: Array
    roots: Array

    def parts(self) -> MixtureParts:
        w = np.exp(self.logits - self.logits.max(axis=-1, keepdims=True))
        roots = self.roots
        return MixtureParts(
            w / w.sum(axis=-1, keepdims=True), self.means, roots @ np.swapaxes(roots, -1, -2)
        )


def _guess(parts: MixtureParts) -> _Guess:
    roots = np.asarray(np.linalg.cholesky(parts.covariances), dtype=np.float64)
    return _bounded(_Guess(np.log(parts.weights), parts.means, roots))


def match_moments(
    family: Family,
    target: Array,
    factor: Array,
    start: MixtureParts,
    n_rows: int,
    *,
    steps: int,
) -> tuple[MixtureParts, Array]:
    """Solve the moment equations by Levenberg-Marquardt from each of B starts.

    Parameters
    ----------
    family : Family
    target : (B, q) or (q,)
        Means of the test functions over the rows.
    factor : (B, q, q) or (q, q)
        Whitening of the residuals.
    start : MixtureParts
        Of leading shape (B,).
    n_rows : int
        n. A prior worth one row (means, log deviations and logits of order 2) keeps what the
        equations leave open from running away.
    steps : int
        Most steps; a start that no longer improves is left alone.

    Returns
    -------
    parts : MixtureParts
        Of leading shape (B,).
    criterion : (B,)
        n times the weighted sum of squares: chi-square with about ``q - parameters`` degrees of
        freedom when the rows come from a mixture and the weighting is right.
    """
    guess = _guess(start)
    q = family.n_functions
    many = len(guess.means)
    target = np.broadcast_to(target, (many, q))
    factor = np.broadcast_to(factor, (many, q, q))
    prior = 0.25 / n_rows  # deviation 2, worth one row; the criterion is a mean over rows
    damping = np.full(many, 1e-3)
    residual, jacobian, vector = _linearised(family, guess, target, factor)
    cost = _cost(residual, vector, prior)
    active = np.ones(many, dtype=bool)
    for _ in range(steps):
        i = np.flatnonzero(active)
        if len(i) == 0:
            break
        j, r = jacobian[i], residual[i]
        turned = np.swapaxes(j, 1, 2)
        normal = turned @ j
        gradient = (turned @ r[..., None])[..., 0] - prior * vector[i]
        diagonal = np.einsum("bpp->bp", normal)
        normal = normal + (damping[i, None] * diagonal + prior)[:, :, None] * np.eye(
            normal.shape[-1]
        )
        step = np.linalg.solve(normal, gradient[..., None])[..., 0]
        step = np.clip(np.nan_to_num(step), -_STEP, _STEP)
        moved = _bounded(_shifted(_Guess(*(part[i] for part in guess)), step))
        r1, j1, v1 = _linearised(family, moved, target[i], factor[i])
        c1 = _cost(r1, v1, prior)
        better = c1 < cost[i]
        gain = cost[i] - c1
        damping[i] = np.clip(np.where(better, damping[i] / 5, damping[i] * 4), 1e-9, 1e9)
        won = i[better]
        for ours, theirs in zip(guess, moved, strict=True):
            ours[won] = theirs[better]
        residual[won], jacobian[won], vector[won] = r1[better], j1[better], v1[better]
        done = better & (gain < 1e-6 * np.maximum(c1, 1.0 / n_rows)) | (damping[i] > 1e7)
        cost[won] = c1[better]
        active[i[done]] = False
    return guess.parts(), n_rows * np.einsum("bq,bq->b", residual, residual)


def imprecision(family: Family, factor: Array, parts: MixtureParts, n_rows: int) -> float:
    """Predict the largest standard error of one mixture, in units of its own components.

    From the curvature of the criterion at the fit: of a weight, of a mean in deviations of its
    component, of a covariance relative to itself (Frobenius norm).
    """
    guess = _guess(parts.at(None))
    k, m = parts.means.shape
    target = np.zeros((1, family.n_functions))
    _, jacobian, _ = _linearised(family, guess, target, factor[None])
    normal = jacobian[0].T @ jacobian[0] + 0.25 / n_rows * np.eye(jacobian.shape[-1])
    spread = np.linalg.inv(normal) / n_rows
    size = len(spread) // k
    worst = 0.0
    for j in range(k):
        own = spread[j * size : (j + 1) * size, j * size : (j + 1) * size]
        root = guess.roots[0, j]
        scaled = np.linalg.inv(root)
        lower = np.tril_indices(m)
        unit = np.where(lower[0] == lower[1], 2.0, 2.0 / np.diagonal(root)[lower[0]])
        covariance = float((unit**2 * np.diagonal(own)[1 + m :]).sum())
        mean = float(np.trace(scaled @ own[1 : 1 + m, 1 : 1 + m] @ scaled.T))
        tilt = parts.weights[j] * (np.eye(k)[j] - parts.weights)
        weight = float(tilt @ spread[::size, ::size] @ tilt)
        worst = max(worst, weight, mean, covariance)
    return float(worst**0.5)


def _cost(residual: Array, vector: Array, prior: float) -> Array:
    total = np.einsum("bq,bq->b", residual, residual) + prior * (vector**2).sum(axis=1)
    return np.where(np.isfinite(total), total, np.inf)


def _linearised(
    family: Family, guess: _Guess, target: Array, factor: Array
) -> tuple[Array, Array, Array]:
    """Compute weighted residuals (B, q), their Jacobian (B, q, P), and parameters (B, P).

    With Sigma = L L^T, ``d E f = tr(E hess f . dL L^T)``: the derivative by L is (hess f) L.
    """
    many, _, m = guess.means.shape
    parts = guess.parts()
    expected = family.expectations(parts.means, parts.covariances)
    w = parts.weights
    fitted = np.einsum("bk,bkq->bq", w, expected.value)
    lower = np.tril_indices(m)
    by_root = np.einsum("bkqac,bkce->bkqae", expected.hessian, guess.roots)
    on_diagonal = np.arange(m)
    size = guess.roots[:, :, on_diagonal, on_diagonal]
    by_root[..., on_diagonal, on_diagonal] *= size[:, :, None, :]
    columns = np.concatenate(
        [
            (expected.value - fitted[:, None, :])[..., None],
            expected.gradient,
            by_root[..., lower[0], lower[1]],
        ],
        axis=-1,
    )
    columns *= w[:, :, None, None]
    jacobian = columns.transpose(0, 2, 1, 3).reshape(many, fitted.shape[1], -1)
    vector = np.concatenate(
        [guess.logits[..., None], guess.means, _unlogged(guess.roots)[..., lower[0], lower[1]]],
        axis=-1,
    ).reshape(many, -1)
    residual = (factor @ (target - fitted)[..., None])[..., 0]
    return residual, factor @ jacobian, vector


def _unlogged(roots: Array) -> Array:
    """Put the logarithm of the diagonal of roots in its place."""
    out = roots.copy()
    i = np.arange(roots.shape[-1])
    out[..., i, i] = np.log(out[..., i, i])
    return out


def _shifted(guess: _Guess, step: Array) -> _Guess:
    many, k, m = guess.means.shape
    step = step.reshape(many, k, -1)
    lower = np.tril_indices(m)
    roots = _unlogged(guess.roots)
    roots[..., lower[0], lower[1]] += step[..., 1 + m :]
    i = np.arange(m)
    roots[..., i, i] = np.exp(roots[..., i, i])
    return _Guess(guess.logits + step[..., 0], guess.means + step[..., 1 : 1 + m], roots)


def _bounded(guess: _Guess) -> _Guess:
    """Clip parameters to where exponentials stay in range, and centre the logits."""
    logits = guess.logits - guess.logits.mean(axis=-1, keepdims=True)
    roots = np.clip(guess.roots, -_FURTHEST, _FURTHEST)
    i = np.arange(roots.shape[-1])
    roots[..., i, i] = np.clip(roots[..., i, i], np.exp(_SHORTEST), np.exp(_LONGEST))
    return _Guess(
        np.clip(logits, -_LOGITS, _LOGITS), np.clip(guess.means, -_FURTHEST, _FURTHEST), roots
    )
