"""Method `sketch` on real tables: what it keeps of a fit without privacy, and odd rows."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from benchmarks.sketch import FEW_ROWS, MANY_ROWS, Cell, cell, held_out, one_gaussian
from benchmarks.tables import TABLES, Split, table
from privgmm import Mixture, Release, best_plan, dist_gmm, release
from privgmm.arrays import Array
from privgmm.stages.sketch.fitting import MISFIT, NARROWEST
from privgmm.stages.sketch.private_sketch import PrivateSketch

TARGET = Mixture([0.4, 0.6], [[-4.0, 0.0], [4.0, 0.0]], [np.eye(2), np.diag([1.0, 2.0])])


def released(rows: Array, k: int, seed: int) -> Release:
    n, d = rows.shape
    plan = best_plan(n, method="sketch", epsilon=1.0, delta=1e-6, n_components=k, n_features=d)
    result = release(rows, plan, rng=seed).result
    assert isinstance(result, Release)
    return result


def narrowest(result: Release) -> float:
    """Compute the least width of any component, in units of the frame."""
    assert isinstance(result.sketch, PrivateSketch)
    seen = result.sketch.frame.mixture_to_frame(result.mixture)
    return float(np.sqrt(np.linalg.eigvalsh(seen.covariances).min()))


# ------------------------------------------------------------------------------- flights


@functools.cache
def flights() -> Split:
    """Draw 6,000 flights to learn from, and 6,000 held out; in another order than the benchmark."""
    rows = table("delays").rows()
    order = np.random.default_rng(3).permutation(len(rows))
    return Split(rows[order[:6_000]], rows[order[6_000:12_000]])


def gain(result: Release, split: Split) -> float:
    """Compute the gain in log-likelihood over one Gaussian, per held-out row."""
    one = held_out(one_gaussian(split.learn), split.held_out)
    return held_out(result.mixture, split.held_out) - one


@pytest.mark.parametrize("k", range(1, 7))
def test_few_flights_are_released_and_more_components_gain(k: int) -> None:
    # air time and distance
    split = Split(flights().learn[:, 2:], flights().held_out[:, 2:])
    result = released(split.learn, k, 60 + k)
    # with one component no more is lost than noise costs
    assert gain(result, split) > {1: -0.05, 2: 0.2}.get(k, 0.35)
    assert narrowest(result) > NARROWEST * (1 - 1e-6)


def test_four_columns_and_few_rows_gain_too() -> None:
    assert gain(released(flights().learn, 3, 70), flights()) > 0.9


# -------------------------------------------------------------------------------- odd rows


def test_a_heap_on_one_value_is_not_taken_for_a_component_in_silence() -> None:
    rng = np.random.default_rng(0)
    rows = np.exp(rng.standard_normal((12_000, 1)))
    rows[rng.random(12_000) < 0.3] = 0.0
    result = released(rows, 3, 1)
    assert result.floored
    assert narrowest(result) == pytest.approx(NARROWEST, rel=1e-6)
    assert result.misfit is not None
    assert result.misfit > MISFIT


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize(("d", "n"), [(1, 5_000), (1, 100_000), (2, 20_000), (2, 100_000)])
def test_a_heap_inside_a_smooth_column_is_pointed_out(d: int, n: int, share: float) -> None:
    """Two components explain such rows to within the noise, but one of them is a single value."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((n, d))
    rows[rng.random(n) < share, 0] = 0.7
    result = released(rows, 2, 2)
    assert result.floored
    assert narrowest(result) > NARROWEST * (1 - 1e-6)


@pytest.mark.parametrize("width", [0.05, 0.1])
def test_a_thin_component_that_can_be_told_from_a_value_is_not_called_one(width: float) -> None:
    truth = Mixture([0.6, 0.4], [[0.0, 0.0], [3.0, 0.0]], [np.eye(2), width**2 * np.eye(2)])
    result = released(truth.sample(200_000, rng=3), 2, 4)
    assert not result.floored


def test_cauchy_noise_in_one_column_shows_in_the_misfit() -> None:
    rows = TARGET.sample(12_000, rng=1)
    rows[:, 1] += np.random.default_rng(2).standard_cauchy(12_000)
    result = released(rows, 2, 3)
    assert result.misfit is not None
    assert result.misfit > MISFIT
    # the other column is as before
    assert np.sort(result.mixture.means[:, 0]) == pytest.approx([-4.0, 4.0], abs=0.4)


def test_a_column_of_whole_numbers_shows_in_the_misfit() -> None:
    rows = TARGET.sample(12_000, rng=4)
    rows[:, 1] = np.round(rows[:, 1] / 2)
    result = released(rows, 2, 5)
    assert result.misfit is not None
    assert result.misfit > MISFIT


def test_rows_that_are_all_there_three_times_are_released_as_they_are() -> None:
    rows = np.repeat(TARGET.sample(5_000, rng=6), 3, axis=0)
    assert dist_gmm(released(rows, 2, 7).mixture, TARGET) < 0.1


# ------------------------------------------------------------------------------ all tables


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    """List every table of the benchmark with every k, 1 to 6."""
    missing = sorted({one.missing for one in TABLES} - {None}, key=str)
    if missing:
        pytest.skip(str(missing[0]))
    return [cell(one, k, split) for one in TABLES for split in (one.split(),) for k in range(1, 7)]


@pytest.mark.study
def test_nearly_every_table_is_released(cells: list[Cell]) -> None:
    assert all(one.rows >= FEW_ROWS for one in cells)
    assert np.mean([one.result is not None for one in cells]) >= 0.95


@pytest.mark.study
@pytest.mark.parametrize(
    ("fewest", "most", "share"), [(MANY_ROWS, np.inf, 0.95), (FEW_ROWS, MANY_ROWS, 0.8)]
)
def test_most_of_the_gain_without_privacy_is_kept(
    cells: list[Cell], fewest: int, most: float, share: float
) -> None:
    kept = [one for one in cells if one.k > 1 and fewest <= one.rows < most]
    shares = np.array([one.share for one in kept if one.result is not None])
    assert len(shares) > 20
    assert shares.mean() >= share
    assert min(one.gain for one in kept if one.result is not None) > 0


@pytest.mark.study
def test_no_component_sits_on_a_single_value_in_silence(cells: list[Cell]) -> None:
    for one in cells:
        if one.result is not None:
            width = narrowest(one.result)
            assert width > NARROWEST * (1 - 1e-6)
            assert one.result.floored or width > NARROWEST * (1 + 1e-6)


@pytest.mark.study
def test_flight_times_and_distances_are_described_well(cells: list[Cell]) -> None:
    (one,) = (c for c in cells if c.table.name == "flights" and c.k == 3)
    assert one.result is not None
    rows = table("flights").split().held_out
    assert one.result.mixture.log_density(rows).mean() >= -11.60
