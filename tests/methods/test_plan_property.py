"""Ten thousand random plans: none costs more than its budget."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy.stats import chi

from privgmm.errors import InvalidInput
from privgmm.methods import cores, tight
from privgmm.methods.plan import Plan
from privgmm.methods.planner import calibrate
from privgmm.privacy.curves import ORDERS
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.stage import AveragedAgreement
from privgmm.stages.refinement.noisy_moments import Refinement
from tests.plans import refined

COUNTS: dict[str, int] = {"paper": 3_000, "tight": 120, "lifted": 80}
"""Plans per method in every run of the tests. `make audit` draws ten thousand, evenly."""


def random_plan(method: str, rng: np.random.Generator) -> Plan | None:
    """Make a plan with random parameters; None if the blocks are too few for the budget."""
    epsilon, delta = float(np.exp(rng.uniform(-4, 3))), float(10 ** rng.uniform(-12, -1.5))
    try:
        return calibrate(
            method,
            epsilon=epsilon,
            delta=delta,
            alpha=float(np.exp(rng.uniform(-4, 0 if method != "lifted" else 1))),
            beta=float(rng.uniform(0.01, 0.5)),
            n_components=int(rng.integers(1, 9)),
            n_features=int(rng.integers(1, 9)),
            n_blocks=int(np.exp(rng.uniform(math.log(5), math.log(1000)))),
            separation=float(np.exp(rng.uniform(0, 3))),
        )
    except InvalidInput as problem:
        # an honest refusal that says what to change, not a failed check of the price
        message = str(problem)
        if "n_blocks" not in message and "raise epsilon" not in message:
            raise
        return None


def within_budget(plan: Plan) -> bool:
    spent = plan.spent()
    return (
        spent.epsilon <= plan.budget.epsilon * (1 + 1e-9)
        and spent.delta <= plan.budget.delta * (1 + 1e-9)
        and spent.epsilon > 0
    )


def quick_eta(n_features: int, alpha: float, miss: float) -> float:
    """Approximate the noise for accuracy alpha: the price of a plan holds for any eta."""
    return alpha / (2 * float(chi.isf(miss, (n_features + 1) * (n_features + 2) / 2)))


@pytest.mark.parametrize("method", list(COUNTS))
def test_random_plans_are_within_their_budgets(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accuracy constants are replaced by a formula, for speed; everything else is real."""
    monkeypatch.setattr(cores, "lifted_eta", quick_eta)
    monkeypatch.setattr(tight, "covariance_eta", quick_eta)
    rng = np.random.default_rng(20230609)
    plans, refused = 0, 0
    while plans < COUNTS[method]:
        plan = random_plan(method, rng)
        if plan is None:
            refused += 1
            continue
        plans += 1
        assert within_budget(plan), plan
    assert refused < 3 * plans


@pytest.mark.study
@pytest.mark.parametrize(("method", "count"), [("paper", 3400), ("tight", 3300), ("lifted", 3300)])
def test_random_plans_with_real_accuracy_constants(method: str, count: int) -> None:
    rng = np.random.default_rng(306)
    plans = 0
    while plans < count:
        plan = random_plan(method, rng)
        if plan is not None:
            plans += 1
            assert within_budget(plan), plan


@pytest.mark.parametrize("steps", [(), (40.0,), (25.0, 60.0, 90.0)])
@pytest.mark.parametrize("delta", [1e-3, 1e-7])
def test_noisy_counts_and_sums_cost_what_dp_accounting_says(
    steps: tuple[float, ...], delta: float
) -> None:
    """With a mask that costs nothing the plan is a composition of Gaussian events."""
    refine = Refinement(steps, (4.0,) * len(steps)) if steps else None
    plan = calibrate(
        "lifted",
        epsilon=2.0,
        delta=delta,
        alpha=1.0,
        n_components=2,
        n_features=2,
        n_blocks=300,
    )
    plan = refined(plan, refine)
    stage = plan.stage(AveragedAgreement)
    still = dataclasses.replace(stage.test, radius=1e-12)
    free = plan.but(dataclasses.replace(stage, test=still, eta=1e6), *plan.stages[1:])
    accountant = RdpAccountant(orders=ORDERS.tolist())
    for multiplier in (stage.test.sigma, *steps):
        accountant.compose(dp_event.GaussianDpEvent(multiplier))
    assert free.spent().epsilon == pytest.approx(accountant.get_epsilon(delta), rel=1e-6)
    assert free.spent().epsilon < plan.spent().epsilon


def test_the_price_of_a_threshold_is_its_tail() -> None:
    """Lowering the threshold raises the delta spent, exactly by the law of the noise."""
    plan = calibrate(
        "lifted", epsilon=1.0, delta=1e-6, alpha=1.0, n_components=1, n_features=2, n_blocks=200
    )
    stage = plan.stage(AveragedAgreement)
    law = DiscreteGaussian(stage.test.sigma)
    for lower in range(1, stage.test.threshold):
        test = dataclasses.replace(stage.test, threshold=stage.test.threshold - lower)
        spent = plan.but(dataclasses.replace(stage, test=test)).spent()
        tail = float(law.probabilities[law.support >= test.threshold].sum())
        assert spent.delta == pytest.approx(max(tail, 1e-6), rel=1e-12)
        assert not plan.budget.covers(spent) or tail <= 1e-6


def test_every_corner_of_the_promise() -> None:
    """The ends of the ranges, where root finders stop at their bounds."""
    seen = 0
    for epsilon, delta, alpha in itertools.product((1e-3, 20.0), (1e-15, 0.4), (1e-3, 1.0)):
        for method in COUNTS:
            try:
                plan = calibrate(
                    method,
                    epsilon=epsilon,
                    delta=delta,
                    alpha=alpha,
                    n_components=2,
                    n_features=1,
                    n_blocks=1000,
                )
            except InvalidInput:
                continue
            seen += 1
            assert within_budget(plan)
    assert seen >= 12
