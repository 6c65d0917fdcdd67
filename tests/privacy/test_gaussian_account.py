"""Gaussian mechanisms priced exactly: never below the truth, and nowhere far above it."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.optimize import brentq
from scipy.stats import norm

from privgmm.arrays import Array
from privgmm.budget import Budget
from privgmm.errors import InvalidInput
from privgmm.privacy.composition import Price, price_of
from privgmm.privacy.curves import ORDERS, RenyiCurve, gaussian_curve
from privgmm.privacy.gaussian_account import (
    _SLACK,
    _log_delta,
    _log_suprema,
    discrete_mu_squared,
    epsilon_after,
    gaussian_delta,
    mu_squared_after,
)

NOTHING = RenyiCurve(np.zeros_like(ORDERS))
MUS = (0.003, 0.05, 0.236, 1.0, 3.0, 12.0)
DELTAS = (1e-2, 1e-6, 1e-10)


def textbook_delta(epsilon: float, mu: float) -> float:
    low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    return float(norm.sf(low) - math.exp(epsilon) * norm.sf(high))


def exact_epsilon(mu: float, delta: float) -> float:
    """The root of the textbook formula; zero where the noise alone is enough."""
    if textbook_delta(0.0, mu) <= delta:
        return 0.0
    high = mu**2 + 20 * mu
    return float(brentq(lambda e: textbook_delta(e, mu) - delta, 0.0, high, xtol=1e-13))


@pytest.mark.parametrize("mu", MUS)
def test_delta_is_the_textbook_formula(mu: float) -> None:
    for epsilon in np.linspace(-2 * mu, 4 * mu, 25).tolist():
        assert gaussian_delta(epsilon, mu) == pytest.approx(textbook_delta(epsilon, mu), rel=1e-8)


def test_delta_has_no_cancellation_far_out() -> None:
    """The slope of its logarithm is that of a normal tail, and it goes on falling."""
    t = np.linspace(1.0, 40.0, 400)
    for mu in (0.01, 0.3, 2.0):
        logs = _log_delta(t, mu)
        steps = np.diff(logs) / np.diff(t)
        assert (steps < 0).all()
        assert (np.diff(steps) < 1e-9).all(), "concave"


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("delta", DELTAS)
def test_alone_a_gaussian_costs_what_it_costs(mu: float, delta: float) -> None:
    exact = exact_epsilon(mu, delta)
    ours = epsilon_after(NOTHING, mu**2, delta)
    assert ours >= exact * (1 - 1e-12)
    assert ours <= exact * (1 + 2e-4) + 1e-4 * mu
    if exact > 0:
        assert ours < gaussian_curve(1 / mu).epsilon(delta)


@pytest.mark.parametrize("mu", MUS)
def test_no_point_lies_above_the_top(mu: float) -> None:
    orders = np.array([1.01, 1.5, 3.0, 20.0, 400.0])
    tops = _log_suprema(orders, mu)
    for a, top in zip(orders.tolist(), tops.tolist(), strict=True):
        around = np.linspace(-12.0, mu**2 * a + 20 * mu + 2, 40_001)
        seen = float(np.nanmax(_log_delta(around, mu) + (a - 1) * around))
        assert seen <= top + 1e-9 * max(1.0, abs(top))
        assert top <= seen + 5e-2


@pytest.mark.parametrize("first", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_after_another_gaussian_known_by_its_curve(first: float, delta: float) -> None:
    """The truth is one Gaussian of both; the less the curve has to say, the nearer it is."""
    second = 0.22
    truth = exact_epsilon(math.hypot(first, second), delta)
    ours = epsilon_after(gaussian_curve(1 / first), second**2, delta)
    renyi = gaussian_curve(1 / math.hypot(first, second)).epsilon(delta)
    assert truth * (1 - 1e-12) <= ours < renyi
    assert ours - truth < 0.6 * (renyi - truth)
    if first == 0.01:
        assert ours == pytest.approx(truth, rel=1e-2)


@pytest.mark.parametrize("scale", [3.0, 20.0])
@pytest.mark.parametrize("mu", [0.1, 0.4])
def test_after_laplace_noise_by_an_accountant_of_loss_distributions(
    scale: float, mu: float
) -> None:
    a = ORDERS
    logs = np.logaddexp(
        np.log(a / (2 * a - 1)) + (a - 1) / scale, np.log((a - 1) / (2 * a - 1)) - a / scale
    )
    curve = RenyiCurve(logs / (a - 1))
    grid = 1e-3
    both = pld.from_laplace_mechanism(scale, value_discretization_interval=grid).compose(
        pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=grid)
    )
    for delta in (1e-3, 1e-6):
        truth = both.get_epsilon_for_delta(delta)
        ours = epsilon_after(curve, mu**2, delta)
        # theirs is rounded up, by a step of the grid for each mechanism
        assert ours >= truth - 3 * grid
        assert ours <= (curve + gaussian_curve(1 / mu)).epsilon(delta)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("before", [NOTHING, gaussian_curve(40.0), RenyiCurve(0.01 * ORDERS**0.5)])
def test_the_largest_mu_fits_and_a_larger_one_does_not(epsilon: float, before: RenyiCurve) -> None:
    for delta in (1e-4, 1e-8):
        most = mu_squared_after(before, epsilon, delta)
        if most == 0:
            assert before.epsilon(delta) > epsilon
            continue
        assert epsilon_after(before, most, delta) <= epsilon
        assert epsilon_after(before, most * 1.002, delta) > epsilon
        assert (before + gaussian_curve(most**-0.5)).epsilon(delta) > epsilon, "Rényi needs more"


def test_what_costs_more_than_all_leaves_nothing() -> None:
    assert mu_squared_after(RenyiCurve(np.full_like(ORDERS, 2.0)), 1.0, 1e-6) == 0.0


# ------------------------------------------------------------------------------- integers


def discrete(sigma: float, centre: int, values: Array) -> Array:
    weights = np.exp(-((values - centre) ** 2) / (2 * sigma**2))
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("sigma", [2.0, 3.0, 8.0])
def test_a_discrete_gaussian_is_drawn_from_a_continuous_one(sigma: float) -> None:
    """The two steps of the notes, by quadrature: the same law but for rounding."""
    z = np.arange(-60.0, 61.0)
    y = np.linspace(-60.0, 60.0, 24_001)
    density = norm.pdf(y, scale=math.sqrt(sigma**2 - 3)) * (y[1] - y[0])
    step = np.exp(-((z[:, None] - y) ** 2) / 6)
    law = (step / step.sum(axis=0)) @ density
    want = discrete(sigma, 0, z)
    near = (want > 1e-12) & (np.abs(z) < 40)
    assert np.abs(law[near] / want[near] - 1).max() < 1e-8


@pytest.mark.parametrize("sigma", [1.9, 2.5, 5.0])
@pytest.mark.parametrize("shift", [(1,), (1, 1), (2, 1)])
def test_discrete_noise_never_costs_more(sigma: float, shift: tuple[int, ...]) -> None:
    z = np.arange(-40.0, 41.0)
    here, there = np.ones(1), np.ones(1)
    for s in shift:
        here = np.multiply.outer(here, discrete(sigma, 0, z)).ravel()
        there = np.multiply.outer(there, discrete(sigma, s, z)).ravel()
    mu = math.sqrt(discrete_mu_squared(sigma, math.hypot(*shift)))
    for epsilon in np.linspace(0.0, 4.0, 41).tolist():
        seen = float(np.maximum(here - math.exp(epsilon) * there, 0).sum())
        assert seen <= gaussian_delta(epsilon, mu) + 1e-13


def test_the_factor_of_one_coordinate_is_as_stated() -> None:
    """Poisson's formula: sums over a shifted lattice differ by 4 exp(-2 pi^2 r) at most, r = 3."""
    digits = mpmath.mp.clone()
    digits.dps = 60
    z = range(-60, 61)
    sums = [
        digits.fsum(digits.exp(-((k - digits.mpf(y) / 10) ** 2) / 6) for k in z) for y in range(6)
    ]
    apart = max(sums) / min(sums) - 1
    assert 5e-26 < float(apart) < 1e-25


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("delta", DELTAS)
def test_factors_of_ten_to_the_eight_coordinates_cost_less_than_the_slack(
    mu: float, delta: float
) -> None:
    """By the slopes of delta(t): in mu it is phi(t/mu - mu/2), in t - e^t Phi(-t/mu - mu/2)."""
    t, factor = exact_epsilon(mu, delta), 1e8 * 1e-25
    gained = _SLACK * mu * norm.pdf(t / mu - mu / 2)
    lost = 2 * factor * math.exp(t) * norm.sf(t / mu + mu / 2) + factor * delta
    assert gained > lost


