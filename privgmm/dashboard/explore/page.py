"""The page Explore: what privacy costs, seen on one data set."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from privgmm.budget import budget_warnings
from privgmm.dashboard.explore.controls import choose_settings, show_misfit
from privgmm.dashboard.explore.data_panel import (
    GENERATE,
    KINDS,
    SAMPLE,
    awaits_upload,
    choose_chip,
    choose_data,
    choose_rows,
)
from privgmm.dashboard.explore.feasibility import (
    Feasibility,
    feasibility_of,
    show_chance,
    show_plan,
    show_remedies,
)
from privgmm.dashboard.explore.hinting import show_hint
from privgmm.dashboard.explore.other_promises import (
    cloud,
    rehearse_stops,
    show_other_promises,
)
from privgmm.dashboard.explore.picture import BANDS, CLOUD, Drawn, layers, show_picture
from privgmm.dashboard.explore.possible_releases import cloud_of, show_ghosts
from privgmm.dashboard.explore.rehearsal import Rehearsal, Scene, asked, scene_of, some_blocks
from privgmm.dashboard.explore.release_job import collect, running, show_note, show_running, start
from privgmm.dashboard.explore.result import nonprivate_of, show_sharing, show_table, show_verdict
from privgmm.dashboard.explore.verdict import of_rehearsal, of_release, show_band, waiting
from privgmm.dashboard.ledger.page import show_spent
from privgmm.dashboard.shared import state
from privgmm.dashboard.shared.accounts import account_of
from privgmm.dashboard.shared.answers import fewest_rows
from privgmm.dashboard.shared.chosen import Chosen
from privgmm.dashboard.shared.format import escaped, method_title, number_in_words, problem_in_words
from privgmm.dashboard.shared.jobs import (
    is_known,
    on_the_clock,
    patience,
    redraw,
    still_open,
    watch,
)
from privgmm.dashboard.shared.layout import frame
from privgmm.dashboard.shared.lessons import (
    Writer,
    controls_panel,
    current_lesson,
    revealed,
    scene_line,
    show_link,
    written,
)
from privgmm.dashboard.shared.made_up import is_made_up
from privgmm.data.datasets import Dataset
from privgmm.errors import PrivGMMError
from privgmm.learners.registry import LEARNERS
from privgmm.methods import registry
from privgmm.records.notebook import GeneratedRows
from privgmm.release import Release

__all__ = ["page"]

_SHELVES = ("Basics", "Data", "More")
_AT_ONCE = 0.25
"""Seconds to wait for a rehearsal, rather than draw the picture twice."""
_KEPT = "explore_rehearsed"
_CLICKED = "explore_clicked"
_REHEARSAL, _RELEASE = "Rehearsal of these settings", "Your last release"


@on_the_clock
def page() -> None:
    """Draw the page."""
    link = frame(
        "Learn clusters from people's data, reveal nobody",
        "Drag **ε** and watch what privacy costs. **Release** then draws the real noise, once.",
    )
    collect()
    rail, picture = st.container(key="explore").columns([1, 2.6])
    # across the whole page; on a phone, after the controls
    below = st.container(key="below")
    with rail:
        shelves = _show_shelves()
        with shelves["Basics"]:
            choose_chip()
            choose_rows()
        with shelves["Data"]:
            chosen = choose_data()
    if chosen is None:
        with picture:
            show_band(waiting("Choose data to begin", "Nothing has been read"))
        return
    with picture:
        band, rest = st.container(key="band"), st.container()
    try:
        settings = choose_settings(chosen.dataset, shelves["Basics"], shelves["More"])
        account = account_of(chosen)
    except PrivGMMError as problem:
        # Without a promise that can be asked for, or an account, nothing may be released.
        with rest:
            st.error(problem_in_words(problem), icon=":material/error:")
            show_picture(Drawn(chosen.dataset))
        return
    known = feasibility_of(settings, chosen.dataset, after=_begun(settings, chosen))
    with rail:
        _show_button(settings, chosen, known)
        show_chance(known, chosen.dataset)
        show_spent(account)
    pending = list(known.pending)
    with rest:
        scene_line(_scene(settings, chosen.dataset))
        _show_troubles(settings, chosen, known)
        # In a container of its own what comes and goes does not push the rest about.
        with st.container(key="under_way"):
            if running() is not None:
                show_running()
            show_note()
        pending += _show_results(settings, chosen, band, below)
    with link:
        # Last, when every widget of the page has its value.
        source = st.session_state.get("source")
        foreign = [key for name, keys in _ONLY_FOR.items() if name != source for key in keys]
        show_link(written(_WRITERS, without=foreign))
    if pending:
        watch(pending)


def _show_shelves() -> dict[str, DeltaGenerator]:
    """The rail: three shelves of controls, one of them open; in a lesson, what it leaves."""
    lesson = current_lesson() is not None
    with controls_panel("rail", border=False), st.container(key="settings_rail"):
        shelf = st.segmented_control(
            "Settings",
            _SHELVES,
            # a link to an upload has nothing to show yet: what to do next comes first
            default=_SHELVES[1] if awaits_upload() else _SHELVES[0],
            required=True,
            key="rail",
            label_visibility="collapsed",
            persist_state="session",
            width="stretch",
        )
        return {
            name: st.container(
                key=f"{'open' if lesson or name == shelf else 'shut'}-{name.lower()}", gap="small"
            )
            for name in _SHELVES
        }


def _show_button(settings: state.Settings, chosen: Chosen, known: Feasibility) -> None:
    """Release, and the plan in words beside it.

    A click may come while the page is being drawn again. Streamlit then forgets what to call for
    widgets that were not drawn yet, and it forgets a click if it draws anew before the button is
    reached. So both are asked: the note that the call leaves, and the button itself.
    """
    impossible = bool(known.blocked) or settings.most_components is not None
    if st.session_state.pop(_CLICKED, False) and not impossible and running() is None:
        start(settings, chosen)
    disabled = impossible or running() is not None
    buttons = st.container(horizontal=True, vertical_alignment="center", key="buttons")
    clicked = buttons.button(
        "Release",
        type="primary",
        icon=":material/shield_lock:",
        disabled=disabled,
        key="release",
        on_click=_note_click,
        width="stretch",
        help="Draws the noise, once, and spends the budget: also if the answer is “refused”.",
    )
    if clicked and not disabled:
        start(settings, chosen)
        # at once, so that the button cannot be pressed twice
        redraw()
    with buttons:
        show_plan(known)


def _note_click() -> None:
    st.session_state[_CLICKED] = True


def _show_troubles(settings: state.Settings, chosen: Chosen, known: Feasibility) -> None:
    """What stands against a release with these settings, and what would help."""
    if current_lesson() is None:
        show_remedies(known, generated=isinstance(chosen.rows, GeneratedRows))
    show_misfit(settings)
    request = settings.request
    for words in budget_warnings(request.budget, request.rows, request.unit):
        st.warning(escaped(f"{words[0].upper()}{words[1:]}."), icon=":material/gpp_maybe:")


def _scene(settings: state.Settings, dataset: Dataset) -> str:
    """What a lesson's link has set, in a line."""
    noise = "fresh noise" if settings.seed is None else f"noise seed {settings.seed}"
    request = settings.request
    return (
        f"{dataset.n_rows:,} rows ({dataset.name.replace('_', ' ')}), "
        f"{request.components_in_words} groups to find, method {method_title(request.method)}, "
        f"learner {LEARNERS[settings.learner].title}, "
        f"ε = {request.epsilon:g}, δ = {number_in_words(request.delta)}, {noise}."
    )


