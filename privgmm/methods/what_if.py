"""What if? Rows, epsilon or alpha that a release would take, and what it would give, without data.

Every question is a `PlanRequest`; its method answers. Answers come from the law of well separated
block fits (`scatter`), so they ignore overlap between components, which asks for more rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from privgmm.methods import registry
from privgmm.methods.method import Prospect
from privgmm.methods.request import PlanRequest
from privgmm.methods.searching import first_step

__all__ = [
    "Prospect",
    "along_rows",
    "alpha_for",
    "epsilon_for",
    "error_for",
    "feasible",
    "prospect",
    "rows_for",
]


def rows_for(request: PlanRequest) -> float:
    """Rows at which the method releases in 95 % of runs; infinite if it never does."""
    return registry.get(request.method).rows_for(request)


def feasible(request: PlanRequest) -> bool:
    """Whether the request's rows are enough."""
    return registry.get(request.method).feasible(request)


def epsilon_for(request: PlanRequest) -> float:
    """The smallest epsilon (to about 3 %) at which the rows release; infinite beyond 20."""
    grid = np.geomspace(0.02, 20, 232)

    def holds(step: int) -> bool:
        return feasible(request.but(epsilon=float(grid[step])))

    step = first_step(0, len(grid) - 1, holds)
    return math.inf if step is None else float(grid[step])


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
