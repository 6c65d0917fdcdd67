"""The waves of a sketch: what a row contributes, what replacing it can change, and exact sums.

Row x has coordinates z in a public frame. In each of D directions v_j it contributes the first L
powers of one unit number, ``sqrt(p_l / D) exp(i l a_j)`` with ``a_j = h v_j . z``. However far out
the row lies, these are points on circles. Divided by the weights, their mean over all rows is the
characteristic function ``E exp(i f . z)`` at the frequencies ``f = l h v_j``.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numba as nb
import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from privgmm.arrays import Array, IntArray, frozen, positive, whole_number
from privgmm.data.people import People
from privgmm.errors import InvalidInput
from privgmm.stages.fixed_point import fixed_point_scale
from privgmm.stages.form import Form
from privgmm.stages.sketch.frame import Frame

__all__ = [
    "SketchShape",
    "WaveTask",
    "columns_apart",
    "feature_sums",
    "fixed_point_scale",
    "integer_sensitivity",
]

_DEFAULTS = {1: (1, 20, 0.6), 2: (34, 16, 0.6), 3: (35, 12, 0.5), 4: (68, 8, 0.6), 5: (85, 7, 0.6)}
_DEFAULT_STEP = 0.6
_MOST_DIRECTIONS, _MOST_FREQUENCIES = 10_000, 1_000
_BLOCK = 256
"""Rows that a kernel treats side by side; a sum over them is a whole number below 2^39."""
_REPULSIONS = 60
_QUARTER = math.pi / 2
"""A quarter of a turn: the kernel works with a quarter of each angle."""


def columns_apart(n_directions: int, n_features: int) -> int:
    """How many of a sketch's first directions, those of the columns, do not count in fits.

    Other units or a shear make other columns, and fits shall not change with them. So fits read
    the directions that are spread evenly over the frame, and the columns' own ones are there to be
    looked at. All count where there is one column, or where the others are too few to tell a
    covariance.

    >>> columns_apart(34, 2), columns_apart(1, 1), columns_apart(3, 3)
    (2, 0, 0)
    """
    d = n_features
    return d if d > 1 and n_directions >= d + d * (d + 1) // 2 else 0


@dataclasses.dataclass(frozen=True)
class SketchShape:
    """Which frequencies a sketch looks at.

    Parameters
    ----------
    n_directions : int
        D, those of the columns among them.
    n_frequencies : int
        L, along each direction.
    step : float
        h, in units of the frame: the frequencies of a direction are h, 2 h, ..., L h.
    """

    n_directions: int
    n_frequencies: int
    step: float

    def __post_init__(self) -> None:
        for name, most in (
            ("n_directions", _MOST_DIRECTIONS),
            ("n_frequencies", _MOST_FREQUENCIES),
        ):
            value = whole_number(getattr(self, name), name, 1)
            if value > most:
                raise InvalidInput(f"{name} must be at most {most}, got {value}")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "step", positive(self.step, "step", below=1e6))

    @classmethod
    def default(cls, n_features: int) -> SketchShape:
        """What served well in trials for this number of columns; the optimum is flat.

        Two columns get more directions than a fit needs, because a picture of the density can be
        made from them. Covariances have d(d+1)/2 entries, and fits never read fewer directions.
        """
        d = whole_number(n_features, "n_features", 1)
        if d in _DEFAULTS:
            return cls(*_DEFAULTS[d])
        return cls(max(20 * (d - 1), d * (d + 1) // 2) + d, 6 if d < 8 else 5, _DEFAULT_STEP)

    @property
    def size(self) -> int:
        """Number m = D L of frequencies."""
        return self.n_directions * self.n_frequencies

    def most_components(self, n_features: int) -> int:
        """The most components that have no more free numbers than fits to such a sketch read."""
        read = self.n_directions - columns_apart(self.n_directions, n_features)
        return 4 * read * self.n_frequencies // ((n_features + 1) * (n_features + 2))

    @functools.cached_property
    def weights(self) -> Array:
        """Fejér's weights ``p_l = 2 (L + 1 - l) / (L (L + 1))`` (L,); they sum to one."""
        count = self.n_frequencies
        return frozen(2.0 * np.arange(count, 0, -1) / (count * (count + 1)))

    @functools.cached_property
    def amplitudes(self) -> Array:
        """``sqrt(p_l / D)`` (L,): the radius of the circle on which a contribution lies."""
        return frozen(np.sqrt(self.weights / self.n_directions))

    @property
    def sensitivity(self) -> float:
        """``sqrt(2 (1 + 1/L))``: the farthest that replacing one row moves the sums, in L2.

        Notes
        -----
        Let b_j be the difference of the angles a_j of two rows. Two points on the unit circle an
        angle t apart have squared distance ``2 - 2 cos t``, so the two contributions have

            squared distance = average over j of 2 (1 - C(b_j)),  C(b) = sum over l of p_l cos(l b).

        C cannot be very negative. The sum of all ``exp(i (r - s) b)`` over r, s in 0..L is the
        square of the size of ``sum over r of exp(i r b)``, hence not negative. There are L + 1
        pairs with r = s and ``L + 1 - l`` pairs with r - s = l, and as many with -l; so the sum is
        ``(L + 1) + 2 sum over l of (L + 1 - l) cos(l b) = (L + 1) (1 + L C(b))``. Therefore
        ``C(b) >= -1/L``, and no direction contributes more than ``2 (1 + 1/L)`` to the average.
        It is attained where every b_j is a multiple of ``2 pi / (L + 1)``, but not of 2 pi.

        Nothing was used but that a direction's contributions are powers of one unit number.
        Whether angles are accurate, or wrapped many times, does not matter. The average over the
        rows of one person lies in the convex hull of rows, where no two points are farther apart:
        the same bound holds for replacing a person.
        """
        return math.sqrt(2 * (1 + 1 / self.n_frequencies))

    def directions(self, frame: Frame) -> Array:
        """Unit directions (D, d) in frame coordinates, one of each pair of opposite ones.

        The first d are those of the columns of the data (`Frame.axis`), so that each column can
        be looked at by itself. The others are spread evenly, in a way that depends on nothing but
        their number: equal angles for two columns, a fixed set of points that repelled each other
        for more. Fits read these alone (`columns_apart`).
        """
        d = frame.n_features
        axes = np.stack([frame.axis(j) for j in range(d)])
        if d == 1:
            if self.n_directions != 1:
                raise InvalidInput(
                    f"one column has one direction, got n_directions = {self.n_directions}"
                )
            return axes
        if self.n_directions < d:
            raise InvalidInput(
                f"n_directions must be at least the number of columns {d}, got {self.n_directions}"
            )
        count = self.n_directions - d
        if d == 2:
            angles = math.pi / max(count, 1) * np.arange(count)
            spread = np.column_stack([np.cos(angles), np.sin(angles)])
        else:
            spread = _repelled(d, count) if count else np.empty((0, d))
        return np.concatenate([axes, spread])

    def frequencies(self, frame: Frame) -> Array:
        """Frequencies (m, d) in frame coordinates, direction by direction."""
        steps = self.step * np.arange(1, self.n_frequencies + 1)
        return np.reshape(
            self.directions(frame)[:, None, :] * steps[:, None], (-1, frame.n_features)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_form(cls, form: Form) -> SketchShape:
        """Read the shape back, checked as to form."""
        return cls(
            form.whole("n_directions", 1), form.whole("n_frequencies", 1), form.number("step")
        )


@functools.lru_cache(maxsize=32)
def _repelled(d: int, count: int) -> Array:
    """`count` lines (count, d) through the origin that stay away from each other: a fixed set."""
    sobol = qmc.Sobol(d, scramble=True, rng=np.random.default_rng(20230609))
    points = sobol.random_base2(max(1, math.ceil(math.log2(count))))[:count]
    v = ndtri(np.clip(points, 1e-9, 1 - 1e-9))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    for round_ in range(_REPULSIONS):
        overlap = v @ v.T
        np.fill_diagonal(overlap, 0.0)
        push = -(np.sign(overlap) / (1.02 - np.abs(overlap)) ** 2) @ v
        push -= (push * v).sum(axis=1, keepdims=True) * v
        push /= np.linalg.norm(push, axis=1).max() + 1e-12
        v = v + 0.05 * (1 - round_ / _REPULSIONS) * push
        v /= np.linalg.norm(v, axis=1, keepdims=True)
    return frozen(v)


def integer_sensitivity(shape: SketchShape, scale: int) -> int:
    """How far replacing one row, or one person, moves the integer sums, in L2.

    Notes
    -----
    Three parts, each rounded up:

    - ``scale sqrt(2 (1 + 1/L))``, see `SketchShape.sensitivity`.
    - Rounding to integers. A row's coordinate moves by at most 1/2. That of a person is the
      average of integers, so off by at most 1/2, rounded once more: 1 in all, and 2^-20 for the
      rounding of the division. Between two units this is at most ``2 + 2^-19`` for each of 2 D L
      coordinates, ``(2 + 2^-19) sqrt(2 D L)`` in L2.
    - Floating point, with u = 2^-53. The kernel's sine and cosine are Taylor polynomials on a
      quarter of the angle, cut below u / 2 and each accurate to 4 u: a number of size 1 up to
      6 u, and after two squarings (each doubles the error and adds at most 4 u) up to 36 u.
      Which angle it belongs to does not matter. A product of complex numbers adds a relative
      error of at most 4 u, so the l-th power is within ``40.5 l u < l 2^-47`` of the l-th power of
      an exact unit number; amplitudes and their product add less than 2^-50. Weighted with the
      amplitudes, whose squares sum to scale^2, one row is off by at most ``scale (L + 1) 2^-46``
      and two rows by twice that.
    """
    root = math.sqrt(2 * shape.size)
    exact = scale * shape.sensitivity
    rounding = (2 + 2.0**-19) * root
    floating = scale * (shape.n_frequencies + 1) * 2.0**-45
    # one more for the rounding of this very sum
    return math.ceil(exact + rounding + floating) + 1


@dataclasses.dataclass(frozen=True, eq=False)
class WaveTask:
    """Exact sums (2, D, L) of the contributions of some persons: real, then imaginary parts.

    Parameters
    ----------
    frame : Frame
    shape : SketchShape
    scale : int
        Units per one, from `fixed_point_scale`.
    """

    frame: Frame
    shape: SketchShape
    scale: int

    @functools.cached_property
    def _projection(self) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            turns = self.shape.step / (2 * math.pi)
            return np.ascontiguousarray(
                turns * (self.shape.directions(self.frame) @ self.frame.inverse)
            )

    def __call__(self, rows: Array, starts: IntArray) -> IntArray:
        """The sums over these persons."""
        shape = self.shape
        closing = np.empty(0, dtype=np.int64)
        if starts.size - 1 < len(rows):
            closing = np.zeros(len(rows), dtype=np.int64)
            closing[starts[1:] - 1] = np.diff(starts)
        sums = np.zeros((2, shape.n_directions, shape.n_frequencies), dtype=np.int64)
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        amplitudes = self.scale * shape.amplitudes
        _add_features(rows, closing, self.frame.centre, self._projection, amplitudes, sums)
        return sums


def feature_sums(people: People, frame: Frame, shape: SketchShape, *, scale: int) -> IntArray:
    """Exact sums (2, D, L) of all contributions: real parts, then imaginary parts.

    NOT private by itself. Integers, so the same for any order of rows, chunks and workers. A row
    whose angle overflows counts as if its angle were zero. Each person contributes the average over
    their rows, rounded once.

    Parameters
    ----------
    people : People
    frame : Frame
    shape : SketchShape
    scale : int
        Units per one, from `fixed_point_scale`.
    """
    return people.total(WaveTask(frame, shape, scale), "sketching")


@nb.njit(cache=True, nogil=True)
def _unit_numbers(turns: Array, cosines: Array, sines: Array) -> None:
    """Points on the unit circle at angles given in turns."""
    for i in range(turns.size):
        turn = turns[i] - np.rint(turns[i])
        # also where the angle overflowed and is not a number
        if not abs(turn) <= 0.5:
            turn = 0.0
        x = turn * _QUARTER
        y = x * x
        c = y * (-1 / 3628800 + y * (1 / 479001600 + y * (-1 / 87178291200 + y / 20922789888000)))
        c = 1.0 + y * (-1 / 2 + y * (1 / 24 + y * (-1 / 720 + y * (1 / 40320 + c))))
        s = y * (-1 / 39916800 + y * (1 / 6227020800 - y / 1307674368000))
        s = x * (1.0 + y * (-1 / 6 + y * (1 / 120 + y * (-1 / 5040 + y * (1 / 362880 + s)))))
        # the angle doubled twice
        c, s = c * c - s * s, 2 * c * s
        cosines[i] = c * c - s * s
        sines[i] = 2 * c * s


# A number is computed by functions that may not reorder anything, and whole numbers are added by
# one that may: compiled, they become one loop that treats several rows at a time.


@nb.njit(cache=True, nogil=True)
def _real_product(a: float, b: float, c: float, d: float) -> float:
    """Of ``(a + b i)(c + d i)``."""
    return a * c - b * d


@nb.njit(cache=True, nogil=True)
def _imaginary_product(a: float, b: float, c: float, d: float) -> float:
    """Of ``(a + b i)(c + d i)``."""
    return a * d + b * c


@nb.njit(cache=True, nogil=True)
def _rounded(value: float, amplitude: float) -> float:
    return float(np.rint(amplitude * value))


@nb.njit(cache=True, nogil=True)
def _multiply(real: Array, imaginary: Array, cosines: Array, sines: Array) -> None:
    for i in range(real.size):
        turned = _real_product(real[i], imaginary[i], cosines[i], sines[i])
        imaginary[i] = _imaginary_product(real[i], imaginary[i], cosines[i], sines[i])
        real[i] = turned


@nb.njit(cache=True, nogil=True)
def _round(values: Array, amplitude: float, whole: Array) -> None:
    for i in range(values.size):
        whole[i] = _rounded(values[i], amplitude)


@nb.njit(cache=True, nogil=True, fastmath={"reassoc"})
def _next_power(
    real: Array, imaginary: Array, cosines: Array, sines: Array, amplitude: float
) -> tuple[np.int64, np.int64]:
    """Round and add up `_BLOCK` numbers, and multiply each by its unit number.

    The sums are exact in any order, since whole numbers below 2^53 add without error.
    """
    first, second = 0.0, 0.0
    for i in range(_BLOCK):
        a, b, c, d = real[i], imaginary[i], cosines[i], sines[i]
        first += _rounded(a, amplitude)
        second += _rounded(b, amplitude)
        real[i] = _real_product(a, b, c, d)
        imaginary[i] = _imaginary_product(a, b, c, d)
    return np.int64(first), np.int64(second)


@nb.njit(cache=True, nogil=True)
def _add_persons(
    whole: Array, closing: IntArray, count: int, carried: np.int64
) -> tuple[np.int64, np.int64]:
    """The sum of the rounded averages of all persons that end here, and what is carried on."""
    total = np.int64(0)
    for i in range(count):
        carried += np.int64(whole[i])
        if closing[i] > 0:
            total += np.int64(np.rint(carried / closing[i]))
            carried = np.int64(0)
    return total, carried


@nb.njit(cache=True, nogil=True)
def _add_features(
    rows: Array,
    closing: IntArray,
    centre: Array,
    projection: Array,
    amplitudes: Array,
    sums: IntArray,
) -> None:
    """Add the contributions of rows (n, d) to `sums` (2, D, L).

    The last row must be the last of its person. Each number is computed from its own row alone,
    by the same operations wherever the row stands.
    """
    n, d = rows.shape
    steps = np.zeros((d, _BLOCK))
    turns, whole = np.empty(_BLOCK), np.empty(_BLOCK)
    cosines, sines = np.empty(_BLOCK), np.empty(_BLOCK)
    real, imaginary = np.empty(_BLOCK), np.empty(_BLOCK)
    carried = np.zeros(sums.shape, dtype=np.int64)
    for start in range(0, n, _BLOCK):
        count = min(_BLOCK, n - start)
        for i in range(count):
            for q in range(d):
                steps[q, i] = rows[start + i, q] - centre[q]
        for j in range(projection.shape[0]):
            turns[:] = 0.0
            for q in range(d):
                along = projection[j, q]
                for i in range(_BLOCK):
                    turns[i] += along * steps[q, i]
            _unit_numbers(turns, cosines, sines)
            # places without a row: zero, and so are its powers
            cosines[count:] = 0.0
            sines[count:] = 0.0
            real[:] = cosines
            imaginary[:] = sines
            for f in range(amplitudes.size):
                if closing.size == 0:
                    first, second = _next_power(real, imaginary, cosines, sines, amplitudes[f])
                    sums[0, j, f] += first
                    sums[1, j, f] += second
                    continue
                for part in range(2):
                    _round(real if part == 0 else imaginary, amplitudes[f], whole)
                    added, left = _add_persons(whole, closing[start:], count, carried[part, j, f])
                    sums[part, j, f] += added
                    carried[part, j, f] = left
                _multiply(real, imaginary, cosines, sines)
