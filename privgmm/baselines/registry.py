"""The baselines by name: a new one is a file of its own and a place in this list."""

from __future__ import annotations

from privgmm.baselines.baseline import Baseline
from privgmm.baselines.dp_em import DPEM
from privgmm.baselines.dp_kmeans import DPKMeans
from privgmm.baselines.histogram import NoisyHistogram
from privgmm.baselines.labelled import LabelledOracle
from privgmm.errors import InvalidInput

__all__ = ["all_baselines", "get_baseline"]

_BASELINES: dict[str, Baseline] = {
    baseline.name: baseline for baseline in (DPEM(), NoisyHistogram(), DPKMeans(), LabelledOracle())
}


def get_baseline(name: str) -> Baseline:
    """Return the baseline of that name, or raise a clear error."""
    if name not in _BASELINES:
        raise InvalidInput(f"baseline must be one of {', '.join(_BASELINES)}, got {name!r}")
    return _BASELINES[name]


def all_baselines() -> tuple[Baseline, ...]:
    """List all baselines."""
    return tuple(_BASELINES.values())
