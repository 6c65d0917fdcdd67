"""Answer what-if questions without data: rows, epsilon or alpha that a release takes, its error.

Every question is a `PlanRequest`; its method answers. `paper` and `tight` answer by the law of well
separated block fits (`scatter`). They ignore overlap between components, which asks for more rows.
`lifted` and `sketch` answer for the mixture that the request expects, or for a typical one of the
separation it states: overlap is part of their forecasts.

"How many rows does it take?" has two answers: to get an answer at all, and to get one within alpha
of the truth. `rows_for` and `epsilon_for` give the first where the request asks for no alpha, and
the second where it does; `rows_needed` gives both.

The answers are consistent: rows are at least `rows_for` an epsilon and an alpha exactly if that
epsilon is at least `epsilon_for` the rows and that alpha, and if that alpha is at least `alpha_for`
the rows and that epsilon. All three are found on the same round numbers (`searching`), in steps of
a hundredth or less, by one condition: what `Prospect.accuracy` says of the plan that is made.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

from privgmm.methods import registry
from privgmm.methods.method import Prospect
from privgmm.methods.plan import Plan
from privgmm.methods.request import PlanRequest
from privgmm.methods.searching import (
    STEPS_PER_DECADE,
    as_text,
    first_step,
    first_step_below,
    round_number,
    rounded_up,
    step_above,
    step_below,
)
from privgmm.methods.usefulness import USUAL_ALPHA

__all__ = [
    "LEAST_EPSILON",
    "MOST_EPSILON",
    "Prospect",
    "RowsNeeded",
    "along_rows",
    "alpha_for",
    "epsilon_for",
    "error_for",
    "feasible",
    "prospect",
    "rows_for",
    "rows_needed",
    "rows_stated",
]


_BY_HAND = 1.25
"""A plan that asks for more than this multiple of its method's rows was set by hand; a convention,
above the steps of every method's grid of rows."""

_FALL = 0.7 * math.log(10) / STEPS_PER_DECADE
"""Errors fall like a power of rows and epsilon between the root and the number itself."""
LEAST_EPSILON, MOST_EPSILON = 1e-4, 20.0
"""Range in which an epsilon is searched, by convention; requests that need less get the least."""
_MOST_ROWS = 1e27
"""Most rows that are searched, by convention: far beyond every table."""


@dataclasses.dataclass(frozen=True, slots=True)
class RowsNeeded:
    """Hold both answers to "how many rows does it take?"; infinite where no number will do.

    Parameters
    ----------
    to_answer : float
        Rows with which 95 % of runs release a mixture, however accurate.
    within : float
        Rows with which it is within alpha of the truth but for chance beta: the number to plan by.
    alpha, beta : float

    Examples
    --------
    >>> print(RowsNeeded(610.0, 1_020.0, 0.2, 0.1))
    1,020 rows to be within 0.2 of the truth (610 for any answer)
    """

    to_answer: float
    within: float
    alpha: float
    beta: float

    def __str__(self) -> str:
        return (
            f"{as_text(self.within)} rows to be within {self.alpha:g} of the truth "
            f"({as_text(self.to_answer)} for any answer)"
        )


def rows_needed(request: PlanRequest) -> RowsNeeded:
    """Find the rows for an answer, and those for one within alpha; 0.2 where none is asked for."""
    alpha = USUAL_ALPHA if request.alpha is None else request.alpha
    return RowsNeeded(
        rows_for(request.but(alpha=None)),
        rows_for(request.but(alpha=alpha)),
        alpha,
        request.beta,
    )


@functools.lru_cache(maxsize=256)
def rows_for(request: PlanRequest) -> float:
    """Find the fewest rows that are enough; infinite if no number is.

    Enough is a release in 95 % of runs. Where an alpha is asked for, it is also a release within
    alpha of the truth, but for chance beta.
    """
    asked = request.but(n_rows=None, alpha=None)
    fewest = registry.get(request.method).fewest_rows(asked)
    if request.alpha is None or not math.isfinite(fewest):
        return fewest

    alpha = request.alpha

    def excess(step: int) -> float:
        return _excess(asked.but(n_rows=math.floor(round_number(step))), alpha)

    step = first_step_below(excess, step_above(fewest), step_below(_MOST_ROWS), fall=_FALL)
    return math.inf if step is None else round_number(step)


def _accuracy(request: PlanRequest) -> float:
    """Find the smallest alpha that the plan for these rows is within, but for chance beta.

    Rows count rounded down to a round number, as in `Method.enough`, so that answers agree.
    """
    n = math.floor(round_number(step_below(request.rows)))
    return prospect(request.but(n_rows=n)).accuracy(request.beta)


def _excess(request: PlanRequest, alpha: float) -> float:
    """Compare what is reached with alpha, in logarithms: 0 or less is enough; infinite if refused.

    What is reached is rounded up first, as `alpha_for` states it.
    """
    return math.log(rounded_up(_accuracy(request)) / alpha)


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
    if not registry.get(request.method).enough(request.but(alpha=None)):
        return False
    return request.alpha is None or alpha_for(request) <= request.alpha


def epsilon_for(request: PlanRequest) -> float:
    """Find the smallest epsilon at which the rows are enough; infinite beyond `MOST_EPSILON`."""

    def holds(step: int) -> bool:
        return feasible(request.but(epsilon=round_number(step), alpha=None))

    low, high = step_above(LEAST_EPSILON), step_below(MOST_EPSILON)
    step, alpha = first_step(low, high, holds), request.alpha
    if step is not None and alpha is not None:

        def excess(step: int) -> float:
            return _excess(request.but(epsilon=round_number(step)), alpha)

        step = first_step_below(excess, step, high, fall=_FALL)
    return math.inf if step is None else round_number(step)


def alpha_for(request: PlanRequest) -> float:
    """Find the smallest alpha that the rows reach, but for chance beta; infinite if refused."""
    if not feasible(request.but(alpha=None)):
        return math.inf
    return rounded_up(_accuracy(request))


def error_for(request: PlanRequest) -> float:
    """Forecast the median error at the request's rows; infinite if they are too few."""
    (seen,) = along_rows(request, [request.rows])
    return seen.error if seen.pass_probability >= 0.5 else math.inf


def prospect(request: PlanRequest) -> Prospect:
    """Forecast chance and error of a release at the request's rows."""
    return registry.get(request.method).prospect(request.but(alpha=None))


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
    return registry.get(request.method).along_rows(request.but(alpha=None), rows, enough=enough)
