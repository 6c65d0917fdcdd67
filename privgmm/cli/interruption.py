"""Ctrl-C while the command `privgmm` is still being loaded: an end without a traceback.

Loading takes seconds, and nothing can have been spent before it is done. The package's root imports
this module first, and only the command itself is affected: whoever imports the package from a
program of their own keeps their handlers.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

__all__ = ["STOPPED", "loaded"]

STOPPED = 130
"""Exit code of what was stopped, as shells have it."""


def loaded() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt, as everywhere."""
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop(number: int, frame: FrameType | None) -> None:
    del number, frame
    os.write(2, b"privgmm: stopped\n")
    os._exit(STOPPED)


def _is_command() -> bool:
    """Whether this process was started as ``privgmm`` or ``python -m privgmm``."""
    started = sys.orig_argv
    if "-m" in started[:-1]:
        return started[started.index("-m") + 1] == "privgmm"
    return bool(sys.argv) and Path(sys.argv[0]).stem == "privgmm"


if (
    _is_command()
    and threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, _stop)
