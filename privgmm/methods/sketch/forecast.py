"""Forecast a release by a sketch before any row is looked at: its chance, and its error.

Both are computed at the mixture that the request is about (`typical`). The error follows from the
information that the sketch and the finish have there, so overlap is part of it.

Notes
-----
An error is a distance dist_GMM (Definition 1.4), and a forecast is its law over releases. Its
information is that of small errors. A request that states a separation only, and no mixture, leaves
open how the components lie: the forecast is for a typical mixture of that separation.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from privgmm.arrays import Array, one_blas_thread
from privgmm.data.people import ArrayPeople
from privgmm.errors import InvalidInput
from privgmm.learners.student import StudentT
from privgmm.methods.typical import whole_of
from privgmm.mixture import Mixture
from privgmm.privacy.noise import SeededNoise
from privgmm.stages.accuracy import ExpectedError, error_law
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.scatter import friend_counts_of_blocks
from privgmm.stages.sketch.agreement_frame import FrameAgreement
from privgmm.stages.sketch.features import SketchShape, columns_apart
from privgmm.stages.sketch.finish import FAINTEST, Finish
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import (
    HistogramFrame,
    pair_bins,
    place_bins,
    width_of,
)
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.stage import Stage, Work

__all__ = ["FIRST_SHARE", "expected_error", "frame_chance"]

FIRST_SHARE = 0.4
"""Share of what the frame leaves that the first sketch takes; the finish takes the rest."""

_DIRECTIONS = {2: 14}
"""Directions of a forecast, by the number of columns, where a sketch has many more: by convention,
for the time."""

_SIMULATED_BLOCKS = 120
"""Blocks that are simulated for a chance; by convention, for the time."""
_SPARE_ROWS = (4, 6, 9, 14, 24, 40)
"""Rows of simulated blocks beyond the number of columns: the most of these that real blocks have. A
grid by convention, so that forecasts for many numbers of rows share their fits."""
_SAMPLED_ROWS, _OFFSETS = 4000, 8
"""Simulated rows, and places where bins may begin, for frames of histograms; by convention."""
_MASKS = 4000
"""Simulated masks, divided by the number of columns; by convention."""
_SEED = 20240611
"""Any fixed number does: the same question then has the same answer."""


# --------------------------------------------------------------------------------------- error


def expected_error(
    mixture: Mixture, frame_stage: Stage, first: Sketch, finish: Finish
) -> ExpectedError:
    """Forecast the law of dist_GMM of releases if the rows come from `mixture`.

    Notes
    -----
    The finish says which way it takes there and what error that leaves. A release decides at the
    mixture that it found, this forecast at the one expected.
    """
    # matrices are small: more threads would take twice the time, mostly waiting for each other
    with one_blas_thread():
        return _expected_error(mixture, frame_stage, first, finish)


def _expected_error(
    mixture: Mixture, frame_stage: Stage, first: Sketch, finish: Finish
) -> ExpectedError:
    frame = _expected_frame(frame_stage, mixture, first.n_units)
    inside = frame.mixture_to_frame(mixture)
    d = mixture.n_features
    usual = first.shape
    shape = dataclasses.replace(usual, n_directions=_DIRECTIONS.get(d, usual.n_directions))
    fewer = math.sqrt(_counted(usual, d) / _counted(shape, d))
    noise = [
        dataclasses.replace(sketch, shape=shape, multiplier=sketch.multiplier / fewer).deviations
        for sketch in (first, finish.again)
    ]
    start = columns_apart(shape.n_directions, d) * shape.n_frequencies
    covariance = finish.error_covariance(
        inside, shape.frequencies(frame)[start:], noise[0][start:], noise[1][start:]
    )
    return error_law(covariance, mixture.weights, bend=finish.bend_of(mixture.n_components))


def _expected_frame(stage: Stage, mixture: Mixture, n_rows: int) -> Frame:
    """Approximate the frame that a stage finds in rows of the mixture.

    It decides how finely the sketch sees components much narrower than the whole. Agreeing blocks
    find the scatter of a fit to the mixture itself. Histograms are drawn from fewer rows, with
    noise that is less in proportion.
    """
    rows = mixture.sample(_SAMPLED_ROWS, rng=_SEED)
    if isinstance(stage, HistogramFrame):
        quieter = _SAMPLED_ROWS / stage.units_of(n_rows)
        small = dataclasses.replace(
            stage,
            scale_sigma=quieter * stage.scale_sigma,
            location_sigma=quieter * stage.location_sigma,
            multipliers=tuple(quieter * multiplier for multiplier in stage.multipliers),
            values=None,
        )
        source = SeededNoise(np.random.default_rng(_SEED))
        work = Work(ArrayPeople.of(rows), source)
        found = small.prepare(work, None).draw(source).value
        if isinstance(found, Frame):
            # not rotated: coordinates of the frame are then along those of the mixture
            return Frame(found.centre, np.linalg.cholesky(found.root @ found.root.T))
        mean, covariance = whole_of(mixture)
        return Frame(mean, np.linalg.cholesky(covariance))
    scatter = StudentT().fit_blocks(rows[None], rng=0)[0]
    return Frame(scatter.means[0], scatter.cholesky[0])


def _counted(shape: SketchShape, d: int) -> float:
    """Return the share of a sketch's directions that fits read."""
    return 1 - columns_apart(shape.n_directions, d) / shape.n_directions


