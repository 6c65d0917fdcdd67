"""Gaussian mechanisms priced exactly, alone or after stages that are known by a Rényi curve.

Converting a Rényi curve to (epsilon, delta) gives away some 15 % of a Gaussian mechanism's budget
(at epsilon 1 and delta 1e-6, as mu^2). What a Gaussian mechanism costs is known exactly, and how to
put it together with a curve is worked out here.

Notes
-----
*One Gaussian mechanism.* Noise of ``1/mu`` sensitivities is (e, delta)-private for

    delta(e) = Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu)

and no less. Several of them, each chosen after looking at the ones before, are at least as private
as one with the sum of their mu^2 (Dong, Roth and Su, 2022), if that sum is fixed beforehand.

*After a curve.* Fix neighbours. Let P, Q be the laws of what the first stages publish and
L = ln dP/dQ. Let every later stage be a Gaussian mechanism, mu in all, for all they may publish.
Given what they published, the rest is (t, delta(t))-private for every t, negative ones included, so
for the whole

    sup over events (P(E) - exp(epsilon) Q(E))  <=  mean under P of delta(epsilon - L).

With ``S(a) = sup over t of delta(t) exp((a - 1) t)`` this is at most
``S(a) exp(-(a-1) epsilon)`` times the mean of ``exp((a-1) L)``, which the curve R bounds by
``exp((a-1) R(a))``. So the whole is (epsilon, delta)-private for

    epsilon = R(a) + (ln S(a) - ln delta) / (a - 1),    at any order a.

The second term takes the place of ``a mu^2 / 2`` and the usual conversion. Nothing is lost where R
is zero: ``ln delta(t)`` is concave (delta is the convolution of the positive part of
``1 - exp(-u)`` with a normal density, both log-concave), so the best order gives delta(epsilon)
itself. All of this holds for a measure ``P' <= P`` that lacks a shortfall as well; see
`composition`.

*Integers.* Noise on integers is discrete. Let y be normal with variance ``v - r`` around an integer
q, and then draw an integer z with probability proportional to ``exp(-(z - y)^2 / (2 r))``. By
Poisson's summation formula the sum over z of these weights is the same for every y but for a factor
within ``1 ± e``, ``e = 2.1 exp(-2 pi^2 r)``; hence z has the law of a discrete Gaussian of variance
v around q but for factors within ``1 ± 2 e`` or so. So a discrete Gaussian is what one may compute
from a continuous one of variance ``v - r``, and `discrete_mu_squared` prices it so. With r = 3 the
factors are within ``1 ± 1e-25``. Each coordinate has its own and they multiply: m coordinates are
within ``1 ± h``, ``h = 1e-25 m``, which turns (epsilon, delta) into
``(epsilon + 2 h, (1 + h) delta)`` at most. Prices take mu larger by one part in 10^9, and that is
more, up to m = 10^8.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import scipy
from scipy.special import erfcx, log_ndtr

from privgmm.arrays import Array, BoolArray, frozen, positive
from privgmm.errors import InvalidInput
from privgmm.privacy.curves import ORDERS, RenyiCurve

__all__ = [
    "discrete_mu_squared",
    "epsilon_after",
    "gaussian_delta",
    "gaussian_terms",
    "mu_squared_after",
]

_GIVEN_UP = 3.0
"""Variance r by which a discrete Gaussian is priced as if narrower; see the notes on integers."""
_BISECTIONS = 45
"""Halvings: 2^-45 of the first interval, 3e-14, is left of it."""
_SLACK = 1e-9
"""Relative; far more than rounding, and than the difference of discrete and continuous noise."""
_LEAST_MU = 1e-7
"""Smaller mu are priced as this one: a larger mu only costs more, and nothing underflows."""
_LARGE = 1e6
"""From here on squares are not subtracted from each other; by convention, where 1e-4 is lost."""
_MOST_MU = 1e4
"""Larger mu are priced by their Rényi curve, which is nearly as good and never overflows."""
_FEW = 48
"""Orders, every other one within this distance of the best, at which a largest mu is sought."""


def discrete_mu_squared(sigma: float, sensitivity: float) -> float:
    """Compute mu^2 of a discrete Gaussian with parameter sigma on integers.

    Infinite for so little noise that this account says nothing; a Rényi curve still does.
    """
    variance = positive(sigma, "sigma") ** 2 - _GIVEN_UP
    return positive(sensitivity, "sensitivity") ** 2 / variance if variance > 0 else math.inf


def _log_delta(t: Array, mu: float) -> Array:
    """Compute ``ln delta(t)`` without cancellation.

    With ``x = t/mu -+ mu/2`` the two terms have the common factor ``exp(-x_1^2 / 2) / 2``.
    """
    low, high = t / mu - mu / 2, t / mu + mu / 2
    root = math.sqrt(2)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        gap = np.log(erfcx(low / root) - erfcx(high / root)) - low**2 / 2 - math.log(2)
        plain = log_ndtr(-low) + np.log(-np.expm1(t + log_ndtr(-high) - log_ndtr(-low)))
    return np.asarray(np.where(low > 0, gap, plain))


def _far_fall(t: Array, mu: float) -> Array:
    """Compute ``t + ln Phi(-t/mu - mu/2) - ln delta(t)`` for t above ``mu^2 / 2``.

    Both have the factor ``exp(-x_1^2 / 2) / 2`` of `_log_delta`, which is left out: so large a
    square would leave nothing of a difference.
    """
    root = math.sqrt(2)
    low, high = erfcx((t / mu - mu / 2) / root), erfcx((t / mu + mu / 2) / root)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return np.asarray(np.log(high / (low - high)))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Compute the least delta of Gaussian noise of ``1/mu`` sensitivities at any real epsilon.

    >>> round(gaussian_delta(1.0, 0.5), 4)
    0.0068
    """
    return float(np.exp(_log_delta(np.array(float(epsilon)), positive(mu, "mu"))))


