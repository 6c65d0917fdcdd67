"""Answer what-if questions without data: rows, epsilon or alpha that a release takes, its error.

Every question is a `PlanRequest`; its method answers. `paper` and `tight` answer by the law of well
separated block fits (`scatter`). They ignore overlap between components, which asks for more rows.
`lifted` and `sketch` answer for the mixture that the request expects, or for a typical one of the
separation it states: overlap is part of their forecasts. An expected error comes with a band
(`Prospect.error_band`) in which the median error of many releases should lie.

The answers are consistent: `rows_for` at an epsilon is at most n exactly if `epsilon_for` n rows is
at most that epsilon. So is `alpha_for` of methods that promise an alpha. All three are found on the
same round numbers (`searching`), in steps of a hundredth or less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from privgmm.methods import registry
from privgmm.methods.method import Prospect
from privgmm.methods.plan import Plan
from privgmm.methods.request import PlanRequest
from privgmm.methods.searching import (
    first_step,
    round_number,
    rounded_up,
    step_above,
    step_below,
)

__all__ = [
    "LEAST_EPSILON",
    "MOST_EPSILON",
    "Prospect",
    "along_rows",
    "alpha_for",
    "epsilon_for",
    "error_for",
    "feasible",
    "prospect",
    "rows_for",
    "rows_stated",
]


_BY_HAND = 1.25
"""A plan that asks for more than this multiple of its method's rows was set by hand; a convention,
above the steps of every method's grid of rows."""

LEAST_EPSILON, MOST_EPSILON = 1e-4, 20.0
"""Range in which an epsilon is searched, by convention; requests that need less get the least."""


def rows_for(request: PlanRequest) -> float:
    """Find the fewest rows that release in 95 % of runs; infinite if no number does."""
    return registry.get(request.method).fewest_rows(request)


def rows_stated(plan: Plan, usual: float, n_rows: int | None = None) -> float:
    """Choose the rows to state for a plan, at every place that states them.

    Usually that is what its method takes with its other choices open, as the planner states too.
    Where blocks and alpha set by hand ask for clearly more than that, and for more than there is,
    it is what this plan takes: a plan made for many rows may need many.

    Parameters
    ----------
    plan : Plan
    usual : float
        `rows_for` its method.
    n_rows : int, optional
        How many there are.
    """
    own = rounded_up(plan.rows_needed())
    if n_rows is not None and own <= n_rows:
        return usual if usual <= n_rows else own
    return own if own > _BY_HAND * usual or math.isinf(own) else usual


def feasible(request: PlanRequest) -> bool:
    """Check whether the request's rows are enough: at least `rows_for`."""
    return registry.get(request.method).enough(request)


def epsilon_for(request: PlanRequest) -> float:
    """Find the smallest epsilon at which the rows release; infinite beyond `MOST_EPSILON`."""

    def holds(step: int) -> bool:
        return feasible(request.but(epsilon=round_number(step)))

    step = first_step(step_above(LEAST_EPSILON), step_below(MOST_EPSILON), holds)
    return math.inf if step is None else round_number(step)


def alpha_for(request: PlanRequest) -> float:
    """Find the smallest alpha that the rows can promise; infinite beyond the method's limit."""
    return registry.get(request.method).alpha_for(request)


def error_for(request: PlanRequest) -> float:
    """Forecast the least error that the rows allow: as the method promises, or expects it."""
    return registry.get(request.method).error_for(request)


def prospect(request: PlanRequest) -> Prospect:
    """Forecast chance and error of a release at the request's rows."""
    return registry.get(request.method).prospect(request)


def along_rows(
    request: PlanRequest, rows: Sequence[float], *, enough: float | None = None
) -> tuple[Prospect, ...]:
    """Forecast chances and errors at many numbers of rows, from one search for a plan.

    Parameters
    ----------
    request : PlanRequest
        Its own rows do not matter.
    rows : sequence of float
    enough : float, optional
        Rows known to be enough, to plan for; by default the fewest.
    """
    return registry.get(request.method).along_rows(request, rows, enough=enough)
