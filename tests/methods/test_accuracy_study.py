"""The study of forecasts: releases are as near to the truth as they are said to be.

Settings are drawn by a fixed seed, and nothing was tuned on them. `SETTINGS` says how many, and
`RUNS` how many releases of each; every release has its own rows and noise.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

from privgmm import dist_gmm
from privgmm.data.generators import random_mixture
from privgmm.distances import dist_comp
from privgmm.methods.planner import is_hopeful, plan_for
from privgmm.methods.request import PlanRequest
from privgmm.methods.typical import expected_mixture
from privgmm.methods.usefulness import LESS_ACCURATE
from privgmm.methods.what_if import rows_for
from privgmm.mixture import Mixture
from privgmm.releases import Release, release
from privgmm.stages.accuracy import RESOLVED

SETTINGS, RUNS = 60, 40
# the settings of seed 24 were looked at when the growth of errors was measured (`accuracy.Bend`)
SEED = 2026
_EXPLAINED = 5.0
"""Misfit below which such a mixture explains the rows."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One release: its distance to the truth, and what it says of itself."""

    distance: float
    result: Release


class Setting(NamedTuple):
    """A mixture, and what is asked about rows of it."""

    truth: Mixture
    request: PlanRequest


def drawn_settings(count: int = SETTINGS, seed: int = SEED) -> list[Setting]:
    """Draw settings that have a plan: k 1 to 5, d 1 to 8, 500 to a million rows."""
    rng, found = np.random.default_rng(seed), list[Setting]()
    while len(found) < count:
        k, d = int(rng.integers(1, 6)), int(rng.integers(1, 9))
        separation, n = float(rng.uniform(1.5, 6)), int(10 ** rng.uniform(np.log10(500), 6))
        epsilon = float(0.2 * 20 ** rng.uniform())
        weights = ("equal", "unequal")[int(rng.integers(2))]
        condition = float(4 ** rng.uniform()) if d > 1 else 1.0
        truth = random_mixture(
            k,
            d,
            separation=separation,
            weights=weights,
            condition=condition,
            rng=int(rng.integers(2**31)),
        )
        request = PlanRequest(
            n_components=k, n_features=d, n_rows=n, epsilon=epsilon, expected=truth
        )
        if is_hopeful(request):
            found.append(Setting(truth, request))
    return found


def runs_of(setting: Setting, number: int, runs: int = RUNS) -> list[Run]:
    """Release rows of a setting again and again; refusals are left out."""
    plan, found = plan_for(setting.request).plan, []
    for run in range(runs):
        seed = 1000 * number + run
        rows = setting.truth.sample(setting.request.rows, rng=10**6 + seed)
        result = release(rows, plan, rng=seed).result
        if isinstance(result, Release):
            found.append(Run(dist_gmm(setting.truth, result.mixture), result))
    return found


@pytest.mark.study
def test_forecasts_come_true() -> None:
    """Check promises of 90 %, statements of "not as accurate", and the band after a release."""
    kept, broken, inside, told, near = 0, 0, 0, 0, list[bool]()
    for number, setting in enumerate(drawn_settings()):
        seen = plan_for(setting.request).plan.usefulness()
        assert seen.expected_error is not None
        runs = runs_of(setting, number)
        distances = np.array([run.distance for run in runs])
        promised = seen.expected_error.at(0.9)
        kept += int(0.8 <= np.mean(distances <= promised) <= 0.995)
        # the largest alpha of which it is said that half of all releases are farther off
        short = 0.9 * seen.expected_error.value
        assert dataclasses.replace(seen, alpha=short).answer == LESS_ACCURATE
        broken += int(np.mean(distances <= short) >= 0.5)
        for run in runs:
            law = run.result.expected_error
            if law is None or run.result.misfit is None or run.result.misfit >= _EXPLAINED:
                continue
            told, inside = told + 1, inside + (law.low <= run.distance <= law.high)
            near += _nearness(setting.truth, run.result)
        print(  # noqa: T201
            f"\n{number}: {len(runs)} of {RUNS} released, median {np.median(distances):.3g}, "
            f"forecast {seen.expected_error}"
        )
    print(  # noqa: T201
        f"\n90 % kept in {kept} of {SETTINGS}; 'not as accurate' wrong in {broken}; band covers "
        f"{inside / told:.1%} of {told}; of {len(near)} resolved {np.mean(near):.1%} are near"
    )
    assert kept >= 55
    assert broken == 0
    assert 0.85 <= inside / told <= 0.97
    assert np.mean(near) >= 0.95


def _nearness(truth: Mixture, result: Release) -> list[bool]:
    """Say of each component that is called resolved whether it is within 0.2 of a true one."""
    theirs = list(zip(truth.weights, truth.means, truth.covariances, strict=True))
    mixture = result.mixture
    ours = zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
    return [
        min(dist_comp(one, other) for other in theirs) <= 0.2
        for one, how in zip(ours, result.resolution, strict=True)
        if how == RESOLVED
    ]


@pytest.mark.study
def test_one_component_too_many_is_not_resolved() -> None:
    """200 releases with k one too many: nine in ten have a component that is not resolved."""
    caught = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        truth = random_mixture(2, 2, separation=float(rng.uniform(2, 6)), rng=seed)
        rows = truth.sample(int(10 ** rng.uniform(3.3, 4.5)), rng=seed)
        result = release(rows, epsilon=1.0, n_components=3, rng=seed).result
        caught += not isinstance(result, Release) or set(result.resolution) != {RESOLVED}
    print(f"\nk one too many: {caught} of 200 caught")  # noqa: T201
    assert caught >= 180


@pytest.mark.study
@pytest.mark.parametrize("method", ["sketch", "lifted"])
@pytest.mark.parametrize("alpha", [0.2, 0.1, 0.05])
def test_the_rows_of_the_table_are_enough(method: str, alpha: float) -> None:
    """Twenty runs each; fewer than 15 are within alpha once in 90 times where 90 % are."""
    plane = PlanRequest(n_components=2, n_features=2, method=method, alpha=alpha)
    request = plane.but(n_rows=int(rows_for(plane)))
    runs = runs_of(Setting(expected_mixture(plane), request), 99, 20)
    within = sum(run.distance <= alpha for run in runs)
    print(f"\n{method}, {request.rows:,} rows: {within} of 20 within {alpha:g}")  # noqa: T201
    assert within >= 15
