"""Share the steps of calibration: budgets, noise scales, errors. Nothing here looks at data.

Every root is found numerically and ends within the budget, and the finished plan is priced once
more from its own numbers before it is handed out (`plan.checked`).
"""

from __future__ import annotations

import numpy as np

from privgmm.arrays import Array
from privgmm.budget import Budget
from privgmm.errors import InvalidInput
from privgmm.methods.request import WITHIN, PlanRequest, budget_facts

__all__ = ["for_curves", "no_plan", "sigmas", "too_few_blocks"]


def for_curves(budget: Budget, misrounding: float) -> Budget:
    """Return the budget left to convert curves with: delta less the chance of misrounding."""
    if misrounding >= budget.delta:
        raise InvalidInput(
            "must exceed {least}, the chance that a published number is misrounded",
            argument="delta",
            value=budget.delta,
            remedy="raise {delta}",
            facts={"least": misrounding},
        )
    return Budget(budget.epsilon, budget.delta - misrounding)


def sigmas(reach: float) -> Array:
    """List scales of the test's noise to try when the statistic can reach `reach`."""
    # with more noise than half the reach no statistic passes its threshold by the usual margin
    return np.geomspace(max(0.5, reach / 40), max(0.6, reach / 2), 24)


def no_plan(request: PlanRequest, remedy: str, **facts: object) -> InvalidInput:
    """Build the error that says that no plan is expected to release."""
    k, d = request.n_components, request.n_features
    return InvalidInput(
        f"no plan is expected to release {request.components_in_words} component{'s' * (k > 1)} of "
        f"{d} column{'s' * (d > 1)} from {{rows}} {request.units} within {WITHIN}",
        remedy=remedy,
        facts={"rows": request.rows, **budget_facts(request.budget), **facts},
    )


def too_few_blocks(budget: Budget, n_blocks: int) -> InvalidInput:
    """Build the error that says why this number of blocks is too small."""
    return InvalidInput(
        f"= {{given}} is too few for the test to pass within {WITHIN}",
        argument="n_blocks",
        remedy="use more blocks, or raise {epsilon} or {delta}",
        facts={"given": n_blocks, **budget_facts(budget)},
    )
