"""The page Explore: what privacy costs, seen on one data set."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import streamlit as st

from privgmm.budget import budget_warnings
from privgmm.dashboard.explore.controls import choose_settings, show_misfit
from privgmm.dashboard.explore.data_panel import GENERATE, KINDS, SAMPLE, choose_data
from privgmm.dashboard.explore.feasibility import feasibility_of, show_feasibility, show_plan
from privgmm.dashboard.explore.hinting import show_hint
from privgmm.dashboard.explore.possible_releases import cloud_of, show_ghosts
from privgmm.dashboard.explore.release_job import collect, running, show_note, show_running, start
from privgmm.dashboard.explore.result import nonprivate_of, show_sharing, show_table, show_verdict
from privgmm.dashboard.ledger.page import show_spent
from privgmm.dashboard.shared import state
from privgmm.dashboard.shared.accounts import account_of
from privgmm.dashboard.shared.answers import fewest_rows
from privgmm.dashboard.shared.chosen import Chosen
from privgmm.dashboard.shared.format import escaped, method_title
from privgmm.dashboard.shared.jobs import is_known, still_open, watch
from privgmm.dashboard.shared.layout import frame
from privgmm.dashboard.shared.lessons import (
    Writer,
    controls_panel,
    current_lesson,
    scene_line,
    show_lessons,
    show_link,
    written,
)
from privgmm.data.datasets import Dataset
from privgmm.errors import PrivGMMError
from privgmm.figures.mixtures import figure_alt_text, ghosts_label, mixtures_figure
from privgmm.learners.registry import LEARNERS
from privgmm.methods import registry
from privgmm.mixture import Mixture
from privgmm.records.notebook import GeneratedRows
from privgmm.release import Refusal, Release
from privgmm.stages.standard_errors import StandardErrors

__all__ = ["page"]


def page() -> None:
    """Draw the page."""
    link = frame(
        "What does privacy cost here?",
        "Choose rows and a promise, press **Release**, and compare what you may publish with "
        "what you would have learned without privacy.",
    )
    collect()
    lesson = current_lesson() is not None
    if lesson:
        controls, picture = st.container(), st.container()
    else:
        controls, picture = st.container(key="split").columns([1, 1.8], gap="medium")
    with controls:
        with controls_panel("data"):
            st.markdown("**1 · Data**")
            chosen = choose_data()
        if chosen is None:
            picture.info("Choose data to begin.", icon=":material/upload_file:")
            return
        try:
            with controls_panel("promise"):
                st.markdown("**2 · Promise**")
                settings = choose_settings(chosen.dataset)
            account = account_of(chosen)
        except PrivGMMError as problem:
            # Without a promise that can be asked for, or an account, nothing may be released.
            with picture:
                st.error(escaped(str(problem)), icon=":material/error:")
                _picture(chosen.dataset)
            return
        if not lesson:
            show_lessons()
    with picture:
        known = feasibility_of(settings.request)
        scene_line(_scene(settings, chosen.dataset))
        if not lesson:
            generated = isinstance(chosen.rows, GeneratedRows)
            show_feasibility(known, chosen.dataset, generated=generated)
        show_misfit(settings)
        request = settings.request
        for words in budget_warnings(request.budget, request.rows, request.unit):
            st.warning(escaped(f"{words[0].upper()}{words[1:]}."), icon=":material/gpp_maybe:")
        buttons = st.container(horizontal=True, vertical_alignment="center")
        buttons.button(
            "Release",
            type="primary",
            icon=":material/shield_lock:",
            disabled=bool(known.problem)
            or settings.most_components is not None
            or running() is not None,
            key="release",
            on_click=start,
            args=(settings, chosen),
        )
        with buttons:
            show_plan(known)
        show_spent(account)
        # In a container of its own what comes and goes does not push the rest about.
        with st.container(key="under_way"):
            if running() is not None:
                show_running()
            show_note()
        pending = [*known.pending, *_results(settings, chosen)]
    with link:
        # Last, when every widget of the page has its value.
        source = st.session_state.get("source")
        foreign = [key for name, keys in _ONLY_FOR.items() if name != source for key in keys]
        show_link(written(_WRITERS, without=foreign))
    if pending:
        watch(pending)


def _scene(settings: state.Settings, dataset: Dataset) -> str:
    """What a lesson's link has set, in a line."""
    noise = "fresh noise" if settings.seed is None else f"noise seed {settings.seed}"
    request = settings.request
    return (
        f"{dataset.n_rows:,} rows ({dataset.name.replace('_', ' ')}), "
        f"{request.components_in_words} components to fit, method {method_title(request.method)}, "
        f"learner {LEARNERS[settings.learner].title}, "
        f"ε = {request.epsilon:g}, δ = {request.delta:g}, {noise}."
    )


