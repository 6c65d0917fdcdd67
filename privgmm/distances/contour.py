"""Compiled kernels under `total_variation`: one contour integral, and double-double whitening.

Two Gaussians, seen in coordinates where the first is standard and the second has a diagonal
covariance, are described by d pairs of numbers. For those, the moment generating function of the
log-likelihood ratio has a closed form, and the overlap of the two densities is a contour integral
of it. Nothing here checks its input; `total_variation` does.

Notes
-----
With ``M(s) = ∫ p1^(1-s) p2^s`` and ``K(s) = ln M(s) + s eps``,

``∫ min(p1, e^eps p2) = (1/2πi) ∫_C e^K(s) / (s (1-s)) ds``     for C crossing the axis in (0, 1),
``∫ (p1 - e^eps p2)+  = (1/2πi) ∫_C e^K(s) / (s (s-1)) ds``     for C crossing it left of 0,

because ``v^s / (s (1-s))`` is the Mellin kernel of ``min(1, v)`` and moving C across the pole at 0
turns ``min(1, v)`` into ``(1 - v)+``. The first formula subtracted from one reads
``(1/2πi) ∫_C -expm1(K(s)) / (s (1-s)) ds`` and does not cancel when the Gaussians are close.
Each integrand is followed from its saddle on the real axis along a path of steepest descent.
"""

from __future__ import annotations

import cmath
import math

import numpy as np
from numba import njit

from privgmm.arrays import Array, IntArray
from privgmm.errors import PrivGMMError

__all__ = ["NotConverged", "contour_hockey_stick", "contour_overlap", "whiten_twice"]

_MAX_PANELS = 600  # of 16 nodes; `NotConverged` beyond
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(16)
_LEAN = 0.85  # radians a path may turn from straight up
_TINY = 1e-17  # share of the integral that the rest of the path may hold: below rounding


class NotConverged(PrivGMMError, ArithmeticError):
    """A numerical method stopped before reaching its accuracy; no value is returned."""


