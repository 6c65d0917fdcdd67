"""The forecast before any budget is spent: the chance of a release, and what would help.

For generated rows the chance allows for the overlap of their groups; for others it is that of well
separated groups. A chance of 95 % or more gets a green light. The answers are computed in the
background, and the page reruns when they arrive.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import streamlit as st

from privgmm.dashboard.shared.answers import (
    Outlook,
    Remedies,
    answer_to,
    blocks_of,
    chance_for,
    explained,
    remedies_for,
    rows_to_release,
)
from privgmm.dashboard.shared.refresh import wait_briefly
from privgmm.dashboard.shared.state import Settings
from privgmm.data.datasets import Dataset, separation_of
from privgmm.errors import InvalidInput, Problem
from privgmm.methods.method import PASS
from privgmm.methods.plan import Plan
from privgmm.methods.planner import Answer
from privgmm.methods.request import PlanRequest
from privgmm.methods.usefulness import USUAL_ALPHA, Usefulness
from privgmm.stages.agreement.stage import Agreement
from privgmm.teaching.background import is_known, still_open
from privgmm.teaching.format import (
    count_in_words,
    method_title,
    problem_in_words,
    spreads_apart,
)
from privgmm.teaching.rehearsal import ROW_COUNTS

__all__ = ["Feasibility", "about", "feasibility_of", "show_chance", "show_plan", "show_remedies"]

_HOPE = 0.05
"""By convention: a lower chance gets a red light."""

_UP, _MORE, _AUTO = ":material/arrow_upward:", ":material/group_add:", ":material/auto_fix_high:"


class _Fix(NamedTuple):
    """One click that would help, by the values that it sets."""

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
    problem : Problem or None
        Why there is no plan, if that is known.
    needed : float or None
        Rows that a release takes.
    outlook : Outlook or None
        The chance of a release.
    remedies : Remedies or None
    pending : sequence of Future
        Answers still to come.
    alpha : float
        Accuracy asked for.
    """

    request: PlanRequest
    answer: Answer | None
    problem: Problem | None
    needed: float | None
    outlook: Outlook | None
    remedies: Remedies | None
    pending: Sequence[Future[Any]]
    alpha: float = USUAL_ALPHA

    @property
    def usefulness(self) -> Usefulness | None:
        """What to expect of a release; None while it is not known."""
        return None if self.outlook is None else self.outlook.usefulness(self.alpha)

    @property
    def plan(self) -> Plan | None:
        """The plan, if it is known by now."""
        return None if self.answer is None else self.answer.plan

    @property
    def chance(self) -> float | None:
        """Of a release; None while it is not known."""
        if self.problem:
            return 0.0
        return None if self.outlook is None else self.outlook.chance

    @property
    def enough(self) -> bool | None:
        """Whether a release is expected; None while it is not known."""
        return None if self.chance is None else self.chance >= PASS

    @property
    def blocked(self) -> str:
        """Why the plan cannot run at all; empty if it can."""
        plan, n = self.plan, self.request.rows
        if plan is None:
            return "" if self.problem is None else str(self.problem)
        if n >= plan.least_units:
            return ""
        blocks = blocks_of(plan)
        what = "this plan needs" if blocks is None else f"{blocks:,} blocks need"
        return (
            f"{what} at least {plan.least_units:,} rows, and there are {n:,}. Take fewer blocks, "
            "or let t be chosen for you"
        )


def feasibility_of(
    settings: Settings, dataset: Dataset, after: Future[Any] | None = None
) -> Feasibility:
    """Collect what is known by now; ask for the rest, all but the plan after `after`."""
    request = settings.request
    # The newest question is served first, so the plan is asked last.
    counted = rows_to_release(request, after)
    foreseen = chance_for(request, dataset.truth, settings.learner, after)
    planned = answer_to(request)
    wait_briefly([planned])
    answer, problem = _known(planned)
    needed, hopeless = _known(counted)
    outlook, _ = _known(foreseen)
    asked: list[Future[Any]] = [planned, counted, foreseen]
    first = Feasibility(
        request, answer, problem, needed, outlook, None, still_open(asked), settings.alpha
    )
    if first.enough is not False or (hopeless and not problem):
        return first
    helping = remedies_for(request)
    remedies, _ = _known(helping)
    return dataclasses.replace(first, remedies=remedies, pending=still_open([*asked, helping]))


def _known(answer: Future[Any]) -> tuple[Any, Problem | None]:
    """Return the answer and the reason why there is none, as far as they are known."""
    if not is_known(answer):
        return None, None
    problem = answer.exception()
    if problem is None:
        return answer.result(), None
    if isinstance(problem, InvalidInput):
        return None, problem.problem
    raise problem


def show_chance(known: Feasibility, dataset: Dataset) -> None:
    """Show the chance of a release and the rows that it takes, in two short lines."""
    with st.container(key="chance", gap="xxsmall"):
        if known.chance is None:
            st.markdown(":gray[:material/hourglass_top:] Computing the chance of a release…")
            return
        light = _light(known)
        said = about(known.chance) if not known.blocked else "none"
        st.markdown(f"{light} **Chance of a release: {said}**")
        st.caption(_in_short(known, dataset))


