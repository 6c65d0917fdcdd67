"""The scatter of block fits without data, against fits of real rows and against exact distances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ks_2samp

from privgmm.arrays import Array
from privgmm.distances.all_pairs import pairwise_dist_param
from privgmm.errors import InvalidInput
from privgmm.mixture import MixtureBatch
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.lifted_pairs import pairwise_lifted
from privgmm.stages.agreement.scatter import (
    BlockErrors,
    component_weights,
    friend_counts_of_blocks,
    pair_distances,
    pass_probability,
    rows_to_agree,
    simulate_blocks,
    vectorised,
)
from privgmm.stages.agreement.votes import AgreementTest, friend_counts

FOUR_SIGMA = 6.3e-5
WEIGHTS = np.array([0.3, 0.7])


def fitted_blocks(t: int, s: int, d: int, seed: int) -> BlockErrors:
    """Fit labelled standard normal rows by maximum likelihood; returns the errors."""
    rng = np.random.default_rng(seed)
    weights, means = np.empty((t, 2)), np.empty((t, 2, d))
    covariances = np.empty((t, 2, d, d))
    for i in range(t):
        labels = rng.random(s) < WEIGHTS[0]
        for j, mine in enumerate((labels, ~labels)):
            rows = rng.standard_normal((int(mine.sum()), d))
            weights[i, j] = mine.mean() - WEIGHTS[j]
            means[i, j] = rows.mean(axis=0)
            covariances[i, j] = np.cov(rows.T, bias=True).reshape(d, d) - np.eye(d)
    blank = np.zeros((t, 2, (d + 1) * (d + 2) // 2))
    return BlockErrors(weights, means, covariances, blank, np.ones((t, 2), dtype=bool))


def as_batch(errors: BlockErrors) -> MixtureBatch:
    """Make mixtures with these errors around two standard components far apart."""
    t, _, d = errors.means.shape
    centres = np.stack([np.zeros(d), np.full(d, 1e3)])
    return MixtureBatch(
        WEIGHTS + errors.weights,
        centres + errors.means,
        np.eye(d) + errors.covariances,
        np.ones(t, dtype=bool),
    )


@pytest.mark.parametrize("d", [1, 3])
def test_simulated_errors_follow_those_of_fitted_rows(d: int) -> None:
    t, s = 1_500, 60
    simulated = simulate_blocks(t, s, WEIGHTS, d, rng=1)
    fitted = fitted_blocks(t, s, d, seed=2)
    for j in range(2):
        pairs = [
            (simulated.weights[:, j], fitted.weights[:, j]),
            (simulated.means[:, j, 0], fitted.means[:, j, 0]),
            (simulated.covariances[:, j, 0, 0], fitted.covariances[:, j, 0, 0]),
            (simulated.covariances[:, j, -1, 0], fitted.covariances[:, j, -1, 0]),
            (
                np.linalg.det(np.eye(d) + simulated.covariances[:, j]),
                np.linalg.det(np.eye(d) + fitted.covariances[:, j]),
            ),
        ]
        for one, two in pairs:
            assert ks_2samp(one, two).pvalue > FOUR_SIGMA


@pytest.mark.parametrize("rows", [1e4, 1e12, 1e18])
def test_errors_shrink_like_one_over_the_root_of_the_rows(rows: float) -> None:
    t = 4_000
    errors = simulate_blocks(t, rows, WEIGHTS, 2, rng=3)
    allowance = 4 / math.sqrt(2 * t)
    for j, w in enumerate(WEIGHTS):
        spreads = {
            math.sqrt(w * (1 - w)): errors.weights[:, j],
            math.sqrt(1 / w): errors.means[:, j, 1],
            math.sqrt(2 / w): errors.covariances[:, j, 1, 1],
        }
        for want, values in spreads.items():
            assert values.std() * math.sqrt(rows) == pytest.approx(want, rel=allowance + 2e-3)
    # weights always sum to one
    assert np.abs(errors.weights.sum(axis=1)).max() < 1e-9


@pytest.mark.parametrize("lifted", [True, False])
def test_distances_agree_with_those_of_the_mixtures(lifted: bool) -> None:
    errors = simulate_blocks(40, 1e7, WEIGHTS, 2, rng=4)
    exact = (pairwise_lifted if lifted else pairwise_dist_param)(as_batch(errors))
    close = pair_distances(errors, lifted=lifted)
    off = ~np.eye(40, dtype=bool)
    assert np.abs(close / np.where(off, exact, 1.0) - 1)[off].max() < 5e-3


def test_a_component_with_too_few_rows_is_no_fit() -> None:
    errors = simulate_blocks(200, 30, [0.05, 0.95], 2, rng=0)
    failed = ~errors.exists.all(axis=1)
    assert 0.3 < failed.mean() < 1
    distances = pair_distances(errors, lifted=True)
    assert np.isinf(distances[failed]).all()
    assert np.isfinite(distances[~failed][:, ~failed]).all()


def test_vectorising_keeps_inner_products() -> None:
    rng = np.random.default_rng(0)
    a, b = (m + m.T for m in rng.standard_normal((2, 4, 4)))
    assert vectorised(a) @ vectorised(b) == pytest.approx(float((a * b).sum()))


def test_component_weights() -> None:
    assert component_weights(4).tolist() == [0.25] * 4
    assert component_weights(3, 0.1).tolist() == pytest.approx([0.1, 0.45, 0.45])
    assert component_weights(1, 0.1).tolist() == [1.0]
    for bad in (0.0, 0.6, -1.0):
        with pytest.raises(InvalidInput, match="smallest"):
            component_weights(2, bad)


def test_few_simulated_blocks_stand_for_many() -> None:
    distances = pair_distances(simulate_blocks(100, 500, WEIGHTS, 2, rng=5), lifted=True)
    radius = float(np.quantile(distances, 0.7))
    counts = friend_counts(distances, radius)
    assert np.array_equal(friend_counts_of_blocks(distances, radius, 100), counts)
    many = friend_counts_of_blocks(distances, radius, 1_000)
    assert many.shape == (1_000,)
    assert np.quantile(many, [0.2, 0.5, 0.8]) == pytest.approx(
        10 * np.quantile(counts, [0.2, 0.5, 0.8]), rel=0.03
    )
    assert (many <= 1_000).all()


def agreement(t: int, radius: float) -> AgreementTest:
    sigma = 3.0
    theta = DiscreteGaussian(sigma).upper_point(1e-6)
    return AgreementTest(t, radius, sigma, theta, t // 2 + 1, t // 2 + 10, t // 3)


@pytest.mark.parametrize("lifted", [True, False])
@pytest.mark.parametrize("probability", [0.5, 0.9])
def test_rows_needed_is_where_the_chance_is_reached(lifted: bool, probability: float) -> None:
    test = agreement(120, 0.4 if lifted else 0.02)
    rows = rows_to_agree(test, WEIGHTS, 2, lifted=lifted, probability=probability)
    at: list[float] = [
        pass_probability(test, factor * rows / 120, WEIGHTS, 2, lifted=lifted)
        for factor in (0.9, 1.02, 1.2)
    ]
    assert at[0] < probability <= at[1] + 0.02
    assert at[0] <= at[1] <= at[2]


def test_a_smaller_radius_takes_more_rows_by_its_square() -> None:
    coarse, fine = (
        rows_to_agree(agreement(120, radius), WEIGHTS, 2, lifted=True, probability=0.9)
        for radius in (1e-2, 1e-4)
    )
    assert fine / coarse == pytest.approx(1e4, rel=0.2)


def test_a_test_that_cannot_pass_needs_infinitely_many_rows() -> None:
    hopeless = PopulousTest(30, 0.1, 0.2, 1e-6)
    assert rows_to_agree(hopeless, WEIGHTS, 2, lifted=False, probability=0.5) == math.inf
    with pytest.raises(InvalidInput, match="probability"):
        rows_to_agree(hopeless, WEIGHTS, 2, lifted=False, probability=1.0)


def test_the_chance_of_passing_is_that_of_simulated_runs() -> None:
    """Averages over fresh blocks and noise fall where `pass_probability` says."""
    test, rows = agreement(120, 0.4), 300.0
    stated = pass_probability(test, rows, WEIGHTS, 2, lifted=True)
    rng = np.random.default_rng(6)

    def run() -> bool:
        table: Array = pair_distances(simulate_blocks(120, rows, WEIGHTS, 2, rng=rng), lifted=True)
        return test.examine(table, rng=rng).passed

    share = np.mean([run() for _ in range(150)])
    assert share == pytest.approx(stated, abs=4 * 0.5 / math.sqrt(150) + 0.1)
