"""Simulate how block fits scatter around the truth, without any data.

Seen in a component's own coordinates, the error of a good fit depends only on how many of the
block's rows belong to the component: the count is multinomial, the mean normal, the covariance
Wishart, for any mixture (affine invariance). So blocks can be simulated for any number of
rows. This ignores overlap between components, which makes real fits scatter more.

Simulating every fitted matrix takes time like ``k d^3``. Where columns and components are many,
distances depend on few numbers, and those are drawn directly (`wide_distances`).

Notes
-----
A symmetric error matrix T (p, p) splits into its trace and a rest T0 with
``q = (p - 1)(p + 2) / 2`` degrees of freedom. The law of T0 does not change when the coordinates
are turned, so of two independent errors the inner product ``<T0, T0'>`` has mean zero and
variance exactly ``|T0|^2 |T0'|^2 / q``, and is close to normal for large q. Hence

    |T - T'|^2 = |T0|^2 + |T0'|^2 - 2 <T0, T0'> + (tr T - tr T')^2 / p.

For lifted errors p = d + 1, the trace is that of ``ln`` of a Wishart matrix (a sum of logarithms
of chi squares) plus p times that of the component's share of rows, and the mean of ``|T0|^2`` is
taken from a few simulated matrices; it scatters like a chi square of q degrees. (The lifted
coordinate is not turned with the others; in many dimensions that is one among many.)
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy.special import polygamma

from privgmm.arrays import Array, BoolArray, IntArray, finite_array, frozen
from privgmm.errors import InvalidInput
from privgmm.stages.agreement.votes import PrivateTest, friend_counts

__all__ = [
    "BlockErrors",
    "component_weights",
    "friend_counts_of_blocks",
    "is_wide",
    "pair_distances",
    "pass_probability",
    "rows_to_agree",
    "simulate_blocks",
    "simulated_distances",
    "wide_distances",
]

_COSTLY = 10_000
"""Choice: k (d + 1)^3 from which on distances are drawn without their matrices."""
_BLOCKS = 100
"""Choice: blocks whose distances are drawn so; each stands for several if there are more."""
_PRECISION = 20_000
"""2 / 0.01^2: enough matrices, each off by sqrt(2 / q), for a mean that is right within 1 %."""
_STEPS_PER_DOUBLING = 4
"""Choice: numbers of rows at which means are simulated; in between they are interpolated."""
_LINEAR = 10_000
"""Choice: with this many rows per dimension the limit of many rows is taken."""


def is_wide(n_components: int, n_features: int) -> bool:
    """Decide whether matrices would take too long: k (d + 1)^3 is large, and so is d."""
    return n_features >= 10 and n_components * (n_features + 1) ** 3 > _COSTLY


def wide_distances(
    n_blocks: int, counts: Array, expected: Array, d: int, seed: int, *, lifted: bool
) -> Array:
    """Simulate distances (t, t) between fits of t blocks, t at most a hundred.

    Parameters
    ----------
    n_blocks : int
    counts : array (n_blocks or more, k)
        Rows of each component in each block.
    expected : array (k,)
        Their means.
    d : int
    seed : int
        Draws the errors; the same for any number of rows, so that answers vary smoothly.
    lifted : bool
        True for the lifted distance, False for dist_Param.
    """
    k = expected.size
    t = min(n_blocks, _BLOCKS)
    first, second = np.triu_indices(t, 1)
    n = np.maximum(counts[:t], d + 2.0)
    p = d + 1 if lifted else d
    squares, angles, traces = _draws(t, k, p, seed)
    largest = np.zeros(first.size)
    for j in range(k):
        rest = _rest(d, float(expected[j]), lifted) * expected[j] / n[:, j] * squares[:, j]
        trace = _trace_deviation(d, float(expected[j]), lifted) * traces[:, j]
        if lifted:
            trace = trace + p * np.log(n[:, j] / expected[j])
        root = np.sqrt(rest)
        apart = rest[first] + rest[second] - root[first] * root[second] * angles[j]
        apart += (trace[first] - trace[second]) ** 2 / p
        np.maximum(largest, apart, out=largest)
    distances = np.zeros((t, t))
    distances[first, second] = np.sqrt(largest)
    distances += distances.T
    failed = (counts[:t] < d + 2).any(axis=1)
    distances[failed] = np.inf
    distances[:, failed] = np.inf
    return distances


@functools.lru_cache(maxsize=8)
def _draws(t: int, k: int, p: int, seed: int) -> tuple[Array, Array, Array]:
    """Draw chi squares over q (t, k), twice the cosines (k, t (t - 1) / 2), traces (t, k)."""
    generator = np.random.default_rng([seed, t, k, p])
    q = (p - 1) * (p + 2) / 2
    squares = generator.chisquare(q, (t, k)) / q
    angles = generator.standard_normal((k, t * (t - 1) // 2)) * (2 / math.sqrt(q))
    return squares, angles, generator.standard_normal((t, k))


@functools.lru_cache(maxsize=512)
def _trace_deviation(d: int, n: float, lifted: bool) -> float:
    """Compute the deviation of ``ln det`` of a fitted covariance of n rows, or of its trace."""
    if not lifted:
        return math.sqrt(2 * d / n)
    freedom = np.maximum(n - 1 - np.arange(d), 1.0)
    return math.sqrt(float(polygamma(1, freedom / 2).sum()))


@functools.lru_cache(maxsize=512)
def _rest(d: int, n: float, lifted: bool) -> float:
    """Compute the mean of ``|T0|^2`` for n rows of a component."""
    if not lifted:
        return (d - 1) * (d + 2) / n
    if n >= _LINEAR * (d + 1):
        return _scaled_rest(d, None) / n
    step = _STEPS_PER_DOUBLING * math.log2(max(n, d + 2.0))
    low = math.floor(step)
    between = step - low
    return ((1 - between) * _scaled_rest(d, low) + between * _scaled_rest(d, low + 1)) / n


@functools.lru_cache(maxsize=512)
def _scaled_rest(d: int, step: int | None) -> float:
    """Compute the mean of ``n |T0|^2`` of lifted errors at n = 2^(step / 4), or in the limit."""
    p = d + 1
    if step is None:
        # independent entries: off the diagonal and in the mean 1/n twice, on the diagonal 2/n
        return d * (d + 1) + 2 * d - 2 * d / p
    n = 2 ** (step / _STEPS_PER_DOUBLING)
    generator = np.random.default_rng(d)
    # each matrix is off by sqrt(2 / q): together by a hundredth
    m = math.ceil(_PRECISION * 2 / ((p - 1) * (p + 2)))
    roots = np.tril(generator.standard_normal((m, d, d)), -1)
    freedom = np.maximum(n - 1 - np.arange(d), 1.0)
    roots[:, range(d), range(d)] = np.sqrt(generator.chisquare(freedom, (m, d)))
    lifted = np.zeros((m, p, p))
    lifted[:, :d, :d] = roots / math.sqrt(n)
    lifted[:, :d, d] = generator.standard_normal((m, d)) / math.sqrt(n)
    lifted[:, d, d] = 1.0
    logs = 2 * np.log(np.linalg.svd(lifted, compute_uv=False))
    squares = np.square(logs).sum(axis=1) - logs.sum(axis=1) ** 2 / p
    return n * float(squares.mean())


_NORMAL_COUNTS = 1e9
"""With this many rows, counts of rows are drawn as normal numbers, not multinomial ones."""
_MOST_SIMULATED = 400
"""Choice: blocks simulated at most; each stands for several if there are more."""
_MANY_COMPONENTS = 64
"""Choice: with more, fewer blocks: the largest of as many distances hardly scatters any more."""
_REPLICATES = 3
"""Choice: sets of simulated blocks that a chance is averaged over."""
_SETTLED_ROWS = 1e6
"""Rows per block from which on only the scale of the scatter changes."""


def component_weights(n_components: int, smallest: float | None = None) -> Array:
    """Choose weights to plan for: all equal, or one of the given size and the rest equal."""
    if smallest is None or n_components == 1:
        return np.full(n_components, 1 / n_components)
    if not 0 < smallest <= 1 / n_components:
        raise InvalidInput(
            f"the smallest weight of {n_components} components must lie in "
            f"(0, {1 / n_components:.4g}], got {smallest!r}"
        )
    weights = np.full(n_components, (1 - smallest) / (n_components - 1))
    weights[0] = smallest
    return weights


@dataclasses.dataclass(frozen=True, eq=False)
class BlockErrors:
    """Errors of t simulated fits, in coordinates where the true component is standard.

    Parameters
    ----------
    weights : array (t, k)
        Fitted minus true weights.
    means : array (t, k, d)
        Fitted means, the true one being zero.
    covariances : array (t, k, d, d)
        Fitted covariances minus the identity.
    roots : array (t, k, p, p)
        Roots of the lifted matrices relative to the true ones; p = d + 1.
    exists : array of bool (t, k)
        False where too few rows came from the component to fit it.
    """

    weights: Array
    means: Array
    covariances: Array
    roots: Array
    exists: BoolArray

    @functools.cached_property
    def tangents(self) -> Array:
        """Return lifted errors (t, k, p (p + 1) / 2): ``ln`` of the lifted matrices.

        As vectors whose Euclidean norms are the matrices' Frobenius norms.
        """
        # from the singular values of the roots: no squaring
        left, singular, _ = np.linalg.svd(self.roots)
        tangent = np.einsum("...ij,...j,...kj->...ik", left, 2 * np.log(singular), left)
        return frozen(vectorised(tangent))


def _counts(rows: float, weights: Array, n_blocks: int, rng: np.random.Generator) -> Array:
    if rows < _NORMAL_COUNTS:
        return rng.multinomial(int(rows), weights, size=n_blocks).astype(np.float64)
    deviations = rng.standard_normal((n_blocks, weights.size)) * np.sqrt(weights)
    # project out the total, which is fixed: exactly the multinomial's covariance
    deviations -= np.outer(deviations.sum(axis=1), weights)
    return np.asarray(rows * weights + math.sqrt(rows) * deviations, dtype=np.float64)


def _wishart_roots(counts: Array, d: int, rng: np.random.Generator) -> Array:
    """Draw lower roots of fitted covariances of `counts` standard normal rows."""
    roots = np.zeros((*counts.shape, d, d))
    lower = np.tril_indices(d, -1)
    roots[..., lower[0], lower[1]] = rng.standard_normal((*counts.shape, lower[0].size))
    for i in range(d):
        roots[..., i, i] = np.sqrt(rng.chisquare(np.maximum(counts - 1 - i, 1.0)))
    return np.asarray(roots / np.sqrt(counts)[..., None, None], dtype=np.float64)


def vectorised(matrices: Array) -> Array:
    """Turn symmetric matrices (..., p, p) into vectors with the same inner product."""
    p = matrices.shape[-1]
    row, column = np.triu_indices(p)
    scale = np.where(row == column, 1.0, np.sqrt(2.0))
    return np.asarray(matrices[..., row, column] * scale, dtype=np.float64)


def simulate_blocks(
    n_blocks: int,
    rows_per_block: float,
    weights: npt.ArrayLike,
    n_features: int,
    *,
    rng: np.random.Generator | int,
) -> BlockErrors:
    """Draw the errors of `n_blocks` independent fits of `rows_per_block` rows each."""
    generator = np.random.default_rng(rng)
    w = finite_array(weights, "weights", (None,))
    d = n_features
    counts = _counts(rows_per_block, w, n_blocks, generator)
    exists = counts >= d + 2
    safe = np.where(exists, counts, d + 2.0)
    means = generator.standard_normal((*counts.shape, d)) / np.sqrt(safe)[..., None]
    roots = _wishart_roots(safe, d, generator)
    lifted = np.zeros((*counts.shape, d + 1, d + 1))
    lifted[..., :d, :d] = roots
    lifted[..., :d, d] = means
    lifted[..., d, d] = 1.0
    lifted *= np.sqrt(safe / (rows_per_block * w))[..., None, None]
    return BlockErrors(
        weights=frozen(counts / rows_per_block - w),
        means=frozen(means),
        covariances=frozen(roots @ np.swapaxes(roots, -1, -2) - np.eye(d)),
        roots=frozen(lifted),
        exists=frozen(exists),
    )


def _squared(points: Array) -> Array:
    """Compute squared distances (t, t) of rows of (t, q), good to rounding of the largest."""
    centred = points - points.mean(axis=0)
    norms = np.einsum("ij,ij->i", centred, centred)
    return np.asarray(
        np.maximum(norms[:, None] + norms - 2 * centred @ centred.T, 0.0), dtype=np.float64
    )


def pair_distances(errors: BlockErrors, *, lifted: bool) -> Array:
    """Compute distances (t, t) of all simulated fits, to first order in the errors.

    Parameters
    ----------
    lifted : bool
        True for the lifted distance, False for dist_Param.
    """
    k = errors.weights.shape[1]
    total = np.zeros((len(errors.weights), len(errors.weights)))
    for j in range(k):
        if lifted:
            parts = [errors.tangents[:, j]]
        else:
            parts = [
                errors.weights[:, j, None],
                errors.means[:, j],
                vectorised(errors.covariances[:, j]),
            ]
        for part in parts:
            np.maximum(total, _squared(part), out=total)
    distances = np.sqrt(total)
    np.fill_diagonal(distances, 0.0)
    failed = ~errors.exists.all(axis=1)
    distances[failed] = np.inf
    distances[:, failed] = np.inf
    return distances


def simulated_distances(
    n_blocks: int,
    rows_per_block: float,
    weights: npt.ArrayLike,
    n_features: int,
    *,
    seed: int,
    lifted: bool,
) -> Array:
    """Simulate distances (t, t) between fits; t is `n_blocks`, or fewer where each is costly."""
    w = finite_array(weights, "weights", (None,))
    if is_wide(w.size, n_features):
        counts = _counts(rows_per_block, w, n_blocks, np.random.default_rng(seed))
        expected = rows_per_block * w
        return wide_distances(n_blocks, counts, expected, n_features, seed, lifted=lifted)
    errors = simulate_blocks(n_blocks, rows_per_block, w, n_features, rng=seed)
    return pair_distances(errors, lifted=lifted)


def friend_counts_of_blocks(distances: Array, radius: float, n_blocks: int) -> IntArray:
    """Count friends of `n_blocks` blocks, from distances of as many simulated ones or fewer.

    With fewer, each simulated block stands for several: its share of friends is kept.
    """
    counts = friend_counts(distances, radius)
    simulated = len(distances)
    if simulated == n_blocks:
        return counts
    shares = np.sort(counts)[np.arange(n_blocks) * simulated // n_blocks] / simulated
    return np.asarray(np.floor(shares * n_blocks), dtype=np.int64)


@functools.lru_cache(maxsize=24)
def _tables(
    simulated: int, rows_per_block: float, weights: tuple[float, ...], n_features: int, lifted: bool
) -> tuple[Array, ...]:
    return tuple(
        simulated_distances(
            simulated, rows_per_block, weights, n_features, seed=seed, lifted=lifted
        )
        for seed in range(_REPLICATES)
    )


def _simulated_distances(
    n_blocks: int, rows_per_block: float, weights: Array, n_features: int, lifted: bool
) -> tuple[tuple[Array, ...], float]:
    """Return tables of simulated distances, and the factor by which to multiply them.

    Beyond a million rows a block the law has settled, and only its scale changes. The paper's
    distance is taken as settled throughout: its tests pass far beyond that number only.
    """
    rows = min(rows_per_block, _SETTLED_ROWS) if lifted else _SETTLED_ROWS
    simulated = min(n_blocks, _MOST_SIMULATED if weights.size <= _MANY_COMPONENTS else _BLOCKS)
    tables = _tables(simulated, rows, tuple(map(float, weights)), n_features, lifted)
    return tables, math.sqrt(rows / rows_per_block)


def _chance(test: PrivateTest, distances: tuple[Array, ...], radius: float) -> float:
    return float(
        np.mean(
            [
                test.pass_probability(friend_counts_of_blocks(table, radius, test.n_blocks))
                for table in distances
            ]
        )
    )


def _critical_radius(test: PrivateTest, distances: tuple[Array, ...], probability: float) -> float:
    """Find the smallest radius at which the test passes with at least this probability.

    The chance grows with the radius, and jumps at distances only. Infinite if none is large enough.
    """
    radii = np.unique(np.concatenate([table[np.isfinite(table)] for table in distances]))
    low, high = 0, len(radii)
    while low < high:
        middle = (low + high) // 2
        if _chance(test, distances, float(radii[middle])) >= probability:
            high = middle
        else:
            low = middle + 1
    return float(radii[high]) if high < len(radii) else math.inf


@functools.lru_cache(maxsize=64)
def _settled_radius(
    test: PrivateTest, weights: tuple[float, ...], n_features: int, probability: float
) -> float:
    """Find the critical radius where the law of the paper's distance has settled.

    Plans for many masks ask for it with tests that differ in their radius only, which is unset.
    """
    rows = _SETTLED_ROWS
    tables, _ = _simulated_distances(test.n_blocks, rows, np.array(weights), n_features, False)
    return _critical_radius(test, tables, probability)


def pass_probability(
    test: PrivateTest,
    rows_per_block: float,
    weights: npt.ArrayLike,
    n_features: int,
    *,
    lifted: bool,
) -> float:
    """Estimate the chance that `test` passes on fits of `rows_per_block` rows each.

    Averaged over the noise exactly and over a few simulated sets of blocks.
    """
    w = finite_array(weights, "weights", (None,))
    if rows_per_block < 1:
        return 0.0
    tables, scale = _simulated_distances(test.n_blocks, rows_per_block, w, n_features, lifted)
    return _chance(test, tables, test.radius / scale)


def rows_to_agree(
    test: PrivateTest,
    weights: npt.ArrayLike,
    n_features: int,
    *,
    lifted: bool,
    probability: float,
) -> float:
    """Estimate the rows in all blocks at which `test` passes with the given probability.

    Infinite if the test cannot pass with this probability even when all blocks agree.

    Notes
    -----
    Distances shrink like one over the square root of the rows, exactly so in the limit. From a
    simulation at s rows a block, the factor f by which distances would have to shrink gives the
    next guess ``f^2 s``; a few rounds settle it.
    """
    if not 0 < probability < 1:
        raise InvalidInput(f"probability must lie in (0, 1), got {probability!r}")
    t = test.n_blocks
    if test.pass_probability(np.full(t, t, dtype=np.int64)) < probability:
        return math.inf
    w = finite_array(weights, "weights", (None,))
    least = math.ceil(2 * (n_features + 2) / float(w.min()))
    rows = max(float(least), 1000 / float(w.min()))
    settled = None
    if not lifted:
        unset: Any = dataclasses.replace(cast(Any, test), radius=1.0)
        settled = _settled_radius(unset, tuple(w.tolist()), n_features, probability)
    for _ in range(8):
        tables, scale = _simulated_distances(t, rows, w, n_features, lifted)
        # friend counts grow with the radius, and so does the chance: bisection in its logarithm
        low, high = -25.0, 25.0
        while high - low > 1e-3:
            middle = (low + high) / 2
            radius = test.radius / scale * math.exp(middle)
            if settled is None:
                passes = _chance(test, tables, radius) >= probability
            else:
                passes = radius >= settled
            if passes:
                high = middle
            else:
                low = middle
        guess = max(float(least), math.ceil(rows * math.exp(2 * high)))
        if abs(guess - rows) <= 0.005 * rows:
            return t * guess
        rows = guess
    return t * rows
