"""The guessing game: exact chances against played rounds, and the promise above all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from privgmm.audit.guessing import Duel, Score, Silence, duel_between
from privgmm.data.datasets import Dataset, generate, random_mixture
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.gaussian_pairs import GaussianPair
from privgmm.release import Outcome, release
from privgmm.stages.agreement.space import Space


@pytest.fixture(scope="module")
def data() -> Dataset:
    return generate(Mixture([1.0], [[0.0, 0.0]], [np.eye(2)]), 8000, rng=1)


@pytest.fixture(scope="module")
def plan(data: Dataset) -> Plan:
    return best_plan(
        data.n_rows, epsilon=2.0, delta=1e-5, n_components=1, n_features=2, refine=False
    )


def _outcome(data: Dataset, plan: Plan, value: list[float] | None = None) -> Outcome:
    rows = data.rows.copy()
    if value is not None:
        rows[10] = value
    return release(rows, plan, rng=4)


def _shift(distance: float) -> GaussianPair:
    one = np.eye(1)
    return GaussianPair(np.zeros(1), one, np.array([distance]), one)


@given(st.integers(1, 400), st.integers(0, 400))
def test_interval_is_clopper_and_pearsons(rounds: int, right: int) -> None:
    score = Score(min(right, rounds), rounds)
    known = binomtest(score.right, score.rounds).proportion_ci(0.95, method="exact")
    assert score.interval() == pytest.approx((known.low, known.high), abs=1e-9)


def test_scores_add_and_begin_at_a_coin() -> None:
    assert Score(0, 0).share == 0.5
    assert Score(0, 0).interval() == (0.0, 1.0)
    assert Score(3, 4) + Score(1, 6) == Score(4, 10)


@pytest.mark.parametrize("distance", [0.0, 0.5, 2.0])
def test_best_success_of_two_shifted_normals(distance: float) -> None:
    assert Duel(1.0, 1.0, _shift(distance)).best_success == pytest.approx(norm.cdf(distance / 2))


@pytest.mark.parametrize(
    "duel",
    [
        Duel(1.0, 1.0, _shift(1.0)),
        Duel(0.9, 0.5, _shift(0.7)),
        Duel(0.2, 0.6, _shift(0.0)),
        Duel(0.7, 0.0, None),
        Duel(0.0, 0.0, None),
    ],
)
def test_played_rounds_find_the_exact_chance(duel: Duel) -> None:
    n = 40_000
    score = duel.play(n, rng=np.random.default_rng(1))
    assert abs(score.share - duel.best_success) <= 4 * 0.5 / math.sqrt(n)


def test_it_does_not_matter_which_is_called_a() -> None:
    duel = Duel(0.9, 0.5, _shift(0.7))
    twin = Duel(0.5, 0.9, _shift(0.7).swapped())
    assert duel.best_success == pytest.approx(twin.best_success)


@pytest.mark.parametrize("value", [[0.1, 0.0], [30.0, -30.0], [1e9, 1e9]])
def test_no_guess_beats_the_promise(data: Dataset, plan: Plan, value: list[float]) -> None:
    first, second = _outcome(data, plan), _outcome(data, plan, value)
    duel = duel_between(first, second)
    ceiling = plan.spent().guess_ceiling
    assert 0.5 <= duel.best_success <= ceiling
    low, _ = duel.play(4000, rng=np.random.default_rng(2)).interval(1 - 1e-4)
    assert low <= ceiling


def test_equal_data_sets_cannot_be_told_apart(data: Dataset, plan: Plan) -> None:
    first, second = _outcome(data, plan), _outcome(data, plan)
    assert duel_between(first, second).best_success == pytest.approx(0.5, abs=1e-6)


def test_a_duel_needs_one_plan_and_no_refinement(data: Dataset, plan: Plan) -> None:
    outcome = _outcome(data, plan)
    refined = best_plan(data.n_rows, epsilon=2.0, delta=1e-5, n_components=1, n_features=2)
    polished = release(data.rows, refined, rng=4)
    with pytest.raises(InvalidInput, match="one plan"):
        duel_between(outcome, polished)
    with pytest.raises(InvalidInput, match="without refinement"):
        duel_between(polished, polished)


def test_silence_masks_nothing(plan: Plan) -> None:
    assert not Silence().normal((2, 3)).any()
    assert Silence().permutation(4).tolist() == [0, 1, 2, 3]
    one = random_mixture(1, 2, rng=1)
    space: Space[MixtureBatch, Mixture] = plan.space
    item = space.representative(MixtureBatch.of([one]), np.ones(1), 0)
    plain = space.mask(item, rng=Silence())
    assert plain.means == pytest.approx(one.means)
    assert plain.covariances == pytest.approx(one.covariances)
