"""Figures of the audit: they show the numbers they were given, and never break on far rows."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import pytest

from privgmm.audit.guessing import Attack, Score
from privgmm.audit.privacy_loss import measured_delta
from privgmm.budget import Budget
from privgmm.data.datasets import random_mixture
from privgmm.figures.guessing import (
    delta_figure,
    evidence_figure,
    flip_figure,
    flip_votes_figure,
    round_figure,
    score_figure,
    tradeoff_figure,
)
from privgmm.privacy.guessing import Sight, Tradeoff
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.votes import AgreementTest, PrivateTest

MIXTURE = random_mixture(2, 2, rng=1)
ROWS = MIXTURE.sample(3000, rng=1)
FAR = np.array([1e9, 0.0])


def _named(figure: go.Figure, start: str) -> list[go.Scatter]:
    return [trace for trace in figure.data if (trace.name or "").startswith(start)]


def test_a_far_row_is_shown_at_the_edge_and_named() -> None:
    figure = round_figure(MIXTURE, ROWS, ROWS[0], FAR)
    (near,), (far,) = _named(figure, "the row, in A"), _named(figure, "the row, in B")
    assert near.x[0] == ROWS[0, 0]
    low, high = figure.layout.xaxis.range
    assert high - 0.1 * (high - low) < far.x[0] < high, "near the edge, and drawn whole"
    assert "1,000,000,000 away" in far.name or "999,999,99" in far.name


def test_a_refused_round_shows_no_release() -> None:
    figure = round_figure(None, ROWS, ROWS[0], ROWS[1], in_doubt=False)
    assert not _named(figure, "Private release")
    assert not _named(figure, "the row, in A")


def test_evidence_lies_on_one_of_two_lines_without_noise_and_among_the_bars_with_it() -> None:
    silent = evidence_figure(3.2042, 3.2053, 3.2053, name="centre", draws=None)
    (of_a,), (of_b,), (seen,) = (_named(silent, name) for name in ("A ", "B ", "published"))
    assert (of_a.x[0], of_b.x[0], seen.x[0]) == (3.2042, 3.2053, 3.2053)
    low, high = silent.layout.xaxis.range
    assert high - low < 4 * (3.2053 - 3.2042), "near enough to tell the lines apart"
    noise = np.random.default_rng(1).normal(scale=0.4, size=400)
    noisy = evidence_figure(3.2, 3.2011, 3.9, name="centre", draws=(3.2 + noise, 3.2011 + noise))
    for bars in _named(noisy, "A might") + _named(noisy, "B might"):
        assert 0.97 < sum(bars.y) <= 1
    low, high = noisy.layout.xaxis.range
    assert low < 2.6 < 3.9 < high
    refused = evidence_figure(1.0, 1.0, None, name="centre", draws=None)
    assert not _named(refused, "published")
    assert refused.layout.xaxis.range[0] < 1 < refused.layout.xaxis.range[1]


def test_scores_carry_their_intervals() -> None:
    scores = {"You": Score(6, 10), "Best": Score(530, 1000), "Nobody": Score(0, 0)}
    figure = score_figure(scores, ceiling=0.539, stated=0.7311)
    (points,) = _named(figure, "right guesses")
    assert list(points.x) == [0.6, 0.53]
    low, high = Score(6, 10).interval()
    assert points.x[0] + points.error_x.array[0] == pytest.approx(high)
    assert points.x[0] - points.error_x.arrayminus[0] == pytest.approx(low)
    assert _named(figure, "proved ceiling: 53.9%")
    assert _named(figure, "by ε and δ alone: 73.2%"), "a ceiling is rounded up"
    broken = score_figure(scores, ceiling=0.539, stated=0.7311, noise=False)
    assert _named(broken, "ceiling with noise: 53.9%")
    assert not _named(broken, "proved")
    assert not _named(score_figure({}, ceiling=0.539, stated=0.73), "right guesses")


def test_the_trade_off_shows_both_curves_and_every_attack() -> None:
    proved, stated = Sight(mu_squared=0.04).tradeoff(), Tradeoff.of_budget(Budget(1.0, 1e-6))
    attacks = {
        "one": (Attack(30, 100, 60, 100), Attack(0, 100, 100, 100)),
        "other": (Attack(5, 10, 4, 10),),
    }
    figure = tradeoff_figure(proved, stated, attacks)
    (ours,), (theirs,) = _named(figure, "proved"), _named(figure, "by ε and δ alone")
    alarms = np.array(ours.x)
    assert np.array(ours.y) == pytest.approx(proved.missed(alarms))
    assert np.all(np.array(theirs.y) <= np.array(ours.y) + 1e-12)
    points = [*_named(figure, "one"), *_named(figure, "other")]
    assert [list(trace.x) for trace in points] == [[0.3, 0.0], [0.5]]
    assert [list(trace.y) for trace in points] == [[0.6, 1.0], [0.4]]
    assert len({trace.marker.symbol for trace in points}) == 2
    low, high = Attack(30, 100, 60, 100).lowest(), Attack(30, 100, 60, 100).highest()
    assert points[0].x[0] - points[0].error_x.arrayminus[0] == pytest.approx(low[0])
    assert points[0].y[0] + points[0].error_y.array[0] == pytest.approx(high[1])


def test_flip_draws_what_there_is() -> None:
    full = flip_figure(ROWS, MIXTURE, MIXTURE, MIXTURE, MIXTURE, ROWS[0], FAR)
    assert {"release before", "release after"} <= {trace.name for trace in full.data}
    bare = flip_figure(ROWS, None, None, MIXTURE, None, ROWS[0], FAR)
    assert not _named(bare, "release")
    assert _named(bare, "its block's fit before")
    assert not _named(bare, "its block's fit after")


def test_flipped_votes_keep_one_order() -> None:
    before = np.array([9, 10, 3, 10, 10, 10, 10, 10, 10, 10])
    after = before - (np.arange(10) == 4) * 7
    test = AgreementTest(10, 1.0, 1.0, 3, 7, 8, 5)
    figure = flip_votes_figure(before, after, 4, test)
    first, second = figure.data[:2]
    assert np.flatnonzero(np.array(first.y) != np.array(second.y)).size == 1
    (mark,) = _named(figure, "block 5 after")
    assert mark.y[0] == after[4]
    assert not _named(flip_votes_figure(before, before, None, test), "block")


def test_flipped_votes_show_what_the_test_asks_for() -> None:
    counts = np.full(10, 9)
    asked: tuple[tuple[PrivateTest, int, str], ...] = (
        (AgreementTest(10, 1.0, 1.0, 3, 7, 8, 5), 8, "M"),
        (PopulousTest(10, 1.0, 1.0, 1e-4), 7, "0.6 t"),
    )
    for test, level, name in asked:
        layout = flip_votes_figure(counts, counts, None, test).layout
        assert layout.shapes[0].y0 == layout.shapes[0].y1 == level
        assert layout.annotations[0].text == name


def test_deltas_are_drawn_where_they_were_measured() -> None:
    losses = np.random.default_rng(1).normal(0.1, 0.4, 5000)
    measured = measured_delta(losses, [0.0, 0.5, 50.0])
    promised = np.array([0.3, 0.1, 1e-6])
    figure = delta_figure(measured, promised, exact=0.9 * promised)
    (points,) = _named(figure, "measured")
    assert list(points.x) == [0.0, 0.5], "what was never seen has no place on a log axis"
    assert np.all(np.array(points.y) - points.error_y.arrayminus > 0)
    assert _named(figure, "exact")
    assert not _named(delta_figure(measured, promised), "exact")
