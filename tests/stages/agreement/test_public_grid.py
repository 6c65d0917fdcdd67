"""Masks on a public grid: every output could have come from the neighbour, and rounding is paid."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from privgmm.arrays import Array, IntArray
from privgmm.errors import InvalidInput
from privgmm.methods.planner import calibrate, plan_for
from privgmm.methods.request import PlanRequest
from privgmm.mixture import Mixture, cholesky_of_root
from privgmm.privacy.composition import Price, price_of
from privgmm.privacy.curves import gaussian_curve
from privgmm.privacy.noise import (
    SecureNoise,
    SeededNoise,
    WholeArray,
    fine_normal,
    whole_parts,
)
from privgmm.stages.agreement import public_grid
from privgmm.stages.agreement.lifted_geometry import block_form, unlift
from privgmm.stages.agreement.lifted_space import Anchored, LiftedSpace
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.public_grid import (
    GRID_BITS,
    Gridded,
    lifted_on_grid,
    misrounding_chance,
    noise_bits,
)
from privgmm.stages.agreement.stage import Agreement


def seeded(seed: int = 0) -> SeededNoise:
    return SeededNoise(np.random.default_rng(seed))


@dataclasses.dataclass
class Scripted:
    """A source that gives prepared arrays, one after the other."""

    draws: Iterator[Array]

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        return np.asarray(next(self.draws)).reshape(shape)

    def permutation(self, n: int) -> IntArray:
        return np.arange(n, dtype=np.int64)


def shapes(n: int, d: int, rng: np.random.Generator, condition: float = 1.0) -> Array:
    """Make lower factors whose columns have very different units, correlated by request."""
    low = np.tril(rng.standard_normal((n, d, d)), -1) * condition
    low[:, np.arange(d), np.arange(d)] = 0.5 + rng.random((n, d))
    return np.asarray(low * 10.0 ** rng.integers(-3, 4, (n, d, 1)), dtype=np.float64)


# ----------------------------------------------------------------------------- fine noise


def test_fine_noise_is_normal_at_every_level() -> None:
    whole, unit = fine_normal(SecureNoise(), (150, 2), 200)
    assert unit >= 200
    values = np.array([float(Fraction(int(z), 2**unit)) for z in whole.ravel()])
    assert abs(values.std() - 1) < 4 / math.sqrt(2 * values.size)
    assert np.unique(values).size == values.size
    # every level of bits says as much as coins do, down to the last ones
    for place in (0, 30, 90, unit - 20):
        bits = [(int(z) >> place) & 3 for z in whole.ravel()]
        assert chisquare(np.bincount(bits, minlength=4)).pvalue > 1e-6


def test_a_tenth_less_fine_noise_would_show() -> None:
    """The variance of 10^5 numbers is known to half a percent; a factor 0.9 is twenty percent."""
    whole, unit = fine_normal(seeded(3), (100_000,), 50)
    values = np.array([math.ldexp(int(z), -unit) for z in whole])
    assert abs(values.var() - 1) < 5 * math.sqrt(2 / values.size)
    assert abs((0.9 * values).var() - 1) > 20 * math.sqrt(2 / values.size)


def test_whole_parts_are_exact() -> None:
    values = np.array([0.0, -0.1, 1e-310, 1e308, 3.0, -np.pi])
    for m, e, value in zip(*whole_parts(values), values.tolist(), strict=True):
        assert Fraction(int(m)) * Fraction(2) ** int(e) == Fraction(value)


def test_a_source_that_only_has_normals_gives_those() -> None:
    drawn = np.array([0.5, -1e-9, 3.0])
    whole, unit = fine_normal(Scripted(iter([drawn])), (3,), 100)
    assert [Fraction(int(z), 2**unit) for z in whole] == [Fraction(x) for x in drawn.tolist()]


# ------------------------------------------------------------------ what the masks compute


@pytest.mark.parametrize(("d", "condition"), [(1, 1.0), (2, 1.0), (2, 1e4), (4, 30.0)])
def test_the_lifted_mask_is_its_formula(d: int, condition: float) -> None:
    rng = np.random.default_rng(d)
    n, p, eta = 5, d + 1, 0.2
    low, roots = (
        shapes(n, d, rng, condition),
        block_form(np.eye(p) + 0.2 * rng.normal(size=(n, p, p))),
    )
    means, weights = 100 * rng.normal(size=(n, d)), rng.dirichlet(np.ones(n))
    G = rng.normal(size=(n, p, p))
    # the constant comes first in the code, last in the formula
    turn = np.roll(np.arange(p), 1)
    noise = Scripted(iter([G[:, turn[:, None], turn]]))
    shown = lifted_on_grid(weights, means, low, roots, eta=eta, reach=1.0, rng=noise)
    w, m, c = unlift(roots @ (np.eye(p) + eta * G))
    assert shown.weights == pytest.approx(weights * w, rel=1e-11)
    moved = np.linalg.solve(low @ c, (shown.means - means)[..., None] - low @ m[..., None])
    assert np.abs(moved).max() < 1e-9 * condition
    assert np.abs(np.linalg.solve(low @ c, shown.factors) - np.eye(d)).max() < 1e-9 * condition


def published_cells(shown: Gridded) -> list[list[Fraction]]:
    """Return every published number in units of its grid."""
    cells = []
    for mean, factor in zip(shown.means, shown.factors, strict=True):
        powers = [Fraction(2) ** (math.frexp(width)[1] - 1) for width in np.diagonal(factor)]
        widths = [Fraction(float(width)) for width in np.diagonal(factor)]
        row = [width / power * 2**GRID_BITS for width, power in zip(widths, powers, strict=True)]
        row += [Fraction(float(x)) / p * 2**GRID_BITS for x, p in zip(mean, powers, strict=True)]
        d = len(mean)
        row += [
            Fraction(float(factor[i, j])) / widths[j] * powers[j] / powers[i] * 2**GRID_BITS
            for i in range(d)
            for j in range(i)
        ]
        cells.append(row)
    return cells


def test_what_is_shown_lies_on_the_grid() -> None:
    rng = np.random.default_rng(1)
    low = shapes(20, 1, rng)
    eye = np.tile(np.eye(2), (20, 1, 1))
    shown = lifted_on_grid(
        np.full(20, 0.05), rng.normal(size=(20, 1)), low, eye, eta=0.1, reach=1.0, rng=seeded()
    )
    assert all(x.denominator == 1 for row in published_cells(shown) for x in row)


def test_nearly_flat_components_move_as_little_as_round_ones() -> None:
    """In their own units: rounding every entry by itself would move them by many times that."""
    rng = np.random.default_rng(2)
    n, d = 30, 3
    low = shapes(n, d, rng, 1e3)
    means = rng.normal(size=(n, d))
    quiet = Scripted(iter([np.zeros((n, d + 1, d + 1))]))
    eye = np.tile(np.eye(d + 1), (n, 1, 1))
    shown = lifted_on_grid(np.ones(n), means, low, eye, eta=0.1, reach=1.0, rng=quiet)
    for i in range(n):
        exact = [[Fraction(float(x)) for x in row] for row in low[i]]
        for j in range(d):
            gap = [Fraction(float(shown.factors[i, r, j])) - exact[r][j] for r in range(d)]
            # forward substitution without rounding
            own: list[Fraction] = []
            for r in range(d):
                rest = gap[r] - sum((exact[r][s] * own[s] for s in range(r)), Fraction(0))
                own.append(rest / exact[r][r])
            # a cell is 2^-40 wide; floats of entries thousands of times larger add some more
            assert max(abs(x) for x in own) < 2.0**-28


# ------------------------------------------------------------------------------ the attack


def floating_mean(mean: float, width: float, eta: float, g: Array) -> Array:
    """Compute R_Mean in floating point (d = 1), as `PaperSpace.mask` used to publish it."""
    return np.asarray(mean + eta * (width * g), dtype=np.float64)


def reachable(value: float, mean: float, width: float, eta: float) -> bool:
    """Decide whether some floating-point noise makes `floating_mean` give this very number."""
    centre = (value - mean) / (eta * width)
    near = centre + np.arange(-400, 401) * np.spacing(abs(centre))
    return bool((floating_mean(mean, width, eta, near) == value).any())


def test_floating_point_gave_away_which_data_set_it_was() -> None:
    """Planted: fits of neighbours whose widths differ. Some outputs exist for one of them only."""
    g = np.random.default_rng(0).standard_normal(400)
    seen = floating_mean(0.0, 1.0, 0.25, g)
    assert all(reachable(value, 0.0, 1.0, 0.25) for value in seen.tolist())
    impossible = [value for value in seen.tolist() if not reachable(value, 0.0, 1.4, 0.25)]
    assert len(impossible) > 20


def fractions(matrix: Any) -> list[list[Fraction]]:
    return [[Fraction(float(x)) for x in row] for row in matrix]


def exact_noise(
    shown: list[list[Fraction]], root: list[list[Fraction]], eta: Fraction
) -> list[list[Fraction]]:
    """Solve ``root (I + eta G) = shown`` for G, both lower triangular."""
    p = len(root)
    found = [[Fraction(0)] * p for _ in range(p)]
    for j in range(p):
        for i in range(p):
            rest = shown[i][j] - sum((root[i][s] * found[s][j] for s in range(i)), Fraction(0))
            found[i][j] = rest / root[i][i]
    return [[(x - (i == j)) / eta for j, x in enumerate(row)] for i, row in enumerate(found)]


def on_lattice(noise: list[list[Fraction]], bits: int) -> tuple[WholeArray, int]:
    """Return noise on the lattice that the code draws from."""
    unit = bits + 60
    whole = [[round(x * 2**unit) for x in row] for row in noise]
    return np.array(whole, dtype=np.object_)[None], unit


def test_every_output_of_the_lifted_mask_could_have_come_from_the_neighbour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For each output of one data set the noise is found with which the other gives the same."""
    eta, d = 0.25, 1
    one = Anchored(np.array([0.6]), np.array([[1e6]]), np.array([[[1.0]]]), np.eye(2)[None])
    two = Anchored(
        np.array([0.5]), np.array([[1e6 + 0.3]]), np.array([[[1.4]]]),
        np.array([[[1.1, 0.07], [0.0, 0.9]]]),
    )  # fmt: skip

    def mask(item: Anchored, seed: int) -> Gridded:
        return lifted_on_grid(
            item.weights,
            item.means,
            item.cholesky,
            item.roots,
            eta=eta,
            reach=1.0,
            rng=seeded(seed),
        )

    outputs = [mask(one, seed) for seed in range(40)]
    bits = noise_bits(eta, eta, d + 1, 1.0)
    for shown in outputs:
        # lifted, the constant first: sqrt(weight) [[1, 0], [mean, width]]
        scale = Fraction(math.sqrt(float(shown.weights[0])))
        mean, width = Fraction(float(shown.means[0, 0])), Fraction(float(shown.factors[0, 0, 0]))
        wanted = [[scale, Fraction(0)], [scale * mean, scale * width]]
        (r00, r01), (_, r11) = fractions(two.roots[0])
        low, centre = Fraction(float(two.cholesky[0, 0, 0])), Fraction(float(two.means[0, 0]))
        # the root of the weight is not rational: its square is what is masked
        own = Fraction(math.sqrt(float(two.weights[0])))
        root = [[own * r11, Fraction(0)], [own * (centre * r11 + low * r01), own * low * r00]]
        noise = exact_noise(wanted, root, Fraction(eta))
        with monkeypatch.context() as patch:
            patch.setattr(
                public_grid, "fine_normal", lambda *_, noise=noise: on_lattice(noise, bits)
            )
            again = mask(two, 0)
        assert np.array_equal(again.means, shown.means)
        assert np.array_equal(again.factors, shown.factors)
        # roots of weights were rounded to floats on the way here, two units of the last place
        assert again.weights == pytest.approx(shown.weights, rel=2.0 ** (1 - GRID_BITS))


