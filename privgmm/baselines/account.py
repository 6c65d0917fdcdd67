"""What a baseline costs: several draws of discrete Gaussian noise, priced as one.

Every baseline is a fixed number of Gaussian mechanisms on integer statistics, each of which may
look at what the ones before it published. Neighbours differ by replacing one row.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from privgmm.arrays import Array, positive, whole_number
from privgmm.budget import Budget
from privgmm.errors import PrivGMMError
from privgmm.privacy.composition import Price, Spend, price_of
from privgmm.privacy.curves import (
    ORDERS,
    RenyiCurve,
    gaussian_curve,
    gaussian_losses,
    largest_on_private_side,
)
from privgmm.privacy.gaussian_account import mu_squared_after

__all__ = ["Account"]

_GIVEN_UP = 3.0
"""Variance by which `privacy.gaussian_account` takes a discrete Gaussian to be smaller."""
_MOST_GAINED = 16.0
"""How many times less noise the search tries than the exact account alone would need."""
_INSIDE = 1e-7
"""Relative: how far inside the budget noise is chosen, so that pricing it afresh stays within."""


@dataclasses.dataclass(frozen=True)
class Account:
    """So many Gaussian mechanisms of equal noise, one after another.

    Parameters
    ----------
    multiplier : float
        Standard deviation of the noise, in units of the L2 sensitivity of each statistic.
    draws : int
        How many mechanisms.
    sensitivity : float
        The least that a row may move a statistic that the noise is drawn for, in steps of the
        integers; see `gaussian_curve`.
    """

    multiplier: float
    draws: int
    sensitivity: float

    def __post_init__(self) -> None:
        positive(self.multiplier, "multiplier")
        whole_number(self.draws, "draws", 1)
        positive(self.sensitivity, "sensitivity")

    @classmethod
    def for_budget(cls, budget: Budget, draws: int, sensitivity: float = 2.0**16) -> Account:
        """The least noise with which so many draws cost no more than the budget."""
        return _for_budget(budget, draws, sensitivity)

    @property
    def rho(self) -> float:
        """The same in zero-concentrated differential privacy: ``draws / (2 multiplier^2)``."""
        return self.draws / (2 * self.multiplier**2)

    def price(self) -> Price:
        """What it costs, as the package's composition takes it."""
        curve = gaussian_curve(self.multiplier, sensitivity=self.sensitivity)
        return Price((curve,) * self.draws, exact=True)

    def spend(self, delta: float) -> Spend:
        """What it costs, converted at `delta`."""
        return price_of([self.price()], delta)

    def worst_losses(self, n: int, *, rng: np.random.Generator) -> Array:
        """Privacy losses (n,) of all draws, where every statistic moves by its sensitivity."""
        return gaussian_losses(self.multiplier / math.sqrt(self.draws), n, rng=rng)


@functools.lru_cache(maxsize=256)
def _for_budget(budget: Budget, draws: int, sensitivity: float) -> Account:
    nothing = RenyiCurve(np.zeros_like(ORDERS))
    each = mu_squared_after(nothing, budget.epsilon, budget.delta) * (1 - _INSIDE) / draws
    variance = sensitivity**2 / each + _GIVEN_UP
    exact = sensitivity / math.sqrt(variance)

    def epsilon(inverse: float) -> float:
        return Account(1 / inverse, draws, sensitivity).spend(budget.delta).budget.epsilon

    # where a row moves integers by little, the curve alone may allow for less noise
    account = Account(
        1 / largest_on_private_side(epsilon, budget.epsilon, exact, _MOST_GAINED * exact),
        draws,
        sensitivity,
    )
    if not budget.covers(spent := account.spend(budget.delta).budget):
        raise PrivGMMError(f"noise for {budget} was found to cost {spent}: please report this")
    return account
