"""Spends that no ledger is told of, counted for as long as the process lives.

Whoever fits the same rows twice spends twice, and a grid search or a cross-validation does so
dozens of times. A `ProcessAccount` recognises rows it has met, in another order, in part, or with
other columns, so that `cautions` can say what all of it costs together. It is a safety net for
honest mistakes and no more: it ends with the process, other processes (``n_jobs``) have their own,
and rows that were transformed or rounded meanwhile are strangers to it. A ledger is the real thing.
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
_FEWEST = 16
_SHARED = 0.05
"""Share of the marks that two tables must have in common to count as one."""
_OFTEN = 1.5
"""Times that a value of a telling column occurs, on average, at most."""
_TABLES = 1_000

_Bits = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, eq=False)
class Trace:
    """By what a table is recognised: salted hashes of a few of its numbers.

    Parameters
    ----------
    digest : tuple of int
        Of the whole table, whatever the order of its rows; equal for equal tables.
    marks : array of uint64 (m,)
        The smallest hashes of values in columns whose values hardly repeat, sorted. Parts of a
        table share theirs, because which values are marked hangs on the values alone. Where all
        columns repeat their values (ages, ratings), there are none: rows of other people look
        alike, and only the whole table is recognised.
    """

    digest: tuple[int, int]
    marks: _Bits

    @classmethod
    def of(cls, rows: Array, salt: int) -> Trace:
        """Recognise these rows (n, d), finite, by this salt."""
        n, d = rows.shape
        most = max(_FEWEST, _MARKS // max(d, 1))
        whole = np.zeros(n, dtype=np.uint64)
        marks = [np.empty(0, dtype=np.uint64)]
        for j in range(d):
            # negative zeros are zeros; the sum is a copy of its own
            hashes = (rows[:, j] + 0.0).view(np.uint64)
            _mix(hashes, salt)
            whole += hashes * np.uint64(2 * j + 1)
            if n:
                few = min(n, 4 * most)
                found, times = np.unique(np.partition(hashes, few - 1)[:few], return_counts=True)
                if times.mean() <= _OFTEN:
                    marks.append(found[:most])
        _mix(whole, salt)
        return cls((n, int(whole.sum(dtype=np.uint64))), np.unique(np.concatenate(marks)))

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
    """What was spent without a ledger, for each table that was met, in this process.

    It keeps hashes under a salt of its own, no rows, of the last thousand tables.
    """

    def __init__(self) -> None:
        self._salt = secrets.randbits(64)
        self._known: collections.deque[_Known] = collections.deque(maxlen=_TABLES)
        self._lock = threading.Lock()

    def trace(self, rows: Array) -> Trace:
        """By what these rows (n, d) will be recognised."""
        return Trace.of(rows, self._salt)

    def history(self, trace: Trace) -> History:
        """Everything spent on this table, or on one that shares rows with it."""
        with self._lock:
            return History(entries=_entries(self._met(trace)))

    def charge(self, trace: Trace, entry: Entry) -> History:
        """Count a spend that is about to happen; gives everything spent, this one included."""
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
    """The spends of all groups, oldest first."""
    listed = (entry for group in groups for entry in group.entries)
    return tuple(sorted(listed, key=lambda entry: entry.intended))


def _mix(values: _Bits, salt: int) -> None:
    """Scramble 64 bits in place, so that every bit hangs on every other (splitmix64)."""
    values += np.uint64(salt)
    values ^= values >> np.uint64(30)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
