"""The base class of row sources, and the checks that rows must pass before they are used."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, IntArray
from privgmm.data.engines import Engine, Watch
from privgmm.data.labels import Labels, label_texts
from privgmm.data.people import ArrayPeople, People
from privgmm.data.tables import FILL_IN, Reading
from privgmm.errors import InvalidInput

__all__ = [
    "RowSource",
    "check_finite",
    "checked_groups",
    "count_groups",
]

_CHUNK = 65_536  # rows given at a time unless the caller says otherwise


class RowSource(abc.ABC):
    """Rows of finite numbers.

    Parameters
    ----------
    name : str
        Name for messages.
    columns : sequence of str
        The d names.
    n_rows : int
        n.
    reading : Reading, optional
        How the file was read, if it is one.
    left_out : sequence of str
        Columns of the file that were not asked for.
    """

    in_memory = True
    """Whether the source holds all its rows in memory."""

    def __init__(
        self,
        *,
        name: str,
        columns: Sequence[str],
        n_rows: int,
        reading: Reading | None = None,
        left_out: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.columns = tuple(columns)
        self.n_rows = n_rows
        self.reading = reading
        self.left_out = tuple(left_out)

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return len(self.columns)

    @property
    @abc.abstractmethod
    def fingerprint(self) -> str:
        """The digest that stands for the data set in a ledger. CONFIDENTIAL.

        It belongs to the rows that this source gives, and to no later state of their origin.
        """

    @abc.abstractmethod
    def take(self, positions: IntArray) -> Array:
        """Return the rows at the positions (m,), as floats (m, d).

        Here and below: `InvalidInput` if a row holds anything but finite numbers.
        """

    @abc.abstractmethod
    def labels(self, column: str) -> Labels:
        """Return a text (n,) for the person of each row; equal values give equal texts.

        The column may hold values of any plain kind, and need not be one of `columns`.
        """

    @abc.abstractmethod
    def choose(self, columns: Sequence[str]) -> RowSource:
        """Return a source of the same rows with these columns, in this order."""

    def chunks(self, size: int = _CHUNK) -> Iterator[Array]:
        """Yield all rows in order, at most `size` at a time."""
        for start in range(0, self.n_rows, size):
            yield self.take(np.arange(start, min(start + size, self.n_rows), dtype=np.int64))

    def rows(self) -> Array:
        """Return all rows (n, d)."""
        return np.concatenate([np.empty((0, self.n_features)), *self.chunks()])

    def count_persons(self, column: str) -> int:
        """Count the persons that the column names."""
        return len(set(self.labels(column).tolist()))

    def glance(self) -> Array:
        """Return rows that identify a table: all that are in memory, else the first ones."""
        return self.rows()

    def curated(self) -> Array:
        """Return rows for the curator to look at: all in memory, else some from everywhere."""
        return self.rows()

    def people(
        self,
        groups: npt.ArrayLike | str | None,
        key: bytes,
        engine: Engine,  # noqa: ARG002 - memory is worked on in threads
        watch: Watch | None = None,
    ) -> People:
        """Group the rows by the persons they belong to.

        Parameters
        ----------
        groups : array-like (n,), name of a column, or None
            Who each row belongs to; None where each row is a person.
        key : bytes
            Secret; says in which order persons are dealt.
        engine : Engine
            Where rows are read that are not in memory.
        watch : Watch, optional
        """
        rows = self.rows()
        if groups is None:
            return ArrayPeople(rows, watch=watch)
        if isinstance(groups, str):
            labels = self.labels(groups)
        else:
            labels = label_texts(checked_groups(groups, self.n_rows))
        return ArrayPeople.labelled(rows, labels, key, watch=watch)


# Checks before a release. Messages may speak about the data: they are for the curator and cost no
# budget.


def check_finite(rows: Array) -> None:
    """Refuse rows (n, d) that hold anything but finite numbers, and say what to do about them."""
    bad = (~np.isfinite(rows)).any(axis=1)
    if bad.any():
        raise InvalidInput(
            f"must be finite, but {int(bad.sum())} of {len(rows)} rows hold NaN or infinity (the "
            f"first is row {int(np.argmax(bad))})",
            argument="X",
            remedy=FILL_IN,
        )


def count_groups(groups: npt.ArrayLike, n_rows: int) -> int:
    """Count the persons that an array (n,) of labels names."""
    return len(set(label_texts(checked_groups(groups, n_rows)).tolist()))


def checked_groups(groups: npt.ArrayLike, n_rows: int) -> Any:
    """Return who each row belongs to (n,), or raise a clear error."""
    # kept as it came: NumPy would give a list one type, decided by single values
    labels: Any = groups if hasattr(groups, "dtype") else np.array(groups, dtype=object)
    if labels.shape != (n_rows,):
        raise InvalidInput(
            f"groups must name one person per row: shape ({n_rows},), got {labels.shape}"
        )
    return labels
