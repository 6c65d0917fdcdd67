"""Hold the standard errors of a mixture's numbers, as a value.

Fits and refinement know the covariance of their errors in a mixture's *local coordinates*: per
component the logarithm of its weight, its mean in its own units, and the logarithm of its
covariance relative to itself. Here they become standard errors of the numbers that one reads.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from privgmm.arrays import Array, finite_array, frozen
from privgmm.errors import InvalidInput

__all__ = ["StandardErrors"]

_FIELDS = ("weights", "means", "covariances", "mean_covariances")
_DIGITS = 6
"""Convention: significant digits written; an error needs no more."""


@dataclasses.dataclass(frozen=True, eq=False)
class StandardErrors:
    """Standard errors of a mixture's numbers: sampling of the rows and privacy noise together.

    Parameters
    ----------
    weights : array (k,)
    means : array (k, d)
    covariances : array (k, d, d)
        Entry by entry.
    mean_covariances : array (k, d, d)
        Covariance of the errors of each mean, from which ellipses around it are drawn.
    well_specified : bool
        False where no such mixture explains the rows. Then the errors say how far another sample
        and other noise would move the numbers, not how far the rows are from such a mixture.
    """

    weights: Array
    means: Array
    covariances: Array
    mean_covariances: Array
    well_specified: bool = True

    def __post_init__(self) -> None:
        weights = finite_array(self.weights, "weights", (None,))
        k = len(weights)
        means = finite_array(self.means, "means", (k, None))
        d = means.shape[1]
        for name in _FIELDS:
            shape = {"weights": (k,), "means": (k, d)}.get(name, (k, d, d))
            value = finite_array(getattr(self, name), name, shape)
            if name != "mean_covariances" and (value < 0).any():
                raise InvalidInput(f"{name} must not be negative: they are standard errors")
            object.__setattr__(self, name, frozen(value))

    @classmethod
    def from_local(
        cls, weights: Array, roots: Array, covariance: Array, *, well_specified: bool = True
    ) -> StandardErrors:
        """Apply the delta method to the covariance of errors in local coordinates.

        Parameters
        ----------
        weights : array (k,)
        roots : array (k, d, d)
            Square roots A of the covariances ``A A'``, in whose units the coordinates are: a mean
            moves by A times its coordinates, and a covariance becomes ``A exp(M) A'``.
        covariance : array (P, P)
            Of the errors, component by component: log-weight, mean, and svec of M (the upper
            triangle row by row, entries off the diagonal times sqrt 2).
        """
        k, d, _ = roots.shape
        width = 1 + d + d * (d + 1) // 2
        v = finite_array(covariance, "covariance", (k * width, k * width))
        logs = v[::width, ::width]
        share = np.diag(weights) - np.outer(weights, weights)
        weight_errors = np.sqrt(np.maximum(np.einsum("ab,bc,ac->a", share, logs, share), 0.0))
        row, column = np.triu_indices(d)
        basis = np.zeros((len(row), d, d))
        entry = np.where(row == column, 1.0, math.sqrt(0.5))
        basis[np.arange(len(row)), row, column] = entry
        basis[np.arange(len(row)), column, row] = entry
        mean_covariances = np.empty((k, d, d))
        variances = np.empty((k, d, d))
        for c in range(k):
            at = c * width
            own = v[at + 1 : at + 1 + d, at + 1 : at + 1 + d]
            mean_covariances[c] = roots[c] @ own @ roots[c].T
            spread = v[at + 1 + d : at + width, at + 1 + d : at + width]
            moves = roots[c] @ basis @ roots[c].T
            variances[c] = np.einsum("aij,ab,bij->ij", moves, spread, moves)
        means = np.sqrt(np.maximum(np.diagonal(mean_covariances, axis1=1, axis2=2), 0.0))
        return cls(
            weight_errors,
            means,
            np.sqrt(np.maximum(variances, 0.0)),
            mean_covariances,
            well_specified,
        )

    def deviations(self, covariances: Array) -> Array:
        """Compute the standard errors (k, d) of the deviations, for covariances (k, d, d).

        That of a root is the error of the variance over twice the root.
        """
        spread = np.sqrt(np.einsum("kii->ki", covariances))
        return np.asarray(np.einsum("kii->ki", self.covariances) / (2 * spread), dtype=np.float64)

    def known_weights(self, weights: Array) -> Array:
        """Return the errors of the weights (k,); NaN, not known, where one is as large as that."""
        return _known(self.weights, weights)

    def known_means(self, covariances: Array) -> Array:
        """Return the errors of the means (k, d); NaN where one is as large as the component."""
        return _known(self.means, np.sqrt(np.einsum("kii->ki", covariances)))

    def known_deviations(self, covariances: Array) -> Array:
        """Return the errors of the deviations (k, d); NaN where one is as large as that."""
        return _known(self.deviations(covariances), np.sqrt(np.einsum("kii->ki", covariances)))

    @property
    def meaning(self) -> str:
        """What the errors stand for, as a sentence."""
        if self.well_specified:
            return "They allow for the sampling of the rows and for the privacy noise."
        return (
            "They say, to a factor of two or so, how far other rows of the same kind and other "
            "noise would move the numbers; they do not say how far the rows are from such a "
            "mixture."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, for JSON, with six digits: an error needs no more."""
        arrays = {name: _short(getattr(self, name)).tolist() for name in _FIELDS}
        return {**arrays, "well_specified": self.well_specified}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> StandardErrors:
        """Read back what `to_dict` wrote."""
        if not (isinstance(data, dict) and data.keys() >= {*_FIELDS, "well_specified"}):
            raise InvalidInput(
                f"standard errors need a JSON object of {', '.join(_FIELDS)} and well_specified"
            )
        if not isinstance(data["well_specified"], bool):
            raise InvalidInput("well_specified must be true or false")
        arrays = {name: data[name] for name in _FIELDS}
        return cls(**arrays, well_specified=data["well_specified"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StandardErrors):
            return NotImplemented
        return self.well_specified == other.well_specified and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in _FIELDS
        )

    def __hash__(self) -> int:
        return hash((self.weights.tobytes(), self.means.tobytes(), self.covariances.tobytes()))


def _known(errors: Array, sizes: Array) -> Array:
    """Replace errors by NaN where they are as large as what they describe.

    The law of such errors is not that of small ones, and a number is then not known at all.
    """
    return np.where(errors < sizes, errors, np.nan)


def _short(values: Array) -> Array:
    """Round to `_DIGITS` significant digits."""
    rounded = [float(f"{value:.{_DIGITS}g}") for value in values.ravel().tolist()]
    return np.reshape(rounded, values.shape)
