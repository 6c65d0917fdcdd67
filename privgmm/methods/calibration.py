"""What the methods share when they look for their numbers. Nothing here looks at data.

Every root is found numerically, ends on the private side, and the finished plan is priced once
more from its own numbers before it is handed out (`plan.checked`).
"""

from __future__ import annotations

import numpy as np

from privgmm.arrays import Array
from privgmm.budget import Budget
from privgmm.errors import InvalidInput
from privgmm.privacy.curves import RenyiCurve, gaussian_curve
from privgmm.stages.refinement.noisy_moments import Refinement

__all__ = ["for_curves", "refinement_curve", "sigmas", "too_few_blocks"]


def for_curves(budget: Budget, misrounding: float) -> Budget:
    """What of a budget is there to convert curves with: delta less the chance of misrounding."""
    if misrounding >= budget.delta:
        raise InvalidInput(
            f"delta must exceed {misrounding:.3g}, the chance that a published number is "
            f"misrounded, got {budget.delta:.3g}: raise delta"
        )
    return Budget(budget.epsilon, budget.delta - misrounding)


def refinement_curve(refinement: Refinement | None) -> RenyiCurve:
    """What a refinement costs; nothing if there is none."""
    curve = RenyiCurve(np.zeros_like(gaussian_curve(1.0).values))
    for step in () if refinement is None else refinement.price().curves:
        curve = curve + step
    return curve


def sigmas(reach: float) -> Array:
    """Scales of the test's noise worth trying when the statistic can reach `reach`."""
    return np.geomspace(max(0.5, reach / 40), max(0.6, reach / 2), 24)


def too_few_blocks(budget: Budget, n_blocks: int) -> InvalidInput:
    """Why so few blocks will not do."""
    return InvalidInput(
        f"n_blocks = {n_blocks} is too few for the test to pass within {budget}: use more blocks, "
        "or raise epsilon or delta"
    )
