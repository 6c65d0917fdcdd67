"""One release: block by block, accounted before noise, repeatable when seeded."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from distributed import Client

from privgmm.arrays import Array, IntArray
from privgmm.budget import Budget, Unit
from privgmm.distances.matching import bottleneck_matching
from privgmm.distances.parameters import dist_param
from privgmm.errors import BudgetExceeded, InvalidInput, PrivGMMError
from privgmm.learners.em import EM
from privgmm.learners.learner import BlockRandomness
from privgmm.ledger.memory import MemoryLedger
from privgmm.ledger.protocol import Intent
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan, calibrate
from privgmm.methods.request import PlanRequest
from privgmm.methods.searching import as_text
from privgmm.methods.what_if import epsilon_for, rows_for
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.composition import Price
from privgmm.privacy.curves import gaussian_curve
from privgmm.privacy.noise import NoiseSource, SeededNoise
from privgmm.releases import Outcome, Refusal, Release, prepare, release
from privgmm.stages.agreement.lifted_geometry import lift, lifted_distance
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.stage import Agreement, AgreementView, AveragedAgreement
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.stage import Drawn, Stage, Work
from tests.plans import refined

TRUTH = Mixture(
    [0.6, 0.4], [[0.0, 0.0], [30.0, 10.0]], [[[1.0, 0.4], [0.4, 2.0]], [[3.0, 0.0], [0.0, 0.5]]]
)
ROWS = TRUTH.sample(13_000, rng=20)


def make_plan(refine: Refinement | None = None) -> Plan:
    plan = calibrate(
        "lifted", epsilon=4.0, delta=1e-6, alpha=1.0, n_components=2, n_features=2, n_blocks=100
    )
    return refined(plan, refine)


PLAN = make_plan()
SHAPE: dict[str, Any] = {
    "n_components": 2,
    "n_features": 2,
    "epsilon": 4.0,
    "delta": 1e-6,
    "method": "lifted",
}


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return release(ROWS, PLAN, rng=1)


def released(result: Release | Refusal) -> Release:
    assert isinstance(result, Release)
    return result


# ------------------------------------------------------------------------ what comes out


def test_good_data_is_released_near_the_truth(outcome: Outcome) -> None:
    result = released(outcome.result)
    assert outcome.released
    assert PLAN.budget.covers(result.budget)
    assert result.plan is PLAN
    assert dist_param(TRUTH, result.mixture) < 3
    assert result.mixture.weights.sum() == pytest.approx(1.0)


def test_refinement_sharpens_and_keeps_the_budget() -> None:
    plan = make_plan(Refinement((10.0, 10.0), (5.0, 4.0)))
    outcome = release(ROWS, plan, rng=1)
    result = released(outcome.result)
    masked = outcome.curator.view(AgreementView).coarse
    assert masked is not None
    assert plan.budget.covers(result.budget)
    coarse, fine = (dist_param(TRUTH, f) for f in (masked, result.mixture))
    assert fine < 0.5 * coarse


@pytest.mark.parametrize("method", ["tight", "paper"])
def test_the_stricter_methods_refuse_the_same_data(method: str) -> None:
    plan = calibrate(
        method,
        epsilon=4.0,
        delta=1e-6,
        alpha=1.0,
        n_components=2,
        n_features=2,
        n_blocks=100,
    )
    result = release(ROWS, plan, rng=1).result
    assert isinstance(result, Refusal)
    assert not result.released
    assert plan.budget.covers(result.budget)
    data = json.loads(json.dumps(result.to_dict()))
    assert data["released"] is False
    assert data["reason"] == result.reason
    assert "mixture" not in data


def test_a_refusal_says_what_was_spent_and_what_would_pass() -> None:
    """In the planner's numbers: rows at this epsilon, and the epsilon for these rows."""
    noise = np.random.default_rng(0).normal(size=(6_000, 2)) ** 3
    result = release(noise, PLAN, rng=3).result
    assert isinstance(result, Refusal)
    assert f"{result.budget} is spent although nothing is published" in result.reason
    asked = PlanRequest(
        n_components=PLAN.n_components,
        n_features=2,
        n_rows=6_000,
        epsilon=PLAN.budget.epsilon,
        delta=PLAN.budget.delta,
        method=PLAN.method,
    )
    assert f"{as_text(rows_for(asked))} with all left to method" in result.reason
    assert f"an epsilon of about {as_text(epsilon_for(asked))}" in result.reason
    unknown = dataclasses.replace(result, n_units=None)
    assert "at hand" not in unknown.reason


