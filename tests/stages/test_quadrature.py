"""Points that stand for a mixture, and scores in local coordinates."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.mixture import Mixture
from privgmm.stages.quadrature import points_of, scores, wave_moments
from privgmm.stages.refinement.noisy_moments import _moved

MIXTURE = Mixture(
    [0.3, 0.7], [[-1.0, 0.5], [1.0, 0.0]], [[[1.0, 0.3], [0.3, 0.5]], [[0.4, -0.1], [-0.1, 0.8]]]
)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_points_have_the_moments_of_the_mixture(d: int) -> None:
    rng = np.random.default_rng(d)
    mixture = Mixture.from_roots(
        [0.2, 0.8], rng.standard_normal((2, d)), rng.standard_normal((2, d, d)) + 2 * np.eye(d)
    )
    rows, mass = points_of(mixture)
    assert mass.sum() == pytest.approx(1.0)
    mean = mixture.weights @ mixture.means
    assert mass @ rows == pytest.approx(mean, abs=1e-9)
    gaps = mixture.means - mean
    spread = mixture.covariances + gaps[:, :, None] * gaps[:, None, :]
    whole = np.einsum("k,kij->ij", mixture.weights, spread)
    assert (rows - mean).T @ ((rows - mean) * mass[:, None]) == pytest.approx(whole)


def test_expectations_are_those_of_many_draws() -> None:
    rows, mass = points_of(MIXTURE)
    drawn = MIXTURE.sample(200_000, rng=1)
    waves, sizes = (
        (np.cos(x @ [1.0, 2.0]) for x in (drawn, rows)),
        ((np.abs(x).max(axis=1)) for x in (drawn, rows)),
    )
    for seen, expected in (waves, sizes):
        assert mass @ expected == pytest.approx(seen.mean(), abs=4 * seen.std() / 200_000**0.5)


def test_scores_are_derivatives_along_local_coordinates() -> None:
    """The coordinates are those in which refinement moves a mixture."""
    rows = MIXTURE.sample(20, rng=2)
    found = scores(MIXTURE, rows)
    assert found.shape == (20, 12)
    for j in range(12):
        step = np.zeros(12)
        step[j] = 1e-5
        ahead, behind = (_moved(MIXTURE, s.reshape(2, 6)).log_density(rows) for s in (step, -step))
        assert found[:, j] == pytest.approx((ahead - behind) / 2e-5, abs=1e-6)


def test_mean_scores_are_zero() -> None:
    rows, mass = points_of(MIXTURE)
    assert mass @ scores(MIXTURE, rows) == pytest.approx(np.zeros(12), abs=2e-3)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_wave_moments_are_the_sums_over_all_points(d: int) -> None:
    """Waves are evaluated at half of the points, and give the sums over all of them."""
    rng = np.random.default_rng(d)
    roots = np.tril(rng.normal(size=(3, d, d))) + 1.5 * np.eye(d)
    mixture = Mixture(
        [0.2, 0.3, 0.5], 5 * rng.normal(size=(3, d)), roots @ roots.transpose(0, 2, 1)
    )
    rows, mass = points_of(mixture)
    frequencies, values = rng.normal(size=(20, d)), rng.normal(size=(len(rows), 4))
    phases = rows @ frequencies.T
    waves = np.concatenate([np.cos(phases), np.sin(phases)], axis=1)
    expected = (waves * mass[:, None]).T @ values
    found = wave_moments(mixture, frequencies, rows, values)
    assert found == pytest.approx(expected, abs=1e-5)
    assert np.abs(expected).max() > 1e-3, "what is compared is not zero"
