"""The page Explore: what privacy costs, seen on one data set."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from privgmm.budget import Budget, budget_warnings
from privgmm.dashboard.explore.controls import choose_settings, show_misfit
from privgmm.dashboard.explore.data_panel import (
    GENERATE,
    MIXTURE_KINDS,
    SAMPLE,
    awaits_upload,
    choose_chip,
    choose_data,
    choose_rows,
)
from privgmm.dashboard.explore.epsilon_curve import follow_hand
from privgmm.dashboard.explore.feasibility import (
    Feasibility,
    feasibility_of,
    show_chance,
    show_plan,
    show_remedies,
)
from privgmm.dashboard.explore.hinting import show_hint
from privgmm.dashboard.explore.knobs import show_large_delta
from privgmm.dashboard.explore.opening import begin_opening, open_with_release
from privgmm.dashboard.explore.other_promises import Stops, noise_cloud
from privgmm.dashboard.explore.picture import (
    BANDS,
    CLOUD,
    PictureContent,
    layers,
    show_picture,
)
from privgmm.dashboard.explore.possible_releases import cloud_of, show_ghosts
from privgmm.dashboard.explore.rehearsal import rehearsal_of, setup_of
from privgmm.dashboard.explore.release_job import collect, running, show_note, show_running, start
from privgmm.dashboard.explore.result import nonprivate_of, show_sharing, show_table, show_verdict
from privgmm.dashboard.explore.verdict import of_release, show_band
from privgmm.dashboard.ledger.page import show_spent
from privgmm.dashboard.shared import state
from privgmm.dashboard.shared.accounts import account_of
from privgmm.dashboard.shared.answers import blocks_of, fewest_rows
from privgmm.dashboard.shared.chosen_data import ChosenData
from privgmm.dashboard.shared.layout import frame
from privgmm.dashboard.shared.lessons import (
    Writer,
    controls_panel,
    current_lesson,
    plainly,
    revealed,
    scene_line,
    show_link,
    written,
)
from privgmm.dashboard.shared.refresh import refreshing_page, rerun, rerun_when_ready, wait_briefly
from privgmm.data.datasets import Dataset
from privgmm.errors import PrivGMMError
from privgmm.learners.registry import LEARNERS
from privgmm.methods import registry
from privgmm.records.notebook import GeneratedRows
from privgmm.releases import Release
from privgmm.teaching.background import is_known, still_open
from privgmm.teaching.format import escaped, method_title, number_in_words, problem_in_words
from privgmm.teaching.rehearsal import Rehearsal, RehearsalSetup, load_demo, some_blocks
from privgmm.teaching.verdict import ON_STAND_INS, REHEARSED, of_rehearsal, waiting

__all__ = ["page"]

_SHELVES = ("Basics", "Data", "More")
_STOOD_IN = 2
"""Groups of stand-ins where the number of components is left open, by convention."""
_AT_ONCE = 0.25
"""Seconds to wait for a rehearsal, rather than draw the picture twice: most take less."""
_KEPT = "explore_rehearsed"
_CLICKED = "explore_clicked"
_STAND_INS, _OWN_ROWS = "Rehearsal on stand-ins", "Your rows"
_REHEARSAL, _RELEASE = "Rehearsal of these settings", "Your last release"


@refreshing_page
def page() -> None:
    """Render the page."""
    link = frame(
        "Learn clusters from people's data, reveal nobody",
        "Drag **ε** and watch what privacy costs. **Release** then draws the real noise, once.",
    )
    collect()
    begin_opening()
    follow_hand()
    rail, picture = st.container(key="explore").columns([1, 2.6])
    # across the whole page; on a phone, after the controls
    below = st.container(key="below")
    with rail:
        with controls_panel("chips", border=False):
            choose_chip()
        shelves = _show_shelves()
        with shelves["Basics"]:
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
        settings, knobs = choose_settings(chosen, shelves["Basics"], shelves["More"])
        account = account_of(chosen)
    except PrivGMMError as problem:
        # Without valid settings or an account nothing may be released.
        with rest:
            st.error(problem_in_words(problem), icon=":material/error:")
            show_picture(PictureContent(chosen.dataset))
        return
    known = feasibility_of(settings, chosen.dataset, after=_begun(settings, chosen))
    knobs.show(known)
    with rail:
        _show_button(settings, chosen, known)
        show_chance(known, chosen.dataset)
        open_with_release(settings, chosen, known)
        show_spent(account)
    pending = list(known.pending)
    with rest:
        scene_line(_scene(settings, chosen.dataset))
        _show_troubles(settings, chosen, known)
        # In a container of its own, what appears here does not move the rest.
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
        rerun_when_ready(pending)


def _show_shelves() -> dict[str, DeltaGenerator]:
    """Show three shelves of controls, one of them open; a lesson shows what it leaves."""
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


def _show_button(settings: state.Settings, chosen: ChosenData, known: Feasibility) -> None:
    """Show the buttons Release and Plan.

    A click may come while the page reruns. Streamlit then forgets the callbacks of widgets that
    were not rendered yet, and it forgets a click if it reruns before the button is reached. So
    both are checked: the note that the callback leaves, and the button itself.
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
        help="Draws the noise, once, and spends the budget, also if the answer is “refused”.",
    )
    if clicked and not disabled:
        start(settings, chosen)
        # at once, so that the button cannot be pressed twice
        rerun()
    with buttons:
        show_plan(known)


