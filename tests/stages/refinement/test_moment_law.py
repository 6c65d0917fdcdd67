"""Standard errors of a refined mixture: no better than the rows allow, and what they scatter by."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.mixture import Mixture
from privgmm.stages.quadrature import points_of, scores
from privgmm.stages.refinement.moment_law import Features, moment_law, refined_covariance
from privgmm.stages.refinement.noisy_moments import (
    cut_features,
    solve_moments,
    winsorised_features,
)
from privgmm.stages.standard_errors import StandardErrors

MIXTURE = Mixture(
    [0.4, 0.6], [[-1.5, 0.0], [1.5, 0.3]], [[[1.0, 0.3], [0.3, 0.7]], [[0.6, -0.2], [-0.2, 1.0]]]
)
N = 5_000
SILENT = np.zeros(6)


def refined_errors(radius: float, deviations: Array, features: Features) -> StandardErrors:
    covariance = refined_covariance(MIXTURE, radius, deviations, N, features)
    return StandardErrors.from_local(MIXTURE.weights, MIXTURE.cholesky, covariance)


def test_without_noise_and_cut_they_are_those_of_maximum_likelihood() -> None:
    """Moments by responsibilities are the scores, so nothing is lost: Fisher's information."""
    rows, mass = points_of(MIXTURE)
    seen = scores(MIXTURE, rows)
    fisher = N * (seen.T * mass) @ seen + np.eye(12)
    least = np.asarray(np.linalg.inv(fisher), dtype=np.float64)
    likelihood = StandardErrors.from_local(MIXTURE.weights, MIXTURE.cholesky, least)
    for features in (cut_features, winsorised_features):
        found = refined_errors(50.0, SILENT + 1e-9, features)
        for name in ("weights", "means", "covariances"):
            assert getattr(found, name) == pytest.approx(getattr(likelihood, name), rel=1e-2)


def test_noise_and_cutting_only_add() -> None:
    best = refined_errors(50.0, SILENT + 1e-9, cut_features)
    cut = refined_errors(2.5, SILENT + 1e-9, cut_features)
    noisy = refined_errors(2.5, SILENT + 0.01, cut_features)
    for name in ("weights", "means", "covariances"):
        assert (getattr(best, name) <= getattr(cut, name) * (1 + 1e-6)).all()
        assert (getattr(cut, name) < getattr(noisy, name)).all()


def test_solutions_scatter_as_they_say() -> None:
    """Moments drawn from their law, solved for: errors in units of the stated ones are normal."""
    deviations = np.array([0.002, 0.004, 0.004, 0.01, 0.01, 0.01])
    law = moment_law(MIXTURE, 3.0, deviations, N, winsorised_features)
    errors = refined_errors(3.0, deviations, winsorised_features)
    mean = law.mass @ law.features
    rng = np.random.default_rng(1)
    scaled = []
    for target in rng.multivariate_normal(mean, law.covariance, 12):
        found = solve_moments(
            MIXTURE, target.reshape(2, 6), 3.0, deviations, N, features=winsorised_features
        ).mixture
        scaled += [
            ((getattr(found, name) - getattr(MIXTURE, name)) / getattr(errors, name)).ravel()
            for name in ("means", "covariances")
        ]
    squares = np.concatenate(scaled) ** 2
    # numbers of one solution go together: about 11 of them are free
    assert abs(squares.mean() - 1) < 4 * np.sqrt(2 / (12 * 8))
