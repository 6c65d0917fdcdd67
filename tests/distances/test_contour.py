"""The kernels under total variation: series against mpmath, paths against each other."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from privgmm.distances import contour


@pytest.mark.parametrize("size", [1e-12, 1e-5, 0.05, 0.2, 0.2999, 0.3001, 0.7, 40.0])
@pytest.mark.parametrize("angle", [0.0, 0.5, 1.57, 2.5])
def test_log1p_minus_keeps_its_digits(size: float, angle: float) -> None:
    z = size * complex(math.cos(angle), math.sin(angle))
    with mp.workdps(50):
        truth = mp.log1p(mp.mpc(z)) - mp.mpc(z)
        assert abs(mp.mpc(contour._log1p_minus(z)) - truth) <= 4e-15 * abs(truth)


def test_any_path_gives_the_same_overlap() -> None:
    """Cauchy's theorem: where the path crosses the axis does not matter."""
    rng = np.random.default_rng(0)
    delta = rng.uniform(-0.6, 1.5, 6)
    form = np.empty((4, 6))
    contour._load(delta, 1 + delta, rng.uniform(0, 1, 6), False, form)
    results = [contour._follow(form, 0.0, 0.0, start, False) for start in (0.2, 0.45, 0.8)]
    for gap, log_overlap, panels in results:
        assert panels > 0
        assert gap == pytest.approx(results[0][0], abs=1e-14)
        assert math.exp(log_overlap) == pytest.approx(1 - gap, abs=1e-14)


def test_paths_on_either_side_of_the_pole_are_complementary() -> None:
    rng = np.random.default_rng(1)
    delta = rng.uniform(-0.4, 0.6, 4)
    form = np.empty((4, 4))
    contour._load(delta, 1 + delta, rng.uniform(0, 0.5, 4), False, form)
    for eps in (0.0, 0.2, 0.5):
        right = contour._follow(form, eps, 0.0, 0.4, False)
        left = contour._follow(form, eps, 0.0, contour._saddle(form, eps, True), True)
        assert math.exp(left[1]) == pytest.approx(right[0], rel=1e-12)
        assert math.exp(left[1]) + math.exp(right[1]) == pytest.approx(1, abs=1e-13)


def test_swapping_the_gaussians_reflects_the_moments() -> None:
    rng = np.random.default_rng(2)
    delta, square = rng.uniform(-0.9, 3, 5), rng.uniform(0, 2, 5)
    here, there = np.empty((4, 5)), np.empty((4, 5))
    contour._load(delta, 1 + delta, square, False, here)
    contour._load(delta, 1 + delta, square, True, there)
    for s in (0.3 + 0.0j, 0.2 + 1.5j, 0.7 - 4j):
        assert contour._log_moment(s, here) == pytest.approx(contour._log_moment(1 - s, there))
    step = 1e-6
    for s in (0.3 + 0.2j, 0.1 + 2j):
        pole = -1 / s + 1 / (1 - s)
        slope = contour._slope(s, here, 0.0)[0] - pole
        ahead, behind = (contour._log_moment(s + sign * step, here) for sign in (1, -1))
        assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-7)


def test_a_lost_path_says_so() -> None:
    form = np.full((4, 1), np.nan)
    assert contour._follow(form, 0.0, 0.0, 0.5, False)[2] == -1


def test_whitening_matches_exact_arithmetic() -> None:
    rng = np.random.default_rng(3)
    d = 6
    turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
    cov = (turn * np.logspace(0, -10, d)) @ turn.T
    cov = (cov + cov.T) / 2
    step = np.linalg.cholesky(cov) * 1e-3
    high, low = step @ step.T, 1e-20 * np.eye(d)
    x = np.tril(np.linalg.inv(np.linalg.cholesky(cov)))
    blank = np.zeros((d, d))
    first, difference = np.stack([cov, blank, blank, blank]), np.stack([high, low, blank, blank])
    factor, shift = np.stack([blank, blank]), np.stack([np.ones(d), np.full(d, 1e-17)])
    contour.whiten_twice(x, first, difference, factor, shift)
    with mp.workdps(60):
        X = mp.matrix(x.tolist())
        S, E = mp.matrix(cov.tolist()), mp.matrix(high.tolist()) + mp.matrix(low.tolist())
        v = mp.matrix([mp.mpf(1) + mp.mpf(1e-17)] * d)
        exact = [X * S * X.T, X * E * X.T, mp.cholesky(X * (S + E) * X.T), X * v]
        found = [first[0], difference[0], np.tril(factor[0]), shift[0]]
        for value, truth in zip(found, exact, strict=True):
            error = mp.norm(mp.matrix(value.tolist()) - truth, mp.inf)
            assert error <= 1e-15 * mp.norm(truth, mp.inf)
