"""Composition: what the stages of one release cost together, and several releases together.

`price_of` adds up the stages of a plan. The ledger keeps the spends; `total` says what they add up
to, `told_apart` what an attacker gains by them, and `Measure` whether one more fits a cap.

Notes
-----
One account covers all methods. Fix neighbours D and D', what was shown so far, and the inner
coins of the next release (how rows are dealt, where learners start); P and Q are the laws of
its output from D and D'. In each case below there is a measure ``P' <= P`` that lacks at most
``shortfall`` of P's mass and satisfies, for every order a,

    integral of (dP'/dQ)^a dQ  <=  exp((a - 1) R(a)).

- `tight` and `lifted`, both statistics h >= 0: P' = P, R is the plan's Rényi curve.
- `tight` and `lifted`, one of them h = -1: that one always refuses and the other releases with
  probability at most ``P(Z >= theta)``. So P' = min(P, Q) lacks at most that much, and its
  ratio is at most one: R = 0.
- Any release that is (epsilon, delta)-private: P' = min(P, e^epsilon Q) lacks at most delta, and
  R(a) = epsilon. This is how `paper` enters.

Multiply the P' of all releases: the product lacks at most the sum of the shortfalls, and at one
order a its a-th moments multiply. Since ``x - e^E <= x^a e^(-(a-1)E) (a-1)^(a-1) / a^a``, the
whole sequence is (E, D)-private if, for the conversion of `RenyiCurve.epsilon`,

    sum of R_i(a) + conversion(a, D - sum of shortfalls)  <=  E.

For a given list of plans any order may be taken, so `total` takes the best. A cap must hold
even if each plan is chosen after looking at the releases before it. Then the order, and how D
is divided, must not depend on them: `Measure` fixes both before the first release. With the order
fixed, ``prod of (dP'_i/dQ_i)^a exp(-(a-1) R_i(a))`` is a supermartingale under Q for every choice
of the next plan, and the bound above still holds.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from privgmm.arrays import Array, positive
from privgmm.budget import Budget
from privgmm.errors import BudgetExceeded, InvalidInput
from privgmm.privacy.curves import ORDERS, GaussianCurve, RenyiCurve
from privgmm.privacy.gaussian_account import discrete_mu_squared, epsilon_after
from privgmm.privacy.guessing import Sight, Tradeoff

__all__ = [
    "Measure",
    "Price",
    "Spend",
    "added",
    "measure_for",
    "price_of",
    "sight_of",
    "told_apart",
    "total",
]

_CONVERSION_SHARE = 0.1
"""Of a cap's delta: what the conversion gets. The rest is for shortfalls, which add up, while
the conversion feels its share only through a logarithm."""

_ROUNDING = 1e-9
"""Relative slack around a cap, far above the rounding of sums of spends; `Budget.covers` has the
same."""
_MANY = 10**6
"""Stands for "no limit": an epsilon that promises nothing, and the most releases ever counted."""
_LEAST = 1e-12
"""Least epsilon: a `Budget` must have a positive one, even if a release cannot leak."""
_BELOW_ONE = float(np.nextafter(1.0, 0.0))
"""Largest delta: that of a `Budget` must lie below one."""

_Charges = Callable[["Spend"], tuple[Array, Array]]


@dataclasses.dataclass(frozen=True)
class Spend:
    """The cost of one release, released or refused.

    Parameters
    ----------
    budget : Budget
        Its own guarantee.
    curve : RenyiCurve or None
        Its Rényi account; None if it has none (method `paper`).
    shortfall : float
        The delta it needs in addition to the curve; that of `budget` without a curve.
    sight : Sight or None
        What else is known of its draws, for `told_apart`; None if nothing is.
    """

    budget: Budget
    curve: RenyiCurve | None
    shortfall: float
    sight: Sight | None = dataclasses.field(default=None, compare=False, repr=False)


@dataclasses.dataclass(frozen=True)
class Price:
    """The cost of one stage of a release.

    Parameters
    ----------
    curves : tuple of RenyiCurve
        The Rényi accounts of what it draws; none if it is priced by (epsilon, delta) alone.
    shortfall : float
        The delta it needs in addition to the curves.
    gate : bool
        Whether the stage may end the release, and its shortfall is the chance to go on where a
        neighbouring data set never does. `price_of` says why such a first stage costs less.
    budget : Budget or None
        The price of a stage without a curve.
    rounding : float
        The chance that floating point publishes something else than real numbers would. It is
        taken off delta whether or not the stage is a gate; a `budget` includes it.
    chances : tuple of float
        Of a gate whose first curve is that of a noisy whole number, which one row moves by at most
        one: the chance to go on at each of its values, from the least that may go on. Empty if
        nothing but the curves is known.
    variation : float
        A bound on the total variation of what its other curves price, Gaussian ones aside; 1 if
        none is known.
    exact : bool
        Whether all curves are Gaussian and may be priced exactly, where such stages come last.
    """

    curves: tuple[RenyiCurve, ...]
    shortfall: float = 0.0
    gate: bool = False
    budget: Budget | None = None
    rounding: float = 0.0
    chances: tuple[float, ...] = ()
    variation: float = 1.0
    exact: bool = False

    def __post_init__(self) -> None:
        if bool(self.curves) == (self.budget is not None):
            raise InvalidInput("a price is made of curves or of a budget, one of the two")
        if self.exact and len(self._gaussian) < max(len(self.curves), 1):
            raise InvalidInput("only Gaussian mechanisms can be priced exactly")

    @property
    def _gaussian(self) -> list[GaussianCurve]:
        return [curve for curve in self.curves if isinstance(curve, GaussianCurve)]

    @property
    def mu_squared(self) -> float:
        """mu^2 of all that is drawn, where that may be priced exactly, else infinite.

        Infinite also if the noise on integers is too narrow for an exact price.
        """
        return math.fsum(self._mus_squared) if self.exact else math.inf

    @property
    def multipliers(self) -> tuple[float, ...]:
        """Noise of each Gaussian mechanism, in sensitivities; on integers it counts for less."""
        return tuple(mu_squared**-0.5 for mu_squared in self._mus_squared)

    @property
    def _mus_squared(self) -> list[float]:
        return [
            discrete_mu_squared(curve.multiplier * curve.sensitivity, curve.sensitivity)
            for curve in self._gaussian
        ]

    @classmethod
    def of_budget(cls, budget: Budget) -> Price:
        """Price a stage that is known by its (epsilon, delta) alone."""
        return cls((), budget.delta, budget=budget)


def price_of(prices: Sequence[Price], delta: float) -> Spend:
    """Compute what stages cost one after another, converted at `delta`.

    Parameters
    ----------
    prices : sequence of Price
        In the order in which the stages run; each may look at what the ones before it published.
    delta : float
        Where to convert.

    Notes
    -----
    Fix two neighbours. If the first stage is a gate, there are two cases. Either both neighbours
    may pass it, and then all curves add. Or one of them never passes: it always refuses, and the
    other goes on with probability at most the gate's shortfall, so that the pair is
    (0, shortfall)-close for any later stages. The cases exclude each other, so the whole is what
    the curves prove at the SAME delta, if that is no less than the shortfall.

    The shortfall of any other stage, a later gate included, and the rounding of every stage are
    taken off delta before the conversion: given what was published before, its part of the output
    may lie outside what the curve bounds with that probability. A stage without a curve counts with
    its epsilon at every order and its delta as shortfall; alone it keeps its own price.

    Gaussian mechanisms that come last are priced exactly, too, after the curves of what comes
    before them (`gaussian_account`), and the smaller epsilon counts.
    """
    if not prices:
        raise InvalidInput("a release needs at least one stage")
    first = prices[0]
    sight = sight_of(prices)
    if len(prices) == 1 and first.budget is not None:
        return Spend(first.budget, None, first.budget.delta, sight)
    gate = first.shortfall if first.gate else 0.0
    rest = math.fsum(
        [price.shortfall for price in (prices[1:] if first.gate else prices)]
        + [price.rounding for price in prices]
    )
    at = max(delta, gate)
    whole = RenyiCurve(_losses(prices))
    if rest >= at:
        # the shortfalls use delta up and leave nothing for the conversion
        nothing = Budget(_MANY, min(max(at, rest), _BELOW_ONE))
        return Spend(nothing, whole, max(gate, rest), sight)
    proved = min(whole.epsilon(at - rest), _epsilon_of_exact(prices, at - rest))
    return Spend(Budget(max(proved, _LEAST), at), whole, max(gate, rest), sight)


def _epsilon_of_exact(prices: Sequence[Price], delta: float) -> float:
    """Compute epsilon with exact prices for the last stages; infinite if none allows it."""
    first = len(prices)
    while first and prices[first - 1].exact:
        first -= 1
    if first == len(prices):
        return math.inf
    return epsilon_after(
        RenyiCurve(_losses(prices[:first])),
        math.fsum(price.mu_squared for price in prices[first:]),
        delta,
    )


def _losses(prices: Sequence[Price]) -> Array:
    """Add the Rényi losses of stages one after another, at each order."""
    losses = np.zeros_like(ORDERS)
    for price in prices:
        for curve in price.curves:
            losses = losses + curve.values
        if price.budget is not None:
            losses = losses + price.budget.epsilon
    return losses


def sight_of(prices: Sequence[Price]) -> Sight:
    """Describe what an attacker sees of stages that run one after another."""
    seen = Sight()
    for number, price in enumerate(prices):
        seen = seen.and_then(_seen(price, first=number == 0), shows_counts=False)
    return seen


def _seen(price: Price, *, first: bool) -> Sight:
    if price.budget is not None:
        return Sight.of_budget(price.budget)
    gate = first and price.gate and bool(price.chances)
    seen = Sight.of_curves(price.curves[1:] if gate else price.curves, price.variation)
    if not gate:
        return dataclasses.replace(seen, shortfall=price.shortfall + price.rounding)
    return dataclasses.replace(
        seen,
        shortfall=price.rounding,
        chances=price.chances,
        gate_shortfall=price.shortfall,
        count=price.curves[0],
    )


def added(spends: Iterable[Spend]) -> Budget:
    """Add up epsilons and deltas; a delta of one or more becomes the float just below one."""
    listed = list(spends)
    if not listed:
        raise InvalidInput("nothing was spent: there is no total")
    epsilon = math.fsum(spend.budget.epsilon for spend in listed)
    delta = math.fsum(spend.budget.delta for spend in listed)
    return Budget(epsilon, min(delta, _BELOW_ONE))


def total(spends: Iterable[Spend], delta: float | None = None) -> Budget:
    """Compute the guarantee of a list of releases together.

    Parameters
    ----------
    spends : iterable of Spend
        At least one.
    delta : float, optional
        Where to convert; by default the sum of the deltas.

    Returns
    -------
    Budget
        The smaller of the joint Rényi account and plain addition, at `delta` if that can be
        had, else by addition alone; never below the cost of any one of them.
    """
    listed = list(spends)
    plain = added(listed)
    at = plain.delta if delta is None else positive(delta, "delta", below=1.0)
    choices = [plain.epsilon] if plain.delta <= at else []
    # for one release the two cases of a gate exclude each other: its own price is the best
    if len(listed) > 1:
        choices += [_joint(listed, at, charges) for charges in (_by_curve, _charges)]
    best = min(choices, default=math.inf)
    if not math.isfinite(best):
        return plain
    return Budget(
        max(best, *(spend.budget.epsilon for spend in listed)),
        max(at, *(spend.budget.delta for spend in listed)),
    )


def told_apart(spends: Iterable[Spend]) -> Tradeoff:
    """Bound how well two neighbours can be distinguished by one release or several together.

    Like `total` it holds for plans that were fixed before the first release. The bound is never
    weaker than that of (epsilon, delta), and mostly far stronger.
    """
    listed = list(spends)
    if not listed:
        raise InvalidInput("nothing was spent: there is nothing by which to distinguish data sets")
    whole = Tradeoff.of_budget(total(listed))
    if len(listed) == 1 and listed[0].curve is None:
        return whole
    sights = [_sight(spend) for spend in listed]
    seen = functools.reduce(Sight.and_then, sights) if len(sights) > 1 else sights[0]
    return seen.tradeoff().and_also(whole)


def _sight(spend: Spend) -> Sight:
    if spend.sight is not None:
        return spend.sight
    if spend.curve is None:
        return Sight.of_budget(spend.budget)
    return Sight(curve=spend.curve, shortfall=spend.shortfall)


def _joint(spends: list[Spend], delta: float, charges: _Charges) -> float:
    """Compute the best order's epsilon at `delta`; infinite if the shortfalls use delta up."""
    losses, shortfalls = np.zeros_like(ORDERS), np.zeros_like(ORDERS)
    for spend in spends:
        loss, shortfall = charges(spend)
        losses, shortfalls = losses + loss, shortfalls + shortfall
    left = delta - shortfalls
    values = losses + _conversion(np.where(left > 0, left, delta))
    return max(0.0, float(np.where(left > 0, values, np.inf).min()))


