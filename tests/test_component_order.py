"""The order in which a learner lists components does not affect a release.

Votes, statistic and what is masked are functions of fits as sets. The mask draws independent noise
of one law for every component and shows them in a uniformly random order. So for every fit in
another order there is an equally likely draw of noise that gives the very same release.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privgmm.arrays import Array, IntArray
from privgmm.learners.em import EM
from privgmm.learners.learner import BlockRandomness, Learner, block_seeds
from privgmm.methods.plan import Plan
from privgmm.methods.planner import calibrate
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.noise import SeededNoise
from privgmm.releases import Release, release
from privgmm.stages.agreement.algorithm_1 import Populous, private_populous_estimator
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.scatter import simulate_blocks
from privgmm.stages.agreement.stage import Agreement, AgreementView
from privgmm.stages.refinement.noisy_moments import Refinement
from tests.plans import refined

TRUTH = Mixture(
    [0.2, 0.3, 0.5],
    [[0.0, 0.0], [30.0, 10.0], [-20.0, 25.0]],
    [[[1.0, 0.4], [0.4, 2.0]], [[3.0, 0.0], [0.0, 0.5]], [[2.0, -1.0], [-1.0, 4.0]]],
)


def shuffled(batch: MixtureBatch, orders: IntArray) -> MixtureBatch:
    """Put the components of every fit in an order of its own (t, k)."""
    i = np.arange(len(batch))[:, None]
    return MixtureBatch.from_cholesky(
        batch.weights[i, orders], batch.means[i, orders], batch.cholesky[i, orders], batch.ok
    )


def random_orders(seeds: np.ndarray[Any, np.dtype[np.uint64]], k: int) -> IntArray:
    return np.stack([np.random.default_rng(int(seed)).permutation(k) for seed in seeds])


@dataclasses.dataclass(frozen=True)
class Shuffling:
    """List each block's components in an order drawn from the block's seed."""

    inner: Learner

    @property
    def n_components(self) -> int:
        return self.inner.n_components

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> MixtureBatch:
        seeds = block_seeds(rng, len(blocks))
        return shuffled(
            self.inner.fit_blocks(blocks, rng=seeds), random_orders(seeds, self.n_components)
        )


class Relabelled(SeededNoise):
    """Draw the noise of a seed, with per-component parts and permutations moved to other labels.

    ``order[a]`` is the old label of the component that is now called a. What used to be drawn
    for an old label is drawn for the new one; so each draw is as likely as before.
    """

    def __init__(self, seed: int, order: IntArray, *, by_label: bool) -> None:
        super().__init__(np.random.default_rng(seed))
        self.order = order
        self.by_label = by_label

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        draw = super().discrete_gaussian(sigma, size)
        # the mask of the lifted space draws all its matrices at once, label by label, and each
        # of the levels that its fine noise is made of
        if self.by_label and sigma == 2.0**55:
            return np.asarray(draw.reshape(len(self.order), -1)[self.order].ravel())
        return draw

    def permutation(self, n: int) -> IntArray:
        new = np.argsort(self.order)
        return np.asarray(new[super().permutation(n)])


PLANS: dict[str, tuple[float, float, int | None]] = {
    "paper": (1.0, 0.5, None),
    "tight": (4.0, 0.5, 100),
    "lifted": (4.0, 1.0, 100),
}
"""Epsilon, alpha and blocks with which each method is tried."""


@functools.cache
def plan_of(method: str) -> Plan:
    epsilon, alpha, blocks = PLANS[method]
    return calibrate(
        method,
        epsilon=epsilon,
        delta=1e-6,
        alpha=alpha,
        n_components=3,
        n_features=2,
        n_blocks=blocks,
    )


@functools.cache
def fits_of(method: str) -> MixtureBatch:
    """Make block fits as near to each other as the method needs, and one far away."""
    plan = plan_of(method)
    t = plan.stage(Agreement).n_blocks
    errors = simulate_blocks(t, 3 * plan.rows_needed() / t, TRUTH.weights, 2, rng=1)
    weights = TRUTH.weights + errors.weights
    means = TRUTH.means + np.einsum("kij,tkj->tki", TRUTH.cholesky, errors.means)
    means[0] += 5.0
    roots = TRUTH.cholesky @ np.linalg.cholesky(np.eye(2) + errors.covariances)
    return MixtureBatch.from_cholesky(weights, means, roots, np.ones(t, dtype=bool))


def passed(found: Populous[Mixture]) -> Mixture:
    assert isinstance(found.value, Mixture)
    return found.value


# -------------------------------------------------------------- the same, draw by draw


@pytest.mark.parametrize("method", PLANS)
def test_votes_and_statistic_do_not_see_the_order(method: str) -> None:
    plan, fits = plan_of(method), fits_of(method)
    orders = random_orders(np.arange(len(fits), dtype=np.uint64), 3)
    assert not np.array_equal(orders, np.broadcast_to(np.arange(3), orders.shape))
    plain = private_populous_estimator(
        fits, plan.stage(Agreement).space, plan.stage(Agreement).test, 2
    )
    other = private_populous_estimator(
        shuffled(fits, orders), plan.stage(Agreement).space, plan.stage(Agreement).test, 2
    )
    assert np.array_equal(plain.verdict.counts, other.verdict.counts)
    assert np.array_equal(plain.verdict.weights, other.verdict.weights)
    assert plain.verdict.reference == other.verdict.reference == 1
    assert plain.verdict.statistic == other.verdict.statistic
    assert plain.verdict.noisy_statistic == other.verdict.noisy_statistic
    before, after = (
        plan.stage(Agreement).space.distances(one) for one in (fits, shuffled(fits, orders))
    )
    finite = np.isfinite(before)
    assert np.array_equal(finite, np.isfinite(after))
    assert np.allclose(before[finite], after[finite], rtol=1e-6, atol=1e-13)


@pytest.mark.parametrize("method", PLANS)
def test_distances_that_decide_a_vote_agree_to_the_last_bit(method: str) -> None:
    """Near the radius rounding could flip a vote: there a pair is computed by itself."""
    plan, fits = plan_of(method), fits_of(method)
    orders = random_orders(np.arange(len(fits), dtype=np.uint64) + 77, 3)
    first, second = (index.astype(np.int64) for index in np.triu_indices(40, 1))
    plain = plan.stage(Agreement).space.between(fits, first, second)
    assert np.array_equal(
        plan.stage(Agreement).space.between(shuffled(fits, orders), first, second), plain
    )


@pytest.mark.parametrize("method", PLANS)
def test_relabelled_noise_gives_the_very_same_release(method: str) -> None:
    """A bijection of the noise that keeps its law turns one order's release into the other's."""
    plan, fits = plan_of(method), fits_of(method)
    plain = private_populous_estimator(
        fits,
        plan.stage(Agreement).space,
        plan.stage(Agreement).test,
        Relabelled(3, np.arange(3), by_label=False),
    )
    for trial in range(4):
        orders = random_orders(np.arange(len(fits), dtype=np.uint64) + 1000 * trial, 3)
        order = orders[plain.verdict.reference]
        noise = Relabelled(3, order, by_label=plan.stage(Agreement).space.lifted)
        other = private_populous_estimator(
            shuffled(fits, orders), plan.stage(Agreement).space, plan.stage(Agreement).test, noise
        )
        for name in ("weights", "means", "covariances"):
            expected = getattr(passed(plain), name)
            assert np.allclose(getattr(passed(other), name), expected, rtol=1e-9, atol=1e-9), name


def test_what_is_masked_is_the_same_set() -> None:
    space, fits = LiftedSpace(0.1, 2.0), fits_of("lifted")
    counts = np.full(len(fits), 1.0)
    counts[0] = 0.0
    plain = space.representative(fits, counts, 5)
    orders = random_orders(np.arange(len(fits), dtype=np.uint64), 3)
    other = space.representative(shuffled(fits, orders), counts, 5)
    assert np.allclose(other.roots, plain.roots[orders[5]], rtol=1e-12, atol=1e-12)
    assert np.array_equal(other.weights, plain.weights[orders[5]])


def test_a_whole_release_with_a_shuffling_learner() -> None:
    """From rows to the refined mixture: relabelled noise gives the same release, order and all."""
    rows = TRUTH.sample(45_000, rng=4)
    plan = refined(
        calibrate(
            "lifted",
            epsilon=8.0,
            delta=1e-6,
            alpha=1.0,
            n_components=3,
            n_features=2,
            n_blocks=60,
        ),
        Refinement(multipliers=(8.0, 8.0), radii=(4.0, 4.0)),
    )
    plain = release(rows, plan, learner=EM(3), rng=5)
    other = release(rows, plan, learner=Shuffling(EM(3)), rng=5)
    assert np.array_equal(plain.curator.votes, other.curator.votes)
    assert (
        plain.curator.view(AgreementView).verdict.noisy_statistic
        == other.curator.view(AgreementView).verdict.noisy_statistic
    )
    reference = plain.curator.view(AgreementView).verdict.reference
    old, new = (view.fits.weights[reference] for view in (plain.curator, other.curator))
    order = np.array([int(np.flatnonzero(old == weight)[0]) for weight in new])
    assert order.tolist() != [0, 1, 2]
    noise = Relabelled(5, order, by_label=True)
    again = release(rows, plan, learner=Shuffling(EM(3)), rng=noise)
    assert isinstance(plain.result, Release)
    assert isinstance(again.result, Release)
    for name in ("weights", "means", "covariances"):
        expected = getattr(plain.result.mixture, name)
        assert np.allclose(getattr(again.result.mixture, name), expected, rtol=1e-9, atol=1e-9)


# --------------------------------------------------------------------- the same in law


def shown(mixture: Mixture) -> tuple[float, ...]:
    """List numbers of a release that depend on its order, and numbers that do not."""
    by_weight = np.argsort(mixture.weights)
    return (
        float(mixture.weights[0]),
        float(mixture.means[0, 0]),
        float(mixture.covariances[1, 0, 1]),
        float(mixture.means[by_weight[0], 1]),
        float(np.log(np.linalg.det(mixture.covariances[by_weight[2]]))),
        float(mixture.weights.min()),
    )


def masked(plan: Plan, chosen: Any, rng: np.random.Generator) -> Mixture:
    mixture: Mixture = plan.stage(Agreement).space.mask(chosen, rng=SeededNoise(rng))
    return mixture


@pytest.mark.parametrize("method", PLANS)
def test_releases_have_the_same_law_in_any_order(method: str) -> None:
    """Two samples of releases, one from shuffled fits, by Kolmogorov and Smirnov at 4 sigma."""
    plan, fits = plan_of(method), fits_of(method)
    seen = private_populous_estimator(
        fits, plan.stage(Agreement).space, plan.stage(Agreement).test, 6
    ).verdict
    rng = np.random.default_rng(7)
    plain = plan.stage(Agreement).space.representative(fits, seen.weights, seen.reference)
    first = np.array([shown(masked(plan, plain, rng)) for _ in range(700)])
    others = []
    for _ in range(35):
        orders = rng.permuted(np.tile(np.arange(3), (len(fits), 1)), axis=1)
        chosen = plan.stage(Agreement).space.representative(
            shuffled(fits, orders), seen.weights, seen.reference
        )
        others += [shown(masked(plan, chosen, rng)) for _ in range(20)]
    second = np.array(others)
    for j in range(first.shape[1]):
        assert stats.ks_2samp(first[:, j], second[:, j]).pvalue > 6e-5
    # numbers with different laws are distinguished by as many draws: the test could fail
    assert stats.ks_2samp(first[:, 0], first[:, 5]).pvalue < 1e-9


@pytest.mark.parametrize("method", PLANS)
def test_every_component_is_shown_first_equally_often(method: str) -> None:
    plan, fits = plan_of(method), fits_of(method)
    chosen = plan.stage(Agreement).space.representative(fits, np.ones(len(fits)), 1)
    rng = np.random.default_rng(8)
    means = np.array([masked(plan, chosen, rng).means[0] for _ in range(900)])
    firsts = np.linalg.norm(means[:, None] - TRUTH.means, axis=2).argmin(axis=1)
    assert stats.chisquare(np.bincount(firsts, minlength=3)).pvalue > 6e-5
