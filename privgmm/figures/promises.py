"""Draw what other promises would give: one table several times.

They are drawn from rehearsals: releases from generated or bundled rows. Plotly only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from privgmm.arrays import Array, finite_array
from privgmm.errors import InvalidInput
from privgmm.figures.mixtures import NONPRIVATE, PRIVATE, ROWS, TRUE, MixtureLook, dressed, ellipses
from privgmm.figures.window import Window, shortened
from privgmm.mixture import Mixture

__all__ = ["TriedEpsilon", "pairs_figure", "promises_figure"]

_SHORT_NAME = 14
"""Characters of a name along a small picture."""
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
    given = [one.private for one in tried if isinstance(one, TriedEpsilon)]
    # one window for all, so that what moves is what differs
    window = _window(data, [true, *given], axes)
    for number, one in enumerate(tried, 1):
        private = one.private if isinstance(one, TriedEpsilon) else None
        layers = [(PRIVATE, private), (TRUE, true)]
        _add_cell(figure, (1, number), data, layers, axes, window)
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
    short = [shortened(name, _SHORT_NAME) for name in columns]
    for down in range(1, count):
        for across in range(down):
            # names stand below the last row and left of the first column
            names = (short[across] * (down == count - 1), short[down] * (across == 0))
            window = _window(data, [mixture for _, mixture in layers], (across, down))
            _add_cell(figure, (down, across + 1), data, layers, (across, down), window, names)
    return _dressed_cells(figure, height or 90 + 120 * (count - 1))


def _window(data: Array | None, mixtures: Sequence[Mixture | None], axes: Sequence[int]) -> Window:
    """Choose the window as the large picture does: around rows, and ellipses at two deviations."""
    lines = [ellipses(mixture, axes, 2.0) for mixture in mixtures if mixture is not None]
    curves = [line[~np.isnan(line[:, 0])] for line in lines]
    return Window.around(None if data is None else data[:, list(axes)], curves)


def _add_cell(
    figure: go.Figure,
    cell: tuple[int, int],
    data: Array | None,
    layers: Sequence[tuple[MixtureLook, Mixture | None]],
    axes: Sequence[int],
    window: Window,
    names: tuple[str, str] = ("", ""),
) -> None:
    """Add dots and ellipses of one small picture."""
    place = {"row": cell[0], "col": cell[1]}
    pair = list(axes)
    window.set_axes(figure, names, **place)
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
