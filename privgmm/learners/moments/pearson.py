"""Two Gaussians on a line from six moments: Pearson's polynomial, as Hardt and Price use it.

Below `univariate`, which refines what is found here. Pearson (1894) reduced the five unknowns
to the roots of one polynomial of degree nine; Hardt and Price (2015) showed that the sixth
moment picks the right one, with an error of the best possible order in the number of rows.

Notes
-----
With the overall mean at 0 and components (w_i, m_i, v_i), put ``a = -m1 m2``, ``b = m1 + m2``
and ``g = (v2 - v1) / (m2 - m1)``. The excess moments (`excess_moments`) are

    X3 = a (b + 3 g)
    X4 = a (b^2 - 2 a + 6 b g + 3 g^2)
    X5 = a (b^3 - 8 a b + 10 b^2 g + 15 b g^2 - 20 a g)
    X6 = a (16 a^2 - 12 a b^2 - 60 a b g + b^4 + 15 b^3 g + 45 b^2 g^2 + 15 b g^3)

and eliminating b and g from the first three leaves a polynomial in a. When the means coincide
a = 0 and g is infinite: there the variance has a two-point law, which X4 and X6 give.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privgmm.arrays import Array

__all__ = ["Pairs", "equal_means", "excess_moments", "pearson", "polynomial"]

_REAL = 1e-3  # an imaginary part below this share of a root is noise: sampled double roots split
_LEAST_WEIGHT, _LEAST_VARIANCE = 1e-3, 1e-4
"""Choice: smaller weights, and variances as shares of the whole, are taken for noise."""


class Pairs(NamedTuple):
    """Mixtures of two Gaussians on a line, best first: weights, means, variances, each (c, 2)."""

    weights: Array
    means: Array
    variances: Array


def excess_moments(moments: Array) -> tuple[float, float, float, float]:
    """Compute X3, X4, X5, X6 from the central moments M2 ... M6 (5,).

    ``X4 = M4 - 3 M2^2``, ``X5 = M5 - 10 M3 M2``, ``X6 = M6 - 15 M4 M2 + 30 M2^3``: what is left
    of each when the same Gaussian noise is added to both components.

    >>> excess_moments(np.array([1.0, 0.0, 3.0, 0.0, 15.0]))
    (0.0, 0.0, 0.0, 0.0)
    """
    m2, m3, m4, m5, m6 = (float(m) for m in moments)
    return m3, m4 - 3 * m2**2, m5 - 10 * m3 * m2, m6 - 15 * m4 * m2 + 30 * m2**3


def polynomial(x3: float, x4: float, x5: float) -> Array:
    """Return the ten coefficients of Pearson's polynomial in a, the highest power first."""
    return np.array(
        [
            8.0,
            0.0,
            28 * x4,
            -12 * x3**2,
            24 * x3 * x5 + 30 * x4**2,
            6 * x5**2 - 148 * x3**2 * x4,
            96 * x3**4 + 9 * x4**3 - 36 * x3 * x4 * x5,
            24 * x3**3 * x5 + 21 * x3**2 * x4**2,
            -32 * x3**4 * x4,
            8 * x3**6,
        ]
    )


def equal_means(moments: Array) -> Pairs:
    """Solve the branch a = 0: both means 0, variances with spread X4/3 and third moment X6/15.

    For a two-point law with deviation s and skewness k, the points are ``M2 + s (k ± r) / 2``
    with ``r = sqrt(k^2 + 4)``, and the upper one has weight ``(1 - k / r) / 2``. One or no row.
    """
    _, x4, _, x6 = excess_moments(moments)
    if not x4 > 0:
        return _pairs([])
    spread = np.sqrt(x4 / 3)
    skew = x6 / 15 / spread**3
    root = np.sqrt(skew**2 + 4)
    upper = (1 - skew / root) / 2
    low, high = float(moments[0]) + spread * (skew + np.array([-root, root])) / 2
    # sampled moments may ask for a variance below 0: the nearest mixture then has a thin part
    return _pairs([(upper, 0.0, 0.0, max(high, _LEAST_VARIANCE), max(low, _LEAST_VARIANCE))])


