"""State the errors of components that looks found, from the noise of the looks and from sampling.

In units of a component all directions are alike: a mean's coordinates have one standard error, and
so have the entries of svec of a covariance. So a few numbers per component say what a covariance
matrix of all errors says elsewhere (`accuracy`), and what it says is computed from them.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import erf

from privgmm.arrays import Array, BoolArray, frozen
from privgmm.mixture import Mixture
from privgmm.stages.accuracy import (
    ExpectedError,
    resolution_in_words,
    units_apart,
)
from privgmm.stages.standard_errors import StandardErrors

__all__ = ["ComponentErrors"]

_DRAWS, _SEED = 512, 20240611
"""Convention: errors that are drawn, always the same: equal questions have equal answers."""
_NEAR, _SURE, _REGION = 0.2, 0.95, 2.0
"""As in `accuracy.resolution_of`: what "resolved" promises, how surely, and how far a number may
lie from its estimate in standard errors."""


@dataclasses.dataclass(frozen=True, eq=False)
class ComponentErrors:
    """Standard errors of components, each in its own units.

    Parameters
    ----------
    weights, means, entries : array (k,)
        Of a component's weight, of a coordinate of its mean, and of an entry of svec of its
        covariance.
    suspect : array (k,) of bool
        Components of which public numbers say that they may not be where they seem to be.
    """

    mixture: Mixture
    weights: Array
    means: Array
    entries: Array
    suspect: BoolArray = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=bool))

    def __post_init__(self) -> None:
        for name in ("weights", "means", "entries"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        k = self.mixture.n_components
        flags = self.suspect if len(self.suspect) else np.zeros(k, dtype=bool)
        object.__setattr__(self, "suspect", frozen(flags))

    def _drawn(self) -> tuple[Array, Array, Array]:
        """Draw sizes of errors (N, k): of weights, of means, and of covariances in Frobenius."""
        rng = np.random.default_rng(_SEED)
        k, d = self.mixture.means.shape
        weights = np.abs(rng.standard_normal((_DRAWS, k))) * self.weights
        means = np.sqrt(rng.chisquare(d, (_DRAWS, k))) * self.means
        covariances = np.sqrt(rng.chisquare(d * (d + 1) / 2, (_DRAWS, k))) * self.entries
        return weights, means, covariances

    def law(self) -> ExpectedError:
        """Compute the law of dist_GMM to the truth.

        A component that moves by m, and whose covariance moves by M, both in its own units, is off
        by a total variation of about ``erf(sqrt((|m|^2 + |M|^2 / 2) / 8))``: for many columns the
        log density ratio is nearly normal, as for a shift alone.
        """
        weights, means, covariances = self._drawn()
        off = erf(np.sqrt((means**2 + covariances**2 / 2) / 8))
        return ExpectedError.of(np.maximum(off, weights).max(axis=1))

    def resolution(self, *, well_specified: bool) -> tuple[str, ...]:
        """Say of each component whether it is resolved, by the rules of `accuracy.resolution_of`.

        Suspect components are not.
        """
        drawn, mixture = self._drawn(), self.mixture
        # an error of the covariance counts against either of both, here to first order
        near = np.quantile(np.max(drawn, axis=0), _SURE, axis=0) <= _NEAR
        half = math.sqrt((mixture.n_features + 1) / 2)
        place = _REGION * self.means
        lost = (
            self.suspect
            | (_REGION * self.weights >= mixture.weights)
            | (place >= 1)
            | (units_apart(mixture).min(axis=1) <= place)
            | (_REGION * half * self.entries >= 2 * math.log(2))
        )
        return resolution_in_words(mixture, near & well_specified, lost)

    def standard_errors(self, scale: Array, *, well_specified: bool) -> StandardErrors:
        """Convert to the units of the data, of which one unit of a column is `scale` (d,).

        An entry of ``L M L^T`` has the variance ``(S_ii S_jj + S_ij^2) / 2`` times that of M's.
        """
        covariances = self.mixture.covariances * np.outer(scale, scale)
        own = np.einsum("kii->ki", covariances)
        of_entries = (own[:, :, None] * own[:, None, :] + covariances**2) / 2
        spread = self.means[:, None, None] ** 2 * covariances
        return StandardErrors(
            self.weights,
            np.sqrt(np.einsum("kii->ki", spread)),
            self.entries[:, None, None] * np.sqrt(of_entries),
            spread,
            well_specified,
        )
