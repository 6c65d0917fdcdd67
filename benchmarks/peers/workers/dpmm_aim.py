"""dpmm: its AIM pipeline as it comes, a tenth of epsilon for bins and, if not told, bounds.

The number of bins is its own choice too, up to what its AIM takes: above 10,000 cells per pair of
columns, which its own choice passes near a million rows, it fails.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from dpmm.pipelines import AIMPipeline  # type: ignore[import-not-found]

from benchmarks.peers.workers.job import Array, Job, answer

__all__ = ["rows_from"]

_FOR_BINS = 0.1
_MOST_BINS = 100


def learn(job: Job, rows: Array) -> Array:
    """Fit, and make as many rows."""
    return rows_from(AIMPipeline, job, rows, binner_kwargs={"max_n_bins": _MOST_BINS})


def rows_from(pipeline: Any, job: Job, rows: Array, **options: Any) -> Array:
    """Fit one of dpmm's pipelines, and make as many rows."""
    names = [f"c{j}" for j in range(rows.shape[1])]
    domain = None
    if job.bounds is not None:
        domain = {
            name: {"lower": low, "upper": high}
            for name, (low, high) in zip(names, job.bounds, strict=True)
        }
    fitted = pipeline(
        epsilon=(1 - _FOR_BINS) * job.epsilon,
        delta=job.delta,
        proc_epsilon=_FOR_BINS * job.epsilon,
        n_jobs=1,
        **options,
    )
    fitted.fit(pd.DataFrame(rows, columns=names), domain=domain, random_state=job.seed)
    made = fitted.generate(n_records=len(rows), random_state=job.seed)
    return np.asarray(made[names].to_numpy(dtype=np.float64))


if __name__ == "__main__":
    answer(learn)
