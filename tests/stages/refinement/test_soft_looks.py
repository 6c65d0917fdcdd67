"""Looks sum exactly; replacing a row or person moves them by no more than the noise covers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.data.people import ArrayPeople
from privgmm.mixture import Mixture
from privgmm.privacy.noise import noise_source
from privgmm.stages.refinement.soft_looks import (
    SoftLook,
    Units,
    look_row_sums,
    look_sums,
    noisy_look,
)

PUBLIC = Mixture(
    [0.3, 0.7], [[-1.0, 0, 0], [1.5, 0.5, 0]], np.stack([np.eye(3), np.diag([2.0, 1.0, 0.5])])
)
UNITS = Units(np.array([1.0, -2.0, 1e6]), np.array([1.0, 3.0, 1e3]))
SHAPE = np.eye(3) + 0.2 * np.tri(3)


def _rows(n: int) -> Array:
    z = PUBLIC.sample(n, rng=0)
    return np.asarray(UNITS.centre + UNITS.scale * z, dtype=np.float64)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("softness", [0.0, 2.0])
def test_a_look_shows_the_mean_contributions_of_rows(tied: bool, softness: float) -> None:
    """A second computation, row by row in floating point, agrees to within the rounding."""
    n, look = 500, SoftLook(softness, 1e-9, tied=tied)
    people = ArrayPeople.of(_rows(n))
    shape = SHAPE if tied else None
    seen = noisy_look(people, UNITS, PUBLIC, look, noise_source(0), shape)
    z = (_rows(n) - UNITS.centre) / UNITS.scale
    joint = np.exp(PUBLIC.log_joint(z))
    shares = joint / joint.sum(axis=1, keepdims=True)
    psi, second = np.zeros(2), np.zeros((2, 3, 3))
    for a in range(2):
        root = SHAPE if tied else PUBLIC.cholesky[a]
        u = np.linalg.solve(root, (z - PUBLIC.means[a]).T).T
        squares = (u**2).sum(axis=1)
        v = u / np.sqrt(softness + squares)[:, None]
        psi[a] = shares[:, a] @ np.exp(-squares / 3) / n
        second[a] = (v * shares[:, a, None]).T @ v / n
        assert np.abs(seen.first[a] - shares[:, a] @ v / n).max() < 1e-4
    if tied:
        psi, second = psi.sum(keepdims=True), second.sum(axis=0, keepdims=True)
    assert np.abs(seen.shares - shares.mean(axis=0)).max() < 1e-4
    assert np.abs(seen.psi - psi).max() < 1e-4
    assert np.abs(seen.second - second).max() < 1e-4


def test_sums_do_not_depend_on_chunks_threads_or_copies_of_a_persons_rows() -> None:
    rows, look = _rows(3_000), SoftLook(0.5, 1.0)
    whole = look_sums(ArrayPeople.of(rows), UNITS, PUBLIC, look)
    for people in (
        ArrayPeople.of(rows[::-1].copy(), chunk=70, threads=3),
        ArrayPeople.of(np.repeat(rows, 3, axis=0), np.repeat(np.arange(len(rows)), 3)),
    ):
        assert np.array_equal(look_sums(people, UNITS, PUBLIC, look), whole)


def test_rows_too_far_to_compute_with_count_for_nothing() -> None:
    look, far = SoftLook(0.0, 1.0), np.full((1, 3), 1e300)
    rows = _rows(50)
    near = look_sums(ArrayPeople.of(rows), UNITS, PUBLIC, look)
    both = look_sums(ArrayPeople.of(np.concatenate([rows, far])), UNITS, PUBLIC, look)
    assert np.array_equal(near, both)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("d", "softness"), [(1, 0.0), (2, 1.0), (12, 0.0)])
def test_no_pair_of_rows_or_persons_moves_sums_farther_than_is_covered(
    d: int, softness: float, tied: bool
) -> None:
    sums = look_row_sums(SoftLook(softness, 1.0, tied=tied), d)
    rng = np.random.default_rng(d)
    moves = [sums.move(pair) for pair in sums.starts]
    scales = 10 ** rng.uniform(-1, 4, 60)
    moves += [sums.move(scale * rng.standard_normal((2, d))) for scale in scales]
    assert sums.persons is not None
    moves += [
        sums.persons(50 * rng.standard_normal((m, d)), 50 * rng.standard_normal((2, d)))
        for m in (1, 2, 9)
    ]
    assert max(moves) <= 1
    # and the bound is nearly attained: it is no larger than it must be; one column has fewer ways
    assert max(moves) > (0.9 if d > 1 else 0.7)


def test_noise_is_stated_as_it_is_drawn() -> None:
    """Over many looks at the same rows, numbers scatter by the deviations that are stated."""
    people, look, draws = ArrayPeople.of(_rows(40)), SoftLook(0.0, 3.0), 300
    source = noise_source(5)
    seen = [noisy_look(people, UNITS, PUBLIC, look, source) for _ in range(draws)]
    noise = look.noise(40, 2, 3)
    upper = np.triu_indices(3, 1)
    for stated, numbers in (
        (noise.share, [one.shares for one in seen]),
        (noise.psi, [one.psi for one in seen]),
        (noise.first, [one.first for one in seen]),
        (noise.second, [np.diagonal(one.second, axis1=1, axis2=2) for one in seen]),
        (noise.second, [math.sqrt(2) * one.second[:, upper[0], upper[1]] for one in seen]),
    ):
        spread = np.std(np.stack(numbers), axis=0)
        ratio = math.sqrt(float((spread**2).mean())) / stated
        assert abs(ratio - 1) < 4 / math.sqrt(2 * draws * spread.size)


@pytest.mark.parametrize("tied", [False, True])
def test_rows_whose_squares_underflow_do_not_count_for_more(tied: bool) -> None:
    """Each square but one is rounded to nothing: from what is left v would be 2.5 long."""
    near = np.full(12, 1.57e-162)
    near[0] = 1.6e-162
    sums = look_row_sums(SoftLook(0.0, 1.0, tied=tied), 12)
    far = 1e3 * np.ones(12)
    for other in (-near, np.zeros(12), far, -1e-140 * far):
        assert sums.move(np.stack([near, other])) <= 1
