"""The page Audit: guess, test, flip a row, measure losses, or run the package's own attacks."""

from __future__ import annotations

import streamlit as st

from privgmm.dashboard.audit import curve, flip, game, losses, neighbours
from privgmm.dashboard.audit.adversaries import show_adversaries
from privgmm.dashboard.shared.layout import frame
from privgmm.dashboard.shared.lessons import Writer, controls_panel, scene_line, show_link, written
from privgmm.dashboard.shared.sliders import choose_epsilon
from privgmm.errors import PrivGMMError

__all__ = ["page"]

_ATTACK = "attack"
_SECTIONS = {
    "guess": ("Guess", game.play_game),
    "tradeoff": ("Trade-off", curve.show_tradeoff),
    "flip": ("Flip one row", flip.flip_row),
    "measure": ("Measure", losses.measure_losses),
}


def page() -> None:
    """Draw the page."""
    link = frame(
        "Do I believe it?",
        "Play the attacker on made-up rows, where nothing is at stake, and see how far an attack "
        "gets against the promise.",
    )
    with controls_panel("section", border=False):
        section = st.segmented_control(
            "What to try",
            [*_SECTIONS, _ATTACK],
            default="guess",
            required=True,
            format_func=_section_label,
            key="audit",
            bind="query-params",
        )
    try:
        if section == _ATTACK:
            show_adversaries()
        else:
            _SECTIONS[section][1](_choose_epsilon())
    except PrivGMMError as problem:
        st.error(str(problem), icon=":material/error:")
    with link:
        # Last, when every widget of the page has its value.
        show_link(written(_WRITERS))


def _section_label(name: str) -> str:
    return "Adversaries" if name == _ATTACK else _SECTIONS[name][0]


_WRITERS: dict[str, Writer] = {
    "audit": _section_label,
    "audit_epsilon": lambda value: f"{value:g}",
    **game.WRITERS,
    **flip.WRITERS,
    **losses.WRITERS,
}


def _choose_epsilon() -> float:
    """The slider for the promise that is put to the test."""
    with controls_panel("promise", border=False), st.container(width=420):
        epsilon = choose_epsilon(
            "audit_epsilon",
            weaker="easier to guess",
            options=neighbours.EPSILONS,
            meaning="The promise to put to the test; δ is one in a million.",
        )
    scene_line(f"The promise put to the test: ε = {epsilon:g}, δ = 10⁻⁶.")
    return epsilon
