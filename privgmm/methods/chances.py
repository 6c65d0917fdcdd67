"""Simulate the chance that blocks of rows from a known mixture agree.

Forecasts by the law of block fits (`scatter`) assume that components are well separated. Where the
mixture behind the rows is known without looking at them, as for generated data, nothing has to be
assumed. Blocks of as many rows are drawn from it, fitted by the learner of the release and compared
in the space of the plan. So overlap, a wrong number of components and stray fits all count. No row
of the data is used, and the same question always has the same answer.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from privgmm.arrays import Array
from privgmm.learners.learner import Learner, block_seeds
from privgmm.learners.registry import make_learner
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.stages.agreement.scatter import friend_counts_of_blocks
from privgmm.stages.agreement.stage import Agreement

__all__ = ["agreement_chance"]

_FEWEST, _MOST = 48, 120
"""Simulated blocks: by convention few enough for a forecast of seconds."""
_ROWS = 120_000
"""Simulated rows, about, which bounds the time by convention; larger blocks are fewer."""
_LARGEST_BLOCK = 5000
"""Rows per block beyond which fits are not simulated: they scatter like one over the root of the
rows, which a test measures."""
_REPLICATES = 3
"""Sets of simulated blocks whose chances are averaged; by convention."""
_SEED = 20240917
"""Any fixed number does: the same question then has the same answer."""


def agreement_chance(
    stage: Agreement, mixture: Mixture, n_rows: float, *, learner: str | None = None
) -> float:
    """Simulate the chance that blocks of these rows agree and pass the noisy test.

    Parameters
    ----------
    stage : Agreement
    mixture : Mixture
        Where the rows come from. It may have another number of components than the stage fits.
    n_rows : float
        Rows, or persons.
    learner : str, optional
        A name in the learners' registry; by default EM, or the stage's own.
    """
    rows = stage.rows_in_block(n_rows)
    if rows < stage.least_rows:
        return 0.0
    settled = min(rows, _LARGEST_BLOCK)
    simulated = int(min(stage.n_blocks, max(_FEWEST, min(_MOST, _ROWS // settled))))
    factor = math.sqrt(settled / rows)
    name = stage.learner or learner
    chances = []
    for replicate in range(_REPLICATES):
        fits = _fits(mixture, stage.n_components, name, simulated, settled, replicate)
        distances = stage.space.scattered(fits, factor)
        counts = friend_counts_of_blocks(distances, stage.tau, stage.n_blocks)
        chances.append(stage.test.pass_probability(counts))
    return float(np.mean(chances))


@functools.lru_cache(maxsize=32)
def _fits(
    mixture: Mixture, n_components: int, learner: str | None, blocks: int, rows: int, replicate: int
) -> MixtureBatch:
    """Fit simulated blocks, from a fixed seed."""
    drawn: Array = mixture.sample(blocks * rows, rng=_SEED + replicate)
    fitter: Learner = make_learner(learner or "em", n_components)
    shaped = drawn.reshape(blocks, rows, mixture.n_features)
    return fitter.fit_blocks(shaped, rng=block_seeds(_SEED + replicate, blocks))
