"""Figures of a sketch at work: the frame around the rows, the noisy waves, what they show, the fit.

In the visual language of `mixtures` and in the window of `film`: rows grey, all that is public in
the orange of a release. Rows and counts before noise are NOT private.

Plotly only: no page framework is imported here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from privgmm.arrays import Array
from privgmm.figures.film import (
    OUTSIDE,
    Window,
    drawn_to_scale,
    framed,
    refinement_figure,
    see_through,
)
from privgmm.figures.mixtures import NONPRIVATE, PRIVATE, dressed, mixtures_figure, thinned
from privgmm.mixture import Mixture
from privgmm.stages.sketch.data import SketchData
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import Histogram

__all__ = [
    "counts_figure",
    "density_seen",
    "fit_figure",
    "frame_figure",
    "outline_of",
    "sketch_figure",
]

_LINES = range(-3, 4)
"""Where lines of the frame are drawn, in its own units."""
_MOST_BINS = 24
_CELLS = 81
_LOUDEST = 2.0
"""Power of ten times the noise at which the colour is full."""
_HEAT = [[0.0, see_through(PRIVATE.colour, 0.0)], [1.0, see_through(PRIVATE.colour, 1.0)]]


def outline_of(frame: Frame) -> Mixture:
    """A frame as one Gaussian."""
    return Mixture.from_roots([1.0], frame.centre[None], frame.root[None])


def frame_figure(
    rows: Array,
    frame: Frame,
    window: Window,
    *,
    names: Sequence[str] = ("x1", "x2"),
    height: int = 460,
) -> go.Figure:
    """The rows (n, d), and the frame as an ellipse with the lines of its coordinates.

    With one column the frame is a Gaussian curve over the histogram of the rows.
    """
    figure = go.Figure()
    flat = frame.n_features == 1
    if not flat:
        _add_lines(figure, frame)
    for trace in mixtures_figure(thinned(rows, 4000), private=outline_of(frame)).data:
        if trace.name == PRIVATE.label:
            trace.update(name="frame")
        figure.add_trace(trace)
    framed(figure, window, flat, names)
    figure.update_layout(height=height)
    return figure


def _add_lines(figure: go.Figure, frame: Frame) -> None:
    """The grid of the frame's first two coordinates, as one line parted by gaps."""
    reach = np.array([_LINES[0], _LINES[-1]], dtype=np.float64)
    pieces = []
    for at in _LINES:
        for across in (np.stack([reach, np.full(2, at)]), np.stack([np.full(2, at), reach])):
            pieces.append(frame.root[:2, :2] @ across + frame.centre[:2, None])
            pieces.append(np.full((2, 1), np.nan))
    line = np.concatenate(pieces, axis=1)
    figure.add_scatter(
        x=line[0],
        y=line[1],
        mode="lines",
        name="its coordinates",
        line={"color": see_through(PRIVATE.colour, 0.45), "width": 1},
        hoverinfo="skip",
    )


def counts_figure(
    places: Sequence[Histogram], threshold: int, *, names: Sequence[str] = ("x1", "x2")
) -> go.Figure:
    """Rows in each wide bin, column by column, before noise, and what a bin must hold to show.

    Bins far from the fullest one are left out.
    """
    figure = make_subplots(rows=len(places), cols=1, vertical_spacing=0.2)
    for number, histogram in enumerate(places, 1):
        middle = histogram.bins[np.argmax(histogram.counts)]
        near = np.abs(histogram.bins - middle) <= _MOST_BINS // 2
        bins, counts = histogram.bins[near], histogram.counts[near]
        full = counts >= threshold
        for mine, colour, label in (
            (full, PRIVATE.colour, "full enough to show"),
            (~full, OUTSIDE, "stays hidden"),
        ):
            figure.add_bar(
                x=bins[mine] - middle,
                y=counts[mine],
                name=label,
                legendgroup=label,
                showlegend=number == 1,
                marker={"color": colour, "line": {"width": 0}},
                hovertemplate="%{y} rows<extra></extra>",
                row=number,
                col=1,
            )
        ends = [float(bins.min() - middle) - 0.7, float(bins.max() - middle) + 0.7]
        figure.add_scatter(
            x=ends,
            y=[threshold, threshold],
            mode="lines",
            name=f"threshold: {threshold:,}",
            legendgroup="threshold",
            showlegend=number == 1,
            line={"color": NONPRIVATE.colour, "dash": "dash", "width": 2.5},
            hoverinfo="skip",
            row=number,
            col=1,
        )
        title = f"{names[number - 1]}: bin, counted from the fullest"
        figure.update_xaxes(range=ends, title_text=title, row=number, col=1)
    dressed(figure, max(340, 240 * len(places)))
    figure.update_layout(bargap=0.05, barmode="overlay")
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(title_text="rows", rangemode="tozero")
    return figure


