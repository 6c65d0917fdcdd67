"""The last stage: whichever way is taken, one price, a mixture near the rows, and a true misfit."""

from __future__ import annotations

import math
from typing import NoReturn

import numpy as np
import pytest

from privgmm.arrays import Array, IntArray
from privgmm.data.engines import Step
from privgmm.data.people import ArrayPeople
from privgmm.distances.parameters import dist_gmm
from privgmm.methods.planner import best_plan
from privgmm.mixture import Mixture
from privgmm.privacy.noise import NoiseSource, SeededNoise, noise_source
from privgmm.releases import release
from privgmm.stages.sketch import finish
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.finish import Finish, takes_rich_route
from privgmm.stages.sketch.fitting import FrameFit
from privgmm.stages.sketch.frame import Frame, random_rotation
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.sketch.second_look import refining_steps
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.stage import Bottom, Published, Work

TRUTH = Mixture(
    [0.4, 0.6], [[-4.0, 0.0], [4.0, 0.0]], [[[2, 0.8], [0.8, 1]], [[1, -0.5], [-0.5, 1.5]]]
)
FOUR_COLUMNS = Mixture(
    [0.4, 0.6], [np.full(4, -1.5), np.full(4, 1.5)], [np.eye(4), 0.5 * np.eye(4)]
)
THIN_INSIDE = Mixture(
    [0.3, 0.7], [np.full(4, -1.5), np.full(4, 1.5)], [0.02 * np.eye(4), np.eye(4)]
)
"""A cluster so thin that a sketch gives its width only roughly."""
LEFT = 0.045
"""About what epsilon 1, delta 1e-6 leave."""


class Counting(SeededNoise):
    """Seeded noise that adds up what its draws cost, in mu^2."""

    def __init__(self, seed: int, sensitivities: list[float]) -> None:
        super().__init__(np.random.default_rng(seed))
        object.__setattr__(self, "sensitivities", sensitivities)
        object.__setattr__(self, "sigmas", [])

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        self.sigmas.append(sigma)  # type: ignore[attr-defined]
        return super().discrete_gaussian(sigma, size)


def worked(rows: Array, source: NoiseSource, member: IntArray | None = None) -> Work:
    return Work(ArrayPeople.of(rows, member), source)


def first_sketch(rows: Array, source: NoiseSource, member: IntArray | None = None) -> PrivateSketch:
    n = len(rows) if member is None else int(member.max()) + 1
    d = rows.shape[1]
    factor = np.linalg.cholesky(np.atleast_2d(np.cov(rows.T)) * 1.2)
    frame = Frame.published(rows.mean(axis=0), factor, rotation=random_rotation(d, rng=source))
    stage = Sketch(SketchShape.default(d), (0.4 * LEFT) ** -0.5, n, d)
    data: PrivateSketch = stage.prepare(worked(rows, source, member), frame).draw(source).value
    return data


def finished(rows: Array, k: int, source: NoiseSource, member: IntArray | None = None) -> Published:
    data = first_sketch(rows, source, member)
    d = rows.shape[1]
    stage = Finish(k, d, data.n_units, SketchShape.default(d), (0.6 * LEFT) ** -0.5)
    value: Published = stage.prepare(worked(rows, source, member), data).draw(source).value
    return value


def skewed(n: int) -> Array:
    rng = np.random.default_rng(1)
    return np.stack([rng.gamma(1.5, 1.0, n), rng.gamma(2.0, 2.0, n) + rng.normal(size=n)], axis=1)


def test_a_mixture_that_explains_the_rows_is_found_and_said_to() -> None:
    rows = TRUTH.sample(20_000, rng=2)
    found = finished(rows, 2, noise_source(3))
    assert found.misfit is not None
    assert found.misfit <= 5
    assert dist_gmm(found.mixture, TRUTH) < 0.03
    assert not found.floored


def test_two_sketches_have_less_noise_than_one() -> None:
    rows = TRUTH.sample(5_000, rng=2)
    source = noise_source(3)
    first = first_sketch(rows, source)
    both = finished(rows, 2, noise_source(3)).sketch
    # mu^2 adds: 0.4 and 0.6 of the account together are all of it
    assert np.allclose(both.deviations, first.deviations * math.sqrt(0.4), rtol=1e-6)


