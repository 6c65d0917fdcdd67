"""Define the two results of a release, which may be shown to anyone: a mixture, or a refusal."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, ClassVar

from privgmm.budget import Budget, Unit
from privgmm.html import refusal_html, release_html
from privgmm.methods import registry
from privgmm.methods.plan import Plan
from privgmm.methods.request import PlanRequest
from privgmm.methods.searching import as_text
from privgmm.methods.what_if import MOST_EPSILON, epsilon_for, rows_for, rows_stated
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.sketch.fitting import MISFIT
from privgmm.stages.sketch.private_sketch import EXPLAINED
from privgmm.stages.stage import Published

__all__ = ["LIKE_A_VALUE", "Refusal", "Release"]

LIKE_A_VALUE = (
    "A component is so narrow that it may be many rows of a single value, as happens with rounded "
    "columns. Widths are kept at a hundredth of the spread of all rows, at least."
)
"""What every door says about a release that is `floored`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Record:
    """Record what a release and a refusal both state: the promise, and how it was kept.

    Parameters
    ----------
    budget : Budget
        Budget that was spent: the total guarantee.
    plan : Plan
        Plan by which it was made.
    seeded : bool
        True if the noise can be repeated from a seed: then it is a demonstration, and not
        differentially private.
    unit : {"row", "person"}
        What the guarantee protects: one row, or with ``groups`` all rows of one person.
    entry : int or None
        Its number in the ledger, if there is a ledger.
    mark : str or None
        Its random name in the ledger, if it has one: for the receipt.
    """

    budget: Budget
    plan: Plan
    seeded: bool
    unit: Unit = "row"
    entry: int | None = None
    mark: str | None = None

    released: ClassVar[bool]

    @property
    def attacker(self) -> str:
        """Say in a clause how often an attacker who knows all others guesses right."""
        words = self.plan.attacker(self.unit)
        if not self.seeded:
            return words
        return f"someone who knows or guesses the seed can be certain; without it, {words}"

    def _stated(self) -> dict[str, Any]:
        """Return plain values of these fields, for JSON."""
        return {
            "released": self.released,
            "seeded": self.seeded,
            "unit": self.unit,
            "budget": self.budget.to_dict(),
            "plan": self.plan.to_dict(),
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Release(Published, _Record):
    """Hold a mixture that may be shown to anyone, with the record of its release.

    Its fields are those of `Published`, and the budget, plan and record that go with it.
    """

    released: ClassVar[bool] = True

    @property
    def covariance_type(self) -> str:
        """Return the name of the structure that all covariances have."""
        return self.plan.request.covariance_type

    @property
    def misfit_in_words(self) -> str | None:
        """Say whether the mixture explains the rows; None where the method cannot say. Public.

        It is quicker than `verdict`, which also says what would explain them.
        """
        if self.misfit is None or self.misfit <= MISFIT:
            return None if self.misfit is None else EXPLAINED
        return (
            f"This mixture does not explain the rows: its misfit is {self.misfit:.3g}, where noise "
            f"hardly ever gives more than {MISFIT:g}. `verdict` says what may help, for free."
        )

    @functools.cached_property
    def verdict(self) -> str | None:
        """Say in a sentence what the misfit means; None where the method cannot say. Public.

        Where the mixture does not explain the rows, others are fitted to the sketch to find one
        that does. That may take seconds, and costs nothing.
        """
        if self.misfit is None or self.sketch is None:
            return None
        if self.misfit <= MISFIT:
            return EXPLAINED
        fit = self.sketch.fit(self.mixture.n_components, self.covariance_type)
        return str(fit.verdict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; the sketch is written by its own `to_dict`."""
        return {**self._stated(), **self.facts()}

    def _repr_html_(self) -> str:
        return release_html(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Refusal(_Record):
    """Hold the symbol ⊥ with an explanation that may be shown to anyone.

    The budget is spent although no mixture is published: the refusal itself is published. The
    explanation uses only public numbers: the plan, how many rows there were, and what the stages
    published before the refusal.

    Parameters
    ----------
    why : str
        Why there is no mixture, as a sentence.
    n_units : int or None
        How many rows (or persons) there were, which is public; None if that is not known.
    """

    why: str
    n_units: int | None = None

    released: ClassVar[bool] = False

    @property
    def _request(self) -> PlanRequest:
        """Build the request that the planner answers for such a plan, its other choices open."""
        asked = self.plan.request.but(
            n_rows=self.n_units,
            unit=self.unit,
            n_blocks=None,
            separation=None,
            expected=None,
            smallest_weight=None,
        )
        if not registry.get(asked.method).error_is_promised:
            return asked.but(alpha=None)
        return asked.but(alpha=self.plan.stage(Agreement).alpha)

    @functools.cached_property
    def _rows_of_method(self) -> float:
        """Compute the rows that the planner states for the method, with other choices open."""
        return rows_for(self._request.but(n_rows=None))

    @functools.cached_property
    def rows_needed(self) -> float:
        """Compute the rows of a release (well separated components, 95 % of runs).

        That is what the planner states for the method. Where blocks and alpha set by hand ask for
        clearly more than that, and for more than there is, it is what this plan takes.
        """
        return rows_stated(self.plan, self._rows_of_method, self.n_units)

    @property
    def reason(self) -> str:
        """Say why there is no mixture, what that cost, and what would pass."""
        return (
            f"{self.why} The budget of {self.budget} is spent although nothing is published. "
            f"{self._would_pass} More rows, a larger epsilon, delta or alpha, or another number of "
            "components may help; so may another method."
        )

    @functools.cached_property
    def _would_pass(self) -> str:
        """Say which rows and epsilon would pass, in the planner's numbers."""
        n, units, rows, method = self.n_units, f"{self.unit}s", self.rows_needed, self.plan.method
        if math.isinf(rows):
            return "With this number of blocks the plan cannot be sure to pass on any rows."
        words = (
            f"A release takes about {as_text(rows)} {units} of "
            f"{self.plan.components_in_words('well separated')} at epsilon "
            f"{self.plan.budget.epsilon:g}"
        )
        usual = self._rows_of_method
        if usual < rows:
            words += f" by this plan, and {as_text(usual)} with all left to method {method!r}"
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
        return f"{words}; with the {n:,} at hand it takes an epsilon of about {as_text(least)}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**self._stated(), "reason": self.reason}

    def _repr_html_(self) -> str:
        return refusal_html(self)
