"""Mixtures on a line: what rows look like along each of a few directions.

Above `pearson` and `equations`, below `moments`. Two components start from the roots of
Pearson's polynomial; three and four from many random guesses, of which the ones that the moment
equations like best are pursued. The line is in units of its own deviation, centred.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.learners.moments.equations import MixtureParts, match_moments, weighting
from privgmm.learners.moments.features import Family, gathered
from privgmm.learners.moments.pearson import pearson

__all__ = ["LineFits", "fit_lines", "random_starts"]

_GUESSES = {2: (3, 3), 3: (60, 250), 4: (120, 800)}  # along a line: few, many
_STAGES = ((4, 24), (8, 8), (12, 0))  # steps, and how many go on (0: as many as asked for)
_WEIGHED = 4000  # rows that the first weighting looks at
_RIDGE = 1e-4  # share of the mean variance of test functions added to the first weighting


class LineFits(NamedTuple):
    """Fits along directions: c of them, the best of each direction first.

    Attributes
    ----------
    direction : (c,)
        Which direction each belongs to.
    parts : MixtureParts
        Leading shape (c,), one coordinate.
    criterion : (c,)
        Chi-square of the moment equations.
    """

    direction: IntArray
    parts: MixtureParts
    criterion: Array


def random_starts(
    line: Array, n_components: int, count: int, rng: np.random.Generator
) -> MixtureParts:
    """Draw guesses (count,): means at random quantiles, deviations from 0.1 to 1."""
    k = n_components
    levels = np.sort(rng.uniform(0.02, 0.98, (count, k)), axis=1)
    ordered = np.sort(line)
    means = ordered[(levels * (len(line) - 1)).astype(int)]
    weights = 0.3 / k + 0.7 * rng.dirichlet(np.full(k, 2.0), count)
    deviation = np.exp(rng.uniform(np.log(0.1), np.log(1.0), (count, k)))
    return MixtureParts(weights, means[..., None], (deviation**2)[..., None, None])


def fit_lines(
    family: Family,
    lines: Array,
    n_components: int,
    rng: np.random.Generator,
    *,
    keep: int,
    many: bool,
) -> LineFits:
    """Solve the moment equations along each column of lines (n, r), `keep` solutions each.

    With `many`, from as many guesses as it takes to find the best solution almost always.
    """
    n, r = lines.shape
    ones = np.ones((n, 1))
    k = n_components
    guesses = _GUESSES[k][many]
    target = np.empty((r, family.n_functions))
    factor = np.empty((r, family.n_functions, family.n_functions))
    starts: list[MixtureParts] = []
    owner: list[int] = []
    for c in range(r):
        line = lines[:, c : c + 1]
        target[c] = gathered(family, line, ones)[:, 0]
        factor[c] = _first_weighting(family, line[:_WEIGHED])
        if k == 2:
            roots = pearson(_central_moments(line[:, 0]))
            starts.append(
                MixtureParts(
                    np.maximum(roots.weights, 1e-3),
                    roots.means[..., None],
                    np.maximum(roots.variances, 1e-4)[..., None, None],
                )
            )
            owner += [c] * len(roots.weights)
        starts.append(random_starts(line[:, 0], k, guesses, rng))
        owner += [c] * guesses
    direction = np.array(owner)
    parts = MixtureParts(*(np.concatenate(arrays) for arrays in zip(*starts, strict=True)))
    # Halving: few steps for all, more for the best of each direction, then the second weighting.
    for steps, share in _STAGES if k > 2 else _STAGES[-1:]:
        parts, criterion = match_moments(
            family, target[direction], factor[direction], parts, n, steps=steps
        )
        chosen = _best_of_each(direction, criterion, parts, share or keep)
        direction, parts = direction[chosen], parts.at(chosen)
    parts, criterion = match_moments(
        family, target[direction], weighting(family, parts).factor, parts, n, steps=8
    )
    return LineFits(direction, parts, criterion)


def _central_moments(line: Array) -> Array:
    """Compute M2 ... M6 of a centred line (n,)."""
    square = line * line
    cube = square * line
    return np.array([p.mean() for p in (square, cube, square**2, square * cube, cube**2)])


def _first_weighting(family: Family, line: Array) -> Array:
    """Weight by the covariance of the test functions over the rows, before any fit."""
    values = family.values(line)
    values -= values.mean(axis=0)
    covariance = values.T @ values / len(line)
    q = len(covariance)
    covariance += _RIDGE * np.trace(covariance) / q * np.eye(q)
    return np.asarray(np.linalg.inv(np.linalg.cholesky(covariance)), dtype=np.float64)


def _best_of_each(
    direction: IntArray, criterion: Array, parts: MixtureParts, share: int
) -> IntArray:
    """Return indices of the best `share` fits of each direction, without duplicates."""
    order = np.argsort(criterion, kind="stable")
    means = np.sort(parts.means[..., 0], axis=-1)
    chosen: list[int] = []
    for d in np.unique(direction).tolist():
        kept: list[int] = []
        for i in order[direction[order] == d].tolist():
            if len(kept) == share:
                break
            near = (
                kept
                and (
                    (np.abs(means[kept] - means[i]).max(axis=1) < 0.02)
                    & (np.abs(criterion[kept] - criterion[i]) < 1e-2 * (1 + criterion[i]))
                ).any()
            )
            if not near:
                kept.append(i)
        chosen += kept
    return np.array(chosen, dtype=np.int64)
