"""What the pages tell before anything is spent: one number of rows, and a chance that is true."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from privgmm.dashboard.planner.solve import SOLVE_ROWS, PlannerQuestion, solution_of
from privgmm.dashboard.shared.answers import chance_for, rows_to_release
from privgmm.data.generators import random_mixture, well_separated
from privgmm.errors import InvalidInput
from privgmm.methods import registry
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest
from privgmm.results import Refusal
from tests.cli.command_result import CommandResult

ASKED = PlanRequest(n_components=2, n_features=2, n_rows=100_000, method="lifted")


def refused(request: PlanRequest) -> Refusal:
    """The refusal that the plan of a request would end in."""
    plan = plan_for(request).plan
    return Refusal(plan=plan, budget=plan.budget, seeded=False, n_units=request.rows, why="No.")


@pytest.mark.parametrize("method", registry.names())
def test_one_number_of_rows(method: str, run: Callable[..., CommandResult]) -> None:
    """Explore, Planner, command line and a refusal answer the same question alike."""
    request = ASKED.but(method=method)
    told = rows_to_release(request).result(60)
    assert solution_of(PlannerQuestion(SOLVE_ROWS, request), method).result(60) == told
    assert refused(request).rows_needed == told
    answer = json.loads(run("plan", "--k", 2, "--d", 2, "--json").out)
    assert answer["rows_needed"][method] == told


@pytest.mark.parametrize(
    "changes",
    [
        {"mask_accuracy": 0.4, "n_blocks": 150},
        {"mask_accuracy": 2.0, "n_blocks": 300},
        {"method": "tight"},
        {"method": "tight", "mask_accuracy": 0.3, "n_blocks": 200},
        {"method": "sketch", "mask_accuracy": 1.0, "n_blocks": 120},
    ],
)
def test_what_is_set_by_hand_is_told_as_a_refusal_tells_it(changes: dict[str, object]) -> None:
    request = ASKED.but(**changes)
    assert rows_to_release(request).result(60) == refused(request).rows_needed


def test_chances_follow_the_mixture_behind_the_rows() -> None:
    request = ASKED.but(n_components=3)
    near = chance_for(request, random_mixture(3, 2, separation=3.0, rng=1)).result(60)
    far = chance_for(request, random_mixture(3, 2, separation=7.0, rng=1)).result(60)
    unknown = chance_for(request, None).result(60)
    assert near.chance < 0.2
    assert far.chance > 0.9
    assert unknown.chance > 0.9
    assert far.expected_error is not None
    assert 0 < far.expected_error.low < far.expected_error.high < 1


def test_rows_that_cannot_fill_the_blocks_have_no_chance() -> None:
    request = ASKED.but(n_rows=1_000, mask_accuracy=0.5, n_blocks=400)
    assert chance_for(request, well_separated(2, 2, rng=1)).result(60).chance == 0.0


def test_without_a_plan_the_reason_is_told() -> None:
    problem = chance_for(ASKED.but(n_rows=1_000), None).exception(60)
    assert isinstance(problem, InvalidInput)
    assert "takes about" in str(problem)
