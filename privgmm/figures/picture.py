"""Draw pictures from a sketch alone: densities, the path of fits, error regions.

They may be published. In the visual language of `mixtures`, public things have the orange of a
release. A figure is CONFIDENTIAL only where rows are given for comparison, and says so.

Plotly only: no page framework is imported here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from scipy.stats import chi2

from privgmm.arrays import Array, finite_array, positive
from privgmm.errors import InvalidInput
from privgmm.figures.film import OUTSIDE, see_through
from privgmm.figures.mixtures import NONPRIVATE, PRIVATE, ROWS, dressed, ellipse, mixtures_figure
from privgmm.figures.window import shortened
from privgmm.mixture import Mixture
from privgmm.stages.sketch.choice import Tried
from privgmm.stages.sketch.fitting import MISFIT
from privgmm.stages.sketch.picture import DensityCurve, DensityImage
from privgmm.stages.sketch.private_sketch import SketchFit
from privgmm.stages.standard_errors import StandardErrors

__all__ = [
    "confidence_ellipses",
    "curve_figure",
    "image_figure",
    "image_words",
    "path_figure",
    "rows_figure",
]

_Scale = list[list[float | str]]

# colour scales: from nothing through the colour of a release to what stands out most
_HEAT: _Scale = [
    [0.0, see_through(PRIVATE.colour, 0.0)],
    [0.5, see_through(PRIVATE.colour, 0.75)],
    [0.8, "rgba(150, 50, 0, 1)"],
    [1.0, "rgba(70, 15, 10, 1)"],
]
# on a dark background what is dense is light
_HEAT_ON_DARK: _Scale = [
    [0.0, see_through(PRIVATE.colour, 0.0)],
    [0.5, see_through(PRIVATE.colour, 0.75)],
    [0.8, "rgba(255, 158, 84, 1)"],
    [1.0, "rgba(255, 236, 214, 1)"],
]
# rows, which are confidential
_GREY: _Scale = [[0.0, "rgba(128, 128, 136, 0)"], [1.0, "rgba(60, 60, 68, 1)"]]
# rows on a dark background
_GREY_ON_DARK: _Scale = [[0.0, "rgba(128, 128, 136, 0)"], [1.0, "rgba(235, 235, 240, 1)"]]
_TICKS = (0.0, 0.01, 0.1, 0.25, 0.5, 1.0)
"""Shares of the peak that have a number on the colour bar; colours follow their roots."""
_BAND = 2.0
"""Standard errors that a band reaches to either side, as its label says."""
_REGION = "where each mean lies (95 %)"
_FINEST = "finest detail measured"


def confidence_ellipses(
    mixture: Mixture, errors: StandardErrors, axes: Sequence[int] = (0, 1), level: float = 0.95
) -> list[tuple[Array, Array]]:
    """Compute for each component a closed curve that holds its true mean with a given chance.

    Parameters
    ----------
    mixture : Mixture
    errors : StandardErrors
        Of this mixture.
    axes : two column numbers
    level : float
        That chance.
    """
    pair = list(axes)
    if len(pair) != 2 or errors.means.shape != mixture.means.shape:
        raise InvalidInput("axes must be two columns, and errors those of this mixture")
    radius = math.sqrt(float(chi2.ppf(positive(level, "level", below=1.0), 2)))
    return [
        ellipse(mean[pair], spread[np.ix_(pair, pair)], radius)
        for mean, spread in zip(mixture.means, errors.mean_covariances, strict=True)
    ]


def _heat(densities: Array, top: float) -> Array:
    """Compute what is coloured: the root of the share of the peak, so that faint parts show."""
    return np.sqrt(np.clip(densities / top, 0.0, 1.0))


def image_figure(
    image: DensityImage,
    *,
    mixture: Mixture | None = None,
    errors: StandardErrors | None = None,
    axes: Sequence[int] = (0, 1),
    rows: npt.ArrayLike | None = None,
    height: int = 520,
    dark: bool = False,
) -> go.Figure:
    """Draw the joint density of two columns.

    Parameters
    ----------
    image : DensityImage
    mixture : Mixture, optional
        Drawn over it as ellipses at one and two standard deviations.
    errors : StandardErrors, optional
        Of the mixture: regions that hold the true means in 95 % of all cases.
    axes : two column numbers
        Those of the image, in the mixture and in the rows.
    rows : array-like (n, d), optional
        The data, as a histogram next to the picture. CONFIDENTIAL.
    height : int
        Pixels.
    dark : bool
        Whether the background is dark: then what is dense is light.
    """
    beside = rows is not None
    figure = make_subplots(
        rows=1,
        cols=1 + beside,
        shared_xaxes="all",
        shared_yaxes="all",
        horizontal_spacing=0.04,
        subplot_titles=["Public: from the sketch", "Confidential: the rows"] if beside else None,
    )
    top = float(image.densities.max())
    _add_image(figure, image, top, _HEAT_ON_DARK if dark else _HEAT)
    if mixture is not None:
        for trace in mixtures_figure(private=mixture, axes=axes).data:
            trace.update(name="mixture")
            trace.line.width = 1.5
            figure.add_trace(trace, row=1, col=1)
        if errors is not None:
            _add_regions(figure, confidence_ellipses(mixture, errors, axes))
    _add_finest(figure, image)
    if rows is not None:
        flat = finite_array(rows, "rows", (None, None))[:, list(axes)]
        _add_histogram(figure, flat, image, top, _GREY_ON_DARK if dark else _GREY, col=2)
    dressed(figure, height)
    spans = [(float(one[0]), float(one[-1])) for one in (image.x, image.y)]
    figure.update_xaxes(range=spans[0], title_text=shortened(image.columns[0]))
    figure.update_yaxes(range=spans[1])
    figure.update_yaxes(title_text=shortened(image.columns[1]), row=1, col=1)
    if beside:
        # above are the titles
        figure.update_layout(margin={"t": 40}, legend={"yanchor": "top", "y": -0.12})
    return figure


def rows_figure(
    rows: npt.ArrayLike,
    image: DensityImage,
    *,
    axes: Sequence[int] = (0, 1),
    height: int = 520,
    dark: bool = False,
) -> go.Figure:
    """Draw the data on the grid of an image and on its colour scale. CONFIDENTIAL.

    Parameters
    ----------
    rows : array-like (n, d)
    image : DensityImage
    axes : two column numbers
        Those of the image, in the rows.
    height : int
        Pixels.
    dark : bool
        Whether the background is dark.
    """
    figure = make_subplots(rows=1, cols=1)
    flat = finite_array(rows, "rows", (None, None))[:, list(axes)]
    top = float(image.densities.max())
    _add_histogram(figure, flat, image, top, _GREY_ON_DARK if dark else _GREY, col=1)
    dressed(figure, height)
    figure.update_xaxes(
        range=[float(image.x[0]), float(image.x[-1])], title_text=shortened(image.columns[0])
    )
    figure.update_yaxes(
        range=[float(image.y[0]), float(image.y[-1])], title_text=shortened(image.columns[1])
    )
    return figure


def _add_image(figure: go.Figure, image: DensityImage, top: float, scale: _Scale) -> None:
    figure.add_heatmap(
        x=image.x,
        y=image.y,
        z=_heat(image.densities, top),
        customdata=np.stack([image.densities, image.deviations], axis=2),
        zmin=0.0,
        zmax=1.0,
        zsmooth="best",
        colorscale=scale,
        colorbar={
            "title": {"text": "share of<br>the peak"},
            "tickvals": [math.sqrt(tick) for tick in _TICKS],
            "ticktext": [f"{tick:.0%}" for tick in _TICKS],
            "thickness": 14,
        },
        name="density",
        hovertemplate=(
            f"{image.columns[0]} %{{x:.4g}}, {image.columns[1]} %{{y:.4g}}<br>"
            "density %{customdata[0]:.3g} ± %{customdata[1]:.2g}<extra></extra>"
        ),
        row=1,
        col=1,
    )


def _add_regions(figure: go.Figure, regions: Sequence[tuple[Array, Array]]) -> None:
    gap = [math.nan]
    figure.add_scatter(
        x=np.concatenate([part for xs, _ in regions for part in (xs, gap)]),
        y=np.concatenate([part for _, ys in regions for part in (ys, gap)]),
        mode="lines",
        name=_REGION,
        line={"color": NONPRIVATE.colour, "width": 2},
        hoverinfo="skip",
        row=1,
        col=1,
    )


def _add_finest(figure: go.Figure, image: DensityImage) -> None:
    """Add a small cross in the corner, as long as the finest detail."""
    width, height = image.resolution
    x = float(image.x[0] + 0.03 * np.ptp(image.x)) + width / 2
    y = float(image.y[0] + 0.03 * np.ptp(image.y)) + height / 2
    figure.add_scatter(
        x=np.array([x - width / 2, x + width / 2, math.nan, x, x]),
        y=np.array([y, y, math.nan, y - height / 2, y + height / 2]),
        mode="lines",
        name=_FINEST,
        line={"color": OUTSIDE, "width": 2},
        hovertemplate=f"{_FINEST}: {width:.3g} by {height:.3g}<extra></extra>",
        row=1,
        col=1,
    )


def _add_histogram(
    figure: go.Figure, rows: Array, image: DensityImage, top: float, scale: _Scale, col: int
) -> None:
    edges = [_edges(one) for one in (image.x, image.y)]
    counts = np.histogram2d(rows[:, 0], rows[:, 1], bins=edges)[0].T
    cell = float((image.x[1] - image.x[0]) * (image.y[1] - image.y[0]))
    figure.add_heatmap(
        x=image.x,
        y=image.y,
        z=_heat(counts / (len(rows) * cell), top),
        zmin=0.0,
        zmax=1.0,
        colorscale=scale,
        showscale=False,
        name=f"{len(rows):,} rows",
        hoverinfo="skip",
        row=1,
        col=col,
    )


def _edges(middles: Array) -> Array:
    half = (middles[1] - middles[0]) / 2
    return np.append(middles - half, middles[-1] + half)


def image_words(image: DensityImage) -> str:
    """Say in words what an image shows, and how far it can be trusted."""
    up, across = np.unravel_index(int(np.argmax(image.densities)), image.densities.shape)
    names, (width, height) = image.columns, image.resolution
    how = (
        "Waves ran in all directions of the plane."
        if image.plane_seen
        else "The two columns were measured one by one; their dependence is that of the mixture."
    )
    return (
        f"Density of {names[0]} and {names[1]}, highest at {image.x[across]:.3g}, "
        f"{image.y[up]:.3g}. Noise and sampling move it by about "
        f"{image.expected_variation:.2g} in total variation. Details narrower than {width:.2g} in "
        f"{names[0]} or {height:.2g} in {names[1]} were not measured. {how}"
    )


def curve_figure(
    curve: DensityCurve,
    *,
    mixture: Mixture | None = None,
    axis: int = 0,
    rows: npt.ArrayLike | None = None,
    height: int = 380,
) -> go.Figure:
    """Draw the density of one column, with a band of two standard errors.

    Parameters
    ----------
    curve : DensityCurve
    mixture : Mixture, optional
        Its density of the column is drawn as well.
    axis : int
        The column, in the mixture and in the rows.
    rows : array-like (n, d), optional
        The data, as a histogram behind the curve. CONFIDENTIAL.
    height : int
        Pixels.
    """
    figure = go.Figure()
    x = curve.grid
    if rows is not None:
        values = finite_array(rows, "rows", (None, None))[:, axis]
        counts, edges = np.histogram(values, bins=np.linspace(x[0], x[-1], 81))
        figure.add_bar(
            x=(edges[1:] + edges[:-1]) / 2,
            y=counts / (len(values) * np.diff(edges)),
            width=np.diff(edges),
            name=f"{len(values):,} rows: confidential",
            marker={"color": ROWS, "line": {"width": 0}},
            hoverinfo="skip",
        )
    low = np.maximum(curve.densities - _BAND * curve.deviations, 0.0)
    high = curve.densities + _BAND * curve.deviations
    figure.add_scatter(
        x=np.concatenate([x, x[::-1]]),
        y=np.concatenate([high, low[::-1]]),
        fill="toself",
        mode="lines",
        name="two standard errors",
        line={"width": 0, "color": PRIVATE.colour},
        fillcolor=see_through(PRIVATE.colour, 0.25),
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=x,
        y=curve.densities,
        mode="lines",
        name="density, from the sketch",
        line={"color": PRIVATE.colour, "width": 3},
        customdata=curve.deviations,
        hovertemplate="%{x:.4g}: %{y:.3g} ± %{customdata:.2g}<extra></extra>",
    )
    if mixture is not None:
        figure.add_scatter(
            x=x,
            y=mixture.marginal([axis]).density(x[:, None]),
            mode="lines",
            name="density of the mixture",
            line={"color": OUTSIDE, "dash": "dash", "width": 2},
            hoverinfo="skip",
        )
    dressed(figure, height)
    figure.update_xaxes(title_text=shortened(curve.column), range=[float(x[0]), float(x[-1])])
    figure.update_yaxes(title_text="density", rangemode="tozero")
    return figure


def path_figure(fits: Sequence[SketchFit | Tried], *, height: int = 420) -> go.Figure:
    """Draw how well 1, 2, 3, … components explain the rows, and which number is chosen. Public."""
    if not fits:
        raise InvalidInput("fits must hold at least one fit: give a path")
    counts = [one.n_components for one in fits]
    misfits = np.array([one.misfit for one in fits])
    criteria = np.array([one.criterion for one in fits])
    best = int(np.argmin(criteria))
    figure = make_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.12,
        subplot_titles=["Misfit: noise stays below the line", "Criterion"],
    )
    colours = [PRIVATE.colour if at == best else OUTSIDE for at in range(len(fits))]
    figure.add_bar(
        x=counts,
        # on a scale on which both 3 and 3,000 can be read
        y=np.arcsinh(misfits),
        marker={"color": colours, "line": {"width": 0}},
        customdata=misfits,
        name="misfit",
        hovertemplate="%{x} components: misfit %{customdata:.3g}<extra></extra>",
        row=1,
        col=1,
    )
    figure.add_hline(
        y=math.asinh(MISFIT), line={"color": NONPRIVATE.colour, "dash": "dash"}, row=1, col=1
    )
    figure.add_bar(
        x=counts,
        y=np.log10(1 + criteria - criteria.min()),
        marker={"color": colours, "line": {"width": 0}},
        customdata=criteria - criteria.min(),
        name="criterion",
        hovertemplate="%{x} components: %{customdata:.4g} above the best<extra></extra>",
        row=2,
        col=1,
    )
    dressed(figure, height)
    ticks = [-5, 0, 5, 50, 500, 5000, 50_000]
    figure.update_yaxes(
        tickvals=np.arcsinh(ticks), ticktext=[f"{tick:,}" for tick in ticks], row=1, col=1
    )
    powers = range(7)
    figure.update_yaxes(
        title_text="above the best",
        tickvals=[math.log10(1 + 10**power) for power in powers],
        ticktext=[f"{10**power:,}" for power in powers],
        row=2,
        col=1,
    )
    figure.update_xaxes(title_text="components", dtick=1, row=2, col=1)
    figure.update_layout(showlegend=False, margin={"t": 30}, bargap=0.4)
    return figure