def _results(settings: state.Settings, chosen: Chosen) -> list[Future[Any]]:
    """The picture and what belongs to it; gives back answers that are still under way."""
    last, dataset = state.shown(), chosen.dataset
    if last is None or last.settings.data != settings.data:
        _picture(dataset)
        if last is None:
            st.info(
                "The picture shows the rows"
                + (" and the mixture they were drawn from" if dataset.truth is not None else "")
                + ". Press **Release** to learn it privately.",
                icon=":material/touch_app:",
            )
        else:
            st.warning(
                f"Your last release was made from other rows ({last.settings.data_name}) and is "
                "not shown here. Press **Release** to make one from these.",
                icon=":material/history:",
            )
        return []
    outcome = last.outcome
    changes = settings.changes_since(last.settings)
    if changes:
        st.warning(
            f"This result belongs to earlier settings: {', '.join(changes)}. Press **Release** "
            "for a new one; the earlier one stays spent.",
            icon=":material/history:",
        )
    private = outcome.result.mixture if isinstance(outcome.result, Release) else None
    cloud = cloud_of(last)
    _picture(
        dataset,
        nonprivate=nonprivate_of(outcome),
        private=private,
        errors=_errors_of(outcome.result),
        ghosts=() if cloud is None else tuple(cloud.released),
    )
    needed, pending = ({}, []) if private is not None else _rows_by_method(last)
    show_verdict(outcome, dataset, needed)
    pending += show_hint(outcome)
    show_table(outcome, dataset, errors=_shows_errors())
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


def _errors_of(result: Release | Refusal) -> StandardErrors | None:
    """How far the numbers of a release may be off, where that is known. Public."""
    return result.standard_errors if isinstance(result, Release) else None


def _shows_errors() -> bool:
    """Whether standard errors are shown, in the picture and in the table."""
    return bool(st.session_state.get("errors", True))


def _picture(
    dataset: Dataset,
    *,
    nonprivate: Mixture | None = None,
    private: Mixture | None = None,
    errors: StandardErrors | None = None,
    ghosts: Sequence[Mixture] = (),
) -> None:
    axes = (0, 1)
    if dataset.n_features > 2:
        left, right = st.columns(2)
        first = left.selectbox("Across", dataset.columns, 0, key="across", bind="query-params")
        others = [name for name in dataset.columns if name != first]
        second = right.selectbox("Up", others, 0, key="up", bind="query-params")
        axes = (dataset.columns.index(first), dataset.columns.index(second))
    if errors is not None:
        st.toggle(
            "Show standard errors",
            value=True,
            key="errors",
            bind="query-params",
            persist_state="session",
            help="Bands of two standard errors around the private mixture, and ± in the table: how "
            "far its numbers may be off, by the sampling of the rows and the privacy noise "
            "together. They may be shared. Where they cannot be seen they are narrower than the "
            "line.",
        )
    # All ellipses, but only some thousand rows: drawing is no computation.
    figure = mixtures_figure(
        dataset.thumbnail,
        true=dataset.truth,
        nonprivate=nonprivate,
        private=private,
        errors=errors if _shows_errors() else None,
        ghosts=ghosts,
        axes=axes,
        columns=dataset.columns,
        n_rows=dataset.n_rows,
    )
    # Upright at the side, where it does not cover the legend.
    figure.update_layout(modebar={"orientation": "v", "bgcolor": "rgba(0,0,0,0)"})
    words = figure_alt_text(
        dataset.n_rows,
        true=dataset.truth,
        nonprivate=nonprivate,
        private=private,
        axes=axes,
        columns=dataset.columns,
    )
    if ghosts:
        words += f" {ghosts_label(len(ghosts))}, drawn faintly."
    st.plotly_chart(
        figure, key="picture", config={"displaylogo": False, "scrollZoom": False}, alt=words
    )
    st.caption(
        ":material/lock: For your eyes only: the picture shows rows. Click a name in the legend to "
        "hide or show it"
        + ("; ellipses lie at one and two standard deviations." if dataset.n_features > 1 else ".")
    )


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
    "delta": lambda value: f"{value:.0e}",
    "auto": lambda on: str(on).lower(),
    "forgiving": lambda on: str(on).lower(),
    "alpha": lambda value: f"{value:g}",
    "t": str,
    "seeded": lambda on: str(on).lower(),
    "noise_seed": str,
    "errors": lambda on: str(on).lower(),
    "across": str,
    "up": str,
}

_ONLY_FOR = {
    GENERATE: {"kind", "true_k", "d", "separation", "n", "data_seed"},
    SAMPLE: {"sample"},
}
