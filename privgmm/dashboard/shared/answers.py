"""Plans, rows and remedies for the settings on screen, before any spending.

Every question is a `PlanRequest`, so all of it is public. The planner may take seconds and a rerun
may not, so questions go to one pool of workers that all sessions share.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from privgmm.errors import InvalidInput
from privgmm.methods import registry
from privgmm.methods.method import Outlook
from privgmm.methods.plan import Plan
from privgmm.methods.planner import Answer, plan_for
from privgmm.methods.request import PlanRequest
from privgmm.methods.searching import first_step
from privgmm.methods.what_if import feasible, rows_for, rows_stated
from privgmm.mixture import Mixture
from privgmm.records.notebook import DEFAULT_LEARNER
from privgmm.teaching.background import WorkerPool
from privgmm.teaching.rehearsal import EPSILON_STOPS, expects_release

__all__ = [
    "PLAN_POOL",
    "Outlook",
    "Remedies",
    "answer_to",
    "blocks_of",
    "chance_for",
    "explained",
    "fewest_rows",
    "remedies_for",
    "rows_to_release",
]

PLAN_POOL = WorkerPool()
"""Answers all questions of this module, for all sessions."""


@dataclasses.dataclass(frozen=True, slots=True)
class Remedies:
    """Single changes of the promise with which the rows at hand are expected to pass.

    Parameters
    ----------
    epsilon : float or None
        A larger epsilon; None if none that is offered is large enough.
    method : str or None
        A method that passes with all choices automatic: the one that was asked if it does, else
        the first of the registry.
    """

    epsilon: float | None
    method: str | None


def answer_to(request: PlanRequest) -> Future[Answer]:
    """Ask for the plan for these settings; its future ends in `InvalidInput` if there is none."""

    def plan() -> Answer:
        # first, for what it remembers: a rehearsal of the same request may be asking too
        expects_release(request)
        return plan_for(request)

    return PLAN_POOL.ask(("plan", request), plan)


def blocks_of(plan: Plan) -> int | None:
    """Return the number of blocks that a plan deals rows into; None if it deals none."""
    return next((stage.n_blocks for stage in plan.stages if stage.n_blocks is not None), None)


@functools.lru_cache(maxsize=256)
def explained(plan: Plan) -> str:
    """Return `Plan.explain`, computed once: a page that reruns must not price its plan again."""
    return plan.explain()


def _plans_for_enough_only(request: PlanRequest) -> bool:
    """Whether there is a plan only for enough rows, so that no plan says how many are enough."""
    return request.automatic and registry.get(request.method).plans_only_for_enough


def _rows_by(request: PlanRequest, plan: Plan) -> float:
    """Count the rows that the request's plan takes: the number that a refusal would name."""
    usual = request.but(
        method=plan.method, n_rows=None, n_blocks=None, alpha=None, mask_accuracy=None
    )
    return rows_stated(plan, rows_for(usual), request.n_rows)


def _rows_needed(request: PlanRequest) -> float:
    if _plans_for_enough_only(request):
        return rows_for(request.but(alpha=None))
    return _rows_by(request, plan_for(request).plan)


def rows_to_release(request: PlanRequest, after: Future[Any] | None = None) -> Future[float]:
    """Ask for the rows that a release takes at these settings.

    It assumes well separated components and a release in 95 % of runs. The Planner, the command
    line and a refusal name the same number for the same question. For rows whose mixture is known,
    `chance_for` says how likely their release is. It is not started before `after` is answered.
    """
    # a search for the fewest rows has the same answer however many there are
    asked = request.but(n_rows=None) if _plans_for_enough_only(request) else request
    return PLAN_POOL.ask(("rows", asked), lambda: _rows_needed(asked), after)


def _passes(request: PlanRequest) -> bool:
    if _plans_for_enough_only(request):
        return feasible(request.but(alpha=None))
    try:
        answer = plan_for(request)
    except InvalidInput:
        # no plan at all within this budget
        return False
    if answer.shortage:
        return False
    return not request.by_hand or _rows_by(request, answer.plan) <= request.rows


def _outlook(request: PlanRequest, truth: Mixture | None, learner: str) -> Outlook:
    answer = plan_for(request)
    plan, n = answer.plan, request.rows
    if n < plan.least_units:
        return Outlook(0.0, None)
    method = registry.get(plan.method)
    if truth is not None:
        return method.outlook(plan, truth, n, learner=learner)
    typical = method.prospect(request.but(method=plan.method)) if request.automatic else None
    if typical is None or typical.plan is None:
        return Outlook(plan.pass_probability(n), None)
    return Outlook(typical.pass_probability, typical.expected_error)


def chance_for(
    request: PlanRequest,
    truth: Mixture | None,
    learner: str = DEFAULT_LEARNER,
    after: Future[Any] | None = None,
) -> Future[Outlook]:
    """Ask for the chance that the plan for these settings releases, and its expected error.

    Parameters
    ----------
    request : PlanRequest
        With its rows.
    truth : Mixture or None
        The mixture behind generated rows, perhaps with another number of components than the
        request's: the forecast then allows for its overlap. None for other rows: the forecast is
        for well separated components.
    learner : str
        A name in the learners' registry: what fits the blocks.
    after : Future, optional
        It is not started before this is answered.

    Notes
    -----
    The future ends in `InvalidInput` if there is no plan at all, with the words of `answer_to`.
    Only public numbers and the mixture are used, no row.
    """
    key = ("chance", request, truth, learner)
    return PLAN_POOL.ask(key, lambda: _outlook(request, truth, learner), after)


def _first(requests: Sequence[PlanRequest]) -> PlanRequest | None:
    """Find the first that passes, given that all after it pass too."""
    if not requests:
        return None
    step = first_step(0, len(requests) - 1, lambda i: _passes(requests[i]))
    return None if step is None else requests[step]


def _remedies(request: PlanRequest) -> Remedies:
    dearer = [request.but(epsilon=e) for e in EPSILON_STOPS if e > request.epsilon]
    found = _first(dearer)
    plain = request.but(mask_accuracy=None, n_blocks=None)
    names = dict.fromkeys((request.method, *registry.names()))
    others = (plain.but(method=name) for name in names)
    passing = (other.method for other in others if other != request and _passes(other))
    return Remedies(epsilon=None if found is None else found.epsilon, method=next(passing, None))


def remedies_for(request: PlanRequest) -> Future[Remedies]:
    """Ask for single changes that would help where the rows are too few."""
    return PLAN_POOL.ask(("remedies", request), lambda: _remedies(request))


def fewest_rows(request: PlanRequest, name: str) -> Future[float]:
    """Ask for the rows that a method takes for any answer at the same budget."""
    other = request.but(method=name, n_rows=None, alpha=None, mask_accuracy=None, n_blocks=None)
    return PLAN_POOL.ask(("fewest", other), lambda: rows_for(other))
