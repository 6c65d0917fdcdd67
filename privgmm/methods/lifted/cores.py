"""Which test to ask of the blocks, and which stage of agreement to build around it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from privgmm.arrays import Array
from privgmm.methods.calibration import for_curves, refinement_curve
from privgmm.methods.request import PlanRequest
from privgmm.privacy.curves import gaussian_curve, largest_on_private_side
from privgmm.stages.agreement.lifted_space import LiftedSpace, averaged_move
from privgmm.stages.agreement.noise_levels import lifted_eta
from privgmm.stages.agreement.stage import AveragedAgreement
from privgmm.stages.agreement.votes import AgreementTest, core_sensitivity
from privgmm.stages.refinement.noisy_moments import Refinement

__all__ = ["LARGEST_RADIUS", "averaged", "best_core", "component_gap"]

LARGEST_RADIUS = 3.0
"""Fits farther apart than this are never called alike."""


def best_core(
    counts: Array, sigma: float, theta: int, margin: float, *, close: bool = False
) -> tuple[AgreementTest, float] | None:
    """The test that moves the mean least while `counts` still pass with the given margin.

    Parameters
    ----------
    counts : array (t,)
        Friend counts to be expected, in falling order.
    margin : float
        How many noise scales beyond the threshold the statistic should reach.
    close : bool
        Ask for ``2 m + M >= 2 t + 2``, so that components may be as near as ``3 tau``.

    Returns
    -------
    (AgreementTest, float) or None
        With radius 1 (to be replaced) and `core_sensitivity`; None if no test would pass.
    """
    t = len(counts)
    h = math.ceil(theta + margin * sigma)
    least = math.ceil(t / 2) + 1
    full = np.arange(least, t - h + 1)
    if h < 0 or full.size == 0:
        return None
    member = np.maximum(least, -((full - 2 * t - 2) // 2)) if close else np.full(full.size, least)
    # the core: how many blocks reach M + h, less h
    cores = np.searchsorted(-counts, -(full + h), side="right") - h
    good = (cores >= 1) & (member <= full)
    if not good.any():
        return None
    full, member, cores = full[good], member[good], cores[good]
    moves = (1 + (t - cores) / (full - member + 1)) / cores
    i = int(np.argmin(moves))
    test = AgreementTest(t, 1.0, sigma, theta, int(member[i]), int(full[i]), int(cores[i]))
    return test, float(moves[i])


def component_gap(separation: float) -> float:
    """Lifted distance of two components alike but for means `separation` deviations apart.

    ``2 sqrt 2 asinh(separation / 2)``: the ratio matrix has eigenvalues lam and 1/lam with
    ``lam + 1/lam = 2 + separation^2``.
    """
    return 2 * math.sqrt(2) * math.asinh(separation / 2)


def averaged(
    request: PlanRequest,
    test: AgreementTest,
    refinement: Refinement | None = None,
    *,
    alpha: float,
    radius: float | None = None,
    largest_radius: float = LARGEST_RADIUS,
) -> AveragedAgreement:
    """The stage around a test whose radius is still open: the largest the budget allows.

    What `refinement` costs is kept back. With `radius` given that radius is used; whether the
    budget allows it is for the plan's price to say.
    """
    k, d = request.n_components, request.n_features
    eta = lifted_eta(d, alpha, request.beta / k)
    fixed = refinement_curve(refinement) + gaussian_curve(test.sigma)
    move = core_sensitivity(test)
    mask = LiftedSpace(eta)
    budget = for_curves(request.budget, mask.misrounding(k, d))

    def price(tau: float) -> float:
        gamma = averaged_move(tau, move)
        return (fixed + k * mask.mask_curve(gamma, d)).epsilon(budget.delta)

    tau = radius
    if tau is None:
        tau = largest_on_private_side(price, budget.epsilon, 1e-9, largest_radius)
    return AveragedAgreement(
        n_components=k,
        n_features=d,
        alpha=alpha,
        beta=request.beta,
        test=dataclasses.replace(test, radius=tau),
        eta=eta,
        smallest_weight=request.smallest_weight,
    )
