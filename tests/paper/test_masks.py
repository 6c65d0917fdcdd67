"""Lemmas 3.5, 4.2, 5.1 and F.1 to F.7: the masks hide what they should and move things little.

Privacy is exact: R_W and R_Mean are Gaussians, and R_Cov is the square of a Gaussian matrix,
so the hockey-stick divergence of that matrix bounds its price (post-processing).
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp

from privgmm.arrays import Array, IntArray
from privgmm.distances.parameters import dist_comp, dist_param
from privgmm.distances.total_variation import gaussian_hockey_stick
from privgmm.mixture import Component, Mixture
from privgmm.privacy.gaussian_pairs import GaussianPair
from privgmm.privacy.noise import SeededNoise
from privgmm.stages.agreement import lemmas as constants
from privgmm.stages.agreement.paper_space import PaperSpace

FOUR_SIGMA = 6.3e-5
PRICES = list(itertools.product((0.01, 0.1, 1.0), (1e-2, 1e-7)))


def noise(seed: int) -> SeededNoise:
    return SeededNoise(np.random.default_rng(seed))


def most_misses(beta: float, n: int) -> float:
    return beta + 4 * math.sqrt(beta * (1 - beta) / n)


def worst_delta(m1: Array, s1: Array, m2: Array, s2: Array, epsilon: float) -> float:
    """The exact delta of a pair of Gaussians, in the worse direction."""
    return max(
        float(gaussian_hockey_stick(m1, s1, m2, s2, epsilon)),
        float(gaussian_hockey_stick(m2, s2, m1, s1, epsilon)),
    )


def ratios_at(gamma: float, d: int, norm: str) -> list[Array]:
    """Eigenvalues of ``S1^-1 S2`` at the very edge of what `gamma` allows."""
    shares = [np.eye(d)[0], np.ones(d), np.where(np.arange(d) % 2 == 0, 1.0, -1.0)]
    found = []
    for share in shares:
        length = np.linalg.norm(share) if norm == "frobenius" else 1.0
        step = gamma * share / length
        # ratios above one are measured by lam - 1, those below by 1/lam - 1
        found.append(np.where(step > 0, 1 + step, 1 / (1 - step)))
    return [*found, *(1 / lam for lam in found)]


def excess(lam: Array, norm: str) -> float:
    order = None if norm == "frobenius" else np.inf
    return max(float(np.linalg.norm(lam - 1, order)), float(np.linalg.norm(1 / lam - 1, order)))


# ----------------------------------------------------------------------------- Lemma F.1


@pytest.mark.parametrize(("epsilon", "delta"), PRICES)
@pytest.mark.parametrize("alpha", [0.05, 1.0])
def test_lemma_f1_privacy_of_weights(epsilon: float, delta: float, alpha: float) -> None:
    eta = constants.eta_weight(alpha, 0.05)
    gamma = constants.gamma_weight(eta, epsilon, delta)
    variance = np.array([[eta**2]])
    exact = worst_delta(np.zeros(1), variance, np.array([gamma]), variance, epsilon)
    assert exact <= delta
    # and the lemma is about something: much farther apart it no longer holds
    far = worst_delta(np.zeros(1), variance, np.array([40 * gamma]), variance, epsilon)
    assert far > delta


@pytest.mark.parametrize("beta", [0.3, 0.05])
@pytest.mark.parametrize("weight", [0.0, 0.4])
def test_lemma_f1_concentration(beta: float, weight: float) -> None:
    alpha, n = 0.2, 4_000
    space, rng = PaperSpace(constants.eta_weight(alpha, beta), 1.0, 1.0), noise(1)
    masked = space.mask_weight(np.full(n, weight), 1, rng=rng)
    assert (masked >= 0).all()
    assert np.mean(np.abs(masked - weight) > alpha) <= most_misses(beta, n)


# ----------------------------------------------------------------- Lemmas F.2, F.3, F.4


@pytest.mark.parametrize(("epsilon", "delta"), PRICES)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_lemma_f2_privacy_of_means(epsilon: float, delta: float, d: int) -> None:
    eta = constants.eta_mean(0.7, 0.05, d)
    gamma = constants.gamma_mean(eta, epsilon, delta)
    assert gamma <= 0.5
    worst = 0.0
    for lam in ratios_at(gamma, d, "frobenius"):
        assert excess(lam, "frobenius") == pytest.approx(gamma, rel=2e-3)
        for direction in (np.eye(d)[0], np.ones(d) / math.sqrt(d)):
            shift = gamma * direction / max(1.0, float(np.linalg.norm(direction / np.sqrt(lam))))
            exact = worst_delta(
                np.zeros(d), eta**2 * np.eye(d), shift, eta**2 * np.diag(lam), epsilon
            )
            worst = max(worst, exact)
    assert worst <= delta


def test_lemma_f2_needs_its_radius() -> None:
    epsilon, delta, d = 0.1, 1e-7, 2
    eta = constants.eta_mean(0.7, 0.05, d)
    gamma = 120 * constants.gamma_mean(eta, epsilon, delta)
    shift = np.array([gamma, 0.0])
    cov = eta**2 * np.eye(d)
    assert worst_delta(np.zeros(d), cov, shift, cov, epsilon) > delta


@pytest.mark.parametrize("delta", [0.2, 0.01])
@pytest.mark.parametrize("d", [1, 3])
def test_lemma_f3_the_privacy_loss_of_a_mean_stays_below_its_bound(d: int, delta: float) -> None:
    """Eq. (F.1), at the edge of what gamma allows, in 1 - delta of the draws."""
    n, gamma, eta = 20_000, 0.3, 0.5
    log = math.log(2 / delta)
    bound = (
        gamma**2 / 2 * (1 + 1 / eta**2)
        + 2 * gamma * (math.sqrt(log) + log)
        + 2 * gamma * math.sqrt(2 * log) / eta
    )
    for seed, lam in enumerate(ratios_at(gamma, d, "frobenius")):
        shift = gamma * np.eye(d)[0] * min(1.0, math.sqrt(lam[0]))
        pair = GaussianPair(
            np.zeros(d), eta * np.eye(d), shift, np.diag(eta * np.sqrt(np.asarray(lam)))
        )
        losses = pair.losses(n, rng=np.random.default_rng(seed))
        assert np.mean(losses > bound) <= most_misses(delta, n)
        assert np.mean(losses > gamma**2 / 2) > delta


@pytest.mark.parametrize("d", [1, 3, 6])
@pytest.mark.parametrize("beta", [0.3, 0.02])
def test_lemma_f4_concentration(d: int, beta: float) -> None:
    """In units of the component's own spread, however stretched it is."""
    alpha, n = 0.5, 800
    rng = noise(d)
    space = PaperSpace(1.0, constants.eta_mean(alpha, beta, d), 1.0)
    factor = np.tril(rng.normal((d, d)), -1) + np.diag(10.0 ** np.linspace(-3, 3, d))
    mean = 1e6 * np.ones(d)
    means, factors = np.tile(mean, (n, 1)), np.tile(factor, (n, 1, 1))
    shapes = space.mask_covariance(factors, rng=rng)
    offsets = space.mask_mean(means, factors, shapes, rng=rng) - mean
    lengths = np.linalg.norm(np.linalg.solve(factor, offsets.T), axis=0)
    assert np.mean(lengths > alpha) <= most_misses(beta, n)


