"""Random mixtures of chosen difficulty, for examples and tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from privgmm.arrays import Array, finite_array, positive, whole_number
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture

__all__ = [
    "GENERATORS",
    "ill_conditioned",
    "overlapping",
    "random_mixture",
    "same_mean",
    "separation_of",
    "well_separated",
]

Weights = Literal["equal", "unequal"]


def random_mixture(
    n_components: int,
    n_features: int,
    *,
    separation: float = 4.0,
    condition: float = 1.0,
    growth: float = 1.0,
    weights: Weights | npt.ArrayLike = "equal",
    rng: np.random.Generator | int | None = None,
) -> Mixture:
    """Draw a mixture of random shape with chosen difficulty.

    Parameters
    ----------
    n_components, n_features : int
        k and d, each at least 1.
    separation : float
        The smallest `separation_of` any two components, met exactly; 0 gives one common mean.
    condition : float
        Ratio of the largest to the smallest eigenvalue of every covariance, met exactly;
        needs ``n_features >= 2`` unless it is 1.
    growth : float
        Component j has its covariance scaled by ``growth ** j`` (squared lengths).
    weights : "equal", "unequal" or array-like (k,)
        "unequal" draws them at random, each at least ``1 / (2 k)``.
    rng : Generator, int or None

    Notes
    -----
    Covariances are ``Q diag(e) Q^T`` with Q uniform over rotations, the extreme eigenvalues e at
    ``condition ** ±0.5`` and the others log-uniform between them. Means are drawn standard
    normal and then all scaled by one factor: separation is linear in that factor.
    """
    k, d = whole_number(n_components, "n_components", 1), whole_number(n_features, "n_features", 1)
    ratio, step = positive(condition, "condition"), positive(growth, "growth")
    if separation != 0:
        separation = positive(separation, "separation")
    if ratio < 1 or (d == 1 and ratio != 1):
        raise InvalidInput(
            f"condition must be >= 1, and exactly 1 in one dimension, got {condition!r}"
        )
    generator = np.random.default_rng(rng)
    exponents = np.sort(generator.uniform(-0.5, 0.5, (k, d)), axis=1)
    exponents[:, 0], exponents[:, -1] = (-0.5, 0.5) if d > 1 else (0.0, 0.0)
    lengths = ratio ** (exponents / 2) * np.sqrt(step ** np.arange(k))[:, None]
    rotations = np.linalg.qr(generator.standard_normal((k, d, d)))[0]
    roots = rotations * lengths[:, None, :]
    means = generator.standard_normal((k, d))
    w = _weights(weights, k, generator)
    if separation == 0:
        return Mixture.from_roots(w, np.zeros((k, d)), roots)
    unit = Mixture.from_roots(w, means - means.mean(axis=0), roots)
    if k == 1:
        return Mixture.from_roots(w, np.zeros((1, d)), roots)
    return Mixture.from_roots(w, unit.means * (separation / separation_of(unit)), roots)


def separation_of(mixture: Mixture) -> float:
    """Compute the smallest distance between two means, in units of the components' spread.

    For components a and b it is ``‖(Sigma_a + Sigma_b)/2 ^(-1/2) (mu_a - mu_b)‖``: 0 for a common
    mean, about 2 where two bumps start to merge, 6 and more where almost no row is in doubt.
    A single component gives infinity.
    """
    smallest = np.inf
    for a in range(mixture.n_components):
        for b in range(a):
            # A root of the average covariance, from the roots of both: no squaring.
            both = np.vstack([mixture.cholesky[a].T, mixture.cholesky[b].T]) / np.sqrt(2)
            upper = np.linalg.qr(both)[1]
            gap = solve_triangular(upper, mixture.means[a] - mixture.means[b], trans="T")
            smallest = min(smallest, float(np.linalg.norm(gap)))
    return smallest


def well_separated(
    n_components: int = 2, n_features: int = 2, *, rng: np.random.Generator | int | None = None
) -> Mixture:
    """Draw components eight spreads apart or more, of moderate shapes and unequal weights."""
    return random_mixture(
        n_components,
        n_features,
        separation=8.0,
        condition=4.0 if n_features > 1 else 1.0,
        weights="unequal",
        rng=rng,
    )


def overlapping(
    n_components: int = 2, n_features: int = 2, *, rng: np.random.Generator | int | None = None
) -> Mixture:
    """Draw components that merge: the nearest two are two spreads apart."""
    return random_mixture(
        n_components,
        n_features,
        separation=2.0,
        condition=4.0 if n_features > 1 else 1.0,
        weights="unequal",
        rng=rng,
    )


def same_mean(
    n_components: int = 2, n_features: int = 2, *, rng: np.random.Generator | int | None = None
) -> Mixture:
    """Draw components with one common mean, which differ in shape and size only."""
    return random_mixture(
        n_components,
        n_features,
        separation=0.0,
        condition=16.0 if n_features > 1 else 1.0,
        growth=9.0,
        rng=rng,
    )


def ill_conditioned(
    n_components: int = 2, n_features: int = 2, *, rng: np.random.Generator | int | None = None
) -> Mixture:
    """Draw needle-like components, a thousand times longer than wide (condition number 1e6)."""
    return random_mixture(
        n_components,
        n_features,
        separation=8.0,
        condition=1e6 if n_features > 1 else 1.0,
        weights="unequal",
        rng=rng,
    )


GENERATORS: dict[str, Callable[..., Mixture]] = {
    "well_separated": well_separated,
    "overlapping": overlapping,
    "same_mean": same_mean,
    "ill_conditioned": ill_conditioned,
}
"""Named families of random mixtures: ``f(n_components, n_features, rng=...)``."""


def _weights(weights: Weights | npt.ArrayLike, k: int, generator: np.random.Generator) -> Array:
    if isinstance(weights, str):
        if weights == "equal":
            return np.full(k, 1 / k)
        if weights == "unequal":
            return 0.5 / k + 0.5 * generator.dirichlet(np.ones(k))
        raise InvalidInput(f"weights must be 'equal', 'unequal' or an array, got {weights!r}")
    return finite_array(weights, "weights", (k,))
