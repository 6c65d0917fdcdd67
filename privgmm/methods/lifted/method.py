"""The method itself: which blocks, which test, which mask and which refinement for so many rows.

The law of the block fits comes from `scatter`, which ignores overlap between components; the
search leaves a margin for that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from privgmm.arrays import Array
from privgmm.budget import Budget
from privgmm.errors import InvalidInput
from privgmm.methods.calibration import refinement_curve, sigmas, too_few_blocks
from privgmm.methods.lifted.cores import LARGEST_RADIUS, averaged, best_core, component_gap
from privgmm.methods.lifted.expectations import (
    EXPECTATIONS,
    Core,
    Expectation,
    cheapest_core,
    expected_cores,
    expecting,
    forgiving_expectations,
)
from privgmm.methods.method import Look, Method, Prospect
from privgmm.methods.plan import Plan, checked
from privgmm.methods.request import DEFAULT_ALPHA, PlanRequest
from privgmm.methods.searching import first_step
from privgmm.privacy.curves import RenyiCurve, gaussian_curve
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.lifted_space import MEAN_TOLERANCE, LiftedSpace
from privgmm.stages.agreement.noise_levels import lifted_eta
from privgmm.stages.agreement.scatter import component_weights
from privgmm.stages.agreement.stage import AveragedAgreement
from privgmm.stages.agreement.votes import AgreementTest, required_separation
from privgmm.stages.form import Form
from privgmm.stages.refinement.expected_error import best_refinement, forecast_error
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.stage import Stage

__all__ = ["LiftedMethod"]

_ALPHAS = (0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0)
_FEWEST_BLOCKS, _MOST_BLOCKS, _BLOCK_CHOICES = 40, 1000, 14
_ROWS_PER_DECADE = 16
_MOST_DECADES = 20
_SEPARATION = 4.0
"""Standard deviations between the nearest two means, where a calibrated plan is told nothing."""
_STRAYS = 0.1
"""Share of blocks that a calibrated test tolerates as strays, when nothing else is known."""
_RELIANCE = 0.85
"""How much of the gap between components a plan counts on: fits scatter in that too."""

_SHAPES = (
    # k, d, t, m, M, G: labels unambiguous (2 m + M >= 2 t + 2) or not, steep ramps and gentle
    (1, 1, 31, 20, 20, 20),
    (2, 1, 31, 23, 23, 23),
    (2, 2, 31, 17, 20, 15),
)
_MORE_SHAPES = (
    (1, 2, 30, 18, 22, 22),
    (1, 3, 24, 14, 14, 14),
    (2, 2, 31, 23, 23, 23),
    (2, 2, 31, 17, 17, 4),
    (2, 2, 60, 40, 44, 44),
    (2, 4, 31, 23, 23, 23),
    (3, 1, 40, 28, 28, 28),
    (3, 2, 31, 17, 30, 25),
)
_LAVISH = Budget(2.0, 1e-2)


class LiftedMethod(Method):
    """Average all agreeing blocks in the lifted space, mask the mean, refine it on all rows."""

    name: ClassVar[str] = "lifted"
    title: ClassVar[str] = "Lifted"
    sentence: ClassVar[str] = "averages all blocks that agree, for the fewest rows"
    look: ClassVar[Look] = Look("#D55E00", "solid", 4.0)
    largest_alpha: ClassVar[float] = math.inf
    error_is_promised: ClassVar[bool] = False
    takes_forgiving: ClassVar[bool] = True
    plans_only_for_enough: ClassVar[bool] = True

    # ----------------------------------------------------------------------------- planning

    def automatic(self, request: PlanRequest) -> Plan:
        """The plan of least expected final error among those expected to release."""
        self.check(request)
        for expectation in _tries(request):
            plan = _best(request, expectation)
            if plan is not None:
                return checked(plan)
        raise InvalidInput(
            f"no plan is expected to release {request.n_components} components in "
            f"{request.n_features} dimensions from {request.rows} {request.units} within "
            f"{request.budget}: raise epsilon or delta, bring more {request.units}, or use "
            "calibrate to try anyway"
        )

    def calibrated(self, request: PlanRequest, refinement: Refinement | None) -> Plan:
        """The test tolerates a tenth of the blocks as strays.

        Components that do not match must clear ``c tau``, so tau is kept to what components
        `separation` deviations apart, less a margin for their scatter, can clear.
        """
        self.check(request)
        budget, k = request.budget, request.n_components
        t = self.default_blocks(request) if request.n_blocks is None else request.n_blocks
        alpha = request.alpha or DEFAULT_ALPHA
        separation = _SEPARATION if request.separation is None else request.separation
        friends = math.floor((1 - _STRAYS) * t)
        counts = np.where(np.arange(t) < friends, friends, 1)
        best: AveragedAgreement | None = None
        base = refinement_curve(refinement)
        for sigma in map(float, sigmas(max(friends - t / 2, 1))):
            theta = DiscreteGaussian(sigma).upper_point(budget.delta)
            if (base + gaussian_curve(sigma)).epsilon(budget.delta) >= budget.epsilon:
                continue
            for close in (False, True) if k > 1 else (False,):
                found = best_core(counts, sigma, theta, 1.65, close=close)
                if found is None:
                    continue
                widest = LARGEST_RADIUS
                if k > 1:
                    clear = _RELIANCE * component_gap(separation)
                    widest = min(widest, clear / required_separation(found[0], k))
                stage = averaged(request, found[0], refinement, alpha=alpha, largest_radius=widest)
                if best is None or stage.tau > best.tau:
                    best = stage
        if best is None:
            raise too_few_blocks(budget, t)
        return checked(_plan(request, best, refinement))

    def read(self, form: Form, n_components: int, n_features: int) -> tuple[Stage, ...]:
        """Agreement, then refinement if there is one."""
        stage = AveragedAgreement.from_form(form, n_components, n_features)
        refine = form.optional("refine")
        return (stage,) if refine is None else (stage, Refinement.from_form(refine))

    # ------------------------------------------------------------------------------ what if

    def feasible(self, request: PlanRequest) -> bool:
        """Whether there is an automatic plan for these rows, without building it."""
        if not request.automatic:
            return super().feasible(request)
        return any(_fits_budget(request, expectation) for expectation in _hopeful(request))

    def rows_for(self, request: PlanRequest) -> float:
        """Rows at which it releases in 95 % of runs; alpha is whatever they allow."""
        if request.by_hand:
            return self.calibrated(request.but(n_rows=None), request.refinement).rows_needed()
        free = request.but(alpha=None, n_blocks=None)

        def holds(step: int) -> bool:
            return self.feasible(free.but(n_rows=_grid_rows(step)))

        low, high = 3 * _ROWS_PER_DECADE, _MOST_DECADES * _ROWS_PER_DECADE
        if not holds(high):
            return math.inf
        # up by decades first: few rows are quick to rule out, there being few ways to split them
        reached = low
        while reached < high and not holds(reached):
            low, reached = reached + 1, reached + _ROWS_PER_DECADE
        step = first_step(low, min(reached, high), holds)
        return math.inf if step is None else _grid_rows(step)

    def alpha_for(self, request: PlanRequest) -> float:
        """The smallest alpha of the masked mixture, before any refinement."""
        try:
            return self.automatic(request.but(alpha=None, n_blocks=None, refine=False)).alpha
        except InvalidInput:
            return math.inf

    def error_for(self, request: PlanRequest) -> float:
        """The error to expect after refinement; infinite if the rows are too few."""
        enough = self.rows_for(request)
        if enough > request.rows:
            return math.inf
        return self.along_rows(request, [request.rows], enough=enough)[0].error

    def prospect(self, request: PlanRequest) -> Prospect:
        """Chance of a release and error to expect, by the plan that would be made."""
        n, d = request.rows, request.n_features
        free = request.but(alpha=None, n_blocks=None)
        enough = self.rows_for(free)
        if not math.isfinite(enough):
            return Prospect(self.name, n, request.epsilon, 0.0, math.inf, None)
        plan = self.automatic(free.but(n_rows=int(max(n, enough))))
        weights = component_weights(request.n_components, plan.smallest_weight)
        error = forecast_error(n, weights, d, plan.refine).total
        return Prospect(self.name, n, request.epsilon, plan.pass_probability(n), error, plan)

    def along_rows(
        self, request: PlanRequest, rows: Sequence[float], *, enough: float | None = None
    ) -> tuple[Prospect, ...]:
        """Chances and errors at many numbers of rows, from one search for a plan.

        The plan is that of the most hopeful expectation, refined anew for more rows: its error
        was at most about one and a half times that of `automatic` where compared, at a fraction
        of the time.
        """
        free = request.but(alpha=None, n_blocks=None)
        fewest = self.rows_for(free) if enough is None else enough
        if not math.isfinite(fewest):
            return tuple(Prospect(self.name, n, request.epsilon, 0.0, math.inf, None) for n in rows)
        asked = free.but(n_rows=int(fewest))
        start = self.hopeful(asked)
        if start is None:
            start = self.automatic(asked)
        return tuple(self._at(start, n, fewest) for n in rows)

    def hopeful(self, request: PlanRequest) -> Plan | None:
        """The plan of the most hopeful expectation, quicker to find than `automatic`'s."""
        for expectation in _hopeful(request):
            plan = _best(request, expectation)
            if plan is not None:
                return checked(plan)
        return None

    def _at(self, start: Plan, n_rows: float, enough: float) -> Prospect:
        """A plan at other rows than it was made for, refined anew if there are more."""
        d, stage = start.n_features, start.agreement
        weights = component_weights(start.n_components, start.smallest_weight)
        plan = start
        if n_rows > enough:
            fixed = start.but(stage).curve()
            found = best_refinement(n_rows, weights, d, start.alpha, fixed, start.budget)
            if found is not None:
                plan = start.but(stage, found[0])
        error = forecast_error(n_rows, weights, d, plan.refine).total
        chance = plan.pass_probability(n_rows)
        return Prospect(self.name, n_rows, plan.budget.epsilon, chance, error, plan)

    # -------------------------------------------------------------------------------- audit

    def audited_plans(self, *, thorough: bool) -> tuple[Plan, ...]:
        """At the usual promise, for a few shapes."""
        shapes = ((2, 2), (1, 1), (3, 2)) if thorough else ((2, 2),)
        return tuple(
            self.calibrated(
                PlanRequest(n_components=k, n_features=d, alpha=1.0, n_blocks=200), None
            )
            for k, d in shapes
        )

    def attacked_cores(self, *, thorough: bool) -> tuple[Plan, ...]:
        """Cores of many shapes: their geometry is attacked, not their price."""
        return tuple(
            Plan(self.name, _LAVISH, k, d, (self.shaped(t, m, M, G, n_components=k, n_features=d),))
            for k, d, t, m, M, G in _SHAPES + (_MORE_SHAPES if thorough else ())
        )

    @staticmethod
    def shaped(
        n_blocks: int,
        member: int,
        full: int,
        core: int,
        *,
        n_components: int,
        n_features: int,
        radius: float = 0.3,
    ) -> AveragedAgreement:
        """A stage whose core has a given shape, whatever it costs."""
        test = AgreementTest(n_blocks, 1.0, 1.0, 3, member, full, core)
        request = PlanRequest(n_components=n_components, n_features=n_features)
        return averaged(request, test, alpha=1.0, radius=radius)


