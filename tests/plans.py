"""Make plans that no door makes: a calibrated agreement with noisy passes after it."""

from __future__ import annotations

from privgmm.budget import Budget
from privgmm.methods.plan import Plan
from privgmm.stages.refinement.noisy_moments import Refinement


def refined(plan: Plan, steps: Refinement | None) -> Plan:
    """Add a refinement to a plan, at the budget that both cost together."""
    if steps is None:
        return plan
    longer = plan.but(*plan.stages, steps)
    # room for rounding: a plan may not cost more than its budget
    budget = Budget(longer.spent().epsilon * (1 + 1e-9), plan.budget.delta)
    return longer.but(*longer.stages, budget=budget)
