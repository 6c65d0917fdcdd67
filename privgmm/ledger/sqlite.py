"""A ledger that outlives the process: one SQLite file, safe against crashes and races.

`release` tells it of a spend before noise is drawn. That intent is on the disk before the call
returns, so whatever happens next, nothing can be released that is not in the file. A spend that
never finished counts like any other. The first part keeps the file whole when processes race or
die; the second says what is written and read.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import datetime
import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from privgmm.budget import Budget, Unit, check_unit
from privgmm.data.fingerprint import content_fingerprint, file_fingerprint
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.ledger.protocol import Entry, Standing, check_cap_unit
from privgmm.methods.plan import Plan
from privgmm.privacy.composition import Measure, Spend, measure_for, total
from privgmm.privacy.curves import ORDERS, RenyiCurve

__all__ = [
    "LEDGER_VARIABLE",
    "SQLiteLedger",
    "connection",
    "content_fingerprint",
    "default_path",
    "file_fingerprint",
    "find_account",
    "read_spends",
    "read_standings",
    "transaction",
    "write_spends_csv",
]

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


_MEANING = {
    None: "unfinished: counted as spent, for its noise may have been drawn",
    0: "refused: the blocks did not agree, which is an answer too and costs the same",
    1: "released",
}
_COLUMNS = (
    "number",
    "mark",
    "account",
    "label",
    "method",
    "epsilon",
    "delta",
    "unit",
    "seeded",
    "intended",
    "concluded",
    "released",
    "meaning",
)


class SQLiteLedger:
    """The spends of one data set, in a file that many threads and processes may share.

    Parameters
    ----------
    path : path or None
        The file; made if there is none. It may hold any number of data sets. None is the user's
        own, at `default_path`, whose folder is made too.
    data_fingerprint : str
        From `file_fingerprint` or `content_fingerprint`, or any name that stands for the data
        set. The file keeps only its HMAC-SHA256 under a random salt of its own: two files
        cannot be matched, and the name or the data cannot be read back. (Whoever has the file
        *and* the data can check that they belong together.)
    cap : Budget, optional
        The most that all spends together may cost. The first cap given is kept in the file and
        holds for every process from then on, also for those that give none; another value is
        refused. `composition` says how spends are added. Set it before the first release: a
        cap chosen in view of releases is not covered by that argument.
    cap_unit : {"row", "person"}
        What the cap protects. Under a cap for persons, releases for rows are not allowed; under
        one for rows, releases for persons count in full.
    label : str, optional
        What people call the data set, to be read in lists; kept as it is. The last one counts.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        data_fingerprint: str,
        *,
        cap: Budget | None = None,
        cap_unit: Unit = "row",
        label: str | None = None,
    ) -> None:
        if not isinstance(data_fingerprint, str) or not data_fingerprint:
            raise InvalidInput(
                "data_fingerprint must be a non-empty string: use content_fingerprint(X), or a "
                "name of your own for the data set"
            )
        check_unit(cap_unit, "cap_unit")
        self._path = _own_path() if path is None else Path(path)
        with transaction(self._path) as database:
            self._account = _account(database, data_fingerprint)
            database.execute("INSERT OR IGNORE INTO accounts (account) VALUES (?)", self._key)
            if label is not None:
                shown = label.encode("utf-8", "replace").decode()
                database.execute(
                    "UPDATE accounts SET label = ? WHERE account = ?", (shown, self._account)
                )
            kept, kept_unit, _ = _read_cap(database, self._account)
            if cap is not None and kept is None:
                database.execute(
                    "UPDATE accounts SET cap_epsilon = ?, cap_delta = ?, cap_unit = ? "
                    "WHERE account = ?",
                    (cap.epsilon, cap.delta, cap_unit, self._account),
                )
            elif cap is not None and (kept, kept_unit) != (cap, cap_unit):
                raise InvalidInput(
                    f"cap: this data set already has the cap {kept} for a {kept_unit} in "
                    f"{self._path}, and {cap} for a {cap_unit} cannot replace it; leave cap out to "
                    "go on under the one it has"
                )

    @property
    def _key(self) -> tuple[str]:
        return (self._account,)

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def account(self) -> str:
        """What stands for the data set in the file."""
        return self._account

    @property
    def cap(self) -> Budget | None:
        """The cap kept in the file."""
        with connection(self._path) as database:
            return _read_cap(database, self._account)[0]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All spends of this data set, oldest first."""
        return tuple(
            Entry(
                row["number"],
                row["method"],
                Budget(row["epsilon"], row["delta"]),
                row["seeded"],
                row["released"],
                row["unit"],
            )
            for row in self.export()
        )

    def spends(self) -> list[Spend]:
        """What each of them costs, as `composition` adds it up; oldest first."""
        with connection(self._path) as database:
            return [spend for spend, _ in _read_spends(database, self._account)]

    def standing(self) -> Standing:
        """Total, cap, and what is left."""
        with connection(self._path) as database:
            return _read_standing(database, self._account)

    def total(self, delta: float | None = None) -> Budget | None:
        """What all spends cost together, by `composition.total`; None if there are none.

        Converted at `delta`, by default the cap's, without a cap the sum of all deltas.
        """
        with connection(self._path) as database:
            cap, _, _ = _read_cap(database, self._account)
        spends = self.spends()
        if not spends:
            return None
        return total(spends, delta if delta is not None or cap is None else cap.delta)

    def intend(self, plan: Plan, *, seeded: bool, unit: Unit = "row") -> SQLiteIntent:
        """Write down a spend that is about to happen; on the disk when this returns.

        Raises
        ------
        BudgetExceeded
            If the cap does not allow it. Then nothing is written.
        """
        spend, text = plan.price(), json.dumps(plan.to_dict(), sort_keys=True)
        check_unit(unit, "unit")
        with transaction(self._path) as database:
            self._check_cap(database, spend, unit)
            row: dict[str, Any] = {
                "mark": secrets.token_hex(8),
                "account": self._account,
                "method": plan.method,
                "epsilon": spend.budget.epsilon,
                "delta": spend.budget.delta,
                "unit": unit,
                "shortfall": spend.shortfall,
                "curve": None
                if spend.curve is None
                else spend.curve.values.astype("<f8").tobytes(),
                "plan": text,
                "seeded": int(seeded),
                "intended": _now(),
            }
            cursor = database.execute(
                f"INSERT INTO spends ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
                tuple(row.values()),
            )
            return SQLiteIntent(self, int(cursor.lastrowid or 0), row["mark"])

    def conclude(self, entry: int, *, released: bool) -> None:
        """Write down how it ended. A refusal has spent its budget too."""
        with transaction(self._path) as database:
            changed = database.execute(
                "UPDATE spends SET released = ?, concluded = ? "
                "WHERE number = ? AND account = ? AND released IS NULL",
                (int(released), _now(), entry, self._account),
            ).rowcount
            if not changed:
                raise InvalidInput(f"there is no open entry {entry} for this data set")

    def mark(self, entry: int) -> str:
        """The random name of a spend, for its receipt: it finds the spend and says nothing else.

        Unlike the account it is another one for each spend, so receipts cannot be matched.
        """
        with connection(self._path) as database:
            row = database.execute(
                "SELECT mark FROM spends WHERE number = ? AND account = ?", (entry, self._account)
            ).fetchone()
        if row is None:
            raise InvalidInput(f"there is no entry {entry} for this data set")
        return str(row[0])

    def export(self) -> list[dict[str, Any]]:
        """One dict a spend of this data set, oldest first: what, when, how it ended and why."""
        return [row for row in read_spends(self._path) if row["account"] == self._account]

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """The same as a CSV file."""
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            write_spends_csv(self.export(), file)

    def _check_cap(self, database: sqlite3.Connection, spend: Spend, unit: Unit) -> None:
        cap, cap_unit, kept = _read_cap(database, self._account)
        if cap is None:
            return
        check_cap_unit(cap_unit, unit)
        before = _read_spends(database, self._account)
        if cap_unit == "person" and any(old == "row" for _, old in before):
            # the cap came later than a release that protects no person
            check_cap_unit(cap_unit, "row")
        measure = measure_for(cap, [*(old for old, _ in before), spend], kept)
        database.execute(
            "UPDATE accounts SET measured = 1, measure_order = ? WHERE account = ?",
            (measure.order, self._account),
        )


@dataclasses.dataclass(frozen=True)
class SQLiteIntent:
    """A spend in a `SQLiteLedger`, on the disk already."""

    ledger: SQLiteLedger
    number: int
    mark: str

    def conclude(self, *, released: bool) -> None:
        """Write down how it ended."""
        self.ledger.conclude(self.number, released=released)


def _own_path() -> Path:
    path = default_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidInput(
            f"the folder of the ledger {path} cannot be made: {problem}; give another path"
        ) from problem
    return path


def read_spends(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Every spend in a ledger's file, whatever its data set, oldest first."""
    with connection(_existing(path)) as database:
        rows = database.execute(
            f"SELECT {', '.join(_COLUMNS[:-1])} FROM spends JOIN accounts USING (account) "
            "ORDER BY number"
        ).fetchall()
    found = []
    for values in rows:
        row: dict[str, Any] = dict(zip(_COLUMNS, values, strict=False))
        row["meaning"] = _MEANING[row["released"]]
        row["seeded"] = bool(row["seeded"])
        row["released"] = None if row["released"] is None else bool(row["released"])
        found.append(row)
    return found


