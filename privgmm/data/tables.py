"""Numbers from files: CSV and Parquet tables of any origin, or a clear refusal.

`datasets` puts what comes out of here into a `Dataset`. A file is judged by its bytes, not by
its name; its size, and for Parquet the size it claims to unpack to, are checked before anything
is unpacked. Rows are never dropped or filled in: that choice belongs to whoever owns the data,
because a data-dependent repair is not part of any privacy guarantee.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from privgmm.arrays import Array, IntArray
from privgmm.errors import InvalidInput

__all__ = [
    "MAX_BYTES",
    "MAX_UNPACKED",
    "Table",
    "check_choice",
    "column_names",
    "file_bytes",
    "numeric_columns",
    "person_numbers",
    "read_labels",
    "read_table",
]

MAX_BYTES = 512 * 2**20
"""Largest file read unless the caller says otherwise, in bytes."""

MAX_UNPACKED = 2 * 2**30
"""Most memory a table may ask for once unpacked, in bytes."""

_DELIMITERS = ",;\t|"
_SHOWN = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Columns read from a file.

    Parameters
    ----------
    rows : array (n, d)
        Finite float64, read-only.
    columns : tuple of str
        The d names, in the order of the array.
    left_out : tuple of str
        Columns of the file that were not taken.
    """

    rows: Array
    columns: tuple[str, ...]
    left_out: tuple[str, ...]


def read_table(
    source: str | Path | bytes,
    *,
    columns: Sequence[str] | None = None,
    max_bytes: int = MAX_BYTES,
) -> Table:
    """Read the chosen columns of a CSV or Parquet file as numbers.

    Parameters
    ----------
    source : path or bytes
        A file, or the content of one. CSV may be comma, semicolon, tab or bar separated, quoted,
        in UTF-8, UTF-16 or Latin-1, with decimal commas, with or without a line of names.
    columns : sequence of str, optional
        What to take, in this order. By default every column that holds numbers only.
    max_bytes : int
        Refuse a larger file.

    Raises
    ------
    InvalidInput
        If the file is missing, empty, too large or malformed, or if a chosen column is absent,
        holds something that is not a number, or has missing or infinite values.
    """
    table = _arrow_table(file_bytes(source, max_bytes=max_bytes), columns)
    if table.num_rows == 0:
        raise InvalidInput("the file has column names but no rows of data")
    names = list(table.column_names)
    if columns is None:
        chosen = [name for name in names if _is_numeric(table.column(name))]
        if not chosen:
            raise InvalidInput(f"no column holds numbers only; the file has {_listed(names)}")
    else:
        chosen = list(columns)
        check_choice(chosen, names)
    rows = np.empty((table.num_rows, len(chosen)))
    for j, name in enumerate(chosen):
        rows[:, j] = _numbers(table.column(name), name)
    rows.setflags(write=False)
    left_out = tuple(name for name in names if name not in chosen)
    return Table(rows, tuple(chosen), left_out)


def numeric_columns(source: str | Path | bytes, *, max_bytes: int = MAX_BYTES) -> tuple[str, ...]:
    """Names of the columns that hold numbers only (missing values allowed)."""
    table = _arrow_table(file_bytes(source, max_bytes=max_bytes), None)
    return tuple(name for name in table.column_names if _is_numeric(table.column(name)))


def column_names(source: str | Path | bytes, *, max_bytes: int = MAX_BYTES) -> tuple[str, ...]:
    """Names of all columns, whatever they hold."""
    return tuple(_arrow_table(file_bytes(source, max_bytes=max_bytes), None).column_names)


def read_labels(source: str | Path | bytes, column: str, *, max_bytes: int = MAX_BYTES) -> IntArray:
    """A number (n,) for each row of one column of any kind, the same for the same value."""
    table = _arrow_table(file_bytes(source, max_bytes=max_bytes), [column])
    check_choice([column], table.column_names)
    return person_numbers(table.column(column), column)


def person_numbers(values: Any, name: str) -> IntArray:
    """A number (n,) for each value of an Arrow column, in the order in which they appear."""
    if missing := pc.sum(pc.is_null(values, nan_is_null=True)).as_py():
        raise InvalidInput(f"column {name!r} has {missing:,} missing values: fill them")
    try:
        codes: IntArray = values.combine_chunks().dictionary_encode().indices.to_numpy()
    except pa.ArrowNotImplementedError as problem:
        raise InvalidInput(
            f"column {name!r} must hold plain values, one per row, not {values.type}: choose "
            "another column"
        ) from problem
    return codes.astype(np.int64)


