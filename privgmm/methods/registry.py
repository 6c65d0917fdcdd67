"""The methods by name: what every door offers. A method registers itself from its own file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privgmm.errors import InvalidInput

if TYPE_CHECKING:
    from privgmm.methods.method import Method

__all__ = ["all_methods", "get", "names", "register", "unregister"]

_METHODS: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Offer a method everywhere; its name must be new."""
    if method.name in _METHODS:
        raise InvalidInput(f"there is a method {method.name!r} already: choose another name")
    _METHODS[method.name] = method
    return method


def unregister(name: str) -> None:
    """Take a method away again, as a test does that added one."""
    get(name)
    del _METHODS[name]


def get(name: str) -> Method:
    """The method of that name, or a clear error."""
    if not isinstance(name, str) or name not in _METHODS:
        raise InvalidInput(f"method must be one of {', '.join(_METHODS)}, got {name!r}")
    return _METHODS[name]


def names() -> tuple[str, ...]:
    """All names, in the order in which they were registered."""
    return tuple(_METHODS)


def all_methods() -> tuple[Method, ...]:
    """All methods, in that order."""
    return tuple(_METHODS.values())
