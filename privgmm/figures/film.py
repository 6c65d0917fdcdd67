"""Draw Algorithm 1 at work, in the plane of the data: blocks, fits, mean or pick, mask.

One picture per step, in the visual language of `mixtures`: what only the curator may see in its
blue, what is released in its orange, everything else grey. All but the release itself is
CONFIDENTIAL. What happens in between, on the table of distances, is drawn in `votes`.

Plotly only: no page framework is imported here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from scipy.optimize import linear_sum_assignment

from privgmm.arrays import Array, IntArray
from privgmm.figures.mixtures import (
    BAND,
    NONPRIVATE,
    PRIVATE,
    ROWS,
    dressed,
    mixtures_figure,
    thinned,
)
from privgmm.figures.motion import appearing, set_moving
from privgmm.figures.window import Window, shortened, window_of
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.stages.standard_errors import StandardErrors

__all__ = [
    "BLOCK_LOOKS",
    "OUTSIDE",
    "BlockLook",
    "between",
    "blocks_figure",
    "fits_figure",
    "framed",
    "mask_figure",
    "morphing",
    "refinement_figure",
    "representative_figure",
    "see_through",
]


class BlockLook(NamedTuple):
    """Colour and mark of one of the few blocks that are followed from step to step."""

    colour: str
    symbol: str


BLOCK_LOOKS = (
    BlockLook("#9467BD", "circle"),
    BlockLook("#B07D0A", "square"),
    BlockLook("#C2559D", "diamond"),
    BlockLook("#3A8F9B", "triangle-up"),
    BlockLook("#8C6D5A", "star"),
)
OUTSIDE = "#85858C"
"""Colour of blocks that do not count, noise that does not pass, and what might have come out."""

# the numbers below are choices of looks: nothing depends on them

_FAINT = 0.35
"""Opacity of one outline among many: where several pile up, the line is full."""
_MOST_GHOSTS = 150
"""Outlines that are drawn of more fits than that."""
_GHOST_LAYERS = 15
"""Traces into which these are split: only lines of different traces darken one another."""
_OUTLINE_STEPS = 49
"""Points of an outline; the last repeats the first."""
_DEALS, _MORPHS = 12, 14
"""Frames in which rows are dealt, and in which one mixture moves to another."""


def framed(figure: go.Figure, window: Window, flat: bool, names: Sequence[str]) -> go.Figure:
    """Dress the figure and set it into the window; `flat` if it shows densities of one column."""
    if flat:
        figure.update_xaxes(range=window.x, title_text=shortened(names[0]))
        figure.update_yaxes(title_text="density", rangemode="tozero")
    else:
        window.set_axes(figure, names)
    return dressed(figure)


def see_through(colour: str, opacity: float) -> str:
    """Give a colour #rrggbb an opacity."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity})"


