"""Noisy EM on winsorised moments: M steps whose sums carry noise, averaged over steps.

For rows that are not a Gaussian mixture. Every step costs one Gaussian mechanism. What a step may
do is bounded by construction, so that no noise makes a mixture diverge: means move by at most two
standard deviations, eigenvalues of a covariance change by bounded factors, and what is small
compared with its noise is shrunk towards what it was.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from privgmm.arrays import Array
from privgmm.data.people import People
from privgmm.mixture import Mixture, cholesky_of_root
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.refinement.winsorised import WinsorisedMoments, noisy_moments_of, variance_kept

__all__ = ["NoisyEM", "averaging"]

_SHRINK, _STRETCH = 0.15, 6.0
"""Choice: bounds of an eigenvalue after a step, in units of what it was before."""
_FARTHEST = 2.0
"""Choice: the farthest that a mean moves in a step, in standard deviations of its component."""
_LEAST_WEIGHT = 1e-4
"""Choice: no component gets less weight, so that later steps can still find rows for it."""


def averaging(steps: int, averaged: int) -> tuple[float, ...]:
    """List how much each step counts: the first ones fully, the last ones as a running average.

    >>> averaging(4, 2)
    (1.0, 1.0, 0.5, 0.3333333333333333)
    """
    return (1.0,) * (steps - averaged) + tuple(1 / (i + 2) for i in range(averaged))


@dataclasses.dataclass
class _Statistics:
    """Sufficient statistics in the coordinates of the rows: N, N mu, N (Sigma + mu mu^T)."""

    counts: Array
    firsts: Array
    seconds: Array
    variance: float = 1.0

    def mixed(self, fresh: _Statistics, share: float) -> _Statistics:
        """Average these statistics with new ones, and compute the variance of the noise."""
        keep = 1 - share
        return _Statistics(
            keep * self.counts + share * fresh.counts,
            keep * self.firsts + share * fresh.firsts,
            keep * self.seconds + share * fresh.seconds,
            keep**2 * self.variance + share**2,
        )


class NoisyEM:
    """Noisy M steps from a public mixture.

    Parameters
    ----------
    people : People
        With rows in the coordinates of the mixture.
    start : Mixture
    moments : WinsorisedMoments
    multiplier : float
        Noise of each step, in units of the sensitivity of its sums.
    source : NoiseSource
    """

    def __init__(
        self,
        people: People,
        start: Mixture,
        moments: WinsorisedMoments,
        *,
        multiplier: float,
        source: NoiseSource,
    ) -> None:
        self.people, self.mixture, self.moments = people, start, moments
        self.multiplier, self.source = multiplier, source
        self._known: _Statistics | None = None

    def run(self, shares: tuple[float, ...]) -> Mixture:
        """Run one step per share and return the mixture after the last."""
        for share in shares:
            self._step(share)
        return self.mixture

    def _step(self, share: float) -> None:
        public = self.mixture
        d = public.n_features
        noisy = noisy_moments_of(self.people, public, self.moments, self.multiplier, self.source)
        fresh = _in_row_coordinates(public, noisy, variance_kept(self.moments.radius, d))
        known = self._known
        self._known = fresh if known is None or share >= 1 else known.mixed(fresh, share)
        deviations = self.moments.deviations(self.multiplier, d) * math.sqrt(self._known.variance)
        self.mixture = _m_step(public, self._known, deviations, len(self.people))


def _in_row_coordinates(public: Mixture, noisy: Array, kept: float) -> _Statistics:
    """Turn moments in each component's own coordinates into those of the rows."""
    k, d = public.means.shape
    row, column = np.triu_indices(d)
    counts = noisy[:, 0]
    shifts = np.einsum("kij,kj->ki", public.cholesky, noisy[:, 1 : 1 + d])
    own = np.zeros((k, d, d))
    own[:, row, column] = noisy[:, 1 + d :] / np.where(row == column, 1.0, math.sqrt(2)) / kept
    own = own + np.transpose(np.triu(own, 1), (0, 2, 1))
    spread = public.cholesky @ own @ np.transpose(public.cholesky, (0, 2, 1))
    means = public.means
    cross = means[:, :, None] * shifts[:, None, :]
    seconds = counts[:, None, None] * means[:, :, None] * means[:, None, :]
    return _Statistics(
        counts,
        counts[:, None] * means + shifts,
        seconds + cross + np.transpose(cross, (0, 2, 1)) + spread,
    )


def _m_step(public: Mixture, known: _Statistics, deviations: Array, n: int) -> Mixture:
    """Make the next mixture: shrunk where noise exceeds the sums, bounded in every move."""
    k, d = public.means.shape
    of_count, of_mean, of_second = deviations[0], deviations[1], deviations[-1]
    weights = np.empty(k)
    means, roots = public.means.copy(), public.cholesky.copy()
    for a in range(k):
        # a noisy count may be near zero or negative: nothing is divided by less than its noise
        count = max(float(known.counts[a]), 0.0)
        weights[a] = max(count, 0.5 * of_count, _LEAST_WEIGHT * n)
        rows = max(count, of_count, 1.0)
        mean, inverse = public.means[a], np.linalg.inv(public.cholesky[a])
        shift = inverse @ (known.firsts[a] - known.counts[a] * mean) / rows
        # a move is shrunk by the share of noise in it
        shift *= count / (count + of_mean)
        centred = (
            known.seconds[a]
            - np.outer(known.firsts[a], mean)
            - np.outer(mean, known.firsts[a])
            + known.counts[a] * np.outer(mean, mean)
        )
        own = inverse @ centred @ inverse.T / rows - np.outer(shift, shift)
        trust = count / (count + of_second)
        own = trust * own + (1 - trust) * np.eye(d)
        values, vectors = np.linalg.eigh((own + own.T) / 2)
        # noise spreads eigenvalues, so the least ones come out too small
        floor = max(_SHRINK, min(0.7, 2 * of_second / rows))
        values = np.clip(values, floor, _STRETCH)
        length = float(np.linalg.norm(shift))
        if length > _FARTHEST:
            shift *= _FARTHEST / length
        means[a] = mean + public.cholesky[a] @ shift
        roots[a] = public.cholesky[a] @ (vectors * np.sqrt(values)) @ vectors.T
    return Mixture.from_roots(weights / weights.sum(), means, cholesky_of_root(roots))
