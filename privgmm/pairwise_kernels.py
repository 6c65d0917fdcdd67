"""Compiled sums behind `pairwise`: dist_Comp of many components, from Cholesky factors."""

from __future__ import annotations

import numpy as np
from numba import njit

from privgmm.arrays import Array, IntArray

__all__ = ["certificates", "listed_components", "one_sided_squares", "weight_and_mean_bounds"]

_LANES = 128  # pairs computed side by side: small enough for the nearest cache


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def one_sided_squares(weights: Array, means: Array, factors: Array, d: int, squares: Array) -> None:
    """For fits i, j: the largest over components of the one-sided dist_Comp, squared.

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
                # y[0] now gathers the covariance part.
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
                    # Overflow may end in NaN; comparisons would drop it, so it is made inf.
                    both = max(total[q], y[0, q])
                    if not np.isfinite(total[q] + y[0, q]):
                        both = np.inf
                    squares[i, start + q] = max(squares[i, start + q], both)


@njit(cache=True, nogil=True, error_model="numpy")
def _mean_square(mean1: Array, factor1: Array, mean2: Array, y: Array) -> float:
    """``‖L_1^-1 (mu_2 - mu_1)‖²``; y (d,) is scratch."""
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
    """``‖L_1^-1 Sigma_2 L_1^-T - I‖_F²``; E (d, d) is scratch."""
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
    """``dist_Comp`` (m,) between component a of fit i and component b of fit j."""
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
    """The weight and mean parts of dist_Comp (m, k, k): a lower bound without covariances."""
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
    """Matched distances (n,) up to which the matching of a fit is certainly the best."""
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
                apart = 1.0 + np.sqrt(max(gap * gap, forth, back, cov1, cov2))
                stretch = 1.0 + np.sqrt(1.0 + np.sqrt(cov1))
                radius = max(np.sqrt(apart) - 1.0, np.sqrt(forth) / stretch)
                # Overflow proves nothing: leave the pair to the search.
                certain = np.isfinite(forth + back + cov1 + cov2)
                radii[i] = min(radii[i], radius if certain else 0.0)
