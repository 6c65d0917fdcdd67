"""Total variation against closed forms, mpmath, non-central chi-square and its own invariances."""

from __future__ import annotations

import itertools
from typing import Any

import mpmath as mp
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ncx2

from privgmm.arrays import Array
from privgmm.distances import total_variation
from privgmm.distances.contour import NotConverged, contour_overlap
from privgmm.distances.total_variation import (
    gaussian_hockey_stick,
    gaussian_tv,
    relative_form,
)
from privgmm.errors import InvalidInput

ABSOLUTE, RELATIVE = 1e-12, 1e-9


def number(value: float | Array) -> float:
    return float(value)


def close(value: float | Array, truth: Any, *, relative: float = 1e-11) -> None:
    """The promise (1e-12 absolute, 1e-9 relative), and a tighter mark to notice regressions."""
    error = abs(mp.mpf(number(value)) - truth)
    assert error <= ABSOLUTE
    assert error <= min(relative, RELATIVE) * abs(truth)


def log_overlap_of(*pair: npt.ArrayLike) -> float:
    """Compute ``ln ∫ min(p1, p2)``, which keeps its digits where TV rounds to one."""
    mean1, cov1, mean2, cov2 = pair
    form = relative_form(mean1, cov1, mean2, cov2)
    tv, log_overlap, panels = np.empty(1), np.empty(1), np.empty(1, dtype=np.int64)
    flat = (form.excess, form.eigenvalues, form.shift**2)
    contour_overlap(*(np.ascontiguousarray(part[None]) for part in flat), tv, log_overlap, panels)
    return float(log_overlap[0])


def random_covariance(rng: np.random.Generator, d: int, condition: float) -> Array:
    turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
    exponents = rng.uniform(0, 1, d)
    exponents[: min(2, d)] = [0, 1][: min(2, d)]
    cov = (turn * condition**-exponents) @ turn.T
    return np.asarray((cov + cov.T) / 2)


def line_hockey_stick(mu1: float, v1: float, mu2: float, v2: float, eps: float = 0.0) -> Any:
    """``∫ (p1 - e^eps p2)+`` on the line, by the roots of a quadratic and erf at 60 digits."""
    with mp.workdps(60):
        a1, b1, a2, b2, e = (mp.mpf(x) for x in (mu1, v1, mu2, v2, eps))

        def mass(low: Any, high: Any) -> Any:
            first = mp.ncdf(high, a1, mp.sqrt(b1)) - mp.ncdf(low, a1, mp.sqrt(b1))
            second = mp.ncdf(high, a2, mp.sqrt(b2)) - mp.ncdf(low, a2, mp.sqrt(b2))
            return max(first - mp.exp(e) * second, 0)

        # ln p1 - ln p2 - eps = quadratic * x² + linear * x + constant
        quadratic = 1 / (2 * b2) - 1 / (2 * b1)
        linear = a1 / b1 - a2 / b2
        constant = a2**2 / (2 * b2) - a1**2 / (2 * b1) + mp.log(b2 / b1) / 2 - e
        inside = linear**2 - 4 * quadratic * constant
        if quadratic == 0:
            roots = [] if linear == 0 else [-constant / linear]
        elif inside <= 0:
            roots = []
        else:
            roots = sorted((-linear + sign * mp.sqrt(inside)) / (2 * quadratic) for sign in (-1, 1))
        ends = [mp.mpf("-inf"), *roots, mp.mpf("inf")]
        return mp.fsum(mass(low, high) for low, high in itertools.pairwise(ends))


@pytest.mark.parametrize("shift", [0.0, 1e-6, 1e-3, 0.3, 2.0, 12.0])
@pytest.mark.parametrize("ratio", [1e-10, 1e-3, 0.4, 0.6, 1 - 1e-6, 1.0, 1 + 1e-5, 1.6, 50.0, 1e8])
def test_line_agrees_with_erf(shift: float, ratio: float) -> None:
    truth = line_hockey_stick(0.25, 1.5, 0.25 + shift, 1.5 * ratio)
    close(gaussian_tv([0.25], [[1.5]], [0.25 + shift], [[1.5 * ratio]]), truth)


