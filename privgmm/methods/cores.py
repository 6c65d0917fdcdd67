"""Find the tests of agreement that expected fits pass, and build the stage around one.

`lifted` and the frame of `sketch` both plan this way. The expected scatter of block fits gives the
friends that each fit has within a radius. These give the tests that the fits pass (`Core`), and of
these the one of least price is taken.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.methods.calibration import for_curves
from privgmm.methods.request import PlanRequest
from privgmm.privacy.curves import gaussian_curve, largest_on_private_side
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.lifted_space import LiftedSpace, averaged_move
from privgmm.stages.agreement.noise_levels import lifted_eta
from privgmm.stages.agreement.stage import AveragedAgreement
from privgmm.stages.agreement.votes import AgreementTest, core_sensitivity

__all__ = [
    "AGREEING",
    "LARGEST_RADIUS",
    "PASS_MARGIN",
    "Core",
    "averaged",
    "best_cores",
    "component_gap",
    "second_order_costs",
    "upper_point",
]

AGREEING = (0.6, 0.75, 0.85, 0.92, 0.95, 0.97, 0.985, 0.995)
"""Shares of all pairs of fits: the radii that contain them are tried. With fewer friends than the
first there is no core; a finer grid changed no plan noticeably."""
LARGEST_RADIUS = 3.0
"""Fits farther apart than this never count as friends; a convention that bounds the search."""
PASS_MARGIN = 1.65
"""Standard deviations by which the expected statistic passes its threshold: Gaussian noise is below
1.65 of them in 95 % of runs."""


@dataclasses.dataclass(frozen=True)
class Core:
    """Describe a test that the expected fits pass.

    Parameters
    ----------
    test : AgreementTest
        Its radius is still open.
    radius : float
        Distance within which the expected fits are friends.
    move : float
        How far one changed block can move the mean, in radii: see `core_sensitivity`.
    """

    test: AgreementTest
    radius: float
    move: float


@functools.lru_cache(maxsize=4096)
def upper_point(sigma: float, delta: float) -> int:
    """Return the point that discrete Gaussian noise exceeds with at most the chance delta."""
    return DiscreteGaussian(sigma).upper_point(delta)


def second_order_costs(
    cores: Sequence[Core], inflation: float, *, k: int, d: int, eta: float
) -> Array:
    """Approximate the Rényi curves of tests and masks per order, to second order in gamma.

    Fits scatter `inflation` times as widely as the cores are made for.
    """
    sigmas, radii, moves = np.array([(core.test.sigma, core.radius, core.move) for core in cores]).T
    gammas = 2 * inflation * radii * moves
    mask = gammas**2 * (1 / (8 * eta**2) + (d + 1) / 4)
    return np.asarray(1 / (2 * sigmas**2) + k * mask)


def best_cores(
    counts: Array | IntArray,
    sigmas: Sequence[float],
    thetas: Sequence[int],
    margin: float = PASS_MARGIN,
    *,
    close: bool = False,
) -> list[tuple[AgreementTest, float] | None]:
    """Find, for each noise scale, the test that moves the mean least while `counts` still pass.

    Parameters
    ----------
    counts : array (t,)
        Friend counts to be expected: whole numbers in falling order.
    sigmas : sequence of float
        Noise scales of the test.
    thetas : sequence of int
        The threshold for each of them.
    margin : float
        How many noise scales beyond the threshold the statistic should reach.
    close : bool
        Ask for ``2 m + M >= 2 t + 2``, so that components may be as near as ``3 tau``.

    Returns
    -------
    list of (AgreementTest, float) or None
        With radius 1 (to be replaced) and `core_sensitivity`; None where no test would pass.
    """
    t = len(counts)
    reach = [math.ceil(o + margin * s) for o, s in zip(thetas, sigmas, strict=True)]
    h = np.array(reach, dtype=np.int64)[:, None]
    least = math.ceil(t / 2) + 1
    full = np.arange(least, t + 1)[None]
    member = np.maximum(least, -((full - 2 * t - 2) // 2)) if close else np.full(full.shape, least)
    # how many blocks have at least v friends, for v up to t; the core is those of M + h, less h
    friendly = np.searchsorted(-counts, -np.arange(t + 1), side="right")
    cores = friendly[np.minimum(full + h, t)] - h
    good = (h >= 0) & (full + h <= t) & (cores >= 1) & (member <= full)
    with np.errstate(divide="ignore", invalid="ignore"):
        moves = (1 + (t - cores) / (full - member + 1)) / cores
    moves = np.where(good, moves, np.inf)
    least_moves = moves.argmin(axis=1).tolist()
    found: list[tuple[AgreementTest, float] | None] = []
    for row, (sigma, theta, i) in enumerate(zip(sigmas, thetas, least_moves, strict=True)):
        if not good[row, i]:
            found.append(None)
            continue
        sizes = int(member[0, i]), int(full[0, i]), int(cores[row, i])
        found.append((AgreementTest(t, 1.0, sigma, theta, *sizes), float(moves[row, i])))
    return found


def component_gap(separation: float) -> float:
    """Compute the lifted distance of two components whose means are `separation` deviations apart.

    ``2 sqrt 2 asinh(separation / 2)``: the ratio matrix has eigenvalues lam and 1/lam with
    ``lam + 1/lam = 2 + separation^2``.
    """
    return 2 * math.sqrt(2) * math.asinh(separation / 2)


def averaged(
    request: PlanRequest,
    test: AgreementTest,
    *,
    mask_accuracy: float,
    radius: float | None = None,
    largest_radius: float = LARGEST_RADIUS,
) -> AveragedAgreement:
    """Build the stage around a test whose radius is still open: the largest the budget allows.

    A given `radius` is used as it is; the plan's price then says whether the budget allows it.
    """
    k, d = request.n_components, request.n_features
    eta = lifted_eta(d, mask_accuracy, request.beta / k)
    fixed = gaussian_curve(test.sigma)
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
        mask_accuracy=mask_accuracy,
        beta=request.beta,
        test=dataclasses.replace(test, radius=tau),
        eta=eta,
        smallest_weight=request.smallest_weight,
    )
