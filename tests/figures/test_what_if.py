"""Curves of what-if answers: drawn where the answers are, and told in words."""

from __future__ import annotations

import math

import numpy as np
import plotly.graph_objects as go
import pytest

from privgmm.figures.what_if import chance_figure, curves_alt_text, error_figure
from privgmm.methods import registry
from privgmm.methods.what_if import Prospect
from privgmm.stages.accuracy import ExpectedError

CURVE = tuple(
    Prospect("lifted", n, 1.0, chance, None if error is None else ExpectedError.of([error]), None)
    for n, chance, error in (
        (1e3, 0.0, None),
        (1e4, 0.4, 0.3),
        (1e5, 0.96, 0.1),
        (1e6, 1, 0.03),
    )
)


def _names(figure: go.Figure) -> list[str]:
    return [trace.name for trace in figure.data]


def test_every_method_has_a_look_of_its_own() -> None:
    methods = registry.all_methods()
    assert len({method.title for method in methods}) == len(methods)
    for part in ("colour", "dash"):
        assert len({getattr(method.look, part) for method in methods}) == len(methods)


def test_every_method_is_drawn_in_its_own_look() -> None:
    methods = registry.all_methods()
    curves = {method.name: CURVE for method in methods}
    for figure in (chance_figure(curves), error_figure(curves)):
        assert _names(figure) == [method.title for method in methods]
        for trace, method in zip(figure.data, methods, strict=True):
            look = method.look
            assert (trace.line.color, trace.line.dash, trace.line.width) == (
                look.colour,
                look.dash,
                look.width,
            )
            assert method.title in trace.hovertemplate
    assert all(method.title in curves_alt_text(curves) for method in methods)


def test_chances_are_drawn_as_given() -> None:
    (trace,) = chance_figure({"lifted": CURVE}).data
    assert trace.x == (1e3, 1e4, 1e5, 1e6)
    assert trace.y == (0.0, 0.4, 0.96, 1)


def test_errors_are_drawn_where_a_release_is_likely() -> None:
    rows = np.array([1e3, 1e6])
    figure = error_figure({"lifted": CURVE}, nonprivate=(rows, 1 / np.sqrt(rows)))
    assert _names(figure) == ["Without privacy", "Lifted"]
    assert figure.data[1].x == (1e5, 1e6)
    assert figure.data[1].y == (0.1, 0.03)


@pytest.mark.parametrize("n_rows", [1e4, 1e19])
def test_rows_at_hand_are_marked(n_rows: float) -> None:
    figure = chance_figure({"lifted": CURVE}, n_rows=n_rows)
    assert figure.layout.shapes[0].x0 == n_rows
    (label,) = figure.layout.annotations
    assert label.x == pytest.approx(math.log10(n_rows))
    # to the side where there is room
    assert label.xanchor == ("left" if n_rows < 1e10 else "right")
    assert not chance_figure({"lifted": CURVE}).layout.shapes


def test_words_tell_what_is_shown() -> None:
    words = curves_alt_text({"lifted": CURVE}, n_rows=1e5)
    assert "likely from about 1.0e+05 rows" in words
    assert "marks 1e+05 rows" in words
    assert "unlikely at any" in curves_alt_text({"lifted": CURVE[:2]})
    assert "No method" in curves_alt_text({})
