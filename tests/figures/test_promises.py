"""Four promises, all pairs, and differences drawn larger."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.data.datasets import random_mixture
from privgmm.errors import InvalidInput
from privgmm.figures.mixtures import exaggerated, mixtures_figure
from privgmm.figures.promises import TriedEpsilon, pairs_figure, promises_figure
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


def test_a_promise_not_known_yet_has_its_place() -> None:
    figure = promises_figure([0.3, *TRIED[2:], 10.0], ROWS, true=TRUTH, here=1.0)
    texts = [note.text for note in figure.layout.annotations]
    assert [text for text in texts if "ε" in text] == ["ε = 0.3", "<b>ε = 1</b>", "ε = 3", "ε = 10"]
    assert texts.count("…") == 2
    assert sum(trace.name == "Private release" for trace in figure.data) == 2


def test_small_pictures_share_the_window_of_the_large_one() -> None:
    """One aspect everywhere, one window for all promises, and no error or ellipse squeezes rows."""
    far = Mixture(TRUTH.weights, TRUTH.means + 400.0, 900.0 * TRUTH.covariances)
    tried = [TriedEpsilon(0.3, 1.0, far), *TRIED[2:]]
    small = promises_figure(tried, ROWS, true=TRUTH, here=1.0)
    assert len({axis.range for axis in small.select_xaxes()}) == 1
    (low, high) = next(small.select_xaxes()).range
    assert high - low < 3.5 * np.ptp(ROWS[:, 0])
    pairs = pairs_figure(ROWS, true=TRUTH, private=NEAR, columns=("a", "b", "c"))
    large = mixtures_figure(ROWS, true=TRUTH, private=NEAR)
    assert large.layout.yaxis.scaleanchor == "x"
    assert [axis.scaleanchor for axis in small.select_yaxes()] == ["x", "x2", "x3"]
    assert pairs.layout.xaxis.range == pytest.approx(large.layout.xaxis.range, abs=0.2)
    # of the four cells three hold a picture
    assert [axis.scaleanchor for axis in pairs.select_yaxes()] == ["x", None, "x3", "x4"]


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
