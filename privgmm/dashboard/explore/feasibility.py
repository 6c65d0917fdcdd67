"""The line that says, before any budget is spent, whether the rows will do and what would help.

The answers come from `answers`, beside the page. What is not known yet is said to be under way,
and a small fragment looks for it and redraws the page when it is there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import streamlit as st

from privgmm.dashboard.shared.answers import (
    SIZES,
    Remedies,
    answer_to,
    remedies_for,
    rows_needed,
)
from privgmm.dashboard.shared.format import count_in_words, escaped, method_title, spreads_apart
from privgmm.dashboard.shared.jobs import is_known, patience, still_open
from privgmm.data.datasets import Dataset, separation_of
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan
from privgmm.methods.planner import Answer
from privgmm.methods.request import PlanRequest

__all__ = ["Feasibility", "feasibility_of", "show_feasibility", "show_plan"]

_UP, _MORE, _AUTO = ":material/arrow_upward:", ":material/group_add:", ":material/auto_fix_high:"


class _Fix(NamedTuple):
    """One click that would help: which widgets to set to what."""

    name: str
    label: str
    icon: str
    values: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Feasibility:
    """What is known so far about the settings on screen.

    Parameters
    ----------
    request : PlanRequest
    answer : Answer or None
        The plan, and why the rows are too few for it if they are.
    problem : str
        Why there is no plan, if that is settled.
    needed : float or None
        Rows that a release takes.
    remedies : Remedies or None
    pending : sequence of Future
        Answers under way.
    """

    request: PlanRequest
    answer: Answer | None
    problem: str
    needed: float | None
    remedies: Remedies | None
    pending: Sequence[Future[Any]]

    @property
    def plan(self) -> Plan | None:
        """The plan, if there is one by now."""
        return None if self.answer is None else self.answer.plan

    @property
    def enough(self) -> bool | None:
        """Whether the rows will do; None while that is open."""
        if self.problem:
            return False
        if self.answer is None:
            return None
        if self.answer.shortage:
            return False
        if not self.request.by_hand:
            # The method chose for these rows, and expects them to do.
            return True
        return None if self.needed is None else self.needed <= self.request.rows


def feasibility_of(request: PlanRequest) -> Feasibility:
    """What is known by now; asks for the rest."""
    # The newest question is served first: the plan matters most, then what would help.
    counted, planned = rows_needed(request), answer_to(request)
    patience([planned])
    answer, problem = _known(planned)
    needed, hopeless = _known(counted)
    first = Feasibility(request, answer, problem, needed, None, still_open([planned, counted]))
    if first.enough is not False or (hopeless and not problem):
        return first
    helping = remedies_for(request)
    remedies, _ = _known(helping)
    return dataclasses.replace(
        first, remedies=remedies, pending=still_open([planned, counted, helping])
    )


def _known(answer: Future[Any]) -> tuple[Any, str]:
    """The answer and the reason why there is none, as far as they are there."""
    if not is_known(answer):
        return None, ""
    problem = answer.exception()
    if problem is None:
        return answer.result(), ""
    if isinstance(problem, InvalidInput):
        return None, str(problem)
    raise problem


def show_feasibility(known: Feasibility, dataset: Dataset, *, generated: bool) -> None:
    """The line and the buttons that would help."""
    with st.container(key="feasibility"):
        if known.enough is None:
            st.info(
                f"Working out what ε = {known.request.epsilon:g} takes…",
                icon=":material/hourglass_top:",
            )
        elif known.enough:
            st.success(_enough(known), icon=":material/check_circle:")
            _show_separation(known, dataset)
        else:
            st.warning(_short(known), icon=":material/query_stats:")
            _show_remedies(known, generated=generated)


def show_plan(known: Feasibility) -> None:
    """The plan in words, on request."""
    with st.popover("Plan", icon=":material/description:", disabled=known.plan is None):
        if known.plan is not None:
            st.markdown(known.plan.explain().replace("\n", "\n\n"))


def _rows_said(known: Feasibility) -> str:
    if known.needed is None:
        return ""
    if math.isinf(known.needed):
        return "No number of rows will do at these settings"
    return f"you need about **{count_in_words(known.needed)} rows**"


def _enough(known: Feasibility) -> str:
    n, epsilon = known.request.rows, known.request.epsilon
    have = f"you have **{n:,}**"
    if known.needed is None or known.needed > n:
        return f"At ε = {epsilon:g} your rows will do: {have}."
    return f"At ε = {epsilon:g} {_rows_said(known)}; {have}."


def _short(known: Feasibility) -> str:
    n, epsilon = known.request.rows, known.request.epsilon
    shortage = "" if known.answer is None else known.answer.shortage
    if known.needed is None and not known.pending:
        return escaped(known.problem or shortage)
    if known.needed is None:
        line = f"At ε = {epsilon:g} your **{n:,}** rows are too few. Counting what it takes…"
    elif math.isinf(known.needed):
        line = (
            f"{_rows_said(known)} (method {method_title(known.request.method)}, ε = {epsilon:g})."
        )
    elif known.needed > n:
        line = f"At ε = {epsilon:g} {_rows_said(known)}; you have **{n:,}**."
    elif shortage:
        line = f"{escaped(shortage)}."
    else:
        # the count is on a grid: at its very edge the planner may still find nothing
        line = f"At ε = {epsilon:g} your **{n:,}** rows are just too few."
    return f"{line} Nothing has been spent."


def _show_separation(known: Feasibility, dataset: Dataset) -> None:
    """How far apart components must be; for made-up rows also how far apart they are."""
    if known.plan is None or not known.plan.votes:
        return
    apart = spreads_apart(known.plan.separation * known.plan.tau)
    if apart <= 0:
        return
    if dataset.truth is not None and dataset.truth.n_components > 1:
        have = separation_of(dataset.truth)
        if have < apart:
            st.warning(
                f"But the plan counts on components about {apart:.1f} spreads apart, and these "
                f"are {have:.1f} apart: expect a refusal, unless their shapes differ much.",
                icon=":material/join_inner:",
            )
            return
    st.caption(f"It counts on components at least about {apart:.1f} spreads apart.")


def _show_remedies(known: Feasibility, *, generated: bool) -> None:
    fixes: list[_Fix] = []
    if known.remedies is not None and known.remedies.epsilon is not None:
        epsilon = known.remedies.epsilon
        fixes.append(_Fix("epsilon", f"Raise ε to {epsilon:g}", _UP, {"epsilon": epsilon}))
    if generated and known.needed is not None:
        enough = [n for n in SIZES if n >= known.needed and n > known.request.rows]
        if enough:
            fixes.append(_Fix("rows", f"Draw {enough[0]:,} rows", _MORE, {"n": enough[0]}))
    if known.remedies is not None and known.remedies.method is not None:
        name = known.remedies.method
        label = f"Use {method_title(name)}"
        if name == known.request.method:
            label = "Allow for less" if known.request.forgiving else "Let the method choose"
        plain = {"method": name, "auto": True, "forgiving": False}
        fixes.append(_Fix("method", label, _AUTO, plain))
    if fixes:
        buttons = st.container(horizontal=True, key="remedies")
        for fix in fixes:
            buttons.button(
                fix.label, key=f"fix_{fix.name}", icon=fix.icon, on_click=_set, args=(fix.values,)
            )
    if known.problem and known.request.automatic:
        st.caption("Or set accuracy and blocks yourself to try all the same.")
    elif not fixes and not known.pending:
        st.caption(
            "No single change helps: combine more rows, a larger ε or fewer components, leave "
            "accuracy and blocks to the method, or try another method."
        )


def _set(values: dict[str, Any]) -> None:
    """Move the widgets: their keys are the names in the link."""
    for key, value in values.items():
        st.session_state[key] = value
