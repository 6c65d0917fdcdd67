"""Figures of what a sketch shows: drawn is what was computed, and rows are marked as such."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.errors import InvalidInput
from privgmm.figures.picture import (
    confidence_ellipses,
    curve_figure,
    image_figure,
    image_words,
    path_figure,
    rows_figure,
)
from privgmm.mixture import Mixture
from privgmm.stages.sketch.picture import DensityCurve, DensityImage
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.standard_errors import StandardErrors
from tests.stages.sketch.test_private_sketch import TRUTH, sketch_of

X, Y = np.linspace(-8.0, 8.0, 40), np.linspace(-4.0, 4.0, 30)


def pictured(*, plane_seen: bool = True) -> DensityImage:
    places = np.stack(np.meshgrid(X, Y), axis=2).reshape(-1, 2)
    densities = TRUTH.density(places).reshape(30, 40)
    return DensityImage(("a", "b"), X, Y, densities, 0.01 * densities, (1.5, 0.4), plane_seen)


def curve() -> DensityCurve:
    densities = TRUTH.marginal([0]).density(X[:, None])
    return DensityCurve("a", X, densities, np.full(40, 0.002), 1.5)


def errors() -> StandardErrors:
    spread = np.array([[[0.04, 0.01], [0.01, 0.02]], [[0.01, 0.0], [0.0, 0.09]]])
    means = np.sqrt(np.einsum("kii->ki", spread))
    return StandardErrors(np.full(2, 0.01), means, np.full((2, 2, 2), 0.1), spread)


@pytest.fixture(scope="module")
def sketch() -> PrivateSketch:
    return sketch_of(TRUTH.sample(20_000, rng=1), 2)


def test_regions_hold_the_mean_as_often_as_they_say() -> None:
    """Means drawn with the stated covariance fall inside in 95 % of all cases."""
    rng = np.random.default_rng(1)
    spread = errors().mean_covariances
    for c, (xs, ys) in enumerate(confidence_ellipses(TRUTH, errors())):
        assert (xs[0], ys[0]) == (xs[-1], ys[-1])
        inverse = np.linalg.inv(spread[c])
        edge = np.stack([xs, ys], axis=1) - TRUTH.means[c]
        sizes = np.einsum("ij,jk,ik->i", edge, inverse, edge)
        assert sizes == pytest.approx(np.full(len(xs), sizes[0]))
        drawn = rng.multivariate_normal(np.zeros(2), spread[c], 4_000)
        inside = np.einsum("ij,jk,ik->i", drawn, inverse, drawn) < sizes[0]
        assert inside.mean() == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 4_000))
    with pytest.raises(InvalidInput, match="axes"):
        confidence_ellipses(TRUTH, errors(), axes=(0,))
    with pytest.raises(InvalidInput, match="level"):
        confidence_ellipses(TRUTH, errors(), level=1.5)


def test_an_image_is_drawn_with_its_numbers() -> None:
    image = pictured()
    figure = image_figure(image, mixture=TRUTH, errors=errors())
    heat = figure.data[0]
    assert heat.customdata[..., 0] == pytest.approx(image.densities)
    assert np.asarray(heat.z).max() == pytest.approx(1.0)
    assert np.asarray(heat.z) ** 2 == pytest.approx(image.densities / image.densities.max())
    names = [trace.name for trace in figure.data]
    assert {"mixture", "where each mean lies (95 %)", "finest detail measured"} <= set(names)
    finest = next(trace for trace in figure.data if trace.name == "finest detail measured")
    assert finest.x[1] - finest.x[0] == pytest.approx(1.5)
    assert finest.y[4] - finest.y[3] == pytest.approx(0.4)
    assert not any("rows" in (name or "") for name in names)
    assert figure.layout.xaxis.title.text == "a"


def test_rows_by_themselves_lie_on_the_grid_of_the_image() -> None:
    """Every row in the window is counted, in the shade that its share of the peak has."""
    image, rows = pictured(), TRUTH.sample(5_000, rng=2)
    figure = rows_figure(rows, image, dark=True)
    (heat,) = figure.data
    assert heat.name == "5,000 rows"
    assert (heat.x == image.x).all()
    assert figure.layout.xaxis.range == (X[0], X[-1])
    cell = float((X[1] - X[0]) * (Y[1] - Y[0]))
    counted = np.asarray(heat.z) ** 2 * float(image.densities.max()) * cell * len(rows)
    full = np.asarray(heat.z) < 1
    assert counted[full] == pytest.approx(np.round(counted[full]), abs=1e-6)
    assert counted.sum() <= len(rows) + 1e-6


def test_what_is_dense_stands_out_from_the_ground() -> None:
    """From white to dark on a light page, from black to light on a dark one."""

    def brightness(scale: object) -> int:
        peak = scale[-1][1]  # type: ignore[index]
        return sum(int(part) for part in peak.removeprefix("rgba(").split(",")[:3])

    light, dark = (image_figure(pictured(), dark=on).data[0].colorscale for on in (False, True))
    assert brightness(light) < 200
    assert brightness(dark) > 600


def test_rows_beside_an_image_are_marked() -> None:
    rows = TRUTH.sample(5_000, rng=1)
    figure = image_figure(pictured(), rows=rows)
    said = [note.text for note in figure.layout.annotations]
    assert any("Confidential: the rows" in text for text in said)
    beside = figure.data[-1]
    assert beside.name == "5,000 rows"
    # both on one scale of colours
    assert (beside.zmin, beside.zmax) == (figure.data[0].zmin, figure.data[0].zmax)


def test_images_in_words() -> None:
    words = image_words(pictured())
    assert "a and b" in words
    assert "all directions" in words
    assert "1.5 in a" in words
    assert "one by one" in image_words(pictured(plane_seen=False))


def test_a_curve_has_its_band() -> None:
    one = curve()
    figure = curve_figure(one, mixture=TRUTH, rows=TRUTH.sample(2_000, rng=1))
    names = [trace.name for trace in figure.data]
    assert names[0] == "2,000 rows: confidential"
    band = next(trace for trace in figure.data if trace.name == "two standard errors")
    high = np.asarray(band.y[:40])
    assert high == pytest.approx(one.densities + 0.004)
    assert min(band.y) >= 0
    line = next(trace for trace in figure.data if trace.name == "density, from the sketch")
    assert line.y == pytest.approx(one.densities)
    assert len(curve_figure(one).data) == 2


def test_the_path_marks_what_is_chosen(sketch: PrivateSketch) -> None:
    fits = sketch.path(3)
    figure = path_figure(fits)
    misfit, criterion = figure.data
    assert list(misfit.x) == [1, 2, 3]
    assert misfit.customdata == pytest.approx([one.misfit for one in fits])
    assert criterion.customdata[1] == 0
    marked = [colour == misfit.marker.color[1] for colour in misfit.marker.color]
    assert marked == [False, True, False]
    with pytest.raises(InvalidInput, match="at least one"):
        path_figure([])


def test_pictures_of_a_sketch_are_drawn(sketch: PrivateSketch) -> None:
    found = sketch.fit(2)
    image = sketch.image(shape=(20, 20))
    assert image_figure(image, mixture=found.mixture, errors=found.standard_errors).data
    assert curve_figure(sketch.curve(0), mixture=found.mixture).data
    assert isinstance(found.mixture, Mixture)
