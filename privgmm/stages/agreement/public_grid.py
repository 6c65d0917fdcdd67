"""Publish masked components on a public grid, where either neighbour could have made them.

A mask is proved for real numbers. Computed in floating point, its last bits show which numbers
went in: some outputs of one data set cannot come out of its neighbour at all. Here noise has
hundreds of bits (`privacy.noise.fine_normal`), all that follows it is done in integers, and what
comes out is rounded to a grid that depends on what is published alone. So the outcome is, but for
a chance of `misrounding_chance`, that of the real-valued mask followed by rounding, and rounding
is post-processing.

The grid of a component with lower factor C (covariance ``C C^T``): each ``C_ii`` has a mantissa of
41 bits, and p_i is the power of two at or below it. With ``C = D diag(C_11, ..)``, entries of the
unit triangle D are multiples of ``2^-40 p_i / p_j``, and entry i of the mean is one of
``2^-40 p_i``. What rounding moved in a row is corrected in the rows below it, so that
``D' = D (I + E)`` and ``m' = m + D e`` with E_ij and e_i within half a step: nearly flat components
move as little, in their own units, as round ones.

Notes
-----
*Why the shortfall is so small.* One component, a p x p matrix ``M = I + eta G``; the masked root
is A M with A lower triangular (for a lifted component the constant comes first), and its lower
factor is A K, where ``M = K Q``, Q orthogonal. Let Y be the real-valued outcome for real-valued
normal G, and Y' what is computed here. Let N be the set of outcomes y within `err` of the edge of a
cell. If Y is not in N, both are rounded to the same cell. For two neighbours let P' and Q' be the
laws of the rounded Y off N. P' is at most the law of what is computed, and lacks P(Y in N) of it;
so does Q'. Both come from restricting the laws of Y to the complement of N, and rounding, hence
satisfy the Rényi price of the mask. That is what `privacy.composition` asks of a stage with the
shortfall P(Y in N).

*How likely N is.* Row i of M, given those above it, meets their span and its complement
independently: K_ij, j < i, is normal of deviation eta, and K_ii the length of a normal vector of
p - i entries, a mixture of chi laws. No such density exceeds ``0.8 / eta``. Given the rows above
and the other entries of its row, a number that is rounded is one of these times ``A_ii`` plus a
constant. With m a bound of ``|M|`` its density in units of p_i is at most ``m / eta``, so it falls
within `err` of a multiple of 2^-40 with chance at most ``2 err (m / eta + 2^40)``.

*How small `err` is.* But for a chance of ``2.35 sqrt(p) theta`` the least singular value of M
exceeds ``eta theta`` (Sankar, Spielman and Teng, 2006, Theorem 3.3), and but for one of
``p^2 4e-33`` no entry of G exceeds 12, so that ``m = 1 + 12 p eta``. Take theta = 2^-62. If G is
known to e, then K is known to ``delta = 2 m p e / theta`` (Sun, 1991: ``|dK| <= 2 cond(M) |dM|``).
With alpha the largest ``|A_il| / A_ii`` and alpha' the largest ``|A^-1_il| A_ll``, an entry of D in
units of ``p_i / p_j`` is known to ``4 alpha p m delta / (eta theta)^2``, an entry of the mean
likewise. Errors of rows above come down through the inverse of D, in those units at most
``2 p m alpha' / (eta theta)``. In all ``err <= 32 p^4 m^3 alpha alpha' e / (eta^3 theta^4)``.
`noise_bits` makes e so small that every number is misrounded with chance at most 2^-62, and all
chances together stay below ``(p + 1)^2 2^-60``. Integers carry `_GUARD` bits more than the noise;
what they cut off is far below e.

*alpha.* Fits beyond a condition of `LARGEST_CONDITION` have no friends, and representatives lie
within 2 tau of their reference, so that ``alpha alpha' <= (p LARGEST_CONDITION exp(2 tau))^2``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array
from privgmm.privacy.noise import Randomness, WholeArray, fine_normal, whole_parts
from privgmm.stages.agreement.flatness import LARGEST_CONDITION

__all__ = [
    "GRID_BITS",
    "Gridded",
    "GriddedShapes",
    "lifted_on_grid",
    "means_on_grid",
    "misrounding_chance",
    "noise_bits",
    "shapes_on_grid",
    "weights_on_grid",
]

GRID_BITS = 40
"""Choice: steps of a trillionth of a width; what is published needs no finer ones."""
_THETA_BITS = 62
"""theta = 2^-62 of the notes: all chances of misrounding together stay below (p + 1)^2 2^-60."""
_GUARD = 256
"""Bits of integers beyond those of the noise; what they cut off is far below e of the notes."""
_LARGEST_EXPONENT = 500
"""Exponent of a published width: its square stays within the range of floats, 2^1023."""


def misrounding_chance(n_components: int, size: int) -> float:
    """Bound the chance that what is published is not what real numbers would give.

    `size` is p: the rows of the matrix that carries the noise of one component.
    """
    return n_components * (size + 1) ** 2 * 2.0**-60


def noise_bits(smallest: float, largest: float, size: int, reach: float) -> int:
    """Compute the bits of noise that keep the promise of `misrounding_chance`; see the notes.

    Parameters
    ----------
    smallest, largest : float
        Of the noise levels eta of the mask.
    size : int
        p.
    reach : float
        tau: what is masked lies within twice as much of a fit that is not nearly flat.
    """
    m = 1 + 12 * size * largest
    conditions = 2 * (math.log2(size * LARGEST_CONDITION) + 2 * reach / math.log(2))
    density = math.log2(2 * m / smallest) + GRID_BITS + 1
    error = 5 + 4 * math.log2(size) + 3 * math.log2(m / smallest) + 4 * _THETA_BITS + conditions
    return math.ceil(_THETA_BITS + density + error + math.log2(12))


class Gridded(NamedTuple):
    """A masked mixture on the public grid.

    ``weights`` (n,), not normalised; ``means`` (n, d); ``factors`` (n, d, d), lower triangular.
    """

    weights: Array
    means: Array
    factors: Array


class _Widths(NamedTuple):
    """Widths (n, d) on the grid, ``mantissas 2^(exponents - 40)``.

    Also ``ratios 2^ratio_exponents``: L_ii, which is masked, in units of p_i.
    """

    mantissas: WholeArray
    exponents: WholeArray
    ratios: WholeArray
    ratio_exponents: WholeArray


class GriddedShapes(NamedTuple):
    """Lower factors (n, d, d) on the grid, and what means are rounded with. CONFIDENTIAL.

    Only `factors` may be published.
    """

    factors: Array
    triangle: WholeArray
    widths: _Widths


def lifted_on_grid(
    weights: Array,
    means: Array,
    cholesky: Array,
    roots: Array,
    *,
    eta: float,
    reach: float,
    rng: Randomness,
) -> Gridded:
    """Mask lifted components as ``U R (I + eta G)``, U the root of each reference, on the grid.

    Parameters
    ----------
    weights, means, cholesky : arrays (n,), (n, d), (n, d, d)
        The references.
    roots : array (n, d+1, d+1)
        R, in their coordinates, in the form of `lifted_geometry.block_form`.
    eta, reach : float
        Noise level, and tau.
    rng : Randomness
    """
    n, p = len(weights), roots.shape[-1]
    bits = noise_bits(eta, eta, p, reach)
    precision = bits + _GUARD
    # the constant first, so that roots are lower triangular
    first = np.roll(np.arange(p), 1)
    triangles = roots[:, first[:, None], first]
    mantissas, exponents = whole_parts(triangles)
    unit = int(exponents[mantissas != 0].min())
    noisy, exponent = _noisy_identity(rng, n, p, eta, bits)
    product = (mantissas << np.maximum(exponents - unit, 0)) @ noisy
    pivots, triangle = _decomposed(product, exponent + unit, precision)
    widths = _widths(cholesky, pivots[:, 1:], pivots[:, :1])
    places = triangle[:, 1:, :1]
    inner = np.concatenate([places, triangle[:, 1:, 1:]], axis=2)
    spread = (_levelled(cholesky, precision) @ inner) >> precision
    factors, settled = _settled_factors(spread[:, :, 1:], widths, precision)
    moves = _in_grid_units(spread[:, :, 0], widths)
    return Gridded(
        _root_weights(weights, pivots[:, 0], precision),
        _settled_means(means, moves, settled, widths, precision),
        factors,
    )


def shapes_on_grid(cholesky: Array, *, eta: float, bits: int, rng: Randomness) -> GriddedShapes:
    """Draw lower factors of ``L (I + eta G)`` on the grid, for factors L (n, d, d)."""
    n, d, _ = cholesky.shape
    precision = bits + _GUARD
    noisy, exponent = _noisy_identity(rng, n, d, eta, bits)
    pivots, triangle = _decomposed(noisy, exponent, precision)
    one = np.full((n, 1), 1 << precision, dtype=np.object_)
    widths = _widths(cholesky, pivots, one)
    spread = (_levelled(cholesky, precision) @ triangle) >> precision
    return GriddedShapes(*_settled_factors(spread, widths, precision), widths)


def means_on_grid(
    means: Array,
    cholesky: Array,
    shapes: GriddedShapes,
    *,
    eta: float,
    bits: int,
    rng: Randomness,
) -> Array:
    """Draw ``mean + eta L g`` (n, d) on the grid of shapes that are published."""
    n, d = means.shape
    precision = bits + _GUARD
    draws, unit = fine_normal(rng, (n, d), bits)
    (mantissa,), (exponent,) = whole_parts([eta])
    steps = _shifted(mantissa * draws, exponent - unit + precision)
    moves = (_levelled(cholesky, precision) @ steps[:, :, None])[:, :, 0] >> precision
    moves = _in_grid_units(moves, shapes.widths)
    return _settled_means(means, moves, shapes.triangle, shapes.widths, precision)


def weights_on_grid(weights: Array, *, eta: float, bits: int, rng: Randomness) -> Array:
    """Draw ``max(0, w + eta g)`` (n,) in multiples of 2^-40."""
    draws, unit = fine_normal(rng, weights.shape, bits)
    (mantissa,), (exponent,) = whole_parts([eta])
    own, places = whole_parts(weights)
    precision = bits + _GUARD
    noisy = _shifted(own, places + precision) + _shifted(
        mantissa * draws, exponent - unit + precision
    )
    cells = (noisy + (1 << (precision - GRID_BITS - 1))) >> (precision - GRID_BITS)
    return _real(np.maximum(cells, 0), -GRID_BITS)


# ------------------------------------------------------------------------------- in integers


def _shift(value: int, places: int) -> int:
    return value << places if places >= 0 else value >> -places


def _shifted(values: WholeArray, places: WholeArray | int) -> WholeArray:
    """Compute ``values 2^places``, rounded down where places are negative."""
    return np.asarray(np.frompyfunc(_shift, 2, 1)(values, places), dtype=np.object_)


def _noisy_identity(
    rng: Randomness, n: int, size: int, eta: float, bits: int
) -> tuple[WholeArray, int]:
    """Draw ``I + eta G`` (n, size, size) as ``integers 2^exponent``, exactly."""
    draws, unit = fine_normal(rng, (n, size, size), bits)
    (mantissa,), (exponent,) = whole_parts([eta])
    scale = unit - exponent
    return (np.eye(size, dtype=np.int64).astype(np.object_) << scale) + mantissa * draws, -scale


def _decomposed(roots: WholeArray, exponent: int, precision: int) -> tuple[WholeArray, WholeArray]:
    """Decompose ``B B^T = D diag(pivots) D^T``: pivots (n, p), unit triangles (n, p, p).

    B is ``roots 2^exponent``; both results are in units of ``2^-precision``.
    """
    n, p, _ = roots.shape
    left = _shifted(roots @ roots.swapaxes(1, 2), 2 * exponent + precision)
    pivots = np.empty((n, p), dtype=np.object_)
    triangle = np.zeros((n, p, p), dtype=np.object_)
    for c in range(p):
        # positive but for a chance that the shortfall counts
        pivots[:, c] = np.maximum(left[:, c, c], 1)
        triangle[:, c, c] = 1 << precision
        if c + 1 == p:
            break
        below = left[:, c + 1 :, c]
        triangle[:, c + 1 :, c] = (below << precision) // pivots[:, c, None]
        outer = triangle[:, c + 1 :, c, None] * below[:, None, :]
        left[:, c + 1 :, c + 1 :] = left[:, c + 1 :, c + 1 :] - (outer >> precision)
    return pivots, triangle


def _levelled(cholesky: Array, precision: int) -> WholeArray:
    """Divide rows by their diagonals: ``L_il / L_ii`` (n, d, d) in units of ``2^-precision``."""
    mantissas, exponents = whole_parts(cholesky)
    own = np.diagonal(mantissas, axis1=1, axis2=2)[:, :, None]
    places = np.diagonal(exponents, axis1=1, axis2=2)[:, :, None]
    return np.asarray(_shifted(mantissas << precision, exponents - places) // own, dtype=np.object_)


def _rounded_root(numerator: int, denominator: int, exponent: int) -> tuple[int, int]:
    """Round ``sqrt(numerator / denominator 2^exponent)`` to ``mantissa 2^(e - 40)``."""
    length = numerator.bit_length() - denominator.bit_length() + exponent
    e = (length - 1) // 2
    places = GRID_BITS - e + 2
    shift = exponent + 2 * places
    if shift >= 0:
        root = math.isqrt((numerator << shift) // denominator)
    else:
        root = math.isqrt(numerator // (denominator << -shift))
    drop = 2
    if root >> (GRID_BITS + 3):
        e, drop = e + 1, 3
    mantissa = (root + (1 << (drop - 1))) >> drop
    if mantissa >> (GRID_BITS + 1):
        mantissa, e = mantissa >> 1, e + 1
    if abs(e) > _LARGEST_EXPONENT:
        return 1 << GRID_BITS, int(math.copysign(_LARGEST_EXPONENT, e))
    return mantissa, e


_rounded_roots = np.frompyfunc(_rounded_root, 3, 2)


def _widths(cholesky: Array, pivots: WholeArray, over: WholeArray) -> _Widths:
    """Compute ``L_ii sqrt(pivot_i / over)`` on the grid."""
    own, places = (np.diagonal(part, axis1=1, axis2=2) for part in whole_parts(cholesky))
    mantissas, exponents = _rounded_roots(own * own * pivots, over, 2 * places)
    return _Widths(mantissas, exponents, own, places - exponents)


def _in_grid_units(values: WholeArray, widths: _Widths) -> WholeArray:
    """Convert numbers (n, d) from units of L_ii to units of p_i."""
    return _shifted(values * widths.ratios, widths.ratio_exponents)


def _settled_factors(
    spread: WholeArray, widths: _Widths, precision: int
) -> tuple[Array, WholeArray]:
    """Round lower factors (n, d, d) to the grid; also the unit triangle in ``p_i / p_j``.

    `spread` is the unit triangle in units of ``L_ii / L_jj``.
    """
    n, d, _ = spread.shape
    up = _shifted(spread * widths.ratios[:, :, None], widths.ratio_exponents[:, :, None])
    triangle = _shifted(up, -widths.ratio_exponents[:, None, :]) // widths.ratios[:, None, :]
    corrections = np.zeros((n, d, d), dtype=np.object_)
    cells = np.zeros((n, d, d), dtype=np.object_)
    for i in range(d):
        corrections[:, i, i] = 1 << precision
        if i == 0:
            continue
        wanted = (triangle[:, i, None, :i] @ corrections[:, :i, :i])[:, 0] >> precision
        cells[:, i, :i], corrections[:, i, :i] = _rounded(wanted, precision)
    exponents = widths.exponents
    products = cells * widths.mantissas[:, None, :]
    places = exponents[:, :, None] - 2 * GRID_BITS + np.zeros((n, d, d), dtype=np.object_)
    diagonal = np.arange(d)
    products[:, diagonal, diagonal] = widths.mantissas
    places[:, diagonal, diagonal] = exponents - GRID_BITS
    return _real(products, places), triangle


def _settled_means(
    means: Array, moves: WholeArray, triangle: WholeArray, widths: _Widths, precision: int
) -> Array:
    """Round ``means + moves`` (n, d) to the grid; `moves` are in units of p_i."""
    n, d = moves.shape
    mantissas, exponents = whole_parts(means)
    wanted = moves + _shifted(mantissas, exponents - widths.exponents + precision)
    cells, errors = np.zeros((2, n, d), dtype=np.object_)
    for i in range(d):
        down = (triangle[:, i, :i] * errors[:, :i]).sum(axis=1) >> precision if i else 0
        cells[:, i], errors[:, i] = _rounded(wanted[:, i] + down, precision)
    return _real(cells, widths.exponents - GRID_BITS)


def _rounded(wanted: WholeArray, precision: int) -> tuple[WholeArray, WholeArray]:
    """Round to whole cells of ``2^-40``; also what that moved, in units of ``2^-precision``."""
    drop = precision - GRID_BITS
    cells = (wanted + (1 << (drop - 1))) >> drop
    return cells, (cells << drop) - wanted


def _root_weights(weights: Array, pivots: WholeArray, precision: int) -> Array:
    """Compute ``weight pivot`` (n,) as the square of a root on the grid."""
    mantissas, exponents = whole_parts(weights)
    roots, places = _rounded_roots(mantissas * pivots, 1, exponents - precision)
    return _real(roots, places - GRID_BITS) ** 2


def _float(value: int, exponent: int) -> float:
    """Round ``value 2^exponent`` to a float, at most to the largest there is."""
    excess = max(0, abs(value).bit_length() - 64)
    try:
        return math.ldexp(value >> excess, exponent + excess)
    except OverflowError:
        return math.copysign(np.finfo(np.float64).max, value)


def _real(values: WholeArray, exponents: npt.ArrayLike) -> Array:
    return np.asarray(np.frompyfunc(_float, 2, 1)(values, exponents), dtype=np.float64)