# ------------------------------------------------------------------- Lemmas F.5, F.6, F.7


def gaussian_matrix(lam: Array, eta: float) -> tuple[Array, Array]:
    """Mean and covariance of ``vec(diag(sqrt lam) (I + eta G))``, d^2 entries."""
    d = lam.size
    return np.diag(np.sqrt(lam)).reshape(-1), eta**2 * np.diag(np.repeat(lam, d))


@pytest.mark.parametrize(("epsilon", "delta"), PRICES)
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_lemma_f6_privacy_of_covariances(
    epsilon: float, delta: float, d: int, alpha: float
) -> None:
    eta = constants.eta_covariance(alpha, 0.05, d)
    gamma = constants.gamma_covariance(eta, epsilon, delta, d)
    first = gaussian_matrix(np.ones(d), eta)
    worst = 0.0
    for lam in ratios_at(gamma, d, "spectral"):
        assert excess(lam, "spectral") == pytest.approx(gamma, rel=2e-3)
        worst = max(worst, worst_delta(*first, *gaussian_matrix(lam, eta), epsilon))
    assert worst <= delta


def test_lemma_f6_needs_its_radius() -> None:
    epsilon, delta, d = 0.1, 1e-7, 2
    eta = constants.eta_covariance(0.5, 0.05, d)
    gamma = 30 * constants.gamma_covariance(eta, epsilon, delta, d)
    pair = gaussian_matrix(np.ones(d), eta), gaussian_matrix(np.full(d, 1 + gamma), eta)
    assert worst_delta(*pair[0], *pair[1], epsilon) > delta


