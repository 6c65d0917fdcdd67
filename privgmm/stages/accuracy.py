"""State how far a mixture is from the truth, in dist_GMM, and which of its components are resolved.

A stage knows the covariance of its errors in a mixture's local coordinates (see `standard_errors`).
Here it becomes what people ask for: the law of the distance between the released mixture and the
truth (Definition 1.4), before a release from its plan and after it from published numbers.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.special import erf, ndtri

from privgmm.arrays import Array, BoolArray, IntArray, finite_array, frozen
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.stages.quadrature import normal_points, points_of, scores

__all__ = [
    "CHANCES",
    "NOT_RESOLVED",
    "NO_BEND",
    "OF_FIT",
    "OF_ONE",
    "OF_STEPS",
    "POORLY_RESOLVED",
    "RESOLVED",
    "Bend",
    "ExpectedError",
    "accuracy_of",
    "error_law",
    "resolution_in_words",
    "resolution_of",
    "sampling_covariance",
    "units_apart",
]

RESOLVED, POORLY_RESOLVED, NOT_RESOLVED = "resolved", "poorly resolved", "not resolved"

CHANCES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Probabilities at which the law of an error is kept, by convention; between them it is
interpolated."""

_DRAWS = 9
"""Errors drawn are 2 to this power, spread evenly: a quantile is right to two per cent or so."""
_BITS = 8
"""Half the points at which a total variation is averaged are 2 to this power; measured: enough for
two digits."""
_SEED = 20240611
"""Any fixed number does: equal questions then have equal answers."""
_LARGEST = 30.0
"""Logarithms of ratios of variances beyond this are cut: total variation is one long before."""
_FARTHEST = 1e6
"""Errors beyond this are cut, so that their squares stay finite: total variation is one by then."""
_NEAR = 0.2
"""Distance dist_Comp to a true component that "resolved" promises; by convention."""
_SURE = 0.95
"""Probability with which "resolved" promises it; by convention."""
_OVERLAP = 4.0
"""Convention: means farther apart than this, in units of a component, share hardly any rows."""
_EMPTY = 0.25
"""Choice: weight below which a component is nearly empty, in shares of 1/k."""
_REGION = 2.0
"""Standard errors to the edge of the region in which a number is taken to lie; by convention."""


class Bend(NamedTuple):
    """How much larger errors are than the information of small errors says.

    An error D that nine in ten releases do not exceed becomes ``D (1 + min(slope D, most))``: some
    fits settle elsewhere, the more the larger errors are. The median moves by a part of that.
    """

    slope: float
    most: float
    median: float


NO_BEND = Bend(0.0, 0.0, 0.0)
OF_ONE, OF_FIT, OF_STEPS = Bend(0.8, 0.6, 0.3), Bend(2.5, 0.6, 0.3), Bend(4.0, 1.5, 0.8)
"""Measured on 30 mixtures, 600 to 20,000 rows and 1 to 8 columns: of fits of one component and of
several, and of noisy steps where rows are few for the columns."""


