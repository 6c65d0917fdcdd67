"""Block fits are sorted into solutions: clouds are separated, one cloud is left whole."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.mixture import Mixture, MixtureBatch
from privgmm.stages.agreement.hint import landscape, largest_difference
from privgmm.stages.agreement.scatter import simulate_blocks

LEFT = Mixture([0.3, 0.7], [[0.0, 0.0], [8.0, 0.0]], [np.eye(2), 2 * np.eye(2)])
RIGHT = Mixture([0.6, 0.4], [[0.0, 1.0], [14.0, 0.0]], [3 * np.eye(2), np.eye(2)])


def cloud(truth: Mixture, n: int, *, seed: int, rows: float = 500) -> MixtureBatch:
    """Fit n blocks of well separated components."""
    d = truth.n_features
    errors = simulate_blocks(n, rows, truth.weights, d, rng=seed)
    return MixtureBatch.from_cholesky(
        truth.weights + errors.weights,
        truth.means + np.einsum("kij,tkj->tki", truth.cholesky, errors.means),
        truth.cholesky @ np.linalg.cholesky(np.eye(d) + errors.covariances),
        np.ones(n, dtype=bool),
    )


@pytest.mark.parametrize("seed", range(8))
def test_one_cloud_is_one_solution(seed: int) -> None:
    found = landscape(cloud(LEFT, 60, seed=seed))
    assert len(found.solutions) == 1
    assert found.share(0) > 0.9


@pytest.mark.parametrize("shares", [(40, 20), (20, 40), (50, 5)])
def test_two_clouds_are_separated(shares: tuple[int, int]) -> None:
    first, second = cloud(LEFT, shares[0], seed=1), cloud(RIGHT, shares[1], seed=2)
    order = np.random.default_rng(3).permutation(sum(shares))
    both = MixtureBatch.concatenate([first, second])
    mixed = MixtureBatch.from_cholesky(
        both.weights[order], both.means[order], both.cholesky[order], both.ok[order]
    )
    found = landscape(mixed)
    sizes = [len(solution.members) for solution in found.solutions]
    assert sorted(sizes, reverse=True) == sizes
    assert len(sizes) == 2
    for solution in found.solutions:
        # no block is in the wrong one
        assert len({bool(order[i] < shares[0]) for i in solution.members}) == 1
    assert sum(sizes) >= 0.9 * sum(shares)


def test_three_clouds_at_equal_distances() -> None:
    clouds = [LEFT, RIGHT, RIGHT.transformed(np.eye(2), [40.0, 0.0])]
    batch = MixtureBatch.concatenate([cloud(f, 20, seed=i) for i, f in enumerate(clouds)])
    found = landscape(batch)
    assert len(found.solutions) == 3
    for solution in found.solutions:
        assert len(set(solution.members // 20)) == 1


@pytest.mark.parametrize("length", [1.0, 3.0, 6.0])
def test_a_line_of_fits_is_not_cut(length: float) -> None:
    """Fits along a curve, as from too many components, are no clusters however they are linked."""
    for seed in range(4):
        fits = cloud(LEFT, 60, seed=seed, rows=300)
        means = fits.means.copy()
        means[:, 1, 0] += np.random.default_rng(seed).uniform(0, length, size=60)
        line = MixtureBatch.from_cholesky(fits.weights, means, fits.cholesky, fits.ok)
        assert len(landscape(line).solutions) == 1


def test_order_units_and_labels_have_no_say() -> None:
    batch = MixtureBatch.concatenate([cloud(LEFT, 20, seed=4), cloud(RIGHT, 15, seed=5)])
    found = landscape(batch)
    matrix = np.array([[3.0, 1.0], [-2.0, 0.5]])
    moved = MixtureBatch.of(
        [
            batch[i].transformed(matrix, [1e3, -7.0]).permuted([i % 2, 1 - i % 2])
            for i in range(len(batch))
        ]
    )
    again = landscape(moved)
    assert [s.members.tolist() for s in again.solutions] == [
        s.members.tolist() for s in found.solutions
    ]


def test_failed_and_stray_fits_are_in_no_solution() -> None:
    good = cloud(LEFT, 30, seed=6)
    weights, means = good.weights.copy(), good.means.copy()
    ok = np.ones(30, dtype=bool)
    ok[[2, 9]] = False
    means[5] += 100.0
    found = landscape(MixtureBatch.from_cholesky(weights, means, good.cholesky, ok))
    assert found.failed.tolist() == [2, 9]
    (solution,) = found.solutions
    assert not set(solution.members) & {2, 5, 9}
    assert found.share(0) == len(solution.members) / 30


@pytest.mark.parametrize("n", [0, 1])
def test_hardly_any_fits(n: int) -> None:
    good = cloud(LEFT, 3, seed=7)
    batch = MixtureBatch.from_cholesky(good.weights, good.means, good.cholesky, np.arange(3) < n)
    found = landscape(batch)
    assert len(found.solutions) == n
    assert len(found.failed) == 3 - n


def test_equal_fits_are_one_solution() -> None:
    found = landscape(MixtureBatch.of([LEFT] * 8 + [RIGHT] * 6))
    assert [len(solution.members) for solution in found.solutions] == [8, 6]
    assert [solution.scatter for solution in found.solutions] == [0.0, 0.0]


def test_the_largest_difference_is_found_whatever_the_labels() -> None:
    other = Mixture([0.25, 0.75], [[0.0, 0.0], [8.0, 6.0]], [np.eye(2), 2 * np.eye(2)])
    found = largest_difference(LEFT, other)
    assert found[:2] == (1, 1)
    assert found[2] == pytest.approx(6 / np.sqrt(2))
    turned = largest_difference(LEFT, other.permuted([1, 0]))
    assert turned[:2] == (1, 0)
    assert turned[2] == pytest.approx(found[2])