@dataclasses.dataclass(frozen=True)
class Measure:
    """The rule that compares the spends of one data set with its cap, fixed before the first.

    Parameters
    ----------
    cap : Budget
    order : int or None
        Position in `ORDERS` of the one order at which curves are added. None: epsilons and
        deltas are added.
    """

    cap: Budget
    order: int | None

    def __post_init__(self) -> None:
        if self.order is not None and not 0 <= self.order < ORDERS.size:
            raise InvalidInput(f"order must lie in 0..{ORDERS.size - 1}, got {self.order}")

    @classmethod
    def choose(cls, cap: Budget, first: Spend) -> Measure:
        """Choose the measure by which most releases priced like the first fit the cap."""
        plain = min(cap.epsilon / first.budget.epsilon, cap.delta / first.budget.delta)
        losses, shortfalls = _charges(first)
        with np.errstate(divide="ignore"):
            fits = np.minimum(_room(cap) / losses, _shortfall_room(cap) / shortfalls)
        best = int(np.argmax(fits))
        return cls(cap, best if math.floor(float(fits[best])) > plain else None)

    def admits(self, spends: Sequence[Spend]) -> bool:
        """Return whether these spends, together and each by itself, stay within the cap."""
        if not all(self.cap.covers(spend.budget) for spend in spends):
            return False
        if self.order is None:
            return self.cap.covers(added(spends))
        epsilon, delta = self._left(spends)
        return epsilon >= 0 and delta >= 0

    def remaining(self, spends: Sequence[Spend]) -> Budget | None:
        """Compute an (epsilon, delta) that one more release may surely cost; None if none may.

        This counts it by these two numbers alone. Releases with a curve cost far less at one
        order, so `more` of them may fit than this suggests.
        """
        epsilon, delta = self._left(spends)
        epsilon -= _ROUNDING * self.cap.epsilon
        delta -= _ROUNDING * self.cap.delta
        # a remainder as small as the rounding of sums is not room for a release
        if epsilon <= _ROUNDING * self.cap.epsilon or delta <= _ROUNDING * self.cap.delta:
            return None
        return Budget(min(epsilon, self.cap.epsilon), min(delta, self.cap.delta))

    def more(self, spends: Sequence[Spend], like: Spend) -> int:
        """Count the further releases priced like this one that fit, with room for rounding."""
        if not self.cap.covers(like.budget):
            return 0
        left, cost = self._left(spends), self._cost(like)
        share = min(
            have / need if need > 0 else math.inf for have, need in zip(left, cost, strict=True)
        )
        slack = _ROUNDING if self.order is None else -_ROUNDING
        return max(0, math.floor(min(share * (1 + slack), _MANY)))

    def _cost(self, spend: Spend) -> tuple[float, float]:
        """Return what a spend takes of the two rooms: losses (or epsilons), and deltas."""
        if self.order is None:
            return spend.budget.epsilon, spend.budget.delta
        losses, shortfalls = _charges(spend)
        return float(losses[self.order]), float(shortfalls[self.order])

    def _left(self, spends: Sequence[Spend]) -> tuple[float, float]:
        costs = [self._cost(spend) for spend in spends]
        if self.order is None:
            epsilon, delta = self.cap.epsilon, self.cap.delta
        else:
            epsilon, delta = float(_room(self.cap)[self.order]), _shortfall_room(self.cap)
        return (
            epsilon - math.fsum(loss for loss, _ in costs),
            delta - math.fsum(shortfall for _, shortfall in costs),
        )


