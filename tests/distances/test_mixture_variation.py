"""Total variation of mixtures: every method against another, within the error it reports."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest

from privgmm.distances import mixture_variation
from privgmm.distances.mixture_variation import TotalVariation, mixture_tv
from privgmm.distances.total_variation import gaussian_tv
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture


def random_mixture(rng: np.random.Generator, k: int, d: int, spread: float = 2.0) -> Mixture:
    roots = rng.standard_normal((k, d, d + 1))
    return Mixture(
        rng.dirichlet(np.ones(k)),
        spread * rng.standard_normal((k, d)),
        roots @ roots.swapaxes(1, 2) / d,
    )


def single_tv(first: Mixture, second: Mixture) -> float:
    return float(
        gaussian_tv(first.means[0], first.covariances[0], second.means[0], second.covariances[0])
    )


def test_roots_agree_with_the_contour() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        one, two = (random_mixture(rng, 1, 1, rng.uniform(0, 3)) for _ in range(2))
        found = mixture_variation._on_line(one, two)
        assert found.half_width < 1e-14
        assert abs(found.value - single_tv(one, two)) <= found.half_width + 2e-15


def test_slices_agree_with_the_contour_within_their_error() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        one, two = (random_mixture(rng, 1, 2, rng.uniform(0, 3)) for _ in range(2))
        found = mixture_variation._on_plane(one, two)
        assert found.half_width < 1e-12
        assert abs(found.value - single_tv(one, two)) <= found.half_width


def test_a_small_island_between_slices_is_found() -> None:
    """A spike that pokes through another density only in a spot narrower than any first slice."""
    base = Mixture([1.0], [[0.0, 0.0]], [np.eye(2)])
    sd, height = 0.01, 1.02
    weight = height * sd**2 * np.exp(-0.5 * (0.37**2 + 0.21**2))
    spike = Mixture(
        [1 - weight, weight], [[3.0, 3.0], [0.37, 0.21]], [0.01 * np.eye(2), sd**2 * np.eye(2)]
    )
    found = mixture_tv(base, spike)
    turned = np.array([[0.0, 1.0], [1.0, 0.0]])
    other = mixture_tv(base.transformed(turned, [0, 0]), spike.transformed(turned, [0, 0]))
    assert abs(found.value - other.value) <= found.half_width + other.half_width
    assert found.half_width < 1e-12


def test_line_agrees_with_high_precision_quadrature() -> None:
    rng = np.random.default_rng(2)
    one, two = random_mixture(rng, 3, 1), random_mixture(rng, 2, 1)

    def gap(x: mp.mpf) -> mp.mpf:
        sides = [
            mp.fsum(
                w * mp.npdf(x, m, mp.sqrt(s))
                for w, m, s in zip(
                    f.weights.tolist(),
                    f.means[:, 0].tolist(),
                    f.covariances[:, 0, 0].tolist(),
                    strict=True,
                )
            )
            for f in (one, two)
        ]
        return sides[0] - sides[1]

    grid = np.linspace(-40, 40, 1601)
    values = one.density(grid[:, None]) - two.density(grid[:, None])
    cuts = [
        mp.findroot(gap, (grid[i], grid[i + 1]), solver="anderson")
        for i in np.flatnonzero(np.sign(values[1:]) != np.sign(values[:-1]))
        if max(abs(values[i]), abs(values[i + 1])) > 1e-25
    ]
    marks = [mp.mpf(-40), *cuts, mp.mpf(40)]
    pieces = [mp.quad(gap, mp.linspace(low, high, 9)) for low, high in itertools.pairwise(marks)]
    truth = mp.fsum(abs(piece) for piece in pieces) / 2
    found = mixture_tv(one, two)
    assert found.method == "roots"
    assert abs(found.value - truth) <= 2e-15


def test_products_reduce_the_plane_to_the_line() -> None:
    """A shared independent coordinate changes nothing."""
    rng = np.random.default_rng(3)
    one, two = random_mixture(rng, 3, 1), random_mixture(rng, 4, 1)

    def lifted(f: Mixture, axis: int) -> Mixture:
        means, covs = np.zeros((f.n_components, 2)), np.tile(np.eye(2), (f.n_components, 1, 1))
        means[:, axis], covs[:, axis, axis] = f.means[:, 0], f.covariances[:, 0, 0]
        return Mixture(f.weights, means, covs)

    line = mixture_tv(one, two)
    for axis in (0, 1):
        plane = mixture_tv(lifted(one, axis), lifted(two, axis))
        assert plane.method == "slices"
        assert abs(plane.value - line.value) <= plane.half_width + line.half_width


@pytest.mark.parametrize("k", [2, 4])
def test_plane_does_not_depend_on_coordinates(k: int) -> None:
    rng = np.random.default_rng(k)
    one, two = random_mixture(rng, k, 2), random_mixture(rng, k, 2)
    plain = mixture_tv(one, two)
    matrix, shift = np.array([[0.8, -2.0], [1.5, 0.4]]), np.array([3.0, -1.0])
    mapped = mixture_tv(one.transformed(matrix, shift), two.transformed(matrix, shift))
    assert abs(plain.value - mapped.value) <= plain.half_width + mapped.half_width + 1e-14
    assert mixture_tv(two, one).value == pytest.approx(plain.value, abs=1e-14)


def test_close_mixtures_keep_relative_accuracy() -> None:
    """Moving everything by t changes TV by t ½ ∫|∂p|, so halving t halves it."""
    rng = np.random.default_rng(6)
    for d in (1, 2):
        one = random_mixture(rng, 3, d)
        near, nearer = (
            mixture_tv(one, Mixture(one.weights, one.means + t, one.covariances)).value
            for t in (2.0**-16, 2.0**-17)
        )
        assert near == pytest.approx(2 * nearer, rel=1e-4)
        assert 1e-7 < nearer < 1e-4


@pytest.mark.parametrize("d", [1, 2])
def test_sampling_covers_the_truth(d: int) -> None:
    """At 99.9 % each, some 0.1 misses are expected in 100 runs; four sigmas allow one."""
    rng = np.random.default_rng(7)
    one, two = random_mixture(rng, 3, d), random_mixture(rng, 2, d)
    truth = mixture_tv(one, two).value
    misses = 0
    for _ in range(100):
        found = mixture_variation._by_sampling(one, two, 2000, rng)
        misses += abs(found.value - truth) > found.half_width
        assert 0 < found.half_width < 0.1
    assert misses <= 1


def test_higher_dimensions_sample_and_say_so() -> None:
    rng = np.random.default_rng(8)
    one, two = random_mixture(rng, 2, 4), random_mixture(rng, 3, 4)
    found = mixture_tv(one, two, n_samples=20_000)
    assert found.method == "sampling"
    assert found == mixture_tv(one, two, n_samples=20_000)
    assert found != mixture_tv(one, two, n_samples=20_000, rng=1)
    more = mixture_tv(one, two, n_samples=80_000)
    assert more.half_width == pytest.approx(found.half_width / 2, rel=0.2)
    assert abs(more.value - found.value) <= more.half_width + found.half_width


def test_single_gaussians_use_the_contour() -> None:
    rng = np.random.default_rng(9)
    one, two = random_mixture(rng, 1, 7), random_mixture(rng, 1, 7)
    found = mixture_tv(one, two)
    assert found.method == "contour"
    assert float(found) == single_tv(one, two)


def test_equal_mixtures_and_weightless_components() -> None:
    rng = np.random.default_rng(10)
    for k, d in [(1, 1), (1, 3), (3, 1), (3, 2), (3, 3)]:
        one = random_mixture(rng, k, d)
        found = mixture_tv(one, one.permuted(list(reversed(range(k)))))
        # Weights are normalised again in the new order, which may move them by a rounding.
        assert found.value <= 1e-15
        assert found.half_width <= 1e-14 or found.method == "sampling"
        assert mixture_tv(one, one) == TotalVariation(0.0, 0.0, "equal")
    line = random_mixture(rng, 2, 1)
    padded = Mixture([*line.weights, 0.0], [*line.means, [50.0]], [*line.covariances, [[1e-8]]])
    assert mixture_tv(line, padded).value == 0


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("offset", [0.0, 2.0**60, -(2.0**200)])
@pytest.mark.parametrize("unit", [1.0, 2.0**-400, 2.0**300])
def test_neither_offset_nor_unit_matters(d: int, offset: float, unit: float) -> None:
    """Powers of two change no digit as long as means are few deviations of whole units apart."""
    means = np.zeros((2, d))
    one = Mixture([0.3, 0.7], means, [np.eye(d), 4 * np.eye(d)])
    two = Mixture([0.6, 0.4], means, [np.eye(d), 9 * np.eye(d)])
    plain = mixture_tv(one, two)
    moved = mixture_tv(
        *(
            Mixture(f.weights, (f.means + offset) * unit, f.covariances * unit**2)
            for f in (one, two)
        )
    )
    assert moved.value == pytest.approx(plain.value, abs=1e-15)
    assert moved.half_width < 1e-12


@pytest.mark.parametrize("d", [1, 2])
def test_far_groups_add_up(d: int) -> None:
    """Weights move between two places a huge way apart, and each place has its own difference."""
    rng = np.random.default_rng(7)
    # at each place a pair: what the first and what the second mixture has there
    near, far = (tuple(random_mixture(rng, 2, d, 1.0) for _ in range(2)) for _ in range(2))
    for gap in (1e3, 1e8, 1e17, 1e150):

        def joined(share: float, which: int, gap: float = gap) -> Mixture:
            a, b = near[which], far[which]
            return Mixture(
                np.concatenate([share * a.weights, (1 - share) * b.weights]),
                np.concatenate([a.means, b.means * 0 + gap]),
                np.concatenate([a.covariances, b.covariances]),
            )

        def within_place(share: float, which: int) -> float:
            """Total variation within each place, against a component far from both."""
            a, b = (near, far)[which]
            rest = np.full((1, d), -1e4)

            def padded(f: Mixture) -> Mixture:
                centred = f.means if which == 0 else f.means * 0
                return Mixture(
                    np.append(share * f.weights, 1 - share),
                    np.concatenate([centred, rest]),
                    np.concatenate([f.covariances, np.eye(d)[None]]),
                )

            return float(mixture_tv(padded(a), padded(b)))

        found = mixture_tv(joined(0.25, 0), joined(0.25, 1))
        expected = within_place(0.25, 0) + within_place(0.75, 1)
        assert found.value == pytest.approx(expected, abs=1e-11)
        assert found.half_width < 1e-11


def test_a_needle_in_a_vast_cloud() -> None:
    cloud = Mixture([1.0], [[0.0]], [[[1e40]]])
    needle = Mixture([0.5, 0.5], [[0.0], [3e19]], [[[1e40]], [[1e-40]]])
    found = mixture_tv(cloud, needle)
    assert found.value == pytest.approx(0.5, abs=1e-15)
    assert found.half_width < 1e-14
    # of two needles one is far from every origin, where floats are 4096 apart: its shape is
    # beyond them and the error says so, its weight is not
    other = Mixture([0.5, 0.5], [[0.0], [-3e19]], [[[1e40]], [[1e-40]]])
    found = mixture_tv(other, needle)
    assert found.value == pytest.approx(0.5, abs=1e-15)
    assert found.half_width <= 0.5


def test_bad_input_is_named() -> None:
    rng = np.random.default_rng(11)
    with pytest.raises(InvalidInput, match="second"):
        mixture_tv(random_mixture(rng, 2, 2), random_mixture(rng, 2, 3))
    with pytest.raises(InvalidInput, match="n_samples"):
        mixture_tv(random_mixture(rng, 2, 3), random_mixture(rng, 2, 3), n_samples=1)
