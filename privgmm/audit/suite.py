"""The whole audit: every mechanism attacked, every broken variant caught, one table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privgmm.audit.cores import Mechanism, findings_of
from privgmm.audit.counts import discrete_gaussian, refinement_noise, refinement_shift, tail
from privgmm.audit.endtoend import (
    BlockMoments,
    boundary,
    empirical_epsilon,
    isolation,
    opposite,
    refused_neighbour,
    tiny_plan,
)
from privgmm.audit.findings import Finding, Report
from privgmm.audit.masks import exact_mask, masked_law, paper_lemmas, sampled_mask
from privgmm.audit.rounding import reference_free
from privgmm.audit.sabotage import broken_findings
from privgmm.audit.search import attack, small_plan
from privgmm.learners.em import EM
from privgmm.methods.plan import Plan
from privgmm.methods.planner import calibrate
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.refinement.noisy_moments import Refinement

__all__ = ["run_audit"]

Progress = Callable[[int, int], None]
Stage = Callable[[np.random.Generator], list[Finding]]

_SHAPES = (
    # k, d, t, m, M, G: labels unambiguous (2 m + M >= 2 t + 2) or not, steep ramps and gentle
    (1, 1, 31, 20, 20, 20),
    (2, 1, 31, 23, 23, 23),
    (2, 2, 31, 17, 20, 15),
)
_MORE_SHAPES = (
    (1, 2, 30, 18, 22, 22),
    (1, 3, 24, 14, 14, 14),
    (2, 2, 31, 23, 23, 23),
    (2, 2, 31, 17, 17, 4),
    (2, 2, 60, 40, 44, 44),
    (2, 4, 31, 23, 23, 23),
    (3, 1, 40, 28, 28, 28),
    (3, 2, 31, 17, 30, 25),
)


def _plans(thorough: bool) -> list[Plan]:
    """Plans of all three methods, in one and two dimensions."""
    plans = []
    for k, d in ((2, 2), (1, 1), (3, 2)) if thorough else ((2, 2),):
        for method, alpha in (("lifted", 1.0), ("tight", 0.5)):
            plans.append(
                calibrate(
                    "lifted" if method == "lifted" else "tight",
                    epsilon=1.0,
                    delta=1e-6,
                    alpha=alpha,
                    n_components=k,
                    n_features=d,
                    n_blocks=200,
                )
            )
        plans.append(
            calibrate("paper", epsilon=1.0, delta=1e-6, alpha=0.5, n_components=k, n_features=d)
        )
    return plans


def _mask_stage(plan: Plan, samples: int, *, counts: bool) -> Stage:
    def run(rng: np.random.Generator) -> list[Finding]:
        found = [masked_law(plan, rng=rng)]
        if isinstance(plan.test, AgreementTest):
            found += [sampled_mask(plan, samples=samples, rng=rng), exact_mask(plan, rng=rng)]
            found += [discrete_gaussian(plan.test)] if counts else []
        else:
            found.append(paper_lemmas(plan))
        return [*found, tail(plan)] if counts else found

    return run


def _refinement_stage(rng: np.random.Generator) -> list[Finding]:
    steps = Refinement((60.0, 90.0), (4.0, 3.0))
    return [
        *(refinement_shift(steps, d=d, rng=rng) for d in (1, 2)),
        *(refinement_noise(multiplier) for multiplier in (3.0, 60.0)),
    ]


def _core_stage(
    plan: Plan, label: str, keys: tuple[str, ...], clouds: int, climbs: int, steps: int
) -> Stage:
    def run(rng: np.random.Generator) -> list[Finding]:
        found = attack(Mechanism(plan), clouds=clouds, climbs=climbs, steps=steps, rng=rng)
        return findings_of(label, found, only=keys)

    return run


def _core_stages(thorough: bool) -> list[Stage]:
    effort = (6, 2, 200) if thorough else (2, 1, 25)
    stages = []
    for k, d, t, m, M, G in _SHAPES + (_MORE_SHAPES if thorough else ()):
        plan = small_plan(t, m, M, G, n_components=k, n_features=d)
        label = f"lifted k={k} d={d} t={t} m={m} M={M} G={G}"
        keys = ("statistic", "flips", "diameter", "move", *(("doubt",) if k > 1 else ()))
        stages.append(_core_stage(plan, label, keys, *effort))
    tight = calibrate(
        "tight", epsilon=3.0, delta=1e-2, alpha=1.0, n_components=2, n_features=1, n_blocks=41
    )
    paper = calibrate(
        "paper", epsilon=1.0, delta=1e-2, alpha=1.0, n_components=2, n_features=1, n_blocks=31
    )
    for plan in (tight, paper):
        label = f"{plan.method} k=2 d=1 t={plan.n_blocks}"
        stages.append(_core_stage(plan, label, ("statistic", "flips", "move"), *effort))
    return stages


def _rounding_stage(rng: np.random.Generator) -> list[Finding]:
    return [
        reference_free(Mechanism(small_plan(31, 17, 29, 29, n_components=k, n_features=d)), rng=rng)
        for k, d in ((1, 1), (2, 2), (1, 3))
    ]


def _release_stage(runs: int, learner_blocks: int) -> Stage:
    def run(rng: np.random.Generator) -> list[Finding]:
        found = []
        for k in (1, 2):
            plan = tiny_plan(k)
            found.append(
                empirical_epsilon(opposite(plan), runs=runs, label="2 tau across", rng=rng)
            )
            found.append(refused_neighbour(boundary(plan), runs=runs, rng=rng))
        for learner in (BlockMoments(2), EM(2)):
            blocks = rng.standard_normal((learner_blocks, 40, 2))
            blocks[:, ::2, 0] += 6.0
            found.append(isolation(learner, blocks, rng=rng))
        return found

    return run


def run_audit(*, thorough: bool = False, rng: int = 0, progress: Progress | None = None) -> Report:
    """Attack every mechanism, and check that every deliberately broken variant is caught.

    Parameters
    ----------
    thorough : bool
        A few minutes instead of some seconds: more shapes, more draws, longer climbs.
    rng : int
        Seed. The audit draws no private noise.
    progress : callable(done, total), optional
        Called after each stage.

    Returns
    -------
    Report
        ``.passed``, and a table when printed.
    """
    runs = 400_000 if thorough else 100_000
    samples = 400_000 if thorough else 100_000
    # the tests of a method differ little with k and d: the first of each is enough
    stages: list[Stage] = [
        _mask_stage(plan, samples, counts=i < 3) for i, plan in enumerate(_plans(thorough))
    ]
    stages.append(_refinement_stage)
    stages += _core_stages(thorough)
    stages.append(_rounding_stage)
    stages.append(_release_stage(runs, 60 if thorough else 20))
    stages.append(lambda g: broken_findings(runs=runs, samples=samples, rng=g))
    findings: list[Finding] = []
    for i, (stage, seed) in enumerate(
        zip(stages, np.random.SeedSequence(rng).spawn(len(stages)), strict=True)
    ):
        findings += stage(np.random.default_rng(seed))
        if progress is not None:
            progress(i + 1, len(stages))
    return Report(tuple(findings))
