"""Draw Theorem 1.8: total variation against parameter distance, and one pair of Gaussians.

Plotly only, in the visual language of `mixtures`: transparent backgrounds, hues that contrast with
white and with near-black, and for every colour a shape or a dash as well.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from privgmm.arrays import Array
from privgmm.distances.bounds import LOWER, PREMISE, UPPER, TVBounds
from privgmm.distances.gaussian_pairs import PAIR_KINDS, PairCloud
from privgmm.errors import InvalidInput
from privgmm.figures.film import see_through
from privgmm.figures.mixtures import NONPRIVATE, PRIVATE, TRUE, dressed, ellipse

__all__ = [
    "DIMENSION_COLOURS",
    "FIRST",
    "HIGHEST",
    "KIND_SYMBOLS",
    "LOWEST",
    "SECOND",
    "band_alt_text",
    "band_figure",
    "overlap_alt_text",
    "overlap_figure",
    "pair_alt_text",
    "pair_figure",
]

FIRST, SECOND = NONPRIVATE.colour, PRIVATE.colour
"""Colours of the two Gaussians of a pair."""

DIMENSION_COLOURS = (TRUE.colour, "#2583C4", "#8E6FD1", "#CC79A7")
KIND_SYMBOLS = dict(zip(PAIR_KINDS, ("triangle-up", "square", "circle"), strict=True))

LOWEST = 1 / (math.pi * math.sqrt(2))
"""The least limit of TV / Delta found in any dimension, as TV → 0 (see `bounds.best_constants`)."""

HIGHEST = math.sqrt(3 / (4 * math.pi))
"""What the greatest limit of TV / Delta found tends to as the dimension grows."""

_LEAST, _MOST = 1e-4, 20.0
"""Delta at the ends of the axis: well within the premise, and where TV is 1 to many digits."""
_INK = "rgba(128, 128, 136, 1)"
_SHARED = "rgba(128, 128, 136, 0.38)"
_FAINT = "rgba(128, 128, 136, 0.16)"
_ALLOWED = "rgba(0, 158, 115, 0.10)"
_FOUND = TRUE.colour
_SELECTED = {"selected": {"marker": {"opacity": 1}}, "unselected": {"marker": {"opacity": 0.5}}}


@dataclasses.dataclass(frozen=True, slots=True)
class _Scale:
    """Vertical axis: TV itself, or TV divided by Delta."""

    ratio: bool

    def __call__(self, tv: npt.ArrayLike, delta: npt.ArrayLike) -> Array:
        value = np.asarray(tv, dtype=np.float64)
        return value / np.asarray(delta, dtype=np.float64) if self.ratio else value

    @property
    def title(self) -> str:
        return "TV / Δ" if self.ratio else "total variation TV"

    @property
    def span(self) -> tuple[float, float]:
        return (3e-3, 1.1) if self.ratio else (LOWER * _LEAST / 1.6, 1.6)


def band_figure(
    clouds: Sequence[PairCloud] = (),
    *,
    pair: TVBounds | None = None,
    swapped_delta: float | None = None,
    ratio: bool = False,
    height: int = 520,
) -> go.Figure:
    """Draw Theorem 1.8 on logarithmic axes: where the exact TV may lie, and where it does.

    Parameters
    ----------
    clouds : sequence of PairCloud
        Dots: colour for the dimension, shape for what differs. Each carries its TV,
        dimension, kind and number within its cloud as ``customdata``.
    pair : TVBounds, optional
        One pair, shown as a star.
    swapped_delta : float, optional
        Delta with the two Gaussians swapped (Remark 1.9), shown next to the star.
    ratio : bool
        Draw TV / Delta, which turns the bounds into level lines.
    height : int
        Pixels.
    """
    scale = _Scale(ratio)
    figure = go.Figure()
    _add_band(figure, scale)
    dimensions = sorted({cloud.n_features for cloud in clouds})
    if len(dimensions) > len(DIMENSION_COLOURS):
        raise InvalidInput(
            f"clouds may have at most {len(DIMENSION_COLOURS)} dimensions, got {dimensions}"
        )
    for d, colour in zip(dimensions, DIMENSION_COLOURS, strict=False):
        _add_dots(figure, scale, clouds, d, colour)
    _add_lines(figure, scale)
    _add_labels(figure, scale)
    if pair is not None:
        _add_star(figure, scale, pair, swapped_delta)
    low, high = scale.span
    dressed(figure, height)
    figure.update_layout(clickmode="event+select")
    ticks = {"dtick": 1, "exponentformat": "power", "showexponent": "all"}
    figure.update_xaxes(
        title_text="parameter distance Δ",
        type="log",
        range=[math.log10(_LEAST), math.log10(_MOST)],
        **ticks,
    )
    figure.update_yaxes(
        title_text=scale.title,
        type="log",
        range=[math.log10(low), math.log10(high)],
        **ticks,
    )
    return figure


def _add_band(figure: go.Figure, scale: _Scale) -> None:
    """Add where the premise fails, and where the theorem allows TV to be."""
    ends = np.array([_LEAST / 10, _MOST * 10])
    top = np.full(2, scale.span[1] * 10)
    for name, lower, upper, colour in (
        ("premise fails", scale([PREMISE, PREMISE], ends), top, _FAINT),
        ("allowed", scale(LOWER * ends, ends), scale(UPPER * ends, ends), _ALLOWED),
    ):
        figure.add_scatter(
            x=[*ends, *ends[::-1]],
            y=[*lower, *upper[::-1]],
            mode="lines",
            line={"width": 0},
            fill="toself",
            fillcolor=colour,
            name=name,
            showlegend=False,
            hoverinfo="skip",
        )


def _add_lines(figure: go.Figure, scale: _Scale) -> None:
    """Add the theorem's two constants and the two found, above the dots."""
    ends = np.array([_LEAST / 10, _MOST * 10])
    for factor, name, dash, colour in (
        (UPPER, "Δ/√2", "solid", _INK),
        (HIGHEST, f"{HIGHEST:.4f} Δ", "dash", _FOUND),
        (LOWEST, f"{LOWEST:.4f} Δ", "dot", _FOUND),
        (LOWER, "Δ/200", "solid", _INK),
    ):
        figure.add_scatter(
            x=ends,
            y=scale(factor * ends, ends),
            mode="lines",
            name=name,
            line={"color": colour, "dash": dash, "width": 2},
            showlegend=False,
            hoverinfo="name",
        )