def _note_click() -> None:
    st.session_state[_CLICKED] = True


def _show_troubles(settings: state.Settings, chosen: ChosenData, known: Feasibility) -> None:
    """Show what prevents a release with these settings, and what would help."""
    if current_lesson() is None:
        show_remedies(known, generated=isinstance(chosen.rows, GeneratedRows))
    show_misfit(settings)
    request = settings.request
    # of delta the page speaks in the slider's own notation
    fair = request.budget if request.delta * request.rows < 1 else Budget(request.epsilon, 1e-12)
    for words in budget_warnings(fair, request.rows, request.unit):
        st.warning(escaped(f"{words[0].upper()}{words[1:]}."), icon=":material/gpp_maybe:")
    show_large_delta(request)


def _scene(settings: state.Settings, dataset: Dataset) -> str:
    """Describe a lesson's settings in a line."""
    noise = "fresh noise" if settings.seed is None else f"noise seed {settings.seed}"
    request = settings.request
    return (
        f"{dataset.n_rows:,} rows ({dataset.name.replace('_', ' ')}), "
        f"{request.components_in_words} groups to find, method {method_title(request.method)}, "
        f"learner {LEARNERS[settings.learner].title}, "
        f"ε = {request.epsilon:g}, δ = {number_in_words(request.delta)}, {noise}."
    )


def _begun(settings: state.Settings, chosen: ChosenData) -> Future[Rehearsal] | None:
    """Ask for the rehearsal that will be on screen: it takes longest, so it comes first."""
    setup, last = _rehearsable(settings, chosen), state.shown()
    if setup is None or not revealed():
        return None
    if last is not None and not settings.changes_since(last.settings):
        return None
    return rehearsal_of(setup)


def _rehearsable(settings: state.Settings, chosen: ChosenData) -> RehearsalSetup | None:
    """Return the rehearsal to show: of demonstration data, or of stand-ins for an upload."""
    if settings.most_components is not None:
        return None
    k = _STOOD_IN if settings.request.choose_components else settings.request.n_components
    rows = chosen.demo or chosen.stand_ins(k)
    return None if rows is None else setup_of(settings, rows)


def _show_results(
    settings: state.Settings, chosen: ChosenData, band: DeltaGenerator, below: DeltaGenerator
) -> list[Future[Any]]:
    """Show verdict and picture; return answers that are still pending."""
    last = state.shown()
    if last is not None and last.settings.data != settings.data:
        st.info(
            f"Your last release was made from other rows ({escaped(last.settings.data_name)}). It "
            "is kept on Look again and in the Ledger.",
            icon=":material/history:",
        )
        last = None
    changes = [] if last is None else settings.changes_since(last.settings)
    setup = _rehearsable(settings, chosen)
    if last is not None and (not changes or setup is None or _prefers_release(changes)):
        if changes and setup is None:
            st.warning(
                f"This release belongs to earlier settings: {', '.join(changes)}. It stays spent.",
                icon=":material/history:",
            )
        return _show_release(last, setup, settings, band, below)
    if setup is not None and revealed():
        if chosen.demo is None and _prefers_own_rows():
            with band:
                show_band(waiting("Press Release", "Nothing has been published"))
            show_picture(PictureContent(chosen.dataset))
            return []
        stands_in, rows = chosen.demo is None, load_demo(setup.rows)
        return _show_rehearsal(setup, settings, rows, band, below, stands_in=stands_in)
    with band:
        lesson = current_lesson()
        first = lesson is not None and lesson.waits and not revealed()
        what = "Predict first" if first else "Press Release"
        show_band(waiting(what, "Nothing has been published"))
    show_picture(PictureContent(chosen.dataset))
    return []


def _prefers_own_rows() -> bool:
    """Let the visitor choose between their rows and a rehearsal on others."""
    seen = st.segmented_control(
        "Before you pay",
        (_STAND_INS, _OWN_ROWS),
        default=_STAND_INS,
        required=True,
        key="before_paying",
        label_visibility="collapsed",
        persist_state="session",
    )
    if seen == _STAND_INS:
        st.caption(
            ":material/groups: **Stand-ins, not your rows**: generated people in well separated "
            "groups, as many as in your table and with as many columns. Your rows may be harder."
        )
    return seen == _OWN_ROWS


