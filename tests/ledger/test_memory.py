"""Ledgers in memory: what is not in the contract of all ledgers."""

from __future__ import annotations

import threading

from privgmm.ledger.memory import MemoryBook, MemoryLedger
from tests.ledger.ledger_children import PLAN


def test_a_ledger_by_itself_has_no_name() -> None:
    ledger = MemoryLedger()
    ledger.intend(PLAN, seeded=False)
    assert (ledger.standing().account, ledger.standing().label) == ("", None)
    assert [entry.number for entry in ledger.entries] == [1]
    # and numbers of its own
    assert MemoryLedger().intend(PLAN, seeded=False).number == 1


def test_threads_open_one_ledger_per_data_set() -> None:
    book, barrier = MemoryBook(), threading.Barrier(8)

    def spend(name: str) -> None:
        barrier.wait()
        for _ in range(10):
            book.open(name, label=name).intend(PLAN, seeded=False).conclude(released=True)

    threads = [threading.Thread(target=spend, args=(name,), daemon=True) for name in ["a", "b"] * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(standing.label or "" for standing in book.standings()) == ["a", "b"]
    assert [standing.spends for standing in book.standings()] == [40, 40]
    assert [row["number"] for row in book.export()] == list(range(1, 81))
    assert all(row["released"] for row in book.export())
