"""Fit, choose and draw from a published sketch: looks that cost nothing.

A `PrivateSketch` is a noisy characteristic function in a public frame. It was paid for once; fits
of any number of components and of any covariance type, the choice between them, densities and
pictures are computed from it alone, by anyone, as often as they like.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from privgmm.arrays import (
    Array,
    BoolArray,
    column_names,
    finite_array,
    frozen,
    one_blas_thread,
    positive,
    whole_number,
)
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.showing.html import fit_html, sketch_html
from privgmm.showing.shortcuts import plotted
from privgmm.showing.text import component_lines, component_table, expected_line, mixture_title
from privgmm.stages.accuracy import OF_FIT, ExpectedError, accuracy_of
from privgmm.stages.sketch.choice import MOST_OFFERED, Choice, Tried
from privgmm.stages.sketch.error_covariances import (
    MomentNoise,
    after_projection,
    computed_covariance,
    rich_covariance,
)
from privgmm.stages.sketch.features import columns_apart
from privgmm.stages.sketch.fitting import FrameFit, PathSearch
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.nearest import nearest_mixture
from privgmm.stages.sketch.picture import (
    Base,
    DensityCurve,
    DensityImage,
    Waves,
    curve_of,
    image_of,
    span_of,
)
from privgmm.stages.sketch.structures import Structure, structure_of
from privgmm.stages.standard_errors import StandardErrors

__all__ = ["EXPLAINED", "ComplexArray", "PrivateSketch", "SketchFit", "Suggestion"]

ComplexArray = npt.NDArray[np.complex128]

EXPLAINED = "This mixture explains the rows to within the noise."
"""The verdict where the misfit is small."""

_FIELDS = (
    "frame",
    "step",
    "directions",
    "values",
    "noise",
    "n_rows",
    "columns",
    "rich",
    "rich_noise",
)
_FARTHER = 2
"""Choice: this many more components are tried, at least, where k do not explain the rows."""
_PATIENCE = 2
"""Choice: a search ends after this many more components than the best that explains the rows."""
_PATHS = 8
"""Choice: searches that are cached."""
_CURVE, _IMAGE = 256, 128
"""Choice: points of a curve, and of an image along each axis, by default."""
_RICH_STEPS = 16
"""Noisy steps that a rich mixture takes (`finish`): they bound how far its noise can grow."""
_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PrivateSketch:
    """Noisy values of ``E exp(i f . z)``, z a row in a public frame. Public.

    Parameters
    ----------
    frame : Frame
        In which z are the coordinates of a row.
    directions : array (D, d)
        Unit directions in frame coordinates; the first d are those of the columns of the data.
    step : float
        h: the frequencies along a direction v are ``h v, 2 h v, .., L h v``.
    values : array of complex (D L,)
        The mean over all rows (or persons), with noise, direction by direction.
    noise : array (L,)
        Standard deviation of the noise on the real part of a value, and of that on its imaginary
        part, for each of a direction's frequencies. All noise is independent. The scatter of the
        rows themselves is added to it, and is equal in every sketch of the same rows.
    n_rows : int
        How many rows (or persons) the mean is taken over.
    columns : tuple of str, optional
        Names of the columns of the data; x1, x2, .. if there are none.
    rich_in_frame : Mixture or None
        A public mixture of many components, in frame coordinates, that follows the rows where no
        small mixture does; see `rich`.
    rich_noise : MomentNoise or None
        The noise that went into it, for standard errors.
    """

    frame: Frame
    directions: Array
    step: float
    values: ComplexArray
    noise: Array
    n_rows: int
    columns: tuple[str, ...] = ()
    rich_in_frame: Mixture | None = dataclasses.field(default=None, repr=False)
    rich_noise: MomentNoise | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        d = self.frame.n_features
        directions = finite_array(self.directions, "directions", (None, d))
        noise = finite_array(self.noise, "noise", (None,))
        values = np.asarray(self.values, dtype=np.complex128)
        wanted = (len(directions) * len(noise),)
        if values.shape != wanted or values.size == 0 or not np.isfinite(values).all():
            raise InvalidInput(
                f"values must be {wanted[0]} finite complex numbers, one for each direction and "
                f"frequency and at least one: got shape {values.shape}"
            )
        if (noise <= 0).any():
            raise InvalidInput("noise must be positive: a sketch without noise is not public")
        rich = self.rich_in_frame
        if rich is not None and rich.n_features != d:
            raise InvalidInput(f"rich_in_frame must have {d} columns, got {rich.n_features}")
        if rich is not None:
            # as it will be read back, to the last bit
            rich = Mixture(rich.weights, rich.means, rich.covariances)
        object.__setattr__(self, "directions", frozen(directions))
        object.__setattr__(self, "step", positive(self.step, "step"))
        object.__setattr__(self, "values", frozen(values))
        object.__setattr__(self, "noise", frozen(noise))
        object.__setattr__(self, "n_rows", whole_number(self.n_rows, "n_rows", 1))
        object.__setattr__(self, "columns", column_names(self.columns, d))
        object.__setattr__(self, "rich_in_frame", rich)

    # ------------------------------------------------------------------------------- as it is

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return self.frame.n_features

    @property
    def n_units(self) -> int:
        """`n_rows`, rows or persons."""
        return self.n_rows

    @property
    def n_frequencies(self) -> int:
        """Number L of frequencies along each direction."""
        return int(self.noise.size)

    @property
    def size(self) -> int:
        """Number m = D L of frequencies in all."""
        return int(self.values.size)

    @functools.cached_property
    def frequencies(self) -> Array:
        """Frequencies f (m, d) in frame coordinates, direction by direction."""
        steps = self.step * np.arange(1, self.n_frequencies + 1)
        return frozen(np.reshape(self.directions[:, None, :] * steps[:, None], (self.size, -1)))

    @functools.cached_property
    def deviations(self) -> Array:
        """Standard deviation (m,) of the noise on the real or imaginary part of each value."""
        return frozen(np.tile(self.noise, len(self.directions)))

    @property
    def fitted_from(self) -> int:
        """Index of the first frequency that fits read: see `features.columns_apart`."""
        return columns_apart(*self.directions.shape) * self.n_frequencies

    @functools.cached_property
    def rich(self) -> Mixture | None:
        """A mixture of many components that follows the rows, where no small one explains them.

        Public: a release makes it where its own number of components does not explain the rows.
        """
        rich = self.rich_in_frame
        return (
            None if rich is None else self.frame.mixture_from_frame(rich).with_columns(self.columns)
        )

    def column(self, name: str | int) -> int:
        """Return the number of a column, given by its name or by its number."""
        if isinstance(name, str):
            if name not in self.columns:
                raise InvalidInput(f"column must be one of {', '.join(self.columns)}, got {name!r}")
            return self.columns.index(name)
        number = whole_number(name, "column", 0)
        if number >= self.n_features:
            raise InvalidInput(f"column must be below {self.n_features}, got {number}")
        return number

    # -------------------------------------------------------------------------------- together

    def with_columns(self, names: Sequence[str]) -> PrivateSketch:
        """Return the sketch with its columns named."""
        return dataclasses.replace(self, columns=tuple(names))

    def with_rich(
        self, rich_in_frame: Mixture, rich_noise: MomentNoise | None = None
    ) -> PrivateSketch:
        """Return the sketch together with a public mixture of many components, in the frame."""
        return dataclasses.replace(self, rich_in_frame=rich_in_frame, rich_noise=rich_noise)

    def averaged_with(self, other: PrivateSketch) -> PrivateSketch:
        """Average two sketches of the same rows by inverse variance: one with less noise.

        With noise of the variances s and t the best average has weights in proportion to 1/s and
        1/t, and variance 1/(1/s + 1/t): that of one sketch paid for with both prices together.
        """
        self._check_alike(other)
        if self.n_rows != other.n_rows:
            raise InvalidInput(
                "two sketches are averaged only if they are of the same rows, got "
                f"{self.n_rows} and {other.n_rows} of them: add sketches of different rows"
            )
        mine, theirs = self.noise**-2, other.noise**-2
        share = np.tile(mine / (mine + theirs), len(self.directions))
        return dataclasses.replace(
            self,
            values=share * self.values + (1 - share) * other.values,
            noise=(mine + theirs) ** -0.5,
        )

    def __add__(self, other: PrivateSketch) -> PrivateSketch:
        """Combine two sketches of different rows, made in one frame, into that of all rows.

        Means are weighed by their numbers of rows, and so are the deviations of their noise. Where
        both have a rich mixture, that of all rows consists of the components of both.
        """
        if not isinstance(other, PrivateSketch):
            return NotImplemented
        self._check_alike(other)
        if self.columns != other.columns:
            raise InvalidInput(
                "two sketches add up only if they have the same columns, got "
                f"{', '.join(self.columns)} and {', '.join(other.columns)}"
            )
        total = self.n_rows + other.n_rows
        mine, theirs = self.n_rows / total, other.n_rows / total
        rich = noise = None
        if self.rich_in_frame is not None and other.rich_in_frame is not None:
            rich = _side_by_side(self.rich_in_frame, other.rich_in_frame, mine)
            if self.rich_noise is not None and other.rich_noise is not None:
                # the noise of the noisier half: each half's moments count for its share of the rows
                both = np.stack(
                    [mine * np.array(self.rich_noise), theirs * np.array(other.rich_noise)]
                )
                noise = MomentNoise(*both.max(axis=0).tolist())
        return dataclasses.replace(
            self,
            values=mine * self.values + theirs * other.values,
            noise=np.hypot(mine * self.noise, theirs * other.noise),
            n_rows=total,
            rich_in_frame=rich,
            rich_noise=noise,
        )

    def _check_alike(self, other: PrivateSketch) -> None:
        if not (
            self.frame == other.frame
            and self.step == other.step
            and self.n_frequencies == other.n_frequencies
            and np.array_equal(self.directions, other.directions)
        ):
            raise InvalidInput(
                "two sketches go together only in one frame and at the same frequencies: make "
                "both with one plan, in the frame that one of them published"
            )

    # ------------------------------------------------------------------------------------ fits

    def fit(self, n_components: int, covariance_type: str = "full") -> SketchFit:
        """Fit the mixture of `n_components` that explains the sketch best; costs nothing.

        Parameters
        ----------
        n_components : int
        covariance_type : str
            As scikit-learn has them, about the columns of the data.

        Notes
        -----
        Where this number of components does not explain the rows, but a richer mixture is known to
        follow them (the first on the path that explains them, or one made for the purpose), the
        fit is the mixture nearest to that one: what EM would have found, had it seen the rows.

        Fits rest on the sketch alone. With more than three columns a release goes on to refine
        the number of components it was planned for, and that mixture is the better one.
        """
        k = whole_number(n_components, "n_components", 1)
        return SketchFit(self, _search(self, covariance_type).upto(k)[-1], covariance_type)

    def path(self, max_components: int, covariance_type: str = "full") -> tuple[SketchFit, ...]:
        """Fit 1, 2, .. `max_components` components; costs nothing."""
        k = whole_number(max_components, "max_components", 1)
        found = _search(self, covariance_type).upto(k)
        return tuple(SketchFit(self, one, covariance_type) for one in found)

    def choose(
        self, max_components: int = MOST_OFFERED, covariance_type: str = "full"
    ) -> SketchFit:
        """Choose the fit with the least `SketchFit.criterion`, of up to `max_components`.

        The others are listed by `choice`.
        """
        chosen = self.choice(max_components, covariance_type).n_components
        return self.fit(chosen, covariance_type)

    def choice(self, max_components: int = MOST_OFFERED, covariance_type: str = "full") -> Choice:
        """Choose a number of components, up to `max_components`, with the criterion of each.

        If the sketch is too small for that number, as many as it can distinguish are tried.
        Once a fit explains the rows and two more components did not help, no more are tried.
        """
        most = whole_number(max_components, "max_components", 1)
        search = _search(self, covariance_type)
        best = search.upto(1)[0]
        tried = [best]
        for k in range(2, min(most, search.longest) + 1):
            if best.explains and k > best.n_components + _PATIENCE:
                break
            tried.append(search.upto(k)[-1])
            if tried[-1].criterion < best.criterion:
                best = tried[-1]
        return Choice(
            most,
            tuple(
                Tried(one.n_components, float(one.misfit), float(one.criterion)) for one in tried
            ),
        )

    # -------------------------------------------------------------------------------- pictures

    def marginal(self, column: str | int, grid: npt.ArrayLike) -> Array:
        """Compute the density of one column at the points of a grid (g,), in the column's units."""
        return self.curve(column, grid).densities

    def curve(self, column: str | int, grid: npt.ArrayLike | None = None) -> DensityCurve:
        """Compute one column's density with standard errors, where rows are or on a grid (g,)."""
        number = self.column(column)
        waves, base = self._waves, _base(self)
        if grid is None:
            places = np.linspace(*span_of(waves, base, number), _CURVE)
        else:
            places = finite_array(grid, "grid", (None,))
        with one_blas_thread():
            return curve_of(waves, base, number, self.columns[number], places)

    def image(
        self,
        columns: Sequence[str | int] = (0, 1),
        shape: tuple[int, int] = (_IMAGE, _IMAGE),
        window: tuple[tuple[float, float], tuple[float, float]] | None = None,
    ) -> DensityImage:
        """Compute the joint density of two columns, with its axes and its standard errors.

        Parameters
        ----------
        columns : two names or numbers
            Across and upwards.
        shape : (int, int)
            How many points upwards and across, as of an array.
        window : two pairs of numbers, optional
            From where to where, across and upwards; where rows are by default.
        """
        numbers = tuple(self.column(name) for name in columns)
        if len(numbers) != 2 or numbers[0] == numbers[1]:
            raise InvalidInput(f"columns must be two different columns, got {columns!r}")
        if len(shape) != 2:
            raise InvalidInput(f"shape must be two numbers of points, got {shape!r}")
        upwards, across = (whole_number(size, "shape", 2) for size in shape)
        waves, base = self._waves, _base(self)
        spans = [span_of(waves, base, number) for number in numbers]
        if window is not None:
            spans = [tuple(row) for row in finite_array(window, "window", (2, 2)).tolist()]
        x, y = (
            np.linspace(*span, size) for span, size in zip(spans, (across, upwards), strict=True)
        )
        first, second = numbers
        names = (self.columns[first], self.columns[second])
        with one_blas_thread():
            return image_of(waves, base, (first, second), names, x, y)

    @functools.cached_property
    def _expected_variation(self) -> tuple[float, str]:
        """Error of pictures in total variation, and which columns it is for."""
        if self.n_features == 2:
            return self.image().expected_variation, "both columns together"
        of_columns = (self.curve(column).expected_variation for column in range(self.n_features))
        return max(of_columns), "each column by itself" if self.n_features > 2 else "the column"

    @property
    def _finest(self) -> float:
        """Half the shortest wave, in units of the frame."""
        return math.pi / (self.step * self.n_frequencies)

    @property
    def _waves(self) -> Waves:
        values = self.values.reshape(len(self.directions), self.n_frequencies)
        return Waves(self.frame, self.directions, self.step, values, self.noise, self.n_rows)

    # ----------------------------------------------------------------------------- written down

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; `from_dict` gives an equal sketch back, to the last bit.

        The two large arrays are numbers of eight bytes, little end first, in base 64; of the
        values all real parts come first.
        """
        rich = self.rich_in_frame
        return {
            "frame": self.frame.to_dict(),
            "step": self.step,
            "directions": _packed(self.directions),
            "values": _packed(np.stack([self.values.real, self.values.imag])),
            "noise": self.noise.tolist(),
            "n_rows": self.n_rows,
            "columns": list(self.columns),
            "rich": None if rich is None else rich.to_dict(),
            "rich_noise": None if self.rich_noise is None else list(self.rich_noise),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> PrivateSketch:
        """Read back what `to_dict` wrote."""
        if not (isinstance(data, dict) and data.keys() >= set(_FIELDS)):
            raise InvalidInput(f"a sketch needs a JSON object of {', '.join(_FIELDS)}")
        frame = Frame.from_dict(data["frame"])
        directions = _unpacked(data["directions"], "directions", frame.n_features)
        parts = _unpacked(data["values"], "values", len(directions) * np.size(data["noise"]))
        if len(parts) != 2:
            raise InvalidInput("values must hold a real and an imaginary part for each frequency")
        values = np.empty(parts.shape[1], dtype=np.complex128)
        values.real, values.imag = parts
        names = data["columns"]
        if not isinstance(names, list):
            raise InvalidInput(f"columns must be a list of names, got {names!r}")
        rich = data["rich"]
        return cls(
            frame,
            directions,
            data["step"],
            values,
            data["noise"],
            data["n_rows"],
            tuple(names),
            None if rich is None else Mixture.from_dict(rich),
            None if data["rich_noise"] is None else _moment_noise(data["rich_noise"]),
        )

    def summary(self) -> Any:
        """Tabulate the fit that `choose` chooses as a pandas data frame; costs nothing."""
        return self.choose().summary()

    def plot(self, **options: Any) -> Any:
        """Draw the density of one or two columns, as a Plotly figure (`figures.objects`)."""
        return plotted(self, **options)

    def __repr__(self) -> str:
        return (
            f"Noisy sketch of {self.n_rows:,} rows (or persons) in {', '.join(self.columns)}: "
            f"{self.size} waves\n"
            "Public, and all that is computed from it is free: fit(k), choose(), curve(column), "
            "image(), plot()"
        )

    def _repr_html_(self) -> str:
        return sketch_html(repr(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrivateSketch):
            return NotImplemented
        return all(
            getattr(self, name) == getattr(other, name)
            for name in ("frame", "step", "n_rows", "columns", "rich_in_frame", "rich_noise")
        ) and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("directions", "values", "noise")
        )

    def __hash__(self) -> int:
        return hash((self.frame, self.values.tobytes(), self.noise.tobytes(), self.n_rows))


def _search(sketch: PrivateSketch, covariance_type: str) -> PathSearch:
    """Return the search for fits to a sketch, cached with what it has found.

    Names of columns and a rich mixture change nothing in it.
    """
    bare = dataclasses.replace(sketch, columns=(), rich_in_frame=None, rich_noise=None)
    return _search_of(bare, covariance_type)


@functools.lru_cache(maxsize=_PATHS)
def _search_of(sketch: PrivateSketch, covariance_type: str) -> PathSearch:
    return PathSearch(sketch, structure_of(covariance_type, sketch.frame))


@functools.lru_cache(maxsize=_PATHS)
def _base(sketch: PrivateSketch) -> Base:
    """Return what is known to follow the rows best: the chosen fit, or the rich mixture."""
    chosen = sketch.choose()
    rich = sketch.rich_in_frame
    if chosen.explains or rich is None:
        found = chosen.in_frame
        return Base(found.mixture, found.compute_local_covariance(), chosen.explains)
    noise = sketch.rich_noise or MomentNoise(0.0, 0.0, 0.0)
    with one_blas_thread():
        return Base(rich, rich_covariance(rich, noise, sketch.n_rows, _RICH_STEPS), False)


class Suggestion(NamedTuple):
    """A fit to try instead; it costs nothing either."""

    n_components: int
    covariance_type: str


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SketchFit:
    """A mixture fitted to a sketch, in the units of the data. Public.

    Parameters
    ----------
    sketch : PrivateSketch
    in_frame : FrameFit
        The best fit to the sketch, in frame coordinates.
    covariance_type : str
    """

    sketch: PrivateSketch = dataclasses.field(repr=False)
    in_frame: FrameFit = dataclasses.field(repr=False)
    covariance_type: str

    @property
    def n_components(self) -> int:
        """Number of components k."""
        return self.in_frame.n_components

    @property
    def misfit(self) -> float:
        """How badly k components explain the sketch: about standard normal if k is right."""
        return self.in_frame.misfit

    @property
    def explains(self) -> bool:
        """Whether the misfit is at most 5."""
        return self.in_frame.explains

    @property
    def criterion(self) -> float:
        """``Q + F ln(2 m)``: misfit in squares and the price of F free numbers; least is best."""
        return self.in_frame.criterion

    @property
    def n_parameters(self) -> int:
        """Free numbers of such a mixture; weights sum to one."""
        return len(self.in_frame.information) - 1

    @property
    def floored(self) -> BoolArray:
        """Components (k,) too narrow to be distinguished from a value, which were widened."""
        return self.in_frame.floored

    @property
    def projected(self) -> bool:
        """Whether the mixture is the nearest to a richer one, not the best fit to the sketch."""
        return self._reference is not None

    @functools.cached_property
    def suggestion(self) -> Suggestion | None:
        """The least number of components, with any covariances, that explains the rows.

        None where this fit does, and where none of those tried does: two more than here, and up
        to 8 if there is no rich mixture.
        """
        if self.explains:
            return None
        search = _search(self.sketch, "full")
        for k in range(1, self._farthest + 1):
            if search.upto(k)[-1].explains:
                return Suggestion(k, "full")
        return None

    @property
    def _farthest(self) -> int:
        """Number of components tried before the rows are said not to be such a mixture."""
        most = self.n_components + _FARTHER
        if self.sketch.rich_in_frame is None:
            # nothing else is known that follows the rows
            most = max(most, MOST_OFFERED)
        return min(most, _search(self.sketch, "full").longest)

    @functools.cached_property
    def _reference(self) -> FrameFit | Mixture | None:
        """What is known to follow the rows better than this fit does, in frame coordinates."""
        if self.explains:
            return None
        if self.suggestion is not None:
            return _search(self.sketch, "full").upto(self.suggestion.n_components)[-1]
        return self.sketch.rich_in_frame

    @functools.cached_property
    def mixture_in_frame(self) -> Mixture:
        """The mixture in frame coordinates."""
        known = self._reference
        if known is None:
            return self.in_frame.mixture
        rich = known.mixture if isinstance(known, FrameFit) else known
        with one_blas_thread():
            return nearest_mixture(
                rich, self.n_components, self._structure, [self.in_frame.mixture]
            )

    @property
    def _structure(self) -> Structure:
        return structure_of(self.covariance_type, self.sketch.frame)

    @functools.cached_property
    def mixture(self) -> Mixture:
        """The mixture, in the units of the data."""
        return self._structure.made_exact(
            self.sketch.frame.mixture_from_frame(self.mixture_in_frame)
        ).with_columns(self.sketch.columns)

    @functools.cached_property
    def error_covariance(self) -> Array:
        """Covariance (P, P) of the errors in local coordinates of the mixture in the frame.

        By the information of the sketch; where the mixture is the nearest to a richer one, by
        how it moves with that one. Where neither is known what cannot be explained counts as
        noise.
        """
        known, sketch = self._reference, self.sketch
        with one_blas_thread():
            if isinstance(known, FrameFit):
                law, covariance = known.mixture, known.compute_local_covariance()
            elif known is not None and sketch.rich_noise is not None:
                law, noise = known, sketch.rich_noise
                covariance = rich_covariance(law, noise, sketch.n_rows, _RICH_STEPS)
            else:
                return self.in_frame.compute_local_covariance()
            return after_projection(self.mixture_in_frame, law, covariance, self._structure)

    @functools.cached_property
    def standard_errors(self) -> StandardErrors:
        """Standard errors of the mixture's numbers, in the units of the data."""
        inside = self.mixture_in_frame
        found = StandardErrors.from_local(
            inside.weights,
            self.sketch.frame.root @ inside.cholesky,
            self.error_covariance,
            well_specified=self.explains,
        )
        if self._structure.described.correlated:
            return found
        own = found.covariances * np.eye(self.sketch.n_features)
        return dataclasses.replace(found, covariances=own)

    @functools.cached_property
    def _accuracy(self) -> tuple[ExpectedError | None, tuple[str, ...]]:
        errors = computed_covariance(lambda: self.error_covariance)
        return accuracy_of(self.mixture_in_frame, errors, well_specified=self.explains, bend=OF_FIT)

    @property
    def expected_error(self) -> ExpectedError | None:
        """Law of the distance dist_GMM to the truth, as a release publishes it."""
        return None if self.floored.any() else self._accuracy[0]

    @property
    def resolution(self) -> tuple[str, ...]:
        """How well each component is resolved, as a release publishes it."""
        return self._accuracy[1]

    @functools.cached_property
    def verdict(self) -> str:
        """The meaning of the misfit, as a sentence."""
        if self.explains:
            return EXPLAINED
        count = self.n_components
        words = _WORDS[count] if count < len(_WORDS) else str(count)
        noun = "component is" if count == 1 else "components are"
        if self.suggestion is not None:
            more, free = self.suggestion
            what, instead = "", str(more)
            if self.covariance_type != free:
                what = f" with {self._structure.described.adjective} covariances"
                instead = f"{free} covariances" + (f" and {more}" if more != count else "")
            return (
                f"{words.capitalize()} {noun.replace(' ', what + ' ', 1)} not enough: "
                f"try {instead}, it costs nothing."
            )
        within, of_what = self.sketch._expected_variation
        cause = "rounded?" if self.floored.any() else "rounded? heavy tails?"
        return (
            f"The rows are not a Gaussian mixture ({cause}): no number of components up to "
            f"{self._farthest} explains them. The density of {of_what}, as `curve` and `image` "
            f"give it, is still right to within {within:.2g} in total variation; it shows no "
            f"detail narrower than {self.sketch._finest:.0%} of the rows' spread."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        expected = self.expected_error
        return {
            "n_components": self.n_components,
            "covariance_type": self.covariance_type,
            "misfit": self.misfit,
            "criterion": self.criterion,
            "verdict": self.verdict,
            "mixture": self.mixture.to_dict(),
            "standard_errors": self.standard_errors.to_dict(),
            "expected_error": None if expected is None else expected.to_dict(),
            "resolution": list(self.resolution),
        }

    def summary(self) -> Any:
        """Tabulate the mixture as a pandas data frame, with standard errors."""
        return component_table(self.mixture, self.standard_errors, self.resolution)

    def plot(self, **options: Any) -> Any:
        """Draw the sketch's density with the mixture, as a Plotly figure (`figures.objects`)."""
        return plotted(self, **options)

    def __repr__(self) -> str:
        kind = "" if self.covariance_type == "full" else f", covariances {self.covariance_type}"
        return "\n".join(
            [
                f"{mixture_title(self.mixture)}{kind}, fitted to a noisy sketch:",
                f"{self.verdict} Misfit: {self.misfit:.3g}.",
                *expected_line(self.expected_error),
                *component_lines(self.mixture, self.standard_errors, self.resolution),
            ]
        )

    def _repr_html_(self) -> str:
        return fit_html(self)


def _moment_noise(values: Any) -> MomentNoise:
    levels = finite_array(values, "rich_noise", (3,))
    if (levels < 0).any():
        raise InvalidInput(f"rich_noise must not be negative, got {values!r}")
    return MomentNoise(*levels.tolist())


def _side_by_side(first: Mixture, second: Mixture, share: float) -> Mixture:
    return Mixture(
        np.concatenate([share * first.weights, (1 - share) * second.weights]),
        np.concatenate([first.means, second.means]),
        np.concatenate([first.covariances, second.covariances]),
    )


def _packed(array: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode("ascii")


def _unpacked(text: Any, name: str, width: int) -> Array:
    """Read back an array (any, width) that `_packed` wrote."""
    try:
        raw = base64.b64decode(text, validate=True)
        flat = np.frombuffer(raw, dtype="<f8").astype(np.float64)
        return flat.reshape(-1, width)
    except (TypeError, ValueError, binascii.Error) as problem:
        raise InvalidInput(
            f"{name} must be numbers of eight bytes in base 64, in rows of {width}: {problem}"
        ) from problem
