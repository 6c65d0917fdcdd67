"""Find methods by name. A method registers itself from its own file.

The methods of the package are listed by module, and a module is loaded when its method is first
asked for. Listing the names loads none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from privgmm.errors import InvalidInput

if TYPE_CHECKING:
    from privgmm.methods.method import Method

__all__ = ["BUILT_IN", "all_methods", "get", "names", "register", "unregister"]

BUILT_IN = {
    "sketch": "privgmm.methods.sketch.method",
    "lifted": "privgmm.methods.lifted.method",
    "tight": "privgmm.methods.tight",
    "paper": "privgmm.methods.paper",
}
"""Modules of the methods that come with the package, in the order in which they are offered."""

_LOADED: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Offer a method everywhere; its name must be new."""
    if method.name in _LOADED:
        raise InvalidInput(f"there is a method {method.name!r} already: choose another name")
    _LOADED[method.name] = method
    return method


def unregister(name: str) -> None:
    """Remove a method, for example one that a test has added."""
    get(name)
    del _LOADED[name]


def get(name: str) -> Method:
    """Return the method of that name, or raise a clear error."""
    if not isinstance(name, str) or name not in names():
        raise InvalidInput(f"must be one of {', '.join(names())}", argument="method", value=name)
    if name not in _LOADED:
        importlib.import_module(BUILT_IN[name])
    return _LOADED[name]


def names() -> tuple[str, ...]:
    """List the names: those of the package, the default first, then added ones."""
    return (*BUILT_IN, *(name for name in _LOADED if name not in BUILT_IN))


def all_methods() -> tuple[Method, ...]:
    """Return all methods in that order."""
    return tuple(get(name) for name in names())
