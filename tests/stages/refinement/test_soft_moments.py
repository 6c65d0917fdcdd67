"""Moments of softly winsorised Gaussians: against draws, against themselves, and inverted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.stages.refinement.soft_moments import (
    Expectations,
    best_softness,
    expectations,
    gaussian_of,
    slopes_at_normal,
    widest_softness,
)


def _gaussian(d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    mean = 0.4 * rng.standard_normal(d)
    spread = rng.standard_normal((d, d)) / 2
    return mean, spread @ spread.T / math.sqrt(d) + 0.5 * np.eye(d)


@pytest.mark.parametrize("d", [1, 3, 12])
@pytest.mark.parametrize("softness", [0.0, 2.0, 60.0])
def test_expectations_are_the_means_over_many_draws(d: int, softness: float) -> None:
    mean, covariance = _gaussian(d)
    values, vectors = np.linalg.eigh(covariance)
    seen = expectations(vectors.T @ mean, values, softness)
    n = 200_000
    rng = np.random.default_rng(1)
    u = mean + rng.standard_normal((n, d)) @ np.linalg.cholesky(covariance).T
    squares = (u**2).sum(axis=1)
    v = u / np.sqrt(softness + squares)[:, None]
    # an entry is at most one in size: four standard errors
    near = 4 / math.sqrt(n)
    assert np.abs(vectors @ seen.first - v.mean(axis=0)).max() < near
    assert np.abs(vectors @ seen.second @ vectors.T - v.T @ v / n).max() < near
    assert abs(seen.psi - np.exp(-squares / d).mean()) < near


@pytest.mark.parametrize("d", [1, 2, 9, 40])
@pytest.mark.parametrize("softness", [0.0, 1.0, 100.0])
def test_a_gaussian_is_found_from_its_moments(d: int, softness: float) -> None:
    mean, covariance = _gaussian(d, seed=d)
    if d == 1 and softness == 0.0:
        # of one column a hard look shows the sign alone
        mean = np.zeros(1)
    values, vectors = np.linalg.eigh(covariance)
    seen = expectations(vectors.T @ mean, values, softness)
    moments = Expectations(vectors @ seen.first, vectors @ seen.second @ vectors.T, seen.psi)
    found = gaussian_of(moments, softness, widths=(1e-3, 1e3))
    assert np.abs(found.mean - mean).max() < 1e-4
    assert np.abs(found.covariance - covariance).max() < 1e-4


def test_a_gaussian_found_from_noise_has_a_covariance_within_its_limits() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        noise = rng.standard_normal((6, 6))
        moments = Expectations(3 * rng.standard_normal(6), noise + noise.T, rng.normal())
        found = gaussian_of(moments, 0.0, widths=(0.1, 10.0))
        values = np.linalg.eigvalsh(found.covariance)
        assert values[0] > 0.1 - 1e-9
        assert values[-1] < 10.0 + 1e-9


@pytest.mark.parametrize("softness", [0.0, 3.0])
def test_slopes_are_the_derivatives_of_expectations(softness: float) -> None:
    d, step = 5, 1e-5
    slopes = slopes_at_normal(d, softness)
    one, zero = np.ones(d), np.zeros(d)
    at = expectations(zero, one, softness)
    assert at.second[0, 0] == pytest.approx(slopes.level)
    aside = expectations(step * np.eye(d)[0], one, softness)
    assert aside.first[0] / step == pytest.approx(slopes.first, rel=1e-4)
    # without a change of the trace
    wider = expectations(zero, one + step * (np.eye(d)[0] - np.eye(d)[1]), softness)
    gain = (wider.second[0, 0] - wider.second[1, 1]) / (2 * step)
    assert gain == pytest.approx(slopes.second, rel=1e-4)


def test_noise_makes_looks_narrow_and_rows_make_them_soft() -> None:
    loud, quiet = best_softness(20, 2e4, 0.05), best_softness(20, 2e4, 1e-5)
    assert loud == 0.0
    assert quiet > 20
    assert widest_softness(20, 2e4, 1e-4, 0.7) > best_softness(20, 2e4, 1e-4)
    assert widest_softness(20, 2e4, 0.05, 0.1) == loud