def test_many_columns_are_refined_and_the_guard_keeps_what_explains() -> None:
    truth = Mixture([0.5, 0.5], [np.full(5, -1.5), np.full(5, 1.5)], [np.eye(5), 0.5 * np.eye(5)])
    rows = truth.sample(40_000, rng=4)
    source = noise_source(5)
    data = first_sketch(rows, source)
    stage = Finish(2, 5, 40_000, SketchShape.default(5), (0.6 * LEFT) ** -0.5)
    prepared = stage.prepare(worked(rows, source), data)
    before = dist_gmm(data.frame.mixture_from_frame(prepared.fit.mixture), truth)
    after = dist_gmm(prepared.draw(source).value.mixture, truth)
    assert after < before
    assert after < 0.05


def test_a_coarse_fit_of_many_columns_is_put_right() -> None:
    """The sketch alone is off by more than a component's width; moments are not misled by it."""
    rows = THIN_INSIDE.sample(20_000, rng=2)
    source = noise_source(3)
    data = first_sketch(rows, source)
    stage = Finish(2, 4, 20_000, SketchShape.default(4), (0.6 * LEFT) ** -0.5)
    prepared = stage.prepare(worked(rows, source), data)
    assert prepared.looks.first > 1
    before = dist_gmm(data.frame.mixture_from_frame(prepared.fit.mixture), THIN_INSIDE)
    after = dist_gmm(prepared.draw(source).value.mixture, THIN_INSIDE)
    assert before > 0.2
    assert after < 0.04


def test_numbers_that_cannot_be_computed_with_do_not_lose_what_was_paid_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = FOUR_COLUMNS.sample(60_000, rng=4)
    refined = finished(rows, 2, noise_source(5))

    def failing(sketched: PrivateSketch, through: Mixture) -> NoReturn:
        raise np.linalg.LinAlgError

    monkeypatch.setattr(finish, "Viewpoint", failing)
    kept = finished(rows, 2, noise_source(5))
    assert dist_gmm(kept.mixture, FOUR_COLUMNS) < 0.3
    assert dist_gmm(kept.mixture, refined.mixture) > 0, "the fit to the sketch stands"


def test_rows_that_are_no_such_mixture_are_said_not_to_be_and_followed_all_the_same() -> None:
    rows = skewed(30_000)
    found = finished(rows, 3, noise_source(6))
    assert found.misfit is not None
    assert found.misfit > 5
    one = Mixture([1.0], rows.mean(axis=0)[None], np.cov(rows.T)[None])
    gain = found.mixture.log_density(rows).mean() - one.log_density(rows).mean()
    assert gain > 0.15


def test_rounded_columns_are_widened_and_said_to_be() -> None:
    rng = np.random.default_rng(7)
    rows = np.stack([np.round(rng.gamma(0.3, 2.0, 20_000)), rng.normal(size=20_000)], axis=1)
    found = finished(rows, 4, noise_source(8))
    data = first_sketch(rows, noise_source(8))
    widths = np.linalg.eigvalsh(data.frame.mixture_to_frame(found.mixture).covariances)
    assert widths.min() >= 0.01**2 * 0.9


def costs(rows: Array, k: int) -> tuple[bool, list[float], Finish]:
    """Run a finish; returns whether the fit explains, the sigmas of all draws, and the stage."""
    source = Counting(10, [])
    data = first_sketch(rows, source)
    d = rows.shape[1]
    stage = Finish(k, d, len(rows), SketchShape.default(d), (0.6 * LEFT) ** -0.5)
    prepared = stage.prepare(worked(rows, source), data)
    source.sigmas.clear()  # type: ignore[attr-defined]
    prepared.draw(source)
    return prepared.fit.explains, source.sigmas, stage  # type: ignore[attr-defined]


def test_a_second_sketch_costs_what_the_stage_says() -> None:
    explains, sigmas, stage = costs(TRUTH.sample(4_000, rng=9), 2)
    assert explains
    assert sigmas == [Sketch(stage.shape, stage.multiplier, stage.n_units, 2).sigma]


