"""Persons whose rows lie anywhere in a large table: the rows, sorted by person, on the disk.

One pass writes every part of the table again, its rows by the place of their person in a secret
order (`people.person_places`), cut into as many stretches of that order as are needed to hold one
in memory. A person's rows end up in one stretch, even if they come from several files. From then on
one stretch is read at a time. The files hold confidential rows: they lie in a folder that only its
owner may read, and are removed when the release is over.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from privgmm.arrays import Array, IntArray
from privgmm.data.engines import Engine, Watch, Watched
from privgmm.data.labels import Labels, check_one_kind
from privgmm.data.people import (
    Chunk,
    CoordinateChange,
    Hashes,
    People,
    PersonSum,
    Taken,
    added_up,
    changed,
    person_order,
    person_places,
    picked,
    pieces_total,
)
from privgmm.errors import InvalidInput

__all__ = ["LabelledPart", "LabelledRows", "SortedPeople"]

_STRETCH_ROWS = 1 << 18
"""Rows per stretch, about: one stretch per worker is in memory at a time."""
_MOST_STRETCHES = 1 << 12  # each is a record batch in every part's file, however few its rows


class LabelledRows(NamedTuple):
    """Rows (m, d), the texts of their labels (m,), and the kind of label."""

    rows: Array
    labels: Labels
    kind: str


class LabelledPart(Protocol):
    """A part of a table that can also say who its rows belong to."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def place(self) -> str:
        """Where it lies, for messages."""
        ...

    def labelled(self, column: str) -> Iterator[LabelledRows]:
        """Yield its rows in order, some at a time, with their labels."""
        ...


@dataclasses.dataclass(frozen=True)
class _Sorting:
    """The writer of parts: folder, key and number of stretches."""

    folder: str
    column: str
    key: bytes
    bits: int
    n_features: int

    def path(self, number: int) -> Path:
        return Path(self.folder) / f"part-{number:08d}.arrow"

    def stretch_of(self, hashes: Hashes) -> IntArray:
        """Return the stretch of each person: the first bits of their place."""
        if self.bits == 0:
            return np.zeros(hashes.size, dtype=np.int64)
        return (hashes >> np.uint64(64 - self.bits)).astype(np.int64)

    def __call__(self, job: tuple[int, int, LabelledPart]) -> tuple[str, ...]:
        """Write a part and return its kinds of label.

        If a worker was lost and the part is written again, it is replaced.
        """
        number, position, part = job
        rows, labels = [np.empty((0, self.n_features))], [np.empty(0, dtype=object)]
        kinds: dict[str, None] = {}
        for some in part.labelled(self.column):
            rows.append(some.rows)
            labels.append(some.labels)
            kinds[some.kind] = None
        table, texts = np.concatenate(rows), np.concatenate(labels)
        hashes = person_places(texts, self.key)
        stretch = self.stretch_of(hashes)
        order = np.argsort(stretch, kind="stable")
        cuts = np.searchsorted(stretch[order], np.arange(2**self.bits + 1)).tolist()
        names = [f"x{j}" for j in range(self.n_features)]
        whole = pa.record_batch(
            [
                *(pa.array(table[order, j]) for j in range(self.n_features)),
                pa.array(texts[order], type=pa.large_string()),
                pa.array(hashes[order]),
                pa.array(position + order.astype(np.int64)),
            ],
            names=[*names, "label", "hash", "position"],
        )
        target = self.path(number)
        half = target.with_suffix(".half")
        with pa.OSFile(str(half), "wb") as file, pa.ipc.new_file(file, whole.schema) as writer:
            for first, last in itertools.pairwise(cuts):
                writer.write_batch(whole.slice(first, last - first))
        half.replace(target)
        return tuple(kinds)


class _Sorted(NamedTuple):
    """The rows of a stretch, person by person."""

    rows: Array
    starts: IntArray
    hashes: Hashes
    positions: IntArray


@dataclasses.dataclass(frozen=True)
class _Reader:
    """A reader of one stretch from all parts."""

    sorting: _Sorting
    n_parts: int
    changes: tuple[CoordinateChange, ...] = ()

    def stretch(self, number: int) -> _Sorted:
        """Read all rows of the persons of a stretch."""
        batches = []
        for part in range(self.n_parts):
            with pa.OSFile(str(self.sorting.path(part))) as file:
                batches.append(pa.ipc.open_file(file).get_batch(number))
        table = pa.Table.from_batches(batches).combine_chunks()
        d = self.sorting.n_features
        rows = np.empty((table.num_rows, d))
        for j in range(d):
            rows[:, j] = table.column(j).to_numpy()
        labels = np.asarray(table.column(d).to_numpy(), dtype=object)
        hashes = table.column(d + 1).to_numpy().astype(np.uint64)
        order, starts = person_order(hashes, labels, self.sorting.key)
        firsts = order[starts[:-1]]
        return _Sorted(
            changed(rows[order], self.changes),
            starts,
            hashes[firsts],
            table.column(d + 2).to_numpy()[order],
        )


@dataclasses.dataclass(frozen=True, eq=False)
class _Counted:
    reader: _Reader

    def __call__(self, number: int) -> tuple[int, int]:
        """Count persons and rows of a stretch."""
        found = self.reader.stretch(number)
        return found.starts.size - 1, len(found.rows)


@dataclasses.dataclass(frozen=True, eq=False)
class _PickedPersons:
    reader: _Reader

    def __call__(self, job: tuple[int, IntArray]) -> Taken:
        """Take one row of each of some persons of a stretch, by their places in it."""
        number, persons = job
        found = self.reader.stretch(number)
        places = found.starts[:-1] + picked(found.hashes, np.diff(found.starts))
        return Taken(found.rows[places[persons]], found.positions[places[persons]])


