"""Errors against epsilon, four promises, all pairs, and differences drawn larger."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.data.datasets import random_mixture
from privgmm.errors import InvalidInput
from privgmm.figures.mixtures import exaggerated, mixtures_figure, wider_across
from privgmm.figures.promises import TriedEpsilon, error_curve, pairs_figure, promises_figure
from privgmm.mixture import Mixture

TRUTH = random_mixture(2, 3, separation=6.0, rng=0)
NEAR = Mixture(TRUTH.weights, TRUTH.means + 0.01, 1.02 * TRUTH.covariances)
ROWS = TRUTH.sample(700, rng=1)
TRIED = [
    TriedEpsilon(0.1, None, None),
    TriedEpsilon(0.3, None, None),
    TriedEpsilon(1.0, 0.1, NEAR),
    TriedEpsilon(3.0, 0.04, NEAR),
]


def test_the_curve_has_a_point_per_release_and_marks_where_one_is() -> None:
    figure = error_curve(TRIED[::-1], here=3.0, nonprivate=0.03)
    lines = {trace.name: trace for trace in figure.data}
    assert list(lines["With privacy"].x) == [0.1, 0.3, 1.0, 3.0]
    assert list(lines["With privacy"].y) == [None, None, 0.1, 0.04]
    assert (lines["You are here"].x, lines["You are here"].y) == ((3.0,), (0.04,))
    assert set(lines["Without privacy"].y) == {0.03}


def test_refusals_are_shaded_as_one_zone_up_to_half_way() -> None:
    figure = error_curve(TRIED, here=0.3)
    (zone,) = figure.layout.shapes[:1]
    assert zone.x0 < 0.1
    assert zone.x1 == pytest.approx(math.sqrt(0.3))
    assert [note.text for note in figure.layout.annotations] == ["refused"]
    assert "You are here" not in [trace.name for trace in figure.data]
    with pytest.raises(InvalidInput, match="at least one epsilon"):
        error_curve([], here=1.0)


def test_the_axis_reaches_over_what_is_still_to_come() -> None:
    figure = error_curve(TRIED[2:], here=1.0, nonprivate=0.03, span=(0.1, 10.0))
    low, high = figure.layout.xaxis.range
    assert low < -1.0
    assert high > 1.0
    assert list(figure.layout.xaxis.tickvals) == [0.1, 0.3, 1, 3, 10]


def test_a_promise_not_known_yet_has_its_place() -> None:
    figure = promises_figure([0.3, *TRIED[2:], 10.0], ROWS, true=TRUTH, here=1.0)
    texts = [note.text for note in figure.layout.annotations]
    assert [text for text in texts if "ε" in text] == ["ε = 0.3", "<b>ε = 1</b>", "ε = 3", "ε = 10"]
    assert texts.count("…") == 2
    assert sum(trace.name == "Private release" for trace in figure.data) == 2


def test_the_wider_column_lies_across_where_scales_are_equal() -> None:
    rng = np.random.default_rng(0)
    tall = rng.standard_normal((50, 2)) * [1.0, 3.0]
    assert wider_across(tall) == (1, 0)
    assert wider_across(tall[:, ::-1]) == (0, 1)
    # where each axis has a scale of its own, either fills the picture
    assert wider_across(tall * [1.0, 1e3]) == (0, 1)


def test_each_promise_has_a_picture_and_a_refusal_says_so() -> None:
    figure = promises_figure(TRIED, ROWS, true=TRUTH, here=1.0)
    texts = [note.text for note in figure.layout.annotations]
    assert texts.count("refused") == 2
    assert "<b>ε = 1</b>" in texts
    assert sum(trace.name == "Private release" for trace in figure.data) == 2
    assert sum(trace.name == "True mixture" for trace in figure.data) == 4


def test_every_pair_of_columns_has_a_picture() -> None:
    figure = pairs_figure(ROWS, true=TRUTH, private=NEAR, columns=("a", "b", "c"))
    assert sum(trace.name == "Private release" for trace in figure.data) == 3
    titles = {axis.title.text for axis in figure.select_xaxes() if axis.title.text}
    assert titles == {"a", "b"}
    with pytest.raises(InvalidInput, match="at least two"):
        pairs_figure(ROWS, columns=("a",))


def test_differences_grow_as_said_and_once_is_the_mixture_itself() -> None:
    shuffled = NEAR.permuted([1, 0])
    same = exaggerated(shuffled, TRUTH, 1.0)
    np.testing.assert_allclose(same.means, shuffled.means)
    np.testing.assert_allclose(same.covariances, shuffled.covariances)
    ten = exaggerated(NEAR, TRUTH, 10.0)
    np.testing.assert_allclose(ten.means - TRUTH.means, 10 * (NEAR.means - TRUTH.means))
    np.testing.assert_allclose(ten.covariances, 1.02**10 * TRUTH.covariances)


def test_fits_of_blocks_are_drawn_under_one_name() -> None:
    figure = mixtures_figure(ROWS, blocks=[TRUTH, NEAR])
    assert [trace.name for trace in figure.data][1] == "Fits of 2 blocks"
    line = mixtures_figure(blocks=[TRUTH.marginal([0])]).data[0]
    assert line.name == "Fits of 1 block"
