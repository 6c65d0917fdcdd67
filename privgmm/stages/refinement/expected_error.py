"""Forecast the error of a refined release, and choose a refinement for the rest of a budget.

Two kinds of forecast. `forecast_error` is a formula for components that do not overlap; it is quick
enough to search with. `moment_information` is the information of noisy moments at a mixture, so it
knows about overlap; `worst_component_error` turns the covariance of errors into one number, which
has the same meaning for every method that forecasts: the median, over releases, of the length of
(weight, mean, covariance error) of the worst component.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from privgmm.arrays import Array
from privgmm.budget import Budget
from privgmm.mixture import Mixture
from privgmm.privacy.curves import RenyiCurve, gaussian_curve
from privgmm.stages.quadrature import points_of, scores
from privgmm.stages.refinement.noisy_moments import Refinement, cut_features

__all__ = [
    "MOST_PARAMETERS",
    "Forecast",
    "MomentInformation",
    "best_refinement",
    "forecast_covariance",
    "forecast_error",
    "moment_information",
    "worst_component_error",
]

_FIRST_STEP_ERRORS = (0.1, 0.2, 0.4)
"""Choice: errors that are tried for the first step, as lengths in local coordinates."""
_SEED = 20240611
"""Any number would do; a fixed one gives equal forecasts for equal plans."""
_DRAWS = 400
"""Choice: a forecast needs no more of a median."""
_MOST_POINTS, _FEWEST_POINTS = 3072, 512
"""Choice: points in all, but not fewer than the second number per component."""
MOST_PARAMETERS = 700
"""With more, the information of moments would take seconds."""
_PREVIOUS = 1.0
"""How far a step may lie from the one before it, in local coordinates: see `solve_moments`."""

_Features = Callable[[Array, Mixture, float], tuple[Array, Array]]


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
        """Length of the three errors as one vector."""
        return math.sqrt(self.mean**2 + self.covariance**2 + self.weight**2)


class MomentInformation(NamedTuple):
    """Fisher information of noisy moments about a mixture, in its local coordinates.

    Parameters
    ----------
    noisy : array (P, P)
        Information, with sampling error and noise.
    exact : array (P, P)
        Information without noise: sampling error alone.
    """

    noisy: Array
    exact: Array


def moment_information(
    mixture: Mixture,
    radius: float,
    deviations: Array,
    n_rows: float,
    features: _Features = cut_features,
) -> MomentInformation:
    """Compute the information of noisy moments, seen through the mixture that the rows follow.

    Parameters
    ----------
    mixture : Mixture
    radius : float
        R at which the moments are cut or winsorised.
    deviations : array (1 + d + d(d+1)/2,)
        Standard deviation of the noise on each moment sum.
    n_rows : float
    features : callable
        What a row contributes: `cut_features` or `winsorised_features`.

    Notes
    -----
    The moments have mean m(theta) and covariance ``C = Cov(f) / n + noise``; the slope of m is
    ``E f s'``, s being the score, and the information ``slope' C^-1 slope``. Expectations are
    sums over some hundred points per component: forecasts need two digits. Weights are known up to
    a common factor, so the direction in which all of them grow is held by a large number.
    """
    slope, one_row = _moment_law(mixture, radius, features)
    k = mixture.n_components
    common = np.zeros(len(slope))
    common[:: len(slope) // k] = mixture.weights
    stiff = n_rows * np.outer(common, common)
    noise = np.tile(deviations / n_rows, k) ** 2
    # a little noise keeps the covariance of few points positive definite
    ridge = 1e-9 * np.maximum(np.diagonal(one_row), 1e-12) / n_rows
    noisy, exact = (
        slope.T @ np.linalg.solve(one_row / n_rows + np.diag(more), slope) + stiff
        for more in (noise + ridge, ridge)
    )
    return MomentInformation(noisy, exact)


@functools.lru_cache(maxsize=16)
def _moment_law(mixture: Mixture, radius: float, features: _Features) -> tuple[Array, Array]:
    """Compute the moments' slope in local coordinates and covariance for one row (P, P)."""
    rows, mass = points_of(mixture, max(_MOST_POINTS, _FEWEST_POINTS * mixture.n_components))
    seen = features(rows, mixture, radius)[0].reshape(len(rows), -1)
    mean = mass @ seen
    weighed = ((seen - mean) * mass[:, None]).T
    return weighed @ scores(mixture, rows), weighed @ seen


