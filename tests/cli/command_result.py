"""Hold what a command printed, for tests that call the command line inside the process."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["CommandResult"]


class CommandResult:
    """Exit code and both outputs."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def json(self) -> Any:
        """Read standard output as JSON that every parser accepts."""
        return json.loads(self.out, parse_constant=_refuse)


def _refuse(word: str) -> None:
    raise AssertionError(f"not JSON: {word}")
