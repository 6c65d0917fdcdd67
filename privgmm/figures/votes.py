"""Figures of how blocks vote: all distances, friend counts, and the noisy test on them.

They follow Algorithm 1 from line 3 to line 7. NOTHING here is private but the verdict itself.
Plotly only: no page framework is imported here.
"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from privgmm.arrays import Array, BoolArray, IntArray
from privgmm.figures.film import OUTSIDE, see_through
from privgmm.figures.mixtures import (
    NONPRIVATE,
    PRIVATE,
    dressed,
)
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.votes import AgreementTest, Verdict, h_index

__all__ = ["distances_figure", "threshold_figure", "votes_figure"]

_MOST_CELLS = 160


def distances_figure(distances: Array, radius: float) -> go.Figure:
    """Line 3: distances (t, t) as a heat map, most befriended blocks first, and their histogram.

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


def votes_figure(counts: IntArray, test: AgreementTest | PopulousTest) -> go.Figure:
    """Lines 3 and 4: friends of each block, most first, and what the test makes of them.

    For the agreement test the statistic is where the staircase of votes meets the line that
    climbs one friend a block from (G, M); for the paper's it is the mean height.
    """
    t = counts.size
    ranked = np.sort(counts)[::-1]
    rank = np.arange(1, t + 1)
    figure = go.Figure()
    groups: tuple[tuple[BoolArray, str, str], ...]
    if isinstance(test, AgreementTest):
        groups = (
            (ranked >= test.full, NONPRIVATE.colour, f"at least M = {test.full} friends"),
            (
                (ranked >= test.member) & (ranked < test.full),
                see_through(NONPRIVATE.colour, 0.5),
                f"at least m = {test.member}",
            ),
            (ranked < test.member, OUTSIDE, "fewer: left out"),
        )
    else:
        popular = ranked > 0.6 * t
        groups = (
            (popular, NONPRIVATE.colour, "more than 0.6 t friends"),
            (~popular, OUTSIDE, "fewer"),
        )
    for mine, colour, label in groups:
        if mine.any():
            figure.add_bar(
                x=rank[mine],
                y=ranked[mine],
                width=1.0,
                name=label,
                marker={"color": colour, "line": {"width": 0}},
                hovertemplate="%{y} friends<extra></extra>",
            )
    if isinstance(test, AgreementTest):
        h = h_index(counts, test.full, test.core)
        reach = max(h, 0) + max(2, round(0.06 * t))
        figure.add_scatter(
            x=[test.core, test.core + reach],
            y=[test.full, test.full + reach],
            mode="lines",
            name="from (G, M), one friend a block",
            line={"color": PRIVATE.colour, "width": 2.5, "dash": "dash"},
            hoverinfo="skip",
        )
        if h >= 0:
            figure.add_scatter(
                x=[test.core + h],
                y=[test.full + h],
                mode="markers+text",
                name="they meet: h",
                text=[f"h = {h}"],
                textposition="bottom left",
                textfont={"color": "white", "size": 15},
                marker={"color": PRIVATE.colour, "size": 13, "symbol": "circle-open-dot"},
                hovertemplate=f"h = {h}<extra></extra>",
            )
    else:
        for height, dash, label in (
            (float(counts.mean()), "solid", "their mean, Q t"),
            (0.8 * t, "dash", "0.8 t: what noise is added to"),
        ):
            figure.add_scatter(
                x=[0.5, t + 0.5],
                y=[height, height],
                mode="lines",
                name=label,
                line={"color": PRIVATE.colour if dash == "solid" else OUTSIDE, "dash": dash},
                hoverinfo="skip",
            )
    dressed(figure)
    figure.update_layout(bargap=0)
    figure.update_xaxes(title_text="block, most friends first", range=[0.5, t + 0.5])
    figure.update_yaxes(title_text="friends N", range=[0, 1.08 * t])
    return figure


def threshold_figure(verdict: Verdict, test: AgreementTest | PopulousTest) -> go.Figure:
    """Lines 5 to 7: the law of the noisy statistic, what was drawn, and what it had to reach."""
    figure = go.Figure()
    start, bar = verdict.statistic, verdict.threshold
    if isinstance(test, AgreementTest):
        law = DiscreteGaussian(test.sigma)
        values = start + law.support
        wide = 4.5 * test.sigma
        shown = np.abs(law.support) <= max(wide, bar - start + 1)
        passes = (values >= bar) & (start >= 0)
        for mine, colour, label in (
            (shown & ~passes, OUTSIDE, "refuses"),
            (shown & passes, PRIVATE.colour, "releases"),
        ):
            if mine.any():
                figure.add_bar(
                    x=values[mine],
                    y=law.probabilities[mine],
                    width=0.92,
                    name=label,
                    marker={"color": see_through(colour, 0.75), "line": {"width": 0}},
                    hovertemplate="%{x}: chance %{y:.3g}<extra></extra>",
                )
        title, top = "h + noise", float(law.probabilities.max())
    else:
        noise = test.noise
        reach = np.linspace(-noise.bound, noise.bound, 401)
        for mine, colour, label in (
            (start + reach < bar, OUTSIDE, "refuses"),
            (start + reach >= bar, PRIVATE.colour, "releases"),
        ):
            if mine.any():
                figure.add_scatter(
                    x=start + reach[mine],
                    y=noise.pdf(reach[mine]),
                    mode="lines",
                    fill="tozeroy",
                    name=label,
                    line={"color": colour, "width": 1},
                    fillcolor=see_through(colour, 0.6),
                    hoverinfo="skip",
                )
        title, top = "Q + noise", noise.height
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
    figure.update_xaxes(title_text=title)
    figure.update_yaxes(title_text="chance", rangemode="tozero")
    return figure
