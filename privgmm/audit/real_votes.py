"""Votes as they are run: `examine` itself, under every value that its noise may take."""

from __future__ import annotations

from typing import Any

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.findings import Finding, within
from privgmm.privacy.noise import DiscreteGaussian, SeededNoise, TruncatedLaplace
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.agreement.votes import AgreementTest

__all__ = ["examined_vote", "printed_vote", "vote_as_run"]

_LUCKY = 10**6
"""Noise larger than any that is drawn, and than any threshold."""
_ROUNDING = 1e-12
"""Error of a chance computed by summing the law of the noise."""
_HALVING_ERROR = 1e-9
"""Error of a chance computed from noise that was found by halving."""


class _Given(SeededNoise):
    """Noise of a given value; it records the scales that were asked for."""

    def __init__(self, value: float) -> None:
        super().__init__(np.random.default_rng(0))
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "asked", [])

    value: float
    asked: list[float]

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        """Return the value for any sigma."""
        self.asked.append(sigma)
        return np.full(size, round(self.value), dtype=np.int64)

    def laplace(self, scale: float, size: int) -> Array:
        """Return the value, and slightly less each time: a sampler may reject it and ask again."""
        self.asked.append(scale)
        return np.full(size, float(self.value) * 0.99 ** (len(self.asked) - 1))


def _agreeing(t: int, size: int) -> Array:
    """Make distances of t fits: the first `size` are alike, the others far from all."""
    distances = np.full((t, t), np.inf)
    distances[:size, :size] = 0.0
    distances[np.arange(t), np.arange(t)] = 0.0
    return distances


def vote_as_run(stage: Agreement, label: str) -> Finding:
    """Attack the test of a stage: the one with an exact account, or the printed one."""
    test: Any = stage.test
    return examined_vote(test, label) if stage.price().gate else printed_vote(test)


def examined_vote(test: AgreementTest, label: str) -> Finding:
    """Compare the chance to pass, by the real test, with the exact law.

    With one agreeing block too few nothing may pass, whatever the noise. With h to spare, the
    chance is that of the noise to reach the threshold, at the sigma that was priced.
    """
    law = DiscreteGaussian(test.sigma)
    most, worst = max(test.full, test.core), 0.0
    for spare in (-1, 0, 1, 3):
        # distances of all others are infinite, so the statistic is known: h = spare
        distances = _agreeing(test.n_blocks, most + spare)
        lucky = _Given(_LUCKY)
        passed = test.examine(distances, rng=lucky).passed
        if spare < 0:
            worst = max(worst, float(passed))
            continue
        drawn = DiscreteGaussian(lucky.asked[-1])
        # the smallest value that passes is found by halving
        low, high = -_LUCKY, _LUCKY
        if test.examine(distances, rng=_Given(low)).passed:
            high = low
        while high - low > 1:
            middle = (low + high) // 2
            if test.examine(distances, rng=_Given(middle)).passed:
                high = middle
            else:
                low = middle
        found = drawn.survival(high)
        worst = max(worst, abs(found - law.survival(test.threshold - spare)))
    return within(
        f"vote, {label}: as it is run",
        "chance to pass, off from the exact one <= 0",
        worst,
        _ROUNDING,
        "the real test, under every value of its noise",
    )


def printed_vote(test: PopulousTest) -> Finding:
    """Check Algorithm 1, lines 3 to 8: never passed below 0.8, else by the law of Def. C.5."""
    t = test.n_blocks
    law = TruncatedLaplace(2 / t, test.epsilon, test.delta)
    worst = 0.0
    for size in (int(0.7 * t), int(np.floor(t * np.sqrt(0.8))), t - 1, t):
        distances = _agreeing(t, size)
        share = (size**2 + t - size) / t**2
        lucky = _Given(law.bound)
        passed = test.examine(distances, rng=lucky).passed
        if share < 0.8:
            worst = max(worst, float(passed))
            continue
        scale = lucky.asked[-1] / law.scale
        low, high = -law.bound, law.bound
        for _ in range(200):
            middle = (low + high) / 2
            if test.examine(distances, rng=_Given(middle)).passed:
                high = middle
            else:
                low = middle
        found = float(1 - law.cdf(high / scale)) if passed else 0.0
        exact = float(1 - law.cdf(0.8 + law.bound - share))
        worst = max(worst, abs(found - exact))
    return within(
        "vote, paper: as it is run",
        "chance to pass, off from the exact one <= 0",
        worst,
        _HALVING_ERROR,
        "the real test, its noise found by halving",
    )
