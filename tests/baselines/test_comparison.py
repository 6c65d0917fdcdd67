"""Runs of a comparison: the same rows for all, seeded, measured as the studies measure."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.release import PROBLEM
from benchmarks.release import errors as study_errors
from privgmm import Budget
from privgmm.baselines import all_baselines
from privgmm.baselines.comparison import (
    WITHOUT_PRIVACY,
    Absent,
    Errors,
    LearningProblem,
    contender,
    contenders,
    measured_errors,
    run,
)
from privgmm.data.generators import overlapping, random_mixture
from privgmm.errors import InvalidInput
from privgmm.methods import registry

ONE = Budget(1.0, 1e-6)


def test_everybody_takes_part() -> None:
    found = contenders()
    assert len({one.key for one in found}) == len(found)
    titles = [one.title for one in found]
    assert titles == [
        *(method.title for method in registry.all_methods()),
        *(baseline.title for baseline in all_baselines()),
        WITHOUT_PRIVACY.title,
    ]
    assert [one.private for one in found] == [True] * (len(found) - 1) + [False]
    ours = found[: len(registry.names())]
    assert {one.told for one in ours} == {"nothing"}
    with pytest.raises(InvalidInput, match="nobody"):
        contender("nobody")


@pytest.mark.parametrize("key", [one.key for one in contenders()])
def test_a_run_follows_from_its_seed(key: str) -> None:
    problem = LearningProblem.changed(PROBLEM)
    first = run(key, problem, 3_000, ONE, 4)
    assert first == run(key, LearningProblem.changed(PROBLEM), 3_000, ONE, 4)
    if isinstance(first, Errors):
        assert first != run(key, problem, 3_000, ONE, 5)


CHANGES = ({"shift": 1e4}, {"scale": 100.0}, {"shear": 10.0})


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_who_is_told_nothing_does_not_notice_other_units(change: dict[str, float]) -> None:
    """Blocks agree to four digits, and learners that were given a box fall apart.

    Cells of histograms do not move with the rows: other units mean other noise, and no more.
    """
    plain, moved = LearningProblem.changed(PROBLEM), LearningProblem.changed(PROBLEM, **change)
    by_cells = {f"ours:{one.name}" for one in registry.all_methods() if one.publishes_sketch}
    for one in contenders():
        before, after = (run(one.key, problem, 40_000, ONE, 1) for problem in (plain, moved))
        if isinstance(before, Absent):
            assert one.told == "nothing"
            assert after == before
            continue
        assert isinstance(after, Errors)
        if one.key in by_cells:
            assert max(before.distance, after.distance) < 0.015
        elif one.told == "nothing":
            assert after.distance == pytest.approx(before.distance, rel=1e-4)
            assert after.mean == pytest.approx(before.mean, rel=1e-4)
            assert after.covariance == pytest.approx(before.covariance, rel=1e-4)
        else:
            assert before.distance < 0.5
            assert after.distance > 0.9


def test_bounds_too_wide_or_too_tight_cost_those_who_need_them() -> None:
    key = f"baseline:{all_baselines()[-1].name}"
    right, wide, tight = (
        run(key, LearningProblem.changed(PROBLEM, width=width), 50_000, ONE, 2)
        for width in (1, 100, 0.2)
    )
    assert isinstance(right, Errors)
    for wrong in (wide, tight):
        assert isinstance(wrong, Errors)
        assert wrong.distance > 3 * right.distance


def test_too_few_rows_and_refusals_are_told_apart() -> None:
    names = registry.names()
    few = run("ours:paper", LearningProblem.changed(PROBLEM), 1_000, ONE, 1)
    assert isinstance(few, Absent)
    assert not few.refused
    assert few.rows_needed is not None
    assert few.rows_needed > 1e6
    # blocks that cannot tell the two components apart do not agree
    problem = LearningProblem.changed(overlapping(2, 2, rng=1))
    ended = [run(f"ours:{name}", problem, 60_000, ONE, 1) for name in names]
    refused = [one for one in ended if isinstance(one, Absent) and one.refused]
    assert refused
    assert all(one.reason for one in refused)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_errors_are_those_of_the_studies(k: int) -> None:
    truth = random_mixture(k, 3, separation=5.0, condition=5.0, weights="unequal", rng=k)
    found = random_mixture(k, 3, separation=5.0, condition=5.0, weights="unequal", rng=k)
    near = found.transformed(1.05 * np.eye(3), 0.02 * np.ones(3)).permuted(range(k)[::-1])
    mean, covariance, _ = study_errors(truth, near)
    measured = measured_errors(truth, near)
    assert measured.mean == pytest.approx(mean)
    assert measured.covariance == pytest.approx(covariance)
    same = measured_errors(truth, truth)
    assert max(same.mean, same.covariance) < 1e-7
    matrix = np.triu(np.random.default_rng(0).standard_normal((3, 3))) + 3 * np.eye(3)
    there = measured_errors(*(one.transformed(matrix, [1e3, 0.0, -5.0]) for one in (truth, near)))
    assert there.distance == pytest.approx(measured.distance, rel=1e-6)
    assert there.mean == pytest.approx(measured.mean, rel=1e-6)
    assert there.covariance == pytest.approx(measured.covariance, rel=1e-6)


def test_problems_are_questions_that_can_be_remembered() -> None:
    one, same = (LearningProblem.changed(PROBLEM, shift=3.0) for _ in range(2))
    assert one == same
    assert hash(one) == hash(same)
    others = (
        LearningProblem.changed(PROBLEM),
        LearningProblem.changed(PROBLEM, shift=3.0, width=10.0),
        LearningProblem.changed(PROBLEM, shift=3.0, scale=2.0),
        LearningProblem.changed(PROBLEM, shift=3.0, shear=2.0),
    )
    assert len({one, *others}) == 5
    rows, labels = one.rows(100, 7)
    plain, same_labels = LearningProblem.changed(PROBLEM).rows(100, 7)
    np.testing.assert_allclose(rows, plain + 3.0)
    np.testing.assert_array_equal(labels, same_labels)


def test_the_change_is_the_one_asked_for() -> None:
    problem = LearningProblem.changed(PROBLEM, shift=1.0, scale=2.0, shear=5.0)
    rows, _ = LearningProblem.changed(PROBLEM).rows(10, 0)
    changed, _ = problem.rows(10, 0)
    np.testing.assert_allclose(changed[:, 0], 2 * rows[:, 0] + 1)
    np.testing.assert_allclose(changed[:, 1], 2 * (rows[:, 1] + 5 * rows[:, 0]) + 1)
    assert problem.told == LearningProblem.changed(PROBLEM).told
