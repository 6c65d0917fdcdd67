"""Bottleneck matching: which component of one mixture is which of the other (Lemma 3.2).

Mixtures are compared up to the order of their components, by ``min over permutations pi of
max_i D[i, pi(i)]`` where D holds the distances between components. `bottleneck_matching` solves
one such problem the way Appendix E.1 does; `bottleneck_matchings` solves many small ones in
compiled code by another method. `parameters` and `all_pairs` build on them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from privgmm.arrays import Array, IntArray
from privgmm.errors import InvalidInput

__all__ = ["Matching", "Matchings", "bottleneck_matching", "bottleneck_matchings"]


class Matching(NamedTuple):
    """The best matching of k rows to k columns.

    ``value`` is its largest entry, the bottleneck; ``permutation[i]`` is the column matched to
    row i.
    """

    value: float
    permutation: IntArray


class Matchings(NamedTuple):
    """Best matchings of m problems: ``values`` (m,) and ``permutations`` (m, k)."""

    values: Array
    permutations: IntArray


def _without_nan(distances: npt.ArrayLike, ndim: int) -> Array:
    try:
        table = np.ascontiguousarray(distances, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InvalidInput(f"distances must hold numbers only: {problem}") from problem
    if table.ndim != ndim or table.shape[-1] != table.shape[-2] or table.shape[-1] == 0:
        wanted = "(k, k)" if ndim == 2 else "(m, k, k)"
        raise InvalidInput(f"distances must have shape {wanted} with k >= 1, got {table.shape}")
    if np.isnan(table).any():
        raise InvalidInput("distances must not hold NaN: use inf for pairs that cannot be compared")
    return table


def bottleneck_matching(distances: npt.ArrayLike) -> Matching:
    """Find the permutation whose largest distance is smallest (Lemma 3.2).

    Parameters
    ----------
    distances : array-like (k, k)
        ``distances[i, j]`` between row i and column j. inf is allowed, NaN is not.

    Returns
    -------
    Matching
        ``value`` is inf if every permutation uses an infinite entry.

    Notes
    -----
    The value is one of the k^2 entries, and ``value <= x`` if and only if the bipartite graph of
    the entries at most x has a perfect matching: binary search over the sorted entries with a
    maximum matching at each step (Appendix E.1). Of several best permutations, always the same
    one is returned for the same matrix.

    Examples
    --------
    >>> value, permutation = bottleneck_matching([[3.0, 1.0], [2.0, 5.0]])
    >>> value, permutation.tolist()
    (2.0, [1, 0])
    """
    table = _without_nan(distances, 2)
    levels = np.unique(table)
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        if (_columns_within(table, levels[middle]) >= 0).all():
            high = middle
        else:
            low = middle + 1
    return Matching(float(levels[low]), _columns_within(table, levels[low]))


def _columns_within(table: Array, level: float) -> IntArray:
    """Match rows to columns over entries <= level, as many as possible; -1 where none."""
    graph = csr_array(table <= level)
    columns = maximum_bipartite_matching(graph, perm_type="column")
    return np.asarray(columns, dtype=np.int64)


def bottleneck_matchings(distances: npt.ArrayLike) -> Matchings:
    """Solve m bottleneck problems at once.

    Parameters
    ----------
    distances : array-like (m, k, k)
        As in `bottleneck_matching`, m times.

    Notes
    -----
    Rows enter one by one. With the first r rows matched at the smallest possible level, the
    next row joins along the alternating path whose largest entry is smallest, found as Dijkstra
    finds a shortest path with "largest so far" in place of the sum. The level of r + 1 rows is
    never below that of r rows, and by Berge's theorem an augmenting path exists as soon as a
    matching does; so each step, and the last, is optimal. O(k^3) per problem, nothing is sorted.
    """
    table = _without_nan(distances, 3)
    values = np.empty(table.shape[0])
    permutations = np.empty(table.shape[:2], dtype=np.int64)
    _augment_all(table, values, permutations)
    return Matchings(values, permutations)


@njit(cache=True, nogil=True)
def _augment_all(tables: Array, values: Array, permutations: IntArray) -> None:
    k = tables.shape[1]
    row_of = np.empty(k, dtype=np.int64)
    came_from = np.empty(k, dtype=np.int64)
    level = np.empty(k)
    settled = np.empty(k, dtype=np.bool_)
    for problem in range(tables.shape[0]):
        table, column_of = tables[problem], permutations[problem]
        row_of[:] = -1
        bottleneck = -np.inf
        for start in range(k):
            for c in range(k):
                level[c] = table[start, c]
                came_from[c] = start
                settled[c] = False
            column = -1
            while True:
                # Dijkstra: settle the column that is reached at the least level
                column = -1
                for c in range(k):
                    if not settled[c] and (column < 0 or level[c] < level[column]):
                        column = c
                settled[column] = True
                row = row_of[column]
                if row < 0:
                    break
                for c in range(k):
                    reached = max(level[column], table[row, c])
                    if not settled[c] and reached < level[c]:
                        level[c] = reached
                        came_from[c] = row
            bottleneck = max(bottleneck, level[column])
            # a free column is reached: exchange matched and unmatched edges on the way back
            while True:
                row = came_from[column]
                freed = column_of[row]
                column_of[row] = column
                row_of[column] = row
                if row == start:
                    break
                column = freed
        values[problem] = bottleneck
