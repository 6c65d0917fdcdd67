"""Define a method in a file of its own: all it takes to be offered everywhere.

It averages agreeing blocks like `lifted`, always with 120 blocks, and never refines.
"""

from __future__ import annotations

from typing import ClassVar

from privgmm.methods.cores import averaged
from privgmm.methods.method import Look, Method
from privgmm.methods.plan import Plan, checked
from privgmm.methods.request import PlanRequest
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.stage import AveragedAgreement
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.form import Form
from privgmm.stages.stage import Stage

__all__ = ["ToyMethod"]

_BLOCKS = 120


class ToyMethod(Method):
    """Plan one number of blocks, one test, no refinement."""

    name: ClassVar[str] = "toy"
    title: ClassVar[str] = "Toy"
    sentence: ClassVar[str] = "averages 120 blocks and leaves it at that"
    look: ClassVar[Look] = Look("#117733", "longdash", 2.0)
    largest_mask_accuracy: ClassVar[float] = 3.0

    def automatic(self, request: PlanRequest) -> Plan:
        """Make one plan for any number of rows."""
        return self.calibrated(request.but(mask_accuracy=request.mask_accuracy or 2.0))

    def calibrated(self, request: PlanRequest) -> Plan:
        """Make a test with room for some strays, of the widest radius that the budget allows."""
        self.check(request)
        t = _BLOCKS if request.n_blocks is None else request.n_blocks
        sigma = max(4.0, 5.5 / request.epsilon)
        theta = DiscreteGaussian(sigma).upper_point(request.delta)
        full = t - theta - 10
        member = max(t // 2 + 1, t + 1 - full // 2)
        test = AgreementTest(t, 1.0, sigma, theta, member, full, full)
        free = request.but(n_rows=None)
        stage = averaged(free, test, mask_accuracy=request.mask_accuracy or 2.0, largest_radius=0.8)
        return checked(Plan(request, (stage,)))

    def read(self, form: Form, request: PlanRequest) -> tuple[Stage, ...]:
        """Read the one stage."""
        return (AveragedAgreement.from_form(form, request.n_components, request.n_features),)

    def audited_plans(self, *, thorough: bool) -> tuple[Plan, ...]:
        """List one plan at the default budget."""
        return (self.automatic(PlanRequest(n_components=2, n_features=2, method=self.name)),)

    def attacked_cores(self, *, thorough: bool) -> tuple[Plan, ...]:
        """List one plan with few blocks and a large budget."""
        request = PlanRequest(
            n_components=1,
            n_features=1,
            epsilon=4.0,
            delta=0.02,
            n_blocks=90,
            mask_accuracy=1.0,
            method=self.name,
        )
        return (self.calibrated(request),)
