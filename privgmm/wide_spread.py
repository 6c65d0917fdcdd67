"""How block fits scatter where columns and components are many: distances drawn, not matrices.

`spread` simulates every fitted matrix, which for k components in d dimensions takes time like
``k d^3``. In many dimensions distances hang on few numbers, and those can be drawn directly.

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

import functools
import math

import numpy as np
from scipy.special import polygamma

from privgmm.arrays import Array

__all__ = ["is_wide", "wide_distances"]

_COSTLY = 10_000
_BLOCKS = 100
_PRECISION = 20_000
_STEPS_PER_DOUBLING = 4
_LINEAR = 10_000


def is_wide(n_components: int, n_features: int) -> bool:
    """Whether matrices would take too long: k (d + 1)^3 is large, and so is d."""
    return n_features >= 10 and n_components * (n_features + 1) ** 3 > _COSTLY


def wide_distances(
    n_blocks: int, counts: Array, expected: Array, d: int, seed: int, *, lifted: bool
) -> Array:
    """Distances (t, t) between simulated fits of t blocks, t at most a hundred.

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
    """Chi squares over q (t, k), twice the cosines (k, t (t - 1) / 2), normal traces (t, k)."""
    generator = np.random.default_rng([seed, t, k, p])
    q = (p - 1) * (p + 2) / 2
    squares = generator.chisquare(q, (t, k)) / q
    angles = generator.standard_normal((k, t * (t - 1) // 2)) * (2 / math.sqrt(q))
    return squares, angles, generator.standard_normal((t, k))


@functools.lru_cache(maxsize=512)
def _trace_deviation(d: int, n: float, lifted: bool) -> float:
    """Of ``ln det`` of a maximum-likelihood covariance of n rows, or of its trace."""
    if not lifted:
        return math.sqrt(2 * d / n)
    freedom = np.maximum(n - 1 - np.arange(d), 1.0)
    return math.sqrt(float(polygamma(1, freedom / 2).sum()))


@functools.lru_cache(maxsize=512)
def _rest(d: int, n: float, lifted: bool) -> float:
    """The mean of ``|T0|^2`` for n rows of a component."""
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
    """The mean of ``n |T0|^2`` of lifted errors at ``n = 2^(step / 4)``, or in the limit."""
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
