"""What a ledger is: told of a spend before noise is drawn, and told the verdict after.

Front doors work with `Book`, `Ledger` and `Intent` alone, whatever is behind them. A class that
names `Ledger` or `Book` as its base writes the abstract methods and gets the others.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, Protocol

from privgmm.budget import Budget, Unit
from privgmm.ledger.history import Entry, History, LookAlike, Standing, exported
from privgmm.methods.plan import Plan
from privgmm.privacy.composition import Spend

__all__ = ["Book", "Intent", "Ledger"]


class Intent(Protocol):
    """A spend that was written down and is about to happen, or has happened."""

    @property
    def number(self) -> int:
        """Its number in the ledger."""
        ...

    @property
    def mark(self) -> str:
        """Its random name, for its receipt: it finds the spend and says nothing else.

        16 hexadecimal digits, others for every spend, so that two receipts of one data set cannot
        be matched by them.
        """
        ...

    def conclude(self, *, released: bool) -> None:
        """Write down how it ended, once. A refusal has spent its budget too.

        Raises
        ------
        PrivGMMError
            If it was concluded before, or cannot be written; then it counts as unfinished.
        """
        ...


class Ledger(Protocol):
    """The account of one data set."""

    @abc.abstractmethod
    def intend(self, plan: Plan, *, seeded: bool, unit: Unit = "row") -> Intent:
        """Write down a spend that is about to happen.

        Raises
        ------
        BudgetExceeded
            If the cap does not allow it. Then nothing is written.
        """
        ...

    @abc.abstractmethod
    def history(self) -> History:
        """Everything known at this moment; what follows from it fits together."""
        ...

    @property
    def cap(self) -> Budget | None:
        """The most that all spends together may cost."""
        return self.history().cap

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All spends, oldest first."""
        return self.history().entries

    def spends(self) -> list[Spend]:
        """What each of them costs, as `composition` adds it up; oldest first."""
        return self.history().spends

    def total(self, delta: float | None = None) -> Budget | None:
        """What all spends cost together, by `composition.total`; None if there are none.

        Converted at `delta`, by default the cap's, without a cap the sum of all deltas. Proved for
        plans that were all made before the first result; see `Standing.total_in_words`.
        """
        return self.history().total(delta)

    def standing(self) -> Standing:
        """Total, cap, and what is left."""
        return self.history().standing()

    def export(self) -> list[dict[str, Any]]:
        """One dict per spend, oldest first: what, when, how it ended and what that means."""
        return self.history().export()


class Book(Protocol):
    """A place that holds the ledgers of many data sets."""

    @abc.abstractmethod
    def open(
        self,
        fingerprint: str,
        *,
        cap: Budget | None = None,
        cap_unit: Unit = "row",
        label: str | None = None,
        n_rows: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Ledger:
        """The ledger of a data set, begun if there is none.

        Parameters
        ----------
        fingerprint : str
            From `file_fingerprint` or `content_fingerprint`, or any name that stands for the data
            set. The book keeps only its HMAC-SHA256 under a random salt of its own. (Label, rows
            and columns are kept as they are.)
        cap : Budget, optional
            The most that all spends together may cost. The first cap given stays and holds for
            everybody from then on, also for those who give none; another one is refused.
        cap_unit : {"row", "person"}
            What the cap protects. Under a cap for persons, releases for rows are not allowed;
            under one for rows, releases for persons count in full.
        label : str, optional
            What people call the data set. The last one counts.
        n_rows : int, optional
            How many rows it has, and
        columns : sequence of str, optional
            what they are called: by these `look_alikes` finds other states of the same table.
        """
        ...

    @abc.abstractmethod
    def find(self, fingerprint: str) -> Ledger | None:
        """The ledger of a data set, or None if there is none; nothing is begun."""
        ...

    @abc.abstractmethod
    def histories(self) -> list[History]:
        """What is known of every data set, in the order in which they came."""
        ...

    def look_alikes(self, ledger: Ledger) -> list[LookAlike]:
        """Other accounts, spent on or capped, that may be about the same people as this one.

        One changed byte makes another data set, with an account of its own that has nothing in
        it. A front door asks here before the first release from one, and tells the curator.
        """
        return ledger.history().look_alikes(self.histories())

    def standings(self) -> list[Standing]:
        """Where every data set stands, in the order in which they came."""
        return [history.standing() for history in self.histories()]

    def export(self) -> list[dict[str, Any]]:
        """One dict per spend, whatever its data set, oldest first."""
        return exported(self.histories())
