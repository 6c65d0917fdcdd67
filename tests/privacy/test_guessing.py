"""Bounds on an attacker's guesses against exact numbers: never below, and close."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from privgmm.arrays import Array
from privgmm.budget import Budget
from privgmm.errors import InvalidInput
from privgmm.privacy import guessing
from privgmm.privacy.curves import ORDERS, RenyiCurve, gaussian_curve, lifted_mask_curve
from privgmm.privacy.gaussian_pairs import GaussianPair, directions
from privgmm.privacy.guessing import Sight, Tradeoff, quadratic_variation, response_curve
from privgmm.privacy.noise import DiscreteGaussian

# ------------------------------------------------------------------------------ Gaussians


@pytest.mark.parametrize("mu", [0.05, 0.21, 1.0, 3.0])
def test_a_gaussian_mechanism_is_told_apart_as_dp_accounting_says(mu: float) -> None:
    """Their account is a second method: it rounds losses upwards, to a grid of 1e-4."""
    found = Sight(mu_squared=mu**2).tradeoff()
    theirs = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-4)
    for epsilon in (0.0, 0.3 * mu, mu, 2 * mu):
        delta = float(found.delta(epsilon))
        assert delta >= theirs.get_delta_for_epsilon(epsilon) - 1e-4
        # between two epsilons of its own it takes a chord
        assert delta <= 1.03 * theirs.get_delta_for_epsilon(epsilon) + 2e-4
    assert found.variation == pytest.approx(2 * norm.cdf(mu / 2) - 1, abs=2e-9)
    assert found.ceiling == pytest.approx(norm.cdf(mu / 2), abs=1e-9)


@pytest.mark.parametrize("mu", [0.1, 1.0])
def test_the_curve_of_a_gaussian_is_its_exact_trade_off(mu: float) -> None:
    alarms = np.linspace(0.0, 1.0, 41)
    exact = norm.cdf(norm.isf(alarms) - mu)
    found = Sight(mu_squared=mu**2).tradeoff().missed(alarms)
    assert np.all(found <= exact + 1e-12)
    assert found == pytest.approx(exact, abs=0.01 * mu)


# ----------------------------------------------------------------------------- trade-offs

BUDGETS = st.builds(
    Budget, st.floats(0.01, 12.0), st.floats(1e-9, 0.2, exclude_min=True, exclude_max=True)
)


@given(BUDGETS)
def test_a_budget_says_as_much_as_before(budget: Budget) -> None:
    found = Tradeoff.of_budget(budget)
    assert found.ceiling == pytest.approx(budget.guess_ceiling, rel=1e-12)
    alarms = np.linspace(0.0, 1.0, 21)
    grown = math.exp(budget.epsilon)
    known = np.maximum.reduce(
        [
            np.zeros_like(alarms),
            1 - budget.delta - grown * alarms,
            (1 - budget.delta - alarms) / grown,
        ]
    )
    assert found.missed(alarms) == pytest.approx(known, abs=1e-12)


@given(BUDGETS, st.floats(0.01, 3.0), st.floats(0.0, 0.3))
def test_trade_offs_are_convex_and_lie_below_a_coin(
    budget: Budget, mu: float, shortfall: float
) -> None:
    for found in (
        Tradeoff.of_budget(budget),
        Sight(mu_squared=mu**2, shortfall=shortfall).tradeoff(),
        Sight(mu_squared=mu**2).tradeoff().and_also(Tradeoff.of_budget(budget)),
    ):
        alarms = np.linspace(0.0, 1.0, 101)
        missed = found.missed(alarms)
        assert np.all(np.diff(missed) <= 1e-12)
        assert np.all(np.diff(missed, 2) >= -1e-12)
        assert np.all((missed >= 0) & (missed <= 1 - alarms + 1e-12))
        # the best guess lies on the curve
        assert (alarms + missed).min() >= 2 * (1 - found.ceiling) - 1e-12
        # no test can be used the other way round to beat it
        assert np.all(found.missed(missed) <= alarms + 1e-9)


def test_both_bounds_hold_and_none_exceeds_one() -> None:
    one, two = Tradeoff.of_budget(Budget(1.0, 0.01)), Sight(mu_squared=0.3).tradeoff()
    both = one.and_also(two)
    levels = np.linspace(0.0, 3.0, 50)
    assert np.all(both.delta(levels) <= np.minimum(one.delta(levels), two.delta(levels)) + 1e-9)
    assert both.variation == min(one.variation, two.variation)
    assert Tradeoff(two.epsilons, two.deltas + 2.0).variation == 1.0


def test_a_trade_off_is_checked() -> None:
    for epsilons, deltas in (([1.0], [0.1]), ([0.0, 0.0], [0.1, 0.1]), ([0.0], [-0.1]), ([], [])):
        with pytest.raises(InvalidInput, match="increase from 0"):
            Tradeoff(np.array(epsilons), np.array(deltas))


@given(st.floats(-4.0, 4.0), st.floats(0.05, 2.0))
def test_any_epsilon_may_be_asked_for(epsilon: float, mu: float) -> None:
    """Negative ones by the swapped pair."""
    exact = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    found = float(Sight(mu_squared=mu**2).tradeoff().delta(epsilon))
    assert exact - 1e-12 <= found <= exact + 0.06 * mu


# ------------------------------------------------------------ by a curve, then a Gaussian


def _two_laws(weights: list[float], losses: list[float]) -> tuple[Array, Array]:
    """Laws p, q on a few points whose log ratios are about these."""
    p = np.array(weights) / np.sum(weights)
    q = p * np.exp(-np.array(losses))
    return p, q / q.sum()


def _curve(p: Array, q: Array) -> RenyiCurve:
    logs = np.log(p) - np.log(q)
    both = [
        np.array([np.logaddexp.reduce(np.log(first) + (a - 1) * sign * logs) for a in ORDERS])
        for first, sign in ((p, 1.0), (q, -1.0))
    ]
    return RenyiCurve(np.maximum(*both) / (ORDERS - 1))


def _exact(p: Array, q: Array, mu: float, epsilon: float) -> float:
    return float(p @ guessing._gaussian_delta(epsilon - np.log(p / q), mu))


SIZES = st.integers(2, 4).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(0.02, 1.0), min_size=n, max_size=n),
        st.lists(st.floats(-1.5, 1.5), min_size=n, max_size=n),
    )
)


@settings(max_examples=8)
@given(SIZES, st.sampled_from([0.0, 0.05, 0.4, 2.0]))
def test_what_a_curve_and_a_gaussian_show_is_never_more(
    sizes: tuple[list[float], list[float]], mu: float
) -> None:
    p, q = _two_laws(*sizes)
    variation = 0.5 * float(np.abs(p - q).sum())
    for known in (1.0, variation):
        found = Sight(mu_squared=mu**2, curve=_curve(p, q), variation=known).tradeoff()
        for one, two in ((p, q), (q, p)):
            for epsilon in (-0.7, -0.1, 0.0, 0.03, 0.2, 0.9):
                assert _exact(one, two, mu, epsilon) <= float(found.delta(epsilon)) + 1e-12


@pytest.mark.parametrize("divergence", [1e-4, 0.02, 0.3])
def test_without_more_it_is_pinskers_inequality_or_better(divergence: float) -> None:
    # nothing is known at higher orders
    known = RenyiCurve(np.where(ORDERS < 1.011, divergence, np.inf))
    found = Sight(curve=known).tradeoff().variation
    assert found <= math.sqrt(divergence / 2) * (1 + 1e-3) + 1e-5
    # randomised response with this divergence comes close to the bound
    epsilon = max(e for e in np.linspace(0.001, 3, 3000) if e * math.tanh(e / 2) <= divergence)
    assert math.tanh(epsilon / 2) <= found <= 1.05 * math.tanh(epsilon / 2) + 1e-4


def test_with_a_large_gaussian_a_small_curve_costs_what_a_gaussian_would() -> None:
    small, mu = 0.05, 0.208
    found = Sight(mu_squared=mu**2, curve=gaussian_curve(1 / small)).tradeoff()
    exact = Sight(mu_squared=mu**2 + small**2).tradeoff()
    assert exact.variation <= found.variation <= 1.002 * exact.variation
    assert found.delta(0.1) <= 1.02 * exact.delta(0.1)


@pytest.mark.parametrize("mu", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.25])
def test_any_numbers_prove_something(mu: float, epsilon: float) -> None:
    """The bound holds for any result of linear programming, even for nonsense."""
    rng = np.random.default_rng(3)
    p, q = _two_laws([0.3, 0.5, 0.2], [0.4, -0.3, 0.1])
    logs = np.log(p / q)
    divergence = max(float(p @ logs), float(-q @ logs))
    means = np.array([1.0, 0.0, divergence, divergence, 0.5 * float(np.abs(p - q).sum())])
    for _ in range(20):
        y = rng.normal(size=5) * [0.3, 1.0, 3.0, 3.0, 1.0]
        y[2:] = np.abs(y[2:])
        scale = math.sqrt(2 * divergence)
        # as `_after_curve` does: to the left of the grid the sum must not fall
        first = float(guessing._grid(scale, 11)[0])
        y[1] -= max(0.0, float(y[1] + y[2] * math.expm1(first) + y[3] * first))
        bound = float(means @ y) + guessing._certified(y, scale, mu, epsilon)
        assert bound >= _exact(p, q, mu, epsilon) - 1e-12
    wide = np.concatenate([-np.geomspace(1e-3, 60, 300), np.geomspace(1e-3, 60, 300)])
    excess = guessing._gaussian_delta(epsilon - wide, mu) - guessing._basis(wide) @ y
    assert excess.max() <= guessing._certified(y, scale, mu, epsilon) + 1e-12


def test_what_gives_everything_away_proves_nothing() -> None:
    for sight in (
        Sight(mu_squared=1e6),
        Sight(mu_squared=math.inf),
        Sight(curve=RenyiCurve(np.full_like(ORDERS, np.inf))),
        Sight(mu_squared=0.1, shortfall=1.0),
    ):
        assert sight.tradeoff().ceiling == 1.0
    assert Sight().tradeoff().ceiling == pytest.approx(0.5, abs=1e-8)


@pytest.mark.parametrize("epsilon", [0.01, 0.4621, 3.0, 40.0])
def test_randomised_response_is_the_most_that_epsilon_allows(epsilon: float) -> None:
    p = np.array([math.exp(epsilon), 1.0]) / (1 + math.exp(epsilon))
    curve = response_curve(epsilon)
    for i in (0, 300, 400):
        a = float(ORDERS[i])
        known = math.log(float((p**a * p[::-1] ** (1 - a)).sum())) / (a - 1)
        assert curve.values[i] == pytest.approx(known, rel=1e-6)
    assert np.all(curve.values <= epsilon * (1 + 1e-12))
    assert curve.values[-1] == pytest.approx(epsilon, rel=1e-3)
    assert curve.values.min() >= epsilon * math.tanh(epsilon / 2) * (1 - 1e-12)


# -------------------------------------------------------------------------------- a gate


def _behind(a: float, b: float, mu: float, epsilon: float) -> float:
    """The exact delta for chances a, b to pass and then a Gaussian pair."""
    refused = max(0.0, (1 - a) - math.exp(epsilon) * (1 - b))
    rest = guessing._gaussian_delta(np.array(epsilon + math.log(b / a)), mu)
    return refused + a * float(rest)


@pytest.mark.parametrize("mu", [0.02, 0.2, 1.0])
@pytest.mark.parametrize(("sigma", "threshold"), [(6.4, 31), (1.5, 8), (3.0, 0)])
def test_a_gate_shows_one_bit(mu: float, sigma: float, threshold: int) -> None:
    law = DiscreteGaussian(sigma)
    chances = tuple(law.survival(threshold - h) for h in range(threshold + 30))
    gate = Sight(mu_squared=mu**2, chances=chances, gate_shortfall=chances[0])
    found = gate.tradeoff()
    pairs = list(itertools.pairwise(chances))
    for epsilon in (0.0, 0.1, 0.5):
        worst = max(_behind(*order, mu, epsilon) for a, b in pairs for order in ((a, b), (b, a)))
        worst = max(worst, chances[0], _behind(1.0, 1.0, mu, epsilon))
        delta = float(found.delta(epsilon))
        assert worst <= delta + 1e-12
        assert delta <= 1.02 * worst + 0.02 * mu
    # a count that is shown tells more than a bit
    shown = Sight(mu_squared=mu**2 + 1 / sigma**2).tradeoff().variation
    assert found.variation <= max(shown * (1 + 1 / (20 * sigma**2)), chances[0]) + 1e-6


def test_a_gate_that_tells_all_is_seen() -> None:
    """Where one neighbour hardly ever passes and the other always does, nothing is hidden."""
    found = Sight(mu_squared=1e-6, chances=(0.01, 0.99), gate_shortfall=0.01).tradeoff()
    assert found.variation >= 0.98
    assert (
        Sight(mu_squared=1e-6, chances=(1.0, 1.0), gate_shortfall=0.3).tradeoff().variation >= 0.3
    )


def test_gates_among_other_things_show_their_counts() -> None:
    count = gaussian_curve(10.0)
    gate = Sight(
        mu_squared=0.01, chances=(1e-6, 0.5, 1.0), gate_shortfall=1e-6, count=count, shortfall=1e-7
    )
    both = gate.and_then(Sight(mu_squared=0.04))
    assert both.chances == ()
    assert both.curve is None, "a count with wide noise is a Gaussian mechanism"
    assert both.mu_squared == pytest.approx(0.06, rel=1e-4)
    assert both.shortfall == pytest.approx(1.1e-6)
    with pytest.raises(InvalidInput, match="must show its count"):
        Sight(mu_squared=0.1).and_then(gate, shows_counts=False)
    # and nothing is forgotten where two of them meet
    twice = gate.and_then(gate)
    assert twice.mu_squared == pytest.approx(0.04, rel=1e-4)
    narrow = dataclasses.replace(gate, count=gaussian_curve(1.0, sensitivity=1.0))
    assert narrow.and_then(gate).curve == narrow.count
    assert twice.tradeoff().variation > gate.with_counts().tradeoff().variation


# -------------------------------------------------------------------------------- the mask


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.floats(-1.0, 1.0), st.floats(-6.0, 6.0)), min_size=1, max_size=4),
    st.integers(0, 2**31),
)
def test_the_mean_size_of_a_score_is_bounded(
    coefficients: list[tuple[float, float]], seed: int
) -> None:
    a, b = np.array(coefficients).T
    g = np.random.default_rng(seed).standard_normal((40_000, a.size))
    x = (a * (g**2 - 1) + b * g).sum(axis=1)
    variance, curvature = float((2 * a**2 + b**2).sum()), float(np.abs(a).max())
    if variance < 1e-6:
        return
    deviation = float(np.abs(x).std()) / math.sqrt(x.size)
    bound = (
        2
        * math.sqrt(variance)
        * quadratic_variation(0.04, 0.2 * curvature / math.sqrt(variance))
        / 0.2
    )
    assert float(np.abs(x).mean()) <= bound + 5 * deviation


def test_a_normal_score_has_its_exact_size() -> None:
    assert quadratic_variation(0.09, 0.0) == pytest.approx(0.15 * math.sqrt(2 / math.pi), rel=1e-5)
    assert quadratic_variation(0.0, 1.0) == 0.0
    assert quadratic_variation(100.0, 0.0) == 1.0
    # never more than Cauchy and Schwarz say, and more for more curvature
    sizes = [quadratic_variation(0.04, k) for k in (0.0, 0.01, 0.03, 0.1, 1.0)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 0.1
    for wrong in ((-1.0, 0.0), (math.inf, 0.0), (1.0, -1.0)):
        with pytest.raises(InvalidInput, match="finite and >= 0"):
            quadratic_variation(*wrong)


def test_the_characteristic_function_is_bounded_as_stated() -> None:
    """The lemma itself, on a grid: sizes and angles of every factor."""
    t = np.geomspace(1e-2, 1e2, 200)
    for a in (-0.7, -0.1, 0.0, 0.3, 1.0):
        for b in (0.0, 0.5, 4.0):
            x, v = 2 * a * t, 2 * a**2 + b**2
            f = (1 - 1j * x) ** -0.5 * np.exp(-1j * x / 2 - (b * t) ** 2 / (2 * (1 - 1j * x)))
            angle = np.arctan(x) / 2 - x / 2 - (b * t) ** 2 * x / (2 * (1 + x**2))
            assert np.exp(1j * angle) * np.abs(f) == pytest.approx(f, abs=1e-12)
            assert np.all(np.abs(f) <= np.exp(-v * t**2 / (2 * (1 + x**2))) + 1e-12)
            assert np.all(np.abs(f) >= np.exp(-v * t**2 / 2) - 1e-12)
            assert np.all(np.abs(angle) <= abs(a) * t * v * t**2 + 1e-12)
    # and E |X| is the integral that is bounded
    integral = quad(lambda s: (1 - math.exp(-(s**2) / 2)) / s**2, 0, math.inf)[0]
    assert 2 / math.pi * integral == pytest.approx(math.sqrt(2 / math.pi))


@pytest.mark.parametrize(
    ("size", "eta", "gamma"), [(2, 0.29, 0.03), (3, 0.1, 0.02), (6, 0.05, 0.1)]
)
@pytest.mark.parametrize("k", [1, 2])
def test_masks_are_told_apart_no_better_than_their_path_allows(
    size: int, eta: float, gamma: float, k: int
) -> None:
    bound = quadratic_variation(k * (gamma / 2) ** 2 * (eta**-2 + 2 * size), gamma / 2)
    worst = 0.0
    for u in directions(size, rng=np.random.default_rng(1)):
        pair = GaussianPair.joined([GaussianPair.of_matrix(np.exp(gamma * u), eta)] * k)
        worst = max(worst, float(pair.delta(0.0)))
    assert worst <= bound
    assert bound <= 1.16 * worst, "and hardly more"
    # better than what the curve says
    curve = k * lifted_mask_curve(gamma, eta, size)
    assert bound < math.sqrt(float(curve.values.min()) / 2)
