"""A ledger that lives as long as the process."""

from __future__ import annotations

import dataclasses
import itertools
import threading

from privgmm.budget import Budget, Unit, check_unit
from privgmm.errors import InvalidInput
from privgmm.ledger.protocol import Entry, Standing, check_cap_unit
from privgmm.methods.plan import Plan
from privgmm.privacy.composition import Measure, Spend, measure_for

__all__ = ["MemoryIntent", "MemoryLedger"]


class MemoryLedger:
    """A ledger that lives as long as the process, with an optional cap.

    Parameters
    ----------
    cap : Budget, optional
        The most that all spends together may cost; `composition` says how they are added.
    cap_unit : {"row", "person"}
        What the cap protects. Under a cap for persons, releases for rows are not allowed.
    """

    def __init__(self, cap: Budget | None = None, *, cap_unit: Unit = "row") -> None:
        self._cap = cap
        self._cap_unit = check_unit(cap_unit, "cap_unit")
        self._measure: Measure | None = None
        self._entries: dict[int, Entry] = {}
        self._spends: list[Spend] = []
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All spends, oldest first."""
        with self._lock:
            return tuple(self._entries.values())

    def standing(self) -> Standing:
        """Total, cap, and what is left."""
        with self._lock:
            units = [entry.unit for entry in self._entries.values()]
            return Standing.of(
                self._spends, units, self._cap, self._measure, cap_unit=self._cap_unit
            )

    def intend(self, plan: Plan, *, seeded: bool, unit: Unit = "row") -> MemoryIntent:
        """Write down a spend that is about to happen."""
        spend = plan.price()
        check_unit(unit, "unit")
        with self._lock:
            if self._cap is not None:
                check_cap_unit(self._cap_unit, unit)
                self._measure = measure_for(self._cap, [*self._spends, spend], self._measure)
            number = next(self._numbers)
            self._spends.append(spend)
            self._entries[number] = Entry(number, plan.method, spend.budget, seeded, unit=unit)
            return MemoryIntent(self, number)

    def conclude(self, entry: int, *, released: bool) -> None:
        """Write down how it ended."""
        with self._lock:
            if entry not in self._entries:
                raise InvalidInput(f"there is no entry {entry} in this ledger")
            self._entries[entry] = dataclasses.replace(self._entries[entry], released=released)


@dataclasses.dataclass(frozen=True)
class MemoryIntent:
    """A spend in a `MemoryLedger`."""

    ledger: MemoryLedger
    number: int
    mark: None = None

    def conclude(self, *, released: bool) -> None:
        """Write down how it ended."""
        self.ledger.conclude(self.number, released=released)
