"""The account: intentions first, verdicts after, a cap that holds."""

from __future__ import annotations

import threading

import pytest

from privgmm.budget import Budget
from privgmm.calibration import calibrate
from privgmm.errors import BudgetExceeded, InvalidInput
from privgmm.ledger import MemoryLedger
from privgmm.plan import Plan


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


def test_the_cap_counts_refusals_and_unfinished_spends(plan: Plan) -> None:
    ledger = MemoryLedger(cap=Budget(2.5, 1e-5))
    first = ledger.intend(plan, seeded=False)
    ledger.conclude(first, released=False)
    ledger.intend(plan, seeded=False)
    with pytest.raises(BudgetExceeded, match="nothing was drawn"):
        ledger.intend(plan, seeded=False)
    assert len(ledger.entries) == 2


def test_the_cap_holds_for_delta_too(plan: Plan) -> None:
    ledger = MemoryLedger(cap=Budget(100.0, 1.5e-6))
    ledger.intend(plan, seeded=False)
    with pytest.raises(BudgetExceeded):
        ledger.intend(plan, seeded=False)


def test_a_cap_can_be_used_up_exactly(plan: Plan) -> None:
    spent = plan.spent()
    ledger = MemoryLedger(cap=Budget(2 * spent.epsilon, 2 * spent.delta))
    ledger.intend(plan, seeded=False)
    ledger.intend(plan, seeded=False)
    with pytest.raises(BudgetExceeded):
        ledger.intend(plan, seeded=False)


def test_threads_cannot_pass_the_cap_together(plan: Plan) -> None:
    ledger = MemoryLedger(cap=Budget(5.01, 1e-3))
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
    assert len(ledger.entries) == 5
    assert len(refused) == 7
    assert sorted(e.number for e in ledger.entries) == [e.number for e in ledger.entries]


def test_an_unknown_entry_cannot_be_concluded() -> None:
    with pytest.raises(InvalidInput, match="no entry 3"):
        MemoryLedger().conclude(3, released=True)
