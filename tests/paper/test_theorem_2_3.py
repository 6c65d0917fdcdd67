"""Theorem 2.3: Algorithm 1 is (2 epsilon, 4 e^epsilon delta)-DP, and near what the blocks agree on.

Privacy is checked exactly in small worlds: a handful of points on a line, a mask with known
probabilities, every data set and every neighbour. The outcome's law is then a finite vector,
whose hockey-stick divergence is a sum.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest

from privgmm.arrays import Array, IntArray
from privgmm.privacy.noise import Randomness, SeededNoise, TruncatedLaplace
from privgmm.stages.agreement.algorithm_1 import PopulousTest, private_populous_estimator
from privgmm.stages.agreement.lemmas import block_minimum
from privgmm.stages.agreement.votes import friend_counts
from privgmm.stages.stage import Bottom

RADIUS = 2.0
"""r: items this near are hidden by the mask; z = 1, so two items vote within r/2 = 1."""

EPSILON, DELTA = 0.8, 0.01
FAR = 50.0


class NoNoise(SeededNoise):
    """Zero noise, so that a verdict shows what the statistic alone would do."""

    def laplace(self, scale: float, size: int) -> Array:
        return np.zeros(size)


STILL = NoNoise(np.random.default_rng(0))


@dataclasses.dataclass(frozen=True)
class ThresholdWithoutBound(PopulousTest):
    """A broken Algorithm 1: line 7 compares with 0.8, forgetting the bound of the noise."""

    @property
    def threshold(self) -> float:
        return 0.8


@dataclasses.dataclass(frozen=True)
class LittleNoise(PopulousTest):
    """A broken Algorithm 1: line 5 adds a quarter of the noise the sensitivity calls for."""

    @property
    def noise(self) -> TruncatedLaplace:
        return TruncatedLaplace(0.5 / self.n_blocks, self.epsilon, self.delta)


def mask_law(item: float) -> Array:
    """Two-sided geometric noise of at most 10 on the integers, over all that may come out."""
    support = np.concatenate([np.arange(-10, 14), FAR + np.arange(-10, 11)])
    law = np.where(np.abs(support - item) <= 10, np.exp(-0.4 * np.abs(support - item)), 0.0)
    return np.asarray(law / law.sum(), dtype=np.float64)


def divergence(first: Array, second: Array, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def masks(points: list[float]) -> dict[float, Array]:
    """The mask's laws, checked to be an (r, EPSILON, DELTA)-mask (Definition 2.2)."""
    laws = {p: mask_law(p) for p in points}
    worst = max(
        divergence(laws[a], laws[b], EPSILON)
        for a, b in itertools.permutations(points, 2)
        if abs(a - b) <= RADIUS
    )
    assert DELTA / 20 < worst <= DELTA
    return laws


def outcome_law(passes: float, item: float, laws: dict[float, Array]) -> Array:
    """Law of the masked item with the chance of ⊥ at the end."""
    return np.append(passes * laws[item], 1 - passes)


def worst_excess(test: PopulousTest, points: list[float]) -> tuple[float, float]:
    """Over all neighbouring tuples of points: the largest exact delta, and the promised one."""
    t = test.n_blocks
    laws = masks(points)
    summary: dict[tuple[float, ...], tuple[float, float]] = {}
    for items in itertools.product(points, repeat=t):
        array = np.array(items)
        verdict = test.examine(np.abs(array[:, None] - array), rng=STILL)
        chance = test.pass_probability(verdict.counts) if verdict.reference >= 0 else 0.0
        item = items[verdict.reference] if verdict.reference >= 0 else items[0]
        summary[items] = (chance, item)
    pairs = {
        (summary[items], summary[(*items[:i], p, *items[i + 1 :])])
        for items in summary
        for i in range(t)
        for p in points
        if p != items[i]
    }
    law = {key: outcome_law(*key, laws) for pair in pairs for key in pair}
    worst = max(divergence(law[a], law[b], 2 * test.epsilon) for a, b in pairs)
    return worst, 4 * math.exp(test.epsilon) * test.delta


@pytest.mark.parametrize(
    ("t", "points"),
    [(5, [0.0, 1.0, 2.0, 3.0, FAR]), (6, [0.0, 1.0, 2.0, FAR]), (7, [0.0, 1.0, FAR])],
)
def test_privacy_over_all_data_sets_of_a_small_world(t: int, points: list[float]) -> None:
    worst, promised = worst_excess(PopulousTest(t, RADIUS / 2, EPSILON, DELTA), points)
    assert 0 < worst <= promised < 0.2


def test_privacy_fails_when_line_7_forgets_the_bound() -> None:
    points = [0.0, 1.0, 2.0, 3.0, FAR]
    worst, promised = worst_excess(ThresholdWithoutBound(5, RADIUS / 2, EPSILON, DELTA), points)
    assert worst > promised


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    for cuts in itertools.combinations(range(total + parts - 1), parts - 1):
        edges = (-1, *cuts, total + parts - 1)
        yield tuple(b - a - 1 for a, b in itertools.pairwise(edges))


def by_location(
    test: PopulousTest, points: list[float]
) -> dict[tuple[int, ...], tuple[float, list[float]]]:
    """For every number of blocks at each point: chance of passing, and who may come first."""
    t = test.n_blocks
    places = np.array(points)
    friends = np.abs(places[:, None] - places) <= test.radius
    found = {}
    for numbers in compositions(t, len(points)):
        at_place = friends @ np.array(numbers)
        counts = np.repeat(at_place, numbers)
        populous = [
            p
            for p, n, count in zip(points, numbers, at_place, strict=True)
            if n > 0 and count / t > 0.6
        ]
        found[numbers] = (test.pass_probability(counts) if populous else 0.0, populous)
    return found


