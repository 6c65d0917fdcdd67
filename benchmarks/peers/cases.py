"""Define which rows the tools get, and which bounds.

The problem of the studies, whose truth is known, and two real tables, where rows were held out.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from typing import ClassVar

import numpy as np

from benchmarks.release import PROBLEM, errors
from benchmarks.sketch import held_out
from benchmarks.tables import Split, table
from privgmm import Mixture, mixture_tv
from privgmm.arrays import Array
from privgmm.baselines import Box

__all__ = [
    "CASES",
    "MANY_ROWS",
    "SITUATIONS",
    "SIZES",
    "Case",
    "MixtureCase",
    "ProblemCase",
    "Situation",
    "TableCase",
]

MANY_ROWS = 1_000_000
SIZES = (10_000, 100_000, MANY_ROWS)


@dataclasses.dataclass(frozen=True)
class Situation:
    """Knowledge of where the rows lie.

    Parameters
    ----------
    key : str
    title : str
        Heads a column.
    width : float or None
        How many times as wide as right the bounds are; None if none are told.
    shift : float
        Added to every value after the bounds were chosen.
    """

    key: str
    title: str
    width: float | None
    shift: float = 0.0


SITUATIONS = (
    Situation("right", "right bounds", 1.0),
    Situation("wide", "bounds 10 times too wide", 10.0),
    Situation("tight", "bounds half as wide", 0.5),
    Situation("none", "no bounds", None),
    Situation("shifted", "no bounds, shifted by 10,000", None, 1e4),
)


class Case(abc.ABC):
    """Rows to learn from."""

    situation: Situation

    @property
    @abc.abstractmethod
    def key(self) -> str:
        """Identify the case."""

    @abc.abstractmethod
    def rows(self, run: int) -> Array:
        """Draw or read rows (n, d), equal for all tools."""


class MixtureCase(Case):
    """Rows to learn from, and a judgement of the mixture that was learned."""

    n_components: int
    least_width: ClassVar[float]
    """Least width of components that EM finds, in standard deviations of the columns."""

    @property
    @abc.abstractmethod
    def bounds(self) -> Box:
        """Compute bounds: right before the rows were shifted, times the width of the situation."""

    @abc.abstractmethod
    def judge(self, found: Mixture) -> dict[str, float]:
        """Judge a mixture by numbers with names."""


@dataclasses.dataclass(frozen=True)
class ProblemCase(MixtureCase):
    """Problem of the studies: two components in the plane, four deviations from the middle."""

    n_rows: int
    situation: Situation
    n_components: int = 2
    least_width: ClassVar[float] = 1e-3

    @property
    def key(self) -> str:
        """Size and situation."""
        return f"problem-{self.n_rows}-{self.situation.key}"

    def rows(self, run: int) -> Array:
        """Draw rows, new in every run and equal in every situation."""
        return PROBLEM.sample(self.n_rows, rng=7_000 + run) + self.situation.shift

    @property
    def bounds(self) -> Box:
        """Bound every component by five deviations."""
        return Box.around(PROBLEM).widened(self.situation.width or 1.0)

    def judge(self, found: Mixture) -> dict[str, float]:
        """Compute errors of the worst component, and the total variation between the mixtures."""
        shift = np.full(2, self.situation.shift)
        truth = PROBLEM.transformed(np.eye(2), shift)
        mean, covariance, weight = errors(truth, found)
        # near the origin, where nothing is lost to rounding
        here = found.transformed(np.eye(2), -shift)
        return {
            "mean": mean,
            "covariance": covariance,
            "weight": weight,
            "variation": float(mixture_tv(PROBLEM, here)),
        }


@dataclasses.dataclass(frozen=True)
class TableCase(MixtureCase):
    """Two columns of a real table, as they are; a fifth of the rows is held out.

    The bounds are what somebody would say who has never seen the table.
    """

    name: str
    low: tuple[float, ...]
    high: tuple[float, ...]
    situation: Situation
    n_components: int = 3
    least_width: ClassVar[float] = 1e-2

    @property
    def key(self) -> str:
        """Table and situation."""
        return f"{self.name}-{self.situation.key}"

    def rows(self, run: int) -> Array:  # noqa: ARG002 - one split; the noise differs
        """Read the rows to learn from."""
        return _split(self.name).learn

    @property
    def bounds(self) -> Box:
        """Return the bounds as stated."""
        return Box(self.low, self.high)

    def judge(self, found: Mixture) -> dict[str, float]:
        """Compute the mean log density of held-out rows: without the worst 0.5 %, and of all."""
        rows = _split(self.name).held_out
        return {
            "held_out": held_out(found, rows),
            "plain": float(found.log_density(rows).mean()),
        }


@functools.cache
def _split(name: str) -> Split:
    return table(name).split()


_RIGHT, _WIDE, _TIGHT, _NONE, _SHIFTED = SITUATIONS

CASES: tuple[MixtureCase, ...] = (
    *(ProblemCase(n, situation) for n in SIZES[:2] for situation in SITUATIONS),
    # wrong bounds do the same harm to many rows, and take other tools long
    *(ProblemCase(MANY_ROWS, situation) for situation in (_RIGHT, _NONE, _SHIFTED)),
    *(
        TableCase(name, (0.0, 0.0), high, situation)
        for name, high in (("flights", (720.0, 5_000.0)), ("diamonds", (6.0, 20_000.0)))
        for situation in (_RIGHT, _NONE)
    ),
)
"""Air time in minutes, distance in miles; carats, dollars."""
