"""Exact sums: the same integers however the work is divided."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.arrays import IntArray
from privgmm.privacy.curves import gaussian_curve
from privgmm.stages.fixed_point import Persons, fixed_point_scale, fixed_scale, in_threads


@pytest.mark.parametrize("n", [1, 2, 1000, 10**7, 10**11, 2**40])
def test_sums_of_so_many_units_fit_into_64_bits(n: int) -> None:
    scale = fixed_scale(n)
    assert scale == 2.0 ** round(np.log2(scale)), "a power of two: rounding is the same for all"
    assert n * scale < 2.0**61
    assert scale >= 2**19
    assert scale == fixed_point_scale(n)


def test_prices_count_on_the_coarsest_scale() -> None:
    """What exact prices take the sensitivity of integer sums to be, at least."""
    assert gaussian_curve(1.0).sensitivity == fixed_point_scale(2**44 - 1)


def test_rows_of_a_person_lie_together() -> None:
    member = np.array([2, 0, 1, 0, 2, 2])
    persons = Persons.of(6, member)
    assert len(persons) == 3
    assert persons.starts.tolist() == [0, 2, 3, 6]
    rows = np.arange(6.0)[:, None]
    assert persons.ordered(rows)[:, 0].tolist() == [1, 3, 2, 0, 4, 5]


def test_a_number_that_nobody_has_is_nobody() -> None:
    persons = Persons.of(3, np.array([5, 0, 5]))
    assert len(persons) == 2
    assert persons.starts.tolist() == [0, 1, 3]


def test_each_row_is_a_person_unless_said_otherwise() -> None:
    persons = Persons.of(4, None)
    assert len(persons) == 4
    rows = np.arange(8.0).reshape(4, 2)
    assert np.array_equal(persons.ordered(rows), rows)


@pytest.mark.parametrize("n", [0, 1, 39_999, 40_000, 100_003])
def test_threads_cover_every_person_once(n: int) -> None:
    def work(first: int, last: int) -> IntArray:
        return np.array([last - first, np.arange(first, last, dtype=np.int64).sum()])

    count, total = in_threads(work, n).tolist()
    assert (count, total) == (n, n * (n - 1) // 2)
