"""Method auto: the least expected error among the methods that are expected to release."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from privgmm import METHODS, best_plan
from privgmm.errors import InvalidInput
from privgmm.methods import choices, get, names, register, unregister
from privgmm.methods.method import PASS, Prospect
from privgmm.methods.plan import Plan
from privgmm.methods.planner import calibrate, plan_for
from privgmm.methods.request import DEFAULT_METHOD, PlanRequest
from privgmm.methods.what_if import along_rows, error_for, feasible, prospect, rows_for
from privgmm.stages.refinement.noisy_moments import Refinement
from tests.methods.toy import ToyMethod

FORECASTING = tuple(name for name in METHODS if not get(name).error_is_promised)


def asked(k: int, d: int, n: int | None, **more: Any) -> PlanRequest:
    return PlanRequest(n_components=k, n_features=d, n_rows=n, **more)


def test_it_is_the_default_and_can_be_asked_for_but_is_not_one_of_the_methods() -> None:
    assert asked(2, 2, None).method == DEFAULT_METHOD == "auto"
    assert get("auto").name == "auto"
    assert "auto" not in METHODS
    assert "auto" not in names()
    assert choices() == ("auto", *names())
    with pytest.raises(InvalidInput, match="auto, paper, tight"):
        get("magic")
    with pytest.raises(InvalidInput, match="already"):
        register(get("auto"))


@pytest.mark.parametrize(
    ("k", "d", "n"), [(1, 1, 2_000), (2, 2, 30_000), (3, 5, 10**6), (8, 2, 10**6), (4, 8, 10**5)]
)
def test_no_method_that_would_release_expects_much_less(k: int, d: int, n: int) -> None:
    request = asked(k, d, n)
    chosen = prospect(request)
    assert chosen.pass_probability >= PASS
    assert chosen.plan is not None
    assert plan_for(request).plan == chosen.plan
    for name in FORECASTING:
        other = request.but(method=name)
        if feasible(other):
            assert chosen.error <= prospect(other).error / 0.9


def test_which_method_is_chosen_depends_on_the_problem() -> None:
    """More components in one column than a sketch can tell apart suit one, few rows the other."""
    few, many = prospect(asked(2, 2, 5_000)), prospect(asked(12, 1, 2 * 10**6, separation=8.0))
    assert few.method != many.method
    for seen in (few, many):
        assert seen.plan is not None
        assert seen.plan.method == seen.method


def test_a_plan_names_the_method_that_made_it_and_is_read_back() -> None:
    plan = best_plan(30_000, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    assert plan.method in FORECASTING
    assert Plan.from_dict(plan.to_dict()) == plan
    with pytest.raises(InvalidInput, match="names the method that made it"):
        Plan.from_dict(plan.to_dict() | {"method": "auto"})


def test_it_takes_the_fewest_rows_that_any_method_takes() -> None:
    request = asked(2, 2, None, epsilon=4.0)
    rows = rows_for(request)
    assert rows == min(rows_for(request.but(method=name)) for name in FORECASTING)
    assert feasible(request.but(n_rows=int(rows)))
    assert not feasible(request.but(n_rows=int(rows / 2)))


def test_where_nothing_releases_it_says_how_many_rows_would() -> None:
    few = asked(2, 2, 100)
    assert error_for(few) == math.inf
    assert prospect(few).plan is None
    with pytest.raises(InvalidInput, match="no plan is expected to release") as told:
        plan_for(few)
    assert f"takes about {rows_for(few):,.0f} rows" in str(told.value)
    with pytest.raises(InvalidInput, match="takes about"):
        best_plan(100, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)


def test_one_answer_along_rows_and_at_one_number_of_rows() -> None:
    request = asked(2, 2, None)
    sizes = [1_000, 20_000, 500_000]
    for n, seen in zip(sizes, along_rows(request, sizes), strict=True):
        assert seen == prospect(request.but(n_rows=n))


def test_knobs_set_by_hand_are_kept() -> None:
    both = plan_for(asked(2, 2, 90_000, alpha=1.5, n_blocks=300)).plan
    assert (both.alpha, both.n_blocks) == (1.5, 300)
    one = plan_for(asked(2, 2, 90_000, n_blocks=300)).plan
    assert one.n_blocks == 300
    steps = Refinement((60.0,), (4.0,))
    assert plan_for(asked(2, 2, 90_000, refine=steps)).plan.refine == steps


def test_real_rows_may_be_allowed_for() -> None:
    plan = plan_for(asked(2, 2, 30_000, forgiving=True)).plan
    assert plan.pass_probability(30_000) >= PASS


def test_without_rows_a_plan_by_hand_is_one_that_needs_none() -> None:
    options: dict[str, Any] = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "alpha": 1.0,
        "n_components": 2,
        "n_features": 2,
        "n_blocks": 300,
    }
    assert calibrate("auto", **options) == calibrate("lifted", **options)


class Clairvoyant(ToyMethod):
    """A method that expects next to no error, and is expected to release."""

    name = "clairvoyant"
    error_is_promised = False

    def error_for(self, request: PlanRequest) -> float:  # noqa: ARG002
        return 1e-9

    def feasible(self, request: PlanRequest) -> bool:  # noqa: ARG002
        return True

    def prospect(self, request: PlanRequest) -> Prospect:
        plan = self.automatic(request)
        return Prospect(self.name, request.rows, request.epsilon, 0.99, 1e-9, plan)


@pytest.fixture
def clairvoyant() -> Iterator[None]:
    register(Clairvoyant())
    yield
    unregister("clairvoyant")


@pytest.mark.usefixtures("clairvoyant")
def test_an_added_method_that_expects_less_is_taken() -> None:
    assert prospect(asked(2, 2, 50_000)).method == "clairvoyant"
    assert plan_for(asked(2, 2, 50_000)).plan.method == "clairvoyant"


def test_more_components_than_a_sketch_can_tell_apart_go_to_another_method() -> None:
    """A sketch in one dimension has forty numbers: thirteen components and no more."""
    many = asked(14, 1, 10**8)
    with pytest.raises(InvalidInput, match="at most 13 components in 1 dim"):
        plan_for(many.but(method="sketch"))
    assert prospect(many).method == "lifted"
