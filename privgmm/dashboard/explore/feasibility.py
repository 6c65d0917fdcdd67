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
    Ask,
    Remedies,
    plan_for,
    remedies_for,
    rows_needed,
)
from privgmm.dashboard.shared.format import count_in_words, escaped, method_label, spreads_apart
from privgmm.dashboard.shared.jobs import is_known, patience, still_open
from privgmm.data.datasets import Dataset, separation_of
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan

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
    ask : Ask
    plan : Plan or None
    problem : str
        Why there is no plan, if that is settled.
    needed : float or None
        Rows that a release takes.
    remedies : Remedies or None
    pending : sequence of Future
        Answers under way.
    """

    ask: Ask
    plan: Plan | None
    problem: str
    needed: float | None
    remedies: Remedies | None
    pending: Sequence[Future[Any]]

    @property
    def enough(self) -> bool | None:
        """Whether the rows will do; None while that is open."""
        if self.problem:
            return False
        if self.plan is None:
            return None
        if self.ask.alpha is None and self.ask.method == "lifted":
            # The planner makes no plan that the rows at hand are not expected to pass.
            return True
        return None if self.needed is None else self.needed <= self.ask.n_rows


def feasibility_of(ask: Ask) -> Feasibility:
    """What is known by now; asks for the rest."""
    # The newest question is served first: the plan matters most, then what would help.
    counted, planned = rows_needed(ask), plan_for(ask)
    patience([planned])
    plan, problem = _known(planned)
    needed, hopeless = _known(counted)
    first = Feasibility(ask, plan, problem, needed, None, still_open([planned, counted]))
    if first.enough is not False or (hopeless and not problem):
        return first
    helping = remedies_for(ask)
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
            st.info(_working(known.ask), icon=":material/hourglass_top:")
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


def _working(ask: Ask) -> str:
    return f"Working out what ε = {ask.epsilon:g} takes…"


def _rows_said(known: Feasibility) -> str:
    if known.needed is None:
        return ""
    if math.isinf(known.needed):
        return "No number of rows will do at these settings"
    return f"you need about **{count_in_words(known.needed)} rows**"


def _enough(known: Feasibility) -> str:
    have = f"you have **{known.ask.n_rows:,}**"
    if known.needed is None or known.needed > known.ask.n_rows:
        return f"At ε = {known.ask.epsilon:g} your rows will do: {have}."
    return f"At ε = {known.ask.epsilon:g} {_rows_said(known)}; {have}."


def _short(known: Feasibility) -> str:
    ask = known.ask
    if known.needed is None and not known.pending:
        return escaped(known.problem)
    if known.needed is None:
        line = f"At ε = {ask.epsilon:g} your **{ask.n_rows:,}** rows are too few. Counting what "
        line += "it takes…"
    elif math.isinf(known.needed):
        line = f"{_rows_said(known)} (method {method_label(ask.method)}, ε = {ask.epsilon:g})."
    elif known.needed <= ask.n_rows:
        # the count is on a grid: at its very edge the planner may still find nothing
        line = f"At ε = {ask.epsilon:g} your **{ask.n_rows:,}** rows are just too few."
    else:
        line = f"At ε = {ask.epsilon:g} {_rows_said(known)}; you have **{ask.n_rows:,}**."
    return f"{line} Nothing has been spent."


def _show_separation(known: Feasibility, dataset: Dataset) -> None:
    """How far apart components must be; for made-up rows also how far apart they are."""
    if known.plan is None:
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
        enough = [n for n in SIZES if n >= known.needed and n > known.ask.n_rows]
        if enough:
            fixes.append(_Fix("rows", f"Draw {enough[0]:,} rows", _MORE, {"n": enough[0]}))
    if known.remedies is not None and known.remedies.automatic:
        label = "Let Auto choose" if known.ask.method == "lifted" else "Use Lifted and Auto"
        if known.ask.forgiving:
            label = "Allow for less"
        plain = {"method": "lifted", "auto": True, "forgiving": False}
        fixes.append(_Fix("method", label, _AUTO, plain))
    if fixes:
        buttons = st.container(horizontal=True, key="remedies")
        for fix in fixes:
            buttons.button(
                fix.label, key=f"fix_{fix.name}", icon=fix.icon, on_click=_set, args=(fix.values,)
            )
    if known.problem and known.ask.alpha is None:
        st.caption("Or turn off Auto to try a plan of your own all the same.")
    elif not fixes and not known.pending:
        st.caption(
            "No single change helps: combine more rows, a larger ε or fewer components with "
            "the method Lifted and Auto."
        )


def _set(values: dict[str, Any]) -> None:
    """Move the widgets: their keys are the names in the link."""
    for key, value in values.items():
        st.session_state[key] = value
