"""The lifted space: what it compares, averages and masks, from two fits alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.audit.rounding import exact_distance
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture, MixtureBatch, cholesky_of_root
from privgmm.privacy.curves import lifted_mask_curve
from privgmm.privacy.noise import SeededNoise
from privgmm.stages.agreement.algorithm_1 import settled_distances
from privgmm.stages.agreement.lifted_geometry import karcher_mean, lift, lifted_distance, unlift
from privgmm.stages.agreement.lifted_pairs import pairwise_lifted
from privgmm.stages.agreement.lifted_space import LiftedSpace, blurred_pairs, mean_tolerance


def scattered(
    t: int, k: int, d: int, *, scale: float = 0.05, apart: float = 8.0, seed: int = 0
) -> MixtureBatch:
    """Draw fits around one truth with components `apart` deviations apart."""
    rng = np.random.default_rng(seed)
    fits = []
    for _ in range(t):
        weights = np.full(k, 1 / k) * np.exp(scale * rng.standard_normal(k))
        means = apart * np.arange(k)[:, None] * np.eye(d)[0] + scale * rng.standard_normal((k, d))
        roots = np.eye(d) + scale * rng.standard_normal((k, d, d))
        order = rng.permutation(k)
        fits.append(
            Mixture.from_roots((weights / weights.sum())[order], means[order], roots[order])
        )
    return MixtureBatch.of(fits)


def component_table(batch: MixtureBatch, i: int, j: int) -> Array:
    one = lift(batch.weights[i], batch.means[i], batch.cholesky[i])
    two = lift(batch.weights[j], batch.means[j], batch.cholesky[j])
    return lifted_distance(one[:, None], two[None])


@pytest.mark.parametrize(("k", "d", "apart"), [(2, 2, 8.0), (3, 1, 3.0), (3, 2, 2.0)])
def test_blurred_pairs_against_the_definition(k: int, d: int, apart: float) -> None:
    batch = scattered(14, k, d, scale=0.15, apart=apart)
    distances = pairwise_lifted(batch)
    for clearance in (1.0, 2.5, 4.0):
        blurred = blurred_pairs(batch, distances, clearance)
        for i, j in itertools.product(range(len(batch)), repeat=2):
            if distances[i, j] > clearance / 3:
                continue
            table = component_table(batch, i, j)
            best = min(
                itertools.permutations(range(k)),
                key=lambda order: max(table[a, order[a]] for a in range(k)),
            )
            unmatched = [table[a, b] for a in range(k) for b in range(k) if b != best[a]]
            assert blurred[i, j] == (min(unmatched) <= clearance)


def test_two_components_grown_together_are_nobodys_friend() -> None:
    near = scattered(6, 2, 2, apart=0.3)
    assert np.isinf(LiftedSpace(0.1, clearance=3.0).distances(near)).all()
    far = scattered(6, 2, 2, apart=30.0)
    assert np.isfinite(LiftedSpace(0.1, clearance=3.0).distances(far)).all()


@pytest.mark.parametrize(("k", "d"), [(1, 2), (2, 2), (3, 3)])
def test_between_agrees_with_the_table_of_all_pairs(k: int, d: int) -> None:
    batch = scattered(20, k, d, scale=0.08, apart=5.0)
    space = LiftedSpace(0.1, clearance=0.0 if k == 1 else 3.0)
    table = space.distances(batch)
    first, second = (index.astype(np.int64) for index in np.triu_indices(20, 1))
    alone = space.between(batch, first, second)
    near = table[first, second] <= 1.0
    assert near.any()
    np.testing.assert_allclose(alone[near], table[first, second][near], rtol=1e-12)


@pytest.mark.parametrize(("k", "d"), [(1, 2), (2, 2), (2, 3)])
def test_no_third_fit_has_a_say_in_a_distance(k: int, d: int) -> None:
    """Replacing one fit leaves every other pair's distance as it was, bit by bit."""
    space = LiftedSpace(0.1, clearance=0.0 if k == 1 else 3.0)
    batch = scattered(40, k, d, scale=0.3)
    before = space.distances(batch)
    rng = np.random.default_rng(5)
    for trial in range(12):
        changed = int(rng.integers(40))
        fits = [batch[i] for i in range(40)]
        scale = 10.0 ** rng.integers(-3, 4)
        fits[changed] = Mixture.from_roots(
            np.full(k, 1 / k),
            scale * rng.standard_normal((k, d)),
            scale * (np.eye(d) + 0.5 * rng.standard_normal((k, d, d))),
        )
        other = MixtureBatch.of(fits)
        if trial % 3 == 0:
            ok = np.arange(40) != changed
            other = MixtureBatch.from_cholesky(other.weights, other.means, other.cholesky, ok)
        after = space.distances(other)
        rest = np.delete(np.arange(40), changed)
        np.testing.assert_array_equal(after[np.ix_(rest, rest)], before[np.ix_(rest, rest)])


