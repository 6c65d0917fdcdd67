"""Draw mixtures, in one visual language that every page, notebook and README shares.

Three kinds of mixture can appear together, and each differs by hue, by dash and by width, so that
they can be distinguished without seeing colour: the true one (dashed), the fit without privacy
(dotted) and the release (solid, widest). The hues are of the Okabe–Ito palette, with a contrast of
at least 3 to 1 to white and to near-black; backgrounds are transparent.

Plotly only: no page framework is imported here.
"""

from __future__ import annotations

import dataclasses
import html
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from privgmm.arrays import Array, finite_array, positive
from privgmm.distances.parameters import matched
from privgmm.errors import InvalidInput
from privgmm.figures.window import Window, add_arrows, shortened
from privgmm.mixture import Mixture
from privgmm.stages.standard_errors import StandardErrors

__all__ = [
    "BAND",
    "BLOCKS",
    "GRID",
    "NONPRIVATE",
    "PRIVATE",
    "ROWS",
    "TRUE",
    "MixtureLook",
    "blocks_label",
    "dressed",
    "ellipse",
    "ellipses",
    "error_bands",
    "exaggerated",
    "figure_alt_text",
    "ghosts_label",
    "mixtures_figure",
    "thinned",
]


@dataclasses.dataclass(frozen=True, slots=True)
class MixtureLook:
    """Style in which one kind of mixture is drawn, and its label."""

    label: str
    colour: str
    dash: str
    width: float
    symbol: str


TRUE = MixtureLook("True mixture", "#009E73", "dash", 1.8, "x-thin")
NONPRIVATE = MixtureLook("Non-private fit", "#2583C4", "dot", 2.8, "circle-open")
PRIVATE = MixtureLook("Private release", "#D55E00", "solid", 5.0, "cross-thin")
ROWS = "rgba(128, 128, 136, 0.28)"
"""Colour of dots and bars that stand for rows."""
GRID = "rgba(128, 128, 136, 0.25)"

BLOCKS = "#8A6FB0"
"""Colour of the fits of single blocks."""

BAND = "Two standard errors"
"""Label of a band around a release."""
_BAND_FILL = "rgba(213, 94, 0, 0.22)"
_BAND_WIDTH = 2.0
"""Standard errors that a band reaches to either side, as its label says."""
_FEW = 10
"""Possible releases that are told apart by eye, by convention; many must not hide the rows."""
_BLOCK_LINE: dict[str, object] = {"color": BLOCKS, "width": 0.8, "dash": "solid"}
_SIGMAS = (1.0, 2.0)
"""Standard deviations at which ellipses are drawn."""
_STEPS = 97
"""Points of a closed curve: it looks smooth at the width of a page."""
_MOST_STRETCHED = 20.0
"""Exaggerated components are at most this many times wider or narrower than the reference."""


def ellipse(
    mean: npt.ArrayLike, covariance: npt.ArrayLike, n_sigma: float = 1.0
) -> tuple[Array, Array]:
    """Compute the closed curve at Mahalanobis distance `n_sigma` from the mean, in the plane.

    Parameters
    ----------
    mean : array-like (2,)
    covariance : array-like (2, 2)
        Symmetric positive definite.
    n_sigma : float

    Returns
    -------
    xs, ys : arrays (97,)
        The last point repeats the first.
    """
    centre = finite_array(mean, "mean", (2,))
    shape = Mixture([1.0], [centre], [finite_array(covariance, "covariance", (2, 2))])
    return _curve(shape.means[0], shape.cholesky[0], positive(n_sigma, "n_sigma"))


def ellipses(mixture: Mixture, axes: Sequence[int] = (0, 1), n_sigma: float = 1.0) -> Array:
    """Join the ellipses of all components in two columns into one line (m, 2) with gaps."""
    flat = mixture.marginal(_pair(axes, mixture.n_features))
    return _joined(_curves(flat, 49, [n_sigma]))


def _curve(centre: Array, factor: Array, radius: float, steps: int = _STEPS) -> tuple[Array, Array]:
    angle = np.linspace(0, 2 * np.pi, steps)
    points = centre[:, None] + radius * (factor @ np.stack([np.cos(angle), np.sin(angle)]))
    points[:, -1] = points[:, 0]
    return points[0], points[1]


