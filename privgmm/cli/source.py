"""The table of a command: which rows are used, who they belong to, and what the ledger calls it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from privgmm.arrays import IntArray
from privgmm.cli.arguments import column_names
from privgmm.data.datasets import Dataset, load_sample, load_table, sample_names
from privgmm.data.fingerprint import file_fingerprint
from privgmm.data.tables import read_labels
from privgmm.errors import InvalidInput

__all__ = ["Source", "fingerprint_of", "load_source"]


@dataclasses.dataclass(frozen=True)
class Source:
    """Rows, and who each belongs to.

    Parameters
    ----------
    data : Dataset
        The columns to be fitted.
    persons : array (n,) or None
        A number for the person of each row; None where each row is a person.
    """

    data: Dataset
    persons: IntArray | None

    @property
    def n_units(self) -> int:
        """How many rows or persons can be dealt into blocks."""
        return self.data.n_rows if self.persons is None else len(np.unique(self.persons))


def load_source(source: str, columns: str | None, groups: str | None) -> Source:
    """Read a file, or a shipped sample by its name; the column of persons is not fitted."""
    names = column_names(columns)
    if names is not None and groups in names:
        raise InvalidInput(f"--columns and --groups both name {groups!r}: who is not fitted")
    if _is_sample(source):
        if groups is not None:
            raise InvalidInput("--groups needs a file: in the samples each row is a person")
        data = load_sample(source)
        return Source(data if names is None else _chosen(data, names), None)
    try:
        data = load_table(source, columns=names)
        if groups is None:
            return Source(data, None)
        persons = read_labels(source, groups)
    except NotImplementedError as problem:
        raise InvalidInput(f"--groups {groups!r} must be a column of plain values") from problem
    except (OSError, ValueError) as problem:
        if isinstance(problem, InvalidInput):
            raise
        raise InvalidInput(f"cannot read {source!r}: {problem}") from problem
    rest = [name for name in data.columns if name != groups]
    if not rest:
        raise InvalidInput(f"no column of numbers is left beside --groups {groups!r}")
    return Source(data if len(rest) == data.n_features else _chosen(data, rest), persons)


def fingerprint_of(source: str) -> str:
    """What the ledger calls a file or a shipped sample, whichever of its columns are used."""
    return f"sample {source}" if _is_sample(source) else file_fingerprint(source)


def _is_sample(source: str) -> bool:
    return source in sample_names() and not Path(source).exists()


def _chosen(data: Dataset, names: list[str]) -> Dataset:
    missing = [name for name in names if name not in data.columns]
    if missing or not names or len(set(names)) != len(names):
        raise InvalidInput(
            f"--columns must be distinct names among {', '.join(data.columns)}, got {names}"
        )
    rows = data.rows[:, [data.columns.index(name) for name in names]]
    return Dataset(rows, None, tuple(names), data.name, data.description)