def _begun(settings: state.Settings, chosen: Chosen) -> Future[Rehearsal] | None:
    """The rehearsal that will be on screen: it takes longest, so it is asked for first."""
    scene, last = _rehearsable(settings, chosen), state.shown()
    if scene is None or not revealed():
        return None
    if last is not None and not settings.changes_since(last.settings):
        return None
    return asked(scene)


def _rehearsable(settings: state.Settings, chosen: Chosen) -> Scene | None:
    """What can be rehearsed: rows that are nobody's, with as many components as are learnt."""
    rows = chosen.rows
    if not is_made_up(rows) or settings.most_components is not None:
        return None
    return scene_of(settings, rows)


def _show_results(
    settings: state.Settings, chosen: Chosen, band: DeltaGenerator, below: DeltaGenerator
) -> list[Future[Any]]:
    """Verdict, picture and what belongs to them; gives back answers that are still under way."""
    last = state.shown()
    if last is not None and last.settings.data != settings.data:
        st.info(
            f"Your last release was made from other rows ({escaped(last.settings.data_name)}). It "
            "is kept on Look again and in the Ledger.",
            icon=":material/history:",
        )
        last = None
    changes = [] if last is None else settings.changes_since(last.settings)
    scene = _rehearsable(settings, chosen)
    if last is not None and (not changes or scene is None or _prefers_release(changes)):
        if changes and scene is None:
            st.warning(
                f"This release belongs to earlier settings: {', '.join(changes)}. It stays spent.",
                icon=":material/history:",
            )
        return _show_release(last, band)
    if scene is not None and revealed():
        return _show_rehearsal(scene, chosen.dataset, band, below)
    with band:
        lesson = current_lesson()
        first = lesson is not None and lesson.waits and not revealed()
        what = "Predict first" if first else "Press Release"
        show_band(waiting(what, "Nothing has been published"))
    show_picture(Drawn(chosen.dataset))
    return []


