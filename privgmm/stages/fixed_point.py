"""Exact sums of real numbers: fixed-point integers, summed over persons in threads.

A contribution is rounded to a multiple of a public unit, so sums are integers: the same for any
order, chunking and number of threads, and noise can be added to them without floating point.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from privgmm.arrays import Array, IntArray, whole_number
from privgmm.errors import InvalidInput

__all__ = [
    "Persons",
    "fixed_point_scale",
    "fixed_scale",
    "in_threads",
    "rounded_sensitivity",
]

_SUM_BITS, _FINEST_BITS = 60, 30
_MOST_UNITS = 1 << 44
"""With more, integers would be so coarse that rounding shows."""
_FEWEST_PER_THREAD = 20_000


def fixed_point_scale(n_units: int) -> int:
    """Units per one of the fixed-point integers: a power of two, from the public n alone.

    No contribution is much larger than one, so sums stay below 2^61 and leave room for noise.

    >>> fixed_point_scale(10**6) == 2**30, fixed_point_scale(2**40) == 2**19
    (True, True)
    """
    n = whole_number(n_units, "n_units", 1)
    if n >= _MOST_UNITS:
        raise InvalidInput(f"n_units must be below {_MOST_UNITS}, got {n}")
    return 1 << min(_FINEST_BITS, _SUM_BITS - n.bit_length())


def fixed_scale(n_persons: int) -> float:
    """The same as a float, which holds powers of two exactly."""
    return float(fixed_point_scale(max(n_persons, 1)))


def rounded_sensitivity(sensitivity: float, unit: float, size: int) -> float:
    """How far replacing a person moves `size` integer sums, in L2.

    Parameters
    ----------
    sensitivity : float
        That of the contributions themselves, before they are rounded.
    unit : float
        Units per one.

    Notes
    -----
    A row's contribution is rounded by at most half a unit per coordinate, the average over a
    person's rows once more. Between two persons that is two units per coordinate. The factor
    covers floating point in a row's contribution, some 1e-14 of it.
    """
    return unit * sensitivity * (1 + 1e-9) + 2 * math.sqrt(size)


@dataclasses.dataclass(frozen=True, eq=False)
class Persons:
    """Who rows belong to, in an order in which each person's rows lie together.

    Parameters
    ----------
    starts : array of int (g + 1,)
        Rows of person p are those at positions starts[p]..starts[p + 1] - 1 of the order.
    order : array of int (n,) or None
        The rows in that order; None where each row is a person.
    """

    starts: IntArray
    order: IntArray | None = None

    @classmethod
    def of(cls, n_rows: int, member: IntArray | None) -> Persons:
        """From the number of the person of each row, or None where each row is a person."""
        if member is None:
            return cls(np.arange(n_rows + 1, dtype=np.int64))
        order = np.argsort(member, kind="stable").astype(np.int64)
        sizes = np.bincount(member)
        sizes = sizes[sizes > 0]
        return cls(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), order)

    @classmethod
    def one(cls, n_rows: int) -> Persons:
        """A single person, whose rows are all of them."""
        return cls(np.array([0, n_rows], dtype=np.int64))

    def __len__(self) -> int:
        return self.starts.size - 1

    def ordered(self, rows: Array) -> Array:
        """The rows with each person's together."""
        if self.order is None:
            return np.ascontiguousarray(rows, dtype=np.float64)
        return np.ascontiguousarray(rows[self.order], dtype=np.float64)


def in_threads(work: Callable[[int, int], IntArray], n_persons: int) -> IntArray:
    """The sum of ``work(first, last)`` over ranges that cover all persons; integers, so exact."""
    threads = max(1, min(os.cpu_count() or 1, n_persons // _FEWEST_PER_THREAD))
    if threads == 1:
        return work(0, n_persons)
    edges = np.linspace(0, n_persons, threads + 1).astype(np.int64).tolist()
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(work, edges[:-1], edges[1:]))
    return np.asarray(np.sum(parts, axis=0, dtype=np.int64))