def test_any_root_gives_the_same_masked_covariance() -> None:
    """The code uses the Cholesky factor where the paper writes the symmetric root."""
    cov = np.array([[2.0, 0.9], [0.9, 0.7]])
    values, vectors = np.linalg.eigh(cov)
    symmetric = (vectors * np.sqrt(values)) @ vectors.T
    space, n = PaperSpace(1.0, 1.0, 0.3), 4_000
    rng = noise(5)
    factors = np.tile(np.linalg.cholesky(cov), (n, 1, 1))
    shown = space.mask_covariance(factors, rng=rng).factors
    ours = shown @ shown.swapaxes(1, 2)
    roots = symmetric @ (np.eye(2) + 0.3 * rng.normal((n, 2, 2)))
    theirs = roots @ roots.swapaxes(1, 2)
    for i, j in ((0, 0), (0, 1), (1, 1)):
        assert ks_2samp(ours[:, i, j], theirs[:, i, j]).pvalue > FOUR_SIGMA


def frobenius_errors(eta: float, d: int, n: int) -> Array:
    """``max(||P - I||_F, ||P^-1 - I||_F)`` of n masked identities."""
    space, rng = PaperSpace(1.0, 1.0, eta), noise(d)
    roots = space.mask_covariance(np.tile(np.eye(d), (n, 1, 1)), rng=rng).factors
    lam = np.linalg.svd(roots, compute_uv=False) ** 2
    both = np.maximum(np.linalg.norm(lam - 1, axis=1), np.linalg.norm(1 / lam - 1, axis=1))
    return np.asarray(both, dtype=np.float64)


@pytest.mark.parametrize("d", [1, 2, 6, 24])
@pytest.mark.parametrize("alpha", [0.05, 0.4, 1.0])
def test_lemma_f7_concentration_with_c1_of_seven(d: int, alpha: float) -> None:
    beta, n = 0.1, 400 if d < 20 else 12
    errors = frobenius_errors(constants.eta_covariance(alpha, beta, d), d, n)
    assert np.mean(errors > alpha) <= most_misses(beta, n)


# ------------------------------------------------------------------- Lemmas 4.2 and 5.1


def test_remark_f_8_the_frobenius_norm_needs_noise_smaller_by_the_root_of_d() -> None:
    """Without the factor the spectral norm keeps to alpha, and the Frobenius norm does not.

    C_1 = 7 leaves room, so that it takes many columns to see it.
    """
    alpha, beta, n, d = 1.0, 0.1, 100, 64
    eta = constants.eta_covariance(alpha, beta, d)
    rng = np.random.default_rng(d)

    def misses(level: float, order: Any) -> float:
        root = np.eye(d) + level * rng.standard_normal((n, d, d))
        excess = root @ root.swapaxes(1, 2) - np.eye(d)
        return float(np.mean(np.linalg.norm(excess, order, axis=(1, 2)) > alpha))

    assert misses(eta, "fro") <= most_misses(beta, n)
    assert misses(math.sqrt(d) * eta, 2) <= most_misses(beta, n)
    assert misses(math.sqrt(d) * eta, "fro") > most_misses(beta, n)


def test_lemma_4_2_a_masked_component_stays_near() -> None:
    alpha, beta, d, n = 0.6, 0.05, 3, 800
    space = PaperSpace(
        constants.eta_weight(alpha, beta),
        constants.eta_mean(alpha, beta, d),
        constants.eta_covariance(alpha, beta, d),
    )
    rng = noise(0)
    root = rng.normal((d, d)) + np.diag([100.0, 1.0, 0.01])
    component = Component(0.3, np.array([5.0, -2.0, 1e4]), root @ root.T)
    misses = [
        dist_comp(component, space.mask_component(component, rng=rng)) > alpha for _ in range(n)
    ]
    assert np.mean(misses) <= most_misses(3 * beta, n)


class WithoutShuffle(SeededNoise):
    """What must not be done: the components keep their order."""

    def permutation(self, n: int) -> IntArray:
        return np.arange(n, dtype=np.int64)


