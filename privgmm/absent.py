"""Methods that an estimator lacks after a refusal; `estimator` marks its own with it."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, TypeVar, cast

from privgmm.errors import ReleaseRefused

__all__ = ["NoMixture", "of_mixture"]

_Method = TypeVar("_Method", bound=Callable[..., Any])


class NoMixture(ReleaseRefused, AttributeError):
    """What asking a refused estimator for a method of the mixture raises."""


class _OfMixture:
    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, model: Any, owner: type) -> Callable[..., Any]:
        if model is None:
            return self._method
        if not model.__dict__.get("released_", True):
            raise NoMixture(model.reason_)
        return types.MethodType(self._method, model)


def of_mixture(method: _Method) -> _Method:
    """Mark a method that an estimator has unless its release was refused.

    Then ``hasattr`` says no, as scikit-learn expects of whatever cannot be done, and a call says
    why and what would help. Before fitting the method is there.
    """
    return cast(_Method, _OfMixture(method))
