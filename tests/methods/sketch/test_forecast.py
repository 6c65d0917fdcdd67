"""Forecasts of a sketch: frames are found as often as forecast, and bands are wide enough.

That errors come true is studied in `tests/methods/test_forecasts.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from privgmm.budget import Budget
from privgmm.data.generators import random_mixture
from privgmm.data.people import ArrayPeople
from privgmm.errors import InvalidInput
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest
from privgmm.methods.sketch.forecast import frame_chance
from privgmm.methods.sketch.frames import frame_by_hand, frame_stage, histogram_stage
from privgmm.methods.what_if import along_rows, prospect
from privgmm.mixture import Mixture
from privgmm.privacy.noise import SeededNoise
from privgmm.releases import Release, release
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.stage import Bottom, Work

ONE = Budget(1.0, 1e-6)
FOUR = random_mixture(4, 2, separation=5.07, condition=1.15, weights="unequal", rng=1053)
"""Blocks of these scatter more than three times as widely as Gaussian ones."""


def asked(n: int, mixture: Mixture, **more: Any) -> PlanRequest:
    k, d = mixture.means.shape
    return PlanRequest(
        n_components=k, n_features=d, n_rows=n, method="sketch", expected=mixture, **more
    )


# -------------------------------------------------------------------------------------- chance


def test_components_far_apart_scatter_blocks_and_the_plan_allows_for_it() -> None:
    n = 60_000
    request = asked(n, FOUR)
    seen = prospect(request)
    assert seen.plan is not None
    assert seen.pass_probability > 0.95
    result = release(FOUR.sample(n, rng=1), seen.plan, rng=2).result
    assert isinstance(result, Release)
    # an agreement as wide as Gaussian rows ask for would not be reached
    agreed = frame_stage(n, 2, ONE)
    assert agreed is not None
    assert frame_chance(agreed.stage, random_mixture(1, 2, rng=0), n) > 0.95
    assert frame_chance(agreed.stage, FOUR, n) < 0.5
    assert seen.plan.stages[0].n_blocks is None


def test_the_chance_of_gaussian_rows_is_that_of_the_stage() -> None:
    one = random_mixture(1, 2, condition=9.0, rng=3)
    for n in (5_000, 20_000, 10**6):
        choice = frame_stage(20_000, 2, ONE)
        assert choice is not None
        mine, theirs = frame_chance(choice.stage, one, n), choice.stage.pass_probability(n)
        assert mine == pytest.approx(theirs, abs=0.15)


@pytest.mark.parametrize("n", [260, 320, 420, 700])
def test_histograms_show_as_often_as_foretold(n: int) -> None:
    """Compare chance and runs of a frame that is planned for more rows than there are."""
    choice = histogram_stage(1_000, 2, ONE)
    assert choice is not None
    stage = choice.stage
    assert isinstance(stage, HistogramFrame)
    runs, found = 60, 0
    for run in range(runs):
        rows = FOUR.sample(n, rng=run)
        source = SeededNoise(np.random.default_rng(run))
        work = Work(ArrayPeople.of(rows), source)
        found += not isinstance(stage.prepare(work, None).draw(source).value, Bottom)
    assert found / runs == pytest.approx(frame_chance(stage, FOUR, n), abs=0.2)


# --------------------------------------------------------------------------------------- error


def test_errors_fall_with_rows_and_epsilon_and_rise_with_overlap() -> None:
    def error(n: int, separation: float = 4.0, epsilon: float = 1.0) -> float:
        mixture = random_mixture(3, 3, separation=separation, rng=4)
        return prospect(asked(n, mixture, epsilon=epsilon)).error

    assert error(10**6) < error(10**5) < error(10**4) < error(3_000)
    assert error(10**4, epsilon=4.0) < error(10**4) < error(10**4, epsilon=0.5)
    assert error(10**5, separation=6.0) < error(10**5) < error(10**5, separation=2.0)


@pytest.mark.parametrize("d", [2, 5])
def test_curves_go_through_the_errors_at_hand(d: int) -> None:
    request = PlanRequest(n_components=2, n_features=d, method="sketch", separation=3.0)
    rows = np.geomspace(2_000, 10**6, 19).tolist()
    points = along_rows(request, rows)
    errors = [point.error for point in points]
    assert errors == sorted(errors, reverse=True)
    for n, point in list(zip(rows, points, strict=True))[1::12]:
        exact = prospect(request.but(n_rows=int(n)))
        assert point.error == pytest.approx(exact.error, rel=0.1)
        assert point.plan == exact.plan


def test_nothing_is_forecast_without_rows_enough() -> None:
    nothing = prospect(asked(100, FOUR))
    assert (nothing.pass_probability, nothing.expected_error, nothing.plan) == (0.0, None, None)
    assert nothing.error == math.inf


# ------------------------------------------------------------------------------------- by hand


def test_a_plan_by_hand_is_made_whether_blocks_will_agree_or_not() -> None:
    request = asked(4_000, FOUR, mask_accuracy=0.5, n_blocks=200)
    plan = plan_for(request).plan
    assert (plan.stage(Agreement).mask_accuracy, plan.stage(Agreement).n_blocks) == (0.5, 200)
    assert plan.budget.covers(plan.spent())
    assert frame_stage(4_000, 2, ONE, accuracy=0.5, n_blocks=200) is None
    with pytest.raises(InvalidInput, match="n_blocks = 10 is too few for the test to pass"):
        plan_for(request.but(n_blocks=10))


def test_by_hand_more_blocks_may_lie_farther_apart() -> None:
    few, many = (frame_by_hand(2, ONE, n_blocks=t) for t in (150, 1_000))
    assert few is not None
    assert many is not None
    assert many.share <= 0.3 < few.share
    few_radius, many_radius = (one.stage.tau for one in (few, many))  # type: ignore[attr-defined]
    assert few_radius < many_radius


ONE_COLUMN = Mixture([1.0], [[3.0]], [[[2.0]]])
WIDE_MASK = asked(20_000, ONE_COLUMN, epsilon=4.0, mask_accuracy=2.0, n_blocks=300)
"""With a mask accuracy of 2 some frames make waves wrap around; those are refused."""


def test_frames_that_noise_made_too_small_are_part_of_the_forecast() -> None:
    assert 0.95 < prospect(WIDE_MASK).pass_probability < 0.98
    # as it comes, the mask leaves no such frames
    assert prospect(asked(20_000, ONE_COLUMN)).pass_probability > 0.99


@pytest.mark.study
def test_so_many_frames_are_too_small() -> None:
    promised = prospect(WIDE_MASK)
    assert promised.plan is not None
    runs, chance = 300, promised.pass_probability
    results = (
        release(ONE_COLUMN.sample(20_000, rng=1000 + seed), promised.plan, rng=seed).result
        for seed in range(runs)
    )
    kept = sum(isinstance(result, Release) for result in results) / runs
    assert abs(kept - chance) < 4 * (chance * (1 - chance) / runs) ** 0.5