def file_bytes(source: str | Path | bytes, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The content of a file, which is opened once; bytes are checked and given back."""
    if isinstance(source, bytes):
        _check_file_size(len(source), max_bytes)
        data = source
    else:
        try:
            data = _read(Path(source), max_bytes)
        except (OSError, ValueError) as problem:
            if isinstance(problem, InvalidInput):
                raise
            raise InvalidInput(f"cannot read {str(source)!r}: {problem}") from problem
    if not data or data.isspace():
        raise InvalidInput("the file is empty")
    return data


def _read(path: Path, max_bytes: int) -> bytes:
    if not path.exists():
        raise InvalidInput(f"there is no file {str(path)!r}: check the path")
    if not path.is_file():
        raise InvalidInput(f"{str(path)!r} is not a file: name one CSV or Parquet file")
    with path.open("rb") as file:
        _check_file_size(os.fstat(file.fileno()).st_size, max_bytes)
        return file.read()


def _check_file_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise InvalidInput(
            f"the file has {size:,} bytes and the limit is {max_bytes:,}: "
            "take a sample of its rows, or raise max_bytes"
        )


def _arrow_table(data: bytes, columns: Sequence[str] | None) -> Any:
    if data[:4] == b"PAR1":
        return _parquet(data, columns)
    if data[:2] == b"\x1f\x8b" or data[:4] == b"PK\x03\x04":
        raise InvalidInput("the file is compressed or a spreadsheet: save it as CSV or Parquet")
    return _csv(data)


# Parquet


def _parquet(data: bytes, columns: Sequence[str] | None) -> Any:
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        metadata, schema = file.metadata, file.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise InvalidInput(f"the Parquet file is damaged: {_first_line(problem)}") from problem
    names = list(schema.names)
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InvalidInput(f"several columns have the name {_listed(twice)}: rename them")
    if columns is not None:
        check_choice(list(columns), names)
    wanted = [
        name
        for name in names
        if (columns is None and _numeric_type(schema.field(name).type))
        or (columns is not None and name in columns)
    ]
    _check_unpacked_size(metadata, [schema.field(name).type for name in wanted])
    try:
        table = file.read(columns=wanted)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as problem:
        raise InvalidInput(f"the Parquet file is damaged: {_first_line(problem)}") from problem
    if table.num_rows != metadata.num_rows:
        raise InvalidInput(
            f"the Parquet file claims {metadata.num_rows:,} rows and holds {table.num_rows:,}"
        )
    # The columns that were not read stay visible as names, so that errors can list them.
    for name in names:
        if name not in wanted:
            table = table.append_column(name, pa.nulls(table.num_rows))
    return table.select(names)


def _check_unpacked_size(metadata: Any, kinds: Sequence[Any]) -> None:
    """Refuse what would unpack to more than `MAX_UNPACKED`, from the file's own declarations.

    Two measures: eight bytes for each number, and, where anything but numbers is read, the size
    of all columns before compression. The first catches run-length encoding, where billions of
    equal values take a few bytes. (The sizes of single columns are not asked for: pyarrow ends
    the whole process, past any handler, where the statistics beside them are damaged.)
    """
    needed = metadata.num_rows * max(1, len(kinds)) * 8
    if not all(_numeric_type(kind) for kind in kinds):
        groups = range(metadata.num_row_groups)
        needed = max(needed, sum(metadata.row_group(g).total_byte_size for g in groups))
    if needed > MAX_UNPACKED:
        raise InvalidInput(
            f"the Parquet file would unpack to {needed:,} bytes ({metadata.num_rows:,} rows) and "
            f"the limit is {MAX_UNPACKED:,}: choose fewer columns or take a sample of the rows"
        )


# CSV


def _csv(data: bytes) -> Any:
    text = _utf8(data)
    first = _first_record(text)
    delimiter = max(_DELIMITERS, key=lambda mark: len(_fields(first, mark)))
    fields = _fields(first, delimiter)
    has_names = not all(_parses(field, delimiter) for field in fields)
    names = _unique(fields) if has_names else [f"column {i + 1}" for i in range(len(fields))]
    read = pacsv.ReadOptions(
        column_names=names, skip_rows_after_names=int(has_names), use_threads=False
    )
    parse = pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in text)
    points = [".", ","] if delimiter != "," else ["."]
    tables = [_parsed_csv(text, read, parse, point) for point in points]
    # With a decimal comma more columns turn out to be numbers than with a decimal point.
    return max(
        tables, key=lambda table: sum(_is_numeric(table.column(n)) for n in table.column_names)
    )


def _parsed_csv(text: bytes, read: Any, parse: Any, decimal_point: str) -> Any:
    def attempt(**types: Any) -> Any:
        convert = pacsv.ConvertOptions(
            decimal_point=decimal_point, strings_can_be_null=True, **types
        )
        return pacsv.read_csv(pa.BufferReader(text), read, parse, convert)

    try:
        try:
            return attempt()
        except pa.ArrowInvalid as problem:
            if "conversion error" not in str(problem):
                raise
            # The types guessed from the first block do not hold further down: take every
            # column as text, so that the offending value can be named.
            table = attempt(column_types={name: pa.string() for name in read.column_names})
            return _with_numbers(table, decimal_point)
    except pa.ArrowInvalid as problem:
        said = _first_line(problem)
        if "Empty CSV" in said:
            raise InvalidInput("the file has column names but no rows of data") from problem
        raise InvalidInput(
            f"the CSV file is ragged or broken: {said} (rows are counted with the line of names)"
        ) from problem


def _with_numbers(table: Any, decimal_point: str) -> Any:
    for i, name in enumerate(table.column_names):
        text = table.column(name)
        if decimal_point != ".":
            text = pc.replace_substring(text, decimal_point, ".")
        try:
            table = table.set_column(i, name, pc.cast(text, pa.float64()))
        except pa.ArrowInvalid:
            continue  # it stays text, which is what it is
    return table


def _utf8(data: bytes) -> bytes:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return _decoded(data, "utf-16").encode()
    if b"\x00" in data[:4096]:
        raise InvalidInput("the file is neither CSV nor Parquet: it holds binary data")
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1").encode()
    return data


def _decoded(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"the file is not valid {encoding}: {problem.reason}") from problem


def _first_record(text: bytes) -> str:
    """The first line that is not blank, with line breaks inside quotes kept."""
    lines = io.StringIO(text[: 2**20].decode("utf-8", errors="ignore"), newline="")
    record = ""
    for line in lines:
        record += line
        if record.strip() and record.count('"') % 2 == 0:
            break
        if not record.strip():
            record = ""
    return record.strip("\r\n")


def _fields(record: str, delimiter: str) -> list[str]:
    return next(csv.reader(io.StringIO(record, newline=""), delimiter=delimiter), [""])


def _parses(field: str, delimiter: str) -> bool:
    text = field.strip()
    if delimiter != ",":
        text = text.replace(",", ".")
    try:
        float(text)
    except ValueError:
        return False
    return True


def _unique(fields: Sequence[str]) -> list[str]:
    names: list[str] = []
    for i, field in enumerate(fields):
        base = field.strip() or f"column {i + 1}"
        name, copy = base, 1
        while name in names:
            copy += 1
            name = f"{base} ({copy})"
        names.append(name)
    return names


# Columns to numbers


def _numeric_type(kind: Any) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _is_numeric(column: Any) -> bool:
    return _numeric_type(column.type)


def _numbers(column: Any, name: str) -> Array:
    if not _is_numeric(column):
        _refuse_text(column, name)
    values: Array = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        shown = ", ".join(f"{row + 1:,}" for row in bad[:_SHOWN])
        more = ", …" if bad.size > _SHOWN else ""
        raise InvalidInput(
            f"column {name!r} has {bad.size:,} missing or infinite values, in data rows {shown}"
            f"{more}: drop or impute them before loading"
        )
    return values


def _refuse_text(column: Any, name: str) -> None:
    if column.null_count == len(column):
        raise InvalidInput(f"column {name!r} is empty: choose another column")
    for row, value in enumerate(column):
        plain = value.as_py()
        if plain is not None and not (isinstance(plain, str) and _parses(plain, ",")):
            raise InvalidInput(
                f"column {name!r} must hold numbers, but data row {row + 1:,} holds "
                f"{str(plain)[:40]!r}: choose another column, or clean this one"
            )
    raise InvalidInput(f"column {name!r} holds numbers written as text: store it as numbers")


def check_choice(chosen: Sequence[str], names: Sequence[str], whose: str = "the file") -> None:
    """Refuse a choice of columns that are not there, or that are named twice."""
    if not chosen:
        raise InvalidInput("columns must name at least one column")
    missing = [name for name in chosen if name not in names]
    if missing:
        raise InvalidInput(
            f"there is no column {_listed(missing)}; {whose} has {_listed(names)}: choose distinct "
            "names among these"
        )
    if len(set(chosen)) != len(chosen):
        raise InvalidInput(f"columns must be distinct, got {_listed(chosen)}")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _first_line(problem: BaseException) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:200]
