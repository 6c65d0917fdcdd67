"""Define a method: it turns a request into a plan, and answers for everything that differs.

That is its stages and their price, its words and its look, the rows it takes and the error it
gives, and what the audit attacks. A new method is a subclass in a file of its own that registers
itself (`registry.register`); nothing else has to change.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from privgmm.covariance_structures import DEFAULT as FULL
from privgmm.errors import InvalidInput, MethodName
from privgmm.methods import registry
from privgmm.methods.chances import agreement_chance
from privgmm.methods.plan import Plan
from privgmm.methods.request import PlanRequest
from privgmm.methods.searching import (
    first_step,
    round_number,
    rounded_up,
    step_above,
    step_below,
)
from privgmm.methods.typical import expected_mixture
from privgmm.methods.usefulness import USUAL_ALPHA, USUAL_BETA, Usefulness
from privgmm.mixture import Mixture
from privgmm.stages.accuracy import ExpectedError, error_law
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.form import Form
from privgmm.stages.stage import Stage

__all__ = ["PASS", "Look", "Method", "Outlook", "Prospect"]

PASS = 0.95
"""Chance of a release that "enough rows" means; by convention 95 %."""

OTHER_NUMBER = (
    "The mixture behind the rows has another number of components, so no release can be near it."
)
"""Why an `Outlook` knows no error."""
_DEFAULT_BLOCKS = 400
"""Blocks at epsilon 1 where none are asked for; a rule of thumb: the noisy test then has room."""
_LEAST_MASK = 1e-9
"""Smallest mask accuracy searched: no table has the rows for it."""
_MOST_MASKS, _MASK_MARGIN = 8, 2e-4
"""Choice: masks tried, and by how much the rows they need may stay below those at hand."""
_WORKED_OUT = 4
"""Errors computed along a curve, by convention: they follow a power of the rows."""
_COARSEST = 1.2
"""Factor above the steps of any method's grid of rows: 1.15 for `sketch`, 1.1 for `lifted`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """Describe how a method's curve is drawn: a colour, a dash and a width of its own."""

    colour: str
    dash: str
    width: float


@dataclasses.dataclass(frozen=True)
class Prospect:
    """Forecast what a method gives at a number of rows.

    Parameters
    ----------
    method : str
    n_rows : float
    epsilon : float
    pass_probability : float
        The chance of a release.
    expected_error : ExpectedError or None
        Law of the distance dist_GMM to the truth; None where nothing is released.
    plan : Plan or None
        None where the method has no plan for this number of rows.
    """

    method: str
    n_rows: float
    epsilon: float
    pass_probability: float
    expected_error: ExpectedError | None
    plan: Plan | None

    @property
    def error(self) -> float:
        """Return the median error; infinite where nothing is released."""
        return math.inf if self.expected_error is None else self.expected_error.value

    def usefulness(self, alpha: float = USUAL_ALPHA, beta: float = USUAL_BETA) -> Usefulness:
        """Say whether it will be useful, less accurate than asked, or refused."""
        return Usefulness(
            chance=self.pass_probability,
            expected_error=self.expected_error,
            alpha=alpha,
            beta=beta,
        )

    def accuracy(self, beta: float = USUAL_BETA) -> float:
        """Find the smallest alpha that it is within, but for chance beta; infinite if refused."""
        if self.expected_error is None or self.pass_probability < 1 - beta:
            return math.inf
        return self.expected_error.at((1 - beta) / self.pass_probability)


@dataclasses.dataclass(frozen=True)
class Outlook:
    """Forecast what one plan gives where the mixture behind the rows is known.

    Parameters
    ----------
    chance : float
        Chance of a release, between 0 and 1.
    expected_error : ExpectedError or None
        Law of the distance dist_GMM to the truth; None where the mixture has another number of
        components than is fitted.
    """

    chance: float
    expected_error: ExpectedError | None

    @property
    def error(self) -> float | None:
        """Return the median error; None where none is forecast."""
        return None if self.expected_error is None else self.expected_error.value

    def usefulness(self, alpha: float = USUAL_ALPHA, beta: float = USUAL_BETA) -> Usefulness:
        """Say whether it will be useful, less accurate than asked, or refused."""
        return Usefulness(
            chance=self.chance,
            expected_error=self.expected_error,
            alpha=alpha,
            beta=beta,
            concerns=(OTHER_NUMBER,) * (self.expected_error is None and self.chance > 0),
        )


class Method(abc.ABC):
    """Learn a mixture under differential privacy, in one way of several.

    The answers to what-if questions here suit methods that publish what blocks agreed on, masked,
    so that their rows and their error follow from the mask. Other methods override them.
    """

    name: ClassVar[str]
    """What users type."""
    title: ClassVar[str]
    """What users read."""
    sentence: ClassVar[str]
    """What it does, to follow its title; no capital, no full stop."""
    look: ClassVar[Look]
    largest_mask_accuracy: ClassVar[float] = 1.0
    """Masks beyond this are not offered; Algorithm 2 is proved up to one."""
    most_components: ClassVar[float] = math.inf
    """Components that plans are made for at most; measured for 1,000: half a second."""
    plans_only_for_enough: ClassVar[bool] = False
    """Whether its automatic plan exists only where the rows are expected to pass it."""
    spends_less: ClassVar[str] = ""
    """Why a release may cost less than the budget asked for, as a sentence; empty if it hardly
    does."""
    publishes_sketch: ClassVar[bool] = False
    """Whether the number of components may be left open, and covariances be other than full: both
    are fitted to a published sketch."""

    # ----------------------------------------------------------------------------- planning

    def automatic(self, request: PlanRequest) -> Plan:
        """Make the plan of least expected error; mask and blocks stay as they are set.

        Here that is the plan of the finest mask that the rows are expected to pass. If they pass
        none, it is the plan that asks for the fewest rows. Raises `InvalidInput` if there is none.
        """
        self.check(request)
        mask = request.mask_accuracy
        if mask is None and request.n_rows is not None:
            mask = self.finest_mask(request)
        return self.plan_at(request.but(mask_accuracy=mask))

    @abc.abstractmethod
    def calibrated(self, request: PlanRequest) -> Plan:
        """Make the plan with the request's own mask and blocks, expected to release or not."""

    @abc.abstractmethod
    def read(self, form: Form, request: PlanRequest) -> tuple[Stage, ...]:
        """Read the stages of a plan of this method back from plain values."""

    def default_blocks(self, request: PlanRequest) -> int:
        """Choose blocks enough for the test to pass with room: its noise grows like 1/epsilon."""
        return math.ceil(_DEFAULT_BLOCKS / min(request.epsilon, 1.0))

    def check(self, request: PlanRequest) -> None:
        """Raise `InvalidInput` if the method cannot be asked this at all."""
        mask = request.mask_accuracy
        if mask is not None and mask > self.largest_mask_accuracy:
            raise InvalidInput(
                "must be at most {most} for {method_is}",
                argument="mask_accuracy",
                value=mask,
                facts={"most": self.largest_mask_accuracy, "method_is": MethodName(self.name)},
            )
        if request.n_components > self.most_components:
            raise InvalidInput(
                "must be at most {most} for {method_is}",
                argument="n_components",
                value=request.n_components,
                remedy="its plans are found by simulating blocks of all components; ask for fewer",
                facts={"most": self.most_components, "method_is": MethodName(self.name)},
            )
        if self.publishes_sketch:
            return
        able = next(method.name for method in registry.all_methods() if method.publishes_sketch)
        named = {"method_is": MethodName(self.name), "able": MethodName(able)}
        if request.choose_components:
            raise InvalidInput(
                "must be a number for {method_is}, which publishes no sketch to choose it from",
                argument="n_components",
                remedy="name one, or use {able}",
                facts=named,
            )
        if request.covariance_type != FULL:
            raise InvalidInput(
                f"must be {FULL!r} for {{method_is}}, which publishes no sketch to fit others to",
                argument="covariance_type",
                value=request.covariance_type,
                remedy="use {able}",
                facts=named,
            )

    # ------------------------------------------------------------------------------ what if

    def plan_at(self, request: PlanRequest) -> Plan:
        """Make the plan at the request's mask that asks for the fewest rows; the widest if none."""
        mask = request.mask_accuracy or self.largest_mask_accuracy
        return _plan_at(self, request.but(n_rows=None, alpha=None, mask_accuracy=mask))

    def cheapest(self, request: PlanRequest) -> Plan:
        """Find the plan of `plan_at`: of the numbers of blocks worth trying, the best."""
        return self.calibrated(request)

    def rows_for(self, request: PlanRequest) -> float:
        """Find the rows at which it releases in 95 % of runs; infinite if it never does."""
        self.check(request)
        try:
            return rounded_up(self.plan_at(request).rows_needed(PASS))
        except InvalidInput:
            # no number of blocks passes within a budget this small
            return math.inf

    def fewest_rows(self, request: PlanRequest) -> float:
        """Find `rows_for` to the last digit that is printed: these are enough, fewer are not.

        This is the first round number of rows that is `feasible`, on whichever grid `rows_for`
        searches. Every door prints this number.
        """
        found = self.rows_for(request)
        if not math.isfinite(found) or not request.automatic:
            return rounded_up(found)

        def holds(step: int) -> bool:
            return self.enough(request.but(n_rows=math.floor(round_number(step))))

        high = step_above(found)
        if round_number(high) == found and not holds(high - 1):
            return found
        step = first_step(step_below(found / _COARSEST), high, holds)
        return rounded_up(found) if step is None else round_number(step)

    def feasible(self, request: PlanRequest) -> bool:
        """Check whether exactly the request's rows are enough."""
        return self.rows_for(request) <= request.rows

    def enough(self, request: PlanRequest) -> bool:
        """Check whether the request's rows are at least `fewest_rows`.

        They are if they are `feasible` when rounded down to a round number.
        """
        if not request.automatic:
            return self.feasible(request)
        return self.feasible(request.but(n_rows=math.floor(round_number(step_below(request.rows)))))

    def finest_mask(self, request: PlanRequest) -> float | None:
        """Find the smallest mask accuracy that the request's rows pass; None if none does.

        To a few parts in ten thousand, on the side that passes.
        """
        n, largest = request.rows, self.largest_mask_accuracy

        def needed(mask: float) -> float:
            return self.plan_at(request.but(mask_accuracy=mask)).rows_needed(PASS)

        try:
            rows = needed(largest)
        except InvalidInput:
            # no number of blocks passes within a budget this small
            return None
        if rows > n:
            return None
        mask, power = largest, -2.0
        for _ in range(_MOST_MASKS):
            # rows fall about like the inverse square of the mask; aim slightly inside
            finer = mask * (n / rows * (1 - _MASK_MARGIN)) ** (1 / power)
            finer = min(largest, max(finer, _LEAST_MASK))
            fewer = needed(finer)
            if fewer != rows and finer != mask:
                power = math.log(fewer / rows) / math.log(finer / mask)
            mask, rows = finer, fewer
            if mask == _LEAST_MASK or n * (1 - 3 * _MASK_MARGIN) <= rows <= n:
                break
        return mask if rows <= n else min(largest, mask * (rows / n) ** (1 / -power) * 1.001)

    def prospect(self, request: PlanRequest) -> Prospect:
        """Forecast chance and error of a release at the request's rows."""
        n, mixture, plan = request.rows, expected_mixture(request), self.automatic(request)
        chance, error = self.chance(plan, mixture, n), self.expected_error(plan, mixture, n)
        return Prospect(self.name, n, request.epsilon, chance, error, plan)

    def along_rows(
        self,
        request: PlanRequest,
        rows: Sequence[float],
        *,
        enough: float | None = None,  # noqa: ARG002 - the widest mask says how many are enough
    ) -> tuple[Prospect, ...]:
        """Forecast chances and errors at many numbers of rows; some errors are interpolated.

        `enough` may name rows known to be enough, to plan for; by default the fewest.
        """
        mixture = expected_mixture(request)

        def seen(n: float, plan: Plan) -> Prospect:
            chance, error = self.chance(plan, mixture, n), self.expected_error(plan, mixture, n)
            return Prospect(self.name, n, request.epsilon, chance, error, plan)

        widest = self.plan_at(request)
        many = sorted({n for n in rows if n >= widest.rows_needed(PASS)})
        few = many[:: max(1, math.ceil(len(many) / _WORKED_OUT))] + many[-1:]
        known = {n: seen(n, self.automatic(request.but(n_rows=math.floor(n)))) for n in few}
        found = [
            known.get(n) or (self._between(n, known) if n in many else seen(n, widest))
            for n in rows
        ]
        return tuple(found)

    def _between(self, n: float, known: dict[float, Prospect]) -> Prospect:
        """Interpolate between forecasts: masks, and so errors, follow powers of the rows."""
        logs, seen = np.log(list(known)), list(known.values())
        laws = [one.expected_error for one in seen if one.expected_error is not None]
        quantiles = np.log([law.quantiles for law in laws]).T
        between = [np.interp(math.log(n), logs, column) for column in quantiles]
        chance = float(np.interp(math.log(n), logs, [one.pass_probability for one in seen]))
        law = ExpectedError(tuple(np.exp(np.minimum(between, 0.0)).tolist()))
        return Prospect(self.name, n, seen[0].epsilon, chance, law, None)

    def chance(
        self,
        plan: Plan,
        mixture: Mixture,  # noqa: ARG002 - components are taken to be well separated
        n_rows: float,
    ) -> float:
        """Forecast, quickly, the chance that a plan of this method releases."""
        return plan.pass_probability(n_rows)

    def expected_error(self, plan: Plan, mixture: Mixture, n_rows: float) -> ExpectedError:
        """Forecast the law of dist_GMM of what a plan of this method releases.

        Methods that do more than mask what blocks agree on override this.

        Parameters
        ----------
        plan : Plan
        mixture : Mixture
            Where the rows come from, of as many components as are released.
        n_rows : float
            Rows, or persons.
        """
        return error_law(plan.stage(Agreement).error_covariance(mixture, n_rows), mixture.weights)

    def outlook(
        self, plan: Plan, mixture: Mixture, n_rows: int, *, learner: str | None = None
    ) -> Outlook:
        """Forecast what a plan of this method gives on `n_rows` rows of a known mixture.

        Parameters
        ----------
        plan : Plan
        mixture : Mixture
            Where the rows come from, known without looking at them.
        n_rows : int
            Rows, or persons.
        learner : str, optional
            A name in the learners' registry.
        """
        chance = math.prod(
            agreement_chance(stage, mixture, n_rows, learner=learner)
            if isinstance(stage, Agreement)
            else stage.pass_probability(n_rows)
            for stage in plan.stages
        )
        if mixture.n_components != plan.n_components:
            return Outlook(chance, None)
        return Outlook(chance, self.expected_error(plan, mixture, n_rows))

    # -------------------------------------------------------------------------------- audit

    @abc.abstractmethod
    def audited_plans(self, *, thorough: bool) -> tuple[Plan, ...]:
        """List plans whose noise the audit attacks, in order of importance."""

    def attacked_cores(self, *, thorough: bool) -> tuple[Plan, ...]:  # noqa: ARG002 - few need more
        """List small plans of a large budget, whose agreement is attacked by one changed block."""
        return ()


@functools.lru_cache(maxsize=512)
def _plan_at(method: Method, request: PlanRequest) -> Plan:
    return method.cheapest(request)
