"""Processes that release under a shared ledger, for tests that race them and kill them."""

from __future__ import annotations

import json
import multiprocessing
import os
from multiprocessing.context import ForkServerContext
from pathlib import Path

import numpy as np

from privgmm.arrays import Array
from privgmm.budget import Budget, Unit
from privgmm.errors import BudgetExceeded
from privgmm.ledger.protocol import Intent
from privgmm.ledger.sqlite import SQLiteLedger
from privgmm.methods.plan import Plan
from privgmm.methods.planner import calibrate
from privgmm.releases import release

__all__ = ["PLAN", "ROWS", "Watched", "children", "keep_releasing", "race", "spend_until_full"]

PLAN: Plan = calibrate(
    "lifted", epsilon=0.5, delta=1e-6, alpha=1.0, n_components=1, n_features=1, n_blocks=300
)
ROWS: Array = np.random.default_rng(5).standard_normal((33000, 1))


class Watched(SQLiteLedger):
    """Leave a mark outside the ledger at the moment the noise may be drawn."""

    folder: Path
    last: int

    def intend(self, plan: Plan, *, seeded: bool, unit: Unit = "row") -> Intent:
        intent = super().intend(plan, seeded=seeded, unit=unit)
        self.last = intent.number
        (self.folder / f"drawn-{self.last}").touch()
        return intent


def watched(path: Path, folder: Path, cap: Budget | None) -> Watched:
    ledger = Watched(path, "people", cap=cap)
    ledger.folder = folder
    return ledger


def release_once(ledger: Watched) -> None:
    """Release, and only then show the result."""
    outcome = release(ROWS, PLAN, ledger=ledger, rng=None)
    part = ledger.folder / f"part-{os.getpid()}"
    part.write_text(json.dumps({"released": outcome.released}), encoding="utf-8")
    part.replace(ledger.folder / f"shown-{ledger.last}")


def keep_releasing(path: Path, folder: Path) -> None:
    """Release again and again, until killed."""
    (folder / f"started-{os.getpid()}").touch()
    while True:
        release_once(watched(path, folder, None))


def spend_until_full(path: Path, folder: Path, cap: Budget) -> None:
    """Release until the cap refuses."""
    ledger = watched(path, folder, cap)
    while True:
        try:
            release_once(ledger)
        except BudgetExceeded:
            return


def race(path: Path, cap: Budget, tries: int, admitted: list[int]) -> None:
    """Ask for `tries` spends from within this process; note the entries that were allowed."""
    ledger = SQLiteLedger(path, "people", cap=cap)
    for _ in range(tries):
        try:
            admitted.append(ledger.intend(PLAN, seeded=False).number)
        except BudgetExceeded:
            return


def children() -> ForkServerContext:
    """Children forked from a server that has everything loaded: quick to start, clean state."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.ledger.ledger_warm"])
    return context