def test_a_plan_by_hand_that_asks_for_too_much_gets_the_advice_to_leave_it_open() -> None:
    """The advice must not be an epsilon below the one that was refused."""
    needed, usual = PLAN.rows_needed(), rows_for(PlanRequest(**SHAPE))
    assert usual < needed
    advice = Refusal(
        budget=PLAN.budget, plan=PLAN, seeded=False, why="No.", n_units=int(usual)
    ).reason
    assert (
        f"the {int(usual):,} at hand are enough if mask and blocks are left to the method" in advice
    )
    assert "it takes an epsilon" not in advice
    fewer = Refusal(
        budget=PLAN.budget, plan=PLAN, seeded=False, why="No.", n_units=int(usual) - 1
    ).reason
    assert "it takes an epsilon of about" in fewer


def test_a_refusals_words_depend_on_the_plan_and_the_number_of_rows_alone() -> None:
    noise = np.random.default_rng(0).normal(size=(6_000, 2)) ** 3
    other = np.random.default_rng(1).normal(size=(6_000, 2))
    reasons = set()
    for rows in (noise, other):
        result = release(rows, PLAN, rng=3).result
        assert isinstance(result, Refusal)
        reasons.add(result.reason)
    assert len(reasons) == 1


def test_a_release_as_plain_numbers(outcome: Outcome) -> None:
    result = released(outcome.result)
    data = json.loads(json.dumps(result.to_dict()))
    assert data["seeded"] is True
    assert data["released"] is True
    assert Mixture.from_dict(data["mixture"]) == result.mixture
    assert Budget.from_dict(data["budget"]) == result.budget
    # nothing of what only the curator may see
    assert data.keys() == {
        *("released", "seeded", "unit", "budget", "mixture", "plan"),
        *("expected_error", "resolution"),
    }


def test_what_the_curator_sees(outcome: Outcome) -> None:
    view = outcome.curator
    assert len(view.fits) == 100
    assert view.distances.shape == (100, 100)
    assert view.votes.shape == (100,)
    assert view.view(AgreementView).positions.shape == (100, 130)
    assert (
        view.view(AgreementView).verdict.noisy_statistic
        >= view.view(AgreementView).verdict.threshold
    )
    assert view.view(AgreementView).verdict.statistic == pytest.approx(
        view.view(AgreementView).verdict.statistic
    )
    assert dist_param(TRUTH, view.nonprivate()) < 0.1


# -------------------------------------------------------------------- block by block


def test_changing_a_row_changes_the_fit_of_its_block_only(outcome: Outcome) -> None:
    first, last = (
        int(outcome.curator.view(AgreementView).positions[0, 0]),
        int(outcome.curator.view(AgreementView).positions[-1, -1]),
    )
    for row, value in ((first, [3.0, -2.0]), (last, [1e9, 1e9]), (5_000, [0.0, 0.0])):
        changed = ROWS.copy()
        changed[row] = value
        other = release(changed, PLAN, rng=1).curator
        (block,) = np.flatnonzero((other.view(AgreementView).positions == row).any(axis=1))
        assert np.array_equal(
            other.view(AgreementView).positions, outcome.curator.view(AgreementView).positions
        )
        for name in ("weights", "means", "cholesky", "ok"):
            before = getattr(outcome.curator.fits, name)
            after = getattr(other.fits, name)
            rest = np.arange(100) != block
            assert np.array_equal(before[rest], after[rest]), name
        assert not np.array_equal(outcome.curator.fits.means[block], other.fits.means[block])


def test_replacing_a_block_moves_the_statistic_by_at_most_one(outcome: Outcome) -> None:
    for block in (0, 41):
        changed = ROWS.copy()
        changed[outcome.curator.view(AgreementView).positions[block]] += 500.0
        other = release(changed, PLAN, rng=1).curator
        assert (
            abs(
                other.view(AgreementView).verdict.statistic
                - outcome.curator.view(AgreementView).verdict.statistic
            )
            <= 1
        )


