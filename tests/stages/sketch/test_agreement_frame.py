"""The frame by agreement: the same in any units, and refused where it cannot serve."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from privgmm.arrays import Array, IntArray
from privgmm.data.people import ArrayPeople
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.privacy.noise import NoiseSource, SeededNoise
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.form import Form
from privgmm.stages.sketch.agreement_frame import FrameAgreement, PreparedFrame
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.stage import Bottom, Drawn, StageView, Work

STAGE = FrameAgreement(
    n_components=1,
    n_features=2,
    mask_accuracy=1.0,
    beta=0.1,
    test=AgreementTest(60, 4.0, 2.0, 8, 31, 40, 40),
    eta=0.1,
    learner="student",
)
ROWS = np.random.default_rng(3).standard_normal((900, 2)) @ [[1.0, 0.6], [0.0, 0.8]]


def frame_of(rows: Array, seed: int = 5) -> Frame:
    source = SeededNoise(np.random.default_rng(seed))
    work = Work(ArrayPeople.of(rows), source)
    value = STAGE.prepare(work, None).draw(source).value
    assert isinstance(value, Frame)
    return value


@pytest.mark.parametrize(
    ("scale", "shift"), [(1.0, 1e6), (1e-6, 0.0), (1e9, -3.0), (np.array([1e5, 1e-3]), 7.0)]
)
def test_shifted_and_scaled_rows_have_the_shifted_and_scaled_frame(
    scale: Array | float, shift: float
) -> None:
    """With equal seeds, the public grid is so fine that no unit of a column shows."""
    plain, moved = frame_of(ROWS), frame_of(ROWS * scale + shift)
    assert moved.root / plain.root == pytest.approx(
        np.broadcast_to(np.reshape(np.broadcast_to(scale, 2), (2, 1)), (2, 2)), rel=1e-6
    )
    gap = plain.to_frame(((moved.centre - shift) / scale)[None])
    assert np.abs(gap).max() < 1e-6


@pytest.mark.parametrize("shear", [1e3, 1e5])
def test_sheared_rows_have_the_sheared_frame(shear: float) -> None:
    """A multiple of the first column added to the second one: factors go with it."""
    turn = np.array([[1.0, 0.0], [shear, 1.0]])
    plain, moved = frame_of(ROWS), frame_of(ROWS @ turn.T)
    back = np.array([[1.0, 0.0], [-shear, 1.0]])
    assert plain.inverse @ (back @ moved.root) == pytest.approx(np.eye(2), abs=1e-5)


PART = dataclasses.replace(STAGE, rows_per_block=6)


def fits_of(rows: Array) -> tuple[IntArray, Array]:
    """Return which rows are dealt, and the fits of all blocks (t, 6)."""
    source = SeededNoise(np.random.default_rng(5))
    work = Work(ArrayPeople.of(rows), source)
    found = PART.prepare(work, None).agreement
    numbers = [found.fits.means.reshape(60, -1), found.fits.cholesky.reshape(60, -1)]
    return found.positions, np.concatenate(numbers, axis=1)


def test_a_row_changes_its_own_block_or_none() -> None:
    """Blocks of a part of the rows: which rows they are does not depend on what rows hold."""
    positions, before = fits_of(ROWS)
    assert positions.shape == (60, 6)
    inside, outside = int(positions[17, 2]), int(np.setdiff1d(np.arange(900), positions)[100])
    for row, changed in ((inside, [17]), (outside, [])):
        other = ROWS.copy()
        other[row] = [-1e9, 3.0]
        dealt, after = fits_of(other)
        assert np.array_equal(dealt, positions)
        assert np.flatnonzero((after != before).any(axis=1)).tolist() == changed


def test_a_part_of_the_rows_costs_and_promises_what_so_many_rows_do() -> None:
    assert PART.price() == STAGE.price()
    assert PART.pass_probability(10**6) == STAGE.pass_probability(360)
    assert PART.pass_probability(300) == STAGE.pass_probability(300)
    assert PART.rows_in_block(10**6) == 6
    assert PART.least_units() == STAGE.least_units()
    assert PART.rows_needed(0.5) in (STAGE.rows_needed(0.5), np.inf)
    assert any("6 rows per block" in said for said in PART.sentences())


@pytest.mark.parametrize("stage", [STAGE, PART])
def test_the_part_is_written_down_and_read_back(stage: FrameAgreement) -> None:
    """Files from before there was such a part do not have the field: all rows."""
    written = stage.to_dict()
    assert ("rows_per_block" in written) == (stage is PART)
    assert FrameAgreement.from_form(Form(written, "plan"), 1, 2) == stage


@pytest.mark.parametrize("rows", [0, 3, 2.5, "many"])
def test_a_part_too_small_for_a_fit_is_refused(rows: object) -> None:
    with pytest.raises(InvalidInput, match="rows_per_block"):
        dataclasses.replace(STAGE, rows_per_block=rows)  # type: ignore[arg-type]  # refused
    with pytest.raises(InvalidInput, match="rows_per_block"):
        FrameAgreement.from_form(Form({**STAGE.to_dict(), "rows_per_block": rows}, "plan"), 1, 2)


SEEN = StageView()


@dataclasses.dataclass(frozen=True, eq=False)
class Flat:
    """An agreement whose mask came out flat, beyond what coordinates can be made of."""

    def draw(self, source: NoiseSource) -> Drawn:
        roots = [[[1.0, 0.0], [1.0, 1e-15]]]
        return Drawn(Mixture.from_roots([1.0], [[0.0, 0.0]], roots), SEEN)


def test_a_flat_frame_is_refused_and_does_not_raise() -> None:
    """Noise is drawn by then, and what is public decides."""
    drawn = PreparedFrame(Flat()).draw(SeededNoise(np.random.default_rng(0)))  # type: ignore[arg-type]  # a double
    assert isinstance(drawn.value, Bottom)
    assert drawn.view is SEEN
