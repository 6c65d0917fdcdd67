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
from privgmm.methods.plan import Plan
from privgmm.methods.request import DEFAULT_ALPHA, PlanRequest
from privgmm.stages.form import Form
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.stage import Stage

__all__ = ["PASS", "Look", "Method", "Prospect"]

PASS = 0.95
"""The chance of a release that "enough rows" means."""

_DEFAULT_BLOCKS = 400


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
    """

    method: str
    n_rows: float
    epsilon: float
    pass_probability: float
    error: float
    plan: Plan | None


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
    """True: its error is alpha itself. False: it is what to expect after refinement (the
    root-mean-square error of the smallest component: mean, covariance and weight together)."""
    takes_forgiving: ClassVar[bool] = False
    """Whether it can plan for real data."""
    plans_only_for_enough: ClassVar[bool] = False
    """Whether its automatic plan exists only where the rows are expected to pass it."""

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
            return self.plan_at(request).rows_needed(PASS)
        except InvalidInput:
            # no number of blocks passes within so small a budget
            return math.inf

    def feasible(self, request: PlanRequest) -> bool:
        """Whether the request's rows are enough."""
        return self.rows_for(request) <= request.rows

    def alpha_for(self, request: PlanRequest) -> float:
        """The smallest alpha that the request's rows can promise; infinite if there is none."""
        n = request.rows
        if self.rows_for(request.but(alpha=self.largest_alpha)) > n:
            return math.inf
        # rows fall like 1 / alpha^2 as long as gamma is small; two rounds correct the rest
        alpha = self.largest_alpha
        for _ in range(3):
            needed = self.rows_for(request.but(alpha=alpha))
            alpha = min(self.largest_alpha, alpha * math.sqrt(needed / n))
        return alpha

    def error_for(self, request: PlanRequest) -> float:
        """The least error that the request's rows allow: what it promises, or what to expect."""
        return self.alpha_for(request)

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
