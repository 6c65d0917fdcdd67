"""The EM learner against numpy, scikit-learn, its own theory, and blocks meant to break it."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.mixture import GaussianMixture

from privgmm.arrays import Array
from privgmm.distances.matching import bottleneck_matching
from privgmm.errors import InvalidInput
from privgmm.learners.em import EM
from privgmm.learners.em.ascent import accelerated_em
from privgmm.learners.em.fitting import warm_em
from privgmm.learners.kernels import CHUNK, FITTED, e_and_m, whiten
from privgmm.learners.learner import block_seeds
from privgmm.mixture import Mixture
from tests.learners.learner_contract import (
    DEGENERATE_REASONS,
    asymmetric_mixture,
    check_learner,
    degenerate_blocks,
    same_fit,
)


def whitened(rows: Array) -> tuple[Array, Array, Array]:
    """Points in the kernels' layout, the mean and the root that map them back."""
    s, d = rows.shape
    points = np.zeros((-(-s // CHUNK), d + d % 2, CHUNK))
    mean, root = np.empty(d), np.empty((d, d))
    fixed = rows.view()
    fixed.flags.writeable = False
    assert whiten(fixed, 0, 1, points, mean, root) == FITTED
    return points, mean, root


def flat(points: Array, n: int, d: int) -> Array:
    """Points back as rows (n, d)."""
    return points.transpose(0, 2, 1).reshape(-1, points.shape[1])[:n, :d]


def aligned(fit: Mixture, truth: Mixture) -> Mixture:
    """The fit with its components in the truth's order."""
    gaps = np.linalg.norm(truth.means[:, None] - fit.means[None], axis=-1)
    return fit.permuted(bottleneck_matching(gaps)[1])


def assert_close(fit: Mixture, other: Mixture, tolerance: float) -> None:
    """Equal up to order, in units of the other's components."""
    fit = aligned(fit, other)
    assert np.abs(fit.weights - other.weights).max() < tolerance
    for j in range(fit.n_components):
        shift = np.linalg.solve(other.cholesky[j], fit.means[j] - other.means[j])
        ratio = np.linalg.solve(other.cholesky[j], fit.cholesky[j])
        assert np.linalg.norm(shift) < tolerance
        assert np.abs(ratio @ ratio.T - np.eye(len(shift))).max() < tolerance


@pytest.mark.parametrize(
    ("k", "d"), [(1, 1), (1, 4), (2, 1), (2, 2), (3, 2), (4, 5), (6, 3)], ids=str
)
def test_contract(k: int, d: int) -> None:
    learner = EM(k)
    if k == 1:
        # A single Gaussian fits anything of full rank, outliers and repeated rows included.
        truth = asymmetric_mixture(1, d)
        fits = learner.fit_blocks(truth.sample(1200, rng=0).reshape(4, 300, d), rng=0)
        assert fits.ok.all()
    else:
        check_learner(learner, asymmetric_mixture(k, d, separation=6), n_rows=200 * k)


@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_one_component_is_the_sample_mean_and_covariance(d: int) -> None:
    rng = np.random.default_rng(d)
    blocks = rng.standard_normal((5, 333, d)) @ rng.standard_normal((d, d)) + 1e3
    fits = EM(1).fit_blocks(blocks, rng=0)
    assert fits.ok.all()
    assert (fits.weights == 1).all()
    for i, block in enumerate(blocks):
        np.testing.assert_allclose(fits.means[i, 0], block.mean(axis=0), rtol=1e-14)
        np.testing.assert_allclose(
            fits.covariances[i, 0], np.cov(block.T, bias=True).reshape(d, d), rtol=1e-9, atol=1e-12
        )


def test_whitening_at_a_condition_whose_square_is_lost() -> None:
    rng = np.random.default_rng(0)
    shear = np.eye(3)
    shear[1:, 0] = 1e9
    rows = rng.standard_normal((500, 3)) @ shear.T + 5.0
    points, mean, root = whitened(rows)
    x = flat(points, 500, 3)
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(x.T @ x / 500, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(mean + x @ root.T, rows, rtol=1e-12, atol=1e-6)


@pytest.mark.parametrize(("k", "d", "n"), [(2, 1, 100), (3, 2, 300), (4, 5, 257), (2, 8, 1000)])
def test_one_pass_is_the_textbook_e_step(k: int, d: int, n: int) -> None:
    mixture = asymmetric_mixture(k, d, separation=1.5, seed=3)
    x = mixture.sample(n, rng=1)
    x[0] = 200.0  # far from every component: the soft-max must not underflow
    p = d + d % 2
    points = np.zeros((-(-n // CHUNK), p, CHUNK))
    for i, row in enumerate(x):
        points[i // CHUNK, :d, i % CHUNK] = row
    inverse, bias = np.zeros((k, p, p)), np.zeros((k, p))
    inverse[:, :d, :d] = np.tril(np.linalg.inv(mixture.cholesky))
    bias[:, :d] = -np.einsum("kab,kb->ka", inverse[:, :d, :d], mixture.means)
    height = (
        np.log(mixture.weights)
        - np.log(np.diagonal(mixture.cholesky, axis1=1, axis2=2)).sum(axis=1)
        - d / 2 * np.log(2 * np.pi)
    )
    counts, first, second = np.empty(k), np.empty((k, p)), np.empty((k, p, p))
    scratch = np.empty((k + 1, p, CHUNK)), np.empty((k, CHUNK)), np.empty(CHUNK), np.empty(CHUNK)
    loglik = e_and_m(points, n, inverse, bias, height, *scratch, counts, first, second, False)

    joint = mixture.log_joint(x)
    posterior = np.exp(joint - mixture.log_density(x)[:, None])
    y = np.einsum("kab,nkb->nka", inverse[:, :d, :d], x[:, None] - mixture.means)
    assert loglik == pytest.approx(mixture.log_density(x).sum(), rel=1e-12)
    np.testing.assert_allclose(counts, posterior.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(
        first[:, :d], np.einsum("nk,nka->ka", posterior, y), rtol=1e-10, atol=1e-9
    )
    expected = np.einsum("nk,nka,nkb->kab", posterior, y, y)
    for a in range(d):
        np.testing.assert_allclose(
            second[:, a, : a + 1], expected[:, a, : a + 1], rtol=1e-10, atol=1e-9
        )


@pytest.mark.parametrize("prior", [0.0, 5.0])
@pytest.mark.parametrize(("k", "d"), [(2, 1), (3, 2), (3, 4)])
def test_one_climb_step_is_the_textbook_m_step(k: int, d: int, prior: float) -> None:
    n = 700
    points, _, _ = whitened(asymmetric_mixture(k, d, separation=3.0, seed=6).sample(n, rng=3))
    x = flat(points, n, d)
    start = asymmetric_mixture(k, d, separation=1.0, seed=7)
    weights, means, roots = start.weights.copy(), start.means.copy(), start.cholesky.copy()
    accelerated_em(points, n, weights, means, roots, 1, 1, 1e-7, prior, np.empty(0))

    posterior = np.exp(start.log_joint(x) - start.log_density(x)[:, None])
    counts = posterior.sum(axis=0)
    expected = (posterior.T @ x) / counts[:, None]
    np.testing.assert_allclose(weights, counts / n, rtol=1e-11)
    np.testing.assert_allclose(means, expected, rtol=1e-9, atol=1e-11)
    for j in range(k):
        centred = x - expected[j]
        scatter = (posterior[:, j, None] * centred).T @ centred
        pull = prior * np.eye(d) * k ** (-2 / d)
        np.testing.assert_allclose(
            np.tril(roots[j]) @ np.tril(roots[j]).T,
            (scatter + pull) / (counts[j] + prior),
            rtol=1e-9,
            atol=1e-11,
        )


@pytest.mark.parametrize("prior", [0.0, 5.0])
@pytest.mark.parametrize("plain", [3, 10**6])
def test_likelihood_never_falls(plain: int, prior: float) -> None:
    k, d, n, tol = 3, 3, 900, 1e-8
    for seed in range(10):
        mixture = asymmetric_mixture(k, d, separation=1.0 + 0.3 * seed, seed=seed)
        points, _, _ = whitened(mixture.sample(n, rng=seed))
        x = flat(points, n, d)
        weights, means = np.full(k, 1 / k), x[:k].copy()
        roots = np.repeat(np.eye(d)[None] * 0.7, k, axis=0)
        trace = np.full(200, np.nan)
        last = accelerated_em(points, n, weights, means, roots, plain, 200, tol, prior, trace)
        trace = trace[~np.isnan(trace)]
        assert len(trace) > 5
        assert (np.diff(trace) >= -1e-3 * tol * n).all()
        assert last == trace[-1]
        if prior == 0:
            fit = Mixture.from_roots(weights, means, np.tril(roots))
            assert fit.log_density(x).sum() >= last - 1e-3 * tol * n


@pytest.mark.parametrize("separation", [1.5, 3.0])
def test_acceleration_reaches_the_optimum_of_plain_em(separation: float) -> None:
    k, d, n = 2, 2, 4000
    mixture = asymmetric_mixture(k, d, separation=separation, seed=1)
    points, mean, root = whitened(mixture.sample(n, rng=0))
    inverse = np.linalg.inv(root)
    ends = []
    for plain, passes in ((1, 500), (10**6, 6000)):
        weights = mixture.weights.copy()
        means = (mixture.means - mean) @ inverse.T
        roots = np.tril(inverse @ mixture.cholesky)
        accelerated_em(points, n, weights, means, roots, plain, passes, 1e-9, 0.0, np.empty(0))
        ends.append(Mixture.from_roots(weights, means, np.tril(roots)))
    assert_close(ends[0], ends[1], 1e-3)


@pytest.mark.parametrize(("k", "d", "separation"), [(2, 2, 4.0), (3, 3, 3.0), (2, 1, 3.0)])
def test_agrees_with_scikit_learn(k: int, d: int, separation: float) -> None:
    truth = asymmetric_mixture(k, d, separation=separation, seed=5)
    rows = truth.sample(3000, rng=2)
    theirs = GaussianMixture(
        k,
        tol=1e-10,
        max_iter=20_000,
        reg_covar=0,
        weights_init=truth.weights,
        means_init=truth.means,
        precisions_init=np.linalg.inv(truth.covariances),
    ).fit(rows)
    assert_close(
        EM(k, tol=1e-9).fit(rows, rng=0),
        Mixture(theirs.weights_, theirs.means_, theirs.covariances_),
        1e-3,
    )


@pytest.mark.parametrize(("k", "d"), [(2, 1), (3, 2), (5, 2), (4, 8)])
def test_recovers_what_it_was_drawn_from(k: int, d: int) -> None:
    truth = asymmetric_mixture(k, d, separation=5.0, seed=k + d)
    s = 3000
    fits = EM(k).fit_blocks(truth.sample(10 * s, rng=1).reshape(10, s, d), rng=0)
    assert fits.ok.all()
    fewest = s * truth.weights.min()
    for i in range(10):
        # Four standard errors of the rarest component's covariance, over d(d+1)/2 entries.
        assert_close(fits[i], truth, 4 * np.sqrt(2 * d * (d + 1) / fewest))


def test_high_dimension_and_many_components() -> None:
    truth = asymmetric_mixture(12, 30, separation=7.0)
    rows = truth.sample(6000, rng=0)
    fit = EM(12, n_restarts=2).fit(rows, rng=0)
    assert fit.log_density(rows).sum() > truth.log_density(rows).sum()


def affine_maps() -> dict[str, tuple[Array, Array, float]]:
    """Maps (matrix, shift) and how much of the fit rounding of the mapped data may change."""
    rng = np.random.default_rng(4)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    shear = np.eye(3)
    shear[2, 0], shear[1, 0] = 1e8, -1e8
    return {
        "shift": (np.eye(3), np.full(3, 1e6), 1e-7),
        "scale": (np.diag([1e-3, 1.0, 1e5]), np.zeros(3), 1e-10),
        "turn": (turn, np.ones(3), 1e-7),
        "shear": (shear, np.zeros(3), 1e-5),
        "upper shear": (np.triu(np.ones((3, 3)) * 1e3, 1) + np.eye(3), np.zeros(3), 1e-6),
        "shift and scale": (np.eye(3) * 1e-3, np.full(3, 1e6), 1e-4),
    }


@pytest.mark.parametrize("prior_rows", [0.0, 4.0])
@pytest.mark.parametrize("name", affine_maps())
def test_commutes_with_affine_maps(name: str, prior_rows: float) -> None:
    matrix, shift, tolerance = affine_maps()[name]
    truth = asymmetric_mixture(3, 3, separation=3.0, seed=2)
    rows = truth.sample(1500, rng=0)
    learner = EM(3, prior_rows=prior_rows)
    fit = learner.fit(rows, rng=1)
    mapped = learner.fit(rows @ matrix.T + shift, rng=1)
    expected = fit.transformed(matrix, shift)
    np.testing.assert_allclose(mapped.weights, expected.weights, atol=tolerance)
    for j in range(3):
        root = expected.cholesky[j]
        gap = np.linalg.solve(root, mapped.means[j] - expected.means[j])
        ratio = np.linalg.solve(root, mapped.cholesky[j])
        assert np.abs(gap).max() < tolerance
        assert np.abs(ratio @ ratio.T - np.eye(3)).max() < tolerance


@pytest.mark.parametrize("seed", range(3))
def test_order_of_rows_does_not_matter(seed: int) -> None:
    truth = asymmetric_mixture(3, 2, separation=4.0, seed=seed)
    rows = truth.sample(2000, rng=seed)
    shuffled = np.random.default_rng(seed).permutation(rows)
    by_label = rows[np.argsort(rows[:, 0])]
    for other in (shuffled, by_label):
        assert_close(EM(3).fit(other, rng=0), EM(3).fit(rows, rng=0), 0.02)


def test_threads_do_not_matter() -> None:
    truth = asymmetric_mixture(3, 2, separation=3.0)
    blocks = truth.sample(23 * 300, rng=0).reshape(23, 300, 2)
    one = EM(3, n_threads=1).fit_blocks(blocks, rng=5)
    for n_threads in (2, 3, 50, None):
        assert EM(3, n_threads=n_threads).fit_blocks(blocks, rng=5) == one


def test_seeds_matter_and_are_reproducible() -> None:
    seeds = block_seeds(11, 4)
    assert np.array_equal(seeds, block_seeds(np.random.default_rng(11), 4))
    assert np.array_equal(block_seeds(seeds, 4), seeds)
    assert not np.array_equal(seeds, block_seeds(12, 4))
    assert not np.array_equal(block_seeds(None, 4), block_seeds(None, 4))
    # Two good optima for one block: different seeds find their components in different orders.
    rows = asymmetric_mixture(4, 2, separation=6.0).sample(800, rng=0)
    fits = EM(4).fit_blocks(np.repeat(rows[None], 8, axis=0), rng=0)
    assert len({fits.weights[i].tobytes() for i in range(8)}) > 1
    for i in range(8):
        assert_close(fits[i], fits[0], 1e-3)


def test_more_restarts_never_lose_on_average() -> None:
    truth = asymmetric_mixture(4, 2, separation=2.5, seed=8)
    blocks = truth.sample(30 * 1000, rng=0).reshape(30, 1000, 2)

    def mean_loglik(n_restarts: int) -> float:
        fits = EM(4, n_restarts=n_restarts).fit_blocks(blocks, rng=1)
        return float(
            np.mean([fits[i].log_density(blocks[i]).sum() for i in range(30) if fits.ok[i]])
        )

    assert mean_loglik(8) > mean_loglik(1)


def misfit(points: Array, n: int, weights: Array, means: Array, roots: Array) -> float:
    """What `accelerated_em` with no passes returns."""
    start = weights.copy(), means.copy(), roots.copy()
    return float(accelerated_em(points, n, *start, 0, 0, 1e-7, 0.0, np.empty(0)))


def test_misfit_is_the_textbook_skewness_and_kurtosis() -> None:
    k, d, n = 2, 3, 700
    mixture = asymmetric_mixture(k, d, separation=2.0, seed=3)
    points, _, _ = whitened(np.random.default_rng(0).standard_t(5, (n, d)) @ np.diag([1, 2, 3.0]))
    x = flat(points, n, d)
    found = misfit(points, n, mixture.weights, mixture.means, mixture.cholesky)

    posterior = np.exp(mixture.log_joint(x) - mixture.log_density(x)[:, None])
    total = 0.0
    for j in range(k):
        y = np.linalg.solve(mixture.cholesky[j], (x - mixture.means[j]).T).T
        r, q = posterior[:, j], (y**2).sum(axis=1)
        rows = (r**2).sum()
        skew = (r * q) @ y
        kurtosis = (y.T * (r * q)) @ y - (d + 2) * n * mixture.weights[j] * np.eye(d)
        trace = np.trace(kurtosis)
        total += skew @ skew / (2 * (d + 2) * rows) + trace**2 / (8 * d * (d + 2) * rows)
        total += (np.sum(kurtosis**2) - trace**2 / d) / (4 * (d + 4) * rows)
    freedom = k * d * (d + 3) / 2
    assert found == pytest.approx((total - freedom) / np.sqrt(2 * freedom), rel=1e-9)


@pytest.mark.parametrize(("d", "s"), [(1, 1000), (2, 1000), (5, 2000)])
def test_misfit_of_gaussian_rows_is_standard(d: int, s: int) -> None:
    rng = np.random.default_rng(d)
    one = np.ones(1), np.zeros((1, d)), np.eye(d)[None]
    values = [misfit(whitened(rng.standard_normal((s, d)))[0], s, *one) for _ in range(400)]
    # Mean 0 and deviation 1, up to 4 standard errors and the 1/s bias of sample moments.
    assert abs(np.mean(values)) < 4 / np.sqrt(400) + 40 / s
    assert 0.75 < np.std(values) < 1.4
    heavy = rng.standard_t(4, (s, d))
    assert misfit(whitened(heavy)[0], s, *one) > 6


def test_wide_starts_find_what_k_means_cannot() -> None:
    # Skewed rows have no clusters: k-means leads every start to the same poor optimum.
    blocks = np.exp(0.8 * np.random.default_rng(0).standard_normal((20, 1000, 2)))

    def logliks(n_restarts: int | None) -> Array:
        fits = EM(3, n_restarts=n_restarts).fit_blocks(blocks, rng=0)
        return np.array(
            [
                fits[i].log_density(block).sum() if fits.ok[i] else -np.inf
                for i, block in enumerate(blocks)
            ]
        )

    few, default, many = logliks(4), logliks(None), logliks(80)
    assert np.isfinite(default).all()
    assert (default > few - 0.1).all()
    assert np.mean(default > few + 5) > 0.8
    assert np.mean(default > many - 0.5) > 0.8


def test_the_wide_search_knows_no_units_and_no_other_blocks() -> None:
    blocks = np.exp(0.8 * np.random.default_rng(1).standard_normal((4, 600, 2)))
    seeds = block_seeds(0, 4)
    fits = EM(3).fit_blocks(blocks, rng=seeds)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]]) @ np.diag([1e-3, 1e4])
    mapped = EM(3).fit_blocks(blocks @ turn.T, rng=seeds)
    changed = blocks.copy()
    changed[1:] = 2.0
    alone = EM(3).fit_blocks(changed, rng=seeds)
    assert same_fit(alone, 0, fits, 0)
    for i in range(4):
        assert_close(mapped[i], fits[i].transformed(turn, np.zeros(2)), 1e-3)


def test_reasons_of_degenerate_blocks() -> None:
    good = asymmetric_mixture(2, 2, separation=6.0).sample(300, rng=0)
    bad = degenerate_blocks(good)
    fits, reasons = EM(2).fit_blocks_with_reasons(np.stack([good, *bad.values()]), rng=0)
    assert fits.ok.tolist() == [True] + [False] * len(bad)
    assert reasons[0] == ""
    assert dict(zip(bad, reasons[1:], strict=True)) == DEGENERATE_REASONS
    assert EM(2).fit_blocks_with_reasons(good[None, :5], rng=0)[1] == ["too few rows"]
    assert EM(7).fit_blocks_with_reasons(good[None, :5], rng=0)[1] == ["too few rows"]


@pytest.mark.parametrize("scale", [1e-300, 1e-130, 1e130, 1e300, 1.7e308])
def test_extreme_units_never_raise_or_warn(scale: float) -> None:
    rows = asymmetric_mixture(2, 2, separation=6.0).sample(400, rng=0)
    rows /= np.abs(rows).max()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fits, reasons = EM(2).fit_blocks_with_reasons(rows[None] * scale, rng=0)
    if 1e-140 < scale < 1e140:
        assert same_fit(fits, 0, EM(2).fit_blocks(rows[None] * scale, rng=0), 0)
        np.testing.assert_allclose(fits[0].means / scale, EM(2).fit(rows, rng=0).means, rtol=1e-8)
    else:
        assert reasons == ["out of range"]


def test_prior_keeps_components_from_collapsing() -> None:
    good = asymmetric_mixture(2, 2, separation=6.0).sample(300, rng=0)
    stacked = np.concatenate([good, np.full((60, 2), 40.0)])
    few = EM(3, n_restarts=4)
    assert few.fit_blocks_with_reasons(stacked[None], rng=0)[1] == ["component collapsed"]
    for learner in (EM(3, prior_rows=4.0), EM(3)):  # wide starts find another optimum
        assert (np.linalg.eigvalsh(learner.fit(stacked, rng=0).covariances) > 1e-4).all()


def test_prior_is_the_stationary_point_it_claims() -> None:
    k, d, n, prior = 2, 2, 2000, 25.0
    rows = asymmetric_mixture(k, d, separation=3.0).sample(n, rng=0)
    fit = EM(k, prior_rows=prior, tol=1e-11).fit(rows, rng=0)
    posterior = np.exp(fit.log_joint(rows) - fit.log_density(rows)[:, None])
    target = np.cov(rows.T, bias=True) / k ** (2 / d)
    for j in range(k):
        count = posterior[:, j].sum()
        centred = rows - fit.means[j]
        scatter = (posterior[:, j, None] * centred).T @ centred
        np.testing.assert_allclose(
            fit.covariances[j], (scatter + prior * target) / (count + prior), rtol=1e-4
        )


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": True}, "n_components"),
        ({"n_components": 2.0}, "n_components"),
        ({"n_components": 2, "n_restarts": 0}, "n_restarts"),
        ({"n_components": 2, "max_iter": 0}, "max_iter"),
        ({"n_components": 2, "n_threads": -1}, "n_threads"),
        ({"n_components": 2, "tol": 0.0}, "tol"),
        ({"n_components": 2, "prior_rows": -1.0}, "prior_rows"),
    ],
    ids=str,
)
def test_options_are_checked(options: dict[str, int], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        EM(**options)


@pytest.mark.parametrize("blocks", [np.zeros((3, 4)), np.zeros((3, 4, 0)), [[["a"]]]], ids=repr)
def test_shapes_are_checked(blocks: npt.ArrayLike) -> None:
    with pytest.raises(InvalidInput, match="blocks"):
        EM(2).fit_blocks(blocks, rng=0)


def test_fit_says_what_to_do() -> None:
    with pytest.raises(InvalidInput, match="drop columns"):
        EM(2).fit(np.ones((50, 2)), rng=0)
    with pytest.raises(InvalidInput, match="NaN"):
        EM(2).fit([[np.nan, 1.0], [0.0, 1.0]], rng=0)
    with pytest.raises(InvalidInput, match="rng"):
        EM(2).fit(np.ones((50, 2)), rng=-1)


def test_no_blocks_is_no_fits() -> None:
    fits = EM(2).fit_blocks(np.empty((0, 100, 2)), rng=0)
    assert len(fits) == 0
    warm_em()
