"""The board of the page Theorem 1.8: two Gaussians to drag, to type or to choose.

The number inputs hold the pair; dragging and choosing write into them, so that a link restores it.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import streamlit as st

from privgmm.arrays import Array
from privgmm.dashboard.shared.layout import slider_ends
from privgmm.dashboard.shared.lessons import Writer
from privgmm.dashboard.theorem.drag import (
    NARROWEST_SPREAD,
    REACH,
    WIDEST_SPREAD,
    PlaneGaussian,
    drag_pair,
    is_held,
    moved,
)

__all__ = [
    "PRESETS",
    "STANDARD",
    "START",
    "WRITERS",
    "ZOOMS",
    "Pair",
    "choose_zoom",
    "hand_rests",
    "load",
    "show_board",
    "type_pair",
]

ZOOMS = (1, 10, 100, 1000, 10_000)
_DRAG = "drag"
WRITERS: dict[str, Writer] = {
    "zoom": lambda zoom: f"{zoom:,}×",
    **{
        f"{field.name}{which}": lambda value: f"{value:g}"
        for which in (1, 2)
        for field in dataclasses.fields(PlaneGaussian)
    },
}

STANDARD = PlaneGaussian(0.0, 0.0, 1.0, 1.0, 0.0)
START = (PlaneGaussian(-0.8, -0.4, 1.5, 0.9, -30.0), PlaneGaussian(0.6, 0.5, 1.2, 1.1, 60.0))
PRESETS: dict[str, tuple[PlaneGaussian, PlaneGaussian, str]] = {
    "Start again": (*START, "The pair that the page starts with"),
    "Means only": (
        STANDARD,
        PlaneGaussian(0.8, 0.0, 1.0, 1.0, 0.0),
        "Equal shapes: TV = 0.3989 Δ as TV → 0, whatever the dimension",
    ),
    "Least TV": (
        STANDARD,
        PlaneGaussian(0.0, 0.0, 1.225, 0.707, 0.0),
        "One spread grows as the other shrinks: TV is as small as Δ allows, 0.2251 Δ",
    ),
    "Most TV": (
        STANDARD,
        PlaneGaussian(1.0, 0.0, 1.137, 1.399, 0.0),
        "A full shift and both spreads grow: in two dimensions TV is at most 0.4782 Δ",
    ),
}


class Pair(NamedTuple):
    """Two Gaussians in the plane, as means (2,) and covariances (2, 2)."""

    mean1: Array
    cov1: Array
    mean2: Array
    cov2: Array

    @classmethod
    def seen_through(cls, first: PlaneGaussian, second: PlaneGaussian, zoom: float) -> Pair:
        """The pair whose difference, made `zoom` times larger, is the one on the board.

        Mean and covariance of the second move in a straight line to those of the first, so Delta
        is exactly `zoom` times smaller, and the covariance stays positive definite.
        """
        return cls(
            first.mean,
            first.covariance,
            first.mean + (second.mean - first.mean) / zoom,
            first.covariance + (second.covariance - first.covariance) / zoom,
        )

    def swapped(self) -> Pair:
        """Second before first."""
        return Pair(self.mean2, self.cov2, self.mean1, self.cov1)


def show_board(
    first: PlaneGaussian, second: PlaneGaussian, line: tuple[float, float, float, float], zoom: int
) -> None:
    """The picture to drag in.

    Parameters
    ----------
    first, second : PlaneGaussian
    line : tuple of float
        Two points (x, y, x, y) of a line to show.
    zoom : int
        How many times larger than it is the difference is drawn: said on the board.
    """
    st.markdown(
        "**Drag and stretch**",
        help="Move the numbered centres; pull the small handles to stretch and turn. With the "
        "keyboard: Tab to a handle, then arrow keys; or type the numbers.",
    )
    drag_pair(
        first,
        second,
        line=line,
        note="" if zoom == 1 else f"drawn {zoom:,} times too far apart",
        key=_DRAG,
        on_move=_moved,
    )


def hand_rests() -> bool:
    """Whether nothing is being dragged."""
    return not is_held(_DRAG)


def choose_zoom() -> int:
    """The microscope, and ready-made pairs."""
    zoom = st.select_slider(
        "Microscope",
        ZOOMS,
        1000,
        format_func=lambda zoom: f"{zoom:,}×",
        key="zoom",
        bind="query-params",
        persist_state="session",
        help="The board shows the difference this many times larger than it is. The theorem "
        "speaks of pairs so close that no eye could tell them apart.",
    )
    slider_ends("as drawn", "nearly equal")
    row = st.container(horizontal=True, gap="small")
    for name, (first, second, words) in PRESETS.items():
        row.button(name, key=f"preset {name}", help=words, on_click=load, args=(first, second))
    return int(zoom)


def type_pair() -> tuple[PlaneGaussian, PlaneGaussian]:
    """Number inputs for both Gaussians."""
    with st.expander("Type the numbers", icon=":material/keyboard:"):
        return _typed(1, START[0]), _typed(2, START[1])


def _typed(which: int, start: PlaneGaussian) -> PlaneGaussian:
    st.caption(f"{'First' if which == 1 else 'Second'} Gaussian, as on the board")
    left, right = st.columns(2)
    x = left.number_input(
        "Centre, across",
        -REACH,
        REACH,
        start.x,
        0.1,
        key=f"x{which}",
        bind="query-params",
        persist_state="session",
    )
    y = right.number_input(
        "Centre, up",
        -REACH,
        REACH,
        start.y,
        0.1,
        key=f"y{which}",
        bind="query-params",
        persist_state="session",
    )
    along = left.number_input(
        "Spread along",
        NARROWEST_SPREAD,
        WIDEST_SPREAD,
        start.along,
        0.05,
        key=f"along{which}",
        bind="query-params",
        persist_state="session",
        help="Standard deviation in the direction of the turn",
    )
    across = right.number_input(
        "Spread across",
        NARROWEST_SPREAD,
        WIDEST_SPREAD,
        start.across,
        0.05,
        key=f"across{which}",
        bind="query-params",
        persist_state="session",
        help="Standard deviation at right angles to it",
    )
    turn = left.number_input(
        "Turn in degrees",
        -90.0,
        90.0,
        start.turn,
        5.0,
        key=f"turn{which}",
        bind="query-params",
        persist_state="session",
    )
    return PlaneGaussian(x, y, along, across, turn)


def load(first: PlaneGaussian, second: PlaneGaussian, zoom: int | None = None) -> None:
    """Put a pair on the board."""
    for which, gaussian in ((1, first), (2, second)):
        for name, value in dataclasses.asdict(gaussian).items():
            st.session_state[f"{name}{which}"] = value
    if zoom is not None:
        st.session_state["zoom"] = zoom


def _moved() -> None:
    pair = moved(_DRAG)
    if pair is not None:
        load(*pair)
