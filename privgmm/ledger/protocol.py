"""What a ledger is: told of a spend before noise is drawn, and told the verdict after.

Front doors work with `Ledger` and `Intent` alone, whichever ledger is behind them.
`privacy.composition` says what spends cost together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

from privgmm.budget import Budget, Unit
from privgmm.errors import BudgetExceeded
from privgmm.methods.plan import Plan
from privgmm.privacy.composition import Measure, Spend, total

__all__ = ["Entry", "Intent", "Ledger", "Standing", "check_cap_unit"]


class Intent(Protocol):
    """A spend that was written down and is about to happen, or has happened."""

    @property
    def number(self) -> int:
        """Its number in the ledger."""
        ...

    @property
    def mark(self) -> str | None:
        """Its random name, for its receipt: it finds the spend and says nothing else."""
        ...

    def conclude(self, *, released: bool) -> None:
        """Write down how it ended, once. A refusal has spent its budget too."""
        ...


class Ledger(Protocol):
    """A place that keeps account of releases from one data set."""

    @property
    def cap(self) -> Budget | None:
        """The most that all spends together may cost."""
        ...

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All spends, oldest first."""
        ...

    def intend(self, plan: Plan, *, seeded: bool, unit: Unit = "row") -> Intent:
        """Write down a spend that is about to happen; raise `BudgetExceeded` to forbid it."""
        ...

    def spends(self) -> list[Spend]:
        """What each of them costs, as `composition` adds it up; oldest first."""
        ...

    def standing(self) -> Standing:
        """Total, cap, and what is left."""
        ...

    def total(self, delta: float | None = None) -> Budget | None:
        """What all spends cost together; None if there are none."""
        ...

    def export(self) -> list[dict[str, Any]]:
        """One dict per spend, oldest first: what, when, how it ended and why."""
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


def check_cap_unit(cap_unit: Unit, unit: Unit) -> None:
    """Forbid a release for rows under a cap for persons: no number of rows bounds its cost."""
    if cap_unit == "person" and unit == "row":
        raise BudgetExceeded(
            "the cap of this data set protects persons, and this release would protect single "
            "rows only: name who each row belongs to (groups); nothing was drawn and nothing spent"
        )
