"""Exact sums: integers that fit into 64 bits."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.privacy.curves import gaussian_curve
from privgmm.stages.fixed_point import fixed_point_scale, fixed_scale


@pytest.mark.parametrize("n", [1, 2, 1000, 10**7, 10**11, 2**40])
def test_sums_of_so_many_units_fit_into_64_bits(n: int) -> None:
    scale = fixed_scale(n)
    assert scale == 2.0 ** round(np.log2(scale)), "a power of two: rounding is the same for all"
    assert n * scale < 2.0**61
    assert scale >= 2**19
    assert scale == fixed_point_scale(n)


def test_prices_count_on_the_coarsest_scale() -> None:
    """What exact prices take the sensitivity of integer sums to be, at least."""
    assert gaussian_curve(1.0).sensitivity == fixed_point_scale(2**44 - 1)