def _plan(request: PlanRequest, stage: AveragedAgreement, refinement: Refinement | None) -> Plan:
    stages: tuple[Stage, ...] = (stage,) if refinement is None else (stage, refinement)
    return Plan(LiftedMethod.name, request.budget, request.n_components, request.n_features, stages)


def _grid_rows(step: int) -> int:
    return round(10 ** (step / _ROWS_PER_DECADE))


def _tries(request: PlanRequest) -> tuple[Expectation, ...]:
    """What the blocks may be like, in the order in which it is planned for."""
    if request.separation is not None:
        return (expecting(request.separation),)
    return forgiving_expectations(request.n_components) if request.forgiving else EXPECTATIONS


def _hopeful(request: PlanRequest) -> tuple[Expectation, ...]:
    """Expectations that decide alone: what a careful one allows, the most hopeful allows too.

    Forgiving ones are not ordered like that; the last are the likeliest to allow a plan.
    """
    if request.separation is not None:
        return _tries(request)
    if request.forgiving:
        return forgiving_expectations(request.n_components)[::-1]
    return EXPECTATIONS[-1:]


def _weights(request: PlanRequest, expectation: Expectation) -> Array:
    k, smallest = request.n_components, request.smallest_weight
    if smallest is None and k > 1:
        smallest = expectation.balance / k
    return component_weights(k, smallest)


