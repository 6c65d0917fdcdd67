"""Compute the waves of a sketch: contributions of rows, their sensitivity, and exact sums.

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
import numpy.typing as npt
import scipy
from scipy.special import ndtri

from privgmm.arrays import Array, IntArray, frozen, positive, whole_number
from privgmm.data.people import People, PersonSum
from privgmm.errors import InvalidInput
from privgmm.stages.fixed_point import fixed_point_scale
from privgmm.stages.form import Form
from privgmm.stages.sketch.frame import Frame

__all__ = [
    "ANGLES",
    "SketchShape",
    "WaveTask",
    "columns_apart",
    "feature_sums",
    "fixed_point_scale",
    "integer_sensitivity",
]

_DEFAULTS = {1: (1, 20, 0.6), 2: (34, 16, 0.6), 3: (35, 12, 0.5), 4: (68, 8, 0.6), 5: (85, 7, 0.6)}
"""Directions, frequencies and step that served well in trials, by number of columns."""
_DEFAULT_STEP = 0.6
"""Step for more columns: that of most numbers of columns that were tried."""
_MOST_DIRECTIONS, _MOST_FREQUENCIES = 10_000, 1_000
"""Choice: no larger sketch is accepted, for instance from a file."""
ANGLES = 1 << 14
"""Choice: angles per turn; rounding to them shrinks waves by parts in a million (`WaveTask`)."""
_BLOCK = 256
"""Choice: rows that a kernel processes together."""
_WORTH_COUNTING = 4_096
"""With fewer rows at a time, looking up each contribution is faster than counting angles."""
_MOST_HELD = 1 << 21
"""Rows whose angles are counted before they become sums: numbers stay below 2^53."""
_MOST_COUNTED = 1_024
"""Directions for which counts are held, 64 MB at most: `ANGLES` numbers of 4 bytes for each."""
_REPULSIONS = 60
"""Choice: rounds in which directions repel each other."""


def columns_apart(n_directions: int, n_features: int) -> int:
    """Count the first directions of a sketch, those of the columns, that fits leave out.

    Other units or a shear make other columns, and fits must not change with them. So fits read
    the directions that are spread evenly over the frame, and the columns' own ones are there for
    densities of columns. All count where there is one column, or where the others are too few to
    determine a covariance.

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
    def default(cls, n_features: int, n_components: int = 1) -> SketchShape:
        """Return what served well in trials for this number of columns; the optimum is flat.

        Two columns get more directions than a fit needs, because a picture of the density can be
        made from them. Covariances have d(d+1)/2 entries, and fits never read fewer directions.
        A sketch that is too small for the number of components gets more directions.

        One column has one direction, and gets higher frequencies: k equal components side by side
        in a frame are ``sqrt(12) / k`` apart, and the shortest wave is no longer than that. (With
        k = 20 and half as many frequencies means were off by several gaps between components; with
        these all were found, at separations 4 and 6 and from 100,000 rows.)
        """
        d = whole_number(n_features, "n_features", 1)
        if d in _DEFAULTS:
            shape = cls(*_DEFAULTS[d])
        else:
            count = max(20 * (d - 1), d * (d + 1) // 2) + d
            shape = cls(count, 6 if d < 8 else 5, _DEFAULT_STEP)
        if d == 1 and shape.most_components(d) < n_components:
            highest = 2 * math.pi * n_components / math.sqrt(12)
            return dataclasses.replace(shape, n_frequencies=math.ceil(highest / shape.step))
        while shape.most_components(d) < n_components:
            shape = dataclasses.replace(shape, n_directions=shape.n_directions + 1)
        return shape

    @property
    def size(self) -> int:
        """Number m = D L of frequencies."""
        return self.n_directions * self.n_frequencies

    def most_components(self, n_features: int) -> int:
        """Compute the most components with no more free numbers than fits to the sketch read."""
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
        """Compute unit directions (D, d) in frame coordinates, one of each opposite pair.

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
        """Compute frequencies (m, d) in frame coordinates, direction by direction."""
        steps = self.step * np.arange(1, self.n_frequencies + 1)
        return np.reshape(
            self.directions(frame)[:, None, :] * steps[:, None], (-1, frame.n_features)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_form(cls, form: Form) -> SketchShape:
        """Read the shape back from a plan, and check its form."""
        return cls(
            form.whole("n_directions", 1), form.whole("n_frequencies", 1), form.number("step")
        )


@functools.lru_cache(maxsize=32)
def _repelled(d: int, count: int) -> Array:
    """Spread `count` lines (count, d) through the origin, away from each other: a fixed set."""
    sobol = scipy.stats.qmc.Sobol(d, scramble=True, rng=np.random.default_rng(20230609))
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
    """Bound how far replacing one row, or one person, moves the integer sums, in L2.

    Notes
    -----
    Three parts, each rounded up:

    - ``scale sqrt(2 (1 + 1/L))``, see `SketchShape.sensitivity`.
    - Rounding to integers. A row's coordinate moves by at most 1/2. That of a person is the
      average of integers, so off by at most 1/2, rounded once more: 1 in all, and 2^-20 for the
      rounding of the division. Between two units this is at most ``2 + 2^-19`` for each of 2 D L
      coordinates, ``(2 + 2^-19) sqrt(2 D L)`` in L2.
    - Floating point. Contributions come from a table (`WaveTask`). Its cosines and sines are within
      2^-52 of exact ones, before they are rounded to integers; which angle a row has, and how that
      was computed, does not matter. Weighted with the amplitudes, whose squares sum to scale^2,
      one row is off by at most ``scale 2^-51``; ``scale (L + 1) 2^-45`` for two rows covers it many
      times over.
    """
    root = math.sqrt(2 * shape.size)
    exact = scale * shape.sensitivity
    rounding = (2 + 2.0**-19) * root
    floating = scale * (shape.n_frequencies + 1) * 2.0**-45
    # one more for the rounding of this very sum
    return math.ceil(exact + rounding + floating) + 1


@functools.lru_cache(maxsize=8)
def _table_of(sizes: tuple[float, ...]) -> Array:
    """Tabulate whole numbers (ANGLES, 2 L) near the powers of unit numbers, of sizes (L,)."""
    powers = np.arange(1, len(sizes) + 1)
    angles = 2 * math.pi / ANGLES * (np.outer(np.arange(ANGLES), powers) % ANGLES)
    parts = [np.rint(np.array(sizes) * wave) for wave in (np.cos(angles), np.sin(angles))]
    return frozen(np.concatenate(parts, axis=1))


@dataclasses.dataclass(eq=False)
class _PartialSums:
    """Sums so far: whole sums (D, 2 L), and angles that are counted but not summed yet."""

    sums: IntArray
    counts: npt.NDArray[np.int32] | None = None
    held: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class WaveTask(PersonSum):
    """Exact sums (2, D, L) of the contributions of some persons: real, then imaginary parts.

    Parameters
    ----------
    frame : Frame
    shape : SketchShape
    scale : int
        Units per one, from `fixed_point_scale`.

    Notes
    -----
    Angles are rounded to `ANGLES` per turn, so there are that many contributions along a direction,
    and a table holds them. Of many rows it is enough to count how often each angle occurs; the sums
    are the counts times the table, once. They are exact: whole numbers below 2^53 multiply and
    add without error. A person's contributions are looked up one by one, and averaged.

    Rounding a wave does not change what it costs (`SketchShape.sensitivity`). It shrinks
    the l-th wave by ``(l pi / ANGLES)^2 / 6``, two parts in a million for l = 16, far below the
    sampling error of 10^9 rows.
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

    @functools.cached_property
    def _table(self) -> Array:
        """Contributions (ANGLES, 2 L) for each angle, whole numbers: real, then imaginary parts."""
        return _table_of(tuple((self.scale * self.shape.amplitudes).tolist()))

    def begun(self) -> _PartialSums:
        """Return the state before any person was added."""
        shape = self.shape
        return _PartialSums(np.zeros((shape.n_directions, 2 * shape.n_frequencies), dtype=np.int64))

    def added(self, state: _PartialSums, rows: Array, starts: IntArray) -> _PartialSums:
        """Add these persons to the state."""
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        count = self.shape.n_directions
        singles = starts.size - 1 == len(rows)
        many = state.counts is not None or len(rows) >= _WORTH_COUNTING
        if not singles or not many or count > _MOST_COUNTED:
            _add_looked_up(
                rows, starts, self.frame.centre, self._projection, self._table, state.sums
            )
            return state
        for first in range(0, len(rows), _MOST_HELD):
            some = rows[first : first + _MOST_HELD]
            if state.held + len(some) > _MOST_HELD:
                self._settle(state)
            if state.counts is None:
                state.counts = np.zeros((count, ANGLES), dtype=np.int32)
            _count_angles(some, self.frame.centre, self._projection, state.counts)
            state.held += len(some)
        return state

    def _settle(self, state: _PartialSums) -> None:
        """Turn counts into sums."""
        if state.counts is not None:
            state.sums += (state.counts.astype(np.float64) @ self._table).astype(np.int64)
            state.counts, state.held = None, 0

    def ended(self, state: _PartialSums) -> IntArray:
        """Return the sums over all persons that were added."""
        self._settle(state)
        length = self.shape.n_frequencies
        return np.stack([state.sums[:, :length], state.sums[:, length:]])

    def __call__(self, rows: Array, starts: IntArray) -> IntArray:
        """Sum over these persons."""
        return self.ended(self.added(self.begun(), rows, starts))


def feature_sums(people: People, frame: Frame, shape: SketchShape, *, scale: int) -> IntArray:
    """Sum all contributions exactly: (2, D, L), real parts, then imaginary parts.

    CONFIDENTIAL without noise. Integers, so equal for any order of rows, chunks and workers. A row
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
def _angle(turns: float) -> int:
    """Round to the nearest of `ANGLES` angles; zero where the angle is not a number."""
    part = turns - np.floor(turns)
    if not part >= 0.0:
        part = 0.0
    return int(part * ANGLES + 0.5) & (ANGLES - 1)


@nb.njit(cache=True, nogil=True)
def _count_angles(
    rows: Array, centre: Array, projection: Array, counts: npt.NDArray[np.int32]
) -> None:
    """Count the angles of rows (n, d) along each direction into `counts` (D, ANGLES).

    Each angle is computed from its own row alone, by operations that do not depend on where the
    row stands.
    """
    n, d = rows.shape
    steps = np.zeros((d, _BLOCK))
    turns, places = np.empty(_BLOCK), np.empty(_BLOCK, dtype=np.int64)
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
            for i in range(_BLOCK):
                places[i] = _angle(turns[i])
            for i in range(count):
                counts[j, places[i]] += 1


@nb.njit(cache=True, nogil=True)
def _add_looked_up(
    rows: Array, starts: IntArray, centre: Array, projection: Array, table: Array, sums: IntArray
) -> None:
    """Add the contributions of persons to `sums` (D, 2 L); each gives the rounded average."""
    d = rows.shape[1]
    width = sums.shape[1]
    person = np.zeros(sums.shape)
    for p in range(starts.size - 1):
        person[:] = 0.0
        for i in range(starts[p], starts[p + 1]):
            for j in range(projection.shape[0]):
                turns = 0.0
                for q in range(d):
                    turns += projection[j, q] * (rows[i, q] - centre[q])
                place = _angle(turns)
                for f in range(width):
                    person[j, f] += table[place, f]
        size = starts[p + 1] - starts[p]
        for j in range(sums.shape[0]):
            for f in range(width):
                # whole numbers below 2^53 are exact
                sums[j, f] += np.int64(np.rint(person[j, f] / size))
