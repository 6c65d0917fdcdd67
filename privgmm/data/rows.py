"""Where all rows enter: read once, fingerprinted once.

A `RowSource` is rows of finite numbers, from an array, a data frame, a file or a bundled sample.
`row_source` makes one. What is released and what is charged to a ledger come from the same source,
so they belong together even if a file changes on the disk meanwhile.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow.dataset as pads

from privgmm.arrays import Array, IntArray
from privgmm.data.content import MAX_BYTES, file_bytes
from privgmm.data.datasets import sample_names, sample_path
from privgmm.data.fingerprint import content_fingerprint, file_fingerprint
from privgmm.data.identifiers import named_identifiers
from privgmm.data.labels import Labels, label_texts
from privgmm.data.parts import DaskSource, ParquetSource, is_dask, parquet_file, parquet_files
from privgmm.data.source import RowSource, check_finite
from privgmm.data.tables import (
    Layout,
    Table,
    check_choice,
    check_names,
    listed,
    read_labels,
    read_table,
)
from privgmm.errors import InvalidInput, SuspectColumn

__all__ = [
    "FileSource",
    "MemorySource",
    "RowSource",
    "RowsLike",
    "SampleSource",
    "checked_frame_names",
    "checked_source",
    "is_sample",
    "is_stored",
    "row_source",
]

_AT_ONCE = 64 * 2**20
"""A Parquet file of more bytes is read part by part."""
_LONGEST_SHOWN = 40
"""Characters of a value that a message repeats, by convention."""

RowsLike: TypeAlias = RowSource | npt.ArrayLike | os.PathLike[str] | pads.Dataset
"""What `row_source` takes."""


class MemorySource(RowSource):
    """An array or a data frame.

    Copies are avoided: leave the table unchanged while this is in use. The fingerprint is that of
    the numbers taken (`content_fingerprint`), so other columns of the same data frame are another
    data set, unless a ledger is given a name of its own for both.

    Parameters
    ----------
    table : array-like or data frame (n, d)
        NumPy, pandas, polars (lazy frames are collected), pyarrow, or nested sequences.
    columns : sequence of str, optional
        What to take, in this order; all columns by default. Those of an array are ``x1 … xd``.
    without : sequence of str
        Which not to take where `columns` are left open.
    names : sequence of str, optional
        Names for the columns of an array.
    """

    def __init__(
        self,
        table: Any,
        columns: Sequence[str] | None = None,
        without: Sequence[str] = (),
        names: Sequence[str] | None = None,
    ) -> None:
        table = collected(table)
        frame = _frame_names(table)
        if frame is None:
            table = _table_of_numbers(table)
            frame = list(names or (f"x{j + 1}" for j in range(table.shape[1])))
        names = frame
        if columns is None and without:
            check_choice(without, names, "X")
            columns = [name for name in names if name not in without]
        if columns is None:
            values = _all_numbers(table, names)
        else:
            check_choice(columns, names, "X")
            values = np.column_stack(
                [_numbers(_column(table, names.index(name)), name) for name in columns]
            )
        super().__init__(
            name="data", columns=names if columns is None else columns, n_rows=len(values)
        )
        self._table, self._names, self._values = table, names, values

    @cached_property
    def _rows(self) -> Array:
        rows = np.ascontiguousarray(self._values, dtype=np.float64)
        check_finite(rows)
        return rows

    @cached_property
    def fingerprint(self) -> str:
        """The digest of the numbers taken."""
        return content_fingerprint(self._rows)

    def take(self, positions: IntArray) -> Array:
        """Return the rows at the positions."""
        return self._rows[positions]

    def rows(self) -> Array:
        """Return all rows; the table itself if it is an array of floats."""
        return self._rows

    def labels(self, column: str) -> Labels:
        """Return who each row belongs to, by a column of the whole table."""
        check_choice([column], self._names, "X")
        return label_texts(_column(self._table, self._names.index(column)), column)

    def choose(self, columns: Sequence[str]) -> MemorySource:
        """Return a source of the same rows with these columns of the whole table."""
        return MemorySource(self._table, columns)


class FileSource(RowSource):
    """A CSV or Parquet file whose bytes were read once.

    Rows, labels of persons and the fingerprint all come from those bytes. The fingerprint is that
    of the whole file (`file_fingerprint`): the people in it are the same for every choice of
    columns.

    Parameters
    ----------
    content : bytes
        The whole file, unpacked.
    table : Table
        The columns taken, read from the content.
    name : str
    layout : Layout, optional
        How the file is written; for columns that are read later.
    """

    def __init__(
        self, content: bytes, table: Table, name: str, layout: Layout | None = None
    ) -> None:
        super().__init__(
            name=name,
            columns=table.columns,
            n_rows=len(table.rows),
            reading=table.reading,
            left_out=table.left_out,
        )
        self._content, self._table, self._layout = content, table, layout

    @cached_property
    def fingerprint(self) -> str:
        """The digest of the file."""
        return file_fingerprint(self._content)

    def take(self, positions: IntArray) -> Array:
        """Return the rows at the positions."""
        return self._table.rows[positions]

    def rows(self) -> Array:
        """Return all rows, read-only."""
        return self._table.rows

    def labels(self, column: str) -> Labels:
        """Return who each row belongs to, by any column of the file."""
        return read_labels(self._content, column, layout=self._layout)

    def choose(self, columns: Sequence[str]) -> FileSource:
        """Return a source of the same rows with these columns, without reading the disk again."""
        return type(self)(self._content, self._table_of(columns), self.name, self._layout)

    def _table_of(self, columns: Sequence[str]) -> Table:
        names = self._table.columns
        if not set(columns) <= set(names):
            return read_table(self._content, columns=columns, layout=self._layout)
        check_choice(columns, names)
        rows = np.take(self._table.rows, [names.index(name) for name in columns], axis=1)
        rows.setflags(write=False)
        left_out = (*self._table.left_out, *(name for name in names if name not in columns))
        return Table(rows, tuple(columns), left_out, self._table.reading)


class SampleSource(FileSource):
    """A data set that comes with the package, known to ledgers by its name."""

    @cached_property
    def fingerprint(self) -> str:
        """The name of the sample, which is the same in every version of the package."""
        return f"sample {self.name}"

    def labels(self, column: str) -> Labels:
        """Refuse: there are no persons in the samples."""
        raise InvalidInput(
            f"column {column!r} of sample {self.name!r} does not say who a row belongs to, each "
            "row is a person of its own: groups need a file or table of yours"
        )


def row_source(
    X: RowsLike,
    columns: Sequence[str] | None = None,
    *,
    without: Sequence[str] = (),
    header: bool | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    name: str | None = None,
    max_bytes: int = MAX_BYTES,
    in_memory: bool | None = None,
) -> RowSource:
    """Make a source of rows from anything that holds a table.

    Parameters
    ----------
    X : RowSource, array-like, data frame, path, str, bytes, pyarrow dataset or Dask collection
        A path or str names a CSV or Parquet file, a folder of Parquet files or a pattern like
        ``rows/*.parquet``, or one of `sample_names` where there is no such file; bytes are the
        content of a file. Folders, patterns, datasets, Dask collections and large Parquet files are
        read part by part, as often as a release needs them; other files are read once, here.
    columns : sequence of str, optional
        What to take, in this order. By default every column, and all must hold numbers: the
        choice of columns must not depend on the content of single cells.
    without : sequence of str
        Which not to take where `columns` are left open: who a row belongs to, for instance.
    header, separator, decimal
        How a CSV file is written, see `privgmm.data.tables.Layout`; by default its first line holds
        names in words, and says what separates cells.
    name : str, optional
        What people call the content, where it is given as bytes.
    max_bytes : int
        Refuse a larger file, unless it is read part by part.
    in_memory : bool, optional
        Whether to hold all rows of a Parquet file at once; by default if it is not large. The
        released numbers are the same.

    Warns
    -----
    SuspectColumn
        If `columns` is left open and a column has the name of an identifier.

    Examples
    --------
    >>> source = row_source("old_faithful", ["waiting"])
    >>> source.n_rows, source.columns, source.fingerprint
    (272, ('waiting',), 'sample old_faithful')
    """
    if isinstance(X, RowSource):
        if columns is None and not set(without).isdisjoint(X.columns):
            columns = [name for name in X.columns if name not in without]
        return X if columns is None else X.choose(columns)
    layout = Layout(header, separator, decimal)
    source: RowSource | None = _in_parts(X, columns, without, in_memory=in_memory)
    if source is not None:
        if layout.said:
            raise InvalidInput(
                f"{', '.join(layout.said)} is for CSV files, and X is none: leave it out"
            )
    elif isinstance(X, str | os.PathLike | bytes):
        shipped = not isinstance(X, bytes) and is_sample(X)
        origin = X if isinstance(X, bytes) else sample_path(str(X)) if shipped else Path(X)
        content = file_bytes(origin, max_bytes=max_bytes)
        table = read_table(
            content, columns=columns, without=without, layout=layout, max_bytes=max_bytes
        )
        if shipped:
            return SampleSource(content, table, str(X))
        called = origin.name if isinstance(origin, Path) else name or "file"
        source = FileSource(content, table, called, layout)
    else:
        if layout.said:
            raise InvalidInput(
                f"{', '.join(layout.said)} is for files, and X is none: leave it out"
            )
        source = MemorySource(X, columns, without)
    if columns is None and (found := named_identifiers(source.columns)):
        warnings.warn(_suspect(found, "name the columns to take, without it, or"), stacklevel=2)
    return source


def _in_parts(
    X: Any, columns: Sequence[str] | None, without: Sequence[str], *, in_memory: bool | None
) -> RowSource | None:
    """Return a source that is read part by part; None for a table that is read at once."""
    if is_dask(X):
        return DaskSource(X, columns, without=without)
    if not isinstance(X, str | os.PathLike | pads.Dataset) or (
        not isinstance(X, pads.Dataset) and is_sample(X)
    ):
        return None
    if (found := parquet_files(X)) is not None:
        files, name = found
        return ParquetSource(files, columns, without=without, name=name)
    path = Path(str(X))
    # a small file is read at once, by `row_source`
    if in_memory or (in_memory is None and _size(path) <= _AT_ONCE) or not _is_parquet(path):
        return None
    return ParquetSource(parquet_file(path), columns, without=without, name=path.name)


def is_stored(X: object) -> bool:
    """Return whether this names or describes a table that is not in memory."""
    return isinstance(X, str | os.PathLike | pads.Dataset) or is_dask(X)


def _size(path: Path) -> int:
    """Return the size of a file in bytes; 0 for anything else, whose reader says what is wrong."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except (OSError, ValueError):
        return 0


def _is_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except (OSError, ValueError):
        # `file_bytes` will say why it cannot be read
        return False


def checked_frame_names(X: Any, *, stacklevel: int) -> None:
    """Refuse a data frame whose names may be its first row, and point out those of identifiers.

    Anything else than a data frame has no names. `stacklevel` is that of the warning, as seen by
    the caller.
    """
    if found := named_identifiers(_frame_names(X) or ()):
        warnings.warn(
            _suspect(found, "leave it out (X.drop(columns=...)), or go on"),
            stacklevel=stacklevel + 1,
        )


def _suspect(names: Sequence[str], remedy: str) -> SuspectColumn:
    return SuspectColumn(
        f"column {listed(names)} looks like a number of rows or persons: {remedy} with it if it "
        "was measured"
    )


def is_sample(X: str | os.PathLike[str]) -> bool:
    """Return whether this names a bundled sample; a file of the same name goes first."""
    return str(X) in sample_names() and not Path(X).exists()


# Checks before a release. Messages may speak about the data: they are for the curator and cost no
# budget.


def checked_source(
    X: RowsLike,
    n_features: int,
    columns: Sequence[str] | None = None,
    *,
    without: Sequence[str] = (),
) -> RowSource:
    """Make a source of as many columns as planned, or raise a clear error."""
    source = row_source(X, columns, without=without)
    if source.n_features != n_features:
        raise InvalidInput(
            f"X has {source.n_features} columns, the plan is for {n_features}: choose as many "
            "columns, or make another plan"
        )
    return source


# Tables in memory


def collected(table: Any) -> Any:
    """Return a table that is in memory: a polars LazyFrame is collected, a series is a column."""
    module = type(table).__module__.partition(".")[0]
    if module == "polars" and hasattr(table, "collect"):
        table = table.collect()
    if module in ("pandas", "polars") and len(getattr(table, "shape", ())) == 1:
        table = table.to_frame()
    return table


def _all_numbers(table: Any, names: Sequence[str]) -> npt.NDArray[Any]:
    """Return all columns, or name the one that holds something else in an error."""
    if isinstance(table, np.ndarray):
        return table
    kinds = [_column_kind(_column(table, place)) for place in range(len(names))]
    if all(kind == "numbers" for kind in kinds):
        # without a copy where the frame holds one array
        return _table_of_numbers(table)
    good, values, problem = [], [], None
    for place, name in enumerate(names):
        try:
            values.append(_numbers(_column(table, place), name))
            good.append(name)
        except InvalidInput as found:
            problem = problem or found
    if problem is not None:
        instead = f"; or take others, table[{good!r}] for instance" if good else ""
        raise InvalidInput(f"{problem}{instead}") from problem
    return np.column_stack(values)


def _column_kind(column: Any) -> str:
    """Say what a column of a frame holds, by its type alone: no cell is looked at."""
    held = getattr(column, "dtype", getattr(column, "type", None))
    kind = str(held)
    if kind.startswith(("category", "Categorical", "Enum", "dictionary")):
        return "categories"
    if kind.lower().startswith(("date", "time", "duration", "period")):
        return "dates or times"
    if hasattr(held, "na_value") and getattr(held, "kind", "O") in "fiub":
        return "nullable numbers"
    return "numbers" if getattr(held, "kind", "O") in "fiub" else "other"


def _table_of_numbers(data: Any) -> npt.NDArray[Any]:
    values = _numbers(data)
    if values.ndim != 2:
        raise InvalidInput(f"X must be a table (rows, columns), got shape {values.shape}")
    return values


def _numbers(data: Any, name: str | None = None) -> npt.NDArray[Any]:
    """Convert to an array of a real kind, whether or not its numbers are finite."""
    what = "X" if name is None else f"column {name!r}"
    kind = _column_kind(data)
    if kind == "categories":
        raise InvalidInput(f"{what} must hold numbers only, and holds categories: leave it out")
    if kind == "dates or times":
        raise InvalidInput(
            f"{what} must hold numbers only, and holds {kind}: make numbers of them by a fixed "
            "rule, days since 2000-01-01 for instance, or leave it out"
        )
    try:
        if kind == "nullable numbers":
            return np.asarray(data.to_numpy(dtype=np.float64, na_value=np.nan))
        values = np.asarray(data)
    except ValueError as problem:
        raise InvalidInput(f"{what} must be a table of numbers: {problem}") from problem
    if values.dtype.kind == "c":
        raise InvalidInput(
            f"{what} must hold numbers only: complex ones have no order; take real parts"
        )
    if values.dtype.kind not in "fiub":
        try:
            values = np.asarray(data, dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise InvalidInput(
                f"{what} must hold numbers only, and holds {_other_than_a_number(values)}: leave "
                "that column out, or make numbers of it by a fixed rule"
            ) from problem
    return values


def _other_than_a_number(values: npt.NDArray[Any]) -> str:
    """Name the first value that is not a number."""
    for value in values.ravel():
        try:
            float(value)
        except (TypeError, ValueError):
            text = repr(value.item() if isinstance(value, np.generic) else value)
            return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
    return "other values"


def _frame_names(table: Any) -> list[str] | None:
    """Return the column names of a data frame; None for anything else."""
    names = getattr(table, "column_names", None)  # pyarrow, whose columns are the values
    if names is None:
        names = getattr(table, "columns", None)
    if names is None:
        return None
    # frames without names count their columns; other numbers as names may be the first row
    written = [name for name in names if isinstance(name, str)]
    if written != [str(place) for place in range(len(written))]:
        check_names(written, "read the file again without a line of names, or rename the columns")
    return [str(name) for name in names]


def _column(table: Any, place: int) -> Any:
    if hasattr(table, "iloc"):
        return table.iloc[:, place]
    if hasattr(table, "column_names"):
        return table.column(place)
    return table[:, place]