def _prefers_release(changes: list[str]) -> bool:
    """Whether to look at the last release although the settings were changed since."""
    seen = st.segmented_control(
        "On screen",
        (_REHEARSAL, _RELEASE),
        default=_REHEARSAL,
        required=True,
        key="on_screen",
        label_visibility="collapsed",
    )
    st.caption(
        f":material/history: Your last release belongs to earlier settings: {', '.join(changes)}. "
        "It stays spent."
    )
    return seen == _RELEASE


def _show_rehearsal(
    scene: Scene, dataset: Dataset, band: DeltaGenerator, below: DeltaGenerator
) -> list[Future[Any]]:
    answer = asked(scene)
    patience([answer], _AT_ONCE)
    found: Rehearsal | None = answer.result() if is_known(answer) else None
    if found is None:
        with band:
            show_band(waiting("Rehearsing…", "Nothing is spent"))
        before = st.session_state.get(_KEPT)
        # what was there stays until there is something new: nothing flickers
        if isinstance(before, Rehearsal) and before.scene.rows == scene.rows:
            show_picture(Drawn.of_rehearsals((before,)))
        else:
            show_picture(Drawn(dataset))
        return [answer]
    st.session_state[_KEPT] = found
    with band:
        show_band(of_rehearsal(found, real=dataset.truth is None))
    rehearse_stops(scene)
    ghosts, pending = cloud(scene) if CLOUD in layers() and not found.problem else ([], [])
    show_picture(Drawn.of_rehearsals((found, *ghosts)))
    with below:
        others = show_other_promises(found, dataset)
    # they come after a release that is under way, and then the page is drawn anew in any case
    return pending if running() is not None else [*pending, *others]


def _show_release(last: state.Shown, band: DeltaGenerator) -> list[Future[Any]]:
    outcome, dataset = last.outcome, last.dataset
    result = outcome.result
    private = result.mixture if isinstance(result, Release) else None
    with band:
        show_band(of_release(last))
    possible = cloud_of(last)
    show_picture(
        Drawn(
            dataset,
            nonprivate_of(outcome),
            private,
            result.standard_errors if isinstance(result, Release) else None,
            () if possible is None else tuple(possible.released),
            some_blocks(outcome),
        )
    )
    needed, pending = ({}, []) if private is not None else _rows_by_method(last)
    show_verdict(outcome, dataset, needed)
    pending += show_hint(outcome)
    show_table(outcome, dataset, errors=BANDS in layers())
    show_ghosts(last)
    show_sharing(last)
    return pending


def _rows_by_method(last: state.Shown) -> tuple[dict[str, float], list[Future[Any]]]:
    """Rows each method would take, as far as they are known, and what is still to come."""
    answers = {name: fewest_rows(last.settings.request, name) for name in registry.names()}
    known = {
        name: answer.result()
        for name, answer in answers.items()
        if is_known(answer) and answer.exception() is None
    }
    return known, still_open(answers.values())


_WRITERS: dict[str, Writer] = {
    "source": str,
    "kind": lambda kind: KINDS[kind],
    "true_k": str,
    "d": str,
    "separation": lambda value: f"{value:g}",
    "n": lambda n: f"{n:,}",
    "data_seed": str,
    "sample": lambda name: name.replace("_", " ").capitalize(),
    "method": method_title,
    "learner": lambda name: LEARNERS[name].title,
    "auto_k": lambda on: str(on).lower(),
    "most_k": str,
    "k": str,
    "epsilon": lambda value: f"{value:g}",
    "delta": number_in_words,
    "auto": lambda on: str(on).lower(),
    "forgiving": lambda on: str(on).lower(),
    "alpha": lambda value: f"{value:g}",
    "t": str,
    "seeded": lambda on: str(on).lower(),
    "noise_seed": str,
    "layers": str,
    "across": str,
    "up": str,
}

_ONLY_FOR = {
    GENERATE: {"kind", "true_k", "d", "separation", "n", "data_seed"},
    SAMPLE: {"sample"},
}