def pearson(moments: Array) -> Pairs:
    """Find every mixture of two that Pearson's equations allow, by how well it predicts X6.

    Parameters
    ----------
    moments : (5,)
        Central moments M2 ... M6.

    Returns
    -------
    Pairs
        Roots that give weights and variances in range; then the branch of equal means.

    Examples
    --------
    >>> w, m, v = [0.35, 0.65], [-1.3, 0.7], [0.4, 0.2]
    >>> M = [sum(p * q for p, q in zip(w, part)) for part in (
    ...     [x * x + s for x, s in zip(m, v)],
    ...     [x**3 + 3 * x * s for x, s in zip(m, v)],
    ...     [x**4 + 6 * x * x * s + 3 * s * s for x, s in zip(m, v)],
    ...     [x**5 + 10 * x**3 * s + 15 * x * s * s for x, s in zip(m, v)],
    ...     [x**6 + 15 * x**4 * s + 45 * x * x * s * s + 15 * s**3 for x, s in zip(m, v)])]
    >>> found = pearson(np.array(M))
    >>> found.means[0].round(6).tolist(), found.variances[0].round(6).tolist()
    ([-1.3, 0.7], [0.4, 0.2])
    """
    m2 = float(moments[0])
    x3, x4, x5, x6 = excess_moments(moments)
    coefficients = polynomial(x3, x4, x5)
    found: list[tuple[float, tuple[float, float, float, float, float]]] = []
    if np.isfinite(coefficients).all():
        roots = np.roots(coefficients)
        real = roots.real[np.abs(roots.imag) <= _REAL * np.abs(roots)]
        for a in real[(real > 0) & (real < m2)].tolist():
            for g in _slopes(a, x3, x4, x5):
                pair = _pair(a, g, m2, x3)
                if pair is not None:
                    b = x3 / a - 3 * g
                    sixth = a * (
                        16 * a**2
                        - 12 * a * b**2
                        - 60 * a * b * g
                        + b**4
                        + 15 * b**3 * g
                        + 45 * b**2 * g**2
                        + 15 * b * g**3
                    )
                    found.append((abs(x6 - sixth), pair))
    found.sort(key=lambda entry: entry[0])
    level = equal_means(moments)
    return Pairs(
        *(
            np.concatenate([ours, theirs])
            for ours, theirs in zip(_pairs([pair for _, pair in found]), level, strict=True)
        )
    )


def _slopes(a: float, x3: float, x4: float, x5: float) -> list[float]:
    """Find the values of g that go with a root a: from X5, and both that X3 and X4 allow."""
    slopes = []
    below = a * (4 * x3**2 - 3 * a * x4 - 2 * a**3)
    if below != 0:
        slopes.append((a**2 * x5 + 2 * a**3 * x3 + 2 * x3**3 - 3 * a * x3 * x4) / below)
    square = ((x3 / a) ** 2 - 2 * a - x4 / a) / 6
    if square > 0:
        slopes += [square**0.5, -(square**0.5)]
    return slopes


def _pair(
    a: float, g: float, m2: float, x3: float
) -> tuple[float, float, float, float, float] | None:
    """Compute (w1, m1, m2, v1, v2) of a root; None when a weight or variance is out of range."""
    b = x3 / a - 3 * g
    gap = (b**2 + 4 * a) ** 0.5
    first, second = (b - gap) / 2, (b + gap) / 2
    weight = second / gap
    variances = (m2 - a + g * first, m2 - a + g * second)
    in_range = _LEAST_WEIGHT < weight < 1 - _LEAST_WEIGHT
    if not (in_range and min(variances) > _LEAST_VARIANCE * m2):
        return None
    return weight, first, second, *variances


def _pairs(rows: list[tuple[float, float, float, float, float]]) -> Pairs:
    table = np.array(rows, dtype=float).reshape(-1, 5)
    weight = table[:, :1]
    return Pairs(np.concatenate([weight, 1 - weight], axis=1), table[:, 1:3], table[:, 3:])
