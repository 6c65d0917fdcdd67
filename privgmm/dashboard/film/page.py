"""The page How it works: a release as a film, to step through or to play."""

from __future__ import annotations

import functools
import time

import streamlit as st

from privgmm.dashboard.film.film_data import DEMONSTRATIONS, FilmData, code_of, demonstration
from privgmm.dashboard.film.player import show_player
from privgmm.dashboard.film.scenes import SceneView, scene_view
from privgmm.dashboard.shared import state
from privgmm.dashboard.shared.format import escaped
from privgmm.dashboard.shared.jobs import on_the_clock, redraw, repaint
from privgmm.dashboard.shared.layout import frame
from privgmm.dashboard.shared.lessons import Writer, controls_panel, show_link, written
from privgmm.errors import PrivGMMError

__all__ = ["SECONDS", "is_due", "page"]

SECONDS = 7.0
"""How long a scene stays when the film plays: to watch it, and to read the most of it."""

_LOOK = """
<style>
[class*="st-key-film-picture"] .updatemenu-container { display: none; }
</style>
"""
"""The picture's own buttons are out of sight: `player` has one for everybody."""

_YOURS = "yours"
_LABELS = {
    _YOURS: "Your release",
    "average": "Averaging",
    "pick": "Picking one",
    "sketch": "A sketch",
    "refusal": "A refusal",
}
_WRITERS: dict[str, Writer] = {"film": lambda name: _LABELS[name], "step": str}
_KEPT, _PLAYING, _SINCE, _TURN = "film_data", "film_playing", "film_since", "film_turn"
_STEPS = "film_steps"


@on_the_clock
def page() -> None:
    """Draw the page."""
    link = frame(
        "How it works",
        "One release as a film, step by step: what happens to the people's rows, the paper's own "
        "words, and the code that ran.",
    )
    st.html(_LOOK)
    film = _choose()
    step = _transport(film)
    _show(film, step)
    st.session_state[_SINCE] = time.monotonic()
    if st.session_state.get(_PLAYING):
        repaint(functools.partial(_turn_if_due, len(film.steps)), every=SECONDS)
    with link:
        # Last, when every widget of the page has its value.
        show_link(written(_WRITERS))


def _choose() -> FilmData:
    """What to show: the release on display in Explore, or a demonstration."""
    last = state.shown()
    names = ([_YOURS] if last is not None else []) + list(DEMONSTRATIONS)
    with controls_panel("film", border=False):
        chosen = st.segmented_control(
            "What to film",
            names,
            default=names[0],
            required=True,
            format_func=lambda name: _LABELS[name],
            key="film",
            bind="query-params",
            on_change=_from_the_start,
        )
    if chosen == _YOURS and last is not None:
        kept = st.session_state.get(_KEPT)
        if not (isinstance(kept, FilmData) and kept.outcome is last.outcome):
            kept = FilmData(last.dataset, last.outcome, learner=last.settings.learner)
            st.session_state[_KEPT] = kept
        st.caption(
            f":material/person: Your last release in Explore ({escaped(last.settings.data_name)}). "
            "Watching draws no noise and spends nothing."
        )
        return kept
    film = demonstration(chosen if chosen in DEMONSTRATIONS else names[-1])
    st.caption(
        ":material/science: **Demonstration**: made-up people, and noise from a fixed seed, so "
        "that it is the same every time."
        + ("" if last is not None else " Release something in Explore to watch that instead.")
    )
    return film


def _from_the_start() -> None:
    _go(1)


def _go(step: int) -> None:
    st.session_state["step"] = step
    st.session_state[_PLAYING] = False
    _count_step()


def _count_step() -> None:
    """Note that the visitor, or the film they play, has come to another scene."""
    st.session_state[_STEPS] = st.session_state.get(_STEPS, 0) + 1


def _stop() -> None:
    st.session_state[_PLAYING] = False
    _count_step()


def _play(last: int) -> None:
    playing = not st.session_state.get(_PLAYING, False)
    st.session_state[_PLAYING] = playing
    if playing:
        _count_step()
    if playing and st.session_state.get("step", 1) >= last:
        st.session_state["step"] = 1


