"""The guessing game: exact chances against played rounds, and the promise above all of them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from privgmm.arrays import Array
from privgmm.audit.guessing import (
    Attack,
    Duel,
    Score,
    Silence,
    at_worst_count,
    attack_on,
    duel_between,
)
from privgmm.audit.sketch_releases import one_turn, small_plan
from privgmm.audit.wiretap import Side
from privgmm.budget import Budget
from privgmm.data.datasets import Dataset, generate, random_mixture
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan, calibrate
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.composition import price_of, told_apart
from privgmm.privacy.gaussian_pairs import GaussianPair
from privgmm.privacy.guessing import Sight
from privgmm.privacy.noise import DiscreteGaussian, SeededNoise
from privgmm.releases import Outcome, release
from privgmm.results import Release
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.space import Space
from privgmm.stages.agreement.stage import AveragedAgreement, ExactAgreement
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.stage import Sketch


@pytest.fixture(scope="module")
def data() -> Dataset:
    return generate(Mixture([1.0], [[0.0, 0.0]], [np.eye(2)]), 8000, rng=1)


@pytest.fixture(scope="module")
def plan(data: Dataset) -> Plan:
    refining = best_plan(
        data.n_rows, method="lifted", epsilon=2.0, delta=1e-5, n_components=1, n_features=2
    )
    return refining.but(refining.stage(AveragedAgreement))


def _stays_below(ceiling: float, attack: Attack) -> bool:
    """Whether an attack proves no more than the ceiling allows."""
    return attack.proved_success() <= ceiling


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
    assert 0.5 <= duel.best_success <= plan.ceiling < plan.spent().guess_ceiling
    low, _ = duel.play(4000, rng=np.random.default_rng(2)).interval(1 - 1e-4)
    assert low <= plan.ceiling


def test_equal_data_sets_cannot_be_told_apart(data: Dataset, plan: Plan) -> None:
    first, second = _outcome(data, plan), _outcome(data, plan)
    assert duel_between(first, second).best_success == pytest.approx(0.5, abs=1e-6)


def test_a_duel_needs_one_plan_and_no_refinement(data: Dataset, plan: Plan) -> None:
    outcome = _outcome(data, plan)
    refined = best_plan(
        data.n_rows, method="lifted", epsilon=2.0, delta=1e-5, n_components=1, n_features=2
    )
    polished = release(data.rows, refined, rng=4)
    with pytest.raises(InvalidInput, match="one plan"):
        duel_between(outcome, polished)
    with pytest.raises(InvalidInput, match="without refinement"):
        duel_between(polished, polished)


# ------------------------------------------------------------------------------- tests


def test_an_attack_is_as_good_as_its_two_mistakes() -> None:
    attack = Attack(30, 100, 50, 200)
    assert attack.rates == (0.3, 0.25)
    assert attack.success == pytest.approx(1 - 0.55 / 2)
    known = [
        binomtest(*part).proportion_ci(0.95, method="exact") for part in ((30, 100), (50, 200))
    ]
    assert attack.lowest() == pytest.approx(tuple(one.low for one in known))
    assert attack.highest() == pytest.approx(tuple(one.high for one in known))
    assert attack.proved_success() < attack.success
    assert _stays_below(0.8, attack)
    assert not _stays_below(0.99, Attack(0, 1000, 0, 1000))


def test_the_best_tests_trace_the_exact_trade_off() -> None:
    """Two normals one apart: A is said from a point on, and both mistakes are known."""
    n, odds = 40_000, (-1.0, 0.0, 0.7)
    found = Duel(1.0, 1.0, _shift(1.0)).attacks(n, odds, rng=np.random.default_rng(3))
    for level, attack in zip(odds, found, strict=True):
        # the loss is 1/2 - v, and A lies at zero
        exact = norm.cdf(0.5 - level - 1), norm.sf(0.5 - level)
        assert attack.rates == pytest.approx(exact, abs=4 * 0.5 / math.sqrt(n))
    proved = Sight(mu_squared=1.0).tradeoff()
    for attack in found:
        alarms, missed = attack.highest(1e-5)
        assert missed >= proved.missed(alarms)


def test_the_worst_count_is_where_most_is_told() -> None:
    chances = tuple(DiscreteGaussian(4.0).survival(20 - h) for h in range(60))
    for pair in (_shift(0.02), _shift(0.5), _shift(3.0)):
        duel = at_worst_count(pair, chances)
        every = [
            Duel(a, b, pair).best_success
            for one in itertools.pairwise(chances)
            for a, b in (one, one[::-1], (one[1], one[1]))
        ]
        assert duel.best_success == pytest.approx(max(every), rel=1e-9)
        # a count that is shown tells more
        counted = GaussianPair.joined([pair, GaussianPair.of_number(0.0, 1.0, 4.0)])
        shown = Duel(1.0, 1.0, counted).best_success
        assert duel.best_success <= shown * (1 + 1e-3)


def test_an_outsider_learns_from_numbers_and_from_refusals() -> None:
    rng = np.random.default_rng(5)
    first, second = rng.normal(0.0, 1.0, (6000, 2)), rng.normal(0.0, 1.0, (6000, 2))
    second[:, 1] += 1.0
    assert attack_on(first, second).success == pytest.approx(norm.cdf(0.5), abs=0.02)
    first[::3] = np.nan
    assert attack_on(first, second).success == pytest.approx(0.74, abs=0.02)
    equal = attack_on(second, second[::-1])
    assert equal.success == pytest.approx(0.5, abs=0.03)
    nothing = attack_on(np.full((100, 1), np.nan), np.full((100, 1), np.nan))
    assert nothing.success == 0.5
    with pytest.raises(InvalidInput, match="the same shape"):
        attack_on(first, second[:10])


# ------------------------------------------------------------------------ real mechanisms

DRAWS = 300


def _masked(space: Any, item: Any, source: SeededNoise) -> Array:
    """Releases by a real mask of one component in one column."""
    found = [space.mask(item, rng=source) for _ in range(DRAWS)]
    return np.array([[one.means[0, 0], math.log(one.covariances[0, 0, 0])] for one in found])


@pytest.mark.parametrize("method", ["tight", "lifted"])
@pytest.mark.parametrize("noise", [1.0, 0.3])
def test_real_masks_stay_below_the_ceiling_and_too_little_noise_does_not(
    method: str, noise: float
) -> None:
    """What is masked moves by gamma; the outsider sees what the mask gives."""
    plan = calibrate(
        method, epsilon=8.0, delta=1e-4, alpha=0.3, n_components=1, n_features=1, n_blocks=80
    )
    stage = plan.stage(ExactAgreement)
    levels = {name: noise * value for name, value in stage.space.noise().items()}
    space: Any = dataclasses.replace(cast(Any, stage.space), **levels)
    one: Any = Mixture([1.0], [[0.0]], [[[1.0]]])
    if isinstance(space, LiftedSpace):
        one = space.representative(MixtureBatch.of([one]), np.ones(1), 0)
        two = one.farther(stage.gamma)
    else:
        two = Mixture(
            [1.0], [[stage.gamma / math.sqrt(1 + stage.gamma)]], [[[1 / (1 + stage.gamma)]]]
        )
    assert stage.space.distance(one, two) == pytest.approx(stage.gamma, rel=1e-6)
    source = SeededNoise(np.random.default_rng(1))
    attack = attack_on(*(_masked(space, item, source) for item in (one, two)))
    assert _stays_below(plan.ceiling, attack) == (noise == 1.0), attack


@pytest.mark.parametrize("said", [1.0, 2.0])
def test_a_real_sketch_reaches_its_ceiling_and_passes_one_for_twice_the_noise(said: float) -> None:
    stage = Sketch(SketchShape.default(1), 0.5, 200, 1)
    rows = np.random.default_rng(0).standard_normal((200, 1))
    rows[0] = 0.0
    other = rows.copy()
    other[0] = one_turn(stage.shape)
    source = SeededNoise(np.random.default_rng(2))
    frame = Frame([0.0], [[1.0]])
    seen = []
    for side in (rows, other):
        ready = stage.prepare(Side(side).work(source), frame)
        seen.append(np.stack([ready.draw(source).value.values for _ in range(1500)]))
    way = (seen[1].mean(axis=0) - seen[0].mean(axis=0)) / stage.deviations**2
    attack = attack_on(*((values @ way.conj()).real[:, None] for values in seen))
    priced = dataclasses.replace(stage, multiplier=said * stage.multiplier)
    ceiling = told_apart([price_of([priced.price()], 1e-6)]).ceiling
    assert ceiling == pytest.approx(norm.cdf(1 / said), abs=1e-4)
    assert _stays_below(ceiling, attack) == (said == 1.0)
    assert attack.success == pytest.approx(norm.cdf(1.0), abs=0.04)


def test_real_sketched_releases_stay_below_the_ceiling() -> None:
    """Histograms, sketch and finish, as anybody runs them; a row far away is the difference."""
    plan = small_plan(Budget(8.0, 0.01))
    assert plan.ceiling < 0.9 < plan.spent().guess_ceiling
    rows = np.random.default_rng(0).standard_normal((300, 1))
    other = rows.copy()
    other[0] = 1e6
    rng = np.random.default_rng(6)
    seen = []
    for side in (rows, other):
        numbers = []
        for _ in range(30):
            result = release(side, plan, rng=rng).result
            numbers.append(
                [result.mixture.means[0, 0], math.log(result.mixture.covariances[0, 0, 0])]
                if isinstance(result, Release)
                else [np.nan, np.nan]
            )
        seen.append(np.array(numbers))
    assert _stays_below(plan.ceiling, attack_on(*seen))


def test_silence_masks_nothing(plan: Plan) -> None:
    assert not Silence().normal((2, 3)).any()
    assert Silence().permutation(4).tolist() == [0, 1, 2, 3]
    one = random_mixture(1, 2, rng=1)
    space: Space[MixtureBatch, Mixture] = plan.stage(AveragedAgreement).space
    item = space.representative(MixtureBatch.of([one]), np.ones(1), 0)
    plain = space.mask(item, rng=Silence())
    assert plain.means == pytest.approx(one.means)
    assert plain.covariances == pytest.approx(one.covariances)
