"""The question of the page Planner: its controls."""

from __future__ import annotations

import streamlit as st

from privgmm.dashboard.answers import DEFAULT_ALPHA
from privgmm.dashboard.foresight import ALPHA, EPSILON, ROWS, Asked
from privgmm.dashboard.frame import slider_ends
from privgmm.dashboard.promise import choose_alpha, choose_delta, choose_epsilon
from privgmm.dashboard.words import count_in_words
from privgmm.prospects import Question

__all__ = ["ask"]

SIZES = (*(float(f"{lead}e{power}") for power in range(3, 20) for lead in (1, 3)), 1e20)


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
        slider_ends("thousand", "hundred billion billion")
    epsilon = 1.0
    if unknown != EPSILON:
        epsilon = choose_epsilon("budget", weaker="fewer rows")
    delta = choose_delta("failure")
    alpha = DEFAULT_ALPHA
    if unknown != ALPHA:
        alpha = choose_alpha(
            "accuracy",
            remark="For the methods paper and tight; lifted is refined to whatever the rows allow.",
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
    question = Question(int(k), int(d), delta=delta, smallest_weight=smallest)
    return Asked(str(unknown), question, epsilon, alpha, float(n_rows))
