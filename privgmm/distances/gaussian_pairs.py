"""Random pairs of Gaussians, with the numbers of Theorem 1.8 for each, for pictures.

Total variation and Delta do not change when both Gaussians go through one affine map, so the
first may be taken as N(0, I) and the second as N(m, diag(lam)) without loss.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from privgmm.arrays import Array
from privgmm.distances.bounds import theorem_1_8
from privgmm.errors import InvalidInput

__all__ = ["NEAREST", "PAIR_KINDS", "WIDEST", "PairCloud", "Standardised", "random_pairs"]

PAIR_KINDS = ("mean", "covariance", "both")
"""What the two Gaussians of a pair differ in."""

NEAREST, WIDEST = 1e-4, 20.0
"""Delta is drawn evenly between these on a logarithmic scale."""

_LEAST_EIGENVALUE = 0.02  # of the second covariance; below, its change takes the other sign


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Standardised:
    """One pair, seen where the first Gaussian is N(0, I).

    Parameters
    ----------
    mean : array (d,)
        Mean m of the second.
    eigenvalues : array (d,)
        The second has covariance ``diag(eigenvalues)``.
    """

    mean: Array
    eigenvalues: Array

    def plane(self) -> tuple[Array, Array]:
        """Return mean (2,) and covariance (2, 2) of the two coordinates that differ most.

        One-dimensional pairs get a second coordinate in which they do not differ.
        """
        mean, eigenvalues = self.mean, self.eigenvalues
        if len(mean) == 1:
            mean, eigenvalues = np.append(mean, 0.0), np.append(eigenvalues, 1.0)
        most = np.argsort(-np.maximum(np.abs(mean), np.abs(eigenvalues - 1)), kind="stable")[:2]
        return mean[most], np.diag(eigenvalues[most])


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PairCloud:
    """Many pairs of one dimension that differ in one way.

    Parameters
    ----------
    n_features : int
        Dimension d.
    kind : {"mean", "covariance", "both"}
    means, eigenvalues : arrays (n, d)
        See `Standardised`.
    delta, tv : arrays (n,)
        Theorem 1.8's parameter distance and the exact total variation.
    """

    n_features: int
    kind: str
    means: Array
    eigenvalues: Array
    delta: Array
    tv: Array

    def __len__(self) -> int:
        return len(self.delta)

    def pair(self, index: int) -> Standardised:
        """Return one of the pairs."""
        return Standardised(self.means[index], self.eigenvalues[index])


def _directions(n: int, d: int, rng: np.random.Generator) -> Array:
    """Draw unit vectors (n, d), with few large entries as often as with many."""
    raw = rng.standard_normal((n, d)) * rng.exponential(size=(n, d)) ** rng.integers(0, 3, (n, 1))
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True), dtype=np.float64)


def random_pairs(
    n: int, n_features: int, kind: str, *, rng: np.random.Generator | int
) -> PairCloud:
    """Draw `n` pairs in `n_features` dimensions that differ in the way `kind` says.

    Notes
    -----
    Mean and covariance move in random directions, whichever moves further by the drawn Delta. A
    direction in which the covariance would stop being positive definite has its signs turned.

    Examples
    --------
    >>> cloud = random_pairs(50, 3, "both", rng=1)
    >>> bool((cloud.tv <= cloud.delta / 2**0.5).all())
    True
    """
    if kind not in PAIR_KINDS:
        raise InvalidInput(f"kind must be one of {', '.join(PAIR_KINDS)}, got {kind!r}")
    if n < 1 or n_features < 1:
        raise InvalidInput(f"n and n_features must be at least 1, got {n!r} and {n_features!r}")
    generator = np.random.default_rng(rng)
    size = np.exp(generator.uniform(math.log(NEAREST), math.log(WIDEST), n))
    shift = np.ones(n) if kind == "mean" else np.zeros(n)
    stretch = 1 - shift
    if kind == "both":
        lesser = generator.uniform(size=n)
        leads = generator.random(n) < 0.5
        shift, stretch = np.where(leads, 1.0, lesser), np.where(leads, lesser, 1.0)
    means = (size * shift)[:, None] * _directions(n, n_features, generator)
    excess = (size * stretch)[:, None] * _directions(n, n_features, generator)
    flat = (1 + excess).min(axis=1) < _LEAST_EIGENVALUE
    excess[flat] = np.abs(excess[flat])
    eye = np.eye(n_features)
    known = theorem_1_8(np.zeros(n_features), eye, means, eye + excess[:, :, None] * eye)
    return PairCloud(
        n_features, kind, means, 1 + excess, np.asarray(known.delta), np.asarray(known.tv)
    )
