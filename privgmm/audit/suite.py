"""The whole audit: every mechanism attacked, every broken variant caught, one table.

What is attacked is asked of the methods (`Method.audited_plans`, `Method.attacked_cores`), and
what must hold of a plan is asked of its stages. So a method that is registered at run time is
attacked like those that come with the package, as long as it is built from stages that can be.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from privgmm.audit.cores import Mechanism, findings_of
from privgmm.audit.counts import noise_of, person_shift, row_shift, sum_noise, tail
from privgmm.audit.endtoend import (
    BlockMoments,
    boundary,
    empirical_epsilon,
    isolation,
    opposite,
    refused_neighbour,
    secure_releases,
    tiny_stage,
)
from privgmm.audit.findings import Finding, Report, within
from privgmm.audit.grids import impossible_outputs, shuffled
from privgmm.audit.guessing import ceiling_finding
from privgmm.audit.masks import mask_findings
from privgmm.audit.mutations import mutation_findings
from privgmm.audit.prices import least_price, rounding_priced
from privgmm.audit.real_releases import (
    caps_hold,
    fresh_jitter,
    isolated_learner,
    order_of_release,
    persons_in_blocks,
    rows_in_blocks,
)
from privgmm.audit.real_votes import vote_as_run
from privgmm.audit.rounding import reference_free
from privgmm.audit.sabotage import broken_findings
from privgmm.audit.search import attack
from privgmm.audit.secure import secure_origin, secure_spread
from privgmm.audit.sketch_attacks import (
    account_findings,
    exactness_findings,
    histogram_findings,
)
from privgmm.audit.sketch_releases import cases, many_sketches, whole_releases
from privgmm.learners.em import EM
from privgmm.learners.student import StudentT
from privgmm.methods import registry
from privgmm.methods.lifted.method import LiftedMethod
from privgmm.methods.method import Method
from privgmm.methods.plan import Plan
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.stage import Stage

__all__ = ["run_audit"]

Progress = Callable[[int, int], None]
Attack = Callable[[np.random.Generator], list[Finding]]


@dataclasses.dataclass(frozen=True)
class _Effort:
    """How hard it is tried: draws per check, and the size of the search for bad neighbours."""

    runs: int
    releases: int
    """Releases on each side of a pair, by the real test and mask."""
    secure: int
    """Draws of the secure sampler; and a fiftieth of them whole releases with it."""
    clouds: int
    climbs: int
    steps: int
    learner_blocks: int
    sketched: tuple[int, ...]
    """Whole sketched releases on each side, of each case."""


_QUICK = _Effort(
    runs=100_000,
    releases=8_000,
    secure=4_000,
    clouds=2,
    climbs=1,
    steps=25,
    learner_blocks=20,
    sketched=(60, 60),
)
_THOROUGH = _Effort(
    runs=400_000,
    releases=60_000,
    secure=100_000,
    clouds=6,
    climbs=2,
    steps=200,
    learner_blocks=60,
    sketched=(200, 200, 150),
)


_NO_ATTACK = "stages that no attack is known for <= 0"


# --------------------------------------------------------------------------- plans of methods


def _noise_attack(plan: Plan, effort: _Effort, *, first: bool) -> Attack:
    """The noise of every stage of a plan, at the plan's own numbers."""

    def run(rng: np.random.Generator) -> list[Finding]:
        found = []
        for stage in plan.stages:
            found += _stage_findings(plan, stage, effort, first=first, rng=rng)
        if any(finding.claim == _NO_ATTACK for finding in found):
            return found
        found.append(least_price(plan))
        if plan.votes and first:
            found.append(rounding_priced(plan))
        guesses = ceiling_finding(plan, draws=effort.runs, rng=rng)
        return found if guesses is None else [*found, guesses]

    return run


def _stage_findings(
    plan: Plan, stage: Stage, effort: _Effort, *, first: bool, rng: np.random.Generator
) -> list[Finding]:
    found = []
    if isinstance(stage, Agreement):
        found += mask_findings(stage, plan.method, samples=effort.runs, rng=rng)
        # the tests of a method differ little with k and d: that of its first plan is enough
        if first:
            found.append(noise_of(stage.test))
            found.append(vote_as_run(stage, plan.method))
            if stage.n_components > 1:
                found.append(shuffled(stage, plan.method, samples=100))
            if stage.price().gate:
                found.append(tail(stage.test, plan.budget.delta, plan.method))
    sums = stage.row_sums(plan.n_features)
    if sums:
        label = f"{plan.method}, k={plan.n_components}, "
        found.append(row_shift(stage, n_features=plan.n_features, label=label, rng=rng))
        if any(one.persons is not None for one in sums):
            found.append(person_shift(stage, n_features=plan.n_features, label=label, rng=rng))
        found += [
            sum_noise(multiplier, kind=stage.kind, label=label)
            for multiplier in dict.fromkeys(one.multiplier for one in sums)
        ]
    if isinstance(stage, HistogramFrame):
        found += histogram_findings(stage, rng=rng)
    if not found:
        found.append(_unattacked(plan, stage))
    return found


def _unattacked(plan: Plan, stage: Stage) -> Finding:
    """A stage that offers nothing to attack has not been audited, and says so."""
    return within(
        f"{stage.kind}, {plan.method}, k={plan.n_components}, d={plan.n_features}",
        _NO_ATTACK,
        1,
        0,
        "give the stage noisy sums to attack (Stage.row_sums)",
    )


def _core_attack(plan: Plan, stage: Agreement, effort: _Effort) -> Attack:
    """One changed block, against everything that a stage guarantees about its core."""

    def run(rng: np.random.Generator) -> list[Finding]:
        found = attack(
            Mechanism(stage),
            clouds=effort.clouds,
            climbs=effort.climbs,
            steps=effort.steps,
            rng=rng,
        )
        return findings_of(f"{plan.method} {stage.shape}", found, only=stage.guarantees)

    return run


