"""The README's links to the steps of the class: all of them, and each opens its step."""

from __future__ import annotations

import html
import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from privgmm.dashboard.shared.lessons import CLASS, class_link

ROOT = Path(__file__).resolve().parents[2]
LINKS = re.findall(
    r"^- (\w+) · \[(.+)\]\((http://localhost:8501/\S*)\)", (ROOT / "README.md").read_text(), re.M
)


def test_every_step_has_a_link_in_the_order_of_the_class() -> None:
    assert [
        (step.number, step.title, f"http://localhost:8501/{class_link(number)}")
        for number, step in enumerate(CLASS, 1)
    ] == LINKS


@pytest.mark.parametrize("number", range(1, len(CLASS) + 1))
def test_a_link_opens_its_step_with_all_that_it_sets(number: int) -> None:
    step, address = CLASS[number - 1], urlsplit(LINKS[number - 1][2])
    said = dict(parse_qsl(address.query))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    for name, value in said.items():
        app.query_params[name] = value
    if page := address.path.strip("/"):
        app.switch_page(f"pages/{page}.py")
    app.run()
    assert not app.exception
    pinned = " ".join(part.proto.body for part in app.get("html"))
    assert html.escape(f"{step.number} · {step.title}") in pinned
    assert html.escape(step.question) in pinned
    # a person who leaves the lesson finds the controls as the link has set them
    app.button(key="leave_lesson").click().run()
    assert not app.exception
    now = dict(parse_qsl(urlsplit(app.code[0].value).query))
    # a switch that the method does not have is off
    assert {name: now.get(name, "false") for name in step.values} == dict(step.values)
