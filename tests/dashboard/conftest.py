"""What tests of pages share: no work of other tests, and nothing worked out ahead unasked."""

from __future__ import annotations

import pytest

from privgmm.dashboard.explore import possible_releases, rehearsal, release_job
from privgmm.dashboard.shared.jobs import Board, Once


@pytest.fixture(autouse=True)
def nothing_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions share seeded work; tests must not."""
    monkeypatch.setattr(release_job, "SHARED", Once(most=3e7))
    monkeypatch.setattr(possible_releases, "TWINS", Once(most=2000))


@pytest.fixture(autouse=True)
def nothing_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other promises are asked for, and never come."""
    monkeypatch.setattr(rehearsal, "AHEAD", Board(workers=0))
