"""Take a sketch of the few directions in which the rows vary most."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numba as nb
import numpy as np

from privgmm.arrays import Array, whole_number
from privgmm.errors import InvalidInput
from privgmm.privacy.composition import Price
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.form import Form
from privgmm.stages.sketch.features import SketchShape, feature_sums
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.sketch.stage import PreparedSketch, Sketch
from privgmm.stages.stage import Drawn, RowSums, Stage, Work
from privgmm.stages.wide.pooled import Pooled, check_planned

__all__ = ["PreparedSubspaceSketch", "Projection", "SketchedSubspace", "SubspaceSketch"]


@dataclasses.dataclass(frozen=True, eq=False)
class SketchedSubspace:
    """The law of all rows together, and a sketch of their first white coordinates. Public."""

    pooled: Pooled
    sketch: PrivateSketch


@dataclasses.dataclass(frozen=True, eq=False)
class Projection:
    """Coordinates (m, q) of rows (m, d): ``matrix (x - centre)``, each row by itself.

    Parameters
    ----------
    centre : array (d,)
    matrix : array (q, d)
    """

    centre: Array
    matrix: Array

    @classmethod
    def of(cls, pooled: Pooled, dimension: int) -> Projection:
        """Project onto the first white coordinates."""
        units = pooled.units
        matrix = pooled.inverse[:dimension] / units.scale
        return cls(units.centre + units.scale * pooled.mixture.means[0], matrix)

    def __call__(self, rows: Array) -> Array:
        """Project rows."""
        out = np.empty((len(rows), len(self.matrix)))
        _project(np.ascontiguousarray(rows, dtype=np.float64), self.centre, self.matrix, out)
        return out


@nb.njit(cache=True, nogil=True)
def _project(rows: Array, centre: Array, matrix: Array, out: Array) -> None:
    """Write the projections; sums run over columns in one order, whatever the other rows are."""
    q, d = matrix.shape
    for i in range(rows.shape[0]):
        for p in range(q):
            total = 0.0
            for j in range(d):
                total += matrix[p, j] * (rows[i, j] - centre[j])
            out[i, p] = total


@dataclasses.dataclass(frozen=True)
class SubspaceSketch(Stage):
    """Sketch the first white coordinates of all rows, found by the stage before.

    Parameters
    ----------
    shape : SketchShape
        Which waves.
    multiplier : float
        Noise, in units of the L2 sensitivity of the sums.
    n_units, n_features : int
        Rows or persons n, and columns d of the data.
    dimension : int
        How many coordinates are sketched.

    Notes
    -----
    A `Sketch` of rows in coordinates that are public: its proof does not ask which they are.
    """

    shape: SketchShape
    multiplier: float
    n_units: int
    n_features: int
    dimension: int

    kind: ClassVar[str] = "subspace sketch"

    def __post_init__(self) -> None:
        for name in ("n_features", "dimension"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name, 1))
        if self.dimension > self.n_features:
            raise InvalidInput(
                f"dimension must be at most n_features = {self.n_features}, got {self.dimension}"
            )
        object.__setattr__(self, "n_units", self.sketch.n_units)

    @property
    def sketch(self) -> Sketch:
        """The sketch of the coordinates."""
        return Sketch(self.shape, self.multiplier, self.n_units, self.dimension)

    def price(self) -> Price:
        """Price one Gaussian mechanism; the stage never refuses."""
        return self.sketch.price()

    def worst_losses(self, n: int, *, rng: np.random.Generator) -> Array:
        """Draw privacy losses (n,) where one row moves the sums by their sensitivity."""
        return self.sketch.worst_losses(n, rng=rng)

    def row_sums(self, n_features: int) -> tuple[RowSums, ...]:
        """List the sums of waves of rows that lie in the subspace already."""
        away = ((0, 0), (0, n_features - self.dimension))
        return tuple(
            dataclasses.replace(
                one,
                move=self._inside(one.move),
                starts=tuple(np.pad(rows, away) for rows in one.starts),
                persons=None if one.persons is None else self._inside(one.persons),
            )
            for one in self.sketch.row_sums(self.dimension)
        )

    def _inside(self, move: Callable[..., float]) -> Callable[..., float]:
        """Return a move of rows by what it is of their first coordinates."""
        return lambda *rows: move(*(one[:, : self.dimension] for one in rows))

    def check(self, work: Work) -> None:
        """Raise `InvalidInput` if there are other numbers of rows or columns than planned."""
        check_planned(work, self.n_units, self.n_features)

    def prepare(self, work: Work, public: Pooled) -> PreparedSubspaceSketch:
        """Sum the waves of all rows in the subspace, exactly."""
        self.check(work)
        people = work.people.mapped(Projection.of(public, self.dimension))
        frame = Frame(np.zeros(self.dimension), np.eye(self.dimension))
        sums = feature_sums(people, frame, self.shape, scale=self.sketch.scale)
        return PreparedSubspaceSketch(PreparedSketch(self.sketch, frame, sums), public)

    def sentences(self) -> list[str]:
        """Say in plain words what the stage does."""
        return [
            f"Of the {self.n_features} directions in which rows vary, the {self.dimension} with "
            "the largest spread are looked at first: that is where components lie apart.",
            *self.sketch.sentences(),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        return {
            "subspace_sketch": {
                **self.sketch.to_dict()["sketch"],
                "n_features": self.n_features,
                "dimension": self.dimension,
            }
        }

    @classmethod
    def from_form(cls, form: Form) -> SubspaceSketch:
        """Read the stage back from a plan, and check its form."""
        stage = cls(
            SketchShape.from_form(form),
            form.number("multiplier"),
            form.whole("n_units", 1),
            form.whole("n_features", 1),
            form.whole("dimension", 1),
        )
        form.agrees("scale", stage.sketch.scale, within=0.0)
        form.agrees("sensitivity", stage.sketch.integer_sensitivity, within=0.0)
        return stage


@dataclasses.dataclass(frozen=True, eq=False)
class PreparedSubspaceSketch:
    """The exact sums of all rows, without noise. CONFIDENTIAL."""

    inner: PreparedSketch
    pooled: Pooled

    def draw(self, source: NoiseSource) -> Drawn:
        """Add the noise, and hand the pooled law on."""
        drawn = self.inner.draw(source)
        return Drawn(SketchedSubspace(self.pooled, drawn.value), drawn.view)
