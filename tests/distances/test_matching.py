"""Bottleneck matching: two methods, one answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privgmm.distances.matching import bottleneck_matching, bottleneck_matchings
from privgmm.errors import InvalidInput


def tables(seed: int, count: int, k: int, kind: str) -> np.ndarray:
    rng = np.random.default_rng(seed)
    table = rng.exponential(size=(count, k, k))
    if kind == "ties":
        table = np.floor(2 * table)
    if kind == "holes":
        table[rng.random(table.shape) < 0.5] = np.inf
    return table


@pytest.mark.parametrize("kind", ["plain", "ties", "holes"])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 6, 11, 30])
def test_binary_search_and_augmenting_paths_agree(k: int, kind: str) -> None:
    batch = tables(k, 25, k, kind)
    values, permutations = bottleneck_matchings(batch)
    for table, value, permutation in zip(batch, values, permutations, strict=True):
        one = bottleneck_matching(table)
        assert one.value == value
        for order in (one.permutation, permutation):
            assert sorted(order.tolist()) == list(range(k))
            assert table[np.arange(k), order].max() == value


@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_value_moves_with_rows_columns_and_monotone_maps(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.exponential(size=(k, k))
    value = bottleneck_matching(table).value
    assert bottleneck_matching(table.T).value == value
    assert bottleneck_matching(table[rng.permutation(k)][:, rng.permutation(k)]).value == value
    assert bottleneck_matching(np.log(table)).value == np.log(value)


def test_hidden_permutation_is_found() -> None:
    rng = np.random.default_rng(5)
    hidden = rng.permutation(12)
    table = rng.uniform(2, 3, size=(12, 12))
    table[np.arange(12), hidden] = rng.uniform(0, 1, size=12)
    assert bottleneck_matching(table).permutation.tolist() == hidden.tolist()
    assert bottleneck_matchings(table[None]).permutations[0].tolist() == hidden.tolist()


def test_infinite_only_when_every_permutation_is() -> None:
    # Hall's condition fails: three rows see two columns only.
    table = np.zeros((4, 4))
    table[:3, 2:] = np.inf
    assert bottleneck_matching(table).value == np.inf
    assert bottleneck_matchings(table[None]).values[0] == np.inf
    table[0, 3] = 7.0
    assert bottleneck_matching(table).value == 7.0
    assert bottleneck_matchings(table[None]).values[0] == 7.0


def test_same_answer_every_time() -> None:
    table = np.zeros((6, 6))
    first = bottleneck_matching(table).permutation
    assert all((bottleneck_matching(table).permutation == first).all() for _ in range(5))


def test_no_problems_no_answers() -> None:
    values, permutations = bottleneck_matchings(np.empty((0, 3, 3)))
    assert values.shape == (0,)
    assert permutations.shape == (0, 3)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([[0.0, np.nan], [1.0, 2.0]], "NaN"),
        ([[0.0, 1.0]], "shape"),
        (np.empty((0, 0)), "k >= 1"),
        ([["a"]], "numbers"),
    ],
)
def test_bad_tables_are_refused(bad: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        bottleneck_matching(bad)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(InvalidInput):
        bottleneck_matchings(np.asarray([bad]))
