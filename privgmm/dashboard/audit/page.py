"""The page Audit: play the attacker, test, flip a row, measure losses, or run the audit."""

from __future__ import annotations

import streamlit as st

from privgmm.dashboard.audit import curve, flip, game, losses
from privgmm.dashboard.audit.adversaries import show_adversaries
from privgmm.dashboard.shared.layout import frame
from privgmm.dashboard.shared.lessons import Writer, controls_panel, scene_line, show_link, written
from privgmm.dashboard.shared.refresh import refreshing_page
from privgmm.dashboard.shared.sliders import choose_epsilon
from privgmm.errors import PrivGMMError
from privgmm.teaching import neighbours
from privgmm.teaching.format import problem_in_words

__all__ = ["page"]

_ATTACK, _GUESS = "attack", "guess"
_SECTIONS = {
    "tradeoff": ("Trade-off", curve.show_tradeoff),
    "flip": ("Flip one row", flip.flip_row),
    "measure": ("Measure", losses.measure_losses),
}


@refreshing_page
def page() -> None:
    """Draw the page Audit."""
    link = frame(
        "Do I believe it?",
        "You are the attacker. The people are generated, so no one's privacy is at stake. How "
        "often can you tell whether one person is in the data?",
    )
    with controls_panel("section", border=False):
        section = st.segmented_control(
            "What to try",
            [_GUESS, *_SECTIONS, _ATTACK],
            default=_GUESS,
            required=True,
            format_func=_section_label,
            key="audit",
            bind="query-params",
        )
    try:
        if section == _ATTACK:
            show_adversaries()
        elif section == _GUESS:
            _guess()
        else:
            _SECTIONS[section][1](_choose_epsilon())
    except PrivGMMError as problem:
        st.error(problem_in_words(problem), icon=":material/error:")
    with link:
        # Last, when every widget of the page has its value.
        show_link(written(_WRITERS))


def _section_label(name: str) -> str:
    others = {_GUESS: "Guess", _ATTACK: "Adversaries"}
    return others[name] if name in others else _SECTIONS[name][0]


_WRITERS: dict[str, Writer] = {
    "audit": _section_label,
    "audit_epsilon": lambda value: f"{value:g}",
    **game.GAME_WRITERS,
    **flip.FLIP_WRITERS,
    **losses.LOSS_WRITERS,
}


def _guess() -> None:
    with (
        controls_panel("game", border=False),
        st.container(horizontal=True, vertical_alignment="top", gap="medium"),
    ):
        with st.container(width="content"):
            chosen = game.choose_game()
        with st.container(width=320):
            epsilon = _epsilon_slider()
    _say_promise(epsilon)
    game.play_game(epsilon, chosen)


def _choose_epsilon() -> float:
    """Draw the slider for the budget that is put to the test."""
    with controls_panel("promise", border=False), st.container(width=420):
        epsilon = _epsilon_slider()
    _say_promise(epsilon)
    return epsilon


def _epsilon_slider() -> float:
    return choose_epsilon(
        "audit_epsilon",
        weaker="easier to guess",
        options=neighbours.AUDIT_EPSILONS,
        meaning="The budget to put to the test; δ is one in a million.",
    )


def _say_promise(epsilon: float) -> None:
    scene_line(f"The promise put to the test: ε = {epsilon:g}, δ = 10⁻⁶.")