def test_replacing_a_block_moves_what_is_masked_by_at_most_gamma(outcome: Outcome) -> None:
    """Compare the weighted means before the mask, for any rows of the replaced block."""
    space, test, fits = (
        PLAN.stage(Agreement).space,
        PLAN.stage(Agreement).test,
        outcome.curator.fits,
    )
    assert isinstance(space, LiftedSpace)
    rng = np.random.default_rng(3)
    # fits that scatter as widely as the radius allows: the hardest case for the mean
    wide = scattered(fits, 0.06 * PLAN.stage(Agreement).tau, rng)
    moves = []
    for trial in range(40):
        step = 0.03 * PLAN.stage(Agreement).tau * (1 + trial % 8)
        other = replaced(wide, int(rng.integers(100)), scattered(fits, step, rng))
        means = []
        for batch in (wide, other):
            verdict = test.examine(space.distances(batch), rng=0)
            assert verdict.statistic >= 0
            mean = space.representative(batch, verdict.weights, verdict.reference)
            means.append(lift(mean.weights, mean.means, mean.cholesky) @ mean.roots)
        table = lifted_distance(means[0][:, None], means[1][None])
        moves.append(bottleneck_matching(table).value)
    assert max(moves) <= PLAN.stage(Agreement).gamma
    assert max(moves) > 0.02 * PLAN.stage(Agreement).gamma


def scattered(fits: MixtureBatch, step: float, rng: np.random.Generator) -> MixtureBatch:
    t, k, d = fits.means.shape
    change = np.eye(d) + step * np.tril(rng.standard_normal((t, k, d, d)))
    shift = step * np.einsum("tkij,tkj->tki", fits.cholesky, rng.standard_normal((t, k, d)))
    diagonal = np.diagonal(change, axis1=-2, axis2=-1)
    change *= np.where(diagonal < 0, -1.0, 1.0)[..., None, :]
    ok = np.ones(t, dtype=bool)
    return MixtureBatch.from_cholesky(fits.weights, fits.means + shift, fits.cholesky @ change, ok)


def replaced(batch: MixtureBatch, block: int, source: MixtureBatch) -> MixtureBatch:
    weights, means, cholesky = batch.weights.copy(), batch.means.copy(), batch.cholesky.copy()
    weights[block] = source.weights[block]
    means[block], cholesky[block] = source.means[block], source.cholesky[block]
    return MixtureBatch.from_cholesky(weights, means, cholesky, batch.ok)


def test_a_sorted_file_is_released_too() -> None:
    """Rows are dealt, so that blocks do not become slices of a sorted file."""
    order = np.argsort(ROWS[:, 0])
    result = released(release(ROWS[order], PLAN, rng=4).result)
    assert dist_param(TRUTH, result.mixture) < 3


def test_units_do_not_matter(outcome: Outcome) -> None:
    """After any affine map of the columns, the blocks agree as before."""
    matrix, shift = np.array([[1e-3, 2.0], [5e2, 1e3]]), np.array([7e3, -1e5])
    other = release(ROWS @ matrix.T + shift, PLAN, rng=1).curator
    assert np.allclose(other.distances, outcome.curator.distances, rtol=1e-4, atol=1e-6)
    assert (
        other.view(AgreementView).verdict.statistic
        == outcome.curator.view(AgreementView).verdict.statistic
    )
    back = other.fits[0].transformed(np.linalg.inv(matrix), -np.linalg.inv(matrix) @ shift)
    assert dist_param(back, outcome.curator.fits[0]) < 1e-4


# ------------------------------------------------------------------------ reproducibility


def test_whoever_knows_the_seed_can_tell(outcome: Outcome) -> None:
    unseeded = dataclasses.replace(released(outcome.result), seeded=False)
    assert unseeded.attacker == PLAN.attacker()
    for result in (outcome.result, Refusal(budget=PLAN.budget, plan=PLAN, seeded=True, why="No.")):
        assert "someone who knows or guesses the seed can be certain" in result.attacker


def test_a_seed_repeats_and_is_marked(outcome: Outcome) -> None:
    again = released(release(ROWS, PLAN, rng=np.random.default_rng(1)).result)
    assert again.mixture == released(outcome.result).mixture
    assert again.seeded
    other = released(release(ROWS, PLAN, rng=2).result)
    assert other.mixture != again.mixture


def test_the_default_is_cryptographic_and_never_repeats() -> None:
    one, two = (released(release(ROWS, PLAN).result) for _ in range(2))
    assert not one.seeded
    assert one.mixture != two.mixture


def test_an_executor_changes_nothing(outcome: Outcome) -> None:
    with ThreadPoolExecutor(2) as executor:
        other = release(ROWS, PLAN, rng=1, executor=executor)
    assert other.curator.fits == outcome.curator.fits
    assert released(other.result).mixture == released(outcome.result).mixture