def worst_of_many_blocks(test: PopulousTest, points: list[float]) -> float:
    """As `worst_excess`, for many blocks: data sets up to order, any populous item first."""
    laws = masks(points)
    found = by_location(test, points)
    worst = 0.0
    for numbers, (chance, populous) in found.items():
        for source, target in itertools.permutations(range(len(points)), 2):
            if numbers[source] == 0:
                continue
            moved = list(numbers)
            moved[source] -= 1
            moved[target] += 1
            other, popular = found[tuple(moved)]
            if chance == other == 0.0:
                continue
            for one in populous or points[:1]:
                for two in popular or points[:1]:
                    pair = outcome_law(chance, one, laws), outcome_law(other, two, laws)
                    worst = max(worst, divergence(*pair, 2 * test.epsilon))
                    worst = max(worst, divergence(*pair[::-1], 2 * test.epsilon))
    return worst


POINTS = [0.0, 1.0, 2.0, FAR]
MANY = 36


def test_privacy_with_enough_blocks_to_release_often() -> None:
    test = PopulousTest(MANY, RADIUS / 2, EPSILON, DELTA)
    assert test.pass_probability(np.full(MANY, MANY)) > 0.1
    worst = worst_of_many_blocks(test, POINTS)
    assert 0 < worst <= 4 * math.exp(EPSILON) * DELTA


def test_privacy_fails_with_a_quarter_of_the_noise() -> None:
    test = LittleNoise(MANY, RADIUS / 2, EPSILON, DELTA)
    worst = worst_of_many_blocks(test, POINTS)
    assert worst > 4 * math.exp(EPSILON) * DELTA


# --------------------------------------------------------------------- sensitivity of Q


def test_q_moves_by_less_than_two_over_t() -> None:
    """(2t - 1)/t^2 at most, over random tables with one row and column replaced; attained."""
    rng = np.random.default_rng(6)
    for t in (5, 6, 11, 24):
        largest = 0.0
        for attempt in range(400):
            distances = rng.exponential(rng.choice([0.2, 1.0, 3.0]), (t, t))
            distances = np.triu(distances, 1) + np.triu(distances, 1).T
            other = distances.copy()
            row = rng.exponential(1.0, t)
            if attempt % 4 == 0:
                # the extreme: the fit that agrees with all others becomes one that failed
                distances[0], distances[:, 0] = 0.0, 0.0
                row = np.full(t, np.inf)
            other[0], other[:, 0] = row, row
            if attempt % 4 != 0:
                other[0, 0] = 0.0
            test = PopulousTest(t, 1.0, 1.0, 0.1)
            change = abs(
                test.examine(distances, rng=STILL).statistic
                - test.examine(other, rng=STILL).statistic
            )
            largest = max(largest, change)
        assert largest == pytest.approx((2 * t - 1) / t**2, abs=1e-12)
        assert largest < 2 / t


# ------------------------------------------------------------------------------ utility


class SquaredLine:
    """Numbers under the squared distance: a 2-approximate triangle inequality, no metric."""

    factor = 2.0

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def distances(self, items: Array) -> Array:
        return np.asarray((items[:, None] - items) ** 2, dtype=np.float64)

    def between(self, items: Array, first: IntArray, second: IntArray) -> Array:
        return np.asarray((items[first] - items[second]) ** 2, dtype=np.float64)

    def representative(self, items: Array, weights: Array, reference: int) -> float:
        return float(items[reference])

    def mask(self, item: float, *, rng: Randomness) -> float:
        return item + self.scale * float(rng.normal(1)[0])


@pytest.mark.parametrize(("epsilon", "delta"), [(0.231, 1e-6), (1.0, 1e-2)])
def test_utility(epsilon: float, delta: float) -> None:
    """All items within alpha/2z of Y*, enough blocks: always released, within alpha mostly."""
    r, beta, truth, runs = 1.0, 0.1, 17.0, 300
    z = SquaredLine.factor
    alpha = r / (2 * z)
    # (alpha/2z, beta)-concentrated: a normal beyond 1.645 in size has chance 0.1
    space = SquaredLine(math.sqrt(alpha / (2 * z)) / 1.645)
    t = block_minimum(epsilon, delta)
    test = PopulousTest(t, r / (2 * z), epsilon, delta)
    rng = np.random.default_rng(10)
    reach = math.sqrt(alpha / (2 * z))
    values = []
    for _ in range(runs):
        items = truth + reach * rng.choice([-0.999, 0.999, 0.1], t)
        found = private_populous_estimator(items, space, test, rng)
        assert not isinstance(found.value, Bottom)
        values.append(found.value)
    errors = (np.array(values) - truth) ** 2
    assert np.mean(errors > alpha) <= beta + 4 * math.sqrt(beta * (1 - beta) / runs)


def test_utility_needs_the_blocks() -> None:
    """With a third of the blocks even full agreement is refused now and then."""
    t = block_minimum(0.231, 1e-6) // 3
    test = PopulousTest(t, 1.0, 0.231, 1e-6)
    full: IntArray = friend_counts(np.zeros((t, t)), 1.0)
    assert test.pass_probability(full) < 0.9
    enough = block_minimum(0.231, 1e-6)
    everyone: IntArray = np.full(enough, enough)
    assert PopulousTest(enough, 1.0, 0.231, 1e-6).pass_probability(everyone) == 1.0
