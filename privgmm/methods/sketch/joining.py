"""Plan a sketch in a frame that is public already: what another holder of rows adds to a release.

The frame and the waves are those of a published sketch. Its holder paid for them, and for everyone
else they are public numbers. So the plan has one stage: noisy sums of waves over the holder's own
rows, for the holder's own budget.
"""

from __future__ import annotations

import math

import scipy

from privgmm.budget import Budget
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan
from privgmm.methods.request import PlanRequest
from privgmm.methods.sketch.method import SketchMethod
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.sketch.stage import Sketch

__all__ = ["joining_plan"]

_LEAST, _MOST = 1e-2, 1e5
"""Noise multipliers between which one is searched; they cover epsilons from 1e-4 to above 100."""
_ROUNDING = 1 + 1e-9
"""Factor on the computed noise, so that rounding does not cost more than the budget; by convention
far above the rounding of a float."""


def joining_plan(agreed: PrivateSketch, n_units: int, budget: Budget) -> Plan:
    """Plan one sketch of a holder's rows, at the frequencies of a published one.

    Parameters
    ----------
    agreed : PrivateSketch
        The sketch whose frame all holders use.
    n_units : int
        How many rows (or persons) this holder has; public.
    budget : Budget
        The budget that this holder spends.
    """
    d = agreed.n_features
    shape = SketchShape(len(agreed.directions), agreed.n_frequencies, agreed.step)

    request = PlanRequest(
        n_components=1,
        n_features=d,
        n_rows=n_units,
        epsilon=budget.epsilon,
        delta=budget.delta,
        method=SketchMethod.name,
    )

    def plan(log: float) -> Plan:
        stage = Sketch(shape, math.exp(log) * _ROUNDING, n_units, d)
        return Plan(request, (stage,))

    def over(log: float) -> float:
        return math.log(plan(log).spent().epsilon / budget.epsilon)

    least, most = math.log(_LEAST), math.log(_MOST)
    if over(most) > 0:
        raise InvalidInput(
            f"no noise is large enough for {budget}: choose a larger epsilon or delta"
        )
    if over(least) < 0:
        return plan(least)
    log = float(scipy.optimize.brentq(over, least, most, xtol=1e-10))
    found = plan(log)
    while not budget.covers(found.spent()):
        # rounding of the root may have put it just above the budget
        log += 1e-9
        found = plan(log)
    return found
