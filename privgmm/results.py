"""Define the two results of a release, which may be shown to anyone: a mixture, or a refusal."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from privgmm.arrays import whole_number
from privgmm.budget import Budget, Unit
from privgmm.errors import NoMixture
from privgmm.methods.plan import Plan
from privgmm.methods.request import PlanRequest
from privgmm.methods.searching import as_text
from privgmm.methods.usefulness import Usefulness
from privgmm.methods.what_if import MOST_EPSILON, epsilon_for, rows_for, rows_stated
from privgmm.showing.html import refusal_html, release_html
from privgmm.showing.shortcuts import plotted, saved
from privgmm.showing.text import component_lines, component_table, expected_line, mixture_title
from privgmm.stages.accuracy import NOT_RESOLVED
from privgmm.stages.recorded import as_published, single_values
from privgmm.stages.sketch.fitting import MISFIT
from privgmm.stages.sketch.private_sketch import EXPLAINED
from privgmm.stages.stage import Published
from privgmm.stages.tails import tail_sentences, unseen_sentences

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
    columns : tuple of str
        Names of the columns; empty if they have none.
    """

    budget: Budget
    plan: Plan
    seeded: bool
    unit: Unit = "row"
    entry: int | None = None
    mark: str | None = None
    columns: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    released: ClassVar[bool]

    @property
    def attacker(self) -> str:
        """Say in a clause how often an attacker who knows all others guesses right."""
        words = self.plan.attacker(self.unit)
        if not self.seeded:
            return words
        return f"someone who knows or guesses the seed can be certain; without it, {words}"

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the receipt to a file: `read_receipt` reads it back, `verify_receipt` checks it.

        A file that exists is replaced only with `overwrite`. Its owner alone can read it.
        """
        return saved(self, path, overwrite=overwrite)

    def _promise_line(self, verdict: str, rights: str) -> str:
        """Say in a line what it cost, and whether it may be shared."""
        if self.seeded:
            rights = "NOT differentially private: made with a seed, a demonstration"
        return f"{verdict} with {self.budget} for a {self.unit} ({rights}); {self.attacker}."

    def _asked(self, alpha: float | None, beta: float | None) -> dict[str, float]:
        """Return the accuracy asked for, as fields of `Usefulness`."""
        asked = self.plan.request
        return {
            "alpha": asked.alpha_or_usual if alpha is None else alpha,
            "beta": asked.beta if beta is None else beta,
        }

    def _stated(self) -> dict[str, Any]:
        """Return plain values of these fields, for JSON."""
        return {
            "released": self.released,
            "seeded": self.seeded,
            "unit": self.unit,
            "budget": self.budget.to_dict(),
            "plan": self.plan.to_dict(),
        }


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
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

    def usefulness(self, alpha: float | None = None, beta: float | None = None) -> Usefulness:
        """Say whether it is useful, or not as accurate as asked, from published numbers. Public.

        This is what every door shows after a release. A mixture that does not explain the rows is
        never called useful, nor one with a component that is not resolved.

        Parameters
        ----------
        alpha, beta : float, optional
            It is to be within alpha of the truth in dist_GMM, with probability ``1 - beta``. By
            default what the plan was asked for, or 0.2 where no alpha was.
        """
        return Usefulness(
            chance=1.0,
            expected_error=self.expected_error,
            **self._asked(alpha, beta),
            concerns=tuple(self._concerns()),
            is_over=True,
        )

    def _concerns(self) -> list[str]:
        """List why it is not to be relied on, whatever its expected error."""
        unexplained = self.misfit is not None and self.misfit > MISFIT
        concerns = [str(self.misfit_in_words)] if unexplained else []
        concerns += [LIKE_A_VALUE] if self.floored else []
        concerns += self.tails
        lost = [str(j + 1) for j, how in enumerate(self.resolution) if how == NOT_RESOLVED]
        if lost:
            concerns.append(
                f"Component{'s' * (len(lost) > 1)} {' and '.join(lost)} of "
                f"{self.mixture.n_components} {'are' if len(lost) > 1 else 'is'} not resolved: "
                "the errors are as large as what they describe."
            )
        return concerns

    @functools.cached_property
    def single_values(self) -> dict[tuple[int, int], float]:
        """Say which components are a value that many rows share: ``{(component, column): value}``.

        Both are numbered from 0. Such a component is no shape: in that column all of it is the
        value itself, and its width is the least that is published.
        """
        spreads = {str(one.column): one.spread for one in self.ranges}
        return single_values(self.mixture, self.atoms, spreads)

    @functools.cached_property
    def tails(self) -> tuple[str, ...]:
        """Say which columns have longer tails than the mixture. Public; not useful if there are."""
        return tuple(tail_sentences(self.ranges, self.mixture))

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

    def summary(self) -> Any:
        """Tabulate the mixture as a pandas data frame, with standard errors where known."""
        return component_table(
            self.mixture, self.standard_errors, self.resolution, self.single_values
        )

    def plot(self, **options: Any) -> Any:
        """Draw the mixture with its standard errors, as a Plotly figure (`figures.objects`)."""
        return plotted(self, **options)

    def sample(
        self,
        n: int,
        *,
        columns: Sequence[str] | None = None,
        whole: bool | Sequence[str | int] = (),
        limits: Mapping[Any, tuple[float | None, float | None]] | None = None,
        rng: Any = None,
    ) -> Any:
        """Draw n synthetic rows as a pandas data frame: see `Mixture.sample_table`. Free.

        Values of `atoms` are drawn as often as they were found. Other values lie on the grid of
        their column, where one was found (`steps`): whole numbers come as integers.
        """
        mixture = self.mixture
        rows = mixture.sample(whole_number(n, "n", 0), rng=rng)
        rows, whole = as_published(rows, mixture, self.atoms, self.steps, whole)
        return mixture.as_table(rows, columns=columns, whole=whole, limits=limits)

    def __repr__(self) -> str:
        lines = [self._promise_line("Released", "may be shared")]
        lines += [] if self.choice is None else [str(self.choice)]
        lines += [] if self.misfit_in_words is None else [self.misfit_in_words]
        lines += [LIKE_A_VALUE] if self.floored else []
        lines += [*self.tails, *self.recorded_in_lines()]
        return "\n".join(lines + self.components_in_lines())

    def recorded_in_lines(self) -> list[str]:
        """Say which values many rows share, which columns lie on a grid, and what is not seen."""
        lines = [f"{atom}." for atom in self.atoms]
        for name, step in zip(self.mixture.columns, self.steps, strict=False):
            if step is not None:
                grid = "whole numbers" if step == 1 else f"multiples of {step:g}"
                lines.append(f"Nearly all values of {name} are {grid}.")
        return lines + unseen_sentences(self.ranges)

    def components_in_lines(self) -> list[str]:
        """List the components, with what is known of their errors."""
        return [
            *expected_line(self.expected_error),
            f"{mixture_title(self.mixture)}:",
            *component_lines(
                self.mixture, self.standard_errors, self.resolution, self.single_values
            ),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; the sketch is written by its own `to_dict`."""
        return {**self._stated(), **self.facts()}

    def _repr_html_(self) -> str:
        return release_html(self)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
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
    stated : str or None
        The whole reason, where it is read back from a receipt.
    """

    why: str
    n_units: int | None = None
    stated: str | None = None

    released: ClassVar[bool] = False

    # not for type checkers, which are to say that a refusal has no mixture
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # only for names that a refusal does not have
            if name in Release.__dataclass_fields__ or (name[:1] != "_" and hasattr(Release, name)):
                raise NoMixture(
                    f"there is no mixture, so a refusal has no {name}: {self.why} "
                    "Its reason says what would pass."
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def usefulness(self, alpha: float | None = None, beta: float | None = None) -> Usefulness:
        """State that it was refused, in the form in which a `Release` says how useful it is."""
        return Usefulness(
            chance=0.0,
            expected_error=None,
            **self._asked(alpha, beta),
            concerns=(self.why,),
            is_over=True,
        )

    @property
    def _request(self) -> PlanRequest:
        """Build the request that the planner answers for such a plan, its other choices open."""
        return self.plan.request.but(
            n_rows=self.n_units,
            unit=self.unit,
            alpha=None,
            mask_accuracy=None,
            n_blocks=None,
            separation=None,
            expected=None,
            smallest_weight=None,
        )

    @functools.cached_property
    def _rows_of_method(self) -> float:
        """Compute the rows that the planner states for the method, with other choices open."""
        return rows_for(self._request.but(n_rows=None))

    @functools.cached_property
    def rows_needed(self) -> float:
        """Compute the rows of a release (well separated components, 95 % of runs).

        That is what the planner states for the method. Where blocks and mask set by hand ask for
        clearly more than that, and for more than there is, it is what this plan takes.
        """
        return rows_stated(self.plan, self._rows_of_method, self.n_units)

    @property
    def reason(self) -> str:
        """Say why there is no mixture, what that cost, and what would pass."""
        if self.stated is not None:
            return self.stated
        return (
            f"{self.why} The budget of {self.budget} is spent although nothing is published. "
            f"{self._would_pass} More rows, a larger epsilon or delta, or another number of "
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
            return (
                f"{words}: the {n:,} at hand are enough if mask and blocks are left to the method."
            )
        least = epsilon_for(self._request)
        if math.isinf(least):
            return f"{words}; with the {n:,} at hand no epsilon up to {MOST_EPSILON:g} will do."
        return f"{words}; with the {n:,} at hand it takes an epsilon of about {as_text(least)}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**self._stated(), "reason": self.reason}

    def __repr__(self) -> str:
        return f"{self._promise_line('Refused', 'may be shared')}\n{self.reason}"

    def _repr_html_(self) -> str:
        return refusal_html(self)
