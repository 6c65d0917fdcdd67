"""Algorithm 2, line by line, with the coins laid out on the table."""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.arrays import Array, IntArray
from privgmm.data.datasets import random_mixture
from privgmm.mixture import Mixture
from privgmm.stages.agreement.paper_space import PaperSpace

K, D = 3, 2


class Coins:
    """Prepared draws: one for each weight, D for each mean, D x D for each covariance."""

    def __init__(self, order: list[int], seed: int) -> None:
        generator = np.random.default_rng(seed)
        self.order = order
        self.scalars = generator.standard_normal(K)
        self.vectors = generator.standard_normal((K, D))
        self.matrices = generator.standard_normal((K, D, D))
        self._prepared: dict[tuple[int, ...], Array] = {
            (K,): self.scalars,
            (K, D): self.vectors,
            (K, D, D): self.matrices,
        }

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        return self._prepared.pop((shape,) if isinstance(shape, int) else shape)

    def permutation(self, n: int) -> IntArray:
        assert n == K
        return np.array(self.order)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_lines_14_to_19(order: list[int]) -> None:
    item = random_mixture(K, D, condition=4.0, weights="unequal", rng=1)
    space = PaperSpace(0.03, 0.2, 0.1)
    coins = Coins(order, 2)
    masked = space.mask(item, rng=coins)
    weights = np.maximum(0, item.weights[order] + 0.03 * coins.scalars)
    assert masked.weights == pytest.approx(weights / weights.sum())
    for i, j in enumerate(order):
        factor = item.cholesky[j]
        assert masked.means[i] == pytest.approx(item.means[j] + 0.2 * factor @ coins.vectors[i])
        root = factor @ (np.eye(D) + 0.1 * coins.matrices[i])
        assert masked.covariances[i] == pytest.approx(root @ root.T)


def test_line_2_never_gives_a_negative_weight() -> None:
    item = Mixture([0.5, 0.25, 0.25], np.zeros((K, D)), [np.eye(D)] * K)
    for seed in range(20):
        masked = PaperSpace(5.0, 0.1, 0.1).mask(item, rng=Coins([0, 1, 2], seed))
        assert masked.weights.min() >= 0
        assert masked.weights.sum() == pytest.approx(1.0)
