"""The page How it works: a release step by step, by hand or played as a film."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from privgmm.dashboard.film.film_data import DEMONSTRATIONS, FilmData, code_of, demonstration
from privgmm.dashboard.film.player import show_player
from privgmm.dashboard.film.scene import FilmScene
from privgmm.dashboard.film.scenes import FilmStep, steps_of
from privgmm.dashboard.shared import state
from privgmm.dashboard.shared.layout import frame
from privgmm.dashboard.shared.lessons import Writer, controls_panel, show_link, written
from privgmm.dashboard.shared.refresh import refresh_part, refreshing_page, rerun
from privgmm.errors import PrivGMMError
from privgmm.teaching.format import escaped

__all__ = ["SECONDS", "is_due", "page"]

SECONDS = 7.0
"""Seconds for which a scene stays when the film plays: to watch it, and to read most of it."""

_ON_TIME = 0.8
"""Share of `SECONDS` from which on a tick turns to the next scene: a tick may come early."""

_LOOK = """
<style>
[class*="st-key-film-picture"] .updatemenu-container { display: none; }
</style>
"""
"""Hides the buttons that are drawn in a picture: `player` has one that a keyboard reaches."""

_YOURS = "Your release"
_WRITERS: dict[str, Writer] = {"film": str, "step": str}
_PLAYING, _SINCE, _TURN, _STEPS = "film_playing", "film_since", "film_turn", "film_steps"


@refreshing_page
def page() -> None:
    """Draw the page."""
    link = frame(
        "How it works",
        "One release, step by step: what happens to the people's rows, the paper's own words, and "
        "the code that ran.",
    )
    st.html(_LOOK)
    film = _choose()
    steps = steps_of(film)
    step = _transport(steps)
    _show(steps[step - 1], step)
    st.session_state[_SINCE] = time.monotonic()
    if st.session_state.get(_PLAYING):
        refresh_part(functools.partial(_turn_if_due, len(steps)), every=SECONDS)
    with link:
        # last, when every widget of the page has its value
        show_link(written(_WRITERS))


def _choose() -> FilmData:
    """Ask what to show: the release on display in Explore, or a demonstration."""
    last = state.shown()
    names = [*DEMONSTRATIONS] if last is None else [_YOURS, *DEMONSTRATIONS]
    with controls_panel("film", border=False):
        chosen = st.segmented_control(
            "Which release",
            names,
            default=names[0],
            required=True,
            key="film",
            bind="query-params",
            on_change=_go,
            args=(1,),
        )
    if chosen == _YOURS and last is not None:
        st.caption(
            f":material/person: Your last release in Explore ({escaped(last.settings.data_name)}). "
            "Watching draws no noise and spends nothing."
        )
        return FilmData(last.chosen.dataset, last.outcome)
    st.caption(
        ":material/science: **Demonstration**: generated rows, and noise from a fixed seed, so "
        "it is the same every time."
        + (" Release something in Explore to watch that instead." if last is None else "")
    )
    return demonstration(chosen)


def _go(step: int) -> None:
    st.session_state["step"] = step
    _stop()


def _count_step() -> None:
    """Note that another scene is shown: its picture then starts to move by itself."""
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


def _transport(steps: Sequence[FilmStep]) -> int:
    """Draw back, play, next and the slider; return the number of the step to show."""
    last = len(steps)
    # a widget's value may be set before it is drawn, not after: the timer leaves a note
    now = int(st.session_state.pop(_TURN, st.session_state.get("step", 1)))
    if now != st.session_state.get("step", 1) or now > last:
        st.session_state["step"] = min(now, last)
    playing = bool(st.session_state.get(_PLAYING))
    with st.container(horizontal=True, vertical_alignment="bottom", key="transport"):
        with st.container(horizontal=True, width="content"):
            back, play, forth = st.empty(), st.empty(), st.empty()
        # a slider needs two ends: a stage may refuse in its first and only scene
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
            f"**{i} {label}**" if i == step else f"{i} {label}"
            for i, (label, _) in enumerate(steps, 1)
        )
    )
    return step


def _step_slider(last: int) -> int:
    return int(
        st.slider("Step", 1, last, key="step", bind="query-params", on_change=_stop, width=420)
    )


def _show(step: FilmStep, number: int) -> None:
    """Draw one step: words, picture, code."""
    try:
        now = step.scene()
        figure = None if now.figure is None else now.figure()
    except PrivGMMError as problem:
        st.error(f"This step cannot be drawn for this release: {problem}", icon=":material/error:")
        return
    with st.container(key="split"):
        words, picture = st.columns([1, 1.6], gap="medium")
    with words:
        _show_words(now, number)
    with picture:
        if figure is not None:
            _show_picture(now, figure, f"film-picture-{number}")
        st.caption(now.sharing)
    st.markdown("**The code that ran**")
    for function in now.code:
        place, source = code_of(function)
        st.caption(f":material/code: `{place}`")
        st.code(source, language="python", wrap_lines=True)


def _show_words(now: FilmScene, number: int) -> None:
    st.header(f"{number} · {now.title}", anchor=False)
    st.markdown(now.words)
    with st.container(horizontal=True):
        for label, value, meaning in now.numbers:
            st.metric(label, value, help=meaning, width="content")
    if not now.paper:
        return
    with st.container(border=True):
        st.caption(":material/menu_book: The paper, Algorithm 1")
        st.markdown(now.paper)
        if now.ours:
            st.caption(f"**Here:** {now.ours}")


def _show_picture(now: FilmScene, figure: go.Figure, place: str) -> None:
    with st.container(key=place):
        if figure.frames:
            with st.container(horizontal=True, vertical_alignment="center"):
                with st.container(width="content"):
                    show_player(place, st.session_state.get(_STEPS, 0), key=f"player-{place}")
                st.caption(now.motion)
        st.plotly_chart(
            figure,
            key=f"plot-{place}",
            config={"displaylogo": False, "scrollZoom": False},
            alt=now.alt,
        )


def is_due(since: float, now: float) -> bool:
    """Tell whether a scene shown `since` has been seen long enough at `now`, in seconds."""
    return now - since >= _ON_TIME * SECONDS


def _turn_if_due(last: int) -> None:
    """Turn to the next scene when the timer ticks; right after a rerun of the page, do nothing."""
    if not is_due(st.session_state[_SINCE], time.monotonic()):
        return
    turn = min(int(st.session_state.get("step", 1)) + 1, last)
    st.session_state[_TURN] = turn
    st.session_state[_PLAYING] = turn < last
    _count_step()
    rerun()
