"""The baselines by name: what the comparison and its tests go through."""

from __future__ import annotations

from privgmm.baselines.baseline import Baseline
from privgmm.baselines.dp_em import DPEM
from privgmm.baselines.dp_kmeans import DPKMeans
from privgmm.baselines.histogram import NoisyHistogram
from privgmm.baselines.labelled import LabelledOracle
from privgmm.errors import InvalidInput

__all__ = ["all_baselines", "get", "names", "register", "unregister"]

_BASELINES: dict[str, Baseline] = {}


def register(baseline: Baseline) -> Baseline:
    """Compare with it everywhere; its name must be new."""
    if baseline.name in _BASELINES:
        raise InvalidInput(f"there is a baseline {baseline.name!r} already: choose another name")
    _BASELINES[baseline.name] = baseline
    return baseline


def unregister(name: str) -> None:
    """Take a baseline away again, as a test does that added one."""
    get(name)
    del _BASELINES[name]


def get(name: str) -> Baseline:
    """The baseline of that name, or a clear error."""
    if name not in _BASELINES:
        raise InvalidInput(f"baseline must be one of {', '.join(_BASELINES)}, got {name!r}")
    return _BASELINES[name]


def names() -> tuple[str, ...]:
    """All names, in the order in which they were registered."""
    return tuple(_BASELINES)


def all_baselines() -> tuple[Baseline, ...]:
    """All baselines, in that order."""
    return tuple(_BASELINES.values())


for _baseline in (DPEM(), NoisyHistogram(), DPKMeans(), LabelledOracle()):
    register(_baseline)
