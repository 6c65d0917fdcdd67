"""Errors carry fields, and every door words them in its own names."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from privgmm.errors import PLAIN, InvalidInput, MethodName, Problem, Wording
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest
from privgmm.releases import release

DOOR = Wording(
    {
        "n_blocks": "t",
        "epsilon": "ε",
        "delta": "δ",
        "alpha": "α",
        "mask_accuracy": "µ",
        "X": "the table",
    },
    number=lambda number: f"<{number}>",
    method=str.upper,
)


def asked(**changes: Any) -> PlanRequest:
    usual = {"n_components": 2, "n_features": 2, "n_rows": 5_000}
    return PlanRequest(**(usual | changes))


def test_the_parts_make_the_sentence() -> None:
    problem = Problem("must be at least {least}", "n_blocks", 3, "use more", {"least": 5})
    assert str(problem) == "n_blocks must be at least 5, got 3: use more"
    assert problem.worded(DOOR) == "t must be at least 5, got 3: use more"
    assert str(InvalidInput(problem)) == str(problem)


def test_a_message_alone_is_left_as_it_is() -> None:
    """A message alone may quote what a user typed, braces included."""
    assert str(InvalidInput("no column {epsilon}")) == "no column {epsilon}"
    assert InvalidInput("no column {epsilon}").worded(DOOR) == "no column {epsilon}"


def test_what_somebody_typed_is_not_filled_in() -> None:
    problem = Problem("must be a name of {most}", "column", "{most}", facts={"most": 7})
    assert str(problem) == "column must be a name of 7, got '{most}'"


def test_an_error_survives_pickling_with_its_fields() -> None:
    error = InvalidInput("must be small", argument="alpha", value=2.0)
    other = pickle.loads(pickle.dumps(error))
    assert str(other) == str(error)
    assert other.argument == "alpha"
    assert other.worded(DOOR) == "α must be small, got <2.0>"


CASES: dict[str, tuple[Any, str]] = {
    "n_blocks": (lambda: asked(n_blocks=3), "t must be at least 5, got 3"),
    "epsilon": (lambda: asked(epsilon=0.0), "ε must be positive and finite, got <0.0>"),
    "delta": (lambda: asked(delta=2.0), "δ must be positive and finite and below <1.0>, got <2.0>"),
    "mask_accuracy": (
        lambda: plan_for(asked(mask_accuracy=2.0, method="tight")),
        "µ must be at most <1.0> for TIGHT, got <2.0>",
    ),
    "X": (
        lambda: release(np.full((5_000, 2), np.nan), plan_for(asked()).plan),
        "the table must be finite",
    ),
}


@pytest.mark.parametrize("argument", CASES)
def test_a_door_uses_its_own_names(argument: str) -> None:
    make, words = CASES[argument]
    with pytest.raises(InvalidInput) as raised:
        make()
    assert raised.value.argument == argument
    assert raised.value.worded(DOOR).startswith(words)
    assert raised.value.worded(PLAIN) == str(raised.value)
    assert str(raised.value).startswith(argument)


def test_remedies_speak_of_arguments_and_methods_in_the_words_of_the_door() -> None:
    with pytest.raises(InvalidInput) as raised:
        plan_for(asked(n_rows=300, epsilon=0.1, method="lifted"))
    words = raised.value.worded(DOOR)
    assert "set µ and t" in words
    assert "n_blocks" not in words
    short = plan_for(asked(mask_accuracy=0.5, method="tight")).shortage
    assert short is not None
    assert short.worded(DOOR).startswith("TIGHT takes about")
    assert "SKETCH is expected to release" in short.worded(DOOR)
    assert MethodName("tight") in short.facts.values()
