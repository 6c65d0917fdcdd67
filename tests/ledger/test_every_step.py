"""A release that is killed, or whose disk is full: if noise was drawn, its spend is on the disk.

A child process releases under a ledger in a file. Each statement that SQLite runs, and each draw of
noise, is a step. The child is killed at its first step, then at its second, and so on until it ends
by itself. Then the disk is taken away, some bytes at a time.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from privgmm import best_plan
from privgmm.arrays import Array, IntArray
from privgmm.budget import Budget
from privgmm.errors import BudgetExceeded, PrivGMMError
from privgmm.ledger import sqlite
from privgmm.ledger.sqlite import SQLiteLedger
from privgmm.methods.plan import Plan
from privgmm.privacy.noise import SecureNoise
from privgmm.releases import prepare
from tests.audit.mutations import MUTATIONS, mutated

PLAN: Plan = best_plan(600, epsilon=2.0, delta=1e-3, n_components=1, n_features=1)
ROWS: Array = np.random.default_rng(2).standard_normal((600, 1))

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture(autouse=True, scope="module")
def warm() -> None:
    """Load and compile everything once, so that children need no files but the ledger's."""
    prepare(ROWS, PLAN).draw()


class Noted(SecureNoise):
    """Secure noise that leaves a mark before each draw, outside the ledger."""

    def __init__(self, folder: Path, step: Callable[[], None]) -> None:
        object.__setattr__(self, "folder", folder)
        object.__setattr__(self, "step", step)

    folder: Path
    step: Callable[[], None]

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        """Mark that noise is drawn, and draw."""
        os.close(os.open(self.folder / "drawn", os.O_CREAT | os.O_WRONLY))
        self.step()
        return super().discrete_gaussian(sigma, size)


class End(NamedTuple):
    """How a child ended, and what it left behind."""

    killed: bool
    code: int
    drawn: bool
    shown: str


def child(folder: Path, work: Callable[[], str]) -> End:
    """Run work in a child process; what it returns is shown to the world at its end."""
    for name in ("drawn", "shown"):
        (folder / name).unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        # nothing of the test runner may run in the child
        code = 1
        try:
            with (folder / "shown").open("w", encoding="utf-8") as file:
                shown = work()
                # already open, and small: a full disk is tried elsewhere
                file.write(shown)
            code = 0
        except PrivGMMError:
            code = 3
        except BaseException:  # noqa: BLE001 - said below, by the exit code
            traceback.print_exc()
        os._exit(code)
    _, status = os.waitpid(pid, 0)
    shown = (folder / "shown").read_text(encoding="utf-8")
    return End(
        os.WIFSIGNALED(status),
        os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1,
        (folder / "drawn").exists(),
        shown,
    )


def released(folder: Path, step: Callable[[], None], cap: Budget | None = None) -> str:
    """Release under the ledger in this folder, one step after another."""
    real = sqlite3.connect

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        database: sqlite3.Connection = real(*args, **options)
        database.set_trace_callback(lambda _: step())
        return database

    sqlite.sqlite3.connect = connect  # type: ignore[attr-defined]  # the child ends with it
    ledger = SQLiteLedger(folder / "ledger.sqlite", "people", cap=cap)
    outcome = prepare(ROWS, PLAN, rng=Noted(folder, step)).draw(ledger)
    step()
    return f"{outcome.result.entry} {outcome.released} {outcome.ledger_problem}"


def entries(folder: Path) -> list[Any]:
    """Read what the ledger has, and that its file is whole."""
    path = folder / "ledger.sqlite"
    if not path.exists() or not path.stat().st_size:
        return []
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return list(SQLiteLedger(path, "people").entries)


def killed_at(folder: Path, number: int) -> End:
    """Release in a child that is killed at this step, counted from one."""
    left = [number]

    def step() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return child(folder, lambda: released(folder, step))


