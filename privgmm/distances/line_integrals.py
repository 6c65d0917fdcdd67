"""Integrals of the absolute value of a sum of signed Gaussians, on a line and on slices of a plane.

The compiled part of `mixture_variation`: sign changes are isolated with a bound on what could
have been missed; between them the normal distribution function gives the integral.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from privgmm.arrays import Array

__all__ = ["MOST_DIPS", "line_integral", "slice_integrals"]

MOST_DIPS = 512
"""Near-touches of zero that one line can report: the size of a buffer."""

_REACH = 9.0  # standard deviations looked at around a component; 2e-19 lies beyond
_DEPTH = 64  # halvings of one grid interval
_SIXTH_PEAK = 1.78143952  # where the bound of `_sixth` is largest: the root of its cubic
_VANISHED = 1500.0  # a squared deviation beyond which the density is 0 in floats


@njit(cache=True, nogil=True, error_model="numpy")
def _derivatives(x: float, mass: Array, mean: Array, sd: Array, out: Array) -> None:
    """Fill h and its second and fourth derivatives at x, by Hermite polynomials."""
    out[0], out[1], out[2] = 0.0, 0.0, 0.0
    for j in range(mass.size):
        u = (x - mean[j]) / sd[j]
        v, shrink = u * u, 1.0 / (sd[j] * sd[j])
        if not v < _VANISHED:
            continue
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
def _mass_between(low: float, high: float, mass: Array, mean: Array, sd: Array) -> float:
    """Bound ``∫ |h|`` over [low, high] by that of the components one by one."""
    total = 0.0
    for j in range(mass.size):
        a, b = (mean[j] - low) / sd[j], (mean[j] - high) / sd[j]
        share = math.erfc(b * 0.7071067811865476) - math.erfc(a * 0.7071067811865476)
        total += abs(mass[j]) * 0.5 * share
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _sixth(low: float, high: float, mass: Array, mean: Array, sd: Array) -> float:
    """Bound the size of the sixth derivative of h on [low, high].

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
        if not v < _VANISHED:
            continue
        bound = (((v + 15.0) * v + 45.0) * v + 15.0) * math.exp(-0.5 * v)
        total += abs(mass[j]) / sd[j] ** 7 * bound
    return total * 0.39894229


@njit(cache=True, nogil=True, error_model="numpy")
def line_integral(
    mass: Array, mean: Array, sd: Array, cell: float, dips: Array
) -> tuple[float, float, int, int]:
    """Integrate ``|h|``, ``h = Σ_j mass_j N(mean_j, sd_j²)`` signed masses, and bound the error.

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
            # (from -9 on, or adding one would not change the large floats of far components)
            place = max(math.floor((low - mean[j]) / sd[j]) + 1.0, -_REACH)
            while mean[j] + sd[j] * place <= low and place <= _REACH:
                place += 1.0
            if place <= _REACH:
                following = min(following, mean[j] + sd[j] * place)
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
                    doubt += 2.0 * min(width * room, _mass_between(low, high, mass, mean, sd))
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
    """Estimate how much of ``∫∫ |h|`` a slice at y may miss near a near-touch at x.

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
def slice_integrals(
    places: Array,
    step: Array,
    mass: Array,
    mean: Array,
    factor: Array,
    cell: float,
    out: Array,
) -> None:
    """Integrate the slices ``∫ |h(y, x)| dx`` at each y of `places` (n,), `step` (n,) apart.

    Fills `out` (4, n): the integral, its error bound, the number of sign changes, and what may
    hide between this slice and the next.
    """
    k = mass.size
    slice_mass, slice_mean, slice_sd = np.empty(k), np.empty(k), np.empty(k)
    dips = np.empty(MOST_DIPS)
    for n in range(places.size):
        for j in range(k):
            u = (places[n] - mean[j, 0]) / factor[j, 0, 0]
            slice_mass[j] = mass[j] * 0.3989422804014327 / factor[j, 0, 0] * math.exp(-0.5 * u * u)
            slice_mean[j] = mean[j, 1] + factor[j, 1, 0] * u
            slice_sd[j] = factor[j, 1, 1]
        out[0, n], out[1, n], out[2, n], found = line_integral(
            slice_mass, slice_mean, slice_sd, cell, dips
        )
        out[3, n] = 0.0
        for i in range(found):
            out[3, n] += _hidden(places[n], dips[i], step[n], mass, mean, factor)
