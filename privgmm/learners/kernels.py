"""Compiled sweeps over the rows of one block: whitening, and the fused E+M pass.

Below `privgmm.learners.em.ascent` and `seeding`, which call them, and `em`, which compiles all of
it into one function over a range of blocks. A block is worked on in its own whitened
coordinates, where the sample mean is 0 and the sample covariance I: nothing depends on units.

Layouts
-------
points : (chunks, p, 128)
    Whitened rows, 128 per chunk, a coordinate contiguous within its chunk; p is d rounded up to an
    even number (the spare coordinate is 0), so that loops run on 2 x 2 tiles.
weights (k,), means (k, d), roots (k, d, d)
    A mixture; roots are the lower Cholesky factors L_j of its covariances.

Notes
-----
Fast-math is limited to reassociation and contraction: NaN and infinity keep their meaning, and
every test of a pivot is written so that NaN fails it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from privgmm.arrays import Array

__all__ = [
    "CHUNK",
    "FITTED",
    "NOT_FINITE",
    "OUT_OF_RANGE",
    "RANK_DEFICIENT",
    "cholesky",
    "compiled",
    "e_and_m",
    "merged",
    "spread_stride",
    "sweep",
    "whiten",
]

FITTED, NOT_FINITE, OUT_OF_RANGE, RANK_DEFICIENT = 0, 1, 2, 3
"""How the fit of a block ended, as a kernel says it; learners add numbers of their own from 8."""

CHUNK = 128
"""Rows per chunk, see the layouts. `e_and_m` multiplies a chunk's shares: k^128 must be finite."""

_LOG2_E = 1.4426950408889634  # 1 / ln 2
_LN2_HIGH = 0.6931471803691238  # ln 2 in two words: products of this one with integers are exact
_LN2_LOW = 1.9082149292705877e-10  # the rest of ln 2
_ROUNDER = 6755399441055744.0  # 1.5 * 2^52: adding it leaves the nearest integer in the low bits
_LOWEST = -700.0  # exp(-700) is still a normal number

_LARGEST = 1e140  # squares, and squares of what is a billion times thinner, stay normal numbers
_CONSTANT = 2e-15  # a column that varies less than this share of its size is rounding
_DEPENDENT = 1e-12  # a column whose new part is below this share of it adds no dimension

compiled = njit(nogil=True, error_model="numpy")
merged = njit(nogil=True, error_model="numpy", inline="always")
sweep = njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "arcp"})


@intrinsic
def _bits(_typing: Any, _number: Any) -> Any:
    """Return the 64 bits of a float64 as an int64."""

    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), build


@intrinsic
def _number(_typing: Any, _bits: Any) -> Any:
    """Return the float64 made of the 64 bits of an int64: the inverse of `_bits`."""

    def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.int64), build


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _exp(x: float) -> float:
    """Compute e^x for x <= 0, to 1e-14, without a branch, so that loops over it vectorise.

    ``x = n ln 2 + r`` with ``|r| <= ln(2)/2``; a Taylor polynomial in r, and n added to the
    exponent bits. Reassociation must stay off here: it would cancel the rounding constant.
    """
    x = x if x > _LOWEST else _LOWEST
    shifted = x * _LOG2_E + _ROUNDER
    n = shifted - _ROUNDER
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    y = 2.505210838544172e-08
    y = y * r + 2.755731922398589e-07
    y = y * r + 2.7557319223985893e-06
    y = y * r + 2.48015873015873e-05
    y = y * r + 0.0001984126984126984
    y = y * r + 0.001388888888888889
    y = y * r + 0.008333333333333333
    y = y * r + 0.041666666666666664
    y = y * r + 0.16666666666666666
    y = y * r + 0.5
    y = y * r + 1.0
    y = y * r + 1.0
    return float(_number(_bits(y) + (_bits(shifted) << 52)))


@compiled
def spread_stride(s: int) -> int:
    """Find a step near the golden section of s and prime to it: prefixes are spread over s."""
    stride = max(1, int(0.6180339887498949 * s))
    while True:
        a, b = stride, s
        while b:
            a, b = b, a % b
        if a == 1:
            return stride
        stride += 1


@compiled
def cholesky(matrix: Array, size: int, floor: float) -> bool:
    """Replace the leading square by its lower Cholesky factor; False if a pivot is <= floor."""
    for a in range(size):
        for b in range(a + 1):
            total = matrix[a, b]
            for c in range(b):
                total -= matrix[a, c] * matrix[b, c]
            if b < a:
                matrix[a, b] = total / matrix[b, b]
            elif total > floor and total < np.inf:
                matrix[a, a] = np.sqrt(total)
            else:
                return False
        for b in range(a + 1, size):
            matrix[a, b] = 0.0
    return True


