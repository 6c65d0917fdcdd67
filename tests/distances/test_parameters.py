"""Distances between components and mixtures, against high precision and other formulas."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from scipy.linalg import sqrtm

from privgmm.arrays import Array
from privgmm.distances.parameters import component_distances, dist_comp, dist_gmm, dist_param
from privgmm.errors import InvalidInput
from privgmm.mixture import Component, Mixture, cholesky_of_root

Parts = tuple[float, Array, Array]


def random_factor(rng: np.random.Generator, d: int, condition: float) -> Array:
    """A Cholesky factor whose covariance has the given condition number, in a random pose."""
    turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
    scales = np.geomspace(1.0, condition**-0.5, d)
    return cholesky_of_root(turn * scales)


def nearby(rng: np.random.Generator, factor: Array, step: float) -> Array:
    d = len(factor)
    return cholesky_of_root(factor @ (np.eye(d) + step * rng.standard_normal((d, d)) / d))


def random_mixture(rng: np.random.Generator, k: int, d: int) -> Mixture:
    roots = rng.standard_normal((k, d, d)) + 2 * np.eye(d)
    return Mixture.from_roots(rng.dirichlet(np.full(k, 5.0)), rng.normal(0, 3, (k, d)), roots)


def exact_dist_comp(first: Parts, second: Parts) -> float:
    """Eq. 4 in 60 digits, the stored factors taken as exact."""
    with mpmath.workdps(60):
        (w1, m1, l1), (w2, m2, l2) = [
            (mpmath.mpf(w), mpmath.matrix(m.tolist()), mpmath.matrix(f.tolist()))
            for w, m, f in (first, second)
        ]
        worst = abs(w1 - w2)
        for one, other in ((l1, l2), (l2, l1)):
            inverse = one**-1
            ratio = inverse * other
            excess = ratio * ratio.T - mpmath.eye(len(m1))
            worst = max(worst, mpmath.mnorm(excess, "f"), mpmath.norm(inverse * (m1 - m2)))
        return float(worst)


@pytest.mark.parametrize("step", [1e-7, 1e-4, 0.1, 3.0])
@pytest.mark.parametrize("condition", [1.0, 1e5, 1e10])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_accurate_at_any_distance_and_condition(d: int, condition: float, step: float) -> None:
    rng = np.random.default_rng(int(d + 10 * np.log10(condition)))
    for _ in range(4):
        factor = random_factor(rng, d, condition)
        mean = 1e3 * rng.standard_normal(d)
        first = (0.3, mean, factor)
        second = (
            0.3 + 1e-9,
            mean + 0.1 * step * factor @ rng.standard_normal(d),
            nearby(rng, factor, step),
        )
        truth = exact_dist_comp(first, second)
        mine = component_distances(
            np.asarray(first[0]), *first[1:], np.asarray(second[0]), *second[1:]
        )
        assert mine == pytest.approx(truth, rel=1e-9, abs=0)


def test_accurate_between_ill_conditioned_strangers() -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        first, second = (
            (0.5, rng.standard_normal(4), random_factor(rng, 4, 1e10)) for _ in range(2)
        )
        mine = component_distances(
            np.asarray(first[0]), *first[1:], np.asarray(second[0]), *second[1:]
        )
        assert mine == pytest.approx(exact_dist_comp(first, second), rel=1e-9)


def test_dist_comp_is_equation_4_with_symmetric_roots() -> None:
    rng = np.random.default_rng(8)
    for _ in range(20):
        F = random_mixture(rng, 2, 3)
        a, b = F.component(0), F.component(1)
        parts = [abs(a.weight - b.weight)]
        for one, other in ((a, b), (b, a)):
            root, inverse = sqrtm(one.covariance), np.linalg.inv(other.covariance)
            parts.append(float(np.linalg.norm(root @ inverse @ root - np.eye(3))))
            parts.append(float(np.sqrt((a.mean - b.mean) @ inverse @ (a.mean - b.mean))))
        assert dist_comp(a, b) == pytest.approx(max(parts), rel=1e-8)


def test_each_of_the_three_parts_can_decide() -> None:
    here = Component(0.4, np.zeros(2), np.eye(2))
    assert dist_comp(here, Component(0.1, np.zeros(2), np.eye(2))) == pytest.approx(0.3)
    assert dist_comp(here, (0.4, [3.0, 4.0], np.eye(2))) == pytest.approx(5.0)
    assert dist_comp(here, (0.4, [0.0, 0.0], np.eye(2) / 3)) == pytest.approx(2 * np.sqrt(2))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_dist_param_is_the_best_permutation_of_dist_comp(k: int) -> None:
    rng = np.random.default_rng(k)
    for _ in range(5):
        F, G = random_mixture(rng, k, 3), random_mixture(rng, k, 3)
        brute = min(
            max(dist_comp(F.component(i), G.component(j)) for i, j in enumerate(order))
            for order in itertools.permutations(range(k))
        )
        assert dist_param(F, G) == pytest.approx(brute, rel=1e-9)


def test_dist_param_ignores_order_direction_and_coordinates() -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        F, G = random_mixture(rng, 3, 4), random_mixture(rng, 3, 4)
        value = dist_param(F, G)
        assert dist_param(G, F) == value
        shuffled = dist_param(F.permuted([2, 0, 1]), G.permuted([1, 0, 2]))
        assert shuffled == pytest.approx(value, rel=1e-13)
        matrix, shift = rng.standard_normal((4, 4)), rng.standard_normal(4)
        moved = dist_param(F.transformed(matrix, shift), G.transformed(matrix, shift))
        assert moved == pytest.approx(value, rel=1e-8)
        # Weights are normalised when stored, so reordering may move them by one rounding.
        assert dist_param(F, F.permuted([1, 2, 0])) <= 2e-16


def test_units_of_the_columns_do_not_matter() -> None:
    rng = np.random.default_rng(4)
    F = random_mixture(rng, 2, 3)
    G = Mixture.from_roots(F.weights, F.means, [nearby(rng, f, 1e-3) for f in F.cholesky])
    units = np.diag([1e-9, 1.0, 1e9])
    moved = dist_param(F.transformed(units, np.zeros(3)), G.transformed(units, np.zeros(3)))
    assert moved == pytest.approx(dist_param(F, G), rel=1e-9)


def test_overflow_is_infinitely_far_not_nan() -> None:
    near, far = (1.0, [0.0, 0.0], np.eye(2)), (1.0, [0.0, 0.0], 1e-300 * np.eye(2))
    assert dist_comp(near, far) == np.inf
    assert dist_comp(far, near) == np.inf


def test_dist_gmm_decided_by_weights_or_by_total_variation() -> None:
    F = Mixture([0.3, 0.7], [[0.0], [9.0]], np.ones((2, 1, 1)))
    G = Mixture([0.5, 0.5], [[9.0], [0.0]], np.ones((2, 1, 1)))
    assert dist_gmm(F, G) == pytest.approx(0.2, rel=1e-12)
    H = Mixture([0.7, 0.3], [[8.0], [0.0]], np.ones((2, 1, 1)))
    # Total variation of N(9, 1) and N(8, 1): 2 Phi(1/2) - 1 = erf(1/sqrt 8).
    assert dist_gmm(F, H) == pytest.approx(float(mpmath.erf(1 / mpmath.sqrt(8))), rel=1e-10)


def test_unlike_mixtures_are_refused() -> None:
    rng = np.random.default_rng(0)
    F = random_mixture(rng, 2, 3)
    for other in (random_mixture(rng, 3, 3), random_mixture(rng, 2, 2)):
        for dist in (dist_param, dist_gmm):
            with pytest.raises(InvalidInput, match="same number"):
                dist(F, other)
    with pytest.raises(InvalidInput, match="must be a Mixture"):
        dist_param(F, F.to_dict())  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(InvalidInput, match="same dimension"):
        dist_comp((1.0, [0.0], [[1.0]]), F.component(0))
    with pytest.raises(InvalidInput, match="tuple"):
        dist_comp(F, F.component(0))  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(InvalidInput, match="positive definite"):
        dist_comp((1.0, [0.0], [[-1.0]]), (1.0, [0.0], [[1.0]]))
