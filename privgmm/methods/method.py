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

from privgmm.covariance_structures import DEFAULT as FULL
from privgmm.errors import InvalidInput, MethodName
from privgmm.methods import registry
from privgmm.methods.chances import agreement_chance
from privgmm.methods.plan import Plan
from privgmm.methods.request import DEFAULT_ALPHA, PlanRequest
from privgmm.methods.searching import (
    first_step,
    first_step_near,
    round_number,
    rounded_up,
    step_above,
    step_below,
)
from privgmm.mixture import Mixture
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.form import Form
from privgmm.stages.stage import Stage

__all__ = ["PASS", "Look", "Method", "Outlook", "Prospect"]

PASS = 0.95
"""Chance of a release that "enough rows" means; by convention 95 %."""

_DEFAULT_BLOCKS = 400
"""Blocks at epsilon 1 where none are asked for; a rule of thumb: the noisy test then has room."""
_LEAST_ALPHA = 1e-9
"""Smallest alpha searched: no table has the rows for it."""
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
    error : float
        What the method promises or expects: see `Method.error_is_promised`.
    plan : Plan or None
        None where the method has no plan for this number of rows.
    error_band : (float, float)
        Where an error is expected: the median error of many releases should lie between these.
        (0, infinity) where nothing is said.
    """

    method: str
    n_rows: float
    epsilon: float
    pass_probability: float
    error: float
    plan: Plan | None
    error_band: tuple[float, float] = (0.0, math.inf)


@dataclasses.dataclass(frozen=True)
class Outlook:
    """Forecast what one plan gives where the mixture behind the rows is known.

    Parameters
    ----------
    chance : float
        Chance of a release, between 0 and 1.
    error : float or None
        What the method promises or expects, see `Method.error_is_promised`; None where the mixture
        has another number of components than is fitted.
    error_band : (float, float)
        The median error of many releases should lie between these; (0, infinity) where nothing is
        said.
    """

    chance: float
    error: float | None
    error_band: tuple[float, float] = (0.0, math.inf)


class Method(abc.ABC):
    """Learn a mixture under differential privacy, in one way of several.

    The answers to what-if questions here suit methods whose error is the alpha they promise and
    whose rows follow from their plan. Other methods override them.
    """

    name: ClassVar[str]
    """What users type."""
    title: ClassVar[str]
    """What users read."""
    sentence: ClassVar[str]
    """What it does, to follow its title; no capital, no full stop."""
    look: ClassVar[Look]
    largest_alpha: ClassVar[float] = 1.0
    """Accuracies beyond this are not offered; Algorithm 2 is proved up to one."""
    error_is_promised: ClassVar[bool] = True
    """True: its error is alpha itself. False: its error is a forecast, the median over releases of
    the length of (weight, mean, covariance error) of the worst component."""
    plans_only_for_enough: ClassVar[bool] = False
    """Whether its automatic plan exists only where the rows are expected to pass it."""
    spends_less: ClassVar[str] = ""
    """Why a release may cost less than the budget asked for, as a sentence; empty if it hardly
    does."""
    publishes_sketch: ClassVar[bool] = False
    """Whether the number of components may be left open, and covariances be other than full: both
    are fitted to a published sketch."""

    # ----------------------------------------------------------------------------- planning

    @abc.abstractmethod
    def automatic(self, request: PlanRequest) -> Plan:
        """Make the plan of least expected error; alpha and blocks stay as they are set.

        Raises `InvalidInput` if there is none.
        """

    @abc.abstractmethod
    def calibrated(self, request: PlanRequest) -> Plan:
        """Make the plan with the request's own alpha and blocks, expected to release or not."""

    @abc.abstractmethod
    def read(self, form: Form, request: PlanRequest) -> tuple[Stage, ...]:
        """Read the stages of a plan of this method back from plain values."""

    def default_blocks(self, request: PlanRequest) -> int:
        """Choose blocks enough for the test to pass with room: its noise grows like 1/epsilon."""
        return math.ceil(_DEFAULT_BLOCKS / min(request.epsilon, 1.0))

    def check(self, request: PlanRequest) -> None:
        """Raise `InvalidInput` if the method cannot be asked this at all."""
        if request.alpha is not None and request.alpha > self.largest_alpha:
            raise InvalidInput(
                "must be at most {most} for {method_is}",
                argument="alpha",
                value=request.alpha,
                facts={"most": self.largest_alpha, "method_is": MethodName(self.name)},
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
        """Make the plan at the request's alpha that asks for the fewest rows."""
        return _plan_at(self, request.but(n_rows=None, alpha=request.alpha or DEFAULT_ALPHA))

    def cheapest(self, request: PlanRequest) -> Plan:
        """Find the plan of `plan_at`: of the numbers of blocks worth trying, the best."""
        return self.automatic(request)

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

    def alpha_for(self, request: PlanRequest) -> float:
        """Find the smallest alpha that the request's rows can promise; infinite if none."""
        n = request.rows
        if self.rows_for(request.but(alpha=self.largest_alpha)) > n:
            return math.inf
        # a guess to begin with: rows fall about like 1 / alpha^2
        alpha = self.largest_alpha
        for _ in range(2):
            needed = self.rows_for(request.but(alpha=alpha))
            alpha = min(self.largest_alpha, max(_LEAST_ALPHA, alpha * math.sqrt(needed / n)))

        def holds(step: int) -> bool:
            return self.rows_for(request.but(alpha=round_number(step))) <= n

        most = step_below(self.largest_alpha)
        guess = min(step_above(alpha), most)
        found = first_step_near(guess, step_above(_LEAST_ALPHA), most, holds)
        return math.inf if found is None else round_number(found)

    def error_for(self, request: PlanRequest) -> float:
        """Forecast the error at the request's rows: what it promises, or what to expect."""
        return self.alpha_for(request)

    def prospect(self, request: PlanRequest) -> Prospect:
        """Forecast chance and error of a release at the request's rows."""
        return self.along_rows(request, [request.rows])[0]

    def along_rows(
        self,
        request: PlanRequest,
        rows: Sequence[float],
        *,
        enough: float | None = None,  # noqa: ARG002 - these plans do not depend on n
    ) -> tuple[Prospect, ...]:
        """Forecast chances and errors at many numbers of rows, from one search for a plan.

        `enough` may name rows known to be enough, to plan for; by default the fewest.
        """
        plan = self.plan_at(request)
        alpha = request.alpha or DEFAULT_ALPHA
        return tuple(
            Prospect(self.name, n, request.epsilon, plan.pass_probability(n), alpha, plan)
            for n in rows
        )

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
        return Outlook(chance, *self._error_at(plan, mixture, n_rows))

    def _error_at(
        self,
        plan: Plan,
        mixture: Mixture,  # noqa: ARG002 - a promise holds for any
        n_rows: int,  # noqa: ARG002
    ) -> tuple[float, tuple[float, float]]:
        """Forecast the error of releases at a mixture of as many components, and its band."""
        alpha = plan.stage(Agreement).alpha
        return alpha, (0.0, alpha)

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
