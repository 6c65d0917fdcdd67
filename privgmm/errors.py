"""What can go wrong, as types. Every message names the argument, the rule and a remedy.

Errors stop what was asked for. Warnings are for the curator: something is allowed, and means less
than it may seem. All of those are a `PrivacyWarning`; ``warnings.simplefilter("error",
PrivacyWarning)`` makes them stop a release too, before its noise is drawn.
"""

from __future__ import annotations

__all__ = [
    "BudgetExceeded",
    "InvalidInput",
    "PrivGMMError",
    "PrivacyWarning",
    "ReleaseRefused",
    "RepeatedSpend",
    "ScaledRows",
    "SeededRelease",
    "SuspectColumn",
    "WeakBudget",
]


class PrivGMMError(Exception):
    """Base of every error this package raises on purpose."""


class InvalidInput(PrivGMMError, ValueError):
    """An argument breaks a rule. Nothing was computed, drawn or spent.

    The message may speak about the data, so it is for the curator's eyes only.
    """


class BudgetExceeded(PrivGMMError):
    """A spend would pass the cap set for a data set. Nothing was drawn or spent."""


class ReleaseRefused(PrivGMMError, UserWarning):
    """The private test said no: there is no mixture to show, and the budget is spent.

    Used as a warning when a fit is refused, and raised by whatever needs the mixture.
    """


class SuspectColumn(UserWarning):
    """A column looks like a number of rows or persons, not like something measured."""


class PrivacyWarning(UserWarning):
    """Base of every warning that a promise is weaker than it may seem."""


class SeededRelease(PrivacyWarning):
    """The noise can be repeated by whoever knows the seed: a demonstration, not private."""


class RepeatedSpend(PrivacyWarning):
    """Rows were used before, in this process and without a ledger: what was spent adds up."""


class ScaledRows(PrivacyWarning):
    """Rows look as if they were scaled by statistics of their own, which nothing accounts for.

    The message speaks about the data, so it is for the curator's eyes only.
    """


class WeakBudget(PrivacyWarning):
    """A budget that promises little: epsilon beyond 10, or delta of one over n or more."""
