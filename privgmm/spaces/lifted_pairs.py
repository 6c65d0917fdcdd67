"""All t×t lifted distances of a batch, and the gaps inside each fit.

`lifted_geometry` says what a lifted component and its distance are, and offers these functions.
Here is a `ComponentGeometry` of them for `privgmm.pairwise`; `lifted_kernels` is compiled.

Notes
-----
With ``N = U_1^-1 U_2`` and ``ell = ln eigenvalues(N N^T)`` the distance is ``‖ell‖``. The traces
``t = tr(N N^T - I)`` and ``t' = tr(N^-1 N^-T - I)`` need no eigenvalues and bound it: their sum is
``J = sum of 4 sinh²(ell_i / 2)``, and as ``4 sinh²(sqrt(x) / 2)`` is convex in x and 0 at 0,

    2 asinh(sqrt(J) / 2) <= distance <= 2 sqrt(p) asinh(sqrt(J / p) / 2),

a few per cent apart up to a distance of 1. Farther out the largest eigenvalue, at least
``1 + t / p``, and the smallest, at most ``1 / (1 + t' / p)``, give a better lower bound. So among
the k matched components of two fits mostly one or two eigenvalue problems are left to solve.
"""

from __future__ import annotations

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.mixture import MixtureBatch
from privgmm.pairwise import among, bottleneck_pairs
from privgmm.spaces.lifted_kernels import excess_traces, listed_distances, listed_excess

__all__ = ["LiftedGeometry", "component_gaps", "pairwise_lifted"]

# The two bounds are compared with this much room for rounding.
_SLACK = 1e-6
# Up to this p an eigenvalue problem is as cheap as its bounds.
_SMALL = 4


def _comparable(batch: MixtureBatch) -> IntArray:
    """Fits that succeeded and give every component some weight: only those can be lifted."""
    return np.flatnonzero(batch.ok & (np.nan_to_num(batch.weights) > 0).all(axis=1))


def pairwise_lifted(batch: MixtureBatch) -> Array:
    """Lifted distance between all fits, components under the best matching.

    Returns
    -------
    array (t, t)
        Symmetric, zero on the diagonal. inf in the rows and columns, diagonal included, of
        failed fits and of fits with a zero weight.
    """
    present = _comparable(batch)
    geometry = LiftedGeometry(batch.weights[present], batch.means[present], batch.cholesky[present])
    return among(len(batch), present, bottleneck_pairs(geometry))


def component_gaps(batch: MixtureBatch) -> Array:
    """Smallest lifted distance between two different components of each fit.

    Returns
    -------
    array (t,)
        inf for one component. 0 for failed fits and fits with a zero weight, which are thus
        never found to be separated.
    """
    present = _comparable(batch)
    gaps = np.zeros(len(batch))
    geometry = LiftedGeometry(batch.weights[present], batch.means[present], batch.cholesky[present])
    if present.size:
        gaps[present] = geometry.gaps()
    return gaps


