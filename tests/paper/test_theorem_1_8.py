"""Theorem 1.8, what it rests on (Appendices A and B) and what rests on it (Lemma 6.3)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.distances.bounds import (
    best_constants,
    kl_divergence,
    lemma_6_3,
    lemma_6_3_applies,
    parameter_distance,
    pinsker,
    theorem_1_8,
    theorem_b_1,
    theorem_b_2,
)
from privgmm.distances.total_variation import gaussian_tv, relative_form

DIMENSIONS = [1, 2, 3, 5, 10, 25]
Pairs = tuple[Array, Array, Array, Array]


def pairs(rng: np.random.Generator, d: int, n: int, size: tuple[float, float]) -> Pairs:
    """Pairs whose relative form has size 10^uniform(size), with all shapes of difference."""
    scale = 10 ** rng.uniform(*size, n)
    turns, _ = np.linalg.qr(rng.standard_normal((n, d, d)))
    # Few or many eigenvalues move, of one sign or both; sometimes only the mean, or only it not.
    a = rng.standard_normal((n, d)) * (rng.uniform(size=(n, d)) < rng.uniform(0.2, 1, (n, 1)))
    a = np.where(rng.uniform(size=(n, 1)) < 0.3, np.abs(a), a)
    v = rng.standard_normal((n, d)) * (rng.uniform(size=(n, 1)) < 0.7)
    v[:, 0] += 1e-3
    a /= np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-9)
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    a *= scale[:, None] * rng.choice([0.0, 0.3, 1.0], (n, 1))
    v *= scale[:, None] * rng.choice([1e-3, 0.3, 1.0], (n, 1))
    a = np.where(a <= -0.95, -0.95, a)
    roots = np.tril(rng.standard_normal((n, d, d))) / math.sqrt(d) + 2 * np.eye(d)
    whole = roots @ turns
    cov1 = roots @ roots.swapaxes(1, 2)
    cov2 = (whole * (1 + a)[:, None, :]) @ whole.swapaxes(1, 2)
    mean2 = (whole @ v[:, :, None])[:, :, 0]
    return np.zeros((n, d)), cov1, mean2, (cov2 + cov2.swapaxes(1, 2)) / 2


def swapped(four: Pairs) -> Pairs:
    return four[2], four[3], four[0], four[1]


@pytest.mark.parametrize("d", DIMENSIONS)
def test_theorem_1_8_holds_within_its_premise(d: int) -> None:
    four = pairs(np.random.default_rng(d), d, 600, (-6, -2.3))
    for bounds in (theorem_1_8(*four), theorem_1_8(*swapped(four))):  # Remark 1.9
        applies = np.asarray(bounds.applies)
        assert applies.sum() > 300
        ratio = (np.asarray(bounds.tv) / np.asarray(bounds.delta))[applies]
        assert (ratio >= 1 / 200).all()
        assert (ratio <= 1 / math.sqrt(2)).all()
        # Close pairs obey the far sharper constants of their limit, up to first order.
        lowest, highest = best_constants(d)
        assert (ratio >= 0.99 * lowest).all()
        assert (ratio <= 1.01 * highest).all()


def test_theorem_1_8_needs_its_premise() -> None:
    wide = theorem_1_8([0.0], [[1.0]], [0.0], [[1000.0]])
    assert not wide.applies
    assert wide.lower > 1 >= wide.tv
    narrow = theorem_1_8([0.0], [[1.0]], [0.0], [[1e-8]])
    assert not narrow.applies
    assert narrow.upper < 0.7072 < narrow.tv
    far = theorem_1_8(np.zeros(3), np.eye(3), [300.0, 0, 0], np.eye(3))
    assert far.lower > far.tv


def test_remark_1_9_total_variation_is_symmetric_and_delta_is_not() -> None:
    four = pairs(np.random.default_rng(0), 3, 100, (-3, -0.5))
    np.testing.assert_array_equal(gaussian_tv(*four), gaussian_tv(*swapped(four)))
    here = np.asarray(parameter_distance(*four))
    there = np.asarray(parameter_distance(*swapped(four)))
    assert (np.abs(here - there) > 1e-3 * here).mean() > 0.3


@pytest.mark.parametrize("d", DIMENSIONS)
def test_theorem_b_1_same_mean(d: int) -> None:
    _, cov1, _, cov2 = pairs(np.random.default_rng(d), d, 300, (-5, 1))
    tv = np.asarray(gaussian_tv(np.zeros(d), cov1, np.zeros(d), cov2))
    assert (np.asarray(theorem_b_1(cov1, cov2)) <= tv).all()


def test_theorem_b_2_on_the_line() -> None:
    rng = np.random.default_rng(2)
    mean = rng.choice([0.0, 1.0], 3000) * 10 ** rng.uniform(-6, 1.5, 3000)
    v1, v2 = 10 ** rng.uniform(-2, 2, 3000), 10 ** rng.uniform(-2, 2, 3000)
    v2 = np.where(rng.uniform(size=3000) < 0.5, v1 * (1 + 10 ** rng.uniform(-6, 0, 3000)), v2)
    tv = np.asarray(gaussian_tv([0.0], v1[:, None, None], mean[:, None], v2[:, None, None]))
    lower, upper = theorem_b_2(0.0, v1, mean, v2)
    assert (lower <= tv).all()
    assert (tv <= upper).all()


@pytest.mark.parametrize("d", DIMENSIONS)
def test_lemma_b_3_centring_at_most_doubles(d: int) -> None:
    mean1, cov1, mean2, cov2 = pairs(np.random.default_rng(d), d, 300, (-5, 0.7))
    centred = np.asarray(gaussian_tv(np.zeros(d), cov1, np.zeros(d), cov2))
    tv = np.asarray(gaussian_tv(mean1, cov1, mean2, cov2))
    assert (centred <= 2 * tv).all()


@pytest.mark.parametrize("d", DIMENSIONS)
def test_lemma_b_4_close_means(d: int) -> None:
    """TV = 3 alpha < 1/200 between shifted standard Gaussians gives a shift of at most 15 alpha."""
    rng = np.random.default_rng(d)
    shift = rng.standard_normal((200, d))
    shift *= (10 ** rng.uniform(-6, -1.9, 200) / np.linalg.norm(shift, axis=1))[:, None]
    tv = np.asarray(gaussian_tv(np.zeros(d), np.eye(d), shift, np.eye(d)))
    small = tv < 1 / 200
    assert small.sum() > 150
    assert (np.linalg.norm(shift, axis=1) <= 15 * tv / 3)[small].all()


@pytest.mark.parametrize("d", DIMENSIONS)
def test_lemma_b_5_parameters_from_total_variation(d: int) -> None:
    four = pairs(np.random.default_rng(d + 50), d, 300, (-6, -2.3))
    tv = np.asarray(gaussian_tv(*four))
    close = tv < 1 / 600
    form = relative_form(*four)
    assert close.sum() > 100
    assert (np.linalg.norm(form.excess, axis=1) <= 200 * tv)[close].all()
    assert (np.linalg.norm(form.shift, axis=1) <= 15 * tv)[close].all()


@pytest.mark.parametrize("d", DIMENSIONS)
def test_fact_a_3_divergence_is_at_most_quadratic(d: int) -> None:
    """If all eigenvalues of S2^-½ S1 S2^-½ are at least ½, KL is below its quadratic bound."""
    four = pairs(np.random.default_rng(d), d, 300, (-4, 0.3))
    form = relative_form(*swapped(four))  # the first Gaussian seen from the second
    premise = (form.eigenvalues >= 0.5).all(axis=1)
    assert premise.sum() > 100
    bound = ((form.excess**2).sum(axis=1) + (form.shift**2).sum(axis=1)) / 2
    kl = np.asarray(kl_divergence(*four))
    assert (kl <= bound * (1 + 1e-9))[premise].all()
    assert (kl > 0).all()


def test_fact_a_3_is_the_expected_log_ratio() -> None:
    """A second method: the mean of ln p1 - ln p2 under p1, within four standard errors."""
    rng = np.random.default_rng(3)
    mean1, cov1, mean2, cov2 = (array[0] for array in pairs(rng, 3, 1, (-0.5, -0.4)))
    x = rng.multivariate_normal(mean1, cov1, 100_000)

    def log_density(mean: Array, cov: Array) -> Array:
        u = np.linalg.solve(np.linalg.cholesky(cov), (x - mean).T)
        return np.asarray(-0.5 * (u**2).sum(axis=0) - 0.5 * np.linalg.slogdet(cov)[1])

    ratio = log_density(mean1, cov1) - log_density(mean2, cov2)
    error = 4 * ratio.std() / math.sqrt(len(x))
    assert abs(ratio.mean() - float(kl_divergence(mean1, cov1, mean2, cov2))) < error


@pytest.mark.parametrize("d", DIMENSIONS)
def test_lemma_a_4_pinsker(d: int) -> None:
    four = pairs(np.random.default_rng(d), d, 300, (-5, 1))
    tv = np.asarray(gaussian_tv(*four))
    assert (tv <= np.asarray(pinsker(*four))).all()
    assert (tv <= np.asarray(pinsker(*swapped(four)))).all()


@pytest.mark.parametrize("d", DIMENSIONS)
def test_lemma_6_3_for_matched_components(d: int) -> None:
    """With the matching fixed, dist_param and dist_GMM are maxima over the same components."""
    rng = np.random.default_rng(d)
    k, checked = 3, 0
    for _ in range(40):
        four = pairs(rng, d, k, (-5, -2.5))
        weights = 10 ** rng.uniform(-6, -3) * rng.uniform(-1, 1, k)
        both = np.maximum(parameter_distance(*four), parameter_distance(*swapped(four)))
        dist_param = max(float(both.max()), float(np.abs(weights).max()))
        dist_gmm = max(float(np.max(gaussian_tv(*four))), float(np.abs(weights).max()))
        if not lemma_6_3_applies(dist_gmm):
            continue
        checked += 1
        bounds = lemma_6_3(dist_param)
        # Where a weight decides both, they are equal and the 1/sqrt(2) does not hold: see below.
        assert bounds.lower <= dist_gmm
        assert dist_gmm <= max(float(bounds.upper), float(np.abs(weights).max()))
    assert checked > 20


def test_lemma_6_3_upper_constant_fails_when_only_weights_differ() -> None:
    """Then both distances are |w - w'|, and 1/sqrt(2) of it is less: the constant must be one."""
    difference = 1e-3
    assert lemma_6_3_applies(difference)
    assert lemma_6_3(difference).upper < difference
