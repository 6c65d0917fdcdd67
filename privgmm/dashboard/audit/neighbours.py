"""The made-up data that the audit plays with, and releases from it and its neighbours.

Rows and noise come from fixed seeds: nobody is in them, and the same choice gives the same
answer. One seed deals the rows and fits the blocks alike, so two releases can be compared. All
of it is worked out beside the page: no Streamlit in what is remembered.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from privgmm.arrays import Array
from privgmm.data.datasets import Dataset, generate
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan
from privgmm.mixture import Mixture
from privgmm.release import Outcome, release

__all__ = ["EPSILONS", "data", "moved", "outcome", "plan"]

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
_ROWS = 50_000
_SEED = 3


@functools.cache
def data() -> Dataset:
    """Two clouds of rows, easy to see and to learn."""
    truth = Mixture(
        [0.55, 0.45],
        [[-3.2, 0.8], [3.2, -0.8]],
        [[[1.6, 0.7], [0.7, 1.2]], [[1.0, -0.5], [-0.5, 1.8]]],
    )
    return generate(truth, _ROWS, rng=2)


@functools.cache
def plan(epsilon: float) -> Plan:
    """The plan for the made-up rows; no refinement, so that every step can be followed."""
    d = data()
    return best_plan(
        d.n_rows,
        method="lifted",
        epsilon=epsilon,
        delta=1e-6,
        n_components=2,
        n_features=d.n_features,
        refine=False,
    )


def moved(row: int, distance: float) -> Array:
    """The row's value after it is sent off, up and to the right."""
    unit = np.array([math.cos(0.6), math.sin(0.6)])
    return np.asarray(data().rows[row] + distance * unit, dtype=np.float64)


@functools.lru_cache(maxsize=24)
def outcome(epsilon: float, row: int | None = None, distance: float = 0.0) -> Outcome:
    """The release from the made-up rows, one of them sent off if asked for; seeded."""
    rows = data().rows
    if row is not None:
        rows = rows.copy()
        rows[row] = moved(row, distance)
    return release(rows, plan(epsilon), rng=_SEED)
