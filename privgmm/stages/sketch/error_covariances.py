"""Compute the error covariance of a published mixture, for each way in which one is found.

Every function gives the covariance (P, P) of the errors in a mixture's local coordinates (see
`StandardErrors.from_local`), from public numbers alone: the mixture, the noise levels of the plan
and the number of rows. Mixtures are in frame coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from privgmm.arrays import Array
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.stages.quadrature import points_of, scores, wave_moments
from privgmm.stages.refinement.moment_law import Features, moment_law
from privgmm.stages.sketch.fitting import Viewpoint
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.nearest import free_scores
from privgmm.stages.sketch.structures import FULL, Structure, numbers_per_component, pack
from privgmm.stages.standard_errors import StandardErrors

__all__ = [
    "MomentNoise",
    "after_noisy_em",
    "after_projection",
    "after_refinement",
    "computed_covariance",
    "errors_in_data_units",
    "rich_covariance",
]

_STEP = 1e-4
"""Step of central differences: their error, like its square, is about 1e-8; rounding adds less."""
_FAINT = 1e-6
"""Choice: eigenvalues below this share of the largest count as that, so that all stay finite."""
_POINTS = 1 << 12
"""Choice: points that stand for a law; an error need not be known exactly."""


class MomentNoise(NamedTuple):
    """Standard deviation of the noise on a component's moments, divided by n, in its own units."""

    share: float
    mean: float
    second: float

    @classmethod
    def averaged(cls, deviations: Array, n_features: int, steps: int) -> MomentNoise:
        """Return the noise of moments averaged over `steps` steps.

        `deviations` (1 + d + d(d+1)/2,) are those of one step, divided by n.
        """
        share, mean, second = deviations[[0, 1, 1 + n_features]] / math.sqrt(steps)
        return cls(float(share), float(mean), float(second))

    def of_scores(self, mixture: Mixture) -> Array:
        """Compute the covariance (P, P) that it causes in mean scores in local coordinates."""
        k, d = mixture.means.shape
        one = [self.share**2, self.mean**2, 0.25 * self.second**2]
        out = np.diag(np.tile(np.repeat(one, [1, d, d * (d + 1) // 2]), k))
        # shares are divided by their sum
        divided = np.eye(k) - mixture.weights[:, None]
        width = numbers_per_component(d)
        out[::width, ::width] = self.share**2 * divided @ divided.T
        return out


def computed_covariance(covariance: Callable[[], Array]) -> Array | None:
    """Return what `covariance` computes, or None where that fails.

    It fails for components that the sketch cannot distinguish: no errors can be stated then, and
    the release, which is paid for, goes on without them.
    """
    try:
        return covariance()
    except (InvalidInput, np.linalg.LinAlgError):
        return None


def errors_in_data_units(
    frame: Frame, mixture: Mixture, covariance: Array | None, *, well_specified: bool = True
) -> StandardErrors | None:
    """Compute standard errors, in data units, of a mixture in frame coordinates.

    Parameters
    ----------
    frame : Frame
    mixture : Mixture
    covariance : array (P, P) or None
        Of the errors in local coordinates; None where it is not known, or is no covariance.
    well_specified : bool
    """
    if covariance is None:
        return None
    try:
        return StandardErrors.from_local(
            mixture.weights,
            frame.root @ mixture.cholesky,
            covariance,
            well_specified=well_specified,
        )
    except (InvalidInput, np.linalg.LinAlgError):
        return None


def after_refinement(
    seen: Viewpoint, radius: float, deviations: Array, features: Features
) -> Array:
    """Compute error covariances where noisy moments refined the fit to a sketch of the same rows.

    Parameters
    ----------
    seen : Viewpoint
        The sketch whose fit was refined, seen from the refined mixture.
    radius, deviations, features
        As `moment_law` has them.

    Notes
    -----
    With e1, e2 the errors of the waves and of the moments, C1, C2 their covariances and J1, J2
    their slopes, the refined mixture is off by ``B (J1' C1^-1 e1 + J2' C2^-1 e2)``, B the inverse
    of the sum of both informations. The two errors share the sampling error of the rows, with
    covariance C12: to add the informations as if they were independent would count that twice.
    """
    sketched, mixture, first = seen.sketched, seen.mixture, seen.law
    second = moment_law(mixture, radius, deviations, sketched.n_units, features)
    frequencies = sketched.frequencies[sketched.fitted_from :]
    centred = second.features - second.mass @ second.features
    joint = wave_moments(mixture, frequencies, second.rows, centred)
    pulls = np.linalg.solve(second.covariance, second.slope).T
    informations = first.information + pulls @ second.slope
    cross = first.pulls @ (joint / sketched.n_units) @ pulls.T
    meat = first.known + pulls @ second.covariance @ pulls.T + cross + cross.T
    bread = np.linalg.inv(informations)
    return np.asarray(bread @ meat @ bread)


class _Bread(NamedTuple):
    """The bread of a sandwich covariance: an estimating equation, linearised at its solution.

    Parameters
    ----------
    scores : array (N, F)
        Of the points, in the free numbers.
    inverse : array (F, F)
        Inverse of minus the derivative of the mean score.
    to_local : array (P, F)
        From the free numbers to local coordinates.
    """

    scores: Array
    inverse: Array
    to_local: Array


def _bread(mixture: Mixture, rows: Array, mass: Array, structure: Structure) -> _Bread:
    """Linearise maximum likelihood on points, which need not follow such a mixture."""
    d = mixture.n_features
    theta = pack(mixture.weights, mixture.means, mixture.cholesky)

    seen, to_local = free_scores(theta, rows, structure)
    size = seen.shape[1]
    slope = np.empty((size, size))
    for j in range(size):
        step = np.zeros(size)
        step[j] = _STEP
        ahead, behind = (
            mass @ free_scores(structure.moved(theta, s, d), rows, structure)[0]
            for s in (step, -step)
        )
        slope[:, j] = (behind - ahead) / (2 * _STEP)
    slope = 0.5 * (slope + slope.T)
    # at a maximum it is not negative; the shift of all log-weights, which is flat, stays finite
    values, vectors = np.linalg.eigh(slope)
    floor = _FAINT * max(float(values.max()), _FAINT)
    return _Bread(seen, (vectors / np.maximum(values, floor)) @ vectors.T, to_local)


def after_projection(
    mixture: Mixture, law: Mixture, law_covariance: Array, structure: Structure = FULL
) -> Array:
    """Compute error covariances of the mixture nearest to one whose own are known.

    Parameters
    ----------
    mixture : Mixture
        The nearest to `law` among those that `structure` allows.
    law : Mixture
    law_covariance : array (P', P')
        Of its errors, in its own local coordinates.

    Notes
    -----
    The mean score of the mixture under the law is zero. If the law moves by t, it becomes
    ``E[s s_law'] t``, s and s_law the two scores; so the mixture moves by ``J^-1 E[s s_law'] t``,
    J minus the derivative of the mean score.
    """
    rows, mass = points_of(law, _POINTS)
    bread = _bread(mixture, rows, mass, structure)
    moves = bread.to_local @ bread.inverse @ ((bread.scores.T * mass) @ scores(law, rows))
    return np.asarray(moves @ law_covariance @ moves.T)


def after_noisy_em(
    mixture: Mixture, law: Mixture, noise: MomentNoise, n: float, steps: float
) -> Array:
    """Compute error covariances where noisy EM ended, on rows that follow another law.

    Parameters
    ----------
    mixture : Mixture
    law : Mixture
        What the rows follow, about.
    noise : MomentNoise
        On the moments of the steps that are averaged, together.
    n : float
        Rows, or persons.
    steps : float
        Number of steps: where EM is slow, noise has had no more time than that to grow.

    Notes
    -----
    Scores in local coordinates are linear in the moments that EM sums. So noisy EM solves a noisy
    score equation: the sandwich of maximum likelihood, with the noise added to the sampling error.
    """
    rows, mass = points_of(law, _POINTS)
    bread = _bread(mixture, rows, mass, FULL)
    spread = (bread.scores.T * mass) @ bread.scores / n
    sampling = bread.to_local @ bread.inverse @ spread @ bread.inverse @ bread.to_local.T
    local = bread.scores @ np.linalg.inv(bread.to_local)
    slow = np.linalg.inv((local.T * mass) @ local + np.diag(_complete(mixture)) / steps)
    return np.asarray(sampling + slow @ noise.of_scores(mixture) @ slow)


def rich_covariance(rich: Mixture, noise: MomentNoise, n: float, steps: float) -> Array:
    """Compute error covariances of a rich mixture from noisy EM, if the rows follow it."""
    rows, mass = points_of(rich, _POINTS)
    seen = scores(rich, rows)
    spread = (seen.T * mass) @ seen
    slow = np.linalg.inv(spread + np.diag(_complete(rich)) / steps)
    return np.asarray(slow @ (spread / n + noise.of_scores(rich)) @ slow)


def _complete(mixture: Mixture) -> Array:
    """Compute the diagonal (P,) of the information of one row whose component is known."""
    d = mixture.n_features
    one = np.repeat([1.0, 1.0, 0.5], [1, d, d * (d + 1) // 2])
    return np.outer(mixture.weights, one).ravel()
