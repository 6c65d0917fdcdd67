"""Read a JSON object field by field: stages and plans are read back with it.

Every field is checked as to its kind and its size; whether the numbers make a differentially
private mechanism is for the price to say.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from privgmm.errors import InvalidInput

__all__ = ["Form"]

_TINIEST, _HUGEST = 1e-150, 1e150
"""Squares, and their inverses, must stay within the range of floats, 1e-308 to 1e308."""


@dataclasses.dataclass(frozen=True)
class Form:
    """One object and the name by which errors call it."""

    data: Mapping[str, Any]
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.data, Mapping):
            raise InvalidInput(f"{self.name} must be a JSON object, got {type(self.data).__name__}")

    def of(self, key: str) -> Any:
        """Return a field as it is."""
        if key not in self.data:
            raise InvalidInput(f"{self.name} must have a field {key!r}")
        return self.data[key]

    def but(self, **fields: Any) -> Form:
        """Return the form with some fields changed."""
        return Form({**self.data, **fields}, self.name)

    def part(self, key: str) -> Form:
        """Return a field that is an object, as a form of its own."""
        return Form(self.of(key), f"{self.name}.{key}")

    def optional(self, key: str) -> Form | None:
        """Return a field that is an object, as a form; None if it is null."""
        return None if self.of(key) is None else self.part(key)

    def number(self, key: str, *, zero: bool = False) -> float:
        """Read a positive number, neither huge nor tiny; zero only where that is allowed."""
        return self._checked(self.of(key), key, zero=zero)

    def number_or_none(self, key: str) -> float | None:
        """Read a positive number; None if it is null."""
        return None if self.of(key) is None else self.number(key)

    def numbers(self, key: str) -> tuple[float, ...]:
        """Read a list of positive numbers."""
        values = self.of(key)
        if not isinstance(values, list | tuple):
            raise InvalidInput(f"{self.name}.{key} must be a list of numbers")
        return tuple(self._checked(value, key) for value in values)

    def _checked(self, value: Any, key: str, *, zero: bool = False) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(f"{self.name}.{key} must be a number, got a {type(value).__name__}")
        if not (_TINIEST <= value <= _HUGEST or (zero and value == 0)):
            raise InvalidInput(f"{self.name}.{key} must be positive and neither huge nor tiny")
        return float(value)

    def whole(self, key: str, least: int) -> int:
        """Read a whole number of at least `least`."""
        value = self.of(key)
        if type(value) is not int or not least <= value < 2**53:
            raise InvalidInput(f"{self.name}.{key} must be a whole number, {least} or more")
        return value

    def flag(self, key: str) -> bool:
        """Read true or false; false where the field is left out."""
        value = self.data.get(key, False)
        if not isinstance(value, bool):
            raise InvalidInput(f"{self.name}.{key} must be true or false, got {value!r}")
        return value

    def absent(self, key: str) -> None:
        """Check that a field is null, where this kind of object has nothing to put there."""
        if self.of(key) is not None:
            raise InvalidInput(f"{self.name}.{key} must be null here, got {self.of(key)!r}")

    def agrees(self, key: str, value: float, *, within: float = 1e-9) -> None:
        """Check a field that follows from the others, so that a file cannot contradict itself."""
        stated = self.number(key, zero=True)
        if not math.isclose(stated, value, rel_tol=within, abs_tol=0.0):
            raise InvalidInput(
                f"{self.name}.{key} must be {value!r} for these numbers, got {stated!r}"
            )
