"""Theorem 6.2: a private learner out of any non-private one, at the paper's own constants.

The price is real: ordinary data is refused, and the refusal names the rows it would take. Fed
with block fits as tight as that many rows would give, the same code releases, within alpha.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.distances.parameters import dist_gmm, dist_param
from privgmm.learners.learner import BlockRandomness, block_seeds
from privgmm.methods.plan import Plan
from privgmm.methods.planner import calibrate
from privgmm.methods.searching import as_text
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.releases import Refusal, Release, release
from privgmm.stages.agreement.lemmas import block_minimum
from privgmm.stages.agreement.scatter import simulate_blocks
from privgmm.stages.agreement.stage import Agreement, PaperAgreement

TRUTH = Mixture(
    [0.5, 0.5],
    [[1e6, -3.0], [1e6 + 30.0, 40.0]],
    [[[4.0, 1.9], [1.9, 1.0]], [[0.01, 0.0], [0.0, 900.0]]],
)


class FitsAroundTheTruth:
    """What a learner returns from `rows` rows a block, without the rows.

    In each component's own coordinates: multinomial weights, normal means, Wishart covariances.
    """

    n_components = TRUTH.n_components

    def __init__(self, rows: float) -> None:
        self.rows = rows

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> MixtureBatch:
        t, d = len(blocks), TRUTH.n_features
        seed = int(block_seeds(rng, t)[0])
        errors = simulate_blocks(t, self.rows, TRUTH.weights, d, rng=seed)
        return MixtureBatch.from_cholesky(
            TRUTH.weights + errors.weights,
            TRUTH.means + np.einsum("kij,tkj->tki", TRUTH.cholesky, errors.means),
            TRUTH.cholesky @ np.linalg.cholesky(np.eye(d) + errors.covariances),
            np.ones(t, dtype=bool),
        )


@pytest.fixture(scope="module")
def plan() -> Plan:
    return calibrate("paper", epsilon=1.0, delta=1e-6, alpha=0.5, n_components=2, n_features=2)


def test_the_papers_price_in_numbers(plan: Plan) -> None:
    assert plan.stage(Agreement).gamma == pytest.approx(2.94e-7, rel=2e-3)
    assert plan.stage(Agreement).n_blocks == 1160
    assert plan.stage(Agreement).tau == pytest.approx(plan.stage(Agreement).gamma / 3, rel=1e-12)


def test_ordinary_data_is_refused_and_the_refusal_names_the_rows(plan: Plan) -> None:
    rows = TRUTH.sample(7_000, rng=1)
    outcome = release(rows, plan, rng=2)
    result = outcome.result
    assert isinstance(result, Refusal)
    assert 1e18 < result.rows_needed < 2e19
    assert f"{as_text(result.rows_needed)} rows" in result.reason
    assert plan.budget.covers(result.budget)


def successes(plan: Plan, total_rows: float, runs: int) -> tuple[int, int]:
    """How often a release was made, and how often it was within alpha of the truth."""
    data = np.random.default_rng(0).normal(size=(plan.stage(Agreement).n_blocks * 6, 2))
    learner = FitsAroundTheTruth(total_rows / plan.stage(Agreement).n_blocks)
    released, near = 0, 0
    for seed in range(runs):
        result = release(data, plan, learner=learner, rng=seed).result
        if isinstance(result, Release):
            released += 1
            far = max(dist_param(TRUTH, result.mixture), dist_gmm(TRUTH, result.mixture))
            near += far <= plan.stage(Agreement).mask_accuracy
    return released, near


def test_with_those_rows_it_releases_within_alpha(plan: Plan) -> None:
    runs = 5
    released, near = successes(plan, 2 * plan.rows_needed(), runs)
    assert released == runs
    assert near >= (1 - plan.stage(Agreement).beta) * runs


@pytest.mark.parametrize("runs", [30, pytest.param(200, marks=pytest.mark.study)])
def test_it_releases_within_alpha_in_at_least_one_minus_beta_of_the_runs(runs: int) -> None:
    """A coarser delta needs fewer blocks, so that many runs are quick."""
    plan = calibrate("paper", epsilon=0.4, delta=0.05, alpha=0.5, n_components=2, n_features=2)
    rows = plan.rows_needed()
    assert rows > 1e15
    released, near = successes(plan, rows, runs)
    assert near >= (1 - plan.stage(Agreement).beta) * runs
    # and the estimate of the rows is no idle one: a tenth of them are not enough
    assert released >= near
    assert successes(plan, rows / 10, 3) == (0, 0)


@pytest.mark.parametrize("epsilon", [0.47, 1.0, 20.0])
def test_a_large_epsilon_is_not_spent_and_the_plan_says_so(epsilon: float) -> None:
    plan = calibrate("paper", epsilon=epsilon, delta=1e-6, alpha=0.5, n_components=2, n_features=2)
    most = 2 * math.log(2) / 3
    assert plan.spent().epsilon == pytest.approx(most, rel=1e-9)
    assert f"can only use {most:.4g}" in plan.explain()
    # Lemma 5.1 asks for less, not for at most
    assert plan.stage(PaperAgreement).test.epsilon < math.log(2) / 3


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.46])
def test_a_small_epsilon_is_spent_whole(epsilon: float) -> None:
    plan = calibrate("paper", epsilon=epsilon, delta=1e-6, alpha=0.5, n_components=2, n_features=2)
    assert plan.spent().epsilon == pytest.approx(epsilon, rel=1e-9)
    assert plan.spent().delta == pytest.approx(1e-6, rel=1e-9)
    assert "can only use" not in plan.explain()


def test_the_default_number_of_blocks_is_that_of_the_theorem() -> None:
    for epsilon, delta in ((0.1, 1e-3), (0.4, 1e-9), (3.0, 1e-6)):
        plan = calibrate(
            "paper", epsilon=epsilon, delta=delta, alpha=0.5, n_components=2, n_features=2
        )
        test = plan.stage(PaperAgreement).test
        e = min(epsilon / 2, math.log(2) / 3)
        inner = delta / (4 * math.exp(e))
        assert test.epsilon == pytest.approx(e)
        assert test.delta == pytest.approx(inner)
        assert plan.stage(Agreement).n_blocks == block_minimum(e, inner)
        assert (
            plan.stage(Agreement).test.pass_probability(
                np.full(plan.stage(Agreement).n_blocks, plan.stage(Agreement).n_blocks)
            )
            == 1.0
        )


def test_fewer_blocks_are_allowed_and_the_plan_warns() -> None:
    plan = calibrate(
        "paper", epsilon=1.0, delta=1e-6, alpha=0.5, n_components=2, n_features=2, n_blocks=300
    )
    assert "cannot be sure to pass" in plan.explain()
    assert plan.budget.covers(plan.spent())
    assert plan.rows_needed() == math.inf