class LiftedGeometry:
    """Lifted distances between the components of n fits (see `privgmm.pairwise`).

    Parameters
    ----------
    weights : array (n, k)
        All positive.
    means : array (n, k, d)
    cholesky : array (n, k, d, d)
        Lower factors.
    """

    def __init__(self, weights: Array, means: Array, cholesky: Array) -> None:
        self._weights = np.ascontiguousarray(weights)
        self._means = np.ascontiguousarray(means)
        self._cholesky = np.ascontiguousarray(cholesky)
        self._packed = np.ascontiguousarray(cholesky[..., *np.tril_indices(means.shape[-1])])

    @property
    def shape(self) -> tuple[int, int]:
        """Fits n and components k."""
        return self._weights.shape[0], self._weights.shape[1]

    def reordered(self, order: IntArray) -> LiftedGeometry:
        """The same fits, component ``order[i, a]`` of fit i moved to place a."""
        return LiftedGeometry(
            np.take_along_axis(self._weights, order, axis=1),
            np.take_along_axis(self._means, order[:, :, None], axis=1),
            np.take_along_axis(self._cholesky, order[:, :, None, None], axis=1),
        )

    def matched(self) -> Array:
        """(n, n): the largest distance between equally placed components.

        A component whose upper bound lies under another's lower bound is never solved for.
        """
        n, k = self.shape
        i, j = (index.astype(np.int64) for index in np.triu_indices(n, 1))
        largest = np.zeros(len(i))
        p = self._means.shape[2] + 1
        if k == 1 or p <= _SMALL:
            for a in range(k):
                place = np.full(len(i), a)
                np.maximum(largest, self.exact(i, place, j, place), out=largest)
        else:
            ceiling = np.empty((k, len(i)))
            for a in range(k):
                traces = self._traces(a)
                lower, ceiling[a] = _bounds(traces[i, j], traces[j, i], p)
                np.maximum(largest, lower, out=largest)
            place, pair = np.nonzero(ceiling >= largest)
            np.maximum.at(largest, pair, self.exact(i[pair], place, j[pair], place))
        distances = np.zeros((n, n))
        distances[i, j] = distances[j, i] = largest
        return distances

    def _traces(self, a: int) -> Array:
        """``tr(N N^T - I)`` (n, n) of component a, N from fit i (rows) to fit j (columns)."""
        n = self.shape[0]
        traces = np.empty((n, n))
        excess_traces(
            self._weights[:, a].copy(),
            np.ascontiguousarray(self._means[:, a].T),
            np.ascontiguousarray(self._packed[:, a].T),
            self._means.shape[2],
            traces,
        )
        return traces

    def gaps(self) -> Array:
        """(n,): smallest distance between two components of the fit; inf for k = 1."""
        n, k = self.shape
        a, b = (index.astype(np.int64) for index in np.triu_indices(k, 1))
        fits = np.repeat(np.arange(n), len(a))
        inside = self.exact(fits, np.tile(a, n), fits, np.tile(b, n))
        return np.asarray(inside.reshape(n, -1).min(axis=1, initial=np.inf))

    def radii(self) -> Array:
        """(n,): half the gap.

        In a metric, a component within V of one of mine is at least ``gap - V`` from my others.
        """
        return self.gaps() / 2

    def bounds(self, i: IntArray, j: IntArray) -> tuple[Array, Array]:
        """(m, k, k) twice: lower and upper bounds from the traces."""
        excess = np.empty((2, len(i), self.shape[1], self.shape[1]))
        listed_excess(self._weights, self._means, self._packed, i, j, excess)
        return _bounds(excess[0], excess[1], self._means.shape[2] + 1)

    def exact(self, i: IntArray, a: IntArray, j: IntArray, b: IntArray) -> Array:
        """(m,): distances between component a of fit i and component b of fit j."""
        k, d = self._means.shape[1:]
        values = np.empty(len(i))
        listed_distances(
            self._weights.reshape(-1),
            self._means.reshape(-1, d),
            self._packed.reshape(len(self._packed) * k, -1),
            i * k + a,
            j * k + b,
            values,
        )
        return values


def _bounds(forth: Array, back: Array, p: int) -> tuple[Array, Array]:
    """Lower and upper bounds on distances from the two traces; 0 and inf where they overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        J = np.maximum(forth + back, 0.0)
        upper = 2 * np.sqrt(p) * np.arcsinh(np.sqrt(J / p) / 2)
        ends = np.hypot(np.log1p(np.maximum(forth, 0) / p), np.log1p(np.maximum(back, 0) / p))
        lower = np.maximum(2 * np.arcsinh(np.sqrt(J) / 2), ends)
    sound = np.isfinite(upper) & np.isfinite(lower)
    return (
        np.where(sound, (1 - _SLACK) * lower, 0.0),
        np.where(sound, (1 + _SLACK) * upper, np.inf),
    )
