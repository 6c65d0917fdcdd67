"""What is said of components that looks found: which of them are resolved."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm import Mixture, Release, release
from privgmm.data.generators import random_mixture
from privgmm.stages.accuracy import NOT_RESOLVED, POORLY_RESOLVED, RESOLVED, units_apart
from privgmm.stages.wide.errors import ComponentErrors

D = 10
SMALL = np.full(2, 1e-3)


def _pair(gap: float, weights: tuple[float, float] = (0.6, 0.4)) -> Mixture:
    means = np.zeros((2, D))
    means[1, 0] = gap
    return Mixture(weights, means, np.stack([np.eye(D)] * 2))


def _said(mixture: Mixture, lost: tuple[bool, bool]) -> tuple[str, ...]:
    errors = ComponentErrors(mixture, SMALL, SMALL, SMALL, suspect=np.array(lost))
    return errors.resolution(well_specified=True)


def test_sharp_components_are_resolved() -> None:
    assert _said(_pair(6.0), (False, False)) == (RESOLVED, RESOLVED)


def test_one_far_from_a_lost_one_stays_resolved() -> None:
    assert _said(_pair(6.0), (False, True)) == (RESOLVED, NOT_RESOLVED)


def test_one_that_overlaps_with_a_lost_one_is_poorly_resolved() -> None:
    assert _said(_pair(3.0), (False, True)) == (POORLY_RESOLVED, NOT_RESOLVED)


def test_distances_are_in_units_of_the_component() -> None:
    means = np.zeros((2, D))
    means[1, 0] = 6.0
    mixture = Mixture([0.5, 0.5], means, np.stack([np.eye(D), 4 * np.eye(D)]))
    assert units_apart(mixture) == pytest.approx(np.array([[np.inf, 6.0], [3.0, np.inf]]))


def test_a_lost_one_that_is_nearly_empty_makes_all_others_doubtful() -> None:
    assert _said(_pair(20.0, (0.95, 0.05)), (False, True)) == (POORLY_RESOLVED, NOT_RESOLVED)
    # small, but sharp: nothing is wrong with it
    assert _said(_pair(20.0, (0.95, 0.05)), (False, False)) == (RESOLVED, RESOLVED)


def test_several_components_in_one_are_not_called_resolved() -> None:
    """Five that overlap in 15 columns are found as one, and four that hold hardly any rows."""
    truth = random_mixture(5, 15, separation=1.2, condition=4.0, rng=3)
    result = release(truth.sample(40_000, rng=1), epsilon=1.5, n_components=5, rng=1).result
    assert isinstance(result, Release)
    assert RESOLVED not in result.resolution
    assert not result.usefulness().is_useful
