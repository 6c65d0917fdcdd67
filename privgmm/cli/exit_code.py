"""How a command ended, as a number for shells and scripts."""

from __future__ import annotations

import enum

__all__ = ["ExitCode"]


class ExitCode(enum.IntEnum):
    """What ``$?`` is after ``privgmm``."""

    DONE = 0
    """Done, or released."""
    FAILED = 1
    """An audit or a receipt failed, or a release could not be written where it was asked for."""
    BAD_INPUT = 2
    """What was asked for cannot be done; nothing was spent."""
    REFUSED = 3
    """The release was refused; its budget is spent."""
    STOPPED = 130
    """Stopped by Ctrl-C: 128 plus the number of the signal, as shells have it."""
