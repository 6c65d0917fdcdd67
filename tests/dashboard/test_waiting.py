"""Parts of a page that redraw it by the clock: they never win over a click on a link."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from privgmm.dashboard.shared import jobs

ROOT = Path(__file__).resolve().parents[2]

FIRST = """
import streamlit as st
from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx
from privgmm.dashboard.shared.jobs import redraw

st.title("first")
if "clicked" not in st.session_state:
    run = get_script_run_ctx()
    other = next(key for key in run.pages_manager.get_pages() if key != run.page_script_hash)
    st.session_state["clicked"] = True
    # a click on the link, while this run is on its way
    run.script_requests.request_rerun(RerunData(page_script_hash=other))
    {again}()
"""


@pytest.mark.parametrize(("again", "arrives"), [("redraw", "second"), ("st.rerun", "first")])
def test_click_comes_before_a_redraw(tmp_path: Path, again: str, arrives: str) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "app.py").write_text(FIRST.format(again=again))
    (tmp_path / "pages" / "second.py").write_text("import streamlit as st\nst.title('second')\n")
    app = AppTest.from_file(tmp_path / "app.py", default_timeout=60).run()
    assert not app.exception
    assert app.session_state["clicked"]
    # what st.rerun alone does is why there is a redraw
    assert app.title[0].value == arrives


def test_runs_of_a_session_take_turns() -> None:
    """Else a run on its way out may write its page over the one that was clicked."""
    settings = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    assert settings["runner"]["fastReruns"] is False


LEFT = """
import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx
from privgmm.dashboard.shared.jobs import on_the_clock, place_clock


@on_the_clock
def page():
    place_clock()
    st.session_state["drawn"] = [*st.session_state.get("drawn", []), "left"]
    if "from" not in st.session_state:
        st.session_state["from"] = get_script_run_ctx().page_script_hash
        st.switch_page("pages/next.py", query_params={"b": ["3", "4"]})


page()
"""

NEXT = """
from concurrent.futures import Future
import streamlit as st
from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx
from privgmm.dashboard.shared.jobs import on_the_clock, place_clock, watch


@on_the_clock
def page():
    place_clock()
    answer = Future()
    answer.set_result(None)
    watch([answer])
    st.session_state["drawn"] = [*st.session_state["drawn"], "next"]
    st.session_state["query"] = {{name: st.query_params.get_all(name) for name in st.query_params}}
    run = get_script_run_ctx()
    if st.session_state["drawn"].count("next") == 1:
        # the clock's last tick, sent before this page was drawn
        sent_from = {sent_from}
        for clock in run.shared.new_fragment_ids.snapshot():
            run.script_requests.request_rerun(
                RerunData("{query}", None, sent_from, fragment_id=clock, is_auto_rerun=True)
            )


page()
"""


@pytest.mark.parametrize(
    ("sent_from", "query"),
    # a tick of the page itself finds the answer; of another one, the browser has dropped the page
    [("run.page_script_hash", "b=3&b=4"), ("st.session_state['from']", "a=1&a=2")],
)
def test_a_late_tick_does_not_lead_back(tmp_path: Path, sent_from: str, query: str) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "app.py").write_text(LEFT)
    (tmp_path / "pages" / "next.py").write_text(NEXT.format(sent_from=sent_from, query=query))
    app = AppTest.from_file(tmp_path / "app.py", default_timeout=60)
    app.query_params["a"] = ["1", "2"]
    app.run()
    assert not app.exception
    assert app.session_state["drawn"] == ["left", "next", "next"]
    assert app.session_state["query"] == {"b": ["3", "4"]}


# A page, its parts, and one tick of its clock; what it sends to the browser is noted.
WAITING = """
import threading
from concurrent.futures import Future
import streamlit as st
from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx
from privgmm.dashboard.shared import jobs


@jobs.on_the_clock
def page():
    drawn = st.session_state.setdefault("drawn", [])
    drawn.append("page")
    jobs.place_clock()
    {early}
    st.title("the end")
    if drawn.count("page") == 1:
        run = get_script_run_ctx()
        for clock in run.shared.new_fragment_ids.snapshot():
            run.script_requests.request_rerun(
                RerunData("", None, run.page_script_hash, fragment_id=clock, is_auto_rerun=True)
            )


run = get_script_run_ctx()
sent, send = st.session_state.setdefault("sent", []), run._enqueue


def noted(message):
    kind = message.WhichOneof("type")
    if kind == "auto_rerun":
        sent.append(round(message.auto_rerun.interval, 2))
    elif kind == "delta" and message.delta.new_element.HasField("heading"):
        sent.append(message.delta.new_element.heading.body)
    send(message)


run._enqueue = noted
try:
    page()
finally:
    {late}
"""


def seen(tmp_path: Path, early: str, late: str = "pass") -> AppTest:
    """The page after a first drawing and a tick; `early` is on it, `late` comes after it."""
    (tmp_path / "app.py").write_text(WAITING.format(early=early, late=late))
    app = AppTest.from_file(tmp_path / "app.py", default_timeout=60).run()
    assert not app.exception
    return app


def test_the_clock_is_wound_when_all_is_drawn(tmp_path: Path) -> None:
    """A tick that comes before the page has ended may cost the browser the rest of it."""
    app = seen(tmp_path, "jobs.watch([Future()])")
    assert app.session_state["sent"] == ["the end", 0.4]
    assert app.session_state["drawn"] == ["page"], "a tick that finds nothing new changes nothing"


def test_a_page_on_which_nothing_waits_has_no_clock(tmp_path: Path) -> None:
    assert seen(tmp_path, "jobs.watch([])").session_state["sent"] == ["the end"]


@pytest.mark.parametrize(
    ("late", "drawings"),
    [
        ("pass", 1),
        # as if another run had drawn it, and its last messages might have been dropped
        ("jobs._NOW.drawing.thread = threading.Thread()", 2),
        # a tick of its own comes after its last message
        ("jobs._NOW.drawing.thread, jobs._NOW.drawing.due = threading.Thread(), 0.0", 1),
    ],
)
def test_a_tick_that_may_have_cost_the_page_its_end_brings_it_back(
    tmp_path: Path, late: str, drawings: int
) -> None:
    # not again by the drawing that the tick asks for
    once = f"if st.session_state['drawn'] == ['page']: {late}"
    app = seen(tmp_path, "jobs.watch([Future()])", once)
    assert app.session_state["drawn"] == ["page"] * drawings


def test_the_clock_goes_faster_when_fewer_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = SimpleNamespace(waiting=8)
    monkeypatch.setattr(jobs, "HEAVY", line)
    app = seen(tmp_path, "jobs.repaint(lambda: drawn.append('part'))", "jobs.HEAVY.waiting = 0")
    assert app.session_state["sent"] == ["the end", 0.8, 0.4]
    assert app.session_state["drawn"] == ["page", "part", "part"]
