"""The board of the page Theorem 1.8: two Gaussians to drag, to type or to choose.

The number inputs hold the pair; dragging and choosing write into them, so that a link restores it.
"""

from __future__ import annotations

import dataclasses

import streamlit as st

from privgmm.dashboard.shared.layout import slider_ends
from privgmm.dashboard.shared.lessons import LINKED, Writer, plainly
from privgmm.dashboard.theorem.drag import drag_pair, dragged_pair, is_held
from privgmm.teaching.pairs import (
    NARROWEST_SPREAD,
    PAIR_PRESETS,
    REACH,
    START,
    WIDEST_SPREAD,
    ZOOMS,
    PlaneGaussian,
)

__all__ = [
    "BOARD_WRITERS",
    "choose_zoom",
    "hand_rests",
    "load",
    "show_board",
    "type_pair",
]

_DRAG = "drag"
_CLOSE = 1000
"""The microscope of ready-made pairs: so close the constants that they show hold."""
BOARD_WRITERS: dict[str, Writer] = {
    "zoom": lambda zoom: f"{zoom:,}×",
    **plainly(*(f"{f.name}{which}" for which in (1, 2) for f in dataclasses.fields(PlaneGaussian))),
}

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
        _CLOSE,
        format_func=lambda zoom: f"{zoom:,}×",
        key="zoom",
        **LINKED,
        help="The board shows the difference this many times larger than it is. The theorem "
        "is about pairs so close that no eye could distinguish them.",
    )
    slider_ends("as drawn", "nearly equal")
    row = st.container(horizontal=True, gap="small")
    for name, (first, second, words) in PAIR_PRESETS.items():
        row.button(
            name, key=f"preset {name}", help=words, on_click=load, args=(first, second, _CLOSE)
        )
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
