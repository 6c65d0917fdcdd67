"""Jitter: it undoes rounding, row by row, and couples nothing, also where persons have rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

from privgmm.data import jitter
from privgmm.data.datasets import load_table
from privgmm.data.jitter import jitter_widths, jittered
from privgmm.errors import InvalidInput
from privgmm.learners.em import EM
from privgmm.mixture import Mixture


def test_rounding_to_the_grid_gives_the_values_back() -> None:
    rng = np.random.default_rng(0)
    steps = np.array([1.0, 5.0, 0.25])
    rows = rng.integers(-50, 50, size=(5000, 3)) * steps
    noisy = jittered(rows, steps, rng=1)
    assert np.array_equal(np.round(noisy / steps) * steps, rows)
    assert (noisy != rows).mean() > 0.999


def test_the_noise_is_uniform_with_the_width_asked_for() -> None:
    rows = np.zeros((20_000, 2))
    noise = jittered(rows, [2.0, 0.5], rng=2)
    for column, width in zip(noise.T, (2.0, 0.5), strict=True):
        assert stats.kstest(column, stats.uniform(-width / 2, width).cdf).pvalue > 6e-5
        # the fourth moment of a uniform law is width^4 / 80
        spread = width**2 * np.sqrt((1 / 80 - 1 / 144) / len(column))
        assert abs(column.var() - width**2 / 12) < 4 * spread
    correlation = (noise[:, 0] * noise[:, 1]).mean() / noise.std(axis=0).prod()
    assert abs(correlation) < 4 / np.sqrt(len(rows))


def test_a_changed_row_changes_that_row_alone() -> None:
    """Neighbours stay neighbours for every noise, which is what privacy needs."""
    rows = np.random.default_rng(3).integers(0, 9, size=(40, 2)).astype(float)
    other = rows.copy()
    other[17] = [1e6, -3.0]
    same = (jittered(rows, 1.0, rng=4) == jittered(other, 1.0, rng=4)).all(axis=1)
    assert np.flatnonzero(~same).tolist() == [17]
    # and the noise at a position does not depend on the widths of other columns either
    assert np.array_equal(
        jittered(rows, [1.0, 0.0], rng=4)[:, 0], jittered(rows, [1.0, 3.0], rng=4)[:, 0]
    )


def test_columns_of_width_zero_and_the_input_are_left_as_they_are() -> None:
    rows = np.random.default_rng(5).normal(size=(30, 3))
    kept = rows.copy()
    noisy = jittered(rows, [0.0, 1.0, 0.0], rng=6)
    assert np.array_equal(rows, kept)
    assert np.array_equal(noisy[:, [0, 2]], rows[:, [0, 2]])
    assert (noisy[:, 1] != rows[:, 1]).all()
    assert np.array_equal(jittered(rows, 0.0), rows)


def test_widths_by_name_equal_widths_by_position() -> None:
    rows = np.arange(12.0).reshape(4, 3)
    expected = jittered(rows, [0.0, 2.0, 1.0], rng=7)
    names = ["a", "b", "c"]
    widths = {"c": 1.0, "b": 2.0}
    assert np.array_equal(jittered(rows, widths, columns=names, rng=7), expected)
    for frame in (pd.DataFrame(rows, columns=names), pl.DataFrame(rows, schema=names)):
        assert np.array_equal(jittered(frame, widths, rng=7), expected)
    assert jitter_widths(0.5, 3).tolist() == [0.5, 0.5, 0.5]


def test_fresh_noise_unless_seeded() -> None:
    rows = np.zeros((10, 1))
    assert not np.array_equal(jittered(rows, 1.0), jittered(rows, 1.0))
    assert np.array_equal(jittered(rows, 1.0, rng=8), jittered(rows, 1.0, rng=8))


def test_fresh_noise_is_cryptographic(monkeypatch: pytest.MonkeyPatch) -> None:
    def repeatable(*_: object) -> None:
        raise AssertionError("NumPy's generator was asked")

    monkeypatch.setattr(np.random, "default_rng", repeatable)
    monkeypatch.setattr(jitter, "_CHUNK", 1_000)
    noise = jittered(np.zeros((4_001, 3)), [2.0, 1.0, 0.5])
    for column, width in zip(noise.T, (2.0, 1.0, 0.5), strict=True):
        assert stats.kstest(column, stats.uniform(-width / 2, width).cdf).pvalue > 6e-5
        assert len(np.unique(column)) == len(column)


def people(first: int) -> tuple[bytes, int]:
    """Whole minutes of 2,000 persons; `first` rows belong to the first, and the others follow."""
    rest = [f"{who},{who % 90}" for who in range(1, 2_000)]
    return "\n".join(["who,minutes", *["0,30"] * first, *rest]).encode(), first


def others(first: int) -> float:
    """The noise of all persons but the first, summed up in a pattern that an attacker likes.

    With noise fixed by position the pattern is the one that this noise itself has.
    """
    content, start = people(first)
    noise = load_table(content, columns=["minutes"], jitter={"minutes": 1.0}).rows[start:, 0]
    noise = noise - noise.round()
    pattern = np.sign(np.random.default_rng(0).random(2_001)[1:-1] - 0.5)
    return float(pattern @ noise)


def test_one_more_row_of_a_person_moves_no_one_else() -> None:
    """The law of what others contribute is the same, however many rows a person has.

    A fixed seed gives noise by position: one more row shifts all others, and this sum, at most 1
    apart by right, is 500 in one data set and about 0 in the other.
    """
    few, many = ([others(first) for _ in range(60)] for first in (1, 2))
    # the sum of 1,999 uniform draws on [-1/2, 1/2) has this deviation
    spread = np.sqrt(1_999 / 12)
    for sums in (few, many):
        assert np.abs(sums).max() < 5 * spread
        assert np.std(sums) == pytest.approx(spread, rel=0.4)
    assert stats.ks_2samp(few, many).pvalue > 1e-4


@pytest.mark.parametrize(
    ("widths", "columns", "message"),
    [
        ([1.0], None, "one per column"),
        ([1.0, -1.0], None, ">= 0"),
        ([1.0, np.nan], None, "finite"),
        (["wide", 1.0], None, "numbers only"),
        ({"a": 1.0}, None, "names of the columns"),
        ({"z": 1.0}, ["a", "b"], "not there"),
        ({"a": 1.0}, ["a"], "2 different names"),
        ({"a": 1.0}, ["a", "a"], "2 different names"),
    ],
)
def test_bad_widths_are_refused(widths: Any, columns: list[str] | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        jittered(np.zeros((3, 2)), widths, columns=columns)


def test_it_keeps_components_from_shrinking_onto_grid_points() -> None:
    """Whole numbers with a heavy point at zero: EM fits the grid; jittered, it fits the shape."""
    truth = Mixture([0.6, 0.4], [[0.0], [12.0]], [[[0.3]], [[9.0]]])
    blocks = np.round(truth.sample(20 * 400, rng=9))
    smallest = []
    for rows in (blocks, jittered(blocks, 1.0, rng=10)):
        fits = EM(2, n_threads=1).fit_blocks(rows.reshape(20, 400, 1), rng=11)
        spread = np.sqrt(fits.covariances[..., 0, 0][fits.ok])
        smallest.append((int(fits.ok.sum()), float(spread.min()) if fits.ok.any() else 0.0))
    assert smallest[1][0] == 20
    assert smallest[1][1] > np.sqrt(1 / 12)
    assert smallest[0] < smallest[1]
