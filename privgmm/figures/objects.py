"""Draw what a Python session holds: the `plot` of mixtures, releases, fits and sketches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from privgmm.arrays import Array
from privgmm.data.rows import row_source
from privgmm.errors import InvalidInput
from privgmm.figures.mixtures import PRIVATE, mixtures_figure
from privgmm.figures.picture import curve_figure, image_figure
from privgmm.mixture import Mixture
from privgmm.results import Release
from privgmm.stages.sketch.private_sketch import PrivateSketch, SketchFit
from privgmm.stages.standard_errors import StandardErrors

__all__ = ["plot"]


def plot(
    shown: Mixture | Release | PrivateSketch | SketchFit,
    *,
    columns: str | int | Sequence[str | int] | None = None,
    rows: Any = None,
    height: int = 520,
) -> go.Figure:
    """Draw one or two columns of a mixture, release, fit or sketch.

    Parameters
    ----------
    shown : Mixture, Release, PrivateSketch or SketchFit
        A mixture or release as ellipses (as a density, of one column), with bands of two standard
        errors where they are known. A sketch as the density that it shows; a fit as that density
        with its ellipses.
    columns : one or two columns, optional
        By name or number; by default the first two.
    rows : table (n, d), optional
        Drawn below. A picture with rows in it is CONFIDENTIAL, unless they are public.
    height : int
        Pixels.

    Returns
    -------
    plotly.graph_objects.Figure
    """
    known = shown.mixture if isinstance(shown, Release | SketchFit) else shown
    names = known.columns
    axes = _axes(columns, names)
    data = None if rows is None else _rows(rows, names)
    if isinstance(shown, PrivateSketch | SketchFit):
        return _from_sketch(shown, axes, data, height)
    mixture = shown.mixture if isinstance(shown, Release) else shown
    errors = shown.standard_errors if isinstance(shown, Release) else None
    if len(axes) == 1 and len(names) > 1:
        mixture, errors = mixture.marginal(axes), _of_column(errors, axes[0])
        data, axes, names = None if data is None else data[:, axes], [0], mixture.columns
    figure = mixtures_figure(
        data,
        private=mixture,
        errors=errors,
        axes=axes if len(axes) == 2 else (0, 1),
        columns=names,
        height=height,
    )
    if isinstance(shown, Mixture):
        for trace in figure.data:
            if trace.name == PRIVATE.label:
                trace.name = "mixture"
    return figure


def _from_sketch(
    shown: PrivateSketch | SketchFit, axes: list[int], rows: Array | None, height: int
) -> go.Figure:
    fit = shown if isinstance(shown, SketchFit) else None
    sketch = shown.sketch if isinstance(shown, SketchFit) else shown
    mixture = None if fit is None else fit.mixture
    if len(axes) == 1:
        return curve_figure(
            sketch.curve(axes[0]), mixture=mixture, axis=axes[0], rows=rows, height=height
        )
    errors = None if fit is None else fit.standard_errors
    return image_figure(
        sketch.image(axes), mixture=mixture, errors=errors, axes=axes, rows=rows, height=height
    )


def _axes(columns: str | int | Sequence[str | int] | None, names: tuple[str, ...]) -> list[int]:
    """Return the numbers of one or two columns."""
    if columns is None:
        return list(range(min(2, len(names))))
    chosen = [columns] if isinstance(columns, str | int) else list(columns)
    known = {name: j for j, name in enumerate(names)} | {j: j for j in range(len(names))}
    axes = [known.get(one) for one in chosen]
    if not 1 <= len(axes) <= 2 or None in axes or len(set(axes)) != len(axes):
        raise InvalidInput(
            f"columns must be one or two different ones of {', '.join(names)}, got {columns!r}"
        )
    return [axis for axis in axes if axis is not None]


def _rows(rows: Any, names: tuple[str, ...]) -> Array:
    """Read the mixture's columns of a table; an array must have exactly these."""
    named = hasattr(rows, "columns") or isinstance(rows, str)
    source = row_source(rows, names if named else None)
    if source.n_features != len(names):
        raise InvalidInput(f"rows must have {len(names)} columns, got {source.n_features}")
    return source.glance()


def _of_column(errors: StandardErrors | None, axis: int) -> StandardErrors | None:
    """Return the standard errors of one column's marginal."""
    if errors is None:
        return None
    at = np.ix_(range(len(errors.weights)), [axis], [axis])
    return StandardErrors(
        errors.weights,
        errors.means[:, [axis]],
        errors.covariances[at],
        errors.mean_covariances[at],
        errors.well_specified,
    )
