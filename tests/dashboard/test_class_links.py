"""The tutorial's links to the steps of the class: all of them, and each opens its step."""

from __future__ import annotations

import html
import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from privgmm.dashboard.shared.lessons import CLASS, class_link
from privgmm.dashboard.shared.refresh import PAGE_POOL

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial" / "class.md"
LINKS = re.findall(r"^- (\w+) · \[(.+)\]\((http://localhost:8501/\S*)\)", PAGE.read_text(), re.M)


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


def _step(number: int) -> AppTest:
    """A step of the class as its link opens it."""
    step = CLASS[number - 1]
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    for name, value in {**step.values, "class": str(number)}.items():
        app.query_params[name] = value
    if step.page:
        app.switch_page(f"pages/{step.page}.py")
    app.run()
    assert not app.exception
    return app


@pytest.mark.parametrize("number", range(1, len(CLASS) + 1))
def test_nothing_on_screen_answers_a_question_before_the_prediction(number: int) -> None:
    step = CLASS[number - 1]
    app = _step(number)
    assert not app.get("plotly_chart")
    assert not app.table
    words = [part.value for part in (*app.main.markdown, *app.main.caption, *app.main.info)]
    assert words == []
    said = " ".join(part.proto.body for part in app.get("html"))
    assert html.escape(step.answer) not in said
    assert app.button(key="reveal").disabled
    app.button(key="predict_2").click().run()
    assert not app.button(key="reveal").disabled
    app.button(key="reveal").click().run()
    assert not app.exception
    said = " ".join(part.proto.body for part in app.get("html"))
    assert html.escape(step.answer) in said
    assert f"You said: {html.escape(step.predictions[1])}." in said
    assert "prediction" in " ".join(part.value for part in app.main.caption)


def test_no_title_gives_an_answer_away() -> None:
    """The button that leads on shows the title of the next step, too."""
    for step in CLASS:
        title = step.title.lower()
        assert not any(words in title for words in ("nothing", "“no”", "refus"))
        assert all(words.lower() not in title for words in step.predictions)


def test_the_first_step_asks_its_question_once() -> None:
    app = _step(1)
    app.button(key="predict_3").click().run()
    app.button(key="reveal").click().run()
    PAGE_POOL.settle()
    app.run()
    assert not app.exception
    words = " ".join(part.value for part in app.main.markdown)
    assert "Predict first." not in words
    assert "Which one was it?" in words


def test_the_last_step_makes_its_two_releases_once() -> None:
    app = _step(len(CLASS))
    assert not app.dataframe
    app.button(key="predict_3").click().run()
    app.button(key="reveal").click().run()
    for _ in range(2):
        table = next(one.value for one in app.dataframe if len(one.value) == 2)
        assert set(table["Method"]) == {"Sketch"}
        app.run()
    assert not app.exception


def test_the_teacher_sees_how_many_predicted_and_not_what() -> None:
    app = _step(5)
    app.button(key="predict_1").click().run()
    assert not app.main.caption
    app.toggle(key="projector").set_value(True).run()
    (line,) = [part.value for part in app.main.caption]
    assert "Predictions so far on this server:" in line
    assert CLASS[4].predictions[0] not in line
