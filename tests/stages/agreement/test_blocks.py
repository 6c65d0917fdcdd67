"""Rows into blocks: by position alone, every row at most once."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from privgmm.errors import InvalidInput
from privgmm.stages.agreement.blocks import deal


@given(st.integers(1, 400), st.integers(1, 40), st.integers(0, 2**63))
def test_blocks_are_disjoint_and_equally_large(n: int, t: int, seed: int) -> None:
    if n < t:
        with pytest.raises(InvalidInput, match="fewer blocks or more rows"):
            deal(n, t, seed=seed)
        return
    positions = deal(n, t, seed=seed)
    assert positions.shape == (t, n // t)
    flat = np.sort(positions.ravel())
    assert np.array_equal(flat, np.arange((n // t) * t))


def test_dealing_sees_sizes_and_the_seed_only() -> None:
    seen = ["n_rows", "n_blocks", "seed", "rows_per_block"]
    assert list(inspect.signature(deal).parameters) == seen
    assert np.array_equal(deal(100, 7, seed=5), deal(100, 7, seed=5))
    assert not np.array_equal(deal(100, 7, seed=5), deal(100, 7, seed=6))


def test_every_block_gets_one_row_of_every_stripe() -> None:
    """A sorted file leaves each block a fair sample of its whole range."""
    positions = deal(1_000, 20, seed=1)
    assert np.array_equal(np.sort(positions // 20, axis=1), np.tile(np.arange(50), (20, 1)))


def test_a_row_lands_in_every_block_equally_often() -> None:
    where = [int(np.flatnonzero((deal(35, 5, seed=s) == 13).any(axis=1))[0]) for s in range(2_000)]
    assert chisquare(np.bincount(where, minlength=5)).pvalue > 6.3e-5


@given(st.integers(1, 400), st.integers(1, 20), st.integers(1, 30), st.integers(0, 2**63))
def test_a_part_of_the_rows_is_dealt_from_everywhere(n: int, t: int, s: int, seed: int) -> None:
    """One row of each of s t spans of nearly equal length, and none of them twice."""
    if n < t:
        return
    positions = deal(n, t, seed=seed, rows_per_block=s)
    if s >= n // t:
        assert np.array_equal(positions, deal(n, t, seed=seed))
        return
    assert positions.shape == (t, s)
    flat = np.sort(positions.ravel())
    edges = np.arange(t * s + 1) * n / (t * s)
    assert (np.floor(edges[:-1]) <= flat).all()
    assert (flat < np.floor(edges[1:])).all()
    # every block has a row of every stripe of t spans
    stripes = np.searchsorted(np.floor(edges[::t]), positions, side="right") - 1
    assert np.array_equal(np.sort(stripes, axis=1), np.tile(np.arange(s), (t, 1)))


def test_every_row_is_dealt_equally_often_and_to_every_block() -> None:
    deals = np.stack([deal(40, 4, seed=s, rows_per_block=5) for s in range(3_000)])
    assert chisquare(np.bincount(deals.ravel(), minlength=40)).pvalue > 6.3e-5
    blocks = np.nonzero(deals == 13)[1]
    assert chisquare(np.bincount(blocks, minlength=4)).pvalue > 6.3e-5
