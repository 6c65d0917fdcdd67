"""How well an attacker can distinguish two neighbouring data sets by what a plan draws.

From (epsilon, delta) alone, an attacker who knows every other row may be right 73 % of the time at
epsilon 1. The mechanisms used here are far better than that: `Sight` describes what is known of
them, and from it follows a `Tradeoff`, proved for every pair of neighbours, and its `ceiling`.

Notes
-----
Fix neighbours and let P, Q be the laws of all that is published. For a real epsilon,

    H(epsilon) = sup over events E of P(E) - exp(epsilon) Q(E);

H(0) is their total variation, and a guess between the two, each with chance one half, is right with
probability at most ``(1 + H(0)) / 2``. A test that says P under Q with chance a (a false
alarm) misses P with chance at least ``1 - H(epsilon) - exp(epsilon) a``, for every epsilon. Bounds
``delta(epsilon) >= H(epsilon)`` for both orders of the pair are all that a `Tradeoff` is made of.
``H(-epsilon)`` of a pair is ``1 - exp(-epsilon) (1 - H(epsilon))`` of the swapped pair, so
epsilon >= 0 is enough; and H is convex in ``exp(epsilon)``, so chords lie above it.

*Gaussian mechanisms*, mu in all, have ``delta(epsilon)`` in closed form
(`gaussian_account.gaussian_delta`), and no pair of neighbours does better.

*Known by a curve, then Gaussian.* Let p, q be the laws of what the stages known by a Rényi curve
publish, ``L = ln dp/dq``. Given that, the rest is Gaussian, so
``H(epsilon) <= E_p g(L)`` with ``g(L) = delta(epsilon - L)``. Of the law of L under p it is known
that

    E exp(-L) = 1,    E L <= K,    E -L exp(-L) <= K,    E max(0, 1 - exp(-L)) <= V:

p and q have the same null sets; both Kullback-Leibler divergences are at most the curve at every
order, and K is its least value; V is a bound on their total variation, if one is known. So
whenever

    g(L) <= y_0 + y_1 (1 - e^-L) + y_2 (L - 1 + e^-L) + y_3 (1 - e^-L - L e^-L)
            + y_4 max(0, 1 - e^-L)        for all L,

with y_2, y_3, y_4 >= 0, then ``H(epsilon) <= y_0 + K (y_2 + y_3) + V y_4``. The best such numbers
are found by linear programming on some hundred values of L. Any numbers prove something, and
`_certified` makes sure of it: by how much the inequality fails anywhere, between the values too,
is added to y_0. Without a Gaussian part and without V this is Pinsker's inequality, or better; with
a Gaussian part that dominates it is nearly what a Gaussian instead of the curve would give.

*A gate.* A test shows one bit. Let its count be h and h' on the two data sets, whole numbers that
differ by at most one, and a, b the chances to pass. If both are positive,

    H(epsilon) = max(0, (1 - a) - e^epsilon (1 - b)) + a H_rest(epsilon + ln b - ln a),

where H_rest belongs to what follows a pass; the largest over all counts is taken. If one of the
data sets never passes, then the other one does with probability at most the gate's shortfall, and
H is no more than that. The cases exclude each other.

*Anything else* that may fail with some probability, a shortfall, adds it to delta. What is known by
(epsilon, delta) alone has the trade-off of randomised response, shown openly with probability delta
(Kairouz, Oh and Viswanath, 2015).

*The mask* is better than its curve says (`quadratic_variation`). Between two matrices that it may
mask there is a path, along which row i of ``I + eta G`` is multiplied by ``exp(t c_i)``, t from 0
to 1, where ``sum of c_i^2 <= gamma^2 / 4``. On the way nothing changes but the unit, so the score
has one law all along: that of ``X = sum of c_i (g_i / eta + |G_i|^2 - p)``, g_i the i-th entry of
the standard normal row G_i. Since the derivative of the density is density times score,

    total variation <= E |X| / 2,

for k components with all their c together.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import ndtr

from privgmm.arrays import Array, frozen
from privgmm.budget import Budget
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.privacy.curves import ORDERS, GaussianCurve, RenyiCurve
from privgmm.privacy.gaussian_account import discrete_mu_squared

__all__ = ["Sight", "Tradeoff", "quadratic_variation", "response_curve"]

_POINTS = 20
"""Epsilons of a trade-off; chords between them lie above H, so any number of them is safe."""
_NODES, _CHECKS = 121, 2001
"""Losses at which the linear program poses the inequality, and at which `_certified` checks it."""
_RIGHTMOST = 12.0
"""Largest loss on the grid; `_certified` bounds what lies beyond, so any value is safe."""
_ROUNDING = 1e-9
"""Added to every delta: far more than rounding, and than discrete noise adds to continuous."""
_HOPELESS = 30.0
"""Largest mu and divergence for which a bound is computed; beyond, the trivial one is returned."""
_SAFETY = 2.0
"""Factor by which second derivatives may be larger between two neighbouring values than at them."""


# -------------------------------------------------------------------------------- trade-offs


@dataclasses.dataclass(frozen=True, eq=False)
class Tradeoff:
    """A bound on how well any two neighbouring data sets can be distinguished.

    Parameters
    ----------
    epsilons : array (m,)
        Increasing from 0.
    deltas : array (m,)
        For every event, ``P(event) - exp(epsilon) Q(event)`` is at most this, P and Q the laws of
        what neighbours publish, in either order.
    """

    epsilons: Array
    deltas: Array

    def __post_init__(self) -> None:
        epsilons, deltas = np.asarray(self.epsilons), np.asarray(self.deltas)
        if (
            epsilons.ndim != 1
            or epsilons.shape != deltas.shape
            or epsilons.size == 0
            or epsilons[0] != 0
            or not (np.diff(epsilons) > 0).all()
            or not (deltas >= 0).all()
        ):
            raise InvalidInput(
                "a trade-off needs epsilons that increase from 0, and as many deltas >= 0"
            )
        kept = np.minimum(np.minimum.accumulate(deltas), 1.0)
        object.__setattr__(self, "epsilons", frozen(epsilons))
        object.__setattr__(self, "deltas", frozen(kept))

    @classmethod
    def of_budget(cls, budget: Budget) -> Tradeoff:
        """Return all that (epsilon, delta) implies: randomised response, open with chance delta."""
        # H is a straight line in exp(epsilon) from its value at 0 down to delta
        open_ = budget.delta + (1 - budget.delta) * math.tanh(budget.epsilon / 2)
        return cls(np.array([0.0, budget.epsilon]), np.array([open_, budget.delta]))

    @property
    def variation(self) -> float:
        """A bound on the total variation between what neighbours publish."""
        return float(self.deltas[0])

    @property
    def ceiling(self) -> float:
        """A bound on the chance of a right guess between two neighbours, each as likely."""
        return (1 + self.variation) / 2

    def delta(self, epsilon: npt.ArrayLike) -> Array:
        """Bound delta at any real epsilon, by chords in ``exp(epsilon)``.

        Beyond the last value the bound stays constant.
        """
        wanted = np.asarray(epsilon, dtype=np.float64)
        size = np.minimum(np.abs(wanted), self.epsilons[-1])
        found = np.interp(np.exp(size), np.exp(self.epsilons), self.deltas)
        # negative epsilon: the formula of the swapped pair, for which the same bound holds
        swapped = 1 - np.exp(-np.abs(np.minimum(wanted, 0.0))) * (1 - found)
        return np.asarray(np.where(wanted >= 0, found, swapped))

    def missed(self, false_alarms: npt.ArrayLike) -> Array:
        """Bound from below the chance to miss a change, given the chance of a false alarm.

        Convex, decreasing, and its own inverse.
        """
        a = np.asarray(false_alarms, dtype=np.float64)[..., None]
        steep = 1 - self.deltas - np.exp(self.epsilons) * a
        flat = np.exp(-self.epsilons) * (1 - self.deltas - a)
        return np.asarray(np.maximum(np.maximum(steep, flat).max(axis=-1), 0.0))

    def and_also(self, other: Tradeoff) -> Tradeoff:
        """Combine two bounds that both hold: the smaller one at every epsilon."""
        levels = np.union1d(self.epsilons, other.epsilons)
        return Tradeoff(levels, np.minimum(self.delta(levels), other.delta(levels)))

    def behind(self, chances: npt.ArrayLike, shortfall: float) -> Tradeoff:
        """Bound a gate that is followed by this after a pass.

        Parameters
        ----------
        chances : array (m,)
            Of passing, at each value of a count that one row moves by at most one.
        shortfall : float
            The largest chance to pass where a neighbour never does.
        """
        listed = np.asarray(chances, dtype=np.float64)
        low, high = listed[:-1], listed[1:]
        # a Gaussian of this mu would pass as unevenly
        scale = 2.5 * float(np.abs(high - low).max(initial=0.0))
        epsilons = np.union1d(self.epsilons, _levels(scale))
        # if both pass for sure, only what follows the gate is seen
        deltas = np.maximum(self.delta(epsilons), shortfall)
        for a, b in ((low, high), (high, low)):
            levels = epsilons[:, None]
            with np.errstate(divide="ignore"):
                shifted = levels + np.log(b) - np.log(a)
            refused = np.maximum((1 - a) - np.exp(levels) * (1 - b), 0.0)
            both = refused + a * self.delta(shifted)
            deltas = np.maximum(deltas, both.max(axis=1, initial=0.0))
        return Tradeoff(epsilons, deltas)


def _levels(scale: float) -> Array:
    """Choose epsilons from 0 to where a loss of this size, or a Gaussian of this mu, is spent."""
    steps = np.linspace(0, 1, _POINTS)
    return np.asarray(4.5 * max(scale, 1e-6) * steps * (0.4 + 0.6 * steps))


# ---------------------------------------------------------------------- what is to be seen


@dataclasses.dataclass(frozen=True)
class Sight:
    """The view of an attacker on one release or several, grouped by how it is known.

    Parameters
    ----------
    mu_squared : float
        Of all Gaussian mechanisms together.
    curve : RenyiCurve or None
        Of what is known by a Rényi curve, the counts of gates aside; None if there is nothing.
    variation : float
        A bound on the total variation of that alone, 1 if none is known.
    shortfall : float
        The chance of all that may go wrong, gates aside.
    chances : tuple of float
        Of passing a gate that comes first, at each value of its count; empty without one.
    gate_shortfall : float
        The chance to pass it where a neighbour never does.
    count : RenyiCurve or None
        What the gate's count with its noise would cost if it were shown.
    """

    mu_squared: float = 0.0
    curve: RenyiCurve | None = None
    variation: float = 1.0
    shortfall: float = 0.0
    chances: tuple[float, ...] = ()
    gate_shortfall: float = 0.0
    count: RenyiCurve | None = None

    @classmethod
    def of_budget(cls, budget: Budget) -> Sight:
        """Describe what is known by its (epsilon, delta) alone."""
        return cls(
            curve=response_curve(budget.epsilon),
            variation=math.tanh(budget.epsilon / 2),
            shortfall=budget.delta,
        )

    @classmethod
    def of_curves(cls, curves: Sequence[RenyiCurve], variation: float = 1.0) -> Sight:
        """Describe what is known by Rényi curves, those of Gaussian mechanisms exactly.

        `variation` bounds the total variation of the others. Discrete noise that is too narrow for
        an exact price counts by its curve.
        """
        mu_squared, others = 0.0, []
        for curve in curves:
            if isinstance(curve, GaussianCurve):
                sigma = curve.multiplier * curve.sensitivity
                exact = discrete_mu_squared(sigma, curve.sensitivity)
                if exact < 2 / curve.multiplier**2:
                    mu_squared += exact
                    continue
                variation = 1.0
            others.append(curve)
        whole = functools.reduce(RenyiCurve.__add__, others) if others else None
        return cls(mu_squared, whole, variation if others else 1.0)

    def tradeoff(self) -> Tradeoff:
        """Bound how well neighbours can be distinguished by this."""
        return _tradeoff(self)

    def and_then(self, other: Sight, *, shows_counts: bool = True) -> Sight:
        """Describe both seen; the second may depend on the first, its price may not.

        Parameters
        ----------
        other : Sight
        shows_counts : bool
            Whether to take the bit of a gate for its noisy count, which says more. A gate that
            comes first may keep its bit if all else is seen only after a pass.
        """
        first = self.with_counts() if shows_counts else self
        second = other.with_counts() if shows_counts else other
        if second.chances and first != Sight():
            raise InvalidInput("a gate that does not come first must show its count")
        curved = [sight for sight in (first, second) if sight.curve is not None]
        curves = [sight.curve for sight in curved if sight.curve is not None]
        gate = second if second.chances else first
        return Sight(
            first.mu_squared + second.mu_squared,
            functools.reduce(RenyiCurve.__add__, curves) if curves else None,
            min(1.0, math.fsum(sight.variation for sight in curved)) if curved else 1.0,
            first.shortfall + second.shortfall,
            gate.chances,
            gate.gate_shortfall,
            gate.count,
        )

    def with_counts(self) -> Sight:
        """Replace the bit of a gate by its noisy count, which says more."""
        if self.count is None:
            return self
        bare = Sight(
            self.mu_squared, self.curve, self.variation, self.shortfall + self.gate_shortfall
        )
        return bare.and_then(Sight.of_curves([self.count]))


@functools.lru_cache(maxsize=128)
def _tradeoff(sight: Sight) -> Tradeoff:
    mu = math.sqrt(sight.mu_squared)
    divergence = 0.0 if sight.curve is None else float(sight.curve.values.min())
    if not (mu < _HOPELESS and divergence < _HOPELESS):
        return Tradeoff(np.zeros(1), np.ones(1))
    levels = _levels(math.hypot(mu, math.sqrt(2 * divergence)))
    if sight.curve is None:
        deltas = _gaussian_delta(levels, mu)
    else:
        variation = min(1.0, sight.variation)
        whole = RenyiCurve(sight.curve.values + ORDERS * sight.mu_squared / 2)
        deltas = np.array(
            [
                min(whole.delta(level), _after_curve(divergence, variation, mu, float(level)))
                for level in levels
            ]
        )
    rest = Tradeoff(levels, deltas + sight.shortfall + _ROUNDING)
    return rest.behind(sight.chances, sight.gate_shortfall) if sight.chances else rest


def response_curve(epsilon: float) -> RenyiCurve:
    """Price randomised response, the most that pure epsilon-privacy allows, at each order."""
    a = ORDERS
    likely = -math.log1p(math.exp(-epsilon))
    rare = likely - epsilon
    logs = np.logaddexp(a * likely + (1 - a) * rare, a * rare + (1 - a) * likely)
    return RenyiCurve(logs / (a - 1))


def _gaussian_delta(epsilon: Array, mu: float) -> Array:
    """Compute the least delta of Gaussian noise of ``1/mu`` sensitivities at any real epsilon."""
    if mu == 0:
        return np.asarray(np.maximum(-np.expm1(np.minimum(epsilon, 1.0)), 0.0))
    scaled = epsilon / mu
    with np.errstate(over="ignore", invalid="ignore"):
        second = np.exp(np.minimum(epsilon, 700.0)) * ndtr(-mu / 2 - scaled)
    return np.asarray(np.maximum(ndtr(mu / 2 - scaled) - second, 0.0))


# --------------------------------------------------------------- by a curve, then Gaussian


def _basis(losses: Array) -> Array:
    """Compute the five functions (m, 5) of the loss whose means are known."""
    odds = np.exp(-losses)
    return np.stack(
        [
            np.ones_like(losses),
            1 - odds,
            losses - 1 + odds,
            1 - odds - losses * odds,
            np.maximum(1 - odds, 0.0),
        ],
        axis=1,
    )


def _bends(losses: Array) -> Array:
    """Compute the sizes (m, 5) of the second derivatives of `_basis`."""
    odds = np.exp(-losses)
    return np.stack([0 * odds, odds, odds, np.abs(1 - losses) * odds, odds], axis=1)


def _grid(scale: float, size: int) -> Array:
    """Place losses on a grid that contains 0 and is densest around it.

    Beyond the last loss g is at most one, which the sum reaches there. Beyond the first one the sum
    increases to the left, see `_certified`.
    """
    leftmost = min(max(20 * scale, 1.0), 6.0)
    half = size // 2
    left = scale * np.sinh(np.linspace(0, math.asinh(leftmost / scale), half + 1))[:0:-1]
    right = scale * np.sinh(np.linspace(0, math.asinh(_RIGHTMOST / scale), half + 1))
    return np.concatenate([-left, right])


def _after_curve(divergence: float, variation: float, mu: float, epsilon: float) -> float:
    """Bound delta at `epsilon` for this divergence and variation, followed by a Gaussian."""
    scale = max(math.sqrt(2 * divergence), 1e-6)
    nodes = _grid(scale, _NODES)
    basis = _basis(nodes)
    means = np.array([1.0, 0.0, divergence, divergence, variation])
    sizes = np.abs(basis).max(axis=1)
    at_first = float(nodes[0])
    # beyond the first node the sum must not fall: y_1 <= y_2 (1 - e^L) + y_3 |L| there
    slope = np.array([0.0, 1.0, math.expm1(at_first), at_first, 0.0])
    least = _gaussian_delta(epsilon - nodes, mu)
    least[-1] = 1.0
    found = scipy.optimize.linprog(
        means,
        A_ub=np.concatenate([-basis / sizes[:, None], slope[None]]),
        b_ub=np.concatenate([-least / sizes, [0.0]]),
        bounds=[(None, None), (None, None), (0, None), (0, None), (0, None)],
        method="highs",
    )
    if found.x is None:
        raise PrivGMMError(
            f"no bound on the attacker was found: {found.message}; please report this plan"
        )
    y = np.concatenate([found.x[:2], np.maximum(found.x[2:], 0.0)])
    y[1] -= max(0.0, float(slope @ y))
    bound = float(means @ y) + _certified(y, scale, mu, epsilon)
    return min(1.0, bound, variation) if mu == 0 else min(1.0, bound)


def _certified(y: Array, scale: float, mu: float, epsilon: float) -> float:
    """Bound by how much g exceeds the sum of the five functions anywhere; 0 if nowhere.

    Between two values the gap is no more than at the larger of them, and an eighth of the square of
    their distance times its second derivative: those of the five functions, and
    ``g'' = n(mu/2 - (epsilon - L)/mu) / mu - g'`` with n the normal density and ``0 <= g' <= 1``.
    Without a Gaussian part g is the larger of 0 and ``1 - exp(epsilon - L)``, each smooth.

    Left of the first value the sum increases towards the left, as its derivative there,
    ``exp(-L) (y_2 + y_3 |L| - y_1) - y_2``, grows, while g falls. Right of the last one g <= 1, and
    of the sum only ``y_1 exp(-L)`` can fall.
    """
    losses = _grid(scale, _CHECKS)
    gap = _gaussian_delta(epsilon - losses, mu) - _basis(losses) @ y
    if mu > 0:
        normal = np.exp(-((mu / 2 - (epsilon - losses) / mu) ** 2) / 2) / math.sqrt(2 * math.pi)
        bend = normal / mu + 1.0
    else:
        bend = np.exp(np.minimum(epsilon - losses, 0.0))
    bend = bend + _bends(losses) @ np.abs(y)
    between = np.maximum(gap[1:], gap[:-1]) + _SAFETY * np.diff(losses) ** 2 / 8 * np.maximum(
        bend[1:], bend[:-1]
    )
    falling = max(0.0, -float(y[1])) * math.exp(-losses[-1])
    right = 1 - float((_basis(losses[-1:]) @ y)[0]) + falling
    return max(0.0, float(between.max()), right)


# ------------------------------------------------------------------------------- the mask


def quadratic_variation(variance: float, curvature: float) -> float:
    """Bound the total variation along a path whose score is quadratic in normal numbers.

    Parameters
    ----------
    variance : float
        A bound V on the variance of ``X = sum of a_j (g_j^2 - 1) + b_j g_j``, g standard normal,
        whose law the score has at every point of the path.
    curvature : float
        A bound c on every ``|a_j|``.

    Notes
    -----
    The bound is ``E |X| / 2``, and ``E |X| = (2/pi) integral of (1 - Re f(t)) / t^2`` over t > 0, f
    the characteristic function of X. With ``x_j = 2 a_j t`` and ``v_j = 2 a_j^2 + b_j^2``,

        ln |f_j| = -ln(1 + x_j^2) / 4 - b_j^2 t^2 / (2 (1 + x_j^2)),
        arg f_j = arctan(x_j) / 2 - x_j / 2 - b_j^2 t^2 x_j / (2 (1 + x_j^2)),

    so that ``-v_j t^2 / 2 <= ln |f_j| <= -v_j t^2 / (2 (1 + x_j^2))`` and
    ``|arg f_j| <= |x_j|^3 / 6 + |x_j| b_j^2 t^2 / 2 <= c t v_j t^2``. A normal number added to X
    increases ``E |X|``, so the variance may be taken to be V. With t in units of ``V^(-1/2)`` and
    ``k = c V^(-1/2)``: ``|f|`` lies between ``exp(-t^2/2)`` and ``exp(-t^2 / (2 + 8 k^2 t^2))``,
    ``|arg f| <= k t^3``, and ``Re f = |f| cos(arg f)`` is bounded from below. For k = 0 this is
    exact, ``sqrt(2/pi)``; it grows by about ``3 k^2 / 2`` of that, and ``E |X| <= sqrt(V)`` anyway.
    """
    if not (math.isfinite(variance) and variance >= 0 and curvature >= 0):
        raise InvalidInput(
            f"variance and curvature must be finite and >= 0, got {variance!r} and {curvature!r}"
        )
    if variance == 0:
        return 0.0
    root = math.sqrt(variance)
    return min(1.0, root * _mean_size(curvature / root) / 2)


@functools.lru_cache(maxsize=256)
def _mean_size(k: float) -> float:
    """Bound ``E |X|`` for V = 1: sqrt(2/pi), plus what ``Re f`` may lack of a normal's."""
    t = np.geomspace(1e-3, 1e7, 20_001)
    normal = np.exp(-(t**2) / 2)
    largest = np.exp(-(t**2) / (2 + 8 * (k * t) ** 2))
    turn = np.cos(np.minimum(k * t**3, math.pi))
    lacking = normal - np.where(turn >= 0, normal, largest) * turn
    # below the first t it lacks at most k^2 t^6 / 2, beyond the last one at most 1
    ends = (k**2 * t[0] ** 5) / 10 + 1 / t[-1]
    within = float(np.trapezoid(lacking / t**2, t))
    size = math.sqrt(2 / math.pi) + 2 / math.pi * (within + float(ends)) * (1 + 1e-4)
    return min(1.0, size)
