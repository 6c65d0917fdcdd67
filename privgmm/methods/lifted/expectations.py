"""What block fits a plan may count on, and the tests that such fits pass."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from privgmm.arrays import Array
from privgmm.methods.lifted.cores import best_core, component_gap
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.scatter import friend_counts_of_blocks, simulated_distances
from privgmm.stages.agreement.votes import AgreementTest, required_separation

__all__ = [
    "Core",
    "Expectation",
    "cheapest_core",
    "expected_cores",
    "expecting",
    "forgiving_expectations",
    "overlap_inflation",
    "usual_expectations",
]

_AGREEING = (0.6, 0.75, 0.85, 0.92, 0.95, 0.97, 0.985, 0.995)
_PASS_MARGIN = 1.65
_MOST_SIMULATED = 400


@dataclasses.dataclass(frozen=True)
class _Scatter:
    """Simulated fits of t blocks: for some radii, the friend counts to expect."""

    radii: Array
    counts: Array


@dataclasses.dataclass(frozen=True)
class Expectation:
    """What a plan counts on.

    Parameters
    ----------
    separation : float
        Standard deviations between the nearest two means.
    inflation : float
        How much more real fits scatter than the law without overlap: see `overlap_inflation`.
    strays : float
        Share of blocks that fail or land on another optimum.
    reliance : float
        How much of the gap between components is counted on: fits scatter in that too.
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
_EXCESS = (45.0, 10.9, 4.2, 1.9, 1.0, 0.55, 0.32, 0.18, 0.10, 0.035, 0.004)
_CAREFUL, _LONG_TAILS, _BENT = 1.03, 1.5, 4.0
"""What overlap adds lies along one line, and so has longer tails than a wider scatter all round;
and where it adds much, fits are far from where the information holds. Measured on blocks."""


def overlap_inflation(separation: float, n_features: int) -> float:
    """How many times as widely fits scatter as they would if components did not overlap.

    The root of the mean variance, by Fisher's information, of a component's mean and covariance
    beside an equal one `separation` standard deviations away, over that of the component alone. It
    exceeds one by a number that depends on the separation, divided by the number of columns: only
    what lies along the line between the two suffers.
    """
    return 1 + math.exp(float(np.interp(separation, _APART, np.log(_EXCESS)))) / n_features


def expecting(separation: float, n_features: int) -> Expectation:
    """A careful expectation for components so many standard deviations apart."""
    more = overlap_inflation(separation, n_features) - 1
    inflation = _CAREFUL * (1 + _LONG_TAILS * more + _BENT * more**2)
    return Expectation(separation, inflation, slack=1.0)


def usual_expectations() -> tuple[Expectation, ...]:
    """From careful to hopeful, where a request says nothing: the first that the rows allow.

    Measured on expectation-maximisation fits: they scatter a few percent more widely than the law
    without overlap for components 6 or more standard deviations apart, about a tenth at 4.
    """
    careful = (
        Expectation(separation, 1.03 + 0.07 * math.exp(4 - separation))
        for separation in (4.0, 6.0, 8.0)
    )
    return (*careful, Expectation(8.0, 1.04, 0.0, 0.88, 0.8))


_SCATTERED = tuple(Expectation(2.5, inflation, strays=0.05) for inflation in (2.5, 2.0, 1.5))
_RARE = tuple(Expectation(2.5, 1.1, balance=balance) for balance in (0.2, 0.4))


def forgiving_expectations(n_components: int) -> tuple[Expectation, ...]:
    """For real data, in the order tried: near components, fits that scatter more widely.

    Rows that are no Gaussian mixture make the fits of blocks scatter up to about two and a half
    times as widely as Gaussian rows do (measured on flights, see `docs/real-data.md`); where so
    much cannot be allowed for, a rare component or a smaller factor is.
    """
    if n_components == 1:
        return _SCATTERED
    return _SCATTERED[0], _RARE[0], *_SCATTERED[1:], _RARE[1]


def _scatter(
    t: int, rows: int, weights: tuple[float, ...], d: int, expectation: Expectation
) -> _Scatter:
    simulated = min(t, _MOST_SIMULATED)
    tables = [
        expectation.inflation
        * simulated_distances(simulated, rows, weights, d, seed=seed, lifted=True)
        for seed in range(2)
    ]
    pairs = tables[0][np.triu_indices(len(tables[0]), 1)]
    radii = np.quantile(pairs, _AGREEING)
    counts = []
    for radius in radii:
        # the worse of the replicates, rank by rank, less the strays
        ranked = [
            np.sort(friend_counts_of_blocks(table, float(radius), t))[::-1] for table in tables
        ]
        worst = np.min(ranked, axis=0)
        kept = np.floor(worst * (1 - expectation.strays)).astype(np.int64)
        strays = math.ceil(expectation.strays * t)
        counts.append(np.concatenate([kept[: t - strays], np.ones(strays, dtype=np.int64)]))
    return _Scatter(radii, np.stack(counts))


@dataclasses.dataclass(frozen=True)
class Core:
    """A test that the expected fits pass, and how far it lets the mean move."""

    test: AgreementTest
    radius: float
    move: float


@functools.lru_cache(maxsize=8192)
def expected_cores(
    t: int, rows: int, weights: tuple[float, ...], d: int, delta: float, expectation: Expectation
) -> tuple[Core, ...]:
    """Tests that fits of `rows` rows are expected to pass.

    Those that another one beats, with more noise in the test and a mean that moves less, are left
    out: they are never the cheapest.
    """
    gap = component_gap(expectation.separation) if len(weights) > 1 else math.inf
    scatter = _scatter(t, rows, weights, d, expectation)
    found = []
    for radius, counts in zip(scatter.radii, scatter.counts, strict=True):
        if not np.isfinite(radius):
            continue
        for sigma in np.geomspace(1.5, max(2.0, t / 10), 14):
            theta = _upper_point(float(sigma), delta)
            for close in (False, True) if len(weights) > 1 else (False,):
                core = best_core(counts, float(sigma), theta, _PASS_MARGIN, close=close)
                if core is None:
                    continue
                clearance = required_separation(core[0], len(weights)) * radius
                if clearance <= min(expectation.reliance * gap, gap - expectation.slack * radius):
                    found.append(Core(core[0], float(radius), core[1]))
    return _unbeaten(found)


def _unbeaten(cores: list[Core]) -> tuple[Core, ...]:
    """Cores that move the mean less than any other with as much noise in the test."""
    kept: list[Core] = []
    for core in sorted(cores, key=lambda one: (-one.test.sigma, one.radius * one.move)):
        if not kept or core.radius * core.move < kept[-1].radius * kept[-1].move:
            kept.append(core)
    return tuple(kept)


@functools.lru_cache(maxsize=512)
def _upper_point(sigma: float, delta: float) -> int:
    return DiscreteGaussian(sigma).upper_point(delta)


def cheapest_core(cores: tuple[Core, ...], k: int, d: int, eta: float) -> Core | None:
    """The test whose test and mask cost least, to second order in gamma."""

    def cost(core: Core) -> float:
        gamma = 2 * core.radius * core.move
        mask = gamma**2 * (1 / (8 * eta**2) + (d + 1) / 4)
        return 1 / (2 * core.test.sigma**2) + k * mask

    return min(cores, key=cost, default=None)
