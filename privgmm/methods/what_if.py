"""What if? Rows, epsilon or alpha that a release would take, and what it would give, without data.

Answers come from the law of well separated block fits (`spread`), so they ignore overlap
between components, which asks for more rows.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from privgmm.budget import Budget
from privgmm.errors import InvalidInput
from privgmm.methods.calibration import calibrate
from privgmm.methods.plan import Method, Plan
from privgmm.methods.planner import best_plan, hopeful_plan, lifted_feasible
from privgmm.stages.agreement.scatter import component_weights
from privgmm.stages.refinement.expected_error import best_refinement, forecast_error

__all__ = [
    "Prospect",
    "Question",
    "along_rows",
    "alpha_for",
    "epsilon_for",
    "first_step",
    "prospect",
    "rows_for",
]

_ROWS_PER_DECADE = 16
_MOST_DECADES = 20
_PASS = 0.95


@dataclasses.dataclass(frozen=True)
class Question:
    """What stays fixed while one asks what if.

    Parameters
    ----------
    n_components, n_features : int
        k and d.
    delta : float
    beta : float
    smallest_weight : float, optional
    forgiving : bool
        Whether method `lifted` plans for real data, see `best_plan`.
    """

    n_components: int
    n_features: int
    delta: float = 1e-6
    beta: float = 0.1
    smallest_weight: float | None = None
    forgiving: bool = False


@dataclasses.dataclass(frozen=True)
class Prospect:
    """What a method would give at a number of rows.

    Parameters
    ----------
    method : str
    n_rows : float
    epsilon : float
    pass_probability : float
        The chance of a release.
    error : float
        For `lifted` the expected root-mean-square error of the smallest component (mean,
        covariance and weight together); for the others the alpha they promise.
    plan : Plan or None
        None where the method has no plan for so few rows.
    """

    method: Method
    n_rows: float
    epsilon: float
    pass_probability: float
    error: float
    plan: Plan | None


@functools.lru_cache(maxsize=512)
def _plan(question: Question, method: Method, epsilon: float, alpha: float) -> Plan:
    """A `paper` or `tight` plan at a given alpha, the better of a few numbers of blocks."""
    best: tuple[float, Plan] | None = None
    for t in (None,) if method == "paper" else (100, 200, 400):
        try:
            plan = dataclasses.replace(
                calibrate(
                    method,
                    epsilon=epsilon,
                    delta=question.delta,
                    alpha=alpha,
                    beta=question.beta,
                    n_components=question.n_components,
                    n_features=question.n_features,
                    n_blocks=t,
                ),
                smallest_weight=question.smallest_weight,
            )
        except InvalidInput:
            if t == 400:
                raise
            # too few blocks for this budget: more follow
            continue
        needed = plan.rows_needed(_PASS)
        if best is None or needed < best[0]:
            best = needed, plan
    if best is None:
        raise InvalidInput(f"method {method!r} has no plan at epsilon = {epsilon:g}")
    return best[1]


def _grid_rows(step: int) -> int:
    return round(10 ** (step / _ROWS_PER_DECADE))


def first_step(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """The smallest step in low..high from which `holds` is true, None if it is not at high."""
    if not holds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high


def rows_for(question: Question, method: Method, *, epsilon: float, alpha: float = 0.5) -> float:
    """Rows at which the method releases in 95 % of runs; infinite if it never does.

    `alpha` matters to `paper` and `tight` only; `lifted` is refined to whatever n allows.
    """
    if method != "lifted":
        return _plan(question, method, epsilon, alpha).rows_needed(_PASS)
    budget = Budget(epsilon, question.delta)

    def holds(step: int) -> bool:
        return lifted_feasible(
            _grid_rows(step),
            budget,
            question.n_components,
            question.n_features,
            question.smallest_weight,
            forgiving=question.forgiving,
        )

    low, high = 3 * _ROWS_PER_DECADE, _MOST_DECADES * _ROWS_PER_DECADE
    if not holds(high):
        return math.inf
    # up by decades first: few rows are quick to rule out, there being few ways to split them
    reached = low
    while reached < high and not holds(reached):
        low, reached = reached + 1, reached + _ROWS_PER_DECADE
    step = first_step(low, min(reached, high), holds)
    return math.inf if step is None else _grid_rows(step)


def epsilon_for(question: Question, method: Method, *, n_rows: float, alpha: float = 0.5) -> float:
    """The smallest epsilon (to about 3 %) at which n rows release; infinite beyond 20."""
    grid = np.geomspace(0.02, 20, 232)

    def holds(step: int) -> bool:
        epsilon = float(grid[step])
        if method == "lifted":
            return lifted_feasible(
                int(n_rows),
                Budget(epsilon, question.delta),
                question.n_components,
                question.n_features,
                question.smallest_weight,
                forgiving=question.forgiving,
            )
        try:
            return rows_for(question, method, epsilon=epsilon, alpha=alpha) <= n_rows
        except InvalidInput:
            # no number of blocks passes within so small a budget
            return False

    step = first_step(0, len(grid) - 1, holds)
    return math.inf if step is None else float(grid[step])


def alpha_for(question: Question, method: Method, *, n_rows: float, epsilon: float) -> float:
    """The smallest alpha that n rows can promise; infinite if none up to the method's limit.

    For `lifted` it is that of the coarse release, before any refinement.
    """
    if method == "lifted":
        try:
            plan = _lifted_plan(question, epsilon, n_rows, refine=False)
        except InvalidInput:
            return math.inf
        return plan.alpha
    if rows_for(question, method, epsilon=epsilon, alpha=1.0) > n_rows:
        return math.inf
    # rows fall like 1 / alpha^2 as long as gamma is small; two rounds correct the rest
    alpha = 1.0
    for _ in range(3):
        needed = rows_for(question, method, epsilon=epsilon, alpha=alpha)
        alpha = min(1.0, alpha * math.sqrt(needed / n_rows))
    return alpha


def _lifted_plan(question: Question, epsilon: float, n_rows: float, refine: bool = True) -> Plan:
    return best_plan(
        int(n_rows),
        epsilon=epsilon,
        delta=question.delta,
        n_components=question.n_components,
        n_features=question.n_features,
        beta=question.beta,
        smallest_weight=question.smallest_weight,
        forgiving=question.forgiving,
        refine=refine,
    )


def prospect(
    question: Question, method: Method, *, n_rows: float, epsilon: float, alpha: float = 0.5
) -> Prospect:
    """Chance of a release and error to expect at n rows."""
    if method != "lifted":
        plan = _plan(question, method, epsilon, alpha)
        chance = plan.pass_probability(n_rows)
        return Prospect(method, n_rows, epsilon, chance, alpha, plan)
    enough = rows_for(question, method, epsilon=epsilon)
    if not math.isfinite(enough):
        return Prospect(method, n_rows, epsilon, 0.0, math.inf, None)
    plan = _lifted_plan(question, epsilon, max(n_rows, enough))
    weights = component_weights(question.n_components, plan.smallest_weight)
    error = forecast_error(n_rows, weights, question.n_features, plan.refine).total
    return Prospect(method, n_rows, epsilon, plan.pass_probability(n_rows), error, plan)


def along_rows(
    question: Question,
    method: Method,
    rows: Sequence[float],
    *,
    epsilon: float,
    alpha: float = 0.5,
    enough: float | None = None,
) -> tuple[Prospect, ...]:
    """Chances and errors at many numbers of rows, from one search for a plan.

    Parameters
    ----------
    rows : sequence of float
    enough : float, optional
        Rows known to be enough for `lifted`, to plan for; by default the fewest.

    Notes
    -----
    For `lifted` the test and the mask are those for `enough` rows; beyond these, the refinement
    alone is chosen anew. That is a plan within the same budget whose error was at most about
    one and a half times `best_plan`'s where compared, at a fraction of the time.
    """
    if method != "lifted":
        plan = _plan(question, method, epsilon, alpha)
        return tuple(
            Prospect(method, n, epsilon, plan.pass_probability(n), alpha, plan) for n in rows
        )
    if enough is None:
        enough = rows_for(question, method, epsilon=epsilon)
    if not math.isfinite(enough):
        return tuple(Prospect(method, n, epsilon, 0.0, math.inf, None) for n in rows)
    start = hopeful_plan(
        int(enough),
        Budget(epsilon, question.delta),
        question.beta,
        question.n_components,
        question.n_features,
        question.smallest_weight,
        forgiving=question.forgiving,
    )
    if start is None:
        start = _lifted_plan(question, epsilon, enough)
    return tuple(_at(question, start, n, enough) for n in rows)


def _at(question: Question, start: Plan, n_rows: float, enough: float) -> Prospect:
    """A lifted plan at other rows than it was made for, refined anew if there are more."""
    d = question.n_features
    weights = component_weights(question.n_components, start.smallest_weight)
    plan = start
    if n_rows > enough:
        coarse = dataclasses.replace(start, refine=None)
        found = best_refinement(n_rows, weights, d, start.alpha, coarse.curve(), start.budget)
        if found is not None:
            plan = dataclasses.replace(start, refine=found[0])
    error = forecast_error(n_rows, weights, d, plan.refine).total
    chance = plan.pass_probability(n_rows)
    return Prospect(plan.method, n_rows, plan.budget.epsilon, chance, error, plan)
