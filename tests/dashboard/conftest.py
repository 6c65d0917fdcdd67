"""What tests of pages share: no page, and no work computed ahead unasked."""

from __future__ import annotations

import pytest

from privgmm.dashboard.explore import possible_releases, rehearsal, release_job
from privgmm.teaching.background import JobCache, WorkerPool

_SEEDED = JobCache(most=3e8)
"""Seeded releases: equal ones are computed once, and none of them ever changes."""


@pytest.fixture(autouse=True)
def nothing_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions share seeded work; tests must not."""
    monkeypatch.setattr(release_job, "SHARED", JobCache(most=3e7))
    monkeypatch.setattr(possible_releases, "TWINS", JobCache(most=2000))


@pytest.fixture
def seeded_once(nothing_of_other_tests: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tests with pages of their own share seeded releases: opening a page is quick."""
    monkeypatch.setattr(release_job, "SHARED", _SEEDED)


@pytest.fixture(autouse=True)
def nothing_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other promises are asked for, and never come."""
    monkeypatch.setattr(rehearsal, "PREFETCH", WorkerPool(workers=0))
