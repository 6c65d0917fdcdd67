"""Which frames a table can give: after a frame of A was published, B must be able to give it too.

However wide noise is, floating point can give outputs away: a frame that cannot be computed from
one of two neighbours says which of them it was. So for every frame that A publishes the noise is
worked out with which B publishes the same, and B is run with it, by the real code. The frames must
be equal to the last bit.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from privgmm.arrays import Array, IntArray
from privgmm.audit.findings import Finding, within
from privgmm.audit.grids import Levels, needed_noise
from privgmm.data.people import ArrayPeople
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest
from privgmm.privacy.noise import SeededNoise
from privgmm.stages.agreement.lifted_space import Anchored, LiftedSpace
from privgmm.stages.agreement.public_grid import GRID_BITS, noise_bits
from privgmm.stages.sketch.agreement_frame import FrameAgreement, PreparedFrame
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.stage import Work
from tests.audit.mutations import MUTATIONS, mutated
from tests.audit.noisy_only import replayed

OFF_THE_GRID = "means off the public grid"
"""A mutation of the code: what an attacker hopes for."""
ROWS, BLOCKS = 70_000, 1_500
"""Rows enough for a frame that is found by blocks."""


# --------------------------------------------------------------------------- frames by agreement


class Given(Levels):
    """Noise for the fine levels of a mask; the vote before it passes, and the turn is given."""

    def __init__(self, noise: list[Fraction], levels: int) -> None:
        super().__init__(noise, levels)
        object.__setattr__(self, "_votes", 1)

    _votes: int

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        """Return the noise of the vote first, then the levels."""
        if self._votes:
            object.__setattr__(self, "_votes", 0)
            return np.full(size, round(9 * sigma), dtype=np.int64)
        return super().discrete_gaussian(sigma, size)

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        """Return the number that makes a frame face the way it does on the first side."""
        return np.ones(shape)


class Facing(SeededNoise):
    """Seeded noise that turns no frame."""

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        """Return ones."""
        return np.ones(shape)


def prepared(rows: Array, stage: FrameAgreement) -> PreparedFrame:
    """Fit all blocks; both sides are dealt alike."""
    return stage.prepare(Work(ArrayPeople.of(rows), SeededNoise(np.random.default_rng(1))), None)


def masked(ready: PreparedFrame, monkeypatch: pytest.MonkeyPatch) -> Anchored:
    """Return what the mask of this table is given. CONFIDENTIAL."""
    seen: list[Anchored] = []
    real = LiftedSpace.mask

    def noted(space: LiftedSpace, item: Anchored, *, rng: object) -> object:
        seen.append(item)
        return real(space, item, rng=rng)  # type: ignore[arg-type]  # as it came

    with monkeypatch.context() as patch:
        patch.setattr(LiftedSpace, "mask", noted)
        ready.draw(Facing(np.random.default_rng(0)))
    return seen[0]


def impossible_frames(runs: int, monkeypatch: pytest.MonkeyPatch) -> Finding:
    """Publish frames of one table, and each of them again from a neighbour."""
    asked = PlanRequest(n_components=1, n_features=1, n_rows=ROWS, epsilon=2.0, n_blocks=BLOCKS)
    plan = plan_for(asked).plan
    stage = plan.stages[0]
    assert isinstance(stage, FrameAgreement)
    assert isinstance(stage.space, LiftedSpace)
    rows = 3.0 + np.random.default_rng(4).standard_normal((ROWS, 1))
    other = rows.copy()
    # a row that is dealt into a block, whose fit it moves a little
    other[prepared(rows, stage).agreement.positions[0, 0]] += 2.0
    sides = [prepared(one, stage) for one in (rows, other)]
    items = [masked(one, monkeypatch) for one in sides]
    assert not np.array_equal(items[0].means, items[1].means)
    eta = stage.space.eta
    levels = math.ceil(noise_bits(eta, eta, 2, stage.space.reach) / 52)
    source, faults = Facing(np.random.default_rng(5)), 0
    for _ in range(runs):
        frame = sides[0].draw(source).value
        assert isinstance(frame, Frame)
        place, width = float(frame.centre[0]), abs(float(frame.root[0, 0]))
        power = Fraction(2) ** (math.frexp(width)[1] - 1)
        cells = [Fraction(one) / power * 2**GRID_BITS for one in (place, width)]
        again = sides[1].draw(Given(needed_noise(place, width, items[1], eta), levels)).value
        faults += any(cell.denominator != 1 for cell in cells) or again != frame
    return within(
        "frame by agreement",
        "frames that the neighbour cannot publish <= 0",
        faults,
        0,
        f"{runs} frames",
    )


# -------------------------------------------------------------------------- frames by histograms


def impossible_histograms(runs: int) -> Finding:
    """Publish frames of one table, and each of them again from a neighbour with a row far away."""
    rows = 100 + np.random.default_rng(6).standard_normal((600, 2)) @ [[1.0, 0.5], [0.0, 1.0]]
    stage = HistogramFrame(
        n_features=2,
        scale_sigma=2.0,
        location_sigma=3.0,
        miss=1e-3,
        multipliers=(5.0, 5.0),
        radius=2.0,
    )
    other = rows.copy()
    other[0] = 1e9
    first, second = ArrayPeople.of(rows), ArrayPeople.of(other)
    found = [replayed(stage, first, second, None, label="far", seed=i) for i in range(runs)]
    return within(
        "frame by histograms",
        "frames that the neighbour cannot publish <= 0",
        sum(not one.passed for one in found),
        0,
        f"{runs} frames",
    )


# ------------------------------------------------------------------------------------------ tests


def test_a_neighbour_can_publish_every_frame_by_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    found = impossible_frames(20, monkeypatch)
    assert found.passed, found


def test_frames_off_the_grid_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with mutated(next(one for one in MUTATIONS if one.name == OFF_THE_GRID)):
        found = impossible_frames(5, monkeypatch)
    assert not found.passed


def test_a_neighbour_can_publish_every_frame_by_histograms() -> None:
    found = impossible_histograms(15)
    assert found.passed, found


def test_a_frame_by_exact_counts_is_found_out() -> None:
    name = "a round that moves to the exact mean"
    with mutated(next(one for one in MUTATIONS if one.name == name)):
        found = impossible_histograms(3)
    assert not found.passed


@pytest.mark.study
def test_four_thousand_frames_of_either_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    for found in (impossible_frames(4_000, monkeypatch), impossible_histograms(4_000)):
        print(found)  # noqa: T201 - a study
        assert found.passed, found
