"""What spaces, tests and stages say of themselves for the audit is true, each of its kind."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.integrate import quad

from privgmm.arrays import IntArray
from privgmm.audit import counts, masks
from privgmm.audit.broken import with_space
from privgmm.audit.neighbours import Fits
from privgmm.data.datasets import random_mixture
from privgmm.distances.matching import bottleneck_matchings
from privgmm.distances.parameters import dist_param
from privgmm.errors import InvalidInput
from privgmm.methods import registry
from privgmm.methods.lifted.method import LiftedMethod
from privgmm.mixture import MixtureBatch
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.lifted_geometry import lift, lifted_distance
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.space import MixtureSpace
from privgmm.stages.agreement.stage import Agreement, PaperAgreement
from privgmm.stages.agreement.votes import AgreementTest, PrivateTest, friend_counts
from privgmm.stages.refinement.noisy_moments import Refinement
from tests.audit.sabotage import QuietMask

SPACES: list[MixtureSpace] = [LiftedSpace(0.2), PaperSpace(0.3, 0.2, 0.1)]
TESTS: list[PrivateTest] = [
    AgreementTest(31, 0.3, 1.5, 4, 18, 22, 20),
    PopulousTest(40, 0.3, 0.2, 1e-3),
]


def _kind(part: object) -> str:
    return type(part).__name__


# ------------------------------------------------------------------------------- spaces


@pytest.mark.parametrize("space", SPACES, ids=_kind)
@pytest.mark.parametrize("d", [1, 3])
def test_scaling_goes_exactly_as_far_as_asked(space: MixtureSpace, d: int) -> None:
    step = space.scaling(0.25, d)
    batch = Fits.equal(2, 1, d).scaled(np.array([0.0, step])).batch()
    assert space.distances(batch)[0, 1] == pytest.approx(0.25, rel=1e-9)


@pytest.mark.parametrize("space", SPACES, ids=_kind)
def test_distances_of_picks_are_those_of_the_fits(space: MixtureSpace) -> None:
    """A representative made of one fit alone is that fit."""
    batch = MixtureBatch.of([random_mixture(2, 2, rng=seed) for seed in (1, 2)])
    items = [space.representative(batch, np.eye(2)[i], i) for i in (0, 1)]
    index = np.array([0]), np.array([1])
    tables = space.tables(batch, *index)
    assert tables.shape == (1, 2, 2)
    best = float(bottleneck_matchings(tables).values[0])
    assert space.distance(*items) == pytest.approx(best, rel=1e-9)


def test_distances_are_those_of_other_modules() -> None:
    first, second = random_mixture(2, 2, rng=1), random_mixture(2, 2, rng=2)
    lifted, paper = SPACES
    assert paper.distance(first, second) == dist_param(first, second)
    batch = MixtureBatch.of([first, second])
    items = [lifted.representative(batch, np.eye(2)[i], i) for i in (0, 1)]
    roots = [lift(m.weights, m.means, m.cholesky) for m in (first, second)]
    table = lifted_distance(roots[0][:, None], roots[1][None])
    best = min(max(table[0, 0], table[1, 1]), max(table[0, 1], table[1, 0]))
    assert lifted.distance(*items) == pytest.approx(float(best), rel=1e-6)


@pytest.mark.parametrize("space", SPACES, ids=_kind)
def test_pairs_cost_no_more_than_the_curve_and_the_worst_is_among_them(
    space: MixtureSpace,
) -> None:
    gamma, d = 0.05, 2
    curve = space.mask_curve(gamma, d)
    hardest = space.hardest_pairs(gamma, d, rng=np.random.default_rng(1))
    worst = space.worst_pair(gamma, 1, d)
    for epsilon in (0.05, 0.3):
        limit = curve.delta(epsilon)
        deltas = [float(pair.delta(epsilon)) for pair in hardest]
        assert max(deltas) <= limit
        assert 0.9 * max(deltas) <= float(worst.delta(epsilon)) <= limit
    three = space.worst_pair(gamma, 3, d)
    assert three.mean_a.size == 3 * worst.mean_a.size


# -------------------------------------------------------------------------------- tests


@pytest.mark.parametrize("test", TESTS, ids=_kind)
def test_the_least_votes_can_pass_and_fewer_cannot(test: PrivateTest) -> None:
    least = test.least_counts()
    assert test.standing(least).may_pass
    fewer = least - (least == least.max())
    assert not test.standing(fewer).may_pass
    assert test.standing(fewer).statistic < test.standing(least).statistic


@pytest.mark.parametrize("test", TESTS, ids=_kind)
def test_verdicts_are_standings_with_noise(test: PrivateTest) -> None:
    rng = np.random.default_rng(3)
    t = test.n_blocks
    for spread in (0.01, 0.2, 0.5):
        places = spread * rng.standard_normal(t)
        distances = np.abs(places[:, None] - places)
        stands = test.standing(friend_counts(distances, test.radius))
        verdict = test.examine(distances, rng=4)
        assert verdict.statistic == stands.statistic
        assert verdict.reference == stands.reference
        assert np.array_equal(verdict.weights, stands.weights)
        assert stands.may_pass or not verdict.passed


@pytest.mark.parametrize("test", TESTS, ids=_kind)
def test_flanks_leave_a_middle_that_passes(test: PrivateTest) -> None:
    t, side = test.n_blocks, test.flank
    middle = t - 2 * side
    votes: IntArray = np.repeat([t - side, t, t - side], [side, middle, side])
    assert middle > 0
    assert test.standing(votes).may_pass


def test_noise_deltas_are_those_of_the_laws() -> None:
    """Integers one by one, and an integral by another rule."""
    exact, paper = TESTS
    law = DiscreteGaussian(1.5)
    chance = dict(zip(law.support.tolist(), law.probabilities, strict=True))
    for epsilon in (0.0, 0.4):
        want = sum(
            max(0.0, p - math.exp(epsilon) * chance.get(z - 1, 0.0)) for z, p in chance.items()
        )
        assert exact.noise_delta(epsilon, 1.0) == pytest.approx(want, rel=1e-9)
    noise = PopulousTest(40, 0.3, 0.2, 1e-3).noise
    for epsilon, shift in ((0.2, 0.05), (0.1, 0.05), (0.2, 0.1)):

        def gain(x: float, e: float = epsilon, s: float = shift) -> float:
            return max(0.0, float(noise.pdf(x)) - math.exp(e) * float(noise.pdf(x - s)))

        kinks = [-noise.bound + shift, 0.0, shift]
        want = quad(gain, -noise.bound, noise.bound, points=kinks, limit=500)[0]
        assert paper.noise_delta(epsilon, shift) == pytest.approx(want, rel=1e-4)


@pytest.mark.parametrize("test", TESTS, ids=_kind)
def test_the_claim_about_noise_holds_and_names_it(test: PrivateTest) -> None:
    found = counts.noise_of(test)
    assert found.passed
    assert found.name == test.noise_claim().name


# ------------------------------------------------------------------------------- stages


def _stages() -> list[Agreement]:
    return [
        stage
        for method in registry.all_methods()
        for stage in method.audited_plans(thorough=False)[0].stages
        if isinstance(stage, Agreement)
    ]


def test_every_mask_is_priced_in_one_way() -> None:
    for stage in _stages():
        assert (stage.mask_curve() is None) == bool(stage.lemma_pairs())
        assert set(stage.guarantees) >= {"statistic", "flips", "move"}


def test_lemmas_price_what_the_stage_pays() -> None:
    (stage,) = [one for one in _stages() if one.lemma_pairs()]
    prices = [one.price for one in stage.lemma_pairs()]
    assert len(prices) == 6
    paid = stage.price().budget
    assert paid is not None
    assert max(price.epsilon for price in prices) < paid.epsilon
    assert sum(price.delta for price in prices) < paid.delta


def test_a_mask_priced_in_no_way_is_not_passed_over() -> None:
    (stage,) = [one for one in _stages() if one.lemma_pairs()]

    class Unpriced(PaperAgreement):
        def lemma_pairs(self) -> tuple[()]:
            return ()

    names = [field.name for field in dataclasses.fields(stage)]
    broken = Unpriced(**{name: getattr(stage, name) for name in names})
    with pytest.raises(InvalidInput, match="lemmas that price it"):
        masks.mask_findings(broken, "broken", samples=10, rng=np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="Rényi price"):
        masks.exact_mask(broken, "broken", rng=np.random.default_rng(0))


def test_another_space_changes_what_is_run_not_what_is_promised() -> None:
    stage = LiftedMethod.shaped(31, 20, 20, 20, n_components=1, n_features=1)
    quiet = with_space(stage, QuietMask(stage.eta))
    assert quiet.gamma == stage.gamma
    assert quiet.mask_curve() == stage.mask_curve()
    pair, half = (
        one.space.hardest_pairs(0.1, 1, rng=np.random.default_rng(0))[0] for one in (stage, quiet)
    )
    assert half.root_a == pytest.approx(pair.root_a / 2)
    assert type(stage.space) is LiftedSpace


def test_refinement_lists_the_sums_of_every_step() -> None:
    steps = Refinement((60.0, 90.0), (4.0, 3.0))
    sums = steps.row_sums(2)
    assert {one.multiplier for one in sums} == {60.0, 90.0}
    assert max(one.move(rows) for one in sums for rows in one.starts) == pytest.approx(1.0)
    assert LiftedMethod.shaped(31, 20, 20, 20, n_components=1, n_features=1).row_sums(1) == ()
