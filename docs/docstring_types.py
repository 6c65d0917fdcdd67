"""Show types in docstrings as they are written: words with shapes ("array-like (k, d)").

The docstring parser takes text that parses as Python for an expression, and would print
``array - like(k, d)``. Characters that look the same and are not Python prevent that.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

__all__ = ["TypesAsWritten"]

_TYPE = re.compile(r"^([ ]*[\w*][\w*, ]* : )(.+)$", re.MULTILINE)
_RETURNED = re.compile(r"^([ ]*)(array\b.*)$", re.MULTILINE)
_HYPHEN, _SPACE = "\u2011", "\u00a0"


def _kept(match: re.Match[str]) -> str:
    words = match.group(2).replace("array-like", f"array{_HYPHEN}like")
    return match.group(1) + re.sub(r" (?=\()", _SPACE, words)


class TypesAsWritten(griffe.Extension):
    """Marks the types of every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Mark the types of one object."""
        if obj.docstring is not None:
            marked = _TYPE.sub(_kept, obj.docstring.value)
            obj.docstring.value = _RETURNED.sub(_kept, marked)