def _block_choices(request: PlanRequest, weights: Array) -> list[int]:
    """Numbers of blocks worth trying: enough rows per block for the smallest component."""
    if request.n_blocks is not None:
        return [request.n_blocks]
    least = math.ceil(9 * (request.n_features + 1) / float(weights.min()))
    most = min(_MOST_BLOCKS, request.rows // least)
    if most < _FEWEST_BLOCKS:
        return []
    return sorted({int(t) for t in np.geomspace(_FEWEST_BLOCKS, most, _BLOCK_CHOICES)})


def _cores(
    request: PlanRequest, t: int, weights: Array, expectation: Expectation
) -> tuple[Core, ...]:
    return expected_cores(
        t,
        request.rows // t,
        tuple(map(float, weights)),
        request.n_features,
        request.delta,
        expectation,
    )


def _fixed_curve(core: Core, eta: float, k: int, d: int) -> RenyiCurve:
    """What test and mask cost together."""
    gamma = 2 * core.radius * core.move + 2 * MEAN_TOLERANCE
    return gaussian_curve(core.test.sigma) + k * LiftedSpace(eta).mask_curve(gamma, d)


def _best(request: PlanRequest, expectation: Expectation) -> Plan | None:
    """The plan of least expected final error that the expected fits pass; None if none does."""
    n, budget, k, d = request.rows, request.budget, request.n_components, request.n_features
    weights = _weights(request, expectation)
    planned = request.but(smallest_weight=None if k == 1 else float(weights.min()))
    best: tuple[float, Plan] | None = None
    for t in _block_choices(request, weights):
        cores = _cores(request, t, weights, expectation)
        for alpha in _ALPHAS if request.alpha is None else (request.alpha,):
            eta = lifted_eta(d, alpha, request.beta / k)
            core = cheapest_core(cores, k, d, eta)
            if core is None:
                continue
            fixed = _fixed_curve(core, eta, k, d)
            steps, score = request.refinement, alpha
            if request.refines:
                found = best_refinement(n, weights, d, alpha, fixed, budget)
                if found is None:
                    continue
                steps, score = found[0], found[1].total
            elif (fixed + refinement_curve(steps)).epsilon(budget.delta) > budget.epsilon:
                continue
            # a coarser start and more blocks must earn their keep
            score *= 1 + 0.01 * alpha + 0.02 * t / _MOST_BLOCKS
            if best is None or score < best[0]:
                stage = averaged(planned, core.test, alpha=alpha, radius=core.radius)
                best = score, _plan(planned, stage, steps)
    return None if best is None else best[1]


def _fits_budget(request: PlanRequest, expectation: Expectation) -> bool:
    """Whether `_best` would find a plan."""
    k, d, budget = request.n_components, request.n_features, request.budget
    weights = _weights(request, expectation)
    eta = lifted_eta(d, _ALPHAS[-1], request.beta / k)
    for t in _block_choices(request, weights):
        core = cheapest_core(_cores(request, t, weights, expectation), k, d, eta)
        if core is None:
            continue
        fixed = _fixed_curve(core, eta, k, d)
        if best_refinement(request.rows, weights, d, _ALPHAS[-1], fixed, budget) is not None:
            return True
    return False