def plane_tv(lam: tuple[float, float], m: tuple[float, float]) -> Any:
    """``N(0, I)`` against ``N(m, diag(lam))``: exact slices, tanh-sinh between their kinks."""
    l1, l2, m1, m2 = (mp.mpf(x) for x in (*lam, *m))

    def excess(y: Any, x0: Any, l0: Any) -> Any:  # ln p1 - ln p2 along one axis
        return ((y - x0) ** 2 / l0 - y**2 + mp.log(l0)) / 2

    def roots(a: Any, b: Any, c: Any) -> list[Any]:
        inside = b**2 - 4 * a * c
        return [] if inside <= 0 else sorted((-b + s * mp.sqrt(inside)) / (2 * a) for s in (-1, 1))

    quadratic, linear = (1 / l2 - 1) / 2, -m2 / l2
    rest = m2**2 / (2 * l2) + mp.log(l2) / 2

    def gap(y: Any) -> Any:
        cuts = roots(quadratic, linear, rest + excess(y, m1, l1))
        ends = [mp.mpf("-inf"), *cuts, mp.mpf("inf")]
        density1 = mp.npdf(y)
        density2 = mp.npdf(y, m1, mp.sqrt(l1))
        return mp.fsum(
            abs(
                density1 * (mp.ncdf(high) - mp.ncdf(low))
                - density2 * (mp.ncdf(high, m2, mp.sqrt(l2)) - mp.ncdf(low, m2, mp.sqrt(l2)))
            )
            for low, high in itertools.pairwise(ends)
        )

    # The slice touches zero where its discriminant vanishes: a quadratic in y again.
    touch = rest - linear**2 / (4 * quadratic)
    kinks = roots((1 / l1 - 1) / 2, -m1 / l1, m1**2 / (2 * l1) + mp.log(l1) / 2 + touch)
    edge = 9 * max(1, mp.sqrt(l1)) + abs(m1)
    marks = sorted({-edge, *[k for k in kinks if abs(k) < edge], mp.mpf(0), m1, edge})
    return mp.quad(gap, marks) / 2


@pytest.mark.parametrize(
    ("lam", "m"),
    [
        ((2.0, 0.5), (0.0, 0.0)),
        ((1.25, 0.75), (0.5, -0.25)),
        ((3.0, 2.0), (1.0, 0.5)),
        ((0.125, 5.0), (-0.75, 2.0)),
        ((1 + 2.0**-12, 1 - 2.0**-13), (2.0**-11, 2.0**-12)),
    ],
)
def test_plane_agrees_with_nested_quadrature(
    lam: tuple[float, float], m: tuple[float, float]
) -> None:
    truth = plane_tv(lam, m)
    close(gaussian_tv([0, 0], np.eye(2), m, np.diag(lam)), truth)
    shear = np.array([[2.0, 0.0], [-3.0, 1.0]])  # small integers: the products below are exact
    close(gaussian_tv([0, 0], shear @ shear.T, shear @ m, shear @ np.diag(lam) @ shear.T), truth)


def isotropic_overlap(d: int, lam: float, distance: float) -> float:
    """``∫ min(p1, p2)`` for ``N(0, I)`` and ``N(m, lam I)``: both sides of a sphere."""
    swap = lam < 1  # look from the wider one's side, so that {p1 > p2} is a ball
    ratio, shift = (1 / lam, distance / np.sqrt(lam)) if swap else (lam, distance)
    centre = -shift / (ratio - 1)
    radius2 = (ratio * shift**2 / (ratio - 1) + ratio * d * np.log(ratio)) / (ratio - 1)
    outside = ncx2.sf(radius2, d, centre**2)
    inside = ncx2.cdf(radius2 / ratio, d, (shift - centre) ** 2 / ratio)
    return float(outside + inside)


