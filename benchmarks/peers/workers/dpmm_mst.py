"""dpmm: its MST pipeline as it comes, with bins and bounds as `dpmm_aim` has them."""

from __future__ import annotations

from dpmm.pipelines import MSTPipeline  # type: ignore[import-not-found]

from benchmarks.peers.workers.dpmm_aim import rows_from
from benchmarks.peers.workers.job import Array, Job, answer


def learn(job: Job, rows: Array) -> Array:
    """Fit, and make as many rows."""
    return rows_from(MSTPipeline, job, rows)


if __name__ == "__main__":
    answer(learn)
