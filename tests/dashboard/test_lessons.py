"""Links and lessons on every page that has controls: hidden, pinned, restored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
from streamlit.testing.v1 import AppTest

from privgmm.dashboard.planner import solve as foresight
from privgmm.dashboard.shared import refresh as waiting

APP = str(Path(__file__).resolve().parents[2] / "app.py")

STATES: dict[str, dict[str, str | list[str]]] = {
    "Look_again": {
        "look_from": "Example",
        "look_k": "2",
        "look_type": "Tied",
        "look_at": "Known values",
        "known": "weight",
        "given_1": "70",
    },
    "How_it_works": {"film": "Averaging", "step": "3"},
    "Theorem_1_8": {
        "zoom": "100×",
        "x1": "-1.5",
        "y1": "0",
        "along1": "1",
        "across1": "1",
        "turn1": "10",
        "x2": "0.25",
        "y2": "0.5",
        "along2": "1.2",
        "across2": "1.1",
        "turn2": "60",
        "dimensions": ["2", "20"],
        "kinds": ["● both"],
        "ratio": "true",
    },
    "Planner": {
        "solve": "Rows",
        "components": "3",
        "columns": "2",
        "budget": "2.5",
        "failure": "10⁻⁷",
        "accuracy": "0.3",
        "weight": "0.2",
        "whatif": "false",
    },
    "Audit": {"audit": "Guess", "audit_epsilon": "2", "noise": "off", "person": "worst case"},
}
"""For each page, what an address can hold: all of it, away from the defaults where possible."""

CONTROLS = {
    "Look_again": {"look_from", "look_k", "look_type", "known", "given_1"},
    "How_it_works": {"film"},
    "Theorem_1_8": {"zoom", "x1", "turn2", "dimensions", "kinds", "ratio"},
    "Planner": {"solve", "components", "budget", "failure", "accuracy", "weight"},
    "Audit": {"audit", "audit_epsilon", "noise", "person"},
}
"""What a lesson hides; what is left, such as the film's Play, is what it is about."""

_TURNS = {"Look_again": 3}
"""Where one answer leads to the next: how many come one after another."""


def _open(page: str, **query: str | list[str]) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120)
    for name, value in query.items():
        app.query_params[name] = value
    app.switch_page(f"pages/{page}.py").run()
    for _ in range(_TURNS.get(page, 1)):
        foresight.PLANNER_POOL.settle()
        waiting.PAGE_POOL.settle()
        app.run()
    assert not app.exception
    return app


def _hidden(block: Any, inside: bool = False) -> Iterator[str]:
    """Keys of the widgets inside hidden panels."""
    for child in block.children.values():
        here = inside or "hidden-" in str(getattr(child.proto, "id", ""))
        if hasattr(child, "children"):
            yield from _hidden(child, here)
        elif here and getattr(child, "key", None):
            yield str(child.key)


def _link(app: AppTest) -> dict[str, str | list[str]]:
    query = parse_qs(urlparse(app.code[0].value).query)
    return {name: values if len(values) > 1 else values[0] for name, values in query.items()}


@pytest.mark.parametrize("page", STATES)
def test_the_link_restores_the_whole_state(page: str) -> None:
    state = {
        name: value[0] if isinstance(value, list) and len(value) == 1 else value
        for name, value in STATES[page].items()
    }
    assert _link(_open(page, **STATES[page])) == state


@pytest.mark.parametrize("page", STATES)
def test_a_lesson_hides_the_controls_and_pins_its_question(page: str) -> None:
    plain = _open(page, **STATES[page])
    assert set(_hidden(plain.main)) == set()
    app = _open(page, lesson="Guess first", question="<b>Why?</b>", **STATES[page])
    assert set(_hidden(app.main)) >= CONTROLS[page]
    pinned = " ".join(part.proto.body for part in app.get("html"))
    assert "&lt;b&gt;Why?&lt;/b&gt;" in pinned
    app.button(key="leave_lesson").click().run()
    assert set(_hidden(app.main)) == set()
    assert _link(app) == _link(plain)


def test_lesson_links_keep_the_page() -> None:
    app = _open("Planner", budget="4")
    app.text_input(key="lesson_question").set_value("How many & why?").run()
    query = parse_qs(urlparse(app.code[1].value).query)
    assert (query["question"], query["budget"]) == (["How many & why?"], ["4"])
