"""Starting the dashboard: the right file, the options passed on, the heavy things loaded."""

from __future__ import annotations

import importlib.util
import sys
import threading

import pytest
from streamlit.web import cli

from privgmm.dashboard import launch
from privgmm.errors import InvalidInput


def test_the_app_is_found_and_told_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[list[str]] = []
    loaded = threading.Event()
    monkeypatch.setattr(cli, "main", lambda: told.append(list(sys.argv)))
    monkeypatch.setattr(launch, "_load", loaded.set)
    monkeypatch.setattr(sys, "argv", ["anything"])
    launch.launch(["--server.port", "8600"])
    assert told == [["streamlit", "run", str(launch.app_file()), "--server.port", "8600"]]
    assert loaded.wait(10)
    assert launch.app_file().parent.joinpath("pages").is_dir()


@pytest.mark.parametrize("missing", ["streamlit", "plotly"])
def test_what_is_not_installed_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else there(name)
    )
    with pytest.raises(InvalidInput, match=rf"needs {missing}: pip install 'privgmm\[app\]'"):
        launch.launch()
