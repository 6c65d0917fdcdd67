"""Random pairs are what they say: Delta as drawn, the exact TV, and in the kinds asked for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from privgmm.distances.bounds import LOWER, PREMISE, UPPER
from privgmm.distances.gaussian_pairs import NEAREST, PAIR_KINDS, WIDEST, random_pairs
from privgmm.errors import InvalidInput


@pytest.mark.parametrize("kind", PAIR_KINDS)
@pytest.mark.parametrize("d", [1, 3])
def test_kinds_differ_in_what_they_name(kind: str, d: int) -> None:
    cloud = random_pairs(60, d, kind, rng=1)
    assert len(cloud) == 60
    shift = np.linalg.norm(cloud.means, axis=1)
    stretch = np.linalg.norm(cloud.eigenvalues - 1, axis=1)
    assert (shift > 0).all() == (kind != "covariance")
    assert (stretch > 0).all() == (kind != "mean")
    assert cloud.delta == pytest.approx(np.maximum(shift, stretch), rel=1e-10)
    assert (cloud.eigenvalues > 0).all()


def test_equal_covariances_have_the_known_total_variation() -> None:
    cloud = random_pairs(80, 4, "mean", rng=2)
    assert cloud.tv == pytest.approx(2 * ndtr(cloud.delta / 2) - 1, rel=1e-11)


def test_the_cloud_spans_the_scale_and_obeys_the_theorem() -> None:
    cloud = random_pairs(400, 2, "both", rng=3)
    assert cloud.delta.min() < 10 * NEAREST
    assert cloud.delta.max() > WIDEST / 5
    near = cloud.tv < PREMISE
    assert 40 < near.sum() < 360
    assert (cloud.tv[near] >= LOWER * cloud.delta[near]).all()
    assert (cloud.tv[near] <= UPPER * cloud.delta[near]).all()


def test_the_seed_decides() -> None:
    one, same, other = (random_pairs(20, 2, "both", rng=seed) for seed in (1, 1, 2))
    assert one.tv.tolist() == same.tv.tolist()
    assert one.tv.tolist() != other.tv.tolist()


def test_the_plane_shows_the_coordinates_that_differ_most() -> None:
    cloud = random_pairs(10, 5, "mean", rng=1)
    mean, cov = cloud.pair(3).plane()
    largest = np.sort(np.abs(cloud.means[3]))[::-1][:2]
    assert np.abs(mean) == pytest.approx(largest)
    assert cov.tolist() == np.eye(2).tolist()
    mean, cov = random_pairs(4, 1, "both", rng=1).pair(0).plane()
    assert mean.shape == (2,)
    assert cov[0, 1] == 0


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="kind must be one of"):
        random_pairs(3, 2, "weights", rng=1)
    with pytest.raises(InvalidInput, match="at least 1"):
        random_pairs(0, 2, "mean", rng=1)
