"""Row sources that are read part by part, and never as a whole: Parquet files and Dask collections.

A part is a small description that can be sent to another process and read there. Parts lie in the
order of the table, so every reader agrees on the position of a row. Rows are dealt into blocks by
position: a sorted file does as well as a shuffled one, and values never matter.

A table that changes while it is read is an error: every part knows how large its file was and when
it was written, and checks both before its first row and after its last.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import glob
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from privgmm.arrays import Array, IntArray
from privgmm.data.content import check_there
from privgmm.data.engines import Engine, Threads, Watch
from privgmm.data.labels import Labels, arrow_array, check_one_kind, label_kind, typed_labels
from privgmm.data.people import People, SourcePeople
from privgmm.data.sorted_people import LabelledRows, SortedPeople
from privgmm.data.source import RowSource
from privgmm.data.tables import (
    FILL_IN,
    Reading,
    check_choice,
    check_names,
    chosen_columns,
    is_numeric_type,
    listed,
    sentence,
)
from privgmm.errors import InvalidInput

__all__ = [
    "DaskSource",
    "ParquetSource",
    "PartSource",
    "files_fingerprint",
    "is_dask",
    "parquet_file",
    "parquet_files",
]

_PART_ROWS = 1 << 20
"""Rows that a part has at least, where the file's row groups allow it; about a million."""
_BATCH_ROWS = 1 << 16
"""Rows in memory at a time, per worker."""
_GLANCE = 1 << 16  # rows by which a table is recognised
_DIGEST_BYTES = 1 << 22  # read at a time for a digest: 4 MiB
_MOST_CURATED = 1_000_000
"""Most rows given to a curator who asks for all of them; a convention."""


