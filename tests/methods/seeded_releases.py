"""Seeded releases of a fixed set of plans, written down: a change of layout must not move a bit.

``python -m tests.methods.seeded_releases`` writes the file again. Do that only when numbers are
meant to change, and say so in the commit. `tests/methods/test_seeded_releases.py` compares.
"""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from privgmm import (
    EM,
    Mixture,
    Outcome,
    Plan,
    PrivateGaussianMixture,
    Release,
    best_plan,
    calibrate,
    release,
)
from privgmm.mixture import MixtureBatch
from privgmm.stages.agreement.stage import AgreementView

__all__ = ["CASES", "FILE", "machine", "record"]

FILE = Path(__file__).with_suffix(".json")

TARGET = Mixture([0.4, 0.6], [[-4, 0], [4, 0]], [[[2, 0.8], [0.8, 1]], [[1, -0.5], [-0.5, 1.5]]])
THREE = Mixture(
    [0.3, 0.3, 0.4],
    [[-9.0, 0.0, 1.0], [0.0, 9.0, -1.0], [9.0, 0.0, 0.0]],
    np.array([np.diag([1.0, 2, 0.5]), np.diag([0.5, 1, 1.5]), np.diag([2.0, 1, 1])]),
)
ONE = Mixture([1.0], [[2.0, -1.0]], [[[2.0, 0.6], [0.6, 1.0]]])
LINE = Mixture([0.5, 0.5], [[-5.0], [5.0]], [[[1.0]], [[2.0]]])


@dataclasses.dataclass(frozen=True)
class Same:
    """Fit the same mixture to any block, so that all blocks agree."""

    mixture: Mixture

    @property
    def n_components(self) -> int:
        return self.mixture.n_components

    def fit_blocks(self, blocks: Any, *, rng: Any = None) -> MixtureBatch:
        t, m = len(blocks), self.mixture
        return MixtureBatch(
            np.tile(m.weights, (t, 1)),
            np.tile(m.means, (t, 1, 1)),
            np.tile(m.covariances, (t, 1, 1, 1)),
            np.ones(t, dtype=bool),
        )


def _auto(mixture: Mixture, n: int, **options: Any) -> Plan:
    promise: dict[str, Any] = {"method": "lifted", "epsilon": 1.0, "delta": 1e-6} | options
    return best_plan(n, n_components=mixture.n_components, n_features=mixture.n_features, **promise)


def _set(method: Any, mixture: Mixture, **options: Any) -> Plan:
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "alpha": 0.5} | options
    return calibrate(
        method, n_components=mixture.n_components, n_features=mixture.n_features, **promise
    )


def _groups(n: int, persons: int) -> Any:
    return np.random.default_rng(5).integers(persons, size=n)


def _estimated(model: PrivateGaussianMixture) -> Outcome:
    outcome = model.fit(TARGET.sample(40_000, rng=1)).outcome_
    assert outcome is not None
    return outcome


