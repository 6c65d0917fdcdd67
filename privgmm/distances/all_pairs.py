"""All t×t distances between the fits of a batch at once.

Uses `matching`; the agreement stage uses it. The distance of two fits is
that of their components under the best matching. Computing all k² component distances for all
t²/2 pairs of fits is the cost to avoid, and almost always can be: fits of blocks of one data set
mostly agree on which component is which.

`bottleneck_pairs` does this for any `ComponentGeometry`: put the components of every fit in the
order of one typical fit, compute the k equally placed distances of every pair, keep their largest
V wherever a per-fit certificate proves that no other matching can do better, and search the best
matching lazily for the rest. Exact in every case; only the speed depends on the data.
`pairwise_dist_param` computes dist_Param (Section 5) in this way.

The compiled sums come first: dist_Comp of many components, from Cholesky factors.
"""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np
import scipy
from numba import njit

from privgmm.arrays import Array, IntArray
from privgmm.distances.matching import bottleneck_matchings
from privgmm.mixture import MixtureBatch

__all__ = [
    "ComponentGeometry",
    "ParamGeometry",
    "among",
    "bottleneck_pairs",
    "certificates",
    "component_tables",
    "listed_components",
    "one_sided_squares",
    "pairwise_dist_param",
    "weight_and_mean_bounds",
]

