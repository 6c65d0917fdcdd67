"""Deliberately broken variants, shown on the Audit page and caught by every audit.

Each breaks one rule that privacy rests on, in a way that a programmer plausibly would. They show
that the audit can fail; the tests break many more rules. Never release real rows with them: the
page runs `SilentMask` on generated rows only.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TypeVar

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.counts import tail
from privgmm.audit.endtoend import BlockMoments, isolation, tiny_stage
from privgmm.audit.findings import Finding, caught
from privgmm.audit.grids import impossible_outputs
from privgmm.audit.guessing import Silence
from privgmm.audit.histograms import lone_bins
from privgmm.audit.sketch_attacks import ORIGIN_FRAME, persons_apart, turned
from privgmm.audit.wiretap import audit_run
from privgmm.budget import Budget
from privgmm.data.people import PersonSum
from privgmm.learners.learner import BlockRandomness
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.noise import NoiseSource, Randomness
from privgmm.stages.agreement.lifted_geometry import unlift
from privgmm.stages.agreement.lifted_space import Anchored, LiftedSpace
from privgmm.stages.agreement.space import MixtureSpace
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.sketch.features import SketchShape, WaveTask
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import Histogram, HistogramFrame
from privgmm.stages.sketch.stage import PreparedSketch, Sketch
from privgmm.stages.stage import Work

__all__ = [
    "FloatingMask",
    "QuietSketch",
    "ShownBins",
    "SilentMask",
    "SummedPersons",
    "WarmStart",
    "broken_findings",
    "with_space",
]

StageT = TypeVar("StageT", bound=Agreement)

_ROWS = 200
"""Rows (or persons) that broken sketches are made of: any number would do."""


@dataclasses.dataclass(frozen=True)
class SilentMask(LiftedSpace):
    """A mask without noise: it is priced at one noise level and publishes what it was given."""

    def mask(self, item: Anchored, *, rng: Randomness) -> Mixture:  # noqa: ARG002 - that is the bug
        """Return the mean as it is, unshuffled."""
        return super().mask(item, rng=Silence())


@dataclasses.dataclass(frozen=True)
class FloatingMask(LiftedSpace):
    """A mask computed in floating point: its last bits show which fit went in."""

    def mask(self, item: Anchored, *, rng: Randomness) -> Mixture:
        """Compute ``U R (I + eta G)`` as one would write it."""
        k, p, _ = item.roots.shape
        noisy = item.roots @ (np.eye(p) + self.eta * rng.normal((k, p, p)))
        weights, means, cholesky = unlift(noisy)
        total = item.weights * weights
        return Mixture.from_roots(
            total / total.sum(),
            item.means + np.einsum("kij,kj->ki", item.cholesky, means),
            item.cholesky @ cholesky,
        )


@dataclasses.dataclass(frozen=True)
class WarmStart(BlockMoments):
    """A learner that starts every block from the fit of the block before."""

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> MixtureBatch:
        """Fit blocks so that one row reaches all later fits."""
        fresh = super().fit_blocks(blocks, rng=rng)
        means = fresh.means.copy()
        for i in range(1, len(fresh)):
            means[i] = 0.9 * means[i] + 0.1 * means[i - 1]
        return MixtureBatch(fresh.weights, means, fresh.covariances, fresh.ok)


@dataclasses.dataclass(frozen=True)
class QuietSketch(Sketch):
    """A sketch that is priced at one noise level and draws half of it."""

    @property
    def sigma(self) -> float:
        """Half of what was priced."""
        return super().sigma / 2


@dataclasses.dataclass(frozen=True, eq=False)
class _EveryRow(PersonSum):
    """A task that takes each row for a person."""

    task: WaveTask

    def __call__(self, rows: Array, starts: IntArray) -> IntArray:
        """Sum over these rows."""
        del starts
        return self.task(rows, np.arange(len(rows) + 1, dtype=np.int64))


@dataclasses.dataclass(frozen=True)
class SummedPersons(Sketch):
    """A sketch in which every row of a person counts in full."""

    def prepare(self, work: Work, public: Frame) -> PreparedSketch:
        """Sum over rows, with noise for averages over the rows of each person."""
        every = _EveryRow(WaveTask(public, self.shape, self.scale))
        return PreparedSketch(self, public, work.people.total(every))


class ShownBins(Histogram):
    """A histogram that shows every bin with a row in it, with noise on its count."""

    def released(
        self, sigma: float, threshold: int, source: NoiseSource
    ) -> tuple[IntArray, IntArray]:
        """Ignore the threshold."""
        return super().released(sigma, -(10**9) * max(threshold, 1), source)


def with_space(stage: StageT, space: MixtureSpace) -> StageT:
    """Exchange the space of a stage: its promise stays, and what is run changes."""
    broken = copy.copy(stage)
    object.__setattr__(broken, "space", space)
    return broken


def broken_findings(rng: np.random.Generator) -> list[Finding]:
    """Run each broken variant against the check that must catch it."""
    shape, n = SketchShape.default(1), _ROWS
    plain, far = turned(n)
    one, other = persons_apart(n)
    promise = Budget(1.0, 1e-6)
    test = tiny_stage(2, n_features=2, budget=promise, sigma=8.0, mask_accuracy=1.0).test
    frame = HistogramFrame(
        n_features=1,
        scale_sigma=20.0,
        location_sigma=30.0,
        miss=1e-8,
        multipliers=(20.0,),
        radius=2.0,
    )
    variants = {
        "no mask noise at all": impossible_outputs(SilentMask(0.25), rng=rng),
        "mask in floating point": impossible_outputs(FloatingMask(0.25), rng=rng),
        "threshold without its margin": tail(
            dataclasses.replace(test, threshold=0), promise.delta, "averaged"
        ),
        "warm start across blocks": isolation(
            WarmStart(2), rng.standard_normal((20, 10, 2)), rng=rng
        ),
        "half the sketch noise": audit_run(
            QuietSketch(shape, 1.0, n, 1), plain, far, ORIGIN_FRAME, label="one turn"
        ),
        "sums over persons' rows at the price of means": audit_run(
            SummedPersons(shape, 1.0, n, 1), one, other, ORIGIN_FRAME, label="persons"
        ),
        "bins of a single row shown": lone_bins(frame, histogram=ShownBins)[1],
    }
    return [caught(name, found) for name, found in variants.items()]