def thinned(rows: Array, max_points: int) -> Array:
    """Take at most `max_points` rows, evenly spread through the table; no randomness."""
    if len(rows) <= max_points:
        return rows
    return rows[np.linspace(0, len(rows) - 1, max_points).astype(np.intp)]


def mixtures_figure(
    rows: npt.ArrayLike | None = None,
    *,
    true: Mixture | None = None,
    nonprivate: Mixture | None = None,
    private: Mixture | None = None,
    errors: StandardErrors | None = None,
    ghosts: Sequence[Mixture] = (),
    blocks: Sequence[Mixture] = (),
    axes: Sequence[int] = (0, 1),
    columns: Sequence[str] | None = None,
    max_points: int = 4000,
    n_rows: int | None = None,
    height: int = 520,
) -> go.Figure:
    """Draw rows and up to three mixtures in one picture.

    Parameters
    ----------
    rows : array-like (n, d), optional
        Shown as at most `max_points` dots; with one column as a histogram of all rows.
    true, nonprivate, private : Mixture, optional
        Drawn as ellipses at one and two standard deviations, with a mark at each mean whose size
        grows with the weight; with one column as density curves.
    errors : StandardErrors, optional
        Of the released mixture: bands of two standard errors around its ellipses or its curve, with
        an entry of their own in the legend. Public like the mixture.
    ghosts : sequence of Mixture
        Other possible releases, drawn faintly below everything else but the rows.
    blocks : sequence of Mixture
        Fits of single blocks, as thin ellipses at one standard deviation. CONFIDENTIAL.
    axes : sequence of int
        The two columns to show; the ellipses are those of the marginals.
    columns : sequence of str, optional
        Names for the axes.
    max_points : int
    n_rows : int, optional
        How many rows there are, where `rows` are only some of them.
    height : int
        Pixels.

    Notes
    -----
    A picture with `rows`, `nonprivate` or `blocks` in it is confidential. One made with
    ``private=``, `errors` and `ghosts` alone may be shared.
    """
    layers = [
        (look, mixture)
        # the widest below: where they coincide, dots and dashes on top leave all of them visible
        for look, mixture in ((PRIVATE, private), (NONPRIVATE, nonprivate), (TRUE, true))
        if mixture is not None
    ]
    data = None if rows is None else finite_array(rows, "rows", (None, None))
    total = 0 if data is None else len(data) if n_rows is None else n_rows
    d = _dimension(data, [*(mixture for _, mixture in layers), *ghosts, *blocks])
    names = list(columns) if columns is not None else [f"x{j + 1}" for j in range(d)]
    if len(names) != d:
        raise InvalidInput(f"columns must name all {d} columns, got {len(names)} names")
    figure = go.Figure()
    if d == 1:
        _add_densities(figure, data, layers, errors, ghosts, blocks, total, names[0])
    else:
        pair = _pair(axes, d)
        _add_plane(figure, data, layers, errors, ghosts, blocks, pair, max_points, total, names)
    dressed(figure, height)
    return figure


def _dimension(data: Array | None, mixtures: Iterable[Mixture]) -> int:
    sizes = {mixture.n_features for mixture in mixtures}
    if data is not None:
        sizes.add(data.shape[1])
    if not sizes:
        raise InvalidInput("there is nothing to draw: give rows or a mixture")
    if len(sizes) > 1:
        raise InvalidInput(f"rows and mixtures must have equal dimensions, got {sorted(sizes)}")
    return sizes.pop()


def _pair(axes: Sequence[int], d: int) -> tuple[int, int]:
    pair = tuple(int(axis) for axis in axes)
    if len(pair) != 2 or pair[0] == pair[1] or not all(0 <= axis < d for axis in pair):
        raise InvalidInput(f"axes must be two different columns in 0..{d - 1}, got {list(axes)!r}")
    return pair[0], pair[1]