def test_lemma_5_1_a_masked_mixture_stays_near_and_valid() -> None:
    alpha, beta, d, k, n = 0.5, 0.2, 2, 3, 500
    share = beta / (3 * k)
    space = PaperSpace(
        constants.eta_weight(alpha / 2, share),
        constants.eta_mean(alpha, share, d),
        constants.eta_covariance(alpha, share, d),
    )
    mixture = Mixture(
        [0.5, 0.3, 0.2], [[0, 0], [40, 0], [0, 40]], [np.eye(2), 9 * np.eye(2), np.diag([1, 25])]
    )
    rng = noise(3)
    masked = [space.mask(mixture, rng=rng) for _ in range(n)]
    assert all(abs(f.weights.sum() - 1) < 1e-12 for f in masked)
    misses = np.mean([dist_param(mixture, f) > alpha for f in masked])
    assert misses <= most_misses(beta, n)


@pytest.mark.parametrize("shuffled", [True, False])
def test_lemma_3_5_the_order_of_components_leaves_no_trace(shuffled: bool) -> None:
    """The masked law is that of the permuted input; without the shuffle it is not."""
    space = PaperSpace(0.05, 0.3, 0.05)
    mixture = Mixture([0.7, 0.2, 0.1], [[0.0], [5.0], [10.0]], np.ones((3, 1, 1)))
    other = mixture.permuted([2, 0, 1])
    make = SeededNoise if shuffled else WithoutShuffle
    rng = make(np.random.default_rng(9))
    n = 1_200
    one = [space.mask(mixture, rng=rng) for _ in range(n)]
    two = [space.mask(other, rng=rng) for _ in range(n)]
    for slot in range(3):
        by_mean = ks_2samp([f.means[slot, 0] for f in one], [f.means[slot, 0] for f in two])
        by_weight = ks_2samp([f.weights[slot] for f in one], [f.weights[slot] for f in two])
        assert (by_mean.pvalue > FOUR_SIGMA) == shuffled
        assert (by_weight.pvalue > FOUR_SIGMA) == shuffled


def exact_divergence(first: Array, second: Array, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def shuffled_law(laws: list[Array]) -> Array:
    """Exact joint law of a mask applied to each of k = 3 points, in random order."""
    orders = list(itertools.permutations(range(3)))
    return np.asarray(
        sum(np.einsum("i,j,k->ijk", *(laws[j] for j in order)) for order in orders) / len(orders)
    )


def test_lemma_3_5_privacy_in_a_small_world() -> None:
    """Points 0..3, a mask on 0..5, all pairs of triples within gamma: exact probabilities."""
    grid = np.arange(-2, 6)
    mask = [np.exp(-0.35 * np.abs(grid - y)) for y in range(4)]
    mask = [law / law.sum() for law in mask]
    gamma, epsilon = 1, 0.4
    delta = max(
        exact_divergence(mask[a], mask[b], epsilon)
        for a, b in itertools.permutations(range(4), 2)
        if abs(a - b) <= gamma
    )
    slack, k = 1e-2, 3
    whole = math.sqrt(2 * k * math.log(1 / slack)) * epsilon + k * epsilon * math.expm1(epsilon)
    triples = list(itertools.combinations_with_replacement(range(4), k))
    laws = {triple: shuffled_law([mask[y] for y in triple]) for triple in triples}
    checked, unshuffled_trouble = 0, False
    for one, two in itertools.product(triples, triples):
        for order in itertools.permutations(two):
            near = max(abs(a - b) for a, b in zip(one, order, strict=True)) <= gamma
            if near:
                checked += 1
                assert exact_divergence(laws[one], laws[two], whole) <= k * delta + slack
                # the same multiset in another order, unshuffled, at the summed price k epsilon
                plain = [np.einsum("i,j,k->ijk", *(mask[y] for y in t)) for t in (one, order[::-1])]
                gap = exact_divergence(plain[0], plain[1], k * epsilon)
                unshuffled_trouble = unshuffled_trouble or gap > k * delta + 1e-9
    assert checked > 100
    assert unshuffled_trouble


@pytest.mark.parametrize("k", [1, 2, 5, 20])
def test_composition_over_components_is_above_the_exact_price(k: int) -> None:
    """Theorem C.7 as used in Lemma 3.5, on k weights masked by R_W."""
    epsilon, delta, slack = 0.1, 1e-7, 1e-6
    eta = constants.eta_weight(0.5, 0.05)
    gamma = constants.gamma_weight(eta, epsilon, delta)
    whole = math.sqrt(2 * k * math.log(1 / slack)) * epsilon + k * epsilon * math.expm1(epsilon)
    cov = eta**2 * np.eye(k)
    exact = worst_delta(np.zeros(k), cov, np.full(k, gamma), cov, whole)
    assert exact <= k * delta + slack
