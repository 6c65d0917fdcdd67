"""Draw a sketch at work: the frame around the rows, the noisy waves, what they show, the fit.

In the visual language of `mixtures` and in the window of `film`: rows grey, all that is public in
the orange of a release. Rows and counts before noise are CONFIDENTIAL.

Plotly only: no page framework is imported here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from privgmm.arrays import Array, IntArray
from privgmm.figures.film import (
    OUTSIDE,
    framed,
    morphing,
    see_through,
)
from privgmm.figures.mixtures import (
    BAND,
    NONPRIVATE,
    PRIVATE,
    ROWS,
    dressed,
    mixtures_figure,
    thinned,
)
from privgmm.figures.motion import set_moving
from privgmm.figures.window import Window, shortened
from privgmm.mixture import Mixture
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import Histogram
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.standard_errors import StandardErrors

__all__ = [
    "counts_figure",
    "densities_by_direction",
    "density_seen",
    "fit_figure",
    "frame_figure",
    "oblique_direction",
    "outline_of",
    "projection_seen",
    "projections_figure",
    "sketch_figure",
]

_LINES = range(-3, 4)
"""Where lines of the frame are drawn, in its own units."""
_MOST_BINS = 24
"""Bins that are drawn around the fullest one: a choice of looks."""
_CELLS, _COARSE = 81, 41
"""Cells per axis of a picture that stays, and of one that is seen for a moment only."""
_FRAMES = 14
"""Frames of a picture that moves: a choice of looks."""
_LOUDEST = 2.0
"""Power of ten times the noise at which the colour is full."""
# from nothing to the full colour of a release
_HEAT = [[0.0, see_through(PRIVATE.colour, 0.0)], [1.0, see_through(PRIVATE.colour, 1.0)]]


def outline_of(frame: Frame) -> Mixture:
    """Return a frame as one Gaussian."""
    return Mixture.from_roots([1.0], frame.centre[None], frame.root[None])


def frame_figure(
    rows: Array,
    frame: Frame,
    window: Window,
    *,
    names: Sequence[str] = ("x1", "x2"),
    height: int = 460,
) -> go.Figure:
    """Draw the rows (n, d), and the frame as an ellipse with the lines of its coordinates.

    It moves: the frame grows from its centre around the rows. With one column the frame is a
    Gaussian curve over the histogram of the rows, and stands still.
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
    if flat:
        return figure
    grown = [number for number, trace in enumerate(figure.data) if trace.mode == "lines"]
    return set_moving(figure, _growing(figure, grown, frame))


def _growing(
    figure: go.Figure, places: Sequence[int], frame: Frame
) -> list[dict[int, dict[str, Array]]]:
    """List changes that let lines grow from the centre of the frame."""
    centre = dict(zip("xy", frame.centre[:2].tolist(), strict=True))
    return [
        {
            place: {
                axis: middle + size * (np.asarray(figure.data[place][axis], np.float64) - middle)
                for axis, middle in centre.items()
            }
            for place in places
        }
        for size in np.linspace(0.02, 1.0, _FRAMES, endpoint=False)
    ]