class Part(abc.ABC):
    """A stretch of a table that can be read in any process it is sent to."""

    columns: tuple[str, ...]
    n_rows: int
    first: int
    """Position of its first row in the table, for messages."""

    @abc.abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Read these columns as Arrow record batches, some rows at a time."""

    def chunks(self) -> Iterator[Array]:
        """Yield its rows in order, some at a time: finite numbers (m, d), or `InvalidInput`."""
        for rows, _ in self._read(self.columns):
            yield rows

    def labelled(self, column: str) -> Iterator[LabelledRows]:
        """Yield its rows in order, some at a time, with who each row belongs to."""
        for rows, batch in self._read(tuple(dict.fromkeys((*self.columns, column)))):
            yield LabelledRows(rows, *typed_labels(batch.column(column), column))

    @property
    def place(self) -> str:
        """Where it lies, for messages."""
        return f"the rows from {self.first + 1:,}"

    def _read(self, wanted: Sequence[str]) -> Iterator[tuple[Array, Any]]:
        seen = 0
        for batch in self.batches(wanted):
            rows = np.empty((batch.num_rows, len(self.columns)))
            for j, name in enumerate(self.columns):
                rows[:, j] = _numbers(batch.column(name), name, self.first + seen)
            seen += batch.num_rows
            if seen > self.n_rows:
                break
            yield rows, batch
        if seen != self.n_rows:
            raise InvalidInput(
                f"a part of the table had {self.n_rows:,} rows when it was opened and "
                f"{'more' if seen > self.n_rows else f'{seen:,}'} when it was read: it changed "
                "meanwhile; try again when no program writes to it"
            )


def _numbers(column: Any, name: str, first: int) -> Array:
    values = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    finite = np.isfinite(values)
    if not finite.all():
        row = first + int(np.argmin(finite)) + 1
        raise InvalidInput(
            f"column {name!r} has missing or infinite values, in data row {row:,} for instance: "
            f"{FILL_IN}"
        )
    return np.asarray(values, dtype=np.float64)


class PartSource(RowSource):
    """A table that is read part by part; memory depends on the parts, not on the number of rows.

    Parameters
    ----------
    parts : tuple of Part
        In the order of the table, none of them empty.
    name : str
    columns : sequence of str
    all_columns : sequence of str
        Those of the table, in its order.
    reading : Reading
    """

    in_memory = False

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        name: str,
        columns: Sequence[str],
        all_columns: Sequence[str],
        reading: Reading,
    ) -> None:
        n_rows = sum(part.n_rows for part in parts)
        if n_rows == 0:
            raise InvalidInput(f"{name!r} has column names but no rows of data")
        super().__init__(
            name=name,
            columns=columns,
            n_rows=n_rows,
            reading=reading,
            left_out=[column for column in all_columns if column not in columns],
        )
        self._parts, self._all_columns = tuple(parts), tuple(all_columns)

    def take(self, positions: IntArray) -> Array:
        """Read the table once and return the rows at the positions."""
        return self._people(Threads(), None).take(positions).rows

    def chunks(self, size: int = _BATCH_ROWS) -> Iterator[Array]:
        """Yield all rows in order, at most `size` at a time."""
        for part in self._parts:
            for rows in part.chunks():
                for start in range(0, len(rows), size):
                    yield rows[start : start + size]

    def glance(self) -> Array:
        """Return the first rows."""
        found: list[Array] = []
        for rows in self._parts[0].chunks():
            found.append(rows)
            if sum(map(len, found)) >= _GLANCE:
                break
        return np.concatenate(found)[:_GLANCE]

    def curated(self) -> Array:
        """Return as many rows as fit, evenly spread over the table."""
        if self.n_rows <= _MOST_CURATED:
            return self.rows()
        return self.take(np.arange(_MOST_CURATED, dtype=np.int64) * self.n_rows // _MOST_CURATED)

    def labels(self, column: str) -> Labels:
        """Return who each row belongs to, in memory: for tables that are not too long."""
        check_choice([column], self._all_columns)
        self._check_labels(column)
        texts: list[Labels] = []
        kinds: list[tuple[str, str]] = []
        for part in self._parts:
            for some in part.labelled(column):
                texts.append(some.labels)
                kinds.append((some.kind, part.place))
        check_one_kind(kinds, column)
        return np.concatenate(texts)

    def count_persons(self, column: str) -> int:
        """Count the persons; takes a pass over the table, and room on the disk."""
        # no one is dealt, so any order does
        people = self.people(column, bytes(32), Threads())
        try:
            return len(people)
        finally:
            people.close()

    def people(
        self,
        groups: npt.ArrayLike | str | None,
        key: bytes,
        engine: Engine,
        watch: Watch | None = None,
    ) -> People:
        """Return the rows as persons, sorted on the disk where a person may have several rows."""
        if groups is None:
            return self._people(engine, watch)
        if not isinstance(groups, str):
            raise InvalidInput(
                "groups must be the name of a column where rows are read from files part by part: "
                "put who each row belongs to into the table"
            )
        check_choice([groups], self._all_columns)
        if groups in self.columns:
            raise InvalidInput(
                f"groups names {groups!r}, which is fitted too: a column of persons is not fitted; "
                "leave it out of columns"
            )
        self._check_labels(groups)
        return SortedPeople.sort(
            self._parts,
            self.n_features,
            groups,
            key,
            engine,
            watch=watch,
        )

    def _check_labels(self, column: str) -> None:
        """Refuse a column that has no one type for labels, as far as known before reading."""

    def _people(self, engine: Engine, watch: Watch | None) -> SourcePeople:
        return SourcePeople(self._parts, self.n_features, engine, watch=watch)


# Parquet


@dataclasses.dataclass(frozen=True, slots=True)
class File:
    """A file as it was when it was opened."""

    filesystem: Any = dataclasses.field(hash=False)
    path: str
    size: int
    written: int | None

    @classmethod
    def found(cls, filesystem: Any, path: str) -> File:
        """Describe a file as it is now."""
        info = filesystem.get_file_info(path)
        if info.type != pafs.FileType.File:
            raise InvalidInput(f"there is no file {path!r}: check the path")
        return cls(filesystem, path, info.size, info.mtime_ns)

    def check(self) -> None:
        """Refuse a file that is no longer what it was."""
        if File.found(self.filesystem, self.path) != self:
            raise InvalidInput(
                f"{self.path!r} was changed while it was read: try again when no program writes "
                "to it"
            )

    def digest(self) -> str:
        """Compute SHA-256 of its bytes."""
        found = hashlib.sha256()
        with self.filesystem.open_input_file(self.path) as stream:
            while block := stream.read(_DIGEST_BYTES):
                found.update(block)
        self.check()
        return found.hexdigest()


@functools.lru_cache(maxsize=256)
def _metadata_of(file: File) -> Any:
    """Read the metadata at the end of a file, once per process however many parts it has."""
    try:
        with file.filesystem.open_input_file(file.path) as stream:
            return pq.read_metadata(stream)
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise InvalidInput(
            f"{file.path!r} is not a whole Parquet file ({sentence(problem)}): write it again, or "
            "take it out of the folder"
        ) from problem


@dataclasses.dataclass(frozen=True)
class ParquetPart(Part):
    """Some row groups of a Parquet file."""

    file: File
    groups: tuple[int, ...]
    columns: tuple[str, ...]
    n_rows: int
    first: int

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Read these columns alone, lazily."""
        self.file.check()
        metadata = _metadata_of(self.file)
        try:
            with self.file.filesystem.open_input_file(self.file.path) as stream:
                reader = pq.ParquetFile(stream, metadata=metadata, pre_buffer=False)
                yield from reader.iter_batches(
                    batch_size=_BATCH_ROWS,
                    row_groups=list(self.groups),
                    columns=list(columns),
                    use_threads=False,
                )
        except (pa.ArrowException, OSError, ValueError) as problem:
            if isinstance(problem, InvalidInput):
                raise
            self.file.check()
            raise InvalidInput(
                f"the Parquet file {self.file.path!r} is damaged: {sentence(problem)}"
            ) from problem
        self.file.check()


