"""The Auto choice and what it counts on: no data, one answer, and the promise kept."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from privgmm.accuracy import covariance_eta, lifted_eta
from privgmm.budget import Budget
from privgmm.calibration import calibrate, component_gap
from privgmm.errors import InvalidInput
from privgmm.forecast import best_refinement, forecast_error
from privgmm.mixture import Mixture
from privgmm.outlook import OUTLOOKS, cheapest_core, expected_cores, outlook_at
from privgmm.plan import Plan, core_sensitivity, required_separation
from privgmm.planner import best_plan, lifted_feasible
from privgmm.refinement import Refinement
from privgmm.renyi import RenyiCurve, gaussian_curve
from privgmm.spaces.lifted import LiftedSpace
from privgmm.spaces.lifted_geometry import lift, lifted_distance
from privgmm.spread import component_weights

CASES = [(2, 2, 40_000, 1.0), (1, 5, 100_000, 1.0), (3, 2, 300_000, 0.5), (2, 1, 30_000, 2.0)]


@pytest.mark.parametrize(("k", "d", "n", "epsilon"), CASES)
def test_a_best_plan_keeps_its_budget_and_expects_to_pass(
    k: int, d: int, n: int, epsilon: float
) -> None:
    plan = best_plan(n, epsilon=epsilon, delta=1e-6, n_components=k, n_features=d)
    assert plan.budget.covers(plan.spent())
    assert plan.spent().epsilon > 0.99 * epsilon, "no budget is left lying about"
    assert plan.pass_probability(n) >= 0.93
    assert plan.refine is not None
    assert isinstance(plan.space, LiftedSpace)
    needed = required_separation(plan.test, k)  # type: ignore[arg-type]
    assert plan.separation == needed
    assert plan.space.clearance == pytest.approx(needed * plan.tau)


def test_the_same_question_gets_the_same_answer() -> None:
    args = {"epsilon": 1.0, "delta": 1e-6, "n_components": 2, "n_features": 2}
    assert best_plan(60_000, **args) == best_plan(60_000, **args)  # type: ignore[arg-type]


def test_more_rows_or_more_budget_promise_less_error() -> None:
    def error(n: int, epsilon: float) -> float:
        plan = best_plan(n, epsilon=epsilon, delta=1e-6, n_components=2, n_features=2)
        weights = component_weights(2, plan.smallest_weight)
        return forecast_error(n, weights, 2, plan.refine).total

    errors = [error(n, 1.0) for n in (30_000, 100_000, 1_000_000)]
    assert errors == sorted(errors, reverse=True)
    errors = [error(100_000, epsilon) for epsilon in (0.5, 1.0, 4.0)]
    assert errors == sorted(errors, reverse=True)


def test_too_few_rows_is_said_before_anything_is_spent() -> None:
    with pytest.raises(InvalidInput, match="no plan is expected to release"):
        best_plan(2_000, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    assert not lifted_feasible(2_000, Budget(1.0, 1e-6), 2, 2)
    assert lifted_feasible(60_000, Budget(1.0, 1e-6), 2, 2)


def test_the_other_methods_plan_too() -> None:
    paper = best_plan(10**6, method="paper", epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    assert paper.method == "paper"
    tight = best_plan(10**9, method="tight", epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    assert tight.method == "tight"
    assert tight.rows_needed() <= 10**9
    rougher = best_plan(
        4 * 10**8, method="tight", epsilon=1.0, delta=1e-6, n_components=2, n_features=2
    )
    assert rougher.alpha >= tight.alpha


def test_bad_questions() -> None:
    good = {"epsilon": 1.0, "delta": 1e-6, "n_components": 2, "n_features": 2}
    for change in (
        {"method": "magic"},
        {"n_components": 0},
        {"n_features": 1.5},
        {"epsilon": -1.0},
        {"delta": 1.0},
        {"smallest_weight": 0.7},
        {"separation": 0.0},
    ):
        with pytest.raises(InvalidInput):
            best_plan(50_000, **(good | change))


def test_component_gap_is_the_lifted_distance() -> None:
    for separation in (0.5, 2.0, 8.0):
        pair = lift(
            np.full(2, 0.5), np.array([[0.0, 0.0], [separation, 0.0]]), np.stack([np.eye(2)] * 2)
        )
        assert component_gap(separation) == pytest.approx(float(lifted_distance(pair[0], pair[1])))


def test_noise_levels_hold_what_they_promise() -> None:
    """Fresh draws miss alpha as often as they may."""
    rng = np.random.default_rng(11)
    for d, alpha, miss in ((2, 0.5, 0.05), (1, 2.0, 0.02), (4, 1.0, 0.1)):
        eta = lifted_eta(d, alpha, miss)
        sigma = np.linalg.svd(
            np.eye(d + 1) + eta * rng.standard_normal((20_000, d + 1, d + 1)), compute_uv=False
        )
        share = np.mean(2 * np.linalg.norm(np.log(sigma), axis=1) > alpha)
        assert share == pytest.approx(miss, abs=4 * math.sqrt(miss / 6_000))
        eta = covariance_eta(d, alpha, miss)
        lam = (
            np.linalg.svd(np.eye(d) + eta * rng.standard_normal((20_000, d, d)), compute_uv=False)
            ** 2
        )
        worst = np.maximum(np.linalg.norm(lam - 1, axis=1), np.linalg.norm(1 / lam - 1, axis=1))
        assert np.mean(worst > alpha) == pytest.approx(miss, abs=4 * math.sqrt(miss / 6_000))


def test_forecast_without_privacy_is_the_sampling_error() -> None:
    """Against simulated sample means and covariances of the smallest component."""
    n, d = 20_000, 3
    weights = component_weights(2, 0.3)
    forecast = forecast_error(n, weights, d, None)
    rng = np.random.default_rng(0)
    means, covariances = [], []
    for _ in range(200):
        rows = rng.standard_normal((round(n * 0.3), d))
        means.append(np.sum(rows.mean(axis=0) ** 2))
        covariances.append(np.sum((np.cov(rows.T) - np.eye(d)) ** 2))
    assert forecast.mean == pytest.approx(math.sqrt(np.mean(means)), rel=0.1)
    assert forecast.covariance == pytest.approx(math.sqrt(np.mean(covariances)), rel=0.1)


def test_noise_makes_the_forecast_worse() -> None:
    weights = component_weights(2)
    plain = forecast_error(50_000, weights, 2, None)
    quiet = forecast_error(50_000, weights, 2, Refinement((1.0,), (4.0,)))
    loud = forecast_error(50_000, weights, 2, Refinement((30.0,), (4.0,)))
    assert plain.total < quiet.total < loud.total


def test_a_refinement_uses_the_rest_of_the_budget() -> None:
    budget = Budget(1.0, 1e-6)
    fixed = gaussian_curve(8.0)
    found = best_refinement(100_000, component_weights(2), 2, 1.0, fixed, budget)
    assert found is not None
    total = fixed
    for multiplier in found[0].multipliers:
        total = total + gaussian_curve(multiplier)
    assert 0.999 * budget.epsilon <= total.epsilon(budget.delta) <= budget.epsilon
    spent = RenyiCurve(gaussian_curve(2.0).values)
    assert best_refinement(100_000, component_weights(2), 2, 1.0, spent, budget) is None


@pytest.mark.parametrize("outlook", OUTLOOKS)
def test_expected_cores_pass_and_clear(outlook: object) -> None:
    chosen = next(o for o in OUTLOOKS if o == outlook)
    cores = expected_cores(200, 400, (0.4, 0.6), 2, 1e-6, chosen)
    assert cores
    for core in cores:
        assert core.move == pytest.approx(core_sensitivity(core.test))
        clearance = required_separation(core.test, 2) * core.radius
        assert clearance <= chosen.reliance * component_gap(chosen.separation)
        full = np.full(200, 200)
        assert core.test.pass_probability(full) > 0.9
    best = cheapest_core(cores, 2, 2, 0.2)
    assert best in cores


def test_farther_components_leave_more_room() -> None:
    near = expected_cores(200, 80, (0.4, 0.6), 2, 1e-6, outlook_at(4.0))
    far = expected_cores(200, 80, (0.4, 0.6), 2, 1e-6, outlook_at(8.0))
    assert max(core.radius for core in far) > max(core.radius for core in near)


def test_calibrate_keeps_to_the_separation_it_is_told() -> None:
    def plan(separation: float) -> Plan:
        return calibrate(
            "lifted",
            epsilon=4.0,
            delta=1e-6,
            alpha=2.0,
            n_components=2,
            n_features=2,
            n_blocks=300,
            separation=separation,
        )

    for separation in (3.0, 5.0, 9.0):
        chosen = plan(separation)
        assert chosen.separation * chosen.tau < component_gap(separation)
    assert plan(3.0).tau < plan(9.0).tau


def test_plans_survive_a_change_of_units() -> None:
    """No length enters a plan: it holds for any affine image of the data."""
    plan = best_plan(50_000, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    assert all(
        isinstance(value, int | float | str | dict | list | None)
        for value in plan.to_dict().values()
    )
    truth = Mixture([0.4, 0.6], [[-4.0, 0.0], [4.0, 0.0]], [np.eye(2), np.eye(2)])
    moved = truth.transformed(np.diag([1e3, 1e-3]), [1e6, -5.0])
    one = lift(truth.weights, truth.means, truth.cholesky)
    two = lift(moved.weights, moved.means, moved.cholesky)
    assert float(lifted_distance(one[0], one[1])) == pytest.approx(
        float(lifted_distance(two[0], two[1])), rel=1e-6
    )
    assert dataclasses.replace(plan, smallest_weight=None).spent() == plan.spent()
