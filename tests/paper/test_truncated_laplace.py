"""Definition C.5 and Theorem C.6: truncated Laplace noise, its bound and its exact price."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest

from privgmm.privacy.noise import SecureNoise, TruncatedLaplace

FOUR_SIGMA = 6.3e-5

LAWS = [
    TruncatedLaplace(sensitivity, epsilon, delta)
    for sensitivity in (0.002, 0.4, 3.0)
    for epsilon in (0.05, 0.231, 1.0, 4.0)
    for delta in (1e-9, 1e-3, 0.2)
]


def law_name(law: TruncatedLaplace) -> str:
    return f"{law.sensitivity:g}-{law.epsilon:g}-{law.delta:g}"


def hockey_stick(law: TruncatedLaplace, shift: float, epsilon: float) -> float:
    """``∫ max(f(x) - e^epsilon f(x - shift), 0) dx``, between all points where f bends."""
    bends = [0.0, shift]
    for centre in (0.0, shift):
        bends += [centre - law.bound, centre + law.bound]
    # far below the kinks the density varies over many powers of e: a few scales at a time
    edges = sorted({*bends, *np.linspace(min(bends), max(bends), 60).tolist()})
    factor = math.exp(epsilon)

    def gain(x: float) -> float:
        return max(float(law.pdf(x)) - factor * float(law.pdf(x - shift)), 0.0)

    nodes, weights = np.polynomial.legendre.leggauss(12)
    total = 0.0
    for low, high in itertools.pairwise(edges):
        half, middle = (high - low) / 2, (high + low) / 2
        total += half * sum(
            w * gain(middle + half * x) for x, w in zip(nodes, weights, strict=True)
        )
    return total


@pytest.mark.parametrize("law", LAWS, ids=law_name)
def test_the_density_is_that_of_the_definition(law: TruncatedLaplace) -> None:
    scale = law.sensitivity / law.epsilon
    bound = scale * math.log(1 + (math.exp(law.epsilon) - 1) / (2 * law.delta))
    height = 1 / (2 * scale * (1 - math.exp(-bound / scale)))
    assert law.bound == pytest.approx(bound, rel=1e-12)
    for x in np.linspace(-0.999 * bound, 0.999 * bound, 11):
        assert float(law.pdf(x)) == pytest.approx(height * math.exp(-abs(x) / scale), rel=1e-12)
    assert law.pdf([-1.0001 * bound, 1.0001 * bound]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("law", LAWS, ids=law_name)
def test_the_density_integrates_to_the_cumulative_law(law: TruncatedLaplace) -> None:
    density: Callable[[float], float] = lambda x: float(law.pdf(x))  # noqa: E731
    for share in (-0.9, -0.3, 0.0, 0.2, 1.0):
        mass = 0.0
        edges = [-law.bound, *np.linspace(-law.bound, share * law.bound, 12)[1:]]
        if share > 0:
            edges = sorted([*edges, 0.0])
        for low, high in itertools.pairwise(edges):
            mass += quad(density, low, high, epsabs=1e-14)[0]
        assert float(law.cdf(share * law.bound)) == pytest.approx(mass, abs=1e-11)
    assert float(law.cdf(-2 * law.bound)) == 0.0
    assert float(law.cdf(2 * law.bound)) == 1.0


@pytest.mark.parametrize("law", LAWS[::2], ids=law_name)
def test_shifted_copies_are_epsilon_delta_close_at_every_shift(law: TruncatedLaplace) -> None:
    for share in (0.01, 0.3, 0.77, 1.0):
        for sign in (-1, 1):
            delta = hockey_stick(law, sign * share * law.sensitivity, law.epsilon)
            # where the ratio is exactly e^epsilon the difference is rounding
            assert delta <= law.delta * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("law", LAWS[::2], ids=law_name)
def test_the_price_is_attained_and_no_smaller_noise_would_do(law: TruncatedLaplace) -> None:
    assert hockey_stick(law, law.sensitivity, law.epsilon) == pytest.approx(
        law.delta, rel=1e-9, abs=1e-15
    )
    smaller = TruncatedLaplace(0.98 * law.sensitivity, law.epsilon, law.delta)
    assert hockey_stick(smaller, law.sensitivity, law.epsilon) > law.delta * 1.01


@pytest.mark.parametrize("law", LAWS[1::4], ids=law_name)
@pytest.mark.parametrize("secure", [False, True], ids=["seeded", "cryptographic"])
def test_draws_follow_the_law_and_never_pass_the_bound(law: TruncatedLaplace, secure: bool) -> None:
    size = 1_500 if secure else 20_000
    draws = law.sample(size, rng=SecureNoise() if secure else 17)
    assert draws.shape == (size,)
    assert np.abs(draws).max() <= law.bound
    assert kstest(law.cdf(draws), "uniform").pvalue > FOUR_SIGMA


def test_the_check_would_notice_another_law() -> None:
    law = TruncatedLaplace(1.0, 1.0, 0.01)
    other = TruncatedLaplace(1.15, 1.0, 0.01)
    assert kstest(law.cdf(other.sample(20_000, rng=3)), "uniform").pvalue < FOUR_SIGMA
