"""The noise on counts and sums: tests and Gaussian noise exactly, moves of sums by search."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import norm

from privgmm.audit.findings import Finding, within
from privgmm.privacy.curves import gaussian_curve
from privgmm.stages.agreement.votes import PrivateTest
from privgmm.stages.stage import Stage

__all__ = ["noise_of", "row_shift", "sum_noise", "tail"]


def noise_of(test: PrivateTest, *, drawn: PrivateTest | None = None) -> Finding:
    """The noise of a test against itself moved as far as one block moves the statistic.

    `test` says what is claimed, and `drawn` draws: the test itself unless a broken one is tried.
    """
    claim, law = test.noise_claim(), test if drawn is None else drawn
    worst = max(
        law.noise_delta(price.epsilon, test.sensitivity) / price.delta for price in claim.prices
    )
    return within(
        claim.name,
        "delta(epsilon) / priced <= 1",
        worst,
        1 + claim.rounding,
        "exact, at epsilon " + ", ".join(f"{price.epsilon:.3g}" for price in claim.prices),
    )


def tail(test: PrivateTest, delta: float, label: str) -> Finding:
    """Passing with the fewest votes that can, where a neighbour may never: at most delta."""
    return within(
        f"threshold, {label}",
        "P(pass | least votes that can) <= delta",
        test.pass_probability(test.least_counts()),
        delta,
        "exact, by summing the law",
    )


def row_shift(
    stage: Stage,
    *,
    n_features: int,
    label: str = "",
    tries: int = 2_000,
    rng: np.random.Generator,
) -> Finding:
    """The largest move of a stage's noisy sums that replacing a row achieves.

    Rows that the stage suggests, random rows, and a climb from the best of them; in units of the
    sensitivity that the noise covers.
    """
    worst, sums = 0.0, stage.row_sums(n_features)
    for one in sums:
        starts = [*one.starts, *(one.scale * rng.standard_normal((5, 2, n_features)))]
        best = max(starts, key=one.move)
        value, width = one.move(best), one.scale / 4
        for _ in range(tries // len(sums)):
            trial = best + width * rng.standard_normal((2, n_features))
            if (found := one.move(trial)) > value:
                best, value = trial, found
            else:
                width = max(width * 0.995, 1e-9)
        worst = max(worst, value)
    return within(
        f"{stage.kind} sums, {label}d={n_features}",
        "move of the sums / what the noise covers <= 1",
        worst,
        1 + 1e-9,
        f"{len(sums)} sums, planted rows and {tries} climbing steps",
    )


def sum_noise(multiplier: float, *, kind: str, label: str = "") -> Finding:
    """Gaussian noise of `multiplier` sensitivities: its exact delta against the Rényi price."""
    curve = gaussian_curve(multiplier)
    m = 1 / multiplier
    worst = 0.0
    for delta in (0.1, 1e-3, 1e-6, 1e-9):
        e = curve.epsilon(delta)
        exact = norm.cdf(m / 2 - e / m) - math.exp(e) * norm.cdf(-m / 2 - e / m)
        worst = max(worst, float(exact) / curve.delta(e))
    return within(
        f"{kind} noise, {label}multiplier={multiplier:.3g}",
        "delta(epsilon) / priced <= 1",
        worst,
        1.0,
        "exact",
    )
