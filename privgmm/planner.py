"""What will it take? Plans chosen for a number of rows, and what-if questions, without data.

Everything here is computed from public numbers: rows, blocks, components, dimensions, budget.
The law of the block fits comes from `spread`, which ignores overlap between components; the
search leaves a margin for that.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from scipy.stats import chi2

from privgmm.agreement import AgreementTest, friend_counts
from privgmm.arrays import Array, positive
from privgmm.budget import Budget
from privgmm.calibration import (
    best_core,
    calibrate,
    checked,
    lifted_eta,
    lifted_plan,
    whole_number,
)
from privgmm.errors import InvalidInput
from privgmm.noise import DiscreteGaussian
from privgmm.plan import METHODS, Method, Plan, required_separation
from privgmm.refinement import Refinement
from privgmm.renyi import RenyiCurve, gaussian_curve, lifted_mask_curve
from privgmm.spaces.lifted import MEAN_TOLERANCE
from privgmm.spread import component_weights, pair_distances, simulate_blocks

__all__ = ["Forecast", "best_plan", "component_gap", "forecast_error"]

_ALPHAS = (0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0)
_FEWEST_BLOCKS, _MOST_BLOCKS, _BLOCK_CHOICES = 40, 1000, 12
_AGREEING = (0.5, 0.65, 0.75, 0.85, 0.9, 0.95, 0.98, 0.995)
_STRAYS = 0.02
"""Share of blocks taken to fail or to land on another optimum."""
_PASS_MARGIN = 1.65
_GAP_SLACK = 0.85
"""Fits scatter, so a component gap is only counted on in part."""
_SEPARATIONS = (4.0, 6.0, 8.0)
_TIGHT_BLOCKS = (100, 200, 400)
_FIRST_STEP_ERRORS = (0.1, 0.2, 0.4)
_SMALLEST_SHARE = 0.7


def component_gap(separation: float) -> float:
    """Lifted distance of two components alike but for means `separation` deviations apart.

    ``2 sqrt 2 asinh(separation / 2)``: the ratio matrix has eigenvalues lam and 1/lam with
    ``lam + 1/lam = 2 + separation^2``.
    """
    return 2 * math.sqrt(2) * math.asinh(separation / 2)


@dataclasses.dataclass(frozen=True)
class Forecast:
    """Expected root-mean-square errors of the component with the smallest weight.

    Parameters
    ----------
    mean : float
        Mahalanobis distance of the mean.
    covariance : float
        Frobenius norm of the whitened difference.
    weight : float
    """

    mean: float
    covariance: float
    weight: float

    @property
    def total(self) -> float:
        """One number: all three together."""
        return math.sqrt(self.mean**2 + self.covariance**2 + self.weight**2)


def _truncation(d: int, radius: float) -> tuple[float, float]:
    """What a cut at `radius` does to the estimate of a variance: slope, and inflation of noise.

    Notes
    -----
    The mean of ``|u|^2`` over rows within R is ``s F_{d+2}(R^2/s)`` times d at variance s. Its
    slope in ln s, at s = 1, is ``F_{d+2}(R^2) - R^2 f_{d+2}(R^2)``.
    """
    x = radius**2
    slope = float(chi2.cdf(x, d + 2) - x * chi2.pdf(x, d + 2))
    second = d * float(chi2.cdf(x, d + 2))
    fourth = d * (d + 2) * float(chi2.cdf(x, d + 4))
    if slope <= 0:
        return 0.0, math.inf
    return slope, max(1.0, (fourth - second**2) / (d * slope) ** 2 * d / 2)


def forecast_error(
    n_rows: float, weights: Array, n_features: int, refinement: Refinement | None
) -> Forecast:
    """Errors to expect after the last refinement step; without one, those without privacy."""
    d, w = n_features, float(weights.min())
    rows = n_rows * w
    weight = w * (1 - w) / n_rows
    mean, covariance = d / rows, d * (d + 1) / rows
    if refinement is not None:
        radius = refinement.radii[-1]
        slope, inflation = _truncation(d, radius)
        if slope <= 0:
            return Forecast(math.inf, math.inf, math.inf)
        covariance *= inflation
        noise = refinement.deviations(refinement.steps - 1, d)
        reach = max(float(chi2.cdf(radius**2, d + 2)), 1e-3)
        weight += (noise[0] / n_rows) ** 2
        mean += d * (noise[1] / (rows * reach)) ** 2
        covariance += d * (d + 1) / 2 * (noise[1 + d] / (rows * slope)) ** 2
    return Forecast(math.sqrt(mean), math.sqrt(covariance), math.sqrt(weight))


@functools.lru_cache(maxsize=64)
def _last_step_shape(d: int) -> tuple[tuple[float, tuple[float, float, float]], ...]:
    """Radii and scales worth trying for the last step."""
    radii = [math.sqrt(float(chi2.isf(p, d))) for p in (0.02, 0.01, 0.005, 0.002, 0.0005)]
    scales = [(0.3, 0.5, 1.0), (0.4, 0.6, 1.0), (0.5, 0.9, 1.0)]
    return tuple((r, s) for r in radii for s in scales)


def _affordable(fixed: RenyiCurve, budget: Budget) -> float | None:
    """The smallest noise multiplier of one more step within the budget, None if there is none."""
    low, high = math.log(0.05), math.log(1e5)
    if (fixed + gaussian_curve(math.exp(high))).epsilon(budget.delta) > budget.epsilon:
        return None
    for _ in range(40):
        middle = (low + high) / 2
        if (fixed + gaussian_curve(math.exp(middle))).epsilon(budget.delta) <= budget.epsilon:
            high = middle
        else:
            low = middle
    return math.exp(high) * (1 + 1e-9)


def _refinement(
    n_rows: float, weights: Array, d: int, alpha: float, fixed: RenyiCurve, budget: Budget
) -> tuple[Refinement, Forecast] | None:
    """The refinement with the least expected error that the rest of the budget affords."""
    wide = math.sqrt(float(chi2.isf(0.002, d))) * math.exp(alpha / 4) + alpha / 3
    scales = (0.4, 0.6, 1.0)
    probe = Refinement((1.0,), (wide,), scales)
    rows = n_rows * float(weights.min())
    per_unit = float(probe.deviations(0, d)[-1]) * math.sqrt(d * (d + 1) / 2) / rows
    best: tuple[Refinement, Forecast] | None = None
    for error in _FIRST_STEP_ERRORS:
        first = max(error / per_unit, 1.0)
        last = _affordable(fixed + gaussian_curve(first), budget)
        if last is None:
            continue
        for radius, shape in _last_step_shape(d):
            # both steps share one set of scales: the first is cheap whichever they are
            candidate = Refinement((first, last), (wide, radius * (1 + error / 4)), shape)
            forecast = forecast_error(n_rows, weights, d, candidate)
            if best is None or forecast.total < best[1].total:
                best = candidate, forecast
    return best


@dataclasses.dataclass(frozen=True)
class _Scatter:
    """Simulated fits of t blocks: for some radii, the friend counts to expect."""

    radii: Array
    counts: Array


def _inflation(separation: float) -> float:
    """How much more real fits scatter than the law without overlap, in distances.

    Measured on expectation-maximisation fits: a few percent when components are 6 or more
    standard deviations apart, about a tenth at 4.
    """
    return 1.03 + 0.07 * math.exp(4 - max(separation, 4.0))


@functools.lru_cache(maxsize=256)
def _scatter(t: int, rows: int, weights: tuple[float, ...], d: int, inflation: float) -> _Scatter:
    tables = [
        inflation * pair_distances(simulate_blocks(t, rows, weights, d, rng=seed), lifted=True)
        for seed in range(2)
    ]
    pairs = tables[0][np.triu_indices(t, 1)]
    radii = np.quantile(pairs, _AGREEING)
    counts = []
    for radius in radii:
        # the worse of the replicates, rank by rank, less the strays
        ranked = [np.sort(friend_counts(table, float(radius)))[::-1] for table in tables]
        worst = np.min(ranked, axis=0)
        kept = np.floor(worst * (1 - _STRAYS)).astype(np.int64)
        strays = math.ceil(_STRAYS * t)
        counts.append(np.concatenate([kept[: t - strays], np.ones(strays, dtype=np.int64)]))
    return _Scatter(radii, np.stack(counts))


def _block_choices(n_rows: int, weights: Array, d: int) -> list[int]:
    """Numbers of blocks worth trying: enough rows a block for the smallest component."""
    least = math.ceil(6 * (d + 1) / float(weights.min()))
    most = min(_MOST_BLOCKS, n_rows // least)
    if most < _FEWEST_BLOCKS:
        return []
    return sorted({int(t) for t in np.geomspace(_FEWEST_BLOCKS, most, _BLOCK_CHOICES)})


@dataclasses.dataclass(frozen=True)
class _Core:
    """A test that the expected fits pass, and how far it lets the mean move."""

    test: AgreementTest
    radius: float
    move: float


@functools.lru_cache(maxsize=256)
def _cores(
    t: int, rows: int, weights: tuple[float, ...], d: int, delta: float, separation: float
) -> tuple[_Core, ...]:
    """Tests that fits of `rows` rows pass, with means `separation` deviations apart."""
    gap = component_gap(separation) if len(weights) > 1 else math.inf
    scatter = _scatter(t, rows, weights, d, _inflation(separation))
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
                if clearance <= _GAP_SLACK * gap:
                    found.append(_Core(core[0], float(radius), core[1]))
    return tuple(found)


@functools.lru_cache(maxsize=512)
def _upper_point(sigma: float, delta: float) -> int:
    return DiscreteGaussian(sigma).upper_point(delta)


def _cheapest(cores: tuple[_Core, ...], k: int, d: int, eta: float) -> _Core | None:
    """The test whose test and mask cost least, to second order in gamma."""

    def cost(core: _Core) -> float:
        gamma = 2 * core.radius * core.move
        mask = gamma**2 * (1 / (8 * eta**2) + (d + 1) / 4)
        return 1 / (2 * core.test.sigma**2) + k * mask

    return min(cores, key=cost, default=None)


def _best_lifted(
    n_rows: int,
    budget: Budget,
    beta: float,
    k: int,
    d: int,
    weights: Array,
    separation: float,
    refine: bool,
) -> Plan | None:
    """The plan of least expected final error that the expected fits pass; None if none does."""
    best: tuple[float, Plan] | None = None
    for t in _block_choices(n_rows, weights, d):
        cores = _cores(t, n_rows // t, tuple(map(float, weights)), d, budget.delta, separation)
        for alpha in _ALPHAS:
            eta = lifted_eta(d, alpha, beta / k)
            core = _cheapest(cores, k, d, eta)
            if core is None:
                continue
            gamma = 2 * core.radius * core.move + 2 * MEAN_TOLERANCE
            fixed = gaussian_curve(core.test.sigma) + k * lifted_mask_curve(gamma, eta, d + 1)
            steps, score = None, alpha
            if refine:
                found = _refinement(n_rows, weights, d, alpha, fixed, budget)
                if found is None:
                    continue
                steps, score = found[0], found[1].total
            elif fixed.epsilon(budget.delta) > budget.epsilon:
                continue
            # a coarser start and more blocks must earn their keep
            score *= 1 + 0.01 * alpha + 0.02 * t / _MOST_BLOCKS
            if best is None or score < best[0]:
                smallest = None if k == 1 else float(weights.min())
                plan = lifted_plan(
                    budget, alpha, beta, k, d, steps, core.test, smallest, core.radius
                )
                best = score, plan
    return None if best is None else best[1]


def best_plan(
    n_rows: int,
    *,
    method: Method = "lifted",
    epsilon: float,
    delta: float,
    n_components: int,
    n_features: int,
    beta: float = 0.1,
    smallest_weight: float | None = None,
    separation: float | None = None,
    refine: bool = True,
) -> Plan:
    """The Auto choice: blocks, split, test, mask and refinement for so many rows.

    Chooses the plan with the least expected final error among those expected to release in
    95 % of runs. Uses public numbers only, is deterministic and quick.

    Parameters
    ----------
    n_rows : int
        How many rows there are (public).
    method : {"lifted", "tight", "paper"}
    epsilon, delta : float
        The TOTAL budget.
    n_components, n_features : int
        k and d.
    beta : float
        The coarse release may miss its alpha this often.
    smallest_weight : float, optional
        The smallest component weight to plan for; 0.7 / k by default.
    separation : float, optional
        How many standard deviations apart the nearest two means are expected to be. By default
        4, and 6 or 8 where the rows do not allow 4.
    refine : bool
        Whether to sharpen the coarse release by noisy passes over all rows.

    Raises
    ------
    InvalidInput
        If no plan is expected to release, with the rows it would take.
    """
    if method not in METHODS:
        raise InvalidInput(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    n = whole_number(n_rows, "n_rows", 1)
    budget = Budget(epsilon, delta)
    b = positive(beta, "beta", below=1.0)
    k = whole_number(n_components, "n_components", 1)
    d = whole_number(n_features, "n_features", 1)
    smallest = smallest_weight
    if smallest is None and k > 1:
        smallest = _SMALLEST_SHARE / k
    weights = component_weights(k, smallest)
    if method == "paper":
        return calibrate(
            "paper", epsilon=epsilon, delta=delta, alpha=0.5, beta=b, n_components=k, n_features=d
        )
    if method == "tight":
        return _best_tight(n, budget, b, k, d, weights)
    tries = _SEPARATIONS if separation is None else (positive(separation, "separation"),)
    for apart in tries if k > 1 else tries[:1]:
        plan = _best_lifted(n, budget, b, k, d, weights, apart, refine)
        if plan is not None:
            return checked(plan)
    raise InvalidInput(
        f"no plan is expected to release {k} components in {d} dimensions from {n} rows within "
        f"{budget}: raise epsilon or delta, bring more rows, or use calibrate to try anyway"
    )


def _best_tight(n: int, budget: Budget, beta: float, k: int, d: int, weights: Array) -> Plan:
    """The plan with the smallest alpha that n rows are expected to pass.

    If no alpha up to one passes, the plan that asks for the fewest rows.
    """
    fewest: tuple[float, Plan] | None = None
    for alpha in (0.1, 0.2, 0.35, 0.5, 0.75, 1.0):
        for t in _TIGHT_BLOCKS:
            try:
                plan = _tight_plan(budget, alpha, beta, k, d, t, weights)
            except InvalidInput:
                # too few blocks for this budget: larger numbers follow
                continue
            needed = plan.rows_needed()
            if fewest is None or needed < fewest[0]:
                fewest = needed, plan
        if fewest is not None and fewest[0] <= n:
            return fewest[1]
    if fewest is None:
        raise InvalidInput(f"no number of blocks lets method 'tight' pass within {budget}")
    return fewest[1]


def _tight_plan(
    budget: Budget, alpha: float, beta: float, k: int, d: int, t: int, weights: Array
) -> Plan:
    plan = calibrate(
        "tight",
        epsilon=budget.epsilon,
        delta=budget.delta,
        alpha=alpha,
        beta=beta,
        n_components=k,
        n_features=d,
        n_blocks=t,
    )
    return dataclasses.replace(plan, smallest_weight=None if k == 1 else float(weights.min()))
