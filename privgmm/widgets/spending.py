"""The account of a data set: what was spent, redrawn as it grows."""

from __future__ import annotations

import sys
from typing import Any

import ipywidgets
import plotly.graph_objects as go

from privgmm.figures.ledger import spending_figure
from privgmm.figures.mixtures import dressed
from privgmm.ledger.protocol import Ledger
from privgmm.widgets.live import Board, LiveFigure, show_where, words, words_html

__all__ = ["account"]


def account(ledger: Ledger) -> Account:
    """Show what was spent, and show it again after every cell that runs, until it is closed.

    Parameters
    ----------
    ledger : Ledger
        The one that `release` gets as its ``ledger``.
    """
    return Account(ledger)


class Account(Board):
    """What a ledger holds, in a sentence and as a picture.

    Parameters
    ----------
    ledger : Ledger
    """

    _listened: Any = None
    """The events of the shell that call `_after_cell`; None once closed, and outside a shell."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._say = words()
        self._figure = LiveFigure(self._picture())
        self._place = ipywidgets.VBox()
        super().__init__([self._say, self._place], lambda: self._say.value)
        self.refresh()
        shell = _shell()
        if shell is not None:
            shell.events.register("post_run_cell", self._after_cell)
            self._listened = shell.events

    def close(self) -> None:
        """Take it off the screen; cells that run afterwards do not read the ledger for it."""
        if self._listened is not None:
            self._listened.unregister("post_run_cell", self._after_cell)
            self._listened = None
        super().close()

    def _after_cell(self, _: object) -> None:
        """Read the ledger after a cell, if there is a spend that is not shown."""
        if len(self._ledger.entries) != self._shown:
            self.refresh()

    def refresh(self) -> None:
        """Read the ledger again."""
        standing = self._ledger.standing()
        self._shown = standing.spends
        left = (
            ""
            if standing.cap is None
            else f" **Cap**: {standing.cap}; "
            + ("nothing is left." if standing.remaining is None else f"{standing.remaining} left.")
        )
        self._say.value = words_html(f"**Spent**: {standing.total_in_words}.{left}")
        show_where(self._place, self._figure, wanted=standing.spends > 0)
        self._figure.draw(self._picture())

    def _picture(self) -> go.Figure:
        entries = self._ledger.entries
        if entries:
            return spending_figure(entries, cap=self._ledger.cap)
        return dressed(go.Figure())


def _shell() -> Any:
    """Return the IPython shell that runs this, if one does."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()
