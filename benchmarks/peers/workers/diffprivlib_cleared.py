"""diffprivlib's noisy histogram, without counts that noise alone would reach somewhere."""

from __future__ import annotations

import math

from benchmarks.peers.workers.diffprivlib_histogram import rows_from
from benchmarks.peers.workers.job import BINS, Array, Job, answer


def learn(job: Job, rows: Array) -> Array:
    """Geometric noise exceeds ``ln(cells) / epsilon`` in about one cell of all."""
    return rows_from(job, rows, rows.shape[1] * math.log(BINS) / job.epsilon)


if __name__ == "__main__":
    answer(learn)
