"""Figures of votes: they show the counts, the radius, the threshold and the noise as they are."""

from __future__ import annotations

import dataclasses

import numpy as np
import plotly.graph_objects as go
import pytest

from privgmm.figures.film import OUTSIDE
from privgmm.figures.mixtures import NONPRIVATE
from privgmm.figures.votes import distances_figure, threshold_figure, votes_figure
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.votes import (
    AgreementTest,
    PrivateTest,
    Verdict,
    friend_counts,
    h_index,
)


def _named(figure: go.Figure, name: str) -> list[go.Scatter]:
    return [trace for trace in figure.data if trace.name == name]


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


@pytest.mark.parametrize("test", [_test(60), PopulousTest(60, 1.0, 1.0, 1e-4)])
def test_every_block_is_in_one_band(test: PrivateTest) -> None:
    counts = np.arange(60, dtype=np.int64) + 1
    figure = votes_figure(counts, test)
    bands = test.read_votes(counts).bands
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert [bar.name for bar in bars] == [band.label for band in bands]
    assert sorted(np.concatenate([bar.y for bar in bars])) == sorted(counts)
    assert [min(bar.y) for bar in bars] == [max(band.least, 1) for band in bands]
    assert bars[0].marker.color == NONPRIVATE.colour
    assert bars[-1].marker.color == OUTSIDE


def test_the_axis_is_named_after_the_statistic() -> None:
    for test, letter in ((_test(60), "h"), (PopulousTest(60, 1.0, 1.0, 1e-4), "Q")):
        figure = threshold_figure(_verdict(0.5, 0.9), test)
        assert figure.layout.xaxis.title.text == f"{letter} + noise"


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
    # without a core it refuses, even where the noise alone would reach the threshold
    low = dataclasses.replace(test, threshold=-3)
    assert not _named(threshold_figure(_verdict(-1, -3), low), "releases")


def test_the_papers_noise_is_shown_within_its_bound() -> None:
    test = PopulousTest(400, 1.0, 1.0, 1e-4)
    figure = threshold_figure(_verdict(0.95, test.threshold), test)
    shown = np.concatenate([t.x for t in figure.data if t.name in ("releases", "refuses")])
    assert np.ptp(shown) == pytest.approx(2 * test.noise.bound)
    (released,) = _named(figure, "releases")
    area = np.trapezoid(released.y, released.x)
    assert area == pytest.approx(1 - float(test.noise.cdf(test.threshold - 0.95)), rel=0.02)
