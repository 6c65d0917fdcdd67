"""Budgets as values: checks, order, and what a guesser gains."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privgmm.budget import Budget
from privgmm.errors import InvalidInput


@given(st.floats(1e-6, 50), st.floats(1e-15, 0.999))
def test_there_and_back(epsilon: float, delta: float) -> None:
    budget = Budget(epsilon, delta)
    assert Budget.from_dict(budget.to_dict()) == budget


@given(st.floats(1e-6, 700), st.floats(1e-15, 0.999))
def test_the_guessing_game(epsilon: float, delta: float) -> None:
    """The best guesser against the worst (epsilon, delta) pair of laws wins this often.

    Four outcomes: two give the data set away with chance delta, two differ by e^epsilon.
    """
    ceiling = Budget(epsilon, delta).guess_ceiling
    share = 1 / (1 + math.exp(-epsilon))
    wins = delta + (1 - delta) * share
    assert ceiling == pytest.approx(wins, rel=1e-12)
    assert 0.5 < ceiling <= 1


def test_covering_is_in_both_numbers() -> None:
    budget = Budget(1.0, 1e-6)
    assert budget.covers(Budget(1.0, 1e-6))
    assert budget.covers(Budget(0.3, 1e-9))
    assert not budget.covers(Budget(1.001, 1e-9))
    assert not budget.covers(Budget(0.3, 1.001e-6))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan, "x", None])
def test_a_bad_epsilon(epsilon: object) -> None:
    with pytest.raises(InvalidInput, match="epsilon"):
        Budget(epsilon, 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [0.0, -0.1, 1.0, 2.0, math.nan])
def test_a_bad_delta(delta: float) -> None:
    with pytest.raises(InvalidInput, match="delta"):
        Budget(1.0, delta)


@pytest.mark.parametrize("data", [{}, {"epsilon": 1.0}, {"delta": 0.1}, None])
def test_a_bad_record(data: object) -> None:
    with pytest.raises(InvalidInput):
        Budget.from_dict(data)  # type: ignore[arg-type]


def test_the_words() -> None:
    assert str(Budget(0.46209812, 1e-6)) == "(ε = 0.4621, δ = 1e-06)"
