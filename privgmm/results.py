"""What comes out of a release and may be shown to anyone: a mixture, or a refusal."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

from privgmm.budget import Budget, Unit
from privgmm.html import refusal_html, release_html
from privgmm.methods import registry
from privgmm.methods.plan import Plan
from privgmm.methods.request import PlanRequest
from privgmm.methods.searching import as_told
from privgmm.methods.what_if import MOST_EPSILON, epsilon_for, rows_for, rows_told
from privgmm.mixture import Mixture
from privgmm.stages.sketch.choice import Choice
from privgmm.stages.sketch.fitting import MISFIT
from privgmm.stages.sketch.private_sketch import EXPLAINED, PrivateSketch
from privgmm.stages.sketch.structures import CovarianceType
from privgmm.stages.standard_errors import StandardErrors

__all__ = ["LIKE_A_VALUE", "Refusal", "Release"]

LIKE_A_VALUE = (
    "A component is so narrow that it may be many rows of a single value, as happens with rounded "
    "columns. Widths are kept at a hundredth of the spread of all rows, at least."
)
"""What is said of a release that is `floored`."""


@dataclasses.dataclass(frozen=True)
class Release:
    """A mixture that may be shown to anyone.

    Parameters
    ----------
    mixture : Mixture
        Components in random order.
    budget : Budget
        The total guarantee it carries.
    plan : Plan
        How it was made.
    seeded : bool
        True if its noise can be repeated from a seed: then it is a demonstration, not private.
    unit : {"row", "person"}
        What the guarantee protects: one row, or with ``groups`` all rows of one person.
    entry : int or None
        Its number in the ledger that was told of it.
    mark : str or None
        Its random name there, if it has one: for the receipt.
    sketch : PrivateSketch or None
        The noisy sketch it was found in, where the method takes one; public too.
    misfit : float or None
        How badly a mixture of so many components explains that sketch, in standard deviations:
        beyond 5 it does not. None without a sketch.
    floored : bool
        Whether a component is so narrow that it cannot be told apart from a single value. Widths
        are kept at a hundredth of the spread of all rows, at least.
    standard_errors : StandardErrors or None
        Of the mixture's numbers, for sampling and noise together; None where they are not known.
    choice : Choice or None
        Which numbers of components were tried and how well each does, where the plan left the
        number open; public, and free.
    covariance_type : {"full", "tied", "diag", "spherical"}
        What the components may differ in; all but "full" are fits to the sketch.
    """

    mixture: Mixture
    budget: Budget
    plan: Plan
    seeded: bool
    unit: Unit = "row"
    entry: int | None = None
    mark: str | None = None
    sketch: PrivateSketch | None = dataclasses.field(default=None, repr=False)
    misfit: float | None = None
    floored: bool = False
    standard_errors: StandardErrors | None = dataclasses.field(default=None, repr=False)
    choice: Choice | None = dataclasses.field(default=None, repr=False)
    covariance_type: CovarianceType = "full"

    @property
    def released(self) -> bool:
        """True."""
        return True

    @property
    def attacker(self) -> str:
        """What somebody who knows every other row (or person) gains by it, as a clause."""
        return _attacker(self)

    @property
    def misfit_in_words(self) -> str | None:
        """Whether the mixture explains the rows; None where the method cannot tell. Public.

        Quicker than `verdict`, which also says what would explain them.
        """
        if self.misfit is None or self.misfit <= MISFIT:
            return None if self.misfit is None else EXPLAINED
        return (
            f"This mixture does not explain the rows: its misfit is {self.misfit:.3g}, where noise "
            f"hardly ever gives more than {MISFIT:g}. `verdict` says what may help, for free."
        )

    @functools.cached_property
    def verdict(self) -> str | None:
        """What the misfit says, in a sentence; None where the method cannot tell. Public.

        Where the mixture does not explain the rows, others are fitted to the sketch to say what
        would: that may take seconds, and costs nothing.
        """
        if self.misfit is None or self.sketch is None:
            return None
        if self.misfit <= MISFIT:
            return EXPLAINED
        return self.sketch.fit(self.mixture.n_components, self.covariance_type).verdict

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON; the sketch is written down by its own `to_dict`."""
        errors = self.standard_errors
        return {
            "released": True,
            "seeded": self.seeded,
            "unit": self.unit,
            "budget": self.budget.to_dict(),
            "mixture": self.mixture.to_dict(),
            "plan": self.plan.to_dict(),
            **({} if self.misfit is None else {"misfit": self.misfit, "floored": self.floored}),
            **({} if errors is None else {"standard_errors": errors.to_dict()}),
            **({} if self.choice is None else {"choice": self.choice.to_dict()}),
        }

    def _repr_html_(self) -> str:
        return release_html(self)


