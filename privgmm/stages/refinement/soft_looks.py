"""Sum softly winsorised moments of all rows under a public mixture, as exact integers.

A look shows, for every component of a public mixture, how many rows it has, where they lie and how
they vary, with noise. `soft_moments` says what a Gaussian would show, and `look_solution` finds the
mixture that a look saw.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import NamedTuple

import numba as nb
import numpy as np

from privgmm.arrays import Array, IntArray, frozen
from privgmm.data.people import People, PersonSum, one_person
from privgmm.mixture import Mixture
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.fixed_point import fixed_point_scale
from privgmm.stages.refinement.noisy_moments import component_offsets, inverse_factors
from privgmm.stages.refinement.soft_moments import widest_softness
from privgmm.stages.stage import RowSums

__all__ = [
    "LookNoise",
    "LookTask",
    "SeenMoments",
    "SoftLook",
    "Units",
    "look_row_sums",
    "look_sums",
    "noisy_look",
]

_COUNT, _FIRST, _SECOND, _SIZE = 0.15, 0.3, 1.0, 0.15
"""Scales of counts, of v, of ``v v^T`` and of psi. Second moments have most of the error, and get
most of the account; the proof in `SoftLook` needs ``_FIRST^2 <= 2 _COUNT _SECOND``."""
_ROWS = 8192
"""Rows whose products are summed at a time. Products are below 2^31 in size, so that 2^22 rows
would still be exact in floating point; this many fit into the processor's cache."""
_BLOCK = 32
"""Choice: rows that a kernel processes together."""
_FLOATING = 1 + 1e-9
"""Factor for floating point within a row: shares and lengths are off by some 1e-14."""
_NEAREST = 1e-150
"""Rows nearer to a centre are taken to lie on it. Squares of smaller numbers lose digits, so that a
length computed from them may be too small, and v longer than one."""