def test_every_output_of_algorithm_2_could_have_come_from_the_neighbour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    space = PaperSpace(0.1, 0.25, 0.2)
    one = Mixture([1.0], [[0.0, 3.0]], [[[1.0, 0.4], [0.4, 1.0]]])
    two = Mixture([1.0], [[0.2, 2.9]], [[[1.3, 0.2], [0.2, 0.8]]])
    bits = space._bits(2)
    for seed in range(15):
        shown = space.mask(one, rng=seeded(seed))
        low = fractions(two.cholesky[0])
        wanted = fractions(shown.cholesky[0])
        shape = exact_noise(wanted, low, Fraction(0.2))
        gaps = [
            Fraction(float(a)) - Fraction(float(b))
            for a, b in zip(shown.means[0], two.means[0], strict=True)
        ]
        first = gaps[0] / low[0][0]
        steps = [first, (gaps[1] - low[1][0] * first) / low[1][1]]
        place = [[step / Fraction(0.25) for step in steps]]
        draws = iter([on_lattice(one, bits) for one in ([[Fraction(0)]], shape, place)])

        def scripted(
            _: object,
            shape: tuple[int, ...],
            __: int,
            draws: Iterator[tuple[WholeArray, int]] = draws,
        ) -> tuple[WholeArray, int]:
            whole, unit = next(draws)
            return whole.reshape(shape), unit

        with monkeypatch.context() as patch:
            patch.setattr(public_grid, "fine_normal", scripted)
            again = space.mask(two, rng=seeded(1))
        assert np.array_equal(again.means, shown.means)
        assert np.allclose(again.cholesky, shown.cholesky, rtol=2.0**-50)


