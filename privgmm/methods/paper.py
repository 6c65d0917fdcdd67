"""Plan method `paper`: Algorithms 1 and 2 with the paper's own constants (Theorem 6.2)."""

from __future__ import annotations

import math
from typing import ClassVar

from privgmm.methods import registry
from privgmm.methods.calibration import for_curves
from privgmm.methods.method import Look, Method
from privgmm.methods.plan import Plan, checked
from privgmm.methods.request import DEFAULT_MASK_ACCURACY, PlanRequest
from privgmm.stages.agreement import lemmas
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.public_grid import misrounding_chance
from privgmm.stages.agreement.stage import PaperAgreement
from privgmm.stages.form import Form
from privgmm.stages.stage import Stage

__all__ = ["PaperMethod"]

_LARGEST_SPEND = 2 * math.log(2) / 3 * (1 - 1e-12)
"""Lemma 5.1 needs epsilon < ln(2)/3 inside, so Theorem 2.3 spends less than twice that. The
factor is far more than the rounding of the logarithm."""


class PaperMethod(Method):
    """Plan Algorithms 1 and 2 as printed, every constant written out."""

    name: ClassVar[str] = "paper"
    title: ClassVar[str] = "Paper"
    sentence: ClassVar[str] = "Algorithms 1 and 2 with the paper's own constants"
    most_components: ClassVar[float] = 1000
    look: ClassVar[Look] = Look("#808088", "dashdot", 3.0)
    spends_less: ClassVar[str] = (
        f"It never uses more than ε = {_LARGEST_SPEND:.4f}, however much it is given: the proof in "
        "the paper (Lemma 5.1) holds only for small ε. It is charged what it uses. So a larger ε "
        "costs no more and helps no more."
    )

    def calibrated(self, request: PlanRequest) -> Plan:
        """Write out every constant of Theorem 6.2.

        Without a number of blocks: the smallest that is sure to pass when all blocks agree.
        """
        self.check(request)
        budget, k, d = request.budget, request.n_components, request.n_features
        alpha = request.mask_accuracy or DEFAULT_MASK_ACCURACY
        e = min(budget.epsilon / 2, _LARGEST_SPEND / 2)
        # slightly less, so that rounding in the last place does not cost more than the budget
        dl = for_curves(budget, misrounding_chance(k, d)).delta * (1 - 1e-12) / (4 * math.exp(e))
        a = alpha / (2 * lemmas.TRIANGLE_FACTOR)
        part = lemmas.share_of_component(e, dl, k)
        miss = request.beta / (3 * k)
        space = PaperSpace(
            eta_weight=lemmas.eta_weight(a, miss),
            eta_mean=lemmas.eta_mean(a, miss, d),
            eta_cov=lemmas.eta_covariance(a, miss, d),
        )
        gamma = min(
            lemmas.gamma_weight(space.eta_weight, part.epsilon, part.delta),
            lemmas.gamma_mean(space.eta_mean, part.epsilon, part.delta),
            lemmas.gamma_covariance(space.eta_cov, part.epsilon, part.delta, d),
        )
        blocks = lemmas.block_minimum(e, dl) if request.n_blocks is None else request.n_blocks
        tau = gamma / (2 * lemmas.TRIANGLE_FACTOR)
        stage = PaperAgreement(
            n_components=k,
            n_features=d,
            mask_accuracy=alpha,
            beta=request.beta,
            test=PopulousTest(blocks, tau, e, dl),
            space=space,
            smallest_weight=request.smallest_weight,
        )
        return checked(Plan(request, (stage,)))

    def read(self, form: Form, request: PlanRequest) -> tuple[Stage, ...]:
        """Read the one stage."""
        form.absent("refine")
        return (PaperAgreement.from_form(form, request.n_components, request.n_features),)

    def audited_plans(self, *, thorough: bool) -> tuple[Plan, ...]:
        """List plans at the default budget, for a few numbers of components and columns."""
        shapes = ((2, 2), (1, 1), (3, 2)) if thorough else ((2, 2),)
        return tuple(
            self.automatic(PlanRequest(n_components=k, n_features=d, method=self.name))
            for k, d in shapes
        )

    def attacked_cores(self, *, thorough: bool) -> tuple[Plan, ...]:  # noqa: ARG002 - one is enough
        """List one plan of few blocks and a generous delta, so that changed blocks show."""
        request = PlanRequest(
            n_components=2,
            n_features=1,
            delta=1e-2,
            mask_accuracy=1.0,
            n_blocks=31,
            method=self.name,
        )
        return (self.calibrated(request),)


registry.register(PaperMethod())