_LANES = 128  # pairs computed side by side: small enough for the nearest cache


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def one_sided_squares(weights: Array, means: Array, factors: Array, d: int, squares: Array) -> None:
    """Fill, for fits i and j, the largest squared one-sided dist_Comp over components.

    One-sided: in the norms of fit i only; dist_Comp is the larger of (i, j) and (j, i). So every
    pair is a substitution with the factor of i, the same for all j, which run side by side.
    Fits are the last axis; factors (k, d(d+1)/2, n) hold lower triangles row by row.
    """
    k, n = weights.shape
    E = np.empty((d * (d + 1) // 2, _LANES))
    y = np.empty((d, _LANES))
    total = np.empty(_LANES)
    part = np.empty(_LANES)
    scale = np.empty(d)
    for a in range(k):
        for start in range(0, n, _LANES):
            lanes = min(_LANES, n - start)
            for i in range(n):
                for r in range(d):
                    scale[r] = 1.0 / factors[a, r * (r + 1) // 2 + r, i]
                total[:] = 0.0
                for r in range(d):
                    row = r * (r + 1) // 2
                    here = means[a, r, i]
                    for q in range(lanes):
                        y[r, q] = means[a, r, start + q] - here
                    for s in range(r):
                        f = factors[a, row + s, i]
                        for q in range(lanes):
                            y[r, q] -= f * y[s, q]
                    f = scale[r]
                    for q in range(lanes):
                        y[r, q] *= f
                        total[q] += y[r, q] * y[r, q]
                    for c in range(r + 1):
                        f = factors[a, row + c, i]
                        for q in range(lanes):
                            E[row + c, q] = factors[a, row + c, start + q] - f
                        for s in range(c, r):
                            f = factors[a, row + s, i]
                            column = s * (s + 1) // 2 + c
                            for q in range(lanes):
                                E[row + c, q] -= f * E[column, q]
                        f = scale[r]
                        for q in range(lanes):
                            E[row + c, q] *= f
                here = weights[a, i]
                for q in range(lanes):
                    gap = weights[a, start + q] - here
                    total[q] = max(total[q], gap * gap)
                # the mean part is in `total`: y[0] is free to gather the covariance part
                for q in range(lanes):
                    y[0, q] = 0.0
                for r in range(d):
                    row = r * (r + 1) // 2
                    for c in range(r + 1):
                        column = c * (c + 1) // 2
                        twice = 2.0 if c == r else 1.0
                        for q in range(lanes):
                            part[q] = twice * E[row + c, q]
                        for s in range(c + 1):
                            for q in range(lanes):
                                part[q] += E[row + s, q] * E[column + s, q]
                        twice = 1.0 if c == r else 2.0
                        for q in range(lanes):
                            y[0, q] += twice * part[q] * part[q]
                for q in range(lanes):
                    # overflow may end in NaN, which comparisons would drop: make it inf
                    both = max(total[q], y[0, q])
                    if not np.isfinite(total[q] + y[0, q]):
                        both = np.inf
                    squares[i, start + q] = max(squares[i, start + q], both)


@njit(cache=True, nogil=True, error_model="numpy")
def _mean_square(mean1: Array, factor1: Array, mean2: Array, y: Array) -> float:
    """Compute ``‖L_1^-1 (mu_2 - mu_1)‖²``; y (d,) is scratch."""
    square = 0.0
    for r in range(len(y)):
        value = mean2[r] - mean1[r]
        for s in range(r):
            value -= factor1[r, s] * y[s]
        y[r] = value / factor1[r, r]
        square += y[r] * y[r]
    return square


@njit(cache=True, nogil=True, error_model="numpy")
def _covariance_square(factor1: Array, factor2: Array, E: Array) -> float:
    """Compute ``‖L_1^-1 Sigma_2 L_1^-T - I‖_F²``; E (d, d) is scratch."""
    d = len(E)
    for r in range(d):
        for c in range(r + 1):
            value = factor2[r, c] - factor1[r, c]
            for s in range(c, r):
                value -= factor1[r, s] * E[s, c]
            E[r, c] = value / factor1[r, r]
    square = 0.0
    for r in range(d):
        for c in range(r + 1):
            value = 2.0 * E[r, r] if r == c else E[r, c]
            for s in range(c + 1):
                value += E[r, s] * E[c, s]
            square += value * value if r == c else 2.0 * value * value
    return square


@njit(cache=True, nogil=True, error_model="numpy")
def listed_components(
    weights: Array,
    means: Array,
    factors: Array,
    i: IntArray,
    a: IntArray,
    j: IntArray,
    b: IntArray,
    values: Array,
) -> None:
    """Fill ``dist_Comp`` (m,) between component a of fit i and component b of fit j."""
    d = means.shape[2]
    E, y = np.empty((d, d)), np.empty(d)
    for q in range(len(i)):
        m1, f1 = means[i[q], a[q]], factors[i[q], a[q]]
        m2, f2 = means[j[q], b[q]], factors[j[q], b[q]]
        gap = weights[i[q], a[q]] - weights[j[q], b[q]]
        mean1, mean2 = _mean_square(m1, f1, m2, y), _mean_square(m2, f2, m1, y)
        cov1, cov2 = _covariance_square(f1, f2, E), _covariance_square(f2, f1, E)
        largest = max(gap * gap, mean1, mean2, cov1, cov2)
        finite = np.isfinite(mean1 + mean2 + cov1 + cov2)
        values[q] = np.sqrt(largest) if finite else np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def weight_and_mean_bounds(
    weights: Array, means: Array, factors: Array, i: IntArray, j: IntArray, bounds: Array
) -> None:
    """Fill the weight and mean parts of dist_Comp (m, k, k): a bound from below."""
    k, d = means.shape[1:]
    y = np.empty(d)
    for q in range(len(i)):
        for a in range(k):
            m1, f1 = means[i[q], a], factors[i[q], a]
            for b in range(k):
                m2, f2 = means[j[q], b], factors[j[q], b]
                gap = weights[i[q], a] - weights[j[q], b]
                mean1, mean2 = _mean_square(m1, f1, m2, y), _mean_square(m2, f2, m1, y)
                largest = np.sqrt(max(gap * gap, mean1, mean2))
                bounds[q, a, b] = largest if np.isfinite(mean1 + mean2) else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def certificates(weights: Array, means: Array, factors: Array, radii: Array) -> None:
    """Fill the matched distances (n,) up to which a fit's own matching is certainly best."""
    k, d = means.shape[1:]
    E, y = np.empty((d, d)), np.empty(d)
    for i in range(len(radii)):
        radii[i] = np.inf
        for a in range(k):
            for b in range(k):
                if a == b:
                    continue
                f1, f2 = factors[i, a], factors[i, b]
                forth = _mean_square(means[i, a], f1, means[i, b], y)
                back = _mean_square(means[i, b], f2, means[i, a], y)
                gap = weights[i, a] - weights[i, b]
                cov1, cov2 = _covariance_square(f1, f2, E), _covariance_square(f2, f1, E)
                # the two bounds in the notes of `ParamGeometry`
                apart = 1.0 + np.sqrt(max(gap * gap, forth, back, cov1, cov2))
                stretch = 1.0 + np.sqrt(1.0 + np.sqrt(cov1))
                radius = max(np.sqrt(apart) - 1.0, np.sqrt(forth) / stretch)
                # overflow proves nothing: leave the pair to the search
                certain = np.isfinite(forth + back + cov1 + cov2)
                radii[i] = min(radii[i], radius if certain else 0.0)


_CANDIDATES = 16  # fits among which a typical one is chosen; a poor choice costs only time
_LAZY_CHUNK = 8192  # pairs matched at a time: bounds memory, not results


class ComponentGeometry(Protocol):
    """Distances between the components of n comparable fits of k components each."""

    @property
    def shape(self) -> tuple[int, int]:
        """Fits n and components k."""

    def reordered(self, order: IntArray) -> Self:
        """Move component ``order[i, a]`` of fit i to place a."""

    def matched(self) -> Array:
        """Compute the largest distance between equally placed components, (n, n)."""

    def radii(self) -> Array:
        """Compute radii (n,) within which no matching beats the present one.

        If fits i and j have ``matched[i, j]`` at most ``radii[i]``, no matching is better.

        That is, two components in different places are then at least ``matched[i, j]`` apart.
        """

    def bounds(self, i: IntArray, j: IntArray) -> tuple[Array, Array]:
        """Compute cheap lower and upper bounds on component distances, each (m, k, k)."""

    def exact(self, i: IntArray, a: IntArray, j: IntArray, b: IntArray) -> Array:
        """Compute distances (m,) between component a of fit i and component b of fit j."""


def bottleneck_pairs(geometry: ComponentGeometry) -> Array:
    """Compute distances (n, n) between all fits under the best matching (Definition 3.1)."""
    n, k = geometry.shape
    if n == 0:
        return np.zeros((0, 0))
    if k == 1:
        return geometry.matched()
    aligned = geometry.reordered(_typical_order(geometry))
    distances = aligned.matched()
    radii = aligned.radii()
    unsure = ~(distances <= np.maximum(radii[:, None], radii[None, :]))
    first, second = np.nonzero(np.triu(unsure, 1))
    for start in range(0, len(first), _LAZY_CHUNK):
        i, j = first[start : start + _LAZY_CHUNK], second[start : start + _LAZY_CHUNK]
        distances[i, j] = distances[j, i] = _lazy(aligned, i, j)
    return distances


def _typical_order(geometry: ComponentGeometry) -> IntArray:
    """Order every fit's components (n, k) to follow one typical fit.

    The typical fit is the medoid of a few. Assignment by the sum of ln(1 + distance) settles
    every component, where the bottleneck would settle only the worst; a wrong order costs time,
    never correctness.
    """
    n, _ = geometry.shape
    candidates = np.unique(np.linspace(0, n - 1, _CANDIDATES).astype(np.int64))
    m = len(candidates)
    i, j = np.repeat(candidates, m), np.tile(candidates, m)
    between = bottleneck_matchings(component_tables(geometry, i, j)).values.reshape(m, m)
    medoid = candidates[np.argmin(np.median(between, axis=1))]
    tables = component_tables(geometry, np.full(n, medoid), np.arange(n))
    cost = np.log1p(np.minimum(tables, 1e100))
    return np.array(
        [scipy.optimize.linear_sum_assignment(table)[1] for table in cost], dtype=np.int64
    )


def component_tables(geometry: ComponentGeometry, i: IntArray, j: IntArray) -> Array:
    """Compute all component distances (m, k, k) of the fits i and j (m,)."""
    k = geometry.shape[1]
    a, b = np.divmod(np.tile(np.arange(k * k), len(i)), k)
    repeated = geometry.exact(np.repeat(i, k * k), a, np.repeat(j, k * k), b)
    return repeated.reshape(len(i), k, k)


def _lazy(geometry: ComponentGeometry, i: IntArray, j: IntArray) -> Array:
    """Match the pairs (i, j), computing exact distances only where they matter.

    Solve the matching on lower bounds; make exact what it uses and could exceed its value;
    repeat. When nothing could, the value is attained, and lower bounds elsewhere prove it best.
    """
    table, ceiling = geometry.bounds(i, j)
    values = np.empty(len(i))
    active = np.arange(len(i))
    while active.size:
        solved = bottleneck_matchings(table[active])
        values[active] = solved.values
        used = np.take_along_axis(ceiling[active], solved.permutations[:, :, None], axis=2)
        row, place = np.nonzero(used[:, :, 0] > solved.values[:, None])
        pair, other = active[row], solved.permutations[row, place]
        exact = geometry.exact(i[pair], place, j[pair], other)
        table[pair, place, other] = ceiling[pair, place, other] = exact
        active = active[np.bincount(row, minlength=len(active)) > 0]
    return values


def pairwise_dist_param(batch: MixtureBatch) -> Array:
    """Compute dist_Param (Section 5) between all fits of a batch.

    Returns
    -------
    array (t, t)
        Symmetric. inf in the rows and columns of failed fits, their diagonal included; the
        diagonal of every other fit is 0.

    Notes
    -----
    Accurate to 1e-9 at condition numbers up to 1e10, however close the fits: see `distances`.
    """
    at = np.flatnonzero(batch.ok)
    geometry = ParamGeometry(batch.weights[at], batch.means[at], batch.cholesky[at])
    return among(len(batch), at, bottleneck_pairs(geometry))


def among(n: int, present: IntArray, distances: Array) -> Array:
    """Place distances between the fits present into an (n, n) table, inf everywhere else."""
    if len(present) == n:
        return distances
    table = np.full((n, n), np.inf)
    table[np.ix_(present, present)] = distances
    return table


class ParamGeometry:
    """dist_Comp (Eq. 4) between the components of n fits.

    Parameters
    ----------
    weights : array (n, k)
    means : array (n, k, d)
    cholesky : array (n, k, d, d)
        Lower factors.

    Notes
    -----
    The certificate. Components a != b of fit i, and component b of fit j within V of component b
    of fit i. ln(1 + dist_Comp) is a metric, so ``1 + dist(ia, jb) >= (1 + dist(ia, ib)) / (1 + V)``
    and this is at least 1 + V if ``V <= sqrt(1 + dist(ia, ib)) - 1``. By the means alone,
    ``dist(ia, jb) >= s - c V`` with ``s = ‖mu_ia - mu_ib‖`` in the norm of ia and
    ``c² = ‖L_ia^-1 L_ib‖² <= 1 + dist(ia, ib)``, which is at least V if ``V <= s / (1 + c)``.
    The better of the two bounds, smallest over a and b, is the radius.
    """

    def __init__(self, weights: Array, means: Array, cholesky: Array) -> None:
        self._weights = np.ascontiguousarray(weights)
        self._means = np.ascontiguousarray(means)
        self._cholesky = np.ascontiguousarray(cholesky)

    @property
    def shape(self) -> tuple[int, int]:
        """Fits n and components k."""
        return self._weights.shape[0], self._weights.shape[1]

    def reordered(self, order: IntArray) -> ParamGeometry:
        """Move component ``order[i, a]`` of fit i to place a."""
        return ParamGeometry(
            np.take_along_axis(self._weights, order, axis=1),
            np.take_along_axis(self._means, order[:, :, None], axis=1),
            np.take_along_axis(self._cholesky, order[:, :, None, None], axis=1),
        )

    def matched(self) -> Array:
        """Compute the largest dist_Comp between equally placed components, (n, n)."""
        n, d = self.shape[0], self._means.shape[2]
        rows, columns = np.tril_indices(d)
        squares = np.zeros((n, n))
        one_sided_squares(
            np.ascontiguousarray(self._weights.T),
            np.ascontiguousarray(self._means.transpose(1, 2, 0)),
            np.ascontiguousarray(self._cholesky[:, :, rows, columns].transpose(1, 2, 0)),
            d,
            squares,
        )
        largest: Array = np.maximum(squares, squares.T)
        return np.sqrt(largest, out=largest)

    def radii(self) -> Array:
        """Compute radii (n,): matched distances up to these are those of the best matching."""
        radii = np.empty(self.shape[0])
        certificates(self._weights, self._means, self._cholesky, radii)
        return radii

    def bounds(self, i: IntArray, j: IntArray) -> tuple[Array, Array]:
        """Bound dist_Comp (m, k, k) without its covariance part from below, not from above."""
        lower = np.empty((len(i), self.shape[1], self.shape[1]))
        weight_and_mean_bounds(self._weights, self._means, self._cholesky, i, j, lower)
        return lower, np.full_like(lower, np.inf)

    def exact(self, i: IntArray, a: IntArray, j: IntArray, b: IntArray) -> Array:
        """Compute dist_Comp (m,) between component a of fit i and component b of fit j."""
        values = np.empty(len(i))
        listed_components(self._weights, self._means, self._cholesky, i, a, j, b, values)
        return values
