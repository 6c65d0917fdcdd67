"""A second look at the rows: the kind that is expected to leave less error, from public numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.data.people import ArrayPeople
from privgmm.mixture import Mixture
from privgmm.privacy.noise import NoiseSource, noise_source
from privgmm.stages.sketch import finish
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.finish import Finish, PreparedFinish
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.second_look import SecondLook, compare_looks, refining_steps
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.stage import Published, Work

N = 100_000
FIRST, REST = 7.0, 5.7
THIN = Mixture([0.3, 0.7], [[-1.0], [0.5]], [[[0.002]], [[0.8]]])
OVERLAPPING = Mixture([0.5, 0.5], [[-0.9], [0.9]], [[[0.3]], [[0.4]]])


def looks(mixture: Mixture, first: float = FIRST, rest: float = REST, n: int = N) -> SecondLook:
    d = mixture.n_features
    shape = SketchShape.default(d)
    one, two = (Sketch(shape, multiplier, n, d).deviations for multiplier in (first, rest))
    frame = Frame(np.zeros(d), np.eye(d))
    return compare_looks(mixture, shape.frequencies(frame), one, two, rest, n)


def test_a_second_sketch_is_one_sketch_with_the_whole_budget() -> None:
    together = 1 / math.sqrt(FIRST**-2 + REST**-2)
    seen = looks(OVERLAPPING)
    assert seen.again == pytest.approx(looks(OVERLAPPING, first=together).first, rel=1e-9)
    assert seen.again < seen.first


def test_moments_are_for_components_that_waves_hardly_see() -> None:
    thin, wide = looks(THIN), looks(OVERLAPPING)
    assert thin.refines
    assert thin.error == thin.refined < 0.5 * thin.again
    assert not wide.refines
    assert wide.error == wide.again


def test_components_that_are_not_placed_yet_take_another_sketch() -> None:
    assert SecondLook(0.9, 0.8, 0.1).refines
    assert not SecondLook(1.1, 0.9, 0.1).refines
    assert SecondLook(1.1, 0.9, 0.1).error == 0.9


def test_more_noise_never_helps() -> None:
    for mixture in (THIN, OVERLAPPING):
        quiet, loud = looks(mixture), looks(mixture, first=2 * FIRST, rest=2 * REST)
        assert all(a < b for a, b in zip(quiet[:3], loud[:3], strict=True))


def test_many_columns_always_take_moments() -> None:
    four = Mixture([0.5, 0.5], [[-1, 0, 0, 0], [1, 0, 0, 0]], [0.3 * np.eye(4)] * 2)
    seen = looks(four)
    assert seen.again == math.inf
    assert seen.refines
    assert seen.error == seen.refined < seen.first


@pytest.mark.parametrize("d", [1, 3, 4, 10])
def test_a_cheap_step_comes_first_where_a_fit_of_many_columns_is_coarse(d: int) -> None:
    placed, coarse = (refining_steps(d, error) for error in (0.1, 1.0))
    for steps in (placed, coarse):
        assert math.fsum(step.share for step in steps) == pytest.approx(1.0, rel=1e-15)
    assert len(placed) == 1
    assert len(coarse) == (1 if d <= 3 else 2)
    assert coarse[-1].moments == placed[0].moments
    assert coarse[0].moments.radius >= coarse[-1].moments.radius
    assert coarse[0].share <= coarse[-1].share


def test_so_many_components_that_nobody_tells_still_take_moments_with_many_columns() -> None:
    rng = np.random.default_rng(8)
    many = Mixture(np.full(50, 0.02), rng.standard_normal((50, 4)), [0.3 * np.eye(4)] * 50)
    seen = looks(many)
    assert seen.refines
    assert seen.error == seen.first


def test_without_a_forecast_a_second_sketch_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that is paid for is lost because a matrix cannot be inverted."""

    def fails(*_: object) -> SecondLook:
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(finish, "compare_looks", fails)
    assert not way_of(THIN)[0].looks.refines


def way_of(mixture: Mixture) -> tuple[PreparedFinish, NoiseSource]:
    """Prepare the last stage on rows of the mixture."""
    rows = mixture.sample(N, rng=1)
    source = noise_source(2)
    work = Work(ArrayPeople.of(rows), source)
    shape = SketchShape.default(1)
    first = Sketch(shape, FIRST, N, 1).prepare(work, Frame([0.0], [[1.0]])).draw(source).value
    return Finish(2, 1, N, shape, REST).prepare(work, first), source


@pytest.mark.parametrize(("mixture", "refined"), [(THIN, True), (OVERLAPPING, False)])
def test_the_stage_goes_the_way_of_the_forecast(mixture: Mixture, refined: bool) -> None:
    """After moments the published sketch is the first one; a second sketch is averaged with it."""
    prepared, source = way_of(mixture)
    first = prepared.first
    assert prepared.fit.explains
    assert prepared.looks.refines == refined
    published = prepared.draw(source).value
    assert isinstance(published, Published)
    assert published.sketch is not None
    quieter = published.sketch.deviations / first.deviations
    share = 1.0 if refined else math.sqrt(FIRST**-2 / (FIRST**-2 + REST**-2))
    assert quieter == pytest.approx(np.full(quieter.shape, share), rel=1e-6)
