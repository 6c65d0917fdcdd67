"""Rows are recognised in any order and in part, and other people's are not."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.ledger.history import Entry, new_mark, now
from privgmm.ledger.process import ProcessAccount, Trace
from privgmm.privacy.composition import total
from tests.ledger.ledger_children import PLAN

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(8_000, 3))
ORDER = RNG.permutation(8_000)
SALT = 987_654_321


def entry() -> Entry:
    return Entry(
        number=1,
        mark=new_mark(),
        method=PLAN.method,
        spend=PLAN.price(),
        seeded=False,
        unit="row",
        intended=now(),
    )


def meet(one: Array, other: Array) -> bool:
    first, second = Trace.of(one, SALT), Trace.of(other, SALT)
    assert first.meets(second) == second.meets(first)
    return first.meets(second)


SAME: dict[str, Array] = {
    "itself": ROWS,
    "another order": ROWS[ORDER],
    "column by column": np.asfortranarray(ROWS),
    "a fold of ten": ROWS[ORDER[800:]],
    "a half": ROWS[ORDER[:4_000]],
    "a tenth": ROWS[ORDER[:800]],
    "twice": np.concatenate([ROWS, ROWS[:500]]),
    "one row changed": np.concatenate([ROWS[:-1], [[9.0, 9.0, 9.0]]]),
    "one column": ROWS[:, 1:2],
    "other columns": ROWS[:, [2, 0]],
    "a column more": np.column_stack([RNG.normal(size=8_000), ROWS]),
}
OTHERS: dict[str, Array] = {
    "other people": RNG.normal(size=(8_000, 3)),
    "scaled": ROWS * 2.5,
    "nobody": np.empty((0, 3)),
}


@pytest.mark.parametrize("name", SAME)
def test_rows_are_recognised(name: str) -> None:
    assert meet(ROWS, SAME[name])


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_not(name: str) -> None:
    assert not meet(ROWS, OTHERS[name])


def test_two_folds_without_a_common_row_meet_through_the_whole() -> None:
    first, second = ROWS[ORDER[:4_000]], ROWS[ORDER[4_000:]]
    assert not meet(first, second)
    account = ProcessAccount()
    for rows in (first, second, ROWS):
        told = account.charge(account.trace(rows), entry())
    assert len(told.entries) == 3
    assert len(account.history(account.trace(second)).entries) == 3


@pytest.mark.parametrize("digits", [0, 1])
def test_people_with_the_same_few_values_are_told_apart(digits: int) -> None:
    """Ages of two groups of people have the same values; the same group has them as often."""
    one, other = (np.round(RNG.normal(40, 12, size=(5_000, 1)), digits) for _ in range(2))
    assert not meet(one, other)
    assert meet(one, one[::-1])
    changed = one.copy()
    changed[7] += 1
    assert not meet(one, changed)


def test_zeros_are_zeros() -> None:
    assert meet(np.zeros((5, 1)), -np.zeros((5, 1)))
    # swapping two columns is another table where values repeat
    assert Trace.of(np.eye(2), SALT).digest == Trace.of(np.eye(2)[::-1], SALT).digest
    assert (
        Trace.of(np.array([[1.0, 2.0]]), SALT).digest
        != Trace.of(np.array([[2.0, 1.0]]), SALT).digest
    )


def test_spends_add_up_by_table() -> None:
    account = ProcessAccount()
    other = account.trace(OTHERS["other people"])
    for times in range(1, 5):
        told = account.charge(account.trace(ROWS[ORDER]), entry())
        assert told == account.history(account.trace(ROWS))
        assert told.total() == total([PLAN.price()] * times)
        assert account.history(other).entries == ()
    assert len(account.charge(other, entry()).entries) == 1


def test_two_processes_cannot_be_matched() -> None:
    one, other = ProcessAccount(), ProcessAccount()
    first, second = one.trace(ROWS), other.trace(ROWS)
    assert first.digest != second.digest
    assert not np.intersect1d(first.marks, second.marks).size
    assert not np.isin(first.marks, ROWS.view(np.uint64)).any()
