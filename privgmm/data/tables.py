"""Numbers from files: CSV and Parquet tables of any origin, or a clear refusal.

`datasets` puts what comes out of here into a `Dataset`. A file is judged by its bytes, not by
its name; its size, and for Parquet the size it claims to unpack to, are checked before anything
is unpacked.

The shape of a table must not depend on the content of single cells. Otherwise two tables that
differ in one row would be published in two shapes, which no noise hides. So:

- Separator, names and encoding come from the line of names, which is public, or from the caller.
- Every line after it is one row. Rows are never merged or filled in. They are dropped only where
  the caller says so (`drop_gaps`), and a column is left out only if the caller names the columns
  to take.
- Each cell is read by itself: its number does not depend on other cells.
- A cell that cannot be read is an error for the whole table.

Errors name columns, rows and cells. They are CONFIDENTIAL, for the holder of the data: nothing was
computed and nothing spent.
"""

from __future__ import annotations

import abc
import csv
import dataclasses
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from privgmm.arrays import Array
from privgmm.data.content import MAX_BYTES, file_bytes
from privgmm.data.labels import Labels, check_indices, is_text_type, label_texts
from privgmm.errors import InvalidInput

__all__ = [
    "DROPPING",
    "FILL_IN",
    "MAX_UNPACKED",
    "ColumnKind",
    "Layout",
    "Reading",
    "Table",
    "check_choice",
    "check_names",
    "chosen_columns",
    "column_kinds",
    "each_column",
    "is_numeric_type",
    "listed",
    "numbers_with_gaps",
    "numeric_columns",
    "read_labels",
    "read_table",
    "sentence",
]

MAX_UNPACKED = 2 * 2**30
"""Most memory a table may ask for once unpacked, in bytes; a convention."""

FILL_IN = (
    "fill them in by a rule that looks at no other row (a fixed value, say), or leave the column "
    "out; do not drop rows: how many there are is published, and would then depend on what single "
    "rows hold"
)
"""What to do about missing values."""

DROPPING = (
    "how many rows are left is published, so whether your row is complete is not hidden; what it "
    "holds is"
)
"""What it means for a person in the table that rows with missing values are dropped."""

ColumnKind = Literal["numbers", "text", "mixed", "empty"]
"""What the cells of a column are, missing ones aside."""

_SEPARATORS = ",;\t|"
_SEPARATOR_WORDS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
_DECIMAL_WORDS = {".": "a decimal point", ",": "a decimal comma", ".,": "a decimal point or comma"}
_MISSING = frozenset(pacsv.ConvertOptions().null_values) - {""} | {"?", "-", "None", "none"}
_FIRST = 2**20  # bytes among which the first line must end
_SHOWN = 5  # data rows that an error lists


# What is asked and what was found


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a CSV file, as far as the caller sets it. Public, like the names of columns.

    Parameters
    ----------
    header : bool or None
        Whether the first line holds the names of the columns. None: it does, and names that are
        numbers are refused, because they may be the first person's row.
    separator : str or None
        Stands between cells. None: the one of comma, semicolon, tab and bar that cuts the line of
        names into most cells; without names, a comma.
    decimal : {".", ","} or None
        The decimal sign. None: a point in a file separated by commas; elsewhere either of the two,
        as long as all columns taken keep to one of them.
    """

    header: bool | None = None
    separator: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        if self.header is not None and not isinstance(self.header, bool):
            raise InvalidInput(f"header must be True, False or None, got {self.header!r}")
        if self.separator is not None and (
            not isinstance(self.separator, str)
            or len(self.separator) != 1
            or not self.separator.isascii()
            or self.separator.isalnum()
            or self.separator in '"\r\n.+-\0'
        ):
            raise InvalidInput(
                f"separator must be one character, like ',' or ';', got {self.separator!r}"
            )
        if self.decimal is not None and self.decimal not in (".", ","):
            raise InvalidInput(f"decimal must be '.' or ',', got {self.decimal!r}")
        if self.decimal is not None and self.decimal == self.separator:
            raise InvalidInput(f"separator and decimal must differ, both are {self.decimal!r}")

    @property
    def said(self) -> dict[str, Any]:
        """The settings that are not None."""
        named = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in named.items() if value is not None}


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """The way a file was read, which depends on the layout and the line of names alone.

    Parameters
    ----------
    format : {"CSV", "Parquet"}
    separator : str or None
    decimal : str or None
        ".", ",", or ".," where either would do.
    header : bool or None
    encoding : str or None
        Of the names; numbers are the same in all of them.
    gaps_dropped : bool
        Whether rows with missing values were dropped, as the caller asked for.
    """

    format: str
    separator: str | None = None
    decimal: str | None = None
    header: bool | None = None
    encoding: str | None = None
    gaps_dropped: bool = False

    def __str__(self) -> str:
        if self.separator is None or self.decimal is None:
            return self.format
        separator = _SEPARATOR_WORDS.get(self.separator, repr(self.separator))
        names = "names in the first line" if self.header else "no line of names"
        encoding = "" if self.encoding is None else f", {self.encoding}"
        return (
            f"{self.format} with {separator} between cells, {_DECIMAL_WORDS[self.decimal]}, "
            f"{names}{encoding}"
        )

    def to_dict(self) -> dict[str, str | bool | None]:
        """Return plain values; dropped rows are mentioned only where rows were dropped."""
        plain = dataclasses.asdict(self)
        if not self.gaps_dropped:
            del plain["gaps_dropped"]
        return plain


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
        Columns of the file that the caller did not ask for.
    reading : Reading
    """

    rows: Array
    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    reading: Reading


