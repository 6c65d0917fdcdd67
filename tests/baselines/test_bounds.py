"""The box that baselines are told: whatever the rows are, they end up in the unit ball."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm import Mixture
from privgmm.baselines import Box
from privgmm.errors import InvalidInput

BOX = Box([-1.0, 10.0, 0.0], [3.0, 10.5, 1e6])


def test_any_row_ends_up_in_the_unit_ball() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((500, 3)) * 10.0 ** rng.uniform(-300, 300, (500, 3))
    corners = np.array([[BOX.low, BOX.high][b] for b in (0, 1)])
    points = BOX.in_unit_ball(np.concatenate([rows, corners]))
    assert np.linalg.norm(points, axis=1).max() <= 1 + 1e-12
    # the corners touch it: no smaller ball would do
    np.testing.assert_allclose(np.linalg.norm(points[-2:], axis=1), 1.0)


def test_a_mixture_comes_back_as_rows_do() -> None:
    rows = np.random.default_rng(1).uniform(BOX.low, BOX.high, (400, 3))
    points = BOX.in_unit_ball(rows)
    inside = Mixture([1.0], [points.mean(axis=0)], [np.cov(points.T)])
    outside = BOX.from_unit_ball(inside)
    np.testing.assert_allclose(outside.means[0], rows.mean(axis=0))
    np.testing.assert_allclose(outside.covariances[0], np.cov(rows.T))


def test_around_holds_every_component_by_five_deviations() -> None:
    mixture = Mixture([0.5, 0.5], [[0.0, 1.0], [10.0, 1.0]], [np.diag([4.0, 1.0]), np.eye(2)])
    box = Box.around(mixture)
    assert box == Box([-10.0, -4.0], [15.0, 6.0])
    assert hash(box) == hash(Box([-10.0, -4.0], [15.0, 6.0]))
    assert box != BOX
    wide = box.widened(3.0)
    np.testing.assert_allclose(wide.centre, box.centre)
    np.testing.assert_allclose(wide.half, 3 * box.half)


@pytest.mark.parametrize(
    ("low", "high"),
    [([0.0], [0.0]), ([1.0], [0.0]), ([0.0], [np.inf]), ([-1e308], [1e308]), ([0.0], [1.0, 2.0])],
)
def test_a_box_that_is_none_is_refused(low: list[float], high: list[float]) -> None:
    with pytest.raises(InvalidInput):
        Box(low, high)
