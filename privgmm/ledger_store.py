"""A ledger that outlives the process: one SQLite file, safe against crashes and races.

`release` tells it of a spend before noise is drawn. That intent is on the disk before the call
returns, so whatever happens next, nothing can be released that is not in the file. A spend that
never finished counts like any other.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from privgmm.arrays import finite_array
from privgmm.budget import Budget
from privgmm.composition import Measure, Spend, total
from privgmm.errors import BudgetExceeded, InvalidInput, PrivGMMError
from privgmm.ledger import Entry
from privgmm.plan import Plan
from privgmm.renyi import ORDERS, RenyiCurve

__all__ = ["SQLiteLedger", "content_fingerprint", "read_spends"]

_VERSION = 1
_WAIT_SECONDS = 60.0
_TABLES = (
    "CREATE TABLE salt (value BLOB NOT NULL)",
    """CREATE TABLE accounts (
        account TEXT PRIMARY KEY,
        cap_epsilon REAL, cap_delta REAL,
        measured INTEGER NOT NULL DEFAULT 0, measure_order INTEGER)""",
    """CREATE TABLE spends (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        account TEXT NOT NULL REFERENCES accounts,
        method TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL,
        shortfall REAL NOT NULL, curve BLOB, plan TEXT NOT NULL, seeded INTEGER NOT NULL,
        intended TEXT NOT NULL, concluded TEXT, released INTEGER)""",
    "CREATE INDEX spends_of ON spends (account)",
    """CREATE TRIGGER spends_stay BEFORE DELETE ON spends
        BEGIN SELECT RAISE(ABORT, 'a spend cannot be taken back'); END""",
    """CREATE TRIGGER spends_hold BEFORE UPDATE ON spends
        WHEN OLD.released IS NOT NULL OR NEW.number <> OLD.number OR NEW.account <> OLD.account
            OR NEW.epsilon <> OLD.epsilon OR NEW.delta <> OLD.delta
            OR NEW.shortfall <> OLD.shortfall OR NEW.curve IS NOT OLD.curve
            OR NEW.method <> OLD.method OR NEW.plan <> OLD.plan OR NEW.seeded <> OLD.seeded
        BEGIN SELECT RAISE(ABORT, 'a spend cannot be changed'); END""",
)
_MEANING = {
    None: "unfinished: counted as spent, for its noise may have been drawn",
    0: "refused: the blocks did not agree, which is an answer too and costs the same",
    1: "released",
}


def content_fingerprint(X: npt.ArrayLike) -> str:
    """SHA-256 of a table of numbers (n, d), whatever the order of its rows.

    A table with one row or column more is another one: to hold a growing data set to one cap,
    give the ledger a name of your own for it instead.
    """
    rows = finite_array(X, "X", (None, None)) + 0.0  # no negative zeros
    rows = rows[np.lexsort(rows.T[::-1])] if rows.size else rows
    digest = hashlib.sha256(f"{rows.shape[0]}x{rows.shape[1]};".encode())
    digest.update(np.ascontiguousarray(rows, dtype="<f8").tobytes())
    return digest.hexdigest()


class SQLiteLedger:
    """The spends of one data set, in a file that many threads and processes may share.

    Parameters
    ----------
    path : path
        The file; made if there is none. It may hold any number of data sets.
    data_fingerprint : str
        From `content_fingerprint`, or any name that stands for the data set. The file keeps
        only its HMAC-SHA256 under a random salt of its own: two files cannot be matched, and
        the name or the data cannot be read back. (Whoever has the file *and* the data can
        check that they belong together.) Costs are those of one row, or of one person if all
        its releases name their ``groups``: the two do not add up, so keep them apart by name.
    cap : Budget, optional
        The most that all spends together may cost. The first cap given is kept in the file and
        holds for every process from then on, also for those that give none; another value is
        refused. `composition` says how spends are added. Set it before the first release: a
        cap chosen in view of releases is not covered by that argument.
    """

    def __init__(
        self, path: str | os.PathLike[str], data_fingerprint: str, *, cap: Budget | None = None
    ) -> None:
        if not isinstance(data_fingerprint, str) or not data_fingerprint:
            raise InvalidInput(
                "data_fingerprint must be a non-empty string: use content_fingerprint(X), or a "
                "name of your own for the data set"
            )
        self._path = Path(path)
        with _transaction(self._path) as database:
            (salt,) = database.execute("SELECT value FROM salt").fetchone()
            name = data_fingerprint.encode("utf-8", "surrogatepass")
            self._account = hmac.new(salt, name, hashlib.sha256).hexdigest()
            database.execute("INSERT OR IGNORE INTO accounts (account) VALUES (?)", self._key)
            kept = self._read_cap(database)
            if cap is not None and kept is None:
                database.execute(
                    "UPDATE accounts SET cap_epsilon = ?, cap_delta = ? WHERE account = ?",
                    (cap.epsilon, cap.delta, self._account),
                )
            elif cap is not None and kept != cap:
                raise InvalidInput(
                    f"cap: this data set already has the cap {kept} in {self._path}, and {cap} "
                    "cannot replace it; leave cap out to go on under the one it has"
                )

    @property
    def _key(self) -> tuple[str]:
        return (self._account,)

    @property
    def account(self) -> str:
        """What stands for the data set in the file."""
        return self._account

    @property
    def cap(self) -> Budget | None:
        """The cap kept in the file."""
        with _connection(self._path) as database:
            return self._read_cap(database)

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
            )
            for row in self.export()
        )

    def total(self, delta: float | None = None) -> Budget | None:
        """What all spends cost together, by `composition.total`; None if there are none.

        Converted at `delta`, by default the cap's, without a cap the sum of all deltas.
        """
        with _connection(self._path) as database:
            spends, cap = self._read_spends(database), self._read_cap(database)
        if not spends:
            return None
        return total(spends, delta if delta is not None or cap is None else cap.delta)

    def intend(self, plan: Plan, *, seeded: bool) -> int:
        """Write down a spend that is about to happen; on the disk when this returns.

        Raises
        ------
        BudgetExceeded
            If the cap does not allow it. Then nothing is written.
        """
        spend, text = Spend.of(plan), json.dumps(plan.to_dict(), sort_keys=True)
        with _transaction(self._path) as database:
            self._check_cap(database, spend)
            cursor = database.execute(
                "INSERT INTO spends (account, method, epsilon, delta, shortfall, curve, plan, "
                "seeded, intended) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    self._account,
                    plan.method,
                    spend.budget.epsilon,
                    spend.budget.delta,
                    spend.shortfall,
                    None if spend.curve is None else spend.curve.values.astype("<f8").tobytes(),
                    text,
                    int(seeded),
                    _now(),
                ),
            )
            return int(cursor.lastrowid or 0)

    def conclude(self, entry: int, *, released: bool) -> None:
        """Write down how it ended. A refusal has spent its budget too."""
        with _transaction(self._path) as database:
            changed = database.execute(
                "UPDATE spends SET released = ?, concluded = ? "
                "WHERE number = ? AND account = ? AND released IS NULL",
                (int(released), _now(), entry, self._account),
            ).rowcount
            if not changed:
                raise InvalidInput(f"there is no open entry {entry} for this data set")

    def export(self) -> list[dict[str, Any]]:
        """One dict a spend of this data set, oldest first: what, when, how it ended and why."""
        return [row for row in read_spends(self._path) if row["account"] == self._account]

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """The same as a CSV file."""
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, _COLUMNS)
            writer.writeheader()
            writer.writerows(self.export())

    def _check_cap(self, database: sqlite3.Connection, spend: Spend) -> None:
        cap = self._read_cap(database)
        if cap is None:
            return
        spends = [*self._read_spends(database), spend]
        measured, order = database.execute(
            "SELECT measured, measure_order FROM accounts WHERE account = ?", self._key
        ).fetchone()
        measure = Measure(cap, order) if measured else Measure.choose(cap, spends[0])
        if not measure.admits(spends):
            cost = total(spends, cap.delta)
            raise BudgetExceeded(
                f"this release would bring the total of the data set to {cost}, beyond what its "
                f"cap {cap} allows for sure: nothing was drawn and nothing spent"
            )
        database.execute(
            "UPDATE accounts SET measured = 1, measure_order = ? WHERE account = ?",
            (measure.order, self._account),
        )

    def _read_cap(self, database: sqlite3.Connection) -> Budget | None:
        epsilon, delta = database.execute(
            "SELECT cap_epsilon, cap_delta FROM accounts WHERE account = ?", self._key
        ).fetchone()
        return None if epsilon is None else Budget(epsilon, delta)

    def _read_spends(self, database: sqlite3.Connection) -> list[Spend]:
        rows = database.execute(
            "SELECT epsilon, delta, shortfall, curve FROM spends WHERE account = ? ORDER BY number",
            self._key,
        )
        return [_spend(*row) for row in rows]


_COLUMNS = (
    "number",
    "account",
    "method",
    "epsilon",
    "delta",
    "seeded",
    "intended",
    "concluded",
    "released",
    "meaning",
)


def read_spends(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Every spend in a ledger's file, whatever its data set, oldest first."""
    if not Path(path).is_file():
        raise InvalidInput(f"there is no ledger at {path}: check the path")
    with _connection(Path(path)) as database:
        rows = database.execute(
            f"SELECT {', '.join(_COLUMNS[:-1])} FROM spends ORDER BY number"
        ).fetchall()
    found = []
    for values in rows:
        row: dict[str, Any] = dict(zip(_COLUMNS, values, strict=False))
        row["meaning"] = _MEANING[row["released"]]
        row["seeded"] = bool(row["seeded"])
        row["released"] = None if row["released"] is None else bool(row["released"])
        found.append(row)
    return found


def _spend(epsilon: float, delta: float, shortfall: float, curve: bytes | None) -> Spend:
    budget = Budget(epsilon, delta)
    if curve is None or len(curve) != ORDERS.nbytes:
        # without a curve on these orders the spend counts by its own guarantee
        return Spend(budget, None, delta)
    return Spend(budget, RenyiCurve(np.frombuffer(curve, dtype="<f8")), shortfall)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


@contextlib.contextmanager
def _connection(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of one's own for each call: nothing is shared between threads or forks."""
    try:
        with contextlib.closing(
            sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
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
def _transaction(path: Path) -> Iterator[sqlite3.Connection]:
    """All or nothing, and alone: BEGIN IMMEDIATE keeps every other writer out from the start."""
    with _connection(path) as database:
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
            "upgrade it"
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
