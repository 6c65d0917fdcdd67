"""Total variation between Gaussian mixtures, always with its error.

Two single Gaussians go to `total_variation`. On a line the answer is exact: the sign changes of
``p - q`` are isolated with a bound on what could have been missed, and the rest is the normal
distribution function. In the plane such lines are integrated adaptively. In more dimensions the
value is a stratified average with a confidence interval.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtri

from privgmm.arrays import Array
from privgmm.distances.line_integrals import MOST_DIPS, line_integral, slice_integrals
from privgmm.distances.total_variation import gaussian_tv
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture

__all__ = ["TotalVariation", "mixture_tv"]

_CONFIDENCE = 0.999  # of the interval of a sampled value; a convention
_LINE_CELL = 1e-18  # integral that an interval may hide: far below rounding
_PLANE_GOAL = 1e-13  # estimated error at which the adaptive rule stops
_MAX_INTERVALS = 4000  # of the adaptive rule: bounds time; the error says what is missing
_APART = 40.0  # deviations beyond which a density is 0 in floats


@dataclasses.dataclass(frozen=True, slots=True)
class TotalVariation:
    """A total variation distance and how far it may be off.

    Parameters
    ----------
    value : float
    half_width : float
        The truth lies within ``value ± half_width``: a rounding bound for `contour`, a proved
        bound for `roots`, the quadrature's error estimate for `slices`, and a 99.9 % confidence
        interval for `sampling`.
    method : str
        ``"equal"``, ``"contour"``, ``"roots"``, ``"slices"`` or ``"sampling"``.
    """

    value: float
    half_width: float
    method: Literal["equal", "contour", "roots", "slices", "sampling"]

    def __float__(self) -> float:
        return self.value


def _difference(first: Mixture, second: Mixture) -> tuple[Array, Array, Array]:
    """Return signed masses, means and factors of ``p - q``, equal components merged."""
    d = first.n_features
    rows = np.concatenate(
        [
            np.column_stack([f.means, f.cholesky.reshape(f.n_components, -1)])
            for f in (first, second)
        ]
    )
    distinct, owner = np.unique(rows, axis=0, return_inverse=True)
    mass = np.zeros(len(distinct))
    np.add.at(mass, owner.reshape(-1), np.concatenate([first.weights, -second.weights]))
    keep = mass != 0
    mean, factor = distinct[keep, :d], distinct[keep, d:].reshape(-1, d, d)
    return mass[keep], np.ascontiguousarray(mean), np.ascontiguousarray(factor)


def _clusters(mass: Array, mean: Array, factor: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Split components into groups that do not touch, each in its own coordinates.

    The integral of ``|p - q|`` is the sum over groups. Within a group the origin is the mean of the
    narrowest component, which is one unit wide: so neither a common offset nor far groups cost
    accuracy, however large.
    """
    d = mean.shape[1]
    sd = np.sqrt(np.einsum("kij,kij->ki", factor, factor))
    with np.errstate(over="ignore"):
        gaps = np.abs(mean[:, None] - mean)
        touching = (gaps <= _APART * (sd[:, None] + sd)).all(axis=2)
    count, label = connected_components(touching, directed=False)
    for i in range(count):
        group = np.flatnonzero(label == i)
        narrowest = group[np.argmin(sd[group].prod(axis=1))]
        unit = sd[narrowest]
        local_mean = (mean[group] - mean[narrowest]) / unit
        local_factor = factor[group] / unit[:, None]
        yield mass[group], local_mean.reshape(-1, d), local_factor


def _on_line(first: Mixture, second: Mixture) -> TotalVariation:
    integral, doubt = 0.0, 0.0
    for mass, mean, factor in _clusters(*_difference(first, second)):
        middle, sd = np.ascontiguousarray(mean[:, 0]), np.ascontiguousarray(factor[:, 0, 0])
        part, unsure, zeros, _ = line_integral(mass, middle, sd, _LINE_CELL, np.empty(MOST_DIPS))
        integral += part
        doubt += unsure + 2 * np.finfo(np.float64).eps * (len(mass) + zeros)
    return TotalVariation(min(1.0, 0.5 * integral), float(0.5 * doubt), "roots")


