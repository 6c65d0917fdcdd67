"""The question of the page Planner, and its answers, each worked out once."""

from __future__ import annotations

import math
from typing import NamedTuple

import streamlit as st

from privgmm.dashboard.frame import slider_ends
from privgmm.dashboard.words import count_in_words
from privgmm.errors import InvalidInput
from privgmm.plan import Method
from privgmm.prospects import Question, along_rows, alpha_for, epsilon_for, rows_for

__all__ = ["ALPHA", "DEFAULT_ALPHA", "EPSILON", "ORDER", "ROWS", "Asked", "ask", "needed", "solve"]

ORDER: tuple[Method, ...] = ("lifted", "tight", "paper")
ROWS, EPSILON, ALPHA = "Rows", "ε", "α"
EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
DELTAS = (1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
ALPHAS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
DEFAULT_ALPHA = 0.5
SIZES = (*(float(f"{lead}e{power}") for power in range(3, 20) for lead in (1, 3)), 1e20)


class Asked(NamedTuple):
    """What was asked: one of rows, epsilon and alpha is the unknown.

    Parameters
    ----------
    solve : {"Rows", "ε", "α"}
    question : Question
        What stays fixed.
    epsilon, alpha, n_rows : float
        The unknown one holds a value of no meaning.
    """

    solve: str
    question: Question
    epsilon: float
    alpha: float
    n_rows: float


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
        epsilon = st.select_slider(
            "Privacy budget ε",
            EPSILONS,
            1.0,
            format_func=lambda value: f"{value:g}",
            key="budget",
            bind="query-params",
            persist_state="session",
            help="The total promise of one release. Around 1 is strong; 10 is weak.",
        )
        slider_ends("more private", "fewer rows")
    delta = st.select_slider(
        "Failure chance δ",
        DELTAS,
        1e-6,
        format_func=lambda value: f"{value:.0e}",
        key="failure",
        bind="query-params",
        persist_state="session",
        help="The chance with which the promise may fail: well below one over the rows.",
    )
    alpha = DEFAULT_ALPHA
    if unknown != ALPHA:
        alpha = st.select_slider(
            "Accuracy target α",
            ALPHAS,
            DEFAULT_ALPHA,
            format_func=lambda value: f"{value:g}",
            key="accuracy",
            bind="query-params",
            persist_state="session",
            help="How far the noise may move the mixture. For the methods paper and tight; lifted "
            "is refined to whatever the rows allow.",
        )
        slider_ends("more exact", "fewer rows")
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
    question = Question(int(k), int(d), delta=float(delta), smallest_weight=smallest)
    return Asked(str(unknown), question, float(epsilon), float(alpha), float(n_rows))


@st.cache_data(max_entries=512, show_spinner="Asking the planner…")
def needed(question: Question, method: Method, epsilon: float, alpha: float) -> float:
    """Rows from which a method releases in 95 of 100 runs; infinite if it never does."""
    try:
        return float(rows_for(question, method, epsilon=epsilon, alpha=alpha))
    except InvalidInput:
        # no number of blocks lets the method pass within this budget
        return math.inf


@st.cache_data(max_entries=256, show_spinner="Looking for the smallest ε…")
def _epsilon(question: Question, method: Method, n_rows: float, alpha: float) -> float:
    return float(epsilon_for(question, method, n_rows=n_rows, alpha=alpha))


@st.cache_data(max_entries=256, show_spinner="Looking for the smallest α…")
def _alpha(question: Question, method: Method, n_rows: float, epsilon: float) -> float:
    try:
        return float(alpha_for(question, method, n_rows=n_rows, epsilon=epsilon))
    except InvalidInput:
        # no number of blocks lets the method pass within this budget
        return math.inf


@st.cache_data(max_entries=256, show_spinner="Asking the planner…")
def _error(question: Question, n_rows: float, epsilon: float) -> float:
    if needed(question, "lifted", epsilon, DEFAULT_ALPHA) > n_rows:
        return math.inf
    return along_rows(question, "lifted", [n_rows], epsilon=epsilon)[0].error


def solve(asked: Asked, method: Method) -> float:
    """The unknown, for one method; infinite if nothing will do.

    Asked for alpha, `lifted` answers with the error to expect: it promises an alpha for its
    coarse start only, and then refines it.
    """
    # `lifted` takes no alpha: one entry in the cache for all of them
    alpha = DEFAULT_ALPHA if method == "lifted" else asked.alpha
    if asked.solve == EPSILON:
        return _epsilon(asked.question, method, asked.n_rows, alpha)
    if asked.solve == ALPHA and method == "lifted":
        return _error(asked.question, asked.n_rows, asked.epsilon)
    if asked.solve == ALPHA:
        return _alpha(asked.question, method, asked.n_rows, asked.epsilon)
    return needed(asked.question, method, asked.epsilon, alpha)
