"""The box that a baseline is given: rows outside are pulled into it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, finite_array, frozen, positive
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture

__all__ = ["Box"]


@dataclasses.dataclass(frozen=True, eq=False)
class Box:
    """A smallest and a largest value for every column, known without looking at the rows.

    Parameters
    ----------
    low, high : array-like (d,)
        ``low < high`` in every column.
    """

    low: Array
    high: Array

    def __init__(self, low: npt.ArrayLike, high: npt.ArrayLike) -> None:
        lowest = finite_array(low, "low", (None,))
        highest = finite_array(high, "high", (len(lowest),))
        with np.errstate(over="ignore"):
            sides = highest - lowest
        if not (sides > 0).all() or not np.isfinite(sides).all():
            raise InvalidInput(
                "bounds must have low < high in every column, and a finite distance between them, "
                f"got low = {lowest.tolist()} and high = {highest.tolist()}"
            )
        object.__setattr__(self, "low", frozen(lowest.copy()))
        object.__setattr__(self, "high", frozen(highest.copy()))

    @classmethod
    def around(cls, mixture: Mixture, deviations: float = 5.0) -> Box:
        """Return the box that holds this many deviations around each component of a mixture."""
        reach = positive(deviations, "deviations") * np.sqrt(
            np.diagonal(mixture.covariances, axis1=1, axis2=2)
        )
        return cls((mixture.means - reach).min(axis=0), (mixture.means + reach).max(axis=0))

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return len(self.low)

    @property
    def centre(self) -> Array:
        """Middle (d,)."""
        return np.asarray(self.low + self.half)

    @property
    def half(self) -> Array:
        """Half the side of every column (d,)."""
        return np.asarray((self.high - self.low) / 2)

    def widened(self, factor: float) -> Box:
        """Return a box of this centre, its sides multiplied by a factor."""
        half = self.half * positive(factor, "factor")
        return Box(self.centre - half, self.centre + half)

    def clipped(self, rows: Array) -> Array:
        """Move every value of rows (n, d) outside the box to the nearest side."""
        return np.clip(rows, self.low, self.high)

    def in_unit_ball(self, rows: Array) -> Array:
        """Pull rows (n, d) into the box, in coordinates in which the box is in the unit ball.

        ``(x - centre) / (half sqrt d)``: every column is in ``±1/sqrt d``.
        """
        return np.asarray(
            (self.clipped(rows) - self.centre) / (self.half * math.sqrt(self.n_features))
        )

    def from_unit_ball(self, mixture: Mixture) -> Mixture:
        """Move a mixture of rows as `in_unit_ball` gives them into the coordinates of the rows."""
        return mixture.transformed(np.diag(self.half * math.sqrt(self.n_features)), self.centre)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Box):
            return NotImplemented
        return np.array_equal(self.low, other.low) and np.array_equal(self.high, other.high)

    def __hash__(self) -> int:
        return hash((self.low.tobytes(), self.high.tobytes()))