# The questions


def read_table(
    source: str | Path | bytes,
    *,
    columns: Sequence[str] | None = None,
    without: Sequence[str] = (),
    drop_gaps: bool = False,
    layout: Layout | None = None,
    max_bytes: int = MAX_BYTES,
) -> Table:
    """Read the chosen columns of a CSV or Parquet file as numbers.

    Parameters
    ----------
    source : path or bytes
        A file, or the content of one, packed by gzip or not. CSV may be quoted, in UTF-8, UTF-16
        or Latin-1; one line is one row.
    columns : sequence of str, optional
        What to take, in this order. By default every column, and all must hold numbers.
    without : sequence of str
        Which not to take where `columns` are left open.
    drop_gaps : bool
        Drop rows in which a column to be taken has a missing or infinite value, instead of
        refusing the file. The guarantee then holds between tables with equally many complete rows:
        it hides what a row holds, but not whether the row is complete.
    layout : Layout, optional
        How a CSV file is written.
    max_bytes : int
        Refuse a larger file.

    Raises
    ------
    InvalidInput
        If the file is missing, empty, too large or malformed, or if a column to be taken is
        absent, holds something that is not a number, or has missing or infinite values.
    """
    file = _opened(file_bytes(source, max_bytes=max_bytes), layout)
    chosen = chosen_columns(columns, without, file.names)
    rows = file.numbers(chosen, asked=columns is not None, gaps=drop_gaps)
    if not len(rows):
        raise InvalidInput("the file has column names but no rows of data")
    if drop_gaps:
        rows = rows[np.isfinite(rows).all(axis=1)]
        if not len(rows):
            raise InvalidInput(
                f"every row has a gap in one of {listed(chosen)}: choose fewer columns"
            )
    rows.setflags(write=False)
    left_out = tuple(name for name in file.names if name not in chosen)
    reading = dataclasses.replace(file.reading, gaps_dropped=drop_gaps)
    return Table(rows, tuple(chosen), left_out, reading)


def numbers_with_gaps(
    source: str | Path | bytes,
    columns: Sequence[str],
    *,
    layout: Layout | None = None,
    max_bytes: int = MAX_BYTES,
) -> Array:
    """Read columns (n, d), nan or inf where a cell holds no finite number. CONFIDENTIAL.

    For the holder of the data, who wants to know where gaps are.
    """
    file = _opened(file_bytes(source, max_bytes=max_bytes), layout)
    check_choice(columns, file.names)
    return file.numbers(columns, asked=True, gaps=True)