def _add_plane(
    figure: go.Figure,
    data: Array | None,
    layers: Sequence[tuple[MixtureLook, Mixture]],
    errors: StandardErrors | None,
    ghosts: Sequence[Mixture],
    blocks: Sequence[Mixture],
    pair: tuple[int, int],
    max_points: int,
    total: int,
    names: Sequence[str],
) -> None:
    """Add bands, dots and ellipses, and set the axes."""
    points = None if data is None else thinned(data[:, pair], max_points)
    flats = [(look, mixture.marginal(pair)) for look, mixture in layers]
    outlines = [_curves(flat, _STEPS) for _, flat in flats]
    of_ghosts = [curve for ghost in ghosts for curve in _curves(ghost.marginal(pair), 33)]
    of_blocks = [
        curve for block in blocks for curve in _curves(block.marginal(pair), 33, _SIGMAS[:1])
    ]
    shown = [curve for curves in outlines for curve in curves]
    window = Window.around(points, shown or (() if points is not None else of_ghosts + of_blocks))
    if errors is not None and layers[0][0] is PRIVATE:
        _add_bands(figure, error_bands(layers[0][1], errors, pair), window)
    if points is not None:
        figure.add_scatter(
            x=points[:, 0],
            y=points[:, 1],
            mode="markers",
            name=_rows_label(len(points), total, window.n_outside(points)),
            marker={"color": ROWS, "size": 3.5},
            hoverinfo="skip",
        )
    if of_blocks:
        _add_line(figure, _joined(of_blocks), blocks_label(len(blocks)), _BLOCK_LINE)
    if of_ghosts:
        _add_line(figure, _joined(of_ghosts), ghosts_label(len(ghosts)), _ghost_line(len(ghosts)))
    across, up = (_hover_name(names[axis]) for axis in pair)
    for (look, flat), curves in zip(flats, outlines, strict=True):
        style = {"color": look.colour, "dash": look.dash, "width": look.width}
        _add_line(figure, _joined(curves), look.label, style)
        figure.add_scatter(
            x=flat.means[:, 0],
            y=flat.means[:, 1],
            mode="markers",
            name=look.label,
            legendgroup=look.label,
            showlegend=False,
            marker={
                "color": look.colour,
                "symbol": look.symbol,
                "size": 6 + 10 * np.sqrt(flat.weights),
                "line": {"color": look.colour, "width": 2.5},
            },
            text=[
                f"{look.label}, component {j + 1}<br>weight {flat.weights[j]:.3f}"
                for j in range(flat.n_components)
            ],
            hovertemplate=f"%{{text}}<br>{across}: mean %{{x:.4g}}<br>{up}: mean %{{y:.4g}}"
            "<extra></extra>",
        )
        # the ellipses at two deviations
        add_arrows(figure, window, curves[1::2], colour=look.colour, label=look.label)
    window.set_axes(figure, [names[axis] for axis in pair])


def _hover_name(name: str) -> str:
    """Break a whole name into lines that fit a label under the pointer."""
    # Plotly reads the text of a template: a brace would begin a variable
    plain = html.escape(name).replace("{", "(").replace("}", ")")
    return "<br>".join(textwrap.wrap(plain, 60)) or plain


