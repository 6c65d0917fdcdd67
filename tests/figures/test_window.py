"""The window of a picture: rows and ellipses set it, and bands leave it with an arrow."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.arrays import Array, IntArray
from privgmm.data.datasets import random_mixture
from privgmm.figures.mixtures import BAND, PRIVATE, error_bands, mixtures_figure
from privgmm.figures.window import Window
from privgmm.mixture import Mixture
from privgmm.stages.standard_errors import StandardErrors

PLANE = random_mixture(2, 2, separation=4.0, rng=1)
ROWS = PLANE.sample(3000, rng=2)


def _errors(d: int, off: float) -> StandardErrors:
    spread = np.stack([off**2 * np.eye(d)] * 2)
    return StandardErrors(np.full(2, 0.01), np.full((2, d), off), np.zeros((2, d, d)), spread)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("off", [0.01, 1500.0])
def test_bands_never_widen_the_picture_and_end_with_arrows(d: int, off: float) -> None:
    mixture = PLANE.marginal(tuple(range(d)))
    plain = mixtures_figure(ROWS[:, :d], private=mixture)
    banded = mixtures_figure(ROWS[:, :d], private=mixture, errors=_errors(d, off))
    for axis in ("xaxis", "yaxis"):
        assert banded.layout[axis].range == pytest.approx(plain.layout[axis].range)
        low, high = plain.layout[axis].range
        for trace in banded.data:
            if trace.name == BAND:
                values = np.asarray(trace[axis[0]], float)
                assert values.min() >= low - 2.2 * (high - low)
                assert values.max() <= high + 2.2 * (high - low)
    arrows = banded.layout.annotations
    if off < 1.0:
        assert not arrows
    else:
        assert {arrow.text for arrow in arrows} == ({"▲"} if d == 1 else set("◀▶▲▼"))
        assert BAND in arrows[0].hovertext


def test_a_clipped_band_covers_what_it_covered_within_the_window() -> None:
    """Winding numbers by summed angles: equal at every point inside, before and after."""
    window = Window.around(ROWS)
    rng = np.random.default_rng(0)
    inside = 0.98 * rng.uniform((window.x[0], window.y[0]), (window.x[1], window.y[1]), (400, 2))
    for ring in error_bands(PLANE, _errors(2, 2.5)):
        before, after = (_winding(path, inside) for path in (ring, window.clipped(ring)))
        assert not np.array_equal(ring, window.clipped(ring))
        assert np.array_equal(before, after)
        assert 0 < np.count_nonzero(before) < len(before)


def _winding(path: Array, points: Array) -> IntArray:
    away = path[None] - points[:, None]
    angles = np.unwrap(np.arctan2(away[..., 1], away[..., 0]), axis=1)
    return np.rint((angles[:, -1] - angles[:, 0]) / (2 * np.pi)).astype(np.int64)


def test_a_row_far_away_is_counted_and_not_shown() -> None:
    figure = mixtures_figure(np.vstack([ROWS, [[1e12, 0.0]]]), true=PLANE)
    low, high = figure.layout.xaxis.range
    assert high - low < 2 * np.ptp(ROWS[:, 0])
    assert figure.data[0].name == "3,001 rows, 1 outside"


def test_an_ellipse_far_away_leaves_the_picture_with_an_arrow() -> None:
    far = Mixture(PLANE.weights, PLANE.means + np.diag([0.0, 900.0])[:, ::-1], PLANE.covariances)
    figure = mixtures_figure(ROWS, private=far)
    low, high = figure.layout.xaxis.range
    assert high - low < 3.5 * np.ptp(ROWS[:, 0])
    (arrow,) = figure.layout.annotations
    assert arrow.text == "▶"
    assert arrow.hovertext.startswith(PRIVATE.label)


def test_long_names_are_short_on_axes_and_whole_under_the_pointer() -> None:
    name = "how many hours a week this person says they worked {in 1996} " * 4
    figure = mixtures_figure(private=PLANE, columns=[name, "y"])
    assert len(figure.layout.xaxis.title.text) == 28
    assert figure.layout.xaxis.title.text.endswith("…")
    marks = next(trace for trace in figure.data if trace.mode == "markers")
    assert marks.hovertemplate.replace("<br>", " ").count("(in 1996)") == 4


def test_columns_keep_their_order_however_far_they_reach() -> None:
    tall = mixtures_figure(ROWS * [1.0, 3.0], columns=["x1", "x2"])
    assert tall.layout.xaxis.title.text == "x1"
    assert tall.layout.yaxis.scaleanchor == "x"


def test_rows_at_one_place_have_a_window() -> None:
    figure = mixtures_figure(np.ones((5, 2)))
    assert figure.layout.xaxis.range[0] < 1.0 < figure.layout.xaxis.range[1]
    assert figure.data[0].name == "5 rows"
