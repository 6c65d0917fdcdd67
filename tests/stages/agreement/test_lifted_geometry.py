"""The lifted geometry: a metric, affine invariant, accurate, with means that are means."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from scipy.linalg import eigh, expm, logm
from scipy.optimize import minimize

from privgmm.arrays import Array
from privgmm.distances.matching import bottleneck_matching
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture, MixtureBatch, cholesky_of_root
from privgmm.stages.agreement.lifted_geometry import (
    block_form,
    component_gaps,
    karcher_mean,
    lift,
    lifted_distance,
    pairwise_lifted,
    unlift,
)
from privgmm.stages.agreement.lifted_pairs import LiftedGeometry

Parts = tuple[Array, Array, Array]


def parts(
    rng: np.random.Generator, shape: tuple[int, ...], d: int, *, condition: float = 10.0
) -> Parts:
    """Draw weights, means and factors of random components."""
    turns = np.linalg.qr(rng.standard_normal((*shape, d, d)))[0]
    scales = np.exp(rng.uniform(-0.5 * np.log(condition), 0, size=(*shape, 1, d)))
    means = rng.standard_normal((*shape, d))
    return rng.uniform(0.05, 1, size=shape), means, cholesky_of_root(turns * scales)


def moved(rng: np.random.Generator, here: Parts, step: float) -> Parts:
    """Move components by about `step`."""
    w, m, f = here
    d = m.shape[-1]
    noise = rng.standard_normal((*m.shape, 1))
    return (
        w * np.exp(step * rng.standard_normal(w.shape)),
        m + step * (f @ noise)[..., 0],
        cholesky_of_root(f @ (np.eye(d) + step * rng.standard_normal(f.shape) / d)),
    )


def exact_distance(first: Array, second: Array) -> float:
    """Compute the distance from roots taken as exact, in 60 digits."""
    with mpmath.workdps(60):
        N = mpmath.matrix(first.tolist()) ** -1 * mpmath.matrix(second.tolist())
        values = mpmath.eigsy(N * N.T, eigvals_only=True)
        return float(mpmath.sqrt(sum(mpmath.log(x) ** 2 for x in values)))


def exact_from_parts(first: Parts, second: Parts) -> float:
    """Compute the distance from parts taken as exact, in 60 digits."""
    with mpmath.workdps(60):
        roots = []
        for w, m, f in (first, second):
            d = len(m)
            root = mpmath.zeros(d + 1)
            for r, c in itertools.product(range(d), repeat=2):
                root[r, c] = mpmath.mpf(float(f[r, c]))
            for r in range(d):
                root[r, d] = mpmath.mpf(float(m[r]))
            root[d, d] = 1
            roots.append(root * mpmath.sqrt(mpmath.mpf(float(w))))
        N = roots[0] ** -1 * roots[1]
        values = mpmath.eigsy(N * N.T, eigvals_only=True)
        return float(mpmath.sqrt(sum(mpmath.log(x) ** 2 for x in values)))


def batch_of(w: Array, m: Array, f: Array, ok: object = None) -> MixtureBatch:
    good = np.ones(len(w), dtype=bool) if ok is None else np.asarray(ok)
    return MixtureBatch.from_cholesky(w / w.sum(axis=1, keepdims=True), m, f, good)


def fits(seed: int, t: int, k: int, d: int, *, step: float, strangers: float = 0.0) -> MixtureBatch:
    rng = np.random.default_rng(seed)
    centre = parts(rng, (k,), d)
    rows = []
    for _ in range(t):
        here = parts(rng, (k,), d) if rng.random() < strangers else moved(rng, centre, step)
        order = rng.permutation(k)
        rows.append(tuple(value[order] for value in here))
    w, m, f = (np.stack(column) for column in zip(*rows, strict=True))
    return batch_of(w, m, f)


# lift, unlift ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (4, 2)])
def test_lift_is_a_root_of_the_lifted_matrix(shape: tuple[int, ...]) -> None:
    w, m, f = parts(np.random.default_rng(0), shape, 3)
    U = lift(w, m, f)
    T = U @ U.swapaxes(-1, -2)
    second = f @ f.swapaxes(-1, -2) + m[..., :, None] * m[..., None, :]
    np.testing.assert_allclose(T[..., :3, :3], w[..., None, None] * second, rtol=1e-12)
    np.testing.assert_allclose(T[..., :3, 3], w[..., None] * m, rtol=1e-12)
    np.testing.assert_allclose(T[..., 3, 3], w, rtol=1e-12)


@pytest.mark.parametrize("turned", [False, True])
def test_unlift_inverts_lift_for_any_root(turned: bool) -> None:
    rng = np.random.default_rng(1)
    here = parts(rng, (5, 2), 4, condition=1e8)
    U = lift(*here)
    if turned:
        U = U @ np.linalg.qr(rng.standard_normal((5, 2, 5, 5)))[0]
    for mine, truth in zip(unlift(U), here, strict=True):
        np.testing.assert_allclose(mine, truth, rtol=1e-10, atol=1e-14)


def test_unlift_keeps_the_accuracy_of_the_root() -> None:
    rng = np.random.default_rng(2)
    w, m, f = parts(rng, (20,), 3, condition=1e10)
    w2, m2, f2 = unlift(lift(w, m + 1e6, f))
    np.testing.assert_allclose(w2, w, rtol=1e-15)
    np.testing.assert_allclose(m2, m + 1e6, rtol=1e-15)
    # Through T itself, Sigma would be the difference of numbers near 1e12.
    np.testing.assert_allclose(f2, f, rtol=1e-14)


def test_block_form_is_a_root_of_the_same_matrix_and_is_final() -> None:
    rng = np.random.default_rng(3)
    A = rng.standard_normal((30, 4, 4))
    U = block_form(A)
    np.testing.assert_allclose(
        U @ U.swapaxes(-1, -2), A @ A.swapaxes(-1, -2), rtol=1e-11, atol=1e-13
    )
    assert (U[:, -1, :-1] == 0).all()
    assert (np.triu(U[:, :-1, :-1], 1) == 0).all()
    assert (np.diagonal(U, axis1=1, axis2=2) > 0).all()
    assert (block_form(U) == U).all()


# distance ----------------------------------------------------------------------------------


def test_distance_is_that_of_the_generalised_eigenvalues() -> None:
    rng = np.random.default_rng(4)
    U, V = lift(*parts(rng, (20,), 3)), lift(*parts(rng, (20,), 3))
    for one, two, value in zip(U, V, lifted_distance(U, V), strict=True):
        ratios = eigh(two @ two.T, one @ one.T, eigvals_only=True)
        assert value == pytest.approx(np.linalg.norm(np.log(ratios)), rel=1e-9)


@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize("condition", [1.0, 1e10])
@pytest.mark.parametrize("step", [1e-8, 1e-3, 0.3, 20.0])
def test_accurate_near_and_far(step: float, condition: float, shift: float) -> None:
    rng = np.random.default_rng(5)
    for _ in range(3):
        w, m, f = parts(rng, (), 3, condition=condition)
        here = (w, m + shift, f)
        there = moved(rng, here, step)
        U, V = lift(*here), lift(*there)
        assert lifted_distance(U, V) == pytest.approx(exact_distance(U, V), rel=1e-9, abs=0)
        geometry = LiftedGeometry(
            *(np.stack([a, b])[:, None] for a, b in zip(here, there, strict=True))
        )
        zero, one = np.array([0]), np.array([1])
        kernel = geometry.exact(zero, zero, one, zero)[0]
        assert kernel == pytest.approx(exact_from_parts(here, there), rel=1e-9, abs=0)


def test_accurate_between_ill_conditioned_strangers() -> None:
    rng = np.random.default_rng(6)
    for _ in range(4):
        here, there = (parts(rng, (), 4, condition=1e10) for _ in range(2))
        U, V = lift(*here), lift(*there)
        truth = exact_distance(U, V)
        assert lifted_distance(U, V) == pytest.approx(truth, rel=1e-9)
        geometry = LiftedGeometry(
            *(np.stack([a, b])[:, None] for a, b in zip(here, there, strict=True))
        )
        zero, one = np.array([0]), np.array([1])
        assert geometry.exact(zero, zero, one, zero)[0] == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("spread", [1e-4, 0.3, 3.0])
def test_triangle_inequality_and_symmetry(spread: float) -> None:
    rng = np.random.default_rng(7)
    centre = parts(rng, (), 3)
    roots = lift(
        *(np.stack(x) for x in zip(*(moved(rng, centre, spread) for _ in range(30)), strict=True))
    )
    D = lifted_distance(roots[:, None], roots[None])
    np.testing.assert_allclose(D, D.T, rtol=1e-9, atol=1e-15)
    assert (np.diag(D) == 0).all()
    assert (D[:, None, :] <= (D[:, :, None] + D[None, :, :]) * (1 + 1e-9)).all()


def test_triangle_inequality_is_tight_on_geodesics() -> None:
    U = lift(*parts(np.random.default_rng(8), (), 2))
    G = np.random.default_rng(9).standard_normal((3, 3))
    G = G + G.T
    near, far = U @ expm(G / 4), U @ expm(G / 2)
    assert lifted_distance(U, far) == pytest.approx(np.linalg.norm(G), rel=1e-10)
    assert lifted_distance(U, near) + lifted_distance(near, far) == pytest.approx(
        np.linalg.norm(G), rel=1e-10
    )


def test_unchanged_by_affine_maps_and_by_the_choice_of_root() -> None:
    rng = np.random.default_rng(10)
    for _ in range(10):
        (w1, m1, f1), (w2, m2, f2) = parts(rng, (), 3), parts(rng, (), 3)
        value = lifted_distance(lift(w1, m1, f1), lift(w2, m2, f2))
        A, b = rng.standard_normal((3, 3)), 5 * rng.standard_normal(3)
        mapped = lifted_distance(
            lift(w1, A @ m1 + b, cholesky_of_root(A @ f1)),
            lift(w2, A @ m2 + b, cholesky_of_root(A @ f2)),
        )
        assert mapped == pytest.approx(value, rel=1e-8)
        turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
        turned = lifted_distance(lift(w1, m1, f1) @ turn, lift(w2, m2, f2))
        assert turned == pytest.approx(value, rel=1e-9)


def test_pure_scaling_of_the_weight() -> None:
    _, m, f = parts(np.random.default_rng(11), (), 3)
    value = lifted_distance(lift(0.2, m, f), lift(0.6, m, f))
    assert value == pytest.approx(np.sqrt(4) * np.log(3), rel=1e-13)


# all pairs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "d", "step", "strangers"),
    [(1, 2, 0.3, 0.3), (2, 1, 0.3, 0.2), (3, 2, 0.1, 0.0), (3, 5, 0.5, 0.3), (4, 4, 1e-6, 0.2)],
)
def test_pairwise_equals_one_pair_at_a_time(k: int, d: int, step: float, strangers: float) -> None:
    batch = fits(k + d, 24, k, d, step=step, strangers=strangers)
    roots = lift(batch.weights, batch.means, batch.cholesky)
    table = pairwise_lifted(batch)
    for i in range(24):
        for j in range(i):
            between = lifted_distance(roots[i][:, None], roots[j][None])
            assert table[i, j] == pytest.approx(bottleneck_matching(between).value, rel=1e-9)
    assert (table == table.T).all()
    assert (np.diag(table) == 0).all()


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("radius", [0.02, 0.5, 3.0])
def test_pairs_are_placed_on_their_side_of_a_radius(d: int, radius: float) -> None:
    """At radii of its own too: a distance that is the radius, to the last bit, is computed."""
    batch = fits(d, 60, 1, d, step=radius / 2, strangers=0.2)
    exact = pairwise_lifted(batch)
    inside, stood_in = 0, 0
    for r in (radius, float(np.median(exact)), float(exact[3, 7]), float(exact[0, 59])):
        placed = pairwise_lifted(batch, around=r)
        assert np.array_equal(placed <= r, exact <= r)
        assert np.array_equal(placed, placed.T)
        assert (np.diag(placed) == 0).all()
        other = placed != exact
        # what is not the distance itself stands for one that is clear of the radius
        assert (np.abs(exact[other] / r - 1) >= 1e-3).all()
        inside += int(np.count_nonzero(placed <= r))
        stood_in += int(np.count_nonzero(other))
    assert inside > 4 * 60
    assert stood_in > 0


def test_fits_that_cannot_be_compared_are_not_placed_either() -> None:
    batch = fits(3, 12, 1, 2, step=0.1)
    ok = batch.ok.copy()
    ok[4] = False
    means = batch.means.copy()
    means[7] = 1e200
    broken = MixtureBatch.from_cholesky(batch.weights, means, batch.cholesky, ok)
    placed, exact = pairwise_lifted(broken, around=1.0), pairwise_lifted(broken)
    assert np.array_equal(placed <= 1.0, exact <= 1.0)
    assert np.isinf(placed[4]).all()
    assert (placed[7, np.arange(12) != 7] > 1.0).all()


def test_more_pairs_than_lanes_and_far_ones_among_them() -> None:
    batch = fits(12, 90, 2, 5, step=0.2, strangers=0.2)
    roots = lift(batch.weights, batch.means, batch.cholesky)
    table = pairwise_lifted(batch)
    for i, j in np.random.default_rng(0).integers(0, 90, size=(80, 2)):
        between = lifted_distance(roots[i][:, None], roots[j][None])
        assert table[i, j] == pytest.approx(bottleneck_matching(between).value, rel=1e-9)


def test_bounds_hold_the_distances() -> None:
    batch = fits(13, 12, 3, 3, step=0.5, strangers=0.5)
    geometry = LiftedGeometry(batch.weights, batch.means, batch.cholesky)
    i, j = (grid.ravel() for grid in np.indices((12, 12)))
    lower, upper = geometry.bounds(i, j)
    for a, b in itertools.product(range(3), repeat=2):
        exact = geometry.exact(i, np.full(144, a), j, np.full(144, b))
        assert (lower[:, a, b] <= exact).all()
        assert (exact <= upper[:, a, b]).all()


def test_gaps_are_the_smallest_distance_between_two_components() -> None:
    batch = fits(14, 10, 4, 2, step=0.3)
    roots = lift(batch.weights, batch.means, batch.cholesky)
    D = lifted_distance(roots[:, :, None], roots[:, None, :])
    D[:, np.arange(4), np.arange(4)] = np.inf
    np.testing.assert_allclose(component_gaps(batch), D.min(axis=(1, 2)), rtol=1e-9)
    assert (component_gaps(fits(15, 3, 1, 2, step=0.1)) == np.inf).all()


def test_failed_fits_and_zero_weights_are_not_comparable() -> None:
    whole = fits(16, 6, 2, 2, step=0.1)
    weights = whole.weights.copy()
    weights[4] = [0.0, 1.0]
    batch = MixtureBatch.from_cholesky(
        weights, whole.means, whole.cholesky, [True, False, True, True, True, True]
    )
    out = np.array([False, True, False, False, True, False])
    table = pairwise_lifted(batch)
    assert (table[out] == np.inf).all()
    assert (table[:, out] == np.inf).all()
    np.testing.assert_allclose(
        table[np.ix_(~out, ~out)], pairwise_lifted(whole)[np.ix_(~out, ~out)], rtol=1e-11
    )
    assert (component_gaps(batch)[out] == 0).all()
    assert (component_gaps(batch)[~out] > 0).all()


def test_pairwise_unchanged_by_affine_maps() -> None:
    rng = np.random.default_rng(17)
    batch = fits(18, 12, 2, 3, step=0.3, strangers=0.2)
    A, b = rng.standard_normal((3, 3)), rng.standard_normal(3)
    mapped = MixtureBatch.of([batch[i].transformed(A, b) for i in range(12)])
    np.testing.assert_allclose(
        pairwise_lifted(mapped), pairwise_lifted(batch), rtol=1e-8, atol=1e-13
    )
    np.testing.assert_allclose(component_gaps(mapped), component_gaps(batch), rtol=1e-8)


# means -------------------------------------------------------------------------------------


def cloud(seed: int, n: int, d: int, step: float, condition: float = 10.0) -> Array:
    rng = np.random.default_rng(seed)
    centre = parts(rng, (), d, condition=condition)
    rows = [moved(rng, centre, step) for _ in range(n)]
    return lift(*(np.stack(column) for column in zip(*rows, strict=True)))


def test_mean_of_two_lies_on_the_geodesic() -> None:
    U, V = cloud(20, 2, 3, 0.8)
    share = 0.3
    N = np.linalg.solve(U, V)
    truth = U @ expm((1 - share) * logm(N @ N.T)) @ U.T
    root, bound = karcher_mean(np.stack([U, V]), [share, 1 - share])
    np.testing.assert_allclose(root @ root.T, truth, rtol=1e-10)
    assert bound <= 1e-12
    assert lifted_distance(U, root) == pytest.approx((1 - share) * lifted_distance(U, V), rel=1e-10)


def test_mean_of_commuting_matrices_is_geometric() -> None:
    rng = np.random.default_rng(21)
    roots = np.array([np.diag(x) for x in rng.uniform(0.5, 2, size=(6, 3))])
    v = rng.dirichlet(np.ones(6))
    truth = np.exp(v @ np.log(np.diagonal(roots, axis1=1, axis2=2)))
    np.testing.assert_allclose(karcher_mean(roots, v).root, np.diag(truth), rtol=1e-12, atol=1e-14)


def test_mean_minimises_the_sum_of_squares() -> None:
    roots = cloud(22, 7, 1, 0.7)
    v = np.random.default_rng(23).dirichlet(np.ones(7))

    def spread(x: Array) -> float:
        root = np.array([[np.exp(x[0]), x[1]], [0.0, np.exp(x[2])]])
        return float(v @ lifted_distance(root, roots) ** 2)

    best = minimize(spread, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9})
    mean = karcher_mean(roots, v).root
    mine = spread(np.array([np.log(mean[0, 0]), mean[0, 1], np.log(mean[1, 1])]))
    assert mine <= best.fun * (1 + 1e-12)
    assert mine == pytest.approx(best.fun, rel=1e-7)


@pytest.mark.parametrize(("step", "d"), [(1e-6, 2), (0.3, 2), (0.3, 5), (1.5, 3)])
def test_residual_bound_holds_the_distance_to_a_sharper_mean(step: float, d: int) -> None:
    roots = cloud(24, 40, d, step)
    v = np.random.default_rng(25).dirichlet(np.ones(40))
    sharp = karcher_mean(roots, v, tolerance=1e-11)
    for tolerance in (1e-2, 1e-5, 1e-8):
        rough = karcher_mean(roots, v, tolerance=tolerance)
        assert rough.residual_bound <= tolerance
        apart = float(lifted_distance(rough.root, sharp.root))
        assert apart <= rough.residual_bound + sharp.residual_bound + 1e-13


def test_mean_moves_with_affine_maps_at_any_condition() -> None:
    roots = cloud(26, 15, 3, 0.3, condition=1e10)
    v = np.ones(15)
    mean = karcher_mean(roots, v).root
    A = np.zeros((4, 4))
    A[:3, :3] = np.random.default_rng(27).standard_normal((3, 3))
    A[:3, 3] = [1e3, 0, -1e3]
    A[3, 3] = 1
    mapped = karcher_mean(A @ roots, v).root
    assert lifted_distance(mapped, A @ mean) < 1e-6
    # The mean stays among the members, in their own norm, however flat they are.
    assert (lifted_distance(mean, roots) < 3).all()


def test_mean_ignores_order_zero_weights_and_the_choice_of_roots() -> None:
    rng = np.random.default_rng(28)
    roots, v = cloud(29, 8, 2, 0.5), rng.uniform(0.5, 1, size=8)
    mean = karcher_mean(roots, v).root
    order = rng.permutation(8)
    turns = np.linalg.qr(rng.standard_normal((8, 3, 3)))[0]
    stranger = lift(0.5, [50.0, 50.0], np.eye(2))[None]
    for other in (
        karcher_mean(roots[order], v[order]),
        karcher_mean(roots @ turns, 7 * v),
        karcher_mean(np.concatenate([roots, stranger]), [*v, 0.0]),
    ):
        assert lifted_distance(other.root, mean) < 1e-11


def test_mean_is_lipschitz_in_the_weights() -> None:
    # Sturm: moving mass m over a distance of at most D moves the mean by at most m D.
    rng = np.random.default_rng(30)
    roots = cloud(31, 20, 2, 0.5)
    D = lifted_distance(roots[:, None], roots[None]).max()
    for _ in range(10):
        v, u = rng.dirichlet(np.ones(20), size=2)
        apart = float(lifted_distance(karcher_mean(roots, v).root, karcher_mean(roots, u).root))
        assert apart <= np.abs(v - u).sum() / 2 * D


def test_mean_of_one_is_itself() -> None:
    U = cloud(32, 1, 3, 0.1)
    root, bound = karcher_mean(U, [2.0])
    np.testing.assert_allclose(root, U[0], rtol=1e-14)
    assert bound < 1e-13


def test_the_bound_shows_a_mean_that_cannot_be_reached() -> None:
    """A mean is computed after the test has passed: whether it succeeds must not depend on data."""
    U = cloud(33, 5, 2, 0.5)
    root, bound = karcher_mean(U, np.ones(5), tolerance=1e-17)
    assert 1e-17 < bound < 1e-12
    assert lifted_distance(root, karcher_mean(U, np.ones(5)).root) < 1e-12


# bad input ---------------------------------------------------------------------------------


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="positive to be lifted"):
        lift(0.0, [0.0], [[1.0]])
    with pytest.raises(InvalidInput, match="shape"):
        lift([0.5, 0.5], [0.0], [[1.0]])
    with pytest.raises(InvalidInput, match="shape"):
        block_form(np.ones((2, 3)))
    with pytest.raises(InvalidInput, match="invertible"):
        unlift(np.zeros((3, 3)))
    with pytest.raises(InvalidInput, match="same size"):
        lifted_distance(np.eye(3), np.eye(2))
    U = np.stack([np.eye(3)] * 2)
    with pytest.raises(InvalidInput, match="not all zero"):
        karcher_mean(U, [0.0, 0.0])
    with pytest.raises(InvalidInput, match="not all zero"):
        karcher_mean(U, [-1.0, 2.0])
    with pytest.raises(InvalidInput, match="tolerance"):
        karcher_mean(U, [1.0, 1.0], tolerance=0.0)
    with pytest.raises(InvalidInput, match="n >= 1"):
        karcher_mean(np.empty((0, 3, 3)), [])


def test_overflow_is_infinitely_far() -> None:
    tiny = lift(1.0, [0.0], [[1e-200]])
    huge = lift(1.0, [1e200], [[1e-200]])
    assert lifted_distance(tiny, huge) == np.inf


def test_mixture_round_trip() -> None:
    F = Mixture(
        [0.2, 0.8],
        [[0.0, 1.0], [2.0, 3.0]],
        np.array([[[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.5], [0.5, 1.0]]]),
    )
    w, m, f = unlift(lift(F.weights, F.means, F.cholesky))
    np.testing.assert_allclose(w, F.weights, rtol=1e-15)
    np.testing.assert_allclose(m, F.means, rtol=1e-15)
    np.testing.assert_allclose(f, F.cholesky, rtol=1e-15)
