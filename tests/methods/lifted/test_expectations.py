"""Tests that expected block fits pass."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.methods.cores import component_gap
from privgmm.methods.lifted.expectations import (
    Expectation,
    cheapest_core,
    expected_cores,
    overlap_inflation,
    usual_expectations,
)
from privgmm.mixture import Mixture
from privgmm.stages.agreement.votes import core_sensitivity, required_separation
from privgmm.stages.quadrature import points_of, scores


@pytest.mark.parametrize("expectation", usual_expectations())
def test_expected_cores_pass_and_clear(expectation: Expectation) -> None:
    cores = expected_cores(200, 400, (0.4, 0.6), 2, 1e-6, expectation)
    assert cores
    for core in cores:
        assert core.move == pytest.approx(core_sensitivity(core.test))
        clearance = required_separation(core.test, 2) * core.radius
        assert clearance <= expectation.reliance * component_gap(expectation.separation)
        full = np.full(200, 200)
        assert core.test.pass_probability(full) > 0.9
    best = cheapest_core(cores, 2, 2, 0.2)
    assert best in cores


def test_farther_components_leave_more_room() -> None:
    near = expected_cores(200, 80, (0.4, 0.6), 2, 1e-6, Expectation(4.0, 1.0))
    far = expected_cores(200, 80, (0.4, 0.6), 2, 1e-6, Expectation(8.0, 1.0))
    assert max(core.radius for core in far) > max(core.radius for core in near)


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("separation", [1.5, 2.0, 3.0, 4.25, 6.0])
def test_overlap_widens_the_scatter_by_what_fisher_says(separation: float, d: int) -> None:
    """Compare with the information of two equal components, by quadrature."""
    means = np.zeros((2, d))
    means[1, 0] = separation
    pair = Mixture([0.5, 0.5], means, np.stack([np.eye(d)] * 2))
    rows, mass = points_of(pair)
    score = scores(pair, rows)
    information = (score.T * mass) @ score
    width = len(information) // 2
    common = np.zeros(2 * width)
    common[::width] = 0.5
    covariance = np.linalg.inv(information + np.outer(common, common))
    # of half as many rows, the mean alone has variance 1 per column, log-covariances 2 per entry
    alone = (d + d * (d + 1)) / 0.5
    widened = math.sqrt(np.trace(covariance[1:width, 1:width]) / alone)
    assert overlap_inflation(separation, d) == pytest.approx(widened, rel=0.2)