def error_bands(
    mixture: Mixture, errors: StandardErrors, axes: Sequence[int] = (0, 1)
) -> list[Array]:
    """Compute rings around the ellipses of each component: how far these may be off.

    Parameters
    ----------
    mixture : Mixture
    errors : StandardErrors
        Of this mixture.
    axes : two column numbers

    Returns
    -------
    list of arrays (m, 2)
        For each component and each of one and two standard deviations a closed path: the outer
        edge, and back along the inner one.

    Notes
    -----
    In the direction u an ellipse at r deviations reaches ``u.mean + r sqrt(u'Cu)``. Its variance is
    ``u'Vu`` for the mean, and for the covariance at most ``(r |u|'S|u|)^2 / (4 u'Cu)`` with S the
    standard errors of C entry by entry, as if all of them erred together. With ``C = LL'`` and
    ``u = L^-T c``, c on the unit circle, ``u'Cu`` is one, and the place that u touches moves from
    ``mean + r Lc`` along ``Lc``: so the band does not depend on the units of the columns.
    """
    if errors.means.shape != mixture.means.shape:
        raise InvalidInput(
            f"errors must be those of the mixture, of shape {mixture.means.shape}, got "
            f"{errors.means.shape}"
        )
    pair = list(_pair(axes, mixture.n_features))
    flat, both = mixture.marginal(pair), np.ix_(pair, pair)
    angle = np.linspace(0, 2 * np.pi, _STEPS)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    rings = []
    for j in range(flat.n_components):
        factor = flat.cholesky[j]
        touching = np.linalg.solve(factor.T, circle.T).T
        of_mean = np.einsum("si,ij,sj->s", touching, errors.mean_covariances[j][both], touching)
        size = np.abs(touching)
        of_spread = np.einsum("si,ij,sj->s", size, errors.covariances[j][both], size)
        for sigma in _SIGMAS:
            off = _BAND_WIDTH * np.sqrt(np.maximum(of_mean, 0) + (sigma * of_spread / 2) ** 2)
            # an ellipse that is hardly known at all has no inner edge
            outer, inner = (
                flat.means[j] + (np.maximum(radius, 0)[:, None] * circle) @ factor.T
                for radius in (sigma + off, sigma - off)
            )
            rings.append(np.concatenate([outer, inner[::-1], outer[:1]]))
    return rings


def _add_bands(figure: go.Figure, rings: Sequence[Array], window: Window) -> None:
    """Add filled rings under one name in the legend; arrows show where they leave the window."""
    for number, ring in enumerate(rings):
        path = window.seen.clipped(ring)
        figure.add_scatter(
            x=path[:, 0],
            y=path[:, 1],
            mode="lines",
            fill="toself",
            name=BAND,
            legendgroup=BAND,
            legendrank=1100,
            showlegend=number == 0,
            line={"width": 0, "color": PRIVATE.colour},
            fillcolor=_BAND_FILL,
            hoverinfo="skip",
        )
    # the widest ring of each component leaves first
    widest = rings[len(_SIGMAS) - 1 :: len(_SIGMAS)] if len(rings) > 1 else rings
    add_arrows(figure, window, widest, colour=PRIVATE.colour, label=BAND)


def _density_band(mixture: Mixture, errors: StandardErrors, x: Array) -> Array:
    """Compute a band around the density of one column, as if all numbers erred independently."""
    variances = mixture.covariances[:, 0, 0]
    gaps = x[:, None] - mixture.means[:, 0]
    heights = np.exp(-(gaps**2) / (2 * variances)) / np.sqrt(2 * np.pi * variances)
    by_mean = mixture.weights * heights * gaps / variances
    by_variance = mixture.weights * heights * (gaps**2 / variances - 1) / (2 * variances)
    off = np.sqrt(
        (heights**2) @ errors.weights**2
        + (by_mean**2) @ errors.means[:, 0] ** 2
        + (by_variance**2) @ errors.covariances[:, 0, 0] ** 2
    )
    middle = heights @ mixture.weights
    edge = np.concatenate([middle + _BAND_WIDTH * off, (middle - _BAND_WIDTH * off)[::-1]])
    return np.stack([np.concatenate([x, x[::-1]]), np.maximum(edge, 0.0)], axis=1)


def _curves(flat: Mixture, steps: int, sigmas: Sequence[float] = _SIGMAS) -> list[Array]:
    """Compute the ellipses of all components, each (steps, 2)."""
    return [
        np.stack([*_curve(flat.means[j], flat.cholesky[j], sigma, steps)], axis=1)
        for j in range(flat.n_components)
        for sigma in sigmas
    ]


def _joined(curves: Sequence[Array]) -> Array:
    """Join curves into one line, with gaps in between."""
    gap = np.full((1, 2), np.nan)
    return np.concatenate([part for curve in curves for part in (curve, gap)])


def _add_line(figure: go.Figure, line: Array, label: str, style: dict[str, object]) -> None:
    figure.add_scatter(
        x=line[:, 0],
        y=line[:, 1],
        mode="lines",
        name=label,
        legendgroup=label,
        line=style,
        hoverinfo="skip",
    )


