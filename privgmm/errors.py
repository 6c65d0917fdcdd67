"""Define errors and warnings. Every message names the argument, the rule and a remedy.

An error stops what was asked for. A `PrivacyWarning` is for the curator: something is allowed, and
protects less than it may seem. ``warnings.simplefilter("error", PrivacyWarning)`` makes it stop a
release too, before its noise is drawn.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

__all__ = [
    "PLAIN",
    "BudgetExceeded",
    "InaccurateRelease",
    "InvalidInput",
    "MethodName",
    "NoMixture",
    "PrivGMMError",
    "PrivacyWarning",
    "Problem",
    "ReleaseRefused",
    "RepeatedSpend",
    "ScaledRows",
    "SeededRelease",
    "SuspectColumn",
    "WeakBudget",
    "Wording",
]


class MethodName(str):
    """Mark the name of a method among the facts of a `Problem`."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True)
class Wording:
    """Describe how a door names arguments, methods and numbers.

    Parameters
    ----------
    names : mapping
        What the door calls an argument of the library; an argument that is not in it keeps its
        name.
    number : callable(float) -> str
    method : callable(str) -> str
    """

    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    number: Callable[[float], str] = "{:g}".format
    method: Callable[[str], str] = "method {!r}".format

    def of(self, argument: str) -> str:
        """Return what the door calls an argument."""
        return self.names.get(argument, argument)

    def fact(self, value: Any) -> str:
        """Write a value in the door's words."""
        if isinstance(value, MethodName):
            return self.method(str(value))
        if isinstance(value, int) and not isinstance(value, bool):
            return f"{value:,}"
        return self.number(value) if isinstance(value, float) else str(value)


PLAIN = Wording()
"""The library's own words: arguments by their names in Python."""

_NOT_GIVEN: Any = object()
_BLANK = re.compile(r"\{(\w+)\}")


@dataclasses.dataclass(frozen=True)
class Problem:
    """State what is wrong, in parts that each door words in its own names.

    In `rule` and `remedy` ``{name}`` stands for the fact of that name, else for the argument of
    that name.

    Parameters
    ----------
    rule : str
        What must hold, as a sentence that begins with the argument if there is one. A rule alone
        is the whole message, and nothing in it is filled in.
    argument : str
        The argument that breaks the rule; empty where no single one does.
    value : object
        What it was; left out where the rule says so already.
    remedy : str
        What would help; empty where the rule says it.
    facts : mapping
        Numbers and names that the rule and the remedy mention.

    Examples
    --------
    >>> much = Problem("must be at most {most}", "n_blocks", 9, "lower {n_blocks}", {"most": 5})
    >>> print(much)
    n_blocks must be at most 5, got 9: lower n_blocks
    >>> much.worded(Wording({"n_blocks": "--blocks"}))
    '--blocks must be at most 5, got 9: lower --blocks'
    """

    rule: str
    argument: str = ""
    value: Any = _NOT_GIVEN
    remedy: str = ""
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def worded(self, wording: Wording = PLAIN) -> str:
        """Write the problem in the words of a door."""
        if not (self.argument or self.remedy or self.facts):
            return self.rule

        def filled(template: str) -> str:
            return _BLANK.sub(lambda found: self._blank(found[1], wording), template)

        words = f"{wording.of(self.argument)} {filled(self.rule)}".strip()
        if self.value is not _NOT_GIVEN:
            number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
            words += f", got {wording.fact(self.value) if number else repr(self.value)}"
        return f"{words}: {filled(self.remedy)}" if self.remedy else words

    def _blank(self, name: str, wording: Wording) -> str:
        return wording.fact(self.facts[name]) if name in self.facts else wording.of(name)

    def __str__(self) -> str:
        return self.worded()


class PrivGMMError(Exception):
    """Serve as base of every error that this package raises on purpose."""


class InvalidInput(PrivGMMError, ValueError):
    """Report that an argument breaks a rule. Nothing was computed, drawn or spent.

    The message may speak about the data, so it is for the curator's eyes only.

    Parameters
    ----------
    rule : str or Problem
        What must hold; without `argument` and the rest, the whole message.
    argument, value, remedy, facts
        The other parts of the `Problem`.
    """

    def __init__(
        self,
        rule: str | Problem = "",
        *,
        argument: str = "",
        value: Any = _NOT_GIVEN,
        remedy: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(rule, Problem):
            rule = Problem(rule, argument, value, remedy, facts or {})
        self.problem = rule
        super().__init__(str(rule))

    @property
    def argument(self) -> str:
        """Return the argument that breaks the rule; empty where no single one does."""
        return self.problem.argument

    def worded(self, wording: Wording) -> str:
        """Write the message in the words of a door."""
        return self.problem.worded(wording)


class BudgetExceeded(PrivGMMError):
    """Report that a spend would pass the cap of a data set. Nothing was drawn or spent."""


class ReleaseRefused(PrivGMMError, UserWarning):
    """Report that a noisy test did not pass: there is no mixture, and the budget is spent.

    It is a warning when a fit is refused, and an error of every method that needs the mixture.
    """


class NoMixture(ReleaseRefused, AttributeError):
    """Report that a refusal, or a refused estimator, was asked for something of the mixture."""


class InaccurateRelease(UserWarning):
    """Warn that a release is not as accurate as asked for, by forecast or by published numbers."""


class SuspectColumn(UserWarning):
    """Warn that a column looks like an identifier of rows or persons, not like a measurement."""


class PrivacyWarning(UserWarning):
    """Serve as base of every warning that a promise is weaker than it may seem."""


class SeededRelease(PrivacyWarning):
    """Warn that anyone who knows the seed can repeat the noise: no differential privacy."""


class RepeatedSpend(PrivacyWarning):
    """Warn that rows were used before, in this process and without a ledger: spends add up."""


class ScaledRows(PrivacyWarning):
    """Warn that rows look scaled by their own statistics, which nothing accounts for.

    The message speaks about the data, so it is for the curator's eyes only.
    """


class WeakBudget(PrivacyWarning):
    """Warn of a budget that promises little: epsilon above 10, or delta of at least 1/n."""
