"""Every baseline in the registry: priced, audited as it runs, and as good as what it was told."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks.release import PROBLEM
from privgmm import Budget, Mixture, Release, best_plan, dist_gmm, release
from privgmm.arrays import Array, IntArray
from privgmm.baselines import Baseline, Box, all_baselines, get_baseline
from privgmm.baselines.account import NoiseAccount
from privgmm.baselines.histogram import COUNT_SENSITIVITY, Grid
from privgmm.baselines.moment_sums import GroupSums
from privgmm.errors import InvalidInput
from privgmm.privacy.noise import SeededNoise

BUDGET = Budget(1.0, 1e-6)
BOX = Box.around(PROBLEM)
EVERY = pytest.mark.parametrize("baseline", all_baselines(), ids=lambda one: one.name)


def _labels(baseline: Baseline, labels: IntArray) -> IntArray | None:
    return labels if baseline.needs.labels else None


def _learn(
    baseline: Baseline, rows: Array, labels: IntArray, box: Box = BOX, seed: int | None = 1
) -> Mixture:
    return baseline.release(
        rows,
        n_components=2,
        budget=BUDGET,
        bounds=box,
        labels=_labels(baseline, labels),
        rng=seed,
    ).mixture


# ---------------------------------------------------------------- the audit, on what really runs


class _Tap(SeededNoise):
    """Noise that is listened to; played back, it makes other sums come out as the same numbers.

    What is published by a Gaussian mechanism is the sum and the noise. For a neighbour to publish
    the same, its noise must make up for the difference: so the difference of the noises, in units
    of sigma, is how far the sums have moved, at each draw and given the same past.
    """

    def __init__(self, published: list[IntArray] | None) -> None:
        super().__init__(np.random.default_rng(11))
        object.__setattr__(self, "sums", [])
        object.__setattr__(self, "said", [])
        object.__setattr__(self, "noises", [])
        object.__setattr__(self, "sigmas", [])
        object.__setattr__(self, "script", published)

    sums: list[IntArray]
    said: list[IntArray]
    noises: list[IntArray]
    sigmas: list[float]
    script: list[IntArray] | None

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        before = self.sums[-1].ravel()
        assert before.size == size
        drawn = len(self.said)
        noise = (
            super().discrete_gaussian(sigma, size)
            if self.script is None
            else self.script[drawn] - before
        )
        self.said.append(before + noise)
        self.noises.append(noise)
        self.sigmas.append(sigma)
        return noise


@pytest.fixture
def tapped(monkeypatch: pytest.MonkeyPatch) -> list[_Tap]:
    """Sums that any baseline takes are written down for the tap in use."""
    taps: list[_Tap] = []
    of, counts = GroupSums.of, Grid.counts

    def heard_of(self: GroupSums, points: Array, shares: Array) -> tuple[IntArray, float]:
        sums, unit = of(self, points, shares)
        taps[-1].sums.append(sums)
        return sums, unit

    def heard_counts(self: Grid, rows: Array) -> IntArray:
        found = counts(self, rows)
        taps[-1].sums.append(found)
        return found

    monkeypatch.setattr(GroupSums, "of", heard_of)
    monkeypatch.setattr(Grid, "counts", heard_counts)
    return taps


def _moves(
    baseline: Baseline,
    taps: list[_Tap],
    rows: Array,
    labels: IntArray,
    other: Array,
    other_labels: IntArray,
) -> tuple[Array, NoiseAccount]:
    """How far the neighbour moves each draw, in units of its noise."""
    taps.append(_Tap(None))
    account = baseline.account(BUDGET)
    common = {"n_components": 2, "budget": BUDGET, "bounds": BOX}
    baseline.release(rows, labels=_labels(baseline, labels), rng=taps[-1], **common)  # type: ignore[arg-type]
    taps.append(_Tap(taps[-1].said))
    baseline.release(other, labels=_labels(baseline, other_labels), rng=taps[-1], **common)  # type: ignore[arg-type]
    first, second = taps[-2:]
    assert first.sigmas == second.sigmas
    return np.array(
        [
            float(np.linalg.norm(a - b)) / sigma
            for a, b, sigma in zip(first.noises, second.noises, first.sigmas, strict=True)
        ]
    ), account


def _neighbours() -> Iterator[tuple[Array, IntArray, Array, IntArray]]:
    """One row replaced: by an outlier, by the far corner, by one of another component."""
    rows, labels = PROBLEM.sample_with_labels(300, rng=7)
    labels = labels.astype(np.int64)
    for start, end in (
        (PROBLEM.means[0], PROBLEM.means[1]),
        (BOX.low, BOX.high),
        ([BOX.low[0], BOX.high[1]], [BOX.high[0], BOX.low[1]]),
        (PROBLEM.means[0], [1e300, -1e300]),
        ([-1e9, -1e9], [1e9, 1e9]),
        (BOX.centre, BOX.high),
    ):
        first, second, others = rows.copy(), rows.copy(), labels.copy()
        first[17], second[17] = start, end
        others[17] = 1 - others[17]
        yield first, labels, second, others


@EVERY
def test_no_neighbour_moves_a_draw_farther_than_was_paid_for(
    baseline: Baseline, tapped: list[_Tap]
) -> None:
    worst = 0.0
    for pair in _neighbours():
        moves, account = _moves(baseline, tapped, *pair)
        assert len(moves) == account.draws
        assert (moves * account.multiplier <= 1 + 1e-9).all()
        worst = max(worst, float(moves.max()) * account.multiplier)
    # found to be nearly as large as stated
    assert worst > 0.8


@EVERY
def test_rows_that_count_for_more_are_caught(
    baseline: Baseline, tapped: list[_Tap], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pulled into too large a box, or counted twice: a row moves more than is paid for."""
    clip, counts = Box.clipped, Grid.counts

    def too_far(box: Box, rows: Array) -> Array:
        return clip(box.widened(1.5), rows)

    def twice(grid: Grid, rows: Array) -> IntArray:
        found = 2 * counts(grid, rows)
        tapped[-1].sums[-1] = found
        return found

    monkeypatch.setattr(Box, "clipped", too_far)
    monkeypatch.setattr(Grid, "counts", twice)
    worst = 0.0
    for pair in _neighbours():
        moves, account = _moves(baseline, tapped, *pair)
        worst = max(worst, float(moves.max()) * account.multiplier)
    assert worst > 1.01


