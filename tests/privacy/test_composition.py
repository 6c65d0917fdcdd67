"""Stages and releases together: the account holds for laws whose true loss is computed exactly."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.budget import Budget
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan
from privgmm.methods.planner import calibrate
from privgmm.privacy.composition import Measure, Price, Spend, added, price_of, total
from privgmm.privacy.curves import (
    ORDERS,
    RenyiCurve,
    gaussian_curve,
    lifted_mask_curve,
    paper_mask_curve,
)
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.stage import Agreement, ExactAgreement
from privgmm.stages.refinement.noisy_moments import Refinement
from tests.plans import refined

CALIBRATED = ("paper", "tight", "lifted")
"""Methods that plan without a number of rows."""


def a_plan(
    method: str,
    epsilon: float = 0.4,
    delta: float = 1e-6,
    *,
    k: int = 1,
    refine: Refinement | None = None,
) -> Plan:
    return refined(
        calibrate(
            method,
            epsilon=epsilon,
            delta=delta,
            alpha=0.6,
            n_components=k,
            n_features=2,
            n_blocks=500,
        ),
        refine,
    )


def a_spend(method: str, epsilon: float = 0.4, delta: float = 1e-6) -> Spend:
    return a_plan(method, epsilon, delta).price()


SPENDS = {method: a_spend(method) for method in CALIBRATED}

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


# ------------------------------------------------------------------------- stages

TEST, MASK, STEP = gaussian_curve(12.0), gaussian_curve(20.0), gaussian_curve(60.0)
DELTA = 1e-5


def converted(losses: Array, delta: float) -> float:
    """Proposition 12 of Canonne, Kamath and Steinke, written out."""
    a = ORDERS
    return float(np.min(losses + np.log((a - 1) / a) - (math.log(delta) + np.log(a)) / (a - 1)))


def test_a_gate_first_costs_its_curve_at_the_same_delta() -> None:
    gate = Price((TEST, MASK), 0.9 * DELTA, gate=True)
    spend = price_of([gate], DELTA)
    losses = TEST.values + MASK.values
    assert spend.budget.delta == DELTA
    assert spend.budget.epsilon == pytest.approx(converted(losses, DELTA), rel=1e-12)
    assert spend.curve == TEST + MASK
    assert spend.shortfall == 0.9 * DELTA
    # how much of delta the gate needs makes no difference, up to all of it
    for shortfall in (0.0, 0.5 * DELTA, DELTA):
        assert price_of([dataclasses.replace(gate, shortfall=shortfall)], DELTA).budget == (
            spend.budget
        )
    # with more than that there is no such delta to be had
    wide = price_of([dataclasses.replace(gate, shortfall=3 * DELTA)], DELTA)
    assert wide.budget == price_of([gate], 3 * DELTA).budget
    # and what follows adds its curve, still at the same delta
    both = price_of([gate, Price((STEP, STEP))], DELTA)
    assert both.budget == Budget((TEST + MASK + STEP + STEP).epsilon(DELTA), DELTA)
    assert both.shortfall == 0.9 * DELTA


@pytest.mark.parametrize("gate", [False, True])
def test_the_shortfall_of_a_later_stage_comes_off_delta(gate: bool) -> None:
    """Whether or not that stage is a gate: only the first one's cases exclude each other."""
    first = Price((TEST,), 0.7 * DELTA, gate=True)
    second = Price((STEP,), 0.4 * DELTA, gate=gate)
    spend = price_of([first, second], DELTA)
    losses = TEST.values + STEP.values
    assert spend.budget.delta == DELTA
    assert spend.budget.epsilon == pytest.approx(converted(losses, 0.6 * DELTA), rel=1e-12)
    assert spend.shortfall == 0.7 * DELTA
    # the other way round it is the gate that comes later, if there is one first at all
    turned = price_of([second, first], DELTA)
    left = DELTA - (0.7 * DELTA if gate else 1.1 * DELTA)
    if gate:
        assert turned.budget.epsilon == pytest.approx(converted(losses, left), rel=1e-12)
    else:
        assert left < 0
        assert turned.budget.epsilon == 10**6
    # shortfalls add up
    more = price_of([first, second, Price((STEP,), 0.3 * DELTA)], DELTA)
    assert more.budget.epsilon == pytest.approx(
        converted(losses + STEP.values, 0.3 * DELTA), rel=1e-12
    )
    assert more.shortfall == pytest.approx(0.7 * DELTA)


