"""What all tests share: reproducible property tests and a folder for pictures."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("privgmm", deadline=None, derandomize=True)
settings.load_profile("privgmm")


@pytest.fixture(scope="session")
def artifacts() -> Path:
    """Where tests leave what a person may want to look at."""
    folder = Path(__file__).resolve().parent.parent / "test-artifacts"
    folder.mkdir(exist_ok=True)
    return folder
