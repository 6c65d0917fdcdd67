"""The method itself: which blocks, which test, which mask and which refinement for so many rows.

The law of the block fits comes from `scatter`, which ignores overlap between components; the
search leaves a margin for that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from privgmm.arrays import Array
from privgmm.budget import Budget
from privgmm.errors import InvalidInput
from privgmm.methods.calibration import for_curves, refinement_curve, sigmas, too_few_blocks
from privgmm.methods.lifted.cores import LARGEST_RADIUS, averaged, best_core, component_gap
from privgmm.methods.lifted.expectations import (
    Core,
    Expectation,
    cheapest_core,
    expected_cores,
    expecting,
    forgiving_expectations,
    usual_expectations,
)
from privgmm.methods.method import Look, Method, Prospect
from privgmm.methods.plan import Plan, checked
from privgmm.methods.request import DEFAULT_ALPHA, PlanRequest
from privgmm.methods.searching import rounded_up
from privgmm.methods.typical import ERROR_FACTOR, expected_mixture, mixtures_differ_by
from privgmm.mixture import Mixture
from privgmm.privacy.curves import RenyiCurve, gaussian_curve
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.lifted_space import LiftedSpace, averaged_move
from privgmm.stages.agreement.noise_levels import lifted_eta
from privgmm.stages.agreement.public_grid import misrounding_chance
from privgmm.stages.agreement.scatter import component_weights
from privgmm.stages.agreement.stage import AveragedAgreement
from privgmm.stages.agreement.votes import AgreementTest, required_separation
from privgmm.stages.form import Form
from privgmm.stages.refinement.expected_error import best_refinement, refined_error
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.stage import Stage

__all__ = ["LiftedMethod"]

_ALPHAS = (0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0)
_FEWEST_BLOCKS, _MOST_BLOCKS, _BLOCK_CHOICES = 40, 1000, 14
_LIKELY_BLOCKS = 300
_ROWS_PER_DECADE = 24
_DECADES = (2, 20)
_LOOKED_AHEAD = 4
"""So many steps of the grid of rows, a factor of 1.47: see `_fewest`."""
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
        plan = _first_plan(request)
        if plan is None and request.automatic and self.feasible(request):
            # forecasts are simulated, and may happen to be poor for just so many rows: a plan for
            # fewer does too
            plan = _first_plan(request.but(n_rows=int(self.rows_for(request))))
        if plan is not None:
            return plan
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
        rest = _for_curves(request)
        for sigma in map(float, sigmas(max(friends - t / 2, 1))):
            theta = DiscreteGaussian(sigma).upper_point(budget.delta)
            if (base + gaussian_curve(sigma)).epsilon(rest.delta) >= rest.epsilon:
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
        """Whether these rows are no fewer than `rows_for`, which need not be known to the end."""
        if not request.automatic:
            return super().feasible(request)
        found = _fewest(request.but(n_rows=None), at_hand=request.rows)
        return found is not None and _grid_rows(found[1]) <= request.rows

    def rows_for(self, request: PlanRequest) -> float:
        """Rows at which it releases in 95 % of runs; alpha is whatever they allow."""
        if request.by_hand:
            return self.calibrated(request.but(n_rows=None), request.refinement).rows_needed()
        found = _fewest(request.but(alpha=None, n_blocks=None, n_rows=None))
        return math.inf if found is None else float(_grid_rows(found[1]))

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

    def least_error(self, request: PlanRequest) -> float:
        """With the whole budget for refinement, from a start that is as good as given."""
        weights = _weights(request, _tries(request)[0])
        found = best_refinement(
            request.rows,
            weights,
            request.n_features,
            _ALPHAS[0],
            refinement_curve(None),
            request.budget,
        )
        return math.inf if found is None else found[1].total

    def prospect(self, request: PlanRequest) -> Prospect:
        """Chance of a release and error to expect, by the plan that would be made."""
        n = request.rows
        free = request.but(alpha=None, n_blocks=None)
        # a search for the fewest rows takes longer than a look whether these will do
        enough = n if self.feasible(free) else self.rows_for(free)
        if not math.isfinite(enough):
            return Prospect(self.name, n, request.epsilon, 0.0, math.inf, None)
        plan = self.automatic(free.but(n_rows=int(max(n, enough))))
        return _prospect(request, plan, n)

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
        return tuple(_prospect(request, _refined_anew(start, n, fewest), n) for n in rows)

    def hopeful(self, request: PlanRequest) -> Plan | None:
        """The plan of the most hopeful expectation, quicker to find than `automatic`'s."""
        for expectation in _hopeful(request):
            plan = _best(request, expectation)
            if plan is not None:
                return checked(plan)
        return None

    def _error_at(
        self, plan: Plan, mixture: Mixture, n_rows: int
    ) -> tuple[float, tuple[float, float]]:
        """After refinement what the noisy moments leave; without one, what the mask promises."""
        error = refined_error(mixture, n_rows, plan.refine)
        if plan.refine is None:
            return plan.alpha, (0.0, plan.alpha + error)
        return error, (error / ERROR_FACTOR, error * ERROR_FACTOR)

    # -------------------------------------------------------------------------------- audit

    def audited_plans(self, *, thorough: bool) -> tuple[Plan, ...]:
        """At the usual promise, for a few shapes."""
        shapes = ((2, 2), (1, 1), (3, 2)) if thorough else ((2, 2),)
        return tuple(
            self.calibrated(
                PlanRequest(
                    n_components=k, n_features=d, method=self.name, alpha=1.0, n_blocks=200
                ),
                None,
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


def _refined_anew(start: Plan, n_rows: float, enough: float) -> Plan:
    """A plan at other rows than it was made for, refined anew if there are more."""
    if n_rows <= enough:
        return start
    weights = component_weights(start.n_components, start.smallest_weight)
    stage, d = start.agreement, start.n_features
    fixed = start.but(stage).curve()
    found = best_refinement(n_rows, weights, d, start.alpha, fixed, start.budget)
    return start if found is None else start.but(stage, found[0])


def _prospect(request: PlanRequest, plan: Plan, n_rows: float) -> Prospect:
    """Chance and expected error of a plan, at the mixture that the request is about.

    Fits of components that overlap scatter like those of fewer rows that do not. Where nothing is
    stated about the components, the chance is that of components far apart.
    """
    mixture, apart = expected_mixture(request), request.expected_separation
    scatter = 1.0 if apart is None else expecting(apart, request.n_features).inflation
    error = refined_error(mixture, n_rows, plan.refine)
    factor = ERROR_FACTOR * (1 if request.expected is not None else mixtures_differ_by(mixture))
    return Prospect(
        LiftedMethod.name,
        n_rows,
        request.epsilon,
        plan.pass_probability(n_rows / scatter**2),
        error,
        plan,
        (error / factor, error * factor),
    )


def _grid_rows(step: int) -> int:
    """A round number of rows; the next one is 10 % more."""
    return int(rounded_up(10 ** (step / _ROWS_PER_DECADE)))


@functools.lru_cache(maxsize=512)
def _fewest(request: PlanRequest, *, at_hand: int | None = None) -> tuple[int, int] | None:
    """Two steps of the grid of rows between which lie the fewest for which there is a plan.

    They are one and the same, unless rows are `at_hand` and it is known before whether these are
    enough: exactly if the second step has no more. None if no number of rows is enough, or if those
    at hand are not.

    More rows never do harm, but forecasts are simulated, and happen to be better for some numbers
    of rows than for slightly larger ones. By the first number at which there is a plan, rows would
    be told that pass only by such luck; so the next ones must allow a plan too.

    Nor may it be luck which way the question is asked. At every number of rows, more epsilon allows
    whatever less does. Which numbers are looked at follows from the answers before: at the first
    answer that differs between two epsilons, the larger one allows a plan, and the search goes on
    below; for the smaller one it goes on above. So a larger epsilon never asks for more rows, and
    rows are enough for an epsilon exactly if they are no fewer than what is found here.
    """

    def holds(step: int) -> bool:
        ahead = range(step, step + _LOOKED_AHEAD + 1)
        return all(_allows(request.but(n_rows=_grid_rows(later))) for later in ahead)

    low, top = (decade * _ROWS_PER_DECADE for decade in _DECADES)
    if not _allows(request.but(n_rows=_grid_rows(top))):
        return None
    # up by decades first: few rows are quick to rule out, there being few ways to split them
    high = low
    while high < top and not holds(high):
        low, high = high + 1, high + _ROWS_PER_DECADE
        if at_hand is not None and _grid_rows(low) > at_hand:
            return None
    while low < high and (at_hand is None or _grid_rows(low) <= at_hand < _grid_rows(high)):
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low, high


def _allows(request: PlanRequest) -> bool:
    """Whether there is a plan for exactly so many rows."""
    return any(_fits_budget(request, expectation) for expectation in _hopeful(request))


def _first_plan(request: PlanRequest) -> Plan | None:
    """The best plan of the first expectation that allows any."""
    for expectation in _tries(request):
        plan = _best(request, expectation)
        if plan is not None:
            return checked(plan)
    return None


def _tries(request: PlanRequest) -> tuple[Expectation, ...]:
    """What the blocks may be like, in the order in which it is planned for."""
    apart = request.expected_separation
    if apart is not None:
        return (expecting(apart, request.n_features),)
    if request.forgiving:
        return forgiving_expectations(request.n_components)
    return usual_expectations()


def _hopeful(request: PlanRequest) -> tuple[Expectation, ...]:
    """Expectations that decide alone: what a careful one allows, the most hopeful allows too.

    Forgiving ones are not ordered like that; the last are the likeliest to allow a plan.
    """
    if request.expected_separation is not None:
        return _tries(request)
    if request.forgiving:
        return forgiving_expectations(request.n_components)[::-1]
    return usual_expectations()[-1:]


def _weights(request: PlanRequest, expectation: Expectation) -> Array:
    k, smallest = request.n_components, request.smallest_weight
    if smallest is None and request.expected is not None:
        smallest = float(request.expected.weights.min())
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


def _for_curves(request: PlanRequest) -> Budget:
    """What of the budget there is to convert curves with."""
    return for_curves(
        request.budget, misrounding_chance(request.n_components, request.n_features + 1)
    )


def _fixed_curve(core: Core, eta: float, k: int, d: int) -> RenyiCurve:
    """What test and mask cost together."""
    gamma = averaged_move(core.radius, core.move)
    return gaussian_curve(core.test.sigma) + k * LiftedSpace(eta).mask_curve(gamma, d)


def _best(request: PlanRequest, expectation: Expectation) -> Plan | None:
    """The plan of least expected final error that the expected fits pass; None if none does."""
    n, budget, k, d = request.rows, _for_curves(request), request.n_components, request.n_features
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
    k, d, budget = request.n_components, request.n_features, _for_curves(request)
    weights = _weights(request, expectation)
    eta = lifted_eta(d, _ALPHAS[-1], request.beta / k)
    # the likeliest first, since one is enough
    choices = sorted(
        _block_choices(request, weights), key=lambda t: abs(math.log(t / _LIKELY_BLOCKS))
    )
    for t in choices:
        core = cheapest_core(_cores(request, t, weights, expectation), k, d, eta)
        if core is None:
            continue
        fixed = _fixed_curve(core, eta, k, d)
        if request.refines:
            fits = best_refinement(request.rows, weights, d, _ALPHAS[-1], fixed, budget) is not None
        else:
            whole = fixed + refinement_curve(request.refinement)
            fits = whole.epsilon(budget.delta) <= budget.epsilon
        if fits:
            return True
    return False
