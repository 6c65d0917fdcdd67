"""Refresh: pages rerun when there is more to show, one at a time, and never against a click."""

from __future__ import annotations

import threading
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from privgmm.dashboard.shared import refresh
from tests.dashboard.waiting import LONG

ROOT = Path(__file__).resolve().parents[2]

FIRST = """
import streamlit as st
from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx
from privgmm.dashboard.shared.refresh import rerun

st.title("first")
if "clicked" not in st.session_state:
    run = get_script_run_ctx()
    other = next(key for key in run.pages_manager.get_pages() if key != run.page_script_hash)
    st.session_state["clicked"] = True
    # a click on the link, while this run is on its way
    run.script_requests.request_rerun(RerunData(page_script_hash=other))
    {again}()
"""


@pytest.mark.parametrize(("again", "arrives"), [("rerun", "second"), ("st.rerun", "first")])
def test_a_click_comes_before_a_rerun(tmp_path: Path, again: str, arrives: str) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "app.py").write_text(FIRST.format(again=again))
    (tmp_path / "pages" / "second.py").write_text("import streamlit as st\nst.title('second')\n")
    app = AppTest.from_file(tmp_path / "app.py", default_timeout=LONG).run()
    assert not app.exception
    assert app.session_state["clicked"]
    # what st.rerun alone does is why there is a `rerun`
    assert app.title[0].value == arrives


def test_runs_of_a_session_do_not_overlap() -> None:
    """Else a run on its way out may write its page over the one that was clicked."""
    settings = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())
    assert settings["runner"]["fastReruns"] is False


LEFT = """
import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx
from privgmm.dashboard.shared.refresh import place_timer, refreshing_page


@refreshing_page
def page():
    place_timer()
    st.session_state["rendered"] = [*st.session_state.get("rendered", []), "left"]
    if "from" not in st.session_state:
        st.session_state["from"] = get_script_run_ctx().page_script_hash
        st.switch_page("pages/next.py", query_params={"b": ["3", "4"]})


page()
"""

NEXT = """
from concurrent.futures import Future
import streamlit as st
from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx
from privgmm.dashboard.shared.refresh import place_timer, refreshing_page, rerun_when_ready


@refreshing_page
def page():
    place_timer()
    answer = Future()
    answer.set_result(None)
    rerun_when_ready([answer])
    st.session_state["rendered"] = [*st.session_state["rendered"], "next"]
    st.session_state["query"] = {{name: st.query_params.get_all(name) for name in st.query_params}}
    run = get_script_run_ctx()
    if st.session_state["rendered"].count("next") == 1:
        # the timer's last tick, sent before this page was rendered
        sent_from = {sent_from}
        for timer in run.shared.new_fragment_ids.snapshot():
            run.script_requests.request_rerun(
                RerunData("{query}", None, sent_from, fragment_id=timer, is_auto_rerun=True)
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
    app = AppTest.from_file(tmp_path / "app.py", default_timeout=LONG)
    app.query_params["a"] = ["1", "2"]
    app.run()
    assert not app.exception
    assert app.session_state["rendered"] == ["left", "next", "next"]
    assert app.session_state["query"] == {"b": ["3", "4"]}


# A page, its parts, and one tick of its timer; what it sends to the browser is noted.
WAITING = """
import threading
from concurrent.futures import Future
import streamlit as st
from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx
from privgmm.dashboard.shared import refresh