@dataclasses.dataclass(frozen=True)
class ExpectedError:
    """Hold the law of the distance dist_GMM between a released mixture and the truth.

    Zero is perfect, one is wrong (Definition 1.4).

    Parameters
    ----------
    quantiles : tuple of float
        The distance at each of `CHANCES`, in rising order.

    Examples
    --------
    >>> error = ExpectedError(tuple(0.1 * (1 + c) for c in CHANCES))
    >>> round(error.value, 3), round(error.within(0.19), 3), str(error)
    (0.15, 0.9, '0.15 (0.11 to 0.2)')
    """

    quantiles: tuple[float, ...]

    def __post_init__(self) -> None:
        numbers = finite_array(self.quantiles, "quantiles", (len(CHANCES),))
        if (numbers < 0).any() or (numbers > 1).any() or (np.diff(numbers) < 0).any():
            raise InvalidInput("quantiles must rise, between 0 and 1", value=self.quantiles)
        object.__setattr__(self, "quantiles", tuple(numbers.tolist()))

    @classmethod
    def of(cls, distances: ArrayLike) -> ExpectedError:
        """Take the law of drawn distances (N,)."""
        return cls(tuple(np.quantile(np.clip(distances, 0.0, 1.0), CHANCES).tolist()))

    @property
    def value(self) -> float:
        """Return the median: half of all releases are nearer to the truth."""
        return self.at(0.5)

    @property
    def low(self) -> float:
        """Return the lower end of the band in which nine in ten releases lie."""
        return self.at(0.05)

    @property
    def high(self) -> float:
        """Return the upper end of the band in which nine in ten releases lie."""
        return self.at(0.95)

    def at(self, probability: float) -> float:
        """Return the distance that is not exceeded with this probability.

        Beyond the largest of `CHANCES` nothing is known, and the answer is one.
        """
        if probability > CHANCES[-1]:
            return 1.0
        return float(np.interp(probability, CHANCES, self.quantiles))

    def within(self, alpha: float) -> float:
        """Return the probability of a distance of at most alpha.

        Outside the quantiles that are kept, this is the cautious end.
        """
        if alpha < self.quantiles[0]:
            return 0.0
        # of equal quantiles the last counts
        later = int(np.searchsorted(self.quantiles, alpha, side="right"))
        if later == len(CHANCES):
            return CHANCES[-1] if alpha < 1 else 1.0
        low, high = self.quantiles[later - 1 : later + 1]
        share = (alpha - low) / (high - low)
        return CHANCES[later - 1] + share * (CHANCES[later] - CHANCES[later - 1])

    def times(self, factor: float) -> ExpectedError:
        """Return the law of distances that are larger by a factor, up to one."""
        return ExpectedError(tuple(min(1.0, factor * q) for q in self.quantiles))

    def __str__(self) -> str:
        return f"{self.value:.2g} ({self.low:.2g} to {self.high:.2g})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON: the median, the band, and all quantiles."""
        shown = {"value": self.value, "low": self.low, "high": self.high}
        return {
            **{name: float(f"{number:.6g}") for name, number in shown.items()},
            "quantiles": [float(f"{number:.6g}") for number in self.quantiles],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ExpectedError:
        """Read back what `to_dict` wrote."""
        if not (isinstance(data, dict) and isinstance(data.get("quantiles"), list)):
            raise InvalidInput("an expected error needs a JSON object with quantiles")
        return cls(tuple(data["quantiles"]))


# --------------------------------------------------------------------------------------- draws


def sampling_covariance(mixture: Mixture, n_rows: float) -> Array:
    """Compute the covariance (P, P) of maximum-likelihood errors from n rows, by the information.

    In local coordinates of the mixture, overlap of its components included.
    """
    rows, mass = points_of(mixture)
    seen = scores(mixture, rows)
    information = n_rows * (seen.T * mass) @ seen
    # a common shift of the log-weights says nothing, and no error is taken to be beyond all bounds
    return np.asarray(np.linalg.inv(information + np.eye(len(information))))


def error_law(covariance: Array, weights: Array, *, bend: Bend = NO_BEND) -> ExpectedError:
    """Compute the law of dist_GMM for normal errors of this covariance.

    Parameters
    ----------
    covariance : array (P, P)
        Of the errors, in local coordinates as for `StandardErrors.from_local`.
    weights : array (k,)
    bend : Bend
        How errors grow beyond what the covariance says; one component's grow by `OF_ONE` at most.

    Notes
    -----
    A component that moves by ``(m, M)`` in its own coordinates is off by a total variation of
    ``E |m'z + (z'Mz - tr M)/2| / 2`` to first order, z standard normal. A shift of D alone is off
    by ``erf(D / sqrt 8)``; the same function of the first order is taken for all others, and is
    right to a few hundredths. Components are not matched again: errors so large that another order
    were nearer count in full.
    """
    errors = _drawn(covariance, len(weights))
    d = _columns(errors.shape[2])
    z = normal_points(d, _BITS)
    row, column = np.triu_indices(d)
    waves = np.concatenate([z, _quadratic(z, row, column)], axis=1)
    first = np.abs(errors[:, :, 1:] @ waves.T).mean(axis=2) / 2
    off = np.maximum(erf(first * (math.sqrt(math.pi) / 2)), _weight_errors(errors, weights))
    law = np.array(ExpectedError.of(off.max(axis=1)).quantiles)
    if len(weights) == 1:
        bend = min(bend, OF_ONE)
    part = np.interp(CHANCES, (0.5, 0.9), (bend.median, 1.0))
    law *= 1 + part * np.minimum(bend.slope * law, bend.most)
    return ExpectedError(tuple(np.minimum(law, 1.0).tolist()))


def _quadratic(z: Array, row: IntArray, column: IntArray) -> Array:
    """Return ``(z'Mz - tr M) / 2`` for each unit of svec M (N, d(d+1)/2)."""
    crossed = z[:, row] * z[:, column]
    return np.where(row == column, (crossed - 1) / 2, crossed / math.sqrt(2))


def _drawn(covariance: Array, k: int) -> Array:
    """Draw errors (N, k, width), component by component; the same standard draws every time."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    errors = np.clip(_standard_draws(len(covariance)) @ root.T, -_FARTHEST, _FARTHEST)
    return np.asarray(errors.reshape(2**_DRAWS, k, -1))


@functools.lru_cache(maxsize=16)
def _standard_draws(size: int) -> Array:
    """Draw standard normal vectors (N, size), always the same, spread evenly."""
    sobol = scipy.stats.qmc.Sobol(size, scramble=True, rng=np.random.default_rng(_SEED))
    return frozen(ndtri(np.clip(sobol.random_base2(_DRAWS), 1e-12, 1 - 1e-12)))


def _columns(width: int) -> int:
    """Return d for ``width = 1 + d + d (d + 1) / 2`` numbers per component."""
    return round((math.sqrt(8 * width + 1) - 3) / 2)


def _weight_errors(errors: Array, weights: Array) -> Array:
    """Compute how far each weight moves (N, k)."""
    logs = np.log(np.maximum(weights, np.finfo(np.float64).tiny)) + errors[:, :, 0]
    moved = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(np.abs(moved / moved.sum(axis=1, keepdims=True) - weights))


# ---------------------------------------------------------------------------------- resolution


def accuracy_of(
    mixture: Mixture,
    covariance: Array | None,
    *,
    well_specified: bool,
    bend: Bend = NO_BEND,
) -> tuple[ExpectedError | None, tuple[str, ...]]:
    """Return the law of the error and the resolution of each component, from public numbers.

    The law is None where such mixtures do not explain the rows: there is no truth to be near. The
    arguments are those of `resolution_of` and `error_law`.
    """
    unknown = None, (NOT_RESOLVED,) * mixture.n_components
    if covariance is None or not np.isfinite(covariance).all():
        return unknown
    try:
        resolution = resolution_of(mixture, covariance, well_specified=well_specified)
        law = error_law(covariance, mixture.weights, bend=bend) if well_specified else None
    except np.linalg.LinAlgError:
        # a release is paid for by now: what cannot be computed is said to be unknown
        return unknown
    return law, resolution


def resolution_of(
    mixture: Mixture, covariance: Array | None, *, well_specified: bool
) -> tuple[str, ...]:
    """Say of each component whether it is resolved, from public numbers alone.

    Parameters
    ----------
    mixture : Mixture
    covariance : array (P, P) or None
        Of its errors, in its local coordinates; None where they are not known.
    well_specified : bool
        Whether such a mixture explains the rows.

    Returns
    -------
    tuple of str
        "resolved": within 0.2 of a true component in dist_Comp (Eq. 4) with probability 95 %, and
        those that it overlaps with as well (`resolution_in_words`).
        "not resolved": the region of two standard errors around its mean reaches another
        component or is as wide as the component itself, or that around its weight reaches zero,
        or that around its width allows for twice the width. "poorly resolved": anything between;
        no more than this is said where no such mixture explains the rows.
    """
    k, d = mixture.n_components, mixture.n_features
    if covariance is None:
        return (NOT_RESOLVED,) * k
    errors = _drawn(covariance, k)
    weight: Array = np.sqrt((_weight_errors(errors, mixture.weights) ** 2).mean(axis=0))
    near = np.quantile(_component_distances(errors, mixture.weights), _SURE, axis=0) <= _NEAR
    lost: BoolArray = np.zeros(k, dtype=bool)
    for a in range(k):
        width = covariance.shape[0] // k
        at = slice(a * width + 1, a * width + 1 + d)
        place = _REGION**2 * covariance[at, at]
        shape = _REGION * np.sqrt(_widest_log_variance(errors[:, a, 1 + d :], d))
        gaps = (np.delete(mixture.means, a, 0) - mixture.means[a]).T
        others = np.linalg.solve(mixture.cholesky[a], gaps)
        reached = (np.einsum("ij,ij->j", others, np.linalg.solve(place, others)) <= 1).any()
        lost[a] = (
            _REGION * weight[a] >= mixture.weights[a]
            or float(np.linalg.eigvalsh(place)[-1]) >= 1
            or shape >= 2 * math.log(2)
            or reached
        )
    return resolution_in_words(mixture, near & well_specified, lost)


def units_apart(mixture: Mixture) -> Array:
    """Compute how far other means lie from each component's (k, k), in its units.

    Nothing is near itself: the diagonal is infinite.
    """
    gaps = mixture.means - mixture.means[:, None]
    inside = np.linalg.solve(mixture.cholesky, np.transpose(gaps, (0, 2, 1)))
    apart = np.linalg.norm(inside, axis=1)
    np.fill_diagonal(apart, np.inf)
    return np.asarray(apart)


def resolution_in_words(mixture: Mixture, near: BoolArray, lost: BoolArray) -> tuple[str, ...]:
    """Say of each component whether it is resolved, poorly resolved, or not.

    Parameters
    ----------
    mixture : Mixture
    near : array (k,) of bool
        Components that are near a true one by their own errors.
    lost : array (k,) of bool
        Those that are not resolved.

    Notes
    -----
    One that overlaps with a component that is not near a true one is poorly resolved at best: the
    rows of both might be divided otherwise. So are all, if one that is not resolved is nearly
    empty: then others may be several in one.
    """
    apart = units_apart(mixture)
    doubtful = ((apart <= _OVERLAP) & ~(near & ~lost)).any(axis=1)
    empty = lost & (mixture.weights < _EMPTY / mixture.n_components)
    sure = near & ~doubtful & ~empty.any()
    return tuple(
        NOT_RESOLVED if gone else RESOLVED if fine else POORLY_RESOLVED
        for gone, fine in zip(lost.tolist(), sure.tolist(), strict=True)
    )


def _matrices(svec: Array, d: int) -> Array:
    """Return the symmetric matrices (..., d, d) of svec (..., d(d+1)/2)."""
    row, column = np.triu_indices(d)
    out = np.zeros((*svec.shape[:-1], d, d))
    entries = np.where(row == column, 1.0, math.sqrt(0.5)) * svec
    out[..., row, column] = entries
    out[..., column, row] = entries
    return out


def _widest_log_variance(svec: Array, d: int) -> float:
    """Compute the largest mean square, over directions, of the error of a log-variance."""
    moved = _matrices(svec, d)
    return float(np.linalg.eigvalsh((moved @ moved).mean(axis=0))[-1])


def _component_distances(errors: Array, weights: Array) -> Array:
    """Compute dist_Comp (Eq. 4) of each moved component (N, k) from itself."""
    d = _columns(errors.shape[2])
    means = errors[:, :, 1 : 1 + d]
    logs, axes = np.linalg.eigh(_matrices(errors[:, :, 1 + d :], d))
    logs = np.clip(logs, -_LARGEST, _LARGEST)
    along = np.einsum("nkij,nki->nkj", axes, means)
    far = [
        np.sqrt((along**2).sum(axis=2)),
        np.sqrt((along**2 * np.exp(-logs)).sum(axis=2)),
        np.sqrt((np.expm1(logs) ** 2).sum(axis=2)),
        np.sqrt((np.expm1(-logs) ** 2).sum(axis=2)),
        _weight_errors(errors, weights),
    ]
    return np.asarray(np.max(far, axis=0))
