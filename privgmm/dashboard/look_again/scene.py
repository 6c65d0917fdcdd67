"""The state that all views of the page share: the release, the fit, the columns in view."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from privgmm.arrays import Array
from privgmm.dashboard.look_again.looks import FreeLook
from privgmm.dashboard.look_again.paid import Paid
from privgmm.figures.mixtures import PRIVATE, thinned
from privgmm.mixture import Mixture

__all__ = ["LookScene", "components_in_words", "draw", "offer", "relabelled"]

_MOST_ROWS = 200_000
"""Rows of a histogram: its counts are then exact to a fraction of a per cent."""
_CONFIG = {"displaylogo": False, "scrollZoom": False}
_KINDS = {".json": "application/json", ".csv": "text/csv", ".html": "text/html"}


@dataclasses.dataclass(frozen=True, eq=False)
class LookScene:
    """The state of the page that all views are drawn from.

    Parameters
    ----------
    paid : Paid
    look : Look
    axes : pair of int
        The two columns in view; the first twice where there is only one.
    with_rows : bool
        Whether the curator asked for the real rows. Pictures with them are CONFIDENTIAL.
    """

    paid: Paid
    look: FreeLook
    axes: tuple[int, int]
    with_rows: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns."""
        return self.paid.columns

    @property
    def mixture(self) -> Mixture:
        """The fit."""
        return self.look.mixture

    @property
    def label(self) -> str:
        """Name of the fit in a legend."""
        return f"Fit: {components_in_words(self.look.n_components)}"

    @property
    def rows(self) -> Array | None:
        """Rows enough for a histogram, if they are shown. CONFIDENTIAL."""
        held = self.paid.dataset
        return thinned(held.rows, _MOST_ROWS) if self.with_rows and held is not None else None


def components_in_words(count: int) -> str:
    """Write a number of components.

    Examples
    --------
    >>> components_in_words(1), components_in_words(3)
    ('1 component', '3 components')
    """
    return f"{count} component{'s' * (count != 1)}"


def relabelled(figure: go.Figure, names: dict[str, str], *, width: float = 2.5) -> go.Figure:
    """Rename lines in the legend; thin the line of the fit so that it hides no band.

    Parameters
    ----------
    figure : Figure
        Changed in place.
    names : dict of str to str
        New names by old ones.
    width : float
        Of the fit's line.
    """
    for trace in figure.data:
        if trace.name == PRIVATE.label and trace.mode == "lines":
            trace.line.width = width
        if trace.name in names:
            trace.name = names[trace.name]
    return figure


def draw(figure: go.Figure, *, key: str, alt: str) -> None:
    """Show a figure, with words for those who do not see it."""
    figure.update_layout(modebar={"orientation": "v", "bgcolor": "rgba(0,0,0,0)"})
    st.plotly_chart(figure, key=key, config=_CONFIG, alt=alt)


def offer(place: Any, label: str, name: str, write: Callable[[], str]) -> None:
    """Show a button that downloads what may be shared."""
    place.download_button(
        label,
        data=write,
        file_name=name,
        mime=_KINDS[name[name.rindex(".") :]],
        icon=":material/download:",
        on_click="ignore",
        key=f"look_download_{name}",
    )
