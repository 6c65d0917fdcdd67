"""Sources of randomness and the discrete Gaussian."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chisquare, kstest

from privgmm.audit.secure import secure_spread
from privgmm.errors import InvalidInput
from privgmm.privacy.noise import (
    DiscreteGaussian,
    NoiseSource,
    SecureNoise,
    SeededNoise,
    TruncatedLaplace,
    noise_source,
)

FOUR_SIGMA = 6.3e-5
SIGMAS = (0.3, 1.0, 4.7, 60.0)


def both() -> list[NoiseSource]:
    return [SecureNoise(), SeededNoise(np.random.default_rng(5))]


def ids(source: NoiseSource) -> str:
    return type(source).__name__


@pytest.mark.parametrize("source", both(), ids=ids)
def test_every_source_draws_the_laws_it_names(source: NoiseSource) -> None:
    size = 2_000
    assert kstest(source.normal(size), "norm").pvalue > FOUR_SIGMA
    assert kstest(source.laplace(0.25, size) / 0.25, "laplace").pvalue > FOUR_SIGMA
    law = DiscreteGaussian(1.3)
    draws = source.discrete_gaussian(1.3, size)
    bins = np.array([-2, -1, 0, 1, 2])
    expected = [law.probabilities[law.support == z][0] for z in bins]
    expected = [*expected, 1 - sum(expected)]
    seen = [int(np.count_nonzero(draws == z)) for z in bins]
    seen = [*seen, size - sum(seen)]
    assert chisquare(seen, np.array(expected) * size).pvalue > FOUR_SIGMA


@pytest.mark.parametrize("law", ["discrete Gaussian", "wide discrete Gaussian", "fine normal"])
def test_a_tenth_less_secure_noise_would_show(law: str) -> None:
    """The audit's own check, on fewer draws; `make audit` takes 100,000 of each law."""
    (found,) = secure_spread(draws=5_000, only=law)
    assert found.passed
    # a tenth less noise is a fifth less variance: nine standard errors
    assert 0.19 / math.sqrt(2 / 5_000) > found.limit + 4


@pytest.mark.study
def test_the_variance_of_a_hundred_thousand_secure_draws() -> None:
    for found in secure_spread(draws=100_000):
        assert found.passed, found


@pytest.mark.parametrize("sigma", [1.1e4, 3e9, 1e13])
@pytest.mark.parametrize("source", both(), ids=ids)
def test_wide_discrete_gaussians_are_drawn_without_a_table(
    source: NoiseSource, sigma: float
) -> None:
    """Beyond 32 bits too: no draw is cut off, and the law is nearly the continuous one."""
    size = 4_000
    draws = source.discrete_gaussian(sigma, size)
    assert draws.dtype == np.int64
    assert draws.shape == (size,)
    assert kstest(draws / sigma, "norm").pvalue > FOUR_SIGMA
    assert abs(np.var(draws / sigma) - 1) < 4 * math.sqrt(2 / size)
    # whole numbers of both kinds, not multiples of what a wide float can hold
    assert abs(np.mean(draws % 2) - 0.5) < 4 * 0.5 / math.sqrt(size)


def test_wide_seeded_draws_repeat_and_have_a_limit() -> None:
    first, second = noise_source(4), noise_source(4)
    assert np.array_equal(first.discrete_gaussian(2e9, 7), second.discrete_gaussian(2e9, 7))
    for sigma in (1e17, np.inf):
        with pytest.raises(InvalidInput, match="sigma"):
            first.discrete_gaussian(sigma, 1)


def test_rounded_normal_draws_are_as_good_as_the_table_where_they_begin() -> None:
    """Total variation between the two laws, at the smallest sigma for which draws are rounded."""
    sigma = 1e4
    law = DiscreteGaussian(sigma)
    near = np.abs(law.support) <= 9 * sigma
    z = law.support[near]
    with np.errstate(under="ignore"):
        rounded = np.abs(np.diff(ndtr(-np.abs(np.append(z - 0.5, z[-1] + 0.5)) / sigma)))
    middle = z == 0
    rounded[middle] = 1 - 2 * ndtr(-0.5 / sigma)
    assert 0.5 * np.abs(rounded - law.probabilities[near]).sum() < 1e-9


@pytest.mark.parametrize("source", both(), ids=ids)
def test_permutations_are_uniform(source: NoiseSource) -> None:
    orders = list(itertools.permutations(range(3)))
    seen = [tuple(source.permutation(3).tolist()) for _ in range(1_800)]
    assert chisquare([seen.count(order) for order in orders]).pvalue > FOUR_SIGMA


