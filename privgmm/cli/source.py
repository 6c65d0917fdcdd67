"""The rows of a command: which are used, whom they belong to, what the ledger calls them."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import warnings

from privgmm.budget import Unit
from privgmm.cli.arguments import split_columns
from privgmm.cli.files import STANDARD_STREAM
from privgmm.data.content import stream_bytes
from privgmm.data.fingerprint import file_fingerprint
from privgmm.data.identifiers import named_identifiers, running_numbers
from privgmm.data.parts import files_fingerprint, parquet_files
from privgmm.data.rows import is_sample, row_source
from privgmm.data.source import RowSource
from privgmm.data.tables import listed
from privgmm.errors import InvalidInput, SuspectColumn

__all__ = ["Source", "fingerprint_of", "load_source"]


@dataclasses.dataclass(frozen=True)
class Source:
    """The rows of a command, and which person each belongs to.

    Parameters
    ----------
    rows : RowSource
        The columns to be fitted.
    persons : str or None
        The column that says which person a row belongs to; None where each row is a person.
    n_units : int
        How many rows or persons there are; public.
    suspects : tuple of str
        Columns that look like a number of rows or persons.
    """

    rows: RowSource
    persons: str | None
    n_units: int
    suspects: tuple[str, ...] = ()

    @property
    def unit(self) -> Unit:
        """What a release protects."""
        return "row" if self.persons is None else "person"

    @property
    def reading(self) -> dict[str, str | int | bool | None] | None:
        """How the file was read, for the receipt; None for what is not a file.

        With a column of persons, the number of persons is public and that of rows is confidential:
        it depends on how many rows each person has.
        """
        if self.rows.reading is None:
            return None
        return {**self.rows.reading.to_dict(), "rows": self._public_rows}

    @property
    def _public_rows(self) -> int | None:
        return self.rows.n_rows if self.persons is None else None

    def __str__(self) -> str:
        """Say what was read, for the holder of the data."""
        of = "" if self.persons is None else f" of {self.n_units:,} persons"
        left_out = self.rows.left_out
        rest = f" (not {listed(left_out)})" if left_out else ""
        return (
            f"read {self.rows.n_rows:,} rows{of} from {self.rows.name!r}, columns "
            f"{listed(self.rows.columns)}{rest}: {self.rows.reading}"
        )


def load_source(chosen: argparse.Namespace) -> Source:
    """Read the table of the options: a file, standard input, or a shipped sample by its name.

    The column of persons is not fitted.
    """
    names, groups = split_columns(chosen.columns), chosen.groups
    if names is not None and groups in names:
        raise InvalidInput(
            f"--columns and --groups both name {groups!r}: a column of persons is not fitted; "
            "leave it out of --columns"
        )
    with warnings.catch_warnings():
        # the command lists them in a note, together with what the values show
        warnings.simplefilter("ignore", SuspectColumn)
        rows = row_source(
            _input() if chosen.data == STANDARD_STREAM else chosen.data,
            names,
            without=() if groups is None else (groups,),
            header=chosen.header,
            separator=chosen.separator,
            decimal=chosen.decimal,
            name="standard input",
        )
    unasked = named_identifiers(rows.columns) if names is None else ()
    running = running_numbers(rows.glance(), rows.columns)
    return Source(
        rows,
        groups,
        rows.n_rows if groups is None else rows.count_persons(groups),
        tuple(name for name in rows.columns if name in unasked or name in running),
    )


def fingerprint_of(data: str) -> str:
    """Return what the ledger calls a file or a shipped sample, without reading it as a table."""
    if data == STANDARD_STREAM:
        return file_fingerprint(_input())
    if (found := parquet_files(data)) is not None:
        return files_fingerprint(found[0])
    return f"sample {data}" if is_sample(data) else file_fingerprint(data)


def _input() -> bytes:
    """Read all of standard input."""
    return stream_bytes(sys.stdin.buffer)