def test_a_first_stage_that_is_no_gate_pays_for_its_shortfall() -> None:
    spend = price_of([Price((TEST,), 0.7 * DELTA)], DELTA)
    assert spend.budget == Budget(TEST.epsilon(DELTA - 0.7 * DELTA), DELTA)
    assert spend.shortfall == 0.7 * DELTA


def test_where_shortfalls_leave_nothing_there_is_no_promise() -> None:
    for rest in (DELTA, 2 * DELTA):
        spend = price_of([Price((TEST,), gate=True), Price((STEP,), rest)], DELTA)
        assert spend.budget == Budget(10**6, rest)
    assert price_of([Price((TEST,), 1.5)], DELTA).budget.delta < 1


def test_a_stage_without_a_curve_keeps_its_own_price_alone() -> None:
    own = Budget(0.3, 1e-7)
    for delta in (1e-9, DELTA):
        assert price_of([Price.of_budget(own)], delta) == Spend(own, None, own.delta)


def test_a_stage_without_a_curve_counts_at_every_order() -> None:
    own = Budget(0.3, 1e-7)
    stages = [Price.of_budget(own), Price((STEP,))]
    losses = STEP.values + 0.3
    for order in (stages, stages[::-1]):
        spend = price_of(order, DELTA)
        assert spend.curve == RenyiCurve(losses)
        assert spend.shortfall == own.delta
        assert spend.budget.delta == DELTA
        assert spend.budget.epsilon == pytest.approx(converted(losses, DELTA - 1e-7), rel=1e-12)
    # behind a gate too
    gated = price_of([Price((TEST,), 0.9 * DELTA, gate=True), *stages], DELTA)
    assert gated.budget.epsilon == pytest.approx(
        converted(losses + TEST.values, DELTA - 1e-7), rel=1e-12
    )
    # two of them cost what (epsilon, delta) adds up to, and the conversion on top
    twice = price_of([Price.of_budget(own)] * 2, DELTA)
    assert twice.budget.epsilon == pytest.approx(converted(np.full(900, 0.6), DELTA - 2e-7))
    assert twice.budget.epsilon >= 0.6 - 1e-3


def test_a_release_has_stages_and_every_stage_one_kind_of_price() -> None:
    with pytest.raises(InvalidInput, match="at least one stage"):
        price_of([], DELTA)
    with pytest.raises(InvalidInput, match="curves or of a budget"):
        Price(())
    with pytest.raises(InvalidInput, match="curves or of a budget"):
        Price((TEST,), budget=Budget(1.0, DELTA))
    # what cannot leak at all still has a positive epsilon
    assert 0 < price_of([Price((RenyiCurve(np.zeros(900)),))], 0.5).budget.epsilon < 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_the_price_of_stages_holds_whichever_of_them_breaks(seed: int) -> None:
    """A gate, then two stages that run if it lets them, each in its worst case, exactly."""
    rng = np.random.default_rng(seed)
    chances = [2e-3, 3e-3, 1e-3]
    gate, second, third = (a_law(rng, float(rng.uniform(0.05, 0.5)), c) for c in chances)
    curves = [law.spend.curve for law in (gate, second, third)]
    assert None not in curves
    prices = [
        Price((curve,), chance, gate=number == 0)
        for number, (curve, chance) in enumerate(zip(curves, chances, strict=True))
        if curve is not None
    ]
    whole = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    for delta in (4.5e-3, 0.02, 0.2):
        promise = price_of(prices, delta).budget
        assert promise.delta == delta
        for inner in itertools.product((False, True), repeat=2):
            later = [
                law.broken if out else law.agreed
                for law, out in zip((second, third), inner, strict=True)
            ]
            assert hockey_stick(*gated(gate.agreed, product(later)), promise.epsilon) <= delta
        # one data set never passes the gate: what follows may then tell everything
        assert hockey_stick(*gated(gate.broken, whole), promise.epsilon) <= delta


def test_leaving_out_the_shortfall_of_a_later_stage_would_be_wrong() -> None:
    """The account is not loose: one that forgets it is refuted by these laws."""
    rng = np.random.default_rng(0)
    gate, second = a_law(rng, 0.01, 2e-3), a_law(rng, 0.01, 9e-3)
    assert gate.spend.curve is not None
    assert second.spend.curve is not None
    first = Price((gate.spend.curve,), 2e-3, gate=True)
    laws = gated(gate.agreed, second.broken)
    forgetful = price_of([first, Price((second.spend.curve,))], 5e-3).budget
    assert hockey_stick(*laws, forgetful.epsilon) > forgetful.delta
    honest = price_of([first, Price((second.spend.curve,), 9e-3)], 1e-2).budget
    assert hockey_stick(*laws, honest.epsilon) <= honest.delta


