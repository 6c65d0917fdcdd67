"""State what block fits a plan may count on, and find the tests that such fits pass."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math

import numpy as np

from privgmm.arrays import IntArray
from privgmm.methods.cores import (
    AGREEING,
    Core,
    best_cores,
    component_gap,
    second_order_costs,
    upper_point,
)
from privgmm.stages.agreement.scatter import friend_counts_of_blocks, simulated_distances
from privgmm.stages.agreement.votes import required_separation

__all__ = [
    "Expectation",
    "cheapest_core",
    "expected_cores",
    "expecting",
    "overlap_inflation",
    "usual_expectations",
]

_MOST_SIMULATED = 400
"""Blocks that are simulated; friend counts of more blocks are scaled up from these. Measured: more
simulated blocks gave the same plans, and took longer."""


@dataclasses.dataclass(frozen=True)
class Expectation:
    """State what a plan counts on.

    Parameters
    ----------
    separation : float
        Standard deviations between the nearest two means.
    inflation : float
        Scatter of real fits, in units of the law without overlap: see `overlap_inflation`.
    strays : float
        Share of blocks that fail or land on another optimum.
    reliance : float
        Share of the gap between components that is counted on: fits scatter in that too.
    balance : float
        The smallest weight counted on, in units of 1/k, where the user names none.
    slack : float
        By how many radii of the test the gap between components may fall short: where components
        overlap, fits scatter towards each other.
    """

    separation: float
    inflation: float
    strays: float = 0.02
    reliance: float = 0.85
    balance: float = 0.7
    slack: float = 0.0


_APART = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 8.0)
"""Separations at which `_EXCESS` is tabulated; by convention."""
_EXCESS = (45.0, 10.9, 4.2, 1.9, 1.0, 0.55, 0.32, 0.18, 0.10, 0.035, 0.004)
"""Excess of `overlap_inflation` over one, times the number of columns, by Fisher's information of
two equal components. A test computes it by quadrature."""
_CAREFUL, _LONG_TAILS, _BENT = 1.03, 1.5, 4.0
"""Margin, and weights of the excess and of its square, measured on blocks. What overlap adds lies
along one line, so its tails are longer than those of a scatter that is wider all round. Where it
adds much, fits are far from where the information holds."""


def overlap_inflation(separation: float, n_features: int) -> float:
    """Compute how many times as widely fits scatter as they would without overlap of components.

    The root of the mean variance, by Fisher's information, of a component's mean and covariance
    with an equal one `separation` standard deviations away, over that of the component alone. It
    exceeds one by a number that depends on the separation, divided by the number of columns: only
    what lies along the line between the two suffers.
    """
    return 1 + math.exp(float(np.interp(separation, _APART, np.log(_EXCESS)))) / n_features


def expecting(separation: float, n_features: int) -> Expectation:
    """Build a careful expectation for components this many standard deviations apart."""
    more = overlap_inflation(separation, n_features) - 1
    inflation = _CAREFUL * (1 + _LONG_TAILS * more + _BENT * more**2)
    return Expectation(separation, inflation, slack=1.0)


def usual_expectations() -> tuple[Expectation, ...]:
    """List expectations from careful to hopeful, where a request says nothing.

    The first that the rows allow is planned for.

    Measured on expectation-maximisation fits: they scatter a few percent more widely than the law
    without overlap for components 6 or more standard deviations apart, about a tenth at 4.
    """
    careful = (
        Expectation(separation, 1.03 + 0.07 * math.exp(4 - separation))
        for separation in (4.0, 6.0, 8.0)
    )
    return (*careful, Expectation(8.0, 1.04, 0.0, 0.88, 0.8))


def _expected_counts(
    t: int, rows: int, weights: tuple[float, ...], d: int, expectation: Expectation
) -> list[tuple[float, IntArray]]:
    """Simulate fits of t blocks: return, for some radii, the friend counts (t,) to expect."""
    simulated = min(t, _MOST_SIMULATED)
    tables = [
        expectation.inflation
        * simulated_distances(simulated, rows, weights, d, seed=seed, lifted=True)
        for seed in range(2)
    ]
    pairs = tables[0][np.triu_indices(len(tables[0]), 1)]
    expected = []
    for radius in np.quantile(pairs, AGREEING).tolist():
        # the worse of the replicates, rank by rank, less the strays
        ranked = [np.sort(friend_counts_of_blocks(table, radius, t))[::-1] for table in tables]
        worst = np.min(ranked, axis=0)
        kept = np.floor(worst * (1 - expectation.strays)).astype(np.int64)
        strays = math.ceil(expectation.strays * t)
        counts = np.concatenate([kept[: t - strays], np.ones(strays, dtype=np.int64)])
        expected.append((radius, counts))
    return expected


@functools.lru_cache(maxsize=8192)
def expected_cores(
    t: int, rows: int, weights: tuple[float, ...], d: int, delta: float, expectation: Expectation
) -> tuple[Core, ...]:
    """Find tests that fits of `rows` rows are expected to pass.

    A test is left out if another one has more noise and a mean that moves less: it is never the
    cheapest.
    """
    gap = component_gap(expectation.separation) if len(weights) > 1 else math.inf
    sigmas = np.geomspace(1.5, max(2.0, t / 10), 14).tolist()
    thetas = [upper_point(sigma, delta) for sigma in sigmas]
    ways = (False, True) if len(weights) > 1 else (False,)
    found: list[Core] = []
    for radius, counts in _expected_counts(t, rows, weights, d, expectation):
        if not math.isfinite(radius):
            continue
        most = min(expectation.reliance * gap, gap - expectation.slack * radius)
        tests = [best_cores(counts, sigmas, thetas, close=close) for close in ways]
        # for one noise scale after the other, as ties are broken by order
        found += [
            Core(test[0], radius, test[1])
            for test in itertools.chain.from_iterable(zip(*tests, strict=True))
            if test is not None and required_separation(test[0], len(weights)) * radius <= most
        ]
    return _unbeaten(found)


def _unbeaten(cores: list[Core]) -> tuple[Core, ...]:
    """Keep the cores that move the mean less than any other with as much noise in the test."""
    kept: list[Core] = []
    for core in sorted(cores, key=lambda one: (-one.test.sigma, one.radius * one.move)):
        if not kept or core.radius * core.move < kept[-1].radius * kept[-1].move:
            kept.append(core)
    return tuple(kept)


def cheapest_core(cores: tuple[Core, ...], k: int, d: int, eta: float) -> Core | None:
    """Return the test whose test and mask cost least, to second order in gamma."""
    if not cores:
        return None
    return cores[int(second_order_costs(cores, 1.0, k=k, d=d, eta=eta).argmin())]