def _noise_attacks(methods: Sequence[Method], effort: _Effort, *, thorough: bool) -> list[Attack]:
    return [
        _noise_attack(plan, effort, first=i == 0)
        for method in methods
        for i, plan in enumerate(method.audited_plans(thorough=thorough))
    ]


def _core_attacks(methods: Sequence[Method], effort: _Effort, *, thorough: bool) -> list[Attack]:
    return [
        _core_attack(plan, plan.agreement, effort)
        for method in methods
        for plan in method.attacked_cores(thorough=thorough)
    ]


# ------------------------------------------------------------------- stages, whoever uses them


def _refinement_attack(rng: np.random.Generator) -> list[Finding]:
    steps = Refinement((60.0, 90.0), (4.0, 3.0))
    return [
        *(row_shift(steps, n_features=d, rng=rng) for d in (1, 2)),
        *(sum_noise(multiplier, kind=steps.kind) for multiplier in (3.0, 60.0)),
    ]


def _rounding_attack(rng: np.random.Generator) -> list[Finding]:
    return [
        reference_free(LiftedMethod.shaped(31, 17, 29, 29, n_components=k, n_features=d), rng=rng)
        for k, d in ((1, 1), (2, 2), (1, 3))
    ]


def _sketch_attack(effort: _Effort) -> Attack:
    def run(rng: np.random.Generator) -> list[Finding]:
        alone = Sketch(SketchShape.default(1), 1.0, 50, 1)
        return [
            *account_findings(),
            *exactness_findings(rng=rng),
            many_sketches(alone, draws=effort.runs // 25, rng=rng),
            # as many cases as there are numbers of runs
            *(
                whole_releases(case, runs=runs, rng=rng)
                for case, runs in zip(cases(), effort.sketched, strict=False)
            ),
        ]

    return run


def _release_attack(effort: _Effort) -> Attack:
    def run(rng: np.random.Generator) -> list[Finding]:
        found = []
        for k in (1, 2):
            stage, runs = tiny_stage(k), effort.releases
            found.append(
                empirical_epsilon(opposite(stage), runs=runs, label="2 tau across", rng=rng)
            )
            found.append(refused_neighbour(boundary(stage), runs=runs, rng=rng))
            found.append(secure_releases(opposite(stage), runs=effort.secure // 50))
        for learner in (BlockMoments(2), EM(2), StudentT()):
            blocks = rng.standard_normal((effort.learner_blocks, 40, 2))
            blocks[:, ::2, 0] += 6.0
            found.append(isolation(learner, blocks, rng=rng))
        return found

    return run


def _real_attack(effort: _Effort) -> Attack:
    """What users call: the secure sampler, the order of things, blocks, persons, learners."""

    def run(rng: np.random.Generator) -> list[Finding]:
        return [
            *secure_spread(draws=effort.secure),
            secure_origin(),
            order_of_release(),
            caps_hold(),
            rows_in_blocks(),
            persons_in_blocks(),
            isolated_learner(),
            fresh_jitter(),
            impossible_outputs(LiftedSpace(0.25), rng=rng),
        ]

    return run


def _broken_attack(effort: _Effort, *, thorough: bool) -> Attack:
    def run(rng: np.random.Generator) -> list[Finding]:
        found = broken_findings(runs=effort.releases, samples=effort.runs, rng=rng)
        return [*found, *mutation_findings()] if thorough else found

    return run


# ---------------------------------------------------------------------------------- the whole


def run_audit(
    *,
    thorough: bool = False,
    rng: int = 0,
    only: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Attack every mechanism, and check that every deliberately broken variant is caught.

    A thorough audit also changes single lines of the real code (`mutations`), some seventy of
    them, one at a time, and lists for each the check that noticed.

    Parameters
    ----------
    thorough : bool
        A few minutes instead of some seconds: more shapes, more draws, longer climbs.
    rng : int
        Seed. The audit draws no private noise.
    only : sequence of str, optional
        Names of methods whose own plans are to be attacked, and nothing else; by default all
        methods, and besides what they share, and the broken variants.
    progress : callable(done, total), optional
        Called after each attack.

    Returns
    -------
    Report
        ``.passed``, and a table when printed.
    """
    effort = _THOROUGH if thorough else _QUICK
    methods = registry.all_methods() if only is None else [registry.get(name) for name in only]
    attacks = _noise_attacks(methods, effort, thorough=thorough)
    if only is None:
        attacks.append(_refinement_attack)
    attacks += _core_attacks(methods, effort, thorough=thorough)
    if only is None:
        attacks += [_rounding_attack, _release_attack(effort), _real_attack(effort)]
        attacks += [_sketch_attack(effort), _broken_attack(effort, thorough=thorough)]
    findings: list[Finding] = []
    seeds = np.random.SeedSequence(rng).spawn(len(attacks))
    for i, (each, seed) in enumerate(zip(attacks, seeds, strict=True)):
        findings += each(np.random.default_rng(seed))
        if progress is not None:
            progress(i + 1, len(attacks))
    return Report(tuple(_told_apart(findings)))


def _told_apart(findings: Sequence[Finding]) -> list[Finding]:
    """No two of one name: the second that attacked, say, the same noise is numbered."""
    seen: dict[str, int] = {}
    apart = []
    for finding in findings:
        seen[finding.name] = times = seen.get(finding.name, 0) + 1
        name = finding.name if times == 1 else f"{finding.name} ({times})"
        apart.append(dataclasses.replace(finding, name=name))
    return apart
