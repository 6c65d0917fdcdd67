"""The page Planner: what a release would take, and give, before there is any data.

The search takes seconds where a rerun may not: it is done beside the page. What is not known yet
says so, and curves of earlier settings stay, faint and named so, until there are new ones.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from privgmm.arrays import Array
from privgmm.dashboard.planner.asking import WRITERS, ask, asked_in_words
from privgmm.dashboard.planner.solve import (
    ALPHA,
    EPSILON,
    ORDER,
    ROWS,
    Asked,
    curve_of,
    solution_of,
)
from privgmm.dashboard.shared.format import METHOD_WORDS, count_in_words, method_label
from privgmm.dashboard.shared.jobs import GRACE, is_known, patience, still_open, watch
from privgmm.dashboard.shared.layout import frame
from privgmm.dashboard.shared.lessons import (
    controls_panel,
    current_lesson,
    scene_line,
    show_link,
    written,
)
from privgmm.errors import InvalidInput
from privgmm.figures.what_if import (
    FEWEST,
    METHOD_LOOKS,
    MOST,
    chance_figure,
    curves_alt_text,
    error_figure,
)
from privgmm.methods.plan import Method
from privgmm.methods.what_if import Prospect, Question
from privgmm.stages.agreement.scatter import component_weights
from privgmm.stages.refinement.expected_error import forecast_error

__all__ = ["Found", "answer_in_words", "faded", "find", "heading", "page", "variations"]

_DRAWN = "planner_drawn"
_AT_ONCE = 6
_OPEN = "…"

Curves = Mapping[str, tuple[Prospect, ...]]


@dataclasses.dataclass(frozen=True)
class Found:
    """What is known so far about a question.

    Parameters
    ----------
    solved : mapping of Method to float
        The unknown, for the methods that have answered.
    curves : mapping of str to tuple of Prospect
        For those whose curve is there.
    pending : sequence of Future
        Answers under way.
    """

    solved: Mapping[Method, float]
    curves: Curves
    pending: Sequence[Future[Any]]


def page() -> None:
    """Draw the page."""
    link = frame(
        "How many rows do I need?",
        "Ask before you collect: no data, no privacy spent. Say what you want to learn and what "
        "you promise; the three methods answer.",
        icon=":material/calculate:",
    )
    if current_lesson() is None:
        controls, answers = st.container(key="split").columns([1, 1.5], gap="medium")
    else:
        controls, answers = st.container(), st.container()
    with controls, controls_panel("question"):
        asked = ask()
    with answers:
        scene_line(asked_in_words(asked))
        try:
            component_weights(asked.question.n_components, asked.question.smallest_weight)
        except InvalidInput as problem:
            st.error(str(problem), icon=":material/error:")
            return
        found = find(asked)
        _answers(asked, found)
        _curves(asked, found, st.session_state.get(_DRAWN, {}) if found.pending else {})
        pending = [*found.pending, *_what_if(asked, ready=not found.pending)]
    if pending:
        watch(pending)
    if not found.pending:
        st.session_state[_DRAWN] = found.curves
    with link:
        # Last, when every widget of the page has its value.
        show_link(written(WRITERS | {"whatif": lambda on: str(on).lower()}))


def find(asked: Asked) -> Found:
    """What is known by now; asks for the rest."""
    # The quickest first: whoever is idle takes the first of them, then the newest goes first.
    quick: tuple[Method, ...] = ("paper", "lifted", "tight")
    answers = {method: solution_of(asked, method) for method in quick}
    patience(answers.values())
    solved = {method: answers[method].result() for method in ORDER if is_known(answers[method])}
    drawings = {
        method: curve_of(asked, method, value)
        for method, value in solved.items()
        if math.isfinite(value)
    }
    patience(drawings.values(), GRACE / 3)
    curves: dict[str, tuple[Prospect, ...]] = {
        method: drawing.result() for method, drawing in drawings.items() if is_known(drawing)
    }
    return Found(solved, curves, still_open([*answers.values(), *drawings.values()]))


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


def _answers(asked: Asked, found: Found) -> None:
    solved = found.solved
    columns = st.columns(3)
    for column, method in zip(columns, ORDER, strict=True):
        column.metric(
            heading(asked.solve, method),
            answer_in_words(asked.solve, solved[method]) if method in solved else _OPEN,
            help=f"{_meaning(asked.solve, method)}. {method_label(method)}: "
            f"{METHOD_WORDS[method][1]}.",
            border=True,
        )
    # In a container of its own what comes and goes does not push the rest about.
    with st.container(key="told"):
        _tell(asked, found)
    st.caption(
        ":material/info: A forecast, not a promise of accuracy: it assumes components well apart. "
        "Overlap makes block fits scatter more and asks for more rows. The promise of privacy "
        "holds for any data."
    )


def _tell(asked: Asked, found: Found) -> None:
    """The answers in a sentence, or what is still to come."""
    if found.pending:
        late = [method_label(method) for method in ORDER if method not in found.solved]
        st.info(
            f"Working out {'the answer for ' + ', '.join(late) if late else 'the curves'}…",
            icon=":material/hourglass_top:",
        )
        return
    lifted, paper = found.solved["lifted"], found.solved["paper"]
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
    if not any(math.isfinite(value) for value in found.solved.values()):
        st.info(
            "No method can do this: "
            + ("bring more rows." if asked.solve == EPSILON else "raise ε, or bring more rows."),
            icon=":material/hourglass_empty:",
        )


# -------------------------------------------------------------------------------- the curves


@st.cache_data(show_spinner=False, max_entries=64)
def _without_privacy(question: Question) -> tuple[Array, Array]:
    weights = component_weights(question.n_components, question.smallest_weight)
    rows = np.geomspace(FEWEST, MOST, 18)
    errors = [forecast_error(n, weights, question.n_features, None).total for n in rows]
    return rows, np.array(errors)


def _curves(asked: Asked, found: Found, earlier: Curves) -> None:
    """Both figures; `earlier` are curves of other settings, faint until there are new ones."""
    at_hand = None if asked.solve == ROWS else asked.n_rows
    drawn: dict[str, tuple[Prospect, ...]] = {
        method: found.curves.get(method) or earlier[method]
        for method in ORDER
        if method in found.curves or method in earlier
    }
    old = {METHOD_LOOKS[method].label for method in drawn if method not in found.curves}
    alt = curves_alt_text(found.curves, n_rows=at_hand)
    if found.pending:
        alt += " More is being worked out."
    config = {"displaylogo": False, "scrollZoom": False}
    st.markdown(
        "**Chance of a release**",
        help="If too few blocks of rows agree, the answer is “refused”: that is the guarantee at "
        "work. The chance is over the rows and the noise.",
    )
    chances = faded(chance_figure(drawn, n_rows=at_hand), old)
    st.plotly_chart(chances, key="chances", config=config, alt=alt)
    st.markdown(
        "**Error of a release**",
        help="For lifted and without privacy: the root-mean-square error to expect of the "
        "smallest component's mean, covariance and weight, in units of its own spread. For paper "
        "and tight: the α they promise, whatever the rows.",
    )
    nonprivate = _without_privacy(asked.question)
    errors = faded(error_figure(drawn, nonprivate=nonprivate, n_rows=at_hand), old)
    st.plotly_chart(errors, key="errors", config=config, alt=alt)
    if asked.solve == EPSILON:
        st.caption("Each curve is drawn at the ε found for its method.")
    elif asked.solve == ALPHA:
        st.caption("For paper and tight, each curve is drawn at the α found.")


def faded(figure: go.Figure, names: Collection[str]) -> go.Figure:
    """The figure with the curves of these names faint, and said to be of earlier settings."""
    for trace in figure.data:
        if trace.name in names:
            trace.update(opacity=0.3, name=f"{trace.name}, earlier settings", hoverinfo="skip")
            trace.hovertemplate = None
    return figure


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


def _what_if(asked: Asked, *, ready: bool) -> list[Future[Any]]:
    """The table, as far as it is known; gives back what is under way.

    Parameters
    ----------
    asked : Asked
    ready : bool
        Whether the question itself is answered: that goes first.
    """
    wanted = st.toggle(
        "What if…",
        key="whatif",
        bind="query-params",
        persist_state="session",
        help="The same question with one thing changed at a time. Takes some seconds.",
    )
    if not wanted:
        return []
    pending: list[Future[Any]] = []
    rows = []
    for name, other in variations(asked):
        line = [name]
        for method in ORDER:
            # a few at a time: who asks for more drops what waits
            answer = solution_of(other, method) if ready and len(pending) < _AT_ONCE else None
            if answer is not None and is_known(answer):
                line.append(answer_in_words(asked.solve, answer.result()))
            else:
                line.append(_OPEN)
                pending += [] if answer is None else [answer]
        rows.append(line)
    names = [heading(asked.solve, method) for method in ORDER]
    st.dataframe(pd.DataFrame(rows, columns=["what if", *names]), hide_index=True)
    return pending
