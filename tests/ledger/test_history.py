"""What a history says still fits a cap does fit, and nothing larger does."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from privgmm.budget import Budget
from privgmm.errors import BudgetExceeded
from privgmm.ledger.history import Entry, History, exported
from privgmm.methods.plan import Plan
from privgmm.methods.planner import calibrate
from privgmm.privacy.composition import Measure, Spend


@pytest.fixture(scope="module")
def plan() -> Plan:
    return calibrate(
        "lifted",
        epsilon=1.0,
        delta=1e-6,
        alpha=1.0,
        n_components=1,
        n_features=1,
        n_blocks=200,
    )


def an_entry(plan: Plan, number: int = 1) -> Entry:
    return Entry(
        number=number,
        mark=f"{number:016x}",
        method=plan.method,
        spend=plan.price(),
        seeded=False,
        unit="row",
        intended="2024-01-01T00:00:00.000+00:00",
    )


def fitting(plan: Plan, cap: Budget) -> int:
    """Count the spends of the plan that fit, by the account alone."""
    spend = plan.price()
    measure = Measure.choose(cap, spend)
    return next(n for n in itertools.count() if not measure.admits([spend] * (n + 1)))


@pytest.mark.parametrize("cap", [Budget(6.0, 1e-4), Budget(1.2, 1.3e-6)], ids=["joint", "added"])
def test_what_remains_fits_and_no_more_does(plan: Plan, cap: Budget) -> None:
    """`remaining` is for releases counted by their (epsilon, delta), as those of `paper` are."""
    history = History(entries=(an_entry(plan),), cap=cap)
    left = history.standing().remaining
    assert left is not None
    assert history.admit(Spend(left, None, left.delta), "row") is not None
    for epsilon, delta in ((left.epsilon * 1.001, left.delta), (left.epsilon, left.delta * 1.001)):
        more = Budget(epsilon, delta)
        with pytest.raises(BudgetExceeded):
            history.admit(Spend(more, None, more.delta), "row")
    last = dataclasses.replace(an_entry(plan, 2), spend=Spend(left, None, left.delta))
    full = dataclasses.replace(history, entries=(*history.entries, last))
    assert full.standing().remaining is None


@pytest.mark.parametrize("cap", [Budget(6.0, 1e-4), Budget(3.0, 3e-6), Budget(0.9, 1e-3)], ids=str)
def test_more_like_the_last_counts_what_the_cap_admits(plan: Plan, cap: Budget) -> None:
    spend = plan.price()
    measure = Measure.choose(cap, spend)
    most = fitting(plan, cap)
    for before in range(most + 1):
        assert measure.more([spend] * before, spend) == most - before
        entries = tuple(an_entry(plan, number) for number in range(1, before + 1))
        told = History(entries=entries, cap=cap).standing().more
        assert told == (most - before if before else None)


def test_the_measure_of_the_first_spend_is_kept(plan: Plan) -> None:
    """Chosen again in view of later spends it would not hold for plans that follow outcomes."""
    cap = Budget(6.0, 1e-4)
    kept = History(cap=cap).admit(plan.price(), "row")
    assert kept == Measure.choose(cap, plan.price())
    other = Measure(cap, None)
    assert History(cap=cap, measure=other).admit(plan.price(), "row") == other
    assert History().admit(plan.price(), "row") is None


def test_spends_of_several_data_sets_are_listed_oldest_first(plan: Plan) -> None:
    one = History("one", entries=(an_entry(plan, 1), an_entry(plan, 4)))
    other = History("other", "Other", entries=(an_entry(plan, 2), an_entry(plan, 3)))
    rows = exported([one, other])
    assert [row["number"] for row in rows] == [1, 2, 3, 4]
    assert [row["account"] for row in rows] == ["one", "other", "other", "one"]
    assert [row["label"] for row in rows] == [None, "Other", "Other", None]


def test_a_total_says_which_spends_had_a_seed(plan: Plan) -> None:
    private, seeded = an_entry(plan), dataclasses.replace(an_entry(plan, 2), seeded=True)
    whole = History(entries=(private, private)).standing()
    mixed = History(entries=(private, seeded)).standing()
    assert (whole.seeded, mixed.seeded) == (0, 1)
    assert mixed.attacker.startswith(whole.attacker)
    assert (
        "1 of these had a seed, and anyone who knows or guesses it can be certain" in mixed.attacker
    )
    assert mixed.to_dict()["seeded"] == 1
