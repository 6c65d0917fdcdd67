"""Sums of a row's powers: no replaced row moves them by more than stated, found by search."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.baselines.dp_em import DPEM, posteriors
from privgmm.baselines.dp_kmeans import DPKMeans, nearest_centre
from privgmm.baselines.labelled import LabelledOracle
from privgmm.baselines.moment_sums import GroupSums
from privgmm.data.generators import random_mixture
from privgmm.errors import InvalidInput

Shares = Callable[[Array], Array]

SUMS = {
    "em": DPEM.sums,
    "centres": DPKMeans.centre_sums,
    "clusters": DPKMeans.sums,
    "labelled": LabelledOracle.sums,
}


def in_ball(points: Array) -> Array:
    length = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points / np.maximum(length, 1.0))


def posterior_shares(d: int) -> Shares:
    public = random_mixture(3, d, separation=3.0, rng=d).transformed(np.eye(d) / 6, np.zeros(d))
    return lambda points: posteriors(points, public)


def nearest_shares(d: int) -> Shares:
    centres = in_ball(np.random.default_rng(d).standard_normal((3, d)))
    return lambda points: nearest_centre(points, centres)


def one_group(_d: int) -> Shares:
    return lambda points: np.ones((len(points), 1))


def worst_move(sums: GroupSums, shares: Shares, d: int, tries: int = 600) -> float:
    """The farthest that one row was found to move the sums, over what the noise covers."""
    rng = np.random.default_rng(17)
    others = in_ball(rng.standard_normal((4, d)))

    def move(pair: Array) -> float:
        totals = []
        for row in in_ball(pair):
            points = np.concatenate([others, row[None]])
            total, unit = sums.of(points, shares(points))
            totals.append(total)
        return float(np.linalg.norm(totals[0] - totals[1])) / sums.covered(unit, totals[0].size)

    edge = np.eye(d)[0]
    starts = [np.stack([edge, -edge]), *(3 * rng.standard_normal((60, 2, d)))]
    best = max(starts, key=move)
    value, width = move(best), 0.5
    for _ in range(tries):
        trial = best + width * rng.standard_normal((2, d))
        if (found := move(trial)) > value:
            best, value = trial, found
        else:
            width = max(0.98 * width, 1e-4)
    return value


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("shares", [posterior_shares, nearest_shares, one_group])
@pytest.mark.parametrize("sums", SUMS.values(), ids=SUMS.keys())
def test_no_row_moves_the_sums_farther_than_the_noise_covers(
    sums: GroupSums, shares: Callable[[int], Shares], d: int
) -> None:
    found = worst_move(sums, shares(d), d)
    assert found <= 1 + 1e-12
    if shares is nearest_shares:
        # rows of two clusters reach what is stated: it is not too large either
        assert found > 0.99


@dataclasses.dataclass(frozen=True)
class _ForAddedRows(GroupSums):
    """Broken: the sensitivity of adding or removing a row."""

    @property
    def sensitivity(self) -> float:
        return math.hypot(*self.scales)


@dataclasses.dataclass(frozen=True)
class _Obtuse(GroupSums):
    """Broken: scales under which contributions may point away from each other."""

    def __post_init__(self) -> None:
        pass


@pytest.mark.parametrize(
    ("broken", "shares"),
    [
        (_ForAddedRows(DPEM.sums.scales), nearest_shares),
        (_ForAddedRows(DPKMeans.centre_sums.scales), nearest_shares),
        (_Obtuse((0.3, 1.0)), one_group),
        (_Obtuse((0.1, 1.0, 0.5)), one_group),
    ],
)
def test_the_search_finds_broken_sensitivities(
    broken: GroupSums, shares: Callable[[int], Shares]
) -> None:
    assert worst_move(broken, shares(2), 2) > 1.01


@pytest.mark.parametrize("scales", [(0.3, 1.0), (0.1, 1.0, 0.5), (0.5, 0.5, 2.0), (1.0,), (0.0, 1)])
def test_scales_that_break_the_proof_are_refused(scales: tuple[float, ...]) -> None:
    with pytest.raises(InvalidInput):
        GroupSums(scales)


@pytest.mark.parametrize("sums", SUMS.values(), ids=SUMS.keys())
def test_rows_add_up_one_by_one_to_the_last_unit(sums: GroupSums) -> None:
    """Also where rows are summed in several chunks: a row changes nothing but its own part."""
    n, d = 70_000, 2
    points = in_ball(np.random.default_rng(3).standard_normal((n, d)))
    shares = nearest_shares(d)(points)
    whole, unit = sums.of(points, shares)
    other = points.copy()
    other[68_000] = -other[68_000]
    changed, _ = sums.of(other, shares)
    alone = [
        np.rint(unit * shares[68_000][:, None] * sums._powers(rows[[68_000]]))
        for rows in (points, other)
    ]
    np.testing.assert_array_equal(changed - whole, (alone[1] - alone[0]).astype(np.int64))
    np.testing.assert_array_equal(whole, sums.of(points[::-1], shares[::-1])[0])


def test_without_noise_moments_come_back() -> None:
    rng = np.random.default_rng(4)
    points, shares = in_ball(rng.standard_normal((500, 3))), rng.dirichlet(np.ones(2), 500)
    sums, unit = DPEM.sums.of(points, shares)
    read = DPEM.sums._read(sums / unit, 3, 0.0)
    np.testing.assert_allclose(read.counts, shares.sum(axis=0), rtol=1e-6)
    np.testing.assert_allclose(read.firsts, shares.T @ points, atol=1e-4)
    assert read.seconds is not None
    seconds = np.einsum("nk,ni,nj->kij", shares, points, points)
    np.testing.assert_allclose(read.seconds, seconds, atol=1e-4)
