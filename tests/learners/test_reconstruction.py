"""From exact moments in a projection, the linear step returns the mixture exactly.

So it does for the moment equations: fed with what a mixture expects, they give it back.
"""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.learners.moments.equations import MixtureParts, imprecision, match_moments, weighting
from privgmm.learners.moments.estimation import mean_log_density
from privgmm.learners.moments.features import Family, fourier, hermite
from privgmm.learners.moments.hierarchy import fits_by_clusters, is_hidden
from privgmm.learners.moments.projections import aim, completed, non_gaussian_directions
from privgmm.learners.moments.reconstruction import Gathered, gather, reconstruct
from privgmm.learners.moments.univariate import fit_lines
from privgmm.mixture import Mixture
from tests.learners.learner_contract import asymmetric_mixture

FAMILIES: dict[str, Family] = {
    "fourier, line": fourier(1, True),
    "fourier, plane": fourier(2, True),
    "hermite, plane": hermite(2, 2),
}


def white_mixture(k: int, d: int, seed: int, separation: float = 2.5) -> MixtureParts:
    """Mean 0 and covariance I over all."""
    one = asymmetric_mixture(k, d, separation=separation, seed=seed)
    mean = one.weights @ one.means
    apart = one.means - mean
    whole = np.einsum(
        "k,kab->ab", one.weights, one.covariances + apart[:, :, None] * apart[:, None]
    )
    inverse = np.linalg.inv(np.linalg.cholesky(whole))
    return MixtureParts(one.weights, apart @ inverse.T, inverse @ one.covariances @ inverse.T)


def rows_of(parts: MixtureParts, n: int, seed: int = 0) -> Array:
    return Mixture(*parts).sample(n, rng=seed)


def exact_table(family: Family, parts: MixtureParts, basis: Array) -> Gathered:
    """What `gather` would give for endless rows, by differentiating moment generating sums.

    E[f(S) Y] is the derivative by h of E f(S) when the mean of S, given Y, is tilted: here it is
    had from a Monte Carlo of no rows at all, quadrature over the conditional law of (Y, Z) on S.
    """
    m, d = family.n_coordinates, len(basis)
    nodes, sizes = np.polynomial.hermite_e.hermegauss(60)
    sizes = sizes / sizes.sum()
    grid = np.stack(np.meshgrid(*[nodes] * m, indexing="ij"), axis=-1).reshape(-1, m)
    weight = np.ones(1)
    for _ in range(m):
        weight = np.multiply.outer(weight, sizes).ravel()
    y, z = np.triu_indices(d - m)
    target = np.zeros(family.n_functions)
    table = np.zeros((family.n_functions + 1, d - m + len(y)))
    for w, mean, covariance in zip(*parts, strict=True):
        mu, sigma = mean @ basis, basis.T @ covariance @ basis
        root = np.linalg.cholesky(sigma[:m, :m])
        s = mu[:m] + grid @ root.T
        slope = np.linalg.solve(sigma[:m, :m], sigma[:m, m:])
        given = mu[m:] + (s - mu[:m]) @ slope
        left = sigma[m:, m:] - sigma[m:, :m] @ slope
        columns = np.concatenate([given, given[:, y] * given[:, z] + left[y, z]], axis=1)
        f = np.concatenate([np.ones((len(s), 1)), family.values(s)], axis=1)
        table += w * (f * weight[:, None]).T @ columns
        target += w * weight @ f[:, 1:]
    return Gathered(basis, target, table, 10**12)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("k", [2, 3])