# -------------------------------------------------------------------------------------- chance


def frame_chance(stage: Stage, mixture: Mixture, n_rows: int) -> float:
    """Forecast the chance that a frame is found in rows of the mixture, and so of a release."""
    if isinstance(stage, HistogramFrame):
        return _histogram_chance(stage, mixture, n_rows)
    if isinstance(stage, FrameAgreement):
        return _agreement_chance(stage, mixture, n_rows)
    return stage.pass_probability(n_rows)


@functools.lru_cache(maxsize=64)
def _block_distances(mixture: Mixture, rows_per_block: int) -> Array:
    """Compute distances between the fits of simulated blocks, from a fixed seed."""
    rows = mixture.sample(_SIMULATED_BLOCKS * rows_per_block, rng=_SEED)
    blocks = rows.reshape(_SIMULATED_BLOCKS, rows_per_block, mixture.n_features)
    return LiftedSpace(1.0).distances(StudentT().fit_blocks(blocks, rng=0))


def _agreement_chance(stage: FrameAgreement, mixture: Mixture, n_rows: int) -> float:
    """Forecast by simulated blocks of the mixture, which agree less than Gaussian ones.

    Where its components lie far apart, a block that happens to have more of one than of another
    has another centre and another width.
    """
    rows = stage.rows_in_block(n_rows)
    if rows < stage.least_rows:
        return 0.0
    settled = max(
        (d for spare in _SPARE_ROWS if (d := mixture.n_features + spare) <= rows), default=rows
    )
    distances = _block_distances(mixture, settled) * math.sqrt(settled / rows)
    counts = friend_counts_of_blocks(distances, stage.tau, stage.n_blocks)
    return stage.test.pass_probability(counts) * _holding_chance(stage.eta, mixture.n_features)


@functools.lru_cache(maxsize=64)
def _holding_chance(eta: float, n_features: int) -> float:
    """Forecast the chance that a mask leaves a frame in which the longest waves are seen.

    The last stage refuses other frames (see `finish`). Simulated for rows of one Gaussian, which is
    standard normal: masked, it is ``(I + eta G)(I + eta G)^T``, lifted. Rows in coordinates of the
    masked shape S have the covariance ``S^-1`` or one that is similar, and a wave of the step h
    along its longest axis has the size ``exp(-h^2 |S^-1| / 2)``.
    """
    d = n_features
    rng = np.random.default_rng(_SEED)
    roots = np.eye(d + 1) + eta * rng.standard_normal((_MASKS // d, d + 1, d + 1))
    lifted = roots @ roots.swapaxes(1, 2)
    means = lifted[:, :d, d] / lifted[:, d:, d]
    shapes = lifted[:, :d, :d] / lifted[:, d:, d:] - means[:, :, None] * means[:, None, :]
    thinnest = np.linalg.eigvalsh(shapes)[:, 0]
    step = SketchShape.default(d).step
    return float((thinnest > step**2 / (2 * math.log(1 / FAINTEST))).mean())


class _Shares(NamedTuple):
    """State which share of all pairs and rows of a column falls into each bin, at an offset."""

    pairs: Array
    places: Array


@functools.lru_cache(maxsize=64)
def _shares(mixture: Mixture) -> tuple[tuple[_Shares, ...], ...]:
    """Simulate the shares of each column at each offset of the bins."""
    rows = mixture.sample(_SAMPLED_ROWS, rng=_SEED)
    first, second = np.split(rows, 2)
    columns = []
    for j in range(mixture.n_features):
        found = []
        for offset in ((np.arange(_OFFSETS) + 0.5) / _OFFSETS).tolist():
            bins = pair_bins(first[:, j], second[:, j], offset)
            values, counts = np.unique(bins, return_counts=True)
            width = width_of(values, counts, offset)
            if width is None:
                raise InvalidInput("expected must be a mixture of a width that can be counted in")
            places = np.unique(place_bins(rows[:, j], 2 * width, offset), return_counts=True)[1]
            found.append(_Shares(counts / bins.size, places / len(rows)))
        columns.append(tuple(found))
    return tuple(columns)


def _shown(shares: Array, n: int, sigma: float, threshold: int) -> float:
    """Compute the chance that a histogram of n rows or pairs shows any of its bins."""
    spread = np.sqrt(sigma**2 + n * shares * (1 - shares))
    return float(1 - np.prod(ndtr((threshold - n * shares) / spread)))


def _histogram_chance(stage: HistogramFrame, mixture: Mixture, n_rows: int) -> float:
    """Forecast the chance that every column shows a width and a place, averaged over offsets."""
    chance, n_rows = 1.0, stage.units_of(n_rows)
    for column in _shares(mixture):
        passed = [
            _shown(seen.pairs, n_rows // 2, stage.scale_sigma, stage.scale_threshold)
            * _shown(seen.places, n_rows, stage.location_sigma, stage.location_threshold)
            for seen in column
        ]
        chance *= float(np.mean(passed))
    return chance
