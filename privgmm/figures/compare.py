"""Draw a comparison: the error of every learner against epsilon or against rows.

Plotly only, in the visual language of `mixtures`. Every learner has its own hue, dash and mark. A
line goes through the medians of its runs, and bars reach from the best to the worst. Where no run
gave a mixture there is a mark above the curves instead.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from privgmm.figures.mixtures import GRID, dressed
from privgmm.methods.method import Look

__all__ = ["ErrorCurve", "ErrorPoint", "comparison_alt_text", "comparison_figure"]

_INK = "rgba(128, 128, 136, 1)"
_SYMBOLS = (
    *("circle", "square", "diamond", "cross", "triangle-up"),
    *("triangle-down", "pentagon", "star", "hexagon"),
)
_REFUSED, _TOO_FEW = "x-thin", "circle-open"
_FLOOR, _CEILING = 1e-9, 1e12
"""Errors beyond these are drawn at them: a log axis cannot hold zero or infinity."""
_LINE = 0.075
"""Height of a line of marks above the curves, as a share of the axis."""
_CAPTION = 1.2
"""Lines that the words below these marks take."""
_FINE_UP_TO = 2.5
"""Decades up to which there are ticks at 3, 30, ... as well."""


@dataclasses.dataclass(frozen=True)
class ErrorPoint:
    """Results of some runs of one learner at one place of the axis.

    Parameters
    ----------
    x : float
    errors : tuple of float
        Of the runs that gave a mixture.
    refused : int
        How many were tried and refused.
    rows_needed : float or None
        Where it was not tried: how many rows would be enough, infinite if no number is.
    """

    x: float
    errors: tuple[float, ...]
    refused: int = 0
    rows_needed: float | None = None

    @property
    def median(self) -> float:
        """Median error, within what is drawn."""
        return float(np.clip(np.median(self.errors), _FLOOR, _CEILING))


@dataclasses.dataclass(frozen=True)
class ErrorCurve:
    """Runs of one learner, in the order of x."""

    title: str
    look: Look
    points: tuple[ErrorPoint, ...]

    @property
    def with_errors(self) -> tuple[ErrorPoint, ...]:
        """Points where at least one run gave a mixture."""
        return tuple(point for point in self.points if point.errors)


def comparison_figure(
    curves: Sequence[ErrorCurve],
    *,
    across: str,
    up: str,
    here: float,
    ticks: Sequence[float],
    legend: bool = True,
    height: int = 440,
) -> go.Figure:
    """Draw errors against epsilon or rows, one curve per learner.

    Parameters
    ----------
    curves : sequence of ErrorCurve
    across, up : str
        Titles of the axes.
    here : float
        The x at which the other figure is drawn, marked by a vertical line.
    ticks : sequence of float
        Where the axis has numbers. It covers all of them, so it stays while curves grow.
    legend : bool
    height : int
        Pixels.
    """
    figure = go.Figure()
    low, high = _span(curves)
    absent = [curve for curve in curves if any(not point.errors for point in curve.points)]
    # the marks of those without a mixture lie on lines above the curves
    decades = (high - low) / max(0.1, 1 - _LINE * (len(absent) + _CAPTION))
    top = low + decades
    figure.add_vline(x=here, line={"color": _INK, "width": 1.5, "dash": "dot"})
    for number, curve in enumerate(curves):
        _add_curve(figure, curve, _SYMBOLS[number % len(_SYMBOLS)])
    for number, curve in enumerate(absent):
        _add_marks(figure, curve, 10 ** (high + (number + _CAPTION) * _LINE * decades), across)
    if absent:
        figure.add_hline(y=10**high, line={"color": GRID, "width": 1})
        figure.add_annotation(
            x=0,
            xref="paper",
            y=high + 0.1 * _LINE * decades,
            text="no release  ✕ refused  ○ too few rows",
            showarrow=False,
            xanchor="left",
            yanchor="bottom",
            font={"color": _INK, "size": 11},
        )
    dressed(figure, height)
    values, texts = _log_ticks(low, high)
    figure.update_yaxes(
        title_text=up, type="log", range=[low, top], tickvals=values, ticktext=texts
    )
    xs = [here, *ticks, *(point.x for curve in curves for point in curve.points)]
    margin = 0.06 * max(0.5, math.log10(max(xs) / min(xs)))
    figure.update_xaxes(
        title_text=across,
        type="log",
        range=[math.log10(min(xs)) - margin, math.log10(max(xs)) + margin],
        tickvals=list(ticks),
        ticktext=[f"{tick:,g}" if tick < 1e4 else f"{tick:,.0f}" for tick in ticks],
    )
    figure.update_layout(showlegend=legend)
    return figure


def _span(curves: Sequence[ErrorCurve]) -> tuple[float, float]:
    """Compute the decades that hold every error, bars included."""
    drawn = [
        min(max(error, _FLOOR), _CEILING)
        for curve in curves
        for point in curve.points
        for error in point.errors
    ]
    if not drawn:
        return -3.0, 0.0
    low, high = math.log10(min(drawn)), math.log10(max(drawn))
    margin = 0.05 * max(high - low, 1.0)
    return low - margin, high + margin


def _log_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Choose where a log axis has numbers, and write these numbers."""
    leads = (1, 3) if high - low <= _FINE_UP_TO else (1,)
    step = max(1, math.ceil((high - low) / 6))
    values = [
        lead * 10.0**power
        for power in range(math.floor(low), math.ceil(high) + 1, step)
        for lead in leads
        if low <= math.log10(lead) + power <= high
    ]
    return values, [_as_tick(value) for value in values]