def _prefers_release(changes: list[str]) -> bool:
    """Let the visitor see the last release although settings were changed since."""
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
    setup: RehearsalSetup,
    settings: state.Settings,
    dataset: Dataset,
    band: DeltaGenerator,
    below: DeltaGenerator,
    *,
    stands_in: bool,
) -> list[Future[Any]]:
    answer = rehearsal_of(setup)
    wait_briefly([answer], _AT_ONCE)
    found: Rehearsal | None = answer.result() if is_known(answer) else None
    stops = Stops(setup, found, settings.alpha, dataset, stands_in=stands_in)
    if found is None:
        with band:
            show_band(waiting("Rehearsing…", "Nothing is spent"))
        before = st.session_state.get(_KEPT)
        # the last picture stays until there is a new one: nothing flickers
        if isinstance(before, Rehearsal) and before.setup.rows == setup.rows:
            show_picture(
                PictureContent.of_rehearsals((before,), stands_in=stands_in), stops.show_curve
            )
        else:
            show_picture(PictureContent(dataset, stands_in=stands_in), stops.show_curve)
        return [answer]
    st.session_state[_KEPT] = found
    with band:
        mark = ON_STAND_INS if stands_in else REHEARSED
        show_band(of_rehearsal(found, real=dataset.truth is None, alpha=settings.alpha, mark=mark))
    ghosts, pending = noise_cloud(setup) if CLOUD in layers() and not found.problem else ([], [])
    content = PictureContent.of_rehearsals((found, *ghosts), stands_in=stands_in)
    show_picture(content, stops.show_curve)
    with below:
        stops.show_promises()
    # they come after a running release, when the page reruns in any case
    return pending if running() is not None else [*pending, *stops.pending]


def _show_release(
    last: state.Shown,
    setup: RehearsalSetup | None,
    settings: state.Settings,
    band: DeltaGenerator,
    below: DeltaGenerator,
) -> list[Future[Any]]:
    outcome, dataset = last.outcome, last.chosen.dataset
    result = outcome.result
    private = result.mixture if isinstance(result, Release) else None
    with band:
        show_band(of_release(last))
    possible = cloud_of(last)
    content = PictureContent(
        dataset,
        nonprivate_of(outcome),
        private,
        result.standard_errors if isinstance(result, Release) else None,
        () if possible is None else tuple(possible.released),
        some_blocks(outcome),
        without_blocks=blocks_of(result.plan) is None,
    )
    stops = None
    if setup is not None and revealed():
        # other promises stay in sight: what this one cost is seen next to them
        found = rehearsal_of(setup)
        mine = found.result() if is_known(found) else None
        stops = Stops(
            setup,
            mine,
            settings.alpha,
            load_demo(setup.rows),
            moves_picture=False,
            stands_in=last.chosen.demo is None,
        )
    show_picture(content, None if stops is None else stops.show_curve)
    needed, pending = ({}, []) if private is not None else _rows_by_method(last)
    show_verdict(outcome, dataset, needed)
    pending += show_hint(outcome)
    show_ghosts(last)
    show_sharing(last)
    with below:
        # across the page: next to the controls its last columns are cut off
        show_table(outcome, dataset, errors=BANDS in layers())
        if stops is not None:
            stops.show_promises()
            pending += stops.pending
    return pending


def _rows_by_method(last: state.Shown) -> tuple[dict[str, float], list[Future[Any]]]:
    """Return the rows each method would take, as far as known, and what is pending."""
    answers = {name: fewest_rows(last.settings.request, name) for name in registry.names()}
    known = {
        name: answer.result()
        for name, answer in answers.items()
        if is_known(answer) and answer.exception() is None
    }
    return known, still_open(answers.values())


_WRITERS: dict[str, Writer] = {
    **plainly("source", "true_k", "d", "separation", "data_seed"),
    "kind": lambda kind: MIXTURE_KINDS[kind],
    "n": lambda n: f"{n:,}",
    "sample": lambda name: name.replace("_", " ").capitalize(),
    "method": method_title,
    "learner": lambda name: LEARNERS[name].title,
    "delta": number_in_words,
    **plainly("auto_k", "most_k", "k", "epsilon", "alpha", "t", "seeded", "noise_seed"),
    **plainly("layers", "across", "up"),
}

_ONLY_FOR = {GENERATE: {"kind", "true_k", "d", "separation", "n", "data_seed"}, SAMPLE: {"sample"}}
