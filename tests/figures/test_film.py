"""Figures of Algorithm 1: they show what was computed, in one window, in readable colours."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import pytest

from privgmm.data.datasets import random_mixture
from privgmm.figures.film import (
    BLOCK_LOOKS,
    OUTSIDE,
    blocks_figure,
    fits_figure,
    mask_figure,
    refinement_figure,
    representative_figure,
    see_through,
)
from privgmm.figures.mixtures import NONPRIVATE, PRIVATE
from privgmm.figures.window import window_of
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.stages.agreement.blocks import deal


@pytest.fixture(params=[1, 2, 4])
def truth(request: pytest.FixtureRequest) -> Mixture:
    return random_mixture(2, request.param, rng=request.param)


@pytest.fixture
def rows(truth: Mixture) -> np.ndarray:
    return truth.sample(4000, rng=1)


def _fits(truth: Mixture, t: int = 20) -> MixtureBatch:
    rng = np.random.default_rng(0)
    moved = [
        Mixture.from_roots(
            truth.weights,
            truth.means + 0.05 * rng.standard_normal(truth.means.shape),
            truth.cholesky,
        )
        for _ in range(t)
    ]
    batch = MixtureBatch.of(moved)
    ok = np.arange(t) != 3
    return MixtureBatch(batch.weights, batch.means, batch.covariances, ok)


def _named(figure: go.Figure, name: str) -> list[go.Scatter]:
    return [trace for trace in figure.data if trace.name == name]


def _luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("colour", [OUTSIDE, *(look.colour for look in BLOCK_LOOKS)])
def test_colours_stand_out_in_light_and_dark(colour: str) -> None:
    white, dark, mine = 1.0, _luminance("#0E1117"), _luminance(colour)
    assert (white + 0.05) / (mine + 0.05) >= 3
    assert (mine + 0.05) / (dark + 0.05) >= 3


def test_marks_differ_without_colour() -> None:
    assert len({look.symbol for look in BLOCK_LOOKS}) == len(BLOCK_LOOKS)


def test_far_rows_do_not_widen_the_window(rows: np.ndarray) -> None:
    before = window_of(rows)
    spoilt = rows.copy()
    spoilt[:3] = 1e9
    after = window_of(spoilt)
    assert np.ptp(after.x) < 2 * np.ptp(before.x)


def test_coloured_dots_are_the_rows_of_their_block(rows: np.ndarray) -> None:
    positions = deal(len(rows), 40, seed=1)
    figure = blocks_figure(rows, positions, [7, 3])
    for block, look in zip([7, 3], BLOCK_LOOKS, strict=False):
        (trace,) = _named(figure, f"block {block + 1}")
        assert sorted(trace.x) == sorted(rows[positions[block], 0])
        assert trace.marker.color == look.colour


def test_every_fit_is_drawn_once_but_failed_ones(truth: Mixture) -> None:
    fits = _fits(truth)
    rows = truth.sample(2000, rng=2)
    figure = fits_figure(fits, [0, 3], window_of(rows))
    ghosts = [trace for trace in figure.data if trace.legendgroup == "fits of other blocks"]
    pieces = sum(
        int(np.isnan(np.asarray(t.y, dtype=float)).sum()) for t in ghosts if t.y[0] is not None
    )
    outlines_each = 1 if truth.n_features == 1 else truth.n_components
    assert pieces == 18 * outlines_each
    assert len(_named(figure, "block 1")) == 1
    assert not _named(figure, "block 4"), "a failed fit has no outline"


def test_ghost_outlines_lie_at_one_standard_deviation() -> None:
    truth = random_mixture(1, 2, condition=9.0, rng=3)
    figure = fits_figure(MixtureBatch.of([truth]), [0], window_of(truth.sample(500, rng=1)))
    (trace,) = _named(figure, "block 1")
    points = np.stack([trace.x, trace.y], axis=1).astype(float)[:-1] - truth.means[0]
    u = np.linalg.solve(truth.cholesky[0], points.T)
    assert np.linalg.norm(u, axis=0) == pytest.approx(1.0)


def test_pick_and_mean_look_different(truth: Mixture) -> None:
    fits, window = _fits(truth), window_of(truth.sample(500, rng=1))
    weights = np.zeros(len(fits))
    weights[:5] = 1
    mean = representative_figure(fits, weights, truth, window, picked=False)
    assert _named(mean, "agree and count")
    assert _named(mean, "their mean")
    pick = representative_figure(fits, weights, truth, window, picked=True)
    assert not _named(pick, "agree and count")
    assert _named(pick, "the picked fit")
    assert _named(pick, "all fits")


def test_mask_and_refinement_mark_what_is_released(truth: Mixture) -> None:
    window = window_of(truth.sample(500, rng=1))
    other = Mixture.from_roots(truth.weights, truth.means + 0.3, truth.cholesky)
    masked = mask_figure(truth, other, [truth, other], window)
    assert _named(masked, "after the mask")[0].line.color == PRIVATE.colour
    assert _named(masked, "before the mask")[0].line.color == NONPRIVATE.colour
    assert _named(masked, "other draws of the noise")
    polished = refinement_figure(other, truth, window, true=truth)
    assert _named(polished, "after refinement")[0].line.color == PRIVATE.colour
    assert _named(polished, "True mixture")


def test_see_through_keeps_the_hue() -> None:
    assert see_through("#0A0B0C", 0.5) == "rgba(10, 11, 12, 0.5)"
