"""Ledgers that outlast the process: one SQLite file, safe against crashes and races.

`release` writes a spend into a ledger before noise is drawn. That intent is on the disk when the
call returns, so a crash or a power cut after it loses no spend: one that never finished counts like
any other.

One machine at a time: processes agree on who writes through memory that they share, which machines
do not. A file on a network's disk is refused where the system says that it lies there.

The file keeps an honest account for honest people. It does not stop a person who may write to it:
they can edit or remove it, open another one, or release without any. It is made readable for its
owner alone (mode 0600). Neither the file nor those that SQLite keeps next to it may be links.

The module goes from the whole to the parts: the book (a file), the ledger (one data set in it), the
intent (one spend in that); then how they are read, and how the file stays intact when processes
race or die.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
import secrets
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from privgmm.budget import Budget, Unit
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.ledger.history import (
    Entry,
    History,
    account_name,
    check_fingerprint,
    new_mark,
    now,
)
from privgmm.ledger.protocol import Book, Intent, Ledger
from privgmm.methods.plan import Plan
from privgmm.privacy.composition import Measure, Spend
from privgmm.privacy.curves import ORDERS, RenyiCurve
from privgmm.privacy.guessing import Sight

__all__ = [
    "LEDGER_VARIABLE",
    "SQLiteBook",
    "SQLiteIntent",
    "SQLiteLedger",
    "default_path",
]

LEDGER_VARIABLE = "PRIVGMM_LEDGER"
"""The environment variable that names another file than the usual one."""


def default_path() -> Path:
    """Return the path of the user's ledger; every front door uses it by default.

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


def _with_folder(path: Path) -> Path:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidInput(
            f"the folder of the ledger {path} cannot be made: {problem}; give another path"
        ) from problem
    return path


# ------------------------------------------------------------------------------- the book