class ParquetSource(PartSource):
    """Parquet files, read by row groups.

    The fingerprint of one file is that of its bytes; that of several is a digest of theirs and
    ignores their names and order. Every choice of columns has the same people and fingerprint.

    Parameters
    ----------
    files : sequence of File
        In the order of the table.
    columns : sequence of str, optional
        What to take, in this order; all by default, which must hold numbers.
    without : sequence of str
        Which not to take where `columns` are left open.
    name : str
    """

    def __init__(
        self,
        files: Sequence[File],
        columns: Sequence[str] | None = None,
        *,
        without: Sequence[str] = (),
        name: str,
    ) -> None:
        if not files:
            raise InvalidInput(f"there is no Parquet file in {name!r}: check the path")
        self._schemas = _schemas(files)
        schema = self._schemas[0][1]
        names = list(schema.names)
        chosen = chosen_columns(columns, without, names)
        text = [one for one in chosen if not is_numeric_type(schema.field(one).type)]
        if text:
            rest = [one for one in chosen if one not in text]
            choice = f", {listed(rest)} for instance" if rest else ""
            raise InvalidInput(
                f"there are no numbers in column {listed(text)}: name those to take (columns=, "
                f"--columns){choice}"
            )
        self._files = tuple(files)
        super().__init__(
            _parquet_parts(files, tuple(chosen)),
            name=name,
            columns=chosen,
            all_columns=names,
            reading=Reading("Parquet"),
        )

    @functools.cached_property
    def fingerprint(self) -> str:
        """The digest of the files."""
        return files_fingerprint(self._files)

    def _check_labels(self, column: str) -> None:
        """Refuse a column whose type differs between files, by their schemas."""
        kinds = ((label_kind(one.field(column).type, column), path) for path, one in self._schemas)
        check_one_kind(((kind, repr(path)) for kind, path in kinds), column)

    def choose(self, columns: Sequence[str]) -> ParquetSource:
        """Return a source of the same rows with these columns of the files."""
        return ParquetSource(self._files, columns, name=self.name)


def files_fingerprint(files: Sequence[File]) -> str:
    """Compute what stands for files in a ledger: SHA-256 of one, a digest of several."""
    digests = list(Threads().each(File.digest, files))
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()


