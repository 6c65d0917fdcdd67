"""Figures of a sketch: the frame is drawn where it lies, and waves show the density."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from privgmm.figures.mixtures import BAND, PRIVATE
from privgmm.figures.sketch import (
    counts_figure,
    density_seen,
    fit_figure,
    frame_figure,
    oblique_direction,
    outline_of,
    projection_seen,
    projections_figure,
    sketch_figure,
)
from privgmm.figures.window import Window, window_of
from privgmm.mixture import Mixture
from privgmm.privacy.noise import noise_source
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.frame import Frame, random_rotation
from privgmm.stages.sketch.histogram_frame import Histogram
from privgmm.stages.sketch.private_sketch import PrivateSketch


def _truth(d: int) -> Mixture:
    means = np.zeros((2, d))
    means[0, 0], means[1, 0] = 95.0, 105.0
    return Mixture([0.4, 0.6], means, np.broadcast_to(np.diag(np.arange(d) + 4.0), (2, d, d)))


def _frame(d: int) -> Frame:
    """About where the rows of `_truth` lie."""
    spread = np.diag([6.0, *np.sqrt(np.arange(1, d) + 4.0)])
    centre = np.zeros(d)
    centre[0] = 101.0
    return Frame(centre, spread @ random_rotation(d, rng=noise_source(1)))


def _sketch(d: int, noise: float) -> tuple[PrivateSketch, SketchShape]:
    """The exact waves of `_truth`, with noise."""
    frame, shape = _frame(d), SketchShape.default(d)
    frequencies = shape.frequencies(frame)
    seen = frame.mixture_to_frame(_truth(d))
    phase = frequencies @ seen.means.T
    spread = np.einsum("mi,kij,mj->mk", frequencies, seen.covariances, frequencies)
    values = (np.exp(1j * phase - spread / 2) * seen.weights).sum(axis=1)
    rng = np.random.default_rng(0)
    drawn = noise * (rng.standard_normal(values.size) + 1j * rng.standard_normal(values.size))
    made = PrivateSketch(
        frame,
        shape.directions(frame),
        shape.step,
        values + drawn,
        np.full(shape.n_frequencies, noise),
        10_000,
    )
    return made, shape


def _grid(window: Window, d: int) -> np.ndarray:
    if d == 1:
        return np.linspace(*window.x, 200)[:, None]
    axes = [np.linspace(*span, 40) for span in window]
    return np.stack(np.meshgrid(*axes), axis=2).reshape(-1, 2)


@pytest.mark.parametrize("d", [1, 2])
def test_waves_show_the_density(d: int) -> None:
    truth = _truth(d)
    window = window_of(truth.sample(20_000, rng=1))
    points = _grid(window, d)
    exact = np.exp(truth.log_density(points))
    for noise, off in ((1e-9, 0.02), (0.01, 0.15)):
        data, shape = _sketch(d, noise)
        shown = density_seen(data, shape.n_frequencies, points)
        near = np.isfinite(shown)
        assert near.mean() > 0.9
        assert np.abs(shown - exact)[near].max() < off * exact.max()
        assert (shown[near] >= 0).all()


def test_nothing_is_shown_where_waves_repeat() -> None:
    data, shape = _sketch(2, 1e-3)
    far = data.frame.centre + data.frame.root @ np.array([10.0, 0.0])
    assert np.isnan(density_seen(data, shape.n_frequencies, far[None])).all()


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_sketch_is_drawn_for_any_number_of_columns(d: int) -> None:
    data, shape = _sketch(d, 0.01)
    window = window_of(_truth(d).sample(5_000, rng=1))
    figure = sketch_figure(data, shape.n_frequencies, window)
    loud = figure.data[0]
    if d == 1:
        assert loud.y == pytest.approx(np.abs(data.values))
    else:
        ratio = np.abs(data.values) / data.deviations
        assert np.sort(np.ravel(loud.customdata)) == pytest.approx(np.sort(ratio))
        assert list(loud.y) == sorted(loud.y)
    assert [trace.name for trace in figure.data].count("seen in the waves") == (d <= 2)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_fit_lies_over_what_the_waves_show(d: int) -> None:
    data, shape = _sketch(d, 0.01)
    truth = _truth(d)
    window = window_of(truth.sample(5_000, rng=1))
    figure = fit_figure(truth, data, shape.n_frequencies, window)
    names = [trace.name for trace in figure.data]
    assert "fit to the waves" in names
    assert BAND not in names
    assert ("seen in the waves" in names) == (d <= 2)
    fitted = next(trace for trace in figure.data if trace.name == "fit to the waves")
    assert fitted.line.color == PRIVATE.colour


@pytest.mark.parametrize("d", [1, 2, 3])
def test_projections_show_rows_and_what_the_noisy_waves_say_of_them(d: int) -> None:
    """The curve of each panel is the density of the bars: within its band of the exact one."""
    truth, noise = _truth(d), 0.01
    rows = truth.sample(40_000, rng=3)
    data, _ = _sketch(d, noise)
    figure = projections_figure(rows, data, names=("a", "b"))
    panels = min(d, 2) + (d > 1)
    kinds = [trace.name for trace in figure.data]
    assert kinds == ["rows: confidential", *kinds[1:3]] * panels
    for panel in range(panels):
        bars, _, curve = figure.data[3 * panel : 3 * panel + 3]
        at = np.interp(bars.x, curve.x, curve.y)
        width = bars.x[1] - bars.x[0]
        off = 0.5 * width * np.abs(at - np.array(bars.y)).sum()
        assert off < 0.06
        if panel < min(d, 2):
            exact = truth.marginal([panel]).density(np.array(curve.x)[:, None])
            assert np.abs(curve.y - exact).max() < 0.1 * exact.max()
    assert (oblique_direction(data) is None) == (d == 1)


def test_the_noise_of_a_projection_is_the_one_stated() -> None:
    """Waves that are heard well, with other noise each time: the curve scatters as it says."""
    places = np.linspace(-1.0, 1.0, 9)
    clean, _ = _sketch(2, 1e-9)
    noise = 1e-4
    rng = np.random.default_rng(5)
    curves, stated = [], []
    for _ in range(400):
        drawn = rng.standard_normal(clean.size) + 1j * rng.standard_normal(clean.size)
        other = dataclasses.replace(
            clean, values=clean.values + noise * drawn, noise=np.full(clean.n_frequencies, noise)
        )
        seen, deviation = projection_seen(other, 2, places)
        curves.append(seen)
        stated.append(deviation)
    scatter = np.sqrt(np.var(curves, axis=0).mean())
    # waves below their noise are turned down, and by how much varies with the noise
    assert scatter == pytest.approx(np.mean(stated), rel=0.15)
    far, _ = projection_seen(clean, 2, np.array([10.0]))
    assert np.isnan(far).all()


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_frame_is_drawn_where_it_lies(d: int) -> None:
    frame = _frame(d)
    assert outline_of(frame).covariances[0] == pytest.approx(frame.root @ frame.root.T)
    rows = _truth(d).sample(500, rng=1)
    figure = frame_figure(rows, frame, window_of(rows))
    names = {trace.name for trace in figure.data}
    assert "frame" in names
    assert PRIVATE.label not in names
    assert ("its coordinates" in names) == (d > 1)
    if d == 2:
        (lines,) = (trace for trace in figure.data if trace.name == "its coordinates")
        points = np.stack([lines.x, lines.y], axis=1).astype(float)
        ends = frame.to_frame(points[np.isfinite(points).all(axis=1)])
        assert np.abs(ends - np.rint(ends)).max() < 1e-9


def test_counts_are_those_of_the_bins_and_far_ones_are_left_out() -> None:
    places = [
        Histogram(np.array([-(2**52), 3, 4, 5]), np.array([1, 40, 500, 70])),
        Histogram(np.array([0]), np.array([611])),
    ]
    figure = counts_figure(places, 60, names=("a", "b"))
    bars = [trace for trace in figure.data if trace.type == "bar"]
    full = [trace for trace in bars if trace.name == "full enough to show"]
    assert [list(trace.y) for trace in full] == [[500, 70], [611]]
    assert [list(trace.x) for trace in full] == [[0, 1], [0]]
    hidden = [trace for trace in bars if trace.name == "stays hidden"]
    assert [list(trace.y) for trace in hidden] == [[40], []]
    assert all(set(trace.y) == {60} for trace in figure.data if trace.type == "scatter")
