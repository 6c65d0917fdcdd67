"""What a stage is: one thing done to confidential rows, under one price.

A stage is a frozen description. It says its price; it prepares, without noise, what it needs from
the rows; what it prepared is drawn, with noise, once; and it says in words what it does. The ledger
is written between the two calls, so that nothing can be drawn that was not written down: the order
is part of the types, not a habit.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.budget import Unit
from privgmm.data.engines import Engine, Threads, Watch
from privgmm.data.people import People
from privgmm.errors import InvalidInput, Problem
from privgmm.learners.learner import Learner
from privgmm.mixture import Mixture
from privgmm.privacy.composition import Price
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.accuracy import ExpectedError
from privgmm.stages.recorded import Atom
from privgmm.stages.standard_errors import StandardErrors
from privgmm.stages.tails import SeenRange

__all__ = [
    "Bottom",
    "Drawn",
    "Prepared",
    "Progress",
    "Published",
    "RowSums",
    "Stage",
    "StageView",
    "Work",
]

Progress = Callable[[int, int], None]
"""Called with (done, total); raising from it cancels."""


@dataclasses.dataclass(frozen=True)
class Bottom:
    """The symbol ⊥: a test did not pass, and nothing about the rows is published.

    Parameters
    ----------
    reason : str
        Why, as a sentence, from what the stage published: anyone may read it. ``{column}`` stands
        for the name of the column that it is about.
    column : int or None
        Which column that is, from 0.
    """

    reason: str = "A differentially private test did not pass."
    column: int | None = None

    def why(self, columns: Sequence[str] = ()) -> str:
        """Name the column in the reason, by its position if the columns have no names."""
        if self.column is None:
            return self.reason
        named = repr(columns[self.column]) if columns else str(self.column + 1)
        return self.reason.format(column=named)


@dataclasses.dataclass(frozen=True, eq=False)
class StageView:
    """What one stage saw: for the curator's eyes only. CONFIDENTIAL.

    A stage that has nothing to show gives this one; others give a subclass with what they saw.
    """

    def hint(self, take: Callable[[IntArray], Array]) -> str | None:  # noqa: ARG002 - most have none
        """Say what stands in the way of a release and what to try; None if nothing does.

        `take` gives rows of the table by their positions.
        """
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class Work:
    """What a stage works on and with. CONFIDENTIAL.

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
        Called at each step of what takes long.
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
        """Compute something once for each key; the key names all it depends on."""
        if key not in self.kept:
            self.kept[key] = compute()
        return self.kept[key]


@dataclasses.dataclass(frozen=True, eq=False)
class Drawn:
    """The public value of a stage, and the curator's view of it.

    Parameters
    ----------
    value : object or Bottom
        Public from now on.
    view : StageView
        What only the curator may look at. CONFIDENTIAL.
    facts : dict
        Fields of `Published` that this stage knows, whatever comes after it. Public.
    """

    value: Any
    view: StageView = dataclasses.field(default_factory=StageView)
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Published:
    """A mixture that a last stage publishes, with what else it can say about it.

    A `Release` is one of these with its budget, plan and record. A new fact is a field here: the
    stage that knows it fills it in, and the schema of receipts names it.

    Parameters
    ----------
    mixture : Mixture
        Components in random order.
    sketch : PrivateSketch or None
        The noisy sketch it was found in, where the method takes one.
    misfit : float or None
        How badly a mixture of this number of components explains that sketch, in standard
        deviations: beyond 5 it does not. None without a sketch.
    floored : bool
        Whether a component is so narrow that it cannot be distinguished from a single value.
        Widths are kept at a hundredth of the spread of all rows, at least.
    standard_errors : StandardErrors or None
        Of the mixture's numbers, for sampling and noise together; None where they are not known.
    expected_error : ExpectedError or None
        Law of its distance dist_GMM to the truth; None where that is not known, where no such
        mixture explains the rows, or where it is `floored`: then there is no truth to be near.
    resolution : tuple of str
        Of each component "resolved", "poorly resolved" or "not resolved", see `resolution_of`;
        empty where nothing is known of its errors.
    choice : Choice or None
        Which numbers of components were tried and how well each does, where the plan left the
        number open.
    atoms : tuple of Atom
        Values that a large share of the rows has in a column; the mixture has a narrow component
        there at best.
    steps : tuple of float or None
        For each column the step of the grid that nearly all its values lie on, as 1 for whole
        numbers; empty if no grid was looked for.
    ranges : tuple of SeenRange
        Where the rows of each column were seen; empty if no histogram was taken.
    """

    mixture: Mixture
    sketch: Any = dataclasses.field(default=None, repr=False)
    misfit: float | None = None
    floored: bool = False
    standard_errors: StandardErrors | None = dataclasses.field(default=None, repr=False)
    expected_error: ExpectedError | None = None
    resolution: tuple[str, ...] = ()
    choice: Any = dataclasses.field(default=None, repr=False)
    atoms: tuple[Atom, ...] = ()
    steps: tuple[float | None, ...] = ()
    ranges: tuple[SeenRange, ...] = dataclasses.field(default=(), repr=False)

    def with_columns(self, columns: Sequence[str]) -> Self:
        """Name the columns in all that is published."""
        before, mixture = self.mixture.columns, self.mixture.with_columns(tuple(columns))
        return dataclasses.replace(
            self,
            mixture=mixture,
            sketch=None if self.sketch is None else self.sketch.with_columns(tuple(columns)),
            atoms=tuple(one.named(mixture.columns, before) for one in self.atoms),
            ranges=tuple(one.named(mixture.columns, before) for one in self.ranges),
        )

    def facts(self) -> dict[str, Any]:
        """Return plain values of what was published, for JSON; the sketch has its own."""
        facts: dict[str, Any] = {"mixture": self.mixture.to_dict()}
        if self.misfit is not None:
            facts |= {"misfit": self.misfit, "floored": self.floored}
        for name in ("standard_errors", "expected_error", "choice"):
            if (fact := getattr(self, name)) is not None:
                facts[name] = fact.to_dict()
        if self.resolution:
            facts["resolution"] = list(self.resolution)
        if self.atoms:
            facts["atoms"] = [atom.to_dict() for atom in self.atoms]
        if any(step is not None for step in self.steps):
            facts["steps"] = list(self.steps)
        if self.ranges:
            facts["ranges"] = [one.to_dict() for one in self.ranges]
        return facts