def test_a_dask_client_changes_nothing(outcome: Outcome) -> None:
    with Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None
    ) as client:
        other = release(ROWS, PLAN, rng=1, executor=client)
    assert other.curator.fits == outcome.curator.fits
    assert released(other.result).mixture == released(outcome.result).mixture


def test_the_usual_learner_is_em(outcome: Outcome) -> None:
    other = release(ROWS, PLAN, rng=1, learner=EM(2))
    assert other.curator.fits == outcome.curator.fits


# --------------------------------------------------------------------------- the account


@dataclasses.dataclass(frozen=True)
class Recording(SeededNoise):
    """Draw seeded noise, and record every draw."""

    events: list[str] = dataclasses.field(default_factory=list)

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        self.events.append("normal")
        return super().normal(shape)

    def laplace(self, scale: float, size: int) -> Array:
        self.events.append("laplace")
        return super().laplace(scale, size)

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        self.events.append("discrete gaussian")
        return super().discrete_gaussian(sigma, size)


@dataclasses.dataclass(frozen=True)
class RecordingIntent:
    """Record when an intent is concluded."""

    events: list[str]
    kept: Intent
    problem: Exception | None = None

    @property
    def number(self) -> int:
        return self.kept.number

    @property
    def mark(self) -> str:
        return self.kept.mark

    def conclude(self, *, released: bool, reason: str | None = None) -> None:
        self.events.append("conclude")
        if self.problem is not None:
            raise self.problem
        self.kept.conclude(released=released, reason=reason)


class RecordingLedger(MemoryLedger):
    def __init__(
        self, events: list[str], cap: Budget | None = None, problem: Exception | None = None
    ) -> None:
        super().__init__(cap)
        self.events = events
        self.problem = problem

    def intend(self, plan: Plan, *, seeded: bool, unit: Unit = "row") -> RecordingIntent:
        kept = super().intend(plan, seeded=seeded, unit=unit)
        self.events.append("intend")
        return RecordingIntent(self.events, kept, self.problem)


def once(events: list[str]) -> list[str]:
    """List events in order, without those that repeat the one before."""
    return [event for event, _ in itertools.groupby(events)]


def recording() -> Recording:
    return Recording(np.random.default_rng(1))


@pytest.mark.parametrize("refined", [False, True])
def test_the_ledger_is_told_before_the_noise_and_after_the_verdict(refined: bool) -> None:
    source = recording()
    ledger = RecordingLedger(source.events)
    plan = make_plan(Refinement((10.0,), (5.0,))) if refined else PLAN
    assert release(ROWS, plan, rng=source, ledger=ledger).released
    assert once(source.events) == ["intend", "discrete gaussian", "conclude"]
    assert len(source.events) > 3
    (entry,) = ledger.entries
    assert entry.released is True
    assert entry.budget == plan.spent()


def test_a_refusal_is_written_down_and_draws_no_mask() -> None:
    source = recording()
    ledger = RecordingLedger(source.events)
    rows = np.random.default_rng(0).normal(size=(4_000, 2)) ** 3
    assert not release(rows, PLAN, rng=source, ledger=ledger).released
    assert source.events == ["intend", "discrete gaussian", "conclude"]
    assert [entry.released for entry in ledger.entries] == [False]


def test_a_cap_stops_the_release_before_any_draw() -> None:
    source = recording()
    ledger = RecordingLedger(source.events, cap=Budget(3.9, 1e-3))
    with pytest.raises(BudgetExceeded):
        release(ROWS, PLAN, rng=source, ledger=ledger)
    assert source.events == []
    assert ledger.entries == ()


def test_cancelling_spends_nothing() -> None:
    class CancelledError(Exception):
        pass

    source = recording()
    ledger = RecordingLedger(source.events)
    seen: list[int] = []

    def progress(done: int, total: int) -> None:
        seen.append(done)
        if done >= total / 2:
            raise CancelledError

    with pytest.raises(CancelledError):
        release(ROWS, PLAN, rng=source, ledger=ledger, progress=progress)
    assert seen[-1] < 100
    assert source.events == []
    assert ledger.entries == ()