# Gauss-Kronrod 7/15 on [-1, 1]: nodes >= 0, Kronrod weights, Gauss weights (0 off the Gauss rule).
_KRONROD = np.array(
    [
        [0.9914553711208126, 0.022935322010529224, 0.0],
        [0.9491079123427585, 0.06309209262997856, 0.1294849661688697],
        [0.8648644233597691, 0.10479001032225019, 0.0],
        [0.7415311855993945, 0.14065325971552592, 0.27970539148927664],
        [0.5860872354676911, 0.1690047266392679, 0.0],
        [0.4058451513773972, 0.19035057806478542, 0.3818300505051189],
        [0.20778495500789848, 0.20443294007529889, 0.0],
        [0.0, 0.20948214108472782, 0.4179591836734694],
    ]
)
# The two ends are looked at as well, with no weight, so that nothing hides next to them.
_ENDS = np.array([[1.0, 0.0, 0.0]])
# nodes of both signs in ascending order
_RULE = np.concatenate([-_ENDS, _KRONROD * [-1, 1, 1], _KRONROD[-2::-1], _ENDS])
# from each node to the farther of its neighbours
_RULE_STEP = np.maximum(np.diff(_RULE[:, 0], prepend=-1), np.diff(_RULE[:, 0], append=1))


def _measured(
    edges: Array, mass: Array, mean: Array, factor: Array, cell: float
) -> tuple[Array, float]:
    """Measure intervals (n, 2) by Gauss-Kronrod, as rows (low, high, value, error)."""
    middle, half = edges.mean(axis=1), (edges[:, 1] - edges[:, 0]) / 2
    places = middle[:, None] + half[:, None] * _RULE[:, 0]
    step = np.broadcast_to(half[:, None] * _RULE_STEP, places.shape)
    flat = np.empty((4, places.size))
    slice_integrals(places.reshape(-1), step.reshape(-1), mass, mean, factor, cell, flat)
    values, doubt, crossings, hidden = flat.reshape(4, *places.shape)
    kronrod, gauss = half * (values @ _RULE[:, 1]), half * (values @ _RULE[:, 2])
    wobble = half * (np.abs(values - (kronrod / half / 2)[:, None]) @ _RULE[:, 1])
    gap = np.abs(kronrod - gauss)
    # Where the number of sign changes varies, the slices have a kink (y - y0)^3/2 and the two rules
    # may agree by chance, so the error is kept in step with its known order, half^5/2; where it
    # does not vary the slices are smooth, and QUADPACK's estimate applies.
    kinked = (crossings != crossings[:, :1]).any(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        smooth = np.where(wobble > 0, wobble * np.minimum(1, (200 * gap / wobble) ** 1.5), gap)
    error = np.where(kinked, np.maximum(gap, 1e-3 * wobble**1.25), smooth) + hidden.sum(axis=1)
    return np.column_stack([edges, kronrod, error]), float(doubt.max())


def _on_plane(first: Mixture, second: Mixture) -> TotalVariation:
    parts = [_plane_integral(*cluster) for cluster in _clusters(*_difference(first, second))]
    integral, doubt = (math.fsum(column) for column in zip(*parts, strict=True))
    return TotalVariation(min(1.0, 0.5 * integral), 0.5 * doubt, "slices")


def _plane_integral(mass: Array, mean: Array, factor: Array) -> tuple[float, float]:
    """Integrate exact slices over the first coordinate by globally adaptive Gauss-Kronrod."""
    offsets = np.array([-9.0, -6, -4, -2.5, -1.25, 0, 1.25, 2.5, 4, 6, 9])
    marks = np.unique(mean[:, :1] + factor[:, 0, :1] * offsets)
    span = float(marks[-1] - marks[0])
    cell = 1e-2 * _PLANE_GOAL / span / (19 * len(mass))
    pieces, slice_doubt = _measured(
        np.stack([marks[:-1], marks[1:]], axis=1), mass, mean, factor, cell
    )
    while pieces[:, 3].sum() > _PLANE_GOAL and len(pieces) < _MAX_INTERVALS:
        # Halve all but the quietest intervals, whose errors may stay as they are.
        pieces = pieces[np.argsort(pieces[:, 3])]
        quiet = np.cumsum(pieces[:, 3]) <= 0.5 * _PLANE_GOAL
        rough = pieces[~quiet]
        centre = rough[:, :2].mean(axis=1)
        halves = np.concatenate(
            [np.column_stack([rough[:, 0], centre]), np.column_stack([centre, rough[:, 1]])]
        )
        fresh, doubt = _measured(halves, mass, mean, factor, cell)
        pieces = np.concatenate([pieces[quiet], fresh])
        slice_doubt = max(slice_doubt, doubt)
    rounding = 2e-15 * len(mass)
    # The estimate held within a factor of two of itself on pairs whose distance is known.
    doubt = 4 * float(pieces[:, 3].sum()) + slice_doubt * span + rounding
    return float(pieces[:, 2].sum()), doubt


def _by_sampling(
    first: Mixture, second: Mixture, n_samples: int, generator: np.random.Generator
) -> TotalVariation:
    """Average ``|tanh(½ ln p/q)|`` over ``(p + q) / 2``, stratified by component."""
    share = np.concatenate([first.weights, second.weights]) / 2
    mean = np.concatenate([first.means, second.means])
    factor = np.concatenate([first.cholesky, second.cholesky])
    counts = np.maximum(2, np.ceil(share * n_samples)).astype(np.int64)
    value, variance = 0.0, 0.0
    for weight, count, mu, root in zip(share, counts, mean, factor, strict=True):
        rows = generator.standard_normal((count, first.n_features)) @ root.T + mu
        ratio = first.log_density(rows) - second.log_density(rows)
        score = np.abs(np.tanh(ratio / 2))
        value += weight * score.mean()
        variance += weight**2 * score.var(ddof=1) / count
    width = float(ndtri((1 + _CONFIDENCE) / 2)) * math.sqrt(variance)
    return TotalVariation(float(value), width, "sampling")


def mixture_tv(
    first: Mixture,
    second: Mixture,
    *,
    n_samples: int = 200_000,
    rng: np.random.Generator | int | None = 0,
) -> TotalVariation:
    """Compute the total variation distance between two mixtures, with its error.

    Parameters
    ----------
    first, second : Mixture
        Of the same dimension; the numbers of components may differ.
    n_samples : int, optional
        Rows drawn beyond two dimensions. The interval shrinks like ``1 / sqrt(n_samples)``.
    rng : Generator or int or None, optional
        Used beyond two dimensions only; by default the same draws every time.

    Returns
    -------
    TotalVariation
        ``float(...)`` gives the value.

    Examples
    --------
    >>> far = Mixture([0.5, 0.5], [[0.0], [9.0]], [[[1.0]], [[1.0]]])
    >>> near = Mixture([1.0], [[0.0]], [[[1.0]]])
    >>> mixture_tv(far, near).method
    'roots'
    >>> round(float(mixture_tv(far, near)), 4)
    0.5
    """
    if first.n_features != second.n_features:
        raise InvalidInput(
            f"second must have {first.n_features} features like first, got {second.n_features}"
        )
    if n_samples < 2:
        raise InvalidInput(f"n_samples must be at least 2, got {n_samples}")
    if not _difference(first, second)[0].size:
        return TotalVariation(0.0, 0.0, "equal")
    if first.n_components == second.n_components == 1:
        tv = gaussian_tv(
            first.means[0], first.covariances[0], second.means[0], second.covariances[0]
        )
        return TotalVariation(float(tv), 1e-14, "contour")
    if first.n_features == 1:
        return _on_line(first, second)
    if first.n_features == 2:
        return _on_plane(first, second)
    return _by_sampling(first, second, n_samples, np.random.default_rng(rng))
