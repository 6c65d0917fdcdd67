"""Test functions: expectations against draws, derivatives against steps."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.learners.moments.features import Family, fourier, gathered, hermite

FAMILIES: dict[str, Family] = {
    "fourier, line": fourier(1, True),
    "fourier, plane": fourier(2, False),
    "fourier, space": fourier(3, False),
    "hermite, line": hermite(1, 3),
    "hermite, plane": hermite(2, 2),
}


def gaussian(m: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    root = 0.5 * np.eye(m) + 0.2 * rng.standard_normal((m, m))
    return 0.5 * rng.standard_normal(m), root @ root.T


@pytest.mark.parametrize("name", FAMILIES)
def test_expectations_and_second_moments_are_those_of_draws(name: str) -> None:
    family = FAMILIES[name]
    m, n = family.n_coordinates, 20_000
    mean, covariance = gaussian(m)
    other, wide = gaussian(m, 1)
    weights, means = np.array([0.3, 0.7]), np.stack([mean, other])
    covariances = np.stack([covariance, wide])
    rng = np.random.default_rng(2)
    labels = rng.random(n) < 0.7
    draws = np.where(
        labels[:, None],
        rng.multivariate_normal(other, wide, n),
        rng.multivariate_normal(mean, covariance, n),
    )
    values = family.values(draws)
    assert values.shape == (n, family.n_functions)
    expected = weights @ family.expectations(means, covariances).value
    second = family.second_moments(weights, means, covariances)
    deviation = np.sqrt(np.maximum(np.diagonal(second) - expected**2, 1e-12) / n)
    # five deviations: up to two hundred functions are looked at
    assert (np.abs(values.mean(axis=0) - expected) < 5 * deviation + 1e-9).all()
    spread = (values**2).std(axis=0) / np.sqrt(n)
    assert (np.abs((values**2).mean(axis=0) - np.diagonal(second)) < 5 * spread + 1e-9).all()
    first = values[:, :1]
    spread = (values * first).std(axis=0) / np.sqrt(n)
    assert (np.abs((values * first).mean(axis=0) - second[0]) < 5 * spread + 1e-9).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_derivatives_are_limits_of_differences(name: str) -> None:
    """By the law: d E f / d mu = E grad f and d E f / d Sigma = E hess f / 2."""
    family = FAMILIES[name]
    m = family.n_coordinates
    mean, covariance = gaussian(m)
    expected = family.expectations(mean, covariance)
    h = 1e-5

    def value(shift: Array, growth: Array) -> Array:
        return family.expectations(mean + shift, covariance + growth).value

    none = np.zeros((m, m))
    for a in range(m):
        step = h * np.eye(m)[a]
        slope = (value(step, none) - value(-step, none)) / (2 * h)
        np.testing.assert_allclose(slope, expected.gradient[:, a], atol=1e-6)
        for b in range(a + 1):
            grow = h * (np.outer(np.eye(m)[a], np.eye(m)[b]) + np.outer(np.eye(m)[b], np.eye(m)[a]))
            slope = (value(0 * mean, grow) - value(0 * mean, -grow)) / (2 * h)
            np.testing.assert_allclose(slope, expected.hessian[:, a, b], atol=1e-5)


def test_hermite_functions_are_orthonormal_under_the_standard_normal_law() -> None:
    for family in (hermite(1, 3), hermite(2, 2)):
        m = family.n_coordinates
        one, zero, unit = np.ones(1), np.zeros((1, m)), np.eye(m)[None]
        np.testing.assert_allclose(
            family.second_moments(one, zero, unit), np.eye(family.n_functions), atol=1e-9
        )


def test_products_are_the_cosines_they_stand_for() -> None:
    family = fourier(2, True)
    points = np.random.default_rng(0).standard_normal((50, 2))
    angle = points @ family.frequencies.T
    expected = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
    np.testing.assert_allclose(family.values(points), expected, atol=1e-12)
    assert family.radii.max() == pytest.approx(24.0)


def test_gathering_in_slices_is_gathering_at_once() -> None:
    family = fourier(1, True)
    rng = np.random.default_rng(0)
    points, columns = rng.standard_normal((5000, 1)), rng.standard_normal((5000, 3))
    np.testing.assert_allclose(
        gathered(family, points, columns), family.values(points).T @ columns / 5000, atol=1e-13
    )