def test_friends_just_at_the_radius_do_not_flip_with_a_stranger() -> None:
    """Thirty fits A and twenty-nine B at distance tau exactly: a sixtieth decides nothing."""
    rng = np.random.default_rng(1)
    a = Mixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    space = LiftedSpace(0.1)
    for _ in range(20):
        shift, root = rng.standard_normal(2), np.eye(2) + 0.1 * rng.standard_normal((2, 2))
        b = Mixture.from_roots([1.0], [0.05 * shift], [root])
        wide = Mixture.from_roots([1.0], [[3.0, 1.0]], [5 * np.tril(rng.random((2, 2)) + 0.2)])
        pair = MixtureBatch.of([a, b])
        tau = float(space.between(pair, np.array([0]), np.array([1]))[0])
        friends = []
        for last in (a, b, wide):
            batch = MixtureBatch.of([a] * 30 + [b] * 29 + [last])
            table = settled_distances(batch, space, tau)
            friends.append(table[:59, :59] <= tau)
        np.testing.assert_array_equal(friends[0], friends[1])
        np.testing.assert_array_equal(friends[0], friends[2])
        assert friends[0].all()


@pytest.mark.parametrize("k", [1, 2, 3])
def test_representative_is_the_mean_of_the_aligned_components(k: int) -> None:
    batch = scattered(12, k, 2, scale=0.2, seed=3)
    rng = np.random.default_rng(0)
    weights = rng.random(12)
    weights[[2, 5]] = 0.0
    space = LiftedSpace(0.1, clearance=0.0 if k == 1 else 2.0)
    item = space.representative(batch, weights, reference=4)
    for a in range(k):
        roots = []
        for i in np.flatnonzero(weights):
            table = component_table(batch, 4, int(i))
            roots.append(
                lift(batch.weights[i], batch.means[i], batch.cholesky[i])[int(np.argmin(table[a]))]
            )
        mean = karcher_mean(np.stack(roots), weights[weights > 0]).root
        anchor = lift(item.weights[a], item.means[a], item.cholesky[a])
        assert lifted_distance(anchor @ item.roots[a], mean) < 1e-9


@pytest.mark.parametrize("reach", [3.0, 8.0, 15.0])
def test_wide_cores_have_a_mean_from_any_reference(reach: float) -> None:
    """Hostile fits: as far apart as the radius allows, flat and far away. None may raise."""
    rng = np.random.default_rng(int(reach))
    space = LiftedSpace(0.1, reach=reach)
    for trial in range(12):
        d = 1 + trial % 3
        p = d + 1
        roots = []
        for _ in range(5):
            step = np.eye(p)[rng.integers(p)] * rng.choice([-1.0, 1.0])
            turn = np.linalg.qr(rng.standard_normal((p, p)))[0]
            roots.append(turn * np.exp(reach * step / 2))
        _, means, factors = unlift(np.array(roots))
        shear = np.eye(d)
        shear[1:, 0] = 1e5
        fits = MixtureBatch.from_cholesky(
            np.ones((5, 1)),
            (means @ shear.T + 1e6)[:, None],
            cholesky_of_root(shear @ factors)[:, None],
            np.ones(5, dtype=bool),
        )
        weights = np.array([0.05, 1.0, 0.5, 1.0, 0.3])
        one, two = (space.representative(fits, weights, reference) for reference in (0, 3))
        assert exact_distance(one, two) <= 2 * mean_tolerance(reach)


