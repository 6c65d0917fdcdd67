"""Friend counts, the h-index, its sensitivity, and the exact test."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from privgmm.arrays import Array, BoolArray, IntArray
from privgmm.errors import InvalidInput
from privgmm.privacy.noise import DiscreteGaussian, SeededNoise
from privgmm.stages.agreement.votes import AgreementTest, friend_counts, h_index


def brute_h_index(counts: list[int], full: int, core: int) -> int:
    feasible = [
        h for h in range(len(counts) + 1) if sum(count >= full + h for count in counts) >= core + h
    ]
    return max(feasible, default=-1)


def as_distances(friends: BoolArray) -> Array:
    return np.where(friends, 0.5, np.inf)


def random_friends(rng: np.random.Generator, t: int) -> BoolArray:
    """Draw a symmetric friend graph of any density; some blocks have no fit and no friends."""
    upper = np.triu(rng.random((t, t)) < rng.choice([0.3, 0.6, 0.8, 0.95, 1.0]), 1)
    exists = rng.random(t) < 0.9
    friends = upper | upper.T | np.eye(t, dtype=bool)
    return np.asarray(friends & exists[:, None] & exists, dtype=np.bool_)


def with_block_replaced(friends: BoolArray, block: int, row: BoolArray) -> BoolArray:
    """Replace the friends of `block` by `row`; a False at its own place removes the fit."""
    other = friends.copy()
    exists = friends.diagonal().copy()
    new = row & exists if row[block] else np.zeros_like(row)
    new[block] = row[block]
    other[block], other[:, block] = new, new
    return other


def counts_of(friends: BoolArray) -> IntArray:
    return friend_counts(as_distances(friends), 1.0)


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=12),
    st.integers(0, 12),
    st.integers(1, 12),
)
def test_h_index_is_its_definition(counts: list[int], full: int, core: int) -> None:
    core = min(core, len(counts))
    assert h_index(np.array(counts), full, core) == brute_h_index(counts, full, core)


def test_friends_are_counted_with_oneself_and_without_failed_fits() -> None:
    distances = np.array([[0.0, 0.2, np.inf], [0.2, 0.0, np.inf], [np.inf] * 3])
    assert friend_counts(distances, 0.2).tolist() == [2, 2, 0]
    assert friend_counts(distances, 0.1).tolist() == [1, 1, 0]


@given(st.integers(0, 10**6), st.integers(5, 14))
def test_replacing_one_block_moves_h_by_at_most_one(seed: int, t: int) -> None:
    rng = np.random.default_rng(seed)
    friends = random_friends(rng, t)
    block = int(rng.integers(t))
    other = with_block_replaced(friends, block, rng.random(t) < rng.choice([0.0, 0.5, 1.0]))
    for full in range(1, t + 1):
        for core in (1, 2, t // 2, t):
            first = h_index(counts_of(friends), full, core)
            second = h_index(counts_of(other), full, core)
            assert abs(first - second) <= 1


def test_a_greedy_adversary_attains_a_change_of_one_and_no_more() -> None:
    """Hill climbing over graphs and over the replaced block's new friends."""
    t, full, core = 11, 7, 2
    worst = 0
    for start in range(6):
        rng = np.random.default_rng(start)
        friends = random_friends(rng, t)
        row = rng.random(t) < 0.5
        best = -1.0
        for _ in range(400):
            i, j = rng.integers(t, size=2)
            trial, line = friends.copy(), row.copy()
            if rng.random() < 0.5:
                trial[i, j] = trial[j, i] = not trial[i, j] or i == j
                alive = trial.diagonal()
                trial &= alive[:, None] & alive
            else:
                line[j] = not line[j]
            one, two = counts_of(trial), counts_of(with_block_replaced(trial, 0, line))
            change = abs(h_index(one, full, core) - h_index(two, full, core))
            # climb on the counts too, so that the search has a slope
            score = change + 1e-3 * float(np.abs(np.sort(one) - np.sort(two)).sum())
            if score >= best:
                best, friends, row = score, trial, line
                worst = max(worst, change)
    assert worst == 1


def test_little_weight_moves_when_one_block_is_replaced() -> None:
    """With h >= 0 on both sides the normalised weights differ by at most (1 + (t-G)/L)/G."""
    rng = np.random.default_rng(12)
    met, nearest = 0, 0.0
    for _ in range(4_000):
        t = int(rng.integers(6, 16))
        member = int(rng.integers(math.ceil(t / 2) + 1, t + 1))
        full = int(rng.integers(member, t + 1))
        test = AgreementTest(t, 1.0, 1.0, 1, member, full, int(rng.integers(1, t + 1)))
        friends = random_friends(rng, t)
        other = with_block_replaced(friends, 0, rng.random(t) < rng.random())
        pair = counts_of(friends), counts_of(other)
        if min(h_index(counts, test.full, test.core) for counts in pair) < 0:
            continue
        met += 1
        one, two = (test.ramp_weights(counts) for counts in pair)
        moved = float(np.maximum(one / one.sum() - two / two.sum(), 0).sum())
        bound = (1 + (t - test.core) / test.ramp) / test.core
        assert moved <= bound + 1e-12
        nearest = max(nearest, moved / bound)
    assert met > 500
    assert nearest > 0.5


