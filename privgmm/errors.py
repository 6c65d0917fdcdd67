"""What can go wrong, as types. Every message names the argument, the rule and a remedy."""

from __future__ import annotations

__all__ = ["BudgetExceeded", "InvalidInput", "PrivGMMError", "ReleaseRefused"]


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