@sweep
def whiten(block: Array, first: int, stride: int, points: Array, mean: Array, root: Array) -> int:
    """Fill `points` so that row i of the block is ``mean + root @ point``; 0 or why not.

    Rows are taken in the order first, first + stride, ... (mod s), so that a prefix of the
    chunks is a spread-out subsample. Gram-Schmidt, each column twice, keeps full accuracy at
    condition numbers whose square is far beyond 1 / machine epsilon; no covariance is formed.
    """
    s, d = block.shape
    chunks, _, c = points.shape
    for a in range(d):
        origin = block[0, a]
        total, largest = 0.0, 0.0
        at = first
        for chunk in range(chunks):
            for i in range(min(c, s - chunk * c)):
                value = block[at, a]
                if not np.isfinite(value):
                    return NOT_FINITE
                largest = max(largest, abs(value))
                points[chunk, a, i] = value - origin
                total += points[chunk, a, i]
                at += stride
                if at >= s:
                    at -= s
        centre = total / s
        scale = 0.0
        for chunk in range(chunks):
            for i in range(min(c, s - chunk * c)):
                points[chunk, a, i] -= centre
                scale = max(scale, abs(points[chunk, a, i]))
        if not (largest < _LARGEST and (scale > 1.0 / _LARGEST or scale == 0.0)):
            return OUT_OF_RANGE
        if scale <= _CONSTANT * largest:
            return RANK_DEFICIENT
        norm = 0.0
        for chunk in range(chunks):
            for i in range(min(c, s - chunk * c)):
                points[chunk, a, i] /= scale
                norm += points[chunk, a, i] ** 2
        before = np.sqrt(norm / s)
        offset = 0.0
        for b in range(d):
            root[a, b] = 0.0
        # twice is enough: the second projection removes what rounding left of the first
        for _ in range(2):
            for b in range(-1, a):
                total = 0.0
                for chunk in range(chunks):
                    m = min(c, s - chunk * c)
                    if b < 0:
                        for i in range(m):
                            total += points[chunk, a, i]
                    else:
                        for i in range(m):
                            total += points[chunk, a, i] * points[chunk, b, i]
                total /= s
                for chunk in range(chunks):
                    m = min(c, s - chunk * c)
                    if b < 0:
                        for i in range(m):
                            points[chunk, a, i] -= total
                    else:
                        for i in range(m):
                            points[chunk, a, i] -= total * points[chunk, b, i]
                if b < 0:
                    offset += total
                else:
                    root[a, b] += total * scale
        norm = 0.0
        for chunk in range(chunks):
            for i in range(min(c, s - chunk * c)):
                norm += points[chunk, a, i] ** 2
        length = np.sqrt(norm / s)
        if not length > _DEPENDENT * before:
            return RANK_DEFICIENT
        for chunk in range(chunks):
            for i in range(min(c, s - chunk * c)):
                points[chunk, a, i] /= length
        root[a, a] = length * scale
        if not root[a, a] > 1.0 / _LARGEST:
            return OUT_OF_RANGE
        mean[a] = origin + (centre + offset * scale)
    return FITTED


