"""Several releases together: the account holds for laws whose true loss is computed exactly."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.budget import Budget
from privgmm.errors import InvalidInput
from privgmm.methods import METHODS
from privgmm.methods.plan import Method
from privgmm.methods.planner import calibrate
from privgmm.privacy.composition import Measure, Spend, added, total
from privgmm.privacy.curves import ORDERS, RenyiCurve, gaussian_curve
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.votes import AgreementTest


def a_spend(method: Method, epsilon: float = 0.4, delta: float = 1e-6) -> Spend:
    return Spend.of(
        calibrate(
            method,
            epsilon=epsilon,
            delta=delta,
            alpha=0.6,
            n_components=1,
            n_features=2,
            n_blocks=500,
        )
    )


SPENDS = {method: a_spend(method) for method in METHODS}

# ------------------------------------------------------------------------- laws known exactly


@dataclasses.dataclass(frozen=True)
class Law:
    """A release with finitely many outcomes, from two neighbours, in both of its cases.

    Outcome 0 is the refusal. `agreed` is the pair of laws when both data sets have a core,
    `broken` the pair when the second has none.
    """

    agreed: tuple[Array, Array]
    broken: tuple[Array, Array]
    spend: Spend


def renyi(p: Array, q: Array) -> Array:
    orders = ORDERS[:, None]
    logs = orders * np.log(p) + (1 - orders) * np.log(q)
    top = logs.max(axis=1)
    return np.asarray((top + np.log(np.exp(logs - top[:, None]).sum(axis=1))) / (ORDERS - 1))


def a_law(rng: np.random.Generator, strength: float, chance: float) -> Law:
    p = rng.dirichlet(np.full(3, 5.0)) + 0.02
    p = p / p.sum()
    q = p * np.exp(rng.uniform(-strength, strength, 3))
    q = q / q.sum()
    curve = RenyiCurve(np.maximum(renyi(p, q), renyi(q, p)))
    broken = (np.array([1 - chance, chance * 0.3, chance * 0.7]), np.array([1.0, 0.0, 0.0]))
    delta = 1.5 * chance
    price = Budget(max(curve.epsilon(delta), 1e-12), delta)
    return Law((p, q), broken, Spend(price, curve, chance))


def hockey_stick(p: Array, q: Array, epsilon: float) -> float:
    factor = math.exp(epsilon)
    return max(
        float(np.maximum(p - factor * q, 0).sum()), float(np.maximum(q - factor * p, 0).sum())
    )


def product(laws: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    p, q = np.ones(1), np.ones(1)
    for a, b in laws:
        p, q = np.outer(p, a).ravel(), np.outer(q, b).ravel()
    return p, q


@pytest.mark.parametrize("seed", range(6))
def test_the_total_holds_whichever_releases_break(seed: int) -> None:
    rng = np.random.default_rng(seed)
    laws = [a_law(rng, float(rng.uniform(0.05, 0.6)), 2e-3) for _ in range(6)]
    spends = [law.spend for law in laws]
    for delta in (None, 0.02, 0.2):
        promise = total(spends, delta)
        for broken in itertools.product((False, True), repeat=len(laws)):
            pairs = [
                law.broken if out else law.agreed for law, out in zip(laws, broken, strict=True)
            ]
            assert hockey_stick(*product(pairs), promise.epsilon) <= promise.delta


def test_leaving_the_shortfall_out_would_be_wrong() -> None:
    """The account is not loose: one that forgets the broken case is refuted by these laws."""
    rng = np.random.default_rng(0)
    laws = [a_law(rng, 0.01, 2e-3) for _ in range(6)]
    forgetful = sum((law.spend.curve.values for law in laws if law.spend.curve), np.zeros(900))
    epsilon = RenyiCurve(np.asarray(forgetful)).epsilon(0.008)
    assert hockey_stick(*product([law.broken for law in laws]), epsilon) > 0.008


def adaptive_loss(laws: list[Law], cap: Budget, rng: np.random.Generator) -> tuple[float, int]:
    """Choose every release by all outcomes before it; the exact loss, and the longest run."""
    measure = Measure.choose(cap, laws[0].spend)
    leaves: list[tuple[float, float]] = []
    longest = 0

    def follow(p: float, q: float, spends: list[Spend]) -> None:
        nonlocal longest
        longest = max(longest, len(spends))
        law = laws[int(rng.integers(len(laws)))] if spends else laws[0]
        if len(spends) == 6 or not measure.admits([*spends, law.spend]):
            leaves.append((p, q))
            return
        pair = law.broken if rng.random() < 0.3 else law.agreed
        for a, b in zip(*pair, strict=True):
            follow(p * a, q * b, [*spends, law.spend])

    follow(1.0, 1.0, [])
    ends = np.array(leaves)
    return hockey_stick(ends[:, 0], ends[:, 1], cap.epsilon), longest


@pytest.mark.parametrize("seed", range(8))
def test_a_cap_holds_when_plans_follow_outcomes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    laws = [a_law(rng, float(rng.uniform(0.1, 0.8)), 1e-3) for _ in range(4)]
    cap = Budget(float(rng.uniform(1.0, 3.0)), float(rng.uniform(4e-3, 3e-2)))
    loss, longest = adaptive_loss(laws, cap, rng)
    assert longest >= 1
    assert loss <= cap.delta


# ------------------------------------------------------------------------- plans


@pytest.mark.parametrize("method", METHODS)
def test_one_release_costs_its_own_price(method: Method) -> None:
    spend = SPENDS[method]
    assert total([spend]) == spend.budget
    assert total([spend], 1e-4) == Budget(spend.budget.epsilon, 1e-4)
    # at a delta that cannot be had, the true one is told
    assert total([spend], 1e-9) == spend.budget


def test_the_shortfall_is_the_chance_of_a_release_without_core() -> None:
    plan = calibrate(
        "tight",
        epsilon=0.4,
        delta=1e-6,
        alpha=0.6,
        n_components=1,
        n_features=2,
        n_blocks=500,
    )
    assert isinstance(plan.test, AgreementTest)
    spend = Spend.of(plan)
    noise = DiscreteGaussian(plan.test.sigma)
    beyond = noise.support >= plan.test.threshold
    assert spend.shortfall == pytest.approx(noise.probabilities[beyond].sum(), rel=1e-9)
    assert 0 < spend.shortfall <= spend.budget.delta
    assert SPENDS["paper"].shortfall == SPENDS["paper"].budget.delta


@pytest.mark.parametrize("method", METHODS)
def test_the_total_grows_and_never_beats_addition(method: Method) -> None:
    spend = SPENDS[method]
    before = 0.0
    for n in range(1, 30):
        both = total([spend] * n)
        plain = added([spend] * n)
        assert before < both.epsilon <= plain.epsilon * (1 + 1e-12)
        assert both.delta == plain.delta
        before = both.epsilon
    if method == "paper":
        assert before == pytest.approx(29 * spend.budget.epsilon)
    else:
        assert before < 0.3 * 29 * spend.budget.epsilon


def test_the_total_is_at_least_every_part_and_ignores_order() -> None:
    parts = [a_spend("lifted", epsilon, 1e-6) for epsilon in (0.3, 2.0, 0.35)]
    parts += [SPENDS["paper"]]
    both = total(parts, 1e-5)
    assert all(both.epsilon >= part.budget.epsilon for part in parts)
    for order in itertools.permutations(parts):
        assert total(order, 1e-5).epsilon == pytest.approx(both.epsilon, rel=1e-12)


def test_gaussian_curves_add_to_one_gaussian() -> None:
    """Releases of multiplier s, n of them, are one of s / sqrt n: an account known otherwise."""
    n, multiplier, chance = 9, 12.0, 1e-9
    curve = gaussian_curve(multiplier)
    spend = Spend(Budget(curve.epsilon(1e-6), 1e-6), curve, chance)
    expected = gaussian_curve(multiplier / math.sqrt(n)).epsilon(1e-5 - n * chance)
    assert total([spend] * n, 1e-5).epsilon == pytest.approx(expected, rel=1e-12)


# ------------------------------------------------------------------------- caps


def fitting(cap: Budget, spend: Spend) -> int:
    measure = Measure.choose(cap, spend)
    return next(n for n in itertools.count() if not measure.admits([spend] * (n + 1)))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_cap_of_some_releases_admits_them(method: Method, times: int) -> None:
    spend = SPENDS[method]
    cap = Budget(times * spend.budget.epsilon, times * spend.budget.delta)
    assert fitting(cap, spend) >= times


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cap", [Budget(0.4, 1e-5), Budget(2.0, 1e-5), Budget(6.0, 1e-4)], ids=str)
def test_what_a_cap_admits_costs_no_more_than_it(method: Method, cap: Budget) -> None:
    spend = SPENDS[method]
    number = fitting(cap, spend)
    assert number >= 1
    assert cap.covers(total([spend] * number, cap.delta))
    if method != "paper" and cap.epsilon > 1:
        # far more than by addition
        assert number > 1.5 * min(cap.epsilon / 0.4, cap.delta / 1e-6)


def test_spends_without_a_bound_at_the_order_count_by_their_own_guarantee() -> None:
    """A curve that is infinite where the others are added does not shut the account."""
    cap = Budget(4.0, 1e-4)
    narrow = Spend(
        Budget(0.3, 1e-6), RenyiCurve(np.where(ORDERS < 1.5, 0.001, np.inf)), shortfall=1e-7
    )
    measure = Measure.choose(cap, SPENDS["lifted"])
    assert measure.order is not None
    assert ORDERS[measure.order] > 1.5
    mixed = [SPENDS["lifted"], narrow, SPENDS["paper"], narrow]
    assert measure.admits(mixed)
    both = total(mixed, cap.delta)
    assert cap.covers(both)
    assert both.epsilon <= added(mixed).epsilon
    many = mixed
    while measure.admits([*many, narrow, SPENDS["tight"]]):
        many = [*many, narrow, SPENDS["tight"]]
    assert len(many) > len(mixed)
    assert cap.covers(total(many, cap.delta))


def test_a_spend_beyond_the_cap_by_itself_never_fits() -> None:
    large = a_spend("tight", 3.0, 1e-6)
    assert not Measure.choose(Budget(2.0, 1e-3), SPENDS["tight"]).admits([large])
    assert not Measure(Budget(9.0, 1e-7), None).admits([SPENDS["tight"]])


def test_nothing_has_no_total() -> None:
    with pytest.raises(InvalidInput, match="nothing was spent"):
        total([])
    with pytest.raises(InvalidInput, match="delta"):
        total([SPENDS["tight"]], 0.0)
    with pytest.raises(InvalidInput, match="order"):
        Measure(Budget(1.0, 1e-6), 900)


def test_deltas_beyond_one_are_told_as_hopeless() -> None:
    hopeless = Spend(Budget(1.0, 0.7), None, 0.7)
    assert 0.999 < total([hopeless] * 3).delta < 1
    assert not Measure(Budget(9.0, 0.9), None).admits([hopeless] * 2)
