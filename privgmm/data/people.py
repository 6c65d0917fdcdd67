"""Rows by the persons they belong to: who is dealt into blocks, and over whom sums are taken.

Where each row is a person, persons are rows in the order of the table. Where a column or an array
says who a row belongs to, all rows of a person count as one: blocks get one of them, and sums their
average. `People` offers the two things that stages do with confidential rows: `take` one row of
some persons, and `total` something over all of them, as exact integers. A stage need not know
whether rows lie in memory (`ArrayPeople`), in files (`SourcePeople`) or, where a person's rows may
be anywhere in them, in files sorted by person (`SortedPeople` in `sorted_people`).
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, IntArray
from privgmm.data.engines import Engine, Threads, Watch, Watched
from privgmm.data.labels import Labels
from privgmm.errors import InvalidInput

__all__ = [
    "ArrayPeople",
    "Chunk",
    "CoordinateChange",
    "People",
    "PersonSum",
    "Taken",
    "one_person",
    "person_order",
    "person_places",
    "picked",
]

_CHUNK_UNITS = 1 << 17
"""Persons that a task sees at a time: bounds memory, not results."""
_FEWEST_PER_THREAD = 20_000  # persons below which starting another thread is not worth while

Hashes = npt.NDArray[np.uint64]

CoordinateChange = Callable[[Array], Array]
"""Rows (m, d) in other coordinates, each computed from itself alone."""


class PersonSum(abc.ABC):
    """A sum over persons.

    Rows come a chunk at a time: (m, d), in which each person's lie together, and where persons
    begin and end (g + 1,). Sums are of integers, so that they do not depend on the order of adding.
    A person's part must be computed from that person's rows alone. A sum may be sent to another
    process, so it must be picklable.
    """

    @abc.abstractmethod
    def __call__(self, rows: Array, starts: IntArray) -> IntArray:
        """Sum over these persons."""

    def begun(self) -> Any:
        """Create the state that holds sums before the first chunk."""
        return None

    def added(self, state: Any, rows: Array, starts: IntArray) -> Any:
        """Add another chunk to the state."""
        part = self(rows, starts)
        return part if state is None else state + part

    def ended(self, state: Any) -> IntArray:
        """Return the sum over all chunks."""
        if state is None:
            raise InvalidInput("there are no rows to sum over")
        return np.asarray(state)


class Chunk(NamedTuple):
    """Rows with each person's together, and where persons begin and end."""

    rows: Array
    starts: IntArray


class Taken(NamedTuple):
    """One row of each of some persons, and where in the table it stands."""

    rows: Array
    positions: IntArray


class People(abc.ABC):
    """Rows by the persons they belong to. CONFIDENTIAL.

    Parameters
    ----------
    n_people : int
        How many persons there are; public.
    n_rows : int
        How many rows they have.
    n_features : int
    """

    def __init__(self, n_people: int, n_rows: int, n_features: int) -> None:
        self._n_people, self.n_rows, self.n_features = n_people, n_rows, n_features

    def __len__(self) -> int:
        return self._n_people

    @abc.abstractmethod
    def take(self, persons: IntArray) -> Taken:
        """Take one row of each of these persons, by their numbers (m,)."""

    @abc.abstractmethod
    def total(self, task: PersonSum, what: str = "summing") -> IntArray:
        """Sum the task over all persons. The exact sum is CONFIDENTIAL."""

    @abc.abstractmethod
    def mapped(self, change: CoordinateChange) -> People:
        """Return the same persons with rows in other coordinates."""

    def check(self) -> None:  # noqa: B027 - rows in memory were checked when they came
        """Read everything once, unless that was done, and refuse what cannot be used."""

    def close(self) -> None:  # noqa: B027 - most keep nothing
        """Remove files that were written to hold the rows."""


def pieces_total(chunks: Iterator[Chunk], task: PersonSum) -> IntArray:
    """Sum a task over chunks, one at a time."""
    state = task.begun()
    for rows, starts in chunks:
        state = task.added(state, rows, starts)
    return task.ended(state)


