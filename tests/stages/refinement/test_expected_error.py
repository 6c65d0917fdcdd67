"""Errors to expect, and the refinement that the rest of a budget buys."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.budget import Budget
from privgmm.data.generators import random_mixture
from privgmm.mixture import Mixture
from privgmm.privacy.curves import RenyiCurve, gaussian_curve
from privgmm.stages.agreement.scatter import component_weights
from privgmm.stages.refinement.expected_error import (
    best_refinement,
    forecast_covariance,
    forecast_error,
    moment_information,
    worst_component_error,
)
from privgmm.stages.refinement.noisy_moments import (
    Pull,
    Refinement,
    solve_moments,
    winsorised_features,
)


def refined_error(mixture: Mixture, n: float, step: Refinement | None) -> float:
    return worst_component_error(forecast_covariance(mixture, n, step), mixture.weights)


def test_forecast_without_privacy_is_the_sampling_error() -> None:
    """The forecast agrees with simulated sample means and covariances of the smallest component."""
    n, d = 20_000, 3
    weights = component_weights(2, 0.3)
    forecast = forecast_error(n, weights, d, None)
    rng = np.random.default_rng(0)
    means, covariances = [], []
    for _ in range(200):
        rows = rng.standard_normal((round(n * 0.3), d))
        means.append(np.sum(rows.mean(axis=0) ** 2))
        covariances.append(np.sum((np.cov(rows.T) - np.eye(d)) ** 2))
    assert forecast.mean == pytest.approx(math.sqrt(np.mean(means)), rel=0.1)
    assert forecast.covariance == pytest.approx(math.sqrt(np.mean(covariances)), rel=0.1)


def test_noise_makes_the_forecast_worse() -> None:
    weights = component_weights(2)
    plain = forecast_error(50_000, weights, 2, None)
    quiet = forecast_error(50_000, weights, 2, Refinement((1.0,), (4.0,)))
    loud = forecast_error(50_000, weights, 2, Refinement((30.0,), (4.0,)))
    assert plain.total < quiet.total < loud.total


def test_a_refinement_uses_the_rest_of_the_budget() -> None:
    budget = Budget(1.0, 1e-6)
    fixed = gaussian_curve(8.0)
    found = best_refinement(100_000, component_weights(2), 2, 1.0, fixed, budget)
    assert found is not None
    total: RenyiCurve = fixed
    for multiplier in found[0].multipliers:
        total = total + gaussian_curve(multiplier)
    assert 0.999 * budget.epsilon <= total.epsilon(budget.delta) <= budget.epsilon
    spent = RenyiCurve(gaussian_curve(2.0).values)
    assert best_refinement(100_000, component_weights(2), 2, 1.0, spent, budget) is None


@pytest.mark.parametrize("d", [1, 3])
def test_the_error_of_one_gaussian_is_that_of_its_sample_moments(d: int) -> None:
    """The forecast agrees with medians of simulated sample means and covariances."""
    n = 5_000
    rng = np.random.default_rng(1)
    lengths = []
    for _ in range(300):
        rows = rng.standard_normal((n, d))
        excess = np.cov(rows.T).reshape(d, d) - np.eye(d)
        lengths.append(math.hypot(np.linalg.norm(rows.mean(axis=0)), np.linalg.norm(excess)))
    one = Mixture([1.0], np.zeros((1, d)), np.eye(d)[None])
    assert refined_error(one, n, None) == pytest.approx(float(np.median(lengths)), rel=0.12)


def test_errors_do_not_depend_on_units() -> None:
    mixture = random_mixture(2, 2, separation=3.0, condition=3.0, rng=2)
    moved = mixture.transformed(np.array([[1e3, 0.0], [40.0, 1e-2]]), np.array([5.0, -7.0]))
    step = Refinement((20.0,), (4.0,))
    assert refined_error(moved, 1e5, step) == pytest.approx(refined_error(mixture, 1e5, step))


@pytest.mark.parametrize("separation", [2.0, 4.0])
def test_the_information_is_that_of_the_solver(separation: float) -> None:
    """The forecast's information is the solver's own when that starts at the truth."""
    n, radius, noise = 10**5, 4.0, np.full(6, 100.0)
    mixture = random_mixture(2, 2, separation=separation, weights=[0.3, 0.7], rng=3)
    forecast = moment_information(mixture, radius, noise, n, winsorised_features)
    solved = solve_moments(
        mixture,
        np.zeros((2, 6)),
        radius,
        noise / n,
        n,
        prior=lambda _: Pull(1e-6 * np.eye(12), np.zeros(12)),
        iterations=1,
        features=winsorised_features,
    )
    common = np.zeros(12)
    common[::6] = mixture.weights
    again = solved.information + n * np.outer(common, common)
    mine, theirs = (
        worst_component_error(np.asarray(np.linalg.inv(one)), mixture.weights)
        for one in (forecast.noisy, again)
    )
    assert mine == pytest.approx(theirs, rel=0.12)
    # noise takes information away, in every direction
    assert (
        np.linalg.eigvalsh(forecast.exact - forecast.noisy).min()
        > -1e-6 * np.abs(forecast.exact).max()
    )


def test_overlap_is_part_of_the_error() -> None:
    """Far apart the error is that of the formula without overlap; near each other far larger."""
    step = Refinement((10.0,), (4.0,))
    far, fair, near = (
        refined_error(random_mixture(2, 2, separation=s, rng=4), 1e5, step) for s in (8.0, 4.0, 2.0)
    )
    formula = forecast_error(1e5, np.array([0.5, 0.5]), 2, step).total
    assert far == pytest.approx(formula, rel=0.25)
    assert far < fair < near / 3
