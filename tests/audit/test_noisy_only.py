"""Everything that is published is decided by noisy sums: exact ones may be others."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

from privgmm import Mixture, PlanRequest, best_plan
from privgmm.arrays import Array
from privgmm.audit.sketch_attacks import ORIGIN_FRAME, QUIET, first_sketch, gaussian_rows
from privgmm.audit.wiretap import Side
from privgmm.data.people import ArrayPeople
from privgmm.methods.plan import Plan
from privgmm.methods.planner import plan_for
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.refinement.noisy_em import NoisyEM
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.sketch import finish
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.stage import Drawn, Work
from tests.audit.mutations import REPLAYED, Mutation, mutation_findings
from tests.audit.noisy_only import (
    EXACT,
    heaps,
    lattice_rows,
    other_rows,
    replayed,
    replayed_lifted_mask,
    replayed_mask,
    replayed_persons,
    replayed_printed_vote,
    replayed_refusal,
    replayed_release,
    replayed_stages,
    replayed_vote,
)

PAIR = Mixture([0.4, 0.6], [[-4, 0], [4, 0]], [[[2, 0.8], [0.8, 1]], [[1, -0.5], [-0.5, 1.5]]])


@functools.cache
def _planned(name: str) -> tuple[Plan, Array]:
    """Plan a kind of release, and make rows for it."""
    promise: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6, "n_components": 2}
    if name == "lifted":
        n = 40_000
        return best_plan(n, n_features=2, method="lifted", **promise), PAIR.sample(n, rng=1)
    which, _, shape = name.partition(", d=")
    d = int(shape)
    n = {"few rows": 1_500 * (d + 1), "blocks": 60_000 + 10_000 * d}[which.partition(",")[0]]
    if which.endswith("open k"):
        promise["n_components"] = "auto"
    if which == "blocks":
        asked = PlanRequest(n_features=d, n_rows=n, n_blocks=1_500, **promise)
        return plan_for(asked).plan, heaps(d, n)
    return best_plan(n, n_features=d, **promise), heaps(d, n)


PLANS = {
    "few rows, d=1": ["histogram frame", "sketch", "finish"],
    "few rows, d=2": ["histogram frame", "sketch", "finish"],
    "few rows, d=4": ["histogram frame", "sketch", "finish"],
    "few rows, open k, d=2": ["histogram frame", "sketch", "finish"],
    "few rows, d=10": ["histogram frame", "pooled looks", "subspace sketch", "wide finish"],
    "blocks, d=1": ["agreement", "sketch", "finish"],
    "blocks, d=2": ["agreement", "sketch", "finish"],
    "lifted": ["agreement", "refinement"],
}


@pytest.mark.parametrize("exact", EXACT)
@pytest.mark.parametrize("name", PLANS)
def test_every_stage_of_a_plan_publishes_what_noisy_sums_decide(name: str, exact: str) -> None:
    plan, rows = _planned(name)
    assert [stage.kind for stage in plan.stages] == PLANS[name]
    second = EXACT[exact](rows)
    found = replayed_stages(plan, ArrayPeople.of(rows), second, label=f"{name}, {exact}")
    assert found.passed, found


@pytest.mark.parametrize("name", [name for name in PLANS if name.startswith("few")])
def test_a_release_states_what_noisy_sums_decide(name: str) -> None:
    plan, rows = _planned(name)
    found = replayed_release(plan, rows, label=name)
    assert found.passed, found


@pytest.mark.parametrize(("k", "d"), [(1, 1), (2, 2), (3, 3), (1, 4)])
def test_masks_publish_what_masked_numbers_decide(k: int, d: int) -> None:
    for found in (replayed_mask(k=k, d=d), replayed_lifted_mask(k=k, d=d)):
        assert found.passed, found


WAYS: dict[str, tuple[Finish, Array, list[str]]] = {
    name: (Finish(k, d, len(rows), SketchShape.default(d), multiplier), rows, ways)
    for name, k, d, multiplier, rows, ways in (
        ("second sketch", 1, 1, 1.5, gaussian_rows(400, 1), ["sketch"]),
        ("refinement, d=4", 1, 4, 1.5, gaussian_rows(400, 4), ["moments", "moments"]),
        ("noisy EM, d=1", 1, 1, 1.5, lattice_rows(1, 200), ["vote", "steps"]),
        ("rich mixture, d=1", 1, 1, QUIET, lattice_rows(1, 200), ["steps", "vote", "steps"]),
        ("rich mixture, d=2", 2, 2, QUIET, lattice_rows(2, 2_000), ["steps", "vote", "steps"]),
        ("rich mixture, d=4", 2, 4, QUIET, lattice_rows(4, 12_000), ["steps", "vote", "steps"]),
    )
}
"""Finishes, their rows, and what each of them does."""


@pytest.mark.parametrize("exact", EXACT)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_finish_is_decided_by_noisy_sums(
    way: str, exact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, rows, steps = WAYS[way]
    public, second = first_sketch(Side(rows)), EXACT[exact](rows)
    ways = _noted_ways(monkeypatch)
    found = replayed(stage, ArrayPeople.of(rows), second, public, label=f"{way}, {exact}")
    assert found.passed, found
    # both runs went the way that the name says
    assert ways == steps + steps


def _noted_ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record what a finish does, and let it do so."""
    seen: list[str] = []

    def noted(owner: Any, name: str, word: str) -> None:
        real = getattr(owner, name)

        def run(*args: Any, **options: Any) -> Any:
            # a vote with one candidate sums nothing
            seen.extend([word] if word != "vote" or len(args[1]) > 1 else [])
            return real(*args, **options)

        monkeypatch.setattr(owner, name, run)

    noted(finish, "preferred", "vote")
    noted(NoisyEM, "run", "steps")
    noted(finish, "solve_moments", "moments")
    noted(finish.PreparedFinish, "_second_sketch", "sketch")
    return seen