def blocks_figure(
    rows: Array,
    positions: IntArray,
    followed: Sequence[int],
    *,
    axes: Sequence[int] = (0, 1),
    names: Sequence[str] = ("x1", "x2"),
    max_points: int = 2500,
) -> go.Figure:
    """Draw line 1: rows (n, d), those of the `followed` blocks in each block's colour and mark.

    It moves: rows are dealt to these blocks like cards.
    """
    flat = rows.shape[1] == 1
    figure = go.Figure()
    shown = thinned(rows, max_points)
    # with one column, height only spreads the dots: the blocks lie in lanes
    lanes = np.linspace(0.05, 0.3, 7)[np.arange(len(shown)) % 7]
    figure.add_scatter(
        x=shown[:, axes[0] if not flat else 0],
        y=lanes if flat else shown[:, axes[1]],
        mode="markers",
        name="rows of other blocks",
        marker={"color": ROWS, "size": 3.5},
        hoverinfo="skip",
    )
    for lane, (block, look) in enumerate(zip(followed, BLOCK_LOOKS, strict=False)):
        mine = thinned(rows[positions[block]], 150)
        figure.add_scatter(
            x=mine[:, axes[0] if not flat else 0],
            y=np.full(len(mine), 0.45 + 0.12 * lane) if flat else mine[:, axes[1]],
            mode="markers",
            name=f"block {block + 1}",
            marker={"color": look.colour, "symbol": look.symbol, "size": 6.5},
            hovertemplate=f"a row of block {block + 1}<extra></extra>",
        )
    framed(figure, window_of(rows, axes), flat, names)
    if flat:
        figure.update_yaxes(visible=False, title_text="")
    dealt = range(1, len(figure.data))
    return set_moving(
        figure,
        [
            {
                place: {
                    axis: figure.data[place][axis][: len(figure.data[place].x) * deal // _DEALS]
                    for axis in ("x", "y")
                }
                for place in dealt
            }
            for deal in range(_DEALS if len(dealt) else 0)
        ],
    )


def _outlines(
    fits: MixtureBatch, which: IntArray, axes: Sequence[int], span: tuple[float, float]
) -> Array:
    """Compute points (blocks, points, 2) of each fit's outline, its pieces separated by NaN."""
    means, covariances = fits.means[which], fits.covariances[which]
    if fits.n_features == 1:
        grid = np.linspace(*span, 161)
        spread = np.sqrt(covariances[:, :, 0])
        bumps = np.exp(-0.5 * ((grid - means) / spread) ** 2) / (spread * math.sqrt(2 * math.pi))
        heights = np.einsum("bk,bkg->bg", fits.weights[which], bumps)
        lines = np.stack([np.broadcast_to(grid, heights.shape), heights], axis=2)
        return np.concatenate([lines, np.full((len(which), 1, 2), np.nan)], axis=1)
    pair = np.asarray(axes)
    factors = np.linalg.cholesky(covariances[:, :, pair[:, None], pair])
    angle = np.linspace(0, 2 * np.pi, _OUTLINE_STEPS)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    curves = (factors @ circle + means[:, :, pair, None]).swapaxes(2, 3)
    gap = np.full((*curves.shape[:2], 1, 2), np.nan)
    return np.concatenate([curves, gap], axis=2).reshape(len(which), -1, 2)


def _add_ghosts(
    figure: go.Figure,
    fits: MixtureBatch,
    which: IntArray,
    window: Window,
    axes: Sequence[int],
    *,
    colour: str,
    label: str,
    opacity: float = _FAINT,
    width: float = 1.2,
) -> dict[int, int]:
    """Add outlines in several traces; return the first fit in each, by the trace's position."""
    which = which[fits.ok[which]]
    if which.size == 0:
        return {}
    shown = which[np.linspace(0, which.size - 1, min(which.size, _MOST_GHOSTS)).astype(np.intp)]
    name = label if shown.size == which.size else f"{label} ({shown.size} drawn)"
    figure.add_scatter(
        x=[None],
        y=[None],
        mode="lines",
        name=name,
        legendgroup=label,
        line={"color": colour, "width": max(1.6, width)},
    )
    places = {}
    for layer in np.array_split(shown, min(_GHOST_LAYERS, shown.size)):
        places[len(figure.data)] = int(layer[0])
        line = _outlines(fits, layer, axes, window.x).reshape(-1, 2)
        figure.add_scatter(
            x=line[:, 0],
            y=line[:, 1],
            mode="lines",
            name=name,
            legendgroup=label,
            showlegend=False,
            line={"color": see_through(colour, opacity), "width": width},
            hoverinfo="skip",
        )
    return places


def fits_figure(
    fits: MixtureBatch,
    followed: Sequence[int],
    window: Window,
    *,
    axes: Sequence[int] = (0, 1),
    names: Sequence[str] = ("x1", "x2"),
) -> go.Figure:
    """Draw line 2: every block's fit as a faint outline at one standard deviation, a few in colour.

    It moves: the fits pile up, those of the followed blocks first.
    """
    figure = go.Figure()
    others = np.setdiff1d(np.arange(len(fits)), followed)
    ghosts = _add_ghosts(
        figure, fits, others, window, axes, colour=NONPRIVATE.colour, label="fits of other blocks"
    )
    for block, look in zip(followed, BLOCK_LOOKS, strict=False):
        if not fits.ok[block]:
            continue
        line = _outlines(fits, np.array([block]), axes, window.x)[0]
        figure.add_scatter(
            x=line[:, 0],
            y=line[:, 1],
            mode="lines",
            name=f"block {block + 1}",
            line={"color": look.colour, "width": 2.4},
            hovertemplate=f"fit of block {block + 1}<extra></extra>",
        )
    framed(figure, window, fits.n_features == 1, names)
    first_of_followed = max(ghosts, default=-1) + 1
    alone = [[place] for place in range(first_of_followed, len(figure.data))]
    return set_moving(figure, appearing([*alone, *([place] for place in ghosts)]))


def representative_figure(
    fits: MixtureBatch,
    weights: Array,
    chosen: Mixture,
    window: Window,
    *,
    picked: bool,
    axes: Sequence[int] = (0, 1),
    names: Sequence[str] = ("x1", "x2"),
) -> go.Figure:
    """Draw line 8: the fit that was picked, or the mean of those that agree, among all fits."""
    figure = go.Figure()
    counted = (weights > 0) & (not picked)
    for mask, colour, label in (
        (~counted, OUTSIDE, "all fits" if picked else "left out"),
        (counted, NONPRIVATE.colour, "agree and count"),
    ):
        _add_ghosts(figure, fits, np.flatnonzero(mask), window, axes, colour=colour, label=label)
    for trace in mixtures_figure(nonprivate=chosen, axes=axes).data:
        trace.update(
            name=("the picked fit" if picked else "their mean"),
            legendgroup="chosen",
            line={"color": NONPRIVATE.colour, "width": 3.2, "dash": "solid"},
        )
        figure.add_trace(trace)
    return framed(figure, window, fits.n_features == 1, names)


def mask_figure(
    before: Mixture,
    after: Mixture,
    others: Sequence[Mixture],
    window: Window,
    *,
    axes: Sequence[int] = (0, 1),
    names: Sequence[str] = ("x1", "x2"),
) -> go.Figure:
    """Draw line 9: what was masked, what came out, and what other draws of the noise would give.

    It moves: the noise shakes the mixture from draw to draw, each leaves an outline, and the last
    is what came out.
    """
    figure = go.Figure()
    ghosts = {}
    if others:
        batch = MixtureBatch.of(others)
        ghosts = _add_ghosts(
            figure,
            batch,
            np.arange(len(batch)),
            window,
            axes,
            colour=OUTSIDE,
            label="other draws of the noise",
        )
    pair = mixtures_figure(nonprivate=before, private=after, axes=axes)
    renamed = {NONPRIVATE.label: "before the mask", PRIVATE.label: "after the mask"}
    start = len(figure.data)
    for trace in pair.data:
        figure.add_trace(trace.update(name=renamed[trace.name]))
    framed(figure, window, before.n_features == 1, names)
    shaken = [before, *(others[index] for index in ghosts.values())]
    shown = appearing([[place] for place in ghosts])
    return set_moving(
        figure,
        [
            {**faint, **_drawn_as(mixture, axes, start)}
            for faint, mixture in zip(shown, shaken, strict=False)
        ],
    )


def _drawn_as(mixture: Mixture, axes: Sequence[int], start: int) -> dict[int, dict[str, Array]]:
    """Compute where the traces of a release, from position `start` on, lie for another mixture."""
    traces = mixtures_figure(private=mixture, axes=axes).data
    return {start + number: {"x": one.x, "y": one.y} for number, one in enumerate(traces)}


def between(first: Mixture, last: Mixture, share: float) -> Mixture:
    """Interpolate two mixtures, for pictures only; components go to where the nearest ones are.

    Parameters
    ----------
    first, last : Mixture
        With equally many components.
    share : float
        0 for the first, 1 for the last.
    """
    gaps = np.linalg.norm(first.means[:, None] - last.means[None], axis=2)
    _, partner = linear_sum_assignment(gaps)
    weights, means, roots = (
        (1 - share) * start + share * end[partner]
        for start, end in (
            (first.weights, last.weights),
            (first.means, last.means),
            (first.cholesky, last.cholesky),
        )
    )
    return Mixture.from_roots(weights / weights.sum(), means, roots)


def morphing(
    first: Mixture, last: Mixture, axes: Sequence[int], start: int
) -> list[dict[int, dict[str, Array]]]:
    """List changes that move the traces of a release between mixtures, quickly at first.

    Empty if their numbers of components differ: there is no way from one to the other to draw.
    """
    if first.n_components != last.n_components:
        return []
    return [
        _drawn_as(between(first, last, 1 - (1 - share) ** 3), axes, start)
        for share in np.linspace(0, 1, _MORPHS, endpoint=False)
    ]


def refinement_figure(
    coarse: Mixture,
    final: Mixture,
    window: Window,
    *,
    true: Mixture | None = None,
    errors: StandardErrors | None = None,
    axes: Sequence[int] = (0, 1),
    names: Sequence[str] = ("x1", "x2"),
    labels: tuple[str, str] = ("after the mask", "after refinement"),
) -> go.Figure:
    """Draw the mixture before a look at all rows and where that look moved it.

    It moves: the mixture goes from the first to the second. `labels` are what the two are called,
    `errors` the standard errors of the second.
    """
    figure = go.Figure()
    _add_ghosts(
        figure,
        MixtureBatch.of([coarse]),
        np.array([0]),
        window,
        axes,
        colour=OUTSIDE,
        label=labels[0],
        opacity=1.0,
        width=2.4,
    )
    bands: dict[int, dict[str, Any]] = {}
    start = -1
    for trace in mixtures_figure(private=final, errors=errors, true=true, axes=axes).data:
        if trace.name == PRIVATE.label and start < 0:
            start = len(figure.data)
        elif trace.name == BAND:
            # the bands are those of the mixture after, so they show at the end only
            bands[len(figure.data)] = {"opacity": 0.0}
        label = {PRIVATE.label: labels[1]}.get(trace.name, trace.name)
        figure.add_trace(trace.update(name=label))
    framed(figure, window, final.n_features == 1, names)
    moves = morphing(coarse, final, axes, start)
    return set_moving(figure, [{**bands, **move} for move in moves])
