"""All t×t distances: the fast scheme against one pair at a time."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.distances.all_pairs import ParamGeometry, bottleneck_pairs, pairwise_dist_param
from privgmm.distances.parameters import dist_param
from privgmm.mixture import Mixture, MixtureBatch, cholesky_of_root


def scattered(
    seed: int,
    t: int,
    k: int,
    d: int,
    *,
    separation: float = 5.0,
    step: float = 0.1,
    strangers: float = 0.0,
    condition: float = 1.0,
) -> MixtureBatch:
    """Fits around one mixture, components in random order; a share of them unrelated."""
    rng = np.random.default_rng(seed)
    scales = np.geomspace(1, condition**-0.5, d)
    turns = np.linalg.qr(rng.standard_normal((k, d, d)))[0]
    roots = cholesky_of_root(turns * scales)
    means = separation * rng.standard_normal((k, d)) / np.sqrt(d) * scales.max()
    fits = []
    for _ in range(t):
        order = rng.permutation(k)
        if rng.random() < strangers:
            fit_means = separation * rng.standard_normal((k, d))
            fit_roots = roots @ (np.eye(d) + 0.7 * rng.standard_normal((k, d, d)))
        else:
            noise = rng.standard_normal((k, d, 1))
            fit_means = means + step * (roots @ noise)[..., 0]
            fit_roots = roots @ (np.eye(d) + step * rng.standard_normal((k, d, d)) / d)
        weights = rng.dirichlet(np.full(k, 50 / (step + 1e-3)))
        fits.append(Mixture.from_roots(weights, fit_means, fit_roots).permuted(order))
    return MixtureBatch.of(fits)


def one_by_one(batch: MixtureBatch) -> Array:
    t = len(batch)
    table = np.zeros((t, t))
    for i in range(t):
        for j in range(i):
            table[i, j] = table[j, i] = dist_param(batch[i], batch[j])
    return table


@pytest.mark.parametrize(
    ("k", "d", "separation", "strangers"),
    [
        (1, 1, 5.0, 0.2),
        (1, 4, 5.0, 0.0),
        (2, 2, 5.0, 0.0),
        (2, 3, 0.3, 0.5),
        (3, 1, 1.0, 0.1),
        (5, 3, 4.0, 0.2),
        (7, 2, 1.5, 0.4),
    ],
)
def test_equals_dist_param_pair_by_pair(
    k: int, d: int, separation: float, strangers: float
) -> None:
    batch = scattered(k + d, 26, k, d, separation=separation, step=0.5, strangers=strangers)
    np.testing.assert_allclose(
        pairwise_dist_param(batch), one_by_one(batch), rtol=1e-9, atol=1e-300
    )


@pytest.mark.parametrize("step", [1e-7, 1e-3, 1.0])
def test_accurate_when_ill_conditioned(step: float) -> None:
    batch = scattered(1, 12, 2, 4, step=step, condition=1e10)
    np.testing.assert_allclose(
        pairwise_dist_param(batch), one_by_one(batch), rtol=1e-9, atol=1e-300
    )


def test_more_fits_than_lanes() -> None:
    batch = scattered(2, 150, 2, 2, strangers=0.1)
    table = pairwise_dist_param(batch)
    rng = np.random.default_rng(0)
    for i, j in rng.integers(0, 150, size=(60, 2)):
        assert table[i, j] == pytest.approx(dist_param(batch[int(i)], batch[int(j)]), rel=1e-10)
    assert (table == table.T).all()


def test_failed_fits_are_infinitely_far_from_everything() -> None:
    whole = scattered(3, 12, 3, 2)
    ok = np.ones(12, dtype=bool)
    ok[[0, 5, 11]] = False
    partial = MixtureBatch.from_cholesky(whole.weights, whole.means, whole.cholesky, ok)
    table = pairwise_dist_param(partial)
    assert (table[~ok] == np.inf).all()
    assert (table[:, ~ok] == np.inf).all()
    assert (np.diag(table)[ok] == 0).all()
    np.testing.assert_allclose(
        table[np.ix_(ok, ok)], pairwise_dist_param(whole)[np.ix_(ok, ok)], rtol=1e-12
    )


def test_no_fit_and_one_fit() -> None:
    whole = scattered(4, 2, 2, 2)
    none = MixtureBatch.from_cholesky(whole.weights, whole.means, whole.cholesky, [False, False])
    assert (pairwise_dist_param(none) == np.inf).all()
    one = MixtureBatch.from_cholesky(whole.weights, whole.means, whole.cholesky, [False, True])
    assert pairwise_dist_param(one).tolist() == [[np.inf, np.inf], [np.inf, 0.0]]


def test_order_of_components_and_of_fits_does_not_matter() -> None:
    batch = scattered(5, 20, 3, 2, strangers=0.3)
    table = pairwise_dist_param(batch)
    rng = np.random.default_rng(1)
    fits = rng.permutation(20)
    order = np.argsort(rng.random((20, 3)), axis=1)
    moved = MixtureBatch.from_cholesky(
        np.take_along_axis(batch.weights, order, axis=1)[fits],
        np.take_along_axis(batch.means, order[:, :, None], axis=1)[fits],
        np.take_along_axis(batch.cholesky, order[:, :, None, None], axis=1)[fits],
        np.ones(20, dtype=bool),
    )
    np.testing.assert_allclose(pairwise_dist_param(moved), table[np.ix_(fits, fits)], rtol=1e-12)


@pytest.mark.parametrize("separation", [0.0, 1.0, 3.0])
def test_certificate_never_accepts_a_matching_that_can_be_beaten(separation: float) -> None:
    batch = scattered(6, 60, 3, 2, separation=separation, step=0.6)
    geometry = ParamGeometry(batch.weights, batch.means, batch.cholesky)
    order = np.argsort(np.random.default_rng(2).random((60, 3)), axis=1)
    for fits in (geometry, geometry.reordered(order)):
        matched, best, radii = fits.matched(), bottleneck_pairs(geometry), fits.radii()
        certain = matched <= radii[:, None]
        np.testing.assert_allclose(matched[certain], best[certain], rtol=1e-12, atol=1e-300)
        assert (matched >= best * (1 - 1e-12)).all()


def test_certificate_settles_separated_fits() -> None:
    batch = scattered(7, 40, 3, 2, separation=12.0, step=0.1)
    geometry = ParamGeometry(batch.weights, batch.means, batch.cholesky)
    best, radii = bottleneck_pairs(geometry), geometry.radii()
    assert (best <= radii[:, None]).mean() > 0.9


def test_bounds_of_the_search_hold_the_distances() -> None:
    batch = scattered(8, 10, 3, 2, separation=1.0, strangers=0.3)
    geometry = ParamGeometry(batch.weights, batch.means, batch.cholesky)
    i, j = (grid.ravel() for grid in np.indices((10, 10)))
    lower, upper = geometry.bounds(i, j)
    for a in range(3):
        for b in range(3):
            exact = geometry.exact(i, np.full(100, a), j, np.full(100, b))
            assert (lower[:, a, b] <= exact).all()
            assert (exact <= upper[:, a, b]).all()


def test_overflow_is_infinitely_far() -> None:
    tiny = np.stack([np.eye(2)[None], 1e-160 * np.eye(2)[None], 1e-160 * np.eye(2)[None]])
    batch = MixtureBatch.from_cholesky(np.ones((3, 1)), np.zeros((3, 1, 2)), tiny, [True] * 3)
    expected = [[0.0, np.inf, np.inf], [np.inf, 0.0, 0.0], [np.inf, 0.0, 0.0]]
    assert pairwise_dist_param(batch).tolist() == expected
