"""Flights out of New York in 2013: rows that no mixture made, released or refused."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from benchmarks.tables import all_flights
from privgmm import EM, Mixture, Plan, Refusal, Release, best_plan, release
from privgmm.arrays import Array
from privgmm.distances.mixture_variation import mixture_tv
from privgmm.stages.agreement.blocks import deal
from privgmm.stages.agreement.lifted_pairs import pairwise_lifted


@functools.cache
def rows(*columns: str) -> Array:
    """Load the flights that landed: 327,346 rows of the named columns."""
    landed = all_flights()[["dep_delay", "arr_delay", "air_time", "distance"]].dropna()
    return np.asarray(landed[list(columns)].to_numpy(dtype=np.float64))


@functools.cache
def planned(k: int, epsilon: float, method: str = "sketch") -> Plan:
    """Make a plan for two columns of all flights."""
    return best_plan(
        327_346, method=method, epsilon=epsilon, delta=1e-6, n_components=k, n_features=2
    )


def test_one_component_of_heavy_tails_is_refused_by_blocks_and_released_by_the_default() -> None:
    x = rows("arr_delay", "air_time")
    assert isinstance(release(x, planned(1, 2.0, "lifted"), rng=0).result, Refusal)
    outcome = release(x, planned(1, 2.0), rng=0)
    assert isinstance(outcome.result, Release)
    assert mixture_tv(outcome.result.mixture, outcome.curator.nonprivate()).value < 0.2


@pytest.mark.parametrize(
    ("columns", "squeezed", "widest"),
    [
        (("dep_delay", "arr_delay"), True, 0.05),
        (("arr_delay", "air_time"), False, 0.15),
    ],
    ids=["asinh of minutes", "minutes"],
)
def test_two_components_of_real_rows_are_released(
    columns: tuple[str, str], squeezed: bool, widest: float
) -> None:
    x = rows(*columns)
    if squeezed:
        x = np.arcsinh(x / 10)
    outcome = release(x, planned(2, 1.0), rng=0)
    result = outcome.result
    assert isinstance(result, Release)
    best = outcome.curator.nonprivate()
    assert mixture_tv(result.mixture, best).value < widest
    # Against one Gaussian, as good as the fit without privacy but for a sixth at most.
    one = EM(1).fit(x, rng=0)
    some = x[::50]
    assert gain(result.mixture, one, some) > 5 / 6 * gain(best, one, some) > 0.25


def gain(mixture: Mixture, other: Mixture, x: Array) -> float:
    """Compute the log-likelihood per row above that of the other mixture."""
    return float(np.mean(mixture.log_density(x) - other.log_density(x)))


def test_wide_starts_bring_the_blocks_together() -> None:
    x = rows("arr_delay", "air_time")
    blocks = x[deal(len(x), 289, seed=0)][:120]
    near = []
    for learner in (EM(2, n_restarts=4), EM(2)):
        distances = pairwise_lifted(learner.fit_blocks(blocks, rng=1))
        near.append(np.sort(np.mean(distances < 1.0, axis=1))[-1])
    few, default = near
    assert few < 0.9 < 0.95 < default


def test_blocks_that_split_are_refused_and_the_curator_learns_why() -> None:
    outcome = release(rows("air_time", "distance"), planned(3, 2.0, "lifted"), rng=0)
    assert isinstance(outcome.result, Refusal)
    assert outcome.curator.votes.max() < outcome.result.plan.to_dict()["test"]["M"]
    hint = outcome.curator.hint()
    assert hint is not None
    assert "on another" in hint
