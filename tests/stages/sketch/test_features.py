"""The waves of a sketch: an adversary who chooses rows, and sums that are exact."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize

from privgmm.arrays import Array, IntArray
from privgmm.data.people import ArrayPeople
from privgmm.errors import InvalidInput
from privgmm.privacy.noise import SeededNoise
from privgmm.stages.sketch import features
from privgmm.stages.sketch.features import (
    SketchShape,
    WaveTask,
    columns_apart,
    feature_sums,
    fixed_point_scale,
    integer_sensitivity,
)
from privgmm.stages.sketch.frame import Frame, random_rotation

SCALE = 2**30
SHAPES = {
    1: SketchShape(1, 20, 0.6),
    2: SketchShape(7, 9, 0.6),
    3: SketchShape(3, 12, 0.5),
    5: SketchShape(11, 4, 0.6),
}


def summed(
    rows: Array,
    frame: Frame,
    shape: SketchShape,
    *,
    scale: int,
    member: IntArray | None = None,
    threads: int | None = None,
    chunk_rows: int = 1 << 16,
) -> IntArray:
    """Sum rows in memory."""
    people = ArrayPeople.of(rows, member, threads=threads, chunk=chunk_rows)
    return feature_sums(people, frame, shape, scale=scale)


def skewed(d: int, seed: int = 0) -> Frame:
    rng = np.random.default_rng(seed)
    root = np.tril(rng.standard_normal((d, d)), -1) + np.diag(rng.uniform(0.3, 3, d))
    turn = random_rotation(d, rng=SeededNoise(rng))
    return Frame(rng.normal(0, 5, d), (10 ** rng.uniform(-3, 3, d))[:, None] * root @ turn)


def contribution(
    rows: Array, frame: Frame, shape: SketchShape, *, person: bool = False, scale: int = SCALE
) -> IntArray:
    """Compute what one row (1, d), or one person with these rows, adds to the sums."""
    member = np.zeros(len(rows), dtype=np.int64) if person else None
    return summed(rows, frame, shape, scale=scale, member=member, threads=1).ravel()


def distance(one: IntArray, two: IntArray) -> float:
    # integers below 2^31: their differences are exact, and the square root is to 1e-16
    return float(np.linalg.norm((one - two).astype(np.float64)))


def plain(rows: Array, frame: Frame, shape: SketchShape) -> Array:
    """Compute contributions (n, 2, D, L) by their definition, in NumPy."""
    first = shape.step / (2 * np.pi) * frame.to_frame(rows) @ shape.directions(frame).T
    turns = np.rint(first * features.ANGLES) / features.ANGLES
    angles = 2 * np.pi * (turns[:, :, None] * np.arange(1, shape.n_frequencies + 1))
    waves = np.exp(1j * angles.reshape(len(rows), -1)) * np.tile(
        shape.amplitudes, shape.n_directions
    )
    parts = np.stack([waves.real, waves.imag], axis=1)
    return parts.reshape(len(rows), 2, shape.n_directions, shape.n_frequencies)


# ------------------------------------------------------------------------------------ shape


@pytest.mark.parametrize("d", range(1, 21))
def test_defaults_for_any_number_of_columns(d: int) -> None:
    shape = SketchShape.default(d)
    assert shape.n_directions - columns_apart(shape.n_directions, d) >= d * (d + 1) / 2
    assert shape.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert shape.n_directions * (shape.amplitudes**2).sum() == pytest.approx(1.0, abs=1e-12)
    assert shape.size <= 2_000
    assert integer_sensitivity(shape, SCALE) < SCALE * shape.sensitivity * (1 + 1e-6)
    directions = shape.directions(skewed(d))
    assert directions.shape == (shape.n_directions, d)
    assert np.allclose(np.linalg.norm(directions, axis=1), 1.0, atol=1e-12)


def test_the_defaults_that_trials_chose() -> None:
    chosen = [SketchShape.default(d) for d in (1, 2, 3, 4, 5, 8)]
    assert [(s.n_directions, s.n_frequencies, s.step) for s in chosen] == [
        (1, 20, 0.6),
        (34, 16, 0.6),
        (35, 12, 0.5),
        (68, 8, 0.6),
        (85, 7, 0.6),
        (148, 5, 0.6),
    ]


@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_the_columns_come_first_and_the_rest_is_spread(d: int) -> None:
    shape, frame = SketchShape.default(d), skewed(d)
    directions = shape.directions(frame)
    for j in range(d):
        assert np.array_equal(directions[j], frame.axis(j))
    assert np.array_equal(shape.directions(frame), directions)
    rest = directions[d:]
    other = Frame(np.ones(d), np.tril(np.full((d, d), 3.0), -1) + np.eye(d))
    assert np.array_equal(shape.directions(other)[d:], rest), "other columns, the same spread"
    overlap = np.abs(rest @ rest.T) - 2 * np.eye(len(rest))
    if d == 2:
        # equal angles: all neighbours are one step apart
        nearest = np.arccos(np.clip(overlap.max(axis=1), 0, 1))
        assert np.allclose(nearest, math.pi / len(rest), atol=1e-9)
    if d == 3:
        random = np.random.default_rng(0).standard_normal((len(rest), d))
        random /= np.linalg.norm(random, axis=1, keepdims=True)
        closest = (np.abs(random @ random.T) - 2 * np.eye(len(rest))).max()
        assert overlap.max() < closest


@pytest.mark.parametrize("d", [1, 2, 5])
def test_frequencies_are_multiples_of_the_step_along_directions(d: int) -> None:
    shape, frame = SHAPES[d], skewed(d)
    frequencies = shape.frequencies(frame).reshape(shape.n_directions, shape.n_frequencies, d)
    steps = shape.step * np.arange(1, shape.n_frequencies + 1)
    for j, direction in enumerate(shape.directions(frame)):
        assert np.allclose(frequencies[j], steps[:, None] * direction, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0, 3, 0.5), "n_directions"),
        ((3, 0, 0.5), "n_frequencies"),
        ((3, 1001, 0.5), "n_frequencies"),
        ((3, 3, 0.0), "step"),
        ((2.5, 3, 0.5), "n_directions"),
    ],
)
def test_what_is_no_shape_is_refused(arguments: tuple[int, int, float], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        SketchShape(*arguments)


def test_directions_must_suit_the_columns() -> None:
    with pytest.raises(InvalidInput, match="n_directions"):
        SketchShape(2, 3, 0.5).directions(skewed(3))
    with pytest.raises(InvalidInput, match="one direction"):
        SketchShape(2, 3, 0.5).directions(skewed(1))


# ------------------------------------------------------------------------------ sensitivity


@pytest.mark.parametrize("count", [1, 2, 5, 16, 40])
def test_the_sum_of_fejer_is_never_below_its_bound(count: int) -> None:
    weights = SketchShape(1, count, 1.0).weights
    b = np.linspace(0, 2 * np.pi, 20_001)
    values = np.cos(np.outer(b, np.arange(1, count + 1))) @ weights
    assert values.min() >= -1 / count - 1e-12
    touching = 2 * np.pi / (count + 1) * np.arange(1, count + 1)
    assert np.allclose(np.cos(np.outer(touching, np.arange(1, count + 1))) @ weights, -1 / count)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("person", [False, True])
def test_chosen_rows_reach_the_bound(d: int, person: bool) -> None:
    """As many directions as columns: angles that all differ by multiples of 2 pi / (L + 1)."""
    frame = skewed(d)
    shape = SketchShape(d, 12, 0.5)
    bound = integer_sensitivity(shape, SCALE)
    unit = 2 * math.pi / (shape.n_frequencies + 1) / shape.step
    for seed in range(20):
        rng = np.random.default_rng(seed)
        turns = rng.integers(1, shape.n_frequencies + 1, d)
        apart = np.linalg.solve(shape.directions(frame), unit * turns)
        z = rng.standard_normal(d)
        rows = [frame.centre + frame.root @ place for place in (z, z + apart)]
        copies = rng.integers(1, 6, 2) if person else (1, 1)
        one, two = (
            contribution(np.tile(row, (int(c), 1)), frame, shape, person=person)
            for row, c in zip(rows, copies, strict=True)
        )
        moved = distance(one, two)
        assert moved <= bound
        assert moved / SCALE == pytest.approx(shape.sensitivity, abs=1e-6)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_a_search_comes_near_and_does_not_pass(d: int) -> None:
    frame, shape = Frame(np.zeros(d), np.eye(d)), SHAPES[d]
    frequencies = shape.frequencies(frame)
    squares = np.tile(shape.amplitudes**2, shape.n_directions)

    def loss(u: Array) -> tuple[float, Array]:
        angles = frequencies @ u
        return (
            -2 * float(squares @ (1 - np.cos(angles))),
            -2 * (squares * np.sin(angles)) @ frequencies,
        )

    bound, best = integer_sensitivity(shape, SCALE), 0.0
    start = contribution(np.zeros((1, d)), frame, shape)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        guess = rng.standard_normal(d) * 10 ** rng.uniform(-1, 4)
        found = minimize(loss, guess, jac=True, method="L-BFGS-B")
        moved = distance(start, contribution(found.x[None], frame, shape))
        assert moved <= bound
        # what was computed is what the definition says, and that is nearly what was searched for
        rounded = plain(np.stack([found.x, np.zeros(d)]), frame, shape)
        assert moved / SCALE == pytest.approx(np.linalg.norm(rounded[0] - rounded[1]), abs=1e-6)
        assert moved / SCALE == pytest.approx(math.sqrt(-found.fun), abs=1e-4)
        best = max(best, moved)
    assert best > 0.95 * bound


def wild_rows(d: int, rng: np.random.Generator, count: int) -> Array:
    """Draw rows near, far, tiny, equal but for one bit, and beyond what angles can hold."""
    near = rng.standard_normal((count, d))
    kinds = [
        near,
        near * 10 ** rng.uniform(-300, -5, (count, 1)),
        near * 10 ** rng.uniform(0, 20, (count, 1)),
        near * 10 ** rng.uniform(20, 307, (count, 1)),
        np.nextafter(near, np.inf),
        rng.choice([0.0, -0.0, 1.0, -1.0, 1e300, -1e300, 1.7e308, -1.7e308, 5e-324], (count, d)),
    ]
    return np.concatenate(kinds)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_no_pair_of_wild_rows_passes_the_bound(d: int) -> None:
    shape, frame, rng = SHAPES[d], skewed(d), np.random.default_rng(d)
    bound = integer_sensitivity(shape, SCALE)
    each = np.stack([contribution(row[None], frame, shape) for row in wild_rows(d, rng, 40)])
    real = each.astype(np.float64)
    squares = (real**2).sum(axis=1)
    # rough distances of all 28,680 pairs, then exact ones where it is close
    rough = squares[:, None] + squares - 2 * real @ real.T
    for i, j in zip(*np.nonzero(rough > 0.9 * bound**2), strict=True):
        assert distance(each[i], each[j]) <= bound
    assert rough.max() > 0.8 * bound**2
    # each row by itself is as long as it should be, so none was dropped or turned into nothing
    slack = 2 * math.sqrt(2 * shape.size) + 1
    assert np.abs(np.sqrt(squares) - SCALE).max() < slack


@pytest.mark.parametrize("d", [1, 2, 5])
def test_no_two_persons_pass_the_bound(d: int) -> None:
    shape, frame, rng = SHAPES[d], skewed(d), np.random.default_rng(d)
    bound = integer_sensitivity(shape, SCALE)
    pool = wild_rows(d, rng, 30)
    for _ in range(1_000):
        one, two = (
            contribution(
                pool[rng.integers(0, len(pool), rng.integers(1, 9))], frame, shape, person=True
            )
            for _ in range(2)
        )
        assert distance(one, two) <= bound


@pytest.mark.parametrize("scale", [2**4, 2**19])
def test_the_bound_holds_where_rounding_is_coarse(scale: int) -> None:
    """On a grid this coarse the parts of the bound for rounding are not small."""
    shape, frame, rng = SHAPES[2], skewed(2), np.random.default_rng(0)
    bound = integer_sensitivity(shape, scale)
    rows = wild_rows(2, rng, 20)
    each = np.stack([contribution(row[None], frame, shape, scale=scale) for row in rows])
    gaps = np.linalg.norm((each[:, None] - each).astype(np.float64), axis=2)
    assert gaps.max() <= bound


def test_replacing_one_row_among_many() -> None:
    """The sums of two neighbouring tables differ by exactly the difference of two rows."""
    shape, frame, rng = SHAPES[2], skewed(2), np.random.default_rng(1)
    rows = rng.normal(0, 3, (5_000, 2))
    other = rows.copy()
    other[1234] = [1e250, -3.0]
    sums = [summed(x, frame, shape, scale=SCALE) for x in (rows, other)]
    pair = [contribution(x[1234:1235], frame, shape) for x in (rows, other)]
    assert np.array_equal((sums[0] - sums[1]).ravel(), pair[0] - pair[1])
    assert distance(sums[0].ravel(), sums[1].ravel()) <= integer_sensitivity(shape, SCALE)


class FlatWeights(SketchShape):
    """A shape with equal weights at all frequencies, to which the theorem does not apply."""

    @functools.cached_property
    def amplitudes(self) -> Array:
        """Equal amplitudes."""
        return np.full(self.n_frequencies, (self.n_directions * self.n_frequencies) ** -0.5)


def test_the_adversary_catches_weights_that_are_not_fejers() -> None:
    frame, shape = Frame([0.0], [[1.0]]), FlatWeights(1, 16, 0.6)
    start = contribution(np.zeros((1, 1)), frame, shape)
    moved = [
        distance(start, contribution(np.array([[x]]), frame, shape))
        for x in np.linspace(0, 2 * math.pi / 0.6, 500)
    ]
    assert max(moved) > 1.05 * integer_sensitivity(shape, SCALE)


# --------------------------------------------------------------------- the parts of the proof


def test_contributions_are_powers_of_unit_numbers() -> None:
    """Half a unit for rounding, and 2^-20 for the cosine: as the bound says of the table."""
    shape = SketchShape(3, 16, 0.6)
    task = WaveTask(Frame([0.0], [[1.0]]), SketchShape(1, 16, 0.6), SCALE)
    unit = np.exp(2j * np.pi * np.arange(features.ANGLES).astype(np.longdouble) / features.ANGLES)
    table = task._table[:, :16] + 1j * task._table[:, 16:]
    assert table.shape == (features.ANGLES, shape.n_frequencies)
    exact, sizes = unit.copy(), SCALE * task.shape.amplitudes
    for power in range(16):
        gap = table[:, power] - sizes[power] * exact
        assert max(np.abs(gap.real).max(), np.abs(gap.imag).max()) <= 0.5 + 2.0**-20
        exact = exact * unit


@pytest.mark.parametrize(
    ("turns", "angle"),
    [
        (0.0, 0),
        (0.25, features.ANGLES // 4),
        (-0.25, 3 * features.ANGLES // 4),
        (7.5, features.ANGLES // 2),
        (1 - 1e-9, 0),
        (np.nan, 0),
        (np.inf, 0),
        (-np.inf, 0),
        (1e300, 0),
    ],
)
def test_angles_wrap_and_what_overflowed_is_zero(turns: float, angle: int) -> None:
    assert features._angle(turns) == angle


@pytest.mark.parametrize("n", [1, 4_095, 4_096, 9_999])
def test_counting_angles_gives_what_looking_up_gives(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape, frame = SHAPES[2], skewed(2)
    rng = np.random.default_rng(n)
    rows = rng.standard_normal((n, 2)) * 10 ** rng.uniform(-3, 300, (n, 1))
    found = []
    for least, most in ((10**9, 10**9), (1, 1_000), (1, 10**9)):
        monkeypatch.setattr(features, "_WORTH_COUNTING", least)
        monkeypatch.setattr(features, "_MOST_HELD", most)
        found.append(summed(rows, frame, shape, scale=SCALE, chunk_rows=777))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_sums_are_their_definition(d: int) -> None:
    shape, frame = SHAPES[d], skewed(d)
    z = np.random.default_rng(d).standard_normal((700, d))
    rows = frame.centre + z @ frame.root.T
    have = summed(rows, frame, shape, scale=SCALE)
    want = SCALE * plain(rows, frame, shape)
    # half a unit per row, and what angles lose to rounding
    assert np.abs(have - want.sum(axis=0)).max() < 700 * (0.5 + 0.1)
    member = np.random.default_rng(1).integers(0, 200, 700)
    averages = [want[member == p].mean(axis=0) for p in np.unique(member)]
    have = summed(rows, frame, shape, scale=SCALE, member=member)
    assert np.abs(have - np.sum(averages, axis=0)).max() < len(averages) * (1 + 0.1)


def test_a_person_with_one_row_counts_like_a_row() -> None:
    shape, frame = SHAPES[2], skewed(2)
    rows = np.random.default_rng(0).standard_normal((900, 2))
    member = np.random.default_rng(1).permutation(900)
    plain_sums = summed(rows, frame, shape, scale=SCALE)
    assert np.array_equal(summed(rows, frame, shape, scale=SCALE, member=member), plain_sums)
    # and one who repeats their row any number of times does too
    times = np.random.default_rng(2).integers(1, 5, 900)
    repeated = summed(
        np.repeat(rows, times, axis=0), frame, shape, scale=SCALE, member=np.repeat(member, times)
    )
    assert np.array_equal(repeated, plain_sums)


# --------------------------------------------------------------------------------- exactness

Sums = Callable[[Array, IntArray | None], Array | IntArray]


def hangs_on_the_order(sums: Sums, member: IntArray | None, seed: int) -> bool:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((20_000, 2)) * 10 ** rng.uniform(-2, 4, (20_000, 1))
    first = sums(rows, member)
    for _ in range(4):
        order = rng.permutation(len(rows))
        again = sums(rows[order], None if member is None else member[order])
        if not np.array_equal(first, again):
            return True
    return False


FRAME2, SHAPE2 = skewed(2), SketchShape(5, 6, 0.6)


def true_sums(rows: Array, member: IntArray | None) -> IntArray:
    return summed(rows, FRAME2, SHAPE2, scale=SCALE, member=member)


def float64_sums(rows: Array, member: IntArray | None) -> Array:
    return np.asarray(SCALE * np.cumsum(plain(rows, FRAME2, SHAPE2), axis=0)[-1])


def float32_sums(rows: Array, member: IntArray | None) -> Array:
    whole = np.rint(SCALE * plain(rows, FRAME2, SHAPE2)).astype(np.float32)
    return np.asarray(np.cumsum(whole, axis=0, dtype=np.float32)[-1], dtype=np.float64)


@pytest.mark.parametrize("persons", [False, True])
def test_sums_do_not_hang_on_the_order(persons: bool) -> None:
    member = np.random.default_rng(0).integers(0, 3_000, 20_000) if persons else None
    assert not hangs_on_the_order(true_sums, member, 0)


@pytest.mark.parametrize("mutant", [float64_sums, float32_sums])
def test_sums_in_floating_point_are_caught(mutant: Sums) -> None:
    assert hangs_on_the_order(mutant, None, 0)


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("chunk_rows", [1, 7, 255, 256, 257, 1_000, 10**6])
def test_sums_do_not_hang_on_chunks_and_threads(chunk_rows: int, persons: bool) -> None:
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((1_100, 2)) * 10 ** rng.uniform(-2, 300, (1_100, 1))
    # from persons with one row to one with more rows than a kernel treats side by side
    member = np.minimum(rng.integers(0, 300, 1_100), 160) if persons else None
    whole = summed(rows, FRAME2, SHAPE2, scale=SCALE, member=member, threads=1)
    for threads in (1, 2, 5):
        again = summed(
            rows,
            FRAME2,
            SHAPE2,
            scale=SCALE,
            member=member,
            threads=threads,
            chunk_rows=chunk_rows,
        )
        assert np.array_equal(again, whole)
    parts = [slice(0, 400), slice(400, 1_100)]
    if member is None:
        added = [summed(rows[part], FRAME2, SHAPE2, scale=SCALE) for part in parts]
        assert np.array_equal(added[0] + added[1], whole)
    backwards = np.asfortranarray(rows)
    assert np.array_equal(summed(backwards, FRAME2, SHAPE2, scale=SCALE, member=member), whole)


def test_powers_of_two_in_columns_change_no_bit() -> None:
    rng = np.random.default_rng(6)
    rows, factors = rng.standard_normal((500, 2)), np.array([2.0**33, 2.0**-70])
    scaled = Frame(FRAME2.centre * factors, FRAME2.root * factors[:, None])
    have = summed(rows * factors, scaled, SHAPE2, scale=SCALE)
    assert np.array_equal(have, summed(rows, FRAME2, SHAPE2, scale=SCALE))


def test_no_rows_sum_to_nothing() -> None:
    sums = summed(np.empty((0, 2)), FRAME2, SHAPE2, scale=SCALE)
    assert sums.dtype == np.int64
    assert not sums.any()


@pytest.mark.parametrize("n", [1, 1_000, 10**9, 2**31, 2**40, 2**44 - 1])
def test_sums_of_any_size_fit_into_64_bits(n: int) -> None:
    scale = fixed_point_scale(n)
    assert scale & (scale - 1) == 0
    assert n * (scale + 1) < 2**61
    # and rounding never weighs much in the sensitivity
    shape = SketchShape.default(20)
    assert integer_sensitivity(shape, scale) < 1.01 * scale * shape.sensitivity


def test_more_units_than_that_are_refused() -> None:
    with pytest.raises(InvalidInput, match="n_units"):
        fixed_point_scale(2**44)
