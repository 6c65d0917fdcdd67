"""Lemma 3.2: dist^k of Definition 3.1 by matching equals the minimum over all permutations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from privgmm.distances.matching import bottleneck_matching, bottleneck_matchings


def brute_force(table: np.ndarray) -> float:
    k = len(table)
    orders = np.array(list(itertools.permutations(range(k))))
    return float(table[np.arange(k), orders].max(axis=1).min())


@pytest.mark.parametrize("levels", [0, 2, 4], ids=["distinct", "two levels", "four levels"])
@pytest.mark.parametrize("k", range(1, 8))
def test_matching_attains_the_minimum_over_permutations(k: int, levels: int) -> None:
    rng = np.random.default_rng(100 * k + levels)
    batch = rng.random((40, k, k))
    if levels:
        batch = np.floor(levels * batch)
    truth = [brute_force(table) for table in batch]
    assert [bottleneck_matching(table).value for table in batch] == truth
    assert bottleneck_matchings(batch).values.tolist() == truth


def test_the_value_is_one_of_the_entries() -> None:
    rng = np.random.default_rng(0)
    for table in rng.random((50, 9, 9)):
        assert (table == bottleneck_matching(table).value).any()
