"""What a ledger knows of one data set at one moment, and what follows from it.

Ledgers differ in where they keep a `History`, not in what they conclude from it: totals, caps and
exports are computed here, once. `privacy.composition` says what spends cost together.
"""

from __future__ import annotations

import csv
import dataclasses
import datetime
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from privgmm.arrays import whole_number
from privgmm.budget import Budget, Unit, check_unit, guess_in_words
from privgmm.data.spreadsheets import inert
from privgmm.errors import BudgetExceeded, InvalidInput, PrivGMMError
from privgmm.privacy.composition import (
    Measure,
    Spend,
    added,
    measure_for,
    told_apart,
    total,
)

__all__ = [
    "Entry",
    "History",
    "LedgerStanding",
    "LookAlike",
    "account_name",
    "check_fingerprint",
    "exported",
    "new_mark",
    "now",
    "write_csv",
]

_VERDICTS: Mapping[bool | None, str] = {None: "unfinished", False: "refused", True: "released"}
_MEANINGS: Mapping[bool | None, str] = {
    None: "unfinished: counted as spent, because its noise may have been drawn",
    False: "refused: the budget is spent although nothing is published",
    True: "released",
}
_COLUMNS = (
    "number",
    "mark",
    "account",
    "label",
    "method",
    "epsilon",
    "delta",
    "unit",
    "seeded",
    "intended",
    "concluded",
    "released",
    "reason",
    "meaning",
)


def check_fingerprint(fingerprint: str) -> str:
    """Return a fingerprint if it can stand for a data set; raise `InvalidInput` if not."""
    if not isinstance(fingerprint, str) or not fingerprint:
        raise InvalidInput(
            f"fingerprint must be a non-empty string, got {fingerprint!r}: use "
            "content_fingerprint(X), or a name of your own for the data set"
        )
    return fingerprint


def account_name(fingerprint: str, salt: bytes) -> str:
    """Compute what stands for a data set in a book: HMAC-SHA256 of its fingerprint and a salt."""
    name = check_fingerprint(fingerprint).encode("utf-8", "surrogatepass")
    return hmac.new(salt, name, hashlib.sha256).hexdigest()


def new_mark() -> str:
    """Draw a random name for a spend: 16 hexadecimal digits."""
    return secrets.token_hex(8)


def now() -> str:
    """Return the time with its zone, in ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """One spend: what it cost, and how it ended.

    Parameters
    ----------
    number : int
        Its place among all spends of its book, from 1; later spends have larger numbers.
    mark : str
        Its random name, for its receipt.
    method : str
    spend : Spend
        What it cost; a refusal costs the same.
    seeded : bool
        A demonstration whose noise can be repeated. It counts like any other: a person who does
        not know the seed learns as much from it, and one who knows it learns more.
    unit : {"row", "person"}
        What its guarantee protects.
    intended : str
        When it was written down, before its noise was drawn.
    concluded : str or None
        When it ended; None while it is under way, or if it never finished.
    released : bool or None
        How it ended; None while `concluded` is.
    reason : str or None
        Why it was refused, as a sentence that may be published; None otherwise, and where it was
        not written down.
    """

    number: int
    mark: str
    method: str
    spend: Spend
    seeded: bool
    unit: Unit
    intended: str
    concluded: str | None = None
    released: bool | None = None
    reason: str | None = None

    @property
    def budget(self) -> Budget:
        """What it cost, as one guarantee."""
        return self.spend.budget

    @property
    def verdict(self) -> str:
        """How it ended, in a word."""
        return _VERDICTS[self.released]

    @property
    def meaning(self) -> str:
        """How it ended, and what that means for the account."""
        meaning = _MEANINGS[self.released]
        return meaning if self.reason is None else f"{meaning}. {self.reason}"

    def ended(self, *, released: bool, reason: str | None = None) -> Entry:
        """Return the entry with its verdict, which can be written down once."""
        if released and reason is not None:
            raise InvalidInput(f"reason must be left out of a release, got {reason!r}")
        if self.released is not None:
            raise PrivGMMError(
                f"spend {self.number} was concluded already, as {self.verdict}: a verdict is "
                "written down once and stays"
            )
        return dataclasses.replace(self, released=released, reason=reason, concluded=now())


@dataclasses.dataclass(frozen=True)
class LedgerStanding:
    """What was spent on a data set, and what its cap leaves.

    Parameters
    ----------
    spends : int
        Number of spends, refused and unfinished ones included.
    unit : {"row", "person"}
        What the total protects: persons only if every spend does. (To protect a person is to
        protect each of their rows, so spends for persons count in full in a total for rows.)
    total : Budget or None
        What all spends cost together, by `composition.total`, at the cap's delta or, without a
        cap, at the sum of all deltas. None if there are none. It is proved for a list of plans
        that was fixed before the first release; `total_in_words` says what holds otherwise.
    cap : Budget or None
    cap_unit : {"row", "person"}
    remaining : Budget or None
        One more release of this (epsilon, delta) surely fits the cap, by any method; None without
        a cap, and where nothing is left.
    more : int or None
        How many further releases priced like the last one fit the cap, which may be many more
        than `remaining` suggests; None without a cap or without a spend.
    account : str
        What stands for the data set in a book; empty for a ledger by itself.
    label : str or None
        What people call it.
    added : Budget or None
        All epsilons and all deltas added up. This holds also if plans were chosen in view of
        results, which an account cannot show; where there is a cap, the cap holds then too.
    seen : tuple of Spend
        All spends, for `ceiling`.
    seeded : int
        How many of them were demonstrations: a person who knows the seed of one can be certain.
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
    added: Budget | None = None
    seen: tuple[Spend, ...] = dataclasses.field(default=(), repr=False, compare=False)
    seeded: int = 0

    @property
    def ceiling(self) -> float | None:
        """The largest chance that an attacker who sees all results guesses right; None if no spend.

        It holds where `total` does, for attackers who do not know the seed of a seeded spend, and
        is computed when it is asked for.
        """
        return told_apart(self.seen).ceiling if self.seen else None

    @property
    def attacker(self) -> str:
        """Say `ceiling` as a clause; empty without a spend."""
        ceiling = self.ceiling
        if ceiling is None:
            return ""
        words = guess_in_words(ceiling, self.unit)
        if self.seeded:
            words += (
                f"; but {self.seeded:,} of these had a seed, and anyone who knows or guesses it "
                "can be certain"
            )
        return words

    @property
    def total_in_words(self) -> str:
        """Say the total, and for which choice of plans it holds."""
        if self.total is None or self.added is None:
            return "nothing was spent"
        if self.spends == 1:
            return f"1 spend {self.total} for a {self.unit}"
        words = f"{self.spends} spends, together {self.total} for a {self.unit}"
        if self.cap is not None:
            return (
                f"{words} if all were planned before the first result; the cap, if it was set "
                "before that, holds in any case"
            )
        if self.total == self.added:
            return words
        return (
            f"{words} if all were planned before the first result, {self.added} if some were "
            "planned in view of others"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "account": self.account,
            "label": self.label,
            "spends": self.spends,
            "unit": self.unit,
            "total": None if self.total is None else self.total.to_dict(),
            "added": None if self.added is None else self.added.to_dict(),
            "ceiling": self.ceiling,
            "seeded": self.seeded,
            "cap": None if self.cap is None else self.cap.to_dict(),
            "cap_unit": None if self.cap is None else self.cap_unit,
            "remaining": None if self.remaining is None else self.remaining.to_dict(),
            "more_like_the_last": self.more,
        }


