"""The lifted space: a weighted Gaussian as one positive definite matrix.

A component (w, mu, Sigma) is the same thing as ``T = w [[Sigma + mu mu^T, mu], [mu^T, 1]]``.
Under the affine-invariant distance these matrices form a space of non-positive curvature, in
which weighted means exist, are unique, and move little when a little weight moves. So the
agreeing fits can be averaged before they are masked, and the mask shrinks accordingly.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from privgmm.arrays import Array, positive
from privgmm.errors import InvalidInput
from privgmm.matching import bottleneck_matchings
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.spaces import Randomness
from privgmm.spaces.lifted_geometry import karcher_mean, lift, lifted_distance, unlift
from privgmm.spaces.lifted_labels import blurred_pairs
from privgmm.spaces.lifted_pairs import pairwise_lifted

__all__ = ["MEAN_TOLERANCE", "LiftedSpace"]

MEAN_TOLERANCE = 1e-10
"""How far a computed Karcher mean may be from the true one; the plan's gamma allows for it."""


@dataclasses.dataclass(frozen=True)
class LiftedSpace:
    """Mixtures under the lifted distance, averaged by Karcher means, masked as matrices.

    Parameters
    ----------
    eta : float
        Noise level of the mask ``U (I + eta G)(I + eta G)^T U^T``, ``T = U U^T``.
    clearance : float
        Two fits are compared only if any two components that do not match are farther apart
        than this: else labels could not be told apart. 0 for a single component.
    """

    eta: float
    clearance: float = 0.0

    def __post_init__(self) -> None:
        positive(self.eta, "eta")
        if not (math.isfinite(self.clearance) and self.clearance >= 0):
            raise InvalidInput(f"clearance must be finite and >= 0, got {self.clearance!r}")

    def distances(self, items: MixtureBatch) -> Array:
        """Lifted distances of all pairs (t, t); infinite where fits failed or labels blur."""
        distances = pairwise_lifted(items)
        if items.n_components == 1:
            return distances
        return np.where(blurred_pairs(items, distances, self.clearance), np.inf, distances)

    def representative(self, items: MixtureBatch, weights: Array, reference: int) -> Array:
        """Roots (k, d+1, d+1) of the weighted Karcher means of the aligned components.

        Every block that counts is aligned to the reference by the best matching; separation
        makes that matching unique.
        """
        members = np.flatnonzero(weights > 0)
        roots = lift(items.weights[members], items.means[members], items.cholesky[members])
        anchor = lift(items.weights[reference], items.means[reference], items.cholesky[reference])
        table = lifted_distance(anchor[None, :, None], roots[:, None, :])
        order = bottleneck_matchings(table).permutations
        aligned = np.take_along_axis(roots, order[:, :, None, None], axis=1)
        share = weights[members] / weights[members].sum()
        means = []
        for j in range(items.n_components):
            mean, residual = karcher_mean(aligned[:, j], share, tolerance=MEAN_TOLERANCE)
            if residual > MEAN_TOLERANCE:
                raise InvalidInput(f"the mean of component {j} did not converge: {residual:.2g}")
            means.append(mean)
        return np.stack(means)

    def mask(self, item: Array, *, rng: Randomness) -> Mixture:
        """Mask every lifted component, shuffle, unlift, normalise the weights."""
        k, p, _ = item.shape
        order = rng.permutation(k)
        noisy = item[order] @ (np.eye(p) + self.eta * rng.normal((k, p, p)))
        weights, means, cholesky = unlift(noisy)
        return Mixture.from_roots(weights / weights.sum(), means, cholesky)
