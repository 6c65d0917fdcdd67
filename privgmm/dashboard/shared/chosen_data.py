"""The data that a session works with: one object from the controls to the receipt.

Generated and bundled rows are demonstration data: no one's privacy is at stake, so they may be
rehearsed on. An upload belongs to its session alone.
"""

from __future__ import annotations

import dataclasses

from privgmm.budget import Unit
from privgmm.data.datasets import Dataset
from privgmm.data.labels import Labels
from privgmm.records.notebook import GeneratedRows, Rows, SampleRows
from privgmm.teaching.rehearsal import DemoRows

__all__ = ["ChosenData"]

_MOST_STAND_INS = 1_000_000
"""More generated rows would take longer to rehearse on than a visitor waits, by convention."""
_SEED = 1
"""Any seed: the stand-ins of a table are the same in every session."""


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
    persons : array (n,) or None
        Who each row belongs to; None where every row is a person. CONFIDENTIAL.
    n_persons : int or None
        How many persons there are, which is public; None where every row is one.
    preselected : bool
        Whether the page proposed these columns, and the visitor left them as they were.
    """

    dataset: Dataset
    rows: Rows
    file: str | None = None
    persons: Labels | None = None
    n_persons: int | None = None
    preselected: bool = False

    @property
    def n_units(self) -> int:
        """How many the promise protects: rows, or persons."""
        return self.dataset.n_rows if self.n_persons is None else self.n_persons

    @property
    def unit(self) -> Unit:
        """What the promise protects."""
        return "row" if self.n_persons is None else "person"

    def stand_ins(self, n_components: int) -> GeneratedRows | None:
        """Return generated rows to rehearse an upload on: only the sizes are those of the table.

        None for demonstration data, which is rehearsed on itself, and for very large tables.
        """
        if self.file is None or self.n_units > _MOST_STAND_INS:
            return None
        d = self.dataset.n_features
        return GeneratedRows("well_separated", n_components, d, self.n_units, _SEED)

    @property
    def demo(self) -> DemoRows | None:
        """How to load the rows where they are demonstration data; None for an upload."""
        return self.rows if isinstance(self.rows, GeneratedRows | SampleRows) else None
