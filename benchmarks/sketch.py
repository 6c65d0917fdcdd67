"""Measure method `sketch` on real tables: how much of EM's fit a release keeps.

Columns as they are, epsilon 1, delta 1e-6, k = 1..6. Rows are split at random, 80 % to learn from.
The gain over one Gaussian (mean and covariance of the rows, no privacy) in mean held-out log
density, without the worst 0.5 % of rows, is compared with that of EM without privacy.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from benchmarks.tables import HEAPED, TABLES, Split, Table, table
from privgmm import EM, InvalidInput, Mixture, Release, best_plan, release
from privgmm.arrays import Array
from privgmm.errors import PrivacyWarning
from privgmm.stages.sketch.finish import widened
from privgmm.stages.sketch.fitting import NARROWEST
from privgmm.stages.sketch.frame import Frame

__all__ = ["Cell", "best_without_privacy", "cell", "held_out", "main", "one_gaussian"]

MANY_ROWS, FEW_ROWS = 15_000, 5_000
_K = range(1, 7)
_MOST_ROWS = 30_000
_NOISE_SEED = 90_000


def held_out(mixture: Mixture, rows: Array) -> float:
    """Compute the mean log density of the rows, without the worst 0.5 % of them."""
    levels = np.sort(mixture.log_density(rows))
    return float(levels[int(0.005 * len(levels)) :].mean())


def one_gaussian(rows: Array) -> Mixture:
    """Fit one Gaussian with the mean and covariance of the rows."""
    return Mixture([1.0], rows.mean(axis=0)[None], np.atleast_2d(np.cov(rows.T))[None])


def best_without_privacy(rows: Array, k: int, frame: Frame) -> Mixture:
    """Choose the likelier of two EM fits, both with widths of at least a hundredth of the frame.

    Our own starts from many places but cannot fit a component onto repeated values; that of
    scikit-learn, on some rows if there are many, has the floor built in. Without a floor, heaps
    of one value would make likelihoods grow without limit.
    """
    seen = frame.to_frame(rows)
    found = []
    # where a component collapses this one fails; the other cannot
    with contextlib.suppress(InvalidInput):
        found.append(widened(frame.mixture_to_frame(EM(k).fit(rows, rng=0)))[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = GaussianMixture(k, reg_covar=NARROWEST**2, n_init=2, random_state=0)
        fit.fit(seen[:_MOST_ROWS])
    found.append(Mixture(fit.weights_ / fit.weights_.sum(), fit.means_, fit.covariances_))
    levels = [float(one.log_density(seen).mean()) for one in found]
    return frame.mixture_from_frame(found[int(np.argmax(levels))])


@dataclasses.dataclass(frozen=True)
class Cell:
    """Result for one table and one k.

    Parameters
    ----------
    table : Table
    k : int
    rows : int
        Of the table, those held out included.
    result : Release or None
        None if refused.
    gain, other : float
        In held-out log density over one Gaussian, of the release and of EM.
    seconds : float
        CPU time of the release.
    """

    table: Table
    k: int
    rows: int
    result: Release | None
    gain: float = np.nan
    other: float = np.nan
    seconds: float = np.nan

    @property
    def share(self) -> float:
        """Share of EM's gain that the release keeps."""
        return self.gain / self.other

    def __str__(self) -> str:
        if self.result is None:
            return "refused"
        floor = "*" if self.result.floored else ""
        return f"released{floor}" if self.k == 1 else f"{self.share:.0%}{floor}"


def cell(whole: Table, k: int, split: Split) -> Cell:
    """Release, and compare with EM."""
    learn, test = split.learn, split.held_out
    n, d = learn.shape
    plan = best_plan(n, method="sketch", epsilon=1.0, delta=1e-6, n_components=k, n_features=d)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        result = release(learn, plan, rng=_NOISE_SEED + k).result
    seconds = time.process_time() - start
    rows = n + len(test)
    if not isinstance(result, Release):
        return Cell(whole, k, rows, None, seconds=seconds)
    one = held_out(one_gaussian(learn), test)
    gain = held_out(result.mixture, test) - one
    if k == 1:
        return Cell(whole, k, rows, result, gain, 0.0, seconds)
    if result.sketch is not None:
        frame = result.sketch.frame
    else:
        frame = Frame(learn.mean(axis=0), np.linalg.cholesky(np.atleast_2d(np.cov(learn.T))))
    other = held_out(best_without_privacy(learn, k, frame), test) - one
    return Cell(whole, k, rows, result, gain, other, seconds)


def _summary(cells: list[Cell]) -> None:
    released = [one for one in cells if one.result is not None]
    print(f"\nreleased {len(released)} of {len(cells)}")
    for name, low, high in (
        (f"{MANY_ROWS:,} rows or more", MANY_ROWS, np.inf),
        (f"{FEW_ROWS:,} to {MANY_ROWS:,} rows", FEW_ROWS, MANY_ROWS),
    ):
        shares = np.array([one.share for one in released if one.k > 1 and low <= one.rows < high])
        if shares.size:
            print(
                f"{name}: {shares.size} cells with k >= 2, share of EM's gain on average "
                f"{shares.mean():.1%} ({np.minimum(shares, 1).mean():.1%} if none counts more than "
                f"100 %), at worst {shares.min():.0%}, {(shares < 0).sum()} negative"
            )
    print(f"CPU seconds per release: {np.mean([one.seconds for one in cells]):.1f}")


def _flight_times(cells: list[Cell]) -> None:
    """Compute the mean log density of held-out rows, by which other tools are judged."""
    for one in cells:
        if one.table.name == "flights" and one.k == 3 and one.result is not None:
            split = one.table.split()
            mine = one.result.mixture.log_density(split.held_out).mean()
            print(f"air_time, distance, k = 3: held-out log density {mine:.3f}")


def main() -> None:
    """Print a table in Markdown; ``--quick`` for three tables, ``--only=`` names with commas.

    ``--heaped`` takes the tables of which many rows share a value in some column.
    """
    quick = ["flights", "401ksubs", "seattle"] if "--quick" in sys.argv else []
    names = [name for one in sys.argv if one.startswith("--only=") for name in one[7:].split(",")]
    usual = HEAPED if "--heaped" in sys.argv else TABLES
    chosen = [table(name) for name in names or quick] or list(usual)
    missing = [one.missing for one in chosen if one.missing is not None]
    if missing:
        sys.exit(missing[0])
    print("| table | rows | columns | " + " | ".join(f"k = {k}" for k in _K) + " | misfits |")
    print("|---" * (4 + len(_K)) + "|")
    cells: list[Cell] = []
    for whole in chosen:
        split = whole.split()
        line = [cell(whole, k, split) for k in _K]
        misfits = ", ".join(
            "" if one.result is None else f"{one.result.misfit or 0:.0f}" for one in line
        )
        shown = " | ".join(str(one) for one in line)
        columns = ", ".join(whole.columns)
        print(f"| {whole.name} | {line[0].rows:,} | {columns} | {shown} | {misfits} |", flush=True)
        cells += line
    print("\n*: a component was narrower than a hundredth of the frame, and was widened")
    _summary(cells)
    _flight_times(cells)
