"""From what a user promises and wants to a plan, for each of the three methods.

Nothing here looks at data. Every root is found numerically, ends on the private side, and the
finished plan is priced once more from its own numbers before it is handed out.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import chi, norm

from privgmm.arrays import Array, positive, whole_number
from privgmm.budget import Budget
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.methods.plan import (
    METHODS,
    Method,
    Plan,
    core_sensitivity,
    friend_radius,
    required_separation,
)
from privgmm.privacy.curves import (
    RenyiCurve,
    gaussian_curve,
    largest_on_private_side,
    lifted_mask_curve,
    paper_mask_curve,
)
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement import lemmas as constants
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.lifted_space import MEAN_TOLERANCE, LiftedSpace
from privgmm.stages.agreement.noise_levels import covariance_eta, lifted_eta
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.refinement.noisy_moments import Refinement

__all__ = [
    "METHODS",
    "best_core",
    "calibrate",
    "checked",
    "component_gap",
    "lifted_eta",
    "lifted_plan",
]

_LARGEST_SPEND = 2 * math.log(2) / 3
"""Lemma 5.1 needs epsilon < ln(2)/3 inside, so Theorem 2.3 never spends more than twice that."""

_STRAYS = 0.1
"""Share of blocks that a calibrated test tolerates as strays, when nothing else is known."""

_LARGEST_RADIUS = 3.0
"""Fits farther apart than this are never called alike."""

_RELIANCE = 0.85
"""How much of the gap between components a plan counts on: fits scatter in that too."""


def checked(plan: Plan) -> Plan:
    """The plan itself, if its own price is within its budget."""
    spent = plan.spent()
    if not plan.budget.covers(spent):
        raise PrivGMMError(f"calibration failed: the plan costs {spent}, not {plan.budget}")
    return plan


def _paper(budget: Budget, alpha: float, beta: float, k: int, d: int, t: int | None) -> Plan:
    """Theorem 6.2 with every constant written out."""
    e = min(budget.epsilon / 2, _LARGEST_SPEND / 2)
    dl = budget.delta / (4 * math.exp(e))
    a = alpha / (2 * constants.TRIANGLE_FACTOR)
    part = constants.share_of_component(e, dl, k)
    miss = beta / (3 * k)
    space = PaperSpace(
        eta_weight=constants.eta_weight(a, miss),
        eta_mean=constants.eta_mean(a, miss, d),
        eta_cov=constants.eta_covariance(a, miss, d),
    )
    gamma = min(
        constants.gamma_weight(space.eta_weight, part.epsilon, part.delta),
        constants.gamma_mean(space.eta_mean, part.epsilon, part.delta),
        constants.gamma_covariance(space.eta_cov, part.epsilon, part.delta, d),
    )
    blocks = constants.block_minimum(e, dl) if t is None else t
    tau = gamma / (2 * constants.TRIANGLE_FACTOR)
    return Plan(
        method="paper",
        budget=budget,
        alpha=alpha,
        beta=beta,
        n_components=k,
        n_features=d,
        n_blocks=blocks,
        gamma=gamma,
        separation=0.0,
        test=PopulousTest(blocks, tau, e, dl),
        space=space,
    )


def _refinement_curve(refine: Refinement | None) -> RenyiCurve:
    curve = RenyiCurve(np.zeros_like(gaussian_curve(1.0).values))
    for multiplier in refine.multipliers if refine is not None else ():
        curve = curve + gaussian_curve(multiplier)
    return curve


def _sigmas(reach: float) -> Array:
    """Scales of the test's noise worth trying when the statistic can reach `reach`."""
    return np.geomspace(max(0.5, reach / 40), max(0.6, reach / 2), 24)


