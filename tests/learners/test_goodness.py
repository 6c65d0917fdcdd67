"""The number that says how well a mixture fits: small at the truth, large at what is not."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.errors import InvalidInput
from privgmm.learners.em import EM
from privgmm.learners.moments.goodness import goodness_of_fit
from privgmm.mixture import Mixture
from tests.learners.learner_contract import asymmetric_mixture


@pytest.mark.parametrize(("k", "d", "n"), [(2, 1, 500), (2, 2, 3000), (3, 5, 10_000)])
def test_the_truth_and_its_fit_pass(k: int, d: int, n: int) -> None:
    truth = asymmetric_mixture(k, d, separation=4.0)
    worst = [goodness_of_fit(truth.sample(n, rng=seed), truth) for seed in range(10)]
    # the largest of up to nine directions: its own tail allows one of ten a little more
    assert np.median(worst) < 2
    rows = truth.sample(n, rng=11)
    assert goodness_of_fit(rows, EM(k).fit(rows, rng=0)) < 2


def test_wrong_numbers_of_components_heavy_tails_and_outliers_do_not() -> None:
    truth = asymmetric_mixture(3, 2, separation=4.0)
    rows = truth.sample(10_000, rng=0)
    assert goodness_of_fit(rows, EM(2).fit(rows, rng=0)) > 3
    heavy = np.random.default_rng(0).standard_t(3, (10_000, 2))
    one = Mixture([1.0], heavy.mean(axis=0)[None], np.cov(heavy.T)[None])
    assert goodness_of_fit(heavy, one) > 3
    shifted = Mixture(truth.weights, truth.means + 0.5, truth.covariances)
    assert goodness_of_fit(rows, shifted) > 3


def test_units_do_not_matter() -> None:
    truth = asymmetric_mixture(2, 3, separation=3.0)
    rows = truth.sample(2000, rng=1)
    matrix = np.array([[1e-3, 0.0, 0.0], [5.0, 2.0, 0.0], [1e3, 1.0, 1e4]])
    moved = truth.transformed(matrix, np.ones(3))
    assert goodness_of_fit(rows @ matrix.T + 1.0, moved) == pytest.approx(
        goodness_of_fit(rows, truth), rel=1e-3
    )


def test_rows_without_full_rank_are_refused() -> None:
    truth = asymmetric_mixture(2, 2)
    with pytest.raises(InvalidInput, match="full rank"):
        goodness_of_fit(np.ones((50, 2)), truth)
    with pytest.raises(InvalidInput, match="more than"):
        goodness_of_fit(np.eye(2), truth)