def _light(known: Feasibility) -> str:
    """Choose the light: only what is expected to be useful is green."""
    found = known.usefulness
    if known.chance is None or known.chance < _HOPE:
        return ":red[:material/cancel:]"
    if found is not None and found.is_useful:
        return ":green[:material/check_circle:]"
    return ":orange[:material/help:]"


def about(chance: float) -> str:
    """Write a forecast, which is never certain nor exact to a fraction of one per cent.

    >>> about(1.0), about(0.734), about(0.0)
    ('over 99%', '73%', 'under 1%')
    """
    return "over 99%" if chance > 0.99 else "under 1%" if chance < 0.01 else f"{chance:.0%}"


def _in_short(known: Feasibility, dataset: Dataset) -> str:
    """Compare the rows needed with those at hand; name what the plan assumes."""
    have, units = f"you have {known.request.rows:,}", known.request.units
    if known.needed is None:
        words = f"{have[0].upper()}{have[1:]} {units}."
    elif math.isinf(known.needed):
        words = f"No number of {units} will do."
    else:
        words = f"An answer needs about {count_in_words(known.needed)} {units}; {have}."
    found = known.usefulness
    if found is not None and found.expected_error is not None and found.chance > 0:
        words += f" Expected error {found.expected_error.value:.2g}; α = {known.alpha:g}."
    truth, stages = dataset.truth, () if known.plan is None else known.plan.stages
    for stage in stages:
        if not isinstance(stage, Agreement) or stage.n_components == 1 or stage.separation == 0:
            continue
        apart = spreads_apart(stage.separation * stage.tau)
        words += f" Works if cluster centres are at least {apart:.1f} standard deviations apart"
        if truth is not None and truth.n_components > 1:
            words += f"; here they are {separation_of(truth):.1f} apart"
        words += "."
    return words


def show_remedies(known: Feasibility, *, generated: bool) -> None:
    """Say why no release is expected, with the clicks that would help."""
    if known.enough is not False:
        return
    with st.container(key="feasibility"):
        st.warning(_short(known), icon=":material/query_stats:")
        _show_fixes(known, generated=generated)


def show_plan(known: Feasibility) -> None:
    """Show the plan in words, on request."""
    with st.popover("Plan", icon=":material/description:", disabled=known.plan is None):
        if known.plan is not None:
            st.markdown(explained(known.plan).replace("\n", "\n\n"))


def _short(known: Feasibility) -> str:
    """Say why no release is expected."""
    n, epsilon, units = known.request.rows, known.request.epsilon, known.request.units
    if known.plan is not None and known.blocked:
        words = known.blocked
        return f"{words[0].upper()}{words[1:]}."
    if known.needed is None:
        if known.pending:
            return f"At ε = {epsilon:g} your **{n:,}** {units} are too few. Counting what it takes…"
        shortage = None if known.answer is None else known.answer.shortage
        return problem_in_words(known.problem or shortage or "A refusal is to be expected.")
    if math.isinf(known.needed):
        method = method_title(known.request.method)
        return f"No number of {units} will do at these settings (method {method}, ε = {epsilon:g})."
    needs = f"you need about **{count_in_words(known.needed)} {units}**"
    if known.needed > n:
        return f"At ε = {epsilon:g} {needs}; you have **{n:,}**."
    if known.problem or known.answer is None or known.answer.shortage:
        # rows are counted on a grid: at its edge the planner may still find nothing
        return f"At ε = {epsilon:g} your **{n:,}** {units} are just too few."
    return (
        f"The {units} are enough for well separated groups, but these overlap too much for this "
        "method: the fits of the blocks will often disagree."
    )


def _show_fixes(known: Feasibility, *, generated: bool) -> None:
    fixes: list[_Fix] = []
    if known.remedies is not None and known.remedies.epsilon is not None:
        epsilon = known.remedies.epsilon
        fixes.append(_Fix("epsilon", f"Raise ε to {epsilon:g}", _UP, {"epsilon": epsilon}))
    if generated and known.needed is not None:
        enough = [n for n in ROW_COUNTS if n >= known.needed and n > known.request.rows]
        if enough:
            fixes.append(_Fix("rows", f"Draw {enough[0]:,} rows", _MORE, {"n": enough[0]}))
    if known.remedies is not None and known.remedies.method is not None:
        name = known.remedies.method
        same = name == known.request.method
        label = "Let the method choose" if same else f"Use {method_title(name)}"
        plain = {"method": name, "t": None}
        fixes.append(_Fix("method", label, _AUTO, plain))
    if fixes:
        buttons = st.container(horizontal=True, key="remedies")
        for fix in fixes:
            buttons.button(
                fix.label, key=f"fix_{fix.name}", icon=fix.icon, on_click=_set, args=(fix.values,)
            )
    if known.problem and known.request.automatic:
        st.caption("Or set t yourself to try anyway.")
    elif not fixes and not known.pending:
        st.caption(
            "No single change helps: combine more rows, a larger ε or fewer groups, let t be "
            "chosen for you, or try another method."
        )


def _set(values: dict[str, Any]) -> None:
    """Set widgets by their keys."""
    for key, value in values.items():
        st.session_state[key] = value