def test_progress_counts_blocks_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    release(ROWS, PLAN, rng=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (100, 100)


def test_a_plan_beyond_its_budget_is_not_run() -> None:
    source = recording()
    stage = PLAN.stage(AveragedAgreement)
    quiet = PLAN.but(dataclasses.replace(stage, eta=stage.eta / 2))
    with pytest.raises(PrivGMMError, match="more than its budget"):
        release(ROWS, quiet, rng=source)
    assert source.events == []


# ------------------------------------------------------------- preparing, then drawing


def test_preparing_draws_nothing_and_drawing_happens_once() -> None:
    source = recording()
    ledger = RecordingLedger(source.events)
    prepared = prepare(ROWS, PLAN, rng=source)
    assert source.events == []
    assert prepared.spent == PLAN.spent()
    assert prepared.draw(ledger).released
    assert once(source.events) == ["intend", "discrete gaussian", "conclude"]
    with pytest.raises(PrivGMMError, match="drawn already"):
        prepared.draw(ledger)
    assert len(ledger.entries) == 1


def test_a_forbidden_draw_may_be_tried_again_under_another_ledger() -> None:
    source = recording()
    prepared = prepare(ROWS, PLAN, rng=source)
    with pytest.raises(BudgetExceeded):
        prepared.draw(RecordingLedger(source.events, cap=Budget(3.9, 1e-3)))
    assert source.events == []
    assert prepared.draw().released


def test_the_two_calls_are_the_one() -> None:
    one = released(release(ROWS, PLAN, rng=1).result).mixture
    assert released(prepare(ROWS, PLAN, rng=1).draw().result).mixture == one


@pytest.mark.parametrize(
    "problem",
    [PrivGMMError("the disk is full"), OSError("the disk is full"), KeyError(), ValueError("?")],
    ids=lambda problem: type(problem).__name__,
)
def test_a_ledger_that_fails_at_the_end_does_not_take_the_result_along(problem: Exception) -> None:
    """A ledger may be any code and raise anything, and the budget is spent."""
    source = recording()
    ledger = RecordingLedger(source.events, problem=problem)
    outcome = release(ROWS, PLAN, rng=source, ledger=ledger)
    assert outcome.released
    assert outcome.ledger_problem == (str(problem) or type(problem).__name__)
    assert [entry.released for entry in ledger.entries] == [None]
    assert release(ROWS, PLAN, rng=1, ledger=MemoryLedger()).ledger_problem is None


@dataclasses.dataclass(frozen=True)
class Echo(Stage):
    """Publish what the stage was given, and count how often it was asked."""

    calls: list[Any]

    kind: ClassVar[str] = "echo"

    def price(self) -> Price:
        return Price((gaussian_curve(1e3),))

    def prepare(self, work: Work, public: Any) -> Echo:
        self.calls.append(public)
        return self

    def draw(self, source: NoiseSource) -> Drawn:
        return Drawn(self.calls[-1])

    def sentences(self) -> list[str]:
        return ["It repeats."]

    def to_dict(self) -> dict[str, Any]:
        return {}


@dataclasses.dataclass(frozen=True)
class Failing(Echo):
    """Draw noise, and fail at computing with it."""

    problem: Exception = dataclasses.field(default_factory=ValueError)

    def draw(self, source: NoiseSource) -> Drawn:
        source.discrete_gaussian(1.0, 1)
        raise self.problem


@pytest.mark.parametrize(
    "problem",
    [np.linalg.LinAlgError("Singular matrix"), ZeroDivisionError(), OverflowError()],
    ids=lambda problem: type(problem).__name__,
)
def test_noisy_numbers_that_cannot_be_computed_with_are_a_refusal(problem: Exception) -> None:
    """It is paid for by then, and an error would be an outcome that the ledger does not know."""
    plan = PLAN.but(Failing([], problem), budget=Budget(9.0, 1e-3))
    ledger = MemoryLedger()
    result = release(ROWS, plan, rng=0, ledger=ledger).result
    assert isinstance(result, Refusal)
    assert "no mixture could be computed" in result.why
    (entry,) = ledger.entries
    assert entry.released is False
    assert entry.reason == result.why


@pytest.mark.parametrize("problem", [OSError("gone"), InvalidInput("changed"), KeyError("mine")])
def test_other_errors_are_not_taken_for_outcomes(problem: Exception) -> None:
    plan = PLAN.but(Failing([], problem), budget=Budget(9.0, 1e-3))
    ledger = MemoryLedger()
    with pytest.raises(type(problem)):
        release(ROWS, plan, rng=0, ledger=ledger)
    assert [entry.released for entry in ledger.entries] == [None]


def test_each_stage_sees_what_the_one_before_it_published() -> None:
    calls: list[Any] = []
    plan = PLAN.but(PLAN.stage(Agreement), Echo(calls), Echo(calls), budget=Budget(4.1, 1e-6))
    outcome = release(ROWS, plan, rng=1)
    assert calls == [outcome.curator.view(AgreementView).coarse] * 2
    assert released(outcome.result).mixture == outcome.curator.view(AgreementView).coarse
    assert len(outcome.curator.drawn) == 3


def test_after_a_refusal_no_later_stage_looks_at_a_row() -> None:
    calls: list[Any] = []
    rows = np.random.default_rng(0).normal(size=(4_000, 2)) ** 3
    plan = PLAN.but(PLAN.stage(Agreement), Echo(calls), budget=Budget(4.1, 1e-6))
    outcome = release(rows, plan, rng=1)
    assert not outcome.released
    assert calls == []
    assert len(outcome.curator.drawn) == 1


def test_a_plan_for_other_rows_is_refused_before_anything_is_spent() -> None:
    """A later stage counts the rows too: it must not find out after the first has drawn."""
    source = recording()
    plan = best_plan(5_000, method="sketch", epsilon=1.0, delta=1e-6, n_components=1, n_features=2)
    with pytest.raises(InvalidInput, match="planned for 5000 rows or persons, got 5001"):
        release(ROWS[:5_001], plan, rng=source, ledger=RecordingLedger(source.events))
    assert source.events == []


def test_a_first_stage_may_fit_another_number_of_components() -> None:
    """One component agrees, three are released: each stage fits what it says."""
    frame = best_plan(
        13_000, method="lifted", epsilon=4.0, delta=1e-6, n_components=1, n_features=2
    )
    first = dataclasses.replace(frame.stage(Agreement), learner="em")
    plan = PLAN.but(first, PLAN.stage(Agreement), budget=Budget(9.0, 1e-5))
    outcome = release(ROWS, plan, rng=1, learner=EM(2))
    assert outcome.curator.fits.n_components == 1
    assert released(outcome.result).mixture.n_components == 2
    assert outcome.curator.nonprivate().n_components == 2
    with pytest.raises(InvalidInput, match="the learner fits 3 components, the plan 2"):
        release(ROWS, plan, rng=1, learner=EM(3))


# ------------------------------------------------------------------------------ persons


def households() -> Iterator[tuple[Array, IntArray]]:
    """Make one to five rows for each person, scattered over the file."""
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 6, 13_000)
    rows = np.repeat(ROWS, sizes, axis=0) + 0.01 * rng.normal(size=(sizes.sum(), 2))
    groups = np.repeat(np.arange(13_000), sizes)
    order = rng.permutation(len(rows))
    yield rows[order], groups[order]


