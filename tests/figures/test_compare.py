"""Figures of a comparison: every run is in them, and so is every absence."""

from __future__ import annotations

import math

from privgmm.figures.compare import (
    ErrorCurve,
    ErrorPoint,
    comparison_alt_text,
    comparison_figure,
)
from privgmm.methods.method import Look

LOOK = Look("#D55E00", "solid", 3.0)
GOOD = ErrorCurve(
    "Good", LOOK, (ErrorPoint(1.0, (0.1, 0.2, 0.4)), ErrorPoint(2.0, (0.02,), refused=2))
)
NEVER = ErrorCurve("Never", LOOK, (ErrorPoint(1.0, (), 3), ErrorPoint(2.0, (), 0, 1e18)))


def test_medians_bars_and_absences() -> None:
    figure = comparison_figure([GOOD, NEVER], across="ε", up="error", here=1.0, ticks=(1.0, 2.0))
    curve, empty, marks = figure.data
    assert list(curve.y) == [0.2, 0.02]
    assert list(curve.error_y.array) == [0.2, 0.0]
    assert list(curve.error_y.arrayminus) == [0.1, 0.0]
    assert "1 run, 2 refused" in curve.customdata[1]
    assert len(empty.x) == 0
    assert list(marks.marker.symbol) == ["x-thin", "circle-open"]
    assert marks.customdata == ("refused in 3 of 3 runs", "takes about 1e+18 rows")
    # marks lie above every error, inside the picture
    low, top = figure.layout.yaxis.range
    assert 10**low < 0.02
    assert 0.4 < min(marks.y) <= max(marks.y) < 10**top
    assert [trace.showlegend for trace in figure.data] == [True, False, True]


def test_errors_of_any_size_are_drawn() -> None:
    wild = ErrorCurve("Wild", LOOK, (ErrorPoint(1.0, (0.0, 1e300, math.inf)),))
    figure = comparison_figure([wild], across="rows", up="error", here=1.0, ticks=(1.0,))
    assert all(math.isfinite(value) for value in figure.layout.yaxis.range)
    assert comparison_figure([], across="rows", up="error", here=1.0, ticks=()).data == ()


def test_words_for_those_who_do_not_see_it() -> None:
    words = comparison_alt_text([GOOD, NEVER], "ε")
    assert "Good: error 0.2 at 1, 0.02 at 2." in words
    assert "Never: no release anywhere." in words
    assert "Nothing is known yet" in comparison_alt_text([], "ε")
