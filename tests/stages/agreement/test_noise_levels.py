"""Noise levels: masked this loudly, a component stays as near as promised."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.stages.agreement import noise_levels
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


@pytest.mark.parametrize("eta", [1e-4, 0.03, 0.2, 0.6])
def test_draws_that_are_not_looked_at_do_not_change_a_quantile(eta: float) -> None:
    for p in (1, 2, 5):
        matrices, norms = noise_levels._gaussian_matrices(p)
        assert (np.diff(norms) <= 0).all()
        for error in (noise_levels._lifted_error, noise_levels._paper_error):
            errors = noise_levels._errors(matrices, eta, error)
            x = eta * norms
            assert (errors[x < 1] <= (x * (2 + x) / (1 - x) ** 2)[x < 1] * (1 + 1e-9)).all()
            for miss in (0.2, 0.02, 1e-3):
                found = noise_levels._mask_quantile(p, eta, miss, error)
                assert found == float(np.quantile(errors, 1 - miss))
