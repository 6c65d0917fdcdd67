"""OpenDP: AIM on bins of equal width (`opendp[mbi]`), which has to be told where to cut."""

from __future__ import annotations

import math

import numpy as np
import opendp.prelude as dp
import polars as pl

from benchmarks.peers.workers.job import BINS, Array, Job, answer


def _rho(epsilon: float, delta: float) -> float:
    """The largest rho of zero-concentrated privacy that OpenDP converts to the budget."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def within(rho: float) -> bool:
        gaussian = dp.m.make_gaussian(*space, scale=math.sqrt(1 / (2 * rho)))
        profile = dp.c.make_zCDP_to_approxDP(gaussian).map(1.0)
        return bool(profile.epsilon(delta) <= epsilon)

    return float(dp.binary_search(within, bounds=(1e-6, 1.0)))


def learn(job: Job, rows: Array) -> Array:
    """Release a table of counts, and make as many rows."""
    if job.bounds is None:
        raise ValueError("needs bounds: a column of numbers has to be cut at places told before")
    dp.enable_features("contrib", "honest-but-curious")
    names = [f"c{j}" for j in range(rows.shape[1])]
    cuts = {
        name: np.linspace(low, high, BINS + 1).tolist()
        for name, (low, high) in zip(names, job.bounds, strict=True)
    }
    context = dp.Context.compositor(
        data=pl.LazyFrame({name: rows[:, j] for j, name in enumerate(names)}),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=_rho(job.epsilon, job.delta)),
        split_evenly_over=1,
    )
    table = context.query().contingency_table(cuts=cuts, algorithm=dp.mbi.AIM()).release()
    return np.asarray(table.synthesize()[names].to_numpy(), dtype=np.float64)


if __name__ == "__main__":
    answer(learn)
