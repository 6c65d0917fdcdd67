"""Resolve the dotted names on pages; shared by the checks of pages."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

__all__ = ["ROOT", "mentions", "resolve"]

ROOT = Path(__file__).resolve().parent.parent.parent


def resolve(dotted: str) -> object:
    """Find the object that a dotted name stands for: a module, then attributes."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        name = ".".join(parts[:cut])
        try:
            found: object = importlib.import_module(name)
        except ModuleNotFoundError as problem:
            if problem.name is None or not name.startswith(problem.name):
                raise
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return found
    raise ModuleNotFoundError(dotted)


def mentions(words: str, statement: str) -> bool:
    """Whether a test file speaks of a statement, in prose or in the name of a test."""
    kind, number = statement.rsplit(" ", 1)
    prose = rf"\b{kind}s? ([\w., –-]*?)\b{re.escape(number)}\b"
    name = rf"def test_{kind.lower()}_{number.lower().replace('.', '_?')}(_|\()"
    return bool(re.search(prose, words) or re.search(name, words))
