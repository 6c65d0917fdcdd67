"""Total variation between Gaussian mixtures, always with its error.

Two single Gaussians go to `total_variation`. On a line the answer is exact: the sign changes of
``p - q`` are isolated with a bound on what could have been missed, and the rest is the normal
distribution function. In the plane such lines are integrated adaptively. Beyond, the value is a
stratified average with a confidence interval.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import numpy as np
from numba import njit
from scipy.special import ndtri

from privgmm.arrays import Array
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.total_variation import gaussian_tv

__all__ = ["TotalVariation", "mixture_tv"]

_CONFIDENCE = 0.999
_LINE_CELL = 1e-18
_REACH = 9.0  # standard deviations looked at around a component; 2e-19 lies beyond
_DEPTH = 64  # halvings of one grid interval
_SIXTH_PEAK = 1.78143952
_PLANE_GOAL = 1e-13
_MAX_INTERVALS = 4000
_MAX_DIPS = 512


@dataclasses.dataclass(frozen=True, slots=True)
class TotalVariation:
    """A total variation distance and how far it may be off.

    Parameters
    ----------
    value : float
    half_width : float
        The truth lies within ``value ± half_width``: a rounding bound for `contour`, a proved
        bound for `roots`, the quadrature's error estimate for `slices`, and a 99.9 % confidence
        interval for `sampling`.
    method : str
        ``"equal"``, ``"contour"``, ``"roots"``, ``"slices"`` or ``"sampling"``.
    """

    value: float
    half_width: float
    method: Literal["equal", "contour", "roots", "slices", "sampling"]

    def __float__(self) -> float:
        return self.value


@njit(cache=True, nogil=True, error_model="numpy")
def _derivatives(x: float, mass: Array, mean: Array, sd: Array, out: Array) -> None:
    """Fill h and its second and fourth derivatives at x, by Hermite polynomials."""
    out[0], out[1], out[2] = 0.0, 0.0, 0.0
    for j in range(mass.size):
        u = (x - mean[j]) / sd[j]
        v, shrink = u * u, 1.0 / (sd[j] * sd[j])
        bump = 0.3989422804014327 * mass[j] / sd[j] * math.exp(-0.5 * v)
        out[0] += bump
        out[1] += bump * shrink * (v - 1.0)
        out[2] += bump * shrink * shrink * ((v - 6.0) * v + 3.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _signed_cdf(x: float, mass: Array, mean: Array, sd: Array) -> float:
    total = 0.0
    for j in range(mass.size):
        total += mass[j] * 0.5 * math.erfc((mean[j] - x) / sd[j] * 0.7071067811865476)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _sixth(low: float, high: float, mass: Array, mean: Array, sd: Array) -> float:
    """An upper bound on the size of the sixth derivative of h on [low, high].

    It sums ``P(u) φ(u)`` with ``P = u⁶ + 15 u⁴ + 45 u² + 15``, which bounds that of φ and has a
    single peak on u >= 0, where ``v = u²`` solves ``v³ + 9 v² - 15 v - 75 = 0``.
    """
    total = 0.0
    for j in range(mass.size):
        a, b = (low - mean[j]) / sd[j], (high - mean[j]) / sd[j]
        far = max(abs(a), abs(b))
        near = 0.0 if a <= 0.0 <= b else min(abs(a), abs(b))
        u = min(max(_SIXTH_PEAK, near), far)
        v = u * u
        bound = (((v + 15.0) * v + 45.0) * v + 15.0) * math.exp(-0.5 * v)
        total += abs(mass[j]) / sd[j] ** 7 * bound
    return total * 0.39894229


@njit(cache=True, nogil=True, error_model="numpy")
def _line_integral(
    mass: Array, mean: Array, sd: Array, cell: float, dips: Array
) -> tuple[float, float, int, int]:
    """``∫ |h|`` for ``h = Σ_j mass_j N(mean_j, sd_j²)`` with signed masses, and an error bound.

    On an interval of width w a function differs from its chord by at most ``w²/8`` times its
    largest second derivative. Used three times, this bounds h from its value and its second and
    fourth derivatives at the ends, which are small where p and q nearly cancel. An interval is
    settled when no zero fits, or when it may hide at most `cell` of integral; otherwise it is
    halved. The zero of the chord stands for the zero of h.

    Returns the integral, the bound, the number of zeros, and how many places were put in `dips`:
    interval ends where |h| is least without a change of sign.
    """
    zeros, found, before = 0, 0, 0.0
    doubt, integral, last, total = 0.0, 0.0, 0.0, 0.0
    ends, values = np.empty(_DEPTH), np.empty((_DEPTH, 3))
    low, at_low = math.inf, np.empty(3)
    for j in range(mass.size):
        low = min(low, mean[j] - _REACH * sd[j])
        total += mass[j]
    _derivatives(low, mass, mean, sd, at_low)
    while True:
        # The next grid point: whole numbers of deviations around each component, merged.
        following = math.inf
        for j in range(mass.size):
            place = math.floor((low - mean[j]) / sd[j]) + 1.0
            while mean[j] + sd[j] * place <= low and place <= _REACH:
                place += 1.0
            if place <= _REACH:
                following = min(following, mean[j] + sd[j] * max(place, -_REACH))
        if following == math.inf:
            break
        top = 0
        ends[0] = following
        _derivatives(following, mass, mean, sd, values[0])
        while top >= 0:
            high, at_high = ends[top], values[top]
            width = high - low
            eighth = width * width / 8.0
            room = eighth * _sixth(low, high, mass, mean, sd)
            room = eighth * (room + max(abs(at_low[2]), abs(at_high[2])))
            room = eighth * (room + max(abs(at_low[1]), abs(at_high[1])))
            crosses = (at_low[0] < 0.0) != (at_high[0] < 0.0)
            settled = not crosses and min(abs(at_low[0]), abs(at_high[0])) > room
            middle = 0.5 * (low + high)
            if (
                settled
                or width * room <= cell
                or top == _DEPTH - 1
                or middle <= low
                or middle >= high
            ):
                if not settled:
                    doubt += 2.0 * width * room
                dipped = abs(at_low[0]) <= min(abs(before), abs(at_high[0]))
                if dipped and before * at_low[0] > 0.0 and not crosses and found < dips.size:
                    dips[found] = low
                    found += 1
                before = at_low[0]
                if crosses:
                    zeros += 1
                    root = low + width * (at_low[0] / (at_low[0] - at_high[0]))
                    reached = _signed_cdf(root, mass, mean, sd)
                    integral += abs(reached - last)
                    last = reached
                low = high
                at_low[0], at_low[1], at_low[2] = at_high[0], at_high[1], at_high[2]
                top -= 1
            else:
                top += 1
                ends[top] = middle
                _derivatives(middle, mass, mean, sd, values[top])
    return integral + abs(total - last), doubt, zeros, found


@njit(cache=True, nogil=True, error_model="numpy")
def _hidden(y: float, x: float, step: float, mass: Array, mean: Array, factor: Array) -> float:
    """About how much of ``∫∫ |h|`` a slice at y with a near-touch at x may miss within `step`.

    At x the slice comes close to zero without crossing. Following that extremum to the next slice,
    its value moves like ``½ c step²``; if that can reach zero, an island of the other sign may lie
    between the slices, of that depth, `step` long and as wide as the curvature along x allows.
    """
    h, h_xx, h_xy, h_yy, floor = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(mass.size):
        a, b, c = factor[j, 0, 0], factor[j, 1, 0], factor[j, 1, 1]
        u = (y - mean[j, 0]) / a
        v = (x - mean[j, 1] - b * u) / c
        bump = mass[j] * math.exp(-0.5 * (u * u + v * v)) / (2.0 * math.pi * a * c)
        along, across = -v / c, (v * b / c - u) / a
        h += bump
        h_xx += bump * (along * along - 1.0 / (c * c))
        h_xy += bump * (along * across + b / (a * c * c))
        h_yy += bump * (across * across - (1.0 + (b / c) ** 2) / (a * a))
        floor += abs(bump) / (c * c)
    flat = max(abs(h_xx), 1e-3 * floor)
    if flat == 0.0:
        return 0.0
    bend = abs(h_yy) + h_xy * h_xy / flat
    if abs(h) > 4.0 * bend * step * step:
        return 0.0
    return step**4 * bend * math.sqrt(bend / flat)


@njit(cache=True, nogil=True, error_model="numpy")
def _slice_integrals(
    places: Array,
    step: Array,
    mass: Array,
    mean: Array,
    factor: Array,
    cell: float,
    out: Array,
) -> None:
    """Slices ``∫ |h(y, x)| dx`` at each y of `places` (n,), which lie `step` (n,) apart.

    Fills `out` (4, n): the integral, its error bound, the number of sign changes, and what may
    hide between this slice and the next.
    """
    k = mass.size
    slice_mass, slice_mean, slice_sd = np.empty(k), np.empty(k), np.empty(k)
    dips = np.empty(_MAX_DIPS)
    for n in range(places.size):
        for j in range(k):
            u = (places[n] - mean[j, 0]) / factor[j, 0, 0]
            slice_mass[j] = mass[j] * 0.3989422804014327 / factor[j, 0, 0] * math.exp(-0.5 * u * u)
            slice_mean[j] = mean[j, 1] + factor[j, 1, 0] * u
            slice_sd[j] = factor[j, 1, 1]
        out[0, n], out[1, n], out[2, n], found = _line_integral(
            slice_mass, slice_mean, slice_sd, cell, dips
        )
        out[3, n] = 0.0
        for i in range(found):
            out[3, n] += _hidden(places[n], dips[i], step[n], mass, mean, factor)


def _difference(first: Mixture, second: Mixture) -> tuple[Array, Array, Array]:
    """Signed masses, means and Cholesky factors of ``p - q``, equal components merged."""
    d = first.n_features
    rows = np.concatenate(
        [
            np.column_stack([f.means, f.cholesky.reshape(f.n_components, -1)])
            for f in (first, second)
        ]
    )
    distinct, owner = np.unique(rows, axis=0, return_inverse=True)
    mass = np.zeros(len(distinct))
    np.add.at(mass, owner.reshape(-1), np.concatenate([first.weights, -second.weights]))
    keep = mass != 0
    mean, factor = distinct[keep, :d], distinct[keep, d:].reshape(-1, d, d)
    return mass[keep], np.ascontiguousarray(mean), np.ascontiguousarray(factor)


def _on_line(first: Mixture, second: Mixture) -> TotalVariation:
    mass, mean, factor = _difference(first, second)
    middle, sd = np.ascontiguousarray(mean[:, 0]), np.ascontiguousarray(factor[:, 0, 0])
    integral, doubt, zeros, _ = _line_integral(mass, middle, sd, _LINE_CELL, np.empty(_MAX_DIPS))
    rounding = np.finfo(np.float64).eps * (len(mass) + zeros)
    return TotalVariation(min(1.0, 0.5 * integral), float(0.5 * doubt + rounding), "roots")


# Gauss-Kronrod 7/15 on [-1, 1]: nodes >= 0, Kronrod weights, Gauss weights (0 off the Gauss rule).
_KRONROD = np.array(
    [
        [0.9914553711208126, 0.022935322010529224, 0.0],
        [0.9491079123427585, 0.06309209262997856, 0.1294849661688697],
        [0.8648644233597691, 0.10479001032225019, 0.0],
        [0.7415311855993945, 0.14065325971552592, 0.27970539148927664],
        [0.5860872354676911, 0.1690047266392679, 0.0],
        [0.4058451513773972, 0.19035057806478542, 0.3818300505051189],
        [0.20778495500789848, 0.20443294007529889, 0.0],
        [0.0, 0.20948214108472782, 0.4179591836734694],
    ]
)
# The two ends are looked at as well, with no weight, so that nothing hides next to them.
_ENDS = np.array([[1.0, 0.0, 0.0]])
_RULE = np.concatenate([-_ENDS, _KRONROD * [-1, 1, 1], _KRONROD[-2::-1], _ENDS])
_RULE_STEP = np.maximum(np.diff(_RULE[:, 0], prepend=-1), np.diff(_RULE[:, 0], append=1))


def _measured(
    edges: Array, mass: Array, mean: Array, factor: Array, cell: float
) -> tuple[Array, float]:
    """Gauss-Kronrod value and error of each interval (n, 2), as rows (low, high, value, error)."""
    middle, half = edges.mean(axis=1), (edges[:, 1] - edges[:, 0]) / 2
    places = middle[:, None] + half[:, None] * _RULE[:, 0]
    step = np.broadcast_to(half[:, None] * _RULE_STEP, places.shape)
    flat = np.empty((4, places.size))
    _slice_integrals(places.reshape(-1), step.reshape(-1), mass, mean, factor, cell, flat)
    values, doubt, crossings, hidden = flat.reshape(4, *places.shape)
    kronrod, gauss = half * (values @ _RULE[:, 1]), half * (values @ _RULE[:, 2])
    wobble = half * (np.abs(values - (kronrod / half / 2)[:, None]) @ _RULE[:, 1])
    gap = np.abs(kronrod - gauss)
    # Where the number of sign changes varies, the slices have a kink (y - y0)^3/2 and the two rules
    # may agree by chance, so the error is kept in step with its known order, half^5/2; where it
    # does not vary the slices are smooth, and QUADPACK's estimate applies.
    kinked = (crossings != crossings[:, :1]).any(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        smooth = np.where(wobble > 0, wobble * np.minimum(1, (200 * gap / wobble) ** 1.5), gap)
    error = np.where(kinked, np.maximum(gap, 1e-3 * wobble**1.25), smooth) + hidden.sum(axis=1)
    return np.column_stack([edges, kronrod, error]), float(doubt.max())


def _on_plane(first: Mixture, second: Mixture) -> TotalVariation:
    """Integrate exact slices over the first coordinate by globally adaptive Gauss-Kronrod."""
    mass, mean, factor = _difference(first, second)
    offsets = np.array([-9.0, -6, -4, -2.5, -1.25, 0, 1.25, 2.5, 4, 6, 9])
    marks = np.unique(mean[:, :1] + factor[:, 0, :1] * offsets)
    span = float(marks[-1] - marks[0])
    cell = 1e-2 * _PLANE_GOAL / span / (19 * len(mass))
    pieces, slice_doubt = _measured(
        np.stack([marks[:-1], marks[1:]], axis=1), mass, mean, factor, cell
    )
    while pieces[:, 3].sum() > _PLANE_GOAL and len(pieces) < _MAX_INTERVALS:
        # Halve all but the quietest intervals, whose errors may stay as they are.
        pieces = pieces[np.argsort(pieces[:, 3])]
        quiet = np.cumsum(pieces[:, 3]) <= 0.5 * _PLANE_GOAL
        rough = pieces[~quiet]
        centre = rough[:, :2].mean(axis=1)
        halves = np.concatenate(
            [np.column_stack([rough[:, 0], centre]), np.column_stack([centre, rough[:, 1]])]
        )
        fresh, doubt = _measured(halves, mass, mean, factor, cell)
        pieces = np.concatenate([pieces[quiet], fresh])
        slice_doubt = max(slice_doubt, doubt)
    rounding = 1e-15 * len(mass)
    # The estimate held within a factor of two of itself on pairs whose distance is known.
    half_width = 2 * float(pieces[:, 3].sum()) + 0.5 * slice_doubt * span + rounding
    return TotalVariation(float(min(1.0, 0.5 * pieces[:, 2].sum())), half_width, "slices")


def _by_sampling(
    first: Mixture, second: Mixture, n_samples: int, generator: np.random.Generator
) -> TotalVariation:
    """``TV = E |tanh(½ ln p/q)|`` over ``(p + q) / 2``, stratified by component."""
    share = np.concatenate([first.weights, second.weights]) / 2
    mean = np.concatenate([first.means, second.means])
    factor = np.concatenate([first.cholesky, second.cholesky])
    counts = np.maximum(2, np.ceil(share * n_samples)).astype(np.int64)
    value, variance = 0.0, 0.0
    for weight, count, mu, root in zip(share, counts, mean, factor, strict=True):
        rows = generator.standard_normal((count, first.n_features)) @ root.T + mu
        ratio = first.log_density(rows) - second.log_density(rows)
        score = np.abs(np.tanh(ratio / 2))
        value += weight * score.mean()
        variance += weight**2 * score.var(ddof=1) / count
    width = float(ndtri((1 + _CONFIDENCE) / 2)) * math.sqrt(variance)
    return TotalVariation(float(value), width, "sampling")


def mixture_tv(
    first: Mixture,
    second: Mixture,
    *,
    n_samples: int = 200_000,
    rng: np.random.Generator | int | None = 0,
) -> TotalVariation:
    """Total variation distance between two mixtures, with its error.

    Parameters
    ----------
    first, second : Mixture
        Of the same dimension; the numbers of components may differ.
    n_samples : int, optional
        Rows drawn beyond two dimensions. The interval shrinks like ``1 / sqrt(n_samples)``.
    rng : Generator or int or None, optional
        Used beyond two dimensions only; by default the same draws every time.

    Returns
    -------
    TotalVariation
        ``float(...)`` gives the value.

    Examples
    --------
    >>> far = Mixture([0.5, 0.5], [[0.0], [9.0]], [[[1.0]], [[1.0]]])
    >>> near = Mixture([1.0], [[0.0]], [[[1.0]]])
    >>> mixture_tv(far, near).method
    'roots'
    >>> round(float(mixture_tv(far, near)), 4)
    0.5
    """
    if first.n_features != second.n_features:
        raise InvalidInput(
            f"second must have {first.n_features} features like first, got {second.n_features}"
        )
    if n_samples < 2:
        raise InvalidInput(f"n_samples must be at least 2, got {n_samples}")
    if not _difference(first, second)[0].size:
        return TotalVariation(0.0, 0.0, "equal")
    if first.n_components == second.n_components == 1:
        tv = gaussian_tv(
            first.means[0], first.covariances[0], second.means[0], second.covariances[0]
        )
        return TotalVariation(float(tv), 1e-14, "contour")
    if first.n_features == 1:
        return _on_line(first, second)
    if first.n_features == 2:
        return _on_plane(first, second)
    return _by_sampling(first, second, n_samples, np.random.default_rng(rng))