class SQLiteBook(Book):
    """The ledgers of many data sets, in a file that many threads and processes may share.

    Parameters
    ----------
    path : path, optional
        The file. `open` makes it if there is none; to read a file that is not there is an error.
        None is the user's own, at `default_path`: while it is not there it reads as an empty book,
        and `open` makes its folder too.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._is_usual = path is None
        self._path = default_path() if path is None else Path(path)

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def open(
        self,
        fingerprint: str,
        *,
        cap: Budget | None = None,
        cap_unit: Unit = "row",
        label: str | None = None,
        n_rows: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> SQLiteLedger:
        """Return the ledger of a data set; make one if there is none."""
        path = _with_folder(self._path) if self._is_usual else self._path
        return SQLiteLedger(
            path,
            fingerprint,
            cap=cap,
            cap_unit=cap_unit,
            label=label,
            n_rows=n_rows,
            columns=columns,
        )

    def find(self, fingerprint: str) -> SQLiteLedger | None:
        """Return the ledger of a data set; None if there is none."""
        if self._is_empty():
            return None
        with _transaction(self._path, "DEFERRED") as database:
            known = _accounts(database, account=_account(database, fingerprint))
        return SQLiteLedger(self._path, fingerprint) if known else None

    def histories(self) -> list[History]:
        """Return what is known of every data set, in the order in which they were opened first."""
        if self._is_empty():
            return []
        with _transaction(self._path, "DEFERRED") as database:
            return _histories(database)

    def _is_empty(self) -> bool:
        if self._path.is_file():
            return False
        if self._is_usual and not self._path.exists():
            return True
        raise InvalidInput(f"there is no ledger at {self._path}: check the path")


# ------------------------------------------------------------------------------ one data set


class SQLiteLedger(Ledger):
    """The account of one data set, in a file that many threads and processes may share.

    Parameters
    ----------
    path : path or None
        The file; made if there is none. It may hold any number of data sets. None is the user's
        own, at `default_path`, whose folder is made too.
    fingerprint : str
        From `file_fingerprint` or `content_fingerprint`, or any name that stands for the data
        set. The file keeps only its HMAC-SHA256 under a random salt of its own, so the accounts
        of two files cannot be matched and no fingerprint can be read off. The salt is in the file:
        a person who has it can test whether data or a name they think of is in it. Times, labels
        and shapes are kept as they are.
    cap : Budget, optional
        The most that all spends together may cost. The first cap given is kept in the file. It
        holds for every process from then on, also for those that give none; another value is
        refused. `composition` says how spends are added. Set the cap before the first release: its
        proof does not cover a cap chosen in view of releases.
    cap_unit : {"row", "person"}
        What the cap protects. Under a cap for persons, releases for rows are not allowed; under
        one for rows, releases for persons count in full.
    label : str, optional
        What people call the data set, for lists; kept as it is. The last one counts.
    n_rows, columns : int and sequence of str, optional
        Its shape, by which `Book.look_alikes` finds other states of the same table.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        fingerprint: str,
        *,
        cap: Budget | None = None,
        cap_unit: Unit = "row",
        label: str | None = None,
        n_rows: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        check_fingerprint(fingerprint)
        self._path = _with_folder(default_path()) if path is None else Path(path)
        with _transaction(self._path, "IMMEDIATE") as database:
            self._account = _account(database, fingerprint)
            database.execute(
                "INSERT OR IGNORE INTO accounts (account) VALUES (?)", (self._account,)
            )
            (kept,) = _accounts(database, account=self._account)
            opened = kept.opened(
                cap=cap, cap_unit=cap_unit, label=label, n_rows=n_rows, columns=columns
            )
            if opened != kept:
                database.execute(
                    "UPDATE accounts SET label = ?, cap_epsilon = ?, cap_delta = ?, cap_unit = ?, "
                    "n_rows = ?, columns = ? WHERE account = ?",
                    (
                        opened.label,
                        None if opened.cap is None else opened.cap.epsilon,
                        None if opened.cap is None else opened.cap.delta,
                        opened.cap_unit,
                        opened.n_rows,
                        None if opened.columns is None else json.dumps(opened.columns),
                        self._account,
                    ),
                )

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def history(self) -> History:
        """Return everything known at this moment."""
        with _transaction(self._path, "DEFERRED") as database:
            return self._read(database)

    def intend(self, plan: Plan, *, seeded: bool, unit: Unit = "row") -> Intent:
        """Write down a spend that is about to happen; on the disk when this returns.

        Raises
        ------
        BudgetExceeded
            If the cap does not allow it. Then nothing is written.
        """
        spend, mark = plan.price(), new_mark()
        row: dict[str, Any] = {
            "mark": mark,
            "account": self._account,
            "method": plan.method,
            "epsilon": spend.budget.epsilon,
            "delta": spend.budget.delta,
            "unit": unit,
            "shortfall": spend.shortfall,
            "curve": None if spend.curve is None else spend.curve.values.astype("<f8").tobytes(),
            "plan": json.dumps(plan.to_dict(), sort_keys=True),
            "seeded": int(seeded),
            "intended": now(),
        }
        with _transaction(self._path, "IMMEDIATE") as database:
            measure = self._read(database).admit(spend, unit)
            if measure is not None:
                database.execute(
                    "UPDATE accounts SET measured = 1, measure_order = ? WHERE account = ?",
                    (measure.order, self._account),
                )
            cursor = database.execute(
                f"INSERT INTO spends ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
                tuple(row.values()),
            )
            number = int(cursor.lastrowid or 0)
        return SQLiteIntent(number, mark, self._path)

    def _read(self, database: sqlite3.Connection) -> History:
        for history in _histories(database, account=self._account):
            return history
        raise PrivGMMError(
            f"the ledger {self._path} no longer knows this data set: the file was removed or "
            "replaced since it was opened; restore it, or open the ledger again"
        )


# --------------------------------------------------------------------------------- one spend


@dataclasses.dataclass(frozen=True)
class SQLiteIntent:
    """A spend in a `SQLiteLedger`, on the disk already."""

    number: int
    mark: str
    _path: Path = dataclasses.field(repr=False)

    def conclude(self, *, released: bool, reason: str | None = None) -> None:
        """Write down how it ended, once."""
        with _transaction(self._path, "IMMEDIATE") as database:
            for row in _rows(database, "spends", mark=self.mark):
                ended = _entry(row).ended(released=released, reason=reason)
                database.execute(
                    "UPDATE spends SET released = ?, reason = ?, concluded = ? WHERE mark = ?",
                    (int(released), ended.reason, ended.concluded, self.mark),
                )
                return
        raise PrivGMMError(
            f"spend {self.number} is no longer in the ledger {self._path}: the file was removed or "
            "replaced since it was written down; restore it"
        )


# ------------------------------------------------------------------------------ what is read


