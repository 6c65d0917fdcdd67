"""Search for the smallest number that is enough, on the round numbers that are printed.

Rows for an epsilon and an epsilon for rows are inverse to each other only if both are found on the
same numbers. These are numbers of three digits at most, in steps of a hundredth or less
(`round_number`), so no answer has to be rounded when it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = [
    "STEPS_PER_DECADE",
    "as_text",
    "first_step",
    "first_step_below",
    "round_number",
    "rounded_up",
    "step_above",
    "step_below",
]

_LEADS = (*range(100, 200), *range(200, 500, 2), *range(500, 1000, 5))
"""1.00, 1.01, …, 2.00, 2.02, …, 5.00, 5.05, …: no two neighbours are a hundredth apart."""
STEPS_PER_DECADE = len(_LEADS)
"""Round numbers between one and ten."""


def round_number(step: int) -> float:
    """Return the round number of a step; step 0 is 1, and every 350 steps are a factor of ten.

    >>> [round_number(step) for step in (-350, 0, 1, 100, 101, 250, 350 * 4 + 2)]
    [0.1, 1.0, 1.01, 2.0, 2.02, 5.0, 10200.0]
    """
    power, place = divmod(step, len(_LEADS))
    lead = _LEADS[place]
    return float(f"{lead}e{power - 2}")


def step_above(value: float) -> int:
    """Find the first step whose round number is not below a positive value.

    >>> round_number(step_above(0.5)), round_number(step_above(42_170))
    (0.5, 42200.0)
    """
    power = math.floor(math.log10(value))
    low, high = (len(_LEADS) * (power + more) for more in (-1, 2))
    step = first_step(low, high, lambda step: round_number(step) >= value)
    return high if step is None else step


def step_below(value: float) -> int:
    """Find the last step whose round number is not above a positive value.

    >>> round_number(step_below(0.5)), round_number(step_below(42_170))
    (0.5, 42000.0)
    """
    step = step_above(value)
    return step if round_number(step) <= value else step - 1


def rounded_up(value: float) -> float:
    """Round up to a round number; infinity stays infinity.

    >>> rounded_up(293_869_800.0), rounded_up(math.inf)
    (294000000.0, inf)
    """
    return round_number(step_above(value)) if math.isfinite(value) else value


def as_text(value: float) -> str:
    """Write a number for people, with all digits of a round number.

    >>> as_text(42_200.0), as_text(0.476), as_text(294e6), as_text(math.inf)
    ('42,200', '0.476', '2.94e+08', 'none')
    """
    if not math.isfinite(value):
        return "none"
    return f"{value:,.0f}" if 100 <= value < 1e7 else f"{value:.3g}"


def first_step(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """Find the smallest step in low..high from which `holds` is true, None if it is not at high.

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


def first_step_below(
    excess: Callable[[int], float], low: int, high: int, *, fall: float
) -> int | None:
    """Find the smallest step in low..high at which a falling `excess` is not above zero.

    None if there is none. It asks seldom, for an excess that is smooth but takes time: each try is
    where the line through the two nearest known values meets zero.

    Parameters
    ----------
    excess : callable(int) -> float
        May be infinite below some step.
    low, high : int
    fall : float
        About how much it falls per step, for the first guess.

    Examples
    --------
    >>> asked = []
    >>> def excess(step):
    ...     asked.append(step)
    ...     return 3.0 - step / 100 - (step / 1000) ** 2
    >>> first_step_below(excess, 0, 10_000, fall=0.01), len(asked)
    (292, 4)
    """
    known = {low: excess(low)}
    above, below, stride, tries = low, high + 1, 32, 0
    if known[low] <= 0:
        return low
    while below - above > 1:
        tries += 1
        finite = sorted((s for s in known if math.isfinite(known[s])), key=lambda s: abs(known[s]))
        if len(finite) > 1 and (known[finite[1]] - known[finite[0]]) * (finite[1] - finite[0]) < 0:
            fall = (known[finite[1]] - known[finite[0]]) / (finite[0] - finite[1])
        if math.isinf(known[above]):
            step, stride = above + min(stride, max(1, (below - above) // 2)), 2 * stride
        elif below in known and tries % 4 == 0:
            # lines that miss again and again: halve what is left
            step = (above + below) // 2
        else:
            step = math.ceil(finite[0] + known[finite[0]] / fall)
        step = min(max(step, above + 1), below - 1)
        known[step] = excess(step)
        above, below = (above, step) if known[step] <= 0 else (step, below)
    return None if below > high else below