def find_account(path: str | os.PathLike[str], data_fingerprint: str) -> str:
    """What would stand for a data set in a ledger's file, whether it is there or not."""
    with connection(_existing(path)) as database:
        return _account(database, data_fingerprint)


def read_standings(path: str | os.PathLike[str]) -> list[Standing]:
    """Where every data set in a ledger's file stands, in the order in which they came."""
    with connection(_existing(path)) as database:
        accounts = database.execute("SELECT account FROM accounts ORDER BY rowid").fetchall()
        return [_read_standing(database, account) for (account,) in accounts]


def write_spends_csv(spends: Iterable[Mapping[str, Any]], stream: TextIO) -> None:
    """Spends, as `read_spends` gives them, as CSV."""
    writer = csv.DictWriter(stream, _COLUMNS)
    writer.writeheader()
    writer.writerows(spends)


def _account(database: sqlite3.Connection, data_fingerprint: str) -> str:
    (salt,) = database.execute("SELECT value FROM salt").fetchone()
    name = data_fingerprint.encode("utf-8", "surrogatepass")
    return hmac.new(salt, name, hashlib.sha256).hexdigest()


def _existing(path: str | os.PathLike[str]) -> Path:
    if not Path(path).is_file():
        raise InvalidInput(f"there is no ledger at {path}: check the path")
    return Path(path)