def _account(database: sqlite3.Connection, fingerprint: str) -> str:
    (row,) = _rows(database, "salt")
    return account_name(fingerprint, row["value"])


def _histories(database: sqlite3.Connection, **known: str) -> list[History]:
    """Read what is known of all data sets in the file, or of the one with this account."""
    entries: dict[str, list[Entry]] = {}
    for row in _rows(database, "spends", **known):
        entries.setdefault(row["account"], []).append(_entry(row))
    return [
        dataclasses.replace(history, entries=tuple(entries.get(history.account, ())))
        for history in _accounts(database, **known)
    ]


def _accounts(database: sqlite3.Connection, **known: str) -> list[History]:
    """Read the accounts in the file, or the one known, without their entries."""
    found = []
    for row in _rows(database, "accounts", **known):
        cap = measure = None
        if row["cap_epsilon"] is not None:
            cap = Budget(row["cap_epsilon"], row["cap_delta"])
            measure = Measure(cap, row["measure_order"]) if row["measured"] else None
        columns = None if row["columns"] is None else tuple(json.loads(row["columns"]))
        found.append(
            History(
                row["account"],
                row["label"],
                (),
                cap,
                row["cap_unit"],
                measure,
                row["n_rows"],
                columns,
            )
        )
    return found


def _entry(row: sqlite3.Row) -> Entry:
    budget = Budget(row["epsilon"], row["delta"])
    # without a curve on these orders the spend counts by its own guarantee
    spend = Spend(budget, None, budget.delta)
    if row["curve"] is not None and len(row["curve"]) == ORDERS.nbytes:
        curve = RenyiCurve(np.frombuffer(row["curve"], dtype="<f8"))
        spend = Spend(budget, curve, row["shortfall"], _sight(row["plan"]))
    return Entry(
        number=row["number"],
        mark=row["mark"],
        method=row["method"],
        spend=spend,
        seeded=bool(row["seeded"]),
        unit=row["unit"],
        intended=row["intended"],
        concluded=row["concluded"],
        released=None if row["released"] is None else bool(row["released"]),
        reason=row["reason"],
    )


@functools.lru_cache(maxsize=256)
def _sight(plan: str) -> Sight | None:
    """Return what a stored plan lets an attacker see; None if it can no longer be read."""
    try:
        return Plan.from_dict(json.loads(plan)).price().sight
    except PrivGMMError:
        return None


def _rows(database: sqlite3.Connection, table: str, **known: str) -> list[sqlite3.Row]:
    """Read rows of a table, oldest first: all of them, or those with a known value."""
    where = "".join(f" WHERE {column} = ?" for column in known)
    query = f"SELECT * FROM {table}{where} ORDER BY rowid"
    return database.execute(query, tuple(known.values())).fetchall()


# -------------------------------------------------------------------------------- the file

