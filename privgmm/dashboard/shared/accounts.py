"""The account that a release is charged to, and the receipts of this session.

Uploaded rows are charged to this machine's ledger, under a fingerprint of the whole file: a reload,
another session and the command line find the same total and the same cap. For generated and bundled
rows no one's privacy is at stake, so their account is kept in memory until the session ends. A
session sees the accounts of the data it chose, and no others: a table of the same shape, or a file
of the same name, shows nothing of what another visitor has spent.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import streamlit as st

from privgmm.budget import Budget
from privgmm.dashboard.shared.chosen_data import ChosenData
from privgmm.data.datasets import Dataset
from privgmm.ledger.history import Entry, History, LookAlike
from privgmm.ledger.memory import MemoryBook
from privgmm.ledger.protocol import Book, Ledger
from privgmm.ledger.sqlite import SQLiteBook
from privgmm.records.notebook import FileRows
from privgmm.records.receipt import make_receipt
from privgmm.results import Refusal, Release

__all__ = ["DataAccount", "account_of", "accounts_to_show"]

_ACCOUNTS = "explore_ledgers"
_CURRENT = "explore_account"
_BOOK = "explore_ledger_book"


@dataclasses.dataclass(frozen=True, eq=False)
class DataAccount:
    """The spends of one data set, as this session sees them.

    Parameters
    ----------
    name : str
        What the data set is called.
    fingerprint : str
        Of the data. It identifies them, so it is never shown.
    book : Book
        Where it is kept.
    lasting : bool
        Whether it is kept when the session ends.
    receipts : dict
        Receipts of this session with the names of their columns, by number in the ledger.
    """

    name: str
    fingerprint: str
    book: Book
    lasting: bool
    receipts: dict[int, tuple[dict[str, Any], tuple[str, ...]]] = dataclasses.field(
        default_factory=dict
    )

    def ledger(
        self, *, cap: Budget | None = None, label: str | None = None, dataset: Dataset | None = None
    ) -> Ledger:
        """Open the ledger; a cap, a label or the shape of a data set given here is kept in it."""
        n_rows = None if dataset is None else dataset.n_rows
        columns = None if dataset is None else dataset.columns
        return self.book.open(
            self.fingerprint, cap=cap, label=label, n_rows=n_rows, columns=columns
        )

    def look_alikes(self) -> list[LookAlike]:
        """List this session's accounts that may be about the same people, if this one is empty.

        The machine's ledger holds accounts of other visitors too. Columns, sizes and names of files
        are easily guessed, so a likeness to those does not show what was spent on them.
        """
        if not self.lasting or self.entries:
            return []
        own = [one for one in _accounts().values() if one.lasting]
        return self._named().look_alikes(one._named() for one in own)

    def _named(self) -> History:
        """Return what the ledger knows, under the name that this session gave to the rows."""
        return dataclasses.replace(self.ledger().history(), label=self.name)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All spends, oldest first."""
        return self.ledger().entries

    def keep_receipt(self, result: Release | Refusal, chosen: ChosenData, learner: str) -> None:
        """Write the receipt of a result, once: it contains the time."""
        dataset, rows = chosen.dataset, chosen.rows
        columns, reading = dataset.columns, None
        if dataset.reading is not None:
            n_rows = dataset.n_rows if chosen.unit == "row" else None
            reading = {**dataset.reading.to_dict(), "rows": n_rows}
            if chosen.preselected:
                reading["columns_preselected"] = True
        steps = dict(rows.jitter) if isinstance(rows, FileRows) else {}
        jitter = [steps.get(name, 0.0) for name in columns] if steps else None
        if result.entry is not None and result.entry not in self.receipts:
            receipt = make_receipt(
                result, learner=learner, jitter=jitter, columns=columns, reading=reading
            )
            self.receipts[result.entry] = receipt, columns


def account_of(chosen: ChosenData) -> DataAccount:
    """Return the account of these rows and make it the current one.

    Raises
    ------
    PrivGMMError
        If the ledger cannot be used: nothing may be released then.
    """
    table = _accounts()
    key = chosen.file or chosen.dataset.fingerprint
    if key not in table and chosen.file is None:
        book = st.session_state.setdefault(_BOOK, MemoryBook())
        table[key] = DataAccount(chosen.dataset.description, key, book, lasting=False)
    elif key not in table:
        table[key] = DataAccount(chosen.dataset.name, key, SQLiteBook(), lasting=True)
    table[key].ledger(dataset=chosen.dataset if table[key].lasting else None)
    st.session_state[_CURRENT] = key
    return table[key]


def accounts_to_show() -> list[DataAccount]:
    """List the current account, and this session's other charged ones, the newest first."""
    table, last = _accounts(), st.session_state.get(_CURRENT)
    others = [table[key] for key in reversed(table) if key != last and table[key].entries]
    return [table[last], *others] if last in table else others


def _accounts() -> dict[str, DataAccount]:
    table: dict[str, DataAccount] = st.session_state.setdefault(_ACCOUNTS, {})
    return table
