"""Draw what the releases of a data set cost together, and what their sum would be.

Plotly only, like all figures; the page Ledger shows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from privgmm.budget import Budget
from privgmm.figures.mixtures import NONPRIVATE, PRIVATE, dressed
from privgmm.ledger.history import Entry
from privgmm.privacy.composition import Spend, added, total

__all__ = ["running_totals", "spending_alt_text", "spending_figure"]

_ROUNDING = 1e-9
"""Relative room for rounding in a sum of deltas."""
_INK = "rgba(128, 128, 136, 1)"
_SYMBOLS = {True: "circle", False: "x", None: "circle-open"}


def running_totals(spends: Sequence[Spend], delta: float) -> tuple[list[float], list[float]]:
    """Compute the cost after each spend, at one delta.

    Returns
    -------
    together, summed : lists of float
        Epsilon by the joint account, and by adding up epsilons; NaN once the deltas add up to more
        than `delta`.
    """
    together = [total(spends[: i + 1], delta).epsilon for i in range(len(spends))]
    sums = [added(spends[: i + 1]) for i in range(len(spends))]
    most = delta * (1 + _ROUNDING)
    return together, [part.epsilon if part.delta <= most else math.nan for part in sums]


def spending_figure(
    entries: Sequence[Entry], *, cap: Budget | None = None, height: int = 320
) -> go.Figure:
    """Draw cumulative epsilon against the number of answers.

    Parameters
    ----------
    entries : sequence of Entry
        At least one, oldest first.
    cap : Budget, optional
        Drawn as a line; totals are then at its delta, else at the sum of all deltas.
    height : int
        Pixels.
    """
    together, summed = _totals(entries, cap)
    numbers = list(range(1, len(entries) + 1))
    figure = go.Figure()
    figure.add_scatter(
        x=numbers,
        y=np.asarray(summed),
        mode="lines+markers",
        name="Sum of the parts",
        line={"color": NONPRIVATE.colour, "dash": "dot", "width": 2.5},
        marker={"size": 5},
        hovertemplate="after %{x}: ε = %{y:.4g}<extra>sum of the parts</extra>",
    )
    figure.add_scatter(
        x=numbers,
        y=together,
        mode="lines+markers",
        name="Together",
        line={"color": PRIVATE.colour, "width": 3.5},
        marker={
            "size": 10,
            "symbol": [_SYMBOLS[entry.released] for entry in entries],
            "line": {"width": 2, "color": PRIVATE.colour},
        },
        customdata=[entry.verdict for entry in entries],
        hovertemplate="after %{x}: ε = %{y:.4g} (%{customdata})<extra>together</extra>",
    )
    if cap is not None:
        figure.add_hline(
            y=cap.epsilon,
            line={"color": _INK, "dash": "dash", "width": 2},
            annotation={
                "text": f"cap ε = {cap.epsilon:g}",
                "font": {"color": _INK},
                "xanchor": "left",
                "x": 0,
                "yanchor": "bottom",
            },
        )
    dressed(figure, height)
    top = float(np.nanmax([*summed, *together, 0.0 if cap is None else cap.epsilon]))
    figure.update_xaxes(
        title_text="answers",
        range=[0.5, max(len(entries), 4) + 0.5],
        tickformat="d",
        dtick=max(1, len(entries) // 8),
        tick0=1,
    )
    at = _power_of_ten(_delta(entries, cap))
    figure.update_yaxes(title_text=f"ε spent, at δ = {at}", range=[0, 1.15 * top])
    return figure


def spending_alt_text(entries: Sequence[Entry], *, cap: Budget | None = None) -> str:
    """Describe the figure in words."""
    together, summed = _totals(entries, cap)
    refused = sum(entry.released is False for entry in entries)
    words = (
        f"Cumulative epsilon over {len(entries)} answers, {refused} of them refused, at delta "
        f"{_delta(entries, cap):.2g}: {together[-1]:.4g} together"
    )
    words += "." if math.isnan(summed[-1]) else f", {summed[-1]:.4g} by adding up."
    return words if cap is None else f"{words} The cap is {cap.epsilon:g}."


def _delta(entries: Sequence[Entry], cap: Budget | None) -> float:
    """Choose the delta at which everything is compared: the cap's, else the sum of all."""
    return added([entry.spend for entry in entries]).delta if cap is None else cap.delta


def _power_of_ten(value: float) -> str:
    """Write a small number as a power of ten, in HTML.

    >>> _power_of_ten(1e-6), _power_of_ten(2.5e-5)
    ('10<sup>−6</sup>', '2.5 × 10<sup>−5</sup>')
    """
    lead, power = f"{value:.1e}".split("e")
    ten = f"10<sup>{int(power)}</sup>".replace("-", "−")
    return ten if float(lead) == 1 else f"{float(lead):g} × {ten}"


def _totals(entries: Sequence[Entry], cap: Budget | None) -> tuple[list[float], list[float]]:
    return running_totals([entry.spend for entry in entries], _delta(entries, cap))
