"""What a look saw is found again: without noise nearly exactly, overlap or not."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.data.people import ArrayPeople
from privgmm.mixture import Mixture
from privgmm.privacy.noise import noise_source
from privgmm.stages.refinement.look_solution import (
    Seen,
    Spread,
    shrunk,
    solve_looks,
    solve_tied_look,
)
from privgmm.stages.refinement.soft_looks import SoftLook, Units, noisy_look


def _pair(d: int, apart: float) -> Mixture:
    rng = np.random.default_rng(d)
    means = np.zeros((2, d))
    means[1, 0] = apart
    roots = np.eye(d) + 0.2 * np.tril(rng.standard_normal((2, d, d)))
    return Mixture([0.4, 0.6], means, roots @ np.transpose(roots, (0, 2, 1)))


def _moved(mixture: Mixture) -> Mixture:
    """A start that is off by a third of a width, and too wide."""
    return Mixture(
        [0.5, 0.5], mixture.means + 0.3 / np.sqrt(mixture.n_features), 1.3 * mixture.covariances
    )


def _worst(truth: Mixture, found: Mixture) -> tuple[float, float]:
    """The largest mean and covariance error, in units of the component."""
    roots = np.linalg.inv(truth.cholesky)
    means = np.einsum("aij,aj->ai", roots, found.means - truth.means)
    inside = roots @ found.covariances @ np.transpose(roots, (0, 2, 1)) - np.eye(truth.n_features)
    return float(np.abs(means).max()), float(np.abs(inside).max())


@pytest.mark.parametrize(("d", "apart"), [(2, 6.0), (5, 3.5), (12, 5.0)])
@pytest.mark.parametrize("softness", [0.0, 4.0])
def test_a_look_without_noise_finds_the_mixture(d: int, apart: float, softness: float) -> None:
    truth, n = _pair(d, apart), 100_000
    units, look = Units(np.zeros(d), np.ones(d)), SoftLook(softness, 1e-9)
    public = _moved(truth)
    people = ArrayPeople.of(truth.sample(n, rng=1))
    seen = noisy_look(people, units, public, look, noise_source(0))
    result = solve_looks([Seen(seen, public, look)], n, shrink=False)
    mean, entry = _worst(truth, result.mixture)
    # sampling errors: 100,000 rows, an entry of a covariance by some 1.5 / sqrt(40,000)
    assert mean < 0.04
    assert entry < 0.06
    assert abs(result.mixture.weights[0] - 0.4) < 0.01
    assert result.settled


def test_the_plain_moments_of_overlapping_components_would_be_wrong() -> None:
    """Without the correction for shared rows the covariance is off by far more."""
    truth, n, d = _pair(5, 3.5), 100_000, 5
    units, look = Units(np.zeros(d), np.ones(d)), SoftLook(4.0, 1e-9)
    public = _moved(truth)
    people = ArrayPeople.of(truth.sample(n, rng=1))
    seen = noisy_look(people, units, public, look, noise_source(0))
    corrected = solve_looks([Seen(seen, public, look)], n, shrink=False)
    apart = []
    for a in range(2):
        one = Mixture([1.0], public.means[a][None], public.covariances[a][None])
        alone = type(seen)(*(part[a : a + 1] for part in seen))
        apart.append(solve_looks([Seen(alone, one, look)], n, shrink=False).mixture)
    plain = Mixture(
        truth.weights,
        np.concatenate([one.means for one in apart]),
        np.concatenate([one.covariances for one in apart]),
    )
    assert _worst(truth, plain)[0] > 2 * _worst(truth, corrected.mixture)[0]


def test_a_tied_look_finds_means_and_the_common_shape() -> None:
    d, n = 6, 60_000
    rng = np.random.default_rng(2)
    root = np.eye(d) + 0.3 * np.tril(rng.standard_normal((d, d)))
    means = np.zeros((3, d))
    means[1, 0], means[2, 1] = 12, 12
    truth = Mixture([0.2, 0.3, 0.5], means, np.stack([root @ root.T] * 3))
    public = Mixture(truth.weights, means + 0.2, 1.4 * truth.covariances)
    shape, look = 1.2 * root, SoftLook(0.0, 1e-9, tied=True)
    people = ArrayPeople.of(truth.sample(n, rng=1))
    units = Units(np.zeros(d), np.ones(d))
    seen = noisy_look(people, units, public, look, noise_source(0), shape)
    weights, found, covariance = solve_tied_look(seen, public, shape, look, n)
    assert np.abs(weights - truth.weights).max() < 0.01
    assert np.abs(np.linalg.solve(root, (found - means).T)).max() < 0.1
    # means that are off by a third of a width count for a part of the common covariance
    inside = np.linalg.solve(root, np.linalg.solve(root, covariance).T)
    assert np.abs(inside - np.eye(d)).max() < 0.3


def test_shrinking_brings_noisy_eigenvalues_nearer_to_the_true_ones() -> None:
    rng, d, deviation = np.random.default_rng(0), 40, 0.2
    truth = np.diag(np.linspace(0.5, 2.0, d))
    before, after = [], []
    for _ in range(10):
        draw = deviation * rng.standard_normal((d, d))
        noise = np.triu(draw, 1) / np.sqrt(2)
        noisy = truth + noise + noise.T + np.diag(np.diagonal(draw))
        before.append(np.linalg.norm(noisy - truth))
        after.append(np.linalg.norm(shrunk(noisy, deviation) - truth))
    assert np.mean(after) < 0.7 * np.mean(before)
    assert np.allclose(shrunk(truth, 0.0), truth)


def test_looks_solved_together_are_better_than_either() -> None:
    truth, n, d = _pair(12, 7.0), 20_000, 12
    units = Units(np.zeros(d), np.ones(d))
    people = ArrayPeople.of(truth.sample(n, rng=3))
    errors: list[list[float]] = [[], [], []]
    public = _moved(truth)
    for seed in range(6):
        source, looks = noise_source(seed), []
        for multiplier in (8.0, 8.0):
            look = SoftLook(0.0, multiplier)
            looks.append(Seen(noisy_look(people, units, public, look, source), public, look))
        for seen, kept in zip(([looks[0]], [looks[1]], looks), errors, strict=True):
            found = solve_looks(seen, n, shrink=False)
            gap = np.linalg.solve(truth.cholesky[0], found.raw[0] - truth.covariances[0])
            kept.append(float(np.linalg.norm(gap)))
        assert (np.abs(found.quarrel) < 4).all()
    one, two, both = (float(np.mean(kept)) for kept in errors)
    # the sampling error of the rows is the same in both
    assert both < 0.95 * min(one, two)


def test_a_far_start_is_seen_and_the_answer_lies_nearer() -> None:
    """Components that share rows, looked through a mixture that is a width off."""
    truth, n, d = _pair(5, 3.5), 50_000, 5
    units, look = Units(np.zeros(d), np.ones(d)), SoftLook(0.0, 1e-9)
    off = np.zeros((2, d))
    off[:, 1] = 1.0, -1.0
    public = Mixture([0.6, 0.4], truth.means + off, truth.covariances)
    seen = noisy_look(ArrayPeople.of(truth.sample(n, rng=1)), units, public, look, noise_source(0))
    result = solve_looks([Seen(seen, public, look)], n, shrink=False)
    assert (result.moved > 0.7).all()
    assert _worst(truth, result.mixture)[0] < 0.2


def test_looks_at_different_mixtures_quarrel() -> None:
    truth, n, d = _pair(6, 7.0), 20_000, 6
    other = Mixture(truth.weights, truth.means + 0.4, truth.covariances)
    units, look, source = Units(np.zeros(d), np.ones(d)), SoftLook(0.0, 4.0), noise_source(0)
    looks = [
        Seen(
            noisy_look(ArrayPeople.of(one.sample(n, rng=1)), units, truth, look, source),
            truth,
            look,
        )
        for one in (truth, other)
    ]
    assert (solve_looks(looks, n).quarrel > 4).all()


def test_errors_of_components_that_share_rows_are_stated_larger_and_right() -> None:
    truth, n, d = _pair(5, 3.0), 20_000, 5
    units, look = Units(np.zeros(d), np.ones(d)), SoftLook(0.0, 4.0)
    ratios, alone = [], Spread.of_looks([look], truth.weights, n, d)
    for seed in range(8):
        people = ArrayPeople.of(truth.sample(n, rng=seed))
        seen = noisy_look(people, units, truth, look, noise_source(seed))
        result = solve_looks([Seen(seen, truth, look)], n, shrink=False)
        gap = np.linalg.solve(truth.cholesky[0], result.mixture.means[0] - truth.means[0])
        ratios.append(np.sqrt((gap**2).mean()) / result.spread.means[0])
        assert result.spread.means[0] > 1.2 * alone.means[0]
    assert 0.6 < np.sqrt(np.mean(np.square(ratios))) < 1.7
