"""Record how a number of components was chosen, with the criterion of each tried. Public.

The choice is made from a noisy sketch that is paid for already, so it costs nothing, and it can be
repeated from the sketch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from privgmm.arrays import whole_number
from privgmm.errors import InvalidInput

__all__ = ["MOST_OFFERED", "Choice", "Tried"]

MOST_OFFERED = 8
"""Choice: this many components are offered, where a request leaves the number open."""

_FIELDS = ("max_components", "n_components", "tried")


class Tried(NamedTuple):
    """A number of components that was tried.

    Parameters
    ----------
    n_components : int
    misfit : float
        How badly this number explains the sketch, in standard deviations.
    criterion : float
        ``Q + F ln(2 m)``: misfit in squares and the price of F free numbers. The least is chosen.
    """

    n_components: int
    misfit: float
    criterion: float


@dataclasses.dataclass(frozen=True)
class Choice:
    """A number of components, and what it was chosen from.

    Parameters
    ----------
    max_components : int
        How many were offered.
    tried : tuple of Tried
        With 1, 2, 3, .. components: until more did not help, at most all that were offered.
    """

    max_components: int
    tried: tuple[Tried, ...]

    def __post_init__(self) -> None:
        whole_number(self.max_components, "max_components", 1)
        counts = [one.n_components for one in self.tried]
        if not counts or counts != list(range(1, len(counts) + 1)):
            raise InvalidInput(f"tried must hold 1, 2, 3, .. components, got {counts}")
        if len(counts) > self.max_components:
            raise InvalidInput(
                f"tried must hold at most the {self.max_components} components offered, got "
                f"{len(counts)}"
            )
        if not all(
            math.isfinite(one.misfit) and math.isfinite(one.criterion) for one in self.tried
        ):
            raise InvalidInput("tried must hold finite numbers")

    @property
    def n_components(self) -> int:
        """The number chosen: that of the least criterion."""
        return min(self.tried, key=lambda one: one.criterion).n_components

    @property
    def above_best(self) -> tuple[float, ...]:
        """Difference of each criterion from the least: 0 for the number chosen."""
        least = min(one.criterion for one in self.tried)
        return tuple(one.criterion - least for one in self.tried)

    def __str__(self) -> str:
        """Write a table with one line for each number tried."""
        lines = ["components  misfit   criterion above the best"]
        lines += [
            f"{one.n_components:>10}  {one.misfit:>6.3g}   {above:.4g}"
            + ("   chosen" if one.n_components == self.n_components else "")
            for one, above in zip(self.tried, self.above_best, strict=True)
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "max_components": self.max_components,
            "n_components": self.n_components,
            "tried": [one._asdict() for one in self.tried],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Choice:
        """Read back what `to_dict` wrote; the number chosen must have the least criterion."""
        if not (isinstance(data, Mapping) and data.keys() == set(_FIELDS)):
            raise InvalidInput(f"a choice needs a JSON object of {', '.join(_FIELDS)}")
        if not isinstance(data["tried"], list):
            raise InvalidInput("tried must be a list")
        made = cls(data["max_components"], tuple(_tried(one) for one in data["tried"]))
        if made.n_components != data["n_components"]:
            raise InvalidInput(
                f"n_components must be the number with the least criterion, {made.n_components}, "
                f"got {data['n_components']!r}"
            )
        return made


def _tried(data: Any) -> Tried:
    if not (isinstance(data, Mapping) and data.keys() == set(Tried._fields)):
        raise InvalidInput(f"what was tried needs a JSON object of {', '.join(Tried._fields)}")
    numbers = data["misfit"], data["criterion"]
    if not all(isinstance(value, float) for value in numbers):
        raise InvalidInput(f"misfit and criterion must be numbers, got {numbers}")
    return Tried(whole_number(data["n_components"], "n_components", 1), *numbers)
