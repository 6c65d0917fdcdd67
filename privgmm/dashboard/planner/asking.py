"""The question of the page Planner: its controls."""

from __future__ import annotations

import streamlit as st

from privgmm.dashboard.planner.solve import ALPHA, EPSILON, ROWS, Asked
from privgmm.dashboard.shared.format import all_of, count_in_words, number_in_words
from privgmm.dashboard.shared.layout import slider_ends
from privgmm.dashboard.shared.lessons import Writer
from privgmm.dashboard.shared.sliders import (
    choose_alpha,
    choose_delta,
    choose_epsilon,
    choose_forgiving,
)
from privgmm.methods import registry
from privgmm.methods.request import DEFAULT_ALPHA, PlanRequest

__all__ = ["WRITERS", "ask", "asked_in_words"]

SIZES = (*(float(f"{lead}e{power}") for power in range(2, 20) for lead in (1, 3)), 1e20)

WRITERS: dict[str, Writer] = {
    "solve": str,
    "components": str,
    "columns": str,
    "rows": count_in_words,
    "budget": lambda value: f"{value:g}",
    "failure": lambda value: f"{value:.0e}",
    "accuracy": lambda value: f"{value:g}",
    "weight": lambda value: f"{value:g}",
    "allow": lambda on: str(on).lower(),
}


def ask() -> Asked:
    """Draw the controls and give back what was asked."""
    unknown = st.segmented_control(
        "Solve for",
        (ROWS, EPSILON, ALPHA),
        default=ROWS,
        required=True,
        key="solve",
        bind="query-params",
        persist_state="session",
        width="stretch",
        help="Rows: how many are enough. ε: how strong a promise your rows allow. "
        "α: how exact a release they allow.",
    )
    left, right = st.columns(2)
    k = left.number_input(
        "Components",
        1,
        12,
        2,
        key="components",
        bind="query-params",
        persist_state="session",
        help="k, how many Gaussians to learn",
    )
    d = right.number_input(
        "Columns",
        1,
        12,
        2,
        key="columns",
        bind="query-params",
        persist_state="session",
        help="d, how many numbers a row holds",
    )
    n_rows = 1e5
    if unknown != ROWS:
        n_rows = st.select_slider(
            "Rows at hand",
            SIZES,
            1e5,
            format_func=count_in_words,
            key="rows",
            bind="query-params",
            persist_state="session",
            help="How many rows the data will have",
        )
        slider_ends("hundred", "hundred billion billion")
    epsilon = 1.0
    if unknown != EPSILON:
        epsilon = choose_epsilon("budget", weaker="fewer rows")
    delta = choose_delta("failure")
    alpha = DEFAULT_ALPHA
    if unknown != ALPHA:
        promising = [method.title for method in registry.all_methods() if method.error_is_promised]
        alpha = choose_alpha(
            "accuracy",
            remark=f"Only for methods that promise it: {all_of(promising)}.",
        )
    smallest = st.number_input(
        "Smallest weight",
        0.01,
        1.0,
        None,
        0.05,
        key="weight",
        bind="query-params",
        persist_state="session",
        placeholder="about equal",
        help="The share of rows in the smallest component. Rare components need more rows. Empty: "
        "about equal shares.",
    )
    forgiving = choose_forgiving("allow")
    request = PlanRequest(
        n_components=int(k),
        n_features=int(d),
        n_rows=int(n_rows),
        epsilon=epsilon,
        delta=delta,
        alpha=alpha,
        smallest_weight=smallest,
        forgiving=forgiving,
    )
    return Asked(str(unknown), request)


def asked_in_words(asked: Asked) -> str:
    """The question in a line.

    Examples
    --------
    >>> asked_in_words(Asked(ROWS, PlanRequest(n_components=2, n_features=3, alpha=0.5)))
    '2 components, 3 columns, ε = 1, δ = 10⁻⁶, α = 0.5. Unknown: rows.'
    """
    request = asked.request
    parts = [f"{request.n_components} components", f"{request.n_features} columns"]
    if asked.solve != ROWS:
        parts.append(f"{count_in_words(request.rows)} rows")
    if asked.solve != EPSILON:
        parts.append(f"ε = {request.epsilon:g}")
    parts.append(f"δ = {number_in_words(request.delta)}")
    if asked.solve != ALPHA:
        parts.append(f"α = {request.alpha:g}")
    if request.smallest_weight is not None:
        parts.append(f"smallest weight {request.smallest_weight:g}")
    if request.forgiving:
        parts.append("forgiving")
    unknown = "rows" if asked.solve == ROWS else asked.solve
    return f"{', '.join(parts)}. Unknown: {unknown}."
