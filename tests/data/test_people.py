"""Persons: their rows lie together, and no one is summed or dealt twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from privgmm.arrays import Array, IntArray
from privgmm.data.engines import Step
from privgmm.data.labels import label_texts
from privgmm.data.people import (
    ArrayPeople,
    PersonSum,
    one_person,
    person_order,
    person_places,
    secret_key,
)


class Census(PersonSum):
    """Counts persons and rows, and adds up the rows as whole numbers."""

    def __call__(self, rows: Array, starts: IntArray) -> IntArray:
        assert starts[0] == 0
        assert starts[-1] == len(rows)
        return np.array([starts.size - 1, len(rows), int(rows.sum())], dtype=np.int64)


class Averages(PersonSum):
    """The rounded averages of persons, added up."""

    def __call__(self, rows: Array, starts: IntArray) -> IntArray:
        sums = np.add.reduceat(rows, starts[:-1], axis=0)
        averages = sums / np.diff(starts)[:, None]
        return np.asarray(np.rint(1e6 * averages).astype(np.int64).sum(axis=0))


def test_rows_of_a_person_lie_together() -> None:
    member = np.array([2, 0, 1, 0, 2, 2])
    people = ArrayPeople.of(np.arange(6.0)[:, None], member)
    assert len(people) == 3
    ((rows, starts),) = people.chunks(0, 3)
    assert starts.tolist() == [0, 2, 3, 6]
    assert rows[:, 0].tolist() == [1, 3, 2, 0, 4, 5]


def test_a_number_without_rows_is_no_person() -> None:
    people = ArrayPeople.of(np.arange(3.0)[:, None], np.array([5, 0, 5]))
    assert len(people) == 2
    assert people.take(np.array([0, 1])).positions.tolist() == [1, 0]


def test_each_row_is_a_person_unless_said_otherwise() -> None:
    rows = np.arange(8.0).reshape(4, 2)
    people = ArrayPeople.of(rows)
    assert len(people) == 4
    taken = people.take(np.array([[2, 0], [1, 3]]))
    assert np.array_equal(taken.rows, rows[[[2, 0], [1, 3]]])
    assert len(one_person(rows)) == 1


@pytest.mark.parametrize("n", [1, 39_999, 40_000, 100_003])
@pytest.mark.parametrize("persons", [False, True])
def test_every_person_is_summed_once(n: int, persons: bool) -> None:
    member = np.random.default_rng(0).integers(0, 1 + n // 3, n) if persons else None
    rows = np.arange(float(n))[:, None]
    g = n if member is None else len(np.unique(member))
    for threads in (None, 1, 3):
        for chunk in (1 << 17, 999):
            people = ArrayPeople.of(rows, member, threads=threads, chunk=chunk)
            assert people.total(Census()).tolist() == [g, n, n * (n - 1) // 2]


def test_steps_end_where_all_rows_are_done() -> None:
    seen: list[Step] = []
    people = ArrayPeople.of(np.zeros((90_000, 1)), threads=3, watch=seen.append)
    people.total(Census(), "counting")
    assert [step.done for step in seen] == [30_000, 60_000, 90_000]
    assert {(step.what, step.total, step.unit) for step in seen} == {("counting", 90_000, "rows")}
    assert seen[-1].left == 0.0


def test_other_coordinates_keep_persons() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 2))
    member = np.arange(50) // 3
    twice = ArrayPeople.of(rows, member).mapped(lambda x: 2 * x)
    assert np.array_equal(
        twice.total(Averages()), ArrayPeople.of(2 * rows, member).total(Averages())
    )
    assert np.array_equal(twice.take(np.arange(5)).rows, 2 * rows[[0, 3, 6, 9, 12]])


# ----------------------------------------------------------------------------------- persons


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(0, 2**63))
def test_one_row_of_each_person(labels: list[int], seed: int) -> None:
    groups = np.array(labels)
    rows = np.arange(float(len(labels)))[:, None]
    people = ArrayPeople.labelled(rows, label_texts(groups), secret_key(seed))
    assert len(people) == len(set(labels))
    taken = people.take(np.arange(len(people)))
    assert sorted(groups[taken.positions].tolist()) == sorted(set(labels))
    assert np.array_equal(taken.rows[:, 0], taken.positions)
    # and all rows of each are summed together
    assert people.total(Census()).tolist() == [len(people), len(labels), int(rows.sum())]


def test_each_of_a_persons_rows_is_chosen_equally_often() -> None:
    groups = label_texts(np.array(["ann"] * 4 + ["bob"] * 2))
    rows = np.arange(6.0)[:, None]
    seen = []
    for seed in range(1_200):
        people = ArrayPeople.labelled(rows, groups, secret_key(seed * 2**40 + 7))
        taken = people.take(np.arange(2)).positions
        seen.append(int(taken[groups[taken] == "ann"][0]))
    assert chisquare(np.bincount(seen, minlength=4)).pvalue > 6.3e-5


def test_persons_are_in_a_random_order_that_depends_on_no_other_person() -> None:
    """A place depends on its person alone: replacing one person keeps the order of the others."""
    names = np.array([f"p{i}" for i in range(40)], dtype=object)
    firsts = []
    for seed in range(2_000):
        places = person_places(names, secret_key(seed))
        firsts.append(int(np.argmin(places)))
        others = person_places(np.delete(names, 7), secret_key(seed))
        assert np.array_equal(np.delete(places, 7), others)
    assert chisquare(np.bincount(firsts, minlength=40)).pvalue > 6.3e-5


def test_two_labels_with_one_hash_are_two_persons() -> None:
    labels = np.array(["a", "b", "a", "b", "c"], dtype=object)
    hashes = np.array([5, 5, 5, 5, 1], dtype=np.uint64)
    order, starts = person_order(hashes, labels)
    assert labels[order].tolist() == ["c", "a", "a", "b", "b"]
    assert order.tolist() == [4, 0, 2, 1, 3]
    assert starts.tolist() == [0, 1, 3, 5]


def test_labels_of_any_kind_are_told_apart_alike() -> None:
    numbers, texts = label_texts(np.array([3, 1, 3])), label_texts(["3", "1", "3"])
    assert numbers.tolist() == texts.tolist()