def density_seen(sketch: SketchData, n_frequencies: int, points: Array) -> Array:
    """The density (n,) that noisy waves show at points (n, d), for d = 1 or 2.

    Post-processing of the sketch alone. The Fourier integral over directions and frequencies, as
    in tomography; frequencies that are mostly noise are turned down (Wiener). It repeats with the
    period of the lowest frequency: NaN where that shows.
    """
    frame, d = sketch.frame, sketch.frame.n_features
    values = sketch.values.reshape(-1, n_frequencies)
    waves = sketch.frequencies.reshape(*values.shape, d)
    sizes = np.linalg.norm(waves[0], axis=1)
    step = float(sizes[0])
    power = (np.abs(values) ** 2).mean(axis=0)
    noise = 2 * (sketch.deviations.reshape(values.shape) ** 2).mean(axis=0)
    kept = np.clip(1 - noise / power, 0.0, 1.0)
    z = frame.to_frame(points)
    if d == 1:
        terms = values * kept * step / math.pi
        start = step / (2 * math.pi)
    else:
        # a share of the half circle to each direction
        angles = np.arctan2(waves[:, 0, 1], waves[:, 0, 0]) % math.pi
        order = np.argsort(angles)
        ring = np.concatenate(
            [angles[order[-1:]] - math.pi, angles[order], angles[order[:1]] + math.pi]
        )
        shares = np.empty(angles.size)
        shares[order] = (ring[2:] - ring[:-2]) / 2
        terms = values * kept * sizes * step * shares[:, None] / (2 * math.pi**2)
        start = 0.0
    phases = z @ sketch.frequencies.T
    flat = terms.ravel()
    heights = start + np.cos(phases) @ flat.real + np.sin(phases) @ flat.imag
    heights *= abs(float(np.linalg.det(frame.inverse)))
    far = np.linalg.norm(z, axis=1) > math.pi / step
    return np.where(far, np.nan, np.maximum(heights, 0.0))


def _add_seen(
    figure: go.Figure, sketch: SketchData, n_frequencies: int, window: Window, **place: int
) -> None:
    """What the waves show, as a curve or as a cloud; nothing for more than two columns."""
    xs = np.linspace(*window.x, 2 * _CELLS)
    if sketch.frame.n_features == 1:
        figure.add_scatter(
            x=xs,
            y=density_seen(sketch, n_frequencies, xs[:, None]),
            mode="lines",
            fill="tozeroy",
            name="seen in the waves",
            line={"color": PRIVATE.colour, "width": 1},
            fillcolor=see_through(PRIVATE.colour, 0.35),
            hoverinfo="skip",
            **place,
        )
    elif sketch.frame.n_features == 2:
        xs, ys = (np.linspace(*span, _CELLS) for span in window)
        points = np.stack(np.meshgrid(xs, ys), axis=2).reshape(-1, 2)
        figure.add_heatmap(
            x=xs,
            y=ys,
            z=density_seen(sketch, n_frequencies, points).reshape(_CELLS, _CELLS),
            name="seen in the waves",
            colorscale=_HEAT,
            zmin=0.0,
            zsmooth="best",
            showscale=False,
            opacity=0.75,
            hoverinfo="skip",
            **place,
        )


