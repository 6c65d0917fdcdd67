"""A sketch in a frame that is public already: what another holder of rows adds to a release.

The frame and the waves are those of a published sketch; they were paid for by whoever published it,
and are public numbers to everybody else. So a plan has one stage: noisy sums of waves over the
holder's own rows, for the holder's own budget.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from privgmm.budget import Budget
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan
from privgmm.methods.sketch.method import SketchMethod
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.sketch.stage import Sketch

__all__ = ["joining_plan"]

_LEAST, _MOST = 1e-2, 1e5
_ROUNDING = 1 + 1e-9


def joining_plan(agreed: PrivateSketch, n_units: int, budget: Budget) -> Plan:
    """One sketch of so many rows (or persons), at the frequencies of a published one.

    Parameters
    ----------
    agreed : PrivateSketch
        In whose frame everybody sketches.
    n_units : int
        How many rows (or persons) this holder has; public.
    budget : Budget
        What this holder promises.
    """
    d = agreed.n_features
    shape = SketchShape(len(agreed.directions), agreed.n_frequencies, agreed.step)

    def plan(log: float) -> Plan:
        stage = Sketch(shape, math.exp(log) * _ROUNDING, n_units, d)
        return Plan(SketchMethod.name, budget, 1, d, (stage,))

    def over(log: float) -> float:
        return math.log(plan(log).spent().epsilon / budget.epsilon)

    least, most = math.log(_LEAST), math.log(_MOST)
    if over(most) > 0:
        raise InvalidInput(
            f"no noise is large enough for {budget}: choose a larger epsilon or delta"
        )
    if over(least) < 0:
        return plan(least)
    log = float(brentq(over, least, most, xtol=1e-10))
    found = plan(log)
    while not budget.covers(found.spent()):
        # the root may lie a rounding on the other side
        log += 1e-9
        found = plan(log)
    return found