def _tight(
    budget: Budget, alpha: float, beta: float, k: int, d: int, t: int, refine: Refinement | None
) -> Plan:
    """Algorithms 1 and 2 as printed, with the exact test, metric and account."""
    miss = beta / (3 * k)
    member = math.ceil(t / 2) + 1
    reach = math.floor((1 - _STRAYS) * t) - member
    base = _refinement_curve(refine)
    candidates = []
    for sigma in map(float, _sigmas(max(reach, 1))):
        theta = DiscreteGaussian(sigma).upper_point(budget.delta)
        fixed = base + gaussian_curve(sigma)
        if theta + 1.65 * sigma <= reach and fixed.epsilon(budget.delta) < budget.epsilon:
            candidates.append((sigma, theta, fixed))
    if not candidates:
        raise _too_few_blocks(budget, t)
    # less noise in the test costs more of the budget: the largest scale that can pass is best
    sigma, theta, fixed = candidates[-1]
    space, gamma = _tight_mask(budget, alpha, miss, k, d, fixed)
    tau = friend_radius(gamma) * (1 - 2e-8)
    return Plan(
        method="tight",
        budget=budget,
        alpha=alpha,
        beta=beta,
        n_components=k,
        n_features=d,
        n_blocks=t,
        gamma=gamma,
        separation=0.0,
        test=AgreementTest(t, tau, sigma, theta, member, member, 1),
        space=space,
        refine=refine,
    )


def _tight_mask(
    budget: Budget, alpha: float, miss: float, k: int, d: int, fixed: RenyiCurve
) -> tuple[PaperSpace, float]:
    """Noise levels for alpha, and the gamma they afford.

    The picked block's own distance tau comes off alpha first; tau follows from gamma, so two
    rounds are made.
    """
    space, gamma = PaperSpace(1.0, 1.0, 1.0), 0.0
    for _ in range(2):
        left = (1 + alpha) / (1 + friend_radius(gamma)) - 1
        space = PaperSpace(
            eta_weight=left / float(norm.isf(miss / 2)),
            eta_mean=left / float(chi.isf(miss, d)),
            eta_cov=covariance_eta(d, left, miss),
        )

        def price(g: float, s: PaperSpace = space) -> float:
            mask = paper_mask_curve(g, s.eta_weight, s.eta_mean, s.eta_cov, d)
            return (fixed + k * mask).epsilon(budget.delta)

        gamma = largest_on_private_side(price, budget.epsilon, 1e-14, 1.0)
    return space, gamma


def _too_few_blocks(budget: Budget, t: int) -> InvalidInput:
    return InvalidInput(
        f"n_blocks = {t} is too few for the test to pass within {budget}: use more blocks, "
        "or raise epsilon or delta"
    )


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


def lifted_plan(
    budget: Budget,
    alpha: float,
    beta: float,
    k: int,
    d: int,
    refine: Refinement | None,
    test: AgreementTest,
    smallest_weight: float | None,
    *,
    radius: float | None = None,
    largest_radius: float = _LARGEST_RADIUS,
) -> Plan:
    """A lifted plan around a test whose radius is still open: the largest the budget allows.

    With `radius` given that radius is used, if the budget allows it.
    """
    eta = lifted_eta(d, alpha, beta / k)
    fixed = _refinement_curve(refine) + gaussian_curve(test.sigma)
    move = core_sensitivity(test)

    def price(tau: float) -> float:
        gamma = 2 * tau * move + 2 * MEAN_TOLERANCE
        return (fixed + k * lifted_mask_curve(gamma, eta, d + 1)).epsilon(budget.delta)

    tau = radius
    if tau is None:
        tau = largest_on_private_side(price, budget.epsilon, 1e-9, largest_radius)
    chosen = AgreementTest(
        test.n_blocks, tau, test.sigma, test.threshold, test.member, test.full, test.core
    )
    separation = required_separation(chosen, k)
    return Plan(
        method="lifted",
        budget=budget,
        alpha=alpha,
        beta=beta,
        n_components=k,
        n_features=d,
        n_blocks=test.n_blocks,
        gamma=2 * tau * move + 2 * MEAN_TOLERANCE,
        separation=separation,
        test=chosen,
        space=LiftedSpace(eta, clearance=separation * tau),
        refine=refine,
        smallest_weight=smallest_weight,
    )


