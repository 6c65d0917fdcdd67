"""All t×t distances between the fits of a batch at once.

Stands on `matching`; the spaces and the agreement test stand on it. The distance of two fits is
that of their components under the best matching. Computing all k² component distances for all
t²/2 pairs of fits is the cost to avoid, and almost always can be: fits of blocks of one data set
mostly agree on which component is which.

`bottleneck_pairs` does this for any `ComponentGeometry`: put the components of every fit in the
order of one typical fit, compute the k equally placed distances of every pair, keep their largest
V wherever a per-fit certificate proves that no other matching can do better, and search the best
matching lazily for the rest. Exact in every case; only the speed depends on the data.
`pairwise_dist_param` is dist_Param (Section 5) done so.
"""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np
from scipy.optimize import linear_sum_assignment

from privgmm.arrays import Array, IntArray
from privgmm.matching import bottleneck_matchings
from privgmm.mixture import MixtureBatch
from privgmm.pairwise_kernels import (
    certificates,
    listed_components,
    one_sided_squares,
    weight_and_mean_bounds,
)

__all__ = [
    "ComponentGeometry",
    "ParamGeometry",
    "among",
    "bottleneck_pairs",
    "component_tables",
    "pairwise_dist_param",
]

_CANDIDATES = 16
_LAZY_CHUNK = 8192


class ComponentGeometry(Protocol):
    """Distances between the components of n comparable fits of k components each."""

    @property
    def shape(self) -> tuple[int, int]:
        """Fits n and components k."""

    def reordered(self, order: IntArray) -> Self:
        """The same fits, component ``order[i, a]`` of fit i moved to place a."""

    def matched(self) -> Array:
        """(n, n): the largest distance between equally placed components of two fits."""

    def radii(self) -> Array:
        """(n,): if fits i and j have ``matched[i, j]`` at most ``radii[i]``, no matching is better.

        That is, two components in different places are then at least ``matched[i, j]`` apart.
        """

    def bounds(self, i: IntArray, j: IntArray) -> tuple[Array, Array]:
        """(m, k, k) twice: cheap lower and upper bounds on distances between components."""

    def exact(self, i: IntArray, a: IntArray, j: IntArray, b: IntArray) -> Array:
        """(m,): distances between component a of fit i and component b of fit j."""


def bottleneck_pairs(geometry: ComponentGeometry) -> Array:
    """Distances (n, n) between all fits: components under the best matching (Definition 3.1)."""
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
    """Order (n, k) of every fit's components that follows one typical fit.

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
    return np.array([linear_sum_assignment(table)[1] for table in cost], dtype=np.int64)


def component_tables(geometry: ComponentGeometry, i: IntArray, j: IntArray) -> Array:
    """All component distances (m, k, k) of the fits i and j (m,)."""
    k = geometry.shape[1]
    a, b = np.divmod(np.tile(np.arange(k * k), len(i)), k)
    repeated = geometry.exact(np.repeat(i, k * k), a, np.repeat(j, k * k), b)
    return repeated.reshape(len(i), k, k)


def _lazy(geometry: ComponentGeometry, i: IntArray, j: IntArray) -> Array:
    """Best matchings of the pairs (i, j), computing exact distances only where they matter.

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
    """dist_Param (Section 5) between all fits of a batch.

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
    """Distances between the fits present, as an (n, n) table that is inf everywhere else."""
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
        """The same fits, component ``order[i, a]`` of fit i moved to place a."""
        return ParamGeometry(
            np.take_along_axis(self._weights, order, axis=1),
            np.take_along_axis(self._means, order[:, :, None], axis=1),
            np.take_along_axis(self._cholesky, order[:, :, None, None], axis=1),
        )

    def matched(self) -> Array:
        """(n, n): the largest dist_Comp between equally placed components."""
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
        """(n,): matched distances up to this are certainly those of the best matching."""
        radii = np.empty(self.shape[0])
        certificates(self._weights, self._means, self._cholesky, radii)
        return radii

    def bounds(self, i: IntArray, j: IntArray) -> tuple[Array, Array]:
        """(m, k, k) twice: dist_Comp without its covariance part, and no upper bound."""
        lower = np.empty((len(i), self.shape[1], self.shape[1]))
        weight_and_mean_bounds(self._weights, self._means, self._cholesky, i, j, lower)
        return lower, np.full_like(lower, np.inf)

    def exact(self, i: IntArray, a: IntArray, j: IntArray, b: IntArray) -> Array:
        """(m,): dist_Comp between component a of fit i and component b of fit j."""
        values = np.empty(len(i))
        listed_components(self._weights, self._means, self._cholesky, i, a, j, b, values)
        return values
