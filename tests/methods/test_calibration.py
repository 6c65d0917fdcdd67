"""Calibration: noise that stays within alpha, radii as large as the budget allows."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi, norm

from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.methods.cores import best_cores
from privgmm.methods.plan import checked
from privgmm.methods.planner import calibrate
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.noise_levels import lifted_eta
from privgmm.stages.agreement.stage import Agreement, ExactAgreement, PickedAgreement, friend_radius
from privgmm.stages.agreement.votes import AgreementTest, h_index

CALIBRATED = ("paper", "tight", "lifted")
"""Methods that plan without a number of rows."""

USUAL: dict[str, Any] = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "alpha": 0.5,
    "n_components": 2,
    "n_features": 2,
    "n_blocks": 300,
}


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("alpha", [0.1, 0.8, 2.5])
@pytest.mark.parametrize("miss", [0.3, 0.05])
def test_lifted_noise_misses_alpha_as_often_as_allowed(d: int, alpha: float, miss: float) -> None:
    eta = lifted_eta(d, alpha, miss)
    n = 8_000
    draws = np.random.default_rng(99).standard_normal((n, d + 1, d + 1))
    sigma = np.linalg.svd(np.eye(d + 1) + eta * draws, compute_uv=False)
    misses = np.mean(2 * np.linalg.norm(np.log(sigma), axis=1) > alpha)
    # both this sample and the one eta was found from scatter
    assert misses == pytest.approx(miss, abs=4 * math.sqrt(miss * (1 - miss) * (1 / n + 1 / 6000)))


def test_small_lifted_noise_follows_the_chi_law() -> None:
    d, miss, alpha = 3, 0.1, 1e-3
    p = d + 1
    want = alpha / (2 * chi.isf(miss, p * (p + 1) / 2))
    assert lifted_eta(d, alpha, miss) == pytest.approx(want, rel=0.03)


@pytest.mark.parametrize("d", [1, 3])
def test_tight_noise_is_exact_for_weights_and_means_and_right_for_covariances(d: int) -> None:
    plan = calibrate("tight", **{**USUAL, "n_features": d, "beta": 0.1})
    stage = plan.stage(PickedAgreement)
    left = (1 + 0.5) / (1 + friend_radius(stage.gamma)) - 1
    miss = 0.1 / 6
    assert stage.space.eta_weight == pytest.approx(left / norm.isf(miss / 2), rel=1e-3)
    assert stage.space.eta_mean == pytest.approx(left / chi.isf(miss, d), rel=1e-3)
    n = 8_000
    draws = np.random.default_rng(5).standard_normal((n, d, d))
    lam = np.linalg.svd(np.eye(d) + stage.space.eta_cov * draws, compute_uv=False) ** 2
    errors = np.maximum(np.linalg.norm(lam - 1, axis=1), np.linalg.norm(1 / lam - 1, axis=1))
    allowance = 4 * math.sqrt(miss * (1 - miss) * (1 / n + 1 / 6000))
    assert np.mean(errors > left) == pytest.approx(miss, abs=allowance)


@pytest.mark.parametrize("method", ["tight", "lifted"])
def test_the_radius_is_as_large_as_the_budget_allows(method: str) -> None:
    # one component: no other one limits how near fits must be
    plan = calibrate(method, **{**USUAL, "n_components": 1})
    assert plan.spent().epsilon == pytest.approx(1.0, rel=1e-6)
    stage = plan.stage(ExactAgreement)
    wider = dataclasses.replace(stage.test, radius=1.01 * stage.tau)
    assert plan.but(dataclasses.replace(stage, test=wider)).spent().epsilon > 1.0


@pytest.mark.parametrize("method", CALIBRATED)
def test_more_budget_or_a_coarser_alpha_give_a_wider_radius(method: str) -> None:
    base = calibrate(method, **{**USUAL, "epsilon": 0.3})
    for change in ({"epsilon": 0.45}, {"delta": 1e-4}, {"alpha": 0.9}, {"beta": 0.4}):
        other = calibrate(method, **{**USUAL, "epsilon": 0.3, **change})
        assert other.stage(Agreement).tau > base.stage(Agreement).tau, change


def test_tolerances_shrink_from_paper_to_tight_to_lifted() -> None:
    radii = [calibrate(method, **USUAL).stage(Agreement).tau for method in CALIBRATED]
    assert radii[0] < 1e-3 * radii[1] < radii[1] < 1e-1 * radii[2]


@pytest.mark.parametrize("close", [False, True])
def test_the_best_core_is_the_best_of_all(close: bool) -> None:
    """Compare with trying every (m, M, G) with the same counts."""
    rng = np.random.default_rng(1)
    for _ in range(12):
        t = int(rng.integers(18, 34))
        counts = np.sort(rng.integers(t // 2, t + 1, t))[::-1]
        sigma, theta, margin = 0.5, 1, 0.5
        reach = math.ceil(theta + margin * sigma)
        best = math.inf
        for member in range(math.ceil(t / 2) + 1, t + 1):
            for full in range(member, t + 1):
                if close and 2 * member + full < 2 * t + 2:
                    continue
                for core in range(1, t + 1):
                    if h_index(counts, full, core) >= reach:
                        best = min(best, (1 + (t - core) / (full - member + 1)) / core)
        (found,) = best_cores(counts, [sigma], [theta], margin, close=close)
        if found is None:
            assert best == math.inf
            continue
        test, move = found
        assert move == pytest.approx(best)
        assert h_index(counts, test.full, test.core) >= reach
        assert not close or 2 * test.member + test.full >= 2 * t + 2


def test_the_test_of_a_calibrated_plan_keeps_delta_and_passes_with_strays() -> None:
    for method in ("tight", "lifted"):
        plan = calibrate(method, **USUAL)
        test = plan.stage(Agreement).test
        assert isinstance(test, AgreementTest)
        law = DiscreteGaussian(test.sigma)
        assert law.survival(test.threshold) <= 1e-6 < law.survival(test.threshold - 1)
        friends = 270
        counts = np.array([friends] * friends + [1] * 30)
        assert test.pass_probability(counts) > 0.9


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": "one"}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"alpha": -0.5}, "alpha"),
        ({"beta": 0.0}, "beta"),
        ({"beta": 1.0}, "beta"),
        ({"n_components": 0}, "n_components"),
        ({"n_components": 2.5}, "n_components"),
        ({"n_features": 0}, "n_features"),
        ({"n_blocks": 4}, "n_blocks"),
        ({"n_blocks": 20}, "n_blocks"),
    ],
)
@pytest.mark.parametrize("method", ["tight", "lifted"])
def test_bad_numbers_are_named(method: str, change: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        calibrate(method, **{**USUAL, **change})


@pytest.mark.parametrize(
    ("method", "epsilon", "blocks"), [("tight", 2.0, 400), ("lifted", 0.5, 800)]
)
def test_without_blocks_the_method_takes_its_usual_number(
    method: str, epsilon: float, blocks: int
) -> None:
    plan = calibrate(method, **{**USUAL, "epsilon": epsilon, "n_blocks": None})
    named = calibrate(method, **{**USUAL, "epsilon": epsilon, "n_blocks": blocks})
    assert plan.stages == named.stages


def test_rules_of_single_methods() -> None:
    with pytest.raises(InvalidInput, match="method"):
        calibrate("fast", **USUAL)
    for method in CALIBRATED[:2]:
        with pytest.raises(InvalidInput, match="alpha"):
            calibrate(method, **{**USUAL, "alpha": 1.01})


def test_a_plan_beyond_its_budget_is_never_handed_out() -> None:
    plan = calibrate("tight", **USUAL)
    stage = plan.stage(PickedAgreement)
    greedy = plan.but(dataclasses.replace(stage, test=dataclasses.replace(stage.test, sigma=0.5)))
    with pytest.raises(PrivGMMError, match="calibration failed"):
        checked(greedy)
    assert checked(plan) is plan