@dataclasses.dataclass(frozen=True, eq=False)
class _Summed:
    reader: _Reader
    task: PersonSum

    def __call__(self, number: int) -> IntArray:
        """Sum the task over a stretch."""
        found = self.reader.stretch(number)
        return pieces_total(iter([Chunk(found.rows, found.starts)]), self.task)


class SortedPeople(People):
    """Persons of a large table, sorted on the disk.

    Parameters
    ----------
    reader : object
        Reads a stretch.
    counts : array of int (stretches, 2)
        Persons and rows of each stretch.
    engine : Engine
    watch : Watch, optional
    remove : callable
        Removes what was written.
    """

    def __init__(
        self,
        reader: _Reader,
        counts: IntArray,
        engine: Engine,
        *,
        watch: Watch | None,
        remove: Callable[[], object],
    ) -> None:
        n_people, n_rows = counts.sum(axis=0).tolist()
        super().__init__(n_people, n_rows, reader.sorting.n_features)
        self._reader, self._counts, self._engine = reader, counts, engine
        self._watch, self._remove = watch, remove
        # stretches without persons are not read again
        self._taken = [int(b) for b in np.flatnonzero(counts[:, 0])]

    @classmethod
    def sort(
        cls,
        parts: tuple[LabelledPart, ...],
        n_features: int,
        column: str,
        key: bytes,
        engine: Engine,
        *,
        watch: Watch | None = None,
        stretch_rows: int = _STRETCH_ROWS,
    ) -> SortedPeople:
        """Write the rows of a table by person, and count the persons.

        Parameters
        ----------
        parts : tuple of LabelledPart
            In the order of the table.
        n_features : int
        column : str
            Says who a row belongs to.
        key : bytes
            Secret, from `NoiseSource.key`.
        engine : Engine
            Its workers must see the folder for temporary files (TMPDIR).
        watch : Watch, optional
        stretch_rows : int
            Rows per stretch, about. The rows of one person always lie in one.
        """
        n = sum(part.n_rows for part in parts)
        wanted = min(max(1, math.ceil(n / stretch_rows)), _MOST_STRETCHES)
        folder = tempfile.mkdtemp(prefix="privgmm-persons-")
        sorting = _Sorting(folder, column, key, (wanted - 1).bit_length(), n_features)
        try:
            firsts = np.concatenate([[0], np.cumsum([part.n_rows for part in parts])])
            jobs = [(i, int(firsts[i]), part) for i, part in enumerate(parts)]
            watched = Watched(watch, "sorting by person", n)
            kinds: list[tuple[str, str]] = []
            for part, found in zip(parts, engine.each(sorting, jobs), strict=True):
                kinds += [(kind, part.place) for kind in found]
                watched.more(part.n_rows)
            check_one_kind(kinds, column)
            reader = _Reader(sorting, len(parts))
            counts = []
            watched = Watched(watch, "counting persons", n)
            for found_counts in engine.each(_Counted(reader), range(2**sorting.bits)):
                counts.append(found_counts)
                watched.more(found_counts[1])
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        people = cls(
            reader,
            np.array(counts, dtype=np.int64).reshape(-1, 2),
            engine,
            watch=watch,
            remove=lambda: None,
        )
        # also if `close` is never called
        people._remove = weakref.finalize(people, shutil.rmtree, folder, ignore_errors=True)
        if people.n_rows != n:
            people.close()
            raise InvalidInput(
                f"the table had {n:,} rows when it was opened and {people.n_rows:,} when it was "
                "read: it changed meanwhile; try again when no program writes to it"
            )
        return people

    def take(self, persons: IntArray) -> Taken:
        """Take one row of each person, stretch by stretch."""
        flat = persons.ravel()
        edges = np.concatenate([[0], np.cumsum(self._counts[:, 0])])
        order = np.argsort(flat, kind="stable")
        wanted = flat[order]
        cuts = np.searchsorted(wanted, edges).tolist()
        jobs = [
            (b, wanted[cuts[b] : cuts[b + 1]] - int(edges[b]))
            for b in self._taken
            if cuts[b + 1] > cuts[b]
        ]
        rows = np.empty((flat.size, self.n_features))
        positions = np.empty(flat.size, dtype=np.int64)
        watched, done = Watched(self._watch, "taking blocks", flat.size), 0
        for found in self._engine.each(_PickedPersons(self._reader), jobs):
            places = order[done : done + len(found.rows)]
            rows[places], positions[places] = found.rows, found.positions
            done += len(found.rows)
            watched.more(len(found.rows))
        return Taken(
            rows.reshape(*persons.shape, self.n_features), positions.reshape(persons.shape)
        )

    def total(self, task: PersonSum, what: str = "summing") -> IntArray:
        """Sum the task in one pass over all stretches."""
        found = self._engine.each(_Summed(self._reader, task), self._taken)
        sizes = self._counts[self._taken, 1].tolist()
        return added_up(found, sizes, Watched(self._watch, what, self.n_rows))

    def mapped(self, change: CoordinateChange) -> SortedPeople:
        """Return the same persons; their rows are changed each time they are read.

        What is written on the disk belongs to the original.
        """
        reader = dataclasses.replace(self._reader, changes=(*self._reader.changes, change))
        other = SortedPeople(
            reader, self._counts, self._engine, watch=self._watch, remove=lambda: None
        )
        # a reference keeps the original, and with it the files, while this one is in use
        other._origin = self
        return other

    _origin: SortedPeople | None = None

    def close(self) -> None:
        """Remove the files that were written."""
        self._remove()
