"""Draw the audit: guesses, tests and losses against their bounds, and one flipped row.

In the visual language of `mixtures`. Plotly only: no page framework is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from privgmm.arrays import Array, IntArray
from privgmm.audit.guessing import Attack, Score
from privgmm.audit.privacy_loss import MeasuredDelta
from privgmm.budget import percent_at_most
from privgmm.figures.film import BLOCK_LOOKS, OUTSIDE, see_through
from privgmm.figures.mixtures import (
    NONPRIVATE,
    PRIVATE,
    ROWS,
    TRUE,
    dressed,
    mixtures_figure,
    thinned,
)
from privgmm.figures.window import Window, window_of
from privgmm.mixture import Mixture
from privgmm.privacy.guessing import Tradeoff
from privgmm.stages.agreement.votes import PrivateTest

__all__ = [
    "delta_figure",
    "evidence_figure",
    "flip_figure",
    "flip_votes_figure",
    "round_figure",
    "score_figure",
    "tradeoff_figure",
]

A_LOOK, B_LOOK = BLOCK_LOOKS[0], BLOCK_LOOKS[1]


def _plane(figure: go.Figure, window: Window, height: int) -> go.Figure:
    window.set_axes(figure, ("x1", "x2"))
    return dressed(figure, height)


def _clipped(point: Array, window: Window) -> tuple[float, float, bool]:
    """Return the point, or a place near the edge of the window, and whether it is the point."""
    places = [float(np.clip(value, *ends)) for value, ends in zip(point, window, strict=False)]
    inside = places[0] == point[0] and places[1] == point[1]
    if not inside:
        # so far inside that a mark there is not cut off
        places = [
            float(np.clip(value, low + 0.04 * (high - low), high - 0.04 * (high - low)))
            for value, (low, high) in zip(point, window, strict=False)
        ]
    return places[0], places[1], inside


def _far(first: Array, second: Array) -> str:
    """Write how far one point lies from the other, as a label."""
    return f"{float(np.linalg.norm(second - first)):,.0f} away"


def round_figure(
    released: Mixture | None,
    rows: Array,
    row_a: Array,
    row_b: Array,
    *,
    in_doubt: bool = True,
    max_points: int = 1500,
) -> go.Figure:
    """Draw what an attacker sees: the release, the rows in both data sets, and the row in doubt."""
    window = window_of(rows)
    figure = mixtures_figure(rows, private=released, max_points=max_points)
    figure.data[0].update(name="people in both")
    candidates = (("the row, in A", row_a, A_LOOK), ("the row, in B", row_b, B_LOOK))
    for name, row, look in candidates if in_doubt else ():
        x, y, inside = _clipped(row, window)
        label = name if inside else f"{name}: {_far(row_a, row)}"
        figure.add_scatter(
            x=[x],
            y=[y],
            mode="markers",
            name=label,
            marker={
                "color": look.colour,
                "symbol": look.symbol if inside else "arrow",
                "angle": 0 if inside else 60,
                "size": 15 if inside else 20,
                "line": {"color": "white", "width": 1.5},
            },
            hovertemplate=f"{label}<extra></extra>",
        )
    return _plane(figure, window, 400)


def evidence_figure(
    of_a: float,
    of_b: float,
    published: float | None,
    *,
    name: str,
    draws: tuple[Array, Array] | None,
) -> go.Figure:
    """Draw one published number, and what two data sets give: without noise, or drawn with it.

    Parameters
    ----------
    of_a, of_b : float
        The number that each gives without noise.
    published : float or None
        The one that was published; None if nothing was.
    name : str
        What number it is.
    draws : pair of arrays (m,), or None
        What each might publish with noise; None to show a release without any.
    """
    figure = go.Figure()
    sides = (("A", of_a, A_LOOK), ("B", of_b, B_LOOK))
    top = 1.0
    if draws is not None and all(one.size for one in draws):
        low, high = np.quantile(np.concatenate(draws), [0.005, 0.995])
        edges = np.linspace(min(low, of_a, of_b), max(high, of_a, of_b), 25)
        heights = [np.histogram(one, bins=edges)[0] / one.size for one in draws]
        top = float(np.max(heights))
        for (side, _, look), height in zip(sides, heights, strict=True):
            figure.add_bar(
                x=(edges[1:] + edges[:-1]) / 2,
                y=height,
                width=np.diff(edges),
                name=f"{side} might publish",
                marker={"color": see_through(look.colour, 0.5), "line": {"width": 0}},
                hoverinfo="skip",
            )
        low, high = float(edges[0]), float(edges[-1])
    else:
        gap = abs(of_a - of_b) or 1e-6
        low, high = min(of_a, of_b) - 0.6 * gap, max(of_a, of_b) + 0.6 * gap
    for (side, value, look), dash in zip(sides, ("solid", "dot"), strict=True):
        figure.add_scatter(
            x=[value, value],
            y=[0, 1.15 * top],
            mode="lines",
            name=f"{side} without noise" if draws is not None else f"{side} publishes",
            line={"color": look.colour, "dash": dash, "width": 3},
            hovertemplate=f"{side} without noise: %{{x:.6f}}<extra></extra>",
        )
    if published is not None:
        low, high = min(low, published), max(high, published)
        figure.add_scatter(
            x=[published],
            y=[0.5 * top],
            mode="markers",
            name="published",
            marker={
                "color": PRIVATE.colour,
                "symbol": "diamond",
                "size": 16,
                "line": {"color": "white", "width": 1.5},
            },
            hovertemplate="published: %{x:.6f}<extra></extra>",
        )
    dressed(figure, 230)
    figure.update_layout(barmode="overlay", bargap=0)
    room = 0.03 * (high - low)
    figure.update_xaxes(title_text=name, range=[low - room, high + room], nticks=5)
    figure.update_yaxes(visible=False, range=[0, 1.2 * top])
    return figure


def score_figure(
    scores: Mapping[str, Score], *, ceiling: float, stated: float, noise: bool = True
) -> go.Figure:
    """Draw shares of right guesses with 95 % intervals, between chance level and the ceilings.

    Parameters
    ----------
    scores : mapping of str to Score
    ceiling : float
        Proved from the plan.
    stated : float
        Follows from its epsilon and delta alone.
    noise : bool
        Whether the release that was attacked has its noise: without it, neither ceiling applies.
    """
    proved = "proved ceiling" if noise else "ceiling with noise"
    played = {name: score for name, score in scores.items() if score.rounds}
    figure = go.Figure()
    for x, colour, dash, label in (
        (0.5, OUTSIDE, "dot", "chance level: 50%"),
        (ceiling, PRIVATE.colour, "dash", f"{proved}: {percent_at_most(ceiling)}"),
        (stated, TRUE.colour, "dashdot", f"by ε and δ alone: {percent_at_most(stated)}"),
    ):
        figure.add_scatter(
            x=[x, x],
            y=[-0.6, max(1, len(played)) - 0.4],
            mode="lines",
            name=label,
            line={"color": colour, "dash": dash, "width": 2.5},
            hovertemplate=label + "<extra></extra>",
        )
    if played:
        shares = np.array([score.share for score in played.values()])
        low, high = np.array([score.interval() for score in played.values()]).T
        figure.add_scatter(
            x=shares,
            y=np.arange(len(played)),
            mode="markers",
            name="right guesses, with 95% interval",
            marker={"color": NONPRIVATE.colour, "size": 12, "symbol": "diamond"},
            error_x={
                "type": "data",
                "array": high - shares,
                "arrayminus": shares - low,
                "color": NONPRIVATE.colour,
                "thickness": 2.5,
                "width": 7,
            },
            text=[f"{name}: {s.right:,} of {s.rounds:,}" for name, s in played.items()],
            hovertemplate="%{text}, %{x:.1%}<extra></extra>",
        )
    dressed(figure, 170 + 56 * max(1, len(played)))
    ends = [0.42, stated, *(end for score in played.values() for end in score.interval())]
    figure.update_xaxes(
        tickformat=".0%",
        range=[max(-0.02, min(ends) - 0.02), min(1.02, max(ends) + 0.03)],
        title_text="guessed right",
    )
    figure.update_yaxes(
        tickvals=list(range(len(played))),
        ticktext=list(played),
        range=[max(1, len(played)) - 0.4, -0.6],
        showgrid=False,
    )
    return figure


_ATTACK_SYMBOLS = ("diamond", "circle-open", "triangle-up", "square-open")


def tradeoff_figure(
    proved: Tradeoff, stated: Tradeoff, attacks: Mapping[str, Sequence[Attack]]
) -> go.Figure:
    """Draw false alarms against misses: what no test can beat, and what tests reached.

    Parameters
    ----------
    proved, stated : Tradeoff
        Of the plan, and of its epsilon and delta alone.
    attacks : mapping of str to sequence of Attack
        Tests that were tried, by the data they were tried on, with 95 % bars.
    """
    # where the curves bend, near both ends, and evenly between
    bends = np.geomspace(1e-4, 0.5, 60)
    alarms = np.unique(np.concatenate([[0.0, 1.0], bends, 1 - bends]))
    figure = go.Figure()
    figure.add_scatter(
        x=[0, 1],
        y=[1, 0],
        mode="lines",
        name="chance level",
        line={"color": OUTSIDE, "dash": "dot", "width": 2},
        hoverinfo="skip",
    )
    for curve, look, name in (
        (proved, PRIVATE, "proved: no test lies below"),
        (stated, TRUE, "by ε and δ alone"),
    ):
        figure.add_scatter(
            x=alarms,
            y=curve.missed(alarms),
            mode="lines",
            name=name,
            line={"color": look.colour, "dash": look.dash, "width": min(look.width, 3.5)},
            hovertemplate="%{x:.1%} false alarms: at least %{y:.1%} missed<extra></extra>",
        )
    for i, (name, tried) in enumerate(attacks.items()):
        rates = np.array([attack.rates for attack in tried])
        low = rates - np.array([attack.lowest() for attack in tried])
        high = np.array([attack.highest() for attack in tried]) - rates
        bars = {"type": "data", "color": NONPRIVATE.colour, "thickness": 1.5, "width": 3}
        figure.add_scatter(
            x=rates[:, 0],
            y=rates[:, 1],
            mode="markers",
            name=name,
            marker={
                "color": NONPRIVATE.colour,
                "size": 9,
                "symbol": _ATTACK_SYMBOLS[i % len(_ATTACK_SYMBOLS)],
            },
            error_x={**bars, "array": high[:, 0], "arrayminus": low[:, 0]},
            error_y={**bars, "array": high[:, 1], "arrayminus": low[:, 1]},
            hovertemplate="%{x:.1%} false alarms, %{y:.1%} missed<extra>" + name + "</extra>",
        )
    dressed(figure, 520)
    figure.update_xaxes(
        title_text="false alarms: said A, was B", range=[-0.02, 1.02], tickformat=".0%"
    )
    figure.update_yaxes(title_text="missed: said B, was A", range=[-0.02, 1.02], tickformat=".0%")
    return figure


def flip_figure(
    rows: Array,
    before: Mixture | None,
    after: Mixture | None,
    block_before: Mixture | None,
    block_after: Mixture | None,
    row_before: Array,
    row_after: Array,
    *,
    max_points: int = 1500,
) -> go.Figure:
    """Draw one moved row: its block's fit before and after, and the release before and after."""
    window = window_of(rows)
    figure = go.Figure()
    points = thinned(rows, max_points)
    figure.add_scatter(
        x=points[:, 0],
        y=points[:, 1],
        mode="markers",
        name="rows",
        marker={"color": ROWS, "size": 3.5},
        hoverinfo="skip",
    )
    for mixture, name, colour, dash, width in (
        (before, "release before", PRIVATE.colour, "solid", 5.0),
        (after, "release after", A_LOOK.colour, "dash", 2.0),
        (block_before, "its block's fit before", B_LOOK.colour, "solid", 2.0),
        (block_after, "its block's fit after", A_LOOK.colour, "dot", 2.0),
    ):
        if mixture is None:
            continue
        outline, _ = mixtures_figure(private=mixture).data
        figure.add_trace(
            outline.update(
                name=name, legendgroup=name, line={"color": colour, "dash": dash, "width": width}
            )
        )
    for row, name, look in (
        (row_before, "the row before", B_LOOK),
        (row_after, "the row after", A_LOOK),
    ):
        x, y, inside = _clipped(row, window)
        figure.add_scatter(
            x=[x],
            y=[y],
            mode="markers",
            name=name if inside else f"{name}: {_far(row_before, row)}",
            marker={
                "color": look.colour,
                "symbol": look.symbol if inside else "arrow",
                "angle": 0 if inside else 60,
                "size": 14 if inside else 20,
                "line": {"color": "white", "width": 1.5},
            },
            hovertemplate=f"{name}: ({row[0]:.4g}, {row[1]:.4g})<extra></extra>",
        )
    return _plane(figure, window, 470)


