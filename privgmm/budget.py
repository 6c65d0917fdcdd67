"""The privacy promise as a value, and what it protects."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, TypeAlias

from privgmm.arrays import positive
from privgmm.errors import InvalidInput

__all__ = ["UNITS", "Budget", "Unit", "check_unit"]

Unit: TypeAlias = Literal["row", "person"]
"""What a guarantee protects: one row, or all rows of one person."""

UNITS: tuple[Unit, ...] = ("row", "person")


def check_unit(unit: Unit, name: str) -> Unit:
    """The unit, or a clear error."""
    if unit not in UNITS:
        raise InvalidInput(f"{name} must be 'row' or 'person', got {unit!r}")
    return unit


@dataclasses.dataclass(frozen=True, slots=True)
class Budget:
    """The TOTAL (epsilon, delta) guarantee of whatever carries it (Definition 1.7).

    Neighbouring data sets differ by replacing one row (Definition 1.5).

    Parameters
    ----------
    epsilon : float
        Positive; the promised bound on the privacy loss.
    delta : float
        In (0, 1); the chance with which that bound may fail.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", positive(self.delta, "delta", below=1.0))

    def covers(self, other: Budget, *, slack: float = 1e-9) -> bool:
        """Whether `other` costs no more than this, up to a relative rounding slack."""
        return other.epsilon <= self.epsilon * (1 + slack) and other.delta <= self.delta * (
            1 + slack
        )

    @property
    def guess_ceiling(self) -> float:
        """Best chance of telling two neighbouring data sets apart in a fair guessing game.

        A guesser who sees one release made from either of two neighbours, each with
        probability one half, is right with probability at most
        ``(exp(epsilon) + delta) / (1 + exp(epsilon))``.
        """
        odds = math.exp(-self.epsilon)
        return min(1.0, (1 + self.delta * odds) / (1 + odds))

    def to_dict(self) -> dict[str, float]:
        """Plain numbers, for JSON."""
        return {"epsilon": self.epsilon, "delta": self.delta}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Budget:
        """Inverse of `to_dict`."""
        try:
            return cls(data["epsilon"], data["delta"])
        except (KeyError, TypeError) as problem:
            raise InvalidInput(f"a budget needs epsilon and delta, got {data!r}") from problem

    def __str__(self) -> str:
        return f"(ε = {self.epsilon:.4g}, δ = {self.delta:.3g})"
