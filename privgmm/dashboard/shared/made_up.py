"""Rows that are nobody's, loaded once for all sessions: generated ones and the shipped samples."""

from __future__ import annotations

import functools
import threading
from typing import TypeAlias, TypeGuard

from privgmm.data.datasets import Dataset
from privgmm.records.notebook import GeneratedRows, Rows, SampleRows

__all__ = ["MadeUp", "is_made_up", "loaded"]

MadeUp: TypeAlias = GeneratedRows | SampleRows

_LOADING = threading.Lock()


def is_made_up(rows: Rows) -> TypeGuard[MadeUp]:
    """Whether these rows are nobody's, so that anything may be tried on them."""
    return isinstance(rows, GeneratedRows | SampleRows)


def loaded(rows: MadeUp) -> Dataset:
    """The rows; the last few are remembered, and no two sessions draw the same at once."""
    with _LOADING:
        return _loaded(rows)


@functools.lru_cache(maxsize=4)
def _loaded(rows: MadeUp) -> Dataset:
    return rows.load()
