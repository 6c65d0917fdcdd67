"""The board of the page Theorem 1.8: two Gaussians to drag, to type or to choose.

The number inputs hold the pair; dragging and choosing write into them, so that a link restores it.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import streamlit as st

from privgmm.arrays import Array
from privgmm.dashboard.shared.layout import slider_ends
from privgmm.dashboard.shared.lessons import LINKED, Writer, plainly
from privgmm.dashboard.theorem.drag import (
    NARROWEST_SPREAD,
    REACH,
    WIDEST_SPREAD,
    PlaneGaussian,
    drag_pair,
    dragged_pair,
    is_held,
)

__all__ = [
    "BOARD_WRITERS",
    "PAIR_PRESETS",
    "START",
    "UNIT_GAUSSIAN",
    "ZOOMS",
    "Pair",
    "choose_zoom",
    "hand_rests",
    "load",
    "show_board",
    "type_pair",
]

ZOOMS = (1, 10, 100, 1000, 10_000)
"""Factors of the microscope; from about 1000 the theorem applies to most pairs on the board."""
_DRAG = "drag"
BOARD_WRITERS: dict[str, Writer] = {
    "zoom": lambda zoom: f"{zoom:,}×",
    **plainly(*(f"{f.name}{which}" for which in (1, 2) for f in dataclasses.fields(PlaneGaussian))),
}

UNIT_GAUSSIAN = PlaneGaussian(0.0, 0.0, 1.0, 1.0, 0.0)
"""Mean zero and covariance one."""
START = (PlaneGaussian(-0.8, -0.4, 1.5, 0.9, -30.0), PlaneGaussian(0.6, 0.5, 1.2, 1.1, 60.0))
"""The first pair on the board: different, and with all handles visible."""
PAIR_PRESETS: dict[str, tuple[PlaneGaussian, PlaneGaussian, str]] = {
    "Start again": (*START, "The pair that the page starts with"),
    "Means only": (
        UNIT_GAUSSIAN,
        PlaneGaussian(0.8, 0.0, 1.0, 1.0, 0.0),
        "Equal shapes: TV = 0.3989 Δ as TV → 0, in any dimension",
    ),
    "Least TV": (
        UNIT_GAUSSIAN,
        PlaneGaussian(0.0, 0.0, 1.225, 0.707, 0.0),
        "One spread grows as the other shrinks: TV is as small as Δ allows, 0.2251 Δ",
    ),
    "Most TV": (
        UNIT_GAUSSIAN,
        PlaneGaussian(1.0, 0.0, 1.137, 1.399, 0.0),
        "A full shift and both spreads grow: in two dimensions TV is at most 0.4782 Δ",
    ),
}
"""Pairs by name, each with its explanation; the numbers are best constants of Theorem 1.8."""


_INPUTS: tuple[tuple[str, float, float, float, str | None], ...] = (
    ("Centre, across", -REACH, REACH, 0.1, None),
    ("Centre, up", -REACH, REACH, 0.1, None),
    (
        *("Spread along", NARROWEST_SPREAD, WIDEST_SPREAD, 0.05),
        "Standard deviation in the direction of the turn",
    ),
    (
        *("Spread across", NARROWEST_SPREAD, WIDEST_SPREAD, 0.05),
        "Standard deviation at right angles to it",
    ),
    ("Turn in degrees", -90.0, 90.0, 5.0, None),
)
"""Label, range, step and help of the number inputs, in the order of the fields."""


class Pair(NamedTuple):
    """Two Gaussians in the plane, as means (2,) and covariances (2, 2)."""

    mean1: Array
    cov1: Array
    mean2: Array
    cov2: Array

    @classmethod
    def seen_through(cls, first: PlaneGaussian, second: PlaneGaussian, zoom: float) -> Pair:
        """Make the pair whose difference, `zoom` times larger, is the one on the board.

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
        """Swap first and second."""
        return Pair(self.mean2, self.cov2, self.mean1, self.cov1)


def show_board(
    first: PlaneGaussian, second: PlaneGaussian, line: tuple[float, float, float, float], zoom: int
) -> None:
    """Show the picture to drag in.

    Parameters
    ----------
    first, second : PlaneGaussian
    line : tuple of float
        Two points (x, y, x, y) of a line to show.
    zoom : int
        The difference is drawn this many times too large, as the board says.
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
    """Show the microscope, and ready-made pairs."""
    zoom = st.select_slider(
        "Microscope",
        ZOOMS,
        1000,
        format_func=lambda zoom: f"{zoom:,}×",
        key="zoom",
        **LINKED,
        help="The board shows the difference this many times larger than it is. The theorem "
        "is about pairs so close that no eye could distinguish them.",
    )
    slider_ends("as drawn", "nearly equal")
    row = st.container(horizontal=True, gap="small")
    for name, (first, second, words) in PAIR_PRESETS.items():
        row.button(name, key=f"preset {name}", help=words, on_click=load, args=(first, second))
    return int(zoom)


def type_pair() -> tuple[PlaneGaussian, PlaneGaussian]:
    """Show number inputs for both Gaussians."""
    with st.expander("Type the numbers", icon=":material/keyboard:"):
        return _typed(1, START[0]), _typed(2, START[1])


def _typed(which: int, start: PlaneGaussian) -> PlaneGaussian:
    st.caption(f"{'First' if which == 1 else 'Second'} Gaussian, as on the board")
    columns = st.columns(2)
    return PlaneGaussian(
        *(
            columns[place % 2].number_input(
                label, low, high, value, step, key=f"{field.name}{which}", help=meaning, **LINKED
            )
            for place, (field, value, (label, low, high, step, meaning)) in enumerate(
                zip(dataclasses.fields(start), dataclasses.astuple(start), _INPUTS, strict=True)
            )
        )
    )


def load(first: PlaneGaussian, second: PlaneGaussian, zoom: int | None = None) -> None:
    """Put a pair on the board."""
    for which, gaussian in ((1, first), (2, second)):
        for name, value in dataclasses.asdict(gaussian).items():
            st.session_state[f"{name}{which}"] = value
    if zoom is not None:
        st.session_state["zoom"] = zoom


def _moved() -> None:
    pair = dragged_pair(_DRAG)
    if pair is not None:
        load(*pair)