def _add_labels(figure: go.Figure, scale: _Scale) -> None:
    """Add names next to the lines: a legend of them would fill the screen of a phone."""
    found = (f"{LOWEST:.4f} Δ", f"{HIGHEST:.4f} Δ")
    silent = "grey: TV ≥ 1/600,<br>the theorem says nothing"
    if scale.ratio:
        labels = [
            (1.1e-4, UPPER, "Δ/√2", _INK, "left bottom"),
            (1.1e-4, HIGHEST, found[1], _FOUND, "left bottom"),
            (1.1e-4, LOWEST, found[0], _FOUND, "left top"),
            (1.1e-4, LOWER, "Δ/200", _INK, "left top"),
            (_MOST / 1.1, 1.05 * LOWER, silent, _INK, "right bottom"),
        ]
    else:
        labels = [
            (2e-2, 2e-2 * UPPER, "Δ/√2", _INK, "right bottom"),
            (8e-4, 8e-4 * LOWEST, f"{found[0]} to {found[1]}", _FOUND, "left top"),
            (8e-3, 8e-3 * LOWER, "Δ/200", _INK, "left top"),
            (1.1 * _LEAST, 1.2, silent, _INK, "left top"),
        ]
    for x, y, text, colour, anchor in labels:
        across, up = anchor.split()
        figure.add_annotation(
            x=math.log10(x),
            y=math.log10(y),
            text=text,
            showarrow=False,
            xanchor=across,
            yanchor=up,
            align=across,
            xshift=6 if across == "left" else -6,
            font={"color": colour, "size": 13},
        )


