"""Plans as events of Google's dp-accounting, priced by its accountants."""

from __future__ import annotations

import math
import sys

import pytest
from dp_accounting import ComposedDpEvent, GaussianDpEvent
from dp_accounting.dp_event import DpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.privacy_accountant import NeighboringRelation

from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan
from privgmm.methods.sketch.joining import joining_plan
from privgmm.mixture import Mixture
from privgmm.releases import Release, release

LINE = Mixture([0.4, 0.6], [[-4.0], [4.0]], [[[1.0]], [[2.0]]])


def planned(n: int, k: int = 2, d: int = 2, epsilon: float = 1.0) -> Plan:
    return best_plan(n, epsilon=epsilon, delta=1e-6, n_components=k, n_features=d)


def epsilon_by_google(event: DpEvent, delta: float) -> float:
    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE, 1e-4)
    return float(accountant.compose(event).get_epsilon(delta))


@pytest.mark.parametrize(
    ("n", "k", "d", "epsilon"), [(2_000, 2, 2, 1.0), (400, 2, 1, 4.0), (20_000, 1, 10, 0.5)]
)
def test_google_finds_the_price_that_the_plan_states(
    n: int, k: int, d: int, epsilon: float
) -> None:
    plan = planned(n, k, d, epsilon)
    stated = plan.spent()
    found = epsilon_by_google(plan.to_dp_event(), stated.delta - plan.price().shortfall)
    # its distributions are rounded upwards
    assert stated.epsilon * 0.999 <= found <= stated.epsilon * 1.01


def test_every_mechanism_is_an_event() -> None:
    plan = planned(2_000)
    event = plan.to_dp_event()
    assert isinstance(event, ComposedDpEvent)
    curves = [curve for stage in plan.stages for curve in stage.price().curves]
    assert len(event.events) == len(curves)
    assert all(isinstance(one, GaussianDpEvent) for one in event.events)
    noise = math.fsum((one.noise_multiplier / 2) ** -2 for one in event.events)
    exact = math.fsum(stage.price().mu_squared for stage in plan.stages)
    assert noise == pytest.approx(exact)


def test_a_holder_that_joins_has_one_event() -> None:
    rows = LINE.sample(3_000, rng=0)
    first = release(rows, planned(3_000, 2, 1, 4.0), rng=0).result
    assert isinstance(first, Release)
    assert first.sketch is not None
    plan = joining_plan(first.sketch, 3_000, planned(3_000, 2, 1, 4.0).budget)
    event = plan.to_dp_event()
    assert len(event.events) == 1
    found = epsilon_by_google(event, plan.budget.delta)
    assert found == pytest.approx(plan.spent().epsilon, rel=0.01)


def test_other_stages_have_no_event() -> None:
    with pytest.raises(InvalidInput, match=r"the stage 'agreement'.* of this plan is not"):
        best_plan(
            60_000, method="lifted", epsilon=1.0, delta=1e-6, n_components=2, n_features=2
        ).to_dp_event()


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(InvalidInput, match="pip install dp-accounting"):
        planned(2_000).to_dp_event()
