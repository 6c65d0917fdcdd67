"""Chances of a release at a known mixture, held against releases that were really made."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.data.generators import overlapping, random_mixture, well_separated
from privgmm.distances.parameters import dist_gmm
from privgmm.methods import registry
from privgmm.methods.chances import agreement_chance
from privgmm.methods.method import Outlook
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest
from privgmm.mixture import Mixture
from privgmm.releases import Release, release
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.agreement.votes import friend_counts

N = 100_000

SCENES = {
    "separation 3, lifted": ("lifted", random_mixture(3, 2, separation=3.0, rng=1), 3),
    "five columns, lifted": ("lifted", well_separated(3, 5, rng=1), 3),
    "well separated, lifted": ("lifted", well_separated(2, 2, rng=1), 2),
    "overlapping, lifted": ("lifted", overlapping(2, 2, rng=1), 2),
    "one component too few, lifted": ("lifted", well_separated(3, 2, rng=1), 2),
    "well separated, tight": ("tight", well_separated(2, 2, rng=1), 2),
    "separation 3, sketch": ("sketch", random_mixture(3, 2, separation=3.0, rng=1), 3),
    "one component too few, sketch": ("sketch", well_separated(3, 2, rng=1), 2),
}
QUICK = ("separation 3, lifted", "five columns, lifted", "well separated, lifted")


def looked_ahead(method: str, truth: Mixture, k: int, n: int = N) -> tuple[Outlook, PlanRequest]:
    request = PlanRequest(
        n_components=k, n_features=truth.n_features, n_rows=n, method=method, epsilon=1.0
    )
    plan = plan_for(request).plan
    return registry.get(plan.method).outlook(plan, truth, n), request


def released(truth: Mixture, request: PlanRequest, runs: int) -> list[Mixture]:
    """Return the mixtures released in a number of seeded runs, each on rows of its own."""
    plan = plan_for(request).plan
    found = (
        release(truth.sample(request.rows, rng=7_000 + seed), plan, rng=seed).result
        for seed in range(runs)
    )
    return [result.mixture for result in found if isinstance(result, Release)]


def agrees(chance: float, passed: int, runs: int) -> bool:
    """Check whether the number of passed runs is within four standard errors of the chance.

    The chance itself is off a little: a simulation of few blocks.
    """
    p = min(max(chance, 0.02), 0.98)
    return abs(passed - runs * chance) <= 4 * math.sqrt(runs * p * (1 - p)) + 0.1 * runs


@pytest.mark.filterwarnings("ignore::privgmm.errors.SeededRelease")
@pytest.mark.parametrize("scene", QUICK)
def test_no_tick_precedes_a_certain_refusal(scene: str) -> None:
    """Two of these were said to do by the law of well separated components, and never did."""
    method, truth, k = SCENES[scene]
    outlook, request = looked_ahead(method, truth, k)
    runs = 3
    passed = len(released(truth, request, runs))
    assert passed == (runs if outlook.chance > 0.9 else 0)
    assert outlook.chance > 0.9 or outlook.chance < 0.1


@pytest.mark.study
@pytest.mark.filterwarnings("ignore::privgmm.errors.SeededRelease")
@pytest.mark.parametrize("scene", SCENES)
def test_chances_and_errors_are_those_of_twenty_runs(scene: str) -> None:
    method, truth, k = SCENES[scene]
    outlook, request = looked_ahead(method, truth, k)
    mixtures = released(truth, request, 20)
    assert agrees(outlook.chance, len(mixtures), 20)
    if outlook.error is None or len(mixtures) < 10:
        return
    errors = [dist_gmm(mixture, truth) for mixture in mixtures]
    assert outlook.expected_error is not None
    assert outlook.expected_error.low <= np.median(errors) <= outlook.expected_error.high


def test_chances_rise_with_separation_and_rows() -> None:
    def chance(separation: float, n: int) -> float:
        truth = random_mixture(2, 2, separation=separation, rng=3)
        plan = plan_for(PlanRequest(n_components=2, n_features=2, n_rows=N, method="lifted")).plan
        return agreement_chance(plan.stage(Agreement), truth, n)

    by_separation = [chance(separation, N) for separation in (2.0, 3.5, 6.0)]
    assert by_separation == sorted(by_separation)
    assert by_separation[0] < 0.05
    assert by_separation[-1] > 0.95
    by_rows = [chance(6.0, n) for n in (100, 20_000, N, 50 * N)]
    assert by_rows == sorted(by_rows)
    assert by_rows[0] == 0.0
    assert by_rows[-1] > 0.95


def test_fits_of_more_rows_scatter_less_while_components_stay_apart() -> None:
    """Scaled distances of small blocks are those of large blocks."""
    truth = well_separated(2, 2, rng=5)
    plan = plan_for(PlanRequest(n_components=2, n_features=2, n_rows=N, method="lifted")).plan
    stage = plan.stage(Agreement)
    learner = stage.fitter(None)
    small, large = (
        learner.fit_blocks(truth.sample(60 * rows, rng=rows).reshape(60, rows, 2), rng=1)
        for rows in (1500, 6000)
    )
    scaled = stage.space.scattered(small, 0.5)
    themselves = stage.space.distances(large)
    pairs = np.triu_indices(60, 1)
    assert np.median(scaled[pairs]) == pytest.approx(np.median(themselves[pairs]), rel=0.15)
    radius = float(np.median(themselves[pairs]))
    both = [np.median(friend_counts(table, radius)) for table in (scaled, themselves)]
    assert both[0] == pytest.approx(both[1], rel=0.4)
    assert np.array_equal(stage.space.scattered(large, 1.0), themselves)


def test_another_number_of_components_has_a_chance_and_no_error() -> None:
    outlook, _ = looked_ahead("sketch", well_separated(3, 2, rng=1), 2)
    assert outlook.chance > 0.9
    assert outlook.error is None
