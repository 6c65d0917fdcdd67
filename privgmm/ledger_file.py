"""The SQLite file under the ledger: where it lives, its tables, and how it is opened.

`ledger_store` says what is written and read; this keeps it whole when processes race or die.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from privgmm.errors import InvalidInput, PrivGMMError

__all__ = ["LEDGER_VARIABLE", "connection", "default_path", "transaction"]

LEDGER_VARIABLE = "PRIVGMM_LEDGER"
"""The environment variable that names another file than the usual one."""

_VERSION = 2
_WAIT_SECONDS = 60.0
_TABLES = (
    "CREATE TABLE salt (value BLOB NOT NULL)",
    """CREATE TABLE accounts (
        account TEXT PRIMARY KEY, label TEXT,
        cap_epsilon REAL, cap_delta REAL, cap_unit TEXT NOT NULL DEFAULT 'row',
        measured INTEGER NOT NULL DEFAULT 0, measure_order INTEGER)""",
    """CREATE TABLE spends (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        mark TEXT NOT NULL UNIQUE, account TEXT NOT NULL REFERENCES accounts,
        method TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL, unit TEXT NOT NULL,
        shortfall REAL NOT NULL, curve BLOB, plan TEXT NOT NULL, seeded INTEGER NOT NULL,
        intended TEXT NOT NULL, concluded TEXT, released INTEGER)""",
    "CREATE INDEX spends_of ON spends (account)",
    """CREATE TRIGGER spends_stay BEFORE DELETE ON spends
        BEGIN SELECT RAISE(ABORT, 'a spend cannot be taken back'); END""",
    """CREATE TRIGGER spends_hold BEFORE UPDATE ON spends
        WHEN OLD.released IS NOT NULL OR NEW.number <> OLD.number OR NEW.account <> OLD.account
            OR NEW.epsilon <> OLD.epsilon OR NEW.delta <> OLD.delta OR NEW.unit <> OLD.unit
            OR NEW.shortfall <> OLD.shortfall OR NEW.curve IS NOT OLD.curve
            OR NEW.method <> OLD.method OR NEW.plan <> OLD.plan OR NEW.seeded <> OLD.seeded
            OR NEW.mark <> OLD.mark
        BEGIN SELECT RAISE(ABORT, 'a spend cannot be changed'); END""",
)


def default_path() -> Path:
    """Where a user's ledger lives unless told otherwise; the same for every front door.

    What the environment variable PRIVGMM_LEDGER names; else ``privgmm/ledger.sqlite`` in the
    user's folder for data: $XDG_DATA_HOME or ~/.local/share, on Windows %LOCALAPPDATA%.
    """
    if chosen := os.environ.get(LEDGER_VARIABLE):
        return Path(chosen)
    variable = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_DATA_HOME"
    folder = Path(os.environ.get(variable, ""))
    if not folder.is_absolute():
        try:
            folder = Path.home() / ".local" / "share"
        except RuntimeError as problem:
            raise InvalidInput(
                f"there is no home folder for the ledger: set {LEDGER_VARIABLE} to a path"
            ) from problem
    return folder / "privgmm" / "ledger.sqlite"


@contextlib.contextmanager
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of one's own for each call: nothing is shared between threads or forks."""
    try:
        name = os.fsencode(path)
    except ValueError as problem:
        raise InvalidInput(f"the ledger's path {str(path)!r} is none: {problem}") from problem
    if b"\0" in name:
        raise InvalidInput(f"the ledger's path {str(path)!r} is none: it holds a null character")
    try:
        with contextlib.closing(
            sqlite3.connect(name, timeout=_WAIT_SECONDS, isolation_level=None)
        ) as database:
            # an intent must survive a power cut, not only a crash
            database.execute("PRAGMA synchronous = FULL")
            _prepare(database, path)
            yield database
    except sqlite3.OperationalError as problem:
        raise PrivGMMError(
            f"the ledger {path} cannot be used: {problem}; check that its folder exists and can "
            "be written, and that no other program keeps it locked"
        ) from problem
    except sqlite3.DatabaseError as problem:
        raise InvalidInput(
            f"{path} is not a ledger of this package: {problem}; give another path"
        ) from problem


@contextlib.contextmanager
def transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """All or nothing, and alone: BEGIN IMMEDIATE keeps every other writer out from the start."""
    with connection(path) as database:
        database.execute("BEGIN IMMEDIATE")
        try:
            yield database
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    """Make the tables if there are none; harmless when several processes do it at once."""
    if _version(database) == 0:
        tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and _version(database) == 0:
            raise InvalidInput(f"{path} is another program's database; give another path")
        _switch_to_wal(database)
        database.execute("BEGIN IMMEDIATE")
        if _version(database) == 0:
            for statement in _TABLES:
                database.execute(statement)
            database.execute("INSERT INTO salt VALUES (?)", (secrets.token_bytes(32),))
            database.execute(f"PRAGMA user_version = {_VERSION}")
        database.execute("COMMIT")
    if _version(database) != _VERSION:
        raise InvalidInput(
            f"{path} is a ledger of format {_version(database)}, this package reads {_VERSION}: "
            "use the version of the package that wrote it, or give another path"
        )


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _switch_to_wal(database: sqlite3.Connection) -> None:
    """Readers and one writer side by side. Two switching at once may collide without waiting."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as problem:
            if "locked" not in str(problem) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
