"""The whole audit: attack every mechanism, catch every broken variant, report one table.

Methods name the plans to attack (`Method.audited_plans`, `Method.attacked_cores`), and stages say
what must hold of them. So a method that is registered at run time is attacked like those of the
package, if its stages can be attacked.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from privgmm.audit.broken import broken_findings
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
from privgmm.audit.histograms import counts_move, lone_bins
from privgmm.audit.masks import mask_findings
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
from privgmm.audit.search import attack
from privgmm.audit.secure import secure_origin, secure_spread
from privgmm.audit.sketch_attacks import (
    account_findings,
    exactness_findings,
    wide_findings,
)
from privgmm.audit.sketch_releases import cases, many_sketches, whole_releases
from privgmm.learners.em import EM
from privgmm.learners.student import StudentT
from privgmm.methods import registry
from privgmm.methods.lifted.method import LiftedMethod
from privgmm.methods.plan import Plan
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.stage import Progress, Stage

__all__ = ["run_audit"]

_Attack = Callable[[np.random.Generator], list[Finding]]


@dataclasses.dataclass(frozen=True)
class _Effort:
    """How hard the audit tries: draws per check, and the size of the search for neighbours.

    Parameters
    ----------
    runs : int
        Draws of a mask, and of all noise of a plan.
    releases : int
        Releases on each side of a pair, by the real test and mask.
    secure : int
        Draws of the secure sampler; a fiftieth as many whole releases use it.
    clouds, climbs, steps : int
        Sets of random fits, climbs for each guarantee, and steps of a climb; see `search.attack`.
    sketched : tuple of int
        Whole releases by a sketch on each side, of as many cases.
    """

    runs: int
    releases: int
    secure: int
    clouds: int
    climbs: int
    steps: int
    sketched: tuple[int, ...]


# Less than a minute of CPU time, for the Audit page and for tests.
_QUICK = _Effort(100_000, 8_000, 4_000, clouds=2, climbs=1, steps=25, sketched=(60, 60))
# Some minutes: more draws see rarer leaks, longer climbs come nearer to a bound.
_THOROUGH = _Effort(
    400_000, 60_000, 100_000, clouds=6, climbs=2, steps=200, sketched=(200, 200, 150)
)


_NO_ATTACK = "stages without a known attack <= 0"


# --------------------------------------------------------------------------- plans of methods


def _attack_noise(
    plan: Plan, effort: _Effort, first: bool, rng: np.random.Generator
) -> list[Finding]:
    """Attack the noise of every stage of a plan, at the plan's own numbers."""
    found = []
    for stage in plan.stages:
        found += _stage_findings(plan, stage, effort, first=first, rng=rng)
    if any(finding.claim == _NO_ATTACK for finding in found):
        return found
    found.append(least_price(plan))
    if first and any(isinstance(stage, Agreement) for stage in plan.stages):
        found.append(rounding_priced(plan))
    guesses = ceiling_finding(plan, draws=effort.runs, rng=rng)
    return found if guesses is None else [*found, guesses]


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
        found += [*lone_bins(stage), counts_move(stage, rng=rng)]
    return found or [_unattacked(plan, stage)]


def _unattacked(plan: Plan, stage: Stage) -> Finding:
    """Report a stage that offers nothing to attack: it has not been audited."""
    return within(
        f"{stage.kind}, {plan.method}, k={plan.n_components}, d={plan.n_features}",
        _NO_ATTACK,
        1,
        0,
        "give the stage noisy sums to attack (Stage.row_sums)",
    )


def _attack_core(plan: Plan, effort: _Effort, rng: np.random.Generator) -> list[Finding]:
    """Change one block, and check all that a stage guarantees about its core."""
    stage = plan.stage(Agreement)
    found = attack(
        Mechanism(stage),
        clouds=effort.clouds,
        climbs=effort.climbs,
        steps=effort.steps,
        rng=rng,
    )
    return findings_of(f"{plan.method} {stage.shape}", found, only=stage.guarantees)


# --------------------------------------------------------------- stages, apart from any method


