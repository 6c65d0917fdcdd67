"""The page Planner: what a release would take, and give, before there is any data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from privgmm.arrays import Array
from privgmm.dashboard.controls import ALPHAS, DEFAULT_ALPHA, DELTAS, EPSILONS
from privgmm.dashboard.frame import frame, slider_ends
from privgmm.dashboard.words import METHOD_WORDS, count_in_words, method_label
from privgmm.errors import InvalidInput
from privgmm.forecast import forecast_error
from privgmm.plan import Method
from privgmm.prospect_figures import (
    FEWEST,
    MOST,
    chance_figure,
    curves_alt_text,
    error_figure,
)
from privgmm.prospects import Prospect, Question, along_rows, alpha_for, epsilon_for, rows_for
from privgmm.spread import component_weights

__all__ = ["Asked", "answer_in_words", "page"]

ORDER: tuple[Method, ...] = ("lifted", "tight", "paper")
ROWS, EPSILON, ALPHA = "Rows", "ε", "α"
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


def page() -> None:
    """Draw the page."""
    frame(
        "How many rows do I need?",
        "Ask before you collect: no data, no privacy spent. Say what you want to learn and what "
        "you promise; the three methods answer.",
        icon=":material/calculate:",
    )
    controls, answers = st.container(key="split").columns([1, 1.9], gap="medium")
    with controls.container(border=True):
        asked = _choose()
    with answers:
        try:
            component_weights(asked.question.n_components, asked.question.smallest_weight)
        except InvalidInput as problem:
            st.error(str(problem), icon=":material/error:")
            return
        solved = {method: _solve(asked, method) for method in ORDER}
        _answers(asked, solved)
        _curves(asked, solved)
        _what_if(asked)


# ------------------------------------------------------------------------------ the question


def _choose() -> Asked:
    solve = st.segmented_control(
        "Solve for",
        (ROWS, EPSILON, ALPHA),
        default=ROWS,
        required=True,
        key="solve",
        bind="query-params",
        width="stretch",
        help="Rows: how many are enough. ε: how strong a promise your rows allow. "
        "α: how exact a release they allow.",
    )
    left, right = st.columns(2)
    k = left.number_input(
        "Components", 1, 12, 2, key="k", bind="query-params", help="k, how many Gaussians to learn"
    )
    d = right.number_input(
        "Columns", 1, 12, 2, key="d", bind="query-params", help="d, how many numbers a row holds"
    )
    n_rows = 1e5
    if solve != ROWS:
        n_rows = st.select_slider(
            "Rows at hand",
            SIZES,
            1e5,
            format_func=count_in_words,
            key="n",
            bind="query-params",
            help="How many rows the data will have",
        )
        slider_ends("thousand", "hundred billion billion")
    epsilon = 1.0
    if solve != EPSILON:
        epsilon = st.select_slider(
            "Privacy budget ε",
            EPSILONS,
            1.0,
            format_func=lambda value: f"{value:g}",
            key="epsilon",
            bind="query-params",
            help="The total promise of one release. Around 1 is strong; 10 is weak.",
        )
        slider_ends("more private", "fewer rows")
    delta = st.select_slider(
        "Failure chance δ",
        DELTAS,
        1e-6,
        format_func=lambda value: f"{value:.0e}",
        key="delta",
        bind="query-params",
        help="The chance with which the promise may fail: well below one over the rows.",
    )
    alpha = DEFAULT_ALPHA
    if solve != ALPHA:
        alpha = st.select_slider(
            "Accuracy target α",
            ALPHAS,
            DEFAULT_ALPHA,
            format_func=lambda value: f"{value:g}",
            key="alpha",
            bind="query-params",
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
        placeholder="about equal",
        help="The share of rows in the smallest component. Rare components need more rows. Empty: "
        "about equal shares.",
    )
    question = Question(int(k), int(d), delta=float(delta), smallest_weight=smallest)
    return Asked(str(solve), question, float(epsilon), float(alpha), float(n_rows))


# ------------------------------------------------------------------------------- the answers


@st.cache_data(max_entries=512, show_spinner="Asking the planner…")
def _rows(question: Question, method: Method, epsilon: float, alpha: float) -> float:
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
    if _rows(question, "lifted", epsilon, DEFAULT_ALPHA) > n_rows:
        return math.inf
    return along_rows(question, "lifted", [n_rows], epsilon=epsilon)[0].error


def _solve(asked: Asked, method: Method) -> float:
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
    return _rows(asked.question, method, asked.epsilon, alpha)


def answer_in_words(solve: str, value: float) -> str:
    """An answer as a big number.

    Examples
    --------
    >>> answer_in_words("Rows", 23714.0), answer_in_words("ε", 0.2188), answer_in_words("ε", np.inf)
    ('23,700', '0.22', 'out of reach')
    """
    if not math.isfinite(value):
        return "out of reach"
    return count_in_words(value) if solve == ROWS else f"{value:.2g}"


def heading(solve: str, method: Method) -> str:
    """What an answer is called."""
    if solve == ALPHA and method == "lifted":
        return f"{method_label(method)} · error"
    return f"{method_label(method)} · {solve.lower() if solve == ROWS else solve}"


def _meaning(solve: str, method: Method) -> str:
    if solve == ROWS:
        return "Rows from which it releases in 95 of 100 runs"
    if solve == EPSILON:
        return "The smallest ε at which your rows release in 95 of 100 runs, up to 20"
    if method == "lifted":
        return "The error to expect of the smallest component, in units of its own spread"
    return "The smallest α your rows can promise, up to 1"


def _answers(asked: Asked, solved: dict[Method, float]) -> None:
    columns = st.columns(3)
    for column, (method, value) in zip(columns, solved.items(), strict=True):
        column.metric(
            heading(asked.solve, method),
            answer_in_words(asked.solve, value),
            help=f"{_meaning(asked.solve, method)}. {method_label(method)}: "
            f"{METHOD_WORDS[method][1]}.",
            border=True,
        )
    lifted, paper = solved["lifted"], solved["paper"]
    if asked.solve == ROWS and math.isfinite(lifted) and math.isfinite(paper):
        st.markdown(
            f"The paper proves that polynomially many rows are enough; with its constants that is "
            f"**{count_in_words(paper)}**. The lifted method keeps the same promise with "
            f"{count_in_words(paper / lifted)} times fewer."
        )
    elif asked.solve == ALPHA and math.isfinite(lifted):
        st.markdown(
            "Paper and tight promise an α. Lifted refines its release as far as the rows allow, so "
            "its answer is the error to expect."
        )
    if not any(math.isfinite(value) for value in solved.values()):
        st.info(
            "No method can do this: "
            + ("bring more rows." if asked.solve == EPSILON else "raise ε, or bring more rows."),
            icon=":material/hourglass_empty:",
        )
    st.caption(
        ":material/info: A forecast, not a promise of accuracy: it assumes components well apart. "
        "Overlap makes block fits scatter more and asks for more rows. The promise of privacy "
        "holds for any data."
    )


# -------------------------------------------------------------------------------- the curves


def telling_rows(needed: float) -> list[float]:
    """Rows at which to draw a curve: dense where the chance rises, sparse elsewhere."""
    rise = needed * np.geomspace(1 / 6, 4, 17)
    beyond = np.geomspace(min(needed, MOST), MOST, 14)
    rows = {FEWEST, *rise.tolist(), *beyond.tolist(), MOST}
    return sorted(n for n in rows if FEWEST <= n <= MOST)


@st.cache_data(max_entries=256, show_spinner="Drawing the curves…")
def _curve(
    question: Question, method: Method, epsilon: float, alpha: float
) -> tuple[Prospect, ...]:
    needed = _rows(question, method, epsilon, alpha)
    if not math.isfinite(needed):
        return ()
    points = along_rows(question, method, telling_rows(needed), epsilon=epsilon, alpha=alpha)
    # the plans are not drawn, and would only make the cache heavier
    return tuple(dataclasses.replace(point, plan=None) for point in points)


@st.cache_data(show_spinner=False, max_entries=64)
def _without_privacy(question: Question) -> tuple[Array, Array]:
    weights = component_weights(question.n_components, question.smallest_weight)
    rows = np.geomspace(FEWEST, MOST, 18)
    errors = [forecast_error(n, weights, question.n_features, None).total for n in rows]
    return rows, np.array(errors)


def _curves(asked: Asked, solved: dict[Method, float]) -> None:
    curves: dict[str, Sequence[Prospect]] = {}
    for method, value in solved.items():
        epsilon = value if asked.solve == EPSILON else asked.epsilon
        alpha = value if asked.solve == ALPHA else asked.alpha
        if math.isfinite(value):
            alpha = DEFAULT_ALPHA if method == "lifted" else alpha
            points = _curve(asked.question, method, epsilon, alpha)
            if points:
                curves[method] = points
    at_hand = None if asked.solve == ROWS else asked.n_rows
    alt = curves_alt_text(curves, n_rows=at_hand)
    config = {"displaylogo": False, "scrollZoom": False}
    st.markdown(
        "**Chance of a release**",
        help="If too few blocks of rows agree, the answer is “refused”: that is the guarantee at "
        "work. The chance is over the rows and the noise.",
    )
    st.plotly_chart(chance_figure(curves, n_rows=at_hand), key="chances", config=config, alt=alt)
    st.markdown(
        "**Error of a release**",
        help="For lifted and without privacy: the root-mean-square error to expect of the "
        "smallest component's mean, covariance and weight, in units of its own spread. For paper "
        "and tight: the α they promise, whatever the rows.",
    )
    st.plotly_chart(
        error_figure(curves, nonprivate=_without_privacy(asked.question), n_rows=at_hand),
        key="errors",
        config=config,
        alt=alt,
    )
    if asked.solve == EPSILON:
        st.caption("Each curve is drawn at the ε found for its method.")
    elif asked.solve == ALPHA:
        st.caption("For paper and tight, each curve is drawn at the α found.")


# ------------------------------------------------------------------------------ the what-ifs


def variations(asked: Asked) -> list[tuple[str, Asked]]:
    """The question as asked, and others that differ from it in one thing."""
    q = asked.question
    changes: list[tuple[str, Asked]] = [("as asked", asked)]
    if asked.solve != EPSILON:
        changes += [
            ("ε halved", asked._replace(epsilon=asked.epsilon / 2)),
            ("ε doubled", asked._replace(epsilon=asked.epsilon * 2)),
        ]
    if asked.solve != ROWS:
        changes.append(("ten times the rows", asked._replace(n_rows=10 * asked.n_rows)))
    changes += [
        ("δ ten times smaller", _with(asked, delta=q.delta / 10)),
        ("one more column", _with(asked, n_features=q.n_features + 1)),
    ]
    fits = q.smallest_weight is None or q.smallest_weight * (q.n_components + 1) <= 1
    if fits:
        changes.append(("one more component", _with(asked, n_components=q.n_components + 1)))
    if q.n_components > 1:
        rare = (q.smallest_weight or 0.7 / q.n_components) / 2
        changes.append(("a component half as large", _with(asked, smallest_weight=rare)))
    return changes


def _with(asked: Asked, **changes: float) -> Asked:
    return asked._replace(question=dataclasses.replace(asked.question, **changes))  # type: ignore[arg-type]


def _what_if(asked: Asked) -> None:
    wanted = st.toggle(
        "What if…",
        key="whatif",
        bind="query-params",
        help="The same question with one thing changed at a time. Takes a few seconds.",
    )
    if not wanted:
        return
    rows = []
    changes = variations(asked)
    bar = st.progress(0.0, text="Asking the planner…")
    for i, (name, other) in enumerate(changes):
        bar.progress(i / len(changes), text=f"What if: {name}…")
        answers = [answer_in_words(asked.solve, _solve(other, method)) for method in ORDER]
        rows.append((name, *answers))
    bar.empty()
    names = [heading(asked.solve, method) for method in ORDER]
    st.dataframe(pd.DataFrame(rows, columns=["what if", *names]), hide_index=True)