@njit(cache=True, nogil=True, error_model="numpy")
def _log1p(z: complex) -> complex:
    # The real part from the squared modulus: |1+z|^2 - 1 = a (2 + a) + b^2 keeps its digits near 0.
    return complex(
        0.5 * math.log1p(z.real * (2.0 + z.real) + z.imag * z.imag),
        math.atan2(z.imag, 1.0 + z.real),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _log1p_minus(z: complex) -> complex:
    """Compute ``ln(1 + z) - z``, by the series of ``2 artanh(z / (2 + z))`` near 0."""
    if z.real * z.real + z.imag * z.imag >= 0.09:
        far: complex = _log1p(z) - z
        return far
    r = z / (2.0 + z)
    r2 = r * r
    series = 1.0 / 23.0 + 0.0j
    for k in range(10):
        series = series * r2 + 1.0 / (21.0 - 2.0 * k)
    return r * (2.0 * r2 * series - z)


@njit(cache=True, nogil=True, error_model="numpy")
def _load(delta: Array, lam: Array, square: Array, swap: bool, out: Array) -> None:
    """Fill `out` (4, d): x, q, ln(1 + x), ln(1 + x) - x; `swap` exchanges the Gaussians."""
    for i in range(delta.size):
        log_lam = math.log1p(delta[i]) if abs(delta[i]) < 0.5 else math.log(lam[i])
        if swap:
            out[0, i], out[1, i], out[2, i] = delta[i], square[i], log_lam
        else:
            out[0, i], out[1, i], out[2, i] = -delta[i] / lam[i], square[i] / lam[i], -log_lam
        x = out[0, i]
        # Far from 0 by the logarithm of lam itself: 1 + x may have lost its digits.
        out[3, i] = _log1p_minus(complex(x, 0.0)).real if abs(x) < 0.5 else out[2, i] - x


@njit(cache=True, nogil=True, error_model="numpy")
def _log_moment(s: complex, form: Array) -> complex:
    """Compute ``ln M(s) = -½ Σ [ln(1+s x) - s ln(1+x)] - ½ s (1-s) Σ q / (1+s x)``."""
    total = 0.0j
    pull = 0.0j
    for i in range(form.shape[1]):
        x = form[0, i]
        if x == 0.0:
            pull += form[1, i]
            continue
        z = s * x
        if abs(x) < 0.5:
            total += _log1p_minus(z) - s * form[3, i]
        else:
            total += _log1p(z) - s * form[2, i]
        pull += form[1, i] / (1.0 + z)
    return -0.5 * (total + s * (1.0 - s) * pull)


@njit(cache=True, nogil=True, error_model="numpy")
def _slope(s: complex, form: Array, tilt: float) -> tuple[complex, float, float]:
    """Compute Φ'(s) for ``Φ = K - ln s(1-s)``, a bound on |Φ''|, and 1 / singularity distance."""
    first = 0.0j
    second = 0.0
    near = max(1.0 / abs(s), 1.0 / abs(1.0 - s))
    second = 1.0 / abs(s) ** 2 + 1.0 / abs(1.0 - s) ** 2
    for i in range(form.shape[1]):
        x, q = form[0, i], form[1, i]
        w = 1.0 + s * x
        ratio = x / w
        size = abs(w)
        if abs(x) < 0.5:
            first -= form[3, i] + s * x * ratio
        else:
            first += ratio - form[2, i]
        first += q * ((1.0 - 2.0 * s) - s * (1.0 - s) * ratio) / w
        second += 0.5 * (x / size) ** 2 + q * (1.0 + x) / size**3
        near = max(near, abs(x) / size)
    return tilt - 0.5 * first - 1.0 / s + 1.0 / (1.0 - s), second, near


@njit(cache=True, nogil=True, error_model="numpy")
def _saddle(form: Array, tilt: float, left: bool) -> float:
    """Find where Φ is least on (0, ½], or on its domain left of 0, to one per cent.

    Left of 0 the domain ends at ``-1 / max x``; ``-1/s = e^-t + max x`` maps it to the line.
    """
    edge = max(0.0, form[0].max()) if left else 2.0
    # e^138 is 1e60; left of 0 the search ends a share of e^-27 = 2e-12 before the singularity
    low, high = -138.0, 138.0
    if edge > 0.0:
        high = min(high, 27.0 - math.log(edge)) if left else 138.0
    while high - low > 0.01:
        t = 0.5 * (low + high)
        grow = 1.0 / (math.exp(-t) + edge)
        s = -grow if left else grow
        rising = _slope(complex(s, 0.0), form, tilt)[0].real > 0.0
        # t grows away from 0 on both sides, so the sense of "past the minimum" differs
        if rising != left:
            high = t
        else:
            low = t
    grow = 1.0 / (math.exp(-0.5 * (low + high)) + edge)
    return -grow if left else grow


@njit(cache=True, nogil=True, error_model="numpy")
def _follow(
    form: Array, tilt: float, offset: float, start: float, left: bool
) -> tuple[float, float, int]:
    """Integrate from `start` upwards.

    Returns ``∫ -expm1(K) / (s (1-s))`` over 2πi (0 when `left`), the natural log of
    ``∫ e^K / |s (1-s)|`` over 2πi, and the number of panels (-1 if they ran out).
    """
    sign = -1.0 if left else 1.0
    base = (_log_moment(complex(start, 0.0), form)).real + tilt * start + offset
    s = complex(start, 0.0)
    gap, mass = 0.0, 0.0
    slope, second, near = _slope(s, form, tilt)
    heading = 1.0j
    for panel in range(_MAX_PANELS):
        # clear of singularities, and short enough that the integrand changes by about e^7 at most
        length = min(0.85 / near, math.sqrt(14.0 / second), 7.0 / abs(slope))
        step = heading * length
        for node in range(_NODES.size):
            z = s + 0.5 * (1.0 + _NODES[node]) * step
            k = _log_moment(z, form) + tilt * z + offset
            measure = 0.5 * _NODE_WEIGHTS[node] * step / (z * (1.0 - z))
            mass += sign * (cmath.exp(k - base) * measure).imag
            if not left:
                # -expm1(a + ib), free of cancellation for small a and b.
                half = math.sin(0.5 * k.imag)
                real = 2.0 * half * half - math.expm1(k.real) * math.cos(k.imag)
                gap += (complex(real, -math.exp(k.real) * math.sin(k.imag)) * measure).imag
        s += step
        level = (_log_moment(s, form) + tilt * s).real + offset
        rest = 1.0 / abs(1.0 - s)
        total = gap + _log1p(-1.0 / s).imag
        done = math.exp(level - base) * rest < _TINY * mass
        if not left:
            done = done and math.exp(level) * rest < _TINY * total
        if done:
            return (0.0 if left else total / math.pi), base + math.log(mass / math.pi), panel + 1
        slope, second, near = _slope(s, form, tilt)
        # |e^Φ| falls fastest along -conj(Φ'): the angle of that from straight up
        turn = cmath.phase(slope.conjugate() * 1.0j)
        heading = 1.0j * cmath.exp(1.0j * min(_LEAN, max(-_LEAN, turn)))
    return math.nan, math.nan, -1


@njit(cache=True, nogil=True, error_model="numpy")
def contour_overlap(
    delta: Array, lam: Array, square: Array, tv: Array, log_overlap: Array, panels: IntArray
) -> None:
    """Fill total variation and ``ln ∫ min(p1, p2)`` for n reduced pairs.

    Parameters
    ----------
    delta, lam, square : array (n, d)
        Eigenvalues of ``S1^-½ S2 S1^-½`` less one, the eigenvalues, and the squared mean shift.
    tv, log_overlap, panels : array (n,)
        Results; `panels` is -1 where the contour ran out of panels.
    """
    form = np.empty((4, delta.shape[1]))
    for n in range(delta.shape[0]):
        if not delta[n].any() and not square[n].any():
            tv[n], log_overlap[n], panels[n] = 0.0, 0.0, 0
            continue
        _load(delta[n], lam[n], square[n], False, form)
        if _slope(0.5 + 0.0j, form, 0.0)[0].real < 0.0:
            _load(delta[n], lam[n], square[n], True, form)
        start = _saddle(form, 0.0, False)
        gap, log_mass, panels[n] = _follow(form, 0.0, 0.0, start, False)
        level = _log_moment(complex(start, 0.0), form).real
        if panels[n] < 0 and level < -750.0:
            # Chernoff: too far apart for the contour, and the overlap underflows
            log_mass, panels[n] = level, 0
        if log_mass > -0.6931471805599453:
            tv[n], log_overlap[n] = gap, math.log1p(-gap)
        else:
            tv[n], log_overlap[n] = -math.expm1(log_mass), log_mass


@njit(cache=True, nogil=True, error_model="numpy")
def contour_hockey_stick(
    delta: Array, lam: Array, square: Array, epsilon: Array, out: Array, panels: IntArray
) -> None:
    """Fill ``∫ (p1 - e^eps p2)+`` for n reduced pairs and eps >= 0; see `contour_overlap`."""
    form = np.empty((4, delta.shape[1]))
    for n in range(delta.shape[0]):
        out[n], panels[n] = 0.0, 0
        if not delta[n].any() and not square[n].any():
            continue
        _load(delta[n], lam[n], square[n], False, form)
        divergence = 0.5 * (form[1] - form[3]).sum()
        if epsilon[n] > divergence:
            # The loss exceeds eps only in a tail: integrate it directly, left of the pole at 0.
            start = _saddle(form, epsilon[n], True)
            level = _log_moment(complex(start, 0.0), form).real + epsilon[n] * start
            if level < -750.0:  # Chernoff: the integral is below e^level, which underflows
                continue
            log_mass, panels[n] = _follow(form, epsilon[n], 0.0, start, True)[1:]
            out[n] = math.exp(log_mass)
            continue
        tilt, offset = epsilon[n], 0.0
        if _slope(0.5 + 0.0j, form, tilt)[0].real < 0.0:
            _load(delta[n], lam[n], square[n], True, form)
            tilt, offset = -epsilon[n], epsilon[n]
        start = _saddle(form, tilt, False)
        gap, log_mass, panels[n] = _follow(form, tilt, offset, start, False)
        level = _log_moment(complex(start, 0.0), form).real + tilt * start + offset
        if panels[n] < 0 and level < -750.0:
            log_mass, panels[n] = level, 0
        out[n] = gap if log_mass > -0.6931471805599453 else -math.expm1(log_mass)


@njit(cache=True, nogil=True, error_model="numpy")
def _two_sum(a: float, b: float) -> tuple[float, float]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@njit(cache=True, nogil=True, error_model="numpy")
def _two_product(a: float, b: float) -> tuple[float, float]:
    """Compute a product and its rounding error (Dekker) from the halves of each factor."""
    product = a * b
    t = 134217729.0 * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = 134217729.0 * b
    b_high = t - (t - b)
    b_low = b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


@njit(cache=True, nogil=True, error_model="numpy")
def _congruence(x: Array, work: Array) -> None:
    """Replace ``H + L`` by ``X (H + L) X^T``, in double-double; `work` is H, L and two scratch."""
    d = x.shape[0]
    for i in range(d):
        for j in range(d):
            total, rest = 0.0, 0.0
            for k in range(i + 1):
                product, error = _two_product(x[i, k], work[0, k, j])
                total, slip = _two_sum(total, product)
                rest += slip + error + x[i, k] * work[1, k, j]
            work[2, i, j], work[3, i, j] = _two_sum(total, rest)
    for i in range(d):
        for j in range(i + 1):
            total, rest = 0.0, 0.0
            for k in range(j + 1):
                product, error = _two_product(x[j, k], work[2, i, k])
                total, slip = _two_sum(total, product)
                rest += slip + error + x[j, k] * work[3, i, k]
            total, rest = _two_sum(total, rest)
            work[0, i, j], work[1, i, j] = total, rest
            work[0, j, i], work[1, j, i] = total, rest


@njit(cache=True, nogil=True, error_model="numpy")
def _double_cholesky(work: Array) -> None:
    """Replace the lower half of ``H + L`` by its Cholesky factor, in double-double."""
    for j in range(work.shape[1]):
        for i in range(j, work.shape[1]):
            total, rest = work[0, i, j], work[1, i, j]
            for k in range(j):
                product, error = _two_product(-work[0, i, k], work[0, j, k])
                total, slip = _two_sum(total, product)
                rest += slip + error
                rest -= work[0, i, k] * work[1, j, k] + work[1, i, k] * work[0, j, k]
            total, rest = _two_sum(total, rest)
            # One Newton step after a plain root or quotient gives the second word.
            value = math.sqrt(total) if i == j else total / work[0, j, j]
            by = value if i == j else work[0, j, j]
            product, error = _two_product(value, by)
            left = (total - product) - error + rest
            if i == j:
                by *= 2.0
            else:
                left -= value * work[1, j, j]
            work[0, i, j], work[1, i, j] = _two_sum(value, left / by)


@njit(cache=True, nogil=True, error_model="numpy")
def whiten_twice(x: Array, first: Array, difference: Array, factor: Array, shift: Array) -> None:
    """Change coordinates by X without losing digits, for an ill-conditioned pair, in place.

    Parameters
    ----------
    x : array (d, d)
        Lower triangular near-inverse of the factor of S1; its own error is harmless, since total
        variation is invariant under invertible maps.
    first, difference : array (4, d, d)
        Rows 0 and 1 hold S1, and ``S2 - S1``, as unevaluated sums; they become ``X S1 X^T`` and
        ``X (S2 - S1) X^T``. Rows 2 and 3 are scratch.
    factor : array (2, d, d)
        Becomes the Cholesky factor of ``X S2 X^T`` in its lower half; NaN if there is none.
    shift : array (2, d)
        ``mu2 - mu1`` as an unevaluated sum; row 0 becomes ``X (mu2 - mu1)``.
    """
    _congruence(x, first)
    _congruence(x, difference)
    for i in range(x.shape[0] - 1, -1, -1):
        for j in range(x.shape[0]):
            total, slip = _two_sum(first[0, i, j], difference[0, i, j])
            slip += first[1, i, j] + difference[1, i, j]
            factor[0, i, j], factor[1, i, j] = _two_sum(total, slip)
        total, rest = 0.0, 0.0
        for k in range(i + 1):
            product, error = _two_product(x[i, k], shift[0, k])
            total, slip = _two_sum(total, product)
            rest += slip + error + x[i, k] * shift[1, k]
        shift[0, i] = total + rest
    _double_cholesky(factor)