@dataclasses.dataclass(frozen=True, eq=False)
class Units:
    """Public coordinates z of rows ``x = centre + scale z``, column by column.

    Parameters
    ----------
    centre, scale : array (d,)
    """

    centre: Array
    scale: Array

    def __post_init__(self) -> None:
        for name in ("centre", "scale"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    def mixture_from_units(self, mixture: Mixture) -> Mixture:
        """Transform a law of z into that of x."""
        return mixture.transformed(np.diag(self.scale), self.centre)


class LookNoise(NamedTuple):
    """Standard deviations of the noise on means over all rows.

    Parameters
    ----------
    share, psi, first : float
        On the share of a component, and on its means of psi and of an entry of v.
    second : float
        On an entry of ``svec(v v^T)``: a diagonal entry, or ``sqrt 2`` times another one.
    """

    share: float
    psi: float
    first: float
    second: float


class SeenMoments(NamedTuple):
    """What a look shows, as means over all rows: shares, psi, v and ``v v^T`` by component.

    Of a tied look psi (1,) and second (1, d, d) are those of all components together.
    """

    shares: Array
    psi: Array
    first: Array
    second: Array


@dataclasses.dataclass(frozen=True)
class SoftLook:
    """Describe one noisy look at all rows through a public mixture.

    Parameters
    ----------
    softness : float
        s in ``v = u / sqrt(s + |u|^2)``, in squared units of a component.
    multiplier : float
        Noise, in units of the L2 sensitivity.
    tied : bool
        Whether psi and ``v v^T`` are summed over all components, in one shape for all.

    Notes
    -----
    A row has shares r_a of the components, not negative, which add up to at most one. In units of
    component a (tied: of the common shape, around the mean of a) it shows v_a with ``|v_a| <= 1``,
    and psi_a between 0 and 1. It contributes, by component,

        phi_a = (c0 r_a, c1 r_a v_a, c2 r_a v_a v_a^T, c3 r_a psi_a).

    *Size.* ``|phi|^2 <= |c|^2 sum of r_a^2 <= |c|^2``. *Angle.* Two rows have the inner product

        phi . phi' = sum over a of r_a r'_a (c0^2 + c1^2 z_a + c2^2 z_a^2 + c3^2 psi_a psi'_a),

    z_a = v_a . v'_a. As a quadratic in z_a this is never negative if ``c1^2 <= 2 c0 c2``. In a tied
    look the second moment is the sum over components, of size ``sum r_a |v_a|^2 <= 1`` and with
    the inner product ``sum over a, b of r_a r'_b (v_a . v'_b)^2``, which contains the terms above
    and adds others that are not negative; likewise psi. So ``|phi - phi'|^2 <= |phi|^2 + |phi'|^2
    <= 2 |c|^2``: replacing a row moves the sums by at most ``sqrt 2 |c|``. The average over a
    person's rows lies in the convex hull of rows: the same bound.

    *Integers.* ``sqrt(r_a) (1, v_a)`` is rounded to multiples of 1/S, to y_a, and all of phi but
    psi are products of two entries of y_a: sums of such products are exact in integers. The proof
    above holds for y_a as it stands, with ``r_a`` replaced by the square of its first entry p, in
    the form ``(c0 p p')^2 + c1^2 p p' z + c2^2 z^2``, z the inner product of the others; only
    sizes change. Rounding moves (1 + d) entries by at most 1/2S each, ``e = sqrt(1 + d) / 2S`` in
    all, so that ``|y_a| / S`` parts have sizes of at most ``sqrt(r_a) + e``, whose squares add up
    to at most ``(1 + e sqrt k)^2`` over k components. Hence
    ``|phi| <= |c| (1 + e sqrt k)^2``. psi's integer, rounded by half a unit ``1 / S^2``, is
    covered, because ``(sqrt r + e)^2 >= r + e^2`` and ``e^2 >= 1 / 2 S^2``. A person's average is
    rounded once more, each of k (2 + d + d(d+1)/2) integers by at most 1/2. Entries off the
    diagonal count ``sqrt 2`` times, and tied sums add k roundings: between two persons this is at
    most ``sqrt 2 k sqrt(2 + d + d(d+1)/2)`` integers.
    """

    softness: float
    multiplier: float
    tied: bool = False

    @property
    def sensitivity(self) -> float:
        """``sqrt 2 |c|``: how far replacing one row moves the scaled sums, before rounding."""
        return math.sqrt(2) * math.hypot(_COUNT, _FIRST, _SECOND, _SIZE)

    def integer_sensitivity(self, n_units: int, k: int, d: int) -> float:
        """Bound how far replacing a row or person moves the scaled integer sums, in L2."""
        steps = _steps(n_units)
        moved = math.sqrt(1 + d) / (2 * steps)
        size = (1 + moved * math.sqrt(k)) ** 2 * _FLOATING
        rounded = math.sqrt(2) * k * math.sqrt(_width(d))
        return steps**2 * self.sensitivity * size + rounded

    def sigmas(self, n_units: int, k: int, d: int) -> tuple[float, float, float, float, float]:
        """Compute the discrete Gaussians' parameters for the integer sums, in this order.

        Counts; psi; v; diagonal entries of ``v v^T``; its other entries, which count twice.
        """
        sigma = self.multiplier * self.integer_sensitivity(n_units, k, d)
        scales = (_COUNT, _SIZE, _FIRST, _SECOND, math.sqrt(2) * _SECOND)
        one, two, three, four, five = (sigma / scale for scale in scales)
        return one, two, three, four, five

    def noise(self, n_units: int, k: int, d: int) -> LookNoise:
        """Compute the noise on what a look shows."""
        unit = float(n_units) * _steps(n_units) ** 2
        share, psi, first, second, _ = (s / unit for s in self.sigmas(n_units, k, d))
        return LookNoise(share, psi, first, second)

    @classmethod
    def wide(cls, d: int, n_units: int, count: float, multiplier: float, most: float) -> SoftLook:
        """Look as widely as keeps the noise on a covariance of `count` rows below `most`."""
        noise = cls(0.0, multiplier).noise(n_units, 1, d).second * n_units / count
        return cls(widest_softness(d, count, noise, most), multiplier)


def _steps(n_units: int) -> int:
    """Return S, the steps per one: a power of two; its square leaves room for sums and noise."""
    return 1 << (fixed_point_scale(n_units).bit_length() - 1) // 2


def _width(d: int) -> int:
    return 2 + d + d * (d + 1) // 2


@nb.njit(cache=True, nogil=True)
def _weighed_rows(
    rows: Array,
    centre: Array,
    scale: Array,
    offsets: Array,
    means: Array,
    inverses: Array,
    shape: Array,
    softness: float,
    steps: float,
    out: Array,
    where: IntArray,
    sizes: IntArray,
) -> IntArray:
    """Write ``S sqrt(r) (1, v)``, rounded, of the rows (n, d) that count for each component.

    ``out[a, :sizes[a]]`` (.., 2 + d) ends with psi's integer, ``S^2 r psi``; `where` says which
    rows these are. `shape` is empty, or the inverse of the common factor (1, d, d) of a tied look.
    All operations on a row are its own, in an order that does not depend on where it stands.
    """
    n, d = rows.shape
    k = means.shape[0]
    tied = shape.shape[0] > 0
    z = np.zeros((d, _BLOCK))
    gap = np.empty((d, _BLOCK))
    u = np.empty((k, d, _BLOCK))
    acc = np.empty(_BLOCK)
    squares, logs = np.empty((k, _BLOCK)), np.empty((k, _BLOCK))
    share = np.empty(k)
    sizes[:] = 0
    for start in range(0, n, _BLOCK):
        count = min(_BLOCK, n - start)
        for i in range(count):
            for q in range(d):
                z[q, i] = (rows[start + i, q] - centre[q]) / scale[q]
        for a in range(k):
            for q in range(d):
                for i in range(_BLOCK):
                    gap[q, i] = z[q, i] - means[a, q]
            for turn in range(2 if tied else 1):
                squares[a, :] = 0.0
                for p in range(d):
                    acc[:] = 0.0
                    for q in range(p + 1):
                        along = shape[0, p, q] if turn == 1 else inverses[a, p, q]
                        for i in range(_BLOCK):
                            acc[i] += along * gap[q, i]
                    for i in range(_BLOCK):
                        u[a, p, i] = acc[i]
                        squares[a, i] += acc[i] * acc[i]
                if turn == 0:
                    for i in range(_BLOCK):
                        logs[a, i] = offsets[a] - 0.5 * squares[a, i]
        for i in range(count):
            best = -np.inf
            for a in range(k):
                # a row so far out that squares overflow has no share, and spoils no other
                if not logs[a, i] > -np.inf:
                    logs[a, i] = -np.inf
                best = max(best, logs[a, i])
            if best == -np.inf:
                continue
            norm = 0.0
            for a in range(k):
                share[a] = math.exp(logs[a, i] - best)
                norm += share[a]
            for a in range(k):
                r = share[a] / norm
                root = math.sqrt(r) * steps
                # less would be rounded to nothing
                if root < 0.5 or not squares[a, i] < np.inf:
                    continue
                at = sizes[a]
                out[a, at, 0] = np.rint(root)
                length = math.sqrt(softness + squares[a, i])
                pull = root / length if length > _NEAREST else 0.0
                for q in range(d):
                    out[a, at, 1 + q] = np.rint(u[a, q, i] * pull)
                out[a, at, 1 + d] = np.rint(r * math.exp(-squares[a, i] / d) * steps * steps)
                where[a, at] = start + i
                sizes[a] = at + 1
    return sizes


@nb.njit(cache=True, nogil=True)
def _add_persons(
    weighed: Array, where: IntArray, owner: IntArray, sizes: IntArray, sums: IntArray
) -> None:
    """Add persons' rounded averages to `sums` (width,): of products, and of psi's integers.

    `owner` (n,) is the person of each row, and `sizes` how many rows persons have, those that
    count for nothing included.
    """
    d = weighed.shape[1] - 2
    person = np.zeros(sums.size, dtype=np.int64)
    m = weighed.shape[0]
    for i in range(m):
        person[0] += np.int64(weighed[i, 0] * weighed[i, 0])
        person[1] += np.int64(weighed[i, 1 + d])
        at = 2 + d
        for j in range(d):
            person[2 + j] += np.int64(weighed[i, 0] * weighed[i, 1 + j])
            for q in range(j, d):
                person[at] += np.int64(weighed[i, 1 + j] * weighed[i, 1 + q])
                at += 1
        mine = owner[where[i]]
        if i + 1 == m or owner[where[i + 1]] != mine:
            size = sizes[mine]
            for j in range(sums.size):
                sums[j] += (2 * person[j] + size) // (2 * size)
                person[j] = 0


@dataclasses.dataclass(frozen=True, eq=False)
class LookTask(PersonSum):
    """Integer sums (k, 2 + d + d(d+1)/2) over some persons: count, psi, v, upper ``v v^T``."""

    centre: Array
    scale: Array
    offsets: Array
    means: Array
    inverses: Array
    shape: Array
    softness: float
    steps: int

    def __call__(self, rows: Array, starts: IntArray) -> IntArray:
        """Sum over these persons."""
        k, d = self.means.shape
        sums = np.zeros((k, _width(d)), dtype=np.int64)
        lengths = np.diff(starts)
        # a stretch of persons with about as many rows as are summed at a time
        singles = bool((lengths == 1).all())
        first = 0
        while first < lengths.size:
            last = first + _ROWS if singles else np.searchsorted(starts, starts[first] + _ROWS)
            last = min(max(int(last), first + 1), lengths.size)
            self._add(rows[starts[first] : starts[last]], lengths[first:last], singles, sums)
            first = last
        return sums

    def _add(self, rows: Array, lengths: IntArray, singles: bool, sums: IntArray) -> None:
        k, d = self.means.shape
        out = np.empty((k, len(rows), 2 + d))
        where, sizes = np.empty((k, len(rows)), dtype=np.int64), np.empty(k, dtype=np.int64)
        _weighed_rows(
            np.ascontiguousarray(rows, dtype=np.float64),
            self.centre,
            self.scale,
            self.offsets,
            self.means,
            self.inverses,
            self.shape,
            self.softness,
            float(self.steps),
            out,
            where,
            sizes,
        )
        if not singles:
            owner = np.repeat(np.arange(lengths.size), lengths)
            for a in range(k):
                _add_persons(out[a, : sizes[a]], where[a], owner, lengths, sums[a])
            return
        row, column = np.triu_indices(d)
        for a in range(k):
            seen = out[a, : sizes[a], : 1 + d]
            # whole numbers whose sums stay below 2^53: exact in any order
            products = (seen.T @ seen).astype(np.int64)
            sums[a, 0] += products[0, 0]
            sums[a, 1] += np.int64(out[a, : sizes[a], 1 + d].sum())
            sums[a, 2 : 2 + d] += products[0, 1:]
            sums[a, 2 + d :] += products[1:, 1:][row, column]


def look_sums(
    people: People, units: Units, public: Mixture, look: SoftLook, shape: Array | None = None
) -> IntArray:
    """Sum all that a look takes, as integers (k, 2 + d + d(d+1)/2). CONFIDENTIAL without noise.

    Parameters
    ----------
    people : People
    units : Units
    public : Mixture
        In these units; it decides the shares of rows.
    look : SoftLook
    shape : array (d, d), optional
        Of a tied look: the lower factor of the common shape.
    """
    d = public.n_features
    common = np.empty((0, d, d)) if shape is None else np.linalg.inv(shape)[None]
    task = LookTask(
        units.centre,
        units.scale,
        component_offsets(public),
        public.means,
        inverse_factors(public),
        np.tril(common),
        look.softness,
        _steps(len(people)),
    )
    return people.total(task, "looking")


def noisy_look(
    people: People,
    units: Units,
    public: Mixture,
    look: SoftLook,
    source: NoiseSource,
    shape: Array | None = None,
) -> SeenMoments:
    """Draw what a look shows; costs one Gaussian mechanism of its multiplier.

    Discrete Gaussian noise is added to integers, so nothing rounds between rows and release.
    Parameters are those of `look_sums`.
    """
    k, d, n = public.n_components, public.n_features, len(people)
    sums = look_sums(people, units, public, look, shape)
    row, column = np.triu_indices(d)
    spread = sums[:, [1, *range(2 + d, sums.shape[1])]]
    if look.tied:
        spread = spread.sum(axis=0, keepdims=True)
    seconds = spread[:, 1:]
    parts = (
        sums[:, :1],
        spread[:, :1],
        sums[:, 2 : 2 + d],
        seconds[:, row == column],
        seconds[:, row != column],
    )
    unit = float(n) * _steps(n) ** 2
    count, psi, first, own, cross = (
        (part + source.discrete_gaussian(sigma, part.size).reshape(part.shape)) / unit
        for part, sigma in zip(parts, look.sigmas(n, k, d), strict=True)
    )
    second = np.zeros((len(own), d, d))
    second[:, row[row != column], column[row != column]] = cross
    second += np.transpose(second, (0, 2, 1))
    second[:, np.arange(d), np.arange(d)] = own
    return SeenMoments(count[:, 0], psi[:, 0], first, second)


@functools.lru_cache(maxsize=32)
def _weights(k: int, d: int) -> Array:
    """Return the scales (k, width) of all integers of `look_sums`."""
    row, column = np.triu_indices(d)
    second = np.where(row == column, _SECOND, math.sqrt(2) * _SECOND)
    return frozen(np.tile(np.concatenate([[_COUNT, _SIZE], np.full(d, _FIRST), second]), (k, 1)))


def look_row_sums(look: SoftLook, d: int) -> RowSums:
    """Describe a look for the audit to attack: through two components, near or far apart.

    The pairs to begin with lie on either side of a component, between two, or far out.
    """
    means = np.zeros((2, d))
    means[1, 0] = 100.0
    public = Mixture([0.5, 0.5], means, np.stack([np.eye(d)] * 2))
    units, shape = Units(np.zeros(d), np.ones(d)), np.eye(d) if look.tied else None

    def persons(first: Array, second: Array) -> float:
        one, two = (
            look_sums(one_person(rows), units, public, look, shape) for rows in (first, second)
        )
        moved = (one - two) * _weights(2, d)
        if look.tied:
            spread = [1, *range(2 + d, moved.shape[1])]
            rest = [0, *range(2, 2 + d)]
            moved = np.concatenate([moved[:, spread].sum(axis=0), moved[:, rest].ravel()])
        return float(np.linalg.norm(moved)) / look.integer_sensitivity(1, 2, d)

    edge = np.zeros(d)
    edge[-1] = 3 * math.sqrt(d + look.softness)
    return RowSums(
        look.multiplier,
        lambda rows: persons(rows[:1], rows[1:]),
        (
            np.stack([edge, -edge]),
            means + edge,
            means + np.stack([edge, -edge]),
            # a row that both components share
            np.stack([means[1] / 2, means[0] - edge]),
            np.stack([1e9 * edge, np.zeros(d)]),
            np.stack([1e4 * edge, means[1] + 1e-3 * edge]),
        ),
        3 * math.sqrt(d),
        persons,
    )