def _add_lines(figure: go.Figure, frame: Frame) -> None:
    """Add the grid of the frame's first two coordinates, as one line with gaps."""
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
    """Draw rows in each wide bin, before noise, and what a bin must hold to show; by column.

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


def oblique_direction(sketch: PrivateSketch) -> int | None:
    """Choose the direction that is farthest from every column; None with one column."""
    d = sketch.n_features
    others = sketch.directions[d:]
    if d == 1 or not len(others):
        return None
    return d + int(np.argmin(np.abs(others @ sketch.directions[:d].T).max(axis=1)))


def projection_seen(
    sketch: PrivateSketch, direction: int, places: Array, *, waves: int | None = None
) -> tuple[Array, float]:
    """Compute the density (g,) of ``v . z`` that a direction's noisy waves show, and its noise.

    Post-processing of the sketch alone: the Fourier sum of the waves along v, with those that are
    mostly noise scaled down (Wiener). The second value is the standard deviation that the privacy
    noise gives the curve. It repeats with the period of the lowest frequency: NaN beyond that.

    Parameters
    ----------
    sketch : PrivateSketch
    direction : int
        Which of the sketch's directions; the first d are those of the columns.
    places : array (g,)
        Where, in units of the frame.
    waves : int, optional
        How many to take, the slowest first; all by default.
    """
    values = sketch.values.reshape(-1, sketch.n_frequencies)[direction]
    noise = sketch.noise
    kept = np.clip(1 - 2 * noise**2 / np.abs(values) ** 2, 0.0, 1.0)
    if waves is not None:
        kept[waves:] = 0.0
    steps = sketch.step * np.arange(1, sketch.n_frequencies + 1)
    phases = places[:, None] * steps
    terms = values * kept * sketch.step / math.pi
    heights = (
        sketch.step / (2 * math.pi) + np.cos(phases) @ terms.real + np.sin(phases) @ terms.imag
    )
    deviation = sketch.step / math.pi * float(np.linalg.norm(kept * noise))
    far = np.abs(places) > math.pi / sketch.step
    return np.where(far, np.nan, np.maximum(heights, 0.0)), deviation


def projections_figure(
    rows: Array,
    sketch: PrivateSketch,
    *,
    names: Sequence[str] = ("x1", "x2"),
    max_rows: int = 100_000,
) -> go.Figure:
    """Draw rows and what the sketch says of them, along columns and a direction between them.

    The rows (n, d), as grey bars, are CONFIDENTIAL; the curves are public, with a band of two
    standard deviations of the privacy noise. Columns are in their own units, the direction between
    them in units of the frame.

    It moves: the waves are added up, from slow to fast.
    """
    frame, few = sketch.frame, thinned(rows, max_rows)
    inside = frame.to_frame(few)
    chosen: list[int] = list(range(min(2, sketch.n_features)))
    between = oblique_direction(sketch)
    titles = [f"Along {name}" for name in names[: len(chosen)]]
    if between is not None:
        chosen.append(between)
        titles.append("In a direction between the columns")
    figure = make_subplots(
        rows=len(chosen),
        cols=1,
        vertical_spacing=0.13 if len(chosen) > 1 else 0.0,
        subplot_titles=titles,
    )
    so_far: list[list[Array]] = []
    for number, direction in enumerate(chosen, 1):
        along = inside @ sketch.directions[direction]
        ends = np.quantile(along, [0.001, 0.999])
        reach = math.pi / sketch.step
        room = 0.12 * (ends[1] - ends[0])
        places = np.linspace(max(ends[0] - room, -reach), min(ends[1] + room, reach), 2 * _CELLS)
        # a column in its own units: x = centre + scale v.z
        centre, scale = 0.0, 1.0
        if direction < sketch.n_features:
            centre = float(frame.centre[direction])
            scale = float(frame.root[direction] @ sketch.directions[direction])
        heights, noise = projection_seen(sketch, direction, places)
        so_far.append(
            [
                projection_seen(sketch, direction, places, waves=waves)[0] / abs(scale)
                for waves in range(sketch.n_frequencies)
            ]
        )
        _add_projection(
            figure,
            number,
            centre + scale * along,
            centre + scale * places,
            heights / abs(scale),
            2 * noise / abs(scale),
        )
    dressed(figure, 210 * len(chosen) + 90)
    # below the panels, where its lines do not run into their titles on a narrow page
    legend = {"yref": "container", "yanchor": "bottom", "y": 0.0}
    figure.update_layout(margin={"t": 30, "b": 96}, bargap=0.0, legend=legend)
    figure.update_yaxes(title_text="density", rangemode="tozero", nticks=4)
    # each panel: bars, band, curve
    return set_moving(
        figure,
        [
            {
                place: change
                for number, panel in enumerate(so_far)
                for place, change in (
                    (3 * number + 1, {"opacity": 0.0}),
                    (3 * number + 2, {"y": panel[waves]}),
                )
            }
            for waves in range(sketch.n_frequencies)
        ],
    )


def _add_projection(
    figure: go.Figure, number: int, along: Array, places: Array, heights: Array, band: float
) -> None:
    """Add one panel: bars of the rows, the curve of the sketch and its band."""
    edges = np.linspace(places.min(), places.max(), 61)
    counts, _ = np.histogram(along, bins=edges)
    once = number == 1
    place = {"row": number, "col": 1}
    figure.add_bar(
        x=(edges[1:] + edges[:-1]) / 2,
        y=counts / (len(along) * (edges[1] - edges[0])),
        name="rows: confidential",
        legendgroup="rows",
        showlegend=once,
        marker={"color": ROWS, "line": {"width": 0}},
        hoverinfo="skip",
        **place,
    )
    figure.add_scatter(
        x=np.concatenate([places, places[::-1]]),
        y=np.concatenate([heights + band, np.maximum(heights - band, 0.0)[::-1]]),
        mode="lines",
        fill="toself",
        name="its noise (two deviations)",
        legendgroup="band",
        showlegend=once,
        line={"width": 0, "color": PRIVATE.colour},
        fillcolor=see_through(PRIVATE.colour, 0.25),
        hoverinfo="skip",
        **place,
    )
    figure.add_scatter(
        x=places,
        y=heights,
        mode="lines",
        name="what the noisy waves say",
        legendgroup="seen",
        showlegend=once,
        line={"color": PRIVATE.colour, "width": 2},
        hovertemplate="%{x:.4g}: density %{y:.3g}<extra></extra>",
        **place,
    )
    figure.update_xaxes(range=[float(edges[0]), float(edges[-1])], **place)


def density_seen(sketch: PrivateSketch, n_frequencies: int, points: Array) -> Array:
    """Compute the density (n,) that noisy waves show at points (n, d), for d = 1 or 2.

    Post-processing of the sketch alone. The Fourier integral over directions and frequencies, as
    in tomography; frequencies that are mostly noise are scaled down (Wiener). It repeats with the
    period of the lowest frequency: NaN where that shows.
    """
    waves = _even_waves(sketch, n_frequencies)
    phases = sketch.frame.to_frame(points) @ waves.frequencies.reshape(-1, sketch.n_features).T
    flat = waves.terms.ravel()
    heights = waves.level + np.cos(phases) @ flat.real + np.sin(phases) @ flat.imag
    return waves.as_density(heights, points)


def densities_by_direction(sketch: PrivateSketch, n_frequencies: int, points: Array) -> Array:
    """Compute densities (m, n) that the waves of the first directions show, then of more of them.

    As `density_seen`, direction by direction as the angle grows; the last is the whole. Each
    is as large as if its directions stood for all.
    """
    waves = _even_waves(sketch, n_frequencies)
    frequencies, terms = waves.frequencies[waves.order], waves.terms[waves.order]
    z = sketch.frame.to_frame(points)
    total, found = np.zeros(len(points)), []
    for number in range(len(terms)):
        phases = z @ frequencies[number].T
        total += np.cos(phases) @ terms[number].real + np.sin(phases) @ terms[number].imag
        found.append(waves.as_density(waves.level + total * len(terms) / (number + 1), points))
    return np.stack(found)


class _Waves(NamedTuple):
    """The noisy waves of directions that are evenly spread, ready to be summed up.

    Parameters
    ----------
    frame : Frame
    frequencies : array (m, L, d)
    terms : complex array (m, L)
        What each adds to the density, with its share of the integral.
    order : array (m,)
        The directions by angle.
    level : float
        What no wave adds.
    step : float
        The lowest frequency.
    """

    frame: Frame
    frequencies: Array
    terms: npt.NDArray[np.complex128]
    order: IntArray
    level: float
    step: float

    def as_density(self, heights: Array, points: Array) -> Array:
        """Convert to the units of the data: never below zero, and NaN where it repeats."""
        far = np.linalg.norm(self.frame.to_frame(points), axis=1) > math.pi / self.step
        scale = abs(float(np.linalg.det(self.frame.inverse)))
        return np.where(far, np.nan, np.maximum(heights * scale, 0.0))


def _even_waves(sketch: PrivateSketch, n_frequencies: int) -> _Waves:
    d = sketch.n_features
    # directions that are evenly spread: integrals over equal angles are the most accurate
    start = sketch.fitted_from
    values = sketch.values[start:].reshape(-1, n_frequencies)
    waves = sketch.frequencies[start:].reshape(*values.shape, d)
    sizes = np.linalg.norm(waves[0], axis=1)
    step = float(sizes[0])
    power = (np.abs(values) ** 2).mean(axis=0)
    noise = 2 * (sketch.deviations[start:].reshape(values.shape) ** 2).mean(axis=0)
    kept = np.clip(1 - noise / power, 0.0, 1.0)
    if d == 1:
        terms = values * kept * step / math.pi
        return _Waves(
            sketch.frame, waves, terms, np.arange(len(values)), step / (2 * math.pi), step
        )
    # a share of the half circle to each direction
    angles = np.arctan2(waves[:, 0, 1], waves[:, 0, 0]) % math.pi
    order = np.argsort(angles)
    ring = np.concatenate(
        [angles[order[-1:]] - math.pi, angles[order], angles[order[:1]] + math.pi]
    )
    shares = np.empty(angles.size)
    shares[order] = (ring[2:] - ring[:-2]) / 2
    terms = values * kept * sizes * step * shares[:, None] / (2 * math.pi**2)
    return _Waves(sketch.frame, waves, terms, order, 0.0, step)


def _add_seen(
    figure: go.Figure, sketch: PrivateSketch, n_frequencies: int, window: Window, **place: int
) -> None:
    """Add what the waves show, as a curve or a heat map; nothing for more than two columns."""
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
    sketch: PrivateSketch,
    n_frequencies: int,
    window: Window,
    *,
    names: Sequence[str] = ("x1", "x2"),
) -> go.Figure:
    """Draw how loud each noisy wave is, and below it what all waves together show. Public.

    With two columns it moves: the picture comes together direction by direction.

    Parameters
    ----------
    sketch : PrivateSketch
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
        if d == 1:
            figure.update_xaxes(range=window.x, title_text=shortened(names[0]), row=2, col=1)
            figure.update_yaxes(title_text="density", rangemode="tozero", row=2, col=1)
        else:
            window.set_axes(figure, names, row=2, col=1)
    return set_moving(figure, _scanning(sketch, n_frequencies, window)) if d == 2 else figure