def test_far_from_the_origin_nothing_is_lost() -> None:
    """The mean of fits shifted by 1e12 is the mean of the fits, shifted."""
    batch = scattered(15, 2, 2, scale=0.1)
    weights = np.ones(15)
    space = LiftedSpace(0.1, clearance=2.0)
    here = space.representative(batch, weights, 0)
    # the shift itself rounds the means, so both sides start from the rounded ones
    moved = MixtureBatch.from_cholesky(
        batch.weights, batch.means + 2.0**40, batch.cholesky, batch.ok
    )
    back = MixtureBatch.from_cholesky(
        batch.weights, moved.means - 2.0**40, batch.cholesky, batch.ok
    )
    there = space.representative(moved, weights, 0)
    again = space.representative(back, weights, 0)
    np.testing.assert_allclose(there.roots, again.roots, atol=1e-12)
    assert np.abs(there.roots - here.roots).max() < 1e-3


def test_mask_has_the_law_of_the_lifted_formula() -> None:
    """Masked from an anchor or from the origin, lifted matrices have one law."""
    anchored = scattered(3, 1, 2, seed=8)
    space = LiftedSpace(0.2)
    item = space.representative(anchored, np.ones(3), 1)
    root = lift(item.weights[0], item.means[0], item.cholesky[0]) @ item.roots[0]
    rng = SeededNoise(np.random.default_rng(2))
    draws = 4000
    logs = np.empty((draws, 2))
    plain = np.random.default_rng(3)
    for i in range(draws):
        masked = space.mask(item, rng=rng)
        # the weight of a single component is normalised away: compare mean and covariance
        logs[i, 0] = np.linalg.slogdet(masked.covariances[0])[1]
        noisy = root @ (np.eye(3) + 0.2 * plain.standard_normal((3, 3)))
        lifted = noisy @ noisy.T
        schur = lifted[:2, :2] / lifted[2, 2] - np.outer(lifted[:2, 2], lifted[:2, 2]) / (
            lifted[2, 2] ** 2
        )
        logs[i, 1] = np.linalg.slogdet(schur)[1]
    spread = logs.std(axis=0)
    assert abs(logs[:, 0].mean() - logs[:, 1].mean()) < 4 * np.hypot(*spread) / np.sqrt(draws)
    assert abs(spread[0] / spread[1] - 1) < 4 / np.sqrt(draws)


def test_a_component_may_come_out_in_any_place() -> None:
    batch = scattered(4, 3, 1, apart=20.0, seed=9)
    space = LiftedSpace(1e-3, clearance=2.0)
    item = space.representative(batch, np.ones(4), 0)
    rng = SeededNoise(np.random.default_rng(0))
    orders = {tuple(np.argsort(space.mask(item, rng=rng).means[:, 0])) for _ in range(100)}
    assert len(orders) == 6


@pytest.mark.parametrize("clearance", [-1.0, np.inf, np.nan])
def test_bad_clearance(clearance: float) -> None:
    with pytest.raises(InvalidInput, match="clearance"):
        LiftedSpace(0.1, clearance=clearance)


@pytest.mark.parametrize("reach", [0.0, 22.0, 510.0, np.inf, np.nan])
def test_bad_reach(reach: float) -> None:
    with pytest.raises(InvalidInput, match="reach must be positive and finite and below 22"):
        LiftedSpace(0.1, reach=reach)


def test_the_widest_reach_is_where_prices_end() -> None:
    """A mean's tolerance alone moves the mask farther than any order of the curve can price."""
    prices = [lifted_mask_curve(2 * mean_tolerance(reach), 0.1, 2) for reach in (21.0, 22.0)]
    assert [bool(np.isfinite(price.values).any()) for price in prices] == [True, False]


@pytest.mark.parametrize("d", [1, 3])
def test_components_of_any_two_scales_have_a_mean(d: int) -> None:
    """The ratio of the two overflows; every block agrees, so an error would reveal the rows."""
    scales = np.array([1e-180, 1e140])
    rng = np.random.default_rng(d)
    fits = [
        Mixture.from_roots(
            [0.5, 0.5],
            [np.zeros(d), np.full(d, 1e150)],
            scales[:, None, None] * (np.eye(d) + 0.01 * rng.standard_normal((2, d, d))),
        )
        for _ in range(20)
    ]
    batch = MixtureBatch.of(fits)
    space = LiftedSpace(0.1, clearance=2.0, reach=0.5)
    with np.errstate(all="ignore"):
        assert (settled_distances(batch, space, 0.5) < 0.5).all()
        item = space.representative(batch, np.ones(20), 0)
    assert np.abs(item.roots - np.eye(d + 1)).max() < 0.1
    assert np.isfinite(space.mask(item, rng=SeededNoise(rng)).means).all()
