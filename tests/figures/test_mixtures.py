"""Ellipses are where the covariance says; a figure shows what it was given and nothing else."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from privgmm.data.datasets import random_mixture
from privgmm.errors import InvalidInput
from privgmm.figures.mixtures import (
    BAND,
    NONPRIVATE,
    PRIVATE,
    TRUE,
    ellipse,
    error_bands,
    figure_alt_text,
    ghosts_label,
    mixtures_figure,
    thinned,
)
from privgmm.mixture import Mixture
from privgmm.stages.standard_errors import StandardErrors

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


def _errors(d: int, off: float) -> StandardErrors:
    """Of two components: means known to `off` in every direction, covariances exactly."""
    spread = np.stack([off**2 * np.eye(d)] * 2)
    return StandardErrors(np.full(2, 0.01), np.full((2, d), off), np.zeros((2, d, d)), spread)


def test_bands_lie_two_standard_errors_about_the_ellipses() -> None:
    """Where only the mean errs, by the same all around, tangents move by so much either way."""
    off = 0.05
    rings = error_bands(PLANE, _errors(2, off))
    assert len(rings) == 4
    for number, ring in enumerate(rings):
        component, sigma = number // 2, 1.0 + number % 2
        xs, ys = ellipse(PLANE.means[component], PLANE.covariances[component], sigma)
        line = np.stack([xs, ys], axis=1)
        outer, inner = ring[: len(line)], ring[len(line) : 2 * len(line)][::-1]
        normals = np.linalg.solve(PLANE.covariances[component], (line - PLANE.means[component]).T).T
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        assert ((outer - line) * normals).sum(axis=1) == pytest.approx(2 * off)
        assert ((line - inner) * normals).sum(axis=1) == pytest.approx(2 * off)
        # outside is outside
        away = np.linalg.norm(outer - PLANE.means[component], axis=1)
        assert (away > np.linalg.norm(inner - PLANE.means[component], axis=1)).all()


def test_bands_do_not_depend_on_the_units_of_the_columns() -> None:
    """A column in other units moves the picture and nothing in it."""
    units = np.array([1.0, 1e-4])
    square = np.outer(units, units)
    errors = StandardErrors(
        np.zeros(2),
        np.full((2, 2), 0.05),
        np.full((2, 2, 2), 0.1),
        np.stack([0.05**2 * np.eye(2)] * 2),
    )
    scaled = StandardErrors(
        errors.weights,
        errors.means * units,
        errors.covariances * square,
        errors.mean_covariances * square,
    )
    there = error_bands(PLANE.transformed(np.diag(units), np.zeros(2)), scaled)
    for here, other in zip(error_bands(PLANE, errors), there, strict=True):
        assert other / units == pytest.approx(here)


def test_bands_hold_nine_ellipses_in_ten_of_samples() -> None:
    """Sample covariances of Gaussian rows: along an axis the edge is in the band 95 % of the time.

    The errors of covariance entries are taken to go together, so slanted ones are held more often.
    """
    n, held = 200, []
    rng = np.random.default_rng(3)
    reach = np.array([1.0, 1.5])
    for _ in range(400):
        rows = rng.standard_normal((n, 2)) * reach
        mean, spread = rows.mean(axis=0), np.cov(rows.T)
        entries = np.sqrt((np.outer(np.diag(spread), np.diag(spread)) + spread**2) / n)
        one = Mixture([1.0], mean[None], spread[None])
        errors = StandardErrors(
            np.zeros(1), np.sqrt(np.diag(spread) / n)[None], entries[None], spread[None] / n
        )
        ring = error_bands(one, errors)[0]
        half = len(ring) // 2
        outer, inner = ring[:half], ring[half : 2 * half]
        held.append(inner[:, 0].max() <= reach[0] <= outer[:, 0].max())
    assert abs(np.mean(held) - 0.95) < 0.04


@pytest.mark.parametrize("d", [1, 2, 3])
def test_bands_have_a_name_in_the_legend_and_can_be_left_out(d: int) -> None:
    mixture = random_mixture(2, d, separation=4.0, rng=2)
    figure = mixtures_figure(private=mixture, errors=_errors(d, 0.1))
    bands = [trace for trace in figure.data if trace.name == BAND]
    assert [trace.showlegend for trace in bands] == [True] + [False] * (len(bands) - 1)
    assert len(bands) == (1 if d == 1 else 4)
    plain = mixtures_figure(private=mixture)
    assert not any(trace.name == BAND for trace in plain.data)
    with pytest.raises(InvalidInput, match="errors must be those"):
        error_bands(random_mixture(2, 4, rng=2), _errors(3, 0.1))
