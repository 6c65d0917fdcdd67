"""What a ledger is: it writes down a spend before noise is drawn, and the verdict after.

Front doors work with `Book`, `Ledger` and `Intent` alone, wherever they are kept. A class that
names `Ledger` or `Book` as its base writes the abstract methods and gets the others.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, Protocol

from privgmm.budget import Budget, Unit
from privgmm.ledger.history import Entry, History, LedgerStanding, LookAlike, exported
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
        """Its random name, for its receipt: it identifies the spend and says nothing else.

        16 hexadecimal digits, others for every spend, so that two receipts of one data set cannot
        be matched by them.
        """
        ...

    def conclude(self, *, released: bool, reason: str | None = None) -> None:
        """Write down how it ended, once. A refusal has spent its budget too.

        Parameters
        ----------
        released : bool
        reason : str, optional
            Of a refusal: `Refusal.why`, a sentence made of public numbers.

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
        """Return everything known at this moment, as one consistent state."""
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
        """Return what each spend costs, as `composition` adds it up; oldest first."""
        return self.history().spends

    def total(self, delta: float | None = None) -> Budget | None:
        """Compute what all spends cost together, by `composition.total`; None if there are none.

        Converted at `delta`, by default the cap's, without a cap the sum of all deltas. Proved for
        plans that were all made before the first result; see `LedgerStanding.total_in_words`.
        """
        return self.history().total(delta)

    def standing(self) -> LedgerStanding:
        """Compute the total, the cap, and what is left."""
        return self.history().standing()

    def export(self) -> list[dict[str, Any]]:
        """Return one dict per spend, oldest first: what, when, how it ended and what that means."""
        return self.history().export()


class Book(Protocol):
    """The ledgers of many data sets."""

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
        """Return the ledger of a data set; make one if there is none.

        Parameters
        ----------
        fingerprint : str
            From `file_fingerprint` or `content_fingerprint`, or any name that stands for the data
            set. The book keeps only its HMAC-SHA256 under a random salt of its own. (Label, rows
            and columns are kept as they are.)
        cap : Budget, optional
            The most that all spends together may cost. The first cap given stays. It holds for
            all callers from then on, also for those who give none; another cap is refused.
        cap_unit : {"row", "person"}
            What the cap protects. Under a cap for persons, releases for rows are not allowed;
            under one for rows, releases for persons count in full.
        label : str, optional
            What people call the data set. The last one counts.
        n_rows : int, optional
            How many rows it has.
        columns : sequence of str, optional
            Names of its columns. With `n_rows`, `look_alikes` finds other states of the same table
            by them.
        """
        ...

    @abc.abstractmethod
    def find(self, fingerprint: str) -> Ledger | None:
        """Return the ledger of a data set; None if there is none."""
        ...

    @abc.abstractmethod
    def histories(self) -> list[History]:
        """Return what is known of every data set, in the order in which they were opened first."""
        ...

    def look_alikes(self, ledger: Ledger) -> list[LookAlike]:
        """Find other accounts, spent on or capped, that may be about the same people as this one.

        One changed byte makes another data set, with an empty account of its own. A front door
        asks here before the first release from it, and warns the curator.
        """
        return ledger.history().look_alikes(self.histories())

    def standings(self) -> list[LedgerStanding]:
        """Return the standing of every data set, in the order of `histories`."""
        return [history.standing() for history in self.histories()]

    def export(self) -> list[dict[str, Any]]:
        """Return one dict per spend of all data sets, oldest first."""
        return exported(self.histories())