def test_members_of_two_neighbours_share_an_unchanged_friend() -> None:
    """At least ceil(t/2) + 1 friends each: two in common, one of them not the changed block."""
    rng = np.random.default_rng(2)
    met = 0
    for _ in range(3_000):
        t = int(rng.integers(5, 12))
        member = math.ceil(t / 2) + 1
        friends = random_friends(rng, t)
        other = with_block_replaced(friends, 0, rng.random(t) < 0.8)
        for i in np.flatnonzero(counts_of(friends) >= member):
            for j in np.flatnonzero(counts_of(other) >= member):
                met += 1
                assert (friends[i, 1:] & other[j, 1:]).any()
    assert met > 10_000


def test_one_friend_fewer_would_not_do() -> None:
    """With ceil(t/2) friends the only common one can be the block that changed."""
    t = 6
    friends, other = np.eye(t, dtype=bool), np.eye(t, dtype=bool)
    friends[:3, :3] = True
    other[3:, 3:] = True
    other[0, 3:] = other[3:, 0] = True
    # block 1 before (friends 0, 1, 2) and block 4 after (friends 0, 3, 4, 5)
    assert friends[1].sum() == math.ceil(t / 2)
    assert other[4].sum() >= math.ceil(t / 2)
    assert np.array_equal(friends[1:3, 3:], other[1:3, 3:])
    assert not (friends[1, 1:] & other[4, 1:]).any()


def test_weights_climb_from_member_to_full() -> None:
    test = AgreementTest(20, 1.0, 2.0, 3, member=12, full=16, core=3)
    weights = test.ramp_weights(np.array([0, 11, 12, 14, 16, 20]))
    assert weights.tolist() == pytest.approx([0, 0, 0.2, 0.6, 1, 1])


def example_test() -> AgreementTest:
    sigma = 2.0
    return AgreementTest(
        40, 0.7, sigma, DiscreteGaussian(sigma).upper_point(1e-3), member=21, full=25, core=6
    )


def test_full_agreement_passes_and_names_the_first_block() -> None:
    test = example_test()
    verdict = test.examine(np.zeros((40, 40)), rng=1)
    assert verdict.passed
    assert verdict.reference == 0
    assert verdict.weights.tolist() == [1.0] * 40
    # 40 blocks, 40 friends each: h is limited by M + h <= 40
    assert verdict.statistic == 15


def test_no_core_never_passes_whatever_the_noise() -> None:
    """H = -1 refuses even where the noise alone would carry it over the threshold."""
    test = example_test()
    strangers = np.full((40, 40), 5.0)
    np.fill_diagonal(strangers, 0.0)

    class Generous(SeededNoise):
        def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
            return np.full(size, 10**6)

    verdict = test.examine(strangers, rng=Generous(np.random.default_rng(0)))
    assert verdict.statistic == -1
    assert verdict.noisy_statistic > verdict.threshold
    assert not verdict.passed
    assert verdict.reference == -1


def test_an_empty_margin_passes_with_chance_delta_at_most() -> None:
    """H = 0, the most a neighbour of a refusing data set can have."""
    test = example_test()
    counts = np.array([25] * 6 + [1] * 34)
    assert h_index(counts, test.full, test.core) == 0
    assert 0 < test.pass_probability(counts) <= 1e-3
    counts[5] = 24
    assert test.pass_probability(counts) == 0.0


def test_the_chance_of_passing_is_what_happens() -> None:
    test = example_test()
    friends = np.zeros((40, 40), dtype=bool)
    friends[:31, :31] = True
    distances = as_distances(friends | np.eye(40, dtype=bool))
    chance = test.pass_probability(friend_counts(distances, test.radius))
    rng = np.random.default_rng(8)
    passed = sum(test.examine(distances, rng=rng).passed for _ in range(1_500))
    assert 0.1 < chance < 0.9
    assert binomtest(passed, 1_500, chance).pvalue > 6.3e-5


@pytest.mark.parametrize(
    ("member", "full", "core"), [(20, 25, 3), (21, 20, 3), (21, 41, 3), (21, 25, 0), (21, 25, 41)]
)
def test_sizes_that_void_the_proof_are_refused(member: int, full: int, core: int) -> None:
    with pytest.raises(InvalidInput):
        AgreementTest(40, 1.0, 1.0, 3, member, full, core)
