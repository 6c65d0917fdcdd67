"""The made-up data that the audit plays with, and releases from it and its neighbours.

Rows and noise come from fixed seeds: nobody is in them, and the same choice gives the same
answer. One seed deals the rows and fits the blocks alike, so two releases can be compared. All
of it is worked out beside the page: no Streamlit in what is remembered.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import cast

import numpy as np

from privgmm.arrays import Array
from privgmm.audit.sabotage import SilentMask, with_space
from privgmm.data.datasets import Dataset, generate
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan
from privgmm.mixture import Mixture
from privgmm.release import Outcome, release
from privgmm.stages.agreement.lifted_space import LiftedSpace

__all__ = ["EPSILONS", "data", "moved", "outcome", "plan", "plan_without_noise"]

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


def plan_without_noise(epsilon: float) -> Plan:
    """The same plan, broken on purpose: it promises as much, and its mask draws no noise.

    It is only ever followed by `outcome`, on the made-up rows.
    """
    sound = plan(epsilon)
    # the plan of this page is made by the one method whose mask is known without noise
    space = cast(LiftedSpace, sound.space)
    silent = SilentMask(space.eta, space.clearance)
    return dataclasses.replace(sound, stages=(with_space(sound.agreement, silent),))


@functools.lru_cache(maxsize=24)
def outcome(
    epsilon: float, row: int | None = None, distance: float = 0.0, *, noise: bool = True
) -> Outcome:
    """The release from the made-up rows, one of them sent off if asked for; seeded.

    Without `noise` it is released by `plan_without_noise`: by the same code, broken on purpose.
    """
    rows = data().rows
    if row is not None:
        rows = rows.copy()
        rows[row] = moved(row, distance)
    return release(rows, plan(epsilon) if noise else plan_without_noise(epsilon), rng=_SEED)
