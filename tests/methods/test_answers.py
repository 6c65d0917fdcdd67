"""Every request gets a plan, or an `InvalidInput` that says why there is none; and soon."""

from __future__ import annotations

import itertools
import math
import time
from typing import Any

import numpy as np
import pytest

from privgmm import PrivateGaussianMixture
from privgmm.errors import InvalidInput
from privgmm.methods import registry
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest
from privgmm.methods.sketch.frames import frame_stage, histogram_stage
from privgmm.methods.what_if import along_rows, epsilon_for, prospect, rows_for

FEW_ROWS = (40, 50, 60, 70, 80, 100)
LARGE_EPSILONS = (8.0, 16.0, 50.0, 100.0)
COLUMNS = (1, 2, 5)


def asked(k: int, d: int, n: int | None, epsilon: float = 1.0, **more: Any) -> PlanRequest:
    return PlanRequest(n_components=k, n_features=d, n_rows=n, epsilon=epsilon, **more)


def answer(request: PlanRequest) -> bool:
    """Whether there is a plan; anything but a plan within its budget or an `InvalidInput` fails."""
    try:
        plan = plan_for(request).plan
    except InvalidInput:
        return False
    assert plan.budget.covers(plan.spent())
    return True


@pytest.mark.parametrize("n", FEW_ROWS)
def test_few_rows_and_much_budget_get_a_plan_or_a_reason(n: int) -> None:
    """Counts of so few rows get less noise than the exact account of integers can price."""
    for epsilon, d, k in itertools.product(LARGE_EPSILONS, COLUMNS, (1, 2)):
        request = asked(k, d, n, epsilon)
        seen = prospect(request)
        # a forecast says the same as the plan
        assert answer(request) == (seen.plan is not None and seen.pass_probability >= 0.95)


@pytest.mark.parametrize("n", FEW_ROWS)
def test_a_frame_that_is_chosen_leaves_something(n: int) -> None:
    for epsilon, d in itertools.product(LARGE_EPSILONS, COLUMNS):
        budget = asked(1, d, n, epsilon).budget
        for choice in (histogram_stage(n, d, budget), frame_stage(n, d, budget)):
            assert choice is None or choice.left > 0


def test_other_questions_about_few_rows_are_answered() -> None:
    for epsilon, d in itertools.product(LARGE_EPSILONS, COLUMNS):
        request = asked(2, d, 60, epsilon)
        assert rows_for(request.but(n_rows=None)) > 60
        assert epsilon_for(request) > 0
        found = along_rows(request, [40, 60, 1_000])
        assert [one.n_rows for one in found] == [40, 60, 1_000]
        assert found[-1].pass_probability > 0.9


@pytest.mark.parametrize("knob", [{"alpha": 1.0}, {"n_blocks": 12}, {"alpha": 1.0, "n_blocks": 12}])
def test_few_rows_by_hand(knob: dict[str, Any]) -> None:
    for epsilon, d, n in itertools.product(LARGE_EPSILONS, COLUMNS, (40, 70, 100)):
        answer(asked(2, d, n, epsilon, **knob))


@pytest.mark.parametrize("method", ["sketch", "lifted"])
@pytest.mark.parametrize("k", [200, 500, 10**6])
def test_too_many_components_are_refused_at_once_and_with_a_reason(method: str, k: int) -> None:
    began = time.process_time()
    with pytest.raises(InvalidInput, match=r"n_components must be at most \d+ for") as found:
        plan_for(asked(k, 2, 100_000, method=method))
    assert "does not resolve more" in str(found.value) or "simulating" in str(found.value)
    assert "use method" not in str(found.value), "no method is named that would refuse it too"
    with pytest.raises(InvalidInput, match="n_components must be at most"):
        rows_for(asked(k, 2, None, method=method))
    assert time.process_time() - began < 5


@pytest.mark.parametrize("method", ["sketch", "lifted"])
def test_the_estimator_refuses_five_hundred_components_at_once(method: str) -> None:
    rows = np.zeros((1_000, 2))
    began = time.process_time()
    with pytest.raises(InvalidInput, match="n_components must be at most"):
        PrivateGaussianMixture(500, method=method).fit(rows)
    assert time.process_time() - began < 5


def test_a_method_that_takes_more_components_is_named() -> None:
    request = asked(40, 10, 100_000)
    with pytest.raises(InvalidInput, match="ask for fewer, or use method 'lifted'"):
        plan_for(request)
    registry.get("lifted").check(request.but(method="lifted"))


def test_by_hand_lifted_takes_any_number_of_components() -> None:
    request = asked(60, 2, None, method="lifted", alpha=1.0, n_blocks=400)
    registry.get("lifted").check(request)
    assert math.isfinite(registry.get("lifted").calibrated(request).spent().epsilon)
