"""Sum real numbers exactly, as fixed-point integers.

A contribution is rounded to a multiple of a public unit, so sums are integers: the same for any
order, chunking and number of workers, and noise can be added to them without floating point.
"""

from __future__ import annotations

import math

from privgmm.arrays import whole_number
from privgmm.errors import InvalidInput

__all__ = [
    "fixed_point_scale",
    "fixed_scale",
    "rounded_sensitivity",
]

_SUM_BITS, _FINEST_BITS = 60, 30
"""Bits of a sum, of 63: the rest is for noise. Units are no finer than 2^-30, by choice."""
_MOST_UNITS = 1 << 44
"""From here on a unit would be 2^-15 or coarser, and rounding would show."""


def fixed_point_scale(n_units: int) -> int:
    """Choose the units per one of the fixed-point integers: a power of two, from the public n.

    No contribution is much larger than one, so sums stay below 2^61 and leave room for noise.

    >>> fixed_point_scale(10**6) == 2**30, fixed_point_scale(2**40) == 2**19
    (True, True)
    """
    n = whole_number(n_units, "n_units", 1)
    if n >= _MOST_UNITS:
        raise InvalidInput(f"n_units must be below {_MOST_UNITS}, got {n}")
    return 1 << min(_FINEST_BITS, _SUM_BITS - n.bit_length())


def fixed_scale(n_persons: int) -> float:
    """Return `fixed_point_scale` as a float, which holds powers of two exactly."""
    return float(fixed_point_scale(max(n_persons, 1)))


def rounded_sensitivity(sensitivity: float, unit: float, size: int) -> float:
    """Bound how far replacing a person moves `size` integer sums, in L2.

    Parameters
    ----------
    sensitivity : float
        That of the contributions themselves, before they are rounded.
    unit : float
        Units per one.

    Notes
    -----
    A row's contribution is rounded by at most half a unit per coordinate, the average over a
    person's rows once more. Between two persons that is two units per coordinate. The factor
    covers floating point in a row's contribution, some 1e-14 of it.
    """
    return unit * sensitivity * (1 + 1e-9) + 2 * math.sqrt(size)
