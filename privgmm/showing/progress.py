"""Lines that show how far a piece of work is: a bar, what is done, its rate and the time left.

Commands write them to standard error, and the estimator with ``verbose=True`` to standard output.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TextIO

__all__ = ["bar", "step_lines"]

_BAR_WIDTH = 30
"""Characters of a progress bar; with its words it fits a line of 80."""


class StepLike(Protocol):
    """What is shown of a step of work, see `privgmm.data.engines.Step`."""

    @property
    def what(self) -> str:
        """What is being done, in words."""
        ...

    @property
    def done(self) -> int:
        """How many units are done."""
        ...

    @property
    def total(self) -> int:
        """How many units there are."""
        ...

    @property
    def unit(self) -> str:
        """What is counted."""
        ...

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        ...

    @property
    def rate(self) -> float | None:
        """Units per second so far, if known."""
        ...

    @property
    def left(self) -> float | None:
        """Seconds left at this rate, if known."""
        ...


def step_lines(stream: TextIO) -> Callable[[StepLike], None]:
    """Return a function that draws a bar per step, with its rate and the time left.

    On a terminal the line is drawn again as the step proceeds; elsewhere, as in a log or a
    notebook, a line is written when the step is over.
    """
    redrawn = stream.isatty()

    def show(step: StepLike) -> None:
        over = step.done >= step.total
        if not (redrawn or over):
            return
        pace = "" if step.rate is None else f", {step.rate:,.0f} per second"
        if over:
            pace += f", {step.seconds:.1f} s"
        elif step.left is not None:
            pace += f", {_clock(step.left)} left"
        # the escape sequence clears what a longer line before it left behind
        start, end = ("\r", "\x1b[K") if redrawn else ("", "")
        stream.write(
            f"{start}{bar(step.done, max(step.total, 1))} {step.what}: {step.done:,} of "
            f"{step.total:,} {step.unit}{pace}{end}{chr(10) if over else ''}"
        )
        stream.flush()

    return show


def bar(done: int, total: int) -> str:
    """Draw a bar of which the share `done` / `total` is full."""
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
