"""Privacy losses against other methods: exact divergences, Rényi prices, masks as they run."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from privgmm.arrays import Array
from privgmm.audit.guessing import Silence
from privgmm.audit.privacy_loss import measured_delta, whole_losses
from privgmm.data.datasets import random_mixture
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan, calibrate
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.curves import ORDERS
from privgmm.privacy.gaussian_pairs import GaussianPair
from privgmm.privacy.noise import noise_source
from privgmm.stages.agreement.lifted_geometry import lifted_distance
from privgmm.stages.agreement.lifted_space import Anchored, LiftedSpace
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.stage import Agreement, AveragedAgreement, ExactAgreement
from privgmm.stages.refinement.noisy_moments import Refinement


@pytest.fixture(scope="module")
def plan() -> Plan:
    return best_plan(40_000, method="lifted", epsilon=2.0, delta=1e-6, n_components=2, n_features=2)


@pytest.fixture(scope="module")
def tight() -> Plan:
    return calibrate(
        "tight", epsilon=4.0, delta=1e-4, alpha=1.0, n_components=2, n_features=2, n_blocks=100
    )


def _item(mixture: Mixture) -> Anchored:
    space = LiftedSpace(0.1)
    return space.representative(MixtureBatch.of([mixture]), np.ones(1), 0)


def _pair() -> GaussianPair:
    rng = np.random.default_rng(1)
    roots = [np.tril(0.2 * rng.standard_normal((3, 3))) + np.eye(3) for _ in range(2)]
    return GaussianPair(np.zeros(3), roots[0], np.array([0.5, 0.0, -0.2]), roots[1])


def test_measured_delta_finds_the_exact_one() -> None:
    pair, levels = _pair(), np.array([0.0, 0.3, 1.0])
    losses = pair.losses(200_000, rng=np.random.default_rng(3))
    measured = measured_delta(losses, levels)
    exact = pair.delta(levels)
    assert np.all((measured.low <= exact) & (exact <= measured.high))
    # 4 sigma of the estimate itself, far shorter than the bars
    terms = -np.expm1(np.minimum(levels[:, None] - losses, 0))
    assert np.all(np.abs(measured.estimate - exact) <= 4 * terms.std(axis=1) / 200_000**0.5)


def test_bars_never_leave_the_unit_interval() -> None:
    measured = measured_delta(np.array([5.0, -5.0]), [0.0, 100.0])
    assert np.all((measured.low >= 0) & (measured.high <= 1))
    with pytest.raises(InvalidInput, match="two numbers"):
        measured_delta(np.array([1.0]), [0.0])


def test_a_mask_of_one_thing_tells_nothing() -> None:
    mixture = random_mixture(2, 2, rng=1)
    lifted = LiftedSpace(0.2).gaussian_pair(_item(mixture), _item(mixture.permuted([1, 0])))
    paper = PaperSpace(0.1, 0.1, 0.1).gaussian_pair(mixture, mixture.permuted([1, 0]))
    for pair in (lifted, paper):
        assert float(pair.delta(0.0)) == pytest.approx(0.0, abs=1e-7)


def test_the_worst_pair_is_gamma_apart(plan: Plan) -> None:
    stage, item = plan.stage(AveragedAgreement), _item(random_mixture(2, 2, rng=2))
    other = item.farther(stage.gamma)
    assert lifted_distance(item.roots, other.roots) == pytest.approx(stage.gamma)
    assert stage.space.distance(item, other) == pytest.approx(stage.gamma)
    levels = np.array([0.0, 0.1, 0.5])
    assert stage.space.gaussian_pair(item, other).delta(levels) == pytest.approx(
        stage.worst_pair().delta(levels), rel=1e-6
    )


def test_the_price_covers_the_worst_pair(plan: Plan, tight: Plan) -> None:
    """At every epsilon tried, in both directions, exactly."""
    for each in (plan, tight):
        stage = each.stage(ExactAgreement)
        one = stage.mask_curve()
        assert one is not None
        curve = each.n_components * one
        levels = np.linspace(0, each.budget.epsilon, 9)
        promised = np.array([curve.delta(level) for level in levels])
        for pair in (stage.worst_pair(), stage.worst_pair().swapped()):
            assert np.all(pair.delta(levels) <= promised)


def test_the_price_of_the_lifted_mask_is_that_of_its_worst_pair(plan: Plan) -> None:
    """Moments of drawn losses: E exp((a - 1) L) = exp((a - 1) R(a))."""
    stage = plan.stage(Agreement)
    losses = stage.worst_pair().losses(400_000, rng=np.random.default_rng(5))
    one = stage.mask_curve()
    assert one is not None
    curve = 2 * one
    for index in np.searchsorted(ORDERS, [1.5, 3.0, 6.0]):
        a = float(ORDERS[index])
        terms = np.exp((a - 1) * losses)
        width = 4 * terms.std() / losses.size**0.5
        assert abs(terms.mean() - np.exp((a - 1) * curve.values[index])) <= width


def test_whole_losses_stay_below_the_plans_curve(plan: Plan) -> None:
    assert plan.stage(Refinement), "test, mask and refinement all take part"
    losses = whole_losses(plan, 200_000, rng=np.random.default_rng(6))
    levels = np.linspace(0, 0.8, 5)
    measured = measured_delta(losses, levels)
    promised = np.array([plan.curve().delta(level) for level in levels])
    assert np.all(measured.high <= promised)
    # and they are not a caricature: the total is nearly used up
    assert measured.estimate[0] > 0.4 * promised[0]


def test_whole_losses_are_the_sum_of_the_stages(plan: Plan) -> None:
    rng, twin = np.random.default_rng(9), np.random.default_rng(9)
    parts = [stage.worst_losses(50, rng=twin) for stage in plan.stages]
    assert len(parts) == 2
    assert whole_losses(plan, 50, rng=rng) == pytest.approx(parts[0] + parts[1])


def test_the_papers_plan_has_no_curve() -> None:
    paper = calibrate("paper", epsilon=1.0, delta=1e-6, alpha=0.5, n_components=1, n_features=2)
    with pytest.raises(InvalidInput, match=r"Theorem 2\.3"):
        whole_losses(paper, 10, rng=np.random.default_rng(0))


def test_what_is_shown_without_noise_is_what_was_masked() -> None:
    mixture = random_mixture(2, 2, rng=3)
    item, space = _item(mixture), LiftedSpace(0.2)
    other = item.farther(0.4)
    pair = space.gaussian_pair(item, other)
    for target, mean in ((item, pair.mean_a), (other, pair.mean_b)):
        shown, plain = item.published(other, mean), space.mask(target, rng=Silence())
        assert shown.means == pytest.approx(plain.means)
        assert shown.covariances == pytest.approx(plain.covariances)
        assert shown.weights == pytest.approx(plain.weights)


def test_what_is_shown_has_the_law_of_the_mask() -> None:
    """Two samples, one by `published`, one by the mask that releases run: same law."""
    item, space = _item(random_mixture(1, 2, rng=4)), LiftedSpace(0.3)
    other = item.farther(0.8)
    pair, n = space.gaussian_pair(item, other), 900
    source = noise_source(8)
    for from_a, target in ((True, item), (False, other)):
        seen = pair.draw(np.full(n, from_a), rng=np.random.default_rng(7))
        mine = [item.published(other, vector) for vector in seen]
        theirs = [space.mask(target, rng=source) for _ in range(n)]
        for first, second in zip(_readings(mine).T, _readings(theirs).T, strict=True):
            assert ks_2samp(first, second).pvalue > 1e-4


def _readings(mixtures: list[Mixture]) -> Array:
    """Some numbers (n, 4) of each mixture's first component."""
    covariances = np.stack([mixture.covariances[0] for mixture in mixtures])
    return np.column_stack(
        [
            np.stack([mixture.means[0] for mixture in mixtures]),
            np.linalg.slogdet(covariances).logabsdet,
            covariances[:, 0, 1],
        ]
    )
