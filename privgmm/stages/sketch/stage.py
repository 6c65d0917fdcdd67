"""Take a sketch: one pass over all rows, one Gaussian price, nothing that can refuse."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np

from privgmm.arrays import Array, IntArray, positive, whole_number
from privgmm.data.people import one_person
from privgmm.errors import InvalidInput
from privgmm.privacy.composition import Price
from privgmm.privacy.curves import gaussian_curve, gaussian_losses
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.form import Form
from privgmm.stages.sketch.features import (
    SketchShape,
    feature_sums,
    fixed_point_scale,
    integer_sensitivity,
)
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.private_sketch import ComplexArray, PrivateSketch
from privgmm.stages.stage import Drawn, RowSums, Stage, StageView, Work

__all__ = ["PreparedSketch", "Sketch", "SketchView"]

_LARGEST_MULTIPLIER = 1e6
"""Beyond it noise and sums might not fit into 64 bits."""


@dataclasses.dataclass(frozen=True, eq=False)
class SketchView(StageView):
    """What a stage of sketch saw. CONFIDENTIAL.

    Parameters
    ----------
    exact : array of complex (m,)
        The published values without their noise.
    """

    exact: ComplexArray


@dataclasses.dataclass(frozen=True)
class Sketch(Stage):
    """Noisy sums of waves over all rows, in the frame that the stage before it published.

    Parameters
    ----------
    shape : SketchShape
        Which waves.
    multiplier : float
        Noise, in units of the L2 sensitivity of the sums.
    n_units : int
        How many rows (or persons) there are; public, and part of the plan.
    n_features : int
        Number of columns d.

    Notes
    -----
    The sums are integers, and replacing one row or person moves them by at most
    `integer_sensitivity` in L2. Independent discrete Gaussians of parameter sigma are added, as
    integers. For a shift by the integers ``s_1, s_2, ...`` the Rényi divergence of order a of
    one coordinate is at most ``a s_i^2 / (2 sigma^2)`` (Canonne, Kamath and Steinke, 2020,
    Proposition 5), and divergences of independent coordinates add: in all
    ``a |s|^2 / (2 sigma^2)``, at most that of one Gaussian mechanism of this multiplier.
    Nothing between rows and noise depends on the rounding of a floating-point sum.
    """

    shape: SketchShape
    multiplier: float
    n_units: int
    n_features: int

    kind: ClassVar[str] = "sketch"

    def __post_init__(self) -> None:
        positive(self.multiplier, "multiplier", below=_LARGEST_MULTIPLIER)
        object.__setattr__(self, "n_units", whole_number(self.n_units, "n_units", 1))
        object.__setattr__(self, "n_features", whole_number(self.n_features, "n_features", 1))
        fixed_point_scale(self.n_units)
        count = self.shape.n_directions
        if count < self.n_features or (self.n_features == 1 and count > 1):
            raise InvalidInput(
                "a sketch needs at least as many directions as columns, and exactly one for one "
                f"column: got {count} directions for {self.n_features} columns"
            )

    @property
    def scale(self) -> int:
        """Units per one of the integers that are summed."""
        return fixed_point_scale(self.n_units)

    @property
    def integer_sensitivity(self) -> int:
        """Bound on how far replacing one row or person moves the integer sums, in L2."""
        return integer_sensitivity(self.shape, self.scale)

    @property
    def sigma(self) -> float:
        """Parameter of the discrete Gaussian on each integer sum, rounded upwards."""
        return math.nextafter(self.multiplier * self.integer_sensitivity, math.inf)

    @property
    def noise(self) -> Array:
        """Standard deviation (L,) of the noise on values, for each of a direction's frequencies."""
        return np.asarray(self.sigma / self._units)

    @property
    def deviations(self) -> Array:
        """Standard deviation (m,) of the noise on the real or imaginary part of each value."""
        return np.tile(self.noise, self.shape.n_directions)

    @property
    def _units(self) -> Array:
        """Divisors (L,) that turn the sums of a direction into values."""
        return np.asarray(float(self.scale) * self.n_units * self.shape.amplitudes)

    def price(self) -> Price:
        """Price one Gaussian mechanism; the stage never refuses."""
        return Price((gaussian_curve(self.multiplier),), exact=True)

    def worst_losses(self, n: int, *, rng: np.random.Generator) -> Array:
        """Draw privacy losses (n,) where one row moves the sums by their sensitivity."""
        return gaussian_losses(self.multiplier, n, rng=rng)

    def row_sums(self, n_features: int) -> tuple[RowSums, ...]:
        """List the sums of waves, in a frame made for the audit.

        A pair that turns the first direction by ``2 pi / (L + 1)`` and others by multiples of it
        reaches the sensitivity; in one dimension there is one direction.
        """
        d = n_features
        frame = Frame(np.zeros(d), np.eye(d))

        def sums(rows: Array) -> IntArray:
            return feature_sums(one_person(rows), frame, self.shape, scale=self.scale)

        def persons(first: Array, second: Array) -> float:
            gap = (sums(first) - sums(second)).astype(np.float64)
            return float(np.linalg.norm(gap)) / self.integer_sensitivity

        turn = 2 * math.pi / ((self.shape.n_frequencies + 1) * self.shape.step)
        starts = (
            np.stack([np.zeros(d), np.full(d, turn)]),
            np.stack([np.zeros(d), np.full(d, 1e9)]),
        )
        return (
            RowSums(
                self.multiplier, lambda rows: persons(rows[:1], rows[1:]), starts, 10.0, persons
            ),
        )

    def check(self, work: Work) -> None:
        """Raise `InvalidInput` if there are other numbers of rows or columns than planned."""
        if work.people.n_features != self.n_features:
            raise InvalidInput(
                f"the sketch is planned for {self.n_features} columns, but the rows have "
                f"{work.people.n_features}"
            )
        n_units = len(work.people)
        if n_units != self.n_units:
            raise InvalidInput(
                f"the sketch is planned for {self.n_units} rows or persons, got {n_units}: make "
                "a plan for that number"
            )

    def prepare(self, work: Work, public: Frame) -> PreparedSketch:
        """Sum the waves of all rows, exactly."""
        self.check(work)
        if public.n_features != self.n_features:
            raise InvalidInput(
                f"the sketch is planned for {self.n_features} columns, but the frame has "
                f"{public.n_features}"
            )

        def sums() -> IntArray:
            return feature_sums(work.people, public, self.shape, scale=self.scale)

        # a second sketch has these exact sums too, and adds fresh noise to them
        key = (Sketch.kind, public, self.shape, self.scale)
        return PreparedSketch(self, public, work.once(key, sums))

    def sentences(self) -> list[str]:
        """Say in plain words what the stage does."""
        return [
            f"Every row is turned into {self.shape.size} waves, in "
            f"{self.shape.n_directions} directions; no row can move their sums far, wherever it "
            "lies.",
            "Noise is added to the sums once. Everything after that reads the noisy sums only, "
            "and costs nothing more.",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        return {
            "sketch": {
                **self.shape.to_dict(),
                "multiplier": self.multiplier,
                "n_units": self.n_units,
                "n_features": self.n_features,
                "scale": self.scale,
                "sensitivity": self.integer_sensitivity,
            }
        }

    @classmethod
    def from_form(cls, form: Form) -> Sketch:
        """Read the stage back from a plan, and check its form."""
        stage = cls(
            SketchShape.from_form(form),
            form.number("multiplier"),
            form.whole("n_units", 1),
            form.whole("n_features", 1),
        )
        form.agrees("scale", stage.scale, within=0.0)
        form.agrees("sensitivity", stage.integer_sensitivity, within=0.0)
        return stage


@dataclasses.dataclass(frozen=True, eq=False)
class PreparedSketch:
    """The exact sums (2, D, L) of all rows, without noise. CONFIDENTIAL."""

    stage: Sketch
    frame: Frame
    sums: IntArray

    def draw(self, source: NoiseSource) -> Drawn:
        """Add the noise, as integers, and divide."""
        stage = self.stage
        noise = source.discrete_gaussian(stage.sigma, self.sums.size).reshape(self.sums.shape)
        data = PrivateSketch(
            self.frame,
            stage.shape.directions(self.frame),
            stage.shape.step,
            self._values(self.sums + noise),
            stage.noise,
            stage.n_units,
        )
        return Drawn(data, SketchView(self._values(self.sums)))

    def _values(self, sums: IntArray) -> ComplexArray:
        flat = (sums / self.stage._units).reshape(2, -1)
        return np.asarray(flat[0] + 1j * flat[1], dtype=np.complex128)
