"""Plan method `lifted`: choose blocks, test, mask and refinement for a number of rows.

The law of the block fits comes from `scatter`, which ignores overlap between components. The search
leaves a margin for that.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from privgmm.arrays import Array
from privgmm.budget import Budget
from privgmm.errors import InvalidInput, MethodName
from privgmm.methods import registry
from privgmm.methods.calibration import for_curves, no_plan, sigmas, too_few_blocks
from privgmm.methods.cores import (
    LARGEST_RADIUS,
    Core,
    averaged,
    best_cores,
    component_gap,
    upper_point,
)
from privgmm.methods.lifted.expectations import (
    Expectation,
    cheapest_core,
    expected_cores,
    expecting,
    usual_expectations,
)
from privgmm.methods.method import Look, Method, Prospect
from privgmm.methods.plan import Plan, checked
from privgmm.methods.request import DEFAULT_MASK_ACCURACY, PlanRequest
from privgmm.methods.searching import rounded_up
from privgmm.methods.typical import expected_mixture
from privgmm.mixture import Mixture
from privgmm.privacy.curves import RenyiCurve, gaussian_curve
from privgmm.stages.accuracy import ExpectedError, error_law
from privgmm.stages.agreement.lifted_space import LiftedSpace, averaged_move
from privgmm.stages.agreement.noise_levels import lifted_eta
from privgmm.stages.agreement.public_grid import misrounding_chance
from privgmm.stages.agreement.scatter import component_weights
from privgmm.stages.agreement.stage import AveragedAgreement
from privgmm.stages.agreement.votes import AgreementTest, required_separation
from privgmm.stages.form import Form
from privgmm.stages.refinement.expected_error import best_refinement, forecast_covariance
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.stage import Stage

__all__ = ["LiftedMethod"]

_MASKS = (0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0)
"""Accuracies of the mask that are tried; a grid by convention."""
_FEWEST_BLOCKS, _MOST_BLOCKS, _BLOCK_CHOICES = 40, 1000, 14
"""Numbers of blocks that are tried: least, most, and how many between them; by convention."""
_LIKELY_BLOCKS = 300
"""Numbers of blocks near this are tried first: it decides the time of a search, not its answer."""
_ROWS_PER_DECADE = 24
"""Resolution of the search for rows: steps of 10 %."""
_DECADES = (2, 20)
"""Powers of ten between which rows are searched; by convention beyond every table."""
_LOOKED_AHEAD = 4
"""Further steps of the grid, a factor of 1.47 in rows, that must have a plan too: see `_fewest`."""
_SEPARATION = 4.0
"""Deviations between the nearest two means, where a request states none; by convention."""
_STRAYS = 0.1
"""Share of blocks that a calibrated test tolerates as strays; by convention a tenth."""
_RELIANCE = 0.85
"""Share of the gap between components that a plan counts on, as in `Expectation.reliance`."""

_MOST_COMPONENTS = 50
"""Most components for which a plan is searched; measured: the search takes about half a minute for
this many, and its time grows faster than their number."""

_SHAPES = (
    # k, d, t, m, M, G: labels unambiguous (2 m + M >= 2 t + 2) or not, steep ramps and gentle
    (1, 1, 31, 20, 20, 20),
    (2, 1, 31, 23, 23, 23),
    (2, 2, 31, 17, 20, 15),
)
"""Cores that every audit attacks: one for each kind of core, of few blocks."""
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
"""Cores that a thorough audit attacks too, with more columns, components and blocks."""


class LiftedMethod(Method):
    """Average all agreeing blocks in the lifted space, mask the mean, refine it on all rows."""

    name: ClassVar[str] = "lifted"
    title: ClassVar[str] = "Lifted"
    sentence: ClassVar[str] = "averages all blocks that agree, then refines on all rows"
    look: ClassVar[Look] = Look("#B8336A", "longdash", 4.0)
    largest_mask_accuracy: ClassVar[float] = math.inf
    plans_only_for_enough: ClassVar[bool] = True

    # ----------------------------------------------------------------------------- planning

    def check(self, request: PlanRequest) -> None:
        """Raise `InvalidInput` if the method cannot be asked this at all.

        A search for a plan simulates blocks of all components. With mask and blocks set by hand
        there is nothing to search for.
        """
        super().check(request)
        if request.by_hand or request.n_components <= _MOST_COMPONENTS:
            return
        raise InvalidInput(
            "must be at most {most} for {method_is}",
            argument="n_components",
            value=request.n_components,
            remedy="its plans are found by simulating blocks of all components, which would take "
            "many minutes; ask for fewer, or set {mask_accuracy} and {n_blocks}",
            facts={"most": _MOST_COMPONENTS, "method_is": MethodName(self.name)},
        )

    def automatic(self, request: PlanRequest) -> Plan:
        """Find the plan of least expected final error among those expected to release."""
        self.check(request)
        plan = _first_plan(request)
        if plan is None and request.automatic and self.feasible(request):
            # forecasts are simulated, and may happen to be poor at exactly this number of rows: a
            # plan for fewer rows releases from these too
            plan = _first_plan(request.but(n_rows=int(self.rows_for(request))))
        if plan is not None:
            return plan
        raise no_plan(
            request,
            f"raise {{epsilon}} or {{delta}}, bring more {request.units}, or use calibrate to try "
            "anyway",
        )

    def calibrated(self, request: PlanRequest) -> Plan:
        """Calibrate a test that tolerates a tenth of the blocks as strays; there is no refinement.

        Components that do not match must clear ``c tau``, so tau is kept to what components
        `separation` deviations apart, less a margin for their scatter, can clear.
        """
        self.check(request)
        budget, k = request.budget, request.n_components
        t = self.default_blocks(request) if request.n_blocks is None else request.n_blocks
        accuracy = request.mask_accuracy or DEFAULT_MASK_ACCURACY
        separation = _SEPARATION if request.separation is None else request.separation
        friends = math.floor((1 - _STRAYS) * t)
        counts = np.where(np.arange(t) < friends, friends, 1)
        best: AveragedAgreement | None = None
        rest = _for_curves(request)
        quiet = [
            sigma
            for sigma in map(float, sigmas(max(friends - t / 2, 1)))
            if gaussian_curve(sigma).epsilon(rest.delta) < rest.epsilon
        ]
        thetas = [upper_point(sigma, budget.delta) for sigma in quiet]
        ways = (False, True) if k > 1 else (False,)
        tests = [best_cores(counts, quiet, thetas, close=close) for close in ways]
        for found in itertools.chain.from_iterable(zip(*tests, strict=True)):
            if found is not None:
                widest = LARGEST_RADIUS
                if k > 1:
                    clear = _RELIANCE * component_gap(separation)
                    widest = min(widest, clear / required_separation(found[0], k))
                stage = averaged(request, found[0], mask_accuracy=accuracy, largest_radius=widest)
                if best is None or stage.tau > best.tau:
                    best = stage
        if best is None:
            raise too_few_blocks(budget, t)
        return checked(Plan(request, (best,)))

    def read(self, form: Form, request: PlanRequest) -> tuple[Stage, ...]:
        """Read the agreement, then the refinement if there is one."""
        stage = AveragedAgreement.from_form(form, request.n_components, request.n_features)
        refine = form.optional("refine")
        return (stage,) if refine is None else (stage, Refinement.from_form(refine))

    # ------------------------------------------------------------------------------ what if

    def feasible(self, request: PlanRequest) -> bool:
        """Check whether these rows are at least `rows_for`, without a full search for that."""
        if not request.automatic:
            return super().feasible(request)
        found = _fewest(request.but(n_rows=None), at_hand=request.rows)
        return found is not None and _grid_rows(found[1]) <= request.rows

    def rows_for(self, request: PlanRequest) -> float:
        """Find the rows at which it releases in 95 % of runs."""
        self.check(request)
        if request.by_hand:
            return self.calibrated(request.but(n_rows=None)).rows_needed()
        found = _fewest(request.but(alpha=None, mask_accuracy=None, n_blocks=None, n_rows=None))
        return math.inf if found is None else float(_grid_rows(found[1]))

    def prospect(self, request: PlanRequest) -> Prospect:
        """Forecast chance and error of the plan that would be made."""
        n = request.rows
        free = request.but(mask_accuracy=None, n_blocks=None)
        # a search for the fewest rows takes longer than a check whether these are enough
        enough = n if self.feasible(free) else self.rows_for(free)
        if not math.isfinite(enough):
            return Prospect(self.name, n, request.epsilon, 0.0, None, None)
        plan = self.automatic(free.but(n_rows=int(max(n, enough))))
        return self._prospect(request, plan, n)

    def along_rows(
        self, request: PlanRequest, rows: Sequence[float], *, enough: float | None = None
    ) -> tuple[Prospect, ...]:
        """Forecast chances and errors at many numbers of rows, from one search for a plan.

        The plan is that of the most hopeful expectation, with a refinement for each number of
        rows. Measured: its error was at most about 1.5 times that of `automatic`, at a fraction of
        the time.
        """
        free = request.but(mask_accuracy=None, n_blocks=None)
        fewest = self.rows_for(free) if enough is None else enough
        if not math.isfinite(fewest):
            return tuple(Prospect(self.name, n, request.epsilon, 0.0, None, None) for n in rows)
        asked = free.but(n_rows=int(fewest))
        start = self.hopeful(asked)
        if start is None:
            start = self.automatic(asked)
        return tuple(
            self._prospect(request, _with_new_refinement(start, n, fewest), n) for n in rows
        )

    def _prospect(self, request: PlanRequest, plan: Plan, n: float) -> Prospect:
        """Forecast chance and error of a plan, at the mixture that the request is about."""
        mixture = expected_mixture(request)
        chance = self.chance(plan.answering(request), mixture, n)
        return Prospect(
            self.name, n, request.epsilon, chance, self.expected_error(plan, mixture, n), plan
        )

    def chance(
        self,
        plan: Plan,
        mixture: Mixture,  # noqa: ARG002 - what the request states of it decides
        n_rows: float,
    ) -> float:
        """Forecast the chance of a release.

        Fits of components that overlap scatter like fits of fewer rows of components that do not.
        Where nothing is stated about the components, they are taken to lie far apart.
        """
        apart = plan.request.expected_separation
        scatter = 1.0 if apart is None else expecting(apart, plan.n_features).inflation
        return plan.pass_probability(n_rows / scatter**2)

    def hopeful(self, request: PlanRequest) -> Plan | None:
        """Find the plan of the most hopeful expectation, which is quicker than `automatic`."""
        for expectation in _hopeful(request):
            plan = _best(request, expectation)
            if plan is not None:
                return checked(plan)
        return None

    def expected_error(self, plan: Plan, mixture: Mixture, n_rows: float) -> ExpectedError:
        """Forecast the error after the refinement or, without one, of the masked mean."""
        refinement = _refinement_of(plan)
        if refinement is None:
            return super().expected_error(plan, mixture, n_rows)
        return error_law(forecast_covariance(mixture, n_rows, refinement), mixture.weights)

    # -------------------------------------------------------------------------------- audit

    def audited_plans(self, *, thorough: bool) -> tuple[Plan, ...]:
        """List plans of the default budget, for a few numbers of components and columns."""
        shapes = ((2, 2), (1, 1), (3, 2)) if thorough else ((2, 2),)
        return tuple(
            self.calibrated(
                PlanRequest(
                    n_components=k, n_features=d, method=self.name, mask_accuracy=1.0, n_blocks=200
                )
            )
            for k, d in shapes
        )

    def attacked_cores(self, *, thorough: bool) -> tuple[Plan, ...]:
        """List cores of many shapes: their geometry is attacked, not their price."""
        return tuple(
            Plan(_large_budget(k, d), (self.shaped(t, m, M, G, n_components=k, n_features=d),))
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
        """Build a stage whose core has a given shape, at any price."""
        test = AgreementTest(n_blocks, 1.0, 1.0, 3, member, full, core)
        request = PlanRequest(n_components=n_components, n_features=n_features)
        return averaged(request, test, mask_accuracy=1.0, radius=radius)


def _large_budget(k: int, d: int) -> PlanRequest:
    """Build a request for attacked shapes: their geometry is attacked, prices are not checked."""
    return PlanRequest(
        n_components=k, n_features=d, epsilon=2.0, delta=1e-2, method=LiftedMethod.name
    )


def _refinement_of(plan: Plan) -> Refinement | None:
    return next((stage for stage in plan.stages if isinstance(stage, Refinement)), None)


def _with_new_refinement(start: Plan, n_rows: float, enough: float) -> Plan:
    """Refine a plan again for more rows than it was made for."""
    if n_rows <= enough:
        return start
    stage, d = start.stage(AveragedAgreement), start.request.n_features
    weights = component_weights(stage.n_components, stage.smallest_weight)
    fixed = start.but(stage).curve()
    found = best_refinement(n_rows, weights, d, stage.mask_accuracy, fixed, start.budget)
    return start if found is None else start.but(stage, found[0])


def _grid_rows(step: int) -> int:
    """Return the round number of rows at a step of the grid; the next one is 10 % more."""
    return int(rounded_up(10 ** (step / _ROWS_PER_DECADE)))


@functools.lru_cache(maxsize=512)
def _fewest(request: PlanRequest, *, at_hand: int | None = None) -> tuple[int, int] | None:
    """Find two steps of the grid of rows between which lie the fewest rows that have a plan.

    The steps are equal, unless rows are `at_hand`: then the search stops as soon as it is known
    whether these are enough, which they are exactly if the second step has no more. None if no
    number of rows is enough, or if those at hand are not.

    More rows never harm, but forecasts are simulated, and some numbers of rows happen to have
    better ones than slightly larger numbers. The first number that has a plan may have it by such
    luck only, so the next ones on the grid must have one too.

    The answer must also be consistent between epsilons. At every number of rows, a larger epsilon
    allows every plan that a smaller one allows. Which numbers are tried next follows from the
    answers before. At the first answer that differs between two epsilons, the larger one allows a
    plan, and its search goes on below; that of the smaller one goes on above. So a larger epsilon
    never asks for more rows, and rows are enough for an epsilon exactly if they are at least what
    is found here.
    """

    def holds(step: int) -> bool:
        ahead = range(step, step + _LOOKED_AHEAD + 1)
        return all(_allows(request.but(n_rows=_grid_rows(later))) for later in ahead)

    low, top = (decade * _ROWS_PER_DECADE for decade in _DECADES)
    if not _allows(request.but(n_rows=_grid_rows(top))):
        return None
    # up by decades first: few rows are quick to rule out, as there are few ways to split them
    high = low
    while high < top and not holds(high):
        low, high = high + 1, high + _ROWS_PER_DECADE
        if at_hand is not None and _grid_rows(low) > at_hand:
            return None
    while low < high and (at_hand is None or _grid_rows(low) <= at_hand < _grid_rows(high)):
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low, high


@functools.lru_cache(maxsize=512)
def _allows(request: PlanRequest) -> bool:
    """Check whether there is a plan for exactly these rows."""
    return any(_fits_budget(request, expectation) for expectation in _hopeful(request))


def _first_plan(request: PlanRequest) -> Plan | None:
    """Find the best plan of the first expectation that allows any."""
    for expectation in _tries(request):
        plan = _best(request, expectation)
        if plan is not None:
            return checked(plan)
    return None


def _tries(request: PlanRequest) -> tuple[Expectation, ...]:
    """List the expectations of block fits, in the order in which they are tried."""
    apart = request.expected_separation
    if apart is not None:
        return (expecting(apart, request.n_features),)
    return usual_expectations()


def _hopeful(request: PlanRequest) -> tuple[Expectation, ...]:
    """Keep the expectations that decide: what a careful one allows, the most hopeful allows too."""
    return _tries(request)[-1:]


def _refines(request: PlanRequest) -> bool:
    """Check whether a refinement follows: a mask set by hand is the accuracy of the release."""
    return request.mask_accuracy is None


def _weights(request: PlanRequest, expectation: Expectation) -> Array:
    k, smallest = request.n_components, request.smallest_weight
    if smallest is None and request.expected is not None:
        smallest = float(request.expected.weights.min())
    if smallest is None and k > 1:
        smallest = expectation.balance / k
    return component_weights(k, smallest)


def _block_choices(request: PlanRequest, weights: Array) -> list[int]:
    """List numbers of blocks to try: with enough rows per block for the smallest component."""
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
    """Return the budget left to convert curves with."""
    return for_curves(
        request.budget, misrounding_chance(request.n_components, request.n_features + 1)
    )


def _fixed_curve(core: Core, eta: float, k: int, d: int) -> RenyiCurve:
    """Price test and mask together."""
    gamma = averaged_move(core.radius, core.move)
    return gaussian_curve(core.test.sigma) + k * LiftedSpace(eta).mask_curve(gamma, d)


def _best(request: PlanRequest, expectation: Expectation) -> Plan | None:
    """Find the plan of least final error that the expected fits pass; None if there is none."""
    n, budget, k, d = request.rows, _for_curves(request), request.n_components, request.n_features
    weights = _weights(request, expectation)
    planned = request.but(smallest_weight=None if k == 1 else float(weights.min()))
    best: tuple[float, Plan] | None = None
    for t in _block_choices(request, weights):
        cores = _cores(request, t, weights, expectation)
        for mask in _MASKS if request.mask_accuracy is None else (request.mask_accuracy,):
            eta = lifted_eta(d, mask, request.beta / k)
            core = cheapest_core(cores, k, d, eta)
            if core is None:
                continue
            fixed = _fixed_curve(core, eta, k, d)
            last: tuple[Stage, ...] = ()
            score = mask
            if _refines(request):
                found = best_refinement(n, weights, d, mask, fixed, budget)
                if found is None:
                    continue
                last, score = (found[0],), found[1].total
            elif fixed.epsilon(budget.delta) > budget.epsilon:
                continue
            # among plans of nearly equal error prefer a finer start and fewer blocks
            score *= 1 + 0.01 * mask + 0.02 * t / _MOST_BLOCKS
            if best is None or score < best[0]:
                stage = averaged(planned, core.test, mask_accuracy=mask, radius=core.radius)
                best = score, Plan(planned, (stage, *last))
    return None if best is None else best[1]


def _fits_budget(request: PlanRequest, expectation: Expectation) -> bool:
    """Check whether `_best` would find a plan."""
    k, d, budget = request.n_components, request.n_features, _for_curves(request)
    weights = _weights(request, expectation)
    eta = lifted_eta(d, _MASKS[-1], request.beta / k)
    # the likeliest first, since one is enough
    choices = sorted(
        _block_choices(request, weights), key=lambda t: abs(math.log(t / _LIKELY_BLOCKS))
    )
    for t in choices:
        core = cheapest_core(_cores(request, t, weights, expectation), k, d, eta)
        if core is None:
            continue
        fixed = _fixed_curve(core, eta, k, d)
        if _refines(request):
            fits = best_refinement(request.rows, weights, d, _MASKS[-1], fixed, budget) is not None
        else:
            fits = fixed.epsilon(budget.delta) <= budget.epsilon
        if fits:
            return True
    return False


registry.register(LiftedMethod())
