"""The data that a session works with: one object from the controls to the receipt.

Generated and bundled rows are demonstration data: no one's privacy is at stake, so they are loaded
once for all sessions and may be rehearsed on. An upload belongs to its session alone.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from typing import TypeAlias

from privgmm.data.datasets import Dataset
from privgmm.records.notebook import GeneratedRows, Rows, SampleRows

__all__ = ["ChosenData", "DemoRows", "load_demo"]

DemoRows: TypeAlias = GeneratedRows | SampleRows
"""How to load demonstration data."""

_LOADING = threading.Lock()


@dataclasses.dataclass(frozen=True, slots=True)
class ChosenData:
    """Rows, and how to load them again.

    Parameters
    ----------
    dataset : Dataset
    rows : Rows
        How to load them again.
    file : str or None
        Fingerprint of the whole uploaded file: the people in it are the same for any choice of
        columns. None for demonstration data.
    """

    dataset: Dataset
    rows: Rows
    file: str | None = None

    @property
    def demo(self) -> DemoRows | None:
        """How to load the rows where they are demonstration data; None for an upload."""
        return self.rows if isinstance(self.rows, GeneratedRows | SampleRows) else None


def load_demo(rows: DemoRows) -> Dataset:
    """Load demonstration data; the last four data sets are kept, and none is loaded twice."""
    with _LOADING:
        return _loaded(rows)


@functools.lru_cache(maxsize=4)
def _loaded(rows: DemoRows) -> Dataset:
    return rows.load()
