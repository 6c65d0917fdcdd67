"""What was spent: told before noise is drawn, and told the verdict after.

`composition` says what spends cost together, for this ledger and for the one on disk alike.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias

from privgmm.budget import Budget
from privgmm.errors import BudgetExceeded, InvalidInput
from privgmm.methods.plan import Plan
from privgmm.privacy.composition import Measure, Spend, measure_for, total

__all__ = [
    "UNITS",
    "Entry",
    "Ledger",
    "MemoryLedger",
    "Standing",
    "Unit",
    "check_cap_unit",
    "check_unit",
]

Unit: TypeAlias = Literal["row", "person"]
"""What a guarantee protects: one row, or all rows of one person."""

UNITS: tuple[Unit, ...] = ("row", "person")


class Ledger(Protocol):
    """A place that keeps account of releases from one data set."""

    def intend(self, plan: Plan, *, seeded: bool, unit: Unit = "row") -> int:
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
        A demonstration whose noise can be repeated. It counts like any other: who does not know
        the seed learns as much from it, and who does learns more.
    released : bool or None
        None while the release is under way, or if it never finished.
    unit : {"row", "person"}
        What its guarantee protects.
    """

    number: int
    method: str
    budget: Budget
    seeded: bool
    released: bool | None = None
    unit: Unit = "row"


@dataclasses.dataclass(frozen=True)
class Standing:
    """Where a data set stands: what was spent on it, and what its cap leaves.

    Parameters
    ----------
    spends : int
        How many there are, refused and unfinished ones included.
    unit : {"row", "person"}
        What the total protects: persons only if every spend does. (Whoever protects a person
        protects a row, so person spends count in full towards a total for rows.)
    total : Budget or None
        What all spends cost together, by `composition.total`, at the cap's delta or, without a
        cap, at the sum of all deltas. None if there are none.
    cap : Budget or None
    cap_unit : {"row", "person"}
    remaining : Budget or None
        One more release of this (epsilon, delta) surely fits the cap, however it is made; None
        without a cap, and where nothing is left.
    more : int or None
        How many further releases priced like the last one fit the cap, which may be many more
        than `remaining` suggests; None without a cap or a last one.
    account : str
        What stands for the data set in a file; empty in memory.
    label : str or None
        What people call it.
    """

    spends: int
    unit: Unit
    total: Budget | None
    cap: Budget | None
    cap_unit: Unit
    remaining: Budget | None
    more: int | None = None
    account: str = ""
    label: str | None = None

    @classmethod
    def of(
        cls,
        spends: Sequence[Spend],
        units: Sequence[Unit],
        cap: Budget | None = None,
        measure: Measure | None = None,
        *,
        cap_unit: Unit = "row",
        account: str = "",
        label: str | None = None,
    ) -> Standing:
        """Add up spends and hold them against a cap; `measure` is None until it was chosen."""
        unit: Unit = "person" if units and all(unit == "person" for unit in units) else "row"
        remaining, more = cap, None
        if cap is not None and spends:
            held = Measure.choose(cap, spends[0]) if measure is None else measure
            remaining, more = held.remaining(spends), held.more(spends, spends[-1])
            if cap_unit == "person" != unit:
                # a release for rows may have cost a person anything
                remaining, more = None, 0
        cost = total(spends, None if cap is None else cap.delta) if spends else None
        return cls(len(spends), unit, cost, cap, cap_unit, remaining, more, account, label)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "account": self.account,
            "label": self.label,
            "spends": self.spends,
            "unit": self.unit,
            "total": None if self.total is None else self.total.to_dict(),
            "cap": None if self.cap is None else self.cap.to_dict(),
            "cap_unit": None if self.cap is None else self.cap_unit,
            "remaining": None if self.remaining is None else self.remaining.to_dict(),
            "more_like_the_last": self.more,
        }


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

    def intend(self, plan: Plan, *, seeded: bool, unit: Unit = "row") -> int:
        """Write down a spend that is about to happen."""
        spend = Spend.of(plan)
        check_unit(unit, "unit")
        with self._lock:
            if self._cap is not None:
                check_cap_unit(self._cap_unit, unit)
                self._measure = measure_for(self._cap, [*self._spends, spend], self._measure)
            number = next(self._numbers)
            self._spends.append(spend)
            self._entries[number] = Entry(number, plan.method, spend.budget, seeded, unit=unit)
            return number

    def conclude(self, entry: int, *, released: bool) -> None:
        """Write down how it ended."""
        with self._lock:
            if entry not in self._entries:
                raise InvalidInput(f"there is no entry {entry} in this ledger")
            self._entries[entry] = dataclasses.replace(self._entries[entry], released=released)


def check_unit(unit: Unit, name: str) -> Unit:
    """The unit, or a clear error."""
    if unit not in UNITS:
        raise InvalidInput(f"{name} must be 'row' or 'person', got {unit!r}")
    return unit


def check_cap_unit(cap_unit: Unit, unit: Unit) -> None:
    """Forbid a release for rows under a cap for persons: no number of rows bounds its cost."""
    if cap_unit == "person" and unit == "row":
        raise BudgetExceeded(
            "the cap of this data set protects persons, and this release would protect single "
            "rows only: name who each row belongs to (groups); nothing was drawn and nothing spent"
        )
