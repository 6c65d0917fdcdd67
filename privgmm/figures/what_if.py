"""Draw what-if answers: the chance of a release and its error against the number of rows.

Plotly only, in the visual language of `mixtures`. Each method has its own hue and dash.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from privgmm.arrays import Array
from privgmm.figures.mixtures import NONPRIVATE, dressed
from privgmm.methods import registry
from privgmm.methods.what_if import Prospect

__all__ = ["FEWEST", "MOST", "chance_figure", "curves_alt_text", "error_figure"]

FEWEST, MOST = 1e2, 1e20
"""Range of rows that the curves cover; methods differ by many powers of ten."""

_INK = "rgba(128, 128, 136, 1)"
_LIKELY = 0.5
"""Errors are drawn where the chance of a release is at least this."""
_POWERS = range(3, 21, 3)
"""Powers of ten that have a number on the axis."""

Curves = Mapping[str, Sequence[Prospect]]


def chance_figure(curves: Curves, *, n_rows: float | None = None, height: int = 330) -> go.Figure:
    """Draw the chance of a release against rows, one curve per method.

    Parameters
    ----------
    curves : mapping from method to sequence of Prospect
        In order of rows.
    n_rows : float, optional
        Number of rows to mark, by a vertical line.
    height : int
        Pixels.
    """
    figure = go.Figure()
    for name, points in curves.items():
        _add_curve(
            figure,
            name,
            [point.n_rows for point in points],
            [point.pass_probability for point in points],
            "%{y:.1%}",
        )
    _dress(figure, n_rows, height)
    figure.update_yaxes(title_text="chance of a release", tickformat=".0%", range=[-0.03, 1.05])
    return figure


def error_figure(
    curves: Curves,
    *,
    nonprivate: tuple[Array, Array] | None = None,
    n_rows: float | None = None,
    height: int = 330,
) -> go.Figure:
    """Draw the error of a release against rows, where a release is likely.

    Parameters
    ----------
    nonprivate : tuple of arrays (m,), optional
        Rows, and the error to expect without privacy.
    """
    figure = go.Figure()
    if nonprivate is not None:
        figure.add_scatter(
            x=nonprivate[0],
            y=nonprivate[1],
            mode="lines",
            name="Without privacy",
            line={"color": NONPRIVATE.colour, "dash": NONPRIVATE.dash, "width": 2.5},
            hovertemplate="%{x:.3g} rows: %{y:.2g}<extra>without privacy</extra>",
        )
    for name, points in curves.items():
        likely = [p for p in points if p.pass_probability >= _LIKELY and math.isfinite(p.error)]
        _add_curve(
            figure,
            name,
            [point.n_rows for point in likely],
            [point.error for point in likely],
            "%{y:.2g}",
        )
    _dress(figure, n_rows, height)
    figure.update_yaxes(title_text="error", type="log", exponentformat="power", dtick=2)
    return figure


def _add_curve(
    figure: go.Figure, name: str, rows: Sequence[float], values: Sequence[float], shown: str
) -> None:
    """Add a method's curve in its own style; `shown` is how a value is written."""
    method = registry.get(name)
    look = method.look
    figure.add_scatter(
        x=rows,
        y=values,
        mode="lines",
        name=method.title,
        line={"color": look.colour, "dash": look.dash, "width": look.width},
        hovertemplate=f"%{{x:.3g}} rows: {shown}<extra>{method.title}</extra>",
    )


def _dress(figure: go.Figure, n_rows: float | None, height: int) -> None:
    dressed(figure, height)
    figure.update_xaxes(
        title_text="rows",
        type="log",
        range=[math.log10(FEWEST), math.log10(MOST)],
        tickvals=[10.0**power for power in _POWERS],
        ticktext=[f"10<sup>{power}</sup>" for power in _POWERS],
    )
    if n_rows is not None:
        figure.add_vline(x=n_rows, line={"color": _INK, "width": 1.5, "dash": "dot"})
        left = n_rows > math.sqrt(FEWEST * MOST)
        figure.add_annotation(
            x=math.log10(n_rows),
            y=0.12,
            yref="paper",
            text="your rows",
            showarrow=False,
            xanchor="right" if left else "left",
            font={"color": _INK},
        )


def curves_alt_text(curves: Curves, *, n_rows: float | None = None) -> str:
    """Describe both figures in words."""
    sentences = []
    for name, points in curves.items():
        likely = next((p for p in points if p.pass_probability >= _LIKELY), None)
        title = registry.get(name).title
        if likely is None:
            sentences.append(f"{title}: a release is unlikely at any number of rows.")
        else:
            last = points[-1]
            sentences.append(
                f"{title}: a release is likely from about {likely.n_rows:.1e} rows on; the error "
                f"goes from {likely.error:.2g} there to {last.error:.2g} at {last.n_rows:.0e} rows."
            )
    if n_rows is not None:
        sentences.append(f"A vertical line marks {n_rows:.3g} rows.")
    return " ".join(sentences) or "No method can release under these settings."
