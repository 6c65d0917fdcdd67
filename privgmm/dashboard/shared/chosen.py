"""The data that a session works with, as pages hand it to each other."""

from __future__ import annotations

import dataclasses

from privgmm.data.datasets import Dataset
from privgmm.records.notebook import Rows

__all__ = ["Chosen"]


@dataclasses.dataclass(frozen=True, slots=True)
class Chosen:
    """Rows, and how to come by them again.

    Parameters
    ----------
    dataset : Dataset
    rows : Rows
    file : str or None
        Fingerprint of the whole uploaded file: whichever columns are taken, the people in it are
        the same. None for rows that are nobody's.
    """

    dataset: Dataset
    rows: Rows
    file: str | None = None
