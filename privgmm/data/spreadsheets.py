"""Keep text in CSV files from being run as formulas; every CSV that the package writes asks here.

Names of columns and labels come from the author of the data. A spreadsheet runs a cell that begins
with ``=``. That may fetch an address, or start a program on the machine of a person who only opened
a file of synthetic rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["frame_csv", "inert", "inert_names"]

T = TypeVar("T")

_RUNS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Beginnings of text that spreadsheets run, as OWASP lists them, in full width as well."""


@overload
def inert(value: str) -> str: ...
@overload
def inert(value: T) -> T: ...
def inert(value: Any) -> Any:
    """Prefix text that a spreadsheet may run with an apostrophe; numbers stay numbers.

    Spaces at the front count for nothing: some spreadsheets drop them.

    >>> inert("=1+1"), inert(" @cmd"), inert("height"), inert(-1.5)
    ("'=1+1", "' @cmd", 'height', -1.5)
    """
    if isinstance(value, str) and (value.startswith(_RUNS) or value.lstrip().startswith(_RUNS)):
        return f"'{value}"
    return value


def inert_names(names: Sequence[str]) -> list[str]:
    """Make names of columns inert; different names stay different.

    >>> inert_names(["=a", "'=a", "b"])
    ["''=a", "'=a", 'b']
    """
    taken, found = set(names), []
    for name in names:
        written = inert(name)
        while written != name and written in taken:
            written = f"'{written}"
        taken.add(written)
        found.append(written)
    return found


def frame_csv(frame: pd.DataFrame, **options: Any) -> str:
    """Write a frame as CSV without its index; `options` are those of `DataFrame.to_csv`."""
    safe = frame.copy(deep=False)
    for place, kind in enumerate(frame.dtypes):
        # numbers are left to pandas: only other columns may hold text
        if kind.kind not in "biuf":
            safe.isetitem(place, frame.iloc[:, place].map(inert).to_list())
    safe.columns = inert_names([str(name) for name in frame.columns])
    return str(safe.to_csv(index=False, **options))
