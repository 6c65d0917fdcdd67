"""Pairs of Gaussian vectors against densities, drawn matrices and single numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ks_2samp, multivariate_normal, norm

from privgmm.errors import InvalidInput
from privgmm.privacy.gaussian_pairs import GaussianPair, directions

FOUR_SIGMA = 6.3e-5


def _pair() -> GaussianPair:
    rng = np.random.default_rng(1)
    roots = [np.tril(0.2 * rng.standard_normal((3, 3))) + np.eye(3) for _ in range(2)]
    return GaussianPair(np.zeros(3), roots[0], np.array([0.5, 0.0, -0.2]), roots[1])


def test_loss_is_the_log_ratio_of_densities() -> None:
    pair = _pair()
    seen = pair.draw([True, False, True, False], rng=np.random.default_rng(2))
    expected = multivariate_normal(pair.mean_a, pair.root_a @ pair.root_a.T).logpdf(
        seen
    ) - multivariate_normal(pair.mean_b, pair.root_b @ pair.root_b.T).logpdf(seen)
    assert pair.loss(seen) == pytest.approx(expected)
    assert pair.swapped().loss(seen) == pytest.approx(-expected)


def test_one_more_number_adds_its_own_loss() -> None:
    pair, sigma = _pair(), 2.0
    joint = GaussianPair.joined([pair, GaussianPair.of_number(0.0, 1.0, sigma)])
    seen = joint.draw(np.ones(5, dtype=bool), rng=np.random.default_rng(4))
    alone = (1 - 2 * seen[:, -1]) / (2 * sigma**2)
    assert joint.loss(seen) == pytest.approx(pair.loss(seen[:, :-1]) + alone)


def test_losses_of_joined_pairs_add() -> None:
    parts = [_pair(), GaussianPair.of_number(1.0, 1.4, 0.5), _pair().swapped()]
    joint = GaussianPair.joined(parts)
    seen = joint.draw([True, False, True], rng=np.random.default_rng(5))
    split = np.split(seen, [3, 4], axis=1)
    each = sum(part.loss(block) for part, block in zip(parts, split, strict=True))
    assert joint.loss(seen) == pytest.approx(each)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_delta_of_one_number_is_the_normal_one(epsilon: float) -> None:
    m = 0.8
    exact = norm.cdf(m / 2 - epsilon / m) - math.exp(epsilon) * norm.cdf(-m / 2 - epsilon / m)
    assert float(GaussianPair.of_number(3.0, 3.4, 0.5).delta(epsilon)) == pytest.approx(exact)


def test_a_matrix_pair_is_two_drawn_matrices() -> None:
    ratios, eta, n = np.array([0.5, 2.0]), 0.3, 4000
    pair, rng = GaussianPair.of_matrix(ratios, eta), np.random.default_rng(6)
    root = np.eye(2) + eta * rng.standard_normal((n, 2, 2))
    for from_a, drawn in ((True, root), (False, np.sqrt(ratios)[:, None] * root)):
        seen = pair.draw(np.full(n, from_a), rng=rng)
        for entry in range(4):
            assert ks_2samp(seen[:, entry], drawn.reshape(n, 4)[:, entry]).pvalue > FOUR_SIGMA


def test_both_sides_must_have_one_length() -> None:
    one, two = np.eye(1), np.eye(2)
    zero = np.zeros(1)
    GaussianPair(zero, one, zero, one)
    for wrong in (
        (zero, two, zero, one),
        (zero, one, zero, two),
        (zero, one, np.zeros(2), one),
        (zero, two, zero, two),
    ):
        with pytest.raises(InvalidInput, match="one length m, got shapes"):
            GaussianPair(*wrong)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_directions_are_unit_vectors_of_both_signs(size: int) -> None:
    found = directions(size, rng=np.random.default_rng(7))
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(len(found)))
    assert np.sum(found, axis=0) == pytest.approx(np.zeros(size))