@EVERY
def test_one_draw_that_was_not_paid_for_is_caught(
    baseline: Baseline, tapped: list[_Tap], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An account of fewer passes than are made: the numbers of draws differ."""
    paid = baseline.account(BUDGET)
    if paid.draws == 1:
        broken = NoiseAccount(paid.multiplier / 2, 1, paid.sensitivity)
    else:
        broken = NoiseAccount.for_budget(BUDGET, paid.draws - 1, paid.sensitivity)
    monkeypatch.setattr(type(baseline), "account", lambda *_: broken)
    pair = next(_neighbours())
    if paid.draws == 1:
        with pytest.raises(Exception, match="more than"):
            _moves(baseline, tapped, *pair)
    else:
        moves, account = _moves(baseline, tapped, *pair)
        assert len(moves) != account.draws


def test_a_histogram_moves_by_one_in_two_cells_whatever_the_row() -> None:
    grid = Grid(BOX, 9)
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [
            rng.uniform(BOX.low, BOX.high, (200, 2)),
            1e6 * rng.standard_normal((200, 2)),
            [BOX.low, BOX.high, [1e308, -1e308]],
        ]
    )
    base = grid.counts(values)
    assert base.sum() == len(values)
    worst = 0.0
    for place in range(len(values)):
        other = values.copy()
        other[place] = values[rng.integers(len(values))]
        worst = max(worst, float(np.linalg.norm(grid.counts(other) - base)))
    assert worst == pytest.approx(COUNT_SENSITIVITY)


# ------------------------------------------------------------------------------- what it learns


@EVERY
def test_told_the_right_box_it_learns(baseline: Baseline) -> None:
    rows, labels = PROBLEM.sample_with_labels(100_000, rng=3)
    assert dist_gmm(PROBLEM, _learn(baseline, rows, labels)) < 0.12


@EVERY
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 1e4), (100.0, 0.0)], ids=["shift", "scale"])
def test_rows_that_left_the_box_are_lost(baseline: Baseline, scale: float, shift: float) -> None:
    """Shifted by 10,000 or a hundred times as large, and told the box of before: it collapses."""
    rows, labels = PROBLEM.sample_with_labels(40_000, rng=4)
    truth = PROBLEM.transformed(scale * np.eye(2), [shift, shift])
    found = _learn(baseline, scale * rows + shift, labels)
    assert dist_gmm(truth, found) > 0.9
    # the box of the rows as they are makes it well again: nothing else was wrong
    told = Box(scale * BOX.low + shift, scale * BOX.high + shift)
    again = _learn(baseline, scale * rows + shift, labels, told)
    assert dist_gmm(truth, again) < 0.25


@pytest.mark.parametrize(
    ("scale", "shift"), [(1.0, 1e4), (100.0, 0.0), (100.0, 1e4)], ids=["shift", "scale", "both"]
)
def test_ours_is_the_same_in_any_units(scale: float, shift: float) -> None:
    """No bounds were told, so none can be wrong: in the new units only the noise is another."""
    rows = PROBLEM.sample(40_000, rng=4)
    plan = best_plan(40_000, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    here = release(rows, plan, rng=5).result
    there = release(scale * rows + shift, plan, rng=5).result
    assert isinstance(here, Release)
    assert isinstance(there, Release)
    truth = PROBLEM.transformed(scale * np.eye(2), [shift, shift])
    before, after = dist_gmm(PROBLEM, here.mixture), dist_gmm(truth, there.mixture)
    assert max(before, after) < 0.015


@EVERY
def test_more_budget_or_more_rows_help(baseline: Baseline) -> None:
    def error(n: int, epsilon: float) -> float:
        found = []
        for seed in range(5):
            rows, labels = PROBLEM.sample_with_labels(n, rng=seed)
            result = baseline.release(
                rows,
                n_components=2,
                budget=Budget(epsilon, 1e-6),
                bounds=BOX,
                labels=_labels(baseline, labels),
                rng=seed,
            )
            found.append(dist_gmm(PROBLEM, result.mixture))
        return float(np.median(found))

    little = error(5_000, 0.5)
    assert error(5_000, 8.0) < little
    assert error(50_000, 0.5) < little


@EVERY
@pytest.mark.parametrize(("k", "d"), [(1, 1), (3, 1), (4, 3), (2, 10)])
def test_any_size_gives_a_mixture(baseline: Baseline, k: int, d: int) -> None:
    rng = np.random.default_rng(k)
    rows, labels = rng.standard_normal((400, d)), rng.integers(0, k, 400)
    box = Box(np.full(d, -5.0), np.full(d, 5.0))
    found = baseline.release(
        rows,
        n_components=k,
        budget=BUDGET,
        bounds=box,
        labels=_labels(baseline, labels),
        rng=0,
    ).mixture
    assert found.means.shape == (k, d)


@EVERY
@pytest.mark.parametrize("value", [0.0, 1e300, -7.0])
def test_rows_of_a_single_value_give_a_mixture(baseline: Baseline, value: float) -> None:
    rows = np.full((50, 2), value)
    found = _learn(baseline, rows, np.zeros(50, dtype=np.int64))
    assert np.isfinite(found.covariances).all()


# ------------------------------------------------------------------------------------ the doors


@EVERY
def test_noise_is_secure_unless_seeded(baseline: Baseline) -> None:
    rows, labels = PROBLEM.sample_with_labels(500, rng=1)
    common = {
        "n_components": 2,
        "budget": BUDGET,
        "bounds": BOX,
        "labels": _labels(baseline, labels),
    }
    secure = [baseline.release(rows, **common) for _ in range(2)]  # type: ignore[arg-type]
    assert not any(one.seeded for one in secure)
    assert secure[0].mixture != secure[1].mixture
    seeded = [baseline.release(rows, rng=3, **common) for _ in range(2)]  # type: ignore[arg-type]
    assert all(one.seeded for one in seeded)
    assert seeded[0].mixture == seeded[1].mixture
    for one in (*secure, *seeded):
        assert BUDGET.covers(one.spent)
        assert one.baseline == baseline.name


class _Silent(SeededNoise):
    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        raise AssertionError("noise was drawn")


@EVERY
def test_bad_input_is_refused_before_any_noise(baseline: Baseline) -> None:
    source = _Silent(np.random.default_rng(0))
    rows = np.zeros((10, 2))
    good = np.zeros(10, dtype=np.int64)

    def ask(**changes: object) -> None:
        labels = _labels(baseline, good)
        asked = {"rows": rows, "n_components": 2, "bounds": BOX, "labels": labels} | changes
        baseline.release(budget=BUDGET, rng=source, **asked)  # type: ignore[arg-type]

    with pytest.raises(AssertionError, match="noise was drawn"):
        ask()
    with pytest.raises(InvalidInput, match="rows"):
        ask(rows=np.full((10, 2), np.nan))
    with pytest.raises(InvalidInput, match="rows"):
        ask(rows=np.zeros((0, 2)), labels=_labels(baseline, good[:0]))
    with pytest.raises(InvalidInput, match="n_components"):
        ask(n_components=0)
    with pytest.raises(InvalidInput, match="bounds must have one side per column"):
        ask(bounds=Box([0.0], [1.0]))
    with pytest.raises(InvalidInput, match="labels"):
        ask(labels=None if baseline.needs.labels else good)
    if baseline.needs.labels:
        for wrong in (good + 2, good - 1, good[:5], good.astype(float)):
            with pytest.raises(InvalidInput, match="labels"):
                ask(labels=wrong)


def test_a_histogram_of_too_many_columns_is_refused() -> None:
    with pytest.raises(InvalidInput, match="columns"):
        get_baseline("histogram").release(
            np.zeros((10, 20)),
            n_components=1,
            budget=BUDGET,
            bounds=Box(-np.ones(20), np.ones(20)),
            rng=0,
        )


@EVERY
def test_its_words_say_what_it_needs(baseline: Baseline) -> None:
    assert ("box" in baseline.needs.words or "ball" in baseline.needs.words) == (
        baseline.needs.bounds
    )
    assert ("component of each row" in baseline.needs.words) == baseline.needs.labels
    assert baseline.sentence[0].islower()
    assert not baseline.sentence.endswith(".")


def test_looks_differ_and_can_be_seen() -> None:
    """Three to one against white and near-black, as all lines of the package's figures."""
    looks = [one.look for one in all_baselines()]
    assert len({(look.colour, look.dash) for look in looks}) == len(looks)
    for look in looks:
        light = _luminance(look.colour)
        assert 1.05 / (light + 0.05) >= 3
        assert (light + 0.05) / (_luminance("#0E1117") + 0.05) >= 3


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return math.fsum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_baselines_are_found_by_their_names() -> None:
    assert [get_baseline(one.name) for one in all_baselines()] == list(all_baselines())
    with pytest.raises(InvalidInput, match=r"baseline must be one of dp_em, .*, got 'another'"):
        get_baseline("another")