def test_as_if_it_were_continuous_it_would_cost_more_somewhere() -> None:
    """So the variance that is given up is needed."""
    z, sigma = np.arange(-40.0, 41.0), 0.6
    here, there = discrete(sigma, 0, z), discrete(sigma, 1, z)
    seen = [
        float(np.maximum(here - math.exp(e) * there, 0).sum()) - gaussian_delta(e, 1 / sigma)
        for e in np.linspace(0.0, 4.0, 41).tolist()
    ]
    assert max(seen) > 0.01
    assert discrete_mu_squared(sigma, 1.0) == math.inf
    assert epsilon_after(NOTHING, math.inf, 1e-6) == math.inf


# ---------------------------------------------------------------------------- composition


def test_a_release_takes_the_smaller_of_both_accounts() -> None:
    mask = RenyiCurve(0.002 * ORDERS)
    gate = Price((gaussian_curve(27.0), mask), 1e-7, gate=True)
    last = Price((gaussian_curve(5.0),), exact=True)
    plain = Price((gaussian_curve(5.0),))
    delta = 1e-6
    ours, renyi = price_of([gate, last], delta).budget, price_of([gate, plain], delta).budget
    assert ours.delta == renyi.delta == delta
    assert ours.epsilon == epsilon_after(gaussian_curve(27.0) + mask, last.mu_squared, delta)
    assert ours.epsilon < 0.97 * renyi.epsilon
    # only what comes last: before a curve, Gaussians count by their own
    assert price_of([last, Price((mask,))], delta) == price_of([plain, Price((mask,))], delta)
    # two in a row are one
    half = Price((gaussian_curve(5.0 * math.sqrt(2)),), exact=True)
    twice = price_of([gate, half, half], delta).budget
    assert twice.epsilon == pytest.approx(ours.epsilon, rel=1e-6)
    # curves are kept as they are, for what composes with other releases
    assert price_of([gate, last], delta).curve == price_of([gate, plain], delta).curve