@sweep
def e_and_m(
    points: Array,
    n: int,
    inverse: Array,
    bias: Array,
    height: Array,
    y: Array,
    r: Array,
    top: Array,
    share: Array,
    counts: Array,
    first: Array,
    second: Array,
    heavy: bool,
) -> float:
    """Make one pass over the first n points: log-likelihood, and the moments of the M step.

    With ``y = W_j x + bias_j`` the component's own whitened coordinates and ``r`` the posterior
    probability of component j, sums ``r``, ``r y`` and the lower half of ``r y y^T``. Loops run
    over whole chunks, which leaves no remainder; what lies beyond n gets probability 0.

    Parameters
    ----------
    inverse : (k, p, p)
        W_j, the inverses of the roots, zero above the diagonal and in the spare coordinate.
    bias : (k, p)
        ``-W_j mu_j``.
    height : (k,)
        ``ln w_j - ln det L_j - d ln(2 pi) / 2``.
    y : (k + 1, p, 128), r : (k, 128), top : (128,), share : (128,)
        Scratch; the last slab of y holds ``r y`` of two coordinates.
    counts : (k,), first : (k, p), second : (k, p, p)
        The sums.
    heavy : bool
        For moments of order 3 and 4: sum ``r^2``, ``r |y|^2 y`` and ``r |y|^2 y y^T`` instead.
    """
    k, p = bias.shape
    c = points.shape[2]
    for j in range(k):
        counts[j] = 0.0
        for a in range(p):
            first[j, a] = 0.0
            for b in range(p):
                second[j, a, b] = 0.0
    loglik = 0.0
    for chunk in range((n + c - 1) // c):
        for j in range(k):
            h = height[j]
            for a in range(0, p, 2):
                b0, b1 = bias[j, a], bias[j, a + 1]
                for b in range(0, a, 2):
                    w00, w01 = inverse[j, a, b], inverse[j, a, b + 1]
                    w10, w11 = inverse[j, a + 1, b], inverse[j, a + 1, b + 1]
                    if b == 0:
                        for i in range(c):
                            x0, x1 = points[chunk, b, i], points[chunk, b + 1, i]
                            y[j, a, i] = b0 + w00 * x0 + w01 * x1
                            y[j, a + 1, i] = b1 + w10 * x0 + w11 * x1
                    else:
                        for i in range(c):
                            x0, x1 = points[chunk, b, i], points[chunk, b + 1, i]
                            y[j, a, i] += w00 * x0 + w01 * x1
                            y[j, a + 1, i] += w10 * x0 + w11 * x1
                w00, w10, w11 = inverse[j, a, a], inverse[j, a + 1, a], inverse[j, a + 1, a + 1]
                if a == 0:
                    for i in range(c):
                        x0, x1 = points[chunk, 0, i], points[chunk, 1, i]
                        y0 = b0 + w00 * x0
                        y1 = b1 + w10 * x0 + w11 * x1
                        y[j, 0, i], y[j, 1, i] = y0, y1
                        r[j, i] = h - 0.5 * (y0 * y0 + y1 * y1)
                else:
                    for i in range(c):
                        x0, x1 = points[chunk, a, i], points[chunk, a + 1, i]
                        y0 = y[j, a, i] + w00 * x0
                        y1 = y[j, a + 1, i] + w10 * x0 + w11 * x1
                        y[j, a, i], y[j, a + 1, i] = y0, y1
                        r[j, i] -= 0.5 * (y0 * y0 + y1 * y1)
            if j == 0:
                for i in range(c):
                    top[i] = r[0, i]
            else:
                for i in range(c):
                    now, best = r[j, i], top[i]
                    top[i] = now if now > best else best
        for i in range(c):
            share[i] = 0.0
        for j in range(k):
            for i in range(c):
                r[j, i] = _exp(r[j, i] - top[i])
                share[i] += r[j, i]
        filled = min(c, n - chunk * c)
        for i in range(filled, c):
            top[i], share[i] = 0.0, 1.0
        # 128 factors between 1 and k: their product stays finite, and one logarithm suffices
        product = 1.0
        for i in range(c):
            loglik += top[i]
            product *= share[i]
            share[i] = 1.0 / share[i]
        for i in range(filled, c):
            share[i] = 0.0
        loglik += np.log(product)
        for j in range(k):
            if heavy:
                for i in range(c):
                    top[i] = 0.0
                for a in range(p):
                    for i in range(c):
                        top[i] += y[j, a, i] ** 2
                for i in range(c):
                    here = r[j, i] * share[i]
                    counts[j] += here * here
                    r[j, i] *= top[i]
            for a in range(0, p, 2):
                if a == 0:
                    total, f0, f1, s00, s10, s11 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
                    for i in range(c):
                        here = r[j, i] * share[i]
                        r[j, i] = here
                        y0, y1 = y[j, 0, i], y[j, 1, i]
                        total += here
                        f0 += here * y0
                        f1 += here * y1
                        s00 += here * y0 * y0
                        s10 += here * y0 * y1
                        s11 += here * y1 * y1
                    if not heavy:
                        counts[j] += total
                else:
                    f0, f1, s00, s10, s11 = 0.0, 0.0, 0.0, 0.0, 0.0
                    for i in range(c):
                        y0, y1 = y[j, a, i], y[j, a + 1, i]
                        z0, z1 = r[j, i] * y0, r[j, i] * y1
                        y[k, 0, i], y[k, 1, i] = z0, z1
                        f0 += z0
                        f1 += z1
                        s00 += z0 * y0
                        s10 += z0 * y1
                        s11 += z1 * y1
                first[j, a] += f0
                first[j, a + 1] += f1
                second[j, a, a] += s00
                second[j, a + 1, a] += s10
                second[j, a + 1, a + 1] += s11
                for b in range(0, a, 2):
                    s00, s01, s10, s11 = 0.0, 0.0, 0.0, 0.0
                    for i in range(c):
                        z0, z1 = y[k, 0, i], y[k, 1, i]
                        y0, y1 = y[j, b, i], y[j, b + 1, i]
                        s00 += z0 * y0
                        s01 += z0 * y1
                        s10 += z1 * y0
                        s11 += z1 * y1
                    second[j, a, b] += s00
                    second[j, a, b + 1] += s01
                    second[j, a + 1, b] += s10
                    second[j, a + 1, b + 1] += s11
    return loglik
