"""Give the tests of the command a ledger."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work in an empty folder: a release keeps its receipt there unless told otherwise."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a ledger for one test; the file is not there yet."""
    path = tmp_path / "ledger.sqlite"
    monkeypatch.setenv("PRIVGMM_LEDGER", str(path))
    return path