def component_gap(separation: float) -> float:
    """Lifted distance of two components alike but for means `separation` deviations apart.

    ``2 sqrt 2 asinh(separation / 2)``: the ratio matrix has eigenvalues lam and 1/lam with
    ``lam + 1/lam = 2 + separation^2``.
    """
    return 2 * math.sqrt(2) * math.asinh(separation / 2)


def _lifted(
    budget: Budget,
    alpha: float,
    beta: float,
    k: int,
    d: int,
    t: int,
    refine: Refinement | None,
    separation: float,
) -> Plan:
    """Average the agreeing blocks; the test tolerates a tenth of them as strays.

    Components that do not match must clear ``c tau``, so tau is kept to what components
    `separation` deviations apart, less a margin for their scatter, can clear.
    """
    friends = math.floor((1 - _STRAYS) * t)
    counts = np.where(np.arange(t) < friends, friends, 1)
    best: Plan | None = None
    base = _refinement_curve(refine)
    for sigma in map(float, _sigmas(max(friends - t / 2, 1))):
        theta = DiscreteGaussian(sigma).upper_point(budget.delta)
        if (base + gaussian_curve(sigma)).epsilon(budget.delta) >= budget.epsilon:
            continue
        for close in (False, True) if k > 1 else (False,):
            found = best_core(counts, sigma, theta, 1.65, close=close)
            if found is None:
                continue
            widest = _LARGEST_RADIUS
            if k > 1:
                clear = _RELIANCE * component_gap(separation)
                widest = min(widest, clear / required_separation(found[0], k))
            plan = lifted_plan(
                budget, alpha, beta, k, d, refine, found[0], None, largest_radius=widest
            )
            if best is None or plan.tau > best.tau:
                best = plan
    if best is None:
        raise _too_few_blocks(budget, t)
    return best


def calibrate(
    method: Method,
    *,
    epsilon: float,
    delta: float,
    alpha: float,
    beta: float = 0.1,
    n_components: int,
    n_features: int,
    n_blocks: int | None = None,
    refine: Refinement | None = None,
    separation: float = 4.0,
) -> Plan:
    """A plan for one release, every knob in the user's hands.

    Parameters
    ----------
    method : {"paper", "tight", "lifted"}
        Algorithms 1 and 2 with the paper's constants; the same with exact accounting; or the
        mean of the agreeing blocks in the lifted space.
    epsilon, delta : float
        The TOTAL budget of the release. Method `paper` can spend at most ``2 ln(2) / 3``.
    alpha, beta : float
        The coarse release is within alpha of what it masks with probability 1 - beta: in
        dist_Param for `paper` and `tight` (alpha at most 1), in lifted distance for `lifted`.
    n_components, n_features : int
        k and d.
    n_blocks : int, optional
        t. For `paper` the default is the smallest that is sure to pass when all blocks agree.
    refine : Refinement, optional
        Noisy passes over all rows, within the same budget (`tight` and `lifted`).
    separation : float
        How many standard deviations apart the nearest two means are expected to be (`lifted`).
        Nearer ones are refused; expecting them nearer asks for more rows.
    """
    if method not in METHODS:
        raise InvalidInput(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    budget = Budget(epsilon, delta)
    a = positive(alpha, "alpha")
    b = positive(beta, "beta", below=1.0)
    k = whole_number(n_components, "n_components", 1)
    d = whole_number(n_features, "n_features", 1)
    if method != "lifted" and a > 1:
        raise InvalidInput(f"alpha must be at most 1 for method {method!r}, got {alpha!r}")
    if method == "paper":
        if refine is not None:
            raise InvalidInput("refine belongs to methods 'tight' and 'lifted', not to 'paper'")
        t = None if n_blocks is None else whole_number(n_blocks, "n_blocks", 5)
        return checked(_paper(budget, a, b, k, d, t))
    if n_blocks is None:
        raise InvalidInput("n_blocks must be given, or use best_plan to choose it")
    t = whole_number(n_blocks, "n_blocks", 5)
    if method == "tight":
        return checked(_tight(budget, a, b, k, d, t, refine))
    apart = positive(separation, "separation")
    return checked(_lifted(budget, a, b, k, d, t, refine, apart))