def sketch_figure(
    sketch: SketchData,
    n_frequencies: int,
    window: Window,
    *,
    names: Sequence[str] = ("x1", "x2"),
) -> go.Figure:
    """How loud each noisy wave is, and below it what all waves together show. Public.

    Parameters
    ----------
    sketch : SketchData
    n_frequencies : int
        L: the waves of one direction lie together.
    window : Window
        The part of the plane below; for more than two columns there is none.
    """
    d = sketch.frame.n_features
    pictured = d <= 2
    figure = make_subplots(
        rows=1 + pictured,
        cols=1,
        row_heights=[0.4, 0.6][: 1 + pictured],
        vertical_spacing=0.17,
        subplot_titles=["How loud each wave is", "What the waves show together"][: 1 + pictured],
    )
    _add_loudness(figure, sketch, n_frequencies)
    if pictured:
        _add_seen(figure, sketch, n_frequencies, window, row=2, col=1)
    dressed(figure, 680 if pictured else 460)
    figure.update_layout(showlegend=False, margin={"t": 30})
    figure.update_xaxes(title_text="frequency", row=1, col=1)
    loud = "loudness" if d == 1 else "direction, in degrees" if d == 2 else "direction"
    figure.update_yaxes(title_text=loud, row=1, col=1)
    if pictured:
        figure.update_xaxes(range=window.x, title_text=names[0], row=2, col=1)
        if d == 1:
            figure.update_yaxes(title_text="density", rangemode="tozero", row=2, col=1)
        else:
            figure.update_yaxes(range=window.y, title_text=names[1], row=2, col=1)
            if drawn_to_scale(window):
                figure.update_yaxes(scaleanchor="x2", scaleratio=1, row=2, col=1)
    return figure


def _add_loudness(figure: go.Figure, sketch: SketchData, n_frequencies: int) -> None:
    """A map over directions and frequencies; with one direction, bars beside their noise."""
    frequencies = sketch.frequencies.reshape(-1, n_frequencies, sketch.frame.n_features)
    sizes = np.abs(sketch.values).reshape(-1, n_frequencies)
    noise = sketch.deviations.reshape(-1, n_frequencies)
    x = np.linalg.norm(frequencies[0], axis=1)
    if len(sizes) == 1:
        figure.add_bar(
            x=x,
            y=sizes[0],
            name="loudness",
            marker={"color": PRIVATE.colour, "line": {"width": 0}},
            hovertemplate="frequency %{x:.2g}: %{y:.3f}<extra></extra>",
            row=1,
            col=1,
        )
        figure.add_scatter(
            x=x,
            y=noise[0],
            mode="lines",
            name="noise",
            line={"color": OUTSIDE, "dash": "dash", "width": 2.5},
            hovertemplate="noise %{y:.3f}<extra></extra>",
            row=1,
            col=1,
        )
        return
    first = frequencies[:, 0]
    order, y = np.arange(len(sizes)), np.arange(1.0, len(sizes) + 1)
    if first.shape[1] == 2:
        angles = np.degrees(np.arctan2(first[:, 1], first[:, 0])) % 180
        order = np.argsort(angles)
        y = angles[order]
    ratio = (sizes / noise)[order]
    powers = np.arange(_LOUDEST + 1)
    figure.add_heatmap(
        x=x,
        y=y,
        z=np.log10(np.maximum(ratio, 1.0)),
        customdata=ratio,
        zmin=0.0,
        zmax=_LOUDEST,
        colorscale=_HEAT,
        colorbar={
            "title": {"text": "times<br>its noise"},
            "tickvals": powers,
            "ticktext": [f"{10**power:.0f}" for power in powers],
            "len": 0.45,
            "y": 1.0,
            "yanchor": "top",
            "thickness": 14,
        },
        hovertemplate="frequency %{x:.2g}: %{customdata:.1f} times its noise<extra></extra>",
        row=1,
        col=1,
    )


def fit_figure(
    first: Mixture,
    final: Mixture,
    sketch: SketchData,
    n_frequencies: int,
    window: Window,
    *,
    true: Mixture | None = None,
    names: Sequence[str] = ("x1", "x2"),
) -> go.Figure:
    """The fit to the first waves and what is released, over what the waves show. Public."""
    figure = go.Figure()
    _add_seen(figure, sketch, n_frequencies, window)
    drawn = refinement_figure(
        first, final, window, true=true, names=names, labels=("first fit", "released")
    )
    figure.add_traces(drawn.data)
    figure.update_layout(drawn.layout)
    return figure
