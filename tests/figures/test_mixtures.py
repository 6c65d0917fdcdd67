"""Ellipses are where the covariance says; a figure shows what it was given and nothing else."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from privgmm.data.datasets import random_mixture
from privgmm.errors import InvalidInput
from privgmm.figures.mixtures import (
    NONPRIVATE,
    PRIVATE,
    TRUE,
    ellipse,
    figure_alt_text,
    ghosts_label,
    mixtures_figure,
    thinned,
)
from privgmm.mixture import Mixture

PLANE = random_mixture(2, 2, separation=5.0, condition=9.0, rng=1)


@pytest.mark.parametrize("n_sigma", [1.0, 2.0, 0.3])
def test_ellipse_points_have_the_stated_mahalanobis_distance(n_sigma: float) -> None:
    mean, covariance = np.array([3.0, -1.0]), np.array([[2.0, 1.3], [1.3, 1.0]])
    xs, ys = ellipse(mean, covariance, n_sigma)
    gap = np.stack([xs, ys], axis=1) - mean
    squares = np.einsum("ni,ij,nj->n", gap, np.linalg.inv(covariance), gap)
    assert np.sqrt(squares) == pytest.approx(n_sigma)
    assert (xs[0], ys[0]) == (xs[-1], ys[-1])
    area = 0.5 * abs(np.sum(xs[:-1] * ys[1:] - xs[1:] * ys[:-1]))
    assert area == pytest.approx(np.pi * n_sigma**2 * np.linalg.det(covariance) ** 0.5, rel=2e-3)


def test_ellipse_refuses_a_flat_covariance() -> None:
    with pytest.raises(InvalidInput, match="positive definite"):
        ellipse([0, 0], [[1, 1], [1, 1]], 1.0)


def _luminance(colour: str) -> float:
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("look", [TRUE, NONPRIVATE, PRIVATE])
@pytest.mark.parametrize("background", ["#ffffff", "#171614", "#0e1117"])
def test_colours_stand_out_from_light_and_dark(look: object, background: str) -> None:
    assert isinstance(look, type(TRUE))
    pair = sorted([_luminance(look.colour), _luminance(background)])
    assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 3


def test_kinds_differ_by_more_than_colour() -> None:
    for a, b in itertools.combinations((TRUE, NONPRIVATE, PRIVATE), 2):
        assert a.dash != b.dash
        assert a.symbol != b.symbol


def test_figure_shows_what_it_was_given() -> None:
    rows = PLANE.sample(9000, rng=2)
    figure = mixtures_figure(rows, true=PLANE, private=PLANE.permuted([1, 0]), max_points=500)
    names = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert names == ["500 of 9,000 rows", PRIVATE.label, TRUE.label]
    assert len(figure.data[0].x) == 500
    assert figure.layout.yaxis.scaleanchor == "x"
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    # Two components at one and two sigma: four closed curves, parted by gaps.
    assert [int(np.isnan(trace.x).sum()) for trace in lines] == [4, 4]
    for trace in figure.data:
        assert trace.type == "scatter"


def test_private_figure_holds_nothing_but_the_release() -> None:
    figure = mixtures_figure(private=PLANE)
    assert {trace.legendgroup for trace in figure.data} == {PRIVATE.label}


def test_axes_choose_the_marginal() -> None:
    mixture = random_mixture(3, 4, condition=5.0, rng=3)
    figure = mixtures_figure(private=mixture, axes=(3, 1), columns=["a", "b", "c", "d"])
    line, marks = figure.data
    expected = ellipse(mixture.means[0, [3, 1]], mixture.covariances[0][np.ix_([3, 1], [3, 1])])
    assert np.asarray(line.x)[:97] == pytest.approx(expected[0])
    assert np.asarray(line.y)[:97] == pytest.approx(expected[1])
    assert np.asarray(marks.y) == pytest.approx(mixture.means[:, 1])
    assert figure.layout.xaxis.title.text == "d"


def test_unlike_units_are_not_forced_to_one_scale() -> None:
    stretched = PLANE.transformed(np.diag([1.0, 100.0]), [0.0, 0.0])
    assert mixtures_figure(private=stretched).layout.yaxis.scaleanchor is None


def test_one_column_gives_a_histogram_and_densities_of_mass_one() -> None:
    mixture = Mixture([0.3, 0.7], [[0.0], [50.0]], [[[1e-4]], [[9.0]]])
    figure = mixtures_figure(mixture.sample(5000, rng=4), true=mixture)
    bar, curve = figure.data
    assert float(np.asarray(bar.y) @ np.asarray(bar.width)) == pytest.approx(1.0)
    # A spike 3,000 times narrower than the axis is still resolved.
    assert np.trapezoid(curve.y, curve.x) == pytest.approx(1.0, abs=0.01)


def test_thinning_is_even_and_repeatable() -> None:
    rows = np.arange(1000.0)[:, None]
    some = thinned(rows, 11)
    assert some[[0, -1], 0].tolist() == [0.0, 999.0]
    assert np.ptp(np.diff(some[:, 0])) <= 1
    assert thinned(rows, 5000) is rows


def test_alt_text_names_every_kind_and_component() -> None:
    text = figure_alt_text(1234, true=PLANE, private=PLANE, columns=["height", "mass"])
    assert "1,234 rows" in text
    assert TRUE.label in text
    assert PRIVATE.label in text
    assert NONPRIVATE.label not in text
    assert f"height {PLANE.means[0, 0]:.3g}" in text
    line = Mixture([1.0], [[2.0]], [[[4.0]]])
    assert "x1 2 ± 2" in figure_alt_text(nonprivate=line)


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(InvalidInput, match="nothing to draw"):
        mixtures_figure()
    with pytest.raises(InvalidInput, match="nothing to describe"):
        figure_alt_text()
    with pytest.raises(InvalidInput, match="equal dimensions"):
        mixtures_figure(np.ones((3, 3)), true=PLANE)
    with pytest.raises(InvalidInput, match="axes"):
        mixtures_figure(private=PLANE, axes=(0, 0))
    with pytest.raises(InvalidInput, match="columns"):
        mixtures_figure(private=PLANE, columns=["a"])


@pytest.mark.parametrize("d", [1, 2, 3])
def test_ghosts_lie_below_the_mixtures_and_count(d: int) -> None:
    ghosts = [random_mixture(2, d, rng=seed) for seed in range(5)]
    figure = mixtures_figure(private=ghosts[0], ghosts=ghosts)
    assert figure.data[0].name == ghosts_label(5)
    x = np.asarray(figure.data[0].x, dtype=float)
    # lifted off the paper after each curve: two rings of two components each, or one density
    assert np.isnan(x).sum() == (5 if d == 1 else 20)


def test_rows_may_be_a_few_of_many() -> None:
    figure = mixtures_figure(np.zeros((3, 2)) + np.arange(3)[:, None], n_rows=1_000_000)
    assert figure.data[0].name == "3 of 1,000,000 rows"
