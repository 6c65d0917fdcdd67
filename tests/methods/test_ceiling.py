"""The ceiling of whole plans: below what epsilon says, above what any pair of neighbours shows."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from privgmm.audit.guessing import at_worst_count
from privgmm.audit.privacy_loss import measured_delta, whole_losses
from privgmm.budget import Budget, guess_in_words, percent_at_most
from privgmm.ledger.memory import MemoryLedger
from privgmm.ledger.sqlite import SQLiteBook
from privgmm.methods import registry
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan
from privgmm.privacy.composition import Price, Spend, price_of, told_apart, total
from privgmm.privacy.curves import GaussianCurve, RenyiCurve, gaussian_curve
from privgmm.privacy.gaussian_pairs import GaussianPair
from privgmm.stages.agreement.stage import ExactAgreement
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.sketch.stage import Sketch

EXACT = ("tight", "lifted", "sketch")


def _plan(method: str, epsilon: float = 1.0, n_rows: int = 60_000) -> Plan:
    return best_plan(
        n_rows,
        method=method,
        epsilon=epsilon,
        delta=1e-6,
        n_components=2,
        n_features=2,
    )


@pytest.fixture(scope="module", params=EXACT)
def plan(request: pytest.FixtureRequest) -> Plan:
    return _plan(request.param)


# --------------------------------------------------------------------------------- plans


@pytest.mark.parametrize("method", registry.names())
def test_ceilings_grow_with_epsilon_and_never_pass_what_it_says(method: str) -> None:
    plans = [_plan(method, epsilon) for epsilon in (0.6, 1.0, 3.0)]
    ceilings = [plan.ceiling for plan in plans]
    assert ceilings == sorted(ceilings)
    for plan, ceiling in zip(plans, ceilings, strict=True):
        assert 0.5 < ceiling <= plan.spent().guess_ceiling
        stated = plan.tradeoff().delta([0.0, plan.spent().epsilon])
        assert stated[1] <= plan.spent().delta * (1 + 1e-9)


@pytest.mark.parametrize("method", EXACT)
def test_exact_methods_are_far_better_than_epsilon_says(method: str) -> None:
    plan = _plan(method)
    assert plan.ceiling < 0.56
    assert plan.spent().guess_ceiling > 0.73


def test_a_plan_priced_by_a_theorem_has_what_the_theorem_says() -> None:
    plan = _plan("paper")
    assert plan.ceiling == pytest.approx(plan.spent().guess_ceiling, rel=1e-12)


def test_a_sketch_with_histograms_is_two_gaussians_and_a_threshold() -> None:
    plan = _plan("sketch", n_rows=2000)
    frame, sketch, finish = plan.stages
    assert isinstance(frame, HistogramFrame)
    assert isinstance(sketch, Sketch)
    assert isinstance(finish, Finish)
    mu = math.sqrt(
        sum(m**-2 for m in frame._multipliers()) + sketch.multiplier**-2 + finish.multiplier**-2
    )
    exact = norm.cdf(mu / 2) + frame.shortfall / 2
    # discrete noise on small counts costs a little more than continuous noise
    assert exact <= plan.ceiling <= exact + 1e-4


def test_integers_are_as_fine_as_the_account_assumes(plan: Plan) -> None:
    """Sums hold at least a million steps per sensitivity; counts say how few they hold."""
    for stage in plan.stages:
        if isinstance(stage, Sketch):
            assert stage.integer_sensitivity >= 2**20
            assert Sketch(stage.shape, 1.0, 10**12, 2).integer_sensitivity >= 2**20
        if isinstance(stage, ExactAgreement):
            count = stage.price().curves[0]
            assert isinstance(count, GaussianCurve)
            assert count.sensitivity == 1.0


# --------------------------------------------------------------------- against the worst


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("method", ["tight", "lifted"])
def test_no_pair_that_a_mask_may_meet_is_told_apart_better(method: str, epsilon: float) -> None:
    """Every hard pair, in both orders, behind the gate where it tells most; and hardly less."""
    plan = _plan(method, epsilon)
    stage = plan.stage(ExactAgreement)
    plan = plan.but(stage)
    rng = np.random.default_rng(4)
    pairs = [
        GaussianPair.joined([pair] * stage.n_components)
        for pair in stage.space.hardest_pairs(stage.gamma, stage.n_features, rng=rng)
    ]
    pairs.append(stage.worst_pair())
    variations = [float(pair.delta(0.0)) for pair in pairs]
    assert max(variations) <= stage.mask_variation <= 1.15 * max(variations)
    worst = pairs[int(np.argmax(variations))]
    for pair in (worst, worst.swapped()):
        best = at_worst_count(pair, stage.price().chances).best_success
        assert best <= plan.ceiling
    assert plan.ceiling - 0.5 <= 1.2 * (best - 0.5)


def test_drawn_losses_stay_below_the_whole_curve(plan: Plan) -> None:
    """Each stage at its worst, the noisy count of a gate included, as if it were shown."""
    sight = plan.price().sight
    assert sight is not None
    shown = sight.with_counts().tradeoff()
    losses = whole_losses(plan, 100_000, rng=np.random.default_rng(8))
    levels = np.linspace(0.0, 0.4, 9)
    found = measured_delta(losses, levels)
    assert np.all(found.low <= shown.delta(levels))
    assert found.estimate[0] >= 0.8 * shown.variation, "and the bound is not idle"
    assert plan.tradeoff().variation <= shown.variation * 1.05


def test_a_plan_that_claims_twice_the_noise_is_caught() -> None:
    """Priced with twice the multiplier it really draws with, the drawn losses pass its curve."""
    plan = _plan("sketch", epsilon=4.0, n_rows=2000)
    claimed = [
        dataclasses.replace(one, multiplier=2 * one.multiplier)
        if isinstance(one, Sketch | Finish)
        else one
        for one in plan.stages
    ]
    priced = plan.but(*claimed).price().sight
    assert priced is not None
    losses = whole_losses(plan, 50_000, rng=np.random.default_rng(9))
    found = measured_delta(losses, [0.0])
    assert found.low[0] > priced.tradeoff().variation
    assert found.low[0] <= plan.tradeoff().variation


# ------------------------------------------------------------------------ several releases


def test_several_gaussian_releases_add_their_mu_squared() -> None:
    spend = price_of([Price((gaussian_curve(5.0),))], 1e-6)
    for times in (1, 4, 9):
        found = told_apart([spend] * times).ceiling
        assert found == pytest.approx(norm.cdf(0.1 * math.sqrt(times)), abs=1e-5)


def test_more_releases_tell_more_and_never_more_than_their_total(plan: Plan) -> None:
    spend = plan.price()
    ceilings = [told_apart([spend] * times).ceiling for times in (1, 2, 5)]
    assert ceilings == sorted(ceilings)
    assert ceilings[0] == plan.ceiling
    for times, ceiling in zip((1, 2, 5), ceilings, strict=True):
        assert ceiling <= total([spend] * times).guess_ceiling
        # total variations add, so advantages do
        assert ceiling - 0.5 <= times * (ceilings[0] - 0.5) * 1.35


def test_methods_of_all_kinds_add_up() -> None:
    spends = [_plan(method).price() for method in registry.names()]
    together = told_apart(spends)
    assert together.ceiling > max(told_apart([spend]).ceiling for spend in spends)
    assert together.ceiling <= total(spends).guess_ceiling
    # what nothing but a curve is known of counts by its curve
    bare = [Spend(spend.budget, spend.curve, spend.shortfall) for spend in spends]
    assert told_apart(bare).ceiling >= together.ceiling - 1e-9
    one = [bare[1]]
    assert told_apart(one).ceiling > told_apart([spends[1]]).ceiling


def test_a_spend_without_sight_is_pinskers() -> None:
    curve = gaussian_curve(5.0)
    plain = Spend(Budget(curve.epsilon(1e-6), 1e-6), RenyiCurve(curve.values), 1e-6)
    assert told_apart([plain]).variation == pytest.approx(0.1, rel=0.01)
    assert told_apart([price_of([Price((curve,))], 1e-6)]).variation == pytest.approx(
        2 * norm.cdf(0.1) - 1, abs=1e-5
    )


@pytest.mark.parametrize("method", registry.names())
def test_an_account_says_the_same_as_the_plan(method: str, tmp_path: Path) -> None:
    """One number for one question: of a plan, in memory, and read back from a file."""
    plan = _plan(method)
    memory = MemoryLedger()
    book = SQLiteBook(tmp_path / "ledger.db")
    kept = book.open("people")
    assert kept.standing().ceiling is None
    assert kept.standing().attacker == ""
    for ledger in (memory, kept):
        ledger.intend(plan, seeded=False).conclude(released=True)
        standing = ledger.standing()
        assert standing.ceiling == pytest.approx(plan.ceiling, abs=1e-9)
        assert standing.attacker == plan.attacker()
        assert standing.to_dict()["ceiling"] == standing.ceiling
    kept.intend(plan, seeded=False)
    both = kept.standing().ceiling
    assert both == pytest.approx(told_apart([plan.price()] * 2).ceiling, abs=1e-9)
    assert both is not None
    assert both > plan.ceiling


# --------------------------------------------------------------------------------- words


def test_a_plan_says_what_an_attacker_gains(plan: Plan) -> None:
    words = plan.explain()
    assert plan.attacker() in words
    assert f"at most {percent_at_most(plan.ceiling)} of the time; chance level is 50%" in words
    assert plan.attacker("person") == guess_in_words(plan.ceiling, "person")
    assert "every other person" in plan.attacker("person")


@pytest.mark.parametrize("chance", [0.5, 0.54291, 0.7310588, 0.99966, 1 - 1e-7, 1 - 1e-15])
def test_what_is_shown_is_never_less_than_what_is_proved(chance: float) -> None:
    shown = float(percent_at_most(chance).rstrip("%")) / 100
    assert shown >= chance * (1 - 1e-12)
    assert shown - chance <= 1e-3
    assert (shown == 1) == (chance > 1 - 1e-11)


@pytest.mark.parametrize("method", EXACT)
def test_the_documented_ceilings_are_those_of_the_plans(method: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / "threats.md").read_text()
    (head,) = (line for line in text.splitlines() if line.startswith("| ε |"))
    (row,) = (line for line in text.splitlines() if line.startswith("| 1 |"))
    columns = [name.strip(" `") for name in head.split("|")]
    stated = float(row.split("|")[columns.index(method)].strip(" %")) / 100
    plan = best_plan(10**6, method=method, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    assert plan.ceiling <= stated <= plan.ceiling + 2e-3
