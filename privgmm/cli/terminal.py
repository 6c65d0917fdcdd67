"""What commands say: answers on standard output, notes and progress on standard error."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privgmm.data.engines import Step, Watch

__all__ = ["as_json", "print_note", "progress_bar", "progress_lines", "say", "silence"]

_BAR_WIDTH = 30
"""Characters of a progress bar; with its words it fits a line of 80."""


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
        sys.stderr.write(f"\r{_bar(done, total)} {done} of {total} {what}{end}")
        sys.stderr.flush()

    return show


def progress_lines() -> Watch | None:
    """Return a function that draws a bar per step of a release, with its rate and time left.

    None if standard error is not a terminal.
    """
    if not sys.stderr.isatty():
        return None

    def show(step: Step) -> None:
        over = step.done >= step.total
        pace = "" if step.rate is None else f", {step.rate:,.0f} per second"
        if over:
            pace += f", {step.seconds:.1f} s"
        elif step.left is not None:
            pace += f", {_clock(step.left)} left"
        # the escape sequence clears what a longer line before it left behind
        sys.stderr.write(
            f"\r{_bar(step.done, max(step.total, 1))} {step.what}: {step.done:,} of "
            f"{step.total:,} {step.unit}{pace}\x1b[K{chr(10) if over else ''}"
        )
        sys.stderr.flush()

    return show


def _bar(done: int, total: int) -> str:
    full = _BAR_WIDTH * done // total
    return f"[{'█' * full}{'·' * (_BAR_WIDTH - full)}]"


def _clock(seconds: float) -> str:
    """Write a time in seconds, minutes or hours.

    >>> _clock(4.2), _clock(75), _clock(7_300)
    ('5 s', '1 min 15 s', '2 h 1 min')
    """
    rounded = math.ceil(seconds)
    if rounded < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60} s"
    return f"{rounded // 3600} h {rounded % 3600 // 60} min"
