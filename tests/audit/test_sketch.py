"""Attacks on a sketch reach what they aim at, and the wiretap hears everything."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from privgmm.arrays import IntArray
from privgmm.audit import counts, histograms, sketch_attacks, sketch_releases, wiretap
from privgmm.audit.broken import SummedPersons
from privgmm.audit.wiretap import Side, Tap
from privgmm.data.people import ArrayPeople
from privgmm.errors import InvalidInput
from privgmm.methods import registry
from privgmm.methods.request import PlanRequest
from privgmm.mixture import Mixture
from privgmm.privacy.curves import ORDERS
from privgmm.privacy.noise import DiscreteGaussian, SeededNoise
from privgmm.releases import release
from privgmm.stages.refinement.projection import vote_sums
from privgmm.stages.sketch.features import SketchShape, feature_sums
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.sketch.histogram_frame import Histogram, HistogramFrame
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.stage import RowSums, Stage
from tests.audit.sabotage import BothWays

SHAPE = SketchShape.default(1)
FRAME = HistogramFrame(
    n_features=2,
    scale_sigma=9.0,
    location_sigma=14.0,
    miss=1e-6,
    multipliers=(10.0,),
    radius=2.0,
)


# ------------------------------------------------------------------------------ the wiretap


def test_a_tap_draws_the_noise_of_its_seed_and_hears_the_sums() -> None:
    sums: IntArray = np.arange(6, dtype=np.int64).reshape(2, 3)
    tap = Tap(3)
    shown = sums + tap.discrete_gaussian(5.0, 6).reshape(2, 3)
    plain = SeededNoise(np.random.default_rng(3)).discrete_gaussian(5.0, 6)
    assert type(shown) is np.ndarray
    assert np.array_equal(shown, sums + plain.reshape(2, 3))
    (heard,) = tap.heard
    assert heard.sigma == 5.0
    assert np.array_equal(heard.sums, sums)
    assert np.array_equal(heard.shown, shown)


def test_a_second_tap_shows_what_was_shown() -> None:
    sums: IntArray = np.arange(4, dtype=np.int64)
    first = Tap(0)
    shown = sums + first.discrete_gaussian(5.0, 4)
    second = Tap(9, first.heard)
    again = (sums + 7) + second.discrete_gaussian(5.0, 4)
    assert np.array_equal(shown, again)
    assert np.array_equal(second.heard[0].sums, sums + 7)


def test_noise_can_only_be_added_once_and_to_integers() -> None:
    with pytest.raises(InvalidInput, match="before anything else"):
        _ = 2 * Tap(0).discrete_gaussian(5.0, 4)
    with pytest.raises(InvalidInput, match="integers"):
        _ = np.ones(4) + Tap(0).discrete_gaussian(5.0, 4)
    noise = Tap(0).discrete_gaussian(5.0, 4)
    _ = np.arange(4) + noise
    with pytest.raises(InvalidInput, match="twice"):
        _ = np.arange(4) + noise
    unused = Tap(0)
    unused.discrete_gaussian(5.0, 4)
    with pytest.raises(InvalidInput, match="added to sums"):
        _ = unused.heard


def test_neighbours_that_are_asked_for_different_sums_are_noticed() -> None:
    first = Tap(0)
    _ = np.arange(4) + first.discrete_gaussian(5.0, 4)
    second = Tap(0, first.heard)
    with pytest.raises(InvalidInput, match="depends on rows"):
        _ = np.arange(5) + second.discrete_gaussian(5.0, 5)
    found = wiretap.audit_run(
        HistogramFrame(
            n_features=1,
            scale_sigma=2.0,
            location_sigma=3.0,
            miss=1e-3,
            multipliers=(5.0,),
            radius=2.0,
        ),
        Side(sketch_attacks.gaussian_rows(200, 1)),
        # a difference that no other pair has: one bin more
        Side(np.concatenate([[[1e12]], sketch_attacks.gaussian_rows(200, 1)[1:]])),
        None,
        label="another bin",
    )
    assert found.measured == math.inf


def test_each_way_of_the_finish_costs_its_price_and_no_more() -> None:
    found = {f.name: f for f in sketch_attacks.account_findings()}
    for name in ("sketch account, one turn", "finish account, second sketch"):
        assert found[name].measured == pytest.approx(1.0, abs=1e-6)
        assert found[name].passed
    for name in ("sketch account, persons", "finish account, second sketch, persons"):
        assert found[name].measured == pytest.approx(1.0, abs=1e-6)
    # with much noise a component grows until one row hardly moves its sums
    for name, draws, least in (("rich mixture", 23, 0.1), ("noisy EM", 13, 0.01)):
        one = found[f"finish account, {name}"]
        assert one.detail == f"{draws} draws of one run"
        assert least < one.measured <= 1
    # its first fit is coarse: two steps
    assert found["finish account, refinement"].detail == "2 draws of one run"
    assert all(f.passed for f in found.values())


@pytest.mark.parametrize(
    ("multiplier", "draws"), [(sketch_attacks.QUIET, 16 + 1 + 6), (1.5, 1 + 12)]
)
def test_the_account_is_that_of_what_was_priced(multiplier: float, draws: int) -> None:
    """The finish's many draws have multipliers that compose to its own, as the tap hears them."""
    heaps, parted = sketch_attacks.bimodal(200)
    stage = Finish(1, 1, 200, SHAPE, multiplier)
    first = sketch_attacks.first_sketch(heaps)
    pairs = wiretap.overheard(stage, heaps, parted, first, seed=1)
    assert len(pairs) == draws
    again = wiretap.overheard(BothWays(1, 1, 200, SHAPE, multiplier), heaps, parted, first, seed=1)
    assert len(again) == len(pairs) + 1
    for a, b in pairs:
        assert a.sigma == b.sigma
        assert np.array_equal(a.shown, b.shown)
    (curve,) = stage.price().curves
    assert (2 * curve.values / ORDERS).min() == pytest.approx(multiplier**-2)