def flip_votes_figure(
    before: IntArray, after: IntArray, changed: int | None, test: PrivateTest
) -> go.Figure:
    """Draw the friends of each block before and after, in one order, the changed block marked.

    The dashed line is the number of friends that the test asks of the blocks that count most.
    """
    asked = test.read_votes(before).bands[0]
    order = np.argsort(-before, kind="stable")
    rank = np.arange(1, before.size + 1)
    figure = go.Figure()
    for counts, name, look, width in (
        (before, "votes before", B_LOOK, 5.0),
        (after, "votes after", A_LOOK, 2.0),
    ):
        figure.add_scatter(
            x=rank,
            y=counts[order],
            mode="lines",
            line={"color": look.colour, "width": width, "shape": "hvh"},
            name=name,
            hovertemplate="%{y} friends<extra>" + name + "</extra>",
        )
    if changed is not None:
        place = int(np.flatnonzero(order == changed)[0]) + 1
        figure.add_scatter(
            x=[place],
            y=[int(after[changed])],
            mode="markers",
            name=f"block {changed + 1} after",
            marker={"color": PRIVATE.colour, "size": 12, "symbol": "circle-open-dot"},
            hovertemplate=f"block {changed + 1}: %{{y}} friends<extra></extra>",
        )
    figure.add_hline(
        y=asked.least, line={"color": OUTSIDE, "dash": "dash"}, annotation_text=asked.name
    )
    dressed(figure, 330)
    figure.update_xaxes(title_text="block, most friends first")
    figure.update_yaxes(title_text="friends N", range=[0, 1.08 * before.size])
    return figure


