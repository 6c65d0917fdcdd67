"""Plan method `tight`: the paper's algorithms, with an exact account of their privacy cost."""

from __future__ import annotations

import math
from typing import ClassVar

import scipy

from privgmm.budget import Budget
from privgmm.errors import InvalidInput, MethodName
from privgmm.methods import registry
from privgmm.methods.calibration import for_curves, sigmas, too_few_blocks
from privgmm.methods.method import Look, Method
from privgmm.methods.plan import Plan, checked
from privgmm.methods.request import DEFAULT_MASK_ACCURACY, WITHIN, PlanRequest, budget_facts
from privgmm.privacy.curves import RenyiCurve, gaussian_curve, largest_on_private_side
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.noise_levels import covariance_eta
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.public_grid import misrounding_chance
from privgmm.stages.agreement.scatter import component_weights
from privgmm.stages.agreement.stage import PickedAgreement, friend_radius
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.form import Form
from privgmm.stages.stage import Stage

__all__ = ["TightMethod"]

_STRAYS = 0.1
"""Share of blocks that a calibrated test tolerates as strays; by convention a tenth."""
_BLOCKS = (100, 200, 400)
"""Numbers of blocks tried; measured: larger numbers never asked for fewer rows in all."""
_MOST_OF_ALPHA = 0.5
"""Share of alpha that the picked block's own distance takes, at most; by convention half. Only
epsilons of a hundred and more afford as much."""
_BALANCE = 0.7
"""Smallest weight planned for, in units of 1/k, where the request names none; by convention."""


class TightMethod(Method):
    """Plan Algorithms 1 and 2 as printed, with the exact test, metric and account."""

    name: ClassVar[str] = "tight"
    title: ClassVar[str] = "Tight"
    sentence: ClassVar[str] = "the paper's algorithms, with an exact account of their privacy cost"
    most_components: ClassVar[float] = 1000
    look: ClassVar[Look] = Look("#8E6FD1", "dash", 3.0)

    def cheapest(self, request: PlanRequest) -> Plan:
        """Make the plan whose number of blocks asks for the fewest rows."""
        self.check(request)
        planned, plans = _with_weights(request), []
        for t in _BLOCKS if request.n_blocks is None else (request.n_blocks,):
            try:
                plans.append(self.calibrated(planned.but(n_rows=None, n_blocks=t)))
            except InvalidInput:
                # too few blocks for this budget: larger numbers follow
                continue
        if not plans:
            raise InvalidInput(
                f"no number of blocks lets {{method_is}} pass within {WITHIN}",
                remedy="raise {epsilon} or {delta}",
                facts={"method_is": MethodName(self.name), **budget_facts(request.budget)},
            )
        return min(plans, key=lambda plan: plan.rows_needed())

    def calibrated(self, request: PlanRequest) -> Plan:
        """Calibrate a test that tolerates a tenth of the blocks as strays; one block is picked."""
        self.check(request)
        budget, k, d = request.budget, request.n_components, request.n_features
        t = self.default_blocks(request) if request.n_blocks is None else request.n_blocks
        alpha = request.mask_accuracy or DEFAULT_MASK_ACCURACY
        miss = request.beta / (3 * k)
        member = math.ceil(t / 2) + 1
        reach = math.floor((1 - _STRAYS) * t) - member
        rest = for_curves(budget, misrounding_chance(k, d))
        candidates = []
        for sigma in map(float, sigmas(max(reach, 1))):
            theta = DiscreteGaussian(sigma).upper_point(budget.delta)
            fixed = gaussian_curve(sigma)
            if theta + 1.65 * sigma <= reach and fixed.epsilon(rest.delta) < rest.epsilon:
                candidates.append((sigma, theta, fixed))
        if not candidates:
            raise too_few_blocks(budget, t)
        # less noise in the test costs more of the budget: the largest scale that can pass is best
        sigma, theta, fixed = candidates[-1]
        space, gamma = _mask(rest, alpha, miss, k, d, fixed)
        tau = friend_radius(gamma) * (1 - 2e-8)
        stage = PickedAgreement(
            n_components=k,
            n_features=d,
            mask_accuracy=alpha,
            beta=request.beta,
            test=AgreementTest(t, tau, sigma, theta, member, member, 1),
            space=space,
            smallest_weight=request.smallest_weight,
        )
        return checked(Plan(request, (stage,)))

    def read(self, form: Form, request: PlanRequest) -> tuple[Stage, ...]:
        """Read the one stage."""
        form.absent("refine")
        return (PickedAgreement.from_form(form, request.n_components, request.n_features),)

    def audited_plans(self, *, thorough: bool) -> tuple[Plan, ...]:
        """List plans at the default budget, for a few numbers of components and columns."""
        shapes = ((2, 2), (1, 1), (3, 2)) if thorough else ((2, 2),)
        return tuple(
            self.calibrated(
                PlanRequest(
                    n_components=k, n_features=d, mask_accuracy=0.5, n_blocks=200, method=self.name
                )
            )
            for k, d in shapes
        )

    def attacked_cores(self, *, thorough: bool) -> tuple[Plan, ...]:  # noqa: ARG002 - one is enough
        """List one plan of few blocks and a large budget, so that changed blocks show."""
        request = PlanRequest(
            n_components=2,
            n_features=1,
            epsilon=3.0,
            delta=1e-2,
            mask_accuracy=1.0,
            n_blocks=41,
            method=self.name,
        )
        return (self.calibrated(request),)


def _with_weights(request: PlanRequest) -> PlanRequest:
    """Add the smallest weight that is planned for, where the request names none."""
    k, smallest = request.n_components, request.smallest_weight
    if k == 1:
        return request.but(smallest_weight=None)
    weights = component_weights(k, _BALANCE / k if smallest is None else smallest)
    return request.but(smallest_weight=float(weights.min()))


def _mask(
    budget: Budget, alpha: float, miss: float, k: int, d: int, fixed: RenyiCurve
) -> tuple[PaperSpace, float]:
    """Find the noise levels for alpha, and the gamma they afford.

    The picked block's own distance tau comes off alpha first; tau follows from gamma, so two
    rounds are made.
    """
    space, gamma = PaperSpace(1.0, 1.0, 1.0), 0.0
    most = (1 + _MOST_OF_ALPHA * alpha) ** 2 - 1
    for _ in range(2):
        left = (1 + alpha) / (1 + friend_radius(gamma)) - 1
        space = PaperSpace(
            eta_weight=left / -float(scipy.special.ndtri(miss / 2)),
            eta_mean=left / math.sqrt(scipy.special.chdtri(d, miss)),
            eta_cov=covariance_eta(d, left, miss),
        )

        def price(g: float, s: PaperSpace = space) -> float:
            return (fixed + k * s.mask_curve(g, d)).epsilon(budget.delta)

        gamma = largest_on_private_side(price, budget.epsilon, 1e-14, min(1.0, most))
    return space, gamma


registry.register(TightMethod())
