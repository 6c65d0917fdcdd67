"""Several sessions on one server: the same seeded release is worked out once, charged to each."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from privgmm.budget import Budget
from privgmm.dashboard.explore import release_job
from privgmm.dashboard.shared import state
from privgmm.dashboard.shared.chosen_data import ChosenData
from privgmm.data.datasets import Dataset
from privgmm.errors import BudgetExceeded
from privgmm.ledger.memory import MemoryBook, MemoryLedger
from privgmm.methods.request import PlanRequest
from privgmm.records.notebook import FileRows, GeneratedRows, Rows
from privgmm.releases import Outcome, PreparedRelease, Release
from privgmm.teaching.background import Job

ROWS = GeneratedRows("well_separated", 2, 2, 4_000, 31, 4.0)
DATA = ROWS.load()
REQUEST = PlanRequest(n_components=2, n_features=2, n_rows=4_000)


@dataclasses.dataclass
class Student:
    """A session that releases once, with an account of its own."""

    ledger: MemoryLedger
    job: Job[Outcome]


def student(name: str, *, seed: int | None = 5, rows: Rows = ROWS, data: Dataset = DATA) -> Student:
    settings = state.Settings(data.fingerprint, data.name, REQUEST, seed)
    ledger = MemoryBook().open(data.fingerprint)
    attempt = release_job._Attempt(settings, ChosenData(data, rows), ledger, name)
    return Student(ledger, Job(attempt.run))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """One entry per time that noise was drawn: whether it was seeded."""
    found: list[bool] = []
    draw = PreparedRelease.draw

    def counted(self: PreparedRelease, *given: object) -> Outcome:
        # rehearsals that other tests left behind may still run in this process
        if self.plan.request == REQUEST:
            found.append(self._work.source.seeded)
        return draw(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(PreparedRelease, "draw", counted)
    monkeypatch.setattr(release_job, "SHARED", type(release_job.SHARED)(most=1e9))
    return found


@pytest.mark.filterwarnings("ignore::privgmm.errors.SeededRelease")
def test_seeded_work_is_done_once_and_every_account_is_charged(drawn: list[bool]) -> None:
    students = [student(f"student {number}") for number in range(4)]
    outcomes = [one.job.result(60) for one in students]
    assert drawn == [True]
    mixtures = {id(one.result.mixture) for one in outcomes if isinstance(one.result, Release)}
    assert len(mixtures) == 1
    for one, outcome in zip(students, outcomes, strict=True):
        (entry,) = one.ledger.entries
        assert entry.released
        assert entry.seeded
        assert outcome.result.entry == entry.number
    # every receipt has a name of its own: none can be matched with another's
    assert len({outcome.result.mark for outcome in outcomes}) == len(students)


@pytest.mark.filterwarnings("ignore::privgmm.errors.SeededRelease")
def test_another_seed_or_request_is_other_work(drawn: list[bool]) -> None:
    first, second = student("a", seed=5), student("b", seed=6)
    results = [one.job.result(60).result for one in (first, second)]
    assert drawn == [True, True]
    assert all(isinstance(result, Release) for result in results)
    assert results[0] != results[1]


def test_fresh_noise_is_never_shared(drawn: list[bool]) -> None:
    students = [student(name, seed=None) for name in ("a", "b")]
    results = [one.job.result(60).result for one in students]
    assert drawn == [False, False]
    assert results[0] != results[1]


@pytest.mark.filterwarnings("ignore::privgmm.errors.SeededRelease")
def test_uploaded_rows_are_never_shared(drawn: list[bool], tmp_path: Path) -> None:
    rows = FileRows(str(tmp_path / "people.csv"), DATA.columns)
    students = [student(name, rows=rows) for name in ("a", "b")]
    for one in students:
        one.job.result(60)
    assert drawn == [True, True]


@pytest.mark.filterwarnings("ignore::privgmm.errors.SeededRelease")
def test_an_account_that_forbids_it_gets_nothing(drawn: list[bool]) -> None:
    """Also where the release was worked out for somebody else already."""
    student("a").job.result(60)
    settings = state.Settings(DATA.fingerprint, DATA.name, REQUEST, 5)
    ledger = MemoryBook().open("capped", cap=Budget(0.01, 1e-9))
    attempt = release_job._Attempt(settings, ChosenData(DATA, ROWS), ledger, "b")
    assert isinstance(Job(attempt.run).problem(60), BudgetExceeded)
    assert not attempt.spent
    assert not ledger.entries
    assert drawn == [True]
