"""Every request gets a plan, or an `InvalidInput` that says why there is none; and soon."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privgmm import PrivateGaussianMixture
from privgmm.errors import InvalidInput
from privgmm.methods import registry
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest
from privgmm.methods.sketch.frames import frame_stage, histogram_stage
from privgmm.methods.what_if import along_rows, epsilon_for, prospect, rows_for
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.sketch.stage import Sketch

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


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 300.0])
@pytest.mark.parametrize("n", [2, 40, 500])
def test_extreme_budgets_get_a_plan_in_words_or_a_reason(n: int, epsilon: float) -> None:
    """A budget may be so small that nothing of it is left."""
    for d, delta in itertools.product((1, 2, 10, 15), (1e-12, 0.3)):
        request = asked(1, d, n, epsilon, delta=delta)
        if answer(request):
            found = plan_for(request)
            assert "except with probability" in found.plan.explain()


@pytest.mark.parametrize(
    "epsilon", [40.0, 150.0, 300.0, 500.0, 700.0, 720.0, 1e3, 2e3, 1e4, 1e5, 1e6, 1e9]
)
def test_any_large_epsilon_gets_a_plan_or_a_reason(epsilon: float) -> None:
    for n, (k, d), knob in itertools.product(
        (60, 500, 10_000), ((1, 1), (2, 2), (3, 12)), ({}, {"n_blocks": 50})
    ):
        answer(asked(k, d, n, epsilon, **knob))


@pytest.mark.parametrize("method", ["lifted", "tight", "paper"])
@pytest.mark.parametrize("epsilon", [100.0, 300.0, 1e3, 1e5])
def test_large_epsilons_are_answered_by_other_methods_too(method: str, epsilon: float) -> None:
    for n in (500, 10_000):
        answer(asked(2, 2, n, epsilon, method=method))


@settings(max_examples=60, deadline=None)
@given(
    epsilon=st.floats(1e-3, 1e6),
    n=st.integers(2, 10**6),
    d=st.integers(1, 12),
    delta=st.sampled_from([1e-9, 1e-6, 1e-3]),
)
def test_any_epsilon_and_rows_get_a_plan_or_a_reason(
    epsilon: float, n: int, d: int, delta: float
) -> None:
    answer(asked(2, d, n, epsilon, delta=delta))


@pytest.mark.parametrize("multiplier", [3e-3, 2e-3, 1e-3, 1e-5, 1e-30, 1e-140])
def test_a_plan_with_hardly_any_noise_is_dear(multiplier: float) -> None:
    """Such a plan was once priced at an epsilon of 1e-12, and a file may hold any plan."""
    plan = plan_for(asked(2, 2, 10_000)).plan
    frame, sketch, finish = plan.stages[0], plan.stage(Sketch), plan.stage(Finish)
    for quiet in (
        (dataclasses.replace(sketch, multiplier=multiplier), finish),
        (sketch, dataclasses.replace(finish, multiplier=multiplier)),
    ):
        spoiled = plan.but(frame, *quiet)
        with np.errstate(all="ignore"):
            try:
                spent = spoiled.spent()
            except (InvalidInput, ArithmeticError):
                continue
            assert spent.epsilon >= 0.5 / multiplier**2
            assert not plan.budget.covers(spent)
            assert spoiled.ceiling > 0.999


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


@pytest.mark.parametrize(
    "knob", [{"mask_accuracy": 1.0}, {"n_blocks": 12}, {"mask_accuracy": 1.0, "n_blocks": 12}]
)
def test_few_rows_by_hand(knob: dict[str, Any]) -> None:
    for epsilon, d, n in itertools.product(LARGE_EPSILONS, COLUMNS, (40, 70, 100)):
        answer(asked(2, d, n, epsilon, **knob))


@pytest.mark.parametrize("method", ["tight", "paper"])
def test_many_components_are_answered_by_the_paper_too(method: str) -> None:
    found = plan_for(asked(500, 2, 100_000, method=method))
    assert found.shortage is not None
    assert float(found.shortage.facts["needed"]) > 1e12
    with pytest.raises(InvalidInput, match=r"n_components must be at most 1,000 .* simulating"):
        plan_for(asked(1001, 2, 100_000, method=method))


@pytest.mark.parametrize("method", ["sketch", "lifted"])
@pytest.mark.parametrize("k", [200, 500, 10**6])
def test_too_many_components_are_refused_at_once_and_with_a_reason(method: str, k: int) -> None:
    began = time.process_time()
    with pytest.raises(InvalidInput, match=r"n_components must be at most \d+ for") as found:
        plan_for(asked(k, 2, 100_000, method=method))
    assert "many minutes" in str(found.value)
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
    request = asked(60, 2, None, method="lifted", mask_accuracy=1.0, n_blocks=400)
    registry.get("lifted").check(request)
    assert math.isfinite(registry.get("lifted").calibrated(request).spent().epsilon)
