"""Appendix C: Definitions C.1 to C.3, Theorems C.4 and C.7, Lemmas C.8 and C.9.

Truncated Laplace noise, Definition C.5 and Theorem C.6, is in `test_truncated_laplace`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from privgmm.arrays import Array
from privgmm.distances.total_variation import gaussian_hockey_stick
from privgmm.privacy.gaussian_account import gaussian_delta
from privgmm.privacy.gaussian_pairs import GaussianPair
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.lemmas import MaskPrice, mixture_price
from privgmm.stages.agreement.votes import friend_counts
from privgmm.stages.sketch.features import SketchShape


def random_pair(seed: int, d: int) -> GaussianPair:
    rng = np.random.default_rng([seed, d])
    roots = [np.linalg.qr(np.eye(d) + 0.3 * rng.standard_normal((d, d)))[1].T for _ in range(2)]
    lower = [root * np.sign(np.diagonal(root)) for root in roots]
    return GaussianPair(np.zeros(d), lower[0], rng.normal(0, 0.6, d), lower[1])


@pytest.mark.parametrize("d", [1, 3])
def test_definition_c_1_the_loss_is_the_logarithm_of_the_ratio_of_densities(d: int) -> None:
    pair = random_pair(1, d)
    seen = pair.draw(np.arange(40) % 2 == 0, rng=np.random.default_rng(d))
    first = multivariate_normal(pair.mean_a, pair.root_a @ pair.root_a.T).logpdf(seen)
    second = multivariate_normal(pair.mean_b, pair.root_b @ pair.root_b.T).logpdf(seen)
    np.testing.assert_allclose(pair.loss(seen), first - second, atol=1e-9)
    np.testing.assert_allclose(pair.swapped().loss(seen), second - first, atol=1e-9)


def test_definition_c_2_votes_move_by_at_most_the_stated_l1_sensitivity() -> None:
    """Line 5 of Algorithm 1 adds noise for 2/t; replacing one of t items never moves Q by more."""
    rng = np.random.default_rng(2)
    t = 9
    test = PopulousTest(t, 1.0, 1.0, 0.1)
    largest = 0.0
    for _ in range(500):
        items = rng.choice([0.0, 0.9, 1.8, 40.0], t)
        other = items.copy()
        other[rng.integers(t)] = rng.choice([0.0, 0.9, 1.8, 40.0])
        q = [
            test.standing(friend_counts(np.abs(x[:, None] - x), test.radius)).statistic
            for x in (items, other)
        ]
        largest = max(largest, abs(q[0] - q[1]))
    assert 0.5 * test.sensitivity < largest <= test.sensitivity == 2 / t


@pytest.mark.parametrize(("directions", "frequencies"), [(1, 1), (3, 4), (6, 8)])
def test_definition_c_3_waves_move_by_at_most_the_stated_l2_sensitivity(
    directions: int, frequencies: int
) -> None:
    """A row gives powers of one unit number per direction; the farthest pair attains the bound."""
    shape = SketchShape(directions, frequencies, 1.0)
    powers = np.arange(1, frequencies + 1)

    def waves(angles: Array) -> Array:
        return np.asarray((shape.amplitudes * np.exp(1j * angles[:, None] * powers)).ravel())

    rng = np.random.default_rng(3)
    farthest = max(
        float(np.linalg.norm(waves(a) - waves(b)))
        for a, b in rng.uniform(-9, 9, (2000, 2, directions))
    )
    assert farthest <= shape.sensitivity
    zero = np.zeros(directions)
    opposite = np.full(directions, 2 * math.pi / (frequencies + 1))
    gap = np.linalg.norm(waves(zero) - waves(opposite))
    assert gap == pytest.approx(shape.sensitivity, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 0.999])
@pytest.mark.parametrize("delta", [1e-4, 1e-6, 1e-9])
def test_theorem_c_4_gaussian_noise_of_the_stated_scale_is_enough(
    epsilon: float, delta: float
) -> None:
    """By the exact delta of Gaussian noise; a quarter of the scale is not enough."""
    c = math.sqrt(2 * math.log(1.25 / delta)) * (1 + 1e-9)
    assert gaussian_delta(epsilon, epsilon / c) <= delta
    assert gaussian_delta(epsilon, 4 * epsilon / c) > delta


@pytest.mark.parametrize("k", [1, 4, 16, 64])
def test_theorem_c_7_composition_is_above_the_exact_price(k: int) -> None:
    """K Gaussian mechanisms at once are one with sqrt(k) times the shift."""
    epsilon, delta, slack = 0.05, 1e-7, 1e-6
    low, high = 1e-6, 1.0
    for _ in range(80):
        mu = math.sqrt(low * high)
        low, high = (mu, high) if gaussian_delta(epsilon, mu) <= delta else (low, mu)
    total = math.sqrt(2 * k * math.log(1 / slack)) * epsilon + k * epsilon * math.expm1(epsilon)
    assert gaussian_delta(total, math.sqrt(k) * low) <= k * delta + slack
    # adding up square roots only, without the logarithm, would promise too much
    if k > 1:
        hopeful = math.sqrt(k) * epsilon / 4
        assert gaussian_delta(hopeful, math.sqrt(k) * low) > k * delta + slack


def test_theorem_c_7_is_what_a_masked_mixture_is_priced_by() -> None:
    part, k = MaskPrice(0.01, 1e-9), 5
    whole = mixture_price(part, k)
    slack = 3 * k * part.delta
    e = 3 * part.epsilon
    expected = math.sqrt(2 * k * math.log(1 / slack)) * e + k * e * math.expm1(e)
    assert whole.epsilon == pytest.approx(expected)
    assert whole.delta == pytest.approx(k * 3 * part.delta + slack)


def hockey_stick(first: Array, second: Array, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@pytest.mark.parametrize("seed", range(8))
def test_lemma_c_8_mixing_pairs_is_no_worse_than_the_worst_pair(seed: int) -> None:
    rng = np.random.default_rng(seed)
    epsilon, k, size = 0.4, 5, 12
    first = rng.dirichlet(np.ones(size), size=k)
    second = 0.7 * first + 0.3 * rng.dirichlet(np.ones(size), size=k)
    delta = max(
        hockey_stick(a, b, epsilon) for p, q in zip(first, second, strict=True)
        for a, b in ((p, q), (q, p))
    )  # fmt: skip
    weights = rng.dirichlet(np.full(k, 0.5))
    for a, b in ((first, second), (second, first)):
        assert hockey_stick(weights @ a, weights @ b, epsilon) <= delta
    # the weights must be the same on both sides
    assert hockey_stick(np.eye(k)[0] @ first, np.eye(k)[1] @ first, epsilon) > delta


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_lemma_c_9_a_loss_that_is_rarely_large_is_a_promise(d: int, epsilon: float) -> None:
    """The exact delta never exceeds the chance of a loss beyond epsilon, either way round."""
    n, largest = 40_000, 0.0
    for seed in range(4):
        one = random_pair(seed, d)
        for pair in (one, one.swapped()):
            chance = float(np.mean(pair.losses(n, rng=np.random.default_rng(seed)) >= epsilon))
            exact = float(
                gaussian_hockey_stick(
                    pair.mean_a,
                    pair.root_a @ pair.root_a.T,
                    pair.mean_b,
                    pair.root_b @ pair.root_b.T,
                    epsilon,
                )
            )
            assert exact <= chance + 4 * math.sqrt(chance * (1 - chance) / n)
            largest = max(largest, exact)
    assert largest > 1e-3
