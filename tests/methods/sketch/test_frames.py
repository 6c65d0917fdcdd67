"""Planned frames: what they cost, that they fit the budget, and that blocks do agree."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.budget import Budget
from privgmm.data.people import ArrayPeople
from privgmm.methods.cores import upper_point
from privgmm.methods.sketch import frames
from privgmm.methods.sketch.frames import (
    MOST_FEATURES,
    FrameChoice,
    frame_stage,
    histogram_stage,
    mu_squared_left,
    scatter_table,
    simulated_scatter,
)
from privgmm.privacy.composition import Price, price_of
from privgmm.privacy.curves import ORDERS, RenyiCurve, gaussian_curve
from privgmm.privacy.noise import noise_source
from privgmm.stages.agreement.lifted_geometry import unlift
from privgmm.stages.agreement.noise_levels import lifted_eta
from privgmm.stages.agreement.stage import AveragedAgreement
from privgmm.stages.sketch.agreement_frame import FrameAgreement
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.stage import Work

ONE = Budget(1.0, 1e-6)


def planned(n: int, d: int, budget: Budget = ONE) -> tuple[AveragedAgreement, FrameChoice]:
    choice = frame_stage(n, d, budget)
    assert choice is not None
    assert isinstance(choice.stage, AveragedAgreement)
    return choice.stage, choice


def rows_of(shape: str, n: int, d: int, seed: int) -> tuple[Array, Array]:
    """Return rows, and the covariance of the law that they come from."""
    rng = np.random.default_rng([seed, 4])
    rows = rng.standard_normal((n, d))
    if shape == "gaussian":
        return rows, np.eye(d)
    if shape == "two":
        rows[:, 0] += np.where(rng.random(n) < 0.4, -4.0, 4.0)
        covariance = np.eye(d)
        covariance[0, 0] += 64 * 0.24
        return rows, covariance
    # skewed: each column a chi square of four degrees, of variance 8
    return rng.chisquare(4.0, (n, d)), 8 * np.eye(d)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_of_many_rows_a_part_is_dealt(d: int) -> None:
    """Blocks get the rows that the widest allowance takes, from some n on the same."""
    few, _ = planned(20_000, d)
    assert isinstance(few, FrameAgreement)
    assert few.rows_per_block is None
    many = [planned(n, d) for n in (10**6, 3 * 10**6, 10**9)]
    stage, choice = many[0]
    assert all(other == (stage, choice) for other in many)
    assert isinstance(stage, FrameAgreement)
    assert stage.rows_per_block is not None
    dealt = stage.n_blocks * stage.rows_per_block
    assert dealt < 10**6
    assert choice.share <= 0.08
    assert choice.inflation == 5.0
    # a table of only these rows has the same frame, from all of them
    whole, alone = planned(dealt, d)
    assert whole == dataclasses.replace(stage, rows_per_block=None)
    assert alone.left == choice.left
    # and a fifth fewer a narrower one
    assert planned(4 * dealt // 5, d)[1].inflation != 5.0


def test_a_tiny_epsilon_takes_all_rows() -> None:
    stage, choice = planned(10**7, 2, Budget(0.1, 1e-6))
    assert isinstance(stage, FrameAgreement)
    assert stage.rows_per_block is None
    assert choice.inflation is not None
    assert choice.inflation < 5.0


@pytest.mark.parametrize("shape", ["gaussian", "two", "skewed"])
@pytest.mark.parametrize(
    ("n", "d", "epsilon"),
    [
        (5_000, 1, 1.0),
        (3_000, 2, 2.0),
        pytest.param(6_000, 2, 1.0, marks=pytest.mark.study),
        pytest.param(20_000, 2, 1.0, marks=pytest.mark.study),
        pytest.param(20_000, 5, 1.0, marks=pytest.mark.study),
    ],
)
def test_blocks_agree(shape: str, n: int, d: int, epsilon: float) -> None:
    stage, _ = planned(n, d, Budget(epsilon, 1e-6))
    released, right = 0, 0
    for seed in range(20):
        rows, covariance = rows_of(shape, n, d, seed)
        source = noise_source(seed)
        work = Work(ArrayPeople.of(rows), source)
        value = stage.prepare(work, None).draw(source).value
        if isinstance(value, Frame):
            released += 1
            sizes = np.linalg.svd(value.inverse @ np.linalg.cholesky(covariance), compute_uv=False)
            right += bool((np.abs(np.log2(sizes)) < 1.6).all())
    assert released >= 19
    # alpha = 2 moves an eigenvalue of the covariance by e^2 at most, with probability .9
    assert right >= 15


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize(("n", "d"), [(1_000, 2), (6_000, 2), (50_000, 1), (10**6, 3), (10**5, 10)])
def test_a_frame_and_what_it_leaves_fit_the_budget(n: int, d: int, epsilon: float) -> None:
    budget = Budget(epsilon, 1e-6)
    for choice in (frame_stage(n, d, budget), histogram_stage(n, d, budget)):
        if choice is None:
            continue
        spend = price_of(
            [choice.stage.price(), Price((gaussian_curve(choice.left**-0.5),), exact=True)],
            budget.delta,
        )
        assert budget.covers(spend.budget)
        # and nothing is wasted
        assert spend.budget.epsilon > 0.999 * epsilon
        assert 0 < choice.share < 1
        assert choice.stage.least_units() <= n


@pytest.mark.parametrize(
    ("n", "d", "share"),
    [
        (4_000, 2, 0.41),
        (6_000, 2, 0.15),
        (12_000, 2, 0.04),
        (100_000, 2, 0.01),
        (8_000, 5, 0.53),
        (20_000, 5, 0.08),
        (100_000, 5, 0.02),
        (20_000, 10, 0.56),
        (40_000, 10, 0.15),
        (100_000, 10, 0.06),
    ],
)
def test_costs_what_trials_had_shown(n: int, d: int, share: float) -> None:
    """Repeat the trials: alpha = 2, and a tenth more scatter than Gaussian rows have."""
    cores = [frames._cores(t, n // t, d, ONE.delta) for t in frames._block_choices(n, d)]
    left, _ = frames._best(cores, 1.1, d, lifted_eta(d, 2.0, 0.1), ONE)
    whole = mu_squared_left(RenyiCurve(np.zeros_like(ORDERS)), ONE.epsilon, ONE.delta)
    assert 1 - left / whole == pytest.approx(share, rel=0.3, abs=0.006)
    # what is planned costs more, and forgives more
    choice = frame_stage(n, d, ONE)
    if choice is not None:
        assert choice.share >= 1 - left / whole


@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_more_rows_never_leave_less(d: int) -> None:
    shares = []
    for n in np.geomspace(2_000, 10**7, 24).astype(int).tolist():
        choice = frame_stage(n, d, ONE)
        shares.append((1.0, 0.0) if choice is None else (choice.share, choice.inflation or 0.0))
    feasible = [share < 1 for share, _ in shares]
    assert feasible == sorted(feasible)
    assert feasible[-1]
    # forgiving more may cost more; at the same allowance more rows cost less, but for the grids
    for (before, allowed), (after, allows) in itertools.pairwise(shares):
        assert allows >= allowed or allowed in (1.6, 1.5)
        if allows == allowed and before < 1:
            assert after <= 1.1 * before


def test_many_columns_have_a_frame() -> None:
    assert planned(200_000, 20)[1].share <= 0.31


def test_forgives_as_much_as_the_share_allows() -> None:
    for n in (8_000, 12_000, 10**5):
        stage, choice = planned(n, 2)
        limits = {5.0: 0.08, 4.0: 0.08, 3.0: 0.08, 2.5: 0.12, 2.0: 0.12, 1.6: 0.30, 1.4: 0.30}
        limits |= {1.5: 0.6, 1.3: 0.6, 1.15: 0.6}
        assert choice.inflation is not None
        assert choice.share <= limits[choice.inflation]
        assert stage.learner == "student"
        assert (stage.mask_accuracy, stage.beta, stage.n_components) == (0.75, 0.1, 1)
        assert n // stage.n_blocks >= 6
        assert stage.n_blocks <= 1500
        assert stage.separation == 0
    assert planned(10**5, 2)[1].inflation == 3.0
    assert planned(10**6, 2)[1].inflation == 5.0


def test_too_few_rows_have_no_frame() -> None:
    assert frame_stage(500, 2, ONE) is None
    assert frame_stage(3_000, 10, ONE) is None
    assert frame_stage(10**7, MOST_FEATURES + 1, ONE) is None
    assert histogram_stage(300, 2, ONE) is None
    assert histogram_stage(2, 1, ONE) is None
    for n, epsilon in ((1_000, 1.0), (500, 2.0), (300, 4.0)):
        assert histogram_stage(n, 2, Budget(epsilon, 1e-6)) is not None


def test_blocks_and_alpha_as_asked() -> None:
    choice = frame_stage(20_000, 2, ONE, n_blocks=400)
    assert choice is not None
    assert choice.stage.n_blocks == 400
    best = planned(20_000, 2)[1]
    assert choice.share >= best.share - 1e-9 or choice.inflation != best.inflation
    assert frame_stage(2_000, 2, ONE, n_blocks=400) is None
    finer = frame_stage(20_000, 2, ONE, accuracy=0.6)
    assert finer is not None
    assert isinstance(finer.stage, AveragedAgreement)
    assert finer.stage.eta == pytest.approx(lifted_eta(2, 0.6, 0.1))
    assert finer.stage.eta < planned(20_000, 2)[0].eta


@pytest.mark.parametrize("share", [0.0, 0.2, 0.9])
def test_what_is_left_is_all_that_fits(share: float) -> None:
    whole = mu_squared_left(RenyiCurve(np.zeros_like(ORDERS)), 1.0, 1e-6)
    fixed = RenyiCurve(ORDERS * share * whole / 2)
    left = mu_squared_left(fixed, 1.0, 1e-6)
    assert left == pytest.approx((1 - share) * whole, rel=1e-6)
    assert (fixed + gaussian_curve(left**-0.5)).epsilon(1e-6) <= 1.0
    assert (fixed + gaussian_curve((1.001 * left) ** -0.5)).epsilon(1e-6) > 1.0
    assert mu_squared_left(RenyiCurve(ORDERS * whole), 1.0, 1e-6) == 0.0


# ------------------------------------------------------------------------------------ the table


@pytest.mark.parametrize(("rows", "d"), [(6, 2), (17, 1), (12, 5), (25, 5), (30, 10)])
def test_the_table_holds_what_is_simulated(rows: int, d: int) -> None:
    table, fresh = scatter_table(rows, d), simulated_scatter(rows, d)
    np.testing.assert_allclose(table.radii, fresh.radii, rtol=1e-6)
    # a friend at the very edge may fall to either side
    assert np.abs(table.friends - fresh.friends).max() <= 2 / 400 + 1e-12


@pytest.mark.parametrize(("rows", "d"), [(11, 2), (24, 1), (37, 4), (150, 3)])
def test_between_its_entries_the_table_is_careful(rows: int, d: int) -> None:
    table, fresh = scatter_table(rows, d), simulated_scatter(rows, d)
    ratio = table.radii / fresh.radii
    assert (ratio > 0.95).all()
    assert (ratio < 1.10).all()
    assert (table.friends - fresh.friends).mean() < 0.01


def test_beyond_its_entries_radii_fall_like_the_root() -> None:
    near, far = scatter_table(2_000, 2), scatter_table(8_000, 2)
    np.testing.assert_allclose(near.radii, 2 * far.radii)
    assert np.array_equal(near.friends, far.friends)
    fresh = simulated_scatter(2_000, 2)
    np.testing.assert_allclose(near.radii, fresh.radii, rtol=0.06)


def test_friends_are_in_order() -> None:
    for d in (1, 7, 20):
        for rows in (d + 4, d + 30, d + 5_000):
            table = scatter_table(rows, d)
            assert (np.diff(table.radii) > 0).all()
            assert (np.diff(table.friends, axis=1) <= 0).all()
            assert (np.diff(table.friends, axis=0) >= -1e-12).all()


def test_a_twentieth_of_the_blocks_may_stray() -> None:
    counts = frames._expected_counts(np.full(100, 0.9), 200)
    assert counts.tolist() == [171] * 190 + [1] * 10


def test_noise_levels_of_the_table() -> None:
    for d in (1, 2, 5):
        stage = planned(10**6, d)[0]
        assert stage.eta == pytest.approx(lifted_eta(d, stage.mask_accuracy, 0.1), rel=1e-6)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 6, 10])
def test_hardly_any_frame_is_off_by_a_factor_of_three(d: int) -> None:
    """Simulate the law of the mask itself: how it scales and shifts what it masks."""
    eta = planned(10**6, d)[0].eta
    draws = 20_000
    noise = np.random.default_rng(d).standard_normal((draws, d + 1, d + 1))
    _, shifts, roots = unlift(np.eye(d + 1) + eta * noise)
    widths = np.linalg.svd(roots, compute_uv=False)
    wrong = (widths.min(axis=1) < 1 / 3) | (widths.max(axis=1) > 3)
    wrong |= np.linalg.norm(shifts, axis=1) > 3
    assert wrong.mean() <= 1e-3


def test_planning_is_always_the_same() -> None:
    first = frame_stage(23_456, 3, ONE)
    # everything cold but the file
    frame_stage.cache_clear()
    upper_point.cache_clear()
    again = frame_stage(23_456, 3, ONE)
    assert again == first
    assert again is not first


@pytest.mark.parametrize("shape", ["gaussian", "two", "skewed"])
@pytest.mark.parametrize(
    ("n", "d", "epsilon"), [(1_000, 1, 1.0), (1_000, 2, 1.0), (300, 2, 4.0), (4_000, 5, 1.0)]
)
def test_histograms_show_a_frame(shape: str, n: int, d: int, epsilon: float) -> None:
    choice = histogram_stage(n, d, Budget(epsilon, 1e-6))
    assert choice is not None
    released, right = 0, 0
    for seed in range(20):
        rows, covariance = rows_of(shape, n, d, seed)
        source = noise_source(seed)
        work = Work(ArrayPeople.of(rows), source)
        value = choice.stage.prepare(work, None).draw(source).value
        if isinstance(value, Frame):
            released += 1
            sizes = np.linalg.svd(value.inverse @ np.linalg.cholesky(covariance), compute_uv=False)
            right += bool((np.abs(np.log2(sizes)) < 1).all())
    assert released >= 19
    assert right >= 19


def test_histogram_frames_are_priced_by_parts() -> None:
    choice = histogram_stage(2_000, 2, ONE)
    assert choice is not None
    assert choice.inflation is None
    price = choice.stage.price()
    assert price.shortfall <= 0.1 * ONE.delta
    curve = functools.reduce(RenyiCurve.__add__, price.curves)
    assert curve.epsilon(1e-6) < 1.0
    assert dataclasses.replace(choice) == choice
