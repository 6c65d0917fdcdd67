"""The ledger on disk: killed, raced, tampered with, it still lists every spend."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import sqlite3
import stat
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from privgmm.budget import Budget
from privgmm.data.fingerprint import content_fingerprint, file_fingerprint
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.ledger import sqlite
from privgmm.ledger.sqlite import SQLiteBook, SQLiteLedger, default_path
from privgmm.privacy.composition import Measure, total
from tests.ledger.ledger_children import (
    PLAN,
    ROWS,
    children,
    keep_releasing,
    race,
    spend_until_full,
)

# ------------------------------------------------------------------------- one process


def test_what_was_written_is_there_for_others(tmp_path: Path) -> None:
    path = tmp_path / "spends.db"
    ledger = SQLiteLedger(path, "people", cap=Budget(20.0, 1e-4), label="People")
    first = ledger.intend(PLAN, seeded=True)
    ledger.intend(PLAN, seeded=False)
    first.conclude(released=False)
    again = SQLiteLedger(path, "people")
    assert again.history() == ledger.history()
    assert SQLiteBook(path).histories() == [ledger.history()]
    assert [entry.spend for entry in again.entries] == [PLAN.price()] * 2


def test_a_file_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    """No other file takes the place of the one that was opened."""
    path = tmp_path / "spends.db"
    ledger = SQLiteLedger(path, "people")
    intent = ledger.intend(PLAN, seeded=False)
    for file in tmp_path.glob("spends.db*"):
        file.unlink()
    SQLiteLedger(path, "people").intend(PLAN, seeded=False)
    with pytest.raises(PrivGMMError, match="no longer knows this data set"):
        ledger.standing()
    with pytest.raises(PrivGMMError, match="no longer knows this data set"):
        ledger.intend(PLAN, seeded=False)
    with pytest.raises(PrivGMMError, match="spend 1 is no longer in the ledger"):
        intent.conclude(released=True)
    assert [entry.released for entry in SQLiteLedger(path, "people").entries] == [None]


def test_no_spend_can_be_taken_back_or_changed(tmp_path: Path) -> None:
    path = tmp_path / "spends.db"
    ledger = SQLiteLedger(path, "people")
    ledger.intend(PLAN, seeded=False).conclude(released=False, reason="The noise was large.")
    ledger.intend(PLAN, seeded=False)
    with contextlib.closing(sqlite3.connect(path)) as database:
        for statement in (
            "DELETE FROM spends",
            "UPDATE spends SET epsilon = 0.001 WHERE number = 2",
            "UPDATE spends SET curve = NULL WHERE number = 2",
            "UPDATE spends SET unit = 'person' WHERE number = 2",
            "UPDATE spends SET mark = '' WHERE number = 2",
            "UPDATE spends SET released = 1 WHERE number = 1",
            "UPDATE spends SET reason = NULL WHERE number = 1",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="a spend cannot be"):
                database.execute(statement)


def test_the_file_does_not_hold_the_fingerprint(tmp_path: Path) -> None:
    name = content_fingerprint(ROWS)
    paths = [tmp_path / "a.db", tmp_path / "b.db"]
    ledgers = [SQLiteLedger(path, name) for path in paths]
    for path, ledger in zip(paths, ledgers, strict=True):
        ledger.intend(PLAN, seeded=False)
        stored = b"".join(file.read_bytes() for file in tmp_path.glob(f"{path.name}*"))
        assert ledger.standing().account.encode() in stored
        assert name.encode() not in stored
        assert bytes.fromhex(name) not in stored
    # and two files cannot be matched
    assert ledgers[0].standing().account != ledgers[1].standing().account


def test_the_fingerprint_is_of_the_rows_not_their_order() -> None:
    rows = np.random.default_rng(1).standard_normal((50, 3))
    name = content_fingerprint(rows)
    assert re.fullmatch("[0-9a-f]{64}", name)
    assert content_fingerprint(rows[::-1]) == name
    assert content_fingerprint(np.asfortranarray(rows)) == name
    assert content_fingerprint(rows.tolist()) == name
    assert content_fingerprint([[0.0], [1.0]]) == content_fingerprint([[1.0], [-0.0]])
    other = rows.copy()
    other[7, 1] = np.nextafter(other[7, 1], 9)
    variants = [name, *map(content_fingerprint, (other, rows[:-1], rows[:, :2], rows.T))]
    assert len(set(variants)) == len(variants)


def test_what_is_no_ledger_is_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but rather long " * 99, encoding="utf-8")
    with pytest.raises(InvalidInput, match="not a ledger"):
        SQLiteLedger(text, "people")
    foreign = tmp_path / "foreign.db"
    with contextlib.closing(sqlite3.connect(foreign)) as database:
        database.execute("CREATE TABLE other (x)")
    before = foreign.read_bytes()
    with pytest.raises(InvalidInput, match="another program"):
        SQLiteLedger(foreign, "people")
    assert foreign.read_bytes() == before
    newer = tmp_path / "newer.db"
    with contextlib.closing(sqlite3.connect(newer)) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(InvalidInput, match="format 99"):
        SQLiteLedger(newer, "people")
    with pytest.raises(PrivGMMError, match="folder exists"):
        SQLiteLedger(tmp_path / "nowhere" / "spends.db", "people")
    missing = SQLiteBook(tmp_path / "missing.db")
    for look in (missing.histories, missing.standings, missing.export):
        with pytest.raises(InvalidInput, match="no ledger"):
            look()
    with pytest.raises(InvalidInput, match="no ledger"):
        missing.find("people")
    with pytest.raises(InvalidInput, match="fingerprint"):
        SQLiteLedger(tmp_path / "missing.db", "")
    assert not (tmp_path / "missing.db").exists()


def test_where_the_ledger_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRIVGMM_LEDGER", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    usual = tmp_path / "home" / ".local" / "share" / "privgmm" / "ledger.sqlite"
    assert default_path() == usual
    monkeypatch.setenv("XDG_DATA_HOME", "not/absolute")
    assert default_path() == usual
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    there = tmp_path / "data" / "privgmm" / "ledger.sqlite"
    assert default_path() == there
    own = SQLiteBook()
    assert own.path == there
    # before the first release the user's own book is empty
    assert (own.histories(), own.export(), own.find("people")) == ([], [], None)
    assert not there.parent.exists(), "to look is not to make"
    ledger = SQLiteLedger(None, "people")
    ledger.intend(PLAN, seeded=False)
    assert ledger.path == there
    assert own.histories() == SQLiteBook(there).histories() == [ledger.history()]
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "other"))
    SQLiteBook().open("people").intend(PLAN, seeded=False)
    assert len(SQLiteBook(tmp_path / "other" / "privgmm" / "ledger.sqlite").export()) == 1
    monkeypatch.setenv("PRIVGMM_LEDGER", str(tmp_path / "own.db"))
    assert default_path() == tmp_path / "own.db"
    monkeypatch.setenv("PRIVGMM_LEDGER", str(there / "below a file" / "own.db"))
    for begin in (SQLiteBook().open, lambda name: SQLiteLedger(None, name)):
        with pytest.raises(InvalidInput, match="cannot be made"):
            begin("people")
    monkeypatch.setenv("PRIVGMM_LEDGER", str(tmp_path))
    with pytest.raises(InvalidInput, match="no ledger"):
        SQLiteBook().histories()


def test_the_file_is_for_its_owner(tmp_path: Path) -> None:
    """Also the files that SQLite keeps next to it, and with any umask."""
    before = os.umask(0)
    try:
        path = tmp_path / "spends.db"
        ledger = SQLiteLedger(path, "people")
        held = sqlite3.connect(path)
        held.execute("BEGIN").execute("SELECT * FROM spends")
        ledger.intend(PLAN, seeded=False)
        files = sorted(tmp_path.iterdir())
        assert [file.name for file in files] == ["spends.db", "spends.db-shm", "spends.db-wal"]
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        held.close()
        # who shares a file with a group has said so
        path.chmod(0o660)
        ledger.intend(PLAN, seeded=False)
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
    finally:
        os.umask(before)


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_links_are_not_followed(tmp_path: Path, ending: str) -> None:
    victim = tmp_path / "victim"
    path = tmp_path / "spends.db"
    (tmp_path / f"spends.db{ending}").symlink_to(victim)
    with pytest.raises(InvalidInput, match="is a link"):
        SQLiteLedger(path, "people")
    with pytest.raises(InvalidInput, match=r"is a link|no ledger"):
        SQLiteBook(path).histories()
    assert not victim.exists()
    if not ending:
        SQLiteLedger(victim, "people")
        with pytest.raises(InvalidInput, match="is a link"):
            SQLiteLedger(path, "people")


@pytest.mark.parametrize("older", [2, 3])
def test_an_older_ledger_is_brought_up_to_date(tmp_path: Path, older: int) -> None:
    """What it says stays; what it did not know is not made up."""
    path = tmp_path / "spends.db"
    ledger = SQLiteLedger(path, "people", cap=Budget(20.0, 1e-4), label="People")
    ledger.intend(PLAN, seeded=True).conclude(released=False)
    before = ledger.history()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE spends DROP COLUMN reason")
        if older == 2:
            for column in ("n_rows", "columns"):
                database.execute(f"ALTER TABLE accounts DROP COLUMN {column}")
        database.execute(f"PRAGMA user_version = {older}")
        database.commit()
    assert SQLiteLedger(path, "people").history() == before
    assert (before.n_rows, before.columns) == (None, None)
    assert before.entries[0].reason is None
    again = SQLiteLedger(path, "people", n_rows=7, columns=["u", "v"])
    assert (again.history().n_rows, again.history().columns) == (7, ("u", "v"))
    assert again.entries == before.entries
    again.intend(PLAN, seeded=False).conclude(released=False, reason="The noise was large.")
    assert [entry.reason for entry in again.entries] == [None, "The noise was large."]
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (4,)


def test_a_file_is_known_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(b"a,b\n1,2\n")
    assert file_fingerprint(path) == file_fingerprint(str(path)) == file_fingerprint(b"a,b\n1,2\n")
    assert file_fingerprint(path) != file_fingerprint(b"a,b\n1,3\n")
    with pytest.raises(InvalidInput, match="there is no file"):
        file_fingerprint(tmp_path / "missing.csv")


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_what_cannot_be_a_path(path: str) -> None:
    with pytest.raises(InvalidInput, match=r"path .* cannot be the name of a file"):
        SQLiteLedger(path, "people")


# ------------------------------------------------------------------------- many at once


def fitting(cap: Budget) -> int:
    """Count the spends of the plan that fit, by the account alone."""
    spend = PLAN.price()
    measure = Measure.choose(cap, spend)
    return next(n for n in itertools.count() if not measure.admits([spend] * (n + 1)))


TIGHT_CAPS = [Budget(1.6, 1e-4), Budget(1.0, 2e-6)]


@pytest.mark.parametrize("cap", TIGHT_CAPS, ids=["joint", "added"])
def test_threads_cannot_pass_the_cap_together(tmp_path: Path, cap: Budget) -> None:
    path = tmp_path / "spends.db"
    admitted: list[int] = []
    threads = [
        threading.Thread(target=race, args=(path, cap, 20, admitted), daemon=True) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = [entry.number for entry in SQLiteLedger(path, "people").entries]
    assert len(entries) == fitting(cap)
    assert sorted(admitted) == entries


@pytest.mark.parametrize("cap", TIGHT_CAPS, ids=["joint", "added"])
def test_eight_processes_race_for_the_last_of_a_cap(tmp_path: Path, cap: Budget) -> None:
    path = tmp_path / "spends.db"
    context = children()
    racers = [
        context.Process(target=spend_until_full, args=(path, tmp_path, cap), daemon=True)
        for _ in range(8)
    ]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
        assert racer.exitcode == 0
    entries = SQLiteLedger(path, "people").entries
    assert len(entries) == fitting(cap)
    assert all(entry.released is not None for entry in entries)
    assert numbers(tmp_path, "shown") == {entry.number for entry in entries}


# ---------------------------------------------------------------------- disks of a network

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:35 / {folder}/shared\\040disk rw,relatime shared:9 - nfs4 server:/export rw
41 40 0:36 / {folder}/shared\\040disk/here rw,relatime - ext4 /dev/vdb rw
42 22 0:37 / {folder}/twice rw,relatime - ext4 /dev/vdc rw
43 42 0:38 / {folder}/twice rw,relatime - cifs //server/share rw
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("shared disk", "nfs4"),
        ("shared disk/below", "nfs4"),
        ("shared disk/here", ""),
        ("shared", ""),
        ("twice", "cifs"),
        ("link/below", "nfs4"),
        (".", ""),
    ],
)
def test_a_disk_of_a_network_is_refused(
    place: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two machines on one file could both spend the last of a cap."""
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS.format(folder=tmp_path), encoding="utf-8")
    monkeypatch.setattr(sqlite, "_MOUNTS", mounts)
    sqlite._file_system.cache_clear()
    for folder in ("shared disk/below", "shared disk/here", "shared", "twice"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "shared disk")
    path = tmp_path / place / "ledger.sqlite"
    try:
        if not kind:
            assert SQLiteLedger(path, "people").entries == ()
            return
        with pytest.raises(InvalidInput, match=f"a disk of a network \\({kind}\\)"):
            SQLiteLedger(path, "people")
        assert not path.exists()
    finally:
        sqlite._file_system.cache_clear()