def _scanning(
    sketch: PrivateSketch, n_frequencies: int, window: Window
) -> list[dict[int, dict[str, Array]]]:
    """List changes of the lower picture, while directions are added one after another."""
    xs, ys = (np.linspace(*span, _COARSE) for span in window)
    points = np.stack(np.meshgrid(xs, ys), axis=2).reshape(-1, 2)
    seen = densities_by_direction(sketch, n_frequencies, points)
    few = np.unique(np.linspace(0, len(seen) - 1, min(len(seen), _FRAMES)).astype(np.intp))
    return [{1: {"x": xs, "y": ys, "z": seen[i].reshape(_COARSE, _COARSE)}} for i in few]


def _add_loudness(figure: go.Figure, sketch: PrivateSketch, n_frequencies: int) -> None:
    """Add a map over directions and frequencies; with one direction, bars with their noise."""
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
    fitted: Mixture,
    sketch: PrivateSketch,
    n_frequencies: int,
    window: Window,
    *,
    errors: StandardErrors | None = None,
    names: Sequence[str] = ("x1", "x2"),
) -> go.Figure:
    """Draw the mixture that fits the waves, over what they show, with its error bands. Public.

    It moves: from the frame, where the search may begin, to the best fit.
    """
    figure = go.Figure()
    _add_seen(figure, sketch, n_frequencies, window)
    bands: dict[int, dict[str, Any]] = {}
    start = -1
    for trace in mixtures_figure(private=fitted, errors=errors).data:
        if trace.name == PRIVATE.label and start < 0:
            start = len(figure.data)
        elif trace.name == BAND:
            bands[len(figure.data)] = {"opacity": 0.0}
        label = {PRIVATE.label: "fit to the waves"}.get(trace.name, trace.name)
        figure.add_trace(trace.update(name=label))
    framed(figure, window, fitted.n_features == 1, names)
    k = fitted.n_components
    begin = Mixture.from_roots(
        np.full(k, 1 / k),
        np.tile(sketch.frame.centre, (k, 1)),
        np.tile(sketch.frame.root, (k, 1, 1)),
    )
    moves = morphing(begin, fitted, (0, 1), start)
    return set_moving(figure, [{**bands, **move} for move in moves])
