"""Triangle inequalities: Lemmas 3.6, 4.1 and 5.2, a stronger form, and one false step.

A distance satisfies an r-restricted z-approximate triangle inequality if ``d(a, b) <= r`` and
``d(b, c) <= r`` imply ``d(a, c) <= z (d(a, b) + d(b, c))``.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.distances.matching import bottleneck_matchings
from privgmm.distances.parameters import component_distances, dist_comp, dist_param
from privgmm.mixture import Mixture, cholesky_of_root

Components = tuple[Array, Array, Array]


def distances(first: Components, second: Components) -> Array:
    return component_distances(*first, *second)


def chain(rng: np.random.Generator, n: int, d: int, size: float) -> list[Components]:
    """Triples a, b, c, n of them, with b and c about `size` from their predecessors."""
    weight = rng.uniform(0, 1, size=n)
    mean = rng.standard_normal((n, d))
    factor = cholesky_of_root(np.eye(d) + 0.5 * rng.standard_normal((n, d, d)))
    links = [(weight, mean, factor)]
    for _ in range(2):
        # Anything from pure weight to pure covariance steps, often along one direction only.
        share = rng.dirichlet(np.full(3, 0.4), size=n) * size * rng.uniform(0, 1.2, size=(n, 1))
        weight = weight + share[:, 0] * rng.choice([-1, 1], size=n)
        way = rng.standard_normal((n, d, 1))
        way /= np.linalg.norm(way, axis=1, keepdims=True)
        mean = mean + share[:, 1, None] * (factor @ way)[..., 0]
        kick = rng.standard_normal((n, d, d)) * (rng.random((n, d, d)) < 0.5)
        kick /= np.maximum(np.linalg.norm(kick, axis=(1, 2), keepdims=True), 1e-3)
        factor = cholesky_of_root(factor @ (np.eye(d) + 0.5 * share[:, 2, None, None] * kick))
        links.append((weight, mean, factor))
    return links


def aligned_chain(grid: Array) -> list[Components]:
    """One-dimensional triples that grow or shrink and walk the same way twice: the worst case.

    Covariance factors 2 or 1/2 and mean steps of 1 put both links exactly at distance 1.
    """
    steps = np.array(list(itertools.product(grid, grid, grid, grid)))
    n = len(steps)
    zero = np.zeros(n)
    links: list[Components] = [(zero, np.zeros((n, 1)), np.ones((n, 1, 1)))]
    for move, growth in ((steps[:, 0], steps[:, 1]), (steps[:, 2], steps[:, 3])):
        _, mean, factor = links[-1]
        ratio = 2.0 ** (growth / 2)
        wide = factor * ratio[:, None, None]
        # A mean step measured in the smaller of the two deviations, so that it counts `move`.
        small = np.minimum(factor, wide)[:, :, 0]
        links.append((zero, mean + move[:, None] * small, wide))
    return links


@pytest.mark.parametrize("size", [1e-3, 0.3, 1.0])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_lemma_4_1_on_random_triples(d: int, size: float) -> None:
    a, b, c = chain(np.random.default_rng(d), 4000, d, size)
    ab, bc, ac = distances(a, b), distances(b, c), distances(a, c)
    near = (ab <= 1) & (bc <= 1)
    assert near.sum() > 1000
    assert (ac[near] <= 1.5 * (ab + bc)[near] * (1 + 1e-9)).all()


def test_lemma_4_1_at_the_boundary() -> None:
    a, b, c = aligned_chain(np.linspace(-1, 1, 11))
    ab, bc, ac = distances(a, b), distances(b, c), distances(a, c)
    near = (ab <= 1 + 1e-12) & (bc <= 1 + 1e-12)
    assert near.all()
    ratio = ac / np.maximum(ab + bc, 1e-300)
    assert ratio.max() <= 1.5 * (1 + 1e-12)
    # The constant is the best possible: 1 -> 2 -> 4 attains it.
    assert ratio.max() == pytest.approx(1.5, rel=1e-12)


def test_lemma_4_1_needs_its_restriction() -> None:
    a, b, c = ((0.5, [0.0], [[s]]) for s in (1.0, 10.0, 100.0))
    assert dist_comp(a, c) > 1.5 * (dist_comp(a, b) + dist_comp(b, c))


@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_log_of_one_plus_dist_comp_is_a_metric(d: int, size: float) -> None:
    a, b, c = chain(np.random.default_rng(10 + d), 4000, d, size)
    ab, bc, ac = (np.log1p(distances(*pair)) for pair in ((a, b), (b, c), (a, c)))
    assert (ac <= (ab + bc) * (1 + 1e-9)).all()
    np.testing.assert_allclose(distances(b, a), distances(a, b), rtol=1e-12)


def test_log_metric_is_tight_at_the_boundary() -> None:
    a, b, c = aligned_chain(np.linspace(-1, 1, 11))
    ab, bc, ac = (np.log1p(distances(*pair)) for pair in ((a, b), (b, c), (a, c)))
    assert (ac <= (ab + bc) * (1 + 1e-12) + 1e-15).all()
    far = ab + bc > 1
    assert (ac[far] / (ab + bc)[far]).max() == pytest.approx(1.0, rel=1e-12)


def test_dist_mean_alone_is_no_metric() -> None:
    """The proof of Lemma 4.1 calls dist_Mean a metric; here is a triple where it is not.

    The covariances of the pair set the unit. Walking while wide costs little, shrinking on the
    spot costs nothing, but the direct distance is measured in the narrow unit of the end.
    """

    def dist_mean(one: tuple[float, float], other: tuple[float, float]) -> float:
        return abs(one[0] - other[0]) / min(one[1], other[1])

    # (mean, standard deviation): no covariance is compared, so widths may differ freely.
    start, walked, shrunk = (0.0, 10.0), (10.0, 10.0), (10.0, 0.1)
    assert dist_mean(start, walked) == 1
    assert dist_mean(walked, shrunk) == 0
    assert dist_mean(start, shrunk) == pytest.approx(100)
    # dist_Comp sees the change of width, so the lemma itself survives.
    a, b, c = ((0.5, [m], [[s * s]]) for m, s in (start, walked, shrunk))
    assert dist_comp(b, c) > 1
    assert np.log1p(dist_comp(a, c)) <= np.log1p(dist_comp(a, b)) + np.log1p(dist_comp(b, c))


def test_lemma_3_6_for_any_distance() -> None:
    """dist^k keeps the (r, z) of the distance: here squared and plain plane distances."""
    rng = np.random.default_rng(4)
    for power, z in ((1, 1.0), (2, 2.0)):
        points = rng.uniform(0, 1, size=(3, 3000, 4, 2))
        a, b, c = points

        def tables(x: Array, y: Array, power: int = power) -> Array:
            return np.asarray(np.linalg.norm(x[:, :, None] - y[:, None], axis=-1) ** power)

        ab, bc, ac = (
            bottleneck_matchings(tables(*pair)).values for pair in ((a, b), (b, c), (a, c))
        )
        assert (ac <= z * (ab + bc) * (1 + 1e-12)).all()


@pytest.mark.parametrize(("k", "d"), [(2, 1), (3, 2)])
def test_lemma_5_2_and_its_stronger_form(k: int, d: int) -> None:
    rng = np.random.default_rng(k)
    near = 0
    for _ in range(150):
        links = []
        for weight, mean, factor in chain(rng, k, d, 0.8):
            positive = np.abs(weight) + 0.1
            mixture = Mixture.from_roots(positive / positive.sum(), mean, factor)
            links.append(mixture.permuted(rng.permutation(k)))
        a, b, c = links
        ab, bc, ac = dist_param(a, b), dist_param(b, c), dist_param(a, c)
        assert np.log1p(ac) <= (np.log1p(ab) + np.log1p(bc)) * (1 + 1e-9)
        if max(ab, bc) <= 1:
            near += 1
            assert ac <= 1.5 * (ab + bc) * (1 + 1e-9)
    assert near > 30
