"""The tally of a class: one prediction per session, numbers only, gone after two hours."""

from __future__ import annotations

from privgmm.dashboard.shared.tally import Tally


def test_every_session_counts_once_and_may_change_its_mind() -> None:
    tally = Tally()
    for session, words in [(1, "a"), (2, "b"), (3, "b"), (1, "b")]:
        tally.count("question", session, words)
    tally.count("another", 1, "c")
    assert tally.counts("question") == {"b": 3}
    assert tally.counts("another") == {"c": 1}
    assert tally.counts("never asked") == {}


def test_a_prediction_is_forgotten_after_two_hours() -> None:
    now = [0.0]
    tally = Tally(lambda: now[0])
    tally.count("question", 1, "a")
    now[0] = 7000.0
    tally.count("question", 2, "b")
    now[0] = 7201.0
    assert tally.counts("question") == {"b": 1}
    now[0] = 20_000.0
    assert tally.counts("other") == {}
    assert not tally._said
