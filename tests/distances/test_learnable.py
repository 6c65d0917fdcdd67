"""Learnability as a value: what it measures, what moves it and what it says."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

from privgmm.data.generators import random_mixture
from privgmm.distances.learnable import Learnability, learnable
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture


def line(weights: list[float], means: list[float], deviations: list[float]) -> Mixture:
    return Mixture(weights, np.array(means)[:, None], np.array(deviations)[:, None, None] ** 2)


def test_equal_spreads_have_a_closed_form() -> None:
    found = learnable(line([0.2, 0.3, 0.5], [0.0, 1.5, 4.0], [2.0, 2.0, 2.0]))
    assert found.smallest_variation == pytest.approx(2 * stats.norm.cdf(1.5 / 4) - 1, rel=1e-12)
    assert found.closest == (0, 1)
    assert (found.smallest_weight, found.rarest) == (0.2, 0)
    assert found.gamma == 0.2


@pytest.mark.parametrize("seed", range(6))
def test_the_order_and_the_units_have_no_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mixture = random_mixture(4, 3, weights=[0.1, 0.2, 0.3, 0.4], rng=rng)
    found = learnable(mixture)
    order = rng.permutation(4)
    moved = mixture.permuted(order).transformed(
        np.eye(3) + rng.normal(size=(3, 3)), 1e3 * rng.normal(size=3)
    )
    again = learnable(moved)
    assert again.gamma == pytest.approx(found.gamma, rel=1e-8)
    assert again.smallest_variation == pytest.approx(found.smallest_variation, rel=1e-8)
    assert found.closest is not None
    assert again.closest is not None
    assert {int(order[i]) for i in again.closest} == set(found.closest)
    assert int(order[again.rarest]) == found.rarest


def test_a_component_split_in_two_equal_halves_is_not_learnable() -> None:
    found = learnable(line([0.25, 0.25, 0.5], [1.0, 1.0, 9.0], [1.0, 1.0, 1.0]))
    assert found.gamma == 0.0
    assert found.closest == (0, 1)
    assert "nearly coincide" in found.explain()


def test_one_component_is_limited_by_nothing_else() -> None:
    found = learnable(line([1.0], [3.0], [2.0]))
    assert (found.gamma, found.closest) == (1.0, None)
    assert found.holds(1.0)
    assert "single" in found.explain()


def test_the_words_name_what_limits() -> None:
    rare = learnable(line([0.05, 0.95], [0.0, 9.0], [1.0, 1.0])).explain()
    assert "component 1 is the rarest, with weight 0.05" in rare
    near = learnable(line([0.5, 0.5], [0.0, 0.1], [1.0, 1.0])).explain()
    assert "components 1 and 2 nearly coincide" in near
    many = learnable(line([0.25, 0.75], [0.0, 9.0], [1.0, 1.0]))
    assert "0.25" in many.explain()


@pytest.mark.parametrize("gamma", [0.0, -1.0, 1.5, np.nan])
def test_gamma_is_a_share(gamma: float) -> None:
    with pytest.raises(InvalidInput, match="gamma"):
        learnable(line([1.0], [0.0], [1.0])).holds(gamma)


def test_it_is_a_frozen_value() -> None:
    found = learnable(line([0.5, 0.5], [0.0, 3.0], [1.0, 1.0]))
    assert found == learnable(line([0.5, 0.5], [0.0, 3.0], [1.0, 1.0]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.rarest = 1  # type: ignore[misc]  # the point of the test
    assert isinstance(found, Learnability)
