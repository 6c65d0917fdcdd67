"""Noisy sums of the first powers of rows, divided among groups: what most baselines draw.

A row is a point v of the unit ball and has shares r of k groups that sum to one: posterior
probabilities in EM, a single one in k-means or where labels are known.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from privgmm.arrays import Array, IntArray, positive
from privgmm.baselines.account import NoiseAccount
from privgmm.errors import InvalidInput
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.fixed_point import fixed_scale, rounded_sensitivity

__all__ = ["ALL_MOMENTS", "LEAST_SENSITIVITY", "GroupSums", "NoisyMoments"]

LEAST_SENSITIVITY = 2.0**16
"""In integer steps, for any number of rows; see `privgmm.privacy.curves.gaussian_curve`."""

_CHUNK = 1 << 16
"""Rows summed at a time: their powers fit into memory for any number of rows."""


@dataclasses.dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Noisy sums over all rows, per group; public.

    Parameters
    ----------
    counts : array (k,)
        Of shares.
    firsts : array (k, d)
        Of shares times points.
    seconds : array (k, d, d) or None
        Of shares times ``v v^T``; None where they were not asked for.
    deviations : tuple of float
        Standard deviation of the noise on a count, on a first and on a diagonal second moment.
    """

    counts: Array
    firsts: Array
    seconds: Array | None
    deviations: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class GroupSums:
    """Which moments are summed, and how they are weighed against each other.

    Parameters
    ----------
    scales : tuple of two or three floats
        c of ``(c0 r, c1 r v, c2 r svec(v v^T))``, for each group; none above 1. With two, needs
        ``c1 <= c0``, with three ``c1^2 <= 2 c0 c2``.

    Notes
    -----
    svec holds the upper triangle with off-diagonal entries times sqrt 2, so that inner products are
    those of matrices. With ``|v| <= 1`` and shares r that sum to one, a row's contribution has
    norm at most ``|c|``. The contributions of two rows have the inner product
    ``sum of r r' (c0^2 + c1^2 z + c2^2 z^2)``, z in [-1, 1] that of v and v', and it is never
    negative under the condition on c. So replacing a row moves the sums by at most
    ``sqrt 2 |c|`` in L2: the price of *replacing*, not of adding or removing, a row.
    """

    scales: tuple[float, ...]

    def __post_init__(self) -> None:
        c = self.scales
        if len(c) not in (2, 3):
            raise InvalidInput(f"scales must be two or three numbers, got {len(c)}")
        for value in c:
            positive(value, "every scale")
        acute = c[1] <= c[0] if len(c) == 2 else c[1] ** 2 <= 2 * c[0] * c[2]
        if max(c) > 1 or not acute:
            raise InvalidInput(
                "scales must be at most 1, with c1 <= c0 (of two) or c1^2 <= 2 c0 c2 (of three), "
                f"or the sensitivity would be larger than stated, got {c}"
            )

    @property
    def sensitivity(self) -> float:
        """``sqrt 2 |c|``, of the sums before they are rounded."""
        return math.sqrt(2) * math.hypot(*self.scales)

    def of(self, points: Array, shares: Array) -> tuple[IntArray, float]:
        """Compute integer sums (k, width) and what one unit stands for. CONFIDENTIAL.

        Every contribution is rounded by itself, so one row changes nothing but its own.

        Parameters
        ----------
        points : array (n, d)
            In the unit ball.
        shares : array (n, k)
            Of each row, at least zero and with the sum one; a function of that row alone.
        """
        unit = fixed_scale(len(points))
        d = points.shape[1]
        width = 1 + d + (d * (d + 1) // 2 if len(self.scales) == 3 else 0)
        total = np.zeros((shares.shape[1], width), dtype=np.int64)
        for start in range(0, len(points), _CHUNK):
            some = slice(start, start + _CHUNK)
            powers = self._powers(points[some])
            for j, share in enumerate(shares[some].T):
                total[j] += np.rint(unit * share[:, None] * powers).astype(np.int64).sum(axis=0)
        return total, unit

    def _powers(self, points: Array) -> Array:
        """``(c0, c1 v, c2 svec(v v^T))`` (m, width)."""
        parts = [np.full((len(points), 1), self.scales[0]), self.scales[1] * points]
        if len(self.scales) == 3:
            row, column = np.triu_indices(points.shape[1])
            weights = self.scales[2] * np.where(row == column, 1.0, math.sqrt(2))
            parts.append(points[:, row] * points[:, column] * weights)
        return np.concatenate(parts, axis=1)

    def covered(self, unit: float, size: int) -> float:
        """Bound how far one row moves this number of integer sums, in L2, rounding included."""
        return rounded_sensitivity(self.sensitivity, unit, size)

    def noisy(
        self, points: Array, shares: Array, account: NoiseAccount, source: NoiseSource
    ) -> NoisyMoments:
        """Add discrete Gaussian noise to the sums: one of the draws of `account`."""
        sums, unit = self.of(points, shares)
        sigma = account.multiplier * self.covered(unit, sums.size)
        noise = source.discrete_gaussian(sigma, sums.size).reshape(sums.shape)
        return self._read((sums + noise) / unit, points.shape[1], sigma / unit)

    def _read(self, sums: Array, d: int, deviation: float) -> NoisyMoments:
        counts, firsts = sums[:, 0] / self.scales[0], sums[:, 1 : 1 + d] / self.scales[1]
        seconds = None
        if len(self.scales) == 3:
            row, column = np.triu_indices(d)
            entries = sums[:, 1 + d :] / self.scales[2]
            seconds = np.zeros((len(sums), d, d))
            seconds[:, row, column] = entries / np.where(row == column, 1.0, math.sqrt(2))
            seconds += np.transpose(np.triu(seconds, 1), (0, 2, 1))
        return NoisyMoments(counts, firsts, seconds, tuple(deviation / c for c in self.scales))


ALL_MOMENTS = GroupSums((0.5, 0.7, 1.0))
"""Counts, first and second moments. Noise is in proportion to 1/scale: least on the second."""
