"""Tests that expected block fits pass."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.methods.lifted.cores import component_gap
from privgmm.methods.lifted.expectations import (
    EXPECTATIONS,
    cheapest_core,
    expected_cores,
    expecting,
)
from privgmm.stages.agreement.votes import core_sensitivity, required_separation


@pytest.mark.parametrize("expectation", EXPECTATIONS)
def test_expected_cores_pass_and_clear(expectation: object) -> None:
    chosen = next(o for o in EXPECTATIONS if o == expectation)
    cores = expected_cores(200, 400, (0.4, 0.6), 2, 1e-6, chosen)
    assert cores
    for core in cores:
        assert core.move == pytest.approx(core_sensitivity(core.test))
        clearance = required_separation(core.test, 2) * core.radius
        assert clearance <= chosen.reliance * component_gap(chosen.separation)
        full = np.full(200, 200)
        assert core.test.pass_probability(full) > 0.9
    best = cheapest_core(cores, 2, 2, 0.2)
    assert best in cores


def test_farther_components_leave_more_room() -> None:
    near = expected_cores(200, 80, (0.4, 0.6), 2, 1e-6, expecting(4.0))
    far = expected_cores(200, 80, (0.4, 0.6), 2, 1e-6, expecting(8.0))
    assert max(core.radius for core in far) > max(core.radius for core in near)