def _add_densities(
    figure: go.Figure,
    data: Array | None,
    layers: Sequence[tuple[MixtureLook, Mixture]],
    errors: StandardErrors | None,
    ghosts: Sequence[Mixture],
    blocks: Sequence[Mixture],
    total: int,
    name: str,
) -> None:
    """Add a histogram, a band and curves, and set the axes."""
    column = None if data is None else data[:, :1]
    reaches = []
    for mixture in [mixture for _, mixture in layers] or [*ghosts, *blocks]:
        reach = 4 * mixture.cholesky[:, 0, :1]
        reaches += [mixture.means - reach, mixture.means + reach]
    # of both axes the first is used here: the other one shows densities
    both = None if column is None else np.repeat(column, 2, axis=1)
    low, high = Window.around(both, [np.repeat(ends, 2, axis=1) for ends in reaches]).x
    tops = []
    if column is not None:
        seen = column[(column >= low) & (column <= high)]
        edges = np.histogram_bin_edges(seen, bins=min(120, max(10, int(len(column) ** 0.5))))
        heights = np.histogram(seen, bins=edges)[0] / (len(column) * np.diff(edges))
        tops.append(float(heights.max()))
        figure.add_bar(
            x=(edges[1:] + edges[:-1]) / 2,
            y=heights,
            width=np.diff(edges),
            name=_rows_label(total, total, len(column) - len(seen)),
            marker={"color": ROWS, "line": {"width": 0}},
            hoverinfo="skip",
        )
    for many, label, line in (
        (blocks, blocks_label(len(blocks)), _BLOCK_LINE),
        (ghosts, ghosts_label(len(ghosts)), _ghost_line(len(ghosts))),
    ):
        curves = [_density(one, low, high) for one in many]
        if curves:
            tops += [] if layers else [float(curve[:, 1].max()) for curve in curves]
            _add_line(figure, _joined(curves), label, line)
    drawn = [(look, mixture, _density(mixture, low, high)) for look, mixture in layers]
    top = 1.1 * max([*tops, *(float(curve[:, 1].max()) for _, _, curve in drawn)])
    if errors is not None and layers[0][0] is PRIVATE:
        band = _density_band(layers[0][1], errors, drawn[0][2][:, 0])
        _add_bands(figure, [band], Window((low, high), (0.0, top)))
    for look, _, curve in drawn:
        figure.add_scatter(
            x=curve[:, 0],
            y=curve[:, 1],
            mode="lines",
            name=look.label,
            line={"color": look.colour, "dash": look.dash, "width": look.width},
            hovertemplate=f"{_hover_name(name)}: %{{x:.4g}}<br>density %{{y:.4g}}"
            f"<extra>{look.label}</extra>",
        )
    figure.update_xaxes(range=(low, high), title_text=shortened(name))
    figure.update_yaxes(range=(0.0, top), title_text="density")


def _density(mixture: Mixture, low: float, high: float) -> Array:
    """Compute the density of one column as a curve (m, 2)."""
    grid = _grid(mixture, low, high)
    return np.stack([grid, mixture.density(grid[:, None])], axis=1)


def _grid(mixture: Mixture, low: float, high: float) -> Array:
    """Choose points, dense where any component is: no narrow spike between wide ones is missed."""
    quantiles = np.linspace(-4, 4, 81)
    local = mixture.means[:, :1] + mixture.cholesky[:, :1, 0] * quantiles
    return np.unique(np.concatenate([np.linspace(low, high, 300), local.ravel()]))


def _ghost_line(count: int) -> dict[str, object]:
    """Choose the line of possible releases: few can be told apart, many are a haze."""
    if count <= _FEW:
        return {"color": "rgba(213, 94, 0, 0.7)", "width": 1.4}
    return {"color": "rgba(213, 94, 0, 0.3)", "width": 1}


def ghosts_label(count: int) -> str:
    """Name a cloud of possible releases by their number."""
    return f"{count} possible release{'s' * (count > 1)}"


def blocks_label(count: int) -> str:
    """Name the fits of blocks by their number."""
    return f"Fits of {count} block{'s' * (count > 1)}"


