"""Kernels compiled or loaded in the background, so that the first release does not wait."""

from __future__ import annotations

import functools
import threading

from privgmm.warm import warm

__all__ = ["start_warming"]


_AFTER = 2.0
"""Seconds until it starts: the first page goes first."""


@functools.cache
def start_warming() -> threading.Timer:
    """Begin soon, once in the life of the server; later calls give the same timer."""
    timer = threading.Timer(_AFTER, warm)
    timer.daemon = True
    timer.start()
    return timer
