"""Where the printed paper must be read with care, each with the reason in numbers.

The readings used by this package are on the left of each comparison. That ``dist_Mean`` is no
metric by itself, although Lemma 4.1 holds, is stated together with the triangle inequality.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2

from privgmm.arrays import Array
from privgmm.distances.total_variation import gaussian_hockey_stick
from privgmm.methods.planner import calibrate
from privgmm.privacy.noise import TruncatedLaplace
from privgmm.stages.agreement import lemmas as constants
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.stage import Agreement, PaperAgreement

ALPHAS = (0.01, 0.1, 0.5, 1.0)
DIMENSIONS = (1, 2, 3, 8, 40, 300)


# ------------------------------------------------------- proof of Theorem 6.2: "r = 1"


def test_the_radius_of_the_test_must_be_gamma_and_not_one() -> None:
    """With r = 1 two neighbours may mask means a whole spread apart, which nothing hides."""
    plan = calibrate("paper", epsilon=0.4, delta=1e-6, alpha=0.5, n_components=2, n_features=2)
    stage = plan.stage(PaperAgreement)
    assert stage.tau == pytest.approx(stage.gamma / 3)
    assert stage.gamma < 1
    cov = stage.space.eta_mean**2 * np.eye(2)

    def exact_delta(distance: float) -> float:
        shift = np.array([distance, 0.0])
        return float(gaussian_hockey_stick(np.zeros(2), cov, shift, cov, plan.budget.epsilon))

    assert exact_delta(plan.stage(Agreement).gamma) <= plan.budget.delta
    assert exact_delta(1.0) > 0.5


# --------------------------------------------------------- Section F.4: the lost sqrt d


def frobenius_errors(eta: float, d: int, n: int) -> Array:
    draws = np.random.default_rng(d).standard_normal((n, d, d))
    lam = np.linalg.svd(np.eye(d) + eta * draws, compute_uv=False) ** 2
    both = np.maximum(np.linalg.norm(lam - 1, axis=1), np.linalg.norm(1 / lam - 1, axis=1))
    return np.asarray(both, dtype=np.float64)


@pytest.mark.parametrize("alpha", [0.2, 1.0])
def test_eta_cov_needs_the_sqrt_d_that_section_f4_drops(alpha: float) -> None:
    beta, d, n = 0.1, 72, 40
    right = constants.eta_covariance(alpha, beta, d)
    printed = alpha / (constants.COVARIANCE_CONSTANT * (math.sqrt(d) + math.sqrt(math.log(40))))
    assert right == pytest.approx(printed / math.sqrt(d))
    assert np.mean(frobenius_errors(right, d, n) > alpha) == 0
    assert np.mean(frobenius_errors(printed, d, n) > alpha) > 0.9


# ----------------------------------------------------------- Lemmas F.5, F.7: naming C_1


def worst_frobenius(alpha: float, d: int, c1: float) -> float:
    """What ``||G|| <= 2 (sqrt d + sqrt ln(4/beta))`` leaves of the claim, over alpha."""
    x = 2 * alpha / (c1 * math.sqrt(d))
    return math.sqrt(d) * (1 / (1 - x) ** 2 - 1) / alpha


def test_c1_of_seven_is_enough_and_six_point_eight_is_not() -> None:
    for alpha, d in itertools.product((*ALPHAS, 0.999), DIMENSIONS):
        assert worst_frobenius(alpha, d, constants.COVARIANCE_CONSTANT) <= 1
    assert worst_frobenius(1.0, 1, 6.8) > 1
    assert worst_frobenius(1.0, 1, 2 / (1 - math.sqrt(0.5))) == pytest.approx(1.0)


@pytest.mark.parametrize("d", [1, 2, 10, 50])
def test_the_spectral_norm_behind_c1(d: int) -> None:
    """``||G||`` stays within 2 (sqrt d + sqrt ln(4/beta)) more often than 1 - beta."""
    n = 2_000 if d < 20 else 200
    norms = np.linalg.norm(np.random.default_rng(d).standard_normal((n, d, d)), 2, axis=(1, 2))
    for beta in (0.5, 0.1):
        reach = 2 * (math.sqrt(d) + math.sqrt(math.log(4 / beta)))
        assert np.mean(norms > reach) <= beta


# ------------------------------- Lemmas 4.2 and 5.1, Theorem 6.2: gamma without any C_2


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("d", [1, 2, 10])
@pytest.mark.parametrize("delta", [1e-2, 1e-9])
def test_gamma_meets_every_lemma_it_relies_on(k: int, d: int, delta: float) -> None:
    plan = calibrate("paper", epsilon=0.4, delta=delta, alpha=0.5, n_components=k, n_features=d)
    space, test = plan.stage(Agreement).space, plan.stage(Agreement).test
    assert isinstance(space, PaperSpace)
    assert isinstance(test, PopulousTest)
    part = constants.share_of_component(test.epsilon, test.delta, k)
    log = math.log(2 / part.delta)
    e, eta = part.epsilon, space.eta_cov
    bounds = [
        space.eta_weight * e / (2 * log),
        0.5,
        math.sqrt(3) * space.eta_mean * e / (24 * log),
        math.sqrt(e / (2 * d * (d + 1 / eta**2))),
        e / (8 * d * math.sqrt(log)),
        e / (8 * log),
        e * eta / (12 * math.sqrt(d) * math.sqrt(log)),
    ]
    assert plan.stage(Agreement).gamma == pytest.approx(min(bounds), rel=1e-12)


def test_no_constant_makes_the_printed_gamma_small_enough() -> None:
    """Lemma 4.2 divides by sqrt(ln(2/delta)), Lemma F.2 by ln(2/delta): no C_2 bridges that."""
    alpha, beta, epsilon, d = 0.5, 0.1, 0.1, 1
    ratios = []
    for delta in (1e-3, 1e-30, 1e-100, 1e-300):
        printed = epsilon * alpha / math.sqrt(d**2 * (d + math.log(4 / beta)) * math.log(2 / delta))
        needed = constants.gamma_mean(constants.eta_mean(alpha, beta, d), epsilon, delta)
        ratios.append(printed / needed)
    # the C_2 that would be needed grows without bound, like the root of the logarithm
    assert np.all(np.diff(ratios) > 0)
    assert ratios[-1] / ratios[0] == pytest.approx(
        math.sqrt(math.log(2e300) / math.log(2e3)), rel=1e-9
    )


# --------------------------------------------- Appendix D.1, utility: "show that Q~ <= 0.9"


@pytest.mark.parametrize(("epsilon", "delta"), [(0.231, 1e-6), (0.1, 1e-9), (1.0, 0.01)])
def test_full_agreement_passes_because_the_noisy_value_is_at_least_0_9(
    epsilon: float, delta: float
) -> None:
    t = constants.block_minimum(epsilon, delta)
    test = PopulousTest(t, 1.0, epsilon, delta)
    noise = TruncatedLaplace(2 / t, epsilon, delta)
    # line 7 fails below the threshold, so what is needed is a lower bound on 1 + Z
    assert 1 - noise.bound >= 0.9 >= test.threshold
    values = [test.examine(np.zeros((t, t)), rng=seed).noisy_statistic for seed in range(40)]
    assert min(values) > 0.9


# --------------------------------------------------------- Lemma F.4, last line: "1/beta"


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("beta", [0.5, 0.1, 1e-6])
def test_the_mean_strays_with_probability_beta_and_not_one_over_beta(d: int, beta: float) -> None:
    """Exactly, by the chi-square law; a bound of 1/beta > 1 would say nothing."""
    exact = chi2.sf(3 * (d + math.log(1 / beta)), d)
    assert exact <= beta < 1 / beta


# ------------------------------------------------------ Theorems 2.3 and 6.2: how many blocks


def common_friends(t: int) -> int:
    """Fewest blocks in both S and S', each with more than 0.6 t of t blocks."""
    most = next(size for size in range(t + 1) if 10 * size > 6 * t)
    return 2 * most - t


def test_five_blocks_are_enough() -> None:
    assert all(common_friends(t) >= 2 for t in range(5, 3_000))
    # one of two common friends is unchanged; a single one may be the changed block itself
    assert common_friends(3) < 2
    assert PopulousTest(5, 1.0, 1.0, 0.1).n_blocks == 5
