"""Compare all t×t mixture distances with a double loop. Run: python -m benchmarks.distances."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from privgmm.arrays import Array
from privgmm.distances.all_pairs import pairwise_dist_param
from privgmm.distances.parameters import dist_param
from privgmm.mixture import MixtureBatch, cholesky_of_root
from privgmm.stages.agreement.lifted_geometry import pairwise_lifted

SIZES = [(t, k, d) for t in (500, 1500) for k in (2, 5) for d in (2, 8)]
SAMPLED_PAIRS = 150


def block_fits(t: int, k: int, d: int, *, rng: np.random.Generator) -> MixtureBatch:
    """Draw what t blocks of one data set give: noisy copies of one mixture, in random order.

    Two per cent of the fits are at another optimum altogether.
    """
    roots = np.eye(d) + 0.3 * rng.standard_normal((k, d, d)) / np.sqrt(d)
    means = 5 * rng.standard_normal((k, d))
    noise = 0.05 * rng.standard_normal((t, k, d, d))
    fit_roots = cholesky_of_root(roots @ (np.eye(d) + noise))
    fit_means = means + 0.1 * np.einsum("kij,tkj->tki", roots, rng.standard_normal((t, k, d)))
    lost = rng.random(t) < 0.02
    fit_means[lost] = 5 * rng.standard_normal((int(lost.sum()), k, d))
    weights = rng.dirichlet(np.full(k, 500.0), size=t)
    order = np.argsort(rng.random((t, k)), axis=1)
    return MixtureBatch.from_cholesky(
        np.take_along_axis(weights, order, axis=1),
        np.take_along_axis(fit_means, order[:, :, None], axis=1),
        np.take_along_axis(fit_roots, order[:, :, None, None], axis=1),
        np.ones(t, dtype=bool),
    )


def cpu_seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Measure the least CPU time of a few runs, without the first, which may compile."""
    work()
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def double_loop_seconds(
    batch: MixtureBatch, table: Array, rng: np.random.Generator
) -> tuple[float, float]:
    """Measure CPU seconds of a double loop over `dist_param`, and the largest relative difference.

    Timed on a random sample of pairs and scaled to all t(t-1)/2: the whole loop takes minutes.
    """
    t = len(batch)
    pairs = [rng.choice(t, size=2, replace=False) for _ in range(SAMPLED_PAIRS)]
    fits = {int(i): batch[int(i)] for pair in pairs for i in pair}
    start = time.process_time()
    values = [dist_param(fits[int(i)], fits[int(j)]) for i, j in pairs]
    spent = time.process_time() - start
    off = max(abs(table[i, j] / v - 1) for (i, j), v in zip(pairs, values, strict=True))
    return spent / SAMPLED_PAIRS * t * (t - 1) / 2, float(off)


def main() -> None:
    rng = np.random.default_rng(0)
    print(
        f"CPU seconds, one thread. Double loop timed on {SAMPLED_PAIRS} random pairs and scaled "
        "to all t(t-1)/2."
    )
    print(
        f"{'t':>5} {'k':>2} {'d':>2} {'dist_Param':>11} {'double loop':>12} {'ratio':>8} "
        f"{'difference':>11} {'lifted':>8}"
    )
    for t, k, d in SIZES:
        batch = block_fits(t, k, d, rng=rng)
        fast = cpu_seconds(partial(pairwise_dist_param, batch))
        slow, off = double_loop_seconds(batch, pairwise_dist_param(batch), rng)
        lifted = cpu_seconds(partial(pairwise_lifted, batch), repeats=1)
        print(
            f"{t:>5} {k:>2} {d:>2} {fast:>11.3f} {slow:>12.1f} {slow / fast:>7.0f}x "
            f"{off:>11.1e} {lifted:>8.3f}"
        )


if __name__ == "__main__":
    main()
