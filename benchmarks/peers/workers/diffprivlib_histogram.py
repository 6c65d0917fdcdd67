"""diffprivlib: a noisy histogram, and rows drawn from its cells.

``histogramdd`` adds geometric noise to every cell, pure epsilon, for adding or removing a row, and
raises what falls below zero to zero. Rows are uniform within a cell.
"""

from __future__ import annotations

import numpy as np
from diffprivlib.tools import histogramdd  # type: ignore[import-not-found]

from benchmarks.peers.workers.job import BINS, Array, Job, answer

__all__ = ["rows_from"]


def learn(job: Job, rows: Array) -> Array:
    """Count, and make rows up."""
    return rows_from(job, rows, 0.0)


def rows_from(job: Job, rows: Array, least: float) -> Array:
    """As many rows as given, from cells with noisy counts above `least`."""
    if job.bounds is None:
        raise ValueError("needs bounds: without them it reads the range from the rows")
    counts, edges = histogramdd(
        rows, epsilon=job.epsilon, bins=BINS, range=job.bounds, random_state=job.seed
    )
    kept = np.where(counts > least, counts, 0.0)
    if not kept.any():
        # nothing rises above the noise: all that is known is the box
        kept = np.ones_like(counts)
    rng = np.random.default_rng(job.seed)
    cells = rng.choice(kept.size, size=len(rows), p=(kept / kept.sum()).ravel())
    places = np.unravel_index(cells, kept.shape)
    columns = [
        edge[place] + rng.random(len(rows)) * np.diff(edge)[place]
        for edge, place in zip(edges, places, strict=True)
    ]
    return np.stack(columns, axis=1)


if __name__ == "__main__":
    answer(learn)
