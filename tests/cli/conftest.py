"""Give the tests of the command a ledger."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a ledger for one test; the file is not there yet."""
    path = tmp_path / "ledger.sqlite"
    monkeypatch.setenv("PRIVGMM_LEDGER", str(path))
    return path
