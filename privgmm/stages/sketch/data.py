"""What a sketch publishes: a noisy characteristic function in a public frame."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, finite_array, frozen, whole_number
from privgmm.errors import InvalidInput
from privgmm.stages.sketch.frame import Frame

__all__ = ["ComplexArray", "SketchData"]

ComplexArray = npt.NDArray[np.complex128]

_FIELDS = ("frame", "frequencies", "real", "imaginary", "deviations", "n_units")


@dataclasses.dataclass(frozen=True, eq=False)
class SketchData:
    """Noisy values of ``E exp(i f . z)``. Public.

    Parameters
    ----------
    frame : Frame
        In which z are the coordinates of a row.
    frequencies : array (m, d)
        f, in frame coordinates.
    values : array of complex (m,)
        The mean over all rows (or persons), with noise.
    deviations : array (m,)
        Standard deviation of the noise on the real part of each value, and of that on its
        imaginary part. All of them are independent. The scatter of the rows themselves comes on
        top: it is the same in every sketch of the same rows.
    n_units : int
        How many rows (or persons) the mean is taken over.
    """

    frame: Frame
    frequencies: Array
    values: ComplexArray
    deviations: Array
    n_units: int

    def __post_init__(self) -> None:
        values = np.asarray(self.values, dtype=np.complex128)
        if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
            raise InvalidInput(
                f"values must be finite, at least one, in one row: got shape {values.shape}"
            )
        frequencies = finite_array(
            self.frequencies, "frequencies", (values.size, self.frame.n_features)
        )
        deviations = finite_array(self.deviations, "deviations", (values.size,))
        if (deviations <= 0).any():
            raise InvalidInput("deviations must be positive: a sketch without noise is not public")
        object.__setattr__(self, "values", frozen(values))
        object.__setattr__(self, "frequencies", frozen(frequencies))
        object.__setattr__(self, "deviations", frozen(deviations))
        object.__setattr__(self, "n_units", whole_number(self.n_units, "n_units", 1))

    @property
    def size(self) -> int:
        """Number m of frequencies."""
        return int(self.values.size)

    def __add__(self, other: SketchData) -> SketchData:
        """Two sketches of the same rows as one with less noise: averaged by inverse variance.

        With noise of the variances s and t the best average has weights in proportion to 1/s and
        1/t, and variance 1/(1/s + 1/t): that of one sketch paid for with both prices together.
        """
        if not isinstance(other, SketchData):
            return NotImplemented
        if self.frame != other.frame or not np.array_equal(self.frequencies, other.frequencies):
            raise InvalidInput("two sketches add up only in one frame and at the same frequencies")
        if self.n_units != other.n_units:
            raise InvalidInput(
                "two sketches add up only if they are of the same rows, got "
                f"{self.n_units} and {other.n_units} of them"
            )
        mine, theirs = self.deviations**-2, other.deviations**-2
        return dataclasses.replace(
            self,
            values=(mine * self.values + theirs * other.values) / (mine + theirs),
            deviations=(mine + theirs) ** -0.5,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, for JSON; `from_dict` gives the same sketch back."""
        return {
            "frame": self.frame.to_dict(),
            "frequencies": self.frequencies.tolist(),
            "real": self.values.real.tolist(),
            "imaginary": self.values.imag.tolist(),
            "deviations": self.deviations.tolist(),
            "n_units": self.n_units,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SketchData:
        """Inverse of `to_dict`."""
        if not (isinstance(data, dict) and data.keys() >= set(_FIELDS)):
            raise InvalidInput(f"a sketch needs a JSON object of {', '.join(_FIELDS)}")
        real = finite_array(data["real"], "real", (None,))
        imaginary = finite_array(data["imaginary"], "imaginary", real.shape)
        values = np.empty(real.size, dtype=np.complex128)
        values.real, values.imag = real, imaginary
        return cls(
            Frame.from_dict(data["frame"]),
            data["frequencies"],
            values,
            data["deviations"],
            data["n_units"],
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SketchData):
            return NotImplemented
        return (
            self.frame == other.frame
            and self.n_units == other.n_units
            and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("frequencies", "values", "deviations")
            )
        )

    def __hash__(self) -> int:
        return hash((self.frame, self.values.tobytes(), self.deviations.tobytes(), self.n_units))
