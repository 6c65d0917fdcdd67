"""The rows of a command: which are used, who they belong to, and what the ledger calls them."""

from __future__ import annotations

import dataclasses

import numpy as np

from privgmm.arrays import IntArray
from privgmm.budget import Unit
from privgmm.cli.arguments import column_names
from privgmm.data.fingerprint import file_fingerprint
from privgmm.data.rows import RowSource, is_sample, row_source
from privgmm.errors import InvalidInput

__all__ = ["Source", "fingerprint_of", "load_source"]


@dataclasses.dataclass(frozen=True)
class Source:
    """Rows, and who each belongs to.

    Parameters
    ----------
    rows : RowSource
        The columns to be fitted.
    persons : array (n,) or None
        A number for the person of each row; None where each row is a person.
    """

    rows: RowSource
    persons: IntArray | None

    @property
    def unit(self) -> Unit:
        """What a release protects."""
        return "row" if self.persons is None else "person"

    @property
    def n_units(self) -> int:
        """How many rows or persons can be dealt into blocks."""
        return self.rows.n_rows if self.persons is None else len(np.unique(self.persons))


def load_source(data: str, columns: str | None, groups: str | None) -> Source:
    """Read a file, or a shipped sample by its name; the column of persons is not fitted."""
    names = column_names(columns)
    if names is not None and groups in names:
        raise InvalidInput(
            f"--columns and --groups both name {groups!r}: a column of persons is not fitted; "
            "leave it out of --columns"
        )
    rows = row_source(data, names)
    if groups is None:
        return Source(rows, None)
    persons = rows.labels(groups)
    rest = [name for name in rows.columns if name != groups]
    if not rest:
        raise InvalidInput(f"no column of numbers is left beside --groups {groups!r}")
    return Source(rows.choose(rest), persons)


def fingerprint_of(data: str) -> str:
    """What the ledger calls a file or a shipped sample, which need not be a table to be asked."""
    return f"sample {data}" if is_sample(data) else file_fingerprint(data)