def each_column(
    source: str | Path | bytes,
    columns: Sequence[str],
    *,
    layout: Layout | None = None,
    max_bytes: int = MAX_BYTES,
) -> Iterator[tuple[str, Array]]:
    """Yield names and values (n,) of columns one by one, as in `numbers_with_gaps`. CONFIDENTIAL.

    Columns that cannot be read as numbers are passed over. A Parquet file whose columns are too
    large together is refused before any is read; otherwise one of them is in memory at a time.
    """
    yield from _opened(file_bytes(source, max_bytes=max_bytes), layout).each(columns)


def column_kinds(
    source: str | Path | bytes, *, layout: Layout | None = None, max_bytes: int = MAX_BYTES
) -> dict[str, ColumnKind]:
    """Find what kind of cells each column holds, by its name. CONFIDENTIAL.

    One row more or less never makes "numbers" of "text" or the other way round, in two rows or
    more: "mixed" is between them.
    """
    file = _opened(file_bytes(source, max_bytes=max_bytes), layout)
    return file.kinds(file.names)


def numeric_columns(
    source: str | Path | bytes, *, layout: Layout | None = None, max_bytes: int = MAX_BYTES
) -> tuple[str, ...]:
    """Return the names of columns of numbers, missing values allowed. CONFIDENTIAL."""
    kinds = column_kinds(source, layout=layout, max_bytes=max_bytes)
    return tuple(name for name, kind in kinds.items() if kind == "numbers")


def read_labels(
    source: str | Path | bytes,
    column: str,
    *,
    layout: Layout | None = None,
    max_bytes: int = MAX_BYTES,
) -> Labels:
    """Read one column of any kind as a text (n,) per row; equal values give equal texts.

    In a CSV file values are the same if they are written alike, spaces around them aside.
    """
    file = _opened(file_bytes(source, max_bytes=max_bytes), layout)
    check_choice([column], file.names)
    return label_texts(file.values(column), column)


def chosen_columns(
    columns: Sequence[str] | None,
    without: Sequence[str],
    names: Sequence[str],
    whose: str = "the file",
) -> list[str]:
    """Choose the columns to take: those asked for, else all but `without`."""
    if columns is not None:
        check_choice(columns, names, whose)
        return list(columns)
    if without:
        check_choice(without, names, whose)
    chosen = [name for name in names if name not in without]
    if not chosen:
        raise InvalidInput(f"no column is left without {listed(without)}: leave fewer out")
    return chosen


def check_choice(chosen: Sequence[str], names: Sequence[str], whose: str = "the file") -> None:
    """Refuse a choice of columns that are not there, or that are named twice."""
    if not chosen:
        raise InvalidInput("columns must name at least one column")
    missing = [name for name in chosen if name not in names]
    if missing:
        raise InvalidInput(
            f"there is no column {listed(missing)}; {whose} has {listed(names)}: choose distinct "
            "names among these"
        )
    if len(set(chosen)) != len(chosen):
        raise InvalidInput(f"columns must be distinct, got {listed(chosen)}")


def check_names(names: Sequence[str], remedy: str) -> None:
    """Refuse names that are numbers or missing values: they may be a person, and are published."""
    odd = [name for name in names if _is_number(name) or name.strip() in _MISSING]
    if odd:
        raise InvalidInput(
            f"names of columns are published, and {listed(odd)} may be the first row of data: "
            f"{remedy}"
        )


