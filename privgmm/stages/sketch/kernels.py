"""Compute the parts of fitting a mixture to a sketch in compiled code; `fitting` combines them.

Layouts
-------
theta (k, 1 + d + d (d + 1) / 2)
    A mixture as free numbers, one component per row: log-weight (a common shift does not matter),
    mean, and the lower Cholesky factor row by row with the logarithm of its diagonal.
weights (k,), means (k, d), roots (k, d, d)
    The same mixture; roots are lower Cholesky factors.
frequencies (m, d); values, target, scale (2 m,)
    Numbers at m frequencies: all real parts, then all imaginary parts.
slopes (2 m, k (1 + d + d (d + 1) / 2))
    Derivatives of the values in theta.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from privgmm.arrays import Array

__all__ = [
    "FIRST_DAMPING",
    "characteristic",
    "damped_step",
    "descend",
    "next_damping",
    "prior",
    "rank_one",
    "unpack_into",
    "wave_covariance",
]

_LOGIT, _MEAN, _DIAGONAL, _OFF_DIAGONAL = 2.0, 4.0, 1.5, 2.0
"""Choice: standard deviations of the weak prior, in units of the frame."""
_DIAGONAL_CENTRE = -0.6
"""Choice: log-diagonals are centred here, at components 0.55 times as wide as all rows."""
_NARROWEST, _WIDEST = -12.0, 8.0  # log-diagonals beyond are clipped, against overflow
_NEGLIGIBLE = -40.0  # exponent
_LONGEST_STEP = 2.0
"""Choice: the most that a number of theta moves in a step, half the prior's width for a mean."""
FIRST_DAMPING = 1e-2
"""Convention of Levenberg-Marquardt: little damping at first, adapted at every step."""


@njit(cache=True, nogil=True)
def unpack_into(theta: Array, weights: Array, means: Array, roots: Array) -> None:
    """Write the mixture that theta stands for into weights, means and roots."""
    k, d = means.shape
    top = theta[:, 0].max()
    total = 0.0
    for c in range(k):
        weights[c] = math.exp(theta[c, 0] - top)
        total += weights[c]
    for c in range(k):
        weights[c] /= total
        at = 1 + d
        for i in range(d):
            means[c, i] = theta[c, 1 + i]
            for j in range(i):
                roots[c, i, j] = theta[c, at]
                at += 1
            roots[c, i, i] = math.exp(min(max(theta[c, at], _NARROWEST), _WIDEST))
            for j in range(i + 1, d):
                roots[c, i, j] = 0.0
            at += 1


@njit(cache=True, nogil=True)
def prior(theta: Array, n_features: int, pull: Array, precision: Array) -> float:
    """Compute the weak prior's cost; write minus its gradient, and its precision, flat."""
    k, width = theta.shape
    d = n_features
    level = theta[:, 0].mean()
    cost = 0.0
    for c in range(k):
        diagonal, row = 1 + d, 0
        for z in range(width):
            x = theta[c, z]
            if z == 0:
                x -= level
                p = _LOGIT**-2.0
            elif z <= d:
                p = _MEAN**-2.0
            elif z == diagonal:
                x -= _DIAGONAL_CENTRE
                p = _DIAGONAL**-2.0
                row += 1
                diagonal += row + 1
            else:
                p = _OFF_DIAGONAL**-2.0
            pull[c * width + z] = -p * x
            precision[c * width + z] = p
            cost += 0.5 * p * x * x
    return cost


@njit(cache=True, nogil=True)
def characteristic(
    weights: Array, means: Array, roots: Array, frequencies: Array, values: Array, slopes: Array
) -> None:
    """Compute ``sum_c w_c exp(i f.mu_c - |L_c' f|^2 / 2)``; derivatives if `slopes` has rows."""
    m, d = frequencies.shape
    k = len(weights)
    width = 1 + d + d * (d + 1) // 2
    real, imaginary = np.empty(k), np.empty(k)
    seen = np.empty((k, d))
    for a in range(m):
        total_real, total_imaginary = 0.0, 0.0
        for c in range(k):
            phase, square = 0.0, 0.0
            for j in range(d):
                phase += frequencies[a, j] * means[c, j]
                q = 0.0
                for i in range(j, d):
                    q += roots[c, i, j] * frequencies[a, i]
                seen[c, j] = q
                square += q * q
            size = weights[c] * math.exp(-0.5 * square)
            real[c], imaginary[c] = size * math.cos(phase), size * math.sin(phase)
            total_real += real[c]
            total_imaginary += imaginary[c]
        values[a], values[m + a] = total_real, total_imaginary
        if len(slopes) == 0:
            continue
        for c in range(k):
            at = c * width
            x, y = real[c], imaginary[c]
            slopes[a, at] = x - weights[c] * total_real
            slopes[m + a, at] = y - weights[c] * total_imaginary
            for i in range(d):
                at += 1
                slopes[a, at] = -frequencies[a, i] * y
                slopes[m + a, at] = frequencies[a, i] * x
            for i in range(d):
                for j in range(i + 1):
                    at += 1
                    t = -frequencies[a, i] * seen[c, j]
                    if i == j:
                        t *= roots[c, i, i]
                    slopes[a, at] = t * x
                    slopes[m + a, at] = t * y