@pytest.mark.parametrize(
    ("truth", "count"), [("placed", 1), ("coarse", 2)], ids=["one step", "two steps"]
)
def test_refinement_costs_what_the_stage_says(truth: str, count: int) -> None:
    """One step, or two where the first fit is coarse: all draws compose to the stage's price."""
    mixture = FOUR_COLUMNS if truth == "placed" else THIN_INSIDE
    explains, sigmas, stage = costs(mixture.sample(20_000, rng=2), 2)
    assert explains
    steps = refining_steps(4, 0.0 if truth == "placed" else 1.0)
    assert len(sigmas) == len(steps) == count
    drawn = [
        2.0**30 * moments.sensitivity / sigma
        for sigma, (_, moments) in zip(sigmas, steps, strict=True)
    ]
    spent = math.fsum(one**2 for one in drawn) * stage.multiplier**2
    assert spent == pytest.approx(1, rel=1e-6)
    assert spent <= 1
    # and these are the sums that an audit attacks
    listed = {one.multiplier for one in stage.row_sums(4)}
    assert {stage.part(share) for share, _ in steps} <= listed


def corners(n: int) -> Array:
    """Draw eight clusters at the corners of a cube."""
    rng = np.random.default_rng(5)
    return np.sign(rng.normal(size=(n, 3))) + 0.2 * rng.normal(size=(n, 3))


@pytest.mark.parametrize(
    ("rows", "steps", "vote", "last"),
    [(skewed(30_000), 16, 0.05, 6), (corners(2_000), 0, 0.08, 12)],
    ids=["rich mixture", "none"],
)
def test_noisy_em_costs_what_the_stage_says(
    rows: Array, steps: int, vote: float, last: int
) -> None:
    """With a rich mixture or without: the multipliers of all draws compose to the stage's."""
    explains, sigmas, stage = costs(rows, 2)
    assert not explains
    assert len(sigmas) == steps + 1 + last
    # at least the multiplier times the plain sensitivity, rounding on top: hardly any
    moments = 2.0**30 * math.sqrt(2) * math.hypot(0.4, 0.6, 1.0)
    of_steps = [moments / one for i, one in enumerate(sigmas) if i != steps]
    spent = sum(one**2 for one in of_steps) * stage.multiplier**2
    assert spent == pytest.approx(1 - vote, rel=1e-6)
    assert spent <= 1 - vote
    # the vote's sensitivity is 2 sqrt(J) for J differences, of which there is at least one
    assert sigmas[steps] >= stage.part(vote) * 2.0**30 * 2


def test_doubtful_fits_of_many_columns_are_not_believed() -> None:
    """Four columns, few rows, no mixture: the misfit shows nothing, and the fit is far off."""
    rng = np.random.default_rng(3)
    base = rng.gamma(1.5, 1.0, (5_000, 2))
    rows = np.concatenate([base, base**1.5 + 0.05 * rng.normal(size=(5_000, 2))], axis=1)
    source = noise_source(6)
    data = first_sketch(rows, source)
    stage = Finish(3, 4, 5_000, SketchShape.default(4), (0.6 * LEFT) ** -0.5)
    prepared = stage.prepare(worked(rows, source), data)
    found = prepared.draw(source).value.mixture
    alone = data.frame.mixture_from_frame(prepared.fit.mixture)
    one = Mixture([1.0], rows.mean(axis=0)[None], np.cov(rows.T)[None])
    levels = [float(m.log_density(rows).mean()) for m in (alone, one, found)]
    assert levels == sorted(levels)


@pytest.mark.parametrize(
    ("n", "misfit", "rich"),
    [(20_000, 2.5, True), (400_000, 2.5, False), (400_000, 4.0, True), (2_000, -3.0, True)],
)
def test_doubt_weighs_less_where_rows_are_many(n: int, misfit: float, rich: bool) -> None:
    """Two and a half deviations are chance if many rows show no more; with few, they are a hint."""
    size, freedom = FOUR_COLUMNS.n_components * 15, 900
    fit = FrameFit(
        mixture=FOUR_COLUMNS,
        parameters=np.zeros((2, 15)),
        chi_square=freedom + misfit * math.sqrt(2 * freedom),
        degrees_of_freedom=freedom,
        inflation=1.0,
        information=np.eye(size),
        floored=np.zeros(2, dtype=bool),
    )
    stage = Finish(2, 4, n, SketchShape.default(4), (0.6 * LEFT) ** -0.5)
    assert takes_rich_route(fit, stage) == rich


