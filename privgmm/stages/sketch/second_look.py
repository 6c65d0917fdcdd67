"""Forecast a second look at the rows: another sketch, or moments seen through the fit.

Both cost the same. A second sketch, averaged with the first, is as good as one sketch with all of
the noise budget, and it serves every later question. But waves see a component that is much
narrower than the frame only in their highest frequencies; moments see each component in its own
units. Which of the two leaves the smaller error is computed here, at a mixture that is public or
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
from privgmm.stages.refinement.winsorised import WinsorisedMoments
from privgmm.stages.sketch.fitting import expected_information

__all__ = ["FEW_COLUMNS", "UNTOLD", "RefiningStep", "SecondLook", "compare_looks", "refining_steps"]

FEW_COLUMNS = 3
"""With more columns a second sketch never helps as much as moments."""
_WORTH = 0.85
"""Choice: moments must leave less than this share of the error; a sketch serves later looks too."""
_PLACED = 1.0
"""Choice: up to this error of the first fit its components are about where they should be."""
_COARSE = 0.25
"""Choice: above this error of the first fit, moments of many columns are taken in two steps."""
_FIRST_STEP = 0.12
"""Choice: share of the account for the first of two steps."""
_WIDE, _NARROW = 1.6, 1.25
"""Choice: radii at which moments are winsorised, in units of sqrt(d)."""
_MANY_SCALES = (0.2, 0.6, 1.0)
"""Choice: with many columns second moments have most of the error, and get most of the account."""


class SecondLook(NamedTuple):
    """Median errors of the worst component (`worst_component_error`).

    Parameters
    ----------
    first : float
        Of the fit to the first sketch alone.
    again : float
        After a second sketch; infinite where that is not considered.
    refined : float
        After the last step on moments; with so large a number of components that the forecast
        would take seconds, the error of the first sketch.
    covariance : array (P, P) or None
        Of the errors after the way that is taken, in local coordinates; None without a forecast.
    """

    first: float
    again: float
    refined: float
    covariance: Array | None = None

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
        """Error after the way that is taken."""
        return self.refined if self.refines else self.again


UNTOLD = SecondLook(math.inf, math.inf, math.inf)
"""Without a forecast, a second sketch is the safe way."""


class RefiningStep(NamedTuple):
    """One look at the rows through a public mixture: its share of the account, and its moments."""

    share: float
    moments: WinsorisedMoments


def refining_steps(n_features: int, first_error: float) -> tuple[RefiningStep, ...]:
    """List the steps of a refinement; their shares of the account add up to one.

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
        return (RefiningStep(1.0, WinsorisedMoments(wide)),)
    last = WinsorisedMoments(narrow, _MANY_SCALES)
    if first_error <= _COARSE:
        return (RefiningStep(1.0, last),)
    return (
        RefiningStep(_FIRST_STEP, WinsorisedMoments(wide, _MANY_SCALES)),
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
    """Forecast the error that either way would leave, if the rows come from `mixture`.

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
    known = expected_information(mixture, frequencies, first_noise, n_units)
    after_again = after_moments = np.asarray(np.linalg.inv(known))
    first = worst_component_error(after_again, w)
    again, refined = math.inf, first
    if d <= FEW_COLUMNS:
        both = 1 / np.sqrt(first_noise**-2.0 + second_noise**-2.0)
        twice = expected_information(mixture, frequencies, both, n_units)
        after_again = np.asarray(np.linalg.inv(twice))
        again = worst_component_error(after_again, w)
    if len(known) <= MOST_PARAMETERS:
        share, moments = refining_steps(d, first)[-1]
        noise = moments.deviations(multiplier / math.sqrt(share), d)
        more = moment_information(mixture, moments.radius, noise, n_units, winsorised_features)
        shared = known @ np.linalg.solve(more.exact, more.noisy)
        bread = np.linalg.inv(known + more.noisy)
        after_moments = bread @ (known + more.noisy + shared + shared.T) @ bread
        refined = worst_component_error(after_moments, w)
    found = SecondLook(first, again, refined)
    return found._replace(covariance=after_moments if found.refines else after_again)
