"""Find the fits that are too nearly flat to be computed with.

Distances and means are taken by forward substitution with a fit's own factors, which loses
about 1e-16 times their condition. Both spaces compare no fits beyond the limit below: what
gamma promises would otherwise hold on paper only.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from privgmm.arrays import Array, BoolArray
from privgmm.mixture import MixtureBatch

__all__ = ["LARGEST_CONDITION", "nearly_flat", "skeel_conditions"]

LARGEST_CONDITION = 1e7
"""Correlations up to about 1 - 1e-14: more than covariances in double precision can hold well."""


def nearly_flat(items: MixtureBatch) -> BoolArray:
    """Find fits (t,) with a factor beyond the largest condition, each from itself alone."""
    d = items.n_features
    factors = np.where(items.ok[:, None, None, None], items.cholesky, np.eye(d))
    conditions = np.empty(items.weights.size)
    skeel_conditions(factors.reshape(-1, d, d), conditions)
    worst = conditions.reshape(items.weights.shape).max(axis=1)
    return np.asarray(~(worst <= LARGEST_CONDITION), dtype=np.bool_)


@njit(cache=True, nogil=True, error_model="numpy")
def skeel_conditions(factors: Array, values: Array) -> None:
    """Write ``‖|L^-1| |L|‖``, the largest row sum, of lower factors (n, d, d) into values (n,).

    It bounds what forward substitution with L loses and, unlike the usual condition number,
    does not mind columns in different units. A function of each factor alone, to the last bit.
    """
    n, d, _ = factors.shape
    row = np.empty(d)
    for q in range(n):
        L = factors[q]
        worst = 0.0
        for r in range(d):
            # row r of the inverse, from the right: x L = e_r
            total = 0.0
            for c in range(r, -1, -1):
                x = 1.0 if c == r else 0.0
                for s in range(c + 1, r + 1):
                    x -= row[s] * L[s, c]
                row[c] = x / L[c, c]
            for c in range(r + 1):
                size = 0.0
                for s in range(c, r + 1):
                    size += abs(row[s] * L[s, c])
                total += size
            if not total <= worst:
                worst = total
        values[q] = worst