@refresh.refreshing_page
def page():
    rendered = st.session_state.setdefault("rendered", [])
    rendered.append("page")
    refresh.place_timer()
    {early}
    st.title("the end")
    if rendered.count("page") == 1:
        run = get_script_run_ctx()
        for timer in run.shared.new_fragment_ids.snapshot():
            run.script_requests.request_rerun(
                RerunData("", None, run.page_script_hash, fragment_id=timer, is_auto_rerun=True)
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
    """The page after its first run and a tick; `early` is on it, `late` comes after it."""
    (tmp_path / "app.py").write_text(WAITING.format(early=early, late=late))
    app = AppTest.from_file(tmp_path / "app.py", default_timeout=LONG).run()
    assert not app.exception
    return app


def test_the_timer_starts_when_all_is_rendered(tmp_path: Path) -> None:
    """A tick that comes before the page has ended may cost the browser the rest of it."""
    app = seen(tmp_path, "refresh.rerun_when_ready([Future()])")
    assert app.session_state["sent"] == ["the end", 0.4]
    assert app.session_state["rendered"] == ["page"], "a tick without news changes nothing"


def test_a_page_on_which_nothing_waits_has_no_timer(tmp_path: Path) -> None:
    app = seen(tmp_path, "refresh.rerun_when_ready([])")
    assert app.session_state["sent"] == ["the end"]


@pytest.mark.parametrize(
    ("late", "runs"),
    [
        ("pass", 1),
        # as if another thread had rendered it, and its last messages might have been dropped
        ("run.thread, run.due = threading.Thread(), float('inf')", 2),
        # a tick of its own comes after its last message
        ("run.thread, run.due = threading.Thread(), 0.0", 1),
    ],
)
def test_a_tick_that_may_have_cost_the_page_its_end_brings_it_back(
    tmp_path: Path, late: str, runs: int
) -> None:
    # not again by the run that the tick asks for
    change = f"run = refresh._THREAD.page_run; {late}"
    once = f"exec({change!r} if st.session_state['rendered'] == ['page'] else '')"
    app = seen(tmp_path, "refresh.rerun_when_ready([Future()])", once)
    assert app.session_state["rendered"] == ["page"] * runs


def test_the_timer_goes_faster_when_fewer_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "RELEASES", SimpleNamespace(waiting=8))
    app = seen(
        tmp_path,
        "refresh.refresh_part(lambda: rendered.append('part'))",
        "refresh.RELEASES.waiting = 0",
    )
    assert app.session_state["sent"] == ["the end", 0.8, 0.4]
    assert app.session_state["rendered"] == ["page", "part", "part"]


# The render lock


class Renderers:
    """Threads that render a page each, as `refreshing_page` lets them."""

    def __init__(self) -> None:
        self.at_once, self.most = 0, 0
        self._lock = threading.Lock()

    def work(self) -> None:
        """Render for a moment."""
        with self._lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        time.sleep(0.02)
        with self._lock:
            self.at_once -= 1

    def render(self, page: Callable[[], None], threads: int = 4) -> None:
        """Let this number of threads render."""
        rendered = refresh.refreshing_page(page)
        crowd = [threading.Thread(target=rendered) for _ in range(threads)]
        for one in crowd:
            one.start()
        for one in crowd:
            one.join(LONG)


@pytest.fixture(autouse=True)
def _patient_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine even a short page may keep the lock for a second."""
    monkeypatch.setattr(refresh, "_LOCK_TIMEOUT", LONG)


def test_pages_are_rendered_one_after_the_other() -> None:
    renderers = Renderers()
    renderers.render(renderers.work)
    assert renderers.most == 1


def test_a_page_that_fails_releases_the_lock() -> None:
    def fails() -> None:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            refresh.refreshing_page(fails)()
    renderers = Renderers()
    renderers.render(renderers.work)
    assert renderers.most == 1


def test_a_page_that_waits_for_an_answer_lets_others_render() -> None:
    renderers, answer = Renderers(), Future[None]()
    came, answered = [], []

    def page() -> None:
        came.append(1)
        if len(came) == 4:
            # only if the others have released the lock while they wait
            answer.set_result(None)
        refresh.wait_briefly([answer], LONG)
        answered.append(answer.done())
        renderers.work()

    renderers.render(page)
    assert answered == [True] * 4
    assert renderers.most == 1


def test_no_page_waits_long_for_one_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, rendered = threading.Event(), threading.Event()

    def takes_long() -> None:
        slow.wait(LONG)

    with monkeypatch.context() as short:
        short.setattr(refresh, "_LOCK_TIMEOUT", 0.05)
        first = threading.Thread(target=refresh.refreshing_page(takes_long))
        first.start()
        second = threading.Thread(target=refresh.refreshing_page(rendered.set))
        second.start()
        assert rendered.wait(LONG), "rendered although the first still holds the lock"
        slow.set()
        first.join(LONG)
        second.join(LONG)
    renderers = Renderers()
    renderers.render(renderers.work, threads=2)
    assert renderers.most == 1, "and the lock is there for the next"
