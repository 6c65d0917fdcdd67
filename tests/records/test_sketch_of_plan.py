"""`verify` holds every published sketch against its plan: frame, rows, waves and noise."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan, plan_for
from privgmm.methods.request import PlanRequest
from privgmm.mixture import Mixture
from privgmm.records.document import digest
from privgmm.records.receipt import (
    _SEEDED,
    make_receipt,
    receipt_text,
    verify_receipt,
)
from privgmm.releases import release
from privgmm.results import Release
from privgmm.stages.sketch.agreement_frame import FrameAgreement
from privgmm.stages.sketch.error_covariances import MomentNoise
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.sketch.stage import Sketch

TWO = Mixture(
    [0.4, 0.6], [[-4.0, 0.0], [4.0, 0.0]], [[[2, 0.8], [0.8, 1]], [[1, -0.5], [-0.5, 1.5]]]
)
FOUR = Mixture([0.4, 0.6], [np.full(4, -1.5), np.full(4, 1.5)], [np.eye(4), 0.5 * np.eye(4)])


def skewed(n: int) -> Array:
    rng = np.random.default_rng(1)
    return np.stack([rng.gamma(1.5, 1.0, n), rng.gamma(2.0, 2.0, n) + rng.normal(size=n)], axis=1)


class Route(NamedTuple):
    """Rows, what is asked for, and what the release must have been made of."""

    rows: Callable[[int], Array]
    n: int
    asked: dict[str, Any]
    frame: type
    averaged: bool
    rich: bool


def drawn_from(mixture: Mixture, n: int) -> Array:
    return mixture.sample(n, rng=2)


two, four = functools.partial(drawn_from, TWO), functools.partial(drawn_from, FOUR)

ROUTES = {
    "second sketch, agreement frame": Route(
        two, 50_000, {"n_blocks": 700}, FrameAgreement, True, False
    ),
    "second sketch, histogram frame": Route(two, 50_000, {}, HistogramFrame, True, False),
    "refined": Route(four, 60_000, {}, HistogramFrame, False, False),
    "rich": Route(skewed, 50_000, {}, HistogramFrame, False, True),
    "open k": Route(
        two, 50_000, {"n_components": 4, "choose_components": True}, HistogramFrame, True, False
    ),
    "open k, refined": Route(
        four, 60_000, {"n_components": 4, "choose_components": True}, HistogramFrame, False, False
    ),
    "tied": Route(two, 50_000, {"covariance_type": "tied"}, HistogramFrame, True, False),
    "tied, rich": Route(skewed, 50_000, {"covariance_type": "tied"}, HistogramFrame, False, True),
    "diagonal, explained": Route(
        four, 60_000, {"covariance_type": "diag"}, HistogramFrame, True, False
    ),
}


@functools.cache
def released(name: str) -> Release:
    route = ROUTES[name]
    rows = route.rows(route.n)
    asked = {"n_components": 2, "n_features": rows.shape[1], "n_rows": route.n} | route.asked
    result = release(rows, plan_for(PlanRequest(**asked)).plan, rng=5).result
    assert isinstance(result, Release)
    return result


def problems(result: Release) -> tuple[str, ...]:
    """What is wrong, apart from the seed that the tests use."""
    found = verify_receipt(receipt_text(make_receipt(result)))
    return () if found.intact else found.problems


def with_sketch(result: Release, **changes: Any) -> Release:
    return dataclasses.replace(result, sketch=dataclasses.replace(result.sketch, **changes))


@pytest.mark.parametrize("name", ROUTES)
def test_an_honest_release_verifies_by_every_route(name: str) -> None:
    route, result = ROUTES[name], released(name)
    first = result.plan.stage(Sketch).noise
    assert isinstance(result.plan.stages[0], route.frame)
    assert (result.sketch.noise < 0.99 * first).all() == route.averaged
    assert (result.sketch.rich is not None) == route.rich
    assert problems(result) == ()


def test_columns_do_not_matter() -> None:
    receipt = make_receipt(released("rich"), columns=["width", "height"])
    assert verify_receipt(receipt_text(receipt)).intact


def test_a_sketch_of_a_larger_budget_does_not_verify() -> None:
    rows = two(20_000)
    dear, cheap = (
        best_plan(20_000, epsilon=epsilon, delta=1e-6, n_components=2, n_features=2)
        for epsilon in (8.0, 0.3)
    )
    result = release(rows, dear, rng=0).result
    assert isinstance(result, Release)
    assert problems(result) == ()
    passed_off = dataclasses.replace(result, plan=cheap, budget=cheap.spent())
    assert any("noise" in one for one in problems(passed_off))


@pytest.mark.parametrize("name", ROUTES)
def test_other_noise_does_not_verify(name: str) -> None:
    result = released(name)
    for factor in (1e-3, 0.5, 0.999, 1.001, 2.0):
        changed = with_sketch(result, noise=factor * result.sketch.noise)
        assert problems(changed) == ("the noise on the sketch is not that of the plan",)
    # one frequency is enough
    noise = result.sketch.noise.copy()
    noise[-1] *= 0.9
    assert problems(with_sketch(result, noise=noise))


def test_a_rich_sketch_has_the_noise_of_the_first_alone() -> None:
    rich, plain = released("rich"), released("second sketch, histogram frame")
    plan: Plan = plain.plan
    assert rich.plan.stages[1:] == plan.stages[1:], "they differ in the rows alone"
    assert problems(with_sketch(rich, noise=plain.sketch.noise))


@pytest.mark.parametrize("name", ROUTES)
def test_a_sketch_that_is_left_out_is_missed(name: str) -> None:
    """A mixture next to no sketch could be any, such as a fit without noise."""
    bare = dataclasses.replace(released(name), sketch=None)
    assert problems(bare)[-1] == "the plan draws a sketch, and none is there"


@pytest.mark.parametrize("name", ["rich", "tied, rich"])
def test_other_noise_on_the_rich_mixture_does_not_verify(name: str) -> None:
    result = released(name)
    assert result.sketch.rich_noise == pytest.approx(result.plan.stage(Finish).rich_noise)
    for factor in ([0.0, 1.0, 1.0], [1.0, 0.999, 1.0], [1.0, 1.0, 2.0]):
        noise = MomentNoise(*(np.array(factor) * result.sketch.rich_noise))
        assert problems(with_sketch(result, rich_noise=noise)) == (
            "the noise on the rich mixture is not that of the plan",
        )
    assert problems(with_sketch(result, rich_noise=None)) == (
        "a rich mixture must be there exactly if its noise is",
    )
    rich = result.sketch.rich_in_frame
    many = Mixture(
        np.full(17, 1 / 17), np.resize(rich.means, (17, 2)), np.resize(rich.covariances, (17, 2, 2))
    )
    assert problems(with_sketch(result, rich_in_frame=many)) == (
        "the plan makes no rich mixture of 17 components",
    )


@pytest.mark.parametrize("n", [1, 49_999, 50_001, 10**9])
def test_another_number_of_rows_does_not_verify(n: int) -> None:
    changed = with_sketch(released("rich"), n_rows=n)
    assert problems(changed) == (
        f"the sketch is of {n} rows or persons, but the plan draws one of 50000",
    )


@pytest.mark.parametrize("factor", [0.5, 1.0001, 3.0])
def test_another_step_does_not_verify(factor: float) -> None:
    result = released("rich")
    assert "apart" in problems(with_sketch(result, step=factor * result.sketch.step))[0]


@pytest.mark.parametrize("number", [0, 1, -1])
def test_other_directions_do_not_verify(number: int) -> None:
    result = released("refined")
    directions = result.sketch.directions.copy()
    directions[number] = np.roll(directions[number], 1)
    found = problems(with_sketch(result, directions=directions))
    assert found == ("the directions of the sketch are not those of the plan in its frame",)


def test_directions_are_those_of_the_frame() -> None:
    """Values measured in one frame say other things in another."""
    result = released("rich")
    frame = Frame(result.sketch.frame.centre, result.sketch.frame.root @ [[0.6, -0.8], [0.8, 0.6]])
    assert "directions" in problems(with_sketch(result, frame=frame))[0]


def test_another_number_of_waves_does_not_verify() -> None:
    result = released("rich")
    sketch: PrivateSketch = result.sketch
    d, length = len(sketch.directions), sketch.n_frequencies
    values = sketch.values.reshape(d, length)
    fewer = with_sketch(result, directions=sketch.directions[:-1], values=values[:-1].ravel())
    shorter = with_sketch(result, values=values[:, :-1].ravel(), noise=sketch.noise[:-1])
    for changed in (fewer, shorter):
        assert "directions of" in problems(changed)[0]


def test_a_sketch_of_other_columns_does_not_verify() -> None:
    """The stage of the plan counts, not only the plan's own number of columns."""
    result = released("rich")
    stages = (
        result.plan.stages[0],
        dataclasses.replace(result.plan.stage(Sketch), n_features=3),
        result.plan.stages[2],
    )
    passed_off = dataclasses.replace(result, plan=dataclasses.replace(result.plan, stages=stages))
    assert "of 2 columns, but the plan draws one of 3" in " ".join(problems(passed_off))