def gated(gate: tuple[Array, Array], later: tuple[Array, Array]) -> tuple[Array, Array]:
    """The laws of a release: refused (outcome 0 of the gate), or gone on to what follows."""
    p, q = (
        np.concatenate([law[:1], np.outer(law[1:], then).ravel()])
        for law, then in zip(gate, later, strict=True)
    )
    return p, q


REFINE = Refinement((60.0, 90.0), (4.0, 3.0))


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("refine", [None, REFINE], ids=["plain", "refined"])
@pytest.mark.parametrize("method", ["tight", "lifted"])
def test_a_plan_costs_its_curves_at_its_delta(
    method: str, refine: Refinement | None, k: int
) -> None:
    """Test, k masks and the steps of a refinement, added by hand from the plan's numbers."""
    plan = a_plan(method, k=k, refine=refine)
    space = plan.stage(Agreement).space
    if isinstance(space, LiftedSpace):
        mask = lifted_mask_curve(plan.stage(Agreement).gamma, space.eta, plan.n_features + 1)
    else:
        assert isinstance(space, PaperSpace)
        etas = space.eta_weight, space.eta_mean, space.eta_cov
        mask = paper_mask_curve(plan.stage(Agreement).gamma, *etas, plan.n_features)
    test = plan.stage(ExactAgreement).test
    losses = ORDERS / (2 * test.sigma**2) + k * mask.values
    if refine is not None:
        losses = losses + ORDERS / (2 * 60.0**2) + ORDERS / (2 * 90.0**2)
    chance = DiscreteGaussian(test.sigma).survival(test.threshold)
    assert chance <= plan.budget.delta
    spend = plan.price()
    assert spend.curve is not None
    np.testing.assert_allclose(spend.curve.values, losses, rtol=1e-12)
    assert spend.shortfall == chance
    assert spend.budget.delta == plan.budget.delta
    assert spend.budget.epsilon == pytest.approx(converted(losses, plan.budget.delta), rel=1e-12)
    assert plan.spent() == spend.budget


def test_the_papers_plan_costs_its_own_price() -> None:
    spend = a_plan("paper").price()
    assert spend.curve is None
    assert spend.shortfall == spend.budget.delta


# ------------------------------------------------------------------------- plans


@pytest.mark.parametrize("method", CALIBRATED)
def test_one_release_costs_its_own_price(method: str) -> None:
    spend = SPENDS[method]
    assert total([spend]) == spend.budget
    assert total([spend], 1e-4) == Budget(spend.budget.epsilon, 1e-4)
    # a delta that cannot be reached is replaced by the true one
    assert total([spend], 1e-9) == spend.budget


def test_the_shortfall_is_the_chance_of_a_release_without_core() -> None:
    plan = a_plan("tight")
    test = plan.stage(ExactAgreement).test
    spend = plan.price()
    noise = DiscreteGaussian(test.sigma)
    beyond = noise.support >= test.threshold
    assert spend.shortfall == pytest.approx(noise.probabilities[beyond].sum(), rel=1e-9)
    assert 0 < spend.shortfall <= spend.budget.delta
    assert SPENDS["paper"].shortfall == SPENDS["paper"].budget.delta


@pytest.mark.parametrize("method", CALIBRATED)
def test_the_total_grows_and_never_beats_addition(method: str) -> None:
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


@pytest.mark.parametrize("method", CALIBRATED)
@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_cap_of_some_releases_admits_them(method: str, times: int) -> None:
    spend = SPENDS[method]
    cap = Budget(times * spend.budget.epsilon, times * spend.budget.delta)
    assert fitting(cap, spend) >= times


@pytest.mark.parametrize("method", CALIBRATED)
@pytest.mark.parametrize("cap", [Budget(0.4, 1e-5), Budget(2.0, 1e-5), Budget(6.0, 1e-4)], ids=str)
def test_what_a_cap_admits_costs_no_more_than_it(method: str, cap: Budget) -> None:
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


def test_deltas_beyond_one_promise_nothing() -> None:
    hopeless = Spend(Budget(1.0, 0.7), None, 0.7)
    assert 0.999 < total([hopeless] * 3).delta < 1
    assert not Measure(Budget(9.0, 0.9), None).admits([hopeless] * 2)
