"""What was spent: told before noise is drawn, and told the verdict after."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from typing import Protocol

from privgmm.budget import Budget
from privgmm.errors import BudgetExceeded, InvalidInput
from privgmm.plan import Plan

__all__ = ["Entry", "Ledger", "MemoryLedger"]


class Ledger(Protocol):
    """A place that keeps account of releases from one data set."""

    def intend(self, plan: Plan, *, seeded: bool) -> int:
        """Write down a spend that is about to happen; raise `BudgetExceeded` to forbid it."""
        ...

    def conclude(self, entry: int, *, released: bool) -> None:
        """Write down how it ended. A refusal has spent its budget too."""
        ...


@dataclasses.dataclass(frozen=True)
class Entry:
    """One spend.

    Parameters
    ----------
    number : int
    method : str
    budget : Budget
        What it cost, released or not.
    seeded : bool
    released : bool or None
        None while the release is under way, or if it never finished.
    """

    number: int
    method: str
    budget: Budget
    seeded: bool
    released: bool | None = None


class MemoryLedger:
    """A ledger that lives as long as the process, with an optional cap.

    Parameters
    ----------
    cap : Budget, optional
        The most that all spends together may cost, epsilons and deltas each added up.
    """

    def __init__(self, cap: Budget | None = None) -> None:
        self._cap = cap
        self._entries: dict[int, Entry] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All spends, oldest first."""
        with self._lock:
            return tuple(self._entries.values())

    def intend(self, plan: Plan, *, seeded: bool) -> int:
        """Write down a spend that is about to happen."""
        cost = plan.spent()
        with self._lock:
            if self._cap is not None:
                epsilon = cost.epsilon + sum(e.budget.epsilon for e in self._entries.values())
                delta = cost.delta + sum(e.budget.delta for e in self._entries.values())
                if not (delta < 1 and self._cap.covers(Budget(epsilon, delta))):
                    raise BudgetExceeded(
                        f"this release would bring the total to ε = {epsilon:.4g}, "
                        f"δ = {delta:.3g}, beyond the cap {self._cap}: nothing was drawn"
                    )
            number = next(self._numbers)
            self._entries[number] = Entry(number, plan.method, cost, seeded)
            return number

    def conclude(self, entry: int, *, released: bool) -> None:
        """Write down how it ended."""
        with self._lock:
            if entry not in self._entries:
                raise InvalidInput(f"there is no entry {entry} in this ledger")
            self._entries[entry] = dataclasses.replace(self._entries[entry], released=released)
