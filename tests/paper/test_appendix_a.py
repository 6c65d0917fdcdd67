"""Facts A.1, A.2, A.7 and A.9, Lemmas A.5, A.6 and A.8: what the proofs take as known.

Facts A.3 and Lemma A.4, which speak of divergences, are in `test_theorem_1_8`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.stats import chi2

from privgmm.arrays import Array
from privgmm.distances.bounds import kl_divergence
from privgmm.distances.total_variation import gaussian_tv, relative_form
from privgmm.privacy.gaussian_pairs import GaussianPair
from privgmm.stages.agreement import lemmas


def covariance(rng: np.random.Generator, d: int, spread: float = 0.7) -> Array:
    root = np.eye(d) + spread * rng.standard_normal((d, d))
    return np.asarray(root @ root.T + 0.05 * np.eye(d))


def symmetric_root(matrix: Array) -> Array:
    return np.asarray(np.real(sqrtm(matrix)))


def tv(mean1: Array, cov1: Array, mean2: Array, cov2: Array) -> float:
    return float(gaussian_tv(mean1, cov1, mean2, cov2))


@pytest.mark.parametrize("seed", range(6))
def test_fact_a_1_variations_of_independent_parts_add_at_most(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [
        (rng.normal(0, 0.4, 2), covariance(rng, 2, 0.2), rng.normal(0, 0.4, 2), np.eye(2))
        for _ in range(2)
    ]
    zero = np.zeros((2, 2))
    joint = tv(
        np.concatenate([parts[0][0], parts[1][0]]),
        np.block([[parts[0][1], zero], [zero, parts[1][1]]]),
        np.concatenate([parts[0][2], parts[1][2]]),
        np.block([[parts[0][3], zero], [zero, parts[1][3]]]),
    )
    alone = [tv(*part) for part in parts]
    assert max(alone) <= joint * (1 + 1e-9)
    assert joint <= sum(alone)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_fact_a_2_no_map_moves_two_laws_apart(d: int) -> None:
    """Linear maps to fewer coordinates, which lose something, and to as many, which do not."""
    rng = np.random.default_rng(d)
    mean1, cov1 = rng.normal(size=d), covariance(rng, d)
    mean2, cov2 = rng.normal(size=d), covariance(rng, d)
    whole = tv(mean1, cov1, mean2, cov2)
    for size in range(1, d + 1):
        map_ = rng.standard_normal((size, d))
        image = tv(map_ @ mean1, map_ @ cov1 @ map_.T, map_ @ mean2, map_ @ cov2 @ map_.T)
        if size == d:
            assert image == pytest.approx(whole, rel=1e-6)
        else:
            assert image < whole


@pytest.mark.parametrize("k", [1, 2, 10, 100])
@pytest.mark.parametrize("t", [0.01, 1.0, 5.0, 30.0])
def test_lemma_a_5_squares_of_normal_numbers_concentrate(k: int, t: float) -> None:
    """Exactly, by the chi-square law; half the deviation would not be enough for all of these."""
    assert chi2.sf(k + 2 * math.sqrt(k * t) + 2 * t, k) <= math.exp(-t)


def test_lemma_a_5_needs_its_constants() -> None:
    k, t = 10, 5.0
    assert chi2.sf(k + math.sqrt(k * t) + t, k) > math.exp(-t)


def loss_bound(pair: GaussianPair, delta: float) -> float:
    """The right side of Eq. (A.1), with symmetric roots as printed."""
    cov1, cov2 = pair.root_a @ pair.root_a.T, pair.root_b @ pair.root_b.T
    root = symmetric_root(cov1)
    ratio = root @ np.linalg.inv(cov2) @ root
    excess = ratio - np.eye(len(ratio))
    shift = np.linalg.norm(np.linalg.solve(root, pair.mean_b - pair.mean_a))
    log = math.log(2 / delta)
    return float(
        kl_divergence(pair.mean_a, cov1, pair.mean_b, cov2)
        + 2 * np.linalg.norm(excess) * math.sqrt(log)
        + 2 * np.linalg.norm(excess, 2) * log
        + np.linalg.norm(ratio, 2) * shift * math.sqrt(2 * log)
    )


@pytest.mark.parametrize("delta", [0.2, 0.01])
@pytest.mark.parametrize("d", [1, 3])
def test_lemma_a_6_the_privacy_loss_hardly_ever_passes_its_bound(d: int, delta: float) -> None:
    n = 20_000
    for seed in range(5):
        rng = np.random.default_rng([seed, d])
        pair = GaussianPair(
            np.zeros(d),
            np.asarray(np.linalg.cholesky(covariance(rng, d, 0.3)), dtype=np.float64),
            rng.normal(0, 0.5, d),
            np.asarray(np.linalg.cholesky(covariance(rng, d, 0.3)), dtype=np.float64),
        )
        losses = pair.losses(n, rng=rng)
        beyond = float(np.mean(losses > loss_bound(pair, delta)))
        assert beyond <= delta + 4 * math.sqrt(delta * (1 - delta) / n)
        # the divergence alone, the bound's first term, is passed by many draws
        cov1, cov2 = pair.root_a @ pair.root_a.T, pair.root_b @ pair.root_b.T
        divergence = float(kl_divergence(pair.mean_a, cov1, pair.mean_b, cov2))
        assert np.mean(losses > divergence) > 0.2


def test_fact_a_7_the_exponential_below_a_line() -> None:
    x = np.linspace(0, math.log(2), 10_001)[1:-1]
    assert (np.exp(x) <= 1 + 2 * x).all()
    assert math.exp(1.3) > 1 + 2 * 1.3


@pytest.mark.parametrize("k", [1, 3, 8])
def test_fact_a_7_as_it_is_used_for_the_price_of_a_mixture(k: int) -> None:
    """Appendix G.1 replaces e^(3e) - 1 by 6e; the price of all parts is within the total."""
    epsilon, delta = 0.99 * math.log(2) / 3, 1e-6
    part = lemmas.share_of_component(epsilon, delta, k)
    whole = lemmas.mixture_price(part, k)
    assert 3 * part.epsilon < math.log(2)
    assert whole.epsilon <= epsilon
    slack = 3 * k * part.delta
    simple = 3 * math.sqrt(2 * k * math.log(1 / slack)) * part.epsilon + 18 * k * part.epsilon**2
    assert whole.epsilon <= simple <= epsilon * (1 + 1e-12)


def spectral_distance(a: Array, b: Array) -> float:
    ratios = relative_form(np.zeros(len(a)), a, np.zeros(len(b)), b).eigenvalues
    return float(max(np.abs(ratios - 1).max(), np.abs(1 / ratios - 1).max()))


@pytest.mark.parametrize("d", [1, 2, 4])
def test_lemma_a_8_covariances_are_a_semimetric_space(d: int) -> None:
    rng = np.random.default_rng(d)
    near = 0
    for _ in range(400):
        root = np.linalg.cholesky(covariance(rng, d))
        chain = [root @ root.T]
        for _ in range(2):
            root = root @ (np.eye(d) + rng.uniform(0, 0.35) * rng.standard_normal((d, d)))
            chain.append(root @ root.T)
        a, b, c = chain
        assert spectral_distance(a, a) == pytest.approx(0, abs=1e-9)
        ab, bc = spectral_distance(a, b), spectral_distance(b, c)
        assert spectral_distance(b, a) == pytest.approx(ab, rel=1e-6)
        if max(ab, bc) <= 1:
            near += 1
            assert spectral_distance(a, c) <= 1.5 * (ab + bc) * (1 + 1e-9)
    assert near > 40


def test_lemma_a_8_attains_its_factor_and_needs_its_restriction() -> None:
    one, two, four, hundred = (np.array([[s]]) for s in (1.0, 2.0, 4.0, 100.0))
    ten = np.array([[10.0]])
    steps = spectral_distance(one, two) + spectral_distance(two, four)
    assert spectral_distance(one, four) == pytest.approx(1.5 * steps)
    far = spectral_distance(one, ten) + spectral_distance(ten, hundred)
    assert spectral_distance(one, hundred) > 1.5 * far


@pytest.mark.parametrize("d", [1, 2, 5])
def test_fact_a_9_both_orders_of_a_ratio_have_one_spectrum(d: int) -> None:
    """And it is that of the relative form, from which all distances here are computed."""
    rng = np.random.default_rng(d)
    first, second = covariance(rng, d), covariance(rng, d)
    root1, inverse2 = symmetric_root(first), np.linalg.inv(symmetric_root(second))
    one = np.linalg.eigvalsh(inverse2 @ first @ inverse2)
    other = np.linalg.eigvalsh(root1 @ np.linalg.inv(second) @ root1)
    np.testing.assert_allclose(one, other, rtol=1e-8)
    ours = relative_form(np.zeros(d), second, np.zeros(d), first).eigenvalues
    np.testing.assert_allclose(np.sort(ours), one, rtol=1e-8)
