"""The page Planner: what a release would take, and give, before there is any data.

The search may take seconds, so it is done in the background. Unknown answers are shown as such, and
curves of earlier settings stay, faint and labelled, until there are new ones.
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
from privgmm.dashboard.planner.asking import PLANNER_WRITERS, ask_planner, question_in_words
from privgmm.dashboard.planner.solve import (
    SOLVE_EPSILON,
    SOLVE_ROWS,
    PlannerQuestion,
    prospect_curve,
    solution_of,
)
from privgmm.dashboard.shared.layout import frame
from privgmm.dashboard.shared.lessons import (
    LINKED,
    controls_panel,
    current_lesson,
    scene_line,
    show_link,
    written,
)
from privgmm.dashboard.shared.refresh import (
    BRIEFLY,
    refreshing_page,
    rerun_when_ready,
    wait_briefly,
)
from privgmm.errors import InvalidInput
from privgmm.figures.what_if import FEWEST, MOST, chance_figure, curves_alt_text, error_figure
from privgmm.methods import registry
from privgmm.methods.method import Method
from privgmm.methods.request import PlanRequest
from privgmm.methods.typical import expected_mixture
from privgmm.methods.what_if import Prospect
from privgmm.stages.accuracy import error_law, sampling_covariance
from privgmm.stages.agreement.scatter import component_weights
from privgmm.teaching.background import is_known, still_open
from privgmm.teaching.format import count_in_words, problem_in_words

__all__ = [
    "PlannerAnswers",
    "answer_in_words",
    "answers_so_far",
    "faded",
    "heading",
    "page",
    "variations",
]

_DRAWN = "planner_drawn"
_AT_ONCE = 6
"""Questions of the table asked at a time: a pool drops old questions when many wait."""
_OPEN = "…"
_MANY = 1e9
"""Rows from which the error without privacy falls as one over their root: it is 10⁻⁴ there, and
beyond 10¹⁶ rows rounding would be larger than the error itself."""

ProspectCurves = Mapping[str, tuple[Prospect, ...]]


@dataclasses.dataclass(frozen=True)
class PlannerAnswers:
    """What is known so far of the answers to a question.

    Parameters
    ----------
    solved : mapping of str to float
        The unknown, by the names of the methods that have answered.
    curves : mapping of str to tuple of Prospect
        By the names of those whose curve is there.
    pending : sequence of Future
        Answers still to come.
    """

    solved: Mapping[str, float]
    curves: ProspectCurves
    pending: Sequence[Future[Any]]


@refreshing_page
def page() -> None:
    """Render the page."""
    link = frame(
        "How many rows do I need?",
        "Ask before you collect: no data, no privacy spent. Say what you want to learn and what "
        "you promise; every method answers.",
    )
    if current_lesson() is None:
        controls, answers = st.container(key="split").columns([1, 1.5], gap="medium")
    else:
        controls, answers = st.container(), st.container()
    with controls, controls_panel("question"):
        asked = ask_planner()
    with answers:
        scene_line(question_in_words(asked))
        try:
            component_weights(asked.request.n_components, asked.request.smallest_weight)
        except InvalidInput as problem:
            st.error(problem_in_words(problem), icon=":material/error:")
            return
        found = answers_so_far(asked)
        _answers(asked, found)
        _curves(asked, found, st.session_state.get(_DRAWN, {}) if found.pending else {})
        pending = [*found.pending, *_what_if(asked, ready=not found.pending)]
    if pending:
        rerun_when_ready(pending)
    if not found.pending:
        st.session_state[_DRAWN] = found.curves
    with link:
        # Last, when every widget of the page has its value.
        show_link(written(PLANNER_WRITERS))


def answers_so_far(asked: PlannerQuestion) -> PlannerAnswers:
    """Collect what is known by now; ask for the rest."""
    # a pool serves the newest question first: asked backwards, the default comes first
    answers = {name: solution_of(asked, name) for name in reversed(registry.names())}
    wait_briefly(answers.values())
    names = registry.names()
    solved = {name: answers[name].result() for name in names if is_known(answers[name])}
    drawings = {
        name: prospect_curve(asked, name, value)
        for name, value in solved.items()
        if math.isfinite(value)
    }
    wait_briefly(drawings.values(), BRIEFLY / 3)
    curves = {name: drawing.result() for name, drawing in drawings.items() if is_known(drawing)}
    return PlannerAnswers(solved, curves, still_open([*answers.values(), *drawings.values()]))


def answer_in_words(unknown: str, value: float) -> str:
    """Write an answer as a big number.

    Examples
    --------
    >>> answer_in_words("Rows", 23714.0), answer_in_words("ε", 0.2188), answer_in_words("α", 4.5e-5)
    ('23,700', '0.219', '0.000045')
    """
    if not math.isfinite(value):
        return "out of reach"
    if unknown == SOLVE_ROWS:
        return count_in_words(value)
    return np.format_float_positional(value, precision=3, fractional=False, trim="-")


def heading(unknown: str, method: Method) -> str:
    """Name an answer."""
    return f"{method.title} · {unknown.lower() if unknown == SOLVE_ROWS else unknown}"


def _meaning(unknown: str) -> str:
    if unknown == SOLVE_ROWS:
        return "Rows with which nine of ten releases are within α of the truth"
    if unknown == SOLVE_EPSILON:
        return "The smallest ε at which nine of ten releases are within α of the truth, up to 20"
    return "Nine of ten releases are within this α of the truth"


def _answers(asked: PlannerQuestion, found: PlannerAnswers) -> None:
    solved, methods = found.solved, registry.all_methods()
    columns = st.container(key="answers").columns(len(methods))
    for column, method in zip(columns, methods, strict=True):
        column.metric(
            heading(asked.unknown, method),
            answer_in_words(asked.unknown, solved[method.name]) if method.name in solved else _OPEN,
            help=f"{_meaning(asked.unknown)}. {method.title}: {method.sentence}.",
            border=True,
        )
    # In a container of its own what comes and goes does not push the rest about.
    with st.container(key="in_words"):
        _tell(asked, found)
    st.caption(
        ":material/info: A forecast, not a promise of accuracy: it assumes components well apart. "
        "Overlap asks for more rows, most of all where blocks of rows have to agree. The promise "
        "of privacy holds for any data."
    )


def _tell(asked: PlannerQuestion, found: PlannerAnswers) -> None:
    """Put the answers into a sentence, or say what is pending."""
    if found.pending:
        late = [m.title for m in registry.all_methods() if m.name not in found.solved]
        st.info(
            f"Computing {'the answer for ' + ', '.join(late) if late else 'the curves'}…",
            icon=":material/hourglass_top:",
        )
        return
    reached = {name: value for name, value in found.solved.items() if math.isfinite(value)}
    if asked.unknown == SOLVE_ROWS and len(reached) > 1:
        fewest, most = min(reached, key=reached.__getitem__), max(reached, key=reached.__getitem__)
        st.markdown(
            f"Every method keeps the same promise. {registry.get(most).title} takes "
            f"**{count_in_words(reached[most])} rows** for it, {registry.get(fewest).title} "
            f"{count_in_words(reached[most] / reached[fewest])} times fewer."
        )
    if not any(math.isfinite(value) for value in found.solved.values()):
        st.info(
            "No method can do this: "
            + (
                "bring more rows."
                if asked.unknown == SOLVE_EPSILON
                else "raise ε, or bring more rows."
            ),
            icon=":material/hourglass_empty:",
        )


# -------------------------------------------------------------------------------- the curves


@st.cache_data(show_spinner=False, max_entries=64)
def _without_privacy(k: int, d: int, smallest_weight: float | None) -> tuple[Array, Array]:
    request = PlanRequest(n_components=k, n_features=d, smallest_weight=smallest_weight)
    mixture, rows = expected_mixture(request), np.geomspace(FEWEST, MOST, 18)
    few = np.minimum(rows, _MANY)
    covariances = {n: sampling_covariance(mixture, n) for n in few}
    errors = {n: error_law(found, mixture.weights).value for n, found in covariances.items()}
    return rows, np.array([errors[n] for n in few]) * np.sqrt(few / rows)


def _curves(asked: PlannerQuestion, found: PlannerAnswers, earlier: ProspectCurves) -> None:
    """Show both figures; curves of earlier settings are faint until there are new ones."""
    request = asked.request
    at_hand = None if asked.unknown == SOLVE_ROWS else float(request.rows)
    methods = registry.all_methods()
    drawn = {
        name: found.curves.get(name) or earlier[name]
        for name in (method.name for method in methods)
        if name in found.curves or name in earlier
    }
    old = {method.title for method in methods if method.name in drawn.keys() - found.curves.keys()}
    alt = curves_alt_text(found.curves, n_rows=at_hand)
    if found.pending:
        alt += " More is being computed."
    config = {"displaylogo": False, "scrollZoom": False}
    st.markdown(
        "**Chance of a release**",
        help="If one row could matter too much, because too few blocks of rows agree or because "
        "there are too few rows, the answer is “refused”: that is the guarantee at work. The "
        "chance is over the rows and the noise.",
    )
    chances = faded(chance_figure(drawn, n_rows=at_hand), old)
    st.plotly_chart(chances, key="chances", config=config, alt=alt)
    st.markdown(
        "**Error of a release**",
        help="How far a release is from the truth: the median of its distance dist\\_GMM, which is "
        "0 for a perfect release and 1 for a wrong one.",
    )
    nonprivate = _without_privacy(request.n_components, request.n_features, request.smallest_weight)
    errors = faded(error_figure(drawn, nonprivate=nonprivate, n_rows=at_hand), old)
    st.plotly_chart(errors, key="errors", config=config, alt=alt)
    if asked.unknown == SOLVE_EPSILON:
        st.caption("Each curve is drawn at the ε found for its method.")


def faded(figure: go.Figure, names: Collection[str]) -> go.Figure:
    """Make curves with these names faint, and label them as of earlier settings."""
    for trace in figure.data:
        if trace.name in names:
            trace.update(opacity=0.3, name=f"{trace.name}, earlier settings", hoverinfo="skip")
            trace.hovertemplate = None
    return figure


# ------------------------------------------------------------------------------ the what-ifs


def variations(asked: PlannerQuestion) -> list[tuple[str, PlannerQuestion]]:
    """Return the question, and others that differ from it in one thing."""
    asks = asked.request
    changes: dict[str, PlanRequest] = {"as asked": asks}
    if asked.unknown != SOLVE_EPSILON:
        changes["ε halved"] = asks.but(epsilon=asks.epsilon / 2)
        changes["ε doubled"] = asks.but(epsilon=asks.epsilon * 2)
    if asked.unknown != SOLVE_ROWS:
        changes["ten times the rows"] = asks.but(n_rows=10 * asks.rows)
    changes["δ ten times smaller"] = asks.but(delta=asks.delta / 10)
    changes["one more column"] = asks.but(n_features=asks.n_features + 1)
    k, smallest = asks.n_components, asks.smallest_weight
    if smallest is None or smallest * (k + 1) <= 1:
        changes["one more component"] = asks.but(n_components=k + 1)
    if k > 1:
        rare = (smallest or 0.7 / k) / 2
        changes["a component half as large"] = asks.but(smallest_weight=rare)
    return [(name, PlannerQuestion(asked.unknown, request)) for name, request in changes.items()]


def _what_if(asked: PlannerQuestion, *, ready: bool) -> list[Future[Any]]:
    """Show the table as far as it is known; return what is pending.

    Parameters
    ----------
    asked : Asked
    ready : bool
        Whether the question itself is answered: that goes first.
    """
    wanted = st.toggle(
        "What if…",
        key="whatif",
        **LINKED,
        help="The same question with one thing changed at a time. Takes some seconds.",
    )
    if not wanted:
        return []
    methods = registry.all_methods()
    pending: list[Future[Any]] = []
    rows = []
    for name, other in variations(asked):
        line = [name]
        for method in methods:
            # a few at a time: more questions would drop those that wait
            answer = solution_of(other, method.name) if ready and len(pending) < _AT_ONCE else None
            if answer is not None and is_known(answer):
                line.append(answer_in_words(asked.unknown, answer.result()))
            else:
                line.append(_OPEN)
                pending += [] if answer is None else [answer]
        rows.append(line)
    names = [heading(asked.unknown, method) for method in methods]
    st.dataframe(pd.DataFrame(rows, columns=["what if", *names]), hide_index=True)
    return pending
