"""The privacy promise as a value, and what it protects."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, TypeAlias

from privgmm.arrays import positive
from privgmm.errors import InvalidInput

__all__ = [
    "UNITS",
    "Budget",
    "Unit",
    "budget_warnings",
    "check_unit",
    "guess_in_words",
    "percent_at_most",
]

Unit: TypeAlias = Literal["row", "person"]
"""What a guarantee protects: one row, or all rows of one person."""

UNITS: tuple[Unit, ...] = ("row", "person")

_LARGE_EPSILON = 10.0


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

        This is all that the two numbers say. Where a plan is known, `Plan.ceiling` says more.
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


def budget_warnings(budget: Budget, n_units: int, unit: Unit = "row") -> tuple[str, ...]:
    """Why a budget promises little to those in a table of this size; empty if it does promise.

    Parameters
    ----------
    budget : Budget
    n_units : int
        Rows, or persons where these are protected; public.
    unit : {"row", "person"}
        What the budget protects.

    Notes
    -----
    Publishing one row of n, drawn at random, is (0, 1/n)-private by the letter: from a delta of 1/n
    on, a mechanism may give somebody away every time. At epsilon 10 whoever guesses whether a row
    was replaced may be right in all but one of 22,000 games.
    """
    found = []
    if budget.epsilon > _LARGE_EPSILON:
        found.append(
            f"epsilon = {budget.epsilon:.4g} promises little: by itself it would allow whoever "
            f"sees the release to tell whether one {unit} was replaced with "
            f"{percent_at_most(budget.guess_ceiling)} success; 1 is a usual choice, and 10 a great "
            "deal"
        )
    if budget.delta * n_units >= 1:
        found.append(
            f"delta = {budget.delta:.3g} is no less than 1/{n_units:,}, one over the number of "
            f"{unit}s: so large a delta would also allow to publish somebody's {unit} every time; "
            f"choose delta far below, such as {0.01 / n_units:.0e}"
        )
    return tuple(found)


def percent_at_most(chance: float) -> str:
    """A chance in per cent, rounded up, but never up to certainty.

    Examples
    --------
    >>> percent_at_most(0.54291), percent_at_most(0.9996647), percent_at_most(1.0)
    ('54.3%', '99.97%', '100%')
    """
    for places in range(1, 10):
        # a number that is round already must not be rounded up for the sake of its last bit
        shown = math.ceil(round(chance * 10 ** (places + 2), 6)) / 10**places
        if shown < 100:
            return f"{shown:.{places}f}%"
    return "100%"


def guess_in_words(ceiling: float, unit: Unit = "row") -> str:
    """What a ceiling on the chance of a right guess means, as a clause.

    Examples
    --------
    >>> guess_in_words(0.54291)
    'somebody who knows every other row guesses right at most 54.3% of the time; a coin has 50%'
    """
    return (
        f"somebody who knows every other {unit} guesses right at most {percent_at_most(ceiling)} "
        "of the time; a coin has 50%"
    )
