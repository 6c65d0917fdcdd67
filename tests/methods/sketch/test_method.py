"""Method `sketch`: priced within its budget, released where others refuse, true to its forecast."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.distances.parameters import dist_gmm
from privgmm.errors import InvalidInput
from privgmm.estimator import PrivateGaussianMixture
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan, calibrate, plan_for
from privgmm.methods.request import PlanRequest
from privgmm.methods.sketch.wide import MANY_COLUMNS
from privgmm.methods.typical import expected_mixture
from privgmm.methods.what_if import (
    LEAST_EPSILON,
    along_rows,
    epsilon_for,
    error_for,
    feasible,
    prospect,
    rows_for,
)
from privgmm.mixture import Mixture
from privgmm.records.receipt import make_receipt, verify_receipt
from privgmm.releases import Release, release
from privgmm.stages.accuracy import error_law, sampling_covariance
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.wide.subspace import SubspaceSketch

TARGET = Mixture(
    [0.4, 0.6], [[-4.0, 0.0], [4.0, 0.0]], [[[2.0, 0.8], [0.8, 1.0]], [[1.0, -0.5], [-0.5, 1.5]]]
)


def asked(n: int, k: int = 2, d: int = 2, **more: Any) -> PlanRequest:
    return PlanRequest(n_components=k, n_features=d, n_rows=n, method="sketch", **more)


def a_plan(n: int, k: int = 2, d: int = 2, **more: Any) -> Plan:
    return plan_for(asked(n, k, d, **more)).plan


def released(rows: Array, plan: Plan, seed: int = 0, **more: Any) -> Release:
    result = release(rows, plan, rng=seed, **more).result
    assert isinstance(result, Release)
    return result


def worst_errors(found: Mixture, truth: Mixture) -> Array:
    """Compute weight, mean and covariance errors of the worst component, best matching."""
    inverse = np.linalg.inv(truth.cholesky)
    best = np.full(3, np.inf)
    for order in itertools.permutations(range(truth.n_components)):
        errors = np.zeros(3)
        for a, b in enumerate(order):
            ratio = inverse[a] @ found.cholesky[b]
            errors = np.maximum(
                errors,
                [
                    abs(found.weights[b] - truth.weights[a]),
                    np.linalg.norm(inverse[a] @ (found.means[b] - truth.means[a])),
                    np.linalg.norm(ratio @ ratio.T - np.eye(truth.n_features)),
                ],
            )
        if errors.sum() < best.sum():
            best = errors
    return best


# ---------------------------------------------------------------------------------- plans


@pytest.mark.parametrize("n", [1_000, 3_000, 20_000, 10**6])
@pytest.mark.parametrize(("k", "d"), [(1, 1), (2, 2), (3, 5), (2, 12)])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 6.0])
def test_no_plan_costs_more_than_its_budget_and_little_is_left(
    n: int, k: int, d: int, epsilon: float
) -> None:
    try:
        plan = a_plan(n, k, d, epsilon=epsilon)
    except InvalidInput as problem:
        assert "no plan is expected to release" in str(problem)  # noqa: PT017 - too few rows
        assert not feasible(asked(n, k, d, epsilon=epsilon))
        return
    spent = plan.spent()
    assert 0.99 * epsilon <= spent.epsilon <= epsilon * (1 + 1e-9)
    assert spent.delta <= 1e-6 * (1 + 1e-9)


@pytest.mark.parametrize("n", [2_000, 50_000])
def test_a_plan_survives_json(n: int) -> None:
    plan = a_plan(n)
    data = json.loads(json.dumps(plan.to_dict()))
    assert Plan.from_dict(data) == plan
    for key, factor in (("multiplier", 0.5), ("sensitivity", 0.9)):
        broken = json.loads(json.dumps(data))
        broken["sketch"][key] *= factor
        if key == "sensitivity":
            with pytest.raises(InvalidInput, match="sensitivity"):
                Plan.from_dict(broken)
        else:
            # less noise is priced as such
            assert not plan.budget.covers(Plan.from_dict(broken).spent())


def test_blocks_vote_only_where_they_are_asked_for() -> None:
    few, many, by_hand = a_plan(2_000), a_plan(10**7), a_plan(50_000, n_blocks=600)
    for plan in (few, many):
        assert [stage.kind for stage in plan.stages] == ["histogram frame", "sketch", "finish"]
        assert "blocks" not in plan.explain()
    assert by_hand.stage(Agreement).n_components == 1
    assert by_hand.n_components == 2
    assert "small blocks of rows vote" in by_hand.explain()


def test_alpha_and_blocks_are_those_of_the_frame() -> None:
    plan = a_plan(50_000, mask_accuracy=1.5, n_blocks=600)
    assert (plan.stage(Agreement).mask_accuracy, plan.stage(Agreement).n_blocks) == (1.5, 600)
    assert plan.budget.covers(plan.spent())


def test_what_it_cannot_be_asked_is_said() -> None:
    with pytest.raises(InvalidInput, match="n_rows must be given"):
        calibrate(
            "sketch", epsilon=1.0, delta=1e-6, alpha=1.0, n_components=2, n_features=2, n_blocks=400
        )
    with pytest.raises(InvalidInput, match="planned for 50000 rows or persons, got 40000"):
        release(TARGET.sample(40_000, rng=0), a_plan(50_000), rng=0)


# -------------------------------------------------------------------------------- releases


@pytest.mark.parametrize(
    ("n", "bars"),
    [(1_000, (0.03, 0.25, 0.7)), (10_000, (0.009, 0.06, 0.12)), (100_000, (0.003, 0.016, 0.03))],
)
def test_the_problem_of_the_studies(n: int, bars: tuple[float, float, float]) -> None:
    """Three runs each, all released; the study has twenty and tighter bars."""
    plan = best_plan(n, method="sketch", epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    errors = []
    for seed in range(3):
        result = released(TARGET.sample(n, rng=50 + seed), plan, seed)
        assert result.misfit is not None
        assert result.misfit <= 5
        errors.append(worst_errors(result.mixture, TARGET))
    assert (np.median(errors, axis=0) <= bars).all()


@pytest.mark.parametrize(
    "truth",
    [
        Mixture([0.5, 0.5], [[-1.0, 0.0], [1.0, 0.0]], [np.eye(2), np.eye(2)]),
        Mixture([0.4, 0.6], [[0.0, 0.0], [0.0, 0.0]], [np.diag([4.0, 0.3]), np.diag([0.4, 3.0])]),
    ],
    ids=["separation 2", "same mean"],
)
def test_overlap_is_released_and_learned(truth: Mixture) -> None:
    """Release overlapping components, which agreement on k components refuses."""
    result = released(truth.sample(100_000, rng=3), a_plan(100_000), 4)
    assert dist_gmm(result.mixture, truth) < 0.06
    assert result.misfit is not None
    assert result.misfit <= 5


def test_too_few_components_are_noticed() -> None:
    three = Mixture([0.3, 0.3, 0.4], [[-5.0, 0.0], [0.0, 4.0], [5.0, 0.0]], [np.eye(2)] * 3)
    rows = three.sample(50_000, rng=5)
    assert (released(rows, a_plan(50_000), 1).misfit or 0) > 5
    assert (released(rows, a_plan(50_000, 3), 1).misfit or 99) <= 5


MOVES = {
    "shift 1e6": (np.eye(2), [1e6, -1e6]),
    "scale 1e-6": (1e-6 * np.eye(2), [0.0, 0.0]),
    "scale 1e9": (1e9 * np.eye(2), [0.0, 0.0]),
    "each column its own unit": (np.diag([1e7, 1e-5]), [3.0, 0.0]),
    "shear 1e5": (np.array([[1.0, 0.0], [1e5, 1.0]]), [5.0, 7.0]),
}


@pytest.mark.parametrize("name", MOVES)
def test_units_do_not_matter(name: str) -> None:
    """In other units, and from sheared rows, the answer differs by noise only."""
    matrix, shift = MOVES[name]
    rows, plan = TARGET.sample(40_000, rng=6), a_plan(40_000)
    moved = released(rows @ matrix.T + shift, plan, 7).mixture
    inverse = np.linalg.inv(matrix)
    back = moved.transformed(inverse, -inverse @ np.asarray(shift))
    assert dist_gmm(back, TARGET) < 0.05


@pytest.mark.parametrize("name", MOVES)
def test_with_blocks_units_do_not_matter_to_the_digit(name: str) -> None:
    """The same seeds give the same answer in other units, and from sheared rows, to 1e-6."""
    matrix, shift = MOVES[name]
    rows = TARGET.sample(40_000, rng=6)
    plan = a_plan(40_000, n_blocks=800)
    assert plan.stage(Agreement).n_components == 1
    plain = released(rows, plan, 7).mixture
    moved = released(rows @ matrix.T + shift, plan, 7).mixture
    inverse = np.linalg.inv(matrix)
    back = moved.transformed(inverse, -inverse @ np.asarray(shift))
    assert dist_gmm(back, plain) < 1e-6
    assert dist_gmm(back, TARGET) < 0.05


def test_a_shear_that_turns_the_columns_changes_the_answer_by_noise_only() -> None:
    matrix = np.array([[1.0, 1e5], [0.0, 1.0]])
    rows = TARGET.sample(40_000, rng=6)
    moved = released(rows @ matrix.T, a_plan(40_000), 7).mixture
    back = moved.transformed(np.linalg.inv(matrix), np.zeros(2))
    assert dist_gmm(back, TARGET) < 0.05


def test_a_few_wild_rows_do_no_harm() -> None:
    rows = TARGET.sample(30_000, rng=8)
    rows[::1000] = 1e12
    result = released(rows, a_plan(30_000), 9)
    assert dist_gmm(result.mixture, TARGET) < 0.05


def test_persons_are_protected_as_persons() -> None:
    rng = np.random.default_rng(10)
    sizes = rng.integers(1, 4, 20_000)
    rows = np.repeat(TARGET.sample(20_000, rng=11), sizes, axis=0)
    groups = np.repeat(np.arange(20_000), sizes)
    result = released(rows, a_plan(20_000, unit="person"), 12, groups=groups)
    assert result.unit == "person"
    assert dist_gmm(result.mixture, TARGET) < 0.05


def test_a_receipt_and_the_estimator_take_it() -> None:
    rows = TARGET.sample(3_000, rng=13)
    model = PrivateGaussianMixture(2, method="sketch", random_state=1).fit(rows)
    assert model.released_
    assert model.outcome_ is not None
    result = model.outcome_.result
    assert isinstance(result, Release)
    assert result.to_dict()["misfit"] == result.misfit
    assert verify_receipt(make_receipt(result)).intact


# ------------------------------------------------------------------------------- forecasts


def test_more_rows_promise_less_error_and_the_promise_is_about_kept() -> None:
    expected = [error_for(asked(n)) for n in (1_000, 10_000, 100_000)]
    assert expected == sorted(expected, reverse=True)
    truth = Mixture([0.5, 0.5], [[-2.0, 0.0], [2.0, 0.0]], [np.eye(2), np.eye(2)])
    plan = a_plan(20_000)
    seen = [
        dist_gmm(released(truth.sample(20_000, rng=s), plan, s).mixture, truth) for s in range(5)
    ]
    assert np.median(seen) == pytest.approx(plan.expected_error().value, rel=0.6)


@pytest.mark.parametrize(("k", "d"), [(1, 10), (3, 5), (4, 8)])
def test_many_columns_are_forecast_with_refinement(k: int, d: int) -> None:
    """Not better than without privacy, and less than twice as bad at a million rows."""
    for n, most in ((10**5, 4.0), (10**6, 2.0)):
        request = asked(n, k, d)
        truth = expected_mixture(request)
        best = error_law(sampling_covariance(truth, n), truth.weights).value
        assert 0.95 * best <= error_for(request) <= most * best


def test_any_number_of_rows_can_be_asked_about() -> None:
    for n in (10**10, 10**16, 10**20):
        assert epsilon_for(asked(n)) == pytest.approx(LEAST_EPSILON)
        assert 0 < error_for(asked(n)) < 1e-3


def test_overlap_is_part_of_the_forecast() -> None:
    near, far = (error_for(asked(50_000, separation=s)) for s in (1.5, 5.0))
    assert near > 2 * far


def test_the_fewest_rows_are_few_and_below_them_nothing_is_promised() -> None:
    fewest = rows_for(asked(1))
    assert 300 < fewest < 1_500
    assert prospect(asked(int(fewest))).pass_probability > 0.9
    nothing = along_rows(asked(1), [fewest / 3])[0]
    assert (nothing.pass_probability, nothing.plan) == (0.0, None)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 14, 20, 30])
def test_twenty_components_are_taken_for_any_number_of_columns(d: int) -> None:
    """The sketch is enlarged where the usual one has too few numbers; the price stays."""
    request = PlanRequest(n_components=20, n_features=d, n_rows=200_000)
    plan = plan_for(request).plan
    assert plan.budget.covers(plan.spent())
    few = plan_for(request.but(n_components=2)).plan
    if d >= MANY_COLUMNS:
        # only few directions are sketched
        wide = plan.stage(SubspaceSketch)
        assert wide.shape.most_components(wide.dimension) >= 20
        return
    finish, other = plan.stage(Finish), few.stage(Finish)
    assert finish.shape.most_components(d) >= 20
    assert finish.multiplier == other.multiplier
    assert other.shape == SketchShape.default(d)


def test_what_a_sketch_cannot_resolve_names_the_method_that_can() -> None:
    request = PlanRequest(n_components=21, n_features=1, n_rows=100_000)
    with pytest.raises(InvalidInput, match=r"at most 20 .*and 1 column, got 21.*'lifted'"):
        plan_for(request)
    by_hand = request.but(method="lifted", mask_accuracy=1.0, n_blocks=400, epsilon=4.0)
    assert plan_for(by_hand).plan.n_components == 21


def test_twenty_components_in_one_column_are_found() -> None:
    means = 6.0 * np.arange(20.0)
    truth = Mixture(np.full(20, 0.05), means[:, None], np.ones((20, 1, 1)))
    plan = best_plan(100_000, epsilon=1.0, delta=1e-6, n_components=20, n_features=1)
    result = released(truth.sample(100_000, rng=3), plan, 4)
    assert np.sort(result.mixture.means[:, 0]) == pytest.approx(means, abs=0.2)
