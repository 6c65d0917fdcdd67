"""The page Planner: what a release would take, and give, before there is any data."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import streamlit as st

from privgmm.arrays import Array
from privgmm.dashboard.asking import (
    ALPHA,
    DEFAULT_ALPHA,
    EPSILON,
    ORDER,
    ROWS,
    Asked,
    ask,
    needed,
    solve,
)
from privgmm.dashboard.frame import frame
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
from privgmm.prospects import Prospect, Question, along_rows
from privgmm.spread import component_weights

__all__ = ["answer_in_words", "heading", "page", "telling_rows", "variations"]


def page() -> None:
    """Draw the page."""
    frame(
        "How many rows do I need?",
        "Ask before you collect: no data, no privacy spent. Say what you want to learn and what "
        "you promise; the three methods answer.",
        icon=":material/calculate:",
    )
    controls, answers = st.container(key="split").columns([1, 1.5], gap="medium")
    with controls.container(border=True):
        asked = ask()
    with answers:
        try:
            component_weights(asked.question.n_components, asked.question.smallest_weight)
        except InvalidInput as problem:
            st.error(str(problem), icon=":material/error:")
            return
        solved = {method: solve(asked, method) for method in ORDER}
        _answers(asked, solved)
        _curves(asked, solved)
        _what_if(asked)


def answer_in_words(unknown: str, value: float) -> str:
    """An answer as a big number.

    Examples
    --------
    >>> answer_in_words("Rows", 23714.0), answer_in_words("ε", 0.2188), answer_in_words("α", 4.5e-5)
    ('23,700', '0.22', '0.000045')
    """
    if not math.isfinite(value):
        return "out of reach"
    if unknown == ROWS:
        return count_in_words(value)
    return np.format_float_positional(value, precision=2, fractional=False, trim="-")


def heading(unknown: str, method: Method) -> str:
    """What an answer is called."""
    if unknown == ALPHA and method == "lifted":
        return f"{method_label(method)} · error"
    return f"{method_label(method)} · {unknown.lower() if unknown == ROWS else unknown}"


def _meaning(unknown: str, method: Method) -> str:
    if unknown == ROWS:
        return "Rows from which it releases in 95 of 100 runs"
    if unknown == EPSILON:
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


def telling_rows(enough: float) -> list[float]:
    """Rows at which to draw a curve: dense where the chance rises, sparse elsewhere."""
    rise = float(enough) * np.geomspace(1 / 8, 4, 19)
    beyond = np.geomspace(min(float(enough), MOST), MOST, 14)
    rows = {FEWEST, *rise.tolist(), *beyond.tolist(), MOST}
    return sorted(n for n in rows if FEWEST <= n <= MOST)


@st.cache_data(max_entries=256, show_spinner="Drawing the curves…")
def _curve(
    question: Question, method: Method, enough: float, epsilon: float, alpha: float
) -> tuple[Prospect, ...]:
    points = along_rows(
        question, method, telling_rows(enough), epsilon=epsilon, alpha=alpha, enough=enough
    )
    # the plans are not drawn, and would only make the cache heavier
    return tuple(dataclasses.replace(point, plan=None) for point in points)


@st.cache_data(show_spinner=False, max_entries=64)
def _without_privacy(question: Question) -> tuple[Array, Array]:
    weights = component_weights(question.n_components, question.smallest_weight)
    rows = np.geomspace(FEWEST, MOST, 18)
    errors = [forecast_error(n, weights, question.n_features, None).total for n in rows]
    return rows, np.array(errors)


def _settings(asked: Asked, method: Method, solved: float) -> tuple[float, float, float]:
    """Rows that are enough, epsilon and alpha of the curve of a method whose answer is finite."""
    if method == "lifted":
        if asked.solve == EPSILON:
            return asked.n_rows, solved, DEFAULT_ALPHA
        enough = needed(asked.question, method, asked.epsilon, DEFAULT_ALPHA)
        return enough, asked.epsilon, DEFAULT_ALPHA
    if asked.solve == EPSILON:
        return asked.n_rows, solved, asked.alpha
    if asked.solve == ALPHA:
        return asked.n_rows, asked.epsilon, solved
    return solved, asked.epsilon, asked.alpha


def _curves(asked: Asked, solved: dict[Method, float]) -> None:
    curves: dict[str, tuple[Prospect, ...]] = {
        method: _curve(asked.question, method, *_settings(asked, method, value))
        for method, value in solved.items()
        if math.isfinite(value)
    }
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
        persist_state="session",
        help="The same question with one thing changed at a time. Takes a few seconds.",
    )
    if not wanted:
        return
    rows = []
    changes = variations(asked)
    bar = st.progress(0.0, text="Asking the planner…")
    for i, (name, other) in enumerate(changes):
        bar.progress(i / len(changes), text=f"What if: {name}…")
        answers = [answer_in_words(asked.solve, solve(other, method)) for method in ORDER]
        rows.append((name, *answers))
    bar.empty()
    names = [heading(asked.solve, method) for method in ORDER]
    st.dataframe(pd.DataFrame(rows, columns=["what if", *names]), hide_index=True)
