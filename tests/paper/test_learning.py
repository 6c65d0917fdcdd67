"""Theorem 1.1, Definition 6.1 and Theorem 6.5: learners, without privacy and with."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.distances.learnable import learnable
from privgmm.distances.parameters import dist_gmm
from privgmm.learners.em import EM
from privgmm.learners.moments import Moments
from privgmm.methods.planner import calibrate
from privgmm.mixture import Mixture
from privgmm.stages.agreement.stage import Agreement

TRUTH = Mixture(
    [0.4, 0.6],
    [[1e4, -2.0], [1e4 + 6.0, 3.0]],
    [[[2.0, 0.5], [0.5, 1.0]], [[1.0, -0.3], [-0.3, 2.0]]],
)


def errors(learner: EM | Moments, n: int, runs: int) -> list[float]:
    """``dist_GMM`` to the truth of fits to `runs` independent samples of n rows."""
    blocks = np.stack([TRUTH.sample(n, rng=seed) for seed in range(runs)])
    found = learner.fit_blocks(blocks, rng=0)
    assert found.ok.all()
    return [dist_gmm(TRUTH, found[i]) for i in range(runs)]


def test_definition_6_1_em_learns_parameters_with_enough_rows() -> None:
    """Within alpha in 1 - beta of the runs with m rows, and not with a twentieth of them."""
    alpha, beta, runs, m = 0.1, 0.1, 60, 2_000
    misses = {n: float(np.mean(np.array(errors(EM(2), n, runs)) >= alpha)) for n in (m, m // 20)}
    assert misses[m] <= beta
    assert misses[m // 20] > 0.5


def test_theorem_6_5_moments_learn_what_is_learnable_at_a_polynomial_price() -> None:
    """The truth is alpha-learnable, the fit within alpha; four times the rows halve the error."""
    alpha, beta, runs = 0.1, 0.1, 16
    assert learnable(TRUTH).holds(alpha)
    medians = []
    for n in (500, 2_000, 8_000):
        found = np.array(errors(Moments(2), n, runs))
        medians.append(float(np.median(found)))
        if n >= 2_000:
            assert np.mean(found > alpha) <= beta
    slope = math.log(medians[0] / medians[-1]) / math.log(16)
    assert 0.3 < slope < 0.8


@pytest.mark.parametrize("dimension", ["d", "k"])
def test_theorem_1_1_privacy_adds_a_polynomial_overhead(dimension: str) -> None:
    """Rows by the paper's constants: doubling d or k costs a factor that does not grow."""
    sizes = (2, 4, 8, 16, 32)
    rows = []
    for size in sizes:
        k, d = (2, size) if dimension == "d" else (size, 2)
        plan = calibrate("paper", epsilon=1.0, delta=1e-6, alpha=0.5, n_components=k, n_features=d)
        # gamma is how near the fits of blocks must be; rows go with its inverse square
        rows.append(plan.stage(Agreement).n_blocks / plan.stage(Agreement).gamma ** 2)
    exponents = np.diff(np.log2(rows))
    assert (exponents > 0).all()
    assert exponents.max() < 5
    assert exponents[-1] < exponents.max() + 0.1
