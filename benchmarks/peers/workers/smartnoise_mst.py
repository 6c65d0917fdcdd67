"""SmartNoise: its MST on bins of equal width; a tenth of epsilon for bounds if it is told none."""

from __future__ import annotations

import numpy as np
import pandas as pd
from snsynth import Synthesizer  # type: ignore[import-not-found]
from snsynth.transform import BinTransformer, TableTransformer  # type: ignore[import-not-found]

from benchmarks.peers.workers.job import BINS, Array, Job, answer

_FOR_BOUNDS = 0.1


def learn(job: Job, rows: Array) -> Array:
    """Fit, and make as many rows."""
    names = [f"c{j}" for j in range(rows.shape[1])]
    if job.bounds is None:
        bins = [BinTransformer(bins=BINS) for _ in names]
    else:
        bins = [BinTransformer(bins=BINS, lower=low, upper=high) for low, high in job.bounds]
    synthesizer = Synthesizer.create("mst", epsilon=job.epsilon, delta=job.delta)
    made = synthesizer.fit_sample(
        pd.DataFrame(rows, columns=names),
        transformer=TableTransformer(bins),
        preprocessor_eps=0.0 if job.bounds else _FOR_BOUNDS * job.epsilon,
    )
    return np.asarray(pd.DataFrame(made).to_numpy(dtype=np.float64))


if __name__ == "__main__":
    answer(learn)