def measure_for(cap: Budget, spends: Sequence[Spend], kept: Measure | None) -> Measure:
    """Return the measure under which the last spend fits, or raise `BudgetExceeded`.

    Parameters
    ----------
    cap : Budget
    spends : sequence of Spend
        All of one data set, the new one last.
    kept : Measure or None
        That of earlier spends; None to choose it now.
    """
    measure = Measure.choose(cap, spends[0]) if kept is None else kept
    if not measure.admits(spends):
        raise BudgetExceeded(
            f"this release would bring the total of the data set to {total(spends, cap.delta)}, "
            f"beyond what its cap {cap} allows for sure: nothing was drawn and nothing spent"
        )
    return measure


def _by_curve(spend: Spend) -> tuple[Array, Array]:
    """Return loss and shortfall at each order: the curve's, else (epsilon, delta)."""
    if spend.curve is None:
        return np.full_like(ORDERS, spend.budget.epsilon), np.full_like(ORDERS, spend.shortfall)
    return spend.curve.values, np.full_like(ORDERS, spend.shortfall)


def _charges(spend: Spend) -> tuple[Array, Array]:
    """Return loss and shortfall at each order, (epsilon, delta) where the curve exceeds epsilon.

    Which of the two holds at an order depends on the plan alone.
    """
    losses, shortfalls = _by_curve(spend)
    less = losses <= spend.budget.epsilon
    return (
        np.where(less, losses, spend.budget.epsilon),
        np.where(less, shortfalls, spend.budget.delta),
    )


def _conversion(delta: Array | float) -> Array:
    """Compute what converting Rényi losses to (epsilon, delta) adds at each order."""
    a = ORDERS
    return np.asarray(np.log1p(-1 / a) - (np.log(delta) + np.log(a)) / (a - 1))


def _room(cap: Budget) -> Array:
    """Compute the most that losses may add up to at each order.

    That is epsilon less the price of the conversion.
    """
    return np.asarray(cap.epsilon - _conversion(cap.delta * _CONVERSION_SHARE))


def _shortfall_room(cap: Budget) -> float:
    return cap.delta * (1 - _CONVERSION_SHARE)
