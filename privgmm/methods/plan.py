"""Fix every number that a release will use, before any data is looked at.

A plan is the request it answers and a short list of stages. It knows its own price: `Plan.spent`
computes it again from the numbers that the stages hold, by the same rules that calibration had to
satisfy. So a plan that is read back from a file can be checked.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from privgmm.arrays import whole_number
from privgmm.budget import Budget, Unit, guess_in_words
from privgmm.errors import InvalidInput, PrivGMMError, Problem
from privgmm.learners.learner import Learner
from privgmm.learners.registry import learner_for
from privgmm.methods import registry
from privgmm.methods.request import PlanRequest
from privgmm.methods.typical import expected_mixture
from privgmm.methods.usefulness import USUAL_BETA, Usefulness
from privgmm.privacy.composition import Spend, price_of, told_apart
from privgmm.privacy.curves import RenyiCurve
from privgmm.privacy.guessing import Tradeoff
from privgmm.showing.html import plan_html
from privgmm.stages.accuracy import ExpectedError
from privgmm.stages.form import Form
from privgmm.stages.stage import Stage

__all__ = ["Plan", "checked"]

S = TypeVar("S", bound=Stage)


@dataclasses.dataclass(frozen=True, repr=False)
class Plan:
    """Hold everything a release needs to know, none of it from the data.

    Parameters
    ----------
    request : PlanRequest
        What was asked for. Its budget is the TOTAL promise; k and d are those of the mixture that
        is released. A stage before the last may fit another number of components. Where the last
        stage chooses the number itself, k is the most.
    stages : tuple of Stage
        What is done to the rows, in this order; each sees what the one before it published. The
        number of blocks, or any other number of a stage, is asked of the stage (`stage`).
    """

    request: PlanRequest
    stages: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if not self.stages:
            raise InvalidInput("a plan needs at least one stage")

    @property
    def budget(self) -> Budget:
        """Return the total budget that was asked for."""
        return self.request.budget

    @property
    def method(self) -> str:
        """Return the name of the method that made it."""
        return self.request.method

    @property
    def n_components(self) -> int:
        """Return the number of components to be released, or the most of them."""
        return self.request.n_components

    @property
    def n_features(self) -> int:
        """Return the number of columns."""
        return self.request.n_features

    # ------------------------------------------------------------------------------- price

    def price(self) -> Spend:
        """Compute what the plan costs, released or refused, from its own numbers.

        Raises `PrivGMMError` if the numbers do not describe a differentially private mechanism.
        """
        return price_of([stage.price() for stage in self.stages], self.budget.delta)

    def spent(self) -> Budget:
        """Compute the guarantee that the stages give together."""
        return self.price().budget

    def tradeoff(self) -> Tradeoff:
        """Bound how well an attacker who knows every other row tells two values of one row apart.

        Proved from what the stages draw, see `privacy.guessing`.
        """
        return told_apart([self.price()])

    @property
    def ceiling(self) -> float:
        """Bound the chance that such an attacker guesses right; chance level is one half."""
        return self.tradeoff().ceiling

    def attacker(self, unit: Unit = "row") -> str:
        """Say in a clause how often such an attacker guesses right."""
        return guess_in_words(self.ceiling, unit)

    def curve(self) -> RenyiCurve:
        """Return the Rényi curve of all stages together, if every stage has one."""
        curve = self.price().curve
        if curve is None:
            raise InvalidInput(
                f"method {self.method!r} is priced by a theorem, not by a Rényi curve"
            )
        return curve

    def to_dp_event(self) -> Any:
        """Describe the plan as an event of Google's dp-accounting, to be priced by its accountants.

        Every Gaussian mechanism is one event, with the noise that its integers are counted for.
        Neighbours differ by replacing one row: give accountants ``REPLACE_ONE``, and the plan's
        delta less ``plan.price().shortfall``, which no Gaussian covers (bins of one row may show).

        An event states noise in units of the largest contribution C of one row, and an accountant
        of replacements takes it that the sum moves by 2 C. The plan's noise is in units of what
        replacing a row moves, so every multiplier is doubled.

        Raises `InvalidInput` if a stage draws other than Gaussian noise, or if the package
        ``dp-accounting`` is not installed.
        """
        prices = [stage.price() for stage in self.stages]
        for stage, price in zip(self.stages, prices, strict=True):
            if not price.exact:
                raise InvalidInput(
                    f"every stage must be Gaussian to be a dp-accounting event, and the stage "
                    f"{stage.kind!r} of this plan is not"
                )
        try:
            from dp_accounting import ComposedDpEvent, GaussianDpEvent
        except ImportError as problem:
            raise InvalidInput(
                "to_dp_event needs the package dp-accounting: pip install dp-accounting"
            ) from problem
        return ComposedDpEvent(
            [
                GaussianDpEvent(2 * multiplier)
                for price in prices
                for multiplier in price.multipliers
            ]
        )

    # ------------------------------------------------------------------------------ stages

    def stage(self, kind: type[S]) -> S:
        """Return the first stage of a kind, such as `Agreement`.

        Raises `InvalidInput` if the plan has none.
        """
        for stage in self.stages:
            if isinstance(stage, kind):
                return stage
        raise InvalidInput(f"a plan of method {self.method!r} has no stage of kind {kind.kind!r}")

    @property
    def chooses_components(self) -> bool:
        """Check whether the last stage chooses the number of components, up to k."""
        return self.stages[-1].chooses_components

    def components_in_words(self, kind: str = "") -> str:
        """Say how many components there will be: "2 components", "up to 8 components"."""
        noun = "component" if self.n_components == 1 else "components"
        most = "up to " if self.chooses_components else ""
        return f"{most}{self.n_components} {kind}{' ' * bool(kind)}{noun}"

    def but(self, *stages: Stage, budget: Budget | None = None) -> Plan:
        """Return this plan with other stages, and with another budget if one is given."""
        request = self.request
        if budget is not None:
            request = request.but(epsilon=budget.epsilon, delta=budget.delta)
        return Plan(request, stages)

    def nonprivate_learner(self, chosen: Learner | None) -> Learner:
        """Return the learner that would fit all rows without noise: the chosen one, else EM.

        Raises `InvalidInput` if the chosen one fits another number of components.
        """
        return learner_for(self.n_components, chosen)

    @property
    def least_units(self) -> int:
        """Return the fewest rows (or persons) with which the plan can run at all."""
        return max(stage.least_units() for stage in self.stages)

    def shortage(self, n_units: int, unit: Unit) -> Problem | None:
        """Say why the plan cannot run on this number of rows or persons; None if it can."""
        return next(filter(None, (stage.shortage(n_units, unit) for stage in self.stages)), None)

    def answering(self, request: PlanRequest) -> Plan:
        """Return this plan as the answer to another request: a search tries variations of one."""
        return dataclasses.replace(self, request=request)

    # ----------------------------------------------------------------------- what to expect

    def expected_error(self, n_rows: int | None = None) -> ExpectedError:
        """Forecast, without any data, how far a release is from the truth, in dist_GMM.

        The forecast is for the mixture that the request expects, or a typical one of the
        separation that it states (4 standard deviations where it states none).

        Parameters
        ----------
        n_rows : int, optional
            Rows, or persons; by default those of the request.
        """
        n = self._rows(n_rows)
        return registry.get(self.method).expected_error(self, expected_mixture(self.request), n)

    def meets(self, alpha: float, beta: float = USUAL_BETA, *, n_rows: int | None = None) -> bool:
        """Check whether a release within alpha of the truth is expected, but for chance beta.

        In dist_GMM (Definition 1.4); a refusal counts as a miss. `expected_error` says for which
        rows this is.
        """
        return self.usefulness(alpha, beta, n_rows=n_rows).is_useful

    def usefulness(
        self,
        alpha: float | None = None,
        beta: float | None = None,
        *,
        n_rows: int | None = None,
    ) -> Usefulness:
        """Forecast whether a release will be useful, less accurate than asked, or refused.

        This is what every door shows before a release. `Release.usefulness` is its counterpart
        afterwards.

        Parameters
        ----------
        alpha, beta : float, optional
            The release is to be within alpha of the truth in dist_GMM, but for chance beta. By
            default those of the request, or 0.2 where it asks for no alpha.
        n_rows : int, optional
            Rows, or persons; by default those of the request.
        """
        n = self._rows(n_rows)
        chance = registry.get(self.method).chance(self, expected_mixture(self.request), n)
        return Usefulness(
            chance=chance,
            expected_error=self.expected_error(n),
            alpha=self.request.alpha_or_usual if alpha is None else alpha,
            beta=self.request.beta if beta is None else beta,
        )

    def _rows(self, n_rows: int | None) -> int:
        return self.request.rows if n_rows is None else whole_number(n_rows, "n_rows", 1)

    def rows_needed(self, pass_probability: float = 0.95) -> float:
        """Estimate, without any data, the rows at which it releases with this probability.

        The estimate assumes well separated components of the planned weights.
        """
        return max(stage.rows_needed(pass_probability) for stage in self.stages)

    def pass_probability(self, n_rows: float) -> float:
        """Estimate the chance of a release from `n_rows` rows of well separated components."""
        return math.prod(stage.pass_probability(n_rows) for stage in self.stages)

    # ------------------------------------------------------------------------------- words

    def explain(self) -> str:
        """Say in plain words what will happen and what it promises."""
        spent = self.spent()
        blocks = "".join(
            f"{stage.n_blocks} blocks, " for stage in self.stages if stage.n_blocks is not None
        )
        # exp of more is beyond the largest float
        odds = f" = {math.exp(spent.epsilon):.3g}" if spent.epsilon < 700 else ""
        lines = [
            f"Method {self.method}: {blocks}{self.components_in_words()} in "
            f"{self.n_features} dimension{'s' * (self.n_features > 1)}.",
            f"Replacing any one row changes the odds of any outcome by at most a factor "
            f"exp({spent.epsilon:.4g}){odds}, except with probability "
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
        """Return plain values, for JSON."""
        asked = self.request
        fields: dict[str, Any] = {
            "method": asked.method,
            "epsilon": asked.epsilon,
            "delta": asked.delta,
            "n_components": asked.n_components,
            "n_features": asked.n_features,
            "request": asked.to_dict(),
            "refine": None,
        }
        for stage in self.stages:
            fields |= stage.to_dict()
        return fields

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Read a plan back from `to_dict`; its form is checked, its price is not (see `spent`).

        Raises `InvalidInput` if a field is missing, of the wrong kind or contradicts another.
        """
        form = Form(data, "plan")
        method = registry.get(form.of("method"))
        request = PlanRequest.from_form(
            form.part("request"),
            method=method.name,
            epsilon=form.number("epsilon"),
            delta=form.number("delta"),
            n_components=form.whole("n_components", 1),
            n_features=form.whole("n_features", 1),
        )
        return cls(request, method.read(form, request))

    def __repr__(self) -> str:
        return self.explain()

    def _repr_html_(self) -> str:
        return plan_html(self)


def checked(plan: Plan) -> Plan:
    """Return the plan if its own price is within its budget; raise if it is not."""
    spent = plan.spent()
    if not plan.budget.covers(spent):
        raise PrivGMMError(f"calibration failed: the plan costs {spent}, not {plan.budget}")
    return plan
