"""The histogram frame: what one row can show, what it finds, and that nothing makes it fail."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from typing import Any

import numpy as np
import pytest

from privgmm.arrays import Array, IntArray
from privgmm.data.people import ArrayPeople
from privgmm.errors import InvalidInput
from privgmm.privacy.composition import price_of
from privgmm.privacy.curves import gaussian_curve
from privgmm.privacy.gaussian_account import gaussian_delta
from privgmm.privacy.noise import DiscreteGaussian, NoiseSource, SecureNoise, noise_source
from privgmm.stages.form import Form
from privgmm.stages.recorded import STEPS
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import (
    ZERO_BIN,
    Histogram,
    HistogramFrame,
    HistogramFrameView,
    ValueCounts,
    histogram_radius,
    pair_bins,
    place_bins,
    width_of,
)
from privgmm.stages.stage import Bottom, Drawn, Work


def frame_for(n: int, d: int, *, rounds: int = 2, miss: float = 1e-8) -> HistogramFrame:
    """Make about the stage that is planned for epsilon 1."""
    multiplier = 18.0
    return HistogramFrame(
        n_features=d,
        scale_sigma=0.021 * n,
        location_sigma=0.035 * n,
        miss=miss,
        multipliers=(multiplier,) * rounds,
        radius=histogram_radius(d, multiplier, n),
    )


def drawn(
    stage: HistogramFrame,
    rows: Array,
    seed: int,
    *,
    member: IntArray | None = None,
    source: NoiseSource | None = None,
) -> Drawn:
    source = noise_source(seed) if source is None else source
    return stage.prepare(Work(ArrayPeople.of(rows, member), source), None).draw(source)


def stretches(frame: Frame, covariance: Array) -> Array:
    """Compute deviations of the rows along the axes of their ellipsoid, in the frame."""
    root = frame.inverse @ np.linalg.cholesky(covariance)
    return np.asarray(np.linalg.svd(root, compute_uv=False))


# -------------------------------------------------------------------------------------- privacy


@pytest.mark.parametrize("sigma", [0.7, 3.0, 20.0])
def test_a_bin_of_one_row_is_shown_with_chance_miss_at_most(sigma: float) -> None:
    stage = dataclasses.replace(frame_for(1000, 1, miss=0.01), scale_sigma=sigma)
    chance = DiscreteGaussian(sigma).survival(stage.scale_threshold - 1)
    assert chance <= stage.miss
    # a neighbour of rows for which bin 7 is empty: one pair falls into it
    histogram = Histogram.of(np.array([0] * 400 + [7], dtype=np.int64))
    source, trials = noise_source(3), 4000
    shown = sum(
        7 in histogram.released(sigma, stage.scale_threshold, source)[0] for _ in range(trials)
    )
    assert abs(shown / trials - chance) <= 4 * math.sqrt(chance * (1 - chance) / trials)


def test_an_empty_bin_is_never_shown() -> None:
    histogram = Histogram.of(np.array([0] * 50 + [9] * 3, dtype=np.int64))
    source = noise_source(0)
    for _ in range(300):
        bins, counts = histogram.released(30.0, 2, source)
        assert set(bins.tolist()) <= {0, 9}
        assert (counts >= 2).all()


def law_of_bin(count: int, sigma: float, threshold: int) -> dict[int | None, float]:
    """Compute the chances of what is shown of one bin: its noisy count, or None."""
    if count == 0:
        return {None: 1.0}
    law = DiscreteGaussian(sigma)
    values = count + law.support
    shown = values >= threshold
    table: dict[int | None, float] = dict(
        zip(values[shown].tolist(), law.probabilities[shown].tolist(), strict=True)
    )
    table[None] = float(law.probabilities[~shown].sum())
    return table


@pytest.mark.parametrize(("left", "entered"), [(1, 0), (1, 4), (5, 0), (5, 3), (12, 0)])
def test_the_whole_law_of_a_histogram_keeps_its_price(left: int, entered: int) -> None:
    """Bin a loses a row, bin b gains one: the exact delta against curve and shortfall."""
    sigma, miss = 2.0, 0.02
    threshold = 1 + DiscreteGaussian(sigma).upper_point(miss)
    law = DiscreteGaussian(sigma)
    shortfall = law.survival(threshold) + law.survival(threshold - 1)
    curve = gaussian_curve(sigma / math.sqrt(2))
    first = [law_of_bin(count, sigma, threshold) for count in (left, entered)]
    second = [law_of_bin(count, sigma, threshold) for count in (left - 1, entered + 1)]
    for here, there in ((first, second), (second, first)):
        pairs = [
            (one * two, there[0].get(a, 0.0) * there[1].get(b, 0.0))
            for (a, one), (b, two) in itertools.product(here[0].items(), here[1].items())
        ]
        p, q = np.array(pairs).T
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            delta = np.maximum(p - math.exp(epsilon) * q, 0).sum()
            assert delta <= curve.delta(epsilon) + shortfall


def test_replacing_a_row_moves_counts_by_root_two_at_most() -> None:
    rng = np.random.default_rng(0)
    largest = 0.0
    for trial in range(300):
        rows = rng.standard_normal(21) * 10.0 ** rng.integers(-3, 4, 21)
        other = rows.copy()
        other[rng.integers(21)] = rng.choice([0.0, 1e300, -1e9, rows[0], rng.standard_normal()])
        order = np.random.default_rng(trial).permutation(21)
        for paired in (True, False):
            change: dict[int, int] = {}
            for sign, data in ((1, rows), (-1, other)):
                bins = place_bins(data, 0.7, 0.6)
                if paired:
                    bins = pair_bins(data[order[:10]], data[order[10:20]], 0.3)
                histogram = Histogram.of(bins)
                for value, count in zip(histogram.bins, histogram.counts, strict=True):
                    change[int(value)] = change.get(int(value), 0) + sign * int(count)
            moved = math.hypot(*change.values())
            assert moved <= math.sqrt(2) + 1e-12
            largest = max(largest, moved)
    assert largest == pytest.approx(math.sqrt(2))


def test_rows_are_paired_by_position_and_in_one_pair_each() -> None:
    n = 61
    rows = np.arange(n, dtype=np.float64)[:, None] ** 2
    stage = frame_for(n, 1)

    def widths(x: Array) -> Histogram:
        return stage.prepare(Work(ArrayPeople.of(x), noise_source(4)), None).widths[0]

    before = widths(rows)
    assert before.counts.sum() == n // 2
    assert np.array_equal(before.counts, widths(-rows).counts)
    moved = 0
    for i in range(n):
        changed = rows.copy()
        changed[i] = 1e200
        after = widths(changed)
        far = after.bins > before.bins.max()
        # one pair lies far out now, and only one; the row left over is in none
        assert after.counts[far].sum() <= 1
        moved += int(after.counts[far].sum())
    assert moved == n - 1


def test_moments_stay_within_their_sensitivity_and_reach_it() -> None:
    rng = np.random.default_rng(1)
    for d in (1, 2, 4):
        sums = frame_for(1000, d).row_sums(d)
        assert len(sums) == 2
        one = sums[0]
        pairs = [*one.starts]
        pairs += [
            one.scale * s * rng.standard_normal((2, d)) for s in (0.3, 1, 5) for _ in "x" * 60
        ]
        moves = [one.move(rows) for rows in pairs]
        assert max(moves) <= 1 + 1e-8
        assert max(moves) > (0.5 if d == 1 else 0.97)


def test_price() -> None:
    stage = frame_for(1000, 3, rounds=2, miss=1e-8)
    price = stage.price()
    assert not price.gate
    total = np.sum([curve.values for curve in price.curves], axis=0)
    mu2 = 3 * (2 / 21.0**2 + 2 / 35.0**2) + 2 / 18.0**2
    assert np.allclose(total, gaussian_curve(mu2**-0.5).values)
    assert price.shortfall <= 12 * 1e-8
    laws = [
        (DiscreteGaussian(21.0), stage.scale_threshold),
        (DiscreteGaussian(35.0), stage.location_threshold),
    ]
    shown = sum(law.survival(theta) + law.survival(theta - 1) for law, theta in laws)
    assert price.shortfall == pytest.approx(3 * shown, rel=1e-9)
    # the shortfall is taken off delta
    whole = price_of([price], 1e-6).budget
    left = 1e-6 - price.shortfall
    assert whole.epsilon < gaussian_curve(mu2**-0.5).epsilon(left)
    assert gaussian_delta(whole.epsilon, mu2**0.5) < left
    # of counts, which are integers, a variance of 3 is given up
    given_up = 3 * (2 / (21.0**2 - 3) + 2 / (35.0**2 - 3)) + 2 / 18.0**2
    assert gaussian_delta(whole.epsilon, given_up**0.5) == pytest.approx(left, rel=5e-3)
    losses = stage.worst_losses(200_000, rng=np.random.default_rng(0))
    assert losses.mean() == pytest.approx(mu2 / 2, abs=4 * math.sqrt(mu2 / 200_000))


@dataclasses.dataclass(frozen=True)
class Recorder:
    """A source that writes down what is drawn from it."""

    inner: NoiseSource
    calls: list[tuple[str, Any]]

    @property
    def seeded(self) -> bool:
        return True

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        self.calls.append(("normal", shape))
        return self.inner.normal(shape)

    def laplace(self, scale: float, size: int) -> Array:
        self.calls.append(("laplace", scale))
        return self.inner.laplace(scale, size)

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        self.calls.append(("discrete", (sigma, size)))
        return self.inner.discrete_gaussian(sigma, size)

    def permutation(self, n: int) -> IntArray:
        self.calls.append(("permutation", n))
        return self.inner.permutation(n)

    def seed(self) -> int:
        self.calls.append(("seed", None))
        return self.inner.seed()

    def key(self) -> bytes:
        self.calls.append(("key", None))
        return self.inner.key()


def test_all_noise_is_discrete() -> None:
    n, d = 2000, 2
    stage = frame_for(n, d)
    rows = np.random.default_rng(0).standard_normal((n, d))
    recorder = Recorder(noise_source(0), [])
    result = drawn(stage, rows, 0, source=recorder)
    assert isinstance(result.value, Frame)
    view = result.view
    assert isinstance(view, HistogramFrameView)
    kinds = [kind for kind, _ in recorder.calls]
    # one seed for public coins; the public rotation is the only draw that is not discrete
    assert kinds == ["seed", *["discrete"] * (2 * d + 2), "normal"]
    assert recorder.calls[-1][1] == (d, d)
    sizes = [detail for kind, detail in recorder.calls if kind == "discrete"]
    for j in range(d):
        assert sizes[j] == (stage.scale_sigma, view.widths[j].bins.size)
        assert sizes[d + j] == (stage.location_sigma, view.places[j].bins.size)
    for sigma, size in sizes[2 * d :]:
        assert size == 1 + d + d * (d + 1) // 2
        # in fixed point: thirty bits
        assert sigma == pytest.approx(2.0**30 * 18.0 * stage.moments.sensitivity, rel=1e-6)


def test_secure_noise_draws_a_frame() -> None:
    rows = np.random.default_rng(0).standard_normal((3000, 2))
    result = drawn(frame_for(3000, 2), rows, 0, source=SecureNoise())
    assert isinstance(result.value, Frame)


# ---------------------------------------------------------------------------------- what it finds


@pytest.mark.parametrize("shape", ["gaussian", "two", "units"])
def test_releases_a_frame_that_is_right_within_a_factor_of_two(shape: str) -> None:
    n, d = 1000, 2
    stage = frame_for(n, d)
    released, good = 0, 0
    for seed in range(20):
        rng = np.random.default_rng([seed, 8])
        rows = rng.standard_normal((n, d))
        covariance = np.eye(d)
        if shape == "two":
            rows[:, 0] += np.where(rng.random(n) < 0.4, -4.0, 4.0)
            covariance[0, 0] += 16 * 0.96
        if shape == "units":
            rows = rows @ np.array([[1e-6, 0.0], [0.0, 1e9]]) + [3.0, -1e9]
            covariance = np.diag([1e-12, 1e18])
        value = drawn(stage, rows, seed).value
        if isinstance(value, Frame):
            released += 1
            good += bool((np.abs(np.log2(stretches(value, covariance))) < 1).all())
            place = value.to_frame(rows.mean(axis=0)[None])
            assert np.linalg.norm(place) < 1.5
    assert released >= 19
    assert good >= 19


def test_more_rounds_find_correlated_columns() -> None:
    n = 6000
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, 2))
    rows[:, 1] = rows[:, 0] + 0.05 * rows[:, 1]
    covariance = np.array([[1.0, 1.0], [1.0, 1.0025]])
    thin = {
        rounds: np.median(
            [
                stretches(drawn(frame_for(n, 2, rounds=rounds), rows, seed).value, covariance)[-1]
                for seed in range(5)
            ]
        )
        for rounds in (0, 3)
    }
    assert thin[0] < 0.06
    assert 0.6 < thin[3] < 1.4


def test_rounds_that_agree_are_averaged() -> None:
    n = 4000
    rows = np.random.default_rng(3).standard_normal((n, 2))
    wrong = {}
    for rounds in (2, 6):
        stage = dataclasses.replace(frame_for(n, 2), multipliers=(60.0,) * rounds, radius=3.0)
        logs = [np.log(stretches(drawn(stage, rows, seed).value, np.eye(2))) for seed in range(30)]
        wrong[rounds] = float(np.sqrt(np.mean(np.square(logs))))
    # a factor of sqrt 3; without averaging the last round alone would count
    assert wrong[6] < 0.75 * wrong[2]


def test_powers_of_four_go_through_to_the_last_bit() -> None:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((2000, 2)) @ np.array([[1.0, 0.4], [0.0, 1.0]])
    units = np.array([4.0**-30, 4.0**25])
    for seed in range(3):
        before, after = (drawn(frame_for(2000, 2), x, seed).value for x in (rows, rows * units))
        np.testing.assert_allclose(after.centre, before.centre * units, rtol=1e-12)
        np.testing.assert_allclose(after.root, before.root * units[:, None], rtol=1e-12)


def test_persons_count_once() -> None:
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((1500, 2))
    member = np.repeat(np.arange(1500), 3).astype(np.int64)
    alone = drawn(frame_for(1500, 2), rows, 9).value
    thrice = drawn(
        frame_for(1500, 2),
        np.repeat(rows, 3, axis=0),
        9,
        member=member,
    ).value
    np.testing.assert_allclose(thrice.root, alone.root, rtol=0.05)
    np.testing.assert_allclose(thrice.centre, alone.centre, atol=0.05)


def test_widths() -> None:
    # all differences are 6: 6 / 1.466 but for where in its bin a quantile is taken to lie
    for offset in (0.0, 0.3, 0.9):
        bins = pair_bins(np.full(100, 6.0), np.zeros(100), offset)
        width = width_of(*np.unique(bins, return_counts=True), offset)
        assert width is not None
        assert 6 / 1.466 / 4 < width < 6 / 1.466 * 4
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 10**6))
    for offset in (0.0, 0.4, 0.8):
        bins, counts = np.unique(pair_bins(x, y, offset), return_counts=True)
        assert width_of(bins, counts, offset) == pytest.approx(1.0, abs=0.2)
    zeros = np.array([ZERO_BIN], dtype=np.int64)
    assert width_of(zeros, np.array([500]), 0.4) is None
    assert width_of(zeros[:0], zeros[:0], 0.4) is None


# -------------------------------------------------------------------------------- wild rows


def wild(name: str, n: int) -> Array:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, 2))
    huge = np.finfo(np.float64).max
    if name == "far rows":
        rows[: n // 100] = huge
        rows[n // 100 : n // 50] = -huge
    elif name == "largest":
        rows = np.where(rows > 0, huge, -huge)
    elif name == "smallest":
        rows *= 5e-324
    elif name == "tiny next to far":
        rows = rows * 1e-300 + np.where(rng.random((n, 1)) < 0.3, 1e300, 0.0)
    elif name == "not finite":
        rows[0], rows[1], rows[2] = np.nan, np.inf, -np.inf
    elif name == "one value":
        rows[:] = 3.0
    elif name == "zero or one":
        rows = (rows > 0.8).astype(np.float64)
    elif name == "equal columns":
        rows[:, 1] = rows[:, 0]
    elif name == "cauchy":
        rows = rng.standard_cauchy((n, 2))
    return rows


@pytest.mark.parametrize(
    ("name", "released"),
    [
        ("far rows", True),
        ("largest", False),
        ("smallest", False),
        ("tiny next to far", False),
        ("not finite", True),
        ("one value", False),
        ("zero or one", True),
        ("equal columns", True),
        ("cauchy", True),
    ],
)
def test_no_rows_make_it_fail(name: str, released: bool) -> None:
    n = 4000
    rows = wild(name, n)
    values = [drawn(frame_for(n, 2), rows, seed).value for seed in range(4)]
    assert all(isinstance(value, Frame if released else Bottom) for value in values)
    if name == "far rows":
        assert all((np.abs(np.log2(stretches(v, np.eye(2)))) < 1.5).all() for v in values)


def test_says_why_it_refuses() -> None:
    result = drawn(frame_for(1000, 2), wild("one value", 1000), 0)
    assert isinstance(result.value, Bottom)
    assert result.value.why(["age", "pay"]).startswith("In column 'age' most rows share one value")
    assert result.value.why() == result.value.why(["1", "2"]).replace("'", "")
    view = result.view
    assert isinstance(view, HistogramFrameView)
    assert not view.places
    hint = view.hint(lambda positions: np.empty((positions.size, 2)))
    assert hint is not None
    assert "Column 1: 100 % of the pairs hold equal values" in hint
    rows = np.random.default_rng(0).standard_normal((60, 2))
    few = drawn(frame_for(1000, 2), rows, 0)
    assert isinstance(few.value, Bottom)
    assert "no difference between rows is common enough" in few.value.why()


def test_a_frame_that_is_found_gives_no_hint() -> None:
    rows = np.random.default_rng(0).standard_normal((4000, 2))
    view = drawn(frame_for(4000, 2), rows, 0).view
    assert view.hint(lambda positions: rows[positions]) is None


# --------------------------------------------------------------------------------- plain numbers


def test_reads_itself_back() -> None:
    stage = frame_for(1000, 3)
    data = json.loads(json.dumps(stage.to_dict()))["histogram_frame"]
    assert HistogramFrame.from_form(Form(data, "frame")) == stage
    with pytest.raises(InvalidInput, match="thresholds"):
        HistogramFrame.from_form(Form({**data, "thresholds": [1, 1]}, "frame"))
    assert len(stage.sentences()) == 2
    assert stage.least_units() == max(2 * stage.scale_threshold, stage.location_threshold)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_features", 0),
        ("scale_sigma", 0.0),
        ("location_sigma", math.nan),
        ("miss", 0.5),
        ("multipliers", (0.0,)),
        ("radius", -1.0),
    ],
)
def test_bad_numbers_are_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput):
        dataclasses.replace(frame_for(1000, 2), **{field: value})


def test_rows_must_fit_the_plan() -> None:
    with pytest.raises(InvalidInput, match="3 columns"):
        drawn(frame_for(1000, 3), np.zeros((10, 2)), 0)
    with pytest.raises(InvalidInput, match="two rows"):
        drawn(frame_for(1000, 2), np.zeros((1, 2)), 0)


# ------------------------------------------------------------------------------ values and grids


def with_values(n: int, d: int, sigma: float = 30.0) -> HistogramFrame:
    """Add the counts of values as they are planned."""
    miss = 1e-6 / n
    threshold = 1 + DiscreteGaussian(sigma).upper_point(miss)
    return dataclasses.replace(frame_for(n, d), values=ValueCounts(sigma, threshold, 50.0))


def test_counts_of_values_are_priced_with_the_others() -> None:
    plain, stage = frame_for(4000, 3), with_values(4000, 3)
    before, after = plain.price(), stage.price()
    assert len(after.curves) == len(before.curves) + 2 * 3
    added = after.mu_squared - before.mu_squared
    assert added == pytest.approx(3 * (2 / (30.0**2 - 3) + 2 / (50.0**2 - 3)))
    law, values = DiscreteGaussian(30.0), stage.values
    assert values is not None
    lone = law.survival(values.threshold) + law.survival(values.threshold - 1)
    assert after.shortfall == pytest.approx(before.shortfall + 3 * lone, rel=1e-12)
    # no noise is drawn that is not priced
    recorder = Recorder(noise_source(0), [])
    rows = np.random.default_rng(0).standard_normal((4000, 3))
    drawn(stage, rows, 0, source=recorder)
    sizes = [detail for kind, detail in recorder.calls if kind == "discrete"]
    assert [size for size in sizes if size[0] == 50.0] == [(50.0, len(STEPS) + 2)] * 3
    assert [size for size in sizes if size[0] == 30.0] == [(30.0, 4000)] * 3


def test_values_that_many_rows_share_are_named_with_their_shares() -> None:
    n = 8000
    rng = np.random.default_rng(4)
    for scale, offset in ((1.0, 0.0), (2.0**-30, 0.0), (2.0**60, -1.0), (1.0, 1e9)):
        rows = rng.standard_normal((n, 2)) * scale + offset
        heap = rng.random(n) < 0.6
        rows[heap, 0] = offset
        facts = drawn(with_values(n, 2), rows, 1).facts
        (atom,) = facts["atoms"]
        assert (atom.column, atom.value) == (0, offset)
        assert atom.share == pytest.approx(heap.mean(), abs=0.02)
        assert facts["steps"] == (None, None) or offset


def test_smooth_tables_show_no_value() -> None:
    stage = with_values(2000, 1)
    law, values = DiscreteGaussian(30.0), stage.values
    assert values is not None
    # of all values together, each of which occurs once
    assert 2000 * law.survival(values.threshold - 1) <= 1e-6
    for seed in range(1000):
        column = np.random.default_rng(seed).standard_normal(2000)
        assert values.found(0, column, noise_source(seed)) == ([], None)


def test_whole_numbers_are_found() -> None:
    rng = np.random.default_rng(5)
    rows = np.stack(
        [rng.poisson(3.0, 6000), np.round(rng.normal(0, 9, 6000), 1), rng.normal(size=6000)], axis=1
    )
    facts = drawn(with_values(6000, 3), rows, 2).facts
    assert facts["steps"] == (1.0, 0.1, None)
    assert {atom.column for atom in facts["atoms"]} == {0}


def test_a_stage_with_values_reads_itself_back() -> None:
    stage = with_values(4000, 2)
    data = json.loads(json.dumps(stage.to_dict()))["histogram_frame"]
    assert HistogramFrame.from_form(Form(data, "frame")) == stage
    for broken in ({"sigma": 0.0}, {"threshold": 1}, {"grid_sigma": -1.0}):
        with pytest.raises(InvalidInput):
            HistogramFrame.from_form(
                Form({**data, "values": {**data["values"], **broken}}, "frame")
            )


def test_a_part_of_many_rows_is_taken_by_position() -> None:
    stage = dataclasses.replace(frame_for(1000, 1), most_units=1000)
    assert (stage.units_of(500), stage.units_of(9000)) == (500, 1000)
    rows = np.arange(9000.0)[:, None]
    first = stage.prepare(Work(ArrayPeople.of(rows), noise_source(3)), None)
    other = stage.prepare(Work(ArrayPeople.of(rows**2), noise_source(3)), None)
    assert len(first.chosen) == 1000
    assert np.unique(first.chosen).size == 1000
    assert np.array_equal(first.chosen**2, other.chosen)
