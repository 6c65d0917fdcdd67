"""The mixture that a request is about."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.data.generators import random_mixture, separation_of
from privgmm.errors import InvalidInput
from privgmm.methods.request import PlanRequest
from privgmm.methods.typical import expected_mixture, whole_of
from privgmm.mixture import Mixture


def test_the_one_expected_is_taken_as_it_is() -> None:
    mixture = random_mixture(3, 2, separation=2.5, rng=1)
    request = PlanRequest(n_components=3, n_features=2, expected=mixture)
    assert expected_mixture(request) is mixture
    assert request.expected_separation == pytest.approx(2.5)
    assert hash(request) == hash(request.but(expected=random_mixture(3, 2, separation=2.5, rng=1)))


@pytest.mark.parametrize(("k", "d"), [(1, 3), (2, 1), (4, 2), (3, 20)])
def test_else_one_of_the_stated_separation_and_weight(k: int, d: int) -> None:
    request = PlanRequest(n_components=k, n_features=d, separation=3.0, smallest_weight=0.2)
    mixture = expected_mixture(request)
    assert mixture == expected_mixture(request.but(n_rows=1_000))
    assert mixture.means.shape == (k, d)
    if k > 1:
        assert separation_of(mixture) == pytest.approx(3.0)
        assert mixture.weights.min() == pytest.approx(0.2)


def test_the_whole_is_the_mean_and_covariance_of_its_rows() -> None:
    mixture = random_mixture(3, 2, condition=4.0, weights="unequal", rng=2)
    rows = mixture.sample(200_000, rng=3)
    mean, covariance = whole_of(mixture)
    scale = np.sqrt(np.diagonal(covariance))
    assert np.abs((rows.mean(axis=0) - mean) / scale).max() < 0.01
    assert np.abs((np.cov(rows.T) - covariance) / np.outer(scale, scale)).max() < 0.02


def test_expectations_that_contradict_are_refused() -> None:
    mixture = random_mixture(2, 2, rng=4)
    with pytest.raises(InvalidInput, match="expected must be a mixture of 3 components and 2 col"):
        PlanRequest(n_components=3, n_features=2, expected=mixture)
    with pytest.raises(InvalidInput, match="separation and expected exclude each other"):
        PlanRequest(n_components=2, n_features=2, expected=mixture, separation=4.0)
    empty = Mixture([0.0, 1.0], np.zeros((2, 1)), np.ones((2, 1, 1)))
    with pytest.raises(InvalidInput, match="expected must have no empty component"):
        PlanRequest(n_components=2, n_features=1, expected=empty)