def test_persons_weigh_alike() -> None:
    rows = TRUTH.sample(6_000, rng=11)
    crowd = np.concatenate([rows, np.tile([[30.0, 30.0]], (20_000, 1))])
    member = np.concatenate([np.arange(6_000), np.full(20_000, 6_000)])
    source = noise_source(12)
    factor = np.linalg.cholesky(np.cov(rows.T))
    frame = Frame.published(rows.mean(axis=0), factor, rotation=random_rotation(2, rng=source))
    shape = SketchShape.default(2)
    work = Work(ArrayPeople.of(crowd, member), source)
    data = Sketch(shape, (0.4 * LEFT) ** -0.5, 6_001, 2).prepare(work, frame).draw(source).value
    stage = Finish(2, 2, 6_001, shape, (0.6 * LEFT) ** -0.5)
    found = stage.prepare(work, data).draw(source).value
    assert dist_gmm(found.mixture, TRUTH) < 0.08


@pytest.mark.parametrize("shrink", [0.02, 0.05])
def test_a_frame_that_collapsed_is_refused_and_not_believed(shrink: float) -> None:
    """Waves wrap around in it: any fit would be wrong, and nothing else would show it."""
    rows = TRUTH.sample(20_000, rng=20)
    source = noise_source(21)
    factor = shrink * np.linalg.cholesky(np.cov(rows.T))
    frame = Frame.published(rows.mean(axis=0), factor, rotation=random_rotation(2, rng=source))
    shape = SketchShape.default(2)
    work = worked(rows, source)
    data = Sketch(shape, (0.4 * LEFT) ** -0.5, 20_000, 2).prepare(work, frame).draw(source).value
    drawn = Finish(2, 2, 20_000, shape, (0.6 * LEFT) ** -0.5).prepare(work, data).draw(source)
    assert isinstance(drawn.value, Bottom)


@pytest.mark.parametrize("truth", [TRUTH, FOUR_COLUMNS], ids=["second sketch", "refined"])
def test_an_open_number_of_components_is_chosen_and_then_finished(truth: Mixture) -> None:
    """The mixture has the number that the sketch asks for, as if it had been planned for it."""
    rows, d = truth.sample(20_000, rng=2), truth.n_features
    shape, rest = SketchShape.default(d), (0.6 * LEFT) ** -0.5
    data = first_sketch(rows, noise_source(3))
    plain, offered = (Finish(k, d, 20_000, shape, rest, choose=k > 2) for k in (2, 4))
    assert offered.price() == plain.price()
    fixed, found = (
        stage.prepare(worked(rows, noise_source(4)), data).draw(noise_source(5)).value
        for stage in (plain, offered)
    )
    assert fixed.choice is None
    assert found.mixture.n_components == found.choice.n_components == 2
    assert found.choice == found.sketch.choice(4)
    assert found.choice.max_components == 4
    assert dist_gmm(found.mixture, fixed.mixture) < 0.002
    assert found.misfit <= 5
    assert found.standard_errors.means.shape == (2, d)
    if d > 3:
        assert found.mixture == fixed.mixture
    else:
        # anyone who has the sketch finds the same mixture
        assert found.mixture == found.sketch.choose(4).mixture


def test_an_open_number_of_components_where_no_mixture_explains_the_rows() -> None:
    rows = skewed(6_000)
    data = first_sketch(rows, noise_source(3))
    stage = Finish(2, 2, 6_000, SketchShape.default(2), (0.6 * LEFT) ** -0.5, choose=True)
    found = stage.prepare(worked(rows, noise_source(4)), data).draw(noise_source(5)).value
    assert found.misfit > 5
    assert found.mixture.n_components == found.choice.n_components == 2
    assert found.sketch.rich is not None


def test_fitting_many_components_shows_progress() -> None:
    rows = np.random.default_rng(0).normal(size=(3_000, 2))
    plan = best_plan(3_000, epsilon=2.0, delta=1e-6, n_components=4, n_features=2)
    seen: list[Step] = []
    release(rows, plan, rng=0, watch=seen.append)
    fitted = [step for step in seen if step.unit == "components"]
    assert [(step.what, step.done, step.total) for step in fitted] == [
        ("fitting the sketch", k, 4) for k in (1, 2, 3, 4)
    ]
