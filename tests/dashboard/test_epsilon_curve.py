"""The point that is dragged along the curve moves the slider, once for each move."""

from __future__ import annotations

from typing import Any

import pytest
import streamlit as st

from privgmm.dashboard.explore import epsilon_curve


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    held: dict[str, Any] = {"epsilon": 1.0}
    monkeypatch.setattr(st, "session_state", held)
    return held


def _told(epsilon: object, sequence: int | None) -> dict[str, Any]:
    return {"moved": {"epsilon": epsilon, "sequence": sequence}}


def _run() -> None:
    """Follow the hand, and render the slider."""
    epsilon_curve.follow_hand()
    epsilon_curve.hand_followed()


def test_a_move_is_taken_once(session: dict[str, Any]) -> None:
    """The browser repeats its last move with every message; the slider may have moved since."""
    session["epsilon_curve"] = _told(0.5, 1000)
    _run()
    assert session["epsilon"] == 0.5
    session["epsilon"] = 2.0
    _run()
    assert session["epsilon"] == 2.0
    session["epsilon_curve"] = _told(0.8, 1001)
    _run()
    assert session["epsilon"] == 0.8


def test_a_move_is_not_taken_again_after_the_curve_was_away(session: dict[str, Any]) -> None:
    session["epsilon_curve"] = _told(0.5, 1000)
    _run()
    session["epsilon"] = 2.0
    del session["epsilon_curve"]
    _run()
    session["epsilon_curve"] = _told(0.5, 1000)
    _run()
    assert session["epsilon"] == 2.0


def test_a_move_is_taken_again_if_the_run_stopped_before_the_slider(
    session: dict[str, Any],
) -> None:
    """The browser then still sends the slider's earlier value."""
    session["epsilon_curve"] = _told(0.5, 1000)
    epsilon_curve.follow_hand()
    session["epsilon"] = 1.0
    _run()
    assert session["epsilon"] == 0.5


@pytest.mark.parametrize(
    "report", [None, {}, {"moved": None}, _told(0.12345, 7), _told("1", 7), _told(0.5, None)]
)
def test_what_is_no_stop_moves_nothing(session: dict[str, Any], report: object) -> None:
    session["epsilon_curve"] = report
    _run()
    assert session["epsilon"] == 1.0
