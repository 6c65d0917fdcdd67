"""Pairs of Gaussian vectors: what noise shows of either of two data sets, exactly.

A mask draws Gaussian numbers and then squares and shuffles them into a mixture. An attacker who
sees the numbers themselves sees more than is ever published, and for that attacker everything is
exact: two Gaussian vectors, their likelihood ratio, and the delta at any epsilon. Spaces say which
pairs their masks draw; the audit compares those pairs with their price.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.linalg import block_diag, solve_triangular

from privgmm.arrays import Array, frozen
from privgmm.distances.total_variation import gaussian_hockey_stick
from privgmm.errors import InvalidInput

__all__ = ["Closeness", "GaussianPair", "PricedPair", "directions"]


@dataclasses.dataclass(frozen=True)
class Closeness:
    """The closeness of two laws: ``P(E) <= exp(epsilon) Q(E) + delta`` for every event E.

    Unlike the epsilon of a budget this one may be zero.
    """

    epsilon: float
    delta: float


@dataclasses.dataclass(frozen=True, eq=False)
class GaussianPair:
    """Two Gaussian vectors: what is seen if the data set is A, and if it is B.

    Parameters
    ----------
    mean_a, mean_b : array (m,)
    root_a, root_b : array (m, m)
        Lower triangular square roots of the covariances.
    """

    mean_a: Array
    root_a: Array
    mean_b: Array
    root_b: Array

    def __post_init__(self) -> None:
        m = self.mean_a.size
        shapes = [np.shape(getattr(self, field.name)) for field in dataclasses.fields(self)]
        if shapes != [(m,), (m, m), (m,), (m, m)]:
            raise InvalidInput(
                "a pair needs two means (m,) and two roots (m, m) of one length m, got shapes "
                + ", ".join(map(str, shapes))
            )
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, frozen(getattr(self, field.name)))

    # ----------------------------------------------------------------------------- making

    @classmethod
    def of_number(cls, a: float, b: float, deviation: float) -> GaussianPair:
        """Build the pair of one number with equal noise around a or b."""
        root = np.array([[deviation]])
        return cls(np.array([a]), root, np.array([b]), root)

    @classmethod
    def of_matrix(cls, ratios: Array, eta: float) -> GaussianPair:
        """Build ``I + eta G`` against ``D (I + eta G)``, ``D = diag(sqrt ratios)``, row by row.

        For roots ``T = U U^T`` the law of ``U (I + eta G)(I + eta G)^T U^T`` depends on T alone,
        so two of them may be turned until ``U_A^-1 U_B`` is symmetric. In its eigenvectors the
        two matrices drawn are the ones above, with the eigenvalues of ``T_A^-1 T_B`` as ratios.
        """
        p = ratios.size
        scale = np.repeat(np.sqrt(ratios), p)
        flat = np.eye(p).reshape(-1)
        return cls(flat, eta * np.eye(p * p), scale * flat, np.diag(eta * scale))

    @classmethod
    def joined(cls, pairs: Sequence[GaussianPair]) -> GaussianPair:
        """Join independent pairs into one that shows all of them."""
        return cls(
            np.concatenate([pair.mean_a for pair in pairs]),
            block_diag(*(pair.root_a for pair in pairs)),
            np.concatenate([pair.mean_b for pair in pairs]),
            block_diag(*(pair.root_b for pair in pairs)),
        )

    def swapped(self) -> GaussianPair:
        """Exchange A and B."""
        return GaussianPair(self.mean_b, self.root_b, self.mean_a, self.root_a)

    # ------------------------------------------------------------------------------ using

    def draw(self, from_a: npt.ArrayLike, *, rng: np.random.Generator) -> Array:
        """Draw a vector (n, m) per entry of `from_a` (n,): from A where True, else from B."""
        side = np.asarray(from_a, dtype=bool)[:, None]
        z = rng.standard_normal((side.size, self.mean_a.size))
        of_a = self.mean_a + z @ self.root_a.T
        return np.where(side, of_a, self.mean_b + z @ self.root_b.T)

    def loss(self, seen: Array) -> Array:
        """Compute the privacy loss ``ln p_A(v) - ln p_B(v)`` (n,) of each seen vector (n, m)."""
        return _log_density(seen, self.mean_a, self.root_a) - _log_density(
            seen, self.mean_b, self.root_b
        )

    def losses(self, n: int, *, rng: np.random.Generator) -> Array:
        """Draw n vectors from A and compute their losses."""
        return self.loss(self.draw(np.ones(n, dtype=bool), rng=rng))

    def delta(self, epsilon: npt.ArrayLike) -> Array:
        """Compute ``∫ max(p_A - e^epsilon p_B, 0)``: the least delta at this epsilon."""
        covariances = self.root_a @ self.root_a.T, self.root_b @ self.root_b.T
        return np.asarray(
            gaussian_hockey_stick(
                self.mean_a, covariances[0], self.mean_b, covariances[1], epsilon
            ),
            dtype=np.float64,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class PricedPair:
    """A pair, and how close an account takes its two sides to be."""

    pair: GaussianPair
    price: Closeness


def _log_density(seen: Array, mean: Array, root: Array) -> Array:
    """Compute the log density up to the constant that both sides share."""
    u = solve_triangular(root, (seen - mean).T, lower=True)
    return np.asarray(-0.5 * np.einsum("ij,ij->j", u, u) - np.log(np.diagonal(root)).sum())


def directions(size: int, *, rng: np.random.Generator) -> list[Array]:
    """Return unit vectors to try: one axis, all axes alike, mixed signs, random; both signs."""
    shapes = [np.eye(size)[0], np.ones(size)]
    if size > 1:
        shapes += [np.where(np.arange(size) % 2, -1.0, 1.0), rng.standard_normal(size)]
    return [sign * s / np.linalg.norm(s) for s in shapes for sign in (-1.0, 1.0)]
