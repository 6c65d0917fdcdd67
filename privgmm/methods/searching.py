"""Bisection over steps: where a condition that stays true begins to hold."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["first_step"]


def first_step(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """The smallest step in low..high from which `holds` is true, None if it is not at high.

    >>> first_step(0, 100, lambda step: step * step >= 50)
    8
    """
    if not holds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high
