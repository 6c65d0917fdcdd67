"""What a worker is asked, and how it answers: two files."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["BINS", "COMPONENTS", "Array", "Job", "answer"]

Array = npt.NDArray[np.float64]

BINS = 40
"""Along every column, for tools that leave the number to their users."""

COMPONENTS = 8
"""Gaussians, for tools that fit a mixture and leave the number to their users."""


@dataclasses.dataclass(frozen=True)
class Job:
    """One run of another tool.

    Parameters
    ----------
    rows : str
        File with the rows (n, d), as ``numpy.save`` writes them.
    answer : str
        Where the synthetic rows go, in the same form.
    bounds : list of (low, high) or None
        Per column, if the tool is told any.
    epsilon, delta : float
        The whole budget.
    seed : int
        For what a tool lets its users seed; the noise of some cannot be.
    """

    rows: str
    answer: str
    bounds: list[tuple[float, float]] | None
    epsilon: float
    delta: float
    seed: int

    def save(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(dataclasses.asdict(self)), "utf-8")

    @classmethod
    def load(cls, path: Path) -> Job:
        """What `save` wrote."""
        found = json.loads(path.read_text("utf-8"))
        bounds = found.pop("bounds")
        return cls(bounds=None if bounds is None else [(a, b) for a, b in bounds], **found)


def answer(learn: Callable[[Job, Array], Array]) -> None:
    """Run one tool on the job named on the command line.

    An exception is not caught: the last line on stderr is the reason that gets into the results.
    """
    job = Job.load(Path(sys.argv[1]))
    made = np.asarray(learn(job, np.load(job.rows)), dtype=np.float64)
    np.save(job.answer, made)