def _as_tick(value: float) -> str:
    """Write the number at a tick.

    >>> _as_tick(0.003), _as_tick(30.0), _as_tick(1e6)
    ('0.003', '30', '10<sup>6</sup>')
    """
    power = math.floor(math.log10(value) + 1e-9)
    if -4 < power < 4:
        return f"{value:.{max(0, -power)}f}"
    return f"10<sup>{power}</sup>"


def _add_curve(figure: go.Figure, curve: ErrorCurve, symbol: str) -> None:
    points = curve.with_errors
    medians = np.array([point.median for point in points])
    lowest = np.clip([min(point.errors) for point in points], _FLOOR, _CEILING)
    highest = np.clip([max(point.errors) for point in points], _FLOOR, _CEILING)
    figure.add_scatter(
        x=[point.x for point in points],
        y=medians,
        mode="lines+markers",
        name=curve.title,
        legendgroup=curve.title,
        line={"color": curve.look.colour, "dash": curve.look.dash, "width": curve.look.width},
        marker={"symbol": symbol, "size": 8, "color": curve.look.colour},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": highest - medians,
            "arrayminus": medians - lowest,
            "thickness": 1.2,
            "width": 3,
        },
        customdata=[
            f"{min(point.errors):.3g} to {max(point.errors):.3g}, {_runs(point)}"
            for point in points
        ],
        hovertemplate="%{x:,}: %{y:.3g}<br>%{customdata}<extra>" + curve.title + "</extra>",
        # a learner without any mixture is named in the legend by its marks
        showlegend=bool(points),
    )


def _runs(point: ErrorPoint) -> str:
    runs = len(point.errors)
    words = f"{runs} run" if runs == 1 else f"{runs} runs"
    return f"{words}, {point.refused} refused" if point.refused else words


def _add_marks(figure: go.Figure, curve: ErrorCurve, y: float, across: str) -> None:
    points = [point for point in curve.points if not point.errors]
    figure.add_scatter(
        x=[point.x for point in points],
        y=[y] * len(points),
        mode="markers",
        name=f"{curve.title}: no release",
        legendgroup=curve.title,
        showlegend=not curve.with_errors,
        marker={
            "symbol": [_REFUSED if point.refused else _TOO_FEW for point in points],
            "size": 9,
            "color": curve.look.colour,
            "line": {"width": 2, "color": curve.look.colour},
        },
        customdata=[_absence(point) for point in points],
        hovertemplate=f"{across} %{{x:,}}: %{{customdata}}<extra>{curve.title}</extra>",
    )


def _absence(point: ErrorPoint) -> str:
    if point.refused:
        return f"refused in {point.refused} of {point.refused} runs"
    if point.rows_needed is None or not math.isfinite(point.rows_needed):
        return "cannot release"
    return f"takes about {point.rows_needed:.3g} rows"


def comparison_alt_text(curves: Sequence[ErrorCurve], across: str) -> str:
    """Describe a figure in words."""
    sentences = []
    for curve in curves:
        points = curve.with_errors
        if not points:
            sentences.append(f"{curve.title}: no release anywhere.")
            continue
        first, last = points[0], points[-1]
        sentences.append(
            f"{curve.title}: error {first.median:.2g} at {first.x:,g}, {last.median:.2g} at "
            f"{last.x:,g}."
        )
    return f"Error against {across}. " + (" ".join(sentences) or "Nothing is known yet.")
