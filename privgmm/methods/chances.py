"""The chance that blocks of rows from a known mixture agree: simulated blocks, fitted for real.

Forecasts by the law of block fits (`scatter`) take components to be well apart. Where the mixture
behind the rows is known without looking at them, as for generated data, nothing has to be assumed:
blocks of as many rows are drawn from it, fitted by the learner of the release and compared in the
space of the plan, so overlap, a wrong number of components and stray fits all count. No row of the
data is used, and the same question always has the same answer.
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
"""Simulated blocks."""
_ROWS = 120_000
"""Simulated rows, about; with larger blocks there are fewer of them."""
_LARGEST_BLOCK = 5000
"""From here on fits only scatter less, like one over the root of the rows."""
_REPLICATES = 3
_SEED = 20240917


def agreement_chance(
    stage: Agreement, mixture: Mixture, n_rows: float, *, learner: str | None = None
) -> float:
    """The chance that blocks of so many rows of the mixture agree and pass the noisy test.

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
    """Fits of simulated blocks, from a fixed seed."""
    drawn: Array = mixture.sample(blocks * rows, rng=_SEED + replicate)
    fitter: Learner = make_learner(learner or "em", n_components)
    shaped = drawn.reshape(blocks, rows, mixture.n_features)
    return fitter.fit_blocks(shaped, rng=block_seeds(_SEED + replicate, blocks))