# ---------------------------------------------------------------------------- how fine it is


@pytest.mark.parametrize(("d", "condition"), [(1, 1.0), (3, 1.0), (3, 1e6)])
def test_finer_noise_changes_nothing(
    d: int, condition: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise of twice as many bits, and the same cut off at what `noise_bits` asks for."""
    rng = np.random.default_rng(d)
    n = 60
    low = shapes(n, d, rng, condition)
    fine, unit = fine_normal(seeded(4), (n, d + 1, d + 1), 1000)
    eye = np.tile(np.eye(d + 1), (n, 1, 1))

    def mask(bits: int) -> Gridded:
        with monkeypatch.context() as patch:
            cut = unit - bits
            patch.setattr(public_grid, "fine_normal", lambda *_: (fine >> cut, bits))
            return lifted_on_grid(
                np.ones(n), np.zeros((n, d)), low, eye, eta=0.3, reach=2.0, rng=seeded()
            )

    wanted = noise_bits(0.3, 0.3, d + 1, 2.0)
    one, two, coarse = mask(wanted), mask(unit), mask(40)
    for name in Gridded._fields:
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    # and far fewer are not enough
    assert not np.array_equal(coarse.means, one.means)


def test_the_noise_needed_grows_with_what_makes_rounding_hard() -> None:
    base = noise_bits(0.1, 0.1, 3, 1.0)
    assert noise_bits(0.01, 0.1, 3, 1.0) > base
    assert noise_bits(0.1, 0.1, 20, 1.0) > base
    assert noise_bits(0.1, 0.1, 3, 10.0) > base


@pytest.mark.parametrize(
    ("mean", "width"),
    [(0.0, 1e-300), (1.7e308, 1.0), (-1e308, 1e300), (1e-320, 1e-5), (1e200, 1e-9)],
)
def test_nothing_raises_however_large_or_small_the_numbers(mean: float, width: float) -> None:
    """After the test has passed there must be an outcome, for any mixture agreed on."""
    item = Anchored(np.array([1.0]), np.array([[mean]]), np.array([[[width]]]), np.eye(2)[None])
    for seed in range(3):
        with np.errstate(over="ignore"):
            shown = LiftedSpace(0.3).mask(item, rng=seeded(seed))
        assert np.isfinite(shown.means).all()
        assert (shown.cholesky > 0).all()


def test_scaling_and_shifting_the_data_scales_and_shifts_what_is_shown() -> None:
    """The grid is so fine that it shows no more than rounding does."""
    low = shapes(4, 2, np.random.default_rng(0))
    means = np.random.default_rng(1).normal(size=(4, 2))
    roots = np.tile(np.eye(3), (4, 1, 1))

    def mask(factor: float, shift: float) -> Gridded:
        return lifted_on_grid(
            np.full(4, 0.25), factor * means + shift, factor * low, roots,
            eta=0.2, reach=1.0, rng=seeded(8),
        )  # fmt: skip

    plain, moved = mask(1.0, 0.0), mask(1e9, 3e6)
    assert moved.factors / 1e9 == pytest.approx(plain.factors, rel=1e-10)
    gaps = np.linalg.solve(plain.factors, ((moved.means - 3e6) / 1e9 - plain.means)[..., None])
    assert np.abs(gaps).max() < 1e-9


# ---------------------------------------------------------------------------------- its price


@pytest.mark.parametrize("method", ["paper", "tight", "lifted", "sketch"])
def test_the_chance_of_misrounding_is_part_of_the_price(method: str) -> None:
    if method == "sketch":
        asked = PlanRequest(n_components=1, n_features=2, n_rows=100_000, n_blocks=300)
        plan = plan_for(asked).plan
    else:
        plan = calibrate(
            method, epsilon=1.0, delta=1e-6, alpha=0.5, n_components=2, n_features=2, n_blocks=200
        )
    stage = plan.stage(Agreement)
    size = 2 if method in ("paper", "tight") else 3
    assert stage.misrounding == misrounding_chance(stage.n_components, size) > 0
    price = stage.price()
    if method == "paper":
        assert price.budget is not None
        assert price.budget.delta <= 1e-6
    else:
        assert price.rounding == stage.misrounding
    assert plan.budget.covers(plan.spent(), slack=1e-12)


def test_rounding_comes_off_delta_before_curves_are_converted() -> None:
    curve = gaussian_curve(3.0)
    exact = price_of([Price((curve,), 1e-7, gate=True)], 1e-6).budget
    rounded = price_of([Price((curve,), 1e-7, gate=True, rounding=4e-7)], 1e-6)
    assert rounded.budget.delta == exact.delta == 1e-6
    assert rounded.budget.epsilon == curve.epsilon(6e-7) > exact.epsilon
    assert rounded.shortfall == 4e-7
    # where one neighbour never passes, rounding adds nothing to the chance to pass
    assert price_of([Price((curve,), 5e-7, gate=True, rounding=4e-7)], 1e-6).shortfall == 5e-7


def test_a_delta_below_the_chance_of_misrounding_has_no_plan() -> None:
    for method in ("paper", "tight", "lifted"):
        with pytest.raises(InvalidInput, match="misrounded"):
            calibrate(
                method, epsilon=1.0, delta=1e-19, alpha=0.5, n_components=2, n_features=2,
                n_blocks=2000,
            )  # fmt: skip


def test_roots_need_not_be_near_the_identity() -> None:
    """What goes in is any root in block form; its lower factor is what counts."""
    space = LiftedSpace(0.1)
    rng = np.random.default_rng(3)
    low = cholesky_of_root(rng.normal(size=(1, 2, 2)))
    item = Anchored(np.ones(1), np.zeros((1, 2)), low, block_form(rng.normal(size=(1, 3, 3))))
    quiet = Scripted(iter([np.zeros((1, 3, 3))]))
    shown = space.mask(item, rng=quiet)
    _, mean, factor = unlift(item.roots)
    assert shown.means[0] == pytest.approx(low[0] @ mean[0], rel=1e-9, abs=1e-9)
    assert shown.cholesky[0] == pytest.approx(low[0] @ factor[0], rel=1e-9, abs=1e-9)
