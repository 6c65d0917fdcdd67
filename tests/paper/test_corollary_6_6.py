"""Corollary 6.6: the moment learner inside a differentially private release, by three methods.

The corollary plugs the learner of Moitra and Valiant (Theorem 6.5) into Theorem 6.2. The learner
here is of that line but without its guarantee, so what is checked is the plugging: privacy is
accounted as for any learner, the release is as near the truth as with EM where ordinary data is
enough, and where the constants ask for more rows than there are, blocks that agree as if they
had that many are released within alpha of the fit they agree on.
"""

from __future__ import annotations

import numpy as np
import pytest

from privgmm.arrays import Array
from privgmm.distances.parameters import dist_gmm, dist_param
from privgmm.learners.em import EM
from privgmm.learners.moments import Moments
from privgmm.learners.registry import make_learner
from privgmm.methods.plan import Plan
from privgmm.methods.planner import calibrate
from privgmm.mixture import Mixture
from privgmm.releases import Refusal, Release, release
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.refinement.noisy_moments import Refinement
from tests.plans import refined

TRUTH = Mixture(
    [0.35, 0.65],
    [[1e3, -3.0], [1e3 + 9.0, 20.0]],
    [[[4.0, 1.9], [1.9, 1.0]], [[1.0, 0.3], [0.3, 9.0]]],
)


def test_ordinary_data_is_released_as_near_the_truth_as_with_em() -> None:
    plan = refined(
        calibrate(
            "lifted",
            epsilon=4.0,
            delta=1e-6,
            alpha=1.0,
            n_components=2,
            n_features=2,
            n_blocks=120,
        ),
        Refinement((10.0, 10.0), (5.0, 4.0)),
    )
    rows = TRUTH.sample(100_000, rng=1)
    ours, theirs = (
        release(rows, plan, learner=make_learner(name, 2), rng=3) for name in ("moments", "em")
    )
    assert isinstance(ours.result, Release)
    assert isinstance(theirs.result, Release)
    assert plan.budget.covers(ours.result.budget)
    # block by block both find the same optimum, up to the order of its components
    assert ours.curator.fits.ok.all()
    np.testing.assert_allclose(ours.curator.distances, theirs.curator.distances, atol=1e-3)
    # so what is left between them is how the noise falls on which component
    errors = [dist_param(TRUTH, result.mixture) for result in (ours.result, theirs.result)]
    assert max(errors) < 0.2
    assert errors[0] < 3 * errors[1]


def strict(method: str, n_blocks: int | None = None) -> Plan:
    """A coarse delta, so that few blocks are enough."""
    return calibrate(
        method,
        epsilon=0.4,
        delta=0.05,
        alpha=0.5,
        n_components=2,
        n_features=2,
        n_blocks=n_blocks,
    )


def alike_blocks(plan: Plan, rows_a_block: int) -> Array:
    """Data whose blocks hold all but the same rows, as if each were drawn without end.

    Rows are dealt to blocks a stripe of t at a time, so a stripe of t copies, each moved by a
    trillionth, gives every block one of them.
    """
    rng = np.random.default_rng(5)
    rows = np.repeat(TRUTH.sample(rows_a_block, rng=rng), plan.stage(Agreement).n_blocks, axis=0)
    return rows + 1e-12 * rng.standard_normal(rows.shape)


@pytest.mark.parametrize(
    ("method", "n_blocks"),
    [("tight", 80), pytest.param("paper", None, marks=pytest.mark.study)],
)
def test_blocks_that_agree_are_released_within_alpha(method: str, n_blocks: int | None) -> None:
    plan = strict(method, n_blocks)
    rows = alike_blocks(plan, 40)
    result = release(rows, plan, learner=Moments(2, tol=1e-15), rng=2).result
    assert isinstance(result, Release)
    assert plan.budget.covers(result.budget)
    agreed = EM(2, tol=1e-15).fit(rows[:: plan.stage(Agreement).n_blocks], rng=0)
    assert dist_param(agreed, result.mixture) <= plan.stage(Agreement).mask_accuracy
    assert dist_gmm(agreed, result.mixture) <= plan.stage(Agreement).mask_accuracy


@pytest.mark.parametrize("method", ["tight", "paper"])
def test_ordinary_data_is_refused_by_their_constants(method: str) -> None:
    plan = strict(method, 40)
    rows = TRUTH.sample(30 * plan.stage(Agreement).n_blocks, rng=4)
    result = release(rows, plan, learner=Moments(2), rng=2).result
    assert isinstance(result, Refusal)
    assert plan.budget.covers(result.budget)
    assert result.rows_needed > 1e6