def test_a_system_that_lists_no_disks_is_not_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_MOUNTS", tmp_path / "not there")
    sqlite._file_system.cache_clear()
    assert SQLiteLedger(tmp_path / "ledger.sqlite", "people").entries == ()
    sqlite._file_system.cache_clear()


# ------------------------------------------------------------------------- killed


def numbers(folder: Path, mark: str) -> set[int]:
    return {int(file.name.removeprefix(f"{mark}-")) for file in folder.glob(f"{mark}-*")}


def kill_and_check(folder: Path, kills: int, seed: int) -> tuple[int, int]:
    """Kill `kills` releasing processes at random moments; return spends and unfinished spends.

    A child is left to begin none, one or two spends more, then a random while.
    """
    path = folder / "spends.db"
    rng = np.random.default_rng(seed)
    context = children()
    for _ in range(kills):
        goal = len(numbers(folder, "drawn")) + int(rng.integers(3))
        child = context.Process(target=keep_releasing, args=(path, folder), daemon=True)
        child.start()
        assert child.pid is not None
        started = folder / f"started-{child.pid}"
        while not started.exists() or len(numbers(folder, "drawn")) < goal:
            assert child.is_alive()
            time.sleep(0.001)
        time.sleep(float(rng.uniform(0, 0.1)))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        assert child.exitcode == -signal.SIGKILL

        ledger = SQLiteLedger(path, "people")
        entries = {entry.number: entry for entry in ledger.entries}
        # whatever may have been drawn is written down, whatever was shown is concluded
        assert numbers(folder, "drawn") <= entries.keys()
        assert all(entries[n].released is not None for n in numbers(folder, "shown"))
        assert len(entries.keys() - numbers(folder, "drawn")) <= kills
        if entries:
            assert ledger.total() == total([PLAN.price()] * len(entries))
        with contextlib.closing(sqlite3.connect(path)) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    entries = {entry.number: entry for entry in SQLiteLedger(path, "people").entries}
    return len(entries), sum(entry.released is None for entry in entries.values())


def test_killed_processes_leave_every_spend_behind(tmp_path: Path) -> None:
    spends, _ = kill_and_check(tmp_path, 12, seed=1)
    assert spends > 0


@pytest.mark.study
def test_two_hundred_kills(tmp_path: Path) -> None:
    spends, unfinished = kill_and_check(tmp_path, 200, seed=2)
    # the moments were random enough to fall both inside and outside of a spend
    assert spends > unfinished > 0
    print(f"200 kills: {spends} spends, {unfinished} of them unfinished")  # noqa: T201 - a study