@pytest.mark.parametrize("source", both(), ids=ids)
def test_shapes_and_types(source: NoiseSource) -> None:
    assert source.normal((2, 3, 4)).shape == (2, 3, 4)
    assert source.normal(0).shape == (0,)
    assert source.discrete_gaussian(2.0, 3).dtype == np.int64
    assert source.permutation(4).dtype == np.int64
    seeds = {source.seed() for _ in range(50)}
    assert len(seeds) == 50
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_none_is_cryptographic_and_not_seeded() -> None:
    source = noise_source(None)
    assert isinstance(source, SecureNoise)
    assert not source.seeded


def test_a_seed_and_a_generator_are_marked_and_repeat() -> None:
    first, second = noise_source(11), noise_source(np.random.default_rng(11))
    assert first.seeded
    assert second.seeded
    assert np.array_equal(first.normal(5), second.normal(5))
    assert np.array_equal(first.discrete_gaussian(3.0, 5), second.discrete_gaussian(3.0, 5))
    assert first.seed() == second.seed()


def test_a_source_is_taken_as_it_is() -> None:
    source = SeededNoise(np.random.default_rng(0))
    assert noise_source(source) is source


@pytest.mark.parametrize("bad", [-1, "7", 1.5, True, [3]])
def test_what_is_no_source_is_refused(bad: object) -> None:
    with pytest.raises(InvalidInput, match="rng"):
        noise_source(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("sigma", SIGMAS)
def test_discrete_gaussian_probabilities_against_high_precision(sigma: float) -> None:
    law = DiscreteGaussian(sigma)
    with mpmath.workdps(40):
        exact = mpmath.nsum(
            lambda z: mpmath.exp(-(z**2) / (2 * mpmath.mpf(sigma) ** 2)), [-mpmath.inf, mpmath.inf]
        )
        for z in (0, 1, 2, round(3 * sigma), round(12 * sigma)):
            want = mpmath.exp(-(z**2) / (2 * mpmath.mpf(sigma) ** 2)) / exact
            have = law.probabilities[law.support == z][0]
            assert have == pytest.approx(float(want), rel=1e-11)
    assert law.probabilities.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_survival_adds_up_and_reflects(sigma: float) -> None:
    law = DiscreteGaussian(sigma)
    for z in (-5, 0, 1, 3, round(5 * sigma)):
        point = law.probabilities[law.support == z][0]
        assert law.survival(z) - law.survival(z + 1) == pytest.approx(point, rel=1e-9, abs=1e-15)
        assert law.survival(z) + law.survival(1 - z) == pytest.approx(1.0, abs=1e-12)
    assert law.survival(-(10**6)) == 1.0
    assert law.survival(10**6) == 0.0


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-6, 1e-30, 1e-200])
def test_the_upper_point_is_the_smallest_that_keeps_delta(sigma: float, delta: float) -> None:
    law = DiscreteGaussian(sigma)
    theta = law.upper_point(delta)
    assert law.survival(theta) <= delta < law.survival(theta - 1)


@pytest.mark.parametrize("sigma", [0.4, 1.0, 6.0])
@pytest.mark.parametrize("order", [1.5, 4.0, 30.0])
def test_renyi_divergence_of_neighbouring_integers(sigma: float, order: float) -> None:
    """Shifted by one, the divergence is at most a / (2 sigma^2), and not far below."""
    law = DiscreteGaussian(sigma)
    log_p = -0.5 * (law.support / sigma) ** 2
    log_p -= math.log(np.exp(log_p).sum())
    # z and z + 1, over the integers where both carry mass
    terms = order * log_p[1:] + (1 - order) * log_p[:-1]
    top = terms.max()
    divergence = (top + math.log(np.exp(terms - top).sum())) / (order - 1)
    bound = order / (2 * sigma**2)
    assert divergence <= bound * (1 + 1e-9)
    if sigma >= 1 and float(order).is_integer():
        assert divergence >= bound * (1 - 1e-6)


@pytest.mark.parametrize("make", [lambda: DiscreteGaussian(0.0), lambda: DiscreteGaussian(np.inf)])
def test_a_scale_must_be_positive(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidInput, match="sigma"):
        make()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((0, 1, 0.1), "sensitivity"), ((1, -1, 0.1), "epsilon"), ((1, 1, 1.0), "delta")],
)
def test_truncated_laplace_checks_its_arguments(
    arguments: tuple[float, float, float], name: str
) -> None:
    with pytest.raises(InvalidInput, match=name):
        TruncatedLaplace(*arguments)
