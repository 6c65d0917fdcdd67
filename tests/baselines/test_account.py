"""What baselines pay: held against another library's account, exact laws and drawn losses."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant

from privgmm import Budget
from privgmm.arrays import Array
from privgmm.audit.privacy_loss import measured_delta
from privgmm.baselines import Baseline, all_baselines
from privgmm.baselines.account import NoiseAccount
from privgmm.baselines.histogram import COUNT_SENSITIVITY
from privgmm.privacy.curves import gaussian_losses
from privgmm.privacy.noise import DiscreteGaussian

BUDGETS = (Budget(0.1, 1e-8), Budget(1.0, 1e-6), Budget(8.0, 1e-5))
CASES = [
    pytest.param(baseline, budget, id=f"{baseline.name}-{budget.epsilon:g}")
    for baseline, budget in itertools.product(all_baselines(), BUDGETS)
]


@pytest.mark.parametrize(("baseline", "budget"), CASES)
def test_all_draws_together_cost_what_dp_accounting_says(
    baseline: Baseline, budget: Budget
) -> None:
    account = baseline.account(budget)
    spent = account.spend(budget.delta).budget
    assert budget.covers(spent)
    # as little noise as the budget allows
    assert spent.epsilon > 0.99 * budget.epsilon
    sigma = account.multiplier / math.sqrt(account.draws)
    theirs = pld.from_gaussian_mechanism(sigma, value_discretization_interval=1e-4)
    exact = theirs.get_epsilon_for_delta(budget.delta)
    # counts are small integers, for which less is known than for continuous noise
    lost = 0.25 if account.sensitivity < 2 else 0.002
    assert (1 - lost) * spent.epsilon <= exact <= spent.epsilon * (1 + 2e-3)
    events = dp_event.SelfComposedDpEvent(
        dp_event.GaussianDpEvent(account.multiplier), account.draws
    )
    loose = RdpAccountant().compose(events).get_epsilon(budget.delta)
    assert loose >= spent.epsilon * (1 - 1e-6)


@pytest.mark.parametrize(("baseline", "budget"), CASES)
def test_less_noise_or_one_draw_more_is_noticed(baseline: Baseline, budget: Budget) -> None:
    account = baseline.account(budget)
    for broken in (
        NoiseAccount(0.9 * account.multiplier, account.draws, account.sensitivity),
        NoiseAccount(account.multiplier, account.draws + 1, account.sensitivity),
        # the sensitivity of adding a row, where one is replaced
        NoiseAccount(account.multiplier / math.sqrt(2), account.draws, account.sensitivity),
    ):
        assert not budget.covers(broken.spend(budget.delta).budget)


@pytest.mark.parametrize("budget", BUDGETS)
def test_noisy_counts_are_as_private_as_stated_by_their_exact_law(budget: Budget) -> None:
    """One count falls by one, another rises by one: delta by summing the law over both."""
    account = NoiseAccount.for_budget(budget, 1, COUNT_SENSITIVITY)

    def delta(sigma: float) -> float:
        law = DiscreteGaussian(sigma)
        keep = law.probabilities > 1e-22
        z, p = law.support[keep], law.probabilities[keep]
        # ln P(z1, z2) / P(z1 + 1, z2 - 1), from both coordinates
        one = ((z + 1) ** 2 - z**2) / (2 * sigma**2)
        two = ((z - 1) ** 2 - z**2) / (2 * sigma**2)
        losses = one[:, None] + two[None, :]
        excess = -np.expm1(np.minimum(budget.epsilon - losses, 0.0))
        return float((p[:, None] * p[None, :] * excess).sum())

    sigma = account.multiplier * COUNT_SENSITIVITY
    assert delta(sigma) <= budget.delta
    assert delta(0.8 * sigma) > budget.delta
    assert delta(sigma / math.sqrt(2)) > budget.delta


def worst_losses(account: NoiseAccount, rng: np.random.Generator) -> Array:
    """Privacy losses of all draws, where every statistic moves by its sensitivity."""
    return gaussian_losses(account.multiplier / math.sqrt(account.draws), 400_000, rng=rng)


@pytest.mark.parametrize("baseline", all_baselines(), ids=lambda baseline: baseline.name)
def test_drawn_losses_stay_below_the_promise(baseline: Baseline) -> None:
    """At a delta that draws can show."""
    budget = Budget(1.0, 1e-2)
    account = baseline.account(budget)
    rng = np.random.default_rng(5)
    kept = measured_delta(worst_losses(account, rng), [budget.epsilon])
    assert kept.low[0] <= budget.delta
    broken = NoiseAccount(0.6 * account.multiplier, account.draws, account.sensitivity)
    lost = measured_delta(worst_losses(broken, rng), [budget.epsilon])
    assert lost.low[0] > budget.delta
