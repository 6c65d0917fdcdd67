"""The methods by name: what every door offers. A method registers itself from its own file.

One that only chooses among the others (`auto`) is known by its name but not listed as one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from privgmm.errors import InvalidInput

if TYPE_CHECKING:
    from privgmm.methods.method import Method

__all__ = ["all_methods", "choices", "get", "names", "register", "unregister"]

_METHODS: dict[str, Method] = {}
_CHOOSERS: dict[str, Method] = {}


def register(method: Method, *, chooser: bool = False) -> Method:
    """Offer a method everywhere; its name must be new.

    A chooser can be asked for, but makes no plans of its own and is not listed with those that do.
    """
    if method.name in _METHODS or method.name in _CHOOSERS:
        raise InvalidInput(f"there is a method {method.name!r} already: choose another name")
    (_CHOOSERS if chooser else _METHODS)[method.name] = method
    return method


def unregister(name: str) -> None:
    """Take a method away again, as a test does that added one."""
    get(name)
    (_METHODS if name in _METHODS else _CHOOSERS).pop(name)


def get(name: str) -> Method:
    """The method of that name, or a clear error."""
    if not isinstance(name, str) or name not in choices():
        raise InvalidInput(f"method must be one of {', '.join(choices())}, got {name!r}")
    return _METHODS[name] if name in _METHODS else _CHOOSERS[name]


def choices() -> tuple[str, ...]:
    """All that can be asked for: what chooses a method, then the methods."""
    return (*_CHOOSERS, *_METHODS)


def names() -> tuple[str, ...]:
    """The methods that make plans, in the order in which they were registered."""
    return tuple(_METHODS)


def all_methods() -> tuple[Method, ...]:
    """All methods, in that order."""
    return tuple(_METHODS.values())
