"""What comes out of a release and may be shown to anyone: a mixture, or a refusal."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

from privgmm.budget import Budget, Unit
from privgmm.html import refusal_html, release_html
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture
from privgmm.stages.sketch.data import SketchData

__all__ = ["Refusal", "Release"]


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
    sketch : SketchData or None
        The noisy sketch it was found in, where the method takes one; public too.
    misfit : float or None
        How badly a mixture of so many components explains that sketch, in standard deviations:
        beyond 5 it does not. None without a sketch.
    floored : bool
        Whether a component was narrower than could be told apart from a single value, and was
        widened.
    """

    mixture: Mixture
    budget: Budget
    plan: Plan
    seeded: bool
    unit: Unit = "row"
    entry: int | None = None
    mark: str | None = None
    sketch: SketchData | None = dataclasses.field(default=None, repr=False)
    misfit: float | None = None
    floored: bool = False

    @property
    def released(self) -> bool:
        """True."""
        return True

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {
            "released": True,
            "seeded": self.seeded,
            "unit": self.unit,
            "budget": self.budget.to_dict(),
            "mixture": self.mixture.to_dict(),
            "plan": self.plan.to_dict(),
            **({} if self.misfit is None else {"misfit": self.misfit, "floored": self.floored}),
        }

    def _repr_html_(self) -> str:
        return release_html(self)


@dataclasses.dataclass(frozen=True)
class Refusal:
    """The symbol ⊥ with an explanation that may be shown to anyone: it uses the plan alone.

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
    """

    budget: Budget
    plan: Plan
    seeded: bool
    unit: Unit = "row"
    entry: int | None = None
    mark: str | None = None

    @property
    def released(self) -> bool:
        """False."""
        return False

    @functools.cached_property
    def rows_needed(self) -> float:
        """Rows that this plan would take (well separated components, 95 % of runs)."""
        return self.plan.rows_needed()

    @property
    def reason(self) -> str:
        """Why there is no mixture, and what would help; computed from the plan alone."""
        rows = self.rows_needed
        need = (
            f"A release by this plan takes about {rows:.2g} rows"
            if math.isfinite(rows)
            else "With so few blocks this plan cannot be sure to pass, whatever the rows"
        )
        return (
            "The fits of the blocks did not agree closely enough for a private release. "
            f"{need} of {self.plan.n_components} well separated components. "
            "More rows, a larger epsilon, delta or alpha, or another number of components may "
            "help; so may another method."
        )

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