# --------------------------------------------------------------------------------- persons


def _stages() -> list[tuple[Stage, int]]:
    return [
        (Sketch(SHAPE, 1.0, 100, 1), 1),
        (Finish(1, 1, 100, SHAPE, 1.0), 1),
        (Sketch(SketchShape.default(2), 1.0, 100, 2), 2),
        (FRAME, 2),
    ]


@pytest.mark.parametrize(("stage", "d"), _stages(), ids=lambda x: getattr(x, "kind", x))
def test_persons_reach_what_rows_reach_and_never_pass_it(stage: Stage, d: int) -> None:
    found = counts.person_shift(stage, n_features=d, rng=np.random.default_rng(0))
    assert found.passed
    rows = max(one.move(start) for one in stage.row_sums(d) for start in one.starts)
    assert found.measured >= rows * (1 - 1e-6)
    if d == 1:
        assert found.measured > 1 - 1e-6


def test_a_person_moves_the_sums_of_all_as_far_as_alone() -> None:
    one, other = sketch_attacks.persons_apart(50)
    sketch = Sketch(SHAPE, 1.0, 50, 1)
    gap = np.subtract(
        *(
            feature_sums(
                ArrayPeople.of(side.rows, side.member),
                sketch_attacks.ORIGIN_FRAME,
                SHAPE,
                scale=sketch.scale,
            )
            for side in (one, other)
        )
    ).astype(np.float64)
    reached = float(np.linalg.norm(gap)) / sketch.integer_sensitivity
    assert 1 - 1e-6 < reached <= 1
    summed = SummedPersons(SHAPE, 1.0, 50, 1)
    found = wiretap.audit_run(summed, one, other, sketch_attacks.ORIGIN_FRAME, label="x")
    assert found.measured > 9


def test_a_stage_without_sums_of_persons_is_not_passed() -> None:
    class Alone(Sketch):
        def row_sums(self, n_features: int) -> tuple[RowSums, ...]:
            return tuple(
                dataclasses.replace(one, persons=None) for one in super().row_sums(n_features)
            )

    stage = Alone(SHAPE, 1.0, 100, 1)
    assert not counts.person_shift(stage, n_features=1, rng=np.random.default_rng(0)).passed


