"""Describes the columns of a file: gaps, constants, row numbers, whole numbers.

For the holder of the data, who chooses which columns to take. CONFIDENTIAL: every word of it
depends on the content of single cells, so none of it belongs in a publication.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from privgmm.arrays import Array
from privgmm.data.content import MAX_BYTES, file_bytes
from privgmm.data.identifiers import named_identifiers, running_numbers
from privgmm.data.tables import ColumnKind, Layout, column_kinds, each_column

__all__ = ["FileColumn", "rows_with_gaps", "survey"]


_HEAP = 0.1
"""Share of rows at one value from which on it is a heap, by convention."""
_TAIL = 8.0
"""Spreads from which on tails are called far: a Gaussian has 2.6, and three groups of equal weight
at most about 4."""
_INNER_HALF = 1.349
"""Width of the inner half of a standard normal law."""


@dataclasses.dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of a file.

    Parameters
    ----------
    name : str
    kind : {"numbers", "text", "mixed", "empty"}
        What its cells are, missing ones aside.
    gaps : tuple of int
        Rows, from 0, that have no finite number there; only of columns that hold numbers.
    constant : bool
        Whether all its numbers are the same.
    numbers_rows : bool
        Whether it numbers rows or persons: by its name, or by what it holds.
    whole : bool
        Whether all its numbers are whole, and there are more than two of them.
    heap : float
        Share of rows that hold the most frequent number.
    tail : float
        How far the outer hundredth of rows lies from the median, in spreads of the inner half.
    """

    name: str
    kind: ColumnKind
    gaps: tuple[int, ...] = ()
    constant: bool = False
    numbers_rows: bool = False
    whole: bool = False
    heap: float = dataclasses.field(default=0.0, compare=False)
    tail: float = dataclasses.field(default=0.0, compare=False)

    @property
    def heaped(self) -> bool:
        """Whether one value is so frequent that no Gaussian explains it."""
        return self.heap >= _HEAP and not self.constant

    @property
    def far_tailed(self) -> bool:
        """Whether many rows lie much further out than in any mixture of a few Gaussians."""
        return self.tail >= _TAIL

    @property
    def clean(self) -> bool:
        """Whether the column can be taken as it is."""
        return (
            self.kind == "numbers" and not self.gaps and not self.constant and not self.numbers_rows
        )

    @property
    def gappy(self) -> bool:
        """Whether only gaps keep the column from being taken."""
        return (
            self.kind == "numbers"
            and bool(self.gaps)
            and not self.constant
            and not self.numbers_rows
        )


def survey(
    source: str | Path | bytes, *, layout: Layout | None = None, max_bytes: int = MAX_BYTES
) -> tuple[FileColumn, ...]:
    r"""Describe all columns of a file, in its order.

    Examples
    --------
    >>> found = survey(b"id,age,weight\n1,31,70.5\n2,,81.25\n3,44,66.0\n")
    >>> [(column.name, column.gaps, column.clean) for column in found]
    [('id', (), False), ('age', (1,), False), ('weight', (), True)]
    """
    data = file_bytes(source, max_bytes=max_bytes)
    kinds = column_kinds(data, layout=layout, max_bytes=max_bytes)
    numeric = [name for name, kind in kinds.items() if kind == "numbers"]
    columns = each_column(data, numeric, layout=layout, max_bytes=max_bytes)
    found = {name: _looked_at(name, values) for name, values in columns}
    return tuple(
        found[name]
        if name in found
        # numbers that cannot be read as such: decimal points and commas are mixed
        else FileColumn(name, "mixed" if kind == "numbers" else kind)
        for name, kind in kinds.items()
    )


def rows_with_gaps(columns: Sequence[FileColumn]) -> int:
    """Count the rows that have a gap in at least one of these columns."""
    return len(set().union(*(column.gaps for column in columns)))


def _tail(values: Array) -> float:
    """Return how far the outer hundredth lies, in spreads; 2.6 for one Gaussian.

    >>> normal = np.random.default_rng(0).normal(size=100_000)
    >>> round(_tail(normal), 1), _tail(np.exp(1.5 * normal)) > _TAIL, _tail(np.zeros(9))
    (2.6, True, 0.0)
    """
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    if high <= low:
        return 0.0
    return float(np.quantile(np.abs(values - middle), 0.99) / ((high - low) / _INNER_HALF))


def _looked_at(name: str, values: Array) -> FileColumn:
    finite = np.isfinite(values)
    there = values[finite]
    if not there.size:
        return FileColumn(name, "empty")
    values_found, counts = np.unique(there, return_counts=True)
    distinct = values_found.size
    return FileColumn(
        name,
        "numbers",
        tuple(np.flatnonzero(~finite).tolist()),
        constant=distinct == 1,
        numbers_rows=bool(named_identifiers([name]) or running_numbers(there[:, None], [name])),
        whole=distinct > 2 and bool(np.array_equal(there, np.round(there))),
        heap=float(counts.max() / there.size),
        tail=_tail(there),
    )