def _read_standing(database: sqlite3.Connection, account: str) -> Standing:
    cap, cap_unit, measure = _read_cap(database, account)
    spends = _read_spends(database, account)
    (label,) = database.execute(
        "SELECT label FROM accounts WHERE account = ?", (account,)
    ).fetchone()
    return Standing.of(
        [spend for spend, _ in spends],
        [unit for _, unit in spends],
        cap,
        measure,
        cap_unit=cap_unit,
        account=account,
        label=label,
    )


def _read_cap(
    database: sqlite3.Connection, account: str
) -> tuple[Budget | None, Unit, Measure | None]:
    """The cap, what it protects, and how spends are held against it, if that was chosen."""
    epsilon, delta, unit, measured, order = database.execute(
        "SELECT cap_epsilon, cap_delta, cap_unit, measured, measure_order FROM accounts "
        "WHERE account = ?",
        (account,),
    ).fetchone()
    cap = None if epsilon is None else Budget(epsilon, delta)
    return cap, unit, Measure(cap, order) if measured and cap is not None else None


def _read_spends(database: sqlite3.Connection, account: str) -> list[tuple[Spend, Unit]]:
    rows = database.execute(
        "SELECT epsilon, delta, shortfall, curve, unit FROM spends WHERE account = ? "
        "ORDER BY number",
        (account,),
    )
    return [(_spend(*numbers), unit) for *numbers, unit in rows]


def _spend(epsilon: float, delta: float, shortfall: float, curve: bytes | None) -> Spend:
    budget = Budget(epsilon, delta)
    if curve is None or len(curve) != ORDERS.nbytes:
        # without a curve on these orders the spend counts by its own guarantee
        return Spend(budget, None, delta)
    return Spend(budget, RenyiCurve(np.frombuffer(curve, dtype="<f8")), shortfall)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
