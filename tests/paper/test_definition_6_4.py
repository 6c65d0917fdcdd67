"""Definition 6.4: when a mixture is gamma-statistically learnable.

(i) Every weight is at least gamma, and (ii) every two components are at total variation at least
gamma from each other.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from privgmm.data.generators import random_mixture
from privgmm.distances.learnable import learnable
from privgmm.distances.parameters import dist_gmm
from privgmm.learners.em import EM
from privgmm.mixture import Mixture


def variation(mixture: Mixture, i: int, j: int) -> float:
    """``½ ∫ |f_i - f_j|`` on the line, by a fine sum."""
    laws = [stats.norm(mixture.means[a, 0], mixture.cholesky[a, 0, 0]) for a in (i, j)]
    low = min(law.ppf(1e-14) for law in laws)
    high = max(law.isf(1e-14) for law in laws)
    grid = np.linspace(low, high, 200_001)
    return float(0.5 * integrate.trapezoid(np.abs(laws[0].pdf(grid) - laws[1].pdf(grid)), grid))


def clauses(mixture: Mixture, gamma: float) -> bool:
    """The definition, word by word."""
    k = mixture.n_components
    return all(w >= gamma for w in mixture.weights) and all(
        variation(mixture, i, j) >= gamma for i in range(k) for j in range(k) if i < j
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_definition_word_by_word(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mixture = Mixture(
        rng.dirichlet([3.0, 3.0, 3.0]), 2 * rng.normal(size=(3, 1)), rng.gamma(3, size=(3, 1, 1))
    )
    found = learnable(mixture)
    for factor in (0.5, 0.999, 1.001, 2.0):
        gamma = factor * found.gamma
        assert found.holds(gamma) == clauses(mixture, gamma) == (factor < 1)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_gamma_is_the_largest_that_holds(d: int) -> None:
    found = learnable(random_mixture(3, d, rng=d))
    assert found.holds(found.gamma)
    assert not found.holds(np.nextafter(found.gamma, 1.0))
    # smaller is easier
    assert found.holds(found.gamma / 2)


def test_clause_one_alone_and_clause_two_alone_can_fail() -> None:
    rare = Mixture([0.01, 0.99], [[0.0], [50.0]], [[[1.0]], [[1.0]]])
    near = Mixture([0.5, 0.5], [[0.0], [0.01]], [[[1.0]], [[1.0]]])
    assert learnable(rare).smallest_variation > 0.1 > learnable(rare).smallest_weight
    assert learnable(near).smallest_weight > 0.1 > learnable(near).smallest_variation
    assert not learnable(rare).holds(0.1)
    assert not learnable(near).holds(0.1)


def test_no_separation_of_means_is_asked_for() -> None:
    """Components may share their mean: only their laws must differ."""
    crossed = Mixture([0.5, 0.5], [[1.0, 2.0]] * 2, [np.diag([25.0, 0.1]), np.eye(2)])
    assert learnable(crossed).gamma == 0.5


def test_the_less_learnable_the_more_rows_it_takes() -> None:
    """The use of the definition: at equal rows, errors grow as gamma shrinks."""
    errors, gammas = [], []
    for gap in (6.0, 3.0, 1.5):
        truth = Mixture([0.5, 0.5], [[0.0], [gap]], [[[1.0]], [[1.0]]])
        fits = EM(2, n_threads=1).fit_blocks(truth.sample(20_000, rng=1).reshape(40, 500, 1), rng=2)
        errors.append(np.median([dist_gmm(fits[i], truth) for i in range(40) if fits.ok[i]]))
        gammas.append(min(learnable(truth).smallest_variation, 1.0))
    assert gammas == sorted(gammas, reverse=True)
    assert errors[0] < errors[1] / 1.5 < errors[2] / 3
