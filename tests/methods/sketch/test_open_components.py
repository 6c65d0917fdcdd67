"""A number of components left open: one policy for every door, one price, read back as written."""

from __future__ import annotations

import json

import pytest

from privgmm.errors import InvalidInput
from privgmm.methods import registry
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan, plan_for
from privgmm.methods.request import PlanRequest, components_asked

OPEN = PlanRequest(n_components=4, n_features=2, n_rows=20_000, choose_components=True)


def test_the_price_is_that_of_the_most() -> None:
    plan = plan_for(OPEN).plan
    fixed = plan_for(OPEN.but(choose_components=False)).plan
    assert plan.chooses_components
    assert not fixed.chooses_components
    assert plan.spent() == fixed.spent()
    assert plan.components_in_words() == "up to 4 components"
    assert "up to 4 components" in plan.explain()
    assert "Mixtures of up to 4 components are fitted" in plan.explain()


def test_it_comes_back_from_its_numbers() -> None:
    plan = plan_for(OPEN).plan
    written = json.loads(json.dumps(plan.to_dict()))
    assert Plan.from_dict(written) == plan
    written["finish"]["choose"] = "yes"
    with pytest.raises(InvalidInput, match="choose must be true or false"):
        Plan.from_dict(written)


def test_every_door_asks_the_same() -> None:
    plan = best_plan(
        20_000, epsilon=1.0, delta=1e-6, n_components="auto", max_components=4, n_features=2
    )
    assert plan == plan_for(OPEN).plan
    assert components_asked("auto", 4) == (4, True)
    assert components_asked(3, 4) == (3, False)
    with pytest.raises(InvalidInput, match="whole number or 'auto'"):
        components_asked("all")


@pytest.mark.parametrize("name", registry.names())
def test_only_methods_that_publish_a_sketch_can_be_asked(name: str) -> None:
    method = registry.get(name)
    if method.publishes_sketch:
        assert plan_for(OPEN.but(method=name)).plan.chooses_components
        return
    with pytest.raises(InvalidInput, match=r"publishes no sketch to choose it from: .* 'sketch'"):
        plan_for(OPEN.but(method=name))