def test_a_shortfall_is_taken_off_delta_first() -> None:
    price = Price((gaussian_curve(5.0),), 4e-7, exact=True)
    want = epsilon_after(NOTHING, price.mu_squared, 6e-7)
    assert price_of([price], 1e-6).budget.epsilon == pytest.approx(want, rel=1e-9)


def test_only_gaussians_are_priced_so() -> None:
    with pytest.raises(InvalidInput, match="only Gaussian mechanisms"):
        Price((RenyiCurve(0.01 * ORDERS),), exact=True)
    with pytest.raises(InvalidInput, match="only Gaussian mechanisms"):
        Price((), 1e-6, budget=Budget(1.0, 1e-6), exact=True)
    assert Price((gaussian_curve(2.0),)).mu_squared == math.inf
    with pytest.raises(InvalidInput, match="mu_squared must be positive"):
        epsilon_after(NOTHING, 0.0, 1e-6)


@pytest.mark.parametrize("exponent", [1.0, 2.0, 2.6, 2.65, 2.7, 3.0, 3.99, 4.01, 6.0, 10.0, 70.0])
def test_hardly_any_noise_is_never_cheap(exponent: float) -> None:
    """Rounding once found a price of zero from mu = 442 on: squares left nothing of differences."""
    mu = 10.0**exponent
    for delta in DELTAS:
        found = epsilon_after(NOTHING, mu**2, delta)
        # a log-likelihood ratio is normal around mu^2 / 2 with deviation mu
        assert found >= mu**2 / 2
        assert found <= gaussian_curve(1 / mu).epsilon(delta) * (1 + 1e-8)
    tops = _log_suprema(ORDERS, mu) if exponent <= 4 else None
    if tops is not None:
        # the value at a point that is nearly the top
        near = mu**2 * (ORDERS - 0.5)
        assert (tops >= (_log_delta(near, mu) + (ORDERS - 1) * near) * (1 - 1e-7)).all()


def test_noise_and_budget_fit_each_other_far_out() -> None:
    for epsilon in np.geomspace(100.0, 1e9, 40).tolist():
        found = mu_squared_after(NOTHING, epsilon, 1e-6)
        assert epsilon_after(NOTHING, found, 1e-6) <= epsilon * (1 + 1e-9)
        assert epsilon_after(NOTHING, found * 1.02, 1e-6) > epsilon