@njit(cache=True, nogil=True)
def damped_step(normal: Array, downhill: Array, damping: float) -> Array:
    """Solve for a Levenberg-Marquardt step, cut to a bounded length per number."""
    damped = normal.copy()
    for b in range(len(normal)):
        damped[b, b] += damping * (normal[b, b] + 1e-6)
    step: Array = np.linalg.solve(damped, downhill)  # type: ignore[assignment]  # doubles give doubles
    length = np.abs(step).max()
    if length > _LONGEST_STEP:
        step *= _LONGEST_STEP / length
    return step


@njit(cache=True, nogil=True)
def next_damping(damping: float, gained: bool) -> float:
    """Lower the damping after a step that gained, raise it after one that did not."""
    return max(damping / 5, 1e-7) if gained else min(damping * 4, 1e6)


@njit(cache=True, nogil=True)
def descend(
    start: Array,
    frequencies: Array,
    target: Array,
    scale: Array,
    iterations: int,
    tolerance: float,
) -> tuple[Array, float]:
    """Run Levenberg-Marquardt from `start`; returns theta and its cost.

    The cost is half the sum of squares of ``(target - values) * scale``, plus the prior's. Ends
    after an iteration that gains less than `tolerance`.
    """
    d = frequencies.shape[1]
    k, width = start.shape
    n_parameters = k * width
    theta = start.copy()
    weights, means, roots = np.empty(k), np.empty((k, d)), np.empty((k, d, d))
    values, slopes = np.empty(len(target)), np.empty((len(target), n_parameters))
    none = np.empty((0, n_parameters))
    pull, precision = np.empty(n_parameters), np.empty(n_parameters)
    unpack_into(theta, weights, means, roots)
    characteristic(weights, means, roots, frequencies, values, slopes)
    residual = (target - values) * scale
    cost = 0.5 * np.dot(residual, residual) + prior(theta, d, pull, precision)
    damping = FIRST_DAMPING
    for _ in range(iterations):
        for a in range(len(target)):
            for b in range(n_parameters):
                slopes[a, b] *= scale[a]
        normal = np.dot(slopes.T, slopes)
        downhill = np.dot(slopes.T, residual) + pull
        for b in range(n_parameters):
            normal[b, b] += precision[b]
        gain = -1.0
        for _ in range(8):
            step = damped_step(normal, downhill, damping)
            new = theta + step.reshape(k, width)
            unpack_into(new, weights, means, roots)
            characteristic(weights, means, roots, frequencies, values, none)
            new_residual = (target - values) * scale
            new_cost = 0.5 * np.dot(new_residual, new_residual) + prior(new, d, pull, precision)
            if new_cost < cost:
                gain = cost - new_cost
                theta, cost, residual = new, new_cost, new_residual
            damping = next_damping(damping, gain >= 0)
            if gain >= 0:
                break
        if gain < tolerance:
            break
        characteristic(weights, means, roots, frequencies, values, slopes)
    return theta, cost