def test_every_person_is_in_one_block_with_one_row() -> None:
    ((rows, groups),) = households()
    outcome = release(rows, PLAN, rng=1, groups=groups)
    assert outcome.released
    assert outcome.result.unit == "person"
    persons = groups[outcome.curator.view(AgreementView).positions.ravel()]
    assert len(set(persons.tolist())) == persons.size == 13_000
    # replacing everything a person ever contributed changes one block
    changed = rows.copy()
    changed[groups == 77] = [100.0, -100.0]
    other = release(changed, PLAN, rng=1, groups=groups)
    differ = (other.curator.fits.means != outcome.curator.fits.means).any(axis=(1, 2))
    assert np.count_nonzero(differ) == 1


def test_persons_are_refined_as_persons() -> None:
    ((rows, groups),) = households()
    plan = make_plan(Refinement((10.0,), (5.0,)))
    result = released(release(rows, plan, rng=1, groups=groups).result)
    assert dist_param(TRUTH, result.mixture) < 0.5
    # one person with 20,000 equal rows hardly matters, by persons
    crowd = np.concatenate([rows, np.tile([[15.0, 5.0]], (20_000, 1))])
    owners = np.concatenate([groups, np.full(20_000, 13_000)])
    held = released(release(crowd, plan, rng=1, groups=owners).result)
    assert dist_param(TRUTH, held.mixture) < 0.5


# --------------------------------------------------------------------------- odd learners


class NothingFits:
    """Fail on every block."""

    n_components = 2

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> MixtureBatch:
        t = len(blocks)
        return MixtureBatch(
            np.zeros((t, 2)), np.zeros((t, 2, 2)), np.zeros((t, 2, 2, 2)), np.zeros(t, dtype=bool)
        )


