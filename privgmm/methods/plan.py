"""A plan: every number a release will use, fixed before any data is looked at.

A plan is a short list of stages under one budget. It knows its own price: `Plan.spent` computes it
afresh from the numbers the stages hold, by the same account that calibration had to satisfy, so a
plan read back from a file can be checked.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from privgmm.budget import Budget, Unit, guess_in_words
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.html import plan_html
from privgmm.learners.learner import Learner
from privgmm.learners.registry import learner_for
from privgmm.methods import registry
from privgmm.privacy.composition import Spend, price_of, told_apart
from privgmm.privacy.curves import RenyiCurve
from privgmm.privacy.guessing import Tradeoff
from privgmm.stages.agreement.space import MixtureSpace
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.agreement.votes import PrivateTest
from privgmm.stages.form import Form
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.stage import Stage

__all__ = ["Plan", "checked"]


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything a release needs to know, none of it from the data.

    Parameters
    ----------
    method : str
        A name in the methods' registry.
    budget : Budget
        The TOTAL promise the user asked for.
    n_components, n_features : int
        k and d of the mixture that is released. A stage before the last may fit another number
        of components. Where the last stage chooses the number itself, k is the most.
    stages : tuple of Stage
        What is done to the rows, in this order; each sees what the one before it published.
    """

    method: str
    budget: Budget
    n_components: int
    n_features: int
    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if not self.stages:
            raise InvalidInput("a plan needs at least one stage")

    # ------------------------------------------------------------------------------- price

    def price(self) -> Spend:
        """What the plan costs, released or refused; priced afresh from its own numbers.

        Raises `PrivGMMError` if the numbers do not belong to a private mechanism at all.
        """
        return price_of([stage.price() for stage in self.stages], self.budget.delta)

    def spent(self) -> Budget:
        """The same as one guarantee."""
        return self.price().budget

    def tradeoff(self) -> Tradeoff:
        """How well somebody who knows every other row can tell any two values of one row apart.

        Proved from what the stages draw, see `privacy.guessing`.
        """
        return told_apart([self.price()])

    @property
    def ceiling(self) -> float:
        """The chance with which such an attacker guesses right, at most; a coin has one half."""
        return self.tradeoff().ceiling

    def attacker(self, unit: Unit = "row") -> str:
        """The same in words, as a clause."""
        return guess_in_words(self.ceiling, unit)

    def curve(self) -> RenyiCurve:
        """The Rényi account of all stages, where every one of them has one."""
        curve = self.price().curve
        if curve is None:
            raise InvalidInput(
                f"method {self.method!r} is priced by a theorem, not by a Rényi curve"
            )
        return curve

    # ------------------------------------------------------------------------------ stages

    @property
    def votes(self) -> bool:
        """Whether there is a stage in which blocks vote."""
        return any(isinstance(stage, Agreement) for stage in self.stages)

    @property
    def agreement(self) -> Agreement:
        """The stage in which blocks vote."""
        for stage in self.stages:
            if isinstance(stage, Agreement):
                return stage
        raise PrivGMMError(f"a plan of method {self.method!r} has no blocks that vote")

    @property
    def refine(self) -> Refinement | None:
        """The noisy passes over all rows, if there are any."""
        return next((stage for stage in self.stages if isinstance(stage, Refinement)), None)

    @property
    def chooses_components(self) -> bool:
        """Whether the number of components is chosen on the way, and k is the most."""
        return self.stages[-1].chooses_components

    def components_in_words(self, kind: str = "") -> str:
        """How many components there will be: "2 components", "up to 8 well separated ones"."""
        noun = "component" if self.n_components == 1 else "components"
        most = "up to " if self.chooses_components else ""
        return f"{most}{self.n_components} {kind}{' ' * bool(kind)}{noun}"

    def but(self, *stages: Stage, budget: Budget | None = None) -> Plan:
        """The same plan with other stages."""
        return dataclasses.replace(
            self, stages=stages, budget=self.budget if budget is None else budget
        )

    def nonprivate_learner(self, chosen: Learner | None) -> Learner:
        """What would fit all rows at once without privacy: the chosen learner, else EM.

        Raises `InvalidInput` if the chosen one fits another number of components.
        """
        return learner_for(self.n_components, chosen)

    @property
    def test(self) -> PrivateTest:
        """Whether enough blocks agree."""
        return self.agreement.test

    @property
    def space(self) -> MixtureSpace:
        """Where fits are compared, represented and masked."""
        return self.agreement.space

    @property
    def alpha(self) -> float:
        """How far the mask moves what it masks, except with chance `beta`."""
        return self.agreement.alpha

    @property
    def beta(self) -> float:
        """The chance that the mask moves it farther."""
        return self.agreement.beta

    @property
    def n_blocks(self) -> int:
        """T."""
        return self.agreement.n_blocks

    @property
    def tau(self) -> float:
        """How near two fits must be to count as agreeing."""
        return self.agreement.tau

    @property
    def gamma(self) -> float:
        """How far apart the masked objects of two neighbouring data sets can be."""
        return self.agreement.gamma

    @property
    def separation(self) -> float:
        """c: components that do not match must be farther apart than ``c tau``; 0 for none."""
        return self.agreement.separation

    @property
    def smallest_weight(self) -> float | None:
        """The smallest component weight planned for; None for equal weights."""
        return self.agreement.smallest_weight

    @property
    def least_units(self) -> int:
        """The fewest rows (or persons) with which the plan can run at all."""
        return max(stage.least_units() for stage in self.stages)

    def shortage(self, n_units: int, unit: Unit) -> str:
        """Why the plan cannot run at all on so few rows (or persons); empty if it can."""
        if n_units >= self.least_units:
            return ""
        if not self.votes:
            return f"{n_units} {unit}s are too few for this plan, which needs {self.least_units}"
        t = self.n_blocks
        return (
            f"{n_units} {unit}s in {t} blocks leave {n_units // t} per block, but "
            f"{self.n_components} components in {self.n_features} dimensions need at least "
            f"{self.agreement.least_rows}: use fewer blocks, fewer components or more {unit}s"
        )

    # ----------------------------------------------------------------------- what to expect

    def rows_needed(self, pass_probability: float = 0.95) -> float:
        """Rows at which it releases with this probability, by the blocks' natural scatter.

        An estimate without data: it assumes well separated components of the planned weights.
        """
        return max(stage.rows_needed(pass_probability) for stage in self.stages)

    def pass_probability(self, n_rows: float) -> float:
        """The chance of a release from so many rows of well separated components."""
        return math.prod(stage.pass_probability(n_rows) for stage in self.stages)

    # ------------------------------------------------------------------------------- words

    def explain(self) -> str:
        """What will happen and what it promises, in plain words."""
        spent = self.spent()
        blocks = "".join(
            f"{stage.n_blocks} blocks, " for stage in self.stages if stage.n_blocks is not None
        )
        lines = [
            f"Method {self.method}: {blocks}{self.components_in_words()} in "
            f"{self.n_features} dimensions.",
            f"Replacing any one row changes the odds of any outcome by at most a factor "
            f"exp({spent.epsilon:.4g}) = {math.exp(spent.epsilon):.3g}, except with probability "
            f"{spent.delta:.3g}.",
            f"What this plan draws is better than that: {self.attacker()}."
            if self.ceiling < spent.guess_ceiling
            else f"So {self.attacker()}.",
        ]
        if spent.epsilon < 0.999 * self.budget.epsilon:
            lines.append(
                f"Of the epsilon {self.budget.epsilon:g} asked for, this method can only use "
                f"{spent.epsilon:.4g}; a larger epsilon does not help it."
            )
        for stage in self.stages:
            lines += stage.sentences()
        return "\n".join(lines)

    # ----------------------------------------------------------------------- plain numbers

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        fields: dict[str, Any] = {
            "method": self.method,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "n_components": self.n_components,
            "n_features": self.n_features,
            "refine": None,
        }
        for stage in self.stages:
            fields |= stage.to_dict()
        return fields

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Inverse of `to_dict`: checked as to form, not priced (that is `spent`).

        Raises `InvalidInput` if a field is missing, of the wrong kind or contradicts another.
        """
        form = Form(data, "plan")
        method = registry.get(form.of("method"))
        budget = Budget(form.number("epsilon"), form.number("delta"))
        k, d = form.whole("n_components", 1), form.whole("n_features", 1)
        return cls(method.name, budget, k, d, method.read(form, k, d))

    def _repr_html_(self) -> str:
        return plan_html(self)


def checked(plan: Plan) -> Plan:
    """The plan itself, if its own price is within its budget."""
    spent = plan.spent()
    if not plan.budget.covers(spent):
        raise PrivGMMError(f"calibration failed: the plan costs {spent}, not {plan.budget}")
    return plan
