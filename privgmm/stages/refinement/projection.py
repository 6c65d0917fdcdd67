"""Reduce an over-complete mixture to k components, and vote on which mixture fits the rows.

Splitting, merging and projecting are post-processing of public mixtures; the vote looks at the
rows once, under one price.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.data.people import People, PersonSum, one_person
from privgmm.errors import InvalidInput
from privgmm.learners.em import EM
from privgmm.mixture import Mixture
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.fixed_point import fixed_scale
from privgmm.stages.refinement.noisy_moments import (
    component_offsets,
    inverse_factors,
    log_densities,
)
from privgmm.stages.stage import RowSums

__all__ = [
    "VoteSums",
    "merged_to",
    "preferred",
    "projections",
    "split_to",
    "vote_row_sums",
    "vote_sensitivity",
    "vote_sums",
]

VoteSums = Callable[[People, Sequence[Mixture], float], tuple[IntArray, float]]
"""What `vote_sums` does; the audit puts broken ones in its place."""

_SAMPLES = 40_000
"""Choice: rows drawn from the rich mixture; they are public, so more cost time and no privacy."""
_SAMPLE_SEED = 5
"""Any number would do; a fixed one gives equal candidates for equal rich mixtures."""
_ALIKE = 1e-3
"""Choice: fits with mean log densities this near are taken for one optimum, and kept once."""


def split_to(mixture: Mixture, n_components: int) -> Mixture:
    """Split the heaviest components along their long axis until there are `n_components`."""
    weights = mixture.weights.tolist()
    means, covariances = list(mixture.means), list(mixture.covariances)
    while len(weights) < n_components:
        a = int(np.argmax(weights))
        values, vectors = np.linalg.eigh(covariances[a])
        step = 0.7 * math.sqrt(values[-1]) * vectors[:, -1]
        values[-1] /= 2
        half = (vectors * values) @ vectors.T
        weights[a] /= 2
        weights.append(weights[a])
        covariances[a] = half
        covariances.append(half)
        means.append(means[a] - step)
        means[a] = means[a] + step
    w = np.asarray(weights)
    return Mixture(w / w.sum(), np.asarray(means), np.asarray(covariances))


def merged_to(mixture: Mixture, n_components: int) -> Mixture:
    """Merge pairs down to `n_components`, the cheapest first (Runnalls, 2007)."""
    weights = mixture.weights.tolist()
    means, covariances = list(mixture.means), list(mixture.covariances)
    logs = [float(np.linalg.slogdet(c)[1]) for c in covariances]
    while len(weights) > n_components:
        best: tuple[float, int, int] | None = None
        for a in range(len(weights)):
            for b in range(a):
                joint = _joined(weights, means, covariances, a, b)
                cost = (weights[a] + weights[b]) * float(np.linalg.slogdet(joint[1])[1])
                cost -= weights[a] * logs[a] + weights[b] * logs[b]
                if best is None or cost < best[0]:
                    best = cost, a, b
        if best is None:
            raise InvalidInput(f"a mixture of {len(weights)} cannot be merged to {n_components}")
        _, a, b = best
        means[b], covariances[b] = _joined(weights, means, covariances, a, b)
        logs[b] = float(np.linalg.slogdet(covariances[b])[1])
        weights[b] += weights[a]
        for part in (weights, means, covariances, logs):
            del part[a]
    w = np.asarray(weights)
    return Mixture(w / w.sum(), np.asarray(means), np.asarray(covariances))


def _joined(
    weights: list[float], means: list[Array], covariances: list[Array], a: int, b: int
) -> tuple[Array, Array]:
    """Compute the mean and covariance of two components together."""
    total = weights[a] + weights[b]
    p, q = weights[a] / total, weights[b] / total
    gap = means[a] - means[b]
    return p * means[a] + q * means[b], (
        p * covariances[a] + q * covariances[b] + p * q * np.outer(gap, gap)
    )


def projections(
    rich: Mixture, n_components: int, *, seeds: Sequence[int] = range(1, 9), most: int = 3
) -> list[Mixture]:
    """Fit mixtures of k components to rows drawn from a rich one, by maximum likelihood.

    From several starts, and from merging; different optima, the likeliest first.
    """
    if rich.n_components <= n_components:
        return [split_to(rich, n_components)]
    sample = rich.sample(_SAMPLES, rng=_SAMPLE_SEED)
    found: list[tuple[float, Mixture]] = []
    for seed in seeds:
        try:
            fit = EM(n_components).fit(sample, rng=seed)
        except InvalidInput:
            # this start collapses on rows drawn from the rich mixture; others follow
            continue
        _keep(found, fit, sample)
    _keep(found, merged_to(rich, n_components), sample)
    found.sort(key=lambda item: -item[0])
    return [fit for _, fit in found[:most]]


def _keep(found: list[tuple[float, Mixture]], fit: Mixture, sample: Array) -> None:
    level = float(fit.log_density(sample).mean())
    if all(abs(level - other) > _ALIKE for other, _ in found):
        found.append((level, fit))


def vote_sums(people: People, candidates: Sequence[Mixture], clip: float) -> tuple[IntArray, float]:
    """Sum how much better each candidate but the first fits the rows than it does (J,); the unit.

    Of each row the differences of log density are clipped to [-C, C], divided by C and rounded to
    an integer of units; a person gives the average of these integers, rounded once more.
    CONFIDENTIAL without noise.
    """
    unit = fixed_scale(len(people))
    terms = tuple((component_offsets(one), one.means, inverse_factors(one)) for one in candidates)
    return people.total(_VoteTask(terms, clip, unit), "voting"), unit


@dataclasses.dataclass(frozen=True, eq=False)
class _VoteTask(PersonSum):
    """The votes of some persons (J,)."""

    terms: tuple[tuple[Array, Array, Array], ...]
    clip: float
    unit: float

    def __call__(self, rows: Array, starts: IntArray) -> IntArray:
        """Sum over these persons."""
        # coordinates may have overflowed: no row may be refused, or the error would reveal it
        rows = np.nan_to_num(rows)
        logs = np.empty((len(self.terms), len(rows)))
        for j, term in enumerate(self.terms):
            log_densities(rows, *term, logs[j])
        # rows so far out that both densities underflow say nothing
        with np.errstate(invalid="ignore", over="ignore"):
            differences = logs[1:] - logs[0]
        shares = np.clip(np.nan_to_num(differences, nan=0.0), -self.clip, self.clip) / self.clip
        whole = np.rint(shares * self.unit).astype(np.int64)
        sizes = np.diff(starts)
        if sizes.size < len(rows):
            whole = np.add.reduceat(whole, starts[:-1], axis=1)
            whole = (2 * whole + sizes) // (2 * sizes)
        return np.asarray(whole.sum(axis=1))


def vote_sensitivity(unit: float, n_others: int) -> float:
    """Bound how far replacing a person moves the sums: 2 each, and two units of rounding."""
    return (unit * 2 * (1 + 1e-9) + 2) * math.sqrt(n_others)


def preferred(
    people: People,
    candidates: Sequence[Mixture],
    *,
    clip: float,
    multiplier: float,
    source: NoiseSource,
) -> int:
    """Pick the candidate of largest noisy mean log density; costs one Gaussian mechanism."""
    if len(candidates) == 1:
        return 0
    sums, unit = vote_sums(people, candidates, clip)
    sigma = multiplier * vote_sensitivity(unit, sums.size)
    noisy = sums + source.discrete_gaussian(sigma, sums.size)
    return int(np.argmax(np.concatenate([[0], noisy])))


def vote_row_sums(multiplier: float, n_features: int, sums: VoteSums = vote_sums) -> RowSums:
    """Describe a vote between three Gaussians for the audit to attack; `sums` does the summing."""
    places = np.zeros((3, 1, n_features))
    places[1:, 0, 0] = -90.0
    candidates = [Mixture([1.0], place, np.eye(n_features)[None]) for place in places]

    def persons(first: Array, second: Array) -> float:
        (one, unit), (two, _) = (
            sums(one_person(rows), candidates, 2.0) for rows in (first, second)
        )
        return float(np.linalg.norm(one - two)) / vote_sensitivity(unit, one.size)

    return RowSums(
        multiplier,
        lambda rows: persons(rows[:1], rows[1:]),
        (np.stack([places[1, 0], -places[1, 0]]),),
        90.0,
        persons,
    )