def added_up(found: Iterator[IntArray], sizes: Sequence[int], watched: Watched) -> IntArray:
    """Add the sums of the parts of a table and report each part's number of rows."""
    total: IntArray | None = None
    for sums, size in zip(found, sizes, strict=True):
        total = sums if total is None else total + sums
        watched.more(size)
    if total is None:
        raise InvalidInput("there are no rows to sum over")
    return total


class ArrayPeople(People):
    """Rows in memory.

    Parameters
    ----------
    rows : array (n, d)
    starts : array of int (g + 1,), optional
        Rows of person p are those at places starts[p]..starts[p + 1] - 1 of the order.
    order : array of int (n,), optional
        The rows in an order in which each person's lie together. Left out with `starts`, each row
        is a person.
    picks : array of int (g,), optional
        Which of a person's rows is taken for blocks; the first by default.
    threads : int, optional
        By default as many as are worth while.
    chunk : int
        Persons that a task sees in one go.
    watch : Watch, optional
    """

    def __init__(
        self,
        rows: Array,
        starts: IntArray | None = None,
        order: IntArray | None = None,
        picks: IntArray | None = None,
        *,
        threads: int | None = None,
        chunk: int = _CHUNK_UNITS,
        watch: Watch | None = None,
    ) -> None:
        super().__init__(len(rows) if starts is None else starts.size - 1, len(rows), rows.shape[1])
        self.rows, self._starts, self._order, self._picks = rows, starts, order, picks
        self._threads, self._chunk, self._watch = threads, chunk, watch

    @classmethod
    def of(cls, rows: Array, member: IntArray | None = None, **options: Any) -> ArrayPeople:
        """Build from the number of the person of each row (n,), in the order of these numbers."""
        if member is None:
            return cls(rows, **options)
        order = np.argsort(member, kind="stable").astype(np.int64)
        sizes = np.bincount(member)
        starts = np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64)
        return cls(rows, starts, order, **options)

    @classmethod
    def labelled(
        cls, rows: Array, labels: Labels, key: bytes, *, watch: Watch | None = None
    ) -> ArrayPeople:
        """Build from a text (n,) for the person of each row, in an order that the key decides."""
        hashes = person_places(labels, key)
        order, starts = person_order(hashes, labels, key)
        sizes = np.diff(starts)
        return cls(rows, starts, order, picked(hashes[order[starts[:-1]]], sizes), watch=watch)

    @functools.cached_property
    def _ordered(self) -> Array:
        if self._order is None:
            return np.ascontiguousarray(self.rows, dtype=np.float64)
        return np.ascontiguousarray(self.rows[self._order], dtype=np.float64)

    def chunks(self, first: int, last: int) -> Iterator[Chunk]:
        """Yield the rows of persons first..last - 1, a chunk at a time."""
        for start in range(first, last, self._chunk):
            stop = min(start + self._chunk, last)
            if self._starts is None:
                yield Chunk(self._ordered[start:stop], np.arange(stop - start + 1, dtype=np.int64))
                continue
            starts = self._starts[start : stop + 1]
            yield Chunk(self._ordered[starts[0] : starts[-1]], starts - starts[0])

    def take(self, persons: IntArray) -> Taken:
        """Take one row of each person from memory."""
        if self._starts is None:
            return Taken(np.asarray(self.rows[persons], dtype=np.float64), persons)
        places = self._starts[persons]
        if self._picks is not None:
            places = places + self._picks[persons]
        positions = places if self._order is None else self._order[places]
        return Taken(np.asarray(self.rows[positions], dtype=np.float64), positions)

    def total(self, task: PersonSum, what: str = "summing") -> IntArray:
        """Sum the task over all persons, in threads if there are rows enough."""
        n = len(self)
        if n == 0:
            return task(self._ordered, np.zeros(1, dtype=np.int64))
        threads = self._threads
        if threads is None:
            threads = min(Threads().workers, n // _FEWEST_PER_THREAD)
        pieces = max(1, min(threads, n))
        edges = np.linspace(0, n, pieces + 1).astype(np.int64).tolist()
        spans = list(itertools.pairwise(edges))
        watched = Watched(self._watch, what, self.n_rows)
        # once, before threads ask for it
        self._ordered  # noqa: B018

        def part(span: tuple[int, int]) -> IntArray:
            return pieces_total(self.chunks(*span), task)

        sizes = [self._rows_of(span) for span in spans]
        return added_up(Threads(pieces).each(part, spans), sizes, watched)

    def _rows_of(self, span: tuple[int, int]) -> int:
        if self._starts is None:
            return span[1] - span[0]
        return int(self._starts[span[1]] - self._starts[span[0]])

    def mapped(self, change: CoordinateChange) -> ArrayPeople:
        """Return the same persons with their rows changed once, in memory."""
        return ArrayPeople(
            change(self.rows),
            self._starts,
            self._order,
            self._picks,
            threads=self._threads,
            chunk=self._chunk,
            watch=self._watch,
        )


def one_person(rows: Array) -> ArrayPeople:
    """Return a single person to whom all rows belong."""
    return ArrayPeople(rows, np.array([0, len(rows)], dtype=np.int64))


class RowPart(Protocol):
    """A stretch of a table that can be read in any process it is sent to."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def chunks(self) -> Iterator[Array]:
        """Yield its rows in order, some at a time: finite numbers (m, d), or `InvalidInput`."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class _Summed:
    """A task on the rows of a part, seen through changes of coordinates."""

    task: PersonSum
    changes: tuple[CoordinateChange, ...]

    def __call__(self, part: RowPart) -> IntArray:
        return pieces_total(self._chunks(part), self.task)

    def _chunks(self, part: RowPart) -> Iterator[Chunk]:
        for rows in part.chunks():
            yield Chunk(changed(rows, self.changes), np.arange(len(rows) + 1, dtype=np.int64))


def changed(rows: Array, changes: tuple[CoordinateChange, ...]) -> Array:
    """Apply all changes of coordinates to rows."""
    for change in changes:
        rows = change(rows)
    return rows


def _picked_rows(job: tuple[RowPart, IntArray, int]) -> Array:
    """Read and check a whole part and keep the rows at ascending places."""
    part, places, d = job
    found, before = [np.empty((0, d))], 0
    for rows in part.chunks():
        first, last = np.searchsorted(places, [before, before + len(rows)]).tolist()
        found.append(rows[places[first:last] - before])
        before += len(rows)
    return np.concatenate(found)


class SourcePeople(People):
    """Rows read part by part, from files for example; each row is a person.

    Parameters
    ----------
    parts : tuple of RowPart
        In the order of the table.
    n_features : int
    engine : Engine
    watch : Watch, optional
    """

    def __init__(
        self,
        parts: tuple[RowPart, ...],
        n_features: int,
        engine: Engine,
        *,
        watch: Watch | None = None,
        changes: tuple[CoordinateChange, ...] = (),
    ) -> None:
        n = sum(part.n_rows for part in parts)
        super().__init__(n, n, n_features)
        self._parts, self._engine = parts, engine
        self._watch, self._changes = watch, changes
        self._checked = False

    def take(self, persons: IntArray) -> Taken:
        """Read everything once, check it, and take one row of each person."""
        flat = persons.ravel()
        order = np.argsort(flat, kind="stable")
        wanted = flat[order]
        found = np.concatenate(list(self._scan(wanted, "taking blocks")))
        rows = np.empty((flat.size, self.n_features))
        rows[order] = found
        rows = changed(rows, self._changes)
        return Taken(rows.reshape(*persons.shape, self.n_features), persons)

    def check(self) -> None:
        """Read everything once and check it, unless that was done."""
        if not self._checked:
            for _ in self._scan(np.empty(0, dtype=np.int64), "checking"):
                pass

    def _scan(self, wanted: IntArray, what: str) -> Iterator[Array]:
        """Yield the wanted rows part by part; afterwards all rows have been checked."""
        edges = np.concatenate([[0], np.cumsum([part.n_rows for part in self._parts])])
        cuts = np.searchsorted(wanted, edges).tolist()
        jobs = [
            (part, wanted[cuts[i] : cuts[i + 1]] - int(edges[i]), self.n_features)
            for i, part in enumerate(self._parts)
        ]
        watched = Watched(self._watch, what, self.n_rows)
        for part, found in zip(self._parts, self._engine.each(_picked_rows, jobs), strict=True):
            watched.more(part.n_rows)
            yield found
        self._checked = True

    def total(self, task: PersonSum, what: str = "summing") -> IntArray:
        """Sum the task in one pass, part by part, in the engine."""
        found = self._engine.each(_Summed(task, self._changes), self._parts)
        sizes = [part.n_rows for part in self._parts]
        return added_up(found, sizes, Watched(self._watch, what, self.n_rows))

    def mapped(self, change: CoordinateChange) -> SourcePeople:
        """Return the same persons; their rows are changed each time they are read."""
        other = SourcePeople(
            self._parts,
            self.n_features,
            self._engine,
            watch=self._watch,
            changes=(*self._changes, change),
        )
        other._checked = self._checked
        return other


# Who a row belongs to. A secret key puts persons into an order, and they are dealt into blocks by
# their place in it. Neighbouring tables hold the same persons but one, whose label may be another.
# Give the new person the place of the old one: then all others keep their places, and the tables
# differ in one block. With a secret key this is as likely as any other order, and that is all that
# the price of a block needs (docs/privacy.md, "The order of persons").


def person_places(labels: Labels, key: bytes, *, again: bool = False) -> Hashes:
    """Compute a number (n,) for each label by SipHash-2-4; equal labels have equal numbers.

    Parameters
    ----------
    labels : array of str (n,)
        From `label_texts`: bytes, written as Latin-1.
    key : bytes
        32 bytes, secret, from `NoiseSource.key`.
    again : bool
        Use the second half of the key: other numbers, for labels that share one.
    """
    import pandas as pd

    half = (key[16:] if again else key[:16]).decode("latin-1")
    found = pd.util.hash_array(labels, encoding="latin-1", hash_key=half)
    return np.asarray(found, dtype=np.uint64)


def person_order(hashes: Hashes, labels: Labels, key: bytes) -> tuple[IntArray, IntArray]:
    """Order rows (n,) so that each person's lie together; return where persons begin (g + 1,).

    By hash; where two persons share one, by a hash with the second half of the key. A person's
    rows keep their order.
    """
    order = np.argsort(hashes, kind="stable").astype(np.int64)
    if not order.size:
        return order, np.zeros(1, dtype=np.int64)
    sorted_hashes, sorted_labels = hashes[order], labels[order]
    same_hash = sorted_hashes[1:] == sorted_hashes[:-1]
    other_label = sorted_labels[1:] != sorted_labels[:-1]
    if (same_hash & other_label).any():
        # two labels share a hash and their rows are mixed: rare, so a slow sort does
        codes = np.unique(labels, return_inverse=True)[1]
        others = person_places(labels, key, again=True)
        order = np.lexsort((codes, others, hashes)).astype(np.int64)
        sorted_labels = labels[order]
        other_label = sorted_labels[1:] != sorted_labels[:-1]
    new = np.flatnonzero(other_label) + 1
    return order, np.concatenate([[0], new, [len(labels)]]).astype(np.int64)


def picked(hashes: Hashes, sizes: IntArray) -> IntArray:
    """Choose one of `sizes` rows (g,) of each person, by the person's hash (g,)."""
    low = hashes & np.uint64(0xFFFFFFFF)
    return np.asarray(low % sizes.astype(np.uint64), dtype=np.int64)
