"""Make synthetic rows of real tables: this package, other tools, and the real rows themselves."""

from __future__ import annotations

import abc

import numpy as np

from benchmarks.peers.environments import ENVIRONMENTS, Environment
from benchmarks.peers.synthetic_cases import SyntheticCase, released
from benchmarks.peers.tools import Entrant, synthetic_rows
from benchmarks.peers.workers.job import BINS, COMPONENTS
from privgmm.arrays import Array

__all__ = ["MAKERS", "Maker"]


class Maker(Entrant):
    """Make synthetic rows."""

    @abc.abstractmethod
    def make(self, case: SyntheticCase, run: int) -> Array:
        """Make as many rows as there are to learn from, or raise `Unavailable`."""


class _Ours(Maker):
    key, title = "privgmm", "privgmm {}"
    takes_bounds = needs_bounds = False

    def make(self, case: SyntheticCase, run: int) -> Array:
        drawn = released(case.sheet, run).sample(len(case.rows(run)), rng=run)
        return np.asarray(drawn.to_numpy(dtype=np.float64))


class _Peer(Maker):
    """Another tool, in its environment.

    Columns of few whole numbers are rounded in its rows: a table's types are public, and dpmm
    would round such columns itself if they came as integers.
    """

    takes_bounds = True

    def __init__(
        self, environment: Environment, worker: str, title: str, *, needs_bounds: bool = False
    ) -> None:
        self.key, self.title, self.needs_bounds = worker, title, needs_bounds
        self.environment: Environment = environment

    def make(self, case: SyntheticCase, run: int) -> Array:
        made = synthetic_rows(self.environment, self.key, case.rows(run), case.bounds(run), run)
        return np.where(case.sheet.whole, np.rint(made), made)


class _RealRows(Maker):
    """The rows to learn from: how near to other rows of the table rows can be."""

    key, title = "without", "no privacy: the real rows"
    takes_bounds = needs_bounds = False
    private = False

    def make(self, case: SyntheticCase, run: int) -> Array:
        return case.rows(run)


MAKERS: tuple[Maker, ...] = (
    _Ours(),
    _Peer(ENVIRONMENTS["dpmm"], "dpmm_aim", "dpmm {}, AIM"),
    _Peer(ENVIRONMENTS["dpmm"], "dpmm_mst", "dpmm {}, MST"),
    _Peer(ENVIRONMENTS["smartnoise"], "smartnoise_mst", f"SmartNoise {{}}, MST, {BINS} bins"),
    _Peer(
        ENVIRONMENTS["opendp"], "opendp_aim", f"OpenDP {{}}, AIM, {BINS} bins", needs_bounds=True
    ),
    _Peer(
        ENVIRONMENTS["pycle"],
        "pycle_sketch",
        f"pycle {{}}, private sketch, {COMPONENTS} components",
        needs_bounds=True,
    ),
    _RealRows(),
)
