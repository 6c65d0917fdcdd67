"""The guarantee (epsilon, delta) as a value, the unit it protects, and its meaning in words."""

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

_LARGE_EPSILON = 10.0  # a convention; above it a guess may fail only once in 22,000 games


def check_unit(unit: Unit, name: str) -> Unit:
    """Return the unit, or raise a clear error."""
    if unit not in UNITS:
        raise InvalidInput(f"{name} must be 'row' or 'person', got {unit!r}")
    return unit


@dataclasses.dataclass(frozen=True, slots=True)
class Budget:
    """The TOTAL (epsilon, delta) guarantee of the object that carries it (Definition 1.7).

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
        """Return whether `other` costs no more than this, up to a relative rounding slack."""
        return other.epsilon <= self.epsilon * (1 + slack) and other.delta <= self.delta * (
            1 + slack
        )

    @property
    def guess_ceiling(self) -> float:
        """Best chance of distinguishing two neighbouring data sets in a fair guessing game.

        A guesser who sees one release made from either of two neighbours, each with
        probability one half, is right with probability at most
        ``(exp(epsilon) + delta) / (1 + exp(epsilon))``.

        The two numbers imply no more. Where a plan is known, `Plan.ceiling` is sharper.
        """
        odds = math.exp(-self.epsilon)
        return min(1.0, (1 + self.delta * odds) / (1 + odds))

    def to_dict(self) -> dict[str, float]:
        """Return plain numbers, for JSON."""
        return {"epsilon": self.epsilon, "delta": self.delta}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Budget:
        """Build a budget from what `to_dict` returned."""
        try:
            return cls(data["epsilon"], data["delta"])
        except (KeyError, TypeError) as problem:
            raise InvalidInput(f"a budget needs epsilon and delta, got {data!r}") from problem

    def __str__(self) -> str:
        return f"(ε = {self.epsilon:.4g}, δ = {self.delta:.3g})"


def budget_warnings(budget: Budget, n_units: int, unit: Unit = "row") -> tuple[str, ...]:
    """Say why a budget promises little in a table of this size; empty if it promises much.

    Parameters
    ----------
    budget : Budget
    n_units : int
        Rows, or persons where these are protected; public.
    unit : {"row", "person"}
        What the budget protects.

    Notes
    -----
    Publishing one row of n, drawn at random, is (0, 1/n)-differentially private by the definition:
    with a delta of 1/n, a mechanism may disclose someone's row every time. At epsilon 10 a guess
    whether a row was replaced may be right in all but one of 22,000 games.
    """
    found = []
    if budget.epsilon > _LARGE_EPSILON:
        found.append(
            f"epsilon = {budget.epsilon:.4g} promises little: by itself it would allow an attacker "
            f"who sees the release to guess whether one {unit} was replaced with "
            f"{percent_at_most(budget.guess_ceiling)} success; 1 is a usual choice, and 10 is large"
        )
    if budget.delta * n_units >= 1:
        found.append(
            f"delta = {budget.delta:.3g} is no less than 1/{n_units:,}, one over the number of "
            f"{unit}s: so large a delta would also allow publishing someone's {unit} every time; "
            f"choose a far smaller delta, such as {0.01 / n_units:.0e}"
        )
    return tuple(found)


def percent_at_most(chance: float) -> str:
    """Write a chance in per cent, rounded up, but never up to certainty.

    Examples
    --------
    >>> percent_at_most(0.54291), percent_at_most(0.9996647), percent_at_most(1.0)
    ('54.3%', '99.97%', '100%')
    """
    for places in range(1, 10):
        # an exact number must not be rounded up because of its last bit
        shown = math.ceil(round(chance * 10 ** (places + 2), 6)) / 10**places
        if shown < 100:
            return f"{shown:.{places}f}%"
    return "100%"


def guess_in_words(ceiling: float, unit: Unit = "row") -> str:
    """Say in a clause what a ceiling on the chance of a right guess means.

    Examples
    --------
    >>> guess_in_words(0.54291)
    'someone who knows every other row guesses right at most 54.3% of the time; chance level is 50%'
    """
    return (
        f"someone who knows every other {unit} guesses right at most {percent_at_most(ceiling)} "
        "of the time; chance level is 50%"
    )
