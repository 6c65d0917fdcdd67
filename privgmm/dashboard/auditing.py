"""The page Audit: do I believe it. Guess, flip a row, measure, attack."""

from __future__ import annotations

import streamlit as st

from privgmm.dashboard import neighbours
from privgmm.dashboard.adversaries import show_adversaries
from privgmm.dashboard.flip import flip_row
from privgmm.dashboard.frame import frame
from privgmm.dashboard.game import play_game
from privgmm.dashboard.losses import measure_losses
from privgmm.dashboard.promise import choose_epsilon
from privgmm.errors import PrivGMMError

__all__ = ["page"]

_ATTACK = "attack"
_SECTIONS = {
    "guess": ("Guess", play_game),
    "flip": ("Flip one row", flip_row),
    "measure": ("Measure", measure_losses),
}


def page() -> None:
    """Draw the page."""
    frame(
        "Do I believe it?",
        "A promise is worth what survives an attack. Play the attacker on made-up rows, where "
        "nothing is at stake.",
        icon=":material/verified_user:",
    )
    section = st.segmented_control(
        "What to try",
        [*_SECTIONS, _ATTACK],
        default="guess",
        required=True,
        format_func=lambda name: "Adversaries" if name == _ATTACK else _SECTIONS[name][0],
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


def _choose_epsilon() -> float:
    """The slider for the promise that is put to the test."""
    with st.container(width=420):
        return choose_epsilon(
            "audit_epsilon",
            weaker="easier to guess",
            options=neighbours.EPSILONS,
            meaning="The promise to put to the test; δ is one in a million.",
        )