def _add_dots(
    figure: go.Figure, scale: _Scale, clouds: Sequence[PairCloud], d: int, colour: str
) -> None:
    mine = [cloud for cloud in clouds if cloud.n_features == d]
    delta = np.concatenate([cloud.delta for cloud in mine])
    tv = np.concatenate([cloud.tv for cloud in mine])
    name = f"d = {d}"
    figure.add_scatter(
        x=delta,
        y=scale(tv, delta),
        mode="markers",
        name=name,
        legendgroup=name,
        showlegend=False,
        marker={
            "color": colour,
            "symbol": np.repeat(
                [KIND_SYMBOLS[cloud.kind] for cloud in mine], [len(cloud) for cloud in mine]
            ),
            "size": 4.5,
            "opacity": 0.5,
        },
        customdata=[
            [float(cloud.tv[j]), d, cloud.kind, j] for cloud in mine for j in range(len(cloud))
        ],
        hovertemplate="Δ %{x:.3g}, TV %{customdata[0]:.3g}<extra>d = " + str(d) + "</extra>",
        **_SELECTED,
    )
    # the legend shows the colour in full, the dots are faint where they are few
    figure.add_scatter(
        x=[None],
        y=[None],
        mode="markers",
        name=name,
        legendgroup=name,
        marker={"color": colour, "size": 9},
        hoverinfo="skip",
    )


def _add_star(
    figure: go.Figure, scale: _Scale, pair: TVBounds, swapped_delta: float | None
) -> None:
    delta, tv = float(pair.delta), float(pair.tv)
    if delta <= 0 or tv <= 0:
        return  # equal Gaussians lie at the corner that a logarithmic axis does not have
    if swapped_delta is not None:
        figure.add_scatter(
            x=[swapped_delta],
            y=scale(tv, [swapped_delta]),
            mode="markers",
            name="swapped",
            marker={
                "symbol": "star-open",
                "color": SECOND,
                "size": 15,
                "line": {"width": 2, "color": SECOND},
            },
            hovertemplate=f"swapped: Δ {swapped_delta:.4g}, TV {tv:.4g}<extra></extra>",
            **_SELECTED,
        )
    figure.add_scatter(
        x=[delta],
        y=scale(tv, [delta]),
        mode="markers",
        name="your pair",
        marker={"symbol": "star", "color": SECOND, "size": 17},
        hovertemplate=f"your pair: Δ {delta:.4g}, TV {tv:.4g}<extra></extra>",
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 1}},
    )


def band_alt_text(clouds: Sequence[PairCloud] = (), *, pair: TVBounds | None = None) -> str:
    """Describe `band_figure` in words."""
    sentences = [
        "Total variation TV against parameter distance Δ on logarithmic axes: the band from Δ/200 "
        f"to Δ/√2 of Theorem 1.8, shaded from TV = 1/600 on, where the theorem says nothing; "
        f"dashed lines at {LOWEST:.4f} Δ and {HIGHEST:.4f} Δ, found numerically."
    ]
    if clouds:
        tv = np.concatenate([cloud.tv for cloud in clouds])
        ratios = tv / np.concatenate([cloud.delta for cloud in clouds])
        near = ratios[tv < PREMISE]
        sentences.append(f"{len(ratios):,} random pairs.")
        if near.size:
            sentences.append(
                f"Where the premise holds, TV lies between {near.min():.3f} and "
                f"{near.max():.3f} times Δ."
            )
    if pair is not None:
        sentences.append(f"Your pair lies at Δ = {pair.delta:.3g}, TV = {pair.tv:.3g}.")
    return " ".join(sentences)


