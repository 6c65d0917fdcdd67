"""Rényi accounting against dp-accounting, numerical integration and exact Gaussian prices."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from privgmm.arrays import Array
from privgmm.distances.total_variation import gaussian_hockey_stick
from privgmm.errors import InvalidInput
from privgmm.privacy.curves import (
    ORDERS,
    RenyiCurve,
    gaussian_curve,
    largest_on_private_side,
    lifted_mask_curve,
    paper_mask_curve,
)

SOME = range(0, ORDERS.size, 45)


def gaussian_divergence(m1: Array, s1: Array, m2: Array, s2: Array, order: float) -> float:
    """Rényi divergence of two Gaussians by the general formula; infinite if it diverges."""
    mixed = (1 - order) * s1 + order * s2
    if np.linalg.eigvalsh(mixed).min() <= 0:
        return math.inf
    gap = m1 - m2
    logs = [float(np.linalg.slogdet(s)[1]) for s in (mixed, s1, s2)]
    shift = order / 2 * float(gap @ np.linalg.solve(mixed, gap))
    return shift - (logs[0] - (1 - order) * logs[1] - order * logs[2]) / (2 * (order - 1))


def gaussian_matrix(lam: Array, eta: float) -> tuple[Array, Array]:
    """Law of ``diag(sqrt lam) (I + eta G)`` as a vector."""
    return np.diag(np.sqrt(lam)).reshape(-1), eta**2 * np.diag(np.repeat(lam, lam.size))


# ---------------------------------------------------------------- curves and conversions


@pytest.mark.parametrize("multipliers", [(1.0,), (4.0, 9.0), (0.7, 30.0, 2.0)])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_gaussians_cost_what_dp_accounting_says(
    multipliers: tuple[float, ...], delta: float
) -> None:
    theirs = RdpAccountant(orders=ORDERS.tolist())
    ours = RenyiCurve(np.zeros_like(ORDERS))
    for multiplier in multipliers:
        theirs.compose(dp_event.GaussianDpEvent(multiplier))
        ours = ours + gaussian_curve(multiplier)
    assert ours.epsilon(delta) == pytest.approx(theirs.get_epsilon(delta), rel=1e-9)
    for epsilon in (0.5, 3.0):
        assert ours.delta(epsilon) == pytest.approx(theirs.get_delta(epsilon), rel=1e-6, abs=1e-300)


@pytest.mark.parametrize("multiplier", [0.8, 3.0, 20.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_conversion_is_above_the_exact_price_of_a_gaussian(
    multiplier: float, epsilon: float
) -> None:
    m = 1 / multiplier
    exact = norm.cdf(m / 2 - epsilon / m) - math.exp(epsilon) * norm.cdf(-m / 2 - epsilon / m)
    priced = gaussian_curve(multiplier).delta(epsilon)
    assert exact <= priced
    assert priced <= 30 * exact + 1e-12 or exact < 1e-12


@given(st.floats(0.5, 50), st.floats(1e-12, 0.1))
def test_epsilon_and_delta_are_inverse(multiplier: float, delta: float) -> None:
    curve = gaussian_curve(multiplier)
    epsilon = curve.epsilon(delta)
    if epsilon > 0:
        assert curve.delta(epsilon) == pytest.approx(delta, rel=1e-9)


def test_the_grid_of_orders_loses_little() -> None:
    for multiplier, delta in itertools.product((0.3, 5.0, 400.0), (1e-3, 1e-9)):
        dense = 1 + np.logspace(-2.5, 5.5, 200_000)
        values = dense / (2 * multiplier**2)
        values += np.log1p(-1 / dense) - (math.log(delta) + np.log(dense)) / (dense - 1)
        best = max(0.0, float(values.min()))
        assert gaussian_curve(multiplier).epsilon(delta) <= best * (1 + 2e-4) + 1e-5


def test_curves_add_and_scale() -> None:
    one, two = gaussian_curve(2.0), lifted_mask_curve(0.01, 0.1, 3)
    assert np.array_equal((one + two).values, one.values + two.values)
    assert np.allclose((3 * one).values, (one + one + one).values, rtol=1e-12)
    assert gaussian_curve(2.0) == gaussian_curve(2.0)
    assert gaussian_curve(2.0) != gaussian_curve(2.1)
    # two Gaussians of multipliers a and b cost as much as one of 1/sqrt(1/a^2 + 1/b^2)
    both = gaussian_curve(3.0) + gaussian_curve(4.0)
    assert np.allclose(both.values, gaussian_curve(2.4).values, rtol=1e-12)


def test_a_hopeless_curve_proves_nothing() -> None:
    nothing = RenyiCurve(np.full_like(ORDERS, np.inf))
    assert nothing.epsilon(1e-6) == math.inf
    assert nothing.delta(1.0) == 1.0
    assert gaussian_curve(1e-5).delta(1.0) == 1.0


def test_a_curve_needs_one_number_an_order() -> None:
    with pytest.raises(InvalidInput):
        RenyiCurve(np.zeros(3))
    with pytest.raises(InvalidInput):
        RenyiCurve(np.full_like(ORDERS, np.nan))


# --------------------------------------------------------------------- matrix divergence


def matrix_divergence(ratios: Array, eta: float, order: float) -> float:
    """Compute the Rényi divergence between ``L1 (I + eta G)`` and ``L2 (I + eta G)``.

    The sum that `lifted_mask_curve` bounds; `ratios` are the eigenvalues of ``T1^-1 T2``.
    """
    s = 1 - order + order * ratios
    if (s <= 0).any():
        return math.inf
    shift = order * (np.sqrt(ratios) - 1) ** 2 / (2 * eta**2 * s)
    spread = (np.log1p(order * (ratios - 1)) - order * np.log(ratios)) / (2 * (1 - order))
    return float((shift + ratios.size * spread).sum())


@pytest.mark.parametrize("lam", [0.8, 0.97, 1.0, 1.1, 1.6])
@pytest.mark.parametrize("order", [1.3, 2.0, 3.5])
@pytest.mark.parametrize("eta", [0.1, 0.7])
def test_one_by_one_matrices_by_integration(lam: float, order: float, eta: float) -> None:
    first, second = norm(1.0, eta), norm(math.sqrt(lam), math.sqrt(lam) * eta)

    def integrand(x: float) -> float:
        return math.exp(float(order * first.logpdf(x) + (1 - order) * second.logpdf(x)))

    exact = matrix_divergence(np.array([lam]), eta, order)
    s = 1 - order + order * lam
    if s <= 0:
        assert exact == math.inf
        return
    # the integrand is itself a Gaussian bump: look where it is
    centre = ((1 - order) * math.sqrt(lam) + order * lam) / s
    width = eta * math.sqrt(lam / s)
    total = quad(integrand, centre - 12 * width, centre + 12 * width, limit=200)[0]
    assert exact == pytest.approx(math.log(total) / (order - 1), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("p", [1, 2, 4])
def test_matrices_by_the_general_formula(p: int) -> None:
    """Random pairs of matrices, roots chosen as the docstring says, p^2 dimensions."""
    rng = np.random.default_rng(p)
    for _ in range(10):
        root = rng.standard_normal((p, p)) + 2 * np.eye(p)
        change = np.eye(p) + 0.1 * rng.standard_normal((p, p))
        second = root @ change @ change.T @ root.T
        inverse = np.linalg.inv(root)
        lam, turn = np.linalg.eigh(inverse @ second @ inverse.T)
        one, two = root @ turn, root @ turn * np.sqrt(lam)
        assert np.allclose(two @ two.T, second)
        eta, order = 0.3, float(rng.uniform(1.1, 3))
        laws = [(r.reshape(-1), eta**2 * np.kron(r @ r.T, np.eye(p))) for r in (one, two)]
        want = gaussian_divergence(*laws[0], *laws[1], order)
        assert matrix_divergence(lam, eta, order) == pytest.approx(want, rel=1e-8, abs=1e-12)


def test_each_summand_over_its_squared_logarithm_is_largest_at_the_smallest_ratio() -> None:
    """What `lifted_mask_curve` rests on, for orders from 1.01 to where the bound is infinite."""
    x = np.concatenate([-np.geomspace(3.0, 1e-3, 160), np.geomspace(1e-3, 3.0, 160)])
    lam = np.exp(x)
    for order in (1.001, 1.05, 1.5, 2.0, 5.0, 30.0, 400.0, 1e4):
        s = 1 + order * np.expm1(x)
        allowed = s > 1e-9
        shift = order * np.expm1(x / 2) ** 2 / np.where(allowed, s, np.nan) / x**2
        with np.errstate(invalid="ignore"):
            log_det = (np.log1p(order * np.expm1(x)) - order * x) / (2 * (1 - order)) / x**2
        for term in (shift[allowed], log_det[allowed]):
            assert np.all(np.diff(term) <= 1e-7 * np.abs(term[:-1])), order
        # and the two terms are those of the divergence
        i = int(np.flatnonzero(allowed)[len(lam) // 8])
        want = (shift[i] / (2 * 0.3**2) + log_det[i]) * x[i] ** 2
        assert matrix_divergence(lam[[i]], 0.3, order) == pytest.approx(want, rel=1e-6)


def ratio_vectors(gamma: float, p: int, rng: np.random.Generator) -> list[Array]:
    """Logarithms of length gamma: one axis, all axes, mixed signs, random; both signs of each."""
    shapes = [np.eye(p)[0], np.ones(p), np.where(np.arange(p) % 2, -1.0, 1.0)]
    shapes += [rng.standard_normal(p) for _ in range(6)]
    logs = [gamma * shape / np.linalg.norm(shape) for shape in shapes]
    return [np.exp(sign * log) for log in logs for sign in (-1, 1)]


@pytest.mark.parametrize("p", [1, 2, 3, 6])
@pytest.mark.parametrize("gamma", [1e-4, 0.02, 0.5])
@pytest.mark.parametrize("eta", [0.01, 0.3])
def test_the_lifted_curve_is_above_every_admissible_pair(p: int, gamma: float, eta: float) -> None:
    curve = lifted_mask_curve(gamma, eta, p)
    rng = np.random.default_rng(p)
    attained = 0.0
    for share in (1.0, 0.6, 0.1):
        for lam in ratio_vectors(share * gamma, p, rng):
            for i in SOME:
                exact = matrix_divergence(lam, eta, float(ORDERS[i]))
                assert exact <= curve.values[i] * (1 + 1e-6) + 1e-13
                if np.isfinite(curve.values[i]) and exact > 1e-9:
                    attained = max(attained, exact / curve.values[i])
    assert attained > 0.999


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("gamma", [1e-3, 0.1])
def test_the_papers_curve_is_above_every_admissible_pair(d: int, gamma: float) -> None:
    """Weight, mean and covariance at dist_Comp gamma, in both directions."""
    etas = (0.2, 0.3, 0.05)
    curve = paper_mask_curve(gamma, *etas, d)
    rng = np.random.default_rng(d)
    shapes = [np.eye(d)[0], np.ones(d), *(rng.standard_normal(d) for _ in range(4))]
    attained = 0.0
    for shape, sign in itertools.product(shapes, (-1, 1)):
        step = sign * gamma * shape / np.linalg.norm(shape)
        lam = np.where(step > 0, 1 + step, 1 / (1 - step))
        shrink = max(np.linalg.norm(lam - 1), np.linalg.norm(1 / lam - 1)) / gamma
        lam = 1 + (lam - 1) / max(1.0, float(shrink)) * (1 - 1e-9)
        assert max(np.linalg.norm(lam - 1), np.linalg.norm(1 / lam - 1)) <= gamma * 1.01
        for direction in (np.eye(d)[0], rng.standard_normal(d)):
            shift = gamma * direction / np.linalg.norm(direction)
            shift /= max(1.0, float(np.linalg.norm(shift / np.sqrt(lam))) / gamma)
            for i in SOME:
                order = float(ORDERS[i])
                total = order * gamma**2 / (2 * etas[0] ** 2)
                total += gaussian_divergence(
                    np.zeros(d), etas[1] ** 2 * np.eye(d), shift, etas[1] ** 2 * np.diag(lam), order
                )
                total += matrix_divergence(lam, etas[2], order)
                assert total <= curve.values[i] * (1 + 1e-6)
                if np.isfinite(curve.values[i]):
                    attained = max(attained, total / float(curve.values[i]))
    assert attained > 0.8


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("gamma", [0.02, 0.1])
def test_the_exact_price_of_a_mask_is_below_the_priced_one(p: int, gamma: float) -> None:
    """The hockey-stick divergence of the Gaussian matrices, exactly, at distance gamma."""
    eta = 0.1
    curve = lifted_mask_curve(gamma, eta, p)
    rng = np.random.default_rng(0)
    nearest = 0.0
    for lam in ratio_vectors(gamma, p, rng)[:8]:
        for epsilon in (0.1, 0.5, 2.0):
            exact = float(
                gaussian_hockey_stick(
                    *gaussian_matrix(np.ones(p), eta), *gaussian_matrix(lam, eta), epsilon
                )
            )
            priced = curve.delta(epsilon)
            assert exact <= priced
            if exact > 1e-10:
                nearest = max(nearest, exact / priced)
    assert nearest > 0.05


def test_squaring_the_gaussian_matrix_only_helps() -> None:
    """P = 1: the masked value is ``T (1 + eta g)^2``; its own exact price, by integration."""
    eta, gamma, epsilon = 0.3, 0.3, 0.2
    ratio = math.exp(-gamma)

    def density(y: float, scale: float) -> float:
        root = math.sqrt(y / scale)
        one, two = norm.pdf((root - 1) / eta), norm.pdf((-root - 1) / eta)
        return float(one + two) / (2 * eta * root * scale)

    for first, second in ((1.0, ratio), (ratio, 1.0)):
        grid = np.geomspace(1e-9, 12, 40_001)
        gain = [
            max(density(y, first) - math.exp(epsilon) * density(y, second), 0.0) for y in grid[::10]
        ]
        exact = float(np.trapezoid(np.array(gain) * grid[::10], np.log(grid[::10])))
        lam = np.array([second / first])
        bound = float(
            gaussian_hockey_stick(
                *gaussian_matrix(np.ones(1), eta), *gaussian_matrix(lam, eta), epsilon
            )
        )
        assert exact <= bound * (1 + 1e-3)
        assert bound <= lifted_mask_curve(gamma, eta, 1).delta(epsilon)


def test_curves_grow_with_distance_size_and_less_noise() -> None:
    base = lifted_mask_curve(0.05, 0.1, 3).epsilon(1e-6)
    assert lifted_mask_curve(0.06, 0.1, 3).epsilon(1e-6) > base
    assert lifted_mask_curve(0.05, 0.1, 4).epsilon(1e-6) > base
    assert lifted_mask_curve(0.05, 0.09, 3).epsilon(1e-6) > base


# ------------------------------------------------------------------- the private side


@given(st.floats(0.05, 20.0), st.floats(0.3, 3.0))
def test_the_root_ends_on_the_private_side(budget: float, power: float) -> None:
    def price(x: float) -> float:
        return math.pow(x, power)

    x = largest_on_private_side(price, budget, 1e-6, 1e6)
    assert price(x) <= budget
    assert price(x * (1 + 1e-6)) > budget


def test_the_ends_of_the_range() -> None:
    assert largest_on_private_side(lambda x: x, 10.0, 0.1, 2.0) == 2.0
    with pytest.raises(InvalidInput, match="budget"):
        largest_on_private_side(lambda x: x, 0.01, 0.1, 2.0)
