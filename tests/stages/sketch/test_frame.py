"""Public coordinates: exact affine maps, and a grid that is coarse but never moves them far."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.stats import kstest

from privgmm.arrays import Array
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.privacy.noise import SecureNoise, SeededNoise
from privgmm.stages.sketch.frame import Frame, random_rotation

FOUR_SIGMA = 6.3e-5
DIMENSIONS = (1, 2, 3, 5, 10, 20)


def seeded(seed: int) -> SeededNoise:
    return SeededNoise(np.random.default_rng(seed))


def masked(d: int, rng: np.random.Generator, shear: float = 1.0) -> tuple[Array, Array]:
    """Draw a location and a factor, columns in very different units, correlated by `shear`."""
    units = 10 ** rng.uniform(-6, 6, d)
    low = np.tril(shear * rng.standard_normal((d, d)), -1) + np.diag(rng.uniform(0.3, 3, d))
    return units * rng.normal(0, 100, d), units[:, None] * low


def example(d: int, seed: int = 0) -> Frame:
    rng = np.random.default_rng(seed)
    centre, low = masked(d, rng)
    return Frame(centre, low @ random_rotation(d, rng=seeded(seed)))


# ---------------------------------------------------------------------------- affine maps


@pytest.mark.parametrize("d", DIMENSIONS)
def test_coordinates_are_the_inverse_of_the_definition(d: int) -> None:
    frame = example(d)
    z = np.random.default_rng(1).standard_normal((50, d))
    assert np.allclose(frame.to_frame(frame.centre + z @ frame.root.T), z, rtol=0, atol=1e-8)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_mixtures_go_there_and_back(d: int) -> None:
    frame, rng = example(d), np.random.default_rng(2)
    roots = rng.standard_normal((3, d, d)) + 2 * np.eye(d)
    inside = Mixture.from_roots([0.2, 0.3, 0.5], rng.normal(0, 2, (3, d)), roots)
    outside = frame.mixture_from_frame(inside)
    back = frame.mixture_to_frame(outside)
    assert np.allclose(back.means, inside.means, rtol=0, atol=1e-8)
    assert np.allclose(back.covariances, inside.covariances, rtol=1e-7, atol=1e-8)
    # densities differ by the volume of the frame
    z = rng.standard_normal((20, d))
    volume = np.linalg.slogdet(frame.root)[1]
    have = outside.log_density(frame.centre + z @ frame.root.T)
    assert np.allclose(have, inside.log_density(z) - volume, atol=1e-6)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_along_its_axis_a_column_is_seen(d: int) -> None:
    frame = example(d)
    z = np.random.default_rng(3).standard_normal((200, d))
    rows = frame.centre + z @ frame.root.T
    for j in range(d):
        axis = frame.axis(j)
        assert np.linalg.norm(axis) == pytest.approx(1.0, abs=1e-12)
        length = np.linalg.norm(frame.root[j])
        assert np.allclose((rows[:, j] - frame.centre[j]) / length, z @ axis, atol=1e-6)


def test_a_power_of_two_in_a_column_changes_no_bit() -> None:
    frame, rows = example(3), np.random.default_rng(4).normal(0, 50, (100, 3))
    factors = np.array([2.0**40, 1.0, 2.0**-60])
    scaled = Frame(frame.centre * factors, frame.root * factors[:, None])
    assert np.array_equal(scaled.to_frame(rows * factors), frame.to_frame(rows))
    assert np.array_equal(scaled.axis(2), frame.axis(2))


def test_columns_of_extreme_units() -> None:
    frame = Frame([1e200, -1e-200], [[1e190, 5e189], [2e-200, -1e-200]])
    z = np.array([[0.5, -1.5]])
    assert np.allclose(frame.to_frame(frame.centre + z @ frame.root.T), z, atol=1e-5)
    assert np.linalg.norm(frame.axis(1)) == pytest.approx(1.0)


# ------------------------------------------------------------------------------- as a value


def test_a_frame_is_a_value() -> None:
    frame = example(2)
    again = Frame.from_dict(json.loads(json.dumps(frame.to_dict())))
    assert again == frame
    assert hash(again) == hash(frame)
    assert frame != Frame(frame.centre + 1, frame.root)
    assert frame != "frame"
    with pytest.raises(ValueError, match="read-only"):
        frame.root[0, 0] = 1.0


@pytest.mark.parametrize(
    ("centre", "root", "said"),
    [
        ([], np.empty((0, 0)), "centre"),
        ([0.0, np.nan], np.eye(2), "centre"),
        ([0.0, 0.0], np.eye(3), "root"),
        ([0.0, 0.0], [[1.0, 1.0], [0.0, 0.0]], "invertible"),
        ([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]], "invertible"),
        ([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0 + 1e-14]], "invertible"),
    ],
)
def test_what_is_no_frame_is_refused(centre: Array, root: Array, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Frame(centre, root)


def test_what_is_no_form_is_refused() -> None:
    with pytest.raises(InvalidInput, match="centre and root"):
        Frame.from_dict({"centre": [0.0]})


# --------------------------------------------------------------------------- the public grid


@pytest.mark.parametrize("shear", [1.0, 1e3, 1e5])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_publishing_moves_a_frame_by_less_than_a_hundredth_of_itself(d: int, shear: float) -> None:
    if shear > 1 and d > 2:
        # products of many shears are flat beyond what floating point holds
        shear = shear ** (1 / (d - 1))
    for seed in range(40):
        centre, low = masked(d, np.random.default_rng(seed), shear)
        frame = Frame.published(centre, low, rotation=np.eye(d))
        moved = np.linalg.solve(low, frame.root) - np.eye(d)
        assert np.abs(np.diagonal(moved)).max() <= 2.0**-8 + 1e-9
        assert np.abs(moved - np.diag(np.diagonal(moved))).max() < 2.0**-10
        assert np.linalg.norm(moved, 2) < 0.01
        assert np.abs(np.linalg.solve(low, frame.centre - centre)).max() < 2.0**-8


def test_rounding_each_entry_by_itself_would_move_it_far() -> None:
    """What is rounded in one row has to be corrected in those below."""
    low = np.array([[1.003, 0.0], [1e5, 1.0]])
    plain = np.array([[1.0, 0.0], [1e5, 1.0]])
    assert np.linalg.norm(np.linalg.solve(low, plain) - np.eye(2), 2) > 100
    frame = Frame.published([0.0, 0.0], low, rotation=np.eye(2))
    assert np.linalg.norm(np.linalg.solve(low, frame.root) - np.eye(2), 2) < 0.01


@pytest.mark.parametrize("d", [1, 2, 5])
def test_what_is_published_lies_on_the_grid(d: int) -> None:
    centre, low = masked(d, np.random.default_rng(7))
    frame = Frame.published(centre, low, rotation=np.eye(d))
    for i in range(d):
        mantissa, exponent = math.frexp(frame.root[i, i])
        assert (mantissa * 2**8).is_integer()
        unit = 2.0 ** (exponent - 1)
        assert unit <= frame.root[i, i] < 2 * unit
        for j in range(i):
            assert float(frame.root[i, j] / unit * 2**10).is_integer()
        assert float(frame.centre[i] / unit * 2**8).is_integer()
    again = Frame.published(frame.centre, frame.root, rotation=np.eye(d))
    assert again == frame


@pytest.mark.parametrize("d", [1, 2, 5])
def test_publishing_commutes_with_powers_of_two(d: int) -> None:
    rng = np.random.default_rng(d)
    for _ in range(20):
        centre, low = masked(d, rng)
        turn = random_rotation(d, rng=SeededNoise(rng))
        factors = 2.0 ** rng.integers(-60, 60, d)
        plain = Frame.published(centre, low, rotation=turn)
        scaled = Frame.published(centre * factors, low * factors[:, None], rotation=turn)
        assert np.array_equal(scaled.centre, plain.centre * factors)
        assert np.array_equal(scaled.root, plain.root * factors[:, None])


def test_rounding_errors_do_not_reach_what_is_published() -> None:
    """Inputs that differ as floating-point errors do are published as the same frame."""
    rng = np.random.default_rng(11)
    differ = 0
    for _ in range(1_000):
        centre, low = masked(3, rng)
        noise = 1 + 1e-13 * rng.standard_normal((3, 3))
        one = Frame.published(centre, low, rotation=np.eye(3))
        two = Frame.published(centre * noise[0], low * noise, rotation=np.eye(3))
        differ += one != two
    # 9 entries, cells at least 2^-11 wide, errors of 1e-13 times 1e2: a chance of 2e-7 each time
    assert differ == 0


def test_the_rotation_only_turns() -> None:
    centre, low = masked(3, np.random.default_rng(0))
    turn = random_rotation(3, rng=seeded(1))
    plain = Frame.published(centre, low, rotation=np.eye(3))
    turned = Frame.published(centre, low, rotation=turn)
    assert np.array_equal(turned.centre, plain.centre)
    assert np.array_equal(turned.root, plain.root @ turn)


@pytest.mark.parametrize(
    ("factor", "rotation", "said"),
    [
        ([[1.0, 0.1], [0.0, 1.0]], np.eye(2), "lower triangular"),
        ([[1.0, 0.0], [0.0, -1.0]], np.eye(2), "lower triangular"),
        (np.eye(2), 1.01 * np.eye(2), "orthogonal"),
        (np.eye(3), np.eye(2), "factor"),
    ],
)
def test_what_cannot_be_published_is_refused(factor: Array, rotation: Array, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Frame.published([0.0, 0.0], factor, rotation=rotation)


@pytest.mark.parametrize("source", [seeded(3), SecureNoise()], ids=["seeded", "secure"])
def test_rotations_are_uniform(source: SeededNoise | SecureNoise) -> None:
    """In three dimensions each coordinate of a uniform unit vector is uniform on [-1, 1]."""
    turns = np.stack([random_rotation(3, rng=source) for _ in range(800)])
    assert np.allclose(turns @ turns.swapaxes(1, 2), np.eye(3), atol=1e-12)
    for i, j in ((0, 0), (1, 2), (2, 1)):
        assert kstest(turns[:, i, j], "uniform", args=(-1, 2)).pvalue > FOUR_SIGMA
    assert abs(np.mean(np.linalg.det(turns))) < 4 / math.sqrt(800)
