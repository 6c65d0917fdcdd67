"""The noise on counts and sums: both private tests exactly, and the refinement by search."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import norm

from privgmm.arrays import Array
from privgmm.audit.findings import Finding, within
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture
from privgmm.privacy.curves import gaussian_curve
from privgmm.privacy.noise import DiscreteGaussian, TruncatedLaplace
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.refinement.noisy_moments import Refinement, moment_sums

__all__ = ["discrete_gaussian", "refinement_noise", "refinement_shift", "tail", "truncated_laplace"]

_EPSILONS = (0.0, 0.1, 0.3, 1.0, 2.0, 4.0)


def discrete_gaussian(test: AgreementTest, *, sigma: float | None = None) -> Finding:
    """``sum (P(z) - e^epsilon P(z - 1))+`` over the integers, against the Rényi price.

    `sigma` is the scale that draws; the test's own unless a broken one is tried.
    """
    curve = gaussian_curve(test.sigma)
    law = DiscreteGaussian(test.sigma if sigma is None else sigma)
    here = law.probabilities[1:]
    moved = law.probabilities[:-1]
    worst = 0.0
    for epsilon in _EPSILONS:
        exact = float(np.maximum(here - math.exp(epsilon) * moved, 0.0).sum())
        if curve.delta(epsilon) > 1e-15:
            worst = max(worst, exact / curve.delta(epsilon))
    return within(
        f"noisy count, sigma={test.sigma:.3g}",
        "delta(epsilon) / priced <= 1",
        worst,
        1.0,
        f"exact, epsilon {_EPSILONS[0]:g} to {_EPSILONS[-1]:g}",
    )


def tail(plan: Plan, *, threshold: int | None = None) -> Finding:
    """Passing at h = 0, where a neighbour may always refuse: at most the promised delta."""
    if not isinstance(plan.test, AgreementTest):
        return truncated_laplace(plan.test.noise)
    theta = plan.test.threshold if threshold is None else threshold
    law = DiscreteGaussian(plan.test.sigma)
    return within(
        f"threshold, {plan.method}",
        "P(pass | h = 0) <= delta",
        float(law.probabilities[law.support >= theta].sum()),
        plan.budget.delta,
        "exact, by summing the law",
    )


def truncated_laplace(noise: TruncatedLaplace, *, drawn: TruncatedLaplace | None = None) -> Finding:
    """Definition C.5 at its own sensitivity: ``∫ (f(x) - e^epsilon f(x - Delta))+``.

    On both supports the ratio of densities is at most ``exp(Delta / scale)``; off the second
    everything counts. The noise that is priced and the one `drawn` may differ.
    """
    law = noise if drawn is None else drawn
    step = noise.sensitivity
    edge = -law.bound + step
    total = float(law.cdf(edge))
    # where both exist the density is largest relative to its shift left of zero: a plain sum
    grid = np.linspace(edge, law.bound, 200_001)
    gain = np.maximum(law.pdf(grid) - math.exp(noise.epsilon) * law.pdf(grid - step), 0.0)
    # rounding at a ratio of exactly e^epsilon is not a gain
    gain = np.where(gain > 1e-12 * law.pdf(grid), gain, 0.0)
    total += float(np.trapezoid(gain, grid))
    return within(
        "truncated Laplace (Definition C.5)",
        "delta(epsilon) / delta <= 1",
        total / noise.delta,
        1 + 1e-9,
        "exact off the common support, by quadrature on it",
    )


def _public(d: int, k: int, apart: float) -> Mixture:
    means = np.zeros((k, d))
    means[:, 0] = apart * np.arange(k)
    return Mixture(np.full(k, 1 / k), means, np.broadcast_to(np.eye(d), (k, d, d)))


def refinement_shift(
    refinement: Refinement, *, d: int = 2, tries: int = 2_000, rng: np.random.Generator
) -> Finding:
    """The largest move of the noisy sums that replacing a row achieves, in units of the noise.

    Rows at the cut of two far components, opposite rows of one, random rows, and a climb from
    the best of them; the account allows ``1 / multiplier``.
    """
    worst = 0.0
    for step in range(refinement.steps):
        radius = refinement.radii[step]
        deviations = refinement.deviations(step, d)
        for apart in (1.0, 3 * radius, 1e3 * radius):
            public = _public(d, 2, apart)

            def move(pair: Array, public: Mixture = public, step: int = step) -> float:
                sums = [moment_sums(row[None], public, refinement.radii[step]) for row in pair]
                gap = (sums[0] - sums[1]) / refinement.deviations(step, d)
                return float(np.linalg.norm(gap)) * refinement.multipliers[step]

            edge = radius * (1 - 1e-12) * np.eye(d)
            starts = [
                public.means + edge[:1],
                public.means + np.stack([-edge[0], edge[0]]),
                np.stack([edge[0], -edge[0]]),
                np.stack([edge[0], edge[-1]]),
                np.stack([edge[0], np.full(d, 1e9)]),
            ]
            starts += [radius * rng.standard_normal((2, d)) for _ in range(5)]
            best = max(starts, key=move)
            value = move(best)
            scale = radius / 4
            for _ in range(tries // (3 * refinement.steps)):
                trial = best + scale * rng.standard_normal((2, d))
                if (found := move(trial)) > value:
                    best, value = trial, found
                else:
                    scale = max(scale * 0.995, 1e-9)
            worst = max(worst, value)
        if not np.all(deviations > 0):
            worst = math.inf
    return within(
        f"refinement sums, d={d}",
        "move of the sums / what the noise covers <= 1",
        worst,
        1 + 1e-9,
        f"{refinement.steps} steps, planted rows and {tries} climbing steps",
    )


def refinement_noise(multiplier: float) -> Finding:
    """Gaussian noise of `multiplier` sensitivities: its exact delta against the Rényi price."""
    curve = gaussian_curve(multiplier)
    m = 1 / multiplier
    worst = 0.0
    for delta in (0.1, 1e-3, 1e-6, 1e-9):
        e = curve.epsilon(delta)
        exact = norm.cdf(m / 2 - e / m) - math.exp(e) * norm.cdf(-m / 2 - e / m)
        worst = max(worst, float(exact) / curve.delta(e))
    return within(
        f"refinement noise, multiplier={multiplier:.3g}",
        "delta(epsilon) / priced <= 1",
        worst,
        1.0,
        "exact",
    )
