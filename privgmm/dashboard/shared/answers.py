"""What will it take? Plans, rows and remedies for the settings on screen, before any spending.

Every question is a `PlanRequest`, so all of it is public. The planner takes seconds where a rerun
may not, so questions are put to one `Board` that all sessions share.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from privgmm.dashboard.shared.jobs import Board
from privgmm.errors import InvalidInput
from privgmm.methods import planner, registry
from privgmm.methods.method import Outlook
from privgmm.methods.plan import Plan
from privgmm.methods.planner import Answer, plan_for
from privgmm.methods.request import DEFAULT_ALPHA, DEFAULT_METHOD, PlanRequest
from privgmm.methods.searching import first_step
from privgmm.methods.what_if import feasible, rows_for, rows_told
from privgmm.mixture import Mixture
from privgmm.records.notebook import DEFAULT_LEARNER

__all__ = [
    "BOARD",
    "EPSILONS",
    "SIZES",
    "Outlook",
    "Remedies",
    "answer_to",
    "chance_for",
    "explained",
    "fewest_rows",
    "is_hopeful",
    "remedies_for",
    "rows_needed",
]

EPSILONS = (
    *(0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8),
    *(1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0),
)
"""The budgets offered, about evenly spaced on a log scale."""

SIZES = (*(lead * 10**power for power in range(3, 7) for lead in (1, 2, 3, 5, 7)), 10**7)
"""The numbers of rows offered for generated data."""

BOARD = Board(workers=1, waiting=16)
"""One worker: a second would share the interpreter with the pages, and slow them for nothing."""


@dataclasses.dataclass(frozen=True, slots=True)
class Remedies:
    """Single changes of the promise that would let the rows at hand pass.

    Parameters
    ----------
    epsilon : float or None
        A larger budget; None where none offered is large enough.
    method : str or None
        A method that would pass as things stand, with all choices automatic and nothing allowed
        for: the one that was asked if it does, else the default one, else the newest.
    """

    epsilon: float | None
    method: str | None


def answer_to(request: PlanRequest) -> Future[Answer]:
    """The plan for these settings; `InvalidInput` if there is none."""

    def plan() -> Answer:
        # first, and for what it remembers: a rehearsal of the same may be asking too
        is_hopeful(request)
        return plan_for(request)

    return BOARD.ask(("plan", request), plan)


def is_hopeful(request: PlanRequest) -> bool:
    """`planner.is_hopeful`, which is most of the work of a plan, never done by two at once.

    Whoever comes second finds what the first has found.
    """
    with _PLANNING:
        return planner.is_hopeful(request)


_PLANNING = threading.Lock()


@functools.lru_cache(maxsize=256)
def explained(plan: Plan) -> str:
    """`Plan.explain`, worked out once: a page that is drawn again must not price its plan again."""
    return plan.explain()


def _plans_for_enough_only(request: PlanRequest) -> bool:
    """Whether a plan is made only where the rows will do, so that no plan tells how many will."""
    return request.automatic and registry.get(request.method).plans_only_for_enough


def _rows_by(request: PlanRequest, plan: Plan) -> float:
    """Rows to tell of a plan that the request asked for: the number that a refusal would name."""
    method = registry.get(plan.method)
    promised = method.error_is_promised and plan.votes
    usual = request.but(
        method=plan.method,
        n_rows=None,
        n_blocks=None,
        alpha=plan.alpha if promised else None,
        forgiving=request.forgiving and method.takes_forgiving,
    )
    return rows_told(plan, rows_for(usual), request.n_rows)


def _rows_needed(request: PlanRequest) -> float:
    if _plans_for_enough_only(request):
        return rows_for(request)
    return _rows_by(request, plan_for(request).plan)


def rows_needed(request: PlanRequest, after: Future[Any] | None = None) -> Future[float]:
    """Rows that a release takes at these settings (well separated components, 95 % of runs).

    That is not begun before the answer `after` is there.

    The Planner, the command line and a refusal name the same number for the same question. For rows
    whose mixture is known, `chance_for` says how likely a release of just these is.
    """
    # a search for the fewest rows has the same answer however many there are
    asked = request.but(n_rows=None) if _plans_for_enough_only(request) else request
    return BOARD.ask(("rows", asked), lambda: _rows_needed(asked), after)


def _passes(request: PlanRequest) -> bool:
    if _plans_for_enough_only(request):
        return feasible(request)
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
    return Outlook(typical.pass_probability, typical.error, typical.error_band)


def chance_for(
    request: PlanRequest,
    truth: Mixture | None,
    learner: str = DEFAULT_LEARNER,
    after: Future[Any] | None = None,
) -> Future[Outlook]:
    """How likely the plan for these settings releases, and the error to expect.

    Parameters
    ----------
    request : PlanRequest
        With its rows.
    truth : Mixture or None
        The mixture behind generated rows, which may have another number of components than are
        asked for: then the forecast is for just these rows, overlap and all. None for other rows:
        then it is for well separated components.
    learner : str
        What fits the blocks.
    after : Future, optional
        It is not begun before this answer is there.

    Notes
    -----
    The future ends in `InvalidInput` where there is no plan at all, with the same words as
    `answer_to`. Only public numbers and the mixture go in, no row.
    """
    key = ("chance", request, truth, learner)
    return BOARD.ask(key, lambda: _outlook(request, truth, learner), after)


def _first(requests: Sequence[PlanRequest]) -> PlanRequest | None:
    """The first that passes, where all after it pass too."""
    if not requests:
        return None
    step = first_step(0, len(requests) - 1, lambda i: _passes(requests[i]))
    return None if step is None else requests[step]


def _remedies(request: PlanRequest) -> Remedies:
    dearer = [request.but(epsilon=e) for e in EPSILONS if e > request.epsilon]
    found = _first(dearer)
    plain = request.but(alpha=None, n_blocks=None, forgiving=False)
    names = dict.fromkeys((request.method, DEFAULT_METHOD, *reversed(registry.names())))
    others = (plain.but(method=name) for name in names)
    passing = (other.method for other in others if other != request and _passes(other))
    return Remedies(epsilon=None if found is None else found.epsilon, method=next(passing, None))


def remedies_for(request: PlanRequest) -> Future[Remedies]:
    """What would help where the rows are too few."""
    return BOARD.ask(("remedies", request), lambda: _remedies(request))


def fewest_rows(request: PlanRequest, name: str) -> Future[float]:
    """Rows that a method takes at the same budget: at the same alpha if alpha is its promise."""
    method = registry.get(name)
    other = request.but(
        method=name,
        n_rows=None,
        alpha=(request.alpha or DEFAULT_ALPHA) if method.error_is_promised else None,
        n_blocks=None,
        forgiving=request.forgiving and method.takes_forgiving,
    )
    return BOARD.ask(("fewest", other), lambda: rows_for(other))