@dataclasses.dataclass(frozen=True)
class LookAlike:
    """An account that may be about the same people as another one.

    Parameters
    ----------
    history : History
        What is known of it.
    likeness : str
        What the two have in common, in words.
    """

    history: History
    likeness: str

    def __str__(self) -> str:
        called = "" if self.history.label is None else f" ({self.history.label!r})"
        return (
            f"it has {self.likeness} as account {self.history.account[:12]}{called}: "
            f"{self.history.standing().total_in_words}"
        )


@dataclasses.dataclass(frozen=True)
class History:
    """All spends of one data set, its cap, and how they are counted against it.

    Parameters
    ----------
    account : str
        What stands for the data set in a book; empty for a ledger by itself.
    label : str or None
        What people call it.
    entries : tuple of Entry
        Oldest first.
    cap : Budget or None
        The most that all spends together may cost.
    cap_unit : {"row", "person"}
        What the cap protects.
    measure : Measure or None
        How spends are counted against the cap; None until the first one under it.
    n_rows : int or None
        How many rows it has, if that is known.
    columns : tuple of str or None
        Their names, if these are known.
    """

    account: str = ""
    label: str | None = None
    entries: tuple[Entry, ...] = ()
    cap: Budget | None = None
    cap_unit: Unit = "row"
    measure: Measure | None = None
    n_rows: int | None = None
    columns: tuple[str, ...] | None = None

    @property
    def spends(self) -> list[Spend]:
        """What each entry cost, as `composition` adds it up; oldest first."""
        return [entry.spend for entry in self.entries]

    def total(self, delta: float | None = None) -> Budget | None:
        """Compute what all spends cost together, by `composition.total`; None if there are none.

        Converted at `delta`, by default the cap's, without a cap the sum of all deltas.
        """
        if not self.entries:
            return None
        at = self.cap.delta if delta is None and self.cap is not None else delta
        return total(self.spends, at)

    def standing(self) -> LedgerStanding:
        """Add up the spends and compare them with the cap."""
        spends, remaining, more = self.spends, self.cap, None
        persons = bool(self.entries) and all(entry.unit == "person" for entry in self.entries)
        if self.cap is not None and spends:
            measure = self.measure or Measure.choose(self.cap, spends[0])
            remaining, more = measure.remaining(spends), measure.more(spends, spends[-1])
            if self.cap_unit == "person" and not persons:
                # a release for rows may have cost a person with many rows any amount
                remaining, more = None, 0
        return LedgerStanding(
            len(spends),
            "person" if persons else "row",
            self.total(),
            self.cap,
            self.cap_unit,
            remaining,
            more,
            self.account,
            self.label,
            added(spends) if spends else None,
            tuple(spends),
            sum(entry.seeded for entry in self.entries),
        )

    def likeness(self, other: History) -> str | None:
        """Say what this data set has in common with another one; None if nothing stands out.

        Accounts are found by a digest, so a file with one changed byte is another data set. If it
        has the same name, columns or size, its rows may belong to the same people.
        """
        if self.account == other.account:
            return None
        found = []
        if self.label is not None and self.label == other.label:
            found.append("the same name")
        if self.columns is not None and other.columns is not None:
            if _are_telling(self.columns) and set(self.columns) == set(other.columns):
                found.append("the same columns")
            if (self.n_rows, len(self.columns)) == (other.n_rows, len(other.columns)):
                found.append("as many rows and columns")
        return " and ".join(found) or None

    def look_alikes(self, others: Iterable[History]) -> list[LookAlike]:
        """Find data sets, spent on or capped, that may be about the same people."""
        return [
            LookAlike(other, words)
            for other in others
            if (other.entries or other.cap is not None) and (words := self.likeness(other))
        ]

    def export(self) -> list[dict[str, Any]]:
        """Return one dict per spend, oldest first: what, when, how it ended and what that means."""
        return [
            {
                "number": entry.number,
                "mark": entry.mark,
                "account": self.account,
                "label": self.label,
                "method": entry.method,
                "epsilon": entry.budget.epsilon,
                "delta": entry.budget.delta,
                "unit": entry.unit,
                "seeded": entry.seeded,
                "intended": entry.intended,
                "concluded": entry.concluded,
                "released": entry.released,
                "reason": entry.reason,
                "meaning": entry.meaning,
            }
            for entry in self.entries
        ]

    def opened(
        self,
        *,
        cap: Budget | None = None,
        cap_unit: Unit = "row",
        label: str | None = None,
        n_rows: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> History:
        """Return the history with a label, shape and cap: the last label counts, the first cap.

        Raises
        ------
        InvalidInput
            If it has another cap already.
        """
        check_unit(cap_unit, "cap_unit")
        changed = self
        if label is not None:
            changed = dataclasses.replace(changed, label=_as_text(label))
        if n_rows is not None:
            changed = dataclasses.replace(changed, n_rows=whole_number(n_rows, "n_rows", 0))
        if columns is not None:
            changed = dataclasses.replace(changed, columns=tuple(map(_as_text, columns)))
        if cap is None:
            return changed
        if self.cap is None:
            return dataclasses.replace(changed, cap=cap, cap_unit=cap_unit)
        if (self.cap, self.cap_unit) != (cap, cap_unit):
            raise InvalidInput(
                f"cap: this data set already has the cap {self.cap} for a {self.cap_unit}, and "
                f"{cap} for a {cap_unit} cannot replace it; leave cap out to go on under the one "
                "it has"
            )
        return changed

    def admit(self, spend: Spend, unit: Unit) -> Measure | None:
        """Return how spends are counted against the cap, this one included; None without a cap.

        Raises
        ------
        BudgetExceeded
            If this spend does not fit.
        """
        check_unit(unit, "unit")
        if self.cap is None:
            return None
        if self.cap_unit == "person":
            self._check_persons(unit)
        return measure_for(self.cap, [*self.spends, spend], self.measure)

    def _check_persons(self, unit: Unit) -> None:
        """Refuse spends for rows under a cap for persons: a person may have any number of rows."""
        if unit == "row":
            raise BudgetExceeded(
                "the cap of this data set protects persons, and this release would protect single "
                "rows only: say which person each row belongs to (groups); nothing was drawn and "
                "nothing spent"
            )
        if any(entry.unit == "row" for entry in self.entries):
            raise BudgetExceeded(
                "the cap of this data set protects persons, and a release before it protects "
                "single rows only, so what that cost a person has no bound: no further release "
                "fits; nothing was drawn and nothing spent"
            )


def _as_text(name: str) -> str:
    """Replace what cannot be encoded, so that the text can be shown and written anywhere."""
    return str(name).encode("utf-8", "replace").decode()


def _are_telling(columns: Sequence[str]) -> bool:
    """Whether a person gave these names: those of an array are x1, x2 and so on."""
    return not all(re.fullmatch("x[0-9]*", name) for name in columns)


def exported(histories: Iterable[History]) -> list[dict[str, Any]]:
    """Return one dict per spend of several data sets, oldest first."""
    rows = [row for history in histories for row in history.export()]
    return sorted(rows, key=lambda row: int(row["number"]))


def write_csv(rows: Iterable[Mapping[str, Any]], stream: TextIO) -> None:
    """Write spends as CSV, from what `exported` or a ledger's `export` returns."""
    writer = csv.DictWriter(stream, _COLUMNS)
    writer.writeheader()
    writer.writerows({name: inert(value) for name, value in row.items()} for row in rows)
