"""How tests wait: for a condition, as long as a busy machine may take."""

from __future__ import annotations

import time
from collections.abc import Callable

LONG = 120.0
"""Seconds: far more than anything here takes, so that only a deadlock reaches it."""


def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds; fail if it never does."""
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)
