"""What a method is: it turns a request into a plan, and answers for everything that differs.

Its stages and their price, its words and its look, what it would take and give, and what the
audit attacks. A new method is a subclass in a file of its own that registers itself
(`registry.register`); nothing else has to change.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import ClassVar

from privgmm.errors import InvalidInput
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
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.stage import Stage

__all__ = ["PASS", "Look", "Method", "Outlook", "Prospect"]

PASS = 0.95
"""The chance of a release that "enough rows" means."""

_DEFAULT_BLOCKS = 400
_LEAST_ALPHA = 1e-9
_COARSEST = 1.2
"""No method finds its rows on a coarser grid than one of this factor."""


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """How a method's curve is drawn: a colour, a dash and a width that tell it from others."""

    colour: str
    dash: str
    width: float


@dataclasses.dataclass(frozen=True)
class Prospect:
    """What a method would give at a number of rows.

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
        None where the method has no plan for so few rows.
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
    """What to expect of one plan where the mixture behind the rows is known.

    Parameters
    ----------
    chance : float
        Of a release, between 0 and 1.
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
    """One way to learn a mixture privately.

    The answers to what-if questions given here suit methods whose error is the alpha they
    promise and whose rows follow from their plan; others answer in their own way.
    """

    name: ClassVar[str]
    """What one types."""
    title: ClassVar[str]
    """What one reads."""
    sentence: ClassVar[str]
    """What it does, to follow its title; no capital, no full stop."""
    look: ClassVar[Look]
    largest_alpha: ClassVar[float] = 1.0
    """Accuracies beyond this are not offered."""
    error_is_promised: ClassVar[bool] = True
    """True: its error is alpha itself. False: it is what to expect of a release, the median over
    many of the length of (weight, mean, covariance error) of the worst component."""
    takes_forgiving: ClassVar[bool] = False
    """Whether it can plan for real data."""
    plans_only_for_enough: ClassVar[bool] = False
    """Whether its automatic plan exists only where the rows are expected to pass it."""
    spends_less: ClassVar[str] = ""
    """Why a release may cost less than the budget asked for, as a sentence; empty if it hardly
    does."""
    publishes_sketch: ClassVar[bool] = False
    """Whether its releases hold a sketch, from which other fits are free."""

    @property
    def can_choose_components(self) -> bool:
        """Whether the number of components may be left open: it is chosen from a sketch."""
        return self.publishes_sketch

    # ----------------------------------------------------------------------------- planning

    @abc.abstractmethod
    def automatic(self, request: PlanRequest) -> Plan:
        """The plan of least expected error; keeps to alpha and blocks where they are set.

        Raises `InvalidInput` if there is none.
        """

    @abc.abstractmethod
    def calibrated(self, request: PlanRequest, refinement: Refinement | None) -> Plan:
        """The plan with the request's own alpha and blocks, expected to release or not."""

    @abc.abstractmethod
    def read(self, form: Form, n_components: int, n_features: int) -> tuple[Stage, ...]:
        """The stages of a plan of this method, read back from plain numbers."""

    def settled(self, request: PlanRequest) -> PlanRequest:
        """The same request, put to the method that will answer it: this one, unless it chooses."""
        return request

    def default_blocks(self, request: PlanRequest) -> int:
        """Blocks enough for the test to pass with room: its noise grows like 1/epsilon."""
        return math.ceil(_DEFAULT_BLOCKS / min(request.epsilon, 1.0))

    def check(self, request: PlanRequest) -> None:
        """Raise `InvalidInput` if the method cannot be asked this at all."""
        if request.alpha is not None and request.alpha > self.largest_alpha:
            raise InvalidInput(
                f"alpha must be at most {self.largest_alpha:g} for method {self.name!r}, "
                f"got {request.alpha!r}"
            )
        if request.needs_sketch and not self.publishes_sketch:
            what = (
                "a number of components left to choose"
                if request.choose_components
                else "another fit to what was released"
            )
            raise InvalidInput(
                f"{what} needs a method that publishes a sketch, got method {self.name!r}: leave "
                "the method open, or fix the number of components (and covariance_type='full')"
            )
        if request.forgiving and not self.takes_forgiving:
            raise InvalidInput(
                f"forgiving is not known to method {self.name!r}: leave it out, or choose "
                "another method"
            )

    # ------------------------------------------------------------------------------ what if

    def plan_at(self, request: PlanRequest) -> Plan:
        """The plan at the request's alpha that asks for the fewest rows, whatever n is."""
        return _plan_at(self, request.but(n_rows=None, alpha=request.alpha or DEFAULT_ALPHA))

    def cheapest(self, request: PlanRequest) -> Plan:
        """The work of `plan_at`: of the numbers of blocks worth trying, the best."""
        return self.automatic(request)

    def rows_for(self, request: PlanRequest) -> float:
        """Rows at which it releases in 95 % of runs; infinite if it never does."""
        self.check(request)
        try:
            return rounded_up(self.plan_at(request).rows_needed(PASS))
        except InvalidInput:
            # no number of blocks passes within so small a budget
            return math.inf

    def fewest_rows(self, request: PlanRequest) -> float:
        """`rows_for` to the last digit that is printed: so many are enough, fewer are not.

        Whatever grid a method finds its rows on, this is the first round number of rows that
        `feasible` says yes to. It is what every door tells.
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
        """Whether exactly so many rows are enough."""
        return self.rows_for(request) <= request.rows

    def enough(self, request: PlanRequest) -> bool:
        """Whether the request's rows are at least `fewest_rows`.

        That is, whether they are `feasible` when rounded down to a round number.
        """
        if not request.automatic:
            return self.feasible(request)
        return self.feasible(request.but(n_rows=math.floor(round_number(step_below(request.rows)))))

    def alpha_for(self, request: PlanRequest) -> float:
        """The smallest alpha that the request's rows can promise; infinite if there is none."""
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
        """The least error that the request's rows allow: what it promises, or what to expect."""
        return self.alpha_for(request)

    def least_error(self, request: PlanRequest) -> float:  # noqa: ARG002 - nothing is known here
        """An error that it will hardly do better than at the request's rows; quick to tell."""
        return 0.0

    def prospect(self, request: PlanRequest) -> Prospect:
        """Chance of a release and error to expect at the request's rows."""
        return self.along_rows(request, [request.rows])[0]

    def along_rows(
        self,
        request: PlanRequest,
        rows: Sequence[float],
        *,
        enough: float | None = None,  # noqa: ARG002 - these plans do not depend on n
    ) -> tuple[Prospect, ...]:
        """Chances and errors at many numbers of rows, from one search for a plan.

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
        """What to expect of a plan of this method on so many rows of a known mixture.

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
        """Error of the plan's releases at a mixture of as many components, and its band."""
        return plan.alpha, (0.0, plan.alpha)

    # -------------------------------------------------------------------------------- audit

    @abc.abstractmethod
    def audited_plans(self, *, thorough: bool) -> tuple[Plan, ...]:
        """Plans whose noise the audit attacks, in order of importance."""

    def attacked_cores(self, *, thorough: bool) -> tuple[Plan, ...]:  # noqa: ARG002 - few need more
        """Plans whose agreement is attacked by changing one block; small, and lavish."""
        return ()


@functools.lru_cache(maxsize=512)
def _plan_at(method: Method, request: PlanRequest) -> Plan:
    return method.cheapest(request)
