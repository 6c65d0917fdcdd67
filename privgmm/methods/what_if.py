"""What if? Rows, epsilon or alpha that a release would take, and what it would give, without data.

Every question is a `PlanRequest`; its method answers. `paper` and `tight` answer by the law of well
separated block fits (`scatter`), and ignore overlap between components, which asks for more rows.
`lifted` and `sketch` answer for the mixture that the request expects, or for a typical one of the
separation it states: overlap is part of their forecasts. An expected error comes with a band
(`Prospect.error_band`) in which the median error of many releases should lie.

One question has one answer, whichever way it is asked: `rows_for` at an epsilon is at most n
exactly if `epsilon_for` n rows is at most that epsilon, and likewise for `alpha_for` of methods
that promise an alpha. All three are found on the same round numbers (`searching`), in steps of a
hundredth or less.
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
    "rows_told",
]


_BY_HAND = 1.25
"""A plan that asks for so much more than its method's best was set by hand."""

LEAST_EPSILON, MOST_EPSILON = 1e-4, 20.0
"""Between these an epsilon is looked for: what needs less than the least is told the least."""


def rows_for(request: PlanRequest) -> float:
    """The fewest rows at which the method releases in 95 % of runs; infinite if it never does."""
    return registry.get(request.method).fewest_rows(request)


def rows_told(plan: Plan, usual: float, n_rows: int | None = None) -> float:
    """Rows to tell of a plan, wherever one is told them.

    That is what its method takes with its other choices open, the number that the planner names
    too. Only where blocks and alpha set by hand ask for clearly more than that, and for more than
    there is, it is what this plan takes: a plan made for many rows may well need many.

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
    """Whether the request's rows are enough: at least `rows_for`."""
    return registry.get(request.method).enough(request)


def epsilon_for(request: PlanRequest) -> float:
    """The smallest epsilon at which the rows release; infinite beyond `MOST_EPSILON`."""

    def holds(step: int) -> bool:
        return feasible(request.but(epsilon=round_number(step)))

    step = first_step(step_above(LEAST_EPSILON), step_below(MOST_EPSILON), holds)
    return math.inf if step is None else round_number(step)


def alpha_for(request: PlanRequest) -> float:
    """The smallest alpha that the rows can promise; infinite if none up to the method's limit."""
    return registry.get(request.method).alpha_for(request)


def error_for(request: PlanRequest) -> float:
    """The least error that the rows allow: what the method promises, or what it expects."""
    return registry.get(request.method).error_for(request)


def prospect(request: PlanRequest) -> Prospect:
    """Chance of a release and error to expect at the request's rows."""
    return registry.get(request.method).prospect(request)


def along_rows(
    request: PlanRequest, rows: Sequence[float], *, enough: float | None = None
) -> tuple[Prospect, ...]:
    """Chances and errors at many numbers of rows, from one search for a plan.

    Parameters
    ----------
    request : PlanRequest
        Its own rows do not matter.
    rows : sequence of float
    enough : float, optional
        Rows known to be enough, to plan for; by default the fewest.
    """
    return registry.get(request.method).along_rows(request, rows, enough=enough)