def test_exact_moments_give_the_mixture_back(name: str, k: int) -> None:
    family = FAMILIES[name] if k == 2 or name != "hermite, plane" else hermite(2, 3)
    d, m = 4, family.n_coordinates
    parts = white_mixture(k, d, seed=k)
    basis = aim(parts)
    u = basis[:, :m]
    projected = MixtureParts(parts.weights, parts.means @ u, u.T @ parts.covariances @ u)
    found = reconstruct(
        family, exact_table(family, parts, basis), projected, weighting(family, projected)
    )
    np.testing.assert_allclose(found.means, parts.means, atol=1e-4)
    np.testing.assert_allclose(found.covariances, parts.covariances, atol=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_equations_find_their_way_back(name: str) -> None:
    family = FAMILIES[name]
    m = family.n_coordinates
    parts = white_mixture(2, m, seed=5) if m > 1 else white_mixture(2, 1, seed=5)
    target = np.einsum(
        "k,kq->q", parts.weights, family.expectations(parts.means, parts.covariances).value
    )
    start = MixtureParts(np.array([0.5, 0.5]), 0.8 * parts.means, 1.2 * parts.covariances)
    factor = weighting(family, parts).factor
    found, criterion = match_moments(family, target, factor, start.at(None), 10**9, steps=60)
    assert criterion[0] < 1.0
    np.testing.assert_allclose(found.weights[0], parts.weights, atol=1e-3)
    np.testing.assert_allclose(found.means[0], parts.means, atol=1e-3)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_weighting_whitens_the_test_functions(name: str) -> None:
    """Up to the ridge, W C W^T = I, and its trace is the rank: the mean of the criterion."""
    family = FAMILIES[name]
    parts = white_mixture(2, family.n_coordinates, seed=3)
    weights = weighting(family, parts)
    expected = parts.weights @ family.expectations(parts.means, parts.covariances).value
    second = family.second_moments(*parts)
    covariance = second - np.outer(expected, expected)
    white = weights.factor @ covariance @ weights.factor.T
    assert np.linalg.eigvalsh(white).max() < 1 + 1e-6
    assert np.trace(white) == pytest.approx(float(weights.rank), rel=1e-3)
    raw = np.block([[np.ones((1, 1)), expected[None]], [expected[:, None], second]])
    assert np.trace(weights.raw @ raw @ weights.raw.T) == pytest.approx(
        1 + float(weights.rank), rel=1e-3
    )


def test_predicted_errors_are_the_ones_met() -> None:
    family = fourier(1, True)
    parts = white_mixture(2, 1, seed=1, separation=3.0)
    n, runs = 4000, 60
    factor = weighting(family, parts).factor
    predicted = imprecision(family, factor, parts, n)
    worst = []
    for seed in range(runs):
        target = family.values(rows_of(parts, n, seed)).mean(axis=0)
        found = match_moments(family, target, factor, parts.at(None), n, steps=15)[0].at(0)
        variance = found.covariances[:, 0, 0] / parts.covariances[:, 0, 0] - 1
        shift = (found.means - parts.means)[:, 0] / np.sqrt(parts.covariances[:, 0, 0])
        worst.append(np.concatenate([variance, shift, found.weights - parts.weights]))
    met = np.sqrt((np.array(worst) ** 2).mean(axis=0)).max()
    assert predicted == pytest.approx(met, rel=0.35)


def test_a_line_of_three_is_solved() -> None:
    parts = MixtureParts(
        np.array([0.2, 0.3, 0.5]),
        np.array([[-1.6], [-0.3], [0.82]]),
        np.array([0.05, 0.1, 0.2])[:, None, None],
    )
    rows = rows_of(parts, 20_000)
    rows = (rows - rows.mean()) / rows.std()
    fits = fit_lines(fourier(1, True), rows, 3, np.random.default_rng(0), keep=1, many=True)
    order = np.argsort(fits.parts.means[0, :, 0])
    np.testing.assert_allclose(fits.parts.weights[0, order], parts.weights, atol=0.03)


def test_directions_are_unit_vectors_that_turn_with_the_rows() -> None:
    rows = rows_of(white_mixture(2, 4, seed=2), 2000)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]
    plain = non_gaussian_directions(rows, 5, np.random.default_rng(3))
    turned = non_gaussian_directions(rows @ turn.T, 5, np.random.default_rng(3))
    np.testing.assert_allclose(np.linalg.norm(plain, axis=0), 1.0)
    np.testing.assert_allclose(turn @ plain, turned, atol=1e-6)


def test_bases_are_orthonormal_and_aimed_at_the_difference() -> None:
    u = np.array([0.6, 0.0, -0.8])
    basis = completed(u)
    np.testing.assert_allclose(np.abs(basis.T @ basis), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(basis[:, 0], u)
    parts = MixtureParts(
        np.array([0.5, 0.5]), np.outer([-1.0, 1.0], u) / 2, np.repeat(np.eye(3)[None], 2, axis=0)
    )
    assert abs(aim(parts)[:, 0] @ u) > 0.98


def test_gather_is_the_mean_over_rows() -> None:
    family = fourier(2, False)
    rows = np.random.default_rng(0).standard_normal((3000, 4))
    seen = gather(family, rows, np.eye(4))
    f = family.values(rows[:, :2])
    np.testing.assert_allclose(seen.target, f.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(seen.table[1:, 1], (f * rows[:, 3:]).mean(axis=0), atol=1e-12)
    product = (rows[:, 2] * rows[:, 3])[:, None]
    np.testing.assert_allclose(seen.table[1:, 3], (f * product).mean(axis=0), atol=1e-12)


def test_the_hierarchy_takes_clusters_apart() -> None:
    """Three clusters, two of them close and thin: the pieces together fit as the truth does."""
    thin = np.diag([1e-4, 0.2])
    truth = Mixture(
        [0.5, 0.3, 0.2],
        [[-1.0, 0.0], [1.0, 0.0], [1.08, 0.0]],
        np.stack([np.diag([0.05, 1.0]), thin, thin]),
    )
    rows = truth.sample(8000, rng=0)
    found = fits_by_clusters(rows, 3, "fourier", np.random.default_rng(0))
    best = max(found, key=lambda one: one.score)
    assert is_hidden(best, 8000)
    right = mean_log_density(rows, MixtureParts(truth.weights, truth.means, truth.covariances))
    assert mean_log_density(rows, best.parts) > right - 0.02
