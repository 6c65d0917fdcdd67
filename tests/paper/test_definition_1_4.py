"""Definition 1.4: dist_GMM, the smallest over permutations of the worst component's distance."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from privgmm.distances.parameters import dist_gmm
from privgmm.distances.total_variation import gaussian_tv
from privgmm.mixture import Mixture


def random_mixture(rng: np.random.Generator, k: int, d: int) -> Mixture:
    roots = 0.4 * rng.standard_normal((k, d, d)) + np.eye(d)
    return Mixture.from_roots(rng.dirichlet(np.full(k, 3.0)), rng.normal(0, 1, (k, d)), roots)


def by_definition(F: Mixture, G: Mixture) -> float:
    def between(i: int, j: int) -> float:
        a, b = F.component(i), G.component(j)
        variation = gaussian_tv(a.mean, a.covariance, b.mean, b.covariance)
        return max(abs(a.weight - b.weight), float(variation))

    orders = itertools.permutations(range(F.n_components))
    return min(max(between(i, j) for i, j in enumerate(order)) for order in orders)


@pytest.mark.parametrize(("k", "d"), [(1, 1), (1, 3), (2, 2), (3, 1), (4, 2)])
def test_equals_brute_force_over_permutations(k: int, d: int) -> None:
    rng = np.random.default_rng(10 * k + d)
    for _ in range(3):
        F, G = random_mixture(rng, k, d), random_mixture(rng, k, d)
        assert dist_gmm(F, G) == pytest.approx(by_definition(F, G), rel=1e-11)


def test_symmetric_and_blind_to_the_order_of_components() -> None:
    rng = np.random.default_rng(1)
    for _ in range(4):
        F, G = random_mixture(rng, 3, 2), random_mixture(rng, 3, 2)
        value = dist_gmm(F, G)
        assert 0 < value <= 1
        assert dist_gmm(G, F) == pytest.approx(value, rel=1e-11)
        assert dist_gmm(F.permuted([2, 0, 1]), G.permuted([1, 0, 2])) == pytest.approx(
            value, rel=1e-11
        )


def test_unchanged_by_affine_maps_of_the_data() -> None:
    rng = np.random.default_rng(2)
    for _ in range(4):
        F, G = random_mixture(rng, 2, 3), random_mixture(rng, 2, 3)
        matrix, shift = rng.standard_normal((3, 3)), 10 * rng.standard_normal(3)
        moved = dist_gmm(F.transformed(matrix, shift), G.transformed(matrix, shift))
        assert moved == pytest.approx(dist_gmm(F, G), rel=1e-8)


def test_zero_exactly_for_equal_mixtures_up_to_order() -> None:
    rng = np.random.default_rng(3)
    G = random_mixture(rng, 3, 2)
    F = Mixture([0.25, 0.5, 0.25], G.means, G.covariances)
    assert dist_gmm(F, F) == 0
    assert dist_gmm(F, F.permuted([2, 0, 1])) == 0
    for change in ("weights", "means", "covariances"):
        arrays = {
            "weights": F.weights.copy(),
            "means": F.means.copy(),
            "covariances": F.covariances.copy(),
        }
        if change == "weights":
            arrays["weights"] += [1e-7, -1e-7, 0]
        elif change == "means":
            arrays["means"][1, 0] += 1e-7
        else:
            arrays["covariances"][2] *= 1 + 1e-7
        assert (
            0
            < dist_gmm(F, Mixture(arrays["weights"], arrays["means"], arrays["covariances"]))
            < 1e-5
        )
