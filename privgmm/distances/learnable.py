"""Statistical learnability (Definition 6.4): whether the parts of a mixture can be distinguished.

A component that is rare, or nearly equal to another one, takes every learner many rows to find.
The number gamma of a mixture says how rare or how near, and so why block fits disagree.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from privgmm.arrays import positive
from privgmm.distances.total_variation import gaussian_tv
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture

__all__ = ["Learnability", "learnable"]


@dataclasses.dataclass(frozen=True)
class Learnability:
    """The distance of a mixture from fewer components; as confidential as the mixture.

    Parameters
    ----------
    smallest_weight : float
        ``min_i w_i``.
    rarest : int
        The component that has it, counted from 0.
    smallest_variation : float
        ``min_{i != j} TV(N(mu_i, Sigma_i), N(mu_j, Sigma_j))``, exact; infinite for k = 1, where
        there is no pair.
    closest : pair of int or None
        The two components that attain it.
    """

    smallest_weight: float
    rarest: int
    smallest_variation: float
    closest: tuple[int, int] | None

    @property
    def gamma(self) -> float:
        """The largest gamma for which the mixture is gamma-statistically learnable."""
        return min(self.smallest_weight, self.smallest_variation)

    def holds(self, gamma: float) -> bool:
        """Check Definition 6.4: weights, and variations between components, are >= gamma.

        Theorem 6.5, and Corollary 6.6 with privacy, promise to learn such mixtures to within
        gamma from polynomially many rows.
        """
        if positive(gamma, "gamma") > 1:
            raise InvalidInput(f"gamma must lie in (0, 1], got {gamma!r}: it bounds a weight")
        return self.gamma >= gamma

    def explain(self) -> str:
        """Say what limits gamma, in plain words.

        >>> two = Mixture([0.9, 0.1], [[0.0], [0.2]], [[[1.0]], [[1.0]]])
        >>> learnable(two).explain()
        'gamma = 0.08 (Definition 6.4): components 1 and 2 nearly coincide, at total variation 0.08'
        """
        head = f"gamma = {self.gamma:.2g} (Definition 6.4)"
        if self.closest is None:
            return f"{head}: a single component, with none to be mistaken for"
        i, j = (index + 1 for index in self.closest)
        if self.smallest_variation < self.smallest_weight:
            near = "nearly coincide" if self.smallest_variation < 0.5 else "are the closest"
            return (
                f"{head}: components {i} and {j} {near}, at total variation "
                f"{self.smallest_variation:.2g}"
            )
        return (
            f"{head}: component {self.rarest + 1} is the rarest, with weight "
            f"{self.smallest_weight:.2g}; the closest two, {i} and {j}, are at total variation "
            f"{self.smallest_variation:.2g}"
        )


def learnable(mixture: Mixture) -> Learnability:
    """Measure a mixture by Definition 6.4.

    For a released mixture the answer is public; for any other fit it is CONFIDENTIAL.

    Notes
    -----
    The answer depends neither on units nor on the order of components, as total variation and
    weights do not. A component of weight zero makes gamma zero.
    """
    k = mixture.n_components
    rarest = int(np.argmin(mixture.weights))
    weight = float(mixture.weights[rarest])
    if k == 1:
        return Learnability(weight, rarest, np.inf, None)
    i, j = np.triu_indices(k, 1)
    means, covariances = mixture.means, mixture.covariances
    values = np.atleast_1d(gaussian_tv(means[i], covariances[i], means[j], covariances[j]))
    at = int(np.argmin(values))
    return Learnability(weight, rarest, float(values[at]), (int(i[at]), int(j[at])))
