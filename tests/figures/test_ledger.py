"""The figure of what was spent: the totals the composition gives, in words and lines."""

from __future__ import annotations

import math

import pytest

from privgmm.budget import Budget
from privgmm.figures.ledger import (
    running_totals,
    spending_alt_text,
    spending_figure,
)
from privgmm.ledger.history import Entry
from privgmm.methods.planner import calibrate
from privgmm.privacy.composition import added, total

PLANS = [
    calibrate(
        "lifted", epsilon=e, delta=1e-6, alpha=1.0, n_components=1, n_features=1, n_blocks=300
    )
    for e in (0.5, 1.0, 0.5, 0.75)
]
SPENDS = [plan.price() for plan in PLANS]
ENTRIES = [
    Entry(
        number=i,
        mark=f"{i:016x}",
        method="lifted",
        spend=spend,
        seeded=False,
        unit="row",
        intended="2024-01-01T00:00:00.000+00:00",
        released=ending,
    )
    for i, (spend, ending) in enumerate(zip(SPENDS, (True, False, None, True), strict=True), 1)
]


def test_totals_grow_with_every_answer_and_end_at_the_whole() -> None:
    together, summed = running_totals(SPENDS, 1e-5)
    assert together == sorted(together)
    assert together[-1] == total(SPENDS, 1e-5).epsilon
    assert summed[-1] == pytest.approx(added(SPENDS).epsilon)
    assert all(joint <= plain for joint, plain in zip(together, summed, strict=True))
    assert together[-1] < summed[-1]


def test_a_sum_is_not_held_against_a_smaller_delta() -> None:
    """Two deltas of a millionth add up to two: at one and a half the sum says nothing."""
    together, summed = running_totals(SPENDS, 1.5e-6)
    assert [math.isnan(value) for value in summed] == [False, True, True, True]
    assert not any(math.isnan(value) for value in together)
    figure = spending_figure(ENTRIES, cap=Budget(3.0, 1.5e-6))
    assert figure.layout.yaxis.title.text == "ε spent, at δ = 1.5 × 10<sup>−6</sup>"
    assert figure.layout.yaxis.range[1] > 3.0
    assert "adding up" not in spending_alt_text(ENTRIES, cap=Budget(3.0, 1.5e-6))


def test_the_figure_shows_both_totals_every_verdict_and_the_cap() -> None:
    figure = spending_figure(ENTRIES, cap=Budget(3.0, 1e-5))
    lines = {trace.name: trace for trace in figure.data}
    together, summed = running_totals(SPENDS, 1e-5)
    assert list(lines["Together"].y) == together
    assert list(lines["Sum of the parts"].y) == summed
    assert len(set(lines["Together"].marker.symbol)) == 3
    assert [shape.y0 for shape in figure.layout.shapes] == [3.0]
    assert figure.layout.yaxis.range[1] > 3.0
    assert not spending_figure(ENTRIES).layout.shapes


def test_the_words_say_the_same() -> None:
    together, summed = running_totals(SPENDS, added(SPENDS).delta)
    words = spending_alt_text(ENTRIES)
    assert f"{together[-1]:.4g} together, {summed[-1]:.4g} by adding up" in words
    assert "4 answers, 1 of them refused" in words
    assert "cap is 3" in spending_alt_text(ENTRIES, cap=Budget(3.0, 1e-5))


def test_every_answer_says_how_it_ended() -> None:
    together = spending_figure(ENTRIES).data[1]
    assert list(together.customdata) == ["released", "refused", "unfinished", "released"]