@pytest.mark.parametrize("d", [1, 2, 3, 7, 20, 100])
@pytest.mark.parametrize(("lam", "distance"), [(1.05, 0.2), (1.7, 1.0), (0.6, 2.0), (2.5, 9.0)])
def test_isotropic_pairs_agree_with_chi_square(d: int, lam: float, distance: float) -> None:
    mean = np.full(d, distance / np.sqrt(d))
    form = relative_form(np.zeros(d), np.eye(d), mean, lam * np.eye(d))
    exact_distance = float(np.linalg.norm(form.shift))
    overlap = isotropic_overlap(d, lam, exact_distance)
    pair = (np.zeros(d), np.eye(d), mean, lam * np.eye(d))
    assert number(gaussian_tv(*pair)) == pytest.approx(1 - overlap, rel=1e-11, abs=1e-13)
    assert log_overlap_of(*pair) == pytest.approx(np.log(overlap), rel=1e-10)


@pytest.mark.parametrize("d", [1, 4, 30, 100])
@pytest.mark.parametrize("distance", [1e-6, 1e-3, 1.0, 6.0, 12.2, 60.0])
def test_equal_covariances_have_a_closed_form(d: int, distance: float) -> None:
    rng = np.random.default_rng(d)
    root = np.tril(rng.integers(-2, 3, (d, d))).astype(float)
    np.fill_diagonal(root, 1.0)
    root[2:] = np.eye(d)[2:]  # keeps the product exact and its inverse small
    direction = np.zeros(d)
    direction[0] = distance
    pair = (np.zeros(d), root @ root.T, root @ direction, root @ root.T)
    # 2 Phi(t) - 1 at t = distance / 2, and its complement
    close(gaussian_tv(*pair), mp.erf(mp.mpf(distance) / mp.sqrt(8)))
    log_overlap = mp.log(mp.erfc(mp.mpf(distance) / mp.sqrt(8)))
    error = abs(mp.mpf(log_overlap_of(*pair)) - log_overlap)
    assert error <= 1e-12 * max(1, abs(log_overlap))


@pytest.mark.parametrize("d", [2, 5, 12])
@pytest.mark.parametrize("condition", [1e4, 1e7, 1e10])
@pytest.mark.parametrize("factor", [2.0, 0.25, 1 + 2.0**-6, 1 + 2.0**-12, 1.0])
def test_ill_conditioned_pairs_keep_their_digits(d: int, condition: float, factor: float) -> None:
    """S2 a multiple of S1 is an isotropic pair for every S1: exact inputs, known answer."""
    rng = np.random.default_rng(d)
    # Entries of 40 bits: S1 stays positive definite, and its multiples are exact.
    cov = np.ldexp(np.rint(np.ldexp(random_covariance(rng, d, condition), 40)), -40)
    with mp.workdps(60):
        s = mp.matrix(cov.tolist())
        size = min(1.0, abs(factor - 1)) or 1e-6
        shift = size * np.linalg.cholesky(cov) @ rng.standard_normal(d)
        column = mp.matrix(shift.tolist())
        distance = mp.sqrt((column.T * mp.lu_solve(s, column))[0])
        scaled = np.asarray(cov * factor)
        assert mp.matrix(scaled.tolist()) == s * mp.mpf(factor)
    value = gaussian_tv(np.zeros(d), cov, shift, scaled)
    # The same pair in its simplest coordinates, well conditioned and checked elsewhere.
    simple = np.zeros(d)
    simple[0] = float(distance)
    truth = number(gaussian_tv(np.zeros(d), np.eye(d), simple, factor * np.eye(d)))
    close(value, mp.mpf(truth))


