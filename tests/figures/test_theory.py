"""Figures of Theorem 1.8: dots lie where their pairs do, lines where the constants say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from privgmm.distances.bounds import LOWER, UPPER, best_constants, theorem_1_8
from privgmm.distances.gaussian_pairs import PAIR_KINDS, random_pairs
from privgmm.distances.total_variation import gaussian_tv
from privgmm.errors import InvalidInput
from privgmm.figures.theory import (
    DIMENSION_COLOURS,
    HIGHEST,
    KIND_SYMBOLS,
    LOWEST,
    band_alt_text,
    band_figure,
    overlap_alt_text,
    overlap_figure,
    pair_alt_text,
    pair_figure,
)

CLOUDS = [random_pairs(30, d, kind, rng=d) for d in (1, 3) for kind in PAIR_KINDS]
PAIR = theorem_1_8([0.0, 0.0], np.eye(2), [0.001, 0.0], np.eye(2))


def _trace(figure: go.Figure, name: str) -> Any:
    return next(trace for trace in figure.data if trace.name == name)


def test_the_constants_are_those_found() -> None:
    assert pytest.approx(best_constants(2).lowest, rel=1e-9) == LOWEST
    rising = [best_constants(d).highest for d in (1, 2, 4, 40)]
    assert rising == sorted(rising)
    assert rising[-1] < HIGHEST
    assert pytest.approx(rising[-1], abs=5e-4) == HIGHEST


@pytest.mark.parametrize("ratio", [False, True])
def test_dots_lie_at_their_pairs(ratio: bool) -> None:
    figure = band_figure(CLOUDS, pair=PAIR, swapped_delta=0.0011, ratio=ratio)
    dots = _trace(figure, "d = 3")
    for x, y, symbol, (tv, d, kind, index) in zip(
        dots.x, dots.y, dots.marker.symbol, dots.customdata, strict=True
    ):
        cloud = next(c for c in CLOUDS if (c.n_features, c.kind) == (d, kind))
        assert (x, tv) == (cloud.delta[index], cloud.tv[index])
        assert y == (tv / x if ratio else tv)
        assert symbol == KIND_SYMBOLS[kind]
    star = _trace(figure, "your pair")
    assert star.y[0] == pytest.approx(PAIR.tv / (PAIR.delta if ratio else 1))
    assert _trace(figure, "swapped").x[0] == 0.0011


@pytest.mark.parametrize("ratio", [False, True])
def test_lines_have_the_slopes_of_the_theorem(ratio: bool) -> None:
    figure = band_figure(ratio=ratio)
    for name, factor in (
        ("Δ/√2", UPPER),
        ("Δ/200", LOWER),
        (f"{LOWEST:.4f} Δ", LOWEST),
        (f"{HIGHEST:.4f} Δ", HIGHEST),
    ):
        line = _trace(figure, name)
        expected = factor * np.ones(2) if ratio else factor * np.asarray(line.x)
        assert line.y == pytest.approx(expected)


def test_equal_gaussians_have_no_place_on_a_logarithmic_axis() -> None:
    same = theorem_1_8([0.0], [[1.0]], [0.0], [[1.0]])
    assert "your pair" not in [trace.name for trace in band_figure(pair=same).data]


def test_at_most_four_dimensions() -> None:
    clouds = [random_pairs(2, d, "mean", rng=1) for d in range(1, 6)]
    with pytest.raises(InvalidInput, match="at most 4 dimensions"):
        band_figure(clouds)


def _luminance(colour: str) -> float:
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("colour", DIMENSION_COLOURS)
@pytest.mark.parametrize("background", ["#ffffff", "#171614"])
def test_colours_stand_out_from_light_and_dark(colour: str, background: str) -> None:
    dark, light = sorted([_luminance(colour), _luminance(background)])
    assert (light + 0.05) / (dark + 0.05) >= 3


def test_words_tell_what_is_shown() -> None:
    words = band_alt_text(CLOUDS, pair=PAIR)
    assert "180 random pairs" in words
    assert "Δ = 0.001" in words
    assert "random" not in band_alt_text()
    assert "mean (1, 2)" in pair_alt_text([1, 2], np.diag([4.0, 9.0]))


def test_a_pair_is_drawn_at_one_and_two_deviations() -> None:
    figure = pair_figure([0, 0], np.eye(2), [3, 0], np.diag([4.0, 1.0]))
    first, second = figure.data
    assert np.nanmax(np.hypot(first.x, first.y)) == pytest.approx(2)
    assert np.nanmax(second.x) == pytest.approx(3 + 2 * math.sqrt(4))
    assert first.line.dash != second.line.dash


@pytest.mark.parametrize("narrow", [1.0, 0.02])
def test_the_areas_of_the_overlap_are_tv_and_the_rest(narrow: float) -> None:
    tv = float(gaussian_tv([0.0], [[1.0]], [1.3], [[narrow**2]]))
    figure = overlap_figure(np.array([0.0, 1.3]), np.array([1.0, narrow]))
    shared = _trace(figure, "shared: 1 − TV")
    assert np.trapezoid(shared.y, shared.x) == pytest.approx(1 - tv, abs=3e-3)
    for name in ("more from 1: TV", "more from 2: TV"):
        ring = _trace(figure, name)
        half = len(ring.x) // 2
        above = np.asarray(ring.y[:half]) - np.asarray(ring.y[half:])[::-1]
        assert np.trapezoid(above, ring.x[:half]) == pytest.approx(tv, abs=3e-3)
    assert f"{1 - tv:.1%}" in overlap_alt_text(tv)
