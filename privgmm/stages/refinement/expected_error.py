"""How exact a refined release will be, and which refinement to buy with the rest of a budget."""

from __future__ import annotations

import dataclasses
import functools
import math

from scipy.stats import chi2

from privgmm.arrays import Array
from privgmm.budget import Budget
from privgmm.privacy.curves import RenyiCurve, gaussian_curve
from privgmm.stages.refinement.noisy_moments import Refinement

__all__ = ["Forecast", "best_refinement", "forecast_error"]

_FIRST_STEP_ERRORS = (0.1, 0.2, 0.4)


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


@functools.lru_cache(maxsize=4096)
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
    for _ in range(26):
        middle = (low + high) / 2
        if (fixed + gaussian_curve(math.exp(middle))).epsilon(budget.delta) <= budget.epsilon:
            high = middle
        else:
            low = middle
    return math.exp(high) * (1 + 1e-9)


def best_refinement(
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
