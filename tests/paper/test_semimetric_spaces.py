"""Definitions 2.1, 3.1 and 3.3, Lemma 3.4 and Remark 2.4: the spaces and how often each is asked.

Definition 2.2, the mask, is checked with exact probabilities in `test_theorem_2_3` and, for
Gaussian components, in `test_masks`.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from privgmm.arrays import Array, IntArray
from privgmm.data.datasets import random_mixture
from privgmm.distances.parameters import dist_comp
from privgmm.learners.em import EM
from privgmm.learners.learner import BlockRandomness
from privgmm.methods.planner import calibrate
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.noise import Randomness, SeededNoise
from privgmm.releases import release
from privgmm.stages.agreement.algorithm_1 import PopulousTest, private_populous_estimator
from privgmm.stages.agreement.lemmas import block_minimum
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.stage import Bottom

PAPER = PaperSpace(0.1, 0.1, 0.1)


def fits(t: int, k: int, d: int, spread: float, seed: int) -> MixtureBatch:
    """T perturbed copies of one mixture, their components in any order."""
    rng = np.random.default_rng(seed)
    truth = random_mixture(k, d, rng=seed)
    made = []
    for _ in range(t):
        weights = truth.weights * np.exp(spread * rng.standard_normal(k))
        roots = truth.cholesky @ (np.eye(d) + spread * rng.standard_normal((k, d, d)))
        means = truth.means + np.einsum(
            "kij,kj->ki", truth.cholesky, spread * rng.standard_normal((k, d))
        )
        one = Mixture.from_roots(weights / weights.sum(), means, roots)
        made.append(one.permuted(rng.permutation(k)))
    return MixtureBatch.from_cholesky(
        np.stack([m.weights for m in made]),
        np.stack([m.means for m in made]),
        np.stack([m.cholesky for m in made]),
        np.ones(t, dtype=bool),
    )


@pytest.mark.parametrize("spread", [0.02, 0.05])
@pytest.mark.parametrize(
    ("space", "r", "z"),
    [(PAPER, 1.0, 1.5), (LiftedSpace(0.1, clearance=3.0), 0.5, 1.0)],
    ids=["paper", "lifted"],
)
def test_definition_2_1_all_three_clauses(space: Any, r: float, z: float, spread: float) -> None:
    """Zero to itself, symmetric, z-approximate r-restricted; the lifted distance is a metric."""
    distances = space.distances(fits(24, 2, 2, spread, 5))
    np.testing.assert_allclose(np.diagonal(distances), 0, atol=1e-7)
    assert (distances >= 0).all()
    np.testing.assert_allclose(distances, distances.T, rtol=1e-9, atol=1e-9)
    tried = 0
    for a, b, c in itertools.permutations(range(24), 3):
        ab, bc = distances[a, b], distances[b, c]
        if max(ab, bc) <= r:
            tried += 1
            assert distances[a, c] <= z * (ab + bc) * (1 + 1e-9)
    assert tried > 100


@pytest.mark.parametrize(("k", "d"), [(2, 1), (3, 2), (4, 2)])
def test_definition_3_1_the_smallest_over_all_orders_of_the_largest(k: int, d: int) -> None:
    batch = fits(6, k, d, 0.1, 1)
    distances = PAPER.distances(batch)
    for i, j in itertools.combinations(range(6), 2):
        one, two = batch[i], batch[j]
        table = np.array(
            [[dist_comp(one.component(a), two.component(b)) for b in range(k)] for a in range(k)]
        )
        least = min(
            max(table[a, order[a]] for a in range(k)) for order in itertools.permutations(range(k))
        )
        assert distances[i, j] == pytest.approx(least, rel=1e-9)


def test_definition_3_3_every_order_of_the_components_is_as_likely() -> None:
    """With next to no noise the masked components are the given ones, in a uniform order."""
    k, n = 3, 1200
    mixture = Mixture([0.2, 0.3, 0.5], [[0.0], [100.0], [200.0]], np.ones((k, 1, 1)))
    space, rng = PaperSpace(1e-6, 1e-6, 1e-6), SeededNoise(np.random.default_rng(4))
    orders = [tuple(np.round(space.mask(mixture, rng=rng).means[:, 0] / 100)) for _ in range(n)]
    tally = [orders.count(order) for order in itertools.permutations([0.0, 1.0, 2.0])]
    assert sum(tally) == n
    assert chisquare(tally).pvalue > 1e-4


class Counted(SeededNoise):
    """Noise that counts what is asked of it."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.default_rng(seed))
        object.__setattr__(self, "asked", {"numbers": 0, "orders": 0})

    asked: dict[str, int]

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        self.asked["numbers"] += size
        return super().discrete_gaussian(sigma, size)

    def permutation(self, n: int) -> IntArray:
        self.asked["orders"] += 1
        return super().permutation(n)


@pytest.mark.parametrize("d", [1, 3])
def test_lemma_3_4_masking_k_components_is_k_masks_and_one_shuffle(d: int) -> None:
    spent = {}
    for k in (1, 2, 4, 8):
        rng = Counted(k)
        PAPER.mask(random_mixture(k, d, rng=k), rng=rng)
        assert rng.asked["orders"] == 1
        spent[k] = rng.asked["numbers"]
    assert spent[1] > 0
    assert [spent[k] / k for k in spent] == [spent[1]] * len(spent)


class CountingLine:
    """Numbers on a line, with a tally of what Algorithm 1 asks for."""

    def __init__(self) -> None:
        self.pairs = self.masks = 0

    def distances(self, items: Array) -> Array:
        self.pairs += items.size**2
        return np.asarray(np.abs(items[:, None] - items), dtype=np.float64)

    def between(self, items: Array, first: IntArray, second: IntArray) -> Array:
        self.pairs += first.size
        return np.asarray(np.abs(items[first] - items[second]), dtype=np.float64)

    def representative(self, items: Array, weights: Array, reference: int) -> float:
        return float(items[reference])

    def mask(self, item: float, *, rng: Randomness) -> float:
        self.masks += 1
        return item + float(rng.normal(1)[0])


@pytest.mark.parametrize("agree", [True, False])
def test_remark_2_4_distances_of_all_pairs_and_at_most_one_mask(agree: bool) -> None:
    t = block_minimum(0.3, 0.01)
    space = CountingLine()
    items: Array = np.asarray(np.arange(t) * (0.0 if agree else 100.0), dtype=np.float64)
    found = private_populous_estimator(items, space, PopulousTest(t, 1.0, 0.3, 0.01), 1)
    assert isinstance(found.value, Bottom) is not agree
    assert space.pairs <= t**2 + t * (t - 1) // 2
    assert space.masks == int(agree)


class CountingEM(EM):
    """EM that remembers how many blocks it was given."""

    seen = 0

    def fit_blocks(self, blocks: Any, *, rng: BlockRandomness = None) -> MixtureBatch:
        type(self).seen += len(blocks)
        return super().fit_blocks(blocks, rng=rng)


def test_remark_2_4_the_learner_is_run_once_per_block() -> None:
    plan = calibrate(
        "tight", epsilon=1.0, delta=1e-3, alpha=0.5, n_components=1, n_features=1, n_blocks=60
    )
    CountingEM.seen = 0
    rows = np.random.default_rng(1).normal(size=(60 * 20, 1))
    release(rows, plan, learner=CountingEM(1), rng=1)
    # a block of generated rows comes first, to see that the learner works at all, and the first
    # block is fitted once more, to see that nothing was carried over
    assert plan.stage(Agreement).n_blocks <= CountingEM.seen <= plan.stage(Agreement).n_blocks + 2