def worst_component_error(covariance: Array, weights: Array) -> float:
    """Compute the median length of the worst component's error, for errors of this covariance.

    Parameters
    ----------
    covariance : array (P, P)
        Of the errors, in local coordinates: per component the logarithm of its weight, its mean in
        its own units, and the logarithm of its covariance relative to itself, as svec.
    weights : array (k,)

    Notes
    -----
    The length is that of (weight, mean, covariance error), each the largest of any component: the
    mean by Mahalanobis distance, the covariance by the Frobenius norm of the whitened difference.
    """
    k = len(weights)
    size = len(covariance) // k
    d = round((math.sqrt(8 * size + 1) - 3) / 2)
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    draws = np.random.default_rng(_SEED).standard_normal((_DRAWS, len(covariance)))
    errors = (draws @ root.T).reshape(_DRAWS, k, size)
    logs = errors[:, :, 0]
    parts = (
        np.abs(weights * (logs - (logs @ weights)[:, None])),
        np.linalg.norm(errors[:, :, 1 : 1 + d], axis=2),
        np.linalg.norm(errors[:, :, 1 + d :], axis=2),
    )
    return float(np.median(np.linalg.norm([part.max(axis=1) for part in parts], axis=0)))


def forecast_covariance(mixture: Mixture, n_rows: float, refinement: Refinement | None) -> Array:
    """Forecast the covariance (P, P) of errors after the last step; without one, without privacy.

    With very many parameters overlap is left out, as if each component's rows were known.
    """
    k, d = mixture.means.shape
    width = 1 + d + d * (d + 1) // 2
    radius, deviations = math.inf, np.zeros(width)
    if refinement is not None:
        last = refinement.steps - 1
        radius, deviations = refinement.radii[last], refinement.deviations(last, d)
    if k * width > MOST_PARAMETERS:
        complete = np.repeat([1.0, 1.0, 2.0], [1, d, width - 1 - d])
        rows = n_rows * mixture.weights[:, None]
        return np.diag((complete / rows + (deviations / rows) ** 2).ravel())
    information = moment_information(mixture, radius, deviations, n_rows).noisy
    held = information + np.eye(len(information)) / _PREVIOUS**2
    return np.asarray(np.linalg.inv(held))


@functools.lru_cache(maxsize=4096)
def _truncation(d: int, radius: float) -> tuple[float, float]:
    """Compute how a cut at `radius` acts on an estimated variance: slope, inflation of noise.

    Notes
    -----
    The mean of ``|u|^2`` over rows within R is ``s F_{d+2}(R^2/s)`` times d at variance s. Its
    slope in ln s, at s = 1, is ``F_{d+2}(R^2) - R^2 f_{d+2}(R^2)``.
    """
    x = radius**2
    within = float(scipy.special.chdtr(d + 2, x))
    # twice the density of chi^2 with d + 2 degrees is what its distribution function lacks of d
    slope = within - x * (float(scipy.special.chdtr(d, x)) - within) / 2
    second = d * within
    fourth = d * (d + 2) * float(scipy.special.chdtr(d + 4, x))
    if slope <= 0:
        return 0.0, math.inf
    return slope, max(1.0, (fourth - second**2) / (d * slope) ** 2 * d / 2)


def forecast_error(
    n_rows: float, weights: Array, n_features: int, refinement: Refinement | None
) -> Forecast:
    """Forecast errors after the last refinement step; without one, those without privacy."""
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
        reach = max(float(scipy.special.chdtr(d + 2, radius**2)), 1e-3)
        weight += (noise[0] / n_rows) ** 2
        mean += d * (noise[1] / (rows * reach)) ** 2
        covariance += d * (d + 1) / 2 * (noise[1 + d] / (rows * slope)) ** 2
    return Forecast(math.sqrt(mean), math.sqrt(covariance), math.sqrt(weight))


@functools.lru_cache(maxsize=64)
def _last_step_shape(d: int) -> tuple[tuple[float, tuple[float, float, float]], ...]:
    """List the radii and scales that are tried for the last step."""
    radii = [
        math.sqrt(float(scipy.special.chdtri(d, p))) for p in (0.02, 0.01, 0.005, 0.002, 0.0005)
    ]
    scales = [(0.3, 0.5, 1.0), (0.4, 0.6, 1.0), (0.5, 0.9, 1.0)]
    return tuple((r, s) for r in radii for s in scales)


def _affordable(fixed: RenyiCurve, budget: Budget) -> float | None:
    """Find the least noise multiplier of one more step within the budget; None if none fits."""
    low, high = math.log(0.05), math.log(1e5)
    if (fixed + gaussian_curve(math.exp(high))).epsilon(budget.delta) > budget.epsilon:
        return None
    # 26 halvings come within 2e-7 of the least; the end that the budget covers is kept
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
    """Choose the refinement of least expected error that the rest of the budget pays for."""
    wide = math.sqrt(float(scipy.special.chdtri(d, 0.002))) * math.exp(alpha / 4) + alpha / 3
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
