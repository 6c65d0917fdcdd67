"""Automatic plans and what they count on: no data, one answer, and the budget kept."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from privgmm.errors import InvalidInput
from privgmm.methods import registry
from privgmm.methods.cores import component_gap
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan, calibrate, is_hopeful, plan_for
from privgmm.methods.request import PlanRequest
from privgmm.methods.what_if import feasible
from privgmm.mixture import Mixture
from privgmm.stages.agreement.lifted_geometry import lift, lifted_distance
from privgmm.stages.agreement.scatter import component_weights
from privgmm.stages.agreement.stage import Agreement, AveragedAgreement
from privgmm.stages.agreement.votes import required_separation
from privgmm.stages.refinement.expected_error import forecast_error
from privgmm.stages.refinement.noisy_moments import Refinement


def asked(n: int, **more: Any) -> PlanRequest:
    """Request two components in the plane, at the default budget, by method lifted."""
    return PlanRequest(n_components=2, n_features=2, n_rows=n, **({"method": "lifted"} | more))


def lifted_plan(n: int, **more: Any) -> Plan:
    """Make the automatic plan of method lifted for two components in the plane."""
    usual = {"epsilon": 1.0, "delta": 1e-6, "n_components": 2, "n_features": 2}
    return best_plan(n, method="lifted", **(usual | more))


CASES = [(2, 2, 40_000, 1.0), (1, 5, 100_000, 1.0), (3, 2, 300_000, 0.5), (2, 1, 30_000, 2.0)]


@pytest.mark.parametrize(("k", "d", "n", "epsilon"), CASES)
def test_a_best_plan_keeps_its_budget_and_expects_to_pass(
    k: int, d: int, n: int, epsilon: float
) -> None:
    plan = lifted_plan(n, epsilon=epsilon, n_components=k, n_features=d)
    assert plan.budget.covers(plan.spent())
    assert plan.spent().epsilon > 0.99 * epsilon, "no budget is left lying about"
    assert plan.pass_probability(n) >= 0.93
    stage, _ = plan.stages
    assert isinstance(stage, AveragedAgreement)
    needed = required_separation(stage.test, k)
    assert stage.separation == needed
    assert stage.space.clearance == pytest.approx(needed * stage.tau)


def test_the_same_question_gets_the_same_answer() -> None:
    assert lifted_plan(60_000) == lifted_plan(60_000)


def test_more_rows_or_more_budget_promise_less_error() -> None:
    def error(n: int, epsilon: float) -> float:
        plan = lifted_plan(n, epsilon=epsilon)
        weights = component_weights(2, plan.stage(Agreement).smallest_weight)
        return forecast_error(n, weights, 2, plan.stage(Refinement)).total

    errors = [error(n, 1.0) for n in (30_000, 100_000, 1_000_000)]
    assert errors == sorted(errors, reverse=True)
    errors = [error(100_000, epsilon) for epsilon in (0.5, 1.0, 4.0)]
    assert errors == sorted(errors, reverse=True)


def test_too_few_rows_is_said_before_anything_is_spent() -> None:
    with pytest.raises(InvalidInput, match="no plan is expected to release"):
        lifted_plan(2_000)
    assert not feasible(asked(2_000))
    assert feasible(asked(60_000))


@pytest.mark.parametrize("method", registry.names())
@pytest.mark.parametrize("n", [300, 3_000, 60_000])
def test_what_is_hopeful_gets_a_plan_and_nothing_else(method: str, n: int) -> None:
    request = PlanRequest(
        n_components=2, n_features=2, n_rows=n, epsilon=0.3, delta=1e-6, method=method
    )
    try:
        plan_for(request)
        said = ""
    except InvalidInput as problem:
        said = str(problem)
    assert is_hopeful(request) == (not said.startswith("no plan is expected to release"))


def test_the_other_methods_plan_too() -> None:
    paper = best_plan(10**6, method="paper", epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    assert paper.method == "paper"
    tight = best_plan(10**9, method="tight", epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    assert tight.method == "tight"
    assert tight.rows_needed() <= 10**9
    rougher = best_plan(
        4 * 10**8, method="tight", epsilon=1.0, delta=1e-6, n_components=2, n_features=2
    )
    assert rougher.stage(Agreement).mask_accuracy >= tight.stage(Agreement).mask_accuracy


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
        assert chosen.stage(Agreement).separation * chosen.stage(Agreement).tau < component_gap(
            separation
        )
    assert plan(3.0).stage(Agreement).tau < plan(9.0).stage(Agreement).tau


def test_plans_survive_a_change_of_units() -> None:
    """No length enters a plan: it holds for any affine image of the data."""
    plan = lifted_plan(50_000)
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
    equal = dataclasses.replace(plan.stage(Agreement), smallest_weight=None)
    assert plan.but(equal, *plan.stages[1:]).spent() == plan.spent()


# ------------------------------------------------------------------ one policy for all doors


def test_everything_left_open_is_the_best_plan() -> None:
    answer = plan_for(asked(60_000))
    assert answer.plan == lifted_plan(60_000)
    assert answer.shortage is None


def test_everything_set_is_the_calibrated_plan_enough_rows_or_not() -> None:
    for n in (9_000, 90_000):
        answer = plan_for(asked(n, mask_accuracy=0.5, n_blocks=300))
        asked_for = calibrate(
            "lifted",
            epsilon=1.0,
            delta=1e-6,
            alpha=0.5,
            n_components=2,
            n_features=2,
            n_blocks=300,
        )
        assert answer.plan.stages == asked_for.stages
        assert answer.shortage is None


def test_an_open_knob_is_chosen_for_the_rows_and_the_other_kept() -> None:
    n = 200_000
    by_alpha = plan_for(asked(n, mask_accuracy=1.0))
    assert by_alpha.plan.stage(Agreement).mask_accuracy == 1.0
    assert len(by_alpha.plan.stages) == 1, "a mask set by hand is what comes out"
    assert by_alpha.plan.pass_probability(n) >= 0.93
    assert by_alpha.shortage is None
    by_blocks = plan_for(asked(n, n_blocks=250))
    assert by_blocks.plan.stage(Agreement).n_blocks == 250
    assert by_blocks.plan.stage(Refinement).steps
    assert by_blocks.shortage is None


def test_an_open_knob_with_too_few_rows_gets_its_usual_value_and_a_warning() -> None:
    answer = plan_for(asked(5_000, mask_accuracy=0.5))
    assert answer.plan.stage(Agreement).n_blocks == 400
    assert "there are 5,000" in str(answer.shortage)
    assert "n_blocks to try anyway" in str(answer.shortage)
    with pytest.raises(InvalidInput, match=r"no plan is expected .* method 'sketch' is expected"):
        plan_for(asked(5_000))
    with pytest.raises(InvalidInput) as told:
        plan_for(asked(100))
    assert "is expected to release from" not in str(told.value)


@pytest.mark.parametrize("method", ["paper", "tight"])
def test_methods_that_always_have_a_plan_say_when_it_is_not_expected_to_pass(
    method: str,
) -> None:
    for rows in (10**6, 1_800):
        # also where the blocks could not even be filled
        assert f"method {method!r} takes about" in str(
            plan_for(asked(rows, method=method)).shortage
        )
    short = plan_for(asked(10**6, method=method))
    assert "method 'sketch' is expected to release" in str(short.shortage)
    enough = asked(
        int(2 * short.plan.rows_needed()),
        method=method,
        mask_accuracy=short.plan.stage(Agreement).mask_accuracy,
    )
    assert plan_for(enough).shortage is None


def test_blocks_that_cannot_be_filled_are_named_with_the_unit() -> None:
    answer = plan_for(asked(1_000, mask_accuracy=0.5, n_blocks=300, unit="person"))
    assert "1,000 persons in 300 blocks leave 3 per block" in str(answer.shortage)
    with pytest.raises(InvalidInput, match="at most the 1,000 persons"):
        asked(1_000, mask_accuracy=0.5, n_blocks=10**4, unit="person")
