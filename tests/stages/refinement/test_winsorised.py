"""Winsorised moments: exact integers, a sensitivity that is reached and never passed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.arrays import Array, IntArray
from privgmm.data.people import ArrayPeople, one_person
from privgmm.mixture import Mixture
from privgmm.privacy.noise import noise_source
from privgmm.stages.refinement.noisy_moments import winsorised_features
from privgmm.stages.refinement.winsorised import (
    WinsorisedMoments,
    noisy_moments_of,
    variance_kept,
    winsorised_sums,
)

PUBLIC = Mixture(
    [0.3, 0.7], [[-2.0, 0.0], [2.0, 1.0]], [[[1.0, 0.3], [0.3, 0.5]], [[2.0, -0.4], [-0.4, 1.0]]]
)
MOMENTS = WinsorisedMoments(2.5)


def sums_of(rows: Array, member: IntArray | None = None) -> tuple[IntArray, float]:
    return winsorised_sums(ArrayPeople.of(rows, member), PUBLIC, MOMENTS)


def test_the_sums_are_those_of_the_features() -> None:
    """Sums agree with the plain formula, which the solver uses too."""
    rows = PUBLIC.sample(3_000, rng=1) * 1.5
    sums, unit = sums_of(rows)
    seen, _ = winsorised_features(rows, PUBLIC, MOMENTS.radius)
    plain = seen.sum(axis=0)
    assert np.allclose(sums / unit * MOMENTS.units(2), plain, atol=3_000 * 8 / unit)


def test_the_same_integers_for_any_order_and_number_of_threads() -> None:
    rows = PUBLIC.sample(90_000, rng=2)
    sums, unit = sums_of(rows)
    shuffled, _ = sums_of(rows[np.random.default_rng(0).permutation(len(rows))])
    parts = [
        winsorised_sums(ArrayPeople.of(part), PUBLIC, MOMENTS) for part in np.array_split(rows, 7)
    ]
    assert np.array_equal(sums, shuffled)
    # the unit follows from n: parts are finer by a power of two, and as exact
    coarse = sum(np.asarray(part) / u for part, u in parts)
    assert np.allclose(sums / unit, coarse, atol=90_000 / unit)


def contribution(person: Array) -> Array:
    """Return what one person gives, as a vector of integers over the unit."""
    sums, unit = winsorised_sums(one_person(person), PUBLIC, MOMENTS)
    return np.asarray(sums.ravel() / unit)


def test_no_pair_of_persons_moves_the_sums_farther_than_priced() -> None:
    rng = np.random.default_rng(3)
    limit = MOMENTS.sensitivity * (1 + 1e-9) + math.sqrt(12) / 2.0**30
    worst = 0.0
    far = np.array([[1e12, -1e12], [1e200, 0.0], [1e308, 1e308], [0.0, 0.0], [-1e5, 3.0]])
    for _ in range(3_000):
        pair = []
        for _ in range(2):
            size = int(rng.integers(1, 4))
            rows = rng.standard_normal((size, 2)) * 10.0 ** rng.uniform(-2, 3)
            if rng.random() < 0.2:
                rows[0] = far[rng.integers(len(far))]
            pair.append(contribution(rows))
        worst = max(worst, float(np.linalg.norm(pair[0] - pair[1])))
    assert worst <= limit


def test_the_priced_move_is_attained() -> None:
    """Rows of different components, both on the rim: their contributions are orthogonal."""
    apart = Mixture([0.5, 0.5], [[-50.0, 0.0], [50.0, 0.0]], [np.eye(2), np.eye(2)])
    given = []
    for mean in apart.means:
        row = (mean + np.array([0.0, MOMENTS.radius]))[None]
        sums, unit = winsorised_sums(ArrayPeople.of(row), apart, MOMENTS)
        given.append(sums.ravel() / unit)
    assert np.linalg.norm(given[0] - given[1]) == pytest.approx(MOMENTS.sensitivity, rel=1e-6)


def test_a_persons_many_rows_weigh_as_much_as_one() -> None:
    row = np.array([[1.0, 2.0]])
    assert np.allclose(contribution(row), contribution(np.repeat(row, 50, axis=0)), atol=1e-8)


@pytest.mark.parametrize("rng", [None, 4])
def test_the_noise_is_that_of_its_price(rng: int | None) -> None:
    rows = PUBLIC.sample(50, rng=5)
    people = ArrayPeople.of(rows)
    source = noise_source(rng)
    exact = noisy_moments_of(people, PUBLIC, MOMENTS, 1e-9, source)
    draws = np.stack(
        [noisy_moments_of(people, PUBLIC, MOMENTS, 3.0, source) - exact for _ in range(400)]
    )
    units = draws / MOMENTS.deviations(3.0, 2)
    n = units.size
    assert units.mean() == pytest.approx(0, abs=4 / math.sqrt(n))
    assert units.var() == pytest.approx(1, abs=4 * math.sqrt(2 / n))


def test_winsorising_shrinks_variances_by_the_stated_factor() -> None:
    u = np.random.default_rng(6).standard_normal((200_000, 3))
    length = np.linalg.norm(u, axis=1)
    v = u * np.minimum(1, 2.0 / length)[:, None]
    assert np.mean(v**2) == pytest.approx(variance_kept(2.0, 3), abs=4 * np.std(v**2) / 700)
