"""What-if answers agree with one another: more never hurts, and solving is undone by asking."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import pytest

from privgmm.methods import METHODS
from privgmm.methods.request import PlanRequest
from privgmm.methods.what_if import (
    along_rows,
    alpha_for,
    epsilon_for,
    error_for,
    feasible,
    prospect,
    rows_for,
)


def asked(k: int, d: int, **more: Any) -> PlanRequest:
    """A question about k components in d dimensions."""
    return PlanRequest(n_components=k, n_features=d, **more)


PLANE, LINE = asked(2, 2), asked(1, 1)


@functools.cache
def fewest(request: PlanRequest, method: str, epsilon: float = 1.0) -> float:
    """`rows_for`, once for all tests."""
    return rows_for(request.but(method=method, epsilon=epsilon))


def test_headline_rows() -> None:
    """Two components in the plane at epsilon 1, delta 1e-6, alpha 1/2: three methods apart."""
    rows = {method: fewest(PLANE, method) for method in METHODS}
    assert rows["paper"] == pytest.approx(8e18, rel=0.05)
    assert rows["tight"] == pytest.approx(3e8, rel=0.15)
    assert 1.5e4 < rows["lifted"] < 4e4
    assert 300 < rows["sketch"] < 1500


@pytest.mark.parametrize("method", METHODS)
def test_more_privacy_never_asks_for_fewer_rows(method: str) -> None:
    rows = [fewest(PLANE, method, epsilon) for epsilon in (1.0, 2.0, 6.0)]
    assert rows == sorted(rows, reverse=True)


@pytest.mark.parametrize(
    ("method", "harder"),
    [
        ("tight", asked(2, 2, delta=1e-9)),
        ("tight", asked(3, 2)),
        ("tight", asked(2, 3)),
        ("tight", asked(2, 2, smallest_weight=0.15)),
        ("lifted", asked(2, 2, delta=1e-9)),
        ("lifted", asked(3, 2)),
        ("lifted", asked(2, 2, forgiving=True)),
    ],
)
def test_harder_questions_ask_for_more_rows(method: str, harder: PlanRequest) -> None:
    assert fewest(harder, method, 2.0) > fewest(PLANE, method, 2.0)


def test_more_rows_never_ask_for_a_larger_epsilon_or_alpha() -> None:
    lifted = [epsilon_for(LINE.but(n_rows=n)) for n in (10**4, 10**5)]
    assert lifted[0] > lifted[1] > 0
    tight = [alpha_for(PLANE.but(method="tight", n_rows=n)) for n in (3 * 10**8, 10**11)]
    assert tight[0] > tight[1] > 0


@pytest.mark.parametrize(("method", "epsilon"), [("tight", 2.0), ("lifted", 2.0)])
def test_rows_and_epsilon_are_inverse_to_grid_accuracy(method: str, epsilon: float) -> None:
    """The rows found at epsilon allow it, or a little less, which asks for no more rows.

    Rows lie on a grid of sixteen to the decade (15 %), epsilon on one of steps of 3 %.
    """
    rows = fewest(PLANE, method, epsilon)
    back = epsilon_for(PLANE.but(method=method, n_rows=int(rows)))
    assert back <= epsilon * 1.031
    assert back >= epsilon * 0.75
    assert rows_for(PLANE.but(method=method, epsilon=back * 1.001)) <= rows * 1.001


def test_alpha_found_is_an_alpha_the_rows_allow() -> None:
    tight = PLANE.but(method="tight", n_rows=10**10)
    alpha = alpha_for(tight)
    assert 0 < alpha < 1
    assert rows_for(tight.but(alpha=alpha)) == pytest.approx(10**10, rel=0.1)
    assert error_for(tight) == alpha


def test_what_cannot_be_reached_is_infinite() -> None:
    few, tiny = PLANE.but(n_rows=1000), PLANE.but(n_rows=10**6, epsilon=0.001)
    assert epsilon_for(few) == math.inf
    assert epsilon_for(PLANE.but(method="paper", n_rows=10**10)) == math.inf
    assert alpha_for(PLANE.but(method="tight", n_rows=10**4)) == math.inf
    assert alpha_for(few) == math.inf
    assert error_for(few) == math.inf
    assert not feasible(few)
    assert rows_for(tiny) == math.inf
    nothing = prospect(tiny)
    assert (nothing.pass_probability, nothing.plan) == (0.0, None)
    assert along_rows(tiny, [1e6])[0].plan is None


def test_lifted_rows_reach_beyond_a_billion() -> None:
    """At the smallest epsilon that ten billion rows allow, rows are still a finite number."""
    epsilon = epsilon_for(LINE.but(n_rows=10**10))
    assert math.isfinite(epsilon)
    assert rows_for(LINE.but(epsilon=1.001 * epsilon)) <= 1.2e10


@pytest.mark.parametrize("method", METHODS)
def test_chances_rise_with_rows(method: str) -> None:
    enough = fewest(PLANE, method)
    rows = [float(enough) * factor for factor in (0.05, 0.3, 0.8, 1.0, 3.0, 30.0)]
    points = along_rows(PLANE.but(method=method), rows, enough=enough)
    chances = [point.pass_probability for point in points]
    # within the scatter of a few simulated sets of blocks
    assert all(b >= a - 0.02 for a, b in itertools.pairwise(chances))
    assert chances[0] == 0
    assert chances[3] >= 0.9
    assert chances[-1] >= 0.95


def test_lifted_errors_fall_towards_those_without_privacy_within_the_budget() -> None:
    enough = fewest(PLANE, "lifted")
    points = along_rows(PLANE, [enough, 10 * enough, 1e12], enough=enough)
    errors = [point.error for point in points]
    assert errors == sorted(errors, reverse=True)
    for point in points:
        assert point.plan is not None
        spent = point.plan.spent()
        assert spent.epsilon <= 1.0
        assert spent.delta <= 1e-6
    # one plan refined anew is nearly as good as a plan searched for these rows
    (found,) = along_rows(PLANE, [10 * enough], enough=10 * enough)
    assert points[1].error <= 1.35 * found.error


def test_answers_depend_on_the_question_alone() -> None:
    tight = PLANE.but(method="tight")
    first = along_rows(tight, [1e8, 3e8])
    assert along_rows(asked(2, 2, method="tight"), [1e8, 3e8]) == first
    assert prospect(tight.but(n_rows=3 * 10**8)) == first[1]


def test_what_is_expected_is_what_the_plan_at_hand_promises() -> None:
    """One question has one number: the error at hand is that of the curve through it."""
    request = PLANE.but(n_rows=100_000)
    expected = error_for(request)
    (point,) = along_rows(request, [100_000])
    assert expected == point.error
    assert feasible(request) == (rows_for(request) <= 100_000)
