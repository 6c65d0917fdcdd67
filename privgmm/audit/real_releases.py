"""Releases by the functions that users call: the order of steps, and what goes into blocks.

Other modules attack single mechanisms harder. Here the audit checks that they are put together as
they were priced, with the secure sampler where noise matters.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.endtoend import BlockMoments, changed_fits
from privgmm.audit.findings import Finding, within
from privgmm.budget import Budget, Unit
from privgmm.data.jitter import jittered
from privgmm.errors import BudgetExceeded, PrivGMMError
from privgmm.learners.learner import BlockRandomness
from privgmm.ledger.memory import MemoryLedger
from privgmm.ledger.protocol import Intent
from privgmm.methods.plan import Plan, checked
from privgmm.methods.planner import calibrate
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.noise import KEY_BYTES, SecureNoise
from privgmm.releases import prepare, release
from privgmm.stages.agreement.stage import PreparedAgreement
from privgmm.stages.refinement.noisy_moments import Refinement

__all__ = [
    "caps_hold",
    "fresh_jitter",
    "isolated_learner",
    "order_of_release",
    "persons_in_blocks",
    "refined_plan",
    "rows_in_blocks",
]

# two components far apart, so that all blocks agree
_TRUTH = Mixture([0.6, 0.4], [[0.0, 0.0], [30.0, 10.0]], [np.eye(2), 2 * np.eye(2)])


@functools.lru_cache(maxsize=1)
def _rows() -> Array:
    rows = _TRUTH.sample(4_000, rng=20)
    rows.setflags(write=False)
    return rows


def refined_plan() -> Plan:
    """Plan two components in two columns, agreement and refinement, at a large budget."""
    plan = calibrate(
        "lifted",
        epsilon=5.0,
        delta=1e-3,
        alpha=1.0,
        n_components=2,
        n_features=2,
        n_blocks=80,
    )
    refinement = Refinement((4.0, 4.0), (5.0, 4.0))
    return checked(plan.but(*plan.stages, refinement, budget=Budget(8.0, 1e-3)))


class _Noted(SecureNoise):
    """Secure noise that records every draw; the deal of rows is fixed, so that runs compare."""

    def __init__(self, events: list[str]) -> None:
        object.__setattr__(self, "events", events)

    events: list[str]

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        self.events.append("draw")
        return super().normal(shape)

    def laplace(self, scale: float, size: int) -> Array:
        self.events.append("draw")
        return super().laplace(scale, size)

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        self.events.append("draw")
        return super().discrete_gaussian(sigma, size)

    def seed(self) -> int:
        return 5

    def key(self) -> bytes:
        return bytes(KEY_BYTES)


@dataclasses.dataclass(frozen=True)
class _NotedIntent:
    """An intent that cannot be concluded, as with a full disk."""

    events: list[str]
    kept: Intent

    @property
    def number(self) -> int:
        return self.kept.number

    @property
    def mark(self) -> str:
        return self.kept.mark

    def conclude(self, *, released: bool, reason: str | None = None) -> None:  # noqa: ARG002 - it fails
        self.events.append("conclude")
        raise OSError("no space left")


class _NotedLedger(MemoryLedger):
    def __init__(self, events: list[str], cap: Budget | None = None) -> None:
        super().__init__(cap)
        self.events = events

    def intend(self, plan: Plan, *, seeded: bool, unit: Unit = "row") -> Any:
        kept = super().intend(plan, seeded=seeded, unit=unit)
        self.events.append("intend")
        return _NotedIntent(self.events, kept)


def order_of_release() -> Finding:
    """Check that a release draws only after the ledger was written, and only if allowed."""
    plan, faults = refined_plan(), 0
    events: list[str] = []
    ready = prepare(_rows(), plan, rng=_Noted(events), learner=BlockMoments(2))
    faults += len(events)
    outcome = ready.draw(_NotedLedger(events))
    faults += events[:1] != ["intend"]
    faults += events[-1:] != ["conclude"]
    faults += events.count("intend") != 1 or "draw" not in events
    faults += outcome.ledger_problem is None
    again: list[str] = []
    spent = plan.spent()
    short = Budget(0.9 * spent.epsilon, spent.delta)
    attempts: tuple[Callable[[], object], ...] = (
        lambda: ready.draw(_NotedLedger(again)),
        lambda: release(_rows(), plan, rng=_Noted(again), ledger=_NotedLedger(again, short)),
        lambda: release(_rows(), plan.but(*plan.stages, budget=short), rng=_Noted(again)),
    )
    for attempt in attempts:
        try:
            attempt()
        except (BudgetExceeded, PrivGMMError):
            continue
        faults += 1
    return within(
        "release, the order of steps",
        "draws before the ledger was written, or without leave <= 0",
        faults + len(again),
        0,
        "a release, one drawn twice, one over its cap, one over its budget",
    )


def caps_hold() -> Finding:
    """Release until the ledger refuses: what was allowed must cost less than its cap."""
    plan = refined_plan()
    cap = Budget(20.0, 4e-3)
    ledger = MemoryLedger(cap)
    allowed = 0
    for _ in range(12):
        try:
            ledger.intend(plan, seeded=True).conclude(released=False)
        except BudgetExceeded:
            break
        allowed += 1
    spent = plan.spent()
    # the price by the Rényi account, and by plain addition: one of them must be within the cap
    curve = plan.curve() * allowed
    delta = cap.delta - allowed * plan.price().shortfall
    together = curve.epsilon(delta) if delta > 0 else math.inf
    plain = max(allowed * spent.epsilon / cap.epsilon, allowed * spent.delta / cap.delta)
    return within(
        "ledger, a cap",
        "what was allowed / the cap <= 1",
        min(together / cap.epsilon, plain),
        1 + 1e-9,
        f"{allowed} releases of {spent} under {cap}",
    )


# ------------------------------------------------------------------------- what goes into blocks


def _prepared(rows: Array, learner: Any, groups: IntArray | None = None) -> PreparedAgreement:
    plan = refined_plan()
    ready = prepare(rows, plan, rng=_Noted([]), learner=learner, groups=groups)
    first = ready._first
    if not isinstance(first, PreparedAgreement):
        raise PrivGMMError("a plan of method lifted begins with an agreement")
    return first


def _further(one: PreparedAgreement, two: PreparedAgreement) -> int:
    """Count the fits that changed, beyond the one that may."""
    return max(0, len(changed_fits(one.fits, two.fits)) - 1)


def rows_in_blocks() -> Finding:
    """Check that no row goes into two blocks, and that its block does not depend on its values."""
    rows = _rows()
    one = _prepared(rows, None)
    changed = rows.copy()
    changed[0] = 1e6
    two = _prepared(changed, None)
    twice = one.positions.size - np.unique(one.positions).size
    moved = int(np.count_nonzero(one.positions != two.positions))
    return within(
        "release, rows in blocks",
        "rows in two blocks, or moved by a value, or further fits changed <= 0",
        twice + moved + _further(one, two),
        0,
        "one of 4,000 rows replaced",
    )


def persons_in_blocks() -> Finding:
    """Check that a person has one row in one block, and that replacing them changes one fit."""
    rows = _rows()
    member = np.arange(len(rows), dtype=np.int64) // 2
    member[:7] = 0
    one = _prepared(rows, None, member)
    changed = rows.copy()
    changed[:7] = -1e6
    two = _prepared(changed, None, member)
    owners = member[one.positions.ravel()]
    return within(
        "release, persons in blocks",
        "persons in two places, or further fits changed <= 0",
        owners.size - np.unique(owners).size + _further(one, two),
        0,
        "a person with seven rows replaced",
    )


class _Curious(BlockMoments):
    """A learner by a third party that remembers what it saw, and reads memory around its block."""

    def __init__(self, n_components: int) -> None:
        super().__init__(n_components)
        object.__setattr__(self, "seen", [])

    seen: list[float]

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> MixtureBatch:
        """Move all means by what it could find out about other rows."""
        around = blocks if blocks.base is None else np.asarray(blocks.base)
        fits = super().fit_blocks(blocks, rng=rng)
        shift = 1e-9 * (math.fsum(self.seen) + float(around.sum()) + float(blocks.sum()))
        self.seen.append(float(blocks.sum()))
        return MixtureBatch(fits.weights, fits.means + shift, fits.covariances, fits.ok)


def isolated_learner() -> Finding:
    """Run a curious learner as a release runs it: one row must still change one fit only."""
    rows = _rows()
    changed = rows.copy()
    changed[0] = 1e6
    one, two = (_prepared(part, _Curious(2)) for part in (rows, changed))
    return within(
        "release, a learner by a third party",
        "fits changed by one row <= 1",
        len(changed_fits(one.fits, two.fits)),
        1,
        "it remembers, and reads memory around its block",
    )


def fresh_jitter() -> Finding:
    """Jitter the same rows twice: no draw may repeat."""
    rows = np.zeros((500, 2))
    one, two = (jittered(rows, 1.0) for _ in range(2))
    return within(
        "jitter",
        "draws that repeat <= 0",
        int(np.count_nonzero(one == two)),
        0,
        "1,000 draws, twice",
    )
