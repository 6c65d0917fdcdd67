"""Columns that number rows or persons instead of measuring them.

A mixture of them says nothing, and an identifier does not belong in a release. They are recognised
by their names, which are public, or by their values, for the holder of the data only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from privgmm.arrays import Array

__all__ = ["named_identifiers", "running_numbers"]

_NAMES = re.compile(
    r"unnamed( 1|: ?\d+)?|index|level_0|__index_level_\d+__|pk|key"
    r"|(.*[ _.-])?(id|ids|uuid|guid)"
    r"|(row|record|line|case|seq)[ _.-]?(no|nr|num|number|name|index)?",
    re.IGNORECASE,
)
_CAMEL = re.compile(r".*[a-z]I[dD]")
_FEW = 20  # below this many rows, n successive whole numbers may well be measurements


def named_identifiers(names: Sequence[str]) -> tuple[str, ...]:
    """Return those names that identifiers have, or that a data frame's index has in a file.

    Examples
    --------
    >>> named_identifiers(["id", "user_id", "userId", "Unnamed: 0", "grid", "price_index"])
    ('id', 'user_id', 'userId', 'Unnamed: 0')
    """
    return tuple(name for name in names if _NAMES.fullmatch(name) or _CAMEL.fullmatch(name))


def running_numbers(rows: Array, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns (n, d) that hold n successive whole numbers. CONFIDENTIAL."""
    n = len(rows)
    if n < _FEW:
        return ()
    found = []
    for name, column in zip(names, rows.T, strict=True):
        least = column.min()
        if column.max() - least == n - 1 and np.array_equal(np.sort(column) - least, np.arange(n)):
            found.append(name)
    return tuple(found)
