"""Compare EM over blocks with a loop of scikit-learn's GaussianMixture, within one run.

CPU time, one thread for both; scikit-learn at tol 1e-6 (its default of 1e-3 stops several
standard errors short) on some of the blocks, scaled to all of them. Both are scored by the
log-likelihood of their own fits, computed by the same code.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from privgmm.learners.em import EM
from privgmm.learners.em.fitting import warm_em
from privgmm.mixture import Mixture, MixtureBatch

__all__ = ["main", "run"]

CASES = (
    (100_000, 200, 2, 2),
    (1_000_000, 500, 2, 3),
    (1_000_000, 500, 8, 4),
    (2_000_000, 200, 2, 3),
)
SEPARATIONS = (4.0, 2.5)


HARD_CASES = (
    ("separation 5", 2, 3, 5.0, None, 4.0),
    ("separation 2.5", 2, 3, 2.5, None, 4.0),
    ("smallest weight 0.05", 2, 3, 4.0, 0.05, 4.0),
    ("weight 0.05, separation 2.5", 2, 3, 2.5, 0.05, 4.0),
    ("condition 1e6", 2, 3, 4.0, None, 1e6),
    ("d=8 k=4, weight 0.05", 8, 4, 4.0, 0.05, 4.0),
    ("k=10", 2, 10, 4.0, None, 4.0),
)
"""Name, d, k, separation, smallest weight, condition number of the components."""


def random_mixture(
    k: int,
    d: int,
    separation: float,
    rng: np.random.Generator,
    smallest: float | None = None,
    condition: float = 4.0,
) -> Mixture:
    """Draw full covariances and weights, at a given least Mahalanobis distance of means."""
    weights = 0.5 / k + 0.5 * rng.dirichlet(np.full(k, 10.0))
    if smallest is not None:
        weights[0] = 0.0
        weights *= (1 - smallest) / weights.sum()
        weights[0] = smallest
    turns = np.linalg.qr(rng.standard_normal((k, d, d)))[0]
    roots = turns * np.exp(rng.uniform(-0.25, 0.25, (k, 1, d)) * np.log(condition))
    covariances = roots @ roots.swapaxes(1, 2)
    means = rng.standard_normal((k, d))
    gaps = [
        np.sqrt(
            (means[i] - means[j])
            @ np.linalg.solve((covariances[i] + covariances[j]) / 2, means[i] - means[j])
        )
        for i in range(k)
        for j in range(i)
    ]
    return Mixture(weights, means * separation / min(gaps), covariances)


def measure(n: int, t: int, d: int, k: int, separation: float, per_mixture: int) -> dict[str, Any]:
    """Run one case: an eighth of the blocks from each of 8 new mixtures; medians over those."""
    rng = np.random.default_rng([n, t, d, k])
    s = n // t
    learner = EM(k, n_threads=1)
    ours, sklearn = np.empty(8), np.empty(8)
    mine, other, failed = [], [], 0
    for mixture in range(8):
        source = random_mixture(k, d, separation, rng)
        blocks = source.sample((t // 8) * s, rng=rng).reshape(t // 8, s, d)
        start = time.process_time()
        fits = learner.fit_blocks(blocks, rng=0)
        ours[mixture] = (time.process_time() - start) / len(blocks)
        failed += int((~fits.ok).sum())
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            times = []
            for i in range(per_mixture):
                start = time.process_time()
                fit = GaussianMixture(k, tol=1e-6, max_iter=2000, random_state=i).fit(blocks[i])
                times.append(time.process_time() - start)
                other.append(float(fit.score(blocks[i])))
                mine.append(fits[i].log_density(blocks[i]).mean() if fits.ok[i] else -np.inf)
        sklearn[mixture] = np.mean(times)
    return {
        "case": f"n={n:g} t={t} d={d} k={k}",
        "separation": separation,
        "failed": failed,
        "ours_ms": 1e3 * float(np.median(ours)),
        "sklearn_ms": 1e3 * float(np.median(sklearn)),
        "ratio": float(np.median(sklearn / ours)),
        "ours_loglik": float(np.mean(mine)),
        "sklearn_loglik": float(np.mean(other)),
        "share_as_good": float(np.mean(np.array(mine) >= np.array(other) - 1e-4)),
        "blocks_compared": 8 * per_mixture,
    }


def at_the_optimum(
    d: int,
    k: int,
    separation: float,
    smallest: float | None,
    condition: float,
    n_blocks: int,
    s: int = 2000,
) -> dict[str, float]:
    """Compute each learner's share of blocks within half a nat of EM started from the truth."""
    rng = np.random.default_rng([d, k, int(10 * separation)])
    learners = {"1 start": EM(k, n_restarts=1), "4 starts": EM(k, n_restarts=4), "default": EM(k)}
    found: dict[str, list[float]] = {name: [] for name in (*learners, "scikit-learn")}
    top: list[float] = []
    for _ in range(n_blocks // 4):
        source = random_mixture(k, d, separation, rng, smallest, condition)
        blocks = source.sample(4 * s, rng=rng).reshape(4, s, d)
        fits = {name: learner.fit_blocks(blocks, rng=rng) for name, learner in learners.items()}
        for i, block in enumerate(blocks):
            for name, batch in fits.items():
                found[name].append(_loglik(batch, i, block))
            with threadpool_limits(1), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                theirs = GaussianMixture(k, tol=1e-6, max_iter=2000, random_state=i).fit(block)
                informed = GaussianMixture(
                    k,
                    tol=1e-7,
                    max_iter=2000,
                    reg_covar=0.0,
                    weights_init=source.weights,
                    means_init=source.means,
                    precisions_init=np.linalg.inv(source.covariances),
                ).fit(block)
            found["scikit-learn"].append(s * float(theirs.score(block)))
            top.append(s * float(informed.score(block)))
    return {
        name: float(np.mean(np.array(values) > np.array(top) - 0.5))
        for name, values in found.items()
    }


def _loglik(batch: MixtureBatch, i: int, block: npt.NDArray[np.float64]) -> float:
    return float(batch[i].log_density(block).sum()) if batch.ok[i] else -np.inf


def run(*, quick: bool = False) -> list[dict[str, Any]]:
    """Run all cases; `quick` keeps a fifth of the rows and blocks, a third of the comparisons."""
    warm_em()
    shrink, per_mixture = (5, 1) if quick else (1, 3)
    return [
        measure(n // shrink, t // shrink, d, k, separation, per_mixture)
        for n, t, d, k in CASES
        for separation in SEPARATIONS
    ]


def main() -> None:
    """Print the tables; ``--quick`` on the command line for short ones."""
    quick = "--quick" in sys.argv
    rows = run(quick=quick)
    print(
        "EM over blocks against a loop of scikit-learn, CPU ms a block, one thread, same run; "
        "medians over 8 mixtures.\n"
        f"scikit-learn on {rows[0]['blocks_compared']} of the blocks; log-likelihood a row on "
        "those; 'as good': ours within 1e-4 a row or better.\n"
    )
    print(
        f"{'case':24} {'separation':>10} {'ours':>8} {'sklearn':>8} {'ratio':>7} "
        f"{'ll ours':>10} {'ll sklearn':>10} {'as good':>8} {'failed':>7}"
    )
    for row in rows:
        print(
            f"{row['case']:24} {row['separation']:10.1f} {row['ours_ms']:8.3f} "
            f"{row['sklearn_ms']:8.1f} {row['ratio']:6.0f}x {row['ours_loglik']:10.5f} "
            f"{row['sklearn_loglik']:10.5f} {row['share_as_good']:8.0%} {row['failed']:7d}"
        )
    print("\nshare of blocks (2000 rows) as good as EM started from the truth, up to half a nat")
    print(f"{'case':28} {'scikit-learn':>12} {'1 start':>8} {'4 starts':>8} {'default':>8}")
    for name, d, k, separation, smallest, condition in HARD_CASES:
        n_blocks = 24 if quick else 96
        share = at_the_optimum(d, k, separation, smallest, condition, n_blocks)
        print(
            f"{name:28} {share['scikit-learn']:12.2f} {share['1 start']:8.2f} "
            f"{share['4 starts']:8.2f} {share['default']:8.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