def _schemas(files: Sequence[File]) -> list[tuple[str, Any]]:
    """Return each schema once, with its first file; refuse files whose columns differ."""
    first: Any = None
    distinct: list[tuple[str, Any]] = []
    for file in files:
        schema = _metadata_of(file).schema.to_arrow_schema()
        if any(schema.equals(known) for _, known in distinct):
            continue
        distinct.append((file.path, schema))
        if twice := [name for name, count in Counter(schema.names).items() if count > 1]:
            raise InvalidInput(f"several columns have the name {listed(twice)}: rename them")
        if first is None:
            first = schema
            names = list(schema.names)
            if names != [str(place) for place in range(len(names))]:
                check_names(names, "give the columns names in words, and write the file again")
            continue
        if set(schema.names) != set(first.names):
            raise InvalidInput(
                f"{file.path!r} has columns {listed(schema.names)}, and {files[0].path!r} has "
                f"{listed(first.names)}: all files of a table must have the same columns"
            )
        for name in first.names:
            mine, theirs = first.field(name).type, schema.field(name).type
            if mine != theirs and is_numeric_type(mine) != is_numeric_type(theirs):
                raise InvalidInput(
                    f"column {name!r} holds {theirs} in {file.path!r} and {mine} in "
                    f"{files[0].path!r}: all files of a table must agree"
                )
    return distinct


def _parquet_parts(files: Sequence[File], columns: tuple[str, ...]) -> list[ParquetPart]:
    """Cut the files into parts of whole row groups, small groups together."""
    parts: list[ParquetPart] = []
    position = 0
    for file in files:
        metadata = _metadata_of(file)
        groups: list[int] = []
        held = 0
        for number in range(metadata.num_row_groups):
            groups.append(number)
            held += metadata.row_group(number).num_rows
            if held >= _PART_ROWS or number == metadata.num_row_groups - 1:
                if held:
                    parts.append(ParquetPart(file, tuple(groups), columns, held, position))
                position += held
                groups, held = [], 0
    return parts


def parquet_files(X: Any) -> tuple[list[File], str] | None:
    """Find the Parquet files of a folder, a pattern or a pyarrow dataset, and its name.

    None for anything else. A folder must hold nothing but Parquet files; those whose name begins
    with a dot or an underscore do not count, as is the custom.
    """
    if isinstance(X, pads.Dataset):
        return _dataset_files(X)
    path = Path(X)
    local = pafs.LocalFileSystem()
    try:
        is_folder, is_pattern = path.is_dir(), glob.has_magic(str(X)) and not path.exists()
    except (OSError, ValueError):
        # not the name of a file at all: the reader of single files says why
        return None
    if is_folder:
        found = [
            one
            for one in sorted(path.rglob("*"))
            if one.is_file()
            and not any(p.startswith((".", "_")) for p in one.relative_to(path).parts)
        ]
        strangers = [one for one in found if one.suffix not in (".parquet", ".pq")]
        if strangers:
            raise InvalidInput(
                f"the folder {str(path)!r} holds {listed([one.name for one in strangers])}, which "
                "is not Parquet: it must be clear which files hold the rows; take the others out, "
                "or name a pattern like 'folder/*.parquet'"
            )
        return [File.found(local, str(one)) for one in found], path.name or str(path)
    if is_pattern:
        names = sorted(one for one in glob.glob(str(X), recursive=True) if Path(one).is_file())  # noqa: PTH207 - a pattern may begin at the root
        if not names:
            raise InvalidInput(f"no file matches {str(X)!r}: check the pattern")
        return [File.found(local, one) for one in names], str(X)
    return None


def parquet_file(path: Path) -> list[File]:
    """Describe one Parquet file."""
    check_there(path)
    return [File.found(pafs.LocalFileSystem(), str(path))]


def _dataset_files(dataset: Any) -> tuple[list[File], str]:
    if not isinstance(dataset, pads.FileSystemDataset) or dataset.format.default_extname != (
        "parquet"
    ):
        raise InvalidInput(
            "a pyarrow dataset must consist of Parquet files: write it as Parquet first"
        )
    if getattr(dataset, "_scan_options", None):
        raise InvalidInput(
            "a filtered dataset lets values decide which rows there are, and their number is "
            "published: write the rows you mean to new files first"
        )
    files = [File.found(dataset.filesystem, one) for one in dataset.files]
    return files, "dataset"


