"""The controls of the page Planner, and the question that they ask."""

from __future__ import annotations

import streamlit as st

from privgmm.dashboard.planner.solve import SOLVE_ALPHA, SOLVE_EPSILON, SOLVE_ROWS, PlannerQuestion
from privgmm.dashboard.shared.layout import slider_ends
from privgmm.dashboard.shared.lessons import LINKED, Writer, plainly
from privgmm.dashboard.shared.sliders import choose_alpha, choose_delta, choose_epsilon
from privgmm.methods.request import PlanRequest
from privgmm.teaching.format import count_in_words, number_in_words

__all__ = ["PLANNER_WRITERS", "ask_planner", "question_in_words"]

ROW_STOPS = (*(float(f"{lead}e{power}") for power in range(2, 20) for lead in (1, 3)), 1e20)
"""Numbers of rows offered: from a hundred to what the paper's constants take."""

PLANNER_WRITERS: dict[str, Writer] = {
    **plainly("solve", "components", "columns", "budget", "accuracy", "weight", "whatif"),
    "rows": count_in_words,
    "failure": number_in_words,
}


def ask_planner() -> PlannerQuestion:
    """Show the controls; return the question."""
    unknown = st.segmented_control(
        "Solve for",
        (SOLVE_ROWS, SOLVE_EPSILON, SOLVE_ALPHA),
        default=SOLVE_ROWS,
        required=True,
        key="solve",
        **LINKED,
        width="stretch",
        help="Rows: how many are enough. ε: how strong a promise your rows allow. "
        "α: how exact a release they allow.",
    )
    left, right = st.columns(2)
    k = left.number_input(
        "Components", 1, 12, 2, key="components", **LINKED, help="k, how many Gaussians to learn"
    )
    d = right.number_input(
        "Columns", 1, 12, 2, key="columns", **LINKED, help="d, how many numbers a row holds"
    )
    n_rows = 1e5
    if unknown != SOLVE_ROWS:
        n_rows = st.select_slider(
            "Rows at hand",
            ROW_STOPS,
            1e5,
            format_func=count_in_words,
            key="rows",
            **LINKED,
            help="How many rows the data will have",
        )
        slider_ends("hundred", "hundred billion billion")
    epsilon = 1.0
    if unknown != SOLVE_EPSILON:
        epsilon = choose_epsilon("budget", weaker="fewer rows")
    delta = choose_delta("failure")
    alpha = None if unknown == SOLVE_ALPHA else choose_alpha("accuracy")
    smallest = st.number_input(
        "Smallest weight",
        0.01,
        1.0,
        None,
        0.05,
        key="weight",
        **LINKED,
        placeholder="about equal",
        help="The share of rows in the smallest component. Rare components need more rows. Empty: "
        "about equal shares.",
    )
    request = PlanRequest(
        n_components=int(k),
        n_features=int(d),
        n_rows=int(n_rows),
        epsilon=epsilon,
        delta=delta,
        alpha=alpha,
        smallest_weight=smallest,
    )
    return PlannerQuestion(str(unknown), request)


def question_in_words(asked: PlannerQuestion) -> str:
    """Write the question in a line.

    Examples
    --------
    >>> asked = PlanRequest(n_components=2, n_features=3, alpha=0.5)
    >>> question_in_words(PlannerQuestion(SOLVE_ROWS, asked))
    '2 components, 3 columns, ε = 1, δ = 10⁻⁶, α = 0.5. Unknown: rows.'
    """
    request = asked.request
    parts = [f"{request.n_components} components", f"{request.n_features} columns"]
    if asked.unknown != SOLVE_ROWS:
        parts.append(f"{count_in_words(request.rows)} rows")
    if asked.unknown != SOLVE_EPSILON:
        parts.append(f"ε = {request.epsilon:g}")
    parts.append(f"δ = {number_in_words(request.delta)}")
    if asked.unknown != SOLVE_ALPHA:
        parts.append(f"α = {request.alpha:g}")
    if request.smallest_weight is not None:
        parts.append(f"smallest weight {request.smallest_weight:g}")
    unknown = "rows" if asked.unknown == SOLVE_ROWS else asked.unknown
    return f"{', '.join(parts)}. Unknown: {unknown}."
