"""Measure releases of ten columns and more against scikit-learn's EM, within one run.

Errors are those of the worst component, in its own units: of a mean, and of a covariance in
Frobenius norm. EM's are those from the true start; its time is that of a fit by default. Real rows
are flights out of New York: the mean log density of 50,000 held-out rows, without the worst 0.5 %.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from benchmarks.sketch import held_out
from benchmarks.tables import all_flights
from privgmm import Mixture, Release, best_plan, release
from privgmm.arrays import Array

__all__ = ["FLIGHTS", "cell", "errors", "flights", "generated", "main"]

CASES = ((10, 2), (10, 4), (20, 2), (20, 4), (50, 4))
FLIGHTS = (
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_time",
    "sched_arr_time",
    "arr_delay",
    "air_time",
    "distance",
)


def generated(d: int, k: int, separation: float, seed: int) -> Mixture:
    """Draw covariances with eigenvalues from 0.5 to 2, and means about that far apart."""
    rng = np.random.default_rng(seed)
    turns = np.linalg.qr(rng.standard_normal((k, d, d)))[0]
    roots = turns * np.exp(rng.uniform(-0.35, 0.35, (k, 1, d)))
    means = rng.standard_normal((k, d))
    means *= separation / np.sqrt(2) / np.linalg.norm(means, axis=1, keepdims=True)
    return Mixture(rng.dirichlet(np.full(k, 8.0)), means, roots @ np.swapaxes(roots, 1, 2))


def errors(truth: Mixture, found: Mixture) -> tuple[float, float]:
    """Compute the largest errors of a mean and of a covariance, components matched by means."""
    inverses = np.linalg.inv(truth.cholesky)
    gaps = found.means[None] - truth.means[:, None]
    lengths = np.linalg.norm(np.einsum("aij,abj->abi", inverses, gaps), axis=2)
    own, other = linear_sum_assignment(lengths)
    inside = inverses[own] @ found.covariances[other] @ np.swapaxes(inverses[own], 1, 2)
    off = np.linalg.norm(inside - np.eye(truth.n_features), axis=(1, 2))
    return float(lengths[own, other].max()), float(off.max())


def cell(rows: Array, k: int, seed: int) -> tuple[Release | None, float, GaussianMixture, float]:
    """Release and fit, with CPU seconds of both; planning counts."""
    n, d = rows.shape
    start = time.process_time()
    plan = best_plan(n, n_components=k, n_features=d, epsilon=1.0, delta=1e-6)
    result = release(rows, plan, rng=seed).result
    ours = time.process_time() - start
    start = time.process_time()
    with threadpool_limits(1):
        fit = GaussianMixture(k, random_state=seed).fit(rows)
    return (result if isinstance(result, Release) else None), ours, fit, time.process_time() - start


def _generated_lines(n: int, separation: float, *, runs: int) -> None:
    for d, k in CASES:
        seen, best, times, words = [], [], [], []
        for seed in range(runs):
            truth = generated(d, k, separation, 1000 * d + 10 * k + seed)
            rows = truth.sample(n, rng=seed)
            result, ours, _, theirs = cell(rows, k, seed)
            times.append((ours, theirs))
            if result is None:
                continue
            em = GaussianMixture(
                k,
                weights_init=truth.weights,
                means_init=truth.means,
                precisions_init=np.linalg.inv(truth.covariances),
            ).fit(rows)
            seen.append(errors(truth, result.mixture))
            best.append(errors(truth, Mixture(em.weights_, em.means_, em.covariances_)))
            words += list(result.resolution)
        mine, em_ = np.median(seen, axis=0), np.median(best, axis=0)
        ours, theirs = np.median(times, axis=0)
        print(
            f"{n:7d} {separation:4g} {d:3d} {k:2d} {len(seen):4d}/{runs} "
            f"{mine[0]:7.3f} {em_[0]:7.3f} {mine[1]:7.3f} {em_[1]:7.3f} "
            f"{ours:6.2f} {theirs:6.2f} {ours / theirs:6.1f}x  "
            f"{words.count('resolved')}/{words.count('poorly resolved')}/"
            f"{words.count('not resolved')}",
            flush=True,
        )


def flights(n: int, k: int, seed: int = 0) -> None:
    """Print one line: held-out log densities of a release and of EM, and times."""
    rows = all_flights()[list(FLIGHTS)].dropna().to_numpy(dtype=np.float64)
    rows = rows[np.random.default_rng(seed).permutation(len(rows))]
    test, learn = rows[:50_000], rows[50_000 : 50_000 + n]
    result, ours, fit, theirs = cell(learn, k, seed)
    em = held_out(Mixture(fit.weights_ / fit.weights_.sum(), fit.means_, fit.covariances_), test)
    own = held_out(result.mixture, test) if result is not None else np.nan
    print(
        f"flights {n:7d} rows, k = {k}: held out {own:8.2f}, EM {em:8.2f}, "
        f"CPU {ours:.2f} s, EM {theirs:.2f} s",
        flush=True,
    )


def main() -> None:
    """Print the tables; ``--quick`` for 20,000 rows and one run per line."""
    quick = "--quick" in sys.argv
    print(
        "   rows  sep   d  k released  mean      EM  covar.      EM   CPU s     EM  ratio  "
        "resolved/poorly/not"
    )
    for n in (20_000,) if quick else (20_000, 200_000):
        for separation in (6.0, 4.0):
            _generated_lines(n, separation, runs=1 if quick else 3)
        for k in (1, 3):
            flights(n, k)


if __name__ == "__main__":
    main()
