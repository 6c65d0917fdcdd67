"""Measure releases of ten columns and more against scikit-learn's EM, within one run.

Errors are those of the worst component, in its own units: of a mean, and of a covariance in
Frobenius norm. EM's are those from the true start; its time is that of a fit by default. The floor
is the error of one look that spends the whole account and goes through the true mixture. Real rows
are flights out of New York: the mean log density of 50,000 held-out rows, without the worst 0.5 %.
"""

from __future__ import annotations

import dataclasses
import sys
import time

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from benchmarks.sketch import held_out
from benchmarks.tables import all_flights
from privgmm import Budget, Mixture, Release, best_plan, release
from privgmm.arrays import Array
from privgmm.data.people import ArrayPeople
from privgmm.privacy.curves import ORDERS, RenyiCurve
from privgmm.privacy.gaussian_account import mu_squared_after
from privgmm.privacy.noise import SeededNoise
from privgmm.stages.refinement.look_solution import Seen, solve_looks
from privgmm.stages.refinement.soft_looks import SoftLook, Units, noisy_look

__all__ = ["FLIGHTS", "Run", "cell", "errors", "flights", "floor", "generated", "main", "one_run"]

BUDGET = Budget(1.0, 1e-6)
COLUMNS, COMPONENTS = (10, 15, 20, 30, 50), (2, 4)
MIXTURES = 3
"""Mixtures per line, none of which was used to choose a constant."""
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


@dataclasses.dataclass(frozen=True)
class Run:
    """One release of generated rows, next to EM and the floor.

    Parameters
    ----------
    found, em, floor : tuple of two floats
        Errors of means and of covariances; `found` is infinite after a refusal.
    seconds, em_seconds : float
        CPU time of planning and releasing, and of one fit by EM.
    resolution : tuple of str
        What the release says of its components; empty after a refusal.
    """

    found: tuple[float, float]
    em: tuple[float, float]
    floor: tuple[float, float]
    seconds: float
    em_seconds: float
    resolution: tuple[str, ...]

    @property
    def released(self) -> bool:
        """Check whether there was a mixture."""
        return bool(self.resolution)


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
    plan = best_plan(n, n_components=k, n_features=d, epsilon=BUDGET.epsilon, delta=BUDGET.delta)
    result = release(rows, plan, rng=seed).result
    ours = time.process_time() - start
    start = time.process_time()
    with threadpool_limits(1):
        fit = GaussianMixture(k, random_state=seed).fit(rows)
    return (result if isinstance(result, Release) else None), ours, fit, time.process_time() - start


def floor(rows: Array, truth: Mixture, seed: int) -> Mixture:
    """Look once, with the whole account, through the mixture that the rows come from."""
    n, d = rows.shape
    nothing = RenyiCurve(np.zeros_like(ORDERS))
    multiplier = mu_squared_after(nothing, BUDGET.epsilon, BUDGET.delta) ** -0.5
    look = SoftLook.wide(d, n, n * float(truth.weights.min()), multiplier, 0.0)
    units = Units(np.zeros(d), np.ones(d))
    source = SeededNoise(np.random.default_rng(seed))
    seen = noisy_look(ArrayPeople.of(rows), units, truth, look, source)
    return solve_looks([Seen(seen, truth, look)], n, shrink=False, imitate=False).mixture


def one_run(truth: Mixture, n: int, seed: int) -> Run:
    """Draw rows, release them, and fit them by EM and by one look."""
    rows, k = truth.sample(n, rng=seed), truth.n_components
    result, ours, _, theirs = cell(rows, k, seed)
    with threadpool_limits(1):
        em = GaussianMixture(
            k,
            weights_init=truth.weights,
            means_init=truth.means,
            precisions_init=np.linalg.inv(truth.covariances),
        ).fit(rows)
    return Run(
        (np.inf, np.inf) if result is None else errors(truth, result.mixture),
        errors(truth, Mixture(em.weights_ / em.weights_.sum(), em.means_, em.covariances_)),
        errors(truth, floor(rows, truth, seed)),
        ours,
        theirs,
        () if result is None else result.resolution,
    )


def _line(d: int, k: int, n: int, separation: float, *, runs: int) -> None:
    """Print the medians of one cell; `near` counts runs within three times the floor."""
    done = [
        one_run(generated(d, k, separation, 1000 * d + 10 * k + seed % MIXTURES), n, seed)
        for seed in range(runs)
    ]
    found, em, floors = (
        np.median([getattr(run, name) for run in done], axis=0) for name in ("found", "em", "floor")
    )
    near = [run.found[1] <= 3 * run.floor[1] for run in done]
    unsaid = sum(
        not fine and run.released and "not resolved" not in run.resolution
        for fine, run in zip(near, done, strict=True)
    )
    ours, theirs = np.median([(run.seconds, run.em_seconds) for run in done], axis=0)
    words = [word for run in done for word in run.resolution]
    print(
        f"{n:7d} {separation:4g} {d:3d} {k:2d} {sum(run.released for run in done):4d}/{runs} "
        f"{found[0]:7.3f} {em[0]:7.3f} {found[0] / em[0]:5.2f}x "
        f"{found[1]:7.3f} {em[1]:7.3f} {floors[1]:7.3f} {found[1] / floors[1]:5.2f}x "
        f"{sum(near):3d}/{runs} {unsaid:3d}  "
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
    """Print the tables; ``--quick`` for 20,000 rows and one run per line, ``--runs`` for more."""
    quick = "--quick" in sys.argv
    runs = int(sys.argv[sys.argv.index("--runs") + 1]) if "--runs" in sys.argv else MIXTURES
    print(
        "   rows  sep   d  k released  mean      EM  ratio  covar.      EM   floor  ratio   "
        "near unsaid  CPU s     EM  ratio  resolved/poorly/not"
    )
    for n in (20_000,) if quick else (20_000, 200_000):
        for separation in (6.0, 4.0):
            for d in COLUMNS:
                for k in COMPONENTS:
                    _line(d, k, n, separation, runs=1 if quick else runs)
        for k in (1, 3):
            flights(n, k)


if __name__ == "__main__":
    main()
