"""Compute the law of noisy moments, and the errors of a mixture refined by them.

Refinement publishes the mixture that explains noisy moments of all rows. How far it may be off
follows from how far the moments may be: sampling of the rows, which depends on the mixture, and
noise, which is part of the plan. All of it is public.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from privgmm.arrays import Array
from privgmm.mixture import Mixture
from privgmm.stages.quadrature import points_of, scores

__all__ = ["Features", "MomentLaw", "moment_law", "refined_covariance"]

Features = Callable[[Array, Mixture, float], tuple[Array, Array]]
"""What rows contribute under a public mixture, as `cut_features` and `winsorised_features` say."""


class MomentLaw(NamedTuple):
    """Expectation and errors of noisy moments, linearised at the mixture they are seen through.

    Parameters
    ----------
    slope : array (P, P)
        Derivative of their expectation in the mixture's local coordinates.
    covariance : array (P, P)
        Of their errors: sampling and noise.
    features : array (N, P)
        What each of the points contributes.
    rows, mass : arrays (N, d), (N,)
        The points, and their weights.
    """

    slope: Array
    covariance: Array
    features: Array
    rows: Array
    mass: Array


def moment_law(
    mixture: Mixture, radius: float, deviations: Array, n: float, features: Features
) -> MomentLaw:
    """Compute the law of noisy moments, divided by n, of rows that follow the mixture.

    Parameters
    ----------
    mixture : Mixture
        The rows follow it, and are seen through it.
    radius : float
        R at which moments are cut or winsorised.
    deviations : array (1 + d + d(d+1)/2,)
        Standard deviation of the noise on each moment divided by n.
    n : float
        Rows, or persons.
    features : callable
        What a row contributes.
    """
    rows, mass = points_of(mixture)
    flat = features(rows, mixture, radius)[0].reshape(len(rows), -1)
    weighed = (flat - mass @ flat) * mass[:, None]
    covariance = weighed.T @ flat / n
    covariance[np.diag_indices_from(covariance)] += np.tile(deviations**2, mixture.n_components)
    return MomentLaw(weighed.T @ scores(mixture, rows), covariance, flat, rows, mass)


def refined_covariance(
    mixture: Mixture, radius: float, deviations: Array, n: float, features: Features
) -> Array:
    """Compute the covariance (P, P) of errors after a last step of refinement.

    In local coordinates; the arguments are those of `moment_law`. That the moments were seen
    through the mixture of the step before, which the same rows helped to find, matters to second
    order only.
    """
    law = moment_law(mixture, radius, deviations, n, features)
    information = law.slope.T @ np.linalg.solve(law.covariance, law.slope)
    # weights sum to one: a common shift of the log-weights says nothing
    information += np.eye(len(information))
    return np.asarray(np.linalg.inv(information))