def listed(names: Sequence[str]) -> str:
    """Write names for a message, at most twelve of them."""
    shown = ", ".join(repr(name) for name in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")


# Files


class _File(abc.ABC):
    """A file whose names are known and whose cells are not read yet.

    Parameters
    ----------
    names : list of str
        Of all columns, distinct.
    reading : Reading
    """

    def __init__(self, names: list[str], reading: Reading) -> None:
        self.names, self.reading = names, reading

    @abc.abstractmethod
    def numbers(self, chosen: Sequence[str], *, asked: bool, gaps: bool = False) -> Array:
        """Read columns as finite numbers (n, d), or raise; with `gaps`, let others pass.

        If the caller did not ask for these columns, all are taken, and one that holds something
        else is an error: leaving it out could depend on a single cell.
        """

    @abc.abstractmethod
    def each(self, names: Sequence[str]) -> Iterator[tuple[str, Array]]:
        """Yield the columns that can be read as numbers, nan or inf where a cell has none.

        All may be read at once only where the format leaves no choice.
        """

    @abc.abstractmethod
    def values(self, name: str) -> Any:
        """Read the cells of a column as an Arrow array of any type, null where missing."""

    @abc.abstractmethod
    def kinds(self, names: Sequence[str]) -> dict[str, ColumnKind]:
        """Find what kind of cells these columns hold."""


def _opened(data: bytes, layout: Layout | None) -> _File:
    layout = Layout() if layout is None else layout
    if data[:4] == b"PAR1":
        if layout.said:
            raise InvalidInput(
                f"{', '.join(layout.said)} cannot be set for a Parquet file, which says so itself: "
                "leave it out"
            )
        return _Parquet(data)
    if data[:4] == b"PK\x03\x04":
        raise InvalidInput("the file is an archive or a spreadsheet: save it as CSV or Parquet")
    return _Csv(data, layout)


def _unasked(text: Sequence[str], names: Sequence[str]) -> str:
    """Say why columns that the caller did not name cannot be taken."""
    rest = [name for name in names if name not in text]
    choice = f", {listed(rest)} for instance" if rest else ""
    which = f"{'columns' if len(text) > 1 else 'column'} {listed(text)}"
    return (
        f"there are no numbers in {which}, and no column is left out unasked: name those to take "
        f"(columns=, --columns){choice}"
    )


def _finite(values: Array, name: str, where: str = "") -> Array:
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size == len(values) > 0:
        raise InvalidInput(f"column {name!r} is empty: choose another column")
    if bad.size:
        shown = ", ".join(f"{row + 1:,}" for row in bad[:_SHOWN])
        more = ", …" if bad.size > _SHOWN else ""
        raise InvalidInput(
            f"column {name!r} has {bad.size:,} missing or infinite values, in data rows {shown}"
            f"{more}{where}: {FILL_IN}"
        )
    return values


# Parquet


class _Parquet(_File):
    """A Parquet file: names and types are those of its schema."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        try:
            self._file = pq.ParquetFile(pa.BufferReader(data))
            self._metadata, self._schema = self._file.metadata, self._file.schema_arrow
        except (pa.ArrowException, OSError, ValueError) as problem:
            raise InvalidInput(f"the Parquet file is damaged: {sentence(problem)}") from problem
        names = list(self._schema.names)
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise InvalidInput(f"several columns have the name {listed(twice)}: rename them")
        if names != [str(place) for place in range(len(names))]:
            check_names(names, "give the columns names in words, and write the file again")
        super().__init__(names, Reading("Parquet"))

    def numbers(self, chosen: Sequence[str], *, asked: bool, gaps: bool = False) -> Array:
        kinds = self.kinds(chosen)
        if not asked and (text := [name for name in chosen if kinds[name] != "numbers"]):
            raise InvalidInput(_unasked(text, chosen))
        self._check_size(chosen)
        rows = np.empty((0, len(chosen)))
        for j, name in enumerate(chosen):
            column = self._read(name)
            if j == 0:
                # no earlier: the number of rows that the file claims is checked by reading it
                rows = np.empty((len(column), len(chosen)))
            if kinds[name] != "numbers":
                _refuse_text(column, name)
            values = _float_values(column)
            rows[:, j] = values if gaps else _finite(values, name)
        return rows

    def each(self, names: Sequence[str]) -> Iterator[tuple[str, Array]]:
        self._check_size(names)
        for name in names:
            yield name, _float_values(self._read(name))

    def values(self, name: str) -> Any:
        self._check_size([name])
        return self._read(name)

    def kinds(self, names: Sequence[str]) -> dict[str, ColumnKind]:
        return {
            name: "numbers" if is_numeric_type(self._schema.field(name).type) else "text"
            for name in names
        }

    def _check_size(self, wanted: Sequence[str]) -> None:
        """Refuse columns that are too large together, before any of them is read."""
        _check_unpacked_size(self._metadata, [self._schema.field(name).type for name in wanted])

    def _read(self, name: str) -> Any:
        """Read a column; text that repeats takes memory once, as in the file."""
        try:
            file = self._file
            if is_text_type(self._schema.field(name).type):
                file = pq.ParquetFile(
                    pa.BufferReader(self._data), metadata=self._metadata, read_dictionary=[name]
                )
            table = file.read(columns=[name])
            check_indices(table.column(name))
        except (pa.ArrowException, OSError, ValueError, MemoryError) as problem:
            raise InvalidInput(f"the Parquet file is damaged: {sentence(problem)}") from problem
        if table.num_rows != self._metadata.num_rows:
            raise InvalidInput(
                f"the Parquet file claims {self._metadata.num_rows:,} rows and holds "
                f"{table.num_rows:,}"
            )
        return table.column(name)


def _float_values(column: Any) -> Array:
    values: Array = pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def _check_unpacked_size(metadata: Any, kinds: Sequence[Any]) -> None:
    """Refuse what would unpack to more than `MAX_UNPACKED`, from the file's own declarations.

    Two measures: eight bytes for each number, and, where anything but numbers is read, the size
    of all columns before compression. The first catches run-length encoding, where billions of
    equal values take a few bytes. (The sizes of single columns are not read: where the statistics
    next to them are damaged, pyarrow ends the whole process, past any handler.)
    """
    needed = metadata.num_rows * max(1, len(kinds)) * 8
    if not all(is_numeric_type(kind) for kind in kinds):
        groups = range(metadata.num_row_groups)
        needed = max(needed, sum(metadata.row_group(g).total_byte_size for g in groups))
    if needed > MAX_UNPACKED:
        raise InvalidInput(
            f"the Parquet file would unpack to {needed:,} bytes ({metadata.num_rows:,} rows) and "
            f"the limit is {MAX_UNPACKED:,}: choose fewer columns or take a sample of the rows"
        )


def is_numeric_type(kind: Any) -> bool:
    """Return whether an Arrow type holds numbers."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _refuse_text(column: Any, name: str) -> None:
    if column.null_count == len(column):
        raise InvalidInput(f"column {name!r} is empty: choose another column")
    for row, value in enumerate(column):
        plain = value.as_py()
        if plain is not None and not (isinstance(plain, str) and _is_number(plain)):
            raise InvalidInput(
                f"column {name!r} must hold numbers, but data row {row + 1:,} holds "
                f"{str(plain)[:40]!r}: choose another column, or clean this one"
            )
    raise InvalidInput(f"column {name!r} holds numbers written as text: store it as numbers")


# CSV


class _NotNumbers(Exception):
    """A column that should hold numbers has a cell that is not a number."""


class _Csv(_File):
    """A CSV file: names, separator and encoding are those of its first line.

    Only the columns taken are parsed as numbers; other cells are bytes, so neither their content
    nor their encoding has an influence.
    """

    def __init__(self, data: bytes, layout: Layout) -> None:
        text, encoding = _ascii_compatible(data)
        named = layout.header is not False
        first, end = _first_line(text, skip_blank=named)
        if named:
            line, in_line = _decoded(first)
            encoding = encoding or in_line
            separator = layout.separator or _separator(line)
            fields = _fields(line, separator)
            if line.count('"') % 2:
                raise InvalidInput(
                    "a quote is not closed in the first line: names of columns must not hold "
                    "line breaks"
                )
            if not any(map(str.strip, fields)):
                raise InvalidInput(
                    "the first line names no column, and may be a row in which all is missing: "
                    "write names there, or say header=False (--no-header)"
                )
            if not layout.header:
                check_names(
                    fields,
                    "say header=False (--no-header) if the file has no line of names, and "
                    "header=True (--header) if these are names",
                )
            names = _unique([f.strip() or f"unnamed {i + 1}" for i, f in enumerate(fields)])
            self._body, self._before = text[end:], len(text[:end].splitlines())
        else:
            separator = layout.separator or ","
            count = len(_fields(first.decode("latin-1"), separator))
            names = [f"column {i + 1}" for i in range(count)]
            self._body, self._before = text, 0
        if separator == layout.decimal:
            raise InvalidInput(
                f"cells are separated by {separator!r}, which cannot be the decimal sign too: set "
                "separator (--separator)"
            )
        decimal = layout.decimal or ("." if separator == "," else ".,")
        super().__init__(names, Reading("CSV", separator, decimal, named, encoding))

    def numbers(self, chosen: Sequence[str], *, asked: bool, gaps: bool = False) -> Array:
        for sign in self._decimals:
            try:
                table = self._read(chosen, pa.float64(), sign)
            except _NotNumbers:
                continue
            rows = np.empty((table.num_rows, len(chosen)))
            for j, name in enumerate(chosen):
                values = table.column(name).to_numpy(zero_copy_only=False)
                where = f" (data row 1 is line {self._before + 1:,})"
                rows[:, j] = values if gaps else _finite(values, name, where)
            return rows
        raise InvalidInput(self._complaint(chosen, asked=asked))

    def each(self, names: Sequence[str]) -> Iterator[tuple[str, Array]]:
        if not names:
            return
        try:
            rows = self.numbers(names, asked=True, gaps=True)
        except InvalidInput as problem:
            # decimal points and commas are mixed: each column alone may keep to one of them
            readable = 0
            for name in names:
                try:
                    values = self.numbers([name], asked=True, gaps=True)[:, 0]
                except InvalidInput:
                    continue
                readable += 1
                yield name, values
            if not readable:
                raise problem from None
        else:
            yield from zip(names, rows.T, strict=True)

    def values(self, name: str) -> Any:
        cells = self._read([name], pa.binary()).column(name)
        return pc.replace_substring_regex(cells, r"^[ \t]+|[ \t]+$", "")

    def kinds(self, names: Sequence[str]) -> dict[str, ColumnKind]:
        table = self._read(names, pa.binary())
        return {name: self._kind(table.column(name)) for name in names}

    @property
    def _decimals(self) -> str:
        return self.reading.decimal or "."

    def _kind(self, cells: Any) -> ColumnKind:
        found = self._looks(cells)
        said = len(cells) - cells.null_count
        if said == 0:
            return "empty"
        numbers = pc.sum(found).as_py()
        return "numbers" if numbers == said else "mixed" if numbers else "text"

    def _looks(self, cells: Any) -> Any:
        """Find the cells that look like a number; null where a cell is empty."""
        mark = f"[{self._decimals}]"
        plain = rf"(\d+{mark}?\d*|{mark}\d+)(e[+-]?\d+)?|inf|infinity|nan"
        return pc.match_substring_regex(cells, rf"(?i)^[ \t]*[+-]?({plain})[ \t]*$")

    def _read(self, wanted: Sequence[str], kind: Any, sign: str = ".") -> Any:
        if not self._body:
            raise InvalidInput("the file has column names but no rows of data")
        convert = pacsv.ConvertOptions(
            decimal_point=sign,
            strings_can_be_null=True,
            include_columns=list(wanted),
            column_types=dict.fromkeys(wanted, kind),
        )
        # a blank line is a row in which all cells are missing: skipping it would drop a row
        parse = pacsv.ParseOptions(
            delimiter=self.reading.separator, newlines_in_values=True, ignore_empty_lines=False
        )
        read = pacsv.ReadOptions(column_names=self.names, use_threads=False)
        try:
            table = pacsv.read_csv(pa.BufferReader(self._body), read, parse, convert)
        except pa.ArrowInvalid as problem:
            if "conversion error" in str(problem):
                raise _NotNumbers from problem
            raise InvalidInput(self._broken(problem)) from problem
        lines = _count_lines(self._body)
        if table.num_rows != lines:
            # a quote that is not closed would swallow the rows after it
            raise InvalidInput(
                f"the file has {lines:,} lines of data and {table.num_rows:,} rows: a quote is not "
                "closed, or a cell holds a line break; take it out, or save as Parquet"
            )
        return table

    def _broken(self, problem: BaseException) -> str:
        said = sentence(problem)
        found = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", said)
        if found is None:
            return f"the CSV file is broken: {said}"
        row, expected, got = (int(number) for number in found.groups())
        return (
            f"{self._place(row)} has {got} cells where {expected} are expected, separated by "
            f"{self.reading.separator!r}: complete it, or say what separates cells (separator=, "
            "--separator)"
        )

    def _place(self, row: int) -> str:
        return f"data row {row:,} (line {self._before + row:,})"

    def _complaint(self, chosen: Sequence[str], *, asked: bool) -> str:
        """Say why these columns cannot be read as numbers."""
        table = self._read(chosen, pa.binary())
        kinds = {name: self._kind(table.column(name)) for name in chosen}
        text = [name for name in chosen if kinds[name] == "text"]
        mixed = [name for name in chosen if kinds[name] == "mixed"]
        if asked and (text or mixed):
            name = next(name for name in chosen if name in text or name in mixed)
            return (
                f"column {name!r} must hold numbers, but {self._cell(table, name)}: choose another "
                "column, or clean this one"
            )
        if mixed:
            also = f" ({listed(text)}: text only)" if text else ""
            return (
                f"column {mixed[0]!r} mixes numbers and text: {self._cell(table, mixed[0])}: clean "
                f"it, or name the columns to take (columns=, --columns){also}"
            )
        if text:
            return f"{_unasked(text, chosen)}; {self._cell(table, text[0])}"
        return self._two_signs(table)

    def _cell(self, table: Any, name: str) -> str:
        """Quote the first cell that is not a number."""
        cells = table.column(name)
        row = pc.index(pc.fill_null(self._looks(cells), True), False).as_py()
        shown = _shown(cells[row])
        swapped = pc.replace_substring(cells[row], ",", ".")
        sign = pc.match_substring(cells[row], ",").as_py() and self._looks(swapped).as_py()
        asked = " (another decimal sign? see decimal=, --decimal)" if sign else ""
        return f"{self._place(row + 1)} holds {shown}{asked}"

    def _two_signs(self, table: Any) -> str:
        """Say that all cells are numbers, but not all with the same decimal sign."""
        found = {}
        for sign in ".,":
            for name in table.column_names:
                cells = table.column(name)
                row = pc.index(pc.fill_null(pc.match_substring(cells, sign), False), True).as_py()
                if row >= 0 and sign not in found:
                    found[sign] = f"{_shown(cells[row])} in column {name!r}, {self._place(row + 1)}"
        return (
            f"decimal points and commas are mixed: {' and '.join(found.values())}; use one of them "
            "throughout"
        )


_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def _ascii_compatible(data: bytes) -> tuple[bytes, str | None]:
    """Decode to text that writes ASCII as such, and name the encoding it came in."""
    if data[:2] in _UTF_16:
        try:
            return data.decode("utf-16").encode(), "UTF-16"
        except UnicodeDecodeError as problem:
            raise InvalidInput(f"the file is not valid UTF-16: {problem.reason}") from problem
    if b"\x00" in data[:4096]:
        raise InvalidInput("the file is neither CSV nor Parquet: it holds binary data")
    return data.removeprefix(b"\xef\xbb\xbf"), None


def _first_line(text: bytes, *, skip_blank: bool) -> tuple[bytes, int]:
    """Return the first line, without its break, and where the next one starts."""
    end = 0
    for line in text[:_FIRST].splitlines(keepends=True):
        end += len(line)
        if line.strip() or not skip_blank:
            if end == _FIRST < len(text):
                break
            return line.rstrip(b"\r\n"), end
    raise InvalidInput(f"the file does not begin with a line of at most {_FIRST:,} bytes")


def _decoded(line: bytes) -> tuple[str, str]:
    try:
        return line.decode(), "UTF-8"
    except UnicodeDecodeError:
        return line.decode("latin-1"), "Latin-1"


def _separator(line: str) -> str:
    return max(_SEPARATORS, key=lambda mark: len(_fields(line, mark)))


def _fields(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(line, newline=""), delimiter=separator), [""])
    except csv.Error as problem:
        raise InvalidInput(f"the first line cannot be read: {problem}") from problem


def _unique(fields: Sequence[str]) -> list[str]:
    names: list[str] = []
    for field in fields:
        name, copy = field, 1
        while name in names:
            copy += 1
            name = f"{field} ({copy})"
        names.append(name)
    return names


def _is_number(text: str) -> bool:
    """Return whether this is a number, with a decimal point or comma."""
    try:
        float(text.strip().replace(",", "."))
    except ValueError:
        return False
    return True


def _count_lines(text: bytes) -> int:
    breaks = text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")
    return breaks + (not text.endswith((b"\n", b"\r")))


def _shown(cell: Any) -> str:
    return repr(cell.as_py().decode("utf-8", "replace")[:40])


def sentence(problem: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:200]