def delta_figure(
    measured: MeasuredDelta, promised: Array, *, exact: Array | None = None
) -> go.Figure:
    """Draw delta(epsilon): measured points with 95 % bars below the promised curve.

    Parameters
    ----------
    measured : MeasuredDelta
    promised, exact : array, at the same epsilons
    """
    figure = go.Figure()
    figure.add_scatter(
        x=measured.epsilons,
        y=promised,
        mode="lines",
        name="promised (Rényi curve)",
        line={"color": PRIVATE.colour, "width": 4},
        hovertemplate="ε %{x:.3g}: promised δ %{y:.3g}<extra></extra>",
    )
    if exact is not None:
        figure.add_scatter(
            x=measured.epsilons,
            y=exact,
            mode="lines",
            name="exact",
            line={"color": TRUE.colour, "dash": "dash", "width": 2},
            hovertemplate="ε %{x:.3g}: exactly %{y:.3g}<extra></extra>",
        )
    seen = measured.estimate > 0
    figure.add_scatter(
        x=measured.epsilons[seen],
        y=measured.estimate[seen],
        mode="markers",
        name="measured, with 95% bars",
        marker={"color": NONPRIVATE.colour, "size": 9, "symbol": "diamond"},
        error_y={
            "type": "data",
            "array": (measured.high - measured.estimate)[seen],
            "arrayminus": np.minimum(measured.estimate - measured.low, 0.999 * measured.estimate)[
                seen
            ],
            "color": NONPRIVATE.colour,
            "thickness": 2,
            "width": 5,
        },
        hovertemplate="ε %{x:.3g}: measured %{y:.3g}<extra></extra>",
    )
    dressed(figure, 440)
    figure.update_xaxes(title_text="ε", range=[-0.01, 1.02 * float(measured.epsilons[-1])])
    floor = np.log10(max(1e-9, float(promised.min()) / 30))
    figure.update_yaxes(
        title_text="δ", type="log", range=[floor, 0.1], exponentformat="power", dtick=1
    )
    return figure
