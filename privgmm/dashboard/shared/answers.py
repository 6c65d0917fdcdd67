"""What will it take? Plans, rows and remedies for the settings on screen, before any spending.

Every question is a `PlanRequest`, so all of it is public. The planner takes seconds where a rerun
may not, so questions are put to one `Board` that all sessions share.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from concurrent.futures import Future

from privgmm.dashboard.shared.jobs import Board
from privgmm.errors import InvalidInput
from privgmm.methods import registry
from privgmm.methods.planner import Answer, plan_for
from privgmm.methods.request import DEFAULT_ALPHA, DEFAULT_METHOD, PlanRequest
from privgmm.methods.searching import first_step, rounded_up
from privgmm.methods.what_if import feasible, rows_for

__all__ = [
    "BOARD",
    "EPSILONS",
    "SIZES",
    "Remedies",
    "answer_to",
    "fewest_rows",
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
    return BOARD.ask(("plan", request), lambda: plan_for(request))


def _plans_for_enough_only(request: PlanRequest) -> bool:
    """Whether a plan is made only where the rows will do, so that no plan tells how many will."""
    return request.automatic and registry.get(request.method).plans_only_for_enough


def _rows_needed(request: PlanRequest) -> float:
    if _plans_for_enough_only(request):
        return rows_for(request)
    return rounded_up(plan_for(request).plan.rows_needed())


def rows_needed(request: PlanRequest) -> Future[float]:
    """Rows that a release takes at these settings (well separated components, 95 % of runs)."""
    # a search for the fewest rows has the same answer however many there are
    asked = request.but(n_rows=None) if _plans_for_enough_only(request) else request
    return BOARD.ask(("rows", asked), lambda: _rows_needed(asked))


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
    return not request.by_hand or rounded_up(answer.plan.rows_needed()) <= request.rows


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