@njit(cache=True, nogil=True)
def wave_covariance(
    weights: Array, means: Array, roots: Array, frequencies: Array, values: Array, out: Array
) -> None:
    """Compute the covariance (2 m, 2 m) of one row's ``cos(f.z)``, ``sin(f.z)`` under a mixture.

    Only the lower triangle of `out` is written. `values` is what `characteristic` gives.

    Notes
    -----
    With g the characteristic function, ``2 E cos a cos b = Re g(a - b) + Re g(a + b)``,
    ``2 E sin a sin b = Re g(a - b) - Re g(a + b)`` and
    ``2 E sin a cos b = Im g(a + b) + Im g(a - b)``. Per component the two sizes are
    ``exp(-|p -+ q|^2 / 2)`` with ``p = L'a``, ``q = L'b``; their product is
    ``exp(-|p|^2 - |q|^2)``, so one exponential gives both.
    """
    m, d = frequencies.shape
    k = len(weights)
    seen = np.empty((k, d, m))
    square, own = np.zeros((k, m)), np.empty((k, m))
    cosine, sine = np.empty((k, m)), np.empty((k, m))
    for c in range(k):
        for a in range(m):
            phase = 0.0
            for j in range(d):
                phase += frequencies[a, j] * means[c, j]
                q = 0.0
                for i in range(j, d):
                    q += roots[c, i, j] * frequencies[a, i]
                seen[c, j, a] = q
                square[c, a] += 0.5 * q * q
            cosine[c, a], sine[c, a] = math.cos(phase), math.sin(phase)
            own[c, a] = math.exp(-2 * square[c, a])
    sum_real, sum_imaginary = np.empty(m), np.empty(m)
    difference_real, difference_imaginary = np.empty(m), np.empty(m)
    product = np.empty(m)
    for a in range(m):
        sum_real[: a + 1] = 0.0
        sum_imaginary[: a + 1] = 0.0
        difference_real[: a + 1] = 0.0
        difference_imaginary[: a + 1] = 0.0
        for c in range(k):
            product[: a + 1] = 0.0
            for j in range(d):
                q = seen[c, j, a]
                for b in range(a + 1):
                    product[b] += q * seen[c, j, b]
            for b in range(a + 1):
                x = product[b]
                exponent = abs(x) - square[c, a] - square[c, b]
                if exponent < _NEGLIGIBLE:
                    continue
                large = math.exp(exponent)
                small = own[c, a] * own[c, b] / large
                large *= weights[c]
                small *= weights[c]
                if x < 0:
                    large, small = small, large
                cc, ss = cosine[c, a] * cosine[c, b], sine[c, a] * sine[c, b]
                sc, cs = sine[c, a] * cosine[c, b], cosine[c, a] * sine[c, b]
                sum_real[b] += small * (cc - ss)
                sum_imaginary[b] += small * (sc + cs)
                difference_real[b] += large * (cc + ss)
                difference_imaginary[b] += large * (sc - cs)
        real, imaginary = values[a], values[m + a]
        for b in range(a + 1):
            out[a, b] = 0.5 * (difference_real[b] + sum_real[b]) - real * values[b]
            out[m + a, m + b] = 0.5 * (difference_real[b] - sum_real[b]) - imaginary * values[m + b]
            out[m + a, b] = (
                0.5 * (sum_imaginary[b] + difference_imaginary[b]) - imaginary * values[b]
            )
            out[m + b, a] = (
                0.5 * (sum_imaginary[b] - difference_imaginary[b]) - real * values[m + b]
            )


@njit(cache=True, nogil=True)
def rank_one(
    start: Array, frequencies: Array, target: Array, size: Array, power: int, iterations: int
) -> tuple[Array, float, float]:
    """Find the x for which ``factor * size * (f.x)^power`` explains most of `target` (m,).

    Returns x, the factor (1 or -1) and how much of the sum of squares is explained.
    Levenberg-Marquardt from the direction `start` at its best length.
    """
    m, d = frequencies.shape
    shape = size * np.dot(frequencies, start) ** power
    amount = np.dot(shape, target) / max(np.dot(shape, shape), 1e-300)
    factor = 1.0 if amount >= 0 else -1.0
    x = start * abs(amount) ** (1 / power)
    whole = np.dot(target, target)
    residual = target - amount * shape
    left = np.dot(residual, residual)
    slopes = np.empty((m, d))
    damping = 1e-2
    for _ in range(iterations):
        along = np.dot(frequencies, x)
        for a in range(m):
            slope = factor * size[a] * power * along[a] ** (power - 1)
            for i in range(d):
                slopes[a, i] = slope * frequencies[a, i]
        normal = np.dot(slopes.T, slopes)
        downhill = np.dot(slopes.T, residual)
        gain = -1.0
        for _ in range(6):
            damped = normal.copy()
            for i in range(d):
                damped[i, i] += damping * normal[i, i] + 1e-12
            new = x + np.linalg.solve(damped, downhill)
            new_residual = target - factor * size * np.dot(frequencies, new) ** power
            new_left = np.dot(new_residual, new_residual)
            if new_left < left:
                gain = left - new_left
                x, residual, left = new, new_residual, new_left
                damping = max(damping / 5, 1e-7)
                break
            damping *= 4
        if gain < 1e-4 * (whole - left):
            break
    return x, factor, whole - left