def test_a_plan_without_a_sketch_publishes_none() -> None:
    result = released("rich")
    plan = best_plan(10**7, method="lifted", epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    passed_off = dataclasses.replace(result, plan=plan, budget=plan.spent())
    said = " ".join(problems(passed_off))
    assert "there is a sketch, and a plan of method 'lifted' draws none" in said
    assert "ranges, and the plan looks for none" in said


def test_directions_that_would_take_minutes_are_refused_at_once() -> None:
    result = released("refined")
    sketch = result.sketch
    many = 9_000
    shape = dataclasses.replace(result.plan.stage(Sketch).shape, n_directions=many)
    stages = (
        result.plan.stages[0],
        dataclasses.replace(result.plan.stage(Sketch), shape=shape),
        dataclasses.replace(result.plan.stage(Finish), shape=shape),
    )
    plan = dataclasses.replace(result.plan, stages=stages)
    bomb = dataclasses.replace(
        with_sketch(
            result,
            directions=np.resize(sketch.directions, (many, 4)),
            values=np.resize(sketch.values, many * sketch.n_frequencies),
            noise=plan.stage(Sketch).noise,
        ),
        plan=plan,
    )
    assert "too many to check" in " ".join(problems(bomb))


@pytest.mark.parametrize("multiplier", [1e-200, 1e-9, 999_999.0])
def test_any_noise_of_a_plan_is_compared_without_a_warning(multiplier: float) -> None:
    result = released("refined")
    plan = result.plan
    for stages in (
        (dataclasses.replace(plan.stage(Sketch), multiplier=multiplier), plan.stage(Finish)),
        (plan.stage(Sketch), dataclasses.replace(plan.stage(Finish), multiplier=multiplier)),
    ):
        written = {**make_receipt(result), "plan": plan.but(plan.stages[0], *stages).to_dict()}
        assert not verify_receipt(written).intact


@pytest.mark.parametrize("name", ["scale", "sensitivity"])
@pytest.mark.parametrize("off", [-1, 1])
def test_whole_numbers_of_a_plan_hold_exactly(name: str, off: int) -> None:
    receipt = make_receipt(released("rich"))
    receipt["plan"]["sketch"][name] += off
    assert f"sketch.{name} must be" in " ".join(found_in(receipt))


@pytest.mark.parametrize("n", [1, 49_999, 50_001])
def test_rows_asked_for_are_those_of_the_sketch(n: int) -> None:
    receipt = make_receipt(released("rich"))
    receipt["plan"]["request"]["n_rows"] = n
    assert "request.n_rows must be 50000" in " ".join(found_in(receipt))


def found_in(receipt: dict[str, Any]) -> tuple[str, ...]:
    """What is wrong with a receipt whose hash follows its content."""
    content = {key: value for key, value in receipt.items() if key != "sha256"}
    return verify_receipt({**content, "sha256": digest(content)}).problems


@functools.cache
def recorded() -> Release:
    """A release of a column of whole numbers that is zero for most rows."""
    rng = np.random.default_rng(1)
    rows = np.column_stack([rng.normal(size=20_000), np.rint(rng.normal(40, 9, size=20_000))])
    rows[rng.random(20_000) < 0.3, 1] = 0.0
    plan = plan_for(PlanRequest(n_components=2, n_features=2, n_rows=20_000)).plan
    result = release(rows, plan, rng=5).result
    assert isinstance(result, Release)
    assert result.atoms
    assert 1.0 in result.steps
    assert problems(result) == ()
    return result


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"share": 0.31234567}, "no part of"),
        ({"share": 0.001}, "below what the plan shows"),
        ({"share": 0.0}, "must be more than 0"),
        ({"share": 1.5}, "must be at most 1"),
        ({"column": "x3"}, "a column that the mixture does not have"),
    ],
)
def test_atoms_that_the_plan_cannot_find(change: dict[str, Any], words: str) -> None:
    receipt = make_receipt(recorded())
    receipt["atoms"][0] |= change
    assert words in " ".join(found_in(receipt))


