"""The nearest mixture of few components: that of maximum likelihood on endless rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from privgmm.covariance_structures import structure_names
from privgmm.distances.parameters import dist_gmm
from privgmm.mixture import Mixture
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.nearest import nearest_mixture
from privgmm.stages.sketch.structures import FULL, structure_of

FRAME = Frame([5.0, -1.0], [[3.0, 0.0], [0.6, 0.5]])
RICH = Mixture(
    [0.25, 0.15, 0.3, 0.3],
    [[-1.2, 0.1], [-0.6, 0.5], [0.7, -0.2], [1.3, 0.3]],
    [
        [[0.1, 0.0], [0.0, 0.1]],
        [[0.2, 0.0], [0.0, 0.2]],
        [[0.2, 0.05], [0.05, 0.1]],
        [[0.1, -0.04], [-0.04, 0.3]],
    ],
)
"""In frame coordinates."""


def test_one_component_has_the_moments_of_all() -> None:
    mean = RICH.weights @ RICH.means
    gaps = RICH.means - mean
    spread = RICH.covariances + gaps[:, :, None] * gaps[:, None, :]
    found = nearest_mixture(RICH, 1, FULL)
    assert found.means[0] == pytest.approx(mean, abs=1e-9)
    assert found.covariances[0] == pytest.approx(np.einsum("k,kij->ij", RICH.weights, spread))


def test_as_many_components_are_the_mixture_itself() -> None:
    assert dist_gmm(nearest_mixture(RICH, 4, FULL), RICH) < 0.01


def test_more_components_than_there_are_do_not_hurt() -> None:
    pair = RICH.marginal([0, 1])
    found = nearest_mixture(pair, 6, FULL)
    rows = RICH.sample(2_000, rng=1)
    assert found.log_density(rows).mean() > RICH.log_density(rows).mean() - 0.02


@pytest.mark.parametrize("covariance_type", structure_names())
def test_it_is_what_scikit_learn_finds_in_many_rows(covariance_type: Any) -> None:
    """In data units, where the covariance type is meant."""
    rows = FRAME.mixture_from_frame(RICH).sample(60_000, rng=2)
    found = FRAME.mixture_from_frame(nearest_mixture(RICH, 2, structure_of(covariance_type, FRAME)))
    theirs = GaussianMixture(2, covariance_type=covariance_type, random_state=0, tol=1e-6).fit(rows)
    assert found.log_density(rows).mean() > theirs.score(rows) - 0.003