# Dask


def is_dask(X: object) -> bool:
    """Return whether this is a Dask data frame or array."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


@dataclasses.dataclass(frozen=True)
class DaskPart(Part):
    """A partition of a Dask collection; it is computed in the process that reads it."""

    delayed: Any
    all_columns: tuple[str, ...]
    columns: tuple[str, ...]
    n_rows: int
    first: int

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Compute the partition again and yield it in batches."""
        value = self.delayed.compute(scheduler="synchronous")
        arrow = {name: _values if name in self.columns else arrow_array for name in columns}
        found = _columns(value, self.all_columns, columns)
        table = pa.table({name: arrow[name](found[name], name) for name in columns})
        yield from table.to_batches(max_chunksize=_BATCH_ROWS)


def _values(column: Any, name: str) -> Any:  # noqa: ARG001 - `_numbers` names the column
    """Convert a column of numbers to Arrow."""
    return pa.array(column, from_pandas=True)


def _columns(value: Any, names: Sequence[str], columns: Sequence[str]) -> dict[str, Any]:
    """Return columns of a partition by name."""
    if hasattr(value, "iloc"):
        places = {str(name): place for place, name in enumerate(value)}
        return {name: value.iloc[:, places[name]].reset_index(drop=True) for name in columns}
    array = np.asarray(value)
    if array.ndim != 2 or array.shape[1] != len(names):
        raise InvalidInput(f"X must be a table (rows, {len(names)}), got shape {array.shape}")
    return {name: array[:, names.index(name)] for name in columns}


def _size(delayed: Any) -> int:
    return len(delayed.compute(scheduler="synchronous"))


class DaskSource(PartSource):
    """A Dask data frame or array. Its partitions are computed again for each pass.

    Lengths of partitions that Dask does not know take one pass.

    Parameters
    ----------
    collection : dask.dataframe.DataFrame or dask.array.Array
    columns, without
        As for files.
    engine : Engine
        Where lengths are computed.
    """

    def __init__(
        self,
        collection: Any,
        columns: Sequence[str] | None = None,
        *,
        without: Sequence[str] = (),
        engine: Engine | None = None,
    ) -> None:
        import dask

        names, pieces, sizes = _partitions(collection)
        columns = chosen_columns(columns, without, names, "X")
        # each partition with its own part of the graph only: it is sent by itself
        alone = [dask.optimize(piece)[0] for piece in pieces]
        if sizes is None:
            sizes = list((engine or Threads()).each(_size, alone))
        firsts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64).tolist()
        self._collection = collection
        super().__init__(
            [
                DaskPart(piece, tuple(names), tuple(columns), size, first)
                for piece, size, first in zip(alone, sizes, firsts[:-1], strict=True)
                if size
            ],
            name="data",
            columns=columns,
            all_columns=names,
            reading=Reading("Dask"),
        )

    @functools.cached_property
    def fingerprint(self) -> str:
        """The digest of how the collection is made; give a ledger a name of your own instead."""
        from dask.base import tokenize

        return f"dask {tokenize(self._collection)}"

    def choose(self, columns: Sequence[str]) -> DaskSource:
        """Return a source of the same rows with these columns."""
        return DaskSource(self._collection, columns)


def _partitions(collection: Any) -> tuple[list[str], list[Any], list[int] | None]:
    """Return column names, one delayed value per partition, and their lengths if known."""
    if hasattr(collection, "npartitions") and hasattr(collection, "columns"):
        names = [str(name) for name in collection.columns]
        check_names(names, "rename the columns")
        return names, list(collection.to_delayed()), None
    if collection.ndim != 2:
        raise InvalidInput(f"X must be a table (rows, columns), got {collection.ndim} dimensions")
    d = collection.shape[1]
    if np.isnan(d):
        raise InvalidInput("X must have a known number of columns: call compute_chunk_sizes()")
    table = collection.rechunk({1: -1})
    sizes = None if any(np.isnan(size) for size in table.chunks[0]) else list(table.chunks[0])
    return [f"x{j + 1}" for j in range(int(d))], list(table.to_delayed()[:, 0]), sizes
