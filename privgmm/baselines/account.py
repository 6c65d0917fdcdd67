"""Price several draws of discrete Gaussian noise as one: what a baseline costs.

Every baseline is a fixed number of Gaussian mechanisms on integer statistics, each of which may
look at what the ones before it published. Neighbours differ by replacing one row.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from privgmm.arrays import positive, whole_number
from privgmm.budget import Budget
from privgmm.errors import PrivGMMError
from privgmm.privacy.composition import Price, Spend, price_of
from privgmm.privacy.curves import (
    ORDERS,
    RenyiCurve,
    gaussian_curve,
    largest_on_private_side,
)
from privgmm.privacy.gaussian_account import mu_squared_after

__all__ = ["NoiseAccount"]

_GIVEN_UP = 3.0
"""Variance by which `privacy.gaussian_account` prices a discrete Gaussian as if it were smaller."""
_MOST_GAINED = 16.0
"""The search tries down to 1/16 of the noise that the exact account alone would need."""
_INSIDE = 1e-7
"""Relative margin: noise is chosen this far inside the budget, so that rounding stays within it."""


@dataclasses.dataclass(frozen=True)
class NoiseAccount:
    """A number of Gaussian mechanisms of equal noise, one after another.

    Parameters
    ----------
    multiplier : float
        Standard deviation of the noise, in units of the L2 sensitivity of each statistic.
    draws : int
        How many mechanisms.
    sensitivity : float
        L2 sensitivity of each statistic, or a lower bound of it, in steps of
        the integers; see `gaussian_curve`.
    """

    multiplier: float
    draws: int
    sensitivity: float

    def __post_init__(self) -> None:
        positive(self.multiplier, "multiplier")
        whole_number(self.draws, "draws", 1)
        positive(self.sensitivity, "sensitivity")

    @classmethod
    def for_budget(cls, budget: Budget, draws: int, sensitivity: float = 2.0**16) -> NoiseAccount:
        """Find the least noise with which this number of draws costs no more than the budget."""
        return _for_budget(budget, draws, sensitivity)

    def price(self) -> Price:
        """Compute what it costs, as the package's composition takes it."""
        curve = gaussian_curve(self.multiplier, sensitivity=self.sensitivity)
        return Price((curve,) * self.draws, exact=True)

    def spend(self, delta: float) -> Spend:
        """Compute what it costs, converted at `delta`."""
        return price_of([self.price()], delta)


@functools.lru_cache(maxsize=256)
def _for_budget(budget: Budget, draws: int, sensitivity: float) -> NoiseAccount:
    nothing = RenyiCurve(np.zeros_like(ORDERS))
    each = mu_squared_after(nothing, budget.epsilon, budget.delta) * (1 - _INSIDE) / draws
    variance = sensitivity**2 / each + _GIVEN_UP
    exact = sensitivity / math.sqrt(variance)

    def epsilon(inverse: float) -> float:
        return NoiseAccount(1 / inverse, draws, sensitivity).spend(budget.delta).budget.epsilon

    # where a row moves integers by little, the curve alone may allow for less noise
    account = NoiseAccount(
        1 / largest_on_private_side(epsilon, budget.epsilon, exact, _MOST_GAINED * exact),
        draws,
        sensitivity,
    )
    if not budget.covers(spent := account.spend(budget.delta).budget):
        raise PrivGMMError(f"noise for {budget} was found to cost {spent}: please report this")
    return account