def pair_figure(
    mean1: npt.ArrayLike,
    cov1: npt.ArrayLike,
    mean2: npt.ArrayLike,
    cov2: npt.ArrayLike,
    *,
    height: int = 300,
) -> go.Figure:
    """Draw two Gaussians in the plane as ellipses at one and two standard deviations."""
    figure = go.Figure()
    for name, mean, cov, colour, dash in (
        ("first", mean1, cov1, FIRST, "solid"),
        ("second", mean2, cov2, SECOND, "dash"),
    ):
        rings = [np.stack(ellipse(mean, cov, sigma), axis=1) for sigma in (1.0, 2.0)]
        line = np.concatenate([rings[0], np.full((1, 2), np.nan), rings[1]])
        figure.add_scatter(
            x=line[:, 0],
            y=line[:, 1],
            mode="lines",
            name=name,
            line={"color": colour, "dash": dash, "width": 2.5},
            hoverinfo="skip",
        )
    dressed(figure, height)
    figure.update_yaxes(scaleanchor="x", scaleratio=1)
    return figure


def pair_alt_text(mean2: npt.ArrayLike, cov2: npt.ArrayLike) -> str:
    """Describe `pair_figure` in words, for a first Gaussian that is standard."""
    m, s = np.asarray(mean2, dtype=np.float64), np.asarray(cov2, dtype=np.float64)
    return (
        f"Two Gaussians: the first is standard, the second has mean ({m[0]:.3g}, {m[1]:.3g}) and "
        f"standard deviations {s[0, 0] ** 0.5:.3g} and {s[1, 1] ** 0.5:.3g}."
    )


def overlap_figure(means: Array, deviations: Array, *, height: int = 250) -> go.Figure:
    """Draw two bell curves: what they share in grey, what only one has in its colour.

    Each of the coloured areas is TV, the grey one ``1 - TV``.

    Parameters
    ----------
    means, deviations : arrays (2,)
        Of the first and of the second.
    height : int
        Pixels.
    """
    ends = np.concatenate([means - 3.6 * deviations, means + 3.6 * deviations])
    # dense where the narrow one is: its peak is not cut off
    x = np.unique(
        np.concatenate(
            [np.linspace(ends.min(), ends.max(), 300)]
            + [m + s * np.linspace(-3.6, 3.6, 121) for m, s in zip(means, deviations, strict=True)]
        )
    )
    first, second = (
        np.exp(-0.5 * ((x - m) / s) ** 2) / (s * math.sqrt(2 * math.pi))
        for m, s in zip(means, deviations, strict=True)
    )
    shared = np.minimum(first, second)
    figure = go.Figure()
    for y, fill, name in (
        (first, see_through(FIRST, 0.55), "more from 1: TV"),
        (second, see_through(SECOND, 0.55), "more from 2: TV"),
    ):
        figure.add_scatter(
            x=np.concatenate([x, x[::-1]]),
            y=np.concatenate([y, shared[::-1]]),
            mode="lines",
            line={"width": 0},
            fill="toself",
            fillcolor=fill,
            name=name,
            hoverinfo="skip",
        )
    figure.add_scatter(
        x=x,
        y=shared,
        mode="lines",
        line={"width": 0},
        fill="tozeroy",
        fillcolor=_SHARED,
        name="shared: 1 − TV",
        hoverinfo="skip",
    )
    for y, colour, dash, label in ((first, FIRST, "solid", "1"), (second, SECOND, "dash", "2")):
        figure.add_scatter(
            x=x,
            y=y,
            mode="lines",
            name=label,
            line={"color": colour, "dash": dash, "width": 2.5},
            showlegend=False,
            hoverinfo="skip",
        )
    dressed(figure, height)
    figure.update_xaxes(title_text="position on the line", range=[float(x[0]), float(x[-1])])
    figure.update_yaxes(title_text="density", rangemode="tozero", showticklabels=False)
    return figure


def overlap_alt_text(tv: float) -> str:
    """Describe `overlap_figure` in words."""
    return (
        f"Two bell curves along the line where the two Gaussians differ most. They share "
        f"{1 - tv:.1%} of their area; {tv:.1%} of each lies outside the other."
    )