_VERSION = 4
"""Format of the file, kept in SQLite's ``user_version``; it grows with every change of tables."""
_WAIT_SECONDS = 60.0
"""How long to wait for another process that writes; a write takes milliseconds."""
_TABLES = (
    "CREATE TABLE salt (value BLOB NOT NULL)",
    """CREATE TABLE accounts (
        account TEXT PRIMARY KEY, label TEXT,
        cap_epsilon REAL, cap_delta REAL, cap_unit TEXT NOT NULL DEFAULT 'row',
        measured INTEGER NOT NULL DEFAULT 0, measure_order INTEGER,
        n_rows INTEGER, columns TEXT)""",
    """CREATE TABLE spends (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        mark TEXT NOT NULL UNIQUE, account TEXT NOT NULL REFERENCES accounts,
        method TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL, unit TEXT NOT NULL,
        shortfall REAL NOT NULL, curve BLOB, plan TEXT NOT NULL, seeded INTEGER NOT NULL,
        intended TEXT NOT NULL, concluded TEXT, released INTEGER, reason TEXT)""",
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


_SINCE = {
    2: (
        "ALTER TABLE accounts ADD COLUMN n_rows INTEGER",
        "ALTER TABLE accounts ADD COLUMN columns TEXT",
    ),
    3: ("ALTER TABLE spends ADD COLUMN reason TEXT",),
}
"""For each older format what turns it into the next one; what it did not know stays unknown."""
_FILES = ("", "-wal", "-shm", "-journal")
"""Files that SQLite writes for one database, as endings of its name."""
_MOUNTS = Path("/proc/self/mountinfo")
"""Where Linux lists file systems, see proc(5)."""
_SHARE = "share"
_NETWORKS = frozenset(
    [
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "davfs",
        "fuse.ceph",
        "fuse.cephfs",
        "fuse.davfs2",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "smb3",
        "smbfs",
    ]
) | {_SHARE}
"""Kinds of file systems that several machines may write at once. Others exist: a list cannot know
all of them, nor folders that a program copies between machines."""


@contextlib.contextmanager
def _transaction(
    path: Path, kind: Literal["DEFERRED", "IMMEDIATE"]
) -> Iterator[sqlite3.Connection]:
    """Run one transaction on a connection of its own: threads and forks share nothing.

    A DEFERRED one reads, and sees one state of the file throughout. An IMMEDIATE one writes, and
    locks out every other writer from the start.
    """
    name = _file_name(path)
    _claim(path)
    try:
        with contextlib.closing(
            sqlite3.connect(name, timeout=_WAIT_SECONDS, isolation_level=None)
        ) as database:
            database.row_factory = sqlite3.Row
            # an intent must survive a power cut, not only a crash
            database.execute("PRAGMA synchronous = FULL")
            _prepare(database, path)
            database.execute(f"BEGIN {kind}")
            try:
                yield database
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")
    except sqlite3.OperationalError as problem:
        raise PrivGMMError(
            f"the ledger {path} cannot be used: {problem}; check that its folder exists and can "
            "be written, and that no other program keeps it locked"
        ) from problem
    except sqlite3.DatabaseError as problem:
        raise InvalidInput(
            f"{path} is not a ledger of this package: {problem}; give another path"
        ) from problem


def _file_name(path: Path) -> bytes:
    try:
        name = os.fsencode(path)
    except ValueError as problem:
        raise InvalidInput(
            f"the ledger's path {str(path)!r} cannot be the name of a file: {problem}"
        ) from problem
    if b"\0" in name:
        raise InvalidInput(
            f"the ledger's path {str(path)!r} cannot be the name of a file: it holds a null "
            "character"
        )
    return name


def _claim(path: Path) -> None:
    """Refuse links and disks of a network; make a missing file, readable by its owner alone.

    SQLite gives the files that it writes next to it the same rights.
    """
    kind = _file_system(path.absolute().parent)
    if kind in _NETWORKS:
        raise InvalidInput(
            f"the ledger {path} lies on a disk of a network ({kind}), where two machines could "
            "both spend what a cap has left: give a path on a disk of this machine"
        )
    for ending in _FILES:
        place = path.with_name(path.name + ending) if ending else path
        if place.is_symlink():
            raise InvalidInput(
                f"the ledger {place} is a link, which may lead anywhere: give the file itself"
            )
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    # where it cannot be made, opening the database fails too, and says why
    with contextlib.suppress(OSError):
        os.close(os.open(path, flags, 0o600))


@functools.lru_cache(maxsize=64)
def _file_system(folder: Path) -> str:
    """Name the kind of file system that a folder lies on; empty where the system does not say."""
    if os.name == "nt":
        return _SHARE if folder.drive.startswith("\\\\") else ""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    place, found, longest = folder.resolve(), "", -1
    for line in lines:
        fields, _, rest = line.partition(" - ")
        # blanks and backslashes are written as octal numbers
        mount = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields.split(" ")[4])
        # of two file systems at one place the later one is on top
        if len(mount) >= longest and place.is_relative_to(mount):
            found, longest = rest.split(" ")[0], len(mount)
    return found


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    """Make the tables, or bring them up to date; safe when several processes do it at once."""
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
    if _version(database) in _SINCE:
        database.execute("BEGIN IMMEDIATE")
        # asked again: another process may have done it while this one waited for the lock
        while (older := _version(database)) in _SINCE:
            for statement in _SINCE[older]:
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {older + 1}")
        database.execute("COMMIT")
    if _version(database) != _VERSION:
        raise InvalidInput(
            f"{path} is a ledger of format {_version(database)}, this package reads {_VERSION}: "
            "use the version of the package that wrote it, or give another path"
        )


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _switch_to_wal(database: sqlite3.Connection) -> None:
    """Let readers and one writer work at the same time.

    SQLite does not wait where two processes switch at once, so this tries again.
    """
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