@pytest.mark.parametrize("target", [1e-6, 1e-3, 0.5, 1 - 1e-3, 1 - 1e-9])
def test_whole_range_of_values(target: float) -> None:
    distance = float(mp.sqrt(8) * mp.erfinv(mp.mpf(target)))
    truth = mp.erf(mp.mpf(distance) / mp.sqrt(8))
    close(gaussian_tv([0.0, 0], np.eye(2), [distance, 0], np.eye(2)), truth)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 9),
    size=st.floats(-6, 1),
    condition=st.floats(0, 6),
)
def test_invariances(seed: int, d: int, size: float, condition: float) -> None:
    rng = np.random.default_rng(seed)
    cov1 = random_covariance(rng, d, 10**condition)
    root = np.linalg.cholesky(cov1)
    bend = np.eye(d) + 10**size * rng.standard_normal((d, d))
    if np.linalg.cond(bend) > 1e4:
        return
    cov2 = root @ bend @ bend.T @ root.T
    cov2 = (cov2 + cov2.T) / 2
    mean2 = 10**size * root @ rng.standard_normal(d)
    tv = number(gaussian_tv(np.zeros(d), cov1, mean2, cov2))
    assert 0 < tv <= 1
    assert number(gaussian_tv(mean2, cov2, np.zeros(d), cov1)) == tv
    # Rounding in the mapped inputs moves TV by about 1e-16 x condition, hence the tolerance.
    turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
    mapped = [m @ turn.T for m in (np.zeros(d), mean2)]
    covs = [turn @ s @ turn.T for s in (cov1, cov2)]
    again = number(gaussian_tv(mapped[0], covs[0], mapped[1], covs[1]))
    assert again == pytest.approx(tv, abs=1e-14 * 10**condition, rel=1e-9)
    # Stretching by powers of two is exact.
    scale = np.ldexp(1.0, rng.integers(-300, 300, d))
    stretched = (cov1 * np.outer(scale, scale), cov2 * np.outer(scale, scale))
    exact = gaussian_tv(np.zeros(d), stretched[0], mean2 * scale, stretched[1])
    assert number(exact) == pytest.approx(tv, rel=1e-10, abs=1e-15)


def test_equal_gaussians_are_at_distance_zero() -> None:
    rng = np.random.default_rng(0)
    for d, condition in [(1, 1.0), (4, 1e3), (9, 1e12)]:
        cov, mean = random_covariance(rng, d, condition), rng.standard_normal(d)
        assert gaussian_tv(mean, cov, mean, cov) == 0.0
        assert log_overlap_of(mean, cov, mean, cov) == 0.0
        assert gaussian_hockey_stick(mean, cov, mean, cov, 0.5) == 0.0


def test_a_metric() -> None:
    rng = np.random.default_rng(3)
    covs = np.stack([random_covariance(rng, 4, 30.0) for _ in range(12)])
    means = 0.3 * rng.standard_normal((12, 4))
    table = np.asarray(gaussian_tv(means[:, None], covs[:, None], means, covs))
    assert table.shape == (12, 12)
    assert (table == table.T).all()
    assert (np.diag(table) == 0).all()
    assert (table[:, :, None] <= table[:, None, :] + table[None, :, :] + 1e-14).all()


def test_batches_are_their_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    covs = np.stack([random_covariance(rng, 3, c) for c in (1, 1e2, 1e5, 1e9)])
    means = rng.standard_normal((5, 1, 3))
    batch = np.asarray(gaussian_tv(means, covs, np.ones(3), np.eye(3)))
    assert batch.shape == (5, 4)
    single = [[number(gaussian_tv(m[0], s, np.ones(3), np.eye(3))) for s in covs] for m in means]
    np.testing.assert_allclose(batch, single, rtol=1e-13)
    monkeypatch.setattr(total_variation, "_CHUNK", 30)
    np.testing.assert_array_equal(gaussian_tv(means, covs, np.ones(3), np.eye(3)), batch)
    assert isinstance(gaussian_tv([0.0], [[1.0]], [1.0], [[1.0]]), float)
    assert np.shape(gaussian_tv(np.zeros((0, 2)), np.eye(2), np.ones(2), np.eye(2))) == (0,)


