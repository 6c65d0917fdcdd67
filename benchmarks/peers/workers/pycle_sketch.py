"""pycle: a mixture of Gaussians fitted to its private sketch, with the settings of its own demo.

Its demo on privacy takes rows within [-1, 1], 20 frequencies per component and column by the
"adapted radius", variances near 0.05 that are "assumed known a priori", and the best of five fits:
rows are brought there by the bounds. A fit to its sketch has diagonal covariances only.
"""

from __future__ import annotations

import numpy as np
from pycle.compressive_learning import CLOMP_dGMM  # type: ignore[import-not-found]
from pycle.sketching import (  # type: ignore[import-not-found]
    SimpleFeatureMap,
    computeSketch_DP,
    drawFrequencies,
)

from benchmarks.peers.workers.job import COMPONENTS, Array, Job, answer

_FREQUENCIES = 20
_VARIANCE = 0.05
_STARTS = 5


def learn(job: Job, rows: Array) -> Array:
    """Sketch, fit a mixture, and draw as many rows from it."""
    if job.bounds is None:
        raise ValueError("needs bounds: its frequencies fit rows within [-1, 1]")
    n, d = rows.shape
    m = _FREQUENCIES * COMPONENTS * d
    # pycle draws from the global generator of NumPy
    np.random.seed(job.seed)  # noqa: NPY002
    low, high = np.array(job.bounds).T
    middle, half = (low + high) / 2, (high - low) / 2
    frequencies = drawFrequencies("AR", d, m, Sigma=_VARIANCE * np.eye(d))
    features = SimpleFeatureMap("complexExponential", frequencies, c_norm=1 / np.sqrt(m))
    sketch = computeSketch_DP((rows - middle) / half, features, job.epsilon, job.delta)
    solver = CLOMP_dGMM(features, COMPONENTS, np.stack([-np.ones(d), np.ones(d)]), sketch=sketch)
    # a component is its mean and its variances, one after the other
    weights, components = solver.fit_several_times(_STARTS)
    rng = np.random.default_rng(job.seed)
    chosen = components[rng.choice(len(weights), size=n, p=weights / weights.sum())]
    made = chosen[:, :d] + np.sqrt(chosen[:, d:]) * rng.standard_normal((n, d))
    return np.asarray(middle + half * made, dtype=np.float64)


if __name__ == "__main__":
    answer(learn)