def exaggerated(mixture: Mixture, reference: Mixture, times: float) -> Mixture:
    """Multiply the difference of a mixture from another, to make it visible.

    Parameters
    ----------
    mixture, reference : Mixture
        With equal numbers of components, which are matched.
    times : float
        1 gives the mixture itself.

    Notes
    -----
    A mean moves along the straight line from its partner. A covariance C moves along the geodesic
    from its partner ``R = LL'``: with ``L^-1 C L^-T = Q diag(s) Q'`` it becomes
    ``L Q diag(s^times) Q' L'``: it stays a covariance, and does not depend on the units. Weights
    stay.
    """
    partner, _ = matched(mixture, reference)
    means, roots = [], []
    for j in range(mixture.n_components):
        base, factor = reference.means[partner[j]], reference.cholesky[partner[j]]
        relative = np.linalg.solve(factor, mixture.cholesky[j])
        turn, sizes, _ = np.linalg.svd(relative)
        means.append(base + times * (mixture.means[j] - base))
        # no wider or narrower than can be drawn
        stretched = np.clip(sizes**times, 1 / _MOST_STRETCHED, _MOST_STRETCHED)
        roots.append(factor @ (turn * stretched))
    covariances = [root @ root.T for root in roots]
    return Mixture(mixture.weights, means, covariances)


def _rows_label(shown: int, total: int, outside: int = 0) -> str:
    label = f"{total:,} rows" if shown == total else f"{shown:,} of {total:,} rows"
    return f"{label}, {outside:,} outside" if outside else label


def dressed(figure: go.Figure, height: int = 460) -> go.Figure:
    """Give a figure a transparent background, a quiet grid, its legend above and small margins."""
    _set(figure.layout, {"height": height, **_PLAIN})
    for axis in (*figure.select_xaxes(), *figure.select_yaxes()):
        _set(axis, _QUIET)
    return figure


_CLEAR = "rgba(0,0,0,0)"
_PLAIN: dict[str, object] = {
    **{f"margin.{side}": 8 for side in "lrtb"},
    "paper_bgcolor": _CLEAR,
    "plot_bgcolor": _CLEAR,
    "legend.bgcolor": _CLEAR,
    "legend.orientation": "h",
    "legend.yanchor": "bottom",
    "legend.itemsizing": "constant",
    "legend.y": 1.01,
    "legend.x": 0,
    "hovermode": "closest",
    "dragmode": "pan",
}
_QUIET: dict[str, object] = {
    "gridcolor": GRID,
    "zeroline": False,
    "showline": False,
    "automargin": True,
}


def _set(part: Any, values: Mapping[str, object]) -> None:
    """Set properties as ``update`` does, one at a time: Plotly is five times as fast that way."""
    for name, value in values.items():
        part[name] = value


def figure_alt_text(
    n_rows: int | None = None,
    *,
    true: Mixture | None = None,
    nonprivate: Mixture | None = None,
    private: Mixture | None = None,
    axes: Sequence[int] = (0, 1),
    columns: Sequence[str] | None = None,
) -> str:
    """Describe the picture of `mixtures_figure` in words."""
    layers = ((TRUE, true), (NONPRIVATE, nonprivate), (PRIVATE, private))
    present = [(look, mixture) for look, mixture in layers if mixture is not None]
    sentences = []
    if n_rows is not None:
        sentences.append(f"{n_rows:,} rows of data.")
    for look, mixture in present:
        d = mixture.n_features
        pair = (0,) if d == 1 else _pair(axes, d)
        names = list(columns) if columns is not None else [f"x{j + 1}" for j in range(d)]
        flat = mixture.marginal(pair)
        parts = [
            f"weight {flat.weights[j]:.0%} around "
            + ", ".join(
                f"{names[axis]} {flat.means[j, i]:.3g} ± {flat.covariances[j, i, i] ** 0.5:.2g}"
                for i, axis in enumerate(pair)
            )
            for j in range(flat.n_components)
        ]
        sentences.append(f"{look.label}, {flat.n_components} components: {'; '.join(parts)}.")
    if not sentences:
        raise InvalidInput("there is nothing to describe: give n_rows or a mixture")
    return " ".join(sentences)