CASES: dict[str, Callable[[], Outcome]] = {
    "lifted, auto": lambda: release(TARGET.sample(40_000, rng=1), _auto(TARGET, 40_000), rng=11),
    "lifted, separation": lambda: release(
        TARGET.sample(60_000, rng=2), _auto(TARGET, 60_000, separation=5.0), rng=14
    ),
    "lifted, smallest weight": lambda: release(
        TARGET.sample(60_000, rng=3), _auto(TARGET, 60_000, smallest_weight=0.3), rng=15
    ),
    "lifted, k=1, d=2": lambda: release(ONE.sample(20_000, rng=4), _auto(ONE, 20_000), rng=16),
    "lifted, k=2, d=1": lambda: release(LINE.sample(40_000, rng=5), _auto(LINE, 40_000), rng=17),
    "lifted, k=3, d=3": lambda: release(
        THREE.sample(150_000, rng=6), _auto(THREE, 150_000, epsilon=2.0), rng=18
    ),
    "lifted, persons": lambda: release(
        TARGET.sample(60_000, rng=7), _auto(TARGET, 40_000), rng=24, groups=_groups(60_000, 45_000)
    ),
    "lifted, by hand": lambda: release(
        TARGET.sample(90_000, rng=8), _set("lifted", TARGET, n_blocks=300), rng=20
    ),
    "lifted, refused": lambda: release(
        TARGET.sample(9_000, rng=9), _set("lifted", TARGET, n_blocks=300), rng=22
    ),
    "lifted, EM of another tolerance": lambda: release(
        TARGET.sample(40_000, rng=1), _auto(TARGET, 40_000), rng=23, learner=EM(2, n_threads=2)
    ),
    "tight, k=1": lambda: release(
        ONE.sample(300_000, rng=10),
        _set("tight", ONE, epsilon=8.0, delta=1e-4, alpha=1.0, n_blocks=100),
        rng=24,
    ),
    "tight, refused": lambda: release(
        TARGET.sample(40_000, rng=1), _set("tight", TARGET, n_blocks=200), rng=25
    ),
    "tight, all agree": lambda: release(
        TARGET.sample(4_000, rng=1),
        _set("tight", TARGET, n_blocks=200),
        rng=26,
        learner=Same(TARGET),
    ),
    "tight, all agree, persons": lambda: release(
        TARGET.sample(6_000, rng=1),
        _set("tight", TARGET, n_blocks=200),
        rng=27,
        learner=Same(TARGET),
        groups=_groups(6_000, 4_000),
    ),
    "tight, auto": lambda: release(
        TARGET.sample(6_000, rng=1),
        _auto(TARGET, 6_000, method="tight"),
        rng=28,
        learner=Same(TARGET),
    ),
    "paper, refused": lambda: release(TARGET.sample(40_000, rng=1), _set("paper", TARGET), rng=29),
    "paper, all agree": lambda: release(
        TARGET.sample(20_000, rng=1), _set("paper", TARGET), rng=30, learner=Same(TARGET)
    ),
    "paper, all agree, k=3, d=3, persons": lambda: release(
        THREE.sample(30_000, rng=1),
        _set("paper", THREE, epsilon=0.5),
        rng=31,
        learner=Same(THREE),
        groups=_groups(30_000, 29_000),
    ),
    "estimator": lambda: _estimated(PrivateGaussianMixture(2, method="lifted", random_state=3)),
    "sketch": lambda: release(
        TARGET.sample(40_000, rng=1), _auto(TARGET, 40_000, method="sketch"), rng=32
    ),
    "sketch, few rows": lambda: release(
        TARGET.sample(2_000, rng=1), _auto(TARGET, 2_000, method="sketch"), rng=33
    ),
    "sketch, d=1": lambda: release(
        LINE.sample(6_000, rng=5), _auto(LINE, 6_000, method="sketch"), rng=34
    ),
    "sketch, k=3, d=3": lambda: release(
        THREE.sample(30_000, rng=1), _auto(THREE, 30_000, method="sketch"), rng=35
    ),
    "sketch, estimator, open k, tied": lambda: _estimated(
        PrivateGaussianMixture("auto", max_components=3, covariance_type="tied", random_state=6)
    ),
}


def machine() -> dict[str, str]:
    """Name what decides the last bits: the processor and the numerical libraries."""
    cpu = Path("/proc/cpuinfo")
    models = [
        line.partition(":")[2].strip()
        for line in (cpu.read_text().splitlines() if cpu.exists() else [])
        if line.startswith(("model name", "flags"))
    ]
    return {
        "processor": " | ".join(dict.fromkeys(models)) or platform.processor(),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        **{name: version(name) for name in ("numpy", "scipy", "numba", "llvmlite")},
    }


def record(outcome: Outcome) -> dict[str, Any]:
    """Record all that a release says and decides, as numbers that keep every bit."""
    result = outcome.result
    said: dict[str, Any] = {
        "result": result.to_dict(),
        "entry": result.entry,
        "spent": result.plan.spent().to_dict(),
        "released": isinstance(result, Release),
    }
    if result.plan.stages[0].n_blocks is not None:
        view = outcome.curator.view(AgreementView)
        said |= {
            "votes": " ".join(map(str, outcome.curator.votes.tolist())),
            "statistic": view.verdict.statistic,
            "noisy_statistic": view.verdict.noisy_statistic,
        }
        if isinstance(view.coarse, Mixture):
            said["coarse"] = view.coarse.to_dict()
    return said


if __name__ == "__main__":
    kept = {name: record(run()) for name, run in CASES.items()}
    content = {"machine": machine(), "releases": kept}
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for name, said in kept.items():
        print(f"{name}: {'released' if said['released'] else 'refused'}")  # noqa: T201
