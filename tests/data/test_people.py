"""Persons: their rows lie together, and no one is summed or dealt twice."""

from __future__ import annotations

import collections
import json
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from privgmm.arrays import Array, IntArray
from privgmm.data import people
from privgmm.data.engines import Step
from privgmm.data.labels import label_texts
from privgmm.data.people import (
    ArrayPeople,
    PersonSum,
    one_person,
    person_order,
    person_places,
)
from privgmm.data.rows import row_source
from privgmm.methods.planner import best_plan
from privgmm.privacy.noise import SecureNoise, SeededNoise, noise_source
from privgmm.records.receipt import make_receipt
from privgmm.releases import prepare, release
from privgmm.stages.agreement.blocks import deal


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
    people = ArrayPeople.labelled(rows, label_texts(groups), noise_source(seed).key())
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
        people = ArrayPeople.labelled(rows, groups, noise_source(seed).key())
        taken = people.take(np.arange(2)).positions
        seen.append(int(taken[groups[taken] == "ann"][0]))
    assert chisquare(np.bincount(seen, minlength=4)).pvalue > 6.3e-5


# ------------------------------------------------------------------- the order of persons


MASK = 2**64 - 1


def rotated(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & MASK


def siphash(key: bytes, message: bytes) -> int:
    """SipHash-2-4, written down from the paper by Aumasson and Bernstein (2012)."""
    k = [int.from_bytes(key[8 * i : 8 * i + 8], "little") for i in range(2)]
    initial = b"somepseudorandomlygeneratedbytes"
    v = [int.from_bytes(initial[8 * i : 8 * i + 8], "big") ^ k[i % 2] for i in range(4)]

    def rounds(count: int) -> None:
        for a, b, turn, half in (
            (0, 1, 13, 1),
            (2, 3, 16, 0),
            (0, 3, 21, 0),
            (2, 1, 17, 1),
        ) * count:
            v[a] = (v[a] + v[b]) & MASK
            v[b] = rotated(v[b], turn) ^ v[a]
            v[a] = rotated(v[a], 32) if half else v[a]

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for i in range(0, len(padded), 8):
        word = int.from_bytes(padded[i : i + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def mixed(number: int) -> int:
    """Mix 64 bits as pandas does afterwards, one to one."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        number = (number ^ number >> shift) * factor & MASK
    return number


@given(st.binary(min_size=32, max_size=32), st.lists(st.binary(max_size=20), max_size=9))
def test_places_are_siphash_of_the_labels(key: bytes, held: list[bytes]) -> None:
    assert siphash(bytes(range(16)), b"") == 0x726FDB47DD0E0E31, "the first vector of the paper"
    labels = label_texts(held)
    for again, half in ((False, key[:16]), (True, key[16:])):
        places = person_places(labels, key, again=again)
        assert places.tolist() == [mixed(siphash(half, label)) for label in held]


def placed(labels: list[str], places: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Order persons where the key gives them these places; return who is at each."""

    def given_places(found: Any, key: bytes, *, again: bool = False) -> Any:
        return np.array([places[one] for one in found], dtype=np.uint64)

    monkeypatch.setattr(people, "person_places", given_places)
    texts = label_texts(labels)
    held = ArrayPeople.labelled(np.arange(float(len(texts)))[:, None], texts, bytes(32))
    return [str(one) for one in texts[held.take(np.arange(len(held))).positions]]


def test_a_person_in_the_place_of_another_moves_no_one_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The coupling behind the price: the new person has the numbers of the old one."""
    places = {"ann": 5, "bob": 1, "cid": 9, "dan": 7, "zoe": 5}
    one = placed(["bob", "ann", "cid", "dan"], places, monkeypatch)
    other = placed(["bob", "zoe", "cid", "dan"], places, monkeypatch)
    assert one == ["bob", "ann", "dan", "cid"]
    assert other == ["bob", "zoe", "dan", "cid"]


def test_persons_who_share_a_number_keep_their_places_too() -> None:
    """By label, a new label would change places with those that share its number."""
    labels = label_texts([f"p{i}" for i in range(6)])
    shared = np.full(6, 3, dtype=np.uint64)
    firsts = []
    for seed in range(600):
        order, starts = person_order(shared, labels, noise_source(seed).key())
        assert starts.tolist() == list(range(7))
        firsts.append(int(order[0]))
    assert chisquare(np.bincount(firsts, minlength=6)).pvalue > 6.3e-5


def test_every_order_of_persons_is_as_likely_for_neighbours() -> None:
    """The other half of the coupling: who is in the table does not change the law of the order."""
    for last in ("dan", "zoe"):
        labels = label_texts(["ann", "bob", "cid", last])
        seen = collections.Counter(
            tuple(np.argsort(person_places(labels, noise_source(seed).key())).tolist())
            for seed in range(4_800)
        )
        assert len(seen) == 24
        assert chisquare(list(seen.values())).pvalue > 6.3e-5


def blocks_of(labels: list[str], key: bytes) -> list[set[str]]:
    """Deal persons into blocks and return who is in each."""
    texts = label_texts(labels)
    held = ArrayPeople.labelled(np.arange(float(len(texts)))[:, None], texts, key)
    positions = held.take(deal(len(held), 10, seed=0)).positions
    return [set(texts[block].tolist()) for block in positions]


def test_an_attacker_with_the_key_sees_several_blocks_change() -> None:
    """Why the key must be secret: for one and the same key, a new label moves others along.

    With the key known, tables that differ in one person differ in most blocks, and the price of
    one block would not hold. This is what `threats.md` must not give away.
    """
    key = noise_source(3).key()
    names = [f"p{i}" for i in range(200)]
    changed = []
    for new in range(40):
        pairs = zip(blocks_of(names, key), blocks_of([*names[1:], f"n{new}"], key), strict=True)
        changed.append(sum(one != other for one, other in pairs))
    assert max(changed) > 5
    # the same label with other rows moves no one, also where the key is known
    assert blocks_of(names, key) == blocks_of(names, key)


def test_the_key_is_fresh_and_kept_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: list[bytes] = []
    real = SecureNoise.key

    def noted(self: SecureNoise) -> bytes:
        drawn.append(real(self))
        return drawn[-1]

    monkeypatch.setattr(SecureNoise, "key", noted)
    monkeypatch.setattr(SeededNoise, "key", lambda _: pytest.fail("NumPy's generator"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    n = 3_000
    rows = np.random.default_rng(0).normal(size=n)
    plan = best_plan(n, epsilon=4.0, delta=1e-6, n_components=1, n_features=1)
    pd.DataFrame({"x": rows, "who": np.arange(n)}).to_parquet(tmp_path / "table.parquet")
    for in_memory in (True, False):
        source = row_source(tmp_path / "table.parquet", ["x"], in_memory=in_memory)
        prepared = prepare(source, plan, groups="who")
        on_disk = [path.read_bytes() for path in tmp_path.rglob("*.arrow")]
        assert bool(on_disk) is not in_memory
        outcome = prepared.draw()
        kept = [*on_disk, pickle.dumps(outcome.result)]
        kept += [json.dumps(make_receipt(outcome.result)).encode()]
        if in_memory:
            kept += [pickle.dumps(outcome.curator)]
        key = drawn[-1]
        for half in (key[:16], key[16:], key.hex().encode()[:16]):
            assert not any(half in one for one in kept)
    release(row_source(rows[:, None]), plan)
    assert len(drawn) == len(set(drawn)) == 2, "one per release by person, none for rows"
    assert {len(key) for key in drawn} == {32}


def test_labels_of_any_kind_are_told_apart_alike() -> None:
    numbers, texts = label_texts(np.array([3, 1, 3])), label_texts(["3", "1", "3"])
    assert numbers.tolist() == texts.tolist()
