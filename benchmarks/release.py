"""Measure whole releases: their errors, and their speed against one scikit-learn fit.

Speed is CPU time within this run, on one thread; wall time, which is what a user waits for, is
taken in a second round in which either may use all cores. Errors are medians over runs, of the
worst component: mean in Mahalanobis distance, covariance as the Frobenius norm of the whitened
difference, weight.
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from privgmm import Mixture, Plan, Refusal, Release, best_plan, release
from privgmm.data.datasets import random_mixture
from privgmm.errors import PrivacyWarning

PROBLEM = Mixture([0.4, 0.6], [[-4, 0], [4, 0]], [[[2, 0.8], [0.8, 1]], [[1, -0.5], [-0.5, 1.5]]])


def errors(truth: Mixture, found: Mixture) -> tuple[float, float, float]:
    """Compute errors (mean, covariance, weight) of the worst component in the best order."""
    best = (np.inf, np.inf, np.inf)
    for order in itertools.permutations(range(truth.n_components)):
        other = found.permuted(order)
        inverse = np.linalg.inv(truth.cholesky)
        mean = np.linalg.norm(
            np.einsum("kij,kj->ki", inverse, other.means - truth.means), axis=1
        ).max()
        white = inverse @ other.covariances @ inverse.swapaxes(1, 2) - np.eye(truth.n_features)
        covariance = np.linalg.norm(white, axis=(1, 2)).max()
        weight = np.abs(other.weights - truth.weights).max()
        if mean + covariance + weight < sum(best):
            best = (float(mean), float(covariance), float(weight))
    return best


def labelled_fit(rows: np.ndarray, labels: np.ndarray, k: int) -> Mixture:
    """Fit with every label known: no fit without privacy does better."""
    parts = [rows[labels == j] for j in range(k)]
    return Mixture(
        [len(part) / len(rows) for part in parts],
        [part.mean(axis=0) for part in parts],
        [np.cov(part.T, bias=True).reshape(rows.shape[1], -1) for part in parts],
    )


def accuracy(name: str, truth: Mixture, n: int, runs: int, epsilon: float = 1.0) -> None:
    """Print how often n rows release, and how exactly."""
    k, d = truth.n_components, truth.n_features
    plan = best_plan(n, epsilon=epsilon, delta=1e-6, n_components=k, n_features=d)
    t = plan.stages[0].n_blocks
    blocks = "no blocks" if t is None else f"{t} blocks"
    found, floor = [], []
    for run in range(runs):
        rows, labels = truth.sample_with_labels(n, rng=1000 + run)
        result = release(rows, plan, rng=run).result
        floor.append(errors(truth, labelled_fit(rows, labels, k)))
        if isinstance(result, Release):
            found.append(errors(truth, result.mixture))
    median = np.median(found, axis=0) if found else np.full(3, np.nan)
    with np.errstate(invalid="ignore"):
        ratio = median / np.median(floor, axis=0)
    print(
        f"{name:<20} n={n:>8} {plan.method}, {blocks}, released {len(found)}/{runs}  "
        f"mean {median[0]:.4f} ({ratio[0]:.2f}x)  cov {median[1]:.4f} ({ratio[1]:.2f}x)  "
        f"weight {median[2]:.5f} ({ratio[2]:.2f}x)",
        flush=True,
    )


def planned(n: int, k: int, d: int, method: str) -> Plan:
    return best_plan(n, method=method, epsilon=1.0, delta=1e-6, n_components=k, n_features=d)


def seconds(clock: Callable[[], float], work: Callable[[], object]) -> float:
    start = clock()
    work()
    return clock() - start


def speed(n: int, k: int, d: int, method: str) -> tuple[float, float]:
    """Measure CPU seconds of a release and of one scikit-learn fit of the same rows."""
    truth = random_mixture(k, d, separation=6.0, rng=7)
    rows = truth.sample(n, rng=8)
    release(rows[:100_000], planned(100_000, k, d, method), rng=0)
    planning = seconds(time.process_time, lambda: planned(n, k, d, method))
    plan = planned(n, k, d, method)

    outcomes: list[Release | Refusal] = []

    def ours() -> None:
        # other noise each time: fits to a sketch that was seen before are remembered
        outcomes.append(release(rows, plan, rng=1 + len(outcomes)).result)

    def theirs() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            GaussianMixture(k, random_state=0).fit(rows)

    with threadpool_limits(1):
        cpu = [seconds(time.process_time, work) for work in (ours, theirs)]
    wall = [seconds(time.perf_counter, work) for work in (ours, theirs)]
    print(
        f"{method:<7} k={k} d={d} n={n:>8}  planning {planning:.2f} s  "
        f"{'released' if outcomes[0].released else 'refused'}",
        *(
            f"{name} {mine:.2f} s, scikit-learn {other:.2f} s, ratio {other / mine:.2f}x"
            for name, (mine, other) in (("CPU", cpu), ("wall", wall))
        ),
        sep="  ",
        flush=True,
    )
    return cpu[0], cpu[1]


def main() -> None:
    warnings.simplefilter("ignore", PrivacyWarning)
    quick = "--quick" in sys.argv
    runs = 4 if quick else 20
    print("speed (ratio: scikit-learn's time over ours)")
    for method in ("sketch", "lifted"):
        for n in (250_000, 500_000, 1_000_000, 2_000_000):
            speed(n, 3, 2, method)
    print("accuracy (in brackets: times the error with all labels known and no privacy)")
    for n in (1_000, 4_000, 10_000, 100_000, 1_000_000):
        # a run of few rows takes little time, and their errors scatter most
        accuracy("the problem k=2 d=2", PROBLEM, n, 5 * runs if n <= 10_000 else runs)
    for name, k, d in (("k=3 d=5", 3, 5), ("k=5 d=2", 5, 2), ("k=1 d=10", 1, 10)):
        truth = random_mixture(k, d, separation=6.0, condition=10.0, rng=3)
        accuracy(name, truth, 1_000_000, max(runs // 4, 2))


if __name__ == "__main__":
    main()
