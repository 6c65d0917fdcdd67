"""The knobs δ, α and t, one line each: the value, what it means here, and the control on a click.

Opening or moving one turns on the layer of the picture that shows what it does.
"""

from __future__ import annotations

import dataclasses

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from privgmm.dashboard.explore.feasibility import Feasibility, about
from privgmm.dashboard.explore.picture import BLOCK_FITS, CLOUD, layers
from privgmm.dashboard.shared.answers import blocks_of
from privgmm.dashboard.shared.lessons import LINKED, current_lesson
from privgmm.dashboard.shared.sliders import choose_alpha, choose_delta
from privgmm.methods import registry
from privgmm.methods.request import FEWEST_BLOCKS, PlanRequest
from privgmm.teaching.format import number_in_words
from privgmm.teaching.rehearsal import DELTA_STOPS

__all__ = ["Knobs", "choose_knobs", "show_large_delta"]

_OPEN = "knob"
_LAYERS = {"delta": None, "alpha": CLOUD, "t": BLOCK_FITS}
"""The layer that shows what each knob does."""
_FAR = 0.01
"""Share of a row that delta may publish and still be called small, by convention."""
_BLOCKS = 300
"""Blocks offered in a click: some hundreds leave room for the noisy vote, by convention."""


@dataclasses.dataclass(frozen=True)
class Knobs:
    """What the knobs are set to, and where their consequences are written.

    Parameters
    ----------
    delta, alpha : float
    n_blocks : int or None
        None leaves blocks to the method.
    """

    delta: float
    alpha: float
    n_blocks: int | None
    _said: dict[str, DeltaGenerator]
    _body: DeltaGenerator

    def show(self, known: Feasibility) -> None:
        """Write what each value means for the rows at hand."""
        n = known.request.rows
        self._say("delta", _of_delta(self.delta, n, known.request.units))
        self._say("alpha", _of_alpha(known))
        blocks = None if known.plan is None else blocks_of(known.plan)
        if known.plan is None:
            self._say("t", "no plan yet" if known.problem is None else "no plan")
        elif blocks is None:
            self._say("t", "no blocks in this frame")
        else:
            chosen = f"t = {blocks:,}: " if self.n_blocks is None else ""
            self._say("t", f"{chosen}{max(1, n // blocks):,} rows per block")
        if blocks is None and known.plan is not None:
            with self._body:
                _offer_blocks(known)

    def _say(self, knob: str, words: str) -> None:
        self._said[knob].caption(words)


def choose_knobs() -> Knobs:
    """Show the lines, each with its control when it is open."""
    said: dict[str, DeltaGenerator] = {}
    bodies: dict[str, DeltaGenerator] = {}
    labels: dict[str, DeltaGenerator] = {}
    opened = st.session_state.get(_OPEN)
    with st.container(key="knobs", gap=None):
        for knob in _LAYERS:
            line = st.container(
                horizontal=True, vertical_alignment="center", gap="small", key=f"line_{knob}"
            )
            labels[knob] = line.container(width="content")
            said[knob] = line.container(key=f"said_{knob}").empty()
            seen = "open" if knob == opened or current_lesson() is not None else "shut"
            bodies[knob] = st.container(key=f"{seen}-knob-{knob}", gap="small")
    with bodies["delta"]:
        delta = choose_delta("delta", on_change=_show_layer, args=("delta",))
    with bodies["alpha"]:
        alpha = choose_alpha("alpha", on_change=_show_layer, args=("alpha",))
    with bodies["t"]:
        blocks = st.number_input(
            "Blocks t",
            FEWEST_BLOCKS,
            100_000,
            None,
            key="t",
            **LINKED,
            placeholder="chosen for you",
            on_change=_show_layer,
            args=("t",),
            help="The rows are dealt into t blocks, and each is fitted on its own. **Block fits** "
            "under the picture shows it: more blocks have fewer rows each, and their fits spread.",
        )
        body = st.container()
    values = {
        "delta": f"δ = {number_in_words(delta)}",
        "alpha": f"α = {alpha:g}",
        "t": "t" if blocks is None else f"t = {int(blocks):,}",
    }
    for knob, place in labels.items():
        place.button(
            values[knob],
            key=f"knob_{knob}",
            icon=":material/expand_less:" if knob == opened else ":material/expand_more:",
            type="tertiary",
            on_click=_turn,
            args=(knob,),
        )
    return Knobs(delta, alpha, None if blocks is None else int(blocks), said, body)


def _turn(knob: str) -> None:
    """Open a knob, or close it."""
    opened = st.session_state.get(_OPEN) != knob
    st.session_state[_OPEN] = knob if opened else None
    if opened:
        _show_layer(knob)


def _show_layer(knob: str) -> None:
    """Turn on the layer that shows what this knob does."""
    layer = _LAYERS[knob]
    if layer is not None and layer not in layers():
        st.session_state["layers"] = [*layers(), layer]


def show_large_delta(request: PlanRequest) -> None:
    """Say that delta is too large for so few rows, with a click that mends it."""
    if request.delta * request.rows < 1:
        return
    fine = max(
        (value for value in DELTA_STOPS if value * request.rows <= _FAR), default=DELTA_STOPS[0]
    )
    st.warning(
        f"δ = {number_in_words(request.delta)} is no less than one over the {request.rows:,} "
        f"{request.units}: so large a δ would also allow publishing someone's {request.unit} "
        "every time.",
        icon=":material/gpp_maybe:",
    )
    st.button(
        f"Set δ to {number_in_words(fine)}", key="fix_delta", on_click=_set_delta, args=(fine,)
    )


def _set_delta(delta: float) -> None:
    st.session_state["delta"] = delta


def _of_delta(delta: float, n: int, units: str) -> str:
    if delta * n >= 1:
        return f":red[too large for {n:,} {units}]"
    far = "far " if delta * n <= _FAR else ""
    return f"{far}below 1 in {n:,} {units}"


def _of_alpha(known: Feasibility) -> str:
    found = known.usefulness
    if found is None:
        return "…" if known.problem is None else "no release"
    return f"met in {about(found.within)} of releases"


def _offer_blocks(known: Feasibility) -> None:
    """Say that no blocks are fitted here, and offer what fits some."""
    st.caption("This frame takes no blocks: it counts rows in bins. These do, in one click:")
    row = st.container(horizontal=True, gap="small")
    row.button(
        f"A frame of {_BLOCKS} blocks",
        key="fix_t",
        on_click=_set,
        args=({"t": _BLOCKS},),
        disabled=known.request.rows < 2 * _BLOCKS,
    )
    for method in registry.all_methods():
        if not method.publishes_sketch:
            row.button(
                method.title,
                key=f"fix_t_{method.name}",
                on_click=_set,
                args=({"method": method.name},),
            )


def _set(values: dict[str, object]) -> None:
    for key, value in values.items():
        st.session_state[key] = value
    _show_layer("t")
