"""Count spends that are in no ledger, for as long as the process lasts.

To fit the same rows twice is to spend twice, and a grid search or a cross-validation does so dozens
of times. A `ProcessAccount` recognises rows it has met, in another order, in part, or with other
columns, so that `cautions` can say what all of it costs together. It is a safety net for honest
mistakes and no more. It ends with the process; other processes (``n_jobs``) have their own; rows
that were transformed or rounded meanwhile are not recognised. To keep account, use a ledger.
"""

from __future__ import annotations

import collections
import dataclasses
import secrets
import threading

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array
from privgmm.ledger.history import Entry, History

__all__ = ["ProcessAccount", "Trace"]

_MARKS = 512
"""Hashes kept per table, shared among its columns: 4 kB."""
_FEWEST = 16
"""Hashes kept per column, however many columns there are."""
_SHARED = 0.05
"""Share of the marks that two tables must have in common to count as one."""
_OFTEN = 1.5
"""Times that a value of a telling column occurs, on average, at most."""
_TABLES = 1_000
"""Tables remembered: some 4 MB; the oldest are forgotten."""

_Bits = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, eq=False)
class Trace:
    """Salted hashes of a few numbers of a table, by which it is recognised.

    Parameters
    ----------
    digest : tuple of int
        Of the whole table; it does not depend on the order of the rows. Equal for equal tables.
    marks : array of uint64 (m,)
        The smallest hashes of values in columns whose values hardly repeat, sorted. Parts of a
        table share theirs, because which values are marked depends on the values alone. Where all
        columns repeat their values (ages, ratings), there are none: rows of other people look
        alike, and only the whole table is recognised.
    """

    digest: tuple[int, int]
    marks: _Bits

    @classmethod
    def of(cls, rows: Array, salt: int) -> Trace:
        """Hash rows (n, d), finite, with a salt."""
        n, d = rows.shape
        most = max(_FEWEST, _MARKS // max(d, 1))
        per_row = np.zeros(n, dtype=np.uint64)
        marks = [np.empty(0, dtype=np.uint64)]
        for j in range(d):
            # negative zeros are zeros; the sum is a copy of its own
            hashes = (rows[:, j] + 0.0).view(np.uint64)
            _mix(hashes, salt)
            # odd factors tell columns apart, and lose no bit modulo 2^64
            per_row += hashes * np.uint64(2 * j + 1)
            if n:
                few = min(n, 4 * most)
                found, times = np.unique(np.partition(hashes, few - 1)[:few], return_counts=True)
                if times.mean() <= _OFTEN:
                    marks.append(found[:most])
        _mix(per_row, salt)
        return cls((n, int(per_row.sum(dtype=np.uint64))), np.unique(np.concatenate(marks)))

    def meets(self, other: Trace) -> bool:
        """Whether the two tables are the same or share a good part of their rows."""
        if self.digest == other.digest:
            return True
        shared = np.intersect1d(self.marks, other.marks, assume_unique=True).size
        return shared > _SHARED * min(self.marks.size, other.marks.size)


@dataclasses.dataclass(eq=False)
class _Known:
    """Tables that share rows, and what was spent on any of them."""

    traces: list[Trace]
    entries: list[Entry]


class ProcessAccount:
    """Spends without a ledger in this process, for each table that was met.

    It keeps hashes of the last thousand tables, under a salt of its own, and no rows.
    """

    def __init__(self) -> None:
        self._salt = secrets.randbits(64)
        self._known: collections.deque[_Known] = collections.deque(maxlen=_TABLES)
        self._lock = threading.Lock()

    def trace(self, rows: Array) -> Trace:
        """Hash rows (n, d), so that they will be recognised."""
        return Trace.of(rows, self._salt)

    def history(self, trace: Trace) -> History:
        """Return all that was spent on this table, or on one that shares rows with it."""
        with self._lock:
            return History(entries=_entries(self._met(trace)))

    def charge(self, trace: Trace, entry: Entry) -> History:
        """Count a spend that is about to happen; return all that was spent, this one included."""
        with self._lock:
            met = self._met(trace)
            traces = [known for group in met for known in group.traces]
            if not any(known.digest == trace.digest for known in traces):
                traces.append(trace)
            for group in met:
                self._known.remove(group)
            entries = [*_entries(met), entry]
            self._known.append(_Known(traces, entries))
            return History(entries=tuple(entries))

    def _met(self, trace: Trace) -> list[_Known]:
        return [group for group in self._known if any(map(trace.meets, group.traces))]


def _entries(groups: list[_Known]) -> tuple[Entry, ...]:
    """List the spends of all groups, oldest first."""
    listed = (entry for group in groups for entry in group.entries)
    return tuple(sorted(listed, key=lambda entry: entry.intended))


def _mix(values: _Bits, salt: int) -> None:
    """Scramble 64 bits in place, so that every bit depends on every other (splitmix64)."""
    values += np.uint64(salt)
    values ^= values >> np.uint64(30)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
