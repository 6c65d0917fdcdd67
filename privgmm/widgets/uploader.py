"""A table of one's own: read it, choose what is promised, release it once, and look again."""

from __future__ import annotations

import functools

import ipywidgets
import pandas as pd

from privgmm.budget import Budget
from privgmm.data.datasets import Dataset, load_table
from privgmm.data.tables import numeric_columns
from privgmm.errors import PrivGMMError
from privgmm.ledger.memory import MemoryLedger
from privgmm.ledger.protocol import Ledger
from privgmm.methods.planner import best_plan
from privgmm.releases import release
from privgmm.results import Release
from privgmm.showing.html import refusal_html
from privgmm.stages.sketch.choice import MOST_OFFERED
from privgmm.teaching.format import problem_in_words
from privgmm.teaching.rehearsal import EPSILON_STOPS
from privgmm.widgets.live import Board, button, slider, words, words_html
from privgmm.widgets.looker import look_again
from privgmm.widgets.spending import account

__all__ = ["own_table"]

_MOST_COLUMNS = 4
"""Columns chosen at first, at most: each further one asks for more rows."""


def own_table(ledger: Ledger | None = None) -> Board:
    """Release a CSV or Parquet file, with fresh noise, and show its account grow.

    The file stays in the notebook's kernel. Each press of Release spends its ε.

    Parameters
    ----------
    ledger : Ledger, optional
        By default one of its own, which caps the file at ε = 2 and δ = 10⁻⁵ and forgets with
        the kernel; a `SQLiteLedger` remembers.
    """
    return _Table(ledger or MemoryLedger(cap=Budget(2.0, 1e-5))).board


class _Table:
    """The steps from a file to a release."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._data = ledger, b""
        self.file = ipywidgets.FileUpload(
            accept=".csv,.parquet", multiple=False, description="Your table"
        )
        self.columns = ipywidgets.SelectMultiple(
            description="Columns", rows=6, style={"description_width": "8.5em"}
        )
        self.epsilon = slider("Privacy ε", EPSILON_STOPS, 1.0, say=lambda one: f"{one:g}")
        self.k = slider(
            "Groups k",
            ("auto", *range(1, MOST_OFFERED + 1)),
            "auto",
        )
        self.go = button("Release: spends this ε once", self._release, main=True)
        self.go.disabled = True
        self._say = words(
            "Choose a CSV or Parquet file with a row per person. Nothing leaves this kernel, and "
            "nothing is spent until you press **Release**."
        )
        self._found = ipywidgets.VBox()
        self._account = account(ledger)
        self.file.observe(lambda _: self._read(), "value")
        for one in (self.epsilon, self.k, self.columns):
            one.observe(lambda _: self._plan(), "value")
        self.board = Board(
            [
                self._say,
                self.file,
                self.columns,
                self.epsilon,
                self.k,
                self.go,
                self._found,
                self._account,
            ],
            lambda: self._say.value,
        )

    def _read(self) -> None:
        """Offer the columns of a new file that hold numbers."""
        self.go.disabled = True
        self._found.children = ()
        if not self.file.value:
            return
        self._data = bytes(self.file.value[0].content)
        try:
            names = numeric_columns(self._data)
        except PrivGMMError as problem:
            self._say.value = words_html(f"**{problem_in_words(problem)}**")
            return
        self.columns.options = names
        self.columns.value = names[:_MOST_COLUMNS]
        self._plan()

    def _plan(self) -> None:
        """Say what the release would be; no row but their number decides it."""
        if not self._data or not self.columns.value:
            return
        try:
            table = _loaded(self._data, tuple(self.columns.value))
            plan = best_plan(
                table.n_rows,
                epsilon=self.epsilon.value,
                delta=min(1e-6, 0.1 / table.n_rows),
                n_components=self.k.value,
                n_features=table.n_features,
            )
        except PrivGMMError as problem:
            self.go.disabled = True
            self._say.value = words_html(f"**{problem_in_words(problem)}**")
            return
        self._planned = table, plan
        self.go.disabled = False
        self._say.value = "<br>".join(map(words_html, plan.explain().splitlines()))

    def _release(self) -> None:
        table, plan = self._planned
        try:
            frame = pd.DataFrame(table.rows, columns=list(table.columns))
            outcome = release(frame, plan, ledger=self._ledger)
        except PrivGMMError as problem:
            self._say.value = words_html(f"**{problem_in_words(problem)}**")
            return
        finally:
            self._account.refresh()
        result = outcome.result
        shown = (
            look_again(result)
            if isinstance(result, Release)
            else ipywidgets.HTML(refusal_html(result))
        )
        self._found.children = (shown,)


@functools.lru_cache(maxsize=2)
def _loaded(data: bytes, columns: tuple[str, ...]) -> Dataset:
    return load_table(data, columns=columns)
