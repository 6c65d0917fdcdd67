"""Plan many columns: histograms, pooled looks, a sketch of few directions, looks at all columns.

Nothing here depends on the rows: what each stage may spend follows from the number of rows, of
columns and of components, and from the budget.
"""

from __future__ import annotations

import math

from privgmm.methods.request import PlanRequest
from privgmm.methods.sketch.frames import FrameChoice
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.stage import Stage
from privgmm.stages.wide.finish import WideFinish
from privgmm.stages.wide.pooled import PooledLooks
from privgmm.stages.wide.subspace import SubspaceSketch

__all__ = ["MANY_COLUMNS", "wide_stages"]

MANY_COLUMNS = 10
"""From this number of columns on plans are made here. Measured at separation 6: at d = 10 errors
are as small as those of a sketch of all columns, and a release takes a tenth of the time."""
_POOLED = (0.03, 0.05)
_SKETCH, _TIED, _FIRST = 0.18, 0.08, 0.16
"""Measured: shares of what the histograms leave, where rows are few; the last look takes the rest.
All means errors within 1.1 of one look with the whole budget from the true mixture."""
_MUCH, _LEAST = 4000.0, 0.35
"""Measured: rows per noise of the whole account beyond which these shares fall like its root, and
to which share of them at least. What comes before the last look need not be sharper than that."""
_FEWEST, _MOST = 2, 5
"""Choice: coordinates that are sketched, at least and at most, else as many as components."""


def wide_stages(request: PlanRequest, choice: FrameChoice) -> tuple[Stage, ...]:
    """Divide what the histograms leave among all later stages."""
    k, d, n, left = request.n_components, request.n_features, request.rows, choice.left
    fewer = min(1.0, max(_LEAST, math.sqrt(_MUCH / (n * math.sqrt(left)))))

    def multiplier(share: float) -> float:
        # so that rounding does not cost more than the budget
        return (1 + 1e-9) / math.sqrt(share * left)

    dimension = min(max(_FEWEST, k), _MOST, d)
    before = fewer * (sum(_POOLED) + _SKETCH)
    shares = (fewer * _TIED / (1 - before), fewer * _FIRST / (1 - before))
    return (
        choice.stage,
        PooledLooks(tuple(multiplier(fewer * share) for share in _POOLED), n, d),
        SubspaceSketch(
            SketchShape.default(dimension, k), multiplier(fewer * _SKETCH), n, d, dimension
        ),
        WideFinish(
            k,
            d,
            n,
            multiplier(1 - before),
            shares,
            choose=request.choose_components,
            covariance_type=request.covariance_type,
        ),
    )
