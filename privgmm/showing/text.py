"""Show mixtures as text and as tables: what `print`, the command line and `summary` say.

The values import this module, and protocols say what it needs, as in `html`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from privgmm.arrays import Array

__all__ = [
    "ErrorsLike",
    "NamedMixture",
    "component_lines",
    "component_table",
    "error_in_words",
    "expected_line",
    "mixture_title",
]

_MOST_SHOWN = 6
"""Columns shown per component, so that eight components fit on a screen."""


class NamedMixture(Protocol):
    """List the attributes of a mixture that its text needs."""

    @property
    def weights(self) -> Array:
        """Weights (k,)."""
        ...

    @property
    def means(self) -> Array:
        """Means (k, d)."""
        ...

    @property
    def covariances(self) -> Array:
        """Covariances (k, d, d)."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the d columns."""
        ...


class ErrorsLike(Protocol):
    """List the attributes of standard errors that a text or a table needs."""

    @property
    def weights(self) -> Array:
        """Standard errors of the weights (k,)."""
        ...

    @property
    def means(self) -> Array:
        """Standard errors of the means (k, d)."""
        ...

    @property
    def meaning(self) -> str:
        """Say what these numbers mean, in a sentence."""
        ...

    def known_weights(self, weights: Array) -> Array:
        """Return the errors of the weights (k,); NaN where one is as large as the weight."""
        ...

    def known_means(self, covariances: Array) -> Array:
        """Return the errors of the means (k, d); NaN where one is as large as the component."""
        ...

    def known_deviations(self, covariances: Array) -> Array:
        """Return the errors of the deviations (k, d); NaN where one is as large as that."""
        ...


def mixture_title(mixture: NamedMixture) -> str:
    """Say in a few words what a mixture is of: "2 Gaussians in age and height"."""
    k, names = len(mixture.weights), mixture.columns
    listed = ", ".join(names[:_MOST_SHOWN])
    if len(names) > _MOST_SHOWN:
        listed += f" and {len(names) - _MOST_SHOWN} more columns"
    return f"{k} Gaussian{'s' * (k > 1)} in {listed}"


def expected_line(error: object) -> list[str]:
    """Say how far the mixture is expected to be from the truth, where that is known."""
    if error is None:
        return []
    return [f"Expected distance to the truth: {error} (dist_GMM: 0 is perfect, 1 is wrong)."]


def error_in_words(error: float) -> str:
    """Write a standard error behind its number.

    >>> error_in_words(0.1234), error_in_words(float("nan"))
    (' ± 0.12', ' ± not known')
    """
    return " ± not known" if np.isnan(error) else f" ± {error:.2g}"


def _known_errors(
    mixture: NamedMixture, errors: ErrorsLike | None
) -> tuple[Array | None, Array | None, Array | None]:
    """Return what is known of the errors of weights, means and deviations."""
    if errors is None:
        return None, None, None
    return (
        errors.known_weights(mixture.weights),
        errors.known_means(mixture.covariances),
        errors.known_deviations(mixture.covariances),
    )


def component_lines(
    mixture: NamedMixture,
    errors: ErrorsLike | None = None,
    resolution: Sequence[str] = (),
    values: Mapping[tuple[int, int], float] | None = None,
) -> list[str]:
    """List weight, means and standard deviations per component; say how many columns are cut.

    Standard errors, and whether a component is resolved, stand behind its numbers where they are
    known. `values` names components that are a single value in a column: ``{(j, column): value}``.
    """
    spread = np.sqrt(np.einsum("kii->ki", mixture.covariances))
    heavy, far, wide = _known_errors(mixture, errors)
    names = mixture.columns[:_MOST_SHOWN]
    width = max(len(name) for name in names)
    lines = []
    for j, weight in enumerate(mixture.weights):
        off = "" if heavy is None else error_in_words(heavy[j])
        known = f", {resolution[j]}" if resolution else ""
        lines.append(f"  {j + 1}: weight {weight:.4f}{off}{known}")
        for i, name in enumerate(names):
            if values and (j, i) in values:
                lines.append(f"     {name:<{width}}  = {values[j, i]:.10g}, a value of many rows")
                continue
            near = "" if far is None else error_in_words(far[j, i])
            broad = "" if wide is None else error_in_words(wide[j, i])
            lines.append(
                f"     {name:<{width}}  mean {mixture.means[j, i]:.6g}{near}, "
                f"standard deviation {spread[j, i]:.4g}{broad}"
            )
        if len(mixture.columns) > _MOST_SHOWN:
            more = len(mixture.columns) - _MOST_SHOWN
            lines.append(f"     and {more} more columns (summary() and --json show all)")
    if errors is not None:
        lines.append(f"± are standard errors. {errors.meaning}")
    return lines


def component_table(
    mixture: NamedMixture,
    errors: ErrorsLike | None = None,
    resolution: Sequence[str] = (),
    values: Mapping[tuple[int, int], float] | None = None,
) -> Any:
    """Tabulate components as a pandas data frame: a line per component and column.

    A standard error that is as large as what it describes is NaN: not known. Where a component is
    a single value in some column (`values`), that value has a column of its own.
    """
    import pandas as pd

    k, d = mixture.means.shape
    spread = np.sqrt(np.einsum("kii->ki", mixture.covariances))
    heavy, far, wide = _known_errors(mixture, errors)
    columns: dict[str, Any] = {"weight": np.repeat(mixture.weights, d)}
    if heavy is not None:
        columns["weight ±"] = np.repeat(heavy, d)
    columns["mean"] = mixture.means.ravel()
    if far is not None:
        columns["mean ±"] = far.ravel()
    columns["standard deviation"] = spread.ravel()
    if wide is not None:
        columns["standard deviation ±"] = wide.ravel()
    if resolution:
        columns["resolution"] = np.repeat(list(resolution), d)
    if values:
        columns["single value"] = [values.get((j, i), np.nan) for j in range(k) for i in range(d)]
    index = pd.MultiIndex.from_product(
        [range(1, k + 1), mixture.columns], names=["component", "column"]
    )
    return pd.DataFrame(columns, index=index)
