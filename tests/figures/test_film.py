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
    window_of,
)
from privgmm.figures.mixtures import NONPRIVATE, PRIVATE
from privgmm.figures.votes import distances_figure, threshold_figure, votes_figure
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.blocks import deal
from privgmm.stages.agreement.votes import AgreementTest, Verdict, friend_counts, h_index


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


def test_pick_and_mean_are_told_apart(truth: Mixture) -> None:
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


# -------------------------------------------------------------------------------- voting


def _test(t: int) -> AgreementTest:
    return AgreementTest(
        n_blocks=t,
        radius=1.0,
        sigma=2.0,
        threshold=6,
        member=t // 2 + 2,
        full=t // 2 + 4,
        core=t // 2,
    )


def _distances(t: int = 60) -> np.ndarray:
    points = np.random.default_rng(5).normal(0, 0.45, t)
    distances = np.abs(points[:, None] - points[None, :])
    distances[3] = distances[:, 3] = np.inf
    return distances


def test_the_colours_of_distances_break_at_the_radius() -> None:
    figure = distances_figure(_distances(), 0.8)
    heat = figure.data[0]
    breaks = [place for place, _ in heat.colorscale]
    assert breaks[1] == breaks[2] == pytest.approx(0.8 / heat.zmax)
    near, far = figure.data[1:3]
    finite = _distances()[np.triu_indices(60, 1)]
    assert max(near.x) <= 0.8 < min(far.x)
    assert sum(near.y) + sum(far.y) == np.isfinite(finite).sum()


def test_a_hopeless_radius_still_draws() -> None:
    figure = distances_figure(_distances(), 1e-9)
    assert all(place <= 1 for place, _ in figure.data[0].colorscale)
    nothing = distances_figure(np.full((6, 6), np.inf), 0.5)
    assert np.isnan(np.asarray(nothing.data[0].z, dtype=float)).all()


def test_votes_meet_the_line_at_h() -> None:
    counts = friend_counts(_distances(), 1.0)
    test = _test(60)
    h = h_index(counts, test.full, test.core)
    assert h > 0
    figure = votes_figure(counts, test)
    (mark,) = _named(figure, "they meet: h")
    assert mark.x[0] == test.core + h
    assert mark.y[0] == test.full + h
    # the staircase is at or above the mark here, and below the line one step on
    ranked = np.sort(counts)[::-1]
    assert ranked[test.core + h - 1] >= test.full + h
    assert ranked[test.core + h] < test.full + h + 1
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert sorted(np.concatenate([bar.y for bar in bars])) == sorted(counts)


def test_votes_without_a_core_have_no_mark() -> None:
    figure = votes_figure(np.ones(60, dtype=np.int64), _test(60))
    assert not _named(figure, "they meet: h")


def test_the_papers_votes_show_their_mean() -> None:
    counts = friend_counts(_distances(), 1.0)
    figure = votes_figure(counts, PopulousTest(60, 1.0, 1.0, 1e-4))
    (line,) = _named(figure, "their mean, Q t")
    assert line.y[0] == pytest.approx(counts.mean())


def _verdict(statistic: float, threshold: float) -> Verdict:
    empty = np.zeros(60)
    return Verdict(True, empty.astype(np.int64), empty, 0, statistic, statistic + 1, threshold)


def test_the_shaded_part_is_the_chance_to_pass() -> None:
    test = _test(60)
    figure = threshold_figure(_verdict(5, 6), test)
    (released,) = _named(figure, "releases")
    assert sum(released.y) == pytest.approx(DiscreteGaussian(2.0).survival(1), abs=1e-4)
    assert min(released.x) >= 6
    assert not _named(threshold_figure(_verdict(-1, -3), test), "releases")


def test_the_papers_noise_is_shown_within_its_bound() -> None:
    test = PopulousTest(400, 1.0, 1.0, 1e-4)
    figure = threshold_figure(_verdict(0.95, test.threshold), test)
    shown = np.concatenate([t.x for t in figure.data if t.name in ("releases", "refuses")])
    assert np.ptp(shown) == pytest.approx(2 * test.noise.bound)
    (released,) = _named(figure, "releases")
    area = np.trapezoid(released.y, released.x)
    assert area == pytest.approx(1 - float(test.noise.cdf(test.threshold - 0.95)), rel=0.02)