@pytest.mark.parametrize("eps", [-3.0, -0.1, 0.0, 1e-4, 0.05, 0.7, 2.0, 6.0])
@pytest.mark.parametrize(
    ("shift", "ratio"), [(1.0, 1.0), (0.01, 1.0), (0.0, 2.0), (0.4, 0.5), (3.0, 1.3), (1e-3, 1.001)]
)
def test_hockey_stick_on_the_line(shift: float, ratio: float, eps: float) -> None:
    truth = line_hockey_stick(0.0, 1.0, shift, ratio, eps)
    value = number(gaussian_hockey_stick([0.0], [[1.0]], [shift], [[ratio]], eps))
    assert abs(mp.mpf(value) - truth) <= 1e-11 * truth + mp.mpf("1e-300")


@pytest.mark.parametrize("eps", [-1.0, 0.0, 0.3, 2.5, 12.0])
@pytest.mark.parametrize("d", [2, 10])
def test_hockey_stick_for_equal_covariances(d: int, eps: float) -> None:
    """``Phi(m/2 - eps/m) - e^eps Phi(-m/2 - eps/m)``, the exact price of the Gaussian mechanism."""
    cov = 0.5 * np.eye(d) + 0.5
    direction = np.arange(1.0, d + 1)
    m = mp.sqrt(mp.mpf(float(direction @ np.linalg.solve(cov, direction))) / 64)
    truth = mp.ncdf(m / 2 - eps / m) - mp.exp(eps) * mp.ncdf(-m / 2 - eps / m)
    value = number(gaussian_hockey_stick(np.zeros(d), cov, direction / 8, cov, eps))
    assert abs(value - truth) <= 1e-10 * truth + mp.mpf("1e-300")


def test_hockey_stick_is_a_convex_falling_curve() -> None:
    rng = np.random.default_rng(5)
    cov = random_covariance(rng, 4, 8.0)
    eps = np.linspace(-2, 4, 61)
    pair = (np.zeros(4), np.eye(4), np.full(4, 0.2), cov)
    curve = np.asarray(gaussian_hockey_stick(*pair, eps))
    back = np.asarray(gaussian_hockey_stick(pair[2], pair[3], pair[0], pair[1], -eps))
    assert (np.diff(curve) < 0).all()
    # Convex in e^eps, being a supremum of lines in it.
    slopes = np.diff(curve) / np.diff(np.exp(eps))
    assert (np.diff(slopes) > 0).all()
    np.testing.assert_allclose(curve, 1 - np.exp(eps) + np.exp(eps) * back, atol=1e-14)
    assert number(gaussian_hockey_stick(*pair, 0.0)) == pytest.approx(
        number(gaussian_tv(*pair)), rel=1e-13
    )


def test_hockey_stick_agrees_with_chi_square_tails() -> None:
    """Centred isotropic pair: the loss exceeds eps outside a sphere."""
    d, lam, eps = 15, 0.8, np.array([0.0, 1.0, 4.0, 9.0])
    radius2 = (d * np.log(1 / lam) + 2 * eps) / (1 / lam - 1)  # p1 > e^eps p2 beyond it
    tails = ncx2.sf(radius2, d, 0) - np.exp(eps) * ncx2.sf(radius2 / lam, d, 0)
    values = gaussian_hockey_stick(np.zeros(d), np.eye(d), np.zeros(d), lam * np.eye(d), eps)
    np.testing.assert_allclose(values, tails, rtol=1e-11)


def test_a_bounded_loss_is_never_exceeded() -> None:
    """Against a wider Gaussian the loss is at most ½ ln 4, so beyond it nothing is left."""
    assert gaussian_hockey_stick([0.0], [[1.0]], [0.0], [[4.0]], 0.7) == 0.0
    assert number(gaussian_hockey_stick([0.0], [[1.0]], [0.0], [[4.0]], 0.69)) > 0
    assert gaussian_hockey_stick([0.0], [[1.0]], [0.0], [[1e14]], 20.0) == 0.0