def _attack_shared(rng: np.random.Generator) -> list[Finding]:
    """Attack refinement at several noise levels, and the rounding of means."""
    steps = Refinement((60.0, 90.0), (4.0, 3.0))
    shaped = functools.partial(LiftedMethod.shaped, 31, 17, 29, 29)
    return [
        *(row_shift(steps, n_features=d, rng=rng) for d in (1, 2)),
        *(sum_noise(multiplier, kind=steps.kind) for multiplier in (3.0, 60.0)),
        *(
            reference_free(shaped(n_components=k, n_features=d), rng=rng)
            for k, d in ((1, 1), (2, 2), (1, 3))
        ),
    ]


def _attack_sketches(effort: _Effort, rng: np.random.Generator) -> list[Finding]:
    """Attack sketches: their account, their sums, and whole releases."""
    alone = Sketch(SketchShape.default(1), 1.0, 50, 1)
    return [
        *account_findings(),
        *wide_findings(),
        *exactness_findings(rng=rng),
        many_sketches(alone, draws=effort.runs // 25, rng=rng),
        # as many cases as there are numbers of runs
        *(
            whole_releases(case, runs=runs, rng=rng)
            for case, runs in zip(cases(), effort.sketched, strict=False)
        ),
    ]


def _attack_releases(effort: _Effort, rng: np.random.Generator) -> list[Finding]:
    """Attack whole releases by blocks that vote, and learners."""
    found = []
    for k in (1, 2):
        across, runs = opposite(tiny_stage(k)), effort.releases
        found += [
            empirical_epsilon(across, runs=runs, label="2 tau across", rng=rng),
            refused_neighbour(boundary(tiny_stage(k)), runs=runs, rng=rng),
            secure_releases(across, runs=effort.secure // 50),
        ]
    for learner in (BlockMoments(2), EM(2), StudentT()):
        blocks = rng.standard_normal((20, 40, 2))
        blocks[:, ::2, 0] += 6.0
        found.append(isolation(learner, blocks, rng=rng))
    return found


def _attack_real(effort: _Effort, rng: np.random.Generator) -> list[Finding]:
    """Attack what users call: secure noise, the order of steps, blocks, persons, learners."""
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


# ---------------------------------------------------------------------------------- the whole


def run_audit(
    *,
    thorough: bool = False,
    rng: int = 0,
    only: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Attack every mechanism, and check that every deliberately broken variant is caught.

    Parameters
    ----------
    thorough : bool
        Some minutes instead of up to one: more shapes, more draws, longer climbs.
    rng : int
        Seed of the attacks. The audit never touches rows that are confidential.
    only : sequence of str, optional
        Attack only the plans of these methods. By default the audit attacks all methods and what
        they share, and runs the broken variants.
    progress : callable(done, total), optional
        Called after each attack.

    Returns
    -------
    Report
        ``.passed``, and a table when printed.
    """
    effort = _THOROUGH if thorough else _QUICK
    methods = registry.all_methods() if only is None else [registry.get(name) for name in only]
    attacks: list[_Attack] = []
    for method in methods:
        for i, plan in enumerate(method.audited_plans(thorough=thorough)):
            attacks.append(functools.partial(_attack_noise, plan, effort, i == 0))
        cores = method.attacked_cores(thorough=thorough)
        attacks += [functools.partial(_attack_core, plan, effort) for plan in cores]
    if only is None:
        attacks += [_attack_shared, broken_findings]
        attacks += [
            functools.partial(each, effort)
            for each in (_attack_releases, _attack_real, _attack_sketches)
        ]
    findings: list[Finding] = []
    seeds = np.random.SeedSequence(rng).spawn(len(attacks))
    for i, (each, seed) in enumerate(zip(attacks, seeds, strict=True)):
        findings += each(np.random.default_rng(seed))
        if progress is not None:
            progress(i + 1, len(attacks))
    return Report(tuple(_numbered(findings)))


def _numbered(findings: Sequence[Finding]) -> list[Finding]:
    """Number findings that share a name, as of two stages with the same noise."""
    seen: dict[str, int] = {}
    apart = []
    for finding in findings:
        seen[finding.name] = times = seen.get(finding.name, 0) + 1
        name = finding.name if times == 1 else f"{finding.name} ({times})"
        apart.append(dataclasses.replace(finding, name=name))
    return apart
