"""Definitions 1.2, 1.3, 1.5, 1.6 and 1.7: mixtures, total variation, neighbours, privacy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from privgmm.budget import Budget
from privgmm.data.datasets import generate, random_mixture, well_separated
from privgmm.distances.total_variation import gaussian_tv
from privgmm.methods.planner import calibrate
from privgmm.mixture import Mixture
from privgmm.releases import release
from privgmm.stages.agreement.stage import Agreement, AgreementView


@pytest.mark.parametrize(("k", "d"), [(1, 1), (2, 2), (4, 3)])
def test_definition_1_2_density_is_the_weighted_sum(k: int, d: int) -> None:
    mixture = random_mixture(k, d, weights="unequal", growth=2.0, rng=k)
    points = mixture.sample(50, rng=d)
    expected = sum(
        w * multivariate_normal(mean, covariance).pdf(points)
        for w, mean, covariance in zip(
            mixture.weights, mixture.means, mixture.covariances, strict=True
        )
    )
    assert mixture.density(points) == pytest.approx(expected)


def test_definition_1_2_drawing_picks_a_component_by_its_weight() -> None:
    n = 40_000
    mixture = random_mixture(3, 2, condition=9.0, weights=[0.1, 0.3, 0.6], rng=1)
    rows, labels = mixture.sample_with_labels(n, rng=2)
    for j, w in enumerate(mixture.weights):
        mine = rows[labels == j]
        assert len(mine) / n == pytest.approx(w, abs=4 * np.sqrt(w * (1 - w) / n))
        spread = np.sqrt(np.diag(mixture.covariances[j]) / len(mine))
        assert (np.abs(mine.mean(axis=0) - mixture.means[j]) < 4 * spread).all()


def test_definition_1_3_total_variation_is_half_the_integral_of_the_gap() -> None:
    first, second = Mixture([1.0], [[0.0]], [[[1.0]]]), Mixture([1.0], [[0.7]], [[[2.5]]])
    grid = np.linspace(-20, 20, 400_001)[:, None]
    gap = np.abs(first.density(grid) - second.density(grid))
    tv = gaussian_tv([0.0], [[1.0]], [0.7], [[2.5]])
    assert tv == pytest.approx(np.trapezoid(gap, grid[:, 0]) / 2, rel=1e-8)


def test_definition_1_5_replacing_one_row_changes_one_block_at_most() -> None:
    """The same coins, one row replaced by an outrageous one: all other fits stay as they are."""
    rows = generate(well_separated(rng=1), 4_000, rng=2).rows
    plan = calibrate(
        "paper", epsilon=1.0, delta=1e-6, alpha=0.5, n_components=2, n_features=2, n_blocks=20
    )
    neighbour = rows.copy()
    neighbour[1234] = [1e6, -1e6]
    first = release(rows, plan, rng=3).curator
    second = release(neighbour, plan, rng=3).curator
    holders = np.flatnonzero((first.view(AgreementView).positions == 1234).any(axis=1))
    assert np.array_equal(first.view(AgreementView).positions, second.view(AgreementView).positions)
    assert len(holders) == 1
    changed = [
        i
        for i in range(plan.stage(Agreement).n_blocks)
        if not np.array_equal(first.fits.means[i], second.fits.means[i], equal_nan=True)
    ]
    assert changed == holders.tolist()
    others = np.delete(np.arange(plan.stage(Agreement).n_blocks), holders)
    moved = np.abs(first.votes[others] - second.votes[others])
    assert moved.max() <= 1


def _tight_pair(budget: Budget) -> tuple[list[float], list[float]]:
    """Randomised response with failures: the two laws that use a budget up entirely."""
    e, delta = np.exp(budget.epsilon), budget.delta
    likely, unlikely = (1 - delta) * e / (1 + e), (1 - delta) / (1 + e)
    return [delta, likely, unlikely, 0.0], [0.0, unlikely, likely, delta]


@given(epsilon=st.floats(0.01, 12), delta=st.floats(1e-12, 0.4))
def test_definition_1_6_of_the_tight_pair(epsilon: float, delta: float) -> None:
    """``P(S) <= e^epsilon Q(S) + delta`` for all sets S, with equality for one of them."""
    p, q = (np.array(law) for law in _tight_pair(Budget(epsilon, delta)))
    worst = [
        np.maximum(a - np.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p))
    ]  # over all S, the excess is largest where it is positive
    assert worst == pytest.approx([delta, delta], rel=1e-6)


@given(epsilon=st.floats(0.01, 12), delta=st.floats(1e-12, 0.4))
def test_definition_1_7_bounds_every_guess(epsilon: float, delta: float) -> None:
    """The best guess between the laws of two neighbours is right with the stated chance."""
    budget = Budget(epsilon, delta)
    p, q = (np.array(law) for law in _tight_pair(budget))
    best = np.maximum(p, q).sum() / 2
    assert best <= budget.guess_ceiling * (1 + 1e-12)
    assert best == pytest.approx(budget.guess_ceiling, rel=1e-9)
