"""Plans: what they hold, what they cost, and that tampering is noticed."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import operator
from typing import Any

import numpy as np
import pytest

from privgmm.budget import Budget
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.methods.plan import Plan
from privgmm.methods.planner import calibrate
from privgmm.privacy.curves import gaussian_curve, lifted_mask_curve, paper_mask_curve
from privgmm.stages.agreement import lemmas as constants
from privgmm.stages.agreement.lifted_space import mean_tolerance
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.stage import (
    Agreement,
    AveragedAgreement,
    ExactAgreement,
    PaperAgreement,
    PickedAgreement,
    friend_radius,
)
from privgmm.stages.agreement.votes import AgreementTest, core_sensitivity, required_separation
from privgmm.stages.refinement.noisy_moments import Refinement
from tests.plans import refined

CALIBRATED = ("paper", "tight", "lifted")
"""Methods that plan without a number of rows."""

REFINE = Refinement((60.0, 90.0), (4.0, 3.0))


def a_plan(method: str, *, k: int = 2, refine: Refinement | None = None) -> Plan:
    plan = calibrate(
        method, epsilon=1.0, delta=1e-6, alpha=0.6, n_components=k, n_features=2, n_blocks=300
    )
    return refined(plan, refine)


@pytest.mark.parametrize("method", CALIBRATED)
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("d", [1, 4])
def test_no_plan_costs_more_than_its_budget(method: str, k: int, d: int) -> None:
    for epsilon, delta in itertools.product((0.2, 1.0, 6.0), (1e-9, 1e-3)):
        try:
            plan = calibrate(
                method,
                epsilon=epsilon,
                delta=delta,
                alpha=0.4,
                n_components=k,
                n_features=d,
                n_blocks=400,
            )
        except InvalidInput as problem:
            assert "n_blocks" in str(problem)  # noqa: PT017 - some corners have too few blocks
            continue
        spent = plan.spent()
        assert spent.epsilon <= epsilon * (1 + 1e-9)
        assert spent.delta <= delta * (1 + 1e-9)
        if method == "tight":
            # and nothing is left on the table
            assert spent.epsilon >= 0.99 * epsilon


def test_the_lifted_account_is_the_sum_of_its_parts() -> None:
    plan = a_plan("lifted", refine=REFINE)
    stage = plan.stage(AveragedAgreement)
    t, G = stage.n_blocks, stage.test.core
    L = stage.test.full - stage.test.member + 1
    gamma = 2 * stage.tau * (1 + (t - G) / L) / G + 2 * mean_tolerance(stage.tau)
    assert stage.gamma == pytest.approx(gamma, rel=1e-12)
    total = gaussian_curve(stage.test.sigma) + 2 * lifted_mask_curve(gamma, stage.eta, 3)
    total = total + gaussian_curve(60.0) + gaussian_curve(90.0)
    assert plan.spent().epsilon == pytest.approx(total.epsilon(1e-6), rel=1e-9)


def test_the_tight_account_is_the_sum_of_its_parts() -> None:
    plan = a_plan("tight")
    stage = plan.stage(PickedAgreement)
    s = stage.space
    gamma = (1 + stage.tau) ** 2 - 1
    assert gamma <= stage.gamma
    mask = paper_mask_curve(gamma, s.eta_weight, s.eta_mean, s.eta_cov, 2)
    total = gaussian_curve(stage.test.sigma) + 2 * mask
    assert plan.spent().epsilon == pytest.approx(total.epsilon(1e-6), rel=1e-7)


def test_the_papers_account_is_theorem_2_3() -> None:
    plan = calibrate("paper", epsilon=0.4, delta=1e-6, alpha=0.5, n_components=3, n_features=2)
    test = plan.stage(PaperAgreement).test
    e, inner = test.epsilon, test.delta
    part = constants.share_of_component(e, inner, 3)
    assert constants.mixture_price(part, 3).epsilon <= e
    assert plan.spent().epsilon == pytest.approx(2 * e)
    assert plan.spent().delta == pytest.approx(4 * math.exp(e) * inner)


def with_agreement(plan: Plan, **changes: Any) -> Plan:
    """Return the plan with its stage of agreement changed."""
    return plan.but(dataclasses.replace(plan.stage(Agreement), **changes), *plan.stages[1:])


def with_test(plan: Plan, **changes: Any) -> Plan:
    """Return the plan with its test changed."""
    return with_agreement(plan, test=dataclasses.replace(plan.stage(Agreement).test, **changes))  # type: ignore[type-var]


@pytest.mark.parametrize("method", CALIBRATED)
def test_a_larger_radius_or_less_noise_costs_more(method: str) -> None:
    plan = a_plan(method)
    stage = plan.stage(Agreement)
    wider = with_test(plan, radius=3 * stage.tau)
    space = stage.space
    if isinstance(space, PaperSpace):
        less = dataclasses.replace(space, eta_cov=space.eta_cov / 3)
        quieter = with_agreement(plan, space=less)
    else:
        quieter = with_agreement(plan, eta=space.noise()["eta"] / 3)
    for changed in (wider, quieter):
        assert changed.spent().epsilon > plan.spent().epsilon * 1.05
        assert not plan.budget.covers(changed.spent())


@pytest.mark.parametrize("method", ["tight", "lifted"])
def test_a_lower_threshold_costs_delta(method: str) -> None:
    plan = a_plan(method)
    eager = with_test(plan, threshold=plan.stage(ExactAgreement).test.threshold - 1)
    assert eager.spent().delta > plan.budget.delta
    assert not plan.budget.covers(eager.spent())


def test_labels_are_unique_for_any_test() -> None:
    """Separation and clearance follow from the test: no plan can hold others."""
    plan = a_plan("lifted")
    test = plan.stage(AveragedAgreement).test
    for member, full in ((test.member, test.full), (250, 260), (151, 151)):
        changed = with_test(plan, member=member, full=full, radius=0.2).stage(AveragedAgreement)
        needed = required_separation(changed.test, 2)
        assert changed.separation == needed > 0
        assert changed.space.clearance == needed * 0.2


@pytest.mark.parametrize("method", CALIBRATED)
@pytest.mark.parametrize(
    ("key", "factor"), [("gamma", 0.5), ("gamma", 1.001), ("separation", 0.9), ("tau", 1.5)]
)
def test_a_file_cannot_contradict_itself(method: str, key: str, factor: float) -> None:
    """What follows from other numbers is checked against them when a plan is read back."""
    plan = a_plan(method)
    data = plan.to_dict()
    assert Plan.from_dict(data) == plan
    data[key] = data[key] * factor if data[key] else 3.0
    with pytest.raises(InvalidInput, match=r"plan\.(gamma|separation)"):
        Plan.from_dict(data)


def test_gamma_as_older_versions_rounded_it_is_accepted() -> None:
    data = a_plan("tight").to_dict()
    data["gamma"] *= 1 + 2e-8
    assert Plan.from_dict(data) == a_plan("tight")


@pytest.mark.parametrize("method", CALIBRATED)
def test_the_blocks_of_a_plan_are_those_of_its_test(method: str) -> None:
    plan = a_plan(method)
    stage = plan.stage(Agreement)
    assert stage.n_blocks == stage.test.n_blocks == plan.to_dict()["n_blocks"] == 300


def test_one_component_needs_no_separation() -> None:
    plan = a_plan("lifted", k=1)
    stage = plan.stage(AveragedAgreement)
    assert stage.separation == stage.space.clearance == 0.0


def test_a_paper_plan_beyond_its_lemmas_is_not_private() -> None:
    plan = a_plan("paper")
    with pytest.raises(PrivGMMError, match="not differentially private"):
        with_test(plan, radius=0.4).spent()
    with pytest.raises(InvalidInput, match="priced by a theorem"):
        plan.curve()


def test_stages_may_fit_other_numbers_of_components_and_their_prices_add() -> None:
    """A first stage with one component, a last one with three, as `sketch` has them."""
    frame, last = a_plan("lifted", k=1).stage(Agreement), a_plan("lifted", k=3).stage(Agreement)
    three = a_plan("lifted", k=3)
    plan = three.but(frame, last, REFINE, budget=Budget(3.0, 1e-5))
    curves = [c for stage in plan.stages for c in stage.price().curves]
    assert len(curves) == 6, "two counts, two masks, two steps"
    total = functools.reduce(operator.add, curves)
    # the first gate excludes the rest; the second one's shortfall comes off delta
    later = last.price().shortfall
    assert 0 < later <= 1e-6
    assert plan.spent().epsilon == pytest.approx(total.epsilon(1e-5 - later), rel=1e-12)
    assert plan.spent().delta == 1e-5
    assert plan.stage(Agreement) is frame
    assert plan.stage(Refinement) is REFINE
    assert plan.explain().count("300 blocks") == 2


def test_a_plan_needs_a_stage() -> None:
    with pytest.raises(InvalidInput, match="at least one stage"):
        Plan(a_plan("lifted").request, ())


def test_two_steps_of_the_friend_radius_make_gamma() -> None:
    for gamma in (1e-12, 1e-3, 0.5, 3.0):
        tau = friend_radius(gamma)
        assert (1 + tau) ** 2 - 1 == pytest.approx(gamma, rel=1e-3 if gamma < 1e-9 else 1e-12)
        assert tau > gamma / 3 or gamma > 3 - 1e-9


def test_core_sensitivity_and_separation_by_hand() -> None:
    test = AgreementTest(100, 1.0, 1.0, 5, member=60, full=79, core=50)
    assert core_sensitivity(test) == pytest.approx((1 + 50 / 20) / 50)
    # 2 * 60 + 79 < 202: the members and the reference may have no common unchanged friend
    assert required_separation(test, 2) == 5.0
    assert required_separation(dataclasses.replace(test, full=82), 2) == 3.0
    assert required_separation(test, 1) == 0.0


@pytest.mark.parametrize("method", CALIBRATED)
def test_a_plan_as_plain_numbers(method: str) -> None:
    plan = a_plan(method, refine=REFINE if method == "lifted" else None)
    data = json.loads(json.dumps(plan.to_dict()))
    assert data["method"] == method
    assert (data["epsilon"], data["delta"], data["alpha"]) == (plan.budget.epsilon, 1e-6, 0.6)
    assert (data["n_components"], data["n_features"], data["n_blocks"]) == (2, 2, 300)
    assert data["tau"] == plan.stage(Agreement).tau
    assert data["gamma"] == plan.stage(Agreement).gamma
    assert {"m", "M", "G", "threshold"} <= data["test"].keys()
    assert ("bound" if method == "paper" else "sigma") in data["test"]
    noise = {"eta"} if method == "lifted" else {"eta_weight", "eta_mean", "eta_cov"}
    assert data["noise"].keys() == noise
    if method == "lifted":
        assert data["refine"]["steps"] == 2
    else:
        assert data["refine"] is None
    assert Plan.from_dict(data) == plan


@pytest.mark.parametrize("method", CALIBRATED)
def test_the_explanation_names_the_promise(method: str) -> None:
    plan = a_plan(method, refine=REFINE if method == "lifted" else None)
    text = plan.explain()
    assert f"{plan.spent().epsilon:.4g}" in text
    assert f"{plan.stage(Agreement).n_blocks} blocks" in text
    assert ("noisy passes" in text) == (method == "lifted")


def test_more_rows_make_a_release_likelier() -> None:
    plan = a_plan("lifted")
    rows = plan.rows_needed(0.9)
    chances = [plan.pass_probability(factor * rows) for factor in (0.5, 1.05, 3.0)]
    assert chances[0] < 0.9
    assert chances[1] >= 0.85
    assert np.all(np.diff(chances) >= 0)
    assert plan.rows_needed(0.5) <= rows


def test_a_plan_cannot_change() -> None:
    plan = a_plan("lifted")
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.n_components = 3  # type: ignore[misc]
    assert plan.budget == Budget(1.0, 1e-6)