def _log_suprema(orders: Array, mu: float) -> Array:
    """Compute ``ln S(a)`` at each order: the top of a concave function, found by its slope."""
    wanted = orders - 1

    def falls_short(t: Array) -> BoolArray:
        fall = t + log_ndtr(-t / mu - mu / 2) - _log_delta(t, mu)
        return np.asarray(np.where(t > _LARGE * mu, _far_fall(t, mu), fall) < np.log(wanted))

    # the limits of little and of much noise, and farther out until they enclose the top
    low, high = -np.log1p(1 / wanted) - 1, mu**2 * orders + 1
    while not (short := falls_short(low)).all():
        low = np.where(short, low, low - 2)
    while (short := falls_short(high)).any():
        high = np.where(short, 2 * high, high)
    for _ in range(_BISECTIONS):
        t = (low + high) / 2
        short = falls_short(t)
        low, high = np.where(short, t, low), np.where(short, high, t)
    return np.asarray(_log_delta(low, mu) + wanted * low)


@functools.lru_cache(maxsize=256)
def gaussian_terms(mu_squared: float, delta: float) -> Array:
    """Compute ``(ln S(a) - ln delta) / (a - 1)`` at each of `ORDERS`."""
    return frozen(_terms(ORDERS, mu_squared, delta))


def _terms(orders: Array, mu_squared: float, delta: float) -> Array:
    mu = math.sqrt(mu_squared) * (1 + _SLACK)
    if mu > _MOST_MU:
        # S(a) is at most what the curve and its conversion say
        by_curve = orders * mu_squared / 2 + np.log1p(-1 / orders)
        return np.asarray(by_curve - (math.log(delta) + np.log(orders)) / (orders - 1))
    return np.asarray((_log_suprema(orders, max(mu, _LEAST_MU)) - math.log(delta)) / (orders - 1))


def epsilon_after(curve: RenyiCurve, mu_squared: float, delta: float) -> float:
    """Compute the smallest epsilon at `delta` for Gaussian mechanisms that follow `curve`.

    Parameters
    ----------
    curve : RenyiCurve
        Of all earlier stages; zero if there are none.
    mu_squared : float
        Of the Gaussian mechanisms together; infinite if they are not priced so.
    delta : float
    """
    positive(delta, "delta", below=1.0)
    if not mu_squared > 0:
        raise InvalidInput(f"mu_squared must be positive, got {mu_squared!r}")
    if not math.isfinite(mu_squared):
        return math.inf
    proved = float((curve.values + gaussian_terms(mu_squared, delta)).min())
    return math.inf if math.isnan(proved) else max(0.0, proved)


def mu_squared_after(curve: RenyiCurve, epsilon: float, delta: float) -> float:
    """Find the largest mu^2 of Gaussian mechanisms that fit after `curve`; 0 if none do.

    Looked for at a few orders around the one that is best by Rényi curves alone: with more of
    them mu^2 could only be larger. Never less than what fits by Rényi curves alone.
    """
    a = ORDERS
    conversion = np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1)
    room = 2 * (epsilon - conversion - curve.values) / a
    best = int(np.argmax(room))
    start = float(room[best])
    if start <= 0:
        return 0.0
    chosen = slice(max(0, best - _FEW), best + _FEW, 2)
    orders, losses = ORDERS[chosen], curve.values[chosen]

    def price(mu_squared: float) -> float:
        return float((losses + _terms(orders, mu_squared, delta)).min())

    if price(start) > epsilon:
        return start
    high = 2 * start
    while price(high) <= epsilon:
        high *= 2
    found = float(
        scipy.optimize.brentq(lambda x: price(x) - epsilon, start, high, xtol=1e-10 * start)
    )
    while found > start and price(found) > epsilon:
        found *= 1 - _SLACK
    return max(found, start)
