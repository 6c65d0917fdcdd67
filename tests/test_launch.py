"""Starting the dashboard: the right file, the options passed on, the heavy things loaded."""

from __future__ import annotations

import sys
import threading

import pytest
from streamlit.web import cli

from privgmm.dashboard import launch


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
