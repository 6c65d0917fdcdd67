"""Draw how blocks vote: all distances, friend counts, and the noisy test on them.

The figures follow Algorithm 1 from line 3 to line 7. All of it is CONFIDENTIAL except for the
verdict itself. What differs from test to test, the test says (`stages.agreement.reading`).
Plotly only: no page framework is imported here.
"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from privgmm.arrays import Array, BoolArray, IntArray
from privgmm.figures.film import OUTSIDE, see_through
from privgmm.figures.mixtures import NONPRIVATE, PRIVATE, dressed
from privgmm.figures.motion import set_moving
from privgmm.stages.agreement.votes import PrivateTest, Verdict

__all__ = ["counted_so_far", "distances_figure", "threshold_figure", "votes_figure"]

_MOST_CELLS = 160
"""Rows and columns of the heat map at most: more would not be seen, and have to be sent."""
_COUNTS, _SHAKES = 20, 12
"""Frames in which votes are counted and noise is drawn: a choice of looks."""
# by the role of a line: see `VoteLine`
_LINE_STYLES: dict[str, dict[str, object]] = {
    "value": {"color": PRIVATE.colour, "width": 2, "dash": "solid"},
    "guide": {"color": PRIVATE.colour, "width": 2.5, "dash": "dash"},
    "limit": {"color": OUTSIDE, "width": 2, "dash": "dash"},
}


def distances_figure(distances: Array, radius: float) -> go.Figure:
    """Draw line 3: distances (t, t) as a heat map, most friends first, and their histogram.

    The colours break at `radius`: blue pairs vote for each other, grey ones do not, and pairs
    with no distance (a fit failed, or labels blur) are left out.
    """
    t = len(distances)
    order = np.argsort(-np.count_nonzero(distances <= radius, axis=1), kind="stable")
    kept = order[np.linspace(0, t - 1, min(t, _MOST_CELLS)).astype(np.intp)]
    table = distances[np.ix_(kept, kept)]
    seen = np.where(np.isfinite(table), table, np.nan)
    pairs = distances[np.triu_indices(t, 1)]
    pairs = pairs[np.isfinite(pairs)]
    top = float(np.quantile(pairs, 0.98)) if pairs.size else 0.0
    if radius > 0.2 * top:
        top = max(top, 1.25 * radius)
    marks = {0.0: "0", radius: f"τ {radius:.3g}", top: f"{top:.3g}"}
    edge = min(max(radius / top, 1e-6), 0.999)
    figure = make_subplots(rows=2, cols=1, row_heights=[0.74, 0.26], vertical_spacing=0.13)
    figure.add_heatmap(
        z=seen,
        zmin=0,
        zmax=top,
        colorscale=[
            [0, "#0B4F86"],
            [edge, "#9CC9EA"],
            [edge, "#D3D0CB"],
            [1, "#77736E"],
        ],
        colorbar={
            "title": {"text": "distance", "side": "right"},
            "len": 0.74,
            "y": 0.63,
            "thickness": 12,
            "tickvals": list(marks) if radius > 0.1 * top else [radius, top],
            "ticktext": list(marks.values()) if radius > 0.1 * top else list(marks.values())[1:],
        },
        customdata=np.stack(np.broadcast_arrays(kept[:, None] + 1, kept[None, :] + 1), axis=2),
        hovertemplate="blocks %{customdata[0]} and %{customdata[1]}: %{z:.3g}<extra></extra>",
        row=1,
        col=1,
    )
    counts, edges = np.histogram(np.minimum(pairs, top), bins=60, range=(0, top))
    middle = (edges[1:] + edges[:-1]) / 2
    for near, colour, label in (
        (True, NONPRIVATE.colour, "within τ: they vote for each other"),
        (False, OUTSIDE, "farther"),
    ):
        part = (middle <= radius) == near
        figure.add_bar(
            x=middle[part],
            y=counts[part],
            width=edges[1] - edges[0],
            name=label,
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate="about %{x:.3g}: %{y} pairs<extra></extra>",
            row=2,
            col=1,
        )
    figure.add_vline(x=radius, line={"color": OUTSIDE, "dash": "dash", "width": 2}, row=2, col=1)
    dressed(figure, 560)
    figure.update_xaxes(title_text="block, most friends first", showgrid=False, row=1, col=1)
    figure.update_yaxes(title_text="block", showgrid=False, autorange="reversed", row=1, col=1)
    figure.update_xaxes(title_text="distance of two blocks", row=2, col=1)
    figure.update_yaxes(title_text="pairs", row=2, col=1)
    figure.update_layout(bargap=0)
    return figure


def counted_so_far(friends: BoolArray) -> IntArray:
    """Count votes (frames, t) step by step: of the first blocks, then of more and more.

    Parameters
    ----------
    friends : array (t, t)
        Which block votes for which.
    """
    t = len(friends)
    shares = np.arange(_COUNTS) * t // _COUNTS
    return np.stack([friends[:, :asked].sum(axis=1) for asked in shares]).astype(np.int64)


def votes_figure(
    counts: IntArray, test: PrivateTest, *, so_far: IntArray | None = None
) -> go.Figure:
    """Draw lines 3 and 4: friends of each block, most first, and how the test reads them.

    Parameters
    ----------
    counts : array (t,)
    test : PrivateTest
    so_far : array (frames, t), optional
        Votes while they are counted (`counted_so_far`): then the bars grow.
    """
    t = counts.size
    order = np.argsort(-counts, kind="stable")
    ranked = counts[order]
    rank = np.arange(1, t + 1)
    reading = test.read_votes(counts)
    figure = go.Figure()
    below = np.inf
    bars: dict[int, BoolArray] = {}
    for number, band in enumerate(reading.bands):
        mine = (ranked >= band.least) & (ranked < below)
        below = band.least
        if mine.any():
            bars[len(figure.data)] = mine
            figure.add_bar(
                x=rank[mine],
                y=ranked[mine],
                width=1.0,
                name=band.label,
                marker={"color": _band_colour(number, len(reading.bands)), "line": {"width": 0}},
                hovertemplate="%{y} friends<extra></extra>",
            )
    for line in reading.lines:
        (x0, y0), (x1, y1) = line.start, line.end
        figure.add_scatter(
            x=[x0, x1],
            y=[y0, y1],
            mode="lines",
            name=line.label,
            line=_LINE_STYLES[line.role],
            hoverinfo="skip",
        )
    if reading.mark is not None:
        label, text, (x, y) = reading.mark
        figure.add_scatter(
            x=[x],
            y=[y],
            mode="markers+text",
            name=label,
            text=[text],
            textposition="bottom left",
            textfont={"color": "white", "size": 15},
            marker={"color": PRIVATE.colour, "size": 13, "symbol": "circle-open-dot"},
            hovertemplate=f"{text}<extra></extra>",
        )
    dressed(figure)
    figure.update_layout(bargap=0)
    figure.update_xaxes(title_text="block, most friends first", range=[0.5, t + 0.5])
    figure.update_yaxes(title_text="friends N", range=[0, 1.08 * t])
    if so_far is None:
        return figure
    # how the test reads the votes shows once they are counted
    read = {place: {"opacity": 0.0} for place in range(len(bars), len(figure.data))}
    return set_moving(
        figure,
        [
            {**read, **{place: {"y": found[order][mine]} for place, mine in bars.items()}}
            for found in so_far
        ],
    )


def _band_colour(number: int, bands: int) -> str:
    """Choose full colour for most friends, grey for fewest, pale in between."""
    if number == 0:
        return NONPRIVATE.colour
    return OUTSIDE if number == bands - 1 else see_through(NONPRIVATE.colour, 0.5)


def threshold_figure(verdict: Verdict, test: PrivateTest) -> go.Figure:
    """Draw lines 5 to 7: the law of the noisy statistic, what was drawn, and the threshold.

    It moves: other noise that might have been drawn, by its law, and finally what was drawn.
    """
    figure = go.Figure()
    start, bar = verdict.statistic, verdict.threshold
    law = test.noisy_law(start)
    add = _add_bars if law.whole else _add_area
    for mine, colour, label in (
        (~law.passes, OUTSIDE, "refuses"),
        (law.passes, PRIVATE.colour, "releases"),
    ):
        if mine.any():
            add(figure, law.values[mine], law.heights[mine], colour, label)
    top = float(law.heights.max())
    for x, colour, dash, label in (
        (start, NONPRIVATE.colour, "dot", f"before noise: {start:.4g}"),
        (verdict.noisy_statistic, PRIVATE.colour, "solid", f"drawn: {verdict.noisy_statistic:.4g}"),
        (bar, OUTSIDE, "dash", f"threshold: {bar:.4g}"),
    ):
        figure.add_scatter(
            x=[x, x],
            y=[0, 1.12 * top],
            mode="lines",
            name=label,
            line={"color": colour, "dash": dash, "width": 3},
            hovertemplate=label + "<extra></extra>",
        )
    dressed(figure)
    figure.update_layout(bargap=0)
    figure.update_xaxes(title_text=f"{test.words.letter} + noise")
    figure.update_yaxes(title_text="chance" if law.whole else "density", rangemode="tozero")
    # fixed seed: a demonstration, and no noise of any release
    others = np.random.default_rng(5).choice(
        law.values, size=_SHAKES, p=law.heights / law.heights.sum()
    )
    drawn = len(figure.data) - 2
    return set_moving(figure, [{drawn: {"x": [x, x]}} for x in [start, *others.tolist()]])


def _add_bars(figure: go.Figure, values: Array, heights: Array, colour: str, label: str) -> None:
    figure.add_bar(
        x=values,
        y=heights,
        width=0.92,
        name=label,
        marker={"color": see_through(colour, 0.75), "line": {"width": 0}},
        hovertemplate="%{x}: chance %{y:.3g}<extra></extra>",
    )


def _add_area(figure: go.Figure, values: Array, heights: Array, colour: str, label: str) -> None:
    figure.add_scatter(
        x=values,
        y=heights,
        mode="lines",
        fill="tozeroy",
        name=label,
        line={"color": colour, "width": 1},
        fillcolor=see_through(colour, 0.6),
        hoverinfo="skip",
    )