@dataclasses.dataclass(frozen=True)
class Refusal:
    """The symbol ⊥ with an explanation that may be shown to anyone.

    The explanation uses public numbers alone: the plan, and how many rows there were.

    Parameters
    ----------
    budget : Budget
        Spent all the same: that the test said no is an answer too.
    plan : Plan
    seeded : bool
    unit : {"row", "person"}
        What the guarantee protects.
    entry : int or None
        Its number in the ledger that was told of it.
    mark : str or None
        Its random name there, if it has one: for the receipt.
    n_units : int or None
        How many rows (or persons) there were, which is public; None if that is not known.
    """

    budget: Budget
    plan: Plan
    seeded: bool
    unit: Unit = "row"
    entry: int | None = None
    mark: str | None = None
    n_units: int | None = None

    @property
    def released(self) -> bool:
        """False."""
        return False

    @property
    def attacker(self) -> str:
        """What somebody who knows every other row (or person) gains by it, as a clause."""
        return _attacker(self)

    @property
    def _request(self) -> PlanRequest:
        """The question that the planner answers for whoever asks for such a plan."""
        plan = self.plan
        promised = registry.get(plan.method).error_is_promised and plan.votes
        return PlanRequest(
            n_components=plan.n_components,
            n_features=plan.n_features,
            n_rows=self.n_units,
            epsilon=plan.budget.epsilon,
            delta=plan.budget.delta,
            method=plan.method,
            unit=self.unit,
            alpha=plan.alpha if promised else None,
        )

    @functools.cached_property
    def _rows_of_method(self) -> float:
        """Rows that the planner tells for the method, with its other choices open."""
        return rows_for(self._request.but(n_rows=None))

    @functools.cached_property
    def rows_needed(self) -> float:
        """Rows that it would take (well separated components, 95 % of runs).

        What the planner tells for the method; or, where blocks and alpha set by hand ask for
        clearly more than that and than there is, what this plan takes.
        """
        return rows_told(self.plan, self._rows_of_method, self.n_units)

    @property
    def reason(self) -> str:
        """Why there is no mixture, what that cost, and what would pass."""
        why = (
            "The fits of the blocks did not agree closely enough for a private release"
            if self.plan.votes
            else "No part of the data holds enough rows for the noise to hide any one of them"
        )
        return (
            f"{why}. Nothing is published, and {self.budget} is spent all the same: a refusal is "
            f"an answer too. {self._would_pass} More rows, a larger epsilon, delta or alpha, or "
            "another number of components may help; so may another method."
        )

    @functools.cached_property
    def _would_pass(self) -> str:
        """Rows and epsilon that would pass, in the planner's numbers."""
        n, units, rows, method = self.n_units, f"{self.unit}s", self.rows_needed, self.plan.method
        if math.isinf(rows):
            return "With so few blocks this plan cannot be sure to pass, whatever the rows."
        words = (
            f"A release takes about {as_told(rows)} {units} of "
            f"{self.plan.components_in_words('well separated')} at epsilon "
            f"{self.plan.budget.epsilon:g}"
        )
        usual = self._rows_of_method
        if usual < rows:
            words += f" by this plan, and {as_told(usual)} with all left to method {method!r}"
        if n is None:
            return f"{words}."
        if n >= rows:
            return (
                f"{words}, and there were {n:,}: they are probably not of that kind, or this is "
                "one of the few runs that fail."
            )
        if n >= usual:
            return f"{words}: the {n:,} at hand are enough if alpha and n_blocks are left open."
        least = epsilon_for(self._request)
        if math.isinf(least):
            return f"{words}; with the {n:,} at hand no epsilon up to {MOST_EPSILON:g} will do."
        return f"{words}; with the {n:,} at hand it takes an epsilon of about {as_told(least)}."

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {
            "released": False,
            "seeded": self.seeded,
            "unit": self.unit,
            "budget": self.budget.to_dict(),
            "reason": self.reason,
            "plan": self.plan.to_dict(),
        }

    def _repr_html_(self) -> str:
        return refusal_html(self)


def _attacker(result: Release | Refusal) -> str:
    """The plan's clause, which says nothing of whoever knows the seed of a demonstration."""
    words = result.plan.attacker(result.unit)
    if not result.seeded:
        return words
    return f"whoever knows or guesses the seed can tell for certain; without it, {words}"
