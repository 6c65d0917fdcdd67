"""A method in a file of its own: all it takes to be offered everywhere.

It averages agreeing blocks like `lifted`, always with 120 blocks, and never refines.
"""

from __future__ import annotations

from typing import ClassVar

from privgmm.errors import InvalidInput
from privgmm.methods.lifted.cores import averaged
from privgmm.methods.method import Look, Method
from privgmm.methods.plan import Plan, checked
from privgmm.methods.request import PlanRequest
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.stage import AveragedAgreement
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.form import Form
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.stage import Stage

__all__ = ["ToyMethod"]

_BLOCKS = 120


class ToyMethod(Method):
    """One number of blocks, one test, no refinement."""

    name: ClassVar[str] = "toy"
    title: ClassVar[str] = "Toy"
    sentence: ClassVar[str] = "averages 120 blocks and leaves it at that"
    look: ClassVar[Look] = Look("#117733", "longdash", 2.0)
    largest_alpha: ClassVar[float] = 3.0

    def automatic(self, request: PlanRequest) -> Plan:
        """The same plan for any number of rows."""
        return self.calibrated(request.but(alpha=request.alpha or 2.0), request.refinement)

    def calibrated(self, request: PlanRequest, refinement: Refinement | None) -> Plan:
        """A test with room for some strays, around the widest radius the budget allows."""
        self.check(request)
        if refinement is not None:
            raise InvalidInput("refine is not known to method 'toy': leave it out")
        t = _BLOCKS if request.n_blocks is None else request.n_blocks
        sigma = max(4.0, 5.5 / request.epsilon)
        theta = DiscreteGaussian(sigma).upper_point(request.delta)
        full = t - theta - 10
        member = max(t // 2 + 1, t + 1 - full // 2)
        test = AgreementTest(t, 1.0, sigma, theta, member, full, full)
        free = request.but(n_rows=None)
        stage = averaged(free, test, alpha=request.alpha or 2.0, largest_radius=0.8)
        k, d = request.n_components, request.n_features
        return checked(Plan(self.name, request.budget, k, d, (stage,)))

    def read(self, form: Form, n_components: int, n_features: int) -> tuple[Stage, ...]:
        """One stage."""
        return (AveragedAgreement.from_form(form, n_components, n_features),)

    def audited_plans(self, *, thorough: bool) -> tuple[Plan, ...]:  # noqa: ARG002 - one is enough
        """One plan at the usual promise."""
        return (self.automatic(PlanRequest(n_components=2, n_features=2, method=self.name)),)

    def attacked_cores(self, *, thorough: bool) -> tuple[Plan, ...]:  # noqa: ARG002 - one is enough
        """One plan with few blocks and a lavish promise."""
        request = PlanRequest(
            n_components=1,
            n_features=1,
            epsilon=4.0,
            delta=0.02,
            n_blocks=90,
            alpha=1.0,
            method=self.name,
        )
        return (self.calibrated(request, None),)
