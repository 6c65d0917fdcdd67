"""Noise levels: masked this loudly, a component stays as near as promised."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.stages.agreement.noise_levels import covariance_eta, lifted_eta


def test_noise_levels_hold_what_they_promise() -> None:
    """Fresh draws miss alpha as often as they may."""
    rng = np.random.default_rng(11)
    for d, alpha, miss in ((2, 0.5, 0.05), (1, 2.0, 0.02), (4, 1.0, 0.1)):
        eta = lifted_eta(d, alpha, miss)
        sigma = np.linalg.svd(
            np.eye(d + 1) + eta * rng.standard_normal((20_000, d + 1, d + 1)), compute_uv=False
        )
        share = np.mean(2 * np.linalg.norm(np.log(sigma), axis=1) > alpha)
        assert share == pytest.approx(miss, abs=4 * math.sqrt(miss / 6_000))
        eta = covariance_eta(d, alpha, miss)
        lam = (
            np.linalg.svd(np.eye(d) + eta * rng.standard_normal((20_000, d, d)), compute_uv=False)
            ** 2
        )
        worst = np.maximum(np.linalg.norm(lam - 1, axis=1), np.linalg.norm(1 / lam - 1, axis=1))
        assert np.mean(worst > alpha) == pytest.approx(miss, abs=4 * math.sqrt(miss / 6_000))
