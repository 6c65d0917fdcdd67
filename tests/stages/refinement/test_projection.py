"""Rich mixtures, their projections, and a vote that costs no more than its price."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.data.people import ArrayPeople
from privgmm.mixture import Mixture
from privgmm.privacy.noise import noise_source
from privgmm.stages.refinement.projection import (
    merged_to,
    preferred,
    projections,
    split_to,
    vote_sensitivity,
    vote_sums,
)

TRUTH = Mixture(
    [0.4, 0.6], [[-3.0, 0.0], [3.0, 1.0]], [np.eye(2), np.array([[2.0, 0.5], [0.5, 1.0]])]
)


def moments(mixture: Mixture) -> tuple[Array, Array]:
    mean = mixture.weights @ mixture.means
    gaps = mixture.means - mean
    spread = mixture.covariances + gaps[:, :, None] * gaps[:, None, :]
    return mean, np.einsum("k,kij->ij", mixture.weights, spread)


def test_splitting_keeps_the_mean_and_nearly_the_covariance() -> None:
    many = split_to(TRUTH, 9)
    assert many.n_components == 9
    mean, covariance = moments(many)
    want_mean, want = moments(TRUTH)
    assert np.allclose(mean, want_mean)
    # half the variance along the axis, and means 0.7 deviations off: 0.5 + 0.49
    assert np.allclose(covariance, want, rtol=0.05, atol=0.05)


def test_merging_keeps_the_first_two_moments_exactly() -> None:
    many = split_to(TRUTH, 7)
    for k in (5, 2, 1):
        mean, covariance = moments(merged_to(many, k))
        assert np.allclose(mean, moments(many)[0])
        assert np.allclose(covariance, moments(many)[1])


def test_projecting_finds_the_components_that_were_split() -> None:
    found = projections(split_to(TRUTH, 8), 2, seeds=(1, 2))
    best = found[0]
    order = np.argsort(best.means[:, 0])
    assert np.allclose(best.means[order], TRUTH.means, atol=0.1)
    sample = TRUTH.sample(5_000, rng=0)
    levels = [float(m.log_density(sample).mean()) for m in found]
    assert levels[0] >= max(levels) - 0.05


def test_a_mixture_with_too_few_components_is_split() -> None:
    (found,) = projections(TRUTH, 3)
    assert found.n_components == 3


CANDIDATES = [TRUTH, Mixture([1.0], [[0.0, 0.0]], [9 * np.eye(2)]), split_to(TRUTH, 3)]


def test_with_little_noise_the_likeliest_wins() -> None:
    rows = CANDIDATES[1].sample(4_000, rng=1)
    for order in ([0, 1, 2], [1, 0, 2], [2, 0, 1]):
        listed = [CANDIDATES[i] for i in order]
        chosen = preferred(
            ArrayPeople.of(rows),
            listed,
            clip=10.0,
            multiplier=1e-3,
            source=noise_source(0),
        )
        assert order[chosen] == 1


def test_one_person_moves_the_vote_by_no_more_than_priced() -> None:
    """Exact sums of neighbours, also where densities overflow; the move is attained."""
    rng = np.random.default_rng(2)
    base = TRUTH.sample(40, rng=3)
    member = np.concatenate([np.arange(38), [38, 38]])
    worst, unit = 0.0, 0.0
    for _ in range(300):
        pair = []
        for _ in range(2):
            rows = base.copy()
            rows[38:] = rng.standard_normal((2, 2)) * 10.0 ** rng.uniform(-1, 200)
            sums, unit = vote_sums(ArrayPeople.of(rows, member), CANDIDATES, 2.0)
            pair.append(sums)
        worst = max(worst, float(np.linalg.norm(pair[0] - pair[1])))
    assert worst <= vote_sensitivity(unit, 2)
    # two mixtures that disagree without bound about both candidates: the move is attained
    apart = [Mixture([1.0], [[m, 0.0]], [np.eye(2)]) for m in (0.0, -90.0, -90.0)]
    ends = [vote_sums(ArrayPeople.of(np.array([[x, 0.0]])), apart, 2.0)[0] for x in (-99.0, 99.0)]
    reach = float(np.linalg.norm(ends[0] - ends[1])) / vote_sensitivity(2.0**30, 2)
    assert reach == pytest.approx(1, rel=1e-6)