def test_relative_form_rebuilds_the_pair() -> None:
    rng = np.random.default_rng(6)
    cov1, cov2 = random_covariance(rng, 5, 50.0), random_covariance(rng, 5, 50.0)
    form = relative_form(np.zeros(5), cov1, np.ones(5), cov2)
    np.testing.assert_allclose(
        np.sort(form.eigenvalues), np.sort(np.linalg.eigvals(np.linalg.solve(cov1, cov2)).real)
    )
    np.testing.assert_allclose(form.eigenvalues - 1, form.excess, atol=1e-12)
    distance2 = np.ones(5) @ np.linalg.solve(cov1, np.ones(5))
    assert form.shift @ form.shift == pytest.approx(distance2)
    other = np.ones(5) @ np.linalg.solve(cov2, np.ones(5))
    assert form.shift**2 @ (1 / form.eigenvalues) == pytest.approx(other)


GOOD: tuple[npt.ArrayLike, ...] = ([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("which", "bad", "words"),
    [
        ("mean", [np.nan, 0.0], "finite"),
        ("mean", [np.inf, 0.0], "finite"),
        ("mean", 1.0, "shape"),
        ("mean", [[]], "shape"),
        ("mean", ["a", "b"], "numbers"),
        ("cov", [[np.nan, 0.0], [0.0, 1.0]], "finite"),
        ("cov", np.eye(3), "shape"),
        ("cov", [1.0, 1.0], "shape"),
        ("cov", [[1.0, 1e-6], [0.0, 1.0]], "symmetric"),
        ("cov", [[1.0, 0.0], [0.0, -1.0]], "positive definite"),
        ("cov", [[1.0, 0.0], [0.0, 0.0]], "positive definite"),
        ("cov", [[1.0, 2.0], [2.0, 1.0]], "positive definite"),
        ("cov", [[1.0, 1.0], [1.0, 1.0]], "positive definite"),
        ("cov", [[1.0, 1.0], [1.0, 1.0 + 4e-16]], "positive definite"),
    ],
)
@pytest.mark.parametrize("side", [1, 2])
@pytest.mark.parametrize("function", [gaussian_tv, relative_form])
def test_bad_input_is_named(function: Any, side: int, which: str, bad: Any, words: str) -> None:
    pair = {"mean": GOOD[0], "cov": GOOD[1], which: bad}
    arguments = (
        [pair["mean"], pair["cov"], *GOOD] if side == 1 else [*GOOD, pair["mean"], pair["cov"]]
    )
    with pytest.raises(InvalidInput, match=words) as caught:
        function(*arguments)
    assert f"{which}{side}" in str(caught.value)


def test_mismatched_pairs_are_refused() -> None:
    with pytest.raises(InvalidInput, match="mean2"):
        gaussian_tv([0.0], [[1.0]], [0.0, 0.0], np.eye(2))
    with pytest.raises(InvalidInput, match="broadcast"):
        gaussian_tv(np.zeros((2, 1)), [[1.0]], np.zeros((3, 1)), [[1.0]])
    with pytest.raises(InvalidInput, match="epsilon"):
        gaussian_hockey_stick([0.0], [[1.0]], [0.0], [[2.0]], np.nan)


def test_running_out_of_panels_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*arrays: Any) -> None:
        arrays[-1][:] = -1

    monkeypatch.setattr(total_variation, "contour_overlap", exhausted)
    with pytest.raises(NotConverged, match="panels"):
        gaussian_tv([0.0], [[1.0]], [1.0], [[1.0]])


@pytest.mark.parametrize("shift", [1e3, 1e6, 1e9, 1e12, 1e100])
@pytest.mark.parametrize("variance", [1.0, 2.0])
def test_gaussians_far_apart_do_not_overlap(shift: float, variance: float) -> None:
    """Beyond what the contour resolves, the Chernoff bound says enough."""
    far = ([0.0], [[1.0]], [shift], [[variance]])
    assert gaussian_tv(*far) == 1.0
    assert gaussian_hockey_stick(*far, 1.0) == 1.0
    assert log_overlap_of(*far) == pytest.approx(
        -0.5 * (shift / (1 + variance**0.5)) ** 2, rel=1e-3
    )
