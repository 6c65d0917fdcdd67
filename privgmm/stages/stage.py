"""What a stage is: one thing done to private rows, under one price.

A stage is a frozen description. It says its price; it prepares, without noise, what it needs from
the rows; what it prepared is drawn, with noise, once; and it tells in words what it does. The
ledger hears of a release between the two calls, so that nothing can be drawn that was not written
down: the order is part of the types, not a habit.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from privgmm.arrays import Array
from privgmm.data.engines import Engine, Threads, Watch
from privgmm.data.people import People
from privgmm.errors import InvalidInput
from privgmm.learners.learner import Learner
from privgmm.mixture import Mixture
from privgmm.privacy.composition import Price
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.standard_errors import StandardErrors

__all__ = [
    "Bottom",
    "Drawn",
    "Number",
    "Prepared",
    "Progress",
    "Published",
    "RowSums",
    "Scene",
    "Stage",
    "Work",
]

Progress = Callable[[int, int], None]
"""Told (done, total); raising from it cancels."""


@dataclasses.dataclass(frozen=True)
class Bottom:
    """The symbol ⊥: a test did not pass, and nothing about the rows is shown."""


@dataclasses.dataclass(frozen=True, eq=False)
class Work:
    """What a stage works on and with. NOT private.

    Parameters
    ----------
    people : People
        The rows, by the persons they belong to.
    source : NoiseSource
        Seeds for dealing and fitting come from it; noise is drawn from it later.
    learner : Learner or None
        What the caller chose to fit blocks with; None for the default.
    engine : Engine
        Where blocks are fitted.
    progress : Progress or None
    watch : Watch or None
        Told of each step of what takes long.
    kept : dict
        Exact sums that a later stage may need again, by what they are sums of; see `once`.
    """

    people: People
    source: NoiseSource
    learner: Learner | None = None
    engine: Engine = dataclasses.field(default_factory=Threads)
    progress: Progress | None = None
    watch: Watch | None = None
    kept: dict[Any, Any] = dataclasses.field(default_factory=dict)

    def once(self, key: Any, compute: Callable[[], Any]) -> Any:
        """What `compute` gives, computed once for each key; the key names all it depends on."""
        if key not in self.kept:
            self.kept[key] = compute()
        return self.kept[key]


@dataclasses.dataclass(frozen=True, eq=False)
class Drawn:
    """What a stage gave.

    Parameters
    ----------
    value : object or Bottom
        Public from now on.
    seen : object
        What only the curator may look at. NOT private.
    """

    value: Any
    seen: Any = None


@dataclasses.dataclass(frozen=True, eq=False)
class Published:
    """A mixture that a last stage publishes, with what else it can say about it.

    Parameters
    ----------
    mixture : Mixture
    sketch : object or None
        The noisy sketch it was found in, if there is one; public too.
    misfit : float or None
        How badly a mixture of so many components explains the rows: about standard normal if it
        is right.
    floored : bool
        Whether a component is so narrow that it cannot be told apart from a single value. Widths
        are kept at a hundredth of the spread of all rows, at least.
    standard_errors : StandardErrors or None
        Of the mixture's numbers, where they are known.
    choice : object or None
        How the number of components was chosen, where it was left open.
    """

    mixture: Mixture
    sketch: Any = None
    misfit: float | None = None
    floored: bool = False
    standard_errors: StandardErrors | None = None
    choice: Any = None


class Prepared(Protocol):
    """A stage with everything at hand but the noise."""

    def draw(self, source: NoiseSource) -> Drawn:
        """Draw the noise and give the public value, or `Bottom`. Costs the stage's price."""
        ...


@dataclasses.dataclass(frozen=True)
class Scene:
    """One step of a stage that can be shown: a key for the picture, and its name."""

    key: str
    label: str


class Number(NamedTuple):
    """A number that a scene shows: what it is called, its value as text, and what it means."""

    label: str
    value: str
    meaning: str


@dataclasses.dataclass(frozen=True, eq=False)
class RowSums:
    """Noisy sums over rows, as the audit attacks them: by replacing one row.

    Parameters
    ----------
    multiplier : float
        Gaussian noise of so many sensitivities is added.
    move : callable(rows (2, d)) -> float
        How far replacing the first of two rows by the second moves the sums, in units of the
        sensitivity that the noise covers; at most one, or the price is wrong.
    starts : tuple of arrays (2, d)
        Pairs of rows from which a search for the largest move begins.
    scale : float
        How far from zero rows still count for something, for random rows to try as well.
    persons : callable(first (m, d), second (m', d)) -> float, optional
        The same for a person with m rows who is replaced by one with m' rows.
    """

    multiplier: float
    move: Callable[[Array], float]
    starts: tuple[Array, ...]
    scale: float
    persons: Callable[[Array, Array], float] | None = None


class Stage(abc.ABC):
    """One thing done to private rows, under one price."""

    kind: ClassVar[str]
    """What the stage is called in lists and errors."""

    @property
    def n_blocks(self) -> int | None:
        """How many blocks it deals rows into; None if it deals none."""
        return None

    @property
    def chooses_components(self) -> bool:
        """Whether the mixture it publishes may have fewer components than planned for."""
        return False

    @abc.abstractmethod
    def price(self) -> Price:
        """What it costs, from its own numbers alone.

        Raises `PrivGMMError` if they do not belong to a private mechanism at all.
        """

    def check(self, work: Work) -> None:  # noqa: B027 - most stages take any rows
        """Raise `InvalidInput` if the stage is not meant for so many rows or columns.

        Asked of every stage before the first of them draws: an error in the middle would lose
        what was paid for.
        """

    @abc.abstractmethod
    def prepare(self, work: Work, public: Any) -> Prepared:
        """Compute all that the stage takes from the rows, without noise.

        Parameters
        ----------
        work : Work
        public : object
            What the stage before it gave; None for the first.
        """

    @abc.abstractmethod
    def sentences(self) -> list[str]:
        """What it does, in plain words."""

    @abc.abstractmethod
    def scenes(self, *, passed: bool) -> tuple[Scene, ...]:
        """Its steps in the film; fewer if it ended in a refusal."""

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Its fields of a plan, as plain numbers for JSON."""

    def least_units(self) -> int:
        """The fewest rows (or persons) with which it can run at all."""
        return 1

    def rows_needed(self, probability: float = 0.95) -> float:  # noqa: ARG002 - most never refuse
        """Rows at which it goes on to the next stage with this probability."""
        return float(self.least_units())

    def pass_probability(self, n_rows: float) -> float:
        """The chance that it goes on to the next stage, from so many rows."""
        return float(n_rows >= self.least_units())

    def row_sums(self, n_features: int) -> tuple[RowSums, ...]:  # noqa: ARG002 - few take sums
        """The noisy sums that it takes from all rows; none if its price does not rest on sums."""
        return ()

    def worst_losses(self, n: int, *, rng: np.random.Generator) -> Array:  # noqa: ARG002 - see below
        """Privacy losses (n,) of all its noise, drawn in the worst case that its price allows.

        Raises `InvalidInput` for a stage that has no Rényi account, or does not draw them.
        """
        raise InvalidInput(f"a stage of {self.kind} does not draw its privacy losses")
