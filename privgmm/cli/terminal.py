"""What commands say: answers on standard output, notes and progress on standard error."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from privgmm.showing.progress import bar, step_lines

if TYPE_CHECKING:
    from privgmm.data.engines import Watch

__all__ = ["as_json", "print_note", "progress_bar", "progress_lines", "say", "silence"]


def say(text: str) -> None:
    """Print one answer on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_note(text: str) -> None:
    """Print one line on standard error, which keeps standard output for the answer."""
    sys.stderr.write(f"privgmm: {text}\n")


def as_json(value: Any) -> str:
    """Write a value as indented JSON that every parser reads: null stands for infinities."""
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return value


def silence() -> None:
    """Discard what is left for standard output, so that nothing fails when the process ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except io.UnsupportedOperation:
        # standard output that is not a file is not flushed at the exit
        return


def progress_bar(what: str) -> Callable[[int, int], None] | None:
    """Return a function that draws a progress bar; None if standard error is not a terminal."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        end = "\n" if done == total else ""
        sys.stderr.write(f"\r{bar(done, total)} {done} of {total} {what}{end}")
        sys.stderr.flush()

    return show


def progress_lines() -> Watch | None:
    """Return a function that draws a bar per step of a release, with its rate and time left.

    None if standard error is not a terminal.
    """
    return step_lines(sys.stderr) if sys.stderr.isatty() else None
