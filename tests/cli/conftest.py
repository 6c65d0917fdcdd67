"""What the tests of the command share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of the test's own, which is not there yet."""
    path = tmp_path / "ledger.sqlite"
    monkeypatch.setenv("PRIVGMM_LEDGER", str(path))
    return path
