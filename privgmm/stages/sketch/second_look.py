"""What a second look at the rows will bring: another sketch, or moments seen through the fit.

Both cost the same. A second sketch, averaged with the first, is as good as one sketch with all of
the noise budget, and it serves every later question. But waves see a component that is much
narrower than the frame only in their highest frequencies; moments see each component in its own
units. Which of the two leaves the smaller error is worked out here, at a mixture that is public or
expected: nothing depends on the rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from privgmm.arrays import Array
from privgmm.mixture import Mixture
from privgmm.stages.refinement.expected_error import (
    MOST_PARAMETERS,
    moment_information,
    worst_component_error,
)
from privgmm.stages.refinement.noisy_moments import winsorised_features
from privgmm.stages.refinement.winsorised import Moments
from privgmm.stages.sketch.fitting import expected_information

__all__ = ["FEW_COLUMNS", "UNTOLD", "RefiningStep", "SecondLook", "compare_looks", "refining_steps"]

FEW_COLUMNS = 3
"""With more columns a second sketch never helps as much as moments."""
_WORTH = 0.85
"""Moments must leave less than this share of the error: a second sketch serves later looks too."""
_PLACED = 1.0
"""Up to this error of the first fit its components are where they should be, about."""
_COARSE = 0.25
"""Above this error of the first fit, moments of many columns are looked at twice."""
_FIRST_STEP = 0.12
"""Of the account, where there are two steps."""
_WIDE, _NARROW = 1.6, 1.25
"""Radii at which moments are winsorised, in units of sqrt(d)."""
_MANY_SCALES = (0.2, 0.6, 1.0)
"""With many columns second moments have most of the error, and get most of the account."""


class SecondLook(NamedTuple):
    """Median errors of the worst component (`worst_component_error`).

    Parameters
    ----------
    first : float
        Of the fit to the first sketch alone.
    again : float
        After a second sketch; infinite where that is not considered.
    refined : float
        After the last step on moments; where the components are so many that it would take
        seconds to tell, that of the first sketch.
    """

    first: float
    again: float
    refined: float

    @property
    def refines(self) -> bool:
        """Whether moments are clearly better, and there is a fit to see the rows through.

        Where the first sketch cannot place components to within their own width, only another
        sketch may; with many columns there is no such choice.
        """
        if math.isfinite(self.again) and self.first > _PLACED:
            return False
        return self.refined < _WORTH * self.again

    @property
    def error(self) -> float:
        """After the way that is taken."""
        return self.refined if self.refines else self.again


UNTOLD = SecondLook(math.inf, math.inf, math.inf)
"""Where nothing can be told, a second sketch is the safe way."""


class RefiningStep(NamedTuple):
    """One look at the rows through a public mixture: what it takes of the account, and what for."""

    share: float
    moments: Moments


def refining_steps(n_features: int, first_error: float) -> tuple[RefiningStep, ...]:
    """The steps of a refinement; their shares of the account add up to one.

    With many columns a narrow radius has the least noise. But a coarse mixture sees little through
    it, and the fit to a sketch can be off by more than the width of a component: then a cheap step
    with a wide radius comes first.

    Parameters
    ----------
    n_features : int
    first_error : float
        Of the fit to the first sketch alone, as `SecondLook.first`.
    """
    wide, narrow = (radius * math.sqrt(n_features) for radius in (_WIDE, _NARROW))
    if n_features <= FEW_COLUMNS:
        return (RefiningStep(1.0, Moments(wide)),)
    last = Moments(narrow, _MANY_SCALES)
    if first_error <= _COARSE:
        return (RefiningStep(1.0, last),)
    return (
        RefiningStep(_FIRST_STEP, Moments(wide, _MANY_SCALES)),
        RefiningStep(1 - _FIRST_STEP, last),
    )


def compare_looks(
    mixture: Mixture,
    frequencies: Array,
    first_noise: Array,
    second_noise: Array,
    multiplier: float,
    n_units: int,
) -> SecondLook:
    """What either way would leave, if the rows come from `mixture`.

    Parameters
    ----------
    mixture : Mixture
        In frame coordinates.
    frequencies : array (m, d)
        Of both sketches.
    first_noise, second_noise : array (m,)
        Standard deviations of the noise on the values of either sketch.
    multiplier : float
        Noise of the moments of all steps together, in units of their sensitivity.
    n_units : int
        Rows, or persons.

    Notes
    -----
    The first sketch, of information I1, is followed by moments of information I2, and the estimate
    weighs both by their information: with ``B = (I1 + I2)^-1`` its covariance is
    ``B (I1 + I2 + I1 C I2 + I2 C I1) B``. C is the covariance of both estimates' errors. They share
    the sampling error of the rows, and since moments are nearly efficient, that is F, the
    covariance that moments without noise would have: the less efficient estimate differs from the
    efficient one by something uncorrelated with it.
    """
    d, w = mixture.n_features, mixture.weights
    told = expected_information(mixture, frequencies, first_noise, n_units)
    first = worst_component_error(np.asarray(np.linalg.inv(told)), w)
    again, refined = math.inf, first
    if d <= FEW_COLUMNS:
        both = 1 / np.sqrt(first_noise**-2.0 + second_noise**-2.0)
        twice = expected_information(mixture, frequencies, both, n_units)
        again = worst_component_error(np.asarray(np.linalg.inv(twice)), w)
    if len(told) <= MOST_PARAMETERS:
        share, moments = refining_steps(d, first)[-1]
        noise = moments.deviations(multiplier / math.sqrt(share), d)
        more = moment_information(mixture, moments.radius, noise, n_units, winsorised_features)
        shared = told @ np.linalg.solve(more.exact, more.noisy)
        bread = np.linalg.inv(told + more.noisy)
        refined = worst_component_error(bread @ (told + more.noisy + shared + shared.T) @ bread, w)
    return SecondLook(first, again, refined)
