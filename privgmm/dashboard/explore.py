"""The page Explore: what privacy costs, seen on one data set."""

from __future__ import annotations

import streamlit as st

from privgmm.calibration import METHODS
from privgmm.dashboard import state
from privgmm.dashboard.controls import (
    choose_settings,
    fewest_rows,
    plan_for,
    rows_needed,
)
from privgmm.dashboard.frame import frame
from privgmm.dashboard.result import nonprivate_of, show_sharing, show_tables, show_verdict
from privgmm.dashboard.source import choose_data
from privgmm.dashboard.words import count_in_words, spreads_apart
from privgmm.datasets import Dataset
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.plan import Plan
from privgmm.plotting import figure_alt_text, mixtures_figure
from privgmm.release import Release, release

__all__ = ["page"]


def page() -> None:
    """Draw the page."""
    frame(
        "What does privacy cost here?",
        "Choose rows and a promise, press **Release**, and compare what you may publish with "
        "what you would have learned without privacy.",
    )
    controls, picture = st.container(key="split").columns([1, 1.8], gap="medium")
    with controls:
        with st.container(border=True):
            st.markdown("**1 · Data**")
            dataset = choose_data()
        if dataset is None:
            picture.info("Choose data to begin.", icon=":material/upload_file:")
            return
        with st.container(border=True):
            st.markdown("**2 · Promise**")
            settings = choose_settings(dataset)
            plan = _plan_panel(settings, dataset)
        pressed = st.button(
            "Release",
            type="primary",
            icon=":material/shield_lock:",
            width="stretch",
            disabled=plan is None,
            key="release",
        )
        _spend_note(dataset)
    with picture:
        if pressed and plan is not None:
            _release(settings, dataset, plan)
        _results(settings, dataset)


def _plan_panel(settings: state.Settings, dataset: Dataset) -> Plan | None:
    try:
        plan = plan_for(settings, dataset)
        needed = rows_needed(plan)
    except InvalidInput as problem:
        st.error(str(problem), icon=":material/error:")
        if settings.alpha is None:
            st.caption("Turn off Auto to try a plan of your own all the same.")
        return None
    enough = needed <= dataset.n_rows
    st.markdown(
        f"{':material/check_circle:' if enough else ':material/hourglass_empty:'} This plan needs "
        f"about **{count_in_words(needed)} rows**; there are **{dataset.n_rows:,}**."
    )
    apart = spreads_apart(plan.separation * plan.tau)
    if apart > 0:
        st.caption(f"It also needs components at least about {apart:.1f} spreads apart.")
    with st.expander("The plan in words", icon=":material/description:"):
        st.markdown(plan.explain().replace("\n", "\n\n"))
    return plan


def _spend_note(dataset: Dataset) -> None:
    spent = [entry.budget for entry in state.ledger(dataset.fingerprint).entries]
    if not spent:
        st.caption(
            "Pressing it draws the noise, once, and spends the budget. Nothing has been spent on "
            "these rows in this session."
        )
        return
    epsilon, delta = sum(b.epsilon for b in spent), sum(b.delta for b in spent)
    times = "once" if len(spent) == 1 else f"{len(spent)} times"
    st.caption(
        f"Released {times} from these rows in this session: together ε = {epsilon:.4g}, "
        f"δ = {delta:.3g} (the sum, which holds for any sequence of releases)."
    )


def _release(settings: state.Settings, dataset: Dataset, plan: Plan) -> None:
    ledger = state.ledger(dataset.fingerprint)
    before = len(ledger.entries)
    with st.status(f"Fitting {plan.n_blocks:,} blocks…", expanded=True) as status:
        bar = st.progress(0.0)

        def progress(done: int, total: int) -> None:
            bar.progress(min(1.0, done / max(total, 1)), text=f"{done:,} of {total:,} blocks")

        try:
            outcome = release(
                dataset.rows,
                plan,
                rng=settings.seed,
                ledger=ledger,
                progress=progress,
            )
        except InvalidInput as problem:
            spent = len(ledger.entries) > before
            status.update(
                label="The budget is spent, but there is no result"
                if spent
                else "Nothing was drawn and nothing spent",
                state="error",
            )
            st.error(str(problem), icon=":material/error:")
            return
        status.update(label="Fitting all rows without privacy, to compare…")
        nonprivate_of(outcome)
        status.update(label="Done", state="complete", expanded=False)
    state.keep(state.Shown(settings, dataset, outcome))
    # The note of what was spent is drawn above, before the button is read: draw it again.
    st.rerun()


def _results(settings: state.Settings, dataset: Dataset) -> None:
    last = state.shown()
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
        return
    outcome = last.outcome
    changes = settings.changes_since(last.settings)
    if changes:
        st.warning(
            f"This result belongs to earlier settings: {', '.join(changes)}. Press **Release** "
            "for a new one; the earlier one stays spent.",
            icon=":material/history:",
        )
    private = outcome.result.mixture if isinstance(outcome.result, Release) else None
    _picture(dataset, nonprivate=nonprivate_of(outcome), private=private)
    needed: dict[str, float] = {}
    if private is None:
        needed = _rows_by_method(last.settings, dataset)
    show_verdict(outcome, dataset, needed)
    show_tables(outcome, dataset)
    show_sharing(outcome, dataset)


def _rows_by_method(settings: state.Settings, dataset: Dataset) -> dict[str, float]:
    needed: dict[str, float] = {}
    for method in METHODS:
        try:
            needed[method] = fewest_rows(method, settings, dataset)
        except InvalidInput as problem:
            st.caption(f"Method {method}: {problem}")
    return needed


def _picture(
    dataset: Dataset, *, nonprivate: Mixture | None = None, private: Mixture | None = None
) -> None:
    axes = (0, 1)
    if dataset.n_features > 2:
        left, right = st.columns(2)
        first = left.selectbox("Across", dataset.columns, 0, key="across")
        others = [name for name in dataset.columns if name != first]
        second = right.selectbox("Up", others, 0, key="up")
        axes = (dataset.columns.index(first), dataset.columns.index(second))
    figure = mixtures_figure(
        dataset.rows,
        true=dataset.truth,
        nonprivate=nonprivate,
        private=private,
        axes=axes,
        columns=dataset.columns,
    )
    st.plotly_chart(
        figure,
        key="picture",
        config={"displaylogo": False, "scrollZoom": False},
        alt=figure_alt_text(
            dataset.n_rows,
            true=dataset.truth,
            nonprivate=nonprivate,
            private=private,
            axes=axes,
            columns=dataset.columns,
        ),
    )
    st.caption(
        ":material/lock: For your eyes only: the picture shows rows. "
        "Click a name in the legend to hide or show it; ellipses lie at one and two standard "
        "deviations."
        if dataset.n_features > 1
        else ":material/lock: For your eyes only: the picture shows rows. "
        "Click a name in the legend to hide or show it."
    )