def test_a_learner_that_never_fits_leads_to_a_refusal() -> None:
    outcome = release(ROWS, PLAN, rng=1, learner=NothingFits())
    assert isinstance(outcome.result, Refusal)
    assert outcome.curator.votes.tolist() == [0] * 100
    with pytest.raises(PrivGMMError, match="finds no mixture"):
        outcome.curator.nonprivate()


class FarApart:
    """Fit two components with scales so far apart that their ratio overflows."""

    n_components = 2

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> MixtureBatch:
        t = len(blocks)
        scales = np.array([1e-150, 1e140])[None, :, None, None]
        near = 1 + 1e-3 * np.tanh(blocks.mean(axis=(1, 2)))[:, None, None, None]
        means = np.broadcast_to([[0.0, 0.0], [1e160, 1e160]], (t, 2, 2))
        factors = near * scales * np.eye(2)
        return MixtureBatch.from_cholesky(
            np.full((t, 2), 0.5), means, factors, np.ones(t, dtype=bool)
        )


def test_no_number_that_overflows_after_the_noise_becomes_an_error() -> None:
    """Once the spend is in the ledger, whether there is an error must not depend on the rows.

    All blocks agree. Warnings are errors here, and the ratio of the two scales used to be one.
    """
    ledger = MemoryLedger()
    found = released(release(ROWS, PLAN, ledger=ledger, learner=FarApart()).result)
    assert ledger.entries[0].released
    spread = np.sort(found.mixture.covariances[:, 0, 0])
    assert 1e-303 < spread[0] < 1e-297 < 1e277 < spread[1] < 1e283


@dataclasses.dataclass
class Plain:
    """Fit each block's mean and covariance, as one or more components, without base class."""

    n_components: int = 2

    def fit(self, block: Array, parts: int = 2) -> Mixture:
        halves = np.array_split(block[np.argsort(block[:, 0], kind="stable")], parts)
        return Mixture(
            np.full(parts, 1 / parts),
            [half.mean(axis=0) for half in halves],
            [np.cov(half.T) + 1e-9 * np.eye(block.shape[1]) for half in halves],
        )

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> MixtureBatch:
        return MixtureBatch.of([self.fit(block, self.n_components) for block in blocks])


class Peeking(Plain):
    """Look at all that can be reached from a block: its base, its neighbours, its memory."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: list[float] = []

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> MixtureBatch:
        base = blocks if blocks.base is None else np.asarray(blocks.base)
        seen = float(base.sum()) + float(blocks.sum()) + sum(self.memory)
        self.memory.append(float(blocks.sum()))
        fits = super().fit_blocks(blocks, rng=rng)
        return MixtureBatch(fits.weights, fits.means + 1e-3 * seen, fits.covariances, fits.ok)


class Noting(Plain):
    """Keep notes where a copy of the learner does not reach."""

    notes: ClassVar[list[float]] = []

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> MixtureBatch:
        fits = super().fit_blocks(blocks, rng=rng)
        shift = sum(self.notes)
        self.notes.append(1e-9 * float(blocks.mean()))
        return MixtureBatch(fits.weights, fits.means + shift, fits.covariances, fits.ok)


@pytest.mark.parametrize("threads", [0, 2])
def test_a_foreign_learner_sees_one_block_at_a_time_and_remembers_nothing(threads: int) -> None:
    """One row is replaced: one fit changes, however hard the learner tries to look around."""
    changed = ROWS.copy()
    changed[:1] = [500.0, -500.0]
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        executor = pool if threads else None
        one, two = (
            release(rows, PLAN, rng=1, learner=Peeking(), executor=executor).curator.fits
            for rows in (ROWS, changed)
        )
    same = (one.means == two.means).all(axis=(1, 2))
    assert np.count_nonzero(~same) == 1
    # and the learner does look around, where it is let: many fits would change
    blocks = np.stack([ROWS[:1000].reshape(10, 100, 2), changed[:1000].reshape(10, 100, 2)])
    open_, moved = (Peeking().fit_blocks(part).means for part in blocks)
    assert (open_ != moved).any(axis=(1, 2)).all()


def test_notes_that_go_from_block_to_block_are_found_out_before_anything_is_spent() -> None:
    Noting.notes.clear()
    source = recording()
    with pytest.raises(InvalidInput, match="from its own rows and seed alone"):
        release(ROWS, PLAN, rng=source, learner=Noting(), ledger=RecordingLedger(source.events))
    assert source.events == []


class Wrong(Plain):
    """Return what the plan was not priced for."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> Any:
        fits = super().fit_blocks(blocks, rng=rng)
        if self.how == "k":
            return MixtureBatch.of([self.fit(block, 3) for block in blocks])
        if self.how == "d":
            return MixtureBatch(
                fits.weights, fits.means[..., :1], fits.covariances[..., :1, :1], fits.ok
            )
        if self.how == "blocks":
            return MixtureBatch.concatenate([fits, fits])
        if self.how == "type":
            return [fits[0]]
        value = {"nan": np.nan, "infinite": np.inf}[self.how]
        object.__setattr__(fits, "means", np.full_like(fits.means, value))
        return fits


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("k", r"weights of shape \(1, 2\).* got \(1, 3\)"),
        ("d", r"means of shape .* got \(1, 2, 1\)"),
        ("blocks", r"ok of shape \(1,\)"),
        ("type", "must return a MixtureBatch, got list"),
        ("nan", "finite"),
        ("infinite", "finite"),
    ],
)
def test_what_a_learner_returns_is_held_against_the_plan(how: str, words: str) -> None:
    source = recording()
    with pytest.raises(InvalidInput, match=words):
        release(ROWS, PLAN, rng=source, learner=Wrong(how), ledger=RecordingLedger(source.events))
    assert source.events == []