def test_atoms_named_twice_and_other_grids_do_not_verify() -> None:
    receipt = make_receipt(recorded())
    twice = {**receipt, "atoms": receipt["atoms"] * 2}
    assert "named twice" in " ".join(found_in(twice))
    for steps in ([None, 0.3], [None], [None, 1.0, 1.0]):
        assert "grid" in " ".join(found_in({**receipt, "steps": steps})) or len(steps) != 2
        assert found_in({**receipt, "steps": steps})[0] != _SEEDED


def test_atoms_of_a_plan_that_looks_for_none() -> None:
    values = {"atoms": make_receipt(recorded())["atoms"]}
    receipt = make_receipt(released("second sketch, agreement frame"))
    assert "looks for none" in " ".join(found_in({**receipt, **values}))


def test_accuracy_that_standard_errors_contradict() -> None:
    receipt = make_receipt(released("second sketch, histogram frame"))
    assert "resolved" in receipt["resolution"]
    wide = json.loads(json.dumps(receipt))
    wide["standard_errors"]["mean_covariances"] = receipt["mixture"]["covariances"]
    assert "as wide as itself" in " ".join(found_in(wide))
    astray = json.loads(json.dumps(receipt))
    astray["standard_errors"]["well_specified"] = False
    assert "no distance to a truth" in " ".join(found_in(astray))