class Prepared(Protocol):
    """A stage whose exact statistics are computed; no noise has been drawn."""

    def draw(self, source: NoiseSource) -> Drawn:
        """Draw the noise and return the public value, or `Bottom`. Costs the stage's price."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class RowSums:
    """Noisy sums over rows, as the audit attacks them: by replacing one row.

    Parameters
    ----------
    multiplier : float
        Gaussian noise of this many sensitivities is added.
    move : callable(rows (2, d)) -> float
        How far replacing the first of two rows by the second moves the sums, in units of the
        sensitivity that the noise covers; at most one, or the price is wrong.
    starts : tuple of arrays (2, d)
        Pairs of rows from which a search for the largest move begins.
    scale : float
        How far from zero rows still count for something, for random rows to try as well.
    persons : callable(first (m, d), second (m', d)) -> float, optional
        How far replacing a person with m rows by one with m' rows moves the sums.
    """

    multiplier: float
    move: Callable[[Array], float]
    starts: tuple[Array, ...]
    scale: float
    persons: Callable[[Array, Array], float] | None = None


class Stage(abc.ABC):
    """One thing done to confidential rows, under one price."""

    kind: ClassVar[str]
    """What the stage is called in lists and errors."""

    @property
    def n_blocks(self) -> int | None:
        """Number of blocks that it deals rows into; None if it deals none."""
        return None

    @property
    def chooses_components(self) -> bool:
        """Whether the mixture it publishes may have fewer components than planned for."""
        return False

    @abc.abstractmethod
    def price(self) -> Price:
        """Compute what it costs, from its own numbers alone.

        Raises `PrivGMMError` if they do not belong to a differentially private mechanism.
        """

    def check(self, work: Work) -> None:  # noqa: B027 - most stages take any rows
        """Raise `InvalidInput` if the stage is not meant for these rows or columns.

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

    def published(self, value: Any, n_units: int) -> Published:  # noqa: ARG002 - most have said all
        """Return what it gave as the last stage, with what is known of its errors."""
        return value if isinstance(value, Published) else Published(mixture=value)

    @abc.abstractmethod
    def sentences(self) -> list[str]:
        """Say in plain words what it does."""

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return its fields of a plan, as plain values for JSON."""

    def least_units(self) -> int:
        """Return the fewest rows (or persons) with which it can run at all."""
        return 1

    def shortage(self, n_units: int, unit: Unit) -> Problem | None:
        """Say why the stage cannot run on this number of rows or persons; None if it can."""
        least = self.least_units()
        if n_units >= least:
            return None
        return Problem(
            f"{{given}} {unit}s are too few for this plan, which needs {{least}}",
            facts={"given": n_units, "least": least},
        )

    def rows_needed(self, probability: float = 0.95) -> float:  # noqa: ARG002 - most never refuse
        """Estimate the rows at which it goes on to the next stage with this probability."""
        return float(self.least_units())

    def pass_probability(self, n_rows: float) -> float:
        """Estimate the chance that it goes on to the next stage, from `n_rows` rows."""
        return float(n_rows >= self.least_units())

    def row_sums(self, n_features: int) -> tuple[RowSums, ...]:  # noqa: ARG002 - few take sums
        """List the noisy sums that it takes from all rows; none if its price rests on no sums."""
        return ()

    def worst_losses(self, n: int, *, rng: np.random.Generator) -> Array:  # noqa: ARG002 - see below
        """Draw privacy losses (n,) of all its noise, in the worst case that its price allows.

        Raises `InvalidInput` for a stage that has no Rényi account, or does not draw them.
        """
        raise InvalidInput(f"a stage of {self.kind} does not draw its privacy losses")
