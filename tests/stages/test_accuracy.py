"""The law of dist_GMM: as exact draws have it, and what is said of components keeps its word."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from privgmm.arrays import Array
from privgmm.data.generators import random_mixture
from privgmm.distances.parameters import dist_comp, dist_gmm
from privgmm.errors import InvalidInput
from privgmm.learners.em.fitting import EM
from privgmm.mixture import Mixture
from privgmm.stages.accuracy import (
    CHANCES,
    NOT_RESOLVED,
    POORLY_RESOLVED,
    RESOLVED,
    ExpectedError,
    accuracy_of,
    error_law,
    resolution_of,
    sampling_covariance,
)


def moved(mixture: Mixture, errors: Array) -> Mixture:
    """Move a mixture by errors in its local coordinates (k, width), exactly."""
    d = mixture.n_features
    weights = mixture.weights * np.exp(errors[:, 0])
    means = mixture.means + np.einsum("kij,kj->ki", mixture.cholesky, errors[:, 1 : 1 + d])
    row, column = np.triu_indices(d)
    covariances = []
    for root, svec in zip(mixture.cholesky, errors[:, 1 + d :], strict=True):
        log = np.zeros((d, d))
        log[row, column] = svec * np.where(row == column, 1.0, math.sqrt(0.5))
        log = np.triu(log) + np.triu(log, 1).T
        shape = root @ scipy.linalg.expm(log) @ root.T
        covariances.append((shape + shape.T) / 2)
    return Mixture(weights / weights.sum(), means, np.array(covariances))


@pytest.mark.parametrize(("k", "d", "size"), [(1, 1, 0.1), (2, 2, 0.05), (3, 5, 0.2), (2, 8, 0.1)])
def test_the_law_is_that_of_mixtures_moved_exactly(k: int, d: int, size: float) -> None:
    mixture = random_mixture(k, d, separation=6.0, weights="unequal", rng=k)
    width = 1 + d + d * (d + 1) // 2
    rng = np.random.default_rng(d)
    root = size * rng.standard_normal((k * width, k * width)) / math.sqrt(k * width)
    found = error_law(root @ root.T, mixture.weights)
    n = 2_000 if k * d < 5 else 400
    draws = (rng.standard_normal((n, k * width)) @ root.T).reshape(n, k, width)
    exact = ExpectedError.of([dist_gmm(moved(mixture, one), mixture) for one in draws])
    assert found.value == pytest.approx(exact.value, rel=0.07)
    assert found.at(0.9) == pytest.approx(exact.at(0.9), rel=0.1)


def test_the_sampling_error_of_maximum_likelihood_is_as_forecast() -> None:
    truth, n = random_mixture(2, 2, separation=3.0, rng=5), 3_000
    law = error_law(sampling_covariance(truth, n), truth.weights)
    errors = [dist_gmm(EM(2).fit(truth.sample(n, rng=seed), rng=seed), truth) for seed in range(60)]
    # 60 runs: four standard deviations of a share of 90 % are 0.15
    assert abs(np.mean(np.array(errors) <= law.at(0.9)) - 0.9) < 0.15
    assert np.median(errors) == pytest.approx(law.value, rel=0.25)


def test_probabilities_and_quantiles_are_inverse_and_cautious_at_the_ends() -> None:
    error = error_law(0.01 * np.eye(12), np.array([0.4, 0.6]))
    for chance in (0.05, 0.37, 0.9, 0.99):
        assert error.within(error.at(chance)) == pytest.approx(chance)
    assert (error.low, error.value, error.high) == tuple(map(error.at, (0.05, 0.5, 0.95)))
    assert error.within(error.quantiles[0] / 2) == 0.0
    assert error.within(0.999) == CHANCES[-1]
    assert error.within(1.0) == 1.0
    assert error.at(0.999) == 1.0
    assert ExpectedError((0.0,) * len(CHANCES)).within(0.0) == CHANCES[-1]


def test_it_is_written_and_read_back() -> None:
    error = error_law(0.01 * np.eye(12), np.array([0.4, 0.6]))
    written = json.loads(json.dumps(error.to_dict()))
    again = ExpectedError.from_dict(written)
    assert again.to_dict() == written
    assert again.value == pytest.approx(error.value, rel=1e-5)
    listed: tuple[Any, ...] = ({}, [], {"quantiles": [0.1]}, {"quantiles": [0.2] + [0.1] * 12})
    for broken in listed:
        with pytest.raises(InvalidInput):
            ExpectedError.from_dict(broken)


# ---------------------------------------------------------------------------------- resolution


APART = Mixture([0.5, 0.5], [[0.0], [10.0]], [[[1.0]], [[1.0]]])
NEAR = Mixture([0.5, 0.5], [[0.0], [0.5]], [[[1.0]], [[1.0]]])


def said(mixture: Mixture, deviations: list[float], **options: bool) -> str:
    """Return what is said of the first component; errors are independent."""
    options = {"well_specified": True} | options
    return resolution_of(mixture, np.diag(deviations * 2) ** 2, **options)[0]


def test_small_errors_are_resolved_and_large_ones_are_not() -> None:
    assert said(APART, [0.01, 0.05, 0.05]) == RESOLVED
    assert said(APART, [0.01, 0.15, 0.05]) == POORLY_RESOLVED
    # as wide as the component itself
    assert said(APART, [0.01, 0.55, 0.05]) == NOT_RESOLVED
    # the weight may be zero
    assert said(APART, [1.5, 0.05, 0.05]) == NOT_RESOLVED
    # twice as wide or half
    assert said(APART, [0.01, 0.05, 0.75]) == NOT_RESOLVED
    # the region of two errors reaches the other component
    assert said(NEAR, [0.01, 0.3, 0.05]) == NOT_RESOLVED
    assert said(APART, [0.01, 0.3, 0.05]) == POORLY_RESOLVED


def test_nothing_is_resolved_where_no_such_mixture_explains_the_rows() -> None:
    assert said(APART, [0.01, 0.05, 0.05], well_specified=False) == POORLY_RESOLVED
    assert accuracy_of(APART, 1e-6 * np.eye(6), well_specified=False)[0] is None
    assert accuracy_of(APART, None, well_specified=True) == (None, (NOT_RESOLVED,) * 2)


def test_resolved_components_are_near_true_ones() -> None:
    """Draw errors of the stated size: of components called resolved 95 % lie within 0.2."""
    truth = random_mixture(3, 2, separation=4.0, weights="unequal", rng=2)
    near, counted = 0, 0
    for n in (1_000, 3_000, 10_000):
        covariance = sampling_covariance(truth, n)
        words = resolution_of(truth, covariance, well_specified=True)
        draws = np.random.default_rng(n).multivariate_normal(np.zeros(18), covariance, 200)
        for one in draws.reshape(200, 3, 6):
            found = moved(truth, one)
            for a, word in enumerate(words):
                if word == RESOLVED:
                    counted += 1
                    near += dist_comp(found.component(a), truth.component(a)) <= 0.2
    assert counted >= 200
    assert near >= 0.94 * counted
