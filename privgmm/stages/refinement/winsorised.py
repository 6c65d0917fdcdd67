"""Winsorised moments of all rows under a public mixture, as exact integers.

They differ from the moments of `noisy_moments` in two points. Rows beyond the radius are pulled in
to it instead of being dropped (``u min(1, R / |u|)``). Every contribution is rounded to a
fixed-point integer, so that sums do not depend on the order of the rows or on the number of
threads, and noise is added to integers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import scipy

from privgmm.arrays import Array, IntArray, positive
from privgmm.data.people import People, one_person
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.fixed_point import fixed_scale, rounded_sensitivity
from privgmm.stages.refinement.noisy_moments import moment_sums
from privgmm.stages.stage import RowSums

__all__ = [
    "MomentSums",
    "WinsorisedMoments",
    "moment_row_sums",
    "moment_sensitivity",
    "noisy_moments_of",
    "variance_kept",
    "winsorised_sums",
]


@dataclasses.dataclass(frozen=True)
class WinsorisedMoments:
    """Which moments are summed, and how they are weighed against each other.

    Parameters
    ----------
    radius : float
        R: rows farther from a component, in its own units, are pulled in to it.
    scales : tuple of three floats
        c of ``(c0 r, c1 r v, c2 r svec(v v^T))`` with ``v = u min(1, R/|u|) / R``; needs
        ``c1^2 <= 2 c0 c2``, and none above 1.

    Notes
    -----
    Responsibilities r sum to one and ``|v| <= 1``, so a row's contribution has norm at most
    ``|c|``. For two rows it has, per component, inner product ``r r' (c0^2 + c1^2 z + c2^2 z^2)``
    with z in [-1, 1], never negative if ``c1^2 <= 2 c0 c2``: replacing a row moves the sums by at
    most ``sqrt 2 |c|``. The average over a person's rows lies in the convex hull of such
    contributions, and inner products of averages are averages of inner products: the same bound.
    """

    radius: float
    scales: tuple[float, float, float] = (0.4, 0.6, 1.0)

    def __post_init__(self) -> None:
        for value in (self.radius, *self.scales):
            positive(value, "radius and every scale")
        if max(self.scales) > 1:
            raise InvalidInput(
                f"scales must be at most 1, as the rounding takes for granted, got {self.scales}"
            )
        if self.scales[1] ** 2 > 2 * self.scales[0] * self.scales[2]:
            raise InvalidInput(
                f"scales must satisfy c1^2 <= 2 c0 c2 to keep the sensitivity, got {self.scales}"
            )

    @property
    def sensitivity(self) -> float:
        """``sqrt 2 |c|``: how far replacing one row moves the scaled sums, in L2."""
        return math.sqrt(2) * math.hypot(*self.scales)

    def units(self, d: int) -> Array:
        """Return what one scaled moment stands for (1 + d + d(d+1)/2,): ``1/c0, R/c1, R^2/c2``."""
        c0, c1, c2 = self.scales
        sizes = [1, d, d * (d + 1) // 2]
        return np.repeat([1 / c0, self.radius / c1, self.radius**2 / c2], sizes)

    def deviations(self, multiplier: float, d: int) -> Array:
        """Compute the standard deviation of the noise on each unscaled moment sum."""
        return multiplier * self.sensitivity * self.units(d)


MomentSums = Callable[[People, Mixture, WinsorisedMoments], tuple[IntArray, float]]
"""What `winsorised_sums` does; the audit puts broken ones in its place."""


def winsorised_sums(
    people: People, public: Mixture, moments: WinsorisedMoments
) -> tuple[IntArray, float]:
    """Sum scaled moments as integers (k, 1 + d + d(d+1)/2); also returns the units per one.

    CONFIDENTIAL without noise.
    """
    unit, scales = fixed_scale(len(people)), np.asarray(moments.scales)
    sums = moment_sums(people, public, moments.radius, scales, unit, winsorise=True)
    return sums, unit


def moment_sensitivity(unit: float, moments: WinsorisedMoments, size: int) -> float:
    """Bound how far replacing a person moves `size` integer sums, in L2, rounding included."""
    return rounded_sensitivity(moments.sensitivity, unit, size)


def noisy_moments_of(
    people: People,
    public: Mixture,
    moments: WinsorisedMoments,
    multiplier: float,
    source: NoiseSource,
) -> Array:
    """Draw noisy, unscaled moment sums (k, 1 + d + d(d+1)/2); costs one Gaussian mechanism.

    Discrete Gaussian noise is added to integers, so nothing rounds between rows and release.
    """
    sums, unit = winsorised_sums(people, public, moments)
    sensitivity = moment_sensitivity(unit, moments, sums.size)
    noise = source.discrete_gaussian(multiplier * sensitivity, sums.size).reshape(sums.shape)
    return (sums + noise) / unit * moments.units(public.n_features)


def variance_kept(radius: float, d: int) -> float:
    """Compute ``E min(|u|^2, R^2) / d``, u standard normal: how winsorising shrinks variances."""
    x = radius * radius
    return float((d * scipy.special.chdtr(d + 2, x) + x * scipy.special.chdtrc(d, x)) / d)


def moment_row_sums(
    multiplier: float,
    moments: WinsorisedMoments,
    public: Mixture,
    sums: MomentSums = winsorised_sums,
) -> RowSums:
    """Describe moments under a public mixture for the audit to attack; `sums` does the summing.

    The pairs to begin with lie R from a component on either side, or R from two components.
    """
    edge = np.zeros(public.n_features)
    edge[-1] = moments.radius
    centres = public.means[[0, -1]]

    def persons(first: Array, second: Array) -> float:
        (one, unit), (two, _) = (
            sums(one_person(rows), public, moments) for rows in (first, second)
        )
        return float(np.linalg.norm(one - two)) / moment_sensitivity(unit, moments, one.size)

    return RowSums(
        multiplier,
        lambda rows: persons(rows[:1], rows[1:]),
        (centres + np.stack([edge, edge]), centres[:1] + np.stack([-edge, edge])),
        moments.radius,
        persons,
    )