def test_a_frame_shown_by_luck_is_decided_by_noisy_counts() -> None:
    found = replayed_refusal()
    assert found.passed, found


def test_a_column_of_one_value_is_refused_by_what_was_shown() -> None:
    rows = gaussian_rows(400, 1)
    rows[:390] = 1.0
    stage = HistogramFrame(
        n_features=1, scale_sigma=2.0, location_sigma=3.0, miss=1e-3, multipliers=(), radius=2.0
    )
    found = replayed(
        stage, ArrayPeople.of(rows), ArrayPeople.of(other_rows(rows)), None, label="one value"
    )
    assert found.passed, found


def test_numbers_of_rows_of_persons_are_not_published() -> None:
    found = replayed_persons()
    assert found.passed, found


def test_votes_are_decided_by_noisy_counts() -> None:
    found = replayed_vote(AgreementTest(60, 1.0, 4.0, 15, 31, 38, 36))
    assert found.passed, found
    found = replayed_printed_vote(PopulousTest(60, 0.1, 0.8, 1e-3))
    assert found.passed, found


def test_a_replay_that_shows_nothing_is_a_failure() -> None:
    """The second run must have other exact numbers, or it would prove nothing."""
    people = ArrayPeople.of(gaussian_rows(50, 1))
    stage = Sketch(SketchShape.default(1), 1.5, 50, 1)
    found = replayed(stage, people, people, ORIGIN_FRAME, label="blind")
    assert not found.passed
    assert "blind" in found.detail


def test_a_refinement_of_one_step_that_forgets_its_noise_is_seen() -> None:
    """Noise that is heard but not used: the account alone would not see it."""

    class Deaf(Refinement):
        def prepare(self, work: Work, public: Any) -> Any:
            return _DeafPrepared(super().prepare(work, public), work)

    far = Mixture([0.5, 0.5], [[0.0], [1e3]], [[[1.0]], [[1.0]]])
    rows = np.concatenate([gaussian_rows(60, 1), 1e3 + gaussian_rows(60, 1)])
    for kind, passed in ((Refinement, True), (Deaf, False)):
        stage = kind((5.0,), (2.0,))
        other = ArrayPeople.of(rows + 0.3)
        found = replayed(stage, ArrayPeople.of(rows), other, far, label=kind.__name__)
        assert found.passed is passed, found


@dataclasses.dataclass(frozen=True)
class _DeafPrepared:
    """Draws as it should, and publishes the exact mean of some rows."""

    real: Any
    work: Work

    def draw(self, source: NoiseSource) -> Drawn:
        self.real.draw(source)
        mean = float(self.work.people.take(np.arange(60)).rows.mean())
        return Drawn(Mixture([1.0], [[mean]], [[[1.0]]]))


@pytest.mark.parametrize("mutation", REPLAYED, ids=lambda mutation: mutation.name)
def test_each_mutation_of_the_class_is_caught(mutation: Mutation) -> None:
    (found,) = mutation_findings((mutation,))
    assert found.passed, found
