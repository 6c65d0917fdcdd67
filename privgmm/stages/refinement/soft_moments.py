"""Compute softly winsorised moments of a Gaussian exactly, and the Gaussian from its moments.

A row in a component's own units u becomes ``v = u / sqrt(s + |u|^2)``, so that ``|v| < 1`` wherever
the row lies; a small softness s shows its direction only. The size of u is seen by
``psi = exp(-|u|^2 / d)``. For Gaussian u the means of v, ``v v^T`` and psi are one-dimensional
integrals, so a look through them is inverted exactly, without drawing anything.

Notes
-----
For ``u ~ N(m, diag(lambda))`` let ``A(t) = E exp(-t |u|^2)``, which is the product over j of
``(1 + 2 t lambda_j)^(-1/2) exp(-t m_j^2 / (1 + 2 t lambda_j))``, and ``b = m / (1 + 2 t lambda)``,
the mean of u under the density weighed by ``exp(-t |u|^2)``. Writing powers of ``s + |u|^2`` as
integrals of ``exp(-t (s + |u|^2))`` gives

    E v     = pi^(-1/2) integral of t^(-1/2) exp(-t s) A(t) b dt,
    E v v^T = integral of exp(-t s) A(t) (diag(lambda / (1 + 2 t lambda)) + b b^T) dt,
    E psi   = A(1/d).
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from privgmm.arrays import Array, frozen

__all__ = [
    "Expectations",
    "Gaussian",
    "Slopes",
    "best_softness",
    "expectations",
    "gaussian_of",
    "slopes_at_normal",
    "widest_softness",
]

_LOW, _HIGH, _STEP = -14.0, 12.0, 0.2
"""The trapezoidal rule in ``ln(t d)``: range and step. Measured for d = 1 to 50: a smaller step and
a wider range change no moment by 1e-6, far less than sampling."""
_SOFTEST = 20.0
"""Choice: largest softness, in units of d; rows up to some 4.5 widths out count fully."""
_GRID = 40
"""Values of the softness that are tried, between 0.02 d and the largest; by convention."""
_ITERATIONS, _CLOSE = 60, 1e-6
"""Choice: quasi-Newton steps at most, and the step at which they end."""
_LONGEST = 1.0
"""Choice: the farthest that a logarithm of a variance moves in a step."""
_FARTHEST = 3.0
"""Choice: the farthest that a mean moves in a step, in units of the component looked through."""
_EASED = 1.02
"""A step that leaves a larger gap than this times the one before is followed by shorter ones."""


class Expectations(NamedTuple):
    """Means of v (d,), of ``v v^T`` (d, d) and of psi."""

    first: Array
    second: Array
    psi: float


class Gaussian(NamedTuple):
    """A mean (d,) and a covariance (d, d), in the units of the component looked through."""

    mean: Array
    covariance: Array


class Slopes(NamedTuple):
    """What moments of the standard normal law are, and how they move with it.

    Parameters
    ----------
    level : float
        ``E v_1^2``.
    first : float
        By which a mean moves ``E v``.
    second : float
        By which a covariance moves ``E v v^T``, its trace apart.
    fourth : float
        ``E v_1^2 v_2^2``: the sampling variance of an entry of ``v v^T`` off the diagonal.
    """

    level: float
    first: float
    second: float
    fourth: float


@functools.lru_cache(maxsize=128)
def _nodes(d: int, softness: float) -> tuple[Array, Array]:
    """Return times t (q,) and weights ``t h exp(-t s)`` (q,) of the trapezoidal rule in ln t."""
    t = np.exp(np.arange(_LOW, _HIGH + _STEP / 2, _STEP)) / d
    return frozen(t), frozen(t * _STEP * np.exp(-t * softness))


def expectations(mean: Array, variances: Array, softness: float) -> Expectations:
    """Compute the moments of ``N(mean, diag(variances))``, all exact up to quadrature."""
    d = variances.size
    t, weights = _nodes(d, softness)
    spread = 1 + 2 * t[:, None] * variances
    shrunk = mean / spread
    logs = -0.5 * np.log(spread).sum(axis=1) - t * (mean * shrunk).sum(axis=1)
    mass = weights * np.exp(logs)
    first = (mass / np.sqrt(np.pi * t)) @ shrunk
    second = (shrunk * mass[:, None]).T @ shrunk
    second[np.diag_indices(d)] += mass @ (variances / spread)
    at_psi = 1 + 2 * variances / d
    psi = math.exp(-0.5 * np.log(at_psi).sum() - (mean**2 / at_psi).sum() / d)
    return Expectations(first, second, psi)


@functools.lru_cache(maxsize=1024)
def slopes_at_normal(d: int, softness: float) -> Slopes:
    """Compute the moments of the standard normal law and their derivatives there."""
    t, weights = _nodes(d, softness)
    base = (1 + 2 * t) ** (-d / 2 - 1)
    return Slopes(
        float((weights * base).sum()),
        float((weights / np.sqrt(np.pi * t) * base).sum()),
        float((weights * base / (1 + 2 * t)).sum()),
        float((weights * t * base / (1 + 2 * t)).sum()),
    )


def _choices(d: int) -> list[float]:
    return [0.0, *(d * np.geomspace(0.02, _SOFTEST, _GRID)).tolist()]


def best_softness(d: int, count: float, noise: float) -> float:
    """Choose the softness with the least error of a covariance's entry, sampling and noise.

    Parameters
    ----------
    d : int
    count : float
        Rows of the component.
    noise : float
        Standard deviation of the noise on an entry of ``svec(v v^T)``, summed, divided by `count`.
    """

    def variance(softness: float) -> float:
        slopes = slopes_at_normal(d, softness)
        return (2 * slopes.fourth / count + noise**2) / slopes.second**2

    return min(_choices(d), key=variance)


def widest_softness(d: int, count: float, noise: float, most: float) -> float:
    """Choose the largest softness that leaves a covariance with at most this noise, in Frobenius.

    A wide look counts far rows, which a narrow one hardly sees: heavy tails belong to the answer.
    Never less than `best_softness`; parameters are those there.
    """
    size = math.sqrt(d * (d + 1) / 2)
    best = best_softness(d, count, noise)
    quiet = [
        softness
        for softness in _choices(d)
        if noise * size / slopes_at_normal(d, softness).second <= most
    ]
    return max([best, *quiet])


def gaussian_of(
    moments: Expectations,
    softness: float,
    *,
    start: Gaussian | None = None,
    widths: tuple[float, float] = (0.1, 10.0),
) -> Gaussian:
    """Find the Gaussian that has these (noisy) moments, nearly the standard normal law.

    Parameters
    ----------
    moments : Expectations
        With a symmetric second moment.
    softness : float
    start : Gaussian, optional
        Where to begin; the standard normal law by default.
    widths : (float, float)
        Least and largest variance of the answer, in any direction.

    Notes
    -----
    Quasi-Newton in the mean and the logarithm of the covariance, with the derivatives at the
    standard normal law: covariances stay positive, whatever the noise. The trace comes from psi,
    all else of the covariance from ``E v v^T``, which for little softness does not know the trace.
    """
    d = moments.first.size
    slopes = slopes_at_normal(d, softness)
    low, high = np.log(widths)
    wanted = math.log(min(max(moments.psi, 1e-3), 0.999))
    mean, logs = np.zeros(d), np.zeros((d, d))
    if start is not None:
        values, vectors = np.linalg.eigh(start.covariance)
        mean, logs = start.mean, (vectors * np.log(values)) @ vectors.T
    pace, before = 1.0, math.inf
    best = Gaussian(mean, np.eye(d))
    for _ in range(_ITERATIONS):
        values, vectors = np.linalg.eigh(logs)
        values = np.clip(values, low, high)
        seen = expectations(vectors.T @ mean, np.exp(values), softness)
        mean_gap = (moments.first - vectors @ seen.first) / slopes.first
        gap = moments.second - vectors @ seen.second @ vectors.T
        gap[np.diag_indices(d)] -= np.trace(gap) / d
        gap /= slopes.second
        gap[np.diag_indices(d)] += (1 + 2 / d) * (math.log(seen.psi) - wanted)
        size = max(float(np.abs(mean_gap).max()), float(np.abs(gap).max()))
        if size < before:
            best = Gaussian(mean, (vectors * np.exp(values)) @ vectors.T)
        if size < _CLOSE:
            break
        if size > _EASED * before:
            pace *= 0.5
        before = size
        length = float(np.linalg.norm(mean_gap))
        mean = mean + pace * min(1.0, _FARTHEST / max(length, 1e-300)) * mean_gap
        gap *= pace
        longest = float(np.linalg.norm(gap, 2))
        logs = (vectors * values) @ vectors.T + gap * min(1.0, _LONGEST / max(longest, 1e-300))
    return best
