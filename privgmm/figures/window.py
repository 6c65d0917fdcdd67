"""Choose the part of the plane that pictures of one table show, by one rule for all of them.

Limits come from rows and ellipses, never from error bands: a band that is wider than the picture
ends at its edge, with an arrow. A few rows far away do not widen the picture either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from privgmm.arrays import Array

__all__ = ["Window", "add_arrows", "shortened", "window_of"]

_CENTRAL = (0.005, 0.995)
"""Quantiles that the window always holds: by convention all but one row in a hundred."""
_FURTHER = 0.3
"""Room for rows beyond these, as a share of their distance: Gaussian rows all lie within."""
_WIDEST = 1.0
"""How far ellipses may widen the window on each side, in extents of the rows, by convention."""
_MARGIN = 0.04
"""Free space along the edges, as a share of the extent."""
_EQUAL_UP_TO = 6.0
"""Axes get the same scale while one reaches at most this many times as far as the other."""
_LONGEST = 2.2
"""Width by height of the longest picture, on a wide screen; on a phone it is square."""
_LONGEST_NAME = 28
"""Characters of a column's name on an axis: more run out of a phone's picture."""


class Window(NamedTuple):
    """The part of the plane that is shown: equal from picture to picture, so that nothing jumps."""

    x: tuple[float, float]
    y: tuple[float, float]

    @classmethod
    def around(cls, points: Array | None, curves: Sequence[Array] = ()) -> Window:
        """Return the window around points (n, 2) and closed curves, each (m, 2).

        Without points it holds the curves. With points curves widen it by some extents only.
        """
        lows, highs = [], []
        if points is not None:
            low, high = np.quantile(points, _CENTRAL, axis=0)
            room = _FURTHER * (high - low)
            low = np.maximum(low - room, points.min(axis=0))
            high = np.minimum(high + room, points.max(axis=0))
            lows, highs = [low], [high]
        if curves:
            ends = np.concatenate(curves)
            least, most = ends.min(axis=0), ends.max(axis=0)
            # rows at one place only have no extent to compare with
            if lows and np.all(highs[0] > lows[0]):
                extent = _WIDEST * (highs[0] - lows[0])
                least = np.maximum(least, lows[0] - extent)
                most = np.minimum(most, highs[0] + extent)
            lows.append(least)
            highs.append(most)
        low, high = np.min(lows, axis=0), np.max(highs, axis=0)
        room = _MARGIN * np.where(high > low, high - low, 1.0)
        (x0, y0), (x1, y1) = (low - room).tolist(), (high + room).tolist()
        return cls((x0, x1), (y0, y1))

    @property
    def to_scale(self) -> bool:
        """Whether both axes get the same scale: not where that would make a thin strip."""
        width, height = self.x[1] - self.x[0], self.y[1] - self.y[0]
        return 1 / _EQUAL_UP_TO <= width / height <= _EQUAL_UP_TO

    @property
    def seen(self) -> Window:
        """All that a picture of any usual shape may show: it is more where axes share a scale."""
        if not self.to_scale:
            return self
        width, height = self.x[1] - self.x[0], self.y[1] - self.y[0]
        more = (max(0.0, _LONGEST * height - width) / 2, max(0.0, width - height) / 2)
        return Window(
            (self.x[0] - more[0], self.x[1] + more[0]), (self.y[0] - more[1], self.y[1] + more[1])
        )

    def clipped(self, points: Array) -> Array:
        """Move points (n, 2) that lie outside to the nearest place on the edge.

        A closed path clipped so covers the same part of the window as before: what moves stays
        outside on its way, so it winds around every point within as often as it did.
        """
        return np.clip(points, (self.x[0], self.y[0]), (self.x[1], self.y[1]))

    def n_outside(self, points: Array) -> int:
        """Count the points (n, 2) that the window does not show."""
        return int(np.any(points != self.clipped(points), axis=1).sum())

    def set_axes(self, figure: go.Figure, names: Sequence[str], **place: int) -> None:
        """Give a figure, or a part of it, these limits, this scale and short names."""
        figure.update_xaxes(range=self.x, title_text=shortened(names[0]), **place)
        figure.update_yaxes(range=self.y, title_text=shortened(names[1]), **place)
        if self.to_scale:
            # the first axis has no number in its name
            along = next(figure.select_xaxes(**place)).plotly_name.removeprefix("xaxis")
            figure.update_yaxes(scaleanchor=f"x{along}", scaleratio=1, **place)


def window_of(rows: Array, axes: Sequence[int] = (0, 1)) -> Window:
    """Return the window around rows (n, d) in two columns; of one column it has both sides."""
    return Window.around(rows[:, list(axes) if rows.shape[1] > 1 else [0, 0]])


def shortened(name: str, most: int = _LONGEST_NAME) -> str:
    """Cut a long name of a column.

    >>> shortened("age"), shortened("hours per week, self-reported in the spring of 1996")
    ('age', 'hours per week, self-report…')
    """
    return name if len(name) <= most else f"{name[: most - 1]}…"


_SIDES = ((0, 0, "◀"), (0, 1, "▶"), (1, 0, "▼"), (1, 1, "▲"))
"""Coordinate, end and arrow of each side of a window."""


def add_arrows(
    figure: go.Figure, window: Window, curves: Sequence[Array], *, colour: str, label: str
) -> None:
    """Mark where closed curves (m, 2) leave the picture, one arrow per curve and side.

    Parameters
    ----------
    figure : Figure
    window : Window
    curves : sequence of arrays (m, 2)
    colour, label : str
        Of what leaves.
    """
    for curve in curves:
        for axis, end, arrow in _SIDES:
            far = int(np.argmax(curve[:, axis] if end else -curve[:, axis]))
            reach, edge = float(curve[far, axis]), window.seen[axis][end]
            if reach <= edge if end else reach >= edge:
                continue
            place = window.clipped(curve[far : far + 1])[0]
            # on the edge of the picture, wherever that lies once both axes have the same scale
            across = {"x": end, "xref": "x domain"} if axis == 0 else {"x": place[0], "xref": "x"}
            up = {"y": end, "yref": "y domain"} if axis == 1 else {"y": place[1], "yref": "y"}
            figure.add_annotation(
                **across,
                **up,
                text=arrow,
                hovertext=f"{label} reaches {reach:.3g}, outside the picture",
                showarrow=False,
                font={"size": 16, "color": colour},
                xanchor=("left", "right")[end] if axis == 0 else "center",
                yanchor=("bottom", "top")[end] if axis == 1 else "middle",
            )
