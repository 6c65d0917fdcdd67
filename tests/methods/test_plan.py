"""Plans: what they hold, what they cost, and that tampering is noticed."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest

from privgmm.budget import Budget
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.methods import METHODS
from privgmm.methods.plan import Method, Plan
from privgmm.methods.planner import calibrate
from privgmm.privacy.curves import gaussian_curve, lifted_mask_curve, paper_mask_curve
from privgmm.stages.agreement import lemmas as constants
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.lifted_space import MEAN_TOLERANCE, LiftedSpace
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.stage import friend_radius
from privgmm.stages.agreement.votes import AgreementTest, core_sensitivity, required_separation
from privgmm.stages.refinement.noisy_moments import Refinement

REFINE = Refinement((60.0, 90.0), (4.0, 3.0))


def a_plan(method: Method, *, k: int = 2, refine: Refinement | None = None) -> Plan:
    return calibrate(
        method,
        epsilon=1.0,
        delta=1e-6,
        alpha=0.6,
        n_components=k,
        n_features=2,
        n_blocks=300,
        refine=refine,
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("d", [1, 4])
def test_no_plan_costs_more_than_its_budget(method: Method, k: int, d: int) -> None:
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
    assert isinstance(plan.test, AgreementTest)
    assert isinstance(plan.space, LiftedSpace)
    t, G = plan.n_blocks, plan.test.core
    L = plan.test.full - plan.test.member + 1
    gamma = 2 * plan.tau * (1 + (t - G) / L) / G + 2 * MEAN_TOLERANCE
    assert plan.gamma == pytest.approx(gamma, rel=1e-12)
    total = gaussian_curve(plan.test.sigma) + 2 * lifted_mask_curve(gamma, plan.space.eta, 3)
    total = total + gaussian_curve(60.0) + gaussian_curve(90.0)
    assert plan.spent().epsilon == pytest.approx(total.epsilon(1e-6), rel=1e-9)


def test_the_tight_account_is_the_sum_of_its_parts() -> None:
    plan = a_plan("tight")
    assert isinstance(plan.test, AgreementTest)
    assert isinstance(plan.space, PaperSpace)
    s = plan.space
    gamma = (1 + plan.tau) ** 2 - 1
    assert gamma <= plan.gamma
    mask = paper_mask_curve(gamma, s.eta_weight, s.eta_mean, s.eta_cov, 2)
    total = gaussian_curve(plan.test.sigma) + 2 * mask
    assert plan.spent().epsilon == pytest.approx(total.epsilon(1e-6), rel=1e-7)


def test_the_papers_account_is_theorem_2_3() -> None:
    plan = calibrate("paper", epsilon=0.4, delta=1e-6, alpha=0.5, n_components=3, n_features=2)
    assert isinstance(plan.test, PopulousTest)
    assert isinstance(plan.space, PaperSpace)
    e, inner = plan.test.epsilon, plan.test.delta
    part = constants.share_of_component(e, inner, 3)
    assert constants.mixture_price(part, 3).epsilon <= e
    assert plan.spent().epsilon == pytest.approx(2 * e)
    assert plan.spent().delta == pytest.approx(4 * math.exp(e) * inner)


@pytest.mark.parametrize("method", METHODS)
def test_a_larger_radius_or_less_noise_costs_more(method: Method) -> None:
    plan = a_plan(method)
    wider = dataclasses.replace(
        plan, test=dataclasses.replace(plan.test, radius=3 * plan.tau), separation=99.0
    )
    if isinstance(plan.space, LiftedSpace):
        wider = dataclasses.replace(
            wider, space=dataclasses.replace(plan.space, clearance=1e3 * plan.tau)
        )
        quieter: LiftedSpace | PaperSpace = dataclasses.replace(plan.space, eta=plan.space.eta / 3)
    else:
        quieter = dataclasses.replace(plan.space, eta_cov=plan.space.eta_cov / 3)
    for changed in (wider, dataclasses.replace(plan, space=quieter)):
        assert changed.spent().epsilon > plan.spent().epsilon * 1.05
        assert not plan.budget.covers(changed.spent())


@pytest.mark.parametrize("method", ["tight", "lifted"])
def test_a_lower_threshold_costs_delta(method: Method) -> None:
    plan = a_plan(method)
    assert isinstance(plan.test, AgreementTest)
    eager = dataclasses.replace(
        plan, test=dataclasses.replace(plan.test, threshold=plan.test.threshold - 1)
    )
    assert eager.spent().delta > plan.budget.delta
    assert not plan.budget.covers(eager.spent())


def test_labels_that_are_not_unique_are_not_private() -> None:
    plan = a_plan("lifted")
    assert isinstance(plan.space, LiftedSpace)
    needed = required_separation(plan.test, 2)  # type: ignore[arg-type]
    assert plan.separation >= needed > 0
    with pytest.raises(PrivGMMError, match="not private"):
        dataclasses.replace(plan, separation=needed - 0.5).spent()
    near = dataclasses.replace(plan.space, clearance=0.9 * needed * plan.tau)
    with pytest.raises(PrivGMMError, match="not private"):
        dataclasses.replace(plan, space=near).spent()


def test_one_component_needs_no_separation() -> None:
    plan = a_plan("lifted", k=1)
    assert plan.separation == 0.0
    assert isinstance(plan.space, LiftedSpace)
    assert plan.space.clearance == 0.0


def test_a_mismatched_paper_plan_is_not_private() -> None:
    plan = a_plan("paper")
    with pytest.raises(PrivGMMError, match="not private"):
        dataclasses.replace(plan, n_blocks=plan.n_blocks + 1).spent()
    wide = dataclasses.replace(plan.test, radius=0.4)
    with pytest.raises(PrivGMMError, match="not private"):
        dataclasses.replace(plan, test=wide).spent()
    with pytest.raises(InvalidInput, match="priced by Theorem"):
        plan.curve()


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


@pytest.mark.parametrize("method", METHODS)
def test_a_plan_as_plain_numbers(method: Method) -> None:
    plan = a_plan(method, refine=None if method == "paper" else REFINE)
    data = json.loads(json.dumps(plan.to_dict()))
    assert data["method"] == method
    assert (data["epsilon"], data["delta"], data["alpha"]) == (1.0, 1e-6, 0.6)
    assert (data["n_components"], data["n_features"], data["n_blocks"]) == (2, 2, 300)
    assert data["tau"] == plan.tau
    assert data["gamma"] == plan.gamma
    assert {"m", "M", "G", "threshold"} <= data["test"].keys()
    assert ("bound" if method == "paper" else "sigma") in data["test"]
    noise = {"eta"} if method == "lifted" else {"eta_weight", "eta_mean", "eta_cov"}
    assert data["noise"].keys() == noise
    if method == "paper":
        assert data["refine"] is None
    else:
        assert data["refine"]["steps"] == 2


@pytest.mark.parametrize("method", METHODS)
def test_the_explanation_names_the_promise(method: Method) -> None:
    plan = a_plan(method, refine=None if method == "paper" else REFINE)
    text = plan.explain()
    assert f"{plan.spent().epsilon:.4g}" in text
    assert f"{plan.n_blocks} blocks" in text
    assert ("noisy passes" in text) == (method != "paper")


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
        plan.gamma = 0.0  # type: ignore[misc]
    assert plan.budget == Budget(1.0, 1e-6)