def every_kill(folder: Path) -> tuple[int, int]:
    """Kill at every step until a release ends by itself; return spends, and kills."""
    before, kills = 0, 0
    for number in range(1, 1_000):
        end = killed_at(folder, number)
        found = entries(folder)
        # noise was drawn only after its spend was on the disk, and no spend is lost
        assert len(found) >= before + end.drawn
        assert len(found) <= before + 1
        if not end.killed:
            assert end.code == 0
            assert end.drawn
            assert end.shown == f"{found[-1].number} {found[-1].released} None"
            return len(found), kills
        assert not end.shown
        before, kills = len(found), kills + 1
    raise AssertionError("the release has more steps than this")


def test_killed_at_every_step_every_spend_is_on_the_disk(tmp_path: Path) -> None:
    spends, kills = every_kill(tmp_path)
    # some steps come before the spend, and some after it
    assert kills > 20
    assert 5 < spends < kills


def test_noise_before_the_spend_is_found_out(tmp_path: Path) -> None:
    early = next(one for one in MUTATIONS if one.name == "noise before the ledger knows")
    with mutated(early), pytest.raises(AssertionError):
        every_kill(tmp_path)


def test_spends_that_were_killed_count_against_the_cap(tmp_path: Path) -> None:
    """Each is killed between its spend and its first noise: nothing is published, all is paid."""
    cap = Budget(PLAN.budget.epsilon * 2.5, PLAN.budget.delta * 2.5)
    real = Noted.discrete_gaussian

    def killed(source: Noted, sigma: float, size: int) -> IntArray:
        os.kill(os.getpid(), signal.SIGKILL)
        return real(source, sigma, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Noted, "discrete_gaussian", killed)
        ends = [child(tmp_path, lambda: released(tmp_path, lambda: None, cap)) for _ in range(8)]
    allowed = len(entries(tmp_path))
    assert 1 <= allowed < 8
    assert [end.killed for end in ends] == [True] * allowed + [False] * (8 - allowed)
    assert all(end.code == 3 for end in ends[allowed:])
    assert not any(end.drawn or end.shown for end in ends)
    ledger = SQLiteLedger(tmp_path / "ledger.sqlite", "people")
    with pytest.raises(BudgetExceeded):
        ledger.intend(PLAN, seeded=False)


# ------------------------------------------------------------------------------ a full disk


def fill_disk(size: int) -> None:
    """Let no file of this process grow beyond `size` bytes: writes fail as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def on_a_disk_of(size: int, folder: Path) -> End:
    """Release in a child whose disk has little room from the start."""

    def work() -> str:
        fill_disk(size)
        return released(folder, lambda: None)

    return child(folder, work)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of files are those of Linux")
def test_a_full_disk_draws_no_noise_or_loses_no_spend(tmp_path: Path) -> None:
    """From hardly any room to enough: a clear error and nothing drawn, or a spend that is there."""
    refused, done = 0, 0
    for size in (4_096, 20_480, *range(34_816, 57_345, 2_048), 10**9):
        folder = tmp_path / str(size)
        folder.mkdir()
        end = on_a_disk_of(size, folder)
        found = entries(folder)
        assert not end.killed
        assert len(found) == end.drawn
        if end.code == 3:
            # refused with an error of the package, before anything was drawn
            refused += 1
            continue
        assert end.code == 0
        assert end.shown == f"{found[0].number} {found[0].released} None"
        done += 1
    assert min(refused, done) > 2


@pytest.mark.skipif(sys.platform != "linux", reason="limits of files are those of Linux")
def test_a_disk_that_fills_after_the_spend_keeps_the_result(tmp_path: Path) -> None:
    """It is paid for, so it is shown; the ledger counts it as unfinished, and says why."""

    def work() -> str:
        filled = [False]

        def step() -> None:
            if (tmp_path / "drawn").exists() and not filled[0]:
                filled[0] = True
                fill_disk(1_024)

        return released(tmp_path, step)

    end = child(tmp_path, work)
    (entry,) = entries(tmp_path)
    assert end.code == 0
    assert end.drawn
    assert entry.released is None
    assert end.shown.startswith(f"{entry.number} ")
    assert "cannot be used" in end.shown
