"""Run what is compared: this package, other tools, its baselines, and EM without privacy."""

from __future__ import annotations

import abc
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from benchmarks.peers.cases import Case, MixtureCase
from benchmarks.peers.environments import ENVIRONMENTS, Environment, Unavailable
from benchmarks.peers.workers.job import BINS, Job
from privgmm import Budget, Mixture, Release, best_plan, release
from privgmm.arrays import Array
from privgmm.baselines import Baseline, Box, all_baselines
from privgmm.errors import PrivacyWarning

__all__ = ["BUDGET", "TIMEOUT", "TOOLS", "Entrant", "Tool", "em", "synthetic_rows"]

BUDGET = Budget(1.0, 1e-6)
TIMEOUT = 900
"""Seconds of processor time that a run of another tool may take."""

_STARTS = 4


def em(rows: Array, k: int, least_width: float) -> Mixture:
    """Fit by scikit-learn's EM, the likeliest of four starts, in standardised columns.

    Parameters
    ----------
    rows : array (n, d)
    k : int
    least_width : float
        Of a component, in standard deviations of the columns: rows heaped on few values would
        draw components of no width at all.
    """
    middle, spread = rows.mean(axis=0), rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = GaussianMixture(
            k, n_init=_STARTS, max_iter=300, reg_covar=least_width**2, random_state=0
        ).fit((rows - middle) / spread)
    found = Mixture(fitted.weights_ / fitted.weights_.sum(), fitted.means_, fitted.covariances_)
    return found.transformed(np.diag(spread), middle)


def synthetic_rows(
    environment: Environment, worker: str, rows: Array, bounds: Box | None, run: int
) -> Array:
    """Ask another tool for as many synthetic rows, or raise `Unavailable` with the reason."""
    told = None
    if bounds is not None:
        told = list(zip(bounds.low.tolist(), bounds.high.tolist(), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        read, made, job = (Path(folder) / name for name in ("rows.npy", "made.npy", "job.json"))
        np.save(read, rows)
        Job(str(read), str(made), told, BUDGET.epsilon, BUDGET.delta, run).save(job)
        environment.run(worker, job, TIMEOUT)
        return np.asarray(np.load(made), dtype=np.float64)


class Entrant(abc.ABC):
    """One line of the tables."""

    key: str
    title: str
    """Title, with a place for its version if it has one of its own."""
    takes_bounds: bool
    """Whether it takes bounds at all."""
    needs_bounds: bool
    """Whether it needs bounds."""
    private: bool = True
    environment: Environment | None = None
    """Environment in which it is installed, if it is not this package."""

    def plays(self, case: Case) -> bool:
        """Whether there is anything to run: only tools that take bounds are given any."""
        told = case.situation.width is not None
        if told:
            return self.takes_bounds
        # those who need bounds keep the old ones where the rows have moved
        return not self.needs_bounds or case.situation.shift != 0


class Tool(Entrant):
    """Learn mixtures."""

    @abc.abstractmethod
    def learn(self, case: MixtureCase, run: int) -> Mixture:
        """Learn a mixture, or raise `Unavailable` with the reason."""


def _told(tool: Tool, case: Case) -> bool:
    return tool.needs_bounds or case.situation.width is not None


class _Ours(Tool):
    key, title = "privgmm", "privgmm {}"
    takes_bounds = needs_bounds = False

    def learn(self, case: MixtureCase, run: int) -> Mixture:
        rows = case.rows(run)
        n, d = rows.shape
        plan = best_plan(
            n,
            epsilon=BUDGET.epsilon,
            delta=BUDGET.delta,
            n_components=case.n_components,
            n_features=d,
        )
        with warnings.catch_warnings():
            # the same rows again and again, with seeds
            warnings.simplefilter("ignore", PrivacyWarning)
            result = release(rows, plan, rng=run).result
        if not isinstance(result, Release):
            raise Unavailable(f"refused: {result.reason}")
        return result.mixture


class _Peer(Tool):
    """Another tool, with the common EM on its synthetic rows."""

    takes_bounds = True

    def __init__(
        self, environment: Environment, worker: str, title: str, *, needs_bounds: bool
    ) -> None:
        self.key, self.title, self.needs_bounds = worker, title, needs_bounds
        self.environment: Environment = environment

    def learn(self, case: MixtureCase, run: int) -> Mixture:
        bounds = case.bounds if _told(self, case) else None
        made = synthetic_rows(self.environment, self.key, case.rows(run), bounds, run)
        return em(made, case.n_components, case.least_width)


class _Baseline(Tool):
    """A baseline of this package, with its own last step."""

    takes_bounds = needs_bounds = True

    def __init__(self, baseline: Baseline) -> None:
        self.key, self.title = f"baseline-{baseline.name}", f"{baseline.title} (baseline)"
        self._baseline = baseline

    def learn(self, case: MixtureCase, run: int) -> Mixture:
        return self._baseline.release(
            case.rows(run),
            n_components=case.n_components,
            budget=BUDGET,
            bounds=case.bounds,
            rng=run,
        ).mixture


class _WithoutPrivacy(Tool):
    key, title = "without", "no privacy: EM on the rows"
    takes_bounds = needs_bounds = False
    private = False

    def learn(self, case: MixtureCase, run: int) -> Mixture:
        return em(case.rows(run), case.n_components, case.least_width)


_BINNED = f"{BINS} bins"

TOOLS: tuple[Tool, ...] = (
    _Ours(),
    _Peer(ENVIRONMENTS["dpmm"], "dpmm_aim", "dpmm {}, AIM", needs_bounds=False),
    _Peer(
        ENVIRONMENTS["smartnoise"],
        "smartnoise_mst",
        f"SmartNoise {{}}, MST, {_BINNED}",
        needs_bounds=False,
    ),
    _Peer(ENVIRONMENTS["opendp"], "opendp_aim", f"OpenDP {{}}, AIM, {_BINNED}", needs_bounds=True),
    _Peer(
        ENVIRONMENTS["diffprivlib"],
        "diffprivlib_histogram",
        f"diffprivlib {{}}, histogram, {_BINNED}",
        needs_bounds=True,
    ),
    _Peer(
        ENVIRONMENTS["diffprivlib"],
        "diffprivlib_cleared",
        "diffprivlib {}, small counts dropped",
        needs_bounds=True,
    ),
    *(_Baseline(one) for one in all_baselines() if not one.needs.labels),
    _WithoutPrivacy(),
)
