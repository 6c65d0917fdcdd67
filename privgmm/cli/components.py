"""Write a mixture's components as lines of text, with standard errors where these are known."""

from __future__ import annotations

from collections.abc import Sequence

from privgmm.mixture import Mixture
from privgmm.stages.standard_errors import StandardErrors

__all__ = ["component_lines"]

_MOST_SHOWN = 6
"""Columns shown per component, so that eight components fit on a screen."""


def component_lines(
    mixture: Mixture, errors: StandardErrors | None, columns: Sequence[str]
) -> list[str]:
    """List weight, means and standard deviations per component; say how many columns are cut."""
    lines = []
    for j, weight in enumerate(mixture.weights):
        off = "" if errors is None else f" ± {errors.weights[j]:.2g}"
        lines.append(f"  {j + 1}: weight {weight:.4f}{off}")
        for i, name in enumerate(columns[:_MOST_SHOWN]):
            spread = float(mixture.covariances[j, i, i]) ** 0.5
            near = wide = ""
            if errors is not None:
                near = f" ± {errors.means[j, i]:.2g}"
                wide = f" ± {errors.deviations(mixture.covariances)[j, i]:.2g}"
            lines.append(
                f"     {name}: mean {mixture.means[j, i]:.6g}{near}, "
                f"standard deviation {spread:.4g}{wide}"
            )
        if len(columns) > _MOST_SHOWN:
            lines.append(f"     and {len(columns) - _MOST_SHOWN} more columns (--json shows all)")
    if errors is not None:
        lines.append(f"± are standard errors. {errors.meaning}")
    return lines
