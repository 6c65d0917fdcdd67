"""Distances drawn directly are those of simulated matrices, at a fraction of the time."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.methods.planner import calibrate
from privgmm.methods.request import PlanRequest
from privgmm.methods.what_if import rows_for
from privgmm.stages.agreement.scatter import (
    _MANY_COMPONENTS,
    is_wide,
    pair_distances,
    simulate_blocks,
    simulated_distances,
    wide_distances,
)

QUANTILES = (0.1, 0.5, 0.85, 0.95, 0.99)


@pytest.mark.parametrize(("k", "d"), [(6, 15), (1, 28)])
@pytest.mark.parametrize(("rows_per_column", "lifted"), [(12, True), (200, True), (5000, False)])
def test_distances_follow_the_law_of_matrices(
    k: int, d: int, rows_per_column: int, lifted: bool
) -> None:
    assert is_wide(k, d)
    weights = np.full(k, 1 / k)
    weights[0], weights[-1] = (0.7 / k, 1.3 / k) if k > 1 else (1.0, 1.0)
    rows = k * d * rows_per_column
    pairs = np.triu_indices(90, 1)
    drawn, exact = [], []
    for seed in range(2):
        table = simulated_distances(90, rows, weights, d, seed=seed, lifted=lifted)
        assert (table == table.T).all()
        assert (np.diagonal(table) == 0).all()
        drawn.append(np.quantile(table[pairs], QUANTILES))
        errors = simulate_blocks(90, rows, weights, d, rng=seed + 10)
        exact.append(np.quantile(pair_distances(errors, lifted=lifted)[pairs], QUANTILES))
    np.testing.assert_allclose(np.mean(drawn, axis=0), np.mean(exact, axis=0), rtol=0.05)


def test_blocks_that_cannot_be_fitted_are_nobodys_friends() -> None:
    counts = np.full((20, 3), 500.0)
    counts[4, 1] = 12
    table = wide_distances(20, counts, np.full(3, 500.0), 25, 0, lifted=True)
    off = ~np.eye(20, dtype=bool)
    assert np.isinf(table[4]).all()
    assert np.isinf(table[:, 4]).all()
    assert np.isfinite(np.delete(np.delete(table, 4, 0), 4, 1)).all()
    assert (table[off] > 0).all()


def test_more_blocks_than_are_drawn_are_represented() -> None:
    table = simulated_distances(400, 1e6, np.full(20, 0.05), 20, seed=0, lifted=True)
    assert len(table) == 100


def test_fewer_blocks_of_many_components_need_as_many_rows() -> None:
    """The estimate behind 'this takes 3e13 rows' is the same from a quarter of the blocks."""
    needed = []
    for k in (_MANY_COMPONENTS, _MANY_COMPONENTS + 1):
        plan = calibrate(
            "tight", epsilon=1.0, delta=1e-6, alpha=1.0, n_components=k, n_features=2, n_blocks=400
        )
        needed.append(plan.rows_needed())
    assert needed[1] == pytest.approx(needed[0], rel=0.1)


def test_small_problems_are_simulated_as_ever() -> None:
    assert not is_wide(100, 5)
    assert not is_wide(5, 10)
    table = simulated_distances(50, 3000, [0.5, 0.5], 3, seed=1, lifted=True)
    errors = simulate_blocks(50, 3000, [0.5, 0.5], 3, rng=1)
    np.testing.assert_array_equal(table, pair_distances(errors, lifted=True))


def test_large_questions_are_answered() -> None:
    """Fifty components in fifty dimensions: more rows than for thirty, fewer with more epsilon."""

    def rows(size: int, epsilon: float) -> float:
        return rows_for(
            PlanRequest(n_components=size, n_features=size, epsilon=epsilon, method="lifted")
        )

    small = rows(30, 2.0)
    large = [rows(50, epsilon) for epsilon in (2.0, 8.0)]
    assert small < large[0] < 1e10
    assert large[1] < large[0]
