"""Parts of a page that redraw it by the clock: they never win over a click on a link."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

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
