"""The stated bounds: accuracy of Delta and KL, and the constants they could be replaced by."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad

from privgmm.arrays import Array
from privgmm.distances.bounds import (
    best_constants,
    kl_divergence,
    lemma_6_3,
    lemma_6_3_applies,
    limit_ratio,
    parameter_distance,
    pinsker,
    theorem_1_8,
    theorem_b_1,
    theorem_b_2,
)
from privgmm.distances.total_variation import gaussian_tv
from privgmm.errors import InvalidInput


def random_pair(
    rng: np.random.Generator, d: int, condition: float, size: float
) -> tuple[Array, Array, Array, Array]:
    turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
    root = turn * np.logspace(0, -math.log10(condition) / 2, d)
    bend = np.eye(d) + size * rng.standard_normal((d, d))
    covs = [root @ root.T, root @ bend @ bend.T @ root.T]
    mean = rng.standard_normal(d)
    return (
        mean,
        np.asarray((covs[0] + covs[0].T) / 2),
        mean + size * root @ rng.standard_normal(d),
        np.asarray((covs[1] + covs[1].T) / 2),
    )


def exact(pair: tuple[Array, Array, Array, Array]) -> tuple[mp.mpf, mp.mpf]:
    """Delta and KL at 60 digits, by their defining formulas (Theorem 1.8, Fact A.3)."""
    m1, s1, m2, s2 = pair
    d = len(m1)
    with mp.workdps(60):
        S1, S2 = mp.matrix(s1.tolist()), mp.matrix(s2.tolist())
        v = mp.matrix(m2.tolist()) - mp.matrix(m1.tolist())
        X = mp.cholesky(S1) ** -1
        spread = (
            mp.norm(X * S2 * X.T - mp.eye(d), 2)
            if d == 1
            else mp.mnorm(X * S2 * X.T - mp.eye(d), "f")
        )
        inverse = S2**-1
        product = inverse * S1
        trace = mp.fsum(product[i, i] - 1 for i in range(d))
        quadratic = (v.T * inverse * v)[0]
        kl = (trace + quadratic - mp.log(mp.det(S1) / mp.det(S2))) / 2
        return max(spread, mp.norm(X * v, 2)), kl


@pytest.mark.parametrize("d", [1, 2, 6])
@pytest.mark.parametrize("condition", [1.0, 1e5, 1e10])
@pytest.mark.parametrize("size", [1e-4, 1e-2, 0.3])
def test_delta_and_kl_keep_their_digits(d: int, condition: float, size: float) -> None:
    pair = random_pair(np.random.default_rng(d), d, condition, size)
    delta, kl = exact(pair)
    assert abs(parameter_distance(*pair) - delta) <= 1e-12 * delta
    assert abs(kl_divergence(*pair) - kl) <= 1e-11 * kl
    assert float(pinsker(*pair)) == pytest.approx(float(mp.sqrt(kl / 2)), rel=1e-11)


def test_theorem_1_8_reports_itself() -> None:
    pair = random_pair(np.random.default_rng(0), 3, 10.0, 1e-4)
    bounds = theorem_1_8(*pair)
    assert bounds.applies is True
    assert bounds.tv == gaussian_tv(*pair)
    assert bounds.lower == pytest.approx(float(bounds.delta) / 200)
    assert bounds.upper == pytest.approx(float(bounds.delta) / math.sqrt(2))
    assert theorem_1_8([0.0], [[1.0]], [1.0], [[1.0]]).applies is False


def test_theorem_1_8_takes_batches() -> None:
    means = np.array([[0.001], [0.1], [1.0]])
    batch = theorem_1_8([0.0], [[1.0]], means, [[1.0]])
    np.testing.assert_allclose(batch.delta, means[:, 0])
    np.testing.assert_array_equal(batch.applies, [True, False, False])


def test_one_dimensional_bounds_broadcast() -> None:
    lower, upper = theorem_b_2(0.0, 1.0, [0.0, 0.01], [1.1, 1.0])
    np.testing.assert_allclose(lower, [0.1 / 200, 0.4 / 200])
    np.testing.assert_allclose(upper, [0.15, 0.005])
    assert theorem_b_2(0.0, 1.0, 5.0, 1.0).lower == 1 / 200
    with pytest.raises(InvalidInput, match="variance2"):
        theorem_b_2(0.0, 1.0, 0.0, 0.0)


def test_same_mean_bound_saturates() -> None:
    assert theorem_b_1([[1.0]], [[100.0]]) == 0.01
    assert theorem_b_1(np.eye(2), 1.1 * np.eye(2)) == pytest.approx(0.1 * math.sqrt(2) / 100)


def test_lemma_6_3_scales_and_refuses() -> None:
    bounds = lemma_6_3(0.2)
    assert bounds.lower == pytest.approx(0.001)
    assert bounds.upper == pytest.approx(0.2 / math.sqrt(2))
    assert lemma_6_3_applies(0.0)
    assert lemma_6_3_applies(1 / 601)
    assert not lemma_6_3_applies(1 / 600)
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="dist_param"):
            lemma_6_3(bad)


@pytest.mark.parametrize(
    ("a", "v", "truth"),
    [
        ([0.0], [1.0], 0.5 * math.sqrt(2 / math.pi)),
        ([1.0], [0.0], math.exp(-0.5) / math.sqrt(2 * math.pi)),
        ([math.sqrt(0.5), -math.sqrt(0.5)], [0.0, 0.0], 1 / (math.pi * math.sqrt(2))),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
    ],
)
def test_limit_ratio_has_closed_forms(a: list[float], v: list[float], truth: float) -> None:
    assert limit_ratio(a, v) == pytest.approx(truth, abs=1e-9)


@pytest.mark.parametrize("d", [1, 4, 7])
def test_limit_ratio_agrees_with_the_characteristic_function(d: int) -> None:
    """``E|Q| = (2/π) ∫ (1 - Re f(t)) / t² dt`` on the line of the real numbers."""
    rng = np.random.default_rng(d)
    a, v = rng.standard_normal(d), rng.standard_normal(d)

    def integrand(t: float) -> float:
        z, q = t * a, (t * v) ** 2
        size = -0.5 * (0.5 * np.log1p(z * z) + q / (1 + z * z)).sum()
        turn = -0.5 * (z - np.arctan(z) + q * z / (1 + z * z)).sum()
        gap = 2 * np.sin(turn / 2) ** 2 - np.expm1(size) * np.cos(turn)
        return float(gap / t**2)

    far = 400.0  # beyond it 1 - Re f is 1, but for a part that decays and turns
    area = quad(integrand, 0, far, limit=2000, epsabs=1e-10)[0] + 1 / far
    assert limit_ratio(a, v) == pytest.approx(area / math.pi, abs=2e-5 if d == 1 else 1e-7)


def test_best_constants_match_the_known_values() -> None:
    assert best_constants(1).lowest == pytest.approx(0.2419707, abs=1e-7)
    assert (
        best_constants(2).lowest == best_constants(9).lowest == pytest.approx(0.2250791, abs=1e-7)
    )
    highest = [best_constants(d).highest for d in (1, 2, 3, 4, 40)]
    np.testing.assert_allclose(highest[:4], [0.4465, 0.4782, 0.4825, 0.4843], atol=5e-5)
    assert (np.diff(highest) > 0).all()
    assert highest[-1] < math.sqrt(3 / (4 * math.pi)) < highest[-1] + 1e-3
    assert best_constants(5).lowest > 1 / 200
    assert best_constants(40).highest < 1 / math.sqrt(2)


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_no_direction_beats_the_best_constants(d: int) -> None:
    rng = np.random.default_rng(d)
    lowest, highest = best_constants(d)
    for _ in range(60):
        a, v = rng.standard_normal(d), rng.standard_normal(d)
        a, v = a / np.linalg.norm(a), v / np.linalg.norm(v)
        which = rng.integers(3)  # full spread, full shift, or both
        a, v = (a, rng.uniform() * v) if which == 0 else (a, v)
        a = rng.uniform() * a if which == 1 else a
        assert lowest - 1e-8 <= limit_ratio(a, v) <= highest + 1e-8


def test_bad_dimensions_are_refused() -> None:
    for bad in (0, -1):
        with pytest.raises(InvalidInput, match="n_features"):
            best_constants(bad)