class Fragile(Plain):
    """Raise on a block with a far row in it."""

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> MixtureBatch:
        if (np.abs(blocks) > 1e3).any():
            raise RuntimeError("I do not like far rows")
        return super().fit_blocks(blocks, rng=rng)


def test_a_learner_that_raises_on_one_block_does_not_end_the_release() -> None:
    """Whether there is a result at all must not depend on one row."""
    changed = ROWS.copy()
    changed[7] = 1e6
    outcome = release(changed, PLAN, rng=1, learner=Fragile())
    assert np.count_nonzero(~outcome.curator.fits.ok) == 1
    reasons = outcome.curator.view(AgreementView).reasons
    assert [reason for reason in reasons if reason] == ["RuntimeError: I do not like far rows"]
    refused = release(ROWS + 1e6, PLAN, rng=1, learner=Fragile())
    assert not refused.released
    assert not refused.curator.fits.ok.any()


class Sometimes(Wrong):
    """Return a mixture of another size for a block with a far row in it."""

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> Any:
        far = (np.abs(blocks) > 1e3).any()
        return super().fit_blocks(blocks) if far else Plain().fit_blocks(blocks)


@pytest.mark.parametrize("how", ["k", "d", "blocks", "type", "nan", "infinite"])
def test_an_answer_of_another_size_for_one_block_does_not_end_the_release(how: str) -> None:
    changed = ROWS.copy()
    changed[7] = 1e6
    outcome = release(changed, PLAN, rng=1, learner=Sometimes(how))
    assert np.count_nonzero(~outcome.curator.fits.ok) == 1


def test_a_learner_that_never_works_is_found_out_without_confidential_rows() -> None:
    class Broken(Plain):
        def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> MixtureBatch:
            raise OSError("no licence")

    ledger = MemoryLedger()
    with pytest.raises(InvalidInput, match=r"generated rows .* no licence"):
        release(ROWS, PLAN, rng=1, learner=Broken(), ledger=ledger)
    assert not ledger.entries


def test_a_learner_that_cannot_be_copied_or_called_is_refused() -> None:
    class Uncopied(Plain):
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("no")

    with pytest.raises(InvalidInput, match="deepcopy"):
        release(ROWS, PLAN, rng=1, learner=Uncopied())
    with pytest.raises(InvalidInput, match="n_components and fit_blocks"):
        release(ROWS, PLAN, rng=1, learner=object())  # type: ignore[arg-type]  # that is the point


def test_columns_are_taken_by_name_and_named_in_the_sketch() -> None:
    rows = np.random.default_rng(1).standard_normal((3_000, 3))
    table = pd.DataFrame(rows, columns=["left", "middle", "right"])
    plan = best_plan(3_000, epsilon=1.0, delta=1e-6, n_components=1, n_features=2)
    with pytest.raises(InvalidInput, match="3 columns, the plan is for 2"):
        release(table, plan, rng=1)
    found = release(table, plan, columns=["right", "left"], rng=1).result
    assert isinstance(found, Release)
    assert found.sketch is not None
    assert found.sketch.columns == ("right", "left")
    same = release(rows[:, [2, 0]], plan, rng=1).result
    assert isinstance(same, Release)
    assert found.mixture == same.mixture
