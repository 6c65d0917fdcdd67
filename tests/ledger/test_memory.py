"""The account: intentions first, verdicts after, a cap that holds."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from pathlib import Path

import pytest

from privgmm.budget import Budget
from privgmm.errors import BudgetExceeded, InvalidInput
from privgmm.ledger.memory import MemoryLedger
from privgmm.ledger.sqlite import SQLiteLedger
from privgmm.methods.plan import Plan
from privgmm.methods.planner import calibrate
from privgmm.privacy.composition import Measure, Spend, total


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


def test_an_intention_is_a_spend_until_it_is_concluded(plan: Plan) -> None:
    ledger = MemoryLedger()
    number = ledger.intend(plan, seeded=True)
    (entry,) = ledger.entries
    assert (entry.number, entry.method, entry.seeded) == (number, "lifted", True)
    assert entry.released is None
    assert entry.budget == plan.spent()
    ledger.conclude(number, released=False)
    (entry,) = ledger.entries
    assert entry.released is False
    assert entry.budget == plan.spent()


def fitting(plan: Plan, cap: Budget) -> int:
    """How many spends of the plan fit, by the account alone."""
    spend = Spend.of(plan)
    measure = Measure.choose(cap, spend)
    return next(n for n in itertools.count() if not measure.admits([spend] * (n + 1)))


@pytest.mark.parametrize(
    "cap", [Budget(2.5, 1e-5), Budget(100.0, 1.5e-6), Budget(2.0, 2e-6)], ids=str
)
def test_the_cap_counts_refusals_and_unfinished_spends(plan: Plan, cap: Budget) -> None:
    ledger = MemoryLedger(cap)
    most = fitting(plan, cap)
    assert most >= 1
    for i in range(most):
        entry = ledger.intend(plan, seeded=False)
        if i % 2:
            ledger.conclude(entry, released=False)
    with pytest.raises(BudgetExceeded, match="nothing was drawn"):
        ledger.intend(plan, seeded=False)
    assert len(ledger.entries) == most


def test_a_cap_can_be_used_up_exactly(plan: Plan) -> None:
    ledger = MemoryLedger(cap=plan.spent())
    assert ledger.standing().remaining == plan.spent()
    ledger.intend(plan, seeded=False)
    with pytest.raises(BudgetExceeded):
        ledger.intend(plan, seeded=False)
    assert ledger.standing().remaining is None
    assert ledger.standing().more == 0


@pytest.mark.parametrize("cap", [None, Budget(6.0, 1e-4), Budget(5.0, 5e-6)], ids=str)
def test_memory_and_disk_tell_the_same(plan: Plan, cap: Budget | None, tmp_path: Path) -> None:
    """One account for both: the joint one, which for several releases is below the sum."""
    memory, disk = MemoryLedger(cap), SQLiteLedger(tmp_path / "spends.db", "people", cap=cap)
    both: list[MemoryLedger | SQLiteLedger] = [memory, disk]
    for number in range(5):
        there, here = disk.standing(), memory.standing()
        assert here == dataclasses.replace(there, account="", label=None)
        assert here.spends == number
        assert here.total == (None if number == 0 else total([Spend.of(plan)] * number, delta(cap)))
        for ledger in both:
            ledger.intend(plan, seeded=False, unit="person" if number < 2 else "row")
    cost = memory.standing().total
    assert cost is not None
    assert cost.epsilon < 5 * plan.spent().epsilon


def delta(cap: Budget | None) -> float | None:
    return None if cap is None else cap.delta


@pytest.mark.parametrize("cap", [Budget(6.0, 1e-4), Budget(1.2, 1.3e-6)], ids=["joint", "added"])
def test_what_remains_fits_and_no_more_does(plan: Plan, cap: Budget) -> None:
    """`remaining` is for releases counted by their (epsilon, delta), as those of `paper` are."""
    spends = [Spend.of(plan)]
    measure = Measure.choose(cap, spends[0])
    left = measure.remaining(spends)
    assert left is not None
    assert measure.admits([*spends, Spend(left, None, left.delta)])
    for epsilon, delta in ((left.epsilon * 1.001, left.delta), (left.epsilon, left.delta * 1.001)):
        more = Budget(epsilon, delta)
        assert not measure.admits([*spends, Spend(more, None, more.delta)])
    assert measure.remaining([*spends, Spend(left, None, left.delta)]) is None


@pytest.mark.parametrize("cap", [Budget(6.0, 1e-4), Budget(3.0, 3e-6), Budget(0.9, 1e-3)], ids=str)
def test_more_like_the_last_counts_what_the_cap_admits(plan: Plan, cap: Budget) -> None:
    spend = Spend.of(plan)
    measure = Measure.choose(cap, spend)
    most = fitting(plan, cap)
    for before in range(most + 1):
        assert measure.more([spend] * before, spend) == most - before


def test_a_total_protects_persons_only_if_every_spend_does(plan: Plan) -> None:
    ledger = MemoryLedger()
    ledger.intend(plan, seeded=False, unit="person")
    assert ledger.standing().unit == "person"
    ledger.intend(plan, seeded=False)
    assert ledger.standing().unit == "row"
    assert [entry.unit for entry in ledger.entries] == ["person", "row"]


def test_a_cap_for_persons_forbids_releases_for_rows(plan: Plan, tmp_path: Path) -> None:
    cap = Budget(50.0, 1e-3)
    file = tmp_path / "spends.db"
    ledgers: list[MemoryLedger | SQLiteLedger] = [
        MemoryLedger(cap, cap_unit="person"),
        SQLiteLedger(file, "people", cap=cap, cap_unit="person"),
    ]
    for ledger in ledgers:
        ledger.intend(plan, seeded=False, unit="person")
        with pytest.raises(BudgetExceeded, match="groups"):
            ledger.intend(plan, seeded=False)
        assert ledger.standing().spends == 1
        assert ledger.standing().remaining is not None
    with pytest.raises(InvalidInput, match="already has the cap"):
        SQLiteLedger(file, "people", cap=cap)
    # a cap for persons that came after a release for rows can allow nothing more
    SQLiteLedger(file, "others").intend(plan, seeded=False)
    late = SQLiteLedger(file, "others", cap=cap, cap_unit="person")
    assert late.standing().remaining is None
    with pytest.raises(BudgetExceeded, match="persons"):
        late.intend(plan, seeded=False, unit="person")


def test_units_are_known(plan: Plan) -> None:
    with pytest.raises(InvalidInput, match="cap_unit"):
        MemoryLedger(cap_unit="family")  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(InvalidInput, match="unit"):
        MemoryLedger().intend(plan, seeded=False, unit="family")  # type: ignore[arg-type]


def test_threads_cannot_pass_the_cap_together(plan: Plan) -> None:
    cap = Budget(5.01, 5.5e-6)
    ledger = MemoryLedger(cap)
    refused = []
    barrier = threading.Barrier(12)

    def spend() -> None:
        barrier.wait()
        try:
            ledger.intend(plan, seeded=False)
        except BudgetExceeded as problem:
            refused.append(problem)

    threads = [threading.Thread(target=spend) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.entries) == fitting(plan, cap) < 12
    assert len(refused) == 12 - len(ledger.entries)
    assert sorted(e.number for e in ledger.entries) == [e.number for e in ledger.entries]


def test_an_unknown_entry_cannot_be_concluded() -> None:
    with pytest.raises(InvalidInput, match="no entry 3"):
        MemoryLedger().conclude(3, released=True)