def _transport(film: FilmData) -> int:
    """Back, play, next and the slider; gives back the step to show."""
    last = len(film.steps)
    # A widget's value may be set before it is drawn, not after: the timer leaves a note.
    now = int(st.session_state.pop(_TURN, st.session_state.get("step", 1)))
    if now != st.session_state.get("step", 1) or now > last:
        st.session_state["step"] = min(now, last)
    playing = bool(st.session_state.get(_PLAYING))
    with st.container(horizontal=True, vertical_alignment="bottom", key="transport"):
        with st.container(horizontal=True, width="content"):
            back, play, forth = st.empty(), st.empty(), st.empty()
        # A slider needs two ends: a stage may refuse in its first and only scene.
        step = 1 if last == 1 else _step_slider(last)
    back.button(
        "Back",
        icon=":material/skip_previous:",
        shortcut="Left",
        disabled=step == 1,
        on_click=_go,
        args=(step - 1,),
        key="film_back",
    )
    play.button(
        "Pause" if playing else "Play",
        icon=":material/pause:" if playing else ":material/play_arrow:",
        type="primary",
        on_click=_play,
        args=(last,),
        key="film_play",
    )
    forth.button(
        "Next",
        icon=":material/skip_next:",
        shortcut="Right",
        disabled=step == last,
        on_click=_go,
        args=(step + 1,),
        key="film_next",
    )
    st.caption(
        " → ".join(
            f"**{i} {part.scene.label}**" if i == step else f"{i} {part.scene.label}"
            for i, part in enumerate(film.steps, 1)
        )
    )
    return step


def _step_slider(last: int) -> int:
    return int(
        st.slider("Step", 1, last, key="step", bind="query-params", on_change=_stop, width=420)
    )


def _show(film: FilmData, step: int) -> None:
    try:
        now = scene_view(film, step)
        figure = now.figure()
    except PrivGMMError as problem:
        st.error(f"This step cannot be drawn for this release: {problem}", icon=":material/error:")
        return
    with st.container(key="split"):
        words, picture = st.columns([1, 1.6], gap="medium")
    with words:
        _words(now, step)
    with picture, st.container(key=f"film-picture-{step}"):
        if figure.frames:
            with st.container(horizontal=True, vertical_alignment="center"):
                with st.container(width="content"):
                    show_player(
                        f"film-picture-{step}",
                        st.session_state.get(_STEPS, 0),
                        key=f"player_{step}",
                    )
                st.caption(now.motion)
        st.plotly_chart(
            figure,
            key=f"film_{step}",
            config={"displaylogo": False, "scrollZoom": False},
            alt=now.alt,
        )
        st.caption(now.sharing)
    st.markdown("**The code that ran**")
    for function in now.code:
        place, source = code_of(function)
        st.caption(f":material/code: `{place}`")
        st.code(source, language="python", height=min(420, 60 + 22 * source.count("\n")))


def _words(now: SceneView, step: int) -> None:
    st.subheader(f"{step} · {now.title}", anchor=False)
    st.markdown(now.words)
    with st.container(horizontal=True):
        for number in now.numbers:
            st.metric(number.label, number.value, help=number.meaning, width="content")
    with st.container(border=True):
        st.caption(":material/menu_book: The paper, Algorithm 1")
        st.markdown(now.line)
        if now.ours:
            st.caption(f"**Here:** {now.ours}")


def is_due(since: float, now: float) -> bool:
    """Whether a scene shown `since` has been seen long enough at `now`, in seconds."""
    return now - since >= 0.8 * SECONDS


def _turn_if_due(last: int) -> None:
    """Turn to the next scene when the clock ticks; with the page itself, do nothing."""
    if not is_due(st.session_state[_SINCE], time.monotonic()):
        return
    turn = min(int(st.session_state.get("step", 1)) + 1, last)
    st.session_state[_TURN] = turn
    st.session_state[_PLAYING] = turn < last
    _count_step()
    redraw()
