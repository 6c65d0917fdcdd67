"""Draw what other promises would give: errors against epsilon, and one table several times.

Both are drawn from rehearsals: releases from generated or bundled rows. Plotly only.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy.typing as npt
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from privgmm.arrays import Array, finite_array
from privgmm.errors import InvalidInput
from privgmm.figures.mixtures import NONPRIVATE, PRIVATE, ROWS, TRUE, MixtureLook, dressed, ellipses
from privgmm.mixture import Mixture

__all__ = ["TriedEpsilon", "error_curve", "pairs_figure", "promises_figure"]

_REFUSED = "rgba(128, 128, 136, 0.20)"
_INK = "rgba(128, 128, 136, 0.95)"
_MOST_DOTS, _MOST_COLUMNS = 500, 6
"""Dots in a small picture, and columns in a table of pairs: what can be seen and sent quickly."""


@dataclasses.dataclass(frozen=True, slots=True)
class TriedEpsilon:
    """Result of a rehearsal at one epsilon.

    Parameters
    ----------
    epsilon : float
    error : float or None
        None if nothing was released, or its error is not known.
    private : Mixture or None
        None after a refusal.
    """

    epsilon: float
    error: float | None
    private: Mixture | None


def error_curve(
    tried: Sequence[TriedEpsilon],
    *,
    here: float,
    nonprivate: float | None = None,
    span: Sequence[float] = (),
    height: int = 250,
) -> go.Figure:
    """Draw errors against epsilon, both on log scales, with a dot at the epsilon on screen.

    Parameters
    ----------
    tried : sequence of TriedEpsilon
    here : float
        The epsilon on screen.
    nonprivate : float, optional
        The error without privacy: a line.
    span : sequence of float
        Epsilons that the axis always covers, tried or not.
    height : int
        Pixels.

    Notes
    -----
    Where nothing was released the background is shaded, half-way to the next epsilon (on the log
    scale) with a release.
    """
    if not tried:
        raise InvalidInput("tried must hold at least one epsilon, got none")
    points = sorted(tried, key=lambda point: point.epsilon)
    low, high = (f([*span, *(point.epsilon for point in points)]) for f in (min, max))
    figure = go.Figure()
    errors = [point.error for point in points]
    for left, right in _refused_spans(points):
        figure.add_vrect(x0=left, x1=right, fillcolor=_REFUSED, line_width=0, layer="below")
        figure.add_annotation(
            x=(math.log10(left) + math.log10(right)) / 2,
            y=0.5,
            yref="paper",
            text="refused",
            showarrow=False,
            textangle=-90,
            font={"size": 13},
        )
    if nonprivate is not None and nonprivate > 0:
        figure.add_scatter(
            x=[low, high],
            y=[nonprivate] * 2,
            mode="lines",
            name="Without privacy",
            line={"color": NONPRIVATE.colour, "dash": NONPRIVATE.dash, "width": 2.5},
            hovertemplate="%{y:.3f}<extra>Without privacy</extra>",
        )
    figure.add_scatter(
        x=[point.epsilon for point in points],
        y=[error if error else None for error in errors],
        mode="lines+markers",
        name="With privacy",
        line={"color": PRIVATE.colour, "width": 2.5},
        marker={"size": 7, "color": PRIVATE.colour},
        hovertemplate="ε = %{x:g}: %{y:.3f}<extra>With privacy</extra>",
    )
    mine = next((point.error for point in points if point.epsilon == here), None)
    if mine:
        figure.add_scatter(
            x=[here],
            y=[mine],
            mode="markers",
            name="You are here",
            marker={
                "size": 16,
                "color": PRIVATE.colour,
                "line": {"color": "white", "width": 2.5},
            },
            hovertemplate="ε = %{x:g}: %{y:.3f}<extra>You are here</extra>",
        )
    else:
        figure.add_vline(x=here, line={"color": _INK, "width": 1.5, "dash": "dot"})
    dressed(figure, height)
    # errors fall from left to right, so the upper right corner is free
    figure.update_layout(
        legend={"orientation": "v", "x": 1, "y": 1, "xanchor": "right", "yanchor": "top"}
    )
    ticks = [tick for tick in (0.1, 0.3, 1, 3, 10) if low <= tick <= high]
    figure.update_xaxes(
        title_text="privacy budget ε",
        type="log",
        range=[math.log10(low) - 0.05, math.log10(high) + 0.05],
        tickvals=ticks,
        ticktext=[f"{tick:g}" for tick in ticks],
    )
    known = [error for error in (*errors, nonprivate) if error]
    steps = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1)
    least, most = (min(known), max(known)) if known else (0.01, 1.0)
    figure.update_yaxes(
        title_text="error",
        type="log",
        range=[math.log10(least / 1.6), math.log10(most * 1.6)],
        tickvals=steps,
        ticktext=[f"{step:g}" for step in steps],
    )
    return figure


def _refused_spans(points: Sequence[TriedEpsilon]) -> list[tuple[float, float]]:
    """List intervals of epsilon without a release."""
    spans: list[tuple[float, float]] = []
    for i, point in enumerate(points):
        if point.private is not None:
            continue
        low = math.sqrt(points[i - 1].epsilon * point.epsilon) if i > 0 else 0.88 * point.epsilon
        last = i + 1 == len(points)
        high = 1.14 * point.epsilon if last else math.sqrt(point.epsilon * points[i + 1].epsilon)
        if spans and math.isclose(spans[-1][1], low):
            low = spans.pop()[0]
        spans.append((low, high))
    return spans


def promises_figure(
    tried: Sequence[TriedEpsilon | float],
    rows: npt.ArrayLike,
    *,
    true: Mixture | None = None,
    axes: Sequence[int] = (0, 1),
    here: float | None = None,
    height: int = 250,
) -> go.Figure:
    """Draw one table under several promises, side by side; CONFIDENTIAL, it shows rows.

    Parameters
    ----------
    tried : sequence of TriedEpsilon or float
        One small picture each; a number is an epsilon that was not tried yet.
    rows : array-like (n, d)
        Shown as some dots; two columns or more.
    true : Mixture, optional
    axes : sequence of int
        The two columns.
    here : float, optional
        The epsilon on screen, set in bold.
    height : int
        Pixels.
    """
    data = finite_array(rows, "rows", (None, None))
    promises = [one.epsilon if isinstance(one, TriedEpsilon) else one for one in tried]
    titles = [f"<b>ε = {one:g}</b>" if one == here else f"ε = {one:g}" for one in promises]
    figure = make_subplots(1, len(tried), subplot_titles=titles, horizontal_spacing=0.02)
    for number, one in enumerate(tried, 1):
        private = one.private if isinstance(one, TriedEpsilon) else None
        layers = [(PRIVATE, private), (TRUE, true)]
        _add_cell(figure, (1, number), data, layers, axes)
        if private is None:
            figure.add_annotation(
                text="refused" if isinstance(one, TriedEpsilon) else "…",
                row=1,
                col=number,
                x=0.5,
                y=0.5,
                xref="x domain",
                yref="y domain",
                showarrow=False,
                font={"size": 16},
            )
    return _dressed_cells(figure, height)


def pairs_figure(
    rows: npt.ArrayLike | None,
    *,
    true: Mixture | None = None,
    nonprivate: Mixture | None = None,
    private: Mixture | None = None,
    columns: Sequence[str],
    height: int | None = None,
) -> go.Figure:
    """Draw every pair of the first six columns; CONFIDENTIAL if it shows rows.

    Parameters
    ----------
    rows : array-like (n, d), optional
    true, nonprivate, private : Mixture, optional
        Their ellipses at one standard deviation.
    columns : sequence of str
        All d names.
    height : int, optional
        Pixels.
    """
    data = None if rows is None else finite_array(rows, "rows", (None, None))
    count = min(len(columns), _MOST_COLUMNS)
    if count < 2:
        raise InvalidInput(f"columns must be at least two, got {list(columns)!r}")
    figure = make_subplots(count - 1, count - 1, horizontal_spacing=0.02, vertical_spacing=0.02)
    layers = [(PRIVATE, private), (NONPRIVATE, nonprivate), (TRUE, true)]
    for down in range(1, count):
        for across in range(down):
            _add_cell(figure, (down, across + 1), data, layers, (across, down))
    for position in range(count - 1):
        figure.update_xaxes(title_text=columns[position], row=count - 1, col=position + 1)
        figure.update_yaxes(title_text=columns[position + 1], row=position + 1, col=1)
    return _dressed_cells(figure, height or 90 + 120 * (count - 1))


def _add_cell(
    figure: go.Figure,
    cell: tuple[int, int],
    data: Array | None,
    layers: Sequence[tuple[MixtureLook, Mixture | None]],
    axes: Sequence[int],
) -> None:
    """Add dots and ellipses of one small picture."""
    place = {"row": cell[0], "col": cell[1]}
    pair = list(axes)
    if data is not None:
        dots = data[:: max(1, len(data) // _MOST_DOTS)][:, pair]
        figure.add_scatter(
            x=dots[:, 0],
            y=dots[:, 1],
            mode="markers",
            marker={"color": ROWS, "size": 2.5},
            hoverinfo="skip",
            **place,
        )
    for look, mixture in layers:
        if mixture is None:
            continue
        line = ellipses(mixture, pair)
        figure.add_scatter(
            x=line[:, 0],
            y=line[:, 1],
            mode="lines",
            line={"color": look.colour, "dash": look.dash, "width": min(look.width, 3.0)},
            name=look.label,
            hoverinfo="skip",
            **place,
        )


def _dressed_cells(figure: go.Figure, height: int) -> go.Figure:
    dressed(figure, height)
    figure.update_layout(showlegend=False, margin={"l": 4, "r": 4, "t": 26, "b": 4})
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(showticklabels=False, ticks="", fixedrange=True, title_standoff=4)
    return figure