# ------------------------------------------------------------------------------ histograms


@pytest.mark.parametrize("count", [0, 1, 2, 60])
def test_laws_of_bins_are_those_of_the_noise(count: int) -> None:
    sigma, threshold = 9.0, 47
    law = DiscreteGaussian(sigma)
    found = histograms.shown_law(Histogram, count, sigma, threshold, most=60)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    shown = law.survival(threshold - count) if count else 0.0
    assert 1 - found[0] == pytest.approx(shown, rel=1e-6, abs=1e-15)
    drawn = np.concatenate(
        [
            Histogram(np.zeros(1, dtype=np.int64), np.array([count], dtype=np.int64)).released(
                sigma, threshold, SeededNoise(np.random.default_rng(seed))
            )[1]
            for seed in range(200 if count else 0)
        ]
        or [np.zeros(0, dtype=np.int64)]
    )
    mean = drawn.size / 200
    assert abs(mean - (1 - found[0])) <= 4 * math.sqrt(max(found[0] * (1 - found[0]), 1e-6) / 200)


def test_a_lone_row_shows_as_often_as_stated() -> None:
    bins, lone, beyond = histograms.lone_bins(FRAME)
    assert bins.passed
    assert lone.passed
    assert lone.measured == pytest.approx(
        max(
            DiscreteGaussian(s).survival(t - 1)
            for s, t in ((9.0, FRAME.scale_threshold), (14.0, FRAME.location_threshold))
        ),
        rel=1e-6,
    )
    assert beyond.passed
    # what a neighbour never shows is half of what the account sets aside, and more
    assert beyond.measured > 0.5 * beyond.limit


def test_counts_move_by_root_two_and_no_more() -> None:
    found = histograms.counts_move(FRAME, rng=np.random.default_rng(0))
    assert found.passed
    assert found.measured == pytest.approx(1.0)


# -------------------------------------------------------------------------- whole releases


def test_a_published_sketch_leans_towards_its_rows() -> None:
    """With hardly any noise the outsider is right; with the real noise mostly in the dark."""
    stage = Sketch(SHAPE, 0.02, 50, 1)
    found = sketch_releases.many_sketches(stage, draws=200, rng=np.random.default_rng(0))
    assert found.measured > 2.5
    quiet = dataclasses.replace(stage, multiplier=5.0)
    dark = sketch_releases.many_sketches(quiet, draws=2_000, rng=np.random.default_rng(0))
    assert dark.passed
    assert dark.measured < 0.3


def test_cases_differ_in_one_row_and_some_are_refused() -> None:
    found = sketch_releases.cases()
    for case in found:
        assert np.count_nonzero((case.first != case.second).any(axis=1)) == 1
        assert case.plan.spent().epsilon == pytest.approx(1.0, rel=1e-6)
    released = [release(found[1].first, found[1].plan, rng=seed).released for seed in range(30)]
    assert 0 < sum(released) < 30


def test_rows_far_away_never_raise() -> None:
    """Coordinates of a far row overflow in a narrow frame; an error would give it away."""
    heaps, _ = sketch_attacks.bimodal(400)
    rows = 1e-2 * heaps.rows
    plan = registry.get("sketch").automatic(
        PlanRequest(
            n_components=1, n_features=1, n_rows=400, epsilon=8.0, delta=0.01, method="sketch"
        )
    )
    for far in (1e308, -1e308):
        rows[0] = far
        outcomes = [release(rows, plan, rng=seed) for seed in range(3)]
        assert any(outcome.released for outcome in outcomes)


@pytest.mark.parametrize("far", [np.inf, -np.inf, np.nan])
def test_votes_of_rows_without_coordinates_are_bounded(far: float) -> None:
    candidates = [Mixture([1.0], [[x, 0.0]], np.eye(2)[None]) for x in (0.0, 1.0, 2.0)]
    sums, unit = vote_sums(ArrayPeople.of(np.array([[far, 0.0]])), candidates, 2.0)
    assert np.abs(sums).max() <= unit
