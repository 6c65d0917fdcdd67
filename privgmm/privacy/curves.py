"""Rényi accounting: what each mechanism costs, as curves that add.

A curve gives, for every order a, a bound on the Rényi divergence between the outputs on any
two neighbouring data sets. Curves of mechanisms run one after another add up; one conversion
at the end gives (epsilon, delta).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from privgmm.arrays import Array, frozen, positive
from privgmm.errors import InvalidInput

__all__ = [
    "ORDERS",
    "GaussianCurve",
    "RenyiCurve",
    "conversion",
    "gaussian_curve",
    "gaussian_losses",
    "largest_on_private_side",
    "lifted_mask_curve",
    "lifted_mask_losses",
    "paper_mask_curve",
]

ORDERS: Array = frozen(1 + np.logspace(-2, 5, 900))
"""Orders a > 1 at which curves are kept: dense enough that the conversion loses under 1e-4."""


@dataclasses.dataclass(frozen=True, eq=False)
class RenyiCurve:
    """A bound on the Rényi divergence at each of `ORDERS`; infinite where there is none."""

    values: Array

    def __post_init__(self) -> None:
        if self.values.shape != ORDERS.shape or np.isnan(self.values).any():
            raise InvalidInput("a curve needs one number per order")
        object.__setattr__(self, "values", frozen(np.maximum(self.values, 0.0)))

    def __add__(self, other: RenyiCurve) -> RenyiCurve:
        return RenyiCurve(self.values + other.values)

    def __mul__(self, times: float) -> RenyiCurve:
        return RenyiCurve(self.values * times)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RenyiCurve):
            return NotImplemented
        return bool(np.array_equal(self.values, other.values))

    def __hash__(self) -> int:
        return hash(self.values.tobytes())

    def epsilon(self, delta: float) -> float:
        """Compute the smallest epsilon this curve proves at `delta`.

        ``min over a of R(a) + ln((a-1)/a) - (ln delta + ln a)/(a-1)`` (Canonne, Kamath and
        Steinke, 2020, Proposition 12); never below zero.
        """
        positive(delta, "delta", below=1.0)
        return max(0.0, float((self.values + conversion(delta)).min()))

    def delta(self, epsilon: float) -> float:
        """Compute the smallest delta this curve proves at `epsilon`."""
        a = ORDERS
        logs = (a - 1) * (self.values - epsilon + np.log1p(-1 / a)) - np.log(a)
        return math.exp(min(0.0, float(logs.min())))


@functools.lru_cache(maxsize=64)
def conversion(delta: float) -> Array:
    """Compute what converting a curve to (epsilon, delta) adds at each order."""
    a = ORDERS
    return frozen(np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1))


@dataclasses.dataclass(frozen=True, eq=False)
class GaussianCurve(RenyiCurve):
    """The curve of a Gaussian mechanism, with the parameters that allow an exact price.

    Parameters
    ----------
    multiplier : float
        Noise, in units of the L2 sensitivity.
    sensitivity : float
        In steps of the lattice that the noise is drawn on; it may be more.
    """

    multiplier: float
    sensitivity: float


def gaussian_curve(multiplier: float, *, sensitivity: float = 2.0**16) -> GaussianCurve:
    """Price Gaussian noise of `multiplier` L2 sensitivities: ``a / (2 multiplier^2)``.

    Holds for the discrete Gaussian on an integer statistic of any `sensitivity` as well. The
    sensitivity matters only for exact prices (`gaussian_account`). Fixed-point sums never have a
    smaller one than the default.
    """
    positive(multiplier, "multiplier")
    positive(sensitivity, "sensitivity")
    return GaussianCurve(ORDERS / (2 * multiplier**2), multiplier, sensitivity)


def gaussian_losses(multiplier: float, n: int, *, rng: np.random.Generator) -> Array:
    """Draw privacy losses (n,) of a Gaussian mechanism whose sums move by their sensitivity."""
    return np.asarray((2 * multiplier * rng.standard_normal(n) + 1) / (2 * multiplier**2))


def _log_det_term(ratio: Array, order: Array) -> Array:
    """Compute ``f_a(lam) = ln(s / lam^a) / (2 (1 - a))``, ``s = 1 - a + a lam > 0``."""
    x = ratio - 1
    s = 1 + order * x
    with np.errstate(invalid="ignore", divide="ignore"):
        value = (np.log1p(order * x) - order * np.log1p(x)) / (2 * (1 - order))
    return np.where(s > 0, value, np.inf)


def lifted_mask_curve(gamma: float, eta: float, size: int) -> RenyiCurve:
    """Price the mask of one lifted component, `size` x `size`, at distance at most gamma.

    Notes
    -----
    The law of ``L (I + eta G)(I + eta G)^T L^T`` does not depend on which root L of ``T = L L^T``
    is used. So for two matrices the roots may be taken such that ``L1^-1 L2 = diag(sqrt lam)``, lam
    the eigenvalues of ``T1^-1 T2``. Row i of ``L1 (I + eta G)`` and ``L2 (I + eta G)``, seen in
    the coordinates of L1, is then N(e_i, eta^2 I) against N(sqrt(lam_i) e_i, lam_i eta^2 I), with
    divergence ``a (sqrt lam - 1)^2 / (2 eta^2 s) + p f_a(lam)``, ``s = 1 - a + a lam``. Forming the
    product is post-processing.

    The allowed ratios satisfy ``sum (ln lam_i)^2 <= gamma^2``. Each of these summands, divided by
    ``(ln lam)^2``, is largest at the smallest lam, ``exp(-gamma)`` (checked on a grid in the
    tests), so the sum is at most that value times gamma^2: the summand at ``exp(-gamma)`` itself.
    """
    return RenyiCurve(lifted_mask_losses([gamma], eta, size)[0])


def lifted_mask_losses(gammas: Sequence[float], eta: float, size: int) -> Array:
    """Compute the values (n, orders) of `lifted_mask_curve` at many distances."""
    lam = np.array([math.exp(-gamma) for gamma in gammas])[:, None]
    s = 1 + ORDERS * np.array([math.expm1(-gamma) for gamma in gammas])[:, None]
    steps = np.array([math.expm1(-gamma / 2) ** 2 for gamma in gammas])[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = ORDERS * steps / (2 * eta**2 * s)
    return np.where(s > 0, shift + size * _log_det_term(lam, ORDERS), np.inf)


def paper_mask_curve(
    gamma: float, eta_weight: float, eta_mean: float, eta_cov: float, d: int
) -> RenyiCurve:
    """Price B_Comp of Algorithm 2 exactly, at dist_Comp at most gamma.

    Notes
    -----
    Covariance ratios lam lie in [1/(1+gamma), 1+gamma] with ``sum (lam-1)^2 <= gamma^2`` and
    ``sum (1/lam-1)^2 <= gamma^2``; ``s`` is smallest at ``lam_min = 1/(1+gamma)``. The mean is
    N(mu, eta^2 Sigma): its log-determinants add once more to the d of the covariance's.
    """
    low = 1 / (1 + gamma)
    s = 1 + ORDERS * (low - 1)
    a = ORDERS
    with np.errstate(divide="ignore", invalid="ignore"):
        value = (
            a * gamma**2 / (2 * eta_weight**2)
            + a * gamma**2 / (2 * eta_mean**2 * s)
            + a * gamma**2 / (2 * eta_cov**2 * (1 + math.sqrt(low)) ** 2 * s)
            # scaled from (1 - low)^2 to gamma^2, the bound on the sum of (1 - lam)^2
            + (d + 1) * _log_det_term(np.asarray(low), a) * (1 + gamma) ** 2
        )
    return RenyiCurve(np.where(s > 0, value, np.inf))


def largest_on_private_side(
    price: Callable[[float], float], budget: float, low: float, high: float
) -> float:
    """Find the largest x in [low, high] with ``price(x) <= budget``, price increasing.

    Rounding cannot exceed the budget: the value returned was itself priced within it.
    """
    if price(low) > budget:
        raise InvalidInput(
            f"no parameter is small enough for the budget: at {low:.3g} the price is "
            f"{price(low):.4g}, the budget {budget:.4g}; raise epsilon, delta or alpha"
        )
    if price(high) <= budget:
        return high
    a, b = math.log(low), math.log(high)
    # 60 halvings of the logarithmic range: below rounding for any sensible `low` and `high`
    for _ in range(60):
        middle = (a + b) / 2
        if price(math.exp(middle)) <= budget:
            a = middle
        else:
            b = middle
    return math.exp(a) if price(math.exp(a)) <= budget else low
