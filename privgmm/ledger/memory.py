"""Ledgers that last as long as the process: one by itself, or a book of many."""

from __future__ import annotations

import dataclasses
import itertools
import secrets
import threading
from collections.abc import Iterator, Sequence

from privgmm.budget import Budget, Unit
from privgmm.ledger.history import Entry, History, account_name, new_mark, now
from privgmm.ledger.protocol import Book, Intent, Ledger
from privgmm.methods.plan import Plan

__all__ = ["MemoryBook", "MemoryIntent", "MemoryLedger"]


class MemoryLedger(Ledger):
    """A ledger that lasts as long as the process, with an optional cap.

    Parameters
    ----------
    cap : Budget, optional
        The most that all spends together may cost; `composition` says how they are added.
    cap_unit : {"row", "person"}
        What the cap protects. Under a cap for persons, releases for rows are not allowed.
    """

    def __init__(self, cap: Budget | None = None, *, cap_unit: Unit = "row") -> None:
        self._history = History().opened(cap=cap, cap_unit=cap_unit)
        self._numbers: Iterator[int] = itertools.count(1)
        self._lock = threading.Lock()

    def history(self) -> History:
        """Return everything known at this moment."""
        with self._lock:
            return self._history

    def intend(self, plan: Plan, *, seeded: bool, unit: Unit = "row") -> Intent:
        """Write down a spend that is about to happen, or raise `BudgetExceeded`."""
        spend = plan.price()
        with self._lock:
            measure = self._history.admit(spend, unit)
            entry = Entry(
                number=next(self._numbers),
                mark=new_mark(),
                method=plan.method,
                spend=spend,
                seeded=seeded,
                unit=unit,
                intended=now(),
            )
            self._history = dataclasses.replace(
                self._history, entries=(*self._history.entries, entry), measure=measure
            )
        return MemoryIntent(entry.number, entry.mark, self)

    def _conclude(self, number: int, *, released: bool, reason: str | None) -> None:
        with self._lock:
            self._history = dataclasses.replace(
                self._history,
                entries=tuple(
                    entry.ended(released=released, reason=reason)
                    if entry.number == number
                    else entry
                    for entry in self._history.entries
                ),
            )


@dataclasses.dataclass(frozen=True)
class MemoryIntent:
    """A spend in a `MemoryLedger`."""

    number: int
    mark: str
    _ledger: MemoryLedger = dataclasses.field(repr=False)

    def conclude(self, *, released: bool, reason: str | None = None) -> None:
        """Write down how it ended, once."""
        self._ledger._conclude(self.number, released=released, reason=reason)


class MemoryBook(Book):
    """The ledgers of many data sets, for as long as the process lasts."""

    def __init__(self) -> None:
        self._salt = secrets.token_bytes(32)
        self._numbers = itertools.count(1)
        self._ledgers: dict[str, MemoryLedger] = {}
        self._lock = threading.Lock()

    def open(
        self,
        fingerprint: str,
        *,
        cap: Budget | None = None,
        cap_unit: Unit = "row",
        label: str | None = None,
        n_rows: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> MemoryLedger:
        """Return the ledger of a data set; make one if there is none."""
        account = account_name(fingerprint, self._salt)
        with self._lock:
            ledger = self._ledgers.get(account)
            if ledger is None:
                ledger = MemoryLedger()
                ledger._history, ledger._numbers = History(account), self._numbers
            with ledger._lock:
                ledger._history = ledger._history.opened(
                    cap=cap, cap_unit=cap_unit, label=label, n_rows=n_rows, columns=columns
                )
            self._ledgers[account] = ledger
        return ledger

    def find(self, fingerprint: str) -> MemoryLedger | None:
        """Return the ledger of a data set; None if there is none."""
        with self._lock:
            return self._ledgers.get(account_name(fingerprint, self._salt))

    def histories(self) -> list[History]:
        """Return what is known of every data set, in the order in which they were opened first."""
        with self._lock:
            return [ledger.history() for ledger in self._ledgers.values()]
