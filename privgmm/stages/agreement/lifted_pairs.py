"""Compute all t×t lifted distances of a batch, and the gaps inside each fit.

`lifted_geometry` says what a lifted component and its distance are, and offers these functions.
Here is a `ComponentGeometry` of them for `all_pairs`, over compiled kernels: fits or pairs are the
last axis of every scratch array, so that vector instructions compute several at once. Lower
triangles are packed row by row: entry (r, c) at r(r+1)/2 + c. The loops have no branches that
depend on the data except where a comment says so.

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
from numba import njit

from privgmm.arrays import Array, IntArray
from privgmm.distances.all_pairs import among, bottleneck_pairs
from privgmm.mixture import MixtureBatch

__all__ = [
    "LiftedGeometry",
    "component_gaps",
    "excess_traces",
    "listed_distances",
    "listed_excess",
    "pairwise_lifted",
]

_LANES = 64
"""Choice: fits or pairs that are computed side by side."""
# Eigenvalues of N N^T - I give those of ln N N^T well while those of N N^T lie within this ratio.
_SPREAD = 1e-6
# Jacobi stops when what is off the diagonal cannot change the distance by this much, relatively.
_ACCURACY = 5e-13
_SWEEPS = 40
"""Sweeps of Jacobi rotations, many more than it takes: the loop ends on any data."""


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def excess_traces(weights: Array, means: Array, factors: Array, d: int, traces: Array) -> None:
    """Write ``tr(N N^T - I) = 2 tr(N - I) + ‖N - I‖²`` of all ordered pairs of fits to traces.

    Fits are the last axis and run side by side; factors (d(d+1)/2, n) hold lower triangles.
    ``N - I = [[s E + e I, s y], [0, e]]`` with ``E = L_1^-1 (L_2 - L_1)``,
    ``y = L_1^-1 (mu_2 - mu_1)``, ``s = sqrt(w_2 / w_1)``, ``e = s - 1``.
    """
    n = len(weights)
    E = np.empty((d * (d + 1) // 2, _LANES))
    y = np.empty((d, _LANES))
    squares = np.empty(_LANES)
    trace = np.empty(_LANES)
    for start in range(0, n, _LANES):
        lanes = min(_LANES, n - start)
        for i in range(n):
            for q in range(lanes):
                squares[q] = 0.0
                trace[q] = 0.0
            for r in range(d):
                row = r * (r + 1) // 2
                scale = 1.0 / factors[row + r, i]
                here = means[r, i]
                for q in range(lanes):
                    y[r, q] = means[r, start + q] - here
                for s in range(r):
                    f = factors[row + s, i]
                    for q in range(lanes):
                        y[r, q] -= f * y[s, q]
                for q in range(lanes):
                    y[r, q] *= scale
                    squares[q] += y[r, q] * y[r, q]
                for c in range(r + 1):
                    f = factors[row + c, i]
                    for q in range(lanes):
                        E[row + c, q] = factors[row + c, start + q] - f
                    for s in range(c, r):
                        f = factors[row + s, i]
                        column = s * (s + 1) // 2 + c
                        for q in range(lanes):
                            E[row + c, q] -= f * E[column, q]
                    for q in range(lanes):
                        E[row + c, q] *= scale
                        squares[q] += E[row + c, q] * E[row + c, q]
                for q in range(lanes):
                    trace[q] += E[row + r, q]
            for q in range(lanes):
                e = _root_ratio_minus_one(weights[i], weights[start + q])
                s = 1.0 + e
                first = 2.0 * (s * trace[q] + (d + 1) * e)
                cross = 2.0 * s * e * trace[q] + (d + 1) * e * e
                traces[i, start + q] = first + (s * s * squares[q] + cross)


@njit(cache=True, nogil=True, error_model="numpy")
def _root_ratio_minus_one(weight1: float, weight2: float) -> float:
    """Compute ``sqrt(w_2 / w_1) - 1`` without cancellation."""
    root1, root2 = np.sqrt(weight1), np.sqrt(weight2)
    return float((weight2 - weight1) / (root1 * (root1 + root2)))


@njit(cache=True, nogil=True, error_model="numpy")
def _relative_root(
    weight1: float,
    mean1: Array,
    factor1: Array,
    weight2: float,
    mean2: Array,
    factor2: Array,
    E: Array,
) -> None:
    """Write ``U_1^-1 U_2 - I`` into E (p, p), from packed lower factors."""
    d = len(mean1)
    e = _root_ratio_minus_one(weight1, weight2)
    s = 1.0 + e
    for r in range(d):
        row = r * (r + 1) // 2
        y = mean2[r] - mean1[r]
        for q in range(r):
            y -= factor1[row + q] * E[q, d]
        E[r, d] = y / factor1[row + r]
        for c in range(r + 1):
            x = factor2[row + c] - factor1[row + c]
            for q in range(c, r):
                x -= factor1[row + q] * E[q, c]
            E[r, c] = x / factor1[row + r]
        for c in range(r + 1, d):
            E[r, c] = 0.0
        E[d, r] = 0.0
    for r in range(d):
        for c in range(d + 1):
            E[r, c] *= s
        E[r, r] += e
    E[d, d] = e


@njit(cache=True, nogil=True, error_model="numpy")
def _excess_trace(E: Array) -> float:
    """Compute ``tr(N N^T - I)`` with ``N = I + E``."""
    total = 0.0
    for r in range(len(E)):
        total += 2.0 * E[r, r]
        for c in range(len(E)):
            total += E[r, c] * E[r, c]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def listed_excess(
    weights: Array, means: Array, factors: Array, i: IntArray, j: IntArray, excess: Array
) -> None:
    """Write ``tr(N N^T - I)`` and ``tr(N^-1 N^-T - I)`` into excess (2, m, k, k).

    Between all components of the fits i and j (m,); factors (n, k, packed).
    """
    k, d = means.shape[1:]
    E = np.empty((d + 1, d + 1))
    for q in range(len(i)):
        for a in range(k):
            w1, m1, f1 = weights[i[q], a], means[i[q], a], factors[i[q], a]
            for b in range(k):
                w2, m2, f2 = weights[j[q], b], means[j[q], b], factors[j[q], b]
                _relative_root(w1, m1, f1, w2, m2, f2, E)
                excess[0, q, a, b] = _excess_trace(E)
                _relative_root(w2, m2, f2, w1, m1, f1, E)
                excess[1, q, a, b] = _excess_trace(E)


@njit(cache=True, nogil=True, error_model="numpy")
def _relative_grams(
    weights: Array, means: Array, factors: Array, first: IntArray, second: IntArray, K: Array
) -> None:
    """Write ``N N^T - I = E + E^T + E E^T`` into the lower half of K (p, p, lanes).

    ``E = U_1^-1 U_2 - I`` is that of `_relative_root`, for up to `_LANES` pairs side by side.
    """
    d = means.shape[1]
    lanes = len(first)
    E = np.zeros((d + 1, d + 1, _LANES))
    near = np.empty((d * (d + 1) // 2, _LANES))
    for q in range(lanes):
        E[d, d, q] = _root_ratio_minus_one(weights[first[q]], weights[second[q]])
        for r in range(len(near)):
            near[r, q] = factors[first[q], r]
    for r in range(d):
        row = r * (r + 1) // 2
        for c in range(r + 2):
            # the last of these columns is that of the means
            column = c if c <= r else d
            if column == d:
                for q in range(lanes):
                    E[r, d, q] = means[second[q], r] - means[first[q], r]
            else:
                for q in range(lanes):
                    E[r, c, q] = factors[second[q], row + c] - near[row + c, q]
            for s in range(0 if column == d else c, r):
                for q in range(lanes):
                    E[r, column, q] -= near[row + s, q] * E[s, column, q]
            for q in range(lanes):
                E[r, column, q] /= near[row + r, q]
    for r in range(d):
        for c in range(r + 2):
            column = c if c <= r else d
            for q in range(lanes):
                E[r, column, q] *= 1.0 + E[d, d, q]
        for q in range(lanes):
            E[r, r, q] += E[d, d, q]
    for r in range(d + 1):
        for c in range(r + 1):
            for q in range(lanes):
                K[r, c, q] = E[r, c, q] + E[c, r, q]
            for s in range(c + 1 if r < d else 0):
                for q in range(lanes):
                    K[r, c, q] += E[r, s, q] * E[c, s, q]
            for q in range(lanes):
                K[r, c, q] += E[r, d, q] * E[c, d, q]


@njit(cache=True, nogil=True, error_model="numpy")
def listed_distances(
    weights: Array, means: Array, factors: Array, first: IntArray, second: IntArray, values: Array
) -> None:
    """Compute lifted distances of components `first` and `second` (m,) of a flat list.

    ``N N^T - I = E + E^T + E E^T`` keeps its small eigenvalues when the two are close. Where the
    eigenvalues of N N^T spread too far, the singular values of N itself are computed, alone.
    """
    p = means.shape[1] + 1
    E = np.empty((p, p))
    K = np.empty((p, p, _LANES))
    finite = np.empty(_LANES)
    for start in range(0, len(first), _LANES):
        lanes = min(_LANES, len(first) - start)
        _relative_grams(
            weights,
            means,
            factors,
            first[start : start + lanes],
            second[start : start + lanes],
            K,
        )
        finite[:] = 0.0
        for r in range(p):
            for c in range(r + 1):
                for q in range(lanes):
                    finite[q] += K[r, c, q]
        for q in range(lanes):
            if not np.isfinite(finite[q]):
                # Keeps the neighbours' sweeps short; the value is decided below.
                K[:, :, q] = np.nan
        _jacobi(K, lanes)
        for q in range(lanes):
            low, high = K[0, 0, q], K[0, 0, q]
            square = 0.0
            for r in range(p):
                low, high = min(low, K[r, r, q]), max(high, K[r, r, q])
                square += np.log1p(max(K[r, r, q], -1.0 + 1e-300)) ** 2
            if 1.0 + low > _SPREAD * (1.0 + high):
                values[start + q] = np.sqrt(square)
            else:
                one, two = first[start + q], second[start + q]
                _relative_root(
                    weights[one],
                    means[one],
                    factors[one],
                    weights[two],
                    means[two],
                    factors[two],
                    E,
                )
                values[start + q] = _far_distance(E)


@njit(cache=True, nogil=True, error_model="numpy")
def _jacobi(K: Array, lanes: int) -> None:
    """Diagonalise the symmetric matrices K (p, p, lanes) in place, by cyclic rotations.

    Only the lower triangle is read and written. For the trace of a function phi, what is off the
    diagonal changes ``sum phi(K_rr)`` by at most ``½ max|phi''| ‖off‖_F²`` (Peierls). Here
    ``phi(x) = ln²(1 + x)``: with low and high the extremes of 1 + x, ``|phi''| <= 4 / low^2.5`` and
    ``sum phi >= sum K_rr² / high²``, which gives the stopping rule.

    Sensitivity rests on this: the distance of two fits depends on these two alone, to the last
    bit. So a lane that has converged is left as it is, however long its neighbours take, and no
    operation may be fused or reordered.
    """
    p = K.shape[0]
    cosine, sine = np.empty(_LANES), np.empty(_LANES)
    off, whole = np.empty(_LANES), np.empty(_LANES)
    low, high = np.empty(_LANES), np.empty(_LANES)
    moving = np.empty(_LANES)
    for _ in range(_SWEEPS):
        for q in range(lanes):
            off[q] = 0.0
            whole[q] = 0.0
            low[q] = 1.0
            high[q] = 1.0
        for r in range(p):
            for q in range(lanes):
                whole[q] += K[r, r, q] * K[r, r, q]
                low[q] = min(low[q], 1.0 + K[r, r, q])
                high[q] = max(high[q], 1.0 + K[r, r, q])
            for c in range(r):
                for q in range(lanes):
                    off[q] += K[r, c, q] * K[r, c, q]
        done = True
        for q in range(lanes):
            # The spectrum may reach below the diagonal, by no more than the rest's norm.
            bottom = max(low[q] - np.sqrt(2.0 * off[q]), 0.0)
            allowed = 0.5 * _ACCURACY * bottom * bottom * np.sqrt(bottom) / (high[q] * high[q])
            # A NaN compares False and so never keeps the others waiting.
            moving[q] = 0.0
            if off[q] > max(allowed, 1e-24) * (whole[q] + off[q]):
                moving[q] = 1.0
                done = False
        if done:
            return
        for r in range(1, p):
            for c in range(r):
                for q in range(lanes):
                    g = 2.0 * K[r, c, q]
                    h = K[r, r, q] - K[c, c, q]
                    below = abs(h) + np.sqrt(h * h + g * g) + 1e-300
                    t = moving[q] * (g / below)
                    if h < 0.0:
                        t = -t
                    cosine[q] = 1.0 / np.sqrt(1.0 + t * t)
                    sine[q] = t * cosine[q]
                    K[c, c, q] -= 0.5 * t * g
                    K[r, r, q] += 0.5 * t * g
                    K[r, c, q] = 0.0 if moving[q] > 0.0 else K[r, c, q]
                for s in range(c):
                    for q in range(lanes):
                        x, y = K[c, s, q], K[r, s, q]
                        K[c, s, q] = cosine[q] * x - sine[q] * y
                        K[r, s, q] = sine[q] * x + cosine[q] * y
                for s in range(c + 1, r):
                    for q in range(lanes):
                        x, y = K[s, c, q], K[r, s, q]
                        K[s, c, q] = cosine[q] * x - sine[q] * y
                        K[r, s, q] = sine[q] * x + cosine[q] * y
                for s in range(r + 1, p):
                    for q in range(lanes):
                        x, y = K[s, c, q], K[s, r, q]
                        K[s, c, q] = cosine[q] * x - sine[q] * y
                        K[s, r, q] = sine[q] * x + cosine[q] * y


@njit(cache=True, nogil=True, error_model="numpy")
def _far_distance(E: Array) -> float:
    """Compute ``‖2 ln singular values(I + E)‖`` by one-sided Jacobi; E is overwritten.

    Rotating columns until they are orthogonal keeps small singular values to the accuracy that
    the columns' own scales allow, which a method working on N N^T cannot.
    """
    p = len(E)
    for r in range(p):
        E[r, r] += 1.0
    for _ in range(_SWEEPS):
        rotated = False
        for b in range(1, p):
            for a in range(b):
                x, y, z = 0.0, 0.0, 0.0
                for r in range(p):
                    x += E[r, a] * E[r, a]
                    y += E[r, b] * E[r, b]
                    z += E[r, a] * E[r, b]
                if not np.isfinite(x + y):
                    return np.inf
                if abs(z) <= 1e-15 * np.sqrt(x * y):
                    continue
                rotated = True
                tau = (y - x) / (2.0 * z)
                t = (1.0 if tau >= 0.0 else -1.0) / (abs(tau) + np.sqrt(1.0 + tau * tau))
                cosine = 1.0 / np.sqrt(1.0 + t * t)
                sine = t * cosine
                for r in range(p):
                    u, v = E[r, a], E[r, b]
                    E[r, a] = cosine * u - sine * v
                    E[r, b] = sine * u + cosine * v
        if not rotated:
            break
    square = 0.0
    for a in range(p):
        x = 0.0
        for r in range(p):
            x += E[r, a] * E[r, a]
        if x <= 0.0:
            return np.inf
        square += np.log(x) ** 2
    return float(np.sqrt(square))


@njit(cache=True, nogil=True, error_model="numpy")
def place_pairs(traces: Array, inner: float, outer: float, radius: float) -> int:
    """Overwrite both traces of a pair by a number on its side of the radius; count those left.

    It is 0 where their sum J is at most `inner`, twice the radius where it is at least `outer`, and
    NaN where neither is so, or the traces overflow. Tile by tile, because entries are met twice.
    """
    n, left = len(traces), 0
    for top in range(0, n, _LANES):
        for start in range(top, n, _LANES):
            for i in range(top, min(top + _LANES, n)):
                for j in range(max(start, i + 1), min(start + _LANES, n)):
                    excess = traces[i, j] + traces[j, i]
                    value = np.nan
                    if excess <= inner:
                        value = 0.0
                    elif outer <= excess < np.inf:
                        value = 2.0 * radius
                    else:
                        left += 1
                    traces[i, j] = value
                    traces[j, i] = value
    for i in range(n):
        traces[i, i] = 0.0
    return left


# The two bounds are compared with this much room for rounding.
_SLACK = 1e-6
# Bounds place a pair on one side of a radius only if they clear it by this much, relatively: some
# hundred thousand times what rounding does to them, for radii that are not tiny.
_CLEAR = 1e-3
_LEAST_PLACED = 1e-2
"""Choice: smaller radii are tiny in that sense, and all distances are computed."""
# Up to this p an eigenvalue problem is as cheap as its bounds.
_SMALL = 4


def _comparable(batch: MixtureBatch) -> IntArray:
    """Find fits that succeeded and give every component some weight: others cannot be lifted."""
    return np.flatnonzero(batch.ok & (np.nan_to_num(batch.weights) > 0).all(axis=1))


def pairwise_lifted(batch: MixtureBatch, *, around: float | None = None) -> Array:
    """Compute the lifted distances of all fits, components under the best matching.

    Parameters
    ----------
    batch : MixtureBatch
    around : float, optional
        A radius, if only the side of it matters on which a distance lies; see
        `LiftedGeometry.placed`, which serves fits of one component.

    Returns
    -------
    array (t, t)
        Symmetric, zero on the diagonal. inf in the rows and columns, diagonal included, of
        failed fits and of fits with a zero weight.
    """
    present = _comparable(batch)
    geometry = LiftedGeometry(batch.weights[present], batch.means[present], batch.cholesky[present])
    if around is not None and around >= _LEAST_PLACED and batch.n_components == 1:
        return among(len(batch), present, geometry.placed(around))
    return among(len(batch), present, bottleneck_pairs(geometry))


def component_gaps(batch: MixtureBatch) -> Array:
    """Compute the least lifted distance between two different components of each fit.

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
    """Lifted distances between the components of n fits (see `privgmm.distances.all_pairs`).

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
        """Move component ``order[i, a]`` of each fit i to place a."""
        return LiftedGeometry(
            np.take_along_axis(self._weights, order, axis=1),
            np.take_along_axis(self._means, order[:, :, None], axis=1),
            np.take_along_axis(self._cholesky, order[:, :, None, None], axis=1),
        )

    def matched(self) -> Array:
        """Compute the largest distance (n, n) between equally placed components.

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

    def placed(self, radius: float) -> Array:
        """Compute distances (n, n), one component, or numbers on the same side of the radius.

        Where the bounds from the traces clear the radius, it is 0 for a pair within it, and twice
        the radius for one beyond. The two bounds rise with J, so J itself is compared. The other
        pairs, few if most agree, are solved for.
        """
        p = self._means.shape[2] + 1
        inner = 4 * p * np.sinh((1 - _CLEAR) * radius / (2 * np.sqrt(p))) ** 2
        outer = 4 * np.sinh((1 + _CLEAR) * radius / 2) ** 2
        distances = self._traces(0)
        if place_pairs(distances, float(inner), float(outer), radius):
            i, j = (index.astype(np.int64) for index in np.nonzero(np.isnan(np.triu(distances))))
            place = np.zeros(len(i), dtype=np.int64)
            distances[i, j] = distances[j, i] = self.exact(i, place, j, place)
        return distances

    def _traces(self, a: int) -> Array:
        """Compute ``tr(N N^T - I)`` (n, n) of component a, from fit i (rows) to fit j (columns)."""
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
        """Compute the least distance (n,) between two components of each fit; inf for k = 1."""
        n, k = self.shape
        a, b = (index.astype(np.int64) for index in np.triu_indices(k, 1))
        fits = np.repeat(np.arange(n), len(a))
        inside = self.exact(fits, np.tile(a, n), fits, np.tile(b, n))
        return np.asarray(inside.reshape(n, -1).min(axis=1, initial=np.inf))

    def radii(self) -> Array:
        """Return half the gap of each fit (n,).

        In a metric, a component within V of one of mine is at least ``gap - V`` from my others.
        """
        return self.gaps() / 2

    def bounds(self, i: IntArray, j: IntArray) -> tuple[Array, Array]:
        """Compute lower and upper bounds, (m, k, k) each, from the traces."""
        excess = np.empty((2, len(i), self.shape[1], self.shape[1]))
        listed_excess(self._weights, self._means, self._packed, i, j, excess)
        return _bounds(excess[0], excess[1], self._means.shape[2] + 1)

    def exact(self, i: IntArray, a: IntArray, j: IntArray, b: IntArray) -> Array:
        """Compute distances (m,) between component a of fit i and component b of fit j."""
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
    """Bound distances from below and above by the two traces; 0 and inf on overflow."""
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
