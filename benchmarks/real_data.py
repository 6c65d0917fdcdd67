"""Measure how well blocks of real data agree: flights out of New York in 2013.

327,346 flights that landed: delays in whole minutes with heavy tails, air time, and 213 different
distances. Nothing here is Gaussian, so the fits of the blocks must find the same optimum of a
likelihood that has many. Each line compares the learner before (4 starts from k-means) and after
(wide starts where these leave the rows far from Gaussian) under the same plan.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import time

import numpy as np
import numpy.typing as npt

from benchmarks.tables import all_flights
from privgmm import EM, Plan, best_plan
from privgmm.data.jitter import jittered
from privgmm.errors import InvalidInput
from privgmm.mixture import MixtureBatch
from privgmm.stages.agreement.algorithm_1 import settled_distances
from privgmm.stages.agreement.blocks import deal
from privgmm.stages.agreement.lifted_pairs import pairwise_lifted
from privgmm.stages.agreement.stage import AveragedAgreement
from privgmm.stages.agreement.votes import friend_counts

__all__ = ["COLUMN_SETS", "BlockAgreement", "agreement", "flights", "main", "plan_for"]

Array = npt.NDArray[np.float64]

STEPS = {"dep_delay": 1.0, "arr_delay": 1.0, "air_time": 1.0, "distance": 100.0}
"""Widths of public jitter: whole minutes; distances to the nearest hundred miles."""

COLUMN_SETS = (
    "air_time distance",
    "dep_delay arr_delay",
    "arr_delay air_time",
    "asinh:dep_delay asinh:arr_delay",
    "asinh:arr_delay air_time",
    "asinh:arr_delay log:air_time",
    "jitter:air_time jitter:distance",
    "dep_delay air_time distance",
    "asinh:dep_delay asinh:arr_delay air_time distance",
)
"""Columns, after a public step: ``asinh(minutes / 10)``, a logarithm, jitter."""


@functools.cache
def flights(columns: str) -> Array:
    """Load rows (n, d) of the columns named, each after the step named before it, if any."""
    names = [word.rpartition(":")[2] for word in columns.split()]
    rows: Array = all_flights()[list(STEPS)].dropna()[names].to_numpy(dtype=np.float64)
    for j, word in enumerate(columns.split()):
        step = word.rpartition(":")[0]
        if step == "asinh":
            rows[:, j] = np.arcsinh(rows[:, j] / 10)
        elif step == "log":
            rows[:, j] = np.log(rows[:, j])
        elif step == "jitter":
            rows[:, j] = jittered(rows[:, [j]], [STEPS[names[j]]], rng=j)[:, 0]
        elif step:
            raise ValueError(f"no step {step!r}")
    return rows


@functools.cache
def plan_for(n: int, k: int, d: int, epsilon: float) -> Plan | None:
    """Make a plan whose blocks vote on k components; None if there is none."""
    try:
        return best_plan(
            n, method="lifted", epsilon=epsilon, delta=1e-6, n_components=k, n_features=d
        )
    except InvalidInput:
        return None


@dataclasses.dataclass(frozen=True)
class BlockAgreement:
    """Agreement of blocks: distances to the medoid, shares of blocks, chance of a release."""

    quartiles: tuple[float, float, float]
    members: float
    blurred: float
    chance: float
    milliseconds: float


def agreement(blocks: Array, plan: Plan, learner: EM) -> BlockAgreement:
    """Fit the blocks and measure what the plan's test will read."""
    start = time.process_time()
    fits: MixtureBatch = learner.fit_blocks(blocks, rng=1)
    spent = time.process_time() - start
    distances = pairwise_lifted(fits)
    medoid = int(np.argmin(np.median(distances, axis=1)))
    stage = plan.stage(AveragedAgreement)
    test = stage.test
    seen = settled_distances(fits, stage.space, test.radius)
    counts = friend_counts(seen, test.radius)
    low, median, high = (
        float(q) for q in np.quantile(distances[medoid], (0.25, 0.5, 0.75), method="lower")
    )
    return BlockAgreement(
        (low, median, high),
        float(np.mean(counts >= test.member)),
        float(np.mean(np.isinf(seen))),
        test.pass_probability(counts),
        1e3 * spent / len(blocks),
    )


def line(columns: str, k: int, epsilon: float) -> str:
    """Write one line of the table."""
    rows = flights(columns)
    plan = plan_for(len(rows), k, rows.shape[1], epsilon)
    head = f"{columns:50} {k} {epsilon:3g}"
    if plan is None:
        return f"{head}  no plan"
    blocks = rows[deal(len(rows), plan.stage(AveragedAgreement).n_blocks, seed=0)]
    before = agreement(blocks, plan, EM(k, n_restarts=4))
    after = agreement(blocks, plan, EM(k))
    stage = plan.stage(AveragedAgreement)
    text = f"{head} {stage.n_blocks:4d} {stage.tau:5.2f} "
    for found in (before, after):
        quartiles = "/".join(f"{q:.2f}" for q in found.quartiles)
        text += f" | {quartiles:>15} {found.members:5.0%} {found.chance:5.0%}"
    return f"{text} | {before.milliseconds:5.2f} {after.milliseconds:5.2f}"


def main() -> None:
    """Print the table; ``--quick`` for two column sets and epsilon 1 only."""
    quick = "--quick" in sys.argv
    print(
        "distances to the medoid fit (quartiles), share of blocks with m friends or more, chance "
        "of a release;\nbefore (4 starts) | after (wide starts where needed) | CPU ms a block\n"
    )
    print(f"{'columns':50} k eps plan         t   tau  | {'before':^27} | {'after':^27} | ms")
    for columns in COLUMN_SETS[:2] if quick else COLUMN_SETS:
        for k in (1, 2, 3, 4):
            for epsilon in (1.0,) if quick else (1.0, 2.0) if k < 3 else (1.0, 2.0, 4.0):
                print(line(columns, k, epsilon), flush=True)


if __name__ == "__main__":
    main()
