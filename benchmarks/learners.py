"""Compare learners on hard mixtures: error and CPU time in one fit of many rows.

Error is the worst over components of the weight, the mean in Mahalanobis distance and the
covariance as the Frobenius norm of the whitened difference, under the best order. "labels" is the
fit that uses every label: the floor. One thread for all; scikit-learn as it comes, and
with tolerance 1e-7 and five starts.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from benchmarks.release import errors, labelled_fit
from privgmm.arrays import Array
from privgmm.data.datasets import random_mixture
from privgmm.errors import InvalidInput
from privgmm.learners.em import EM
from privgmm.learners.em.fitting import warm_em
from privgmm.learners.moments import Moments
from privgmm.learners.moments.fitting import warm_moments
from privgmm.mixture import Mixture

__all__ = ["main"]


def turned(d: int, seed: int) -> Array:
    return np.asarray(np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0])


def same_mean(d: int) -> Mixture:
    q = turned(d, d)
    wide = (q * np.linspace(0.15, 3.0, d)) @ q.T
    return Mixture([0.35, 0.65], np.zeros((2, d)), [np.eye(d), wide])


def pair(d: int, *, weight: float, separation: float, seed: int) -> Mixture:
    """Draw two full, different covariances at a Mahalanobis distance."""
    rng = np.random.default_rng(seed)
    roots = np.eye(d) + 0.3 * rng.standard_normal((2, d, d))
    covariances = roots @ roots.swapaxes(1, 2)
    u = rng.standard_normal(d)
    u *= separation / np.sqrt(u @ np.linalg.solve(covariances.mean(axis=0), u))
    return Mixture([weight, 1 - weight], [np.zeros(d), u], covariances)


def stretched(truth: Mixture) -> Mixture:
    """Stretch all rows until the condition number is a million."""
    d = truth.n_features
    matrix = turned(d, 1) @ np.diag(np.logspace(0, 3, d)) @ turned(d, 2)
    return truth.transformed(matrix, np.zeros(d))


def pancakes(d: int, seed: int) -> Mixture:
    """Place two thin sheets side by side inside a wide Gaussian."""
    thin, other = 0.3 * np.eye(d), 0.5 * np.eye(d)
    thin[0, 0], other[0, 0] = 1e-5, 2e-5
    means = np.zeros((3, d))
    means[1, 0], means[2, 0] = 0.2, 0.23
    sheets = Mixture([0.5, 0.3, 0.2], means, [np.eye(d), thin, other])
    return sheets.transformed(turned(d, seed), np.zeros(d))


CASES: dict[str, Mixture] = {
    "same mean, d=2": same_mean(2),
    "same mean, d=5": same_mean(5),
    "weights .1/.9, d=2": pair(2, weight=0.1, separation=3.0, seed=1),
    "weights .1/.9, d=5": pair(5, weight=0.1, separation=3.0, seed=2),
    "condition 1e6, d=5": stretched(pair(5, weight=0.35, separation=3.0, seed=3)),
    "separation 2, d=1": pair(1, weight=0.35, separation=2.0, seed=4),
    "separation 2, d=10": pair(10, weight=0.35, separation=2.0, seed=5),
    "pancakes, d=2": pancakes(2, 0),
    "pancakes, d=5": pancakes(5, 1),
}


def scikit_learn(rows: Array, k: int, *, careful: bool) -> Mixture:
    options = {"tol": 1e-7, "max_iter": 3000, "n_init": 5} if careful else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = GaussianMixture(k, random_state=0, **options).fit(rows)
    return Mixture(fit.weights_, fit.means_, fit.covariances_)


def learners(k: int) -> dict[str, Callable[[Array], Mixture]]:
    return {
        "EM": lambda rows: EM(k, n_threads=1).fit(rows, rng=0),
        "Fourier": lambda rows: Moments(k, polish=0).fit(rows, rng=0),
        "  +5 EM": lambda rows: Moments(k, polish=5).fit(rows, rng=0),
        "Hermite": lambda rows: Moments(k, features="hermite", polish=0).fit(rows, rng=0),
        "  +5  EM": lambda rows: Moments(k, features="hermite", polish=5).fit(rows, rng=0),
        "Moments": lambda rows: Moments(k).fit(rows, rng=0),
        "sklearn": lambda rows: scikit_learn(rows, k, careful=False),
        "careful": lambda rows: scikit_learn(rows, k, careful=True),
    }


def hard_cases(n: int, *, quick: bool) -> None:
    names = [name for name in learners(2) if not (quick and name == "careful")]
    print(f"One fit of {n:g} rows. Error, and CPU seconds below; '-' is an honest refusal.")
    print(f"{'':20}{'labels':>8}" + "".join(f"{name:>10}" for name in names))
    for case, truth in CASES.items():
        rows, labels = truth.sample_with_labels(n, rng=1)
        k = truth.n_components
        error, seconds = "", ""
        for name in names:
            start = time.process_time()
            try:
                shown = f"{max(errors(truth, learners(k)[name](rows))):.3f}"
            except InvalidInput:
                shown = "-"
            error += f"{shown:>10}"
            seconds += f"{time.process_time() - start:>10.2f}"
        floor = max(errors(truth, labelled_fit(rows, labels, k)))
        print(f"{case:20}{floor:8.3f}{error}\n{'':28}{seconds}", flush=True)


def random_cases(n: int, runs: int) -> None:
    """Compute the share of random mixtures recovered within three times the floor."""
    print(f"\nRandom mixtures, {n:g} rows, {runs} each: share with error under 3 x the floor.")
    print(f"{'':20}" + "".join(f"{name:>10}" for name in ("Fourier", "Moments", "EM", "sklearn")))
    for k, d in ((3, 2), (3, 5), (4, 2), (4, 5)):
        found = dict.fromkeys(("Fourier", "Moments", "EM", "sklearn"), 0)
        for seed in range(runs):
            truth = random_mixture(k, d, separation=2.5, condition=9.0, weights="unequal", rng=seed)
            rows, labels = truth.sample_with_labels(n, rng=seed)
            bar = 3 * max(errors(truth, labelled_fit(rows, labels, k)))
            for name in found:
                try:
                    found[name] += max(errors(truth, learners(k)[name](rows))) < bar
                except InvalidInput:
                    continue
        print(
            f"{f'k={k}, d={d}':20}" + "".join(f"{hits / runs:10.1f}" for hits in found.values()),
            flush=True,
        )


def blocks(n_blocks: int) -> None:
    """Fit what a release asks for: many small blocks."""
    print("\nMany blocks: CPU ms a block, share fitted, and share as likely as EM's or more.")
    for k, d, s in ((2, 2, 200), (2, 2, 1000), (3, 2, 1000), (2, 5, 1000)):
        truth = random_mixture(k, d, separation=3.0, condition=9.0, weights="unequal", rng=1)
        rows = truth.sample(n_blocks * s, rng=0).reshape(n_blocks, s, d)
        theirs = EM(k, n_threads=1).fit_blocks(rows, rng=0)
        start = time.process_time()
        ours = Moments(k).fit_blocks(rows, rng=0)
        cost = 1e3 * (time.process_time() - start) / n_blocks
        both = np.flatnonzero(ours.ok & theirs.ok).tolist()
        gaps = [
            float(ours[i].log_density(rows[i]).sum() - theirs[i].log_density(rows[i]).sum())
            for i in both
        ]
        print(
            f"k={k} d={d} s={s:5d}: {cost:6.1f} ms, {ours.ok.mean():.0%} fitted (EM "
            f"{theirs.ok.mean():.0%}), {np.mean(np.array(gaps) > -0.1):.0%} as likely",
            flush=True,
        )


def main() -> None:
    """Print the tables; ``--quick`` on the command line for short ones."""
    quick = "--quick" in sys.argv
    warm_em()
    warm_moments()
    with threadpool_limits(1):
        hard_cases(20_000 if quick else 100_000, quick=quick)
        random_cases(10_000 if quick else 50_000, 3 if quick else 10)
        blocks(20 if quick else 100)


if __name__ == "__main__":
    main()
