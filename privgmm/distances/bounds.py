"""The paper's bounds on total variation, next to its exact value.

Theorem 1.8 lets a distance between parameters stand for total variation. Each function here states
one result of Appendices A, B or H as numbers; `total_variation` computes the exact value.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from privgmm.arrays import Array, BoolArray, finite_array, positive
from privgmm.distances.total_variation import RelativeForm, gaussian_tv, relative_form
from privgmm.errors import InvalidInput

__all__ = [
    "BestConstants",
    "Bounds",
    "TVBounds",
    "best_constants",
    "kl_divergence",
    "lemma_6_3",
    "lemma_6_3_applies",
    "limit_ratio",
    "parameter_distance",
    "pinsker",
    "theorem_1_8",
    "theorem_b_1",
    "theorem_b_2",
]

PREMISE = 1 / 600  # Theorem 1.8 speaks of pairs with TV below this
LOWER = 1 / 200  # then TV >= LOWER Delta (Theorem 1.8)
UPPER = 1 / math.sqrt(2)  # and TV <= UPPER Delta (Theorem 1.8)


class Bounds(NamedTuple):
    """A proved interval [lower, upper] for some distance; floats, or arrays for a batch."""

    lower: float | Array
    upper: float | Array


@dataclasses.dataclass(frozen=True, slots=True)
class TVBounds:
    """Theorem 1.8 for a pair of Gaussians; arrays for a batch.

    Parameters
    ----------
    delta : float or array
        ``Delta = max(‖S1^-½ S2 S1^-½ - I‖_F, ‖S1^-½ (mu1 - mu2)‖)``.
    lower, upper : float or array
        ``Delta / 200`` and ``Delta / sqrt(2)``.
    tv : float or array
        The exact total variation distance.
    applies : bool or array of bool
        The theorem's premise, ``tv < 1/600``. Where it fails the bounds promise nothing.
    """

    delta: float | Array
    lower: float | Array
    upper: float | Array
    tv: float | Array
    applies: bool | BoolArray


class BestConstants(NamedTuple):
    """The range of ``TV / Delta`` as the two Gaussians approach each other."""

    lowest: float
    highest: float


def _scalar_if_single(value: npt.NDArray[np.float64] | np.float64) -> float | Array:
    return float(value) if np.ndim(value) == 0 else np.asarray(value)


def _delta(form: RelativeForm) -> float | Array:
    spread = np.linalg.norm(form.excess, axis=-1)
    return _scalar_if_single(np.maximum(spread, np.linalg.norm(form.shift, axis=-1)))


def parameter_distance(
    mean1: npt.ArrayLike, cov1: npt.ArrayLike, mean2: npt.ArrayLike, cov2: npt.ArrayLike
) -> float | Array:
    """Compute Theorem 1.8's ``max(‖S1^-½ S2 S1^-½ - I‖_F, ‖S1^-½ (mu1 - mu2)‖)``.

    Means (..., d) and covariances (..., d, d) broadcast over leading axes. Not symmetric.
    """
    return _delta(relative_form(mean1, cov1, mean2, cov2))


def theorem_1_8(
    mean1: npt.ArrayLike, cov1: npt.ArrayLike, mean2: npt.ArrayLike, cov2: npt.ArrayLike
) -> TVBounds:
    """State Theorem 1.8: if TV < 1/600 then ``Delta / 200 <= TV <= Delta / sqrt(2)``.

    Parameters
    ----------
    mean1, mean2 : array-like (..., d)
    cov1, cov2 : array-like (..., d, d)

    Examples
    --------
    >>> bounds = theorem_1_8([0.0], [[1.0]], [0.001], [[1.0]])
    >>> bounds.applies, bool(bounds.lower <= bounds.tv <= bounds.upper)
    (True, True)
    """
    delta = parameter_distance(mean1, cov1, mean2, cov2)
    tv = gaussian_tv(mean1, cov1, mean2, cov2)
    return TVBounds(delta, delta * LOWER, delta * UPPER, tv, tv < PREMISE)


def theorem_b_1(cov1: npt.ArrayLike, cov2: npt.ArrayLike) -> float | Array:
    """State Theorem B.1: ``min(1, ‖S1^-½ S2 S1^-½ - I‖_F) / 100 <= TV``, means equal."""
    zero = np.zeros(finite_array(cov1, "cov1").shape[-1:] or (1,))
    return _scalar_if_single(np.minimum(1.0, parameter_distance(zero, cov1, zero, cov2)) / 100)


def theorem_b_2(
    mean1: npt.ArrayLike, variance1: npt.ArrayLike, mean2: npt.ArrayLike, variance2: npt.ArrayLike
) -> Bounds:
    """State Theorem B.2: bounds on the TV of one-dimensional Gaussians; arguments broadcast.

    ``min(1, max(r, 40 m)) / 200 <= TV <= 3 r / 2 + m / 2`` with ``r = |v1 - v2| / v1`` and
    ``m = |mu1 - mu2| / sqrt(v1)``.
    """
    mu1, mu2 = finite_array(mean1, "mean1"), finite_array(mean2, "mean2")
    v1, v2 = finite_array(variance1, "variance1"), finite_array(variance2, "variance2")
    for name, variance in (("variance1", v1), ("variance2", v2)):
        if not (variance > 0).all():
            raise InvalidInput(f"{name} must be positive, got {variance.min():g}")
    r, m = np.abs(v1 - v2) / v1, np.abs(mu1 - mu2) / np.sqrt(v1)
    return Bounds(
        _scalar_if_single(np.minimum(1.0, np.maximum(r, 40 * m)) / 200),
        _scalar_if_single(1.5 * r + 0.5 * m),
    )


def _minus_log(z: Array) -> Array:
    """Compute ``z - ln(1 + z)``, z > -1, near 0 by the series of ``2 artanh(z / (2 + z))``."""
    r = z / (2 + z)
    series = np.polynomial.polynomial.polyval(r * r, 1 / (3 + 2 * np.arange(11)))
    return np.where(np.abs(z) < 0.3, r * (z - 2 * r * r * series), z - np.log1p(z))


def kl_divergence(
    mean1: npt.ArrayLike, cov1: npt.ArrayLike, mean2: npt.ArrayLike, cov2: npt.ArrayLike
) -> float | Array:
    """Compute ``KL(N(mu1, S1) ‖ N(mu2, S2))`` by Fact A.3, accurate for close pairs.

    Notes
    -----
    With lam the eigenvalues of ``S1^-½ S2 S1^-½``, ``x = 1/lam - 1`` and m the whitened shift,
    the fact reads ``½ Σ [x - ln(1 + x) + m² / lam]``: a sum of terms that are each >= 0.
    """
    form = relative_form(mean1, cov1, mean2, cov2)
    x = -form.excess / form.eigenvalues
    total = (_minus_log(x) + form.shift**2 / form.eigenvalues).sum(axis=-1) / 2
    return _scalar_if_single(total)


def pinsker(
    mean1: npt.ArrayLike, cov1: npt.ArrayLike, mean2: npt.ArrayLike, cov2: npt.ArrayLike
) -> float | Array:
    """State Lemma A.4: the upper bound ``sqrt(KL / 2)`` on total variation."""
    return _scalar_if_single(np.sqrt(np.divide(kl_divergence(mean1, cov1, mean2, cov2), 2)))


def lemma_6_3(dist_param: float) -> Bounds:
    """State Lemma 6.3: ``dist_param / 200 <= dist_GMM <= dist_param / sqrt(2)``.

    Holds under `lemma_6_3_applies`, a premise on dist_GMM itself.

    Notes
    -----
    These are the constants as printed. Where mixing weights alone differ both distances equal the
    largest difference of weights, so the upper constant can then be no less than one; the proof
    covers the Gaussian parts, for which ``1 / sqrt(2)`` does hold.
    """
    value = float(dist_param)
    if not value >= 0 or math.isinf(value):
        raise InvalidInput(f"dist_param must be finite and >= 0, got {dist_param!r}")
    return Bounds(value * LOWER, value * UPPER)


def lemma_6_3_applies(dist_gmm: float) -> bool:
    """Return whether the premise of Lemma 6.3 holds: ``dist_GMM < 1/600``."""
    return 0 <= float(dist_gmm) < PREMISE


def limit_ratio(eigenvalues: npt.ArrayLike, shift: npt.ArrayLike) -> float:
    """Compute the limit of ``TV / t``, t → 0, for ``N(0, I)`` and ``N(t v, I + t diag(a))``.

    Parameters
    ----------
    eigenvalues : array-like (d,)
        The direction a of the covariance.
    shift : array-like (d,)
        The direction v of the mean.

    Notes
    -----
    To first order the log-likelihood ratio is ``t Q`` with ``Q = v·g + ½ Σ a_i (g_i² - 1)`` for a
    standard normal g, so the limit is ``½ E|Q|``. The next order is odd in t and cancels in the
    mean of the exact values at t and -t, which leaves an error of about t² = 1e-10.
    """
    a = finite_array(eigenvalues, "eigenvalues", (None,))
    v = finite_array(shift, "shift", a.shape)
    size = math.hypot(float(np.linalg.norm(a)), float(np.linalg.norm(v)))
    if size == 0:
        return 0.0
    steps = np.array([1.0, -1.0]) * 2.0**-17 / size
    covs = np.eye(len(a)) + steps[:, None, None] * np.diag(a)
    tv = gaussian_tv(np.zeros(len(a)), np.eye(len(a)), steps[:, None] * v, covs)
    return float(np.mean(tv) / steps[0])


@functools.lru_cache(maxsize=64)
def best_constants(n_features: int) -> BestConstants:
    """Find the best constants in place of 1/200 and 1/sqrt(2) of Theorem 1.8, as TV → 0.

    Parameters
    ----------
    n_features : int
        Dimension d >= 1.

    Notes
    -----
    ``TV / Delta`` tends to ``½ E|v·g + ½ Σ a_i (g_i² - 1)|`` with ``max(‖a‖, ‖v‖) = 1``.

    Lowest: a mean shift can only add, since the expectation is convex and even in v. Without one,
    d = 1 leaves ``φ(1) = 0.24197``; two opposite eigenvalues leave ``1/(π√2) = 0.22508``, and
    searches over more eigenvalues found nothing lower.

    Highest: found by search, not proved. The mean shift is full, the eigenvalues share one sign
    and are equal but for the one along the shift; the ratio between the two is optimised here.
    As d grows, Q becomes normal with variance 3/2 and the constant tends to ``sqrt(3/(4π))``.
    """
    d = int(positive(n_features, "n_features"))
    if d != n_features:
        raise InvalidInput(f"n_features must be a whole number, got {n_features!r}")
    lowest = math.exp(-0.5) / math.sqrt(2 * math.pi) if d == 1 else 1 / (math.pi * math.sqrt(2))
    shift = np.eye(1, d)[0]

    def constant(angle: float) -> float:
        a = np.full(d, math.sin(angle) / math.sqrt(max(1, d - 1)))
        a[0] = math.cos(angle)
        return limit_ratio(a, shift)

    if d == 1:
        return BestConstants(lowest, constant(0.0))
    best = scipy.optimize.minimize_scalar(
        lambda angle: -constant(angle), bounds=(0.0, math.pi / 2), method="bounded"
    )
    return BestConstants(lowest, float(-best.fun))
