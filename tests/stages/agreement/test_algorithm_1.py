"""Algorithm 1 as code: votes, noise, threshold, first populous block, mask."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from privgmm.arrays import Array, IntArray
from privgmm.errors import InvalidInput
from privgmm.privacy.noise import Randomness, SeededNoise
from privgmm.stages.agreement.algorithm_1 import (
    PopulousTest,
    private_populous_estimator,
    settled_distances,
)
from privgmm.stages.stage import Bottom


class Line:
    """Numbers on a line; NaN stands for a fit that failed. The mask adds a normal draw."""

    def __init__(self, noise: float = 0.0) -> None:
        self.noise = noise
        self.chosen: list[tuple[int, list[float]]] = []

    def distances(self, items: Array) -> Array:
        gaps = np.abs(items[:, None] - items)
        return np.where(np.isnan(gaps), np.inf, gaps)

    def between(self, items: Array, first: IntArray, second: IntArray) -> Array:
        gaps = np.abs(items[first] - items[second])
        return np.where(np.isnan(gaps), np.inf, gaps)

    def representative(self, items: Array, weights: Array, reference: int) -> float:
        self.chosen.append((reference, weights.tolist()))
        return float(items[reference])

    def mask(self, item: float, *, rng: Randomness) -> float:
        return item + self.noise * float(rng.normal(1)[0])


def test_lines_three_to_eight_as_printed() -> None:
    rng = np.random.default_rng(4)
    t, radius, epsilon, delta = 30, 1.0, 1.0, 1e-2
    test = PopulousTest(t, radius, epsilon, delta)
    bound = 2 / (t * epsilon) * math.log(1 + (math.exp(epsilon) - 1) / (2 * delta))
    assert test.noise.bound == pytest.approx(bound, rel=1e-12)
    assert test.threshold == pytest.approx(0.8 + bound, rel=1e-12)
    outcomes = set()
    for _ in range(200):
        items = rng.normal(0, rng.choice([0.1, 0.6, 1.5]), t)
        seed = int(rng.integers(10**6))
        verdict = test.examine(np.abs(items[:, None] - items), rng=seed)
        shares = [sum(abs(a - b) <= radius for b in items) / t for a in items]
        z = float(test.noise.sample(1, rng=seed)[0])
        noisy = sum(shares) / t + z
        first = next((i for i, share in enumerate(shares) if share > 0.6), -1)
        assert verdict.statistic == pytest.approx(sum(shares) / t, abs=1e-12)
        assert verdict.noisy_statistic == pytest.approx(noisy, abs=1e-12)
        assert verdict.passed == (noisy >= 0.8 + bound)
        assert verdict.reference == first
        outcomes.add(verdict.passed)
    assert outcomes == {True, False}


def test_the_first_populous_block_is_masked() -> None:
    items = np.concatenate([[50.0, np.nan], np.full(198, 3.0)])
    space = Line(noise=0.25)
    found = private_populous_estimator(items, space, PopulousTest(200, 1.0, 1.0, 1e-3), 7)
    assert found.value != 3.0
    assert isinstance(found.value, float)
    assert abs(found.value - 3.0) < 2
    (reference, weights), *_ = space.chosen
    assert reference == 2
    assert weights == [0.0, 0.0, 1.0] + [0.0] * 197


class Rounding(Line):
    """A fast table of distances whose last digits depend on all items together."""

    def distances(self, items: Array) -> Array:
        wobble = 1e-9 * math.sin(1e3 * float(np.nansum(items)))
        return super().distances(items) * (1 + wobble)


def test_no_third_item_decides_whether_two_are_friends() -> None:
    """Pairs at the radius, to the last bit, while another item takes many values."""
    rng = np.random.default_rng(0)
    items = np.concatenate([[0.0], rng.choice([0.0, 1.0, np.nextafter(1.0, 2.0)], 39)])
    fast, settled = set(), set()
    for value in np.linspace(-3, 3, 40):
        items[-1] = value
        fast.add((Rounding().distances(items)[:-1, :-1] <= 1.0).tobytes())
        table = settled_distances(items, Rounding(), 1.0)
        settled.add((table[:-1, :-1] <= 1.0).tobytes())
        assert np.array_equal(table, table.T)
    assert len(fast) > 1
    assert len(settled) == 1
    exact = np.abs(items[:-1, None] - items[:-1]) <= 1.0
    assert settled == {exact.tobytes()}


def test_disagreement_gives_bottom_and_touches_neither_mask_nor_representative() -> None:
    space = Line()
    items = np.arange(50.0) * 10
    found = private_populous_estimator(items, space, PopulousTest(50, 1.0, 1.0, 1e-3), 7)
    assert isinstance(found.value, Bottom)
    assert space.chosen == []


def test_failed_fits_vote_for_nobody() -> None:
    test = PopulousTest(10, 1.0, 1.0, 0.1)
    items = np.array([0.0] * 7 + [np.nan] * 3)
    verdict = test.examine(Line().distances(items), rng=0)
    assert verdict.counts.tolist() == [7] * 7 + [0] * 3
    assert verdict.statistic == pytest.approx(0.49)


def test_the_chance_of_passing_is_what_happens() -> None:
    t = 40
    test = PopulousTest(t, 1.0, 1.0, 0.01)
    items = np.zeros(t)
    items[:2] = 9.0
    distances = Line().distances(items)
    chance = test.pass_probability(np.count_nonzero(distances <= 1.0, axis=1))
    rng = np.random.default_rng(0)
    passed = sum(test.examine(distances, rng=rng).passed for _ in range(2_000))
    assert 0.02 < chance < 0.5
    assert binomtest(passed, 2_000, chance).pvalue > 6.3e-5


@pytest.mark.parametrize("t", [5, 6, 7, 10, 15, 20, 35, 100, 1160, 4095])
def test_the_published_majority_is_the_one_in_use(t: int) -> None:
    test = PopulousTest(t, 1.0, 1.0, 0.1)
    least = test.to_dict()["m"]
    assert least == next(c for c in range(t + 1) if 10 * c > 6 * t)
    friends = np.zeros((t, t), dtype=bool)
    friends[0, :least] = friends[:least, 0] = True
    friends |= np.eye(t, dtype=bool)
    assert test.examine(np.where(friends, 0.0, 5.0), rng=0).reference == 0
    friends[0, least - 1] = friends[least - 1, 0] = False
    assert test.examine(np.where(friends, 0.0, 5.0), rng=0).reference == -1


def test_noise_comes_from_the_source_that_was_given() -> None:
    class Counting(SeededNoise):
        drawn = 0

        def laplace(self, scale: float, size: int) -> Array:
            Counting.drawn += size
            return super().laplace(scale, size)

    source = Counting(np.random.default_rng(1))
    private_populous_estimator(np.zeros(30), Line(), PopulousTest(30, 1.0, 1.0, 0.1), source)
    assert Counting.drawn >= 1


def test_four_blocks_and_a_radius_of_zero_are_refused() -> None:
    with pytest.raises(InvalidInput, match="n_blocks"):
        PopulousTest(4, 1.0, 1.0, 0.1)
    with pytest.raises(InvalidInput, match="radius"):
        PopulousTest(5, 0.0, 1.0, 0.1)
