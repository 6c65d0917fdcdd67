"""Errors to expect, and the refinement that the rest of a budget buys."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.budget import Budget
from privgmm.privacy.curves import RenyiCurve, gaussian_curve
from privgmm.stages.agreement.scatter import component_weights
from privgmm.stages.refinement.expected_error import best_refinement, forecast_error
from privgmm.stages.refinement.noisy_moments import Refinement


def test_forecast_without_privacy_is_the_sampling_error() -> None:
    """Against simulated sample means and covariances of the smallest component."""
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
    total = fixed
    for multiplier in found[0].multipliers:
        total = total + gaussian_curve(multiplier)
    assert 0.999 * budget.epsilon <= total.epsilon(budget.delta) <= budget.epsilon
    spent = RenyiCurve(gaussian_curve(2.0).values)
    assert best_refinement(100_000, component_weights(2), 2, 1.0, spent, budget) is None
