"""Rehearse a release: the code of a release on demonstration data, with noise from a seed.

No one's privacy is at stake on generated or bundled rows, so nothing is spent, and a rehearsal
never gets a receipt. It is never made from an uploaded file.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from typing import TypeAlias

from privgmm.data.datasets import Dataset
from privgmm.distances.parameters import dist_gmm
from privgmm.errors import InvalidInput
from privgmm.learners.registry import make_learner
from privgmm.ledger.memory import MemoryLedger
from privgmm.methods import planner
from privgmm.methods.plan import Plan
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest
from privgmm.mixture import Mixture
from privgmm.records.notebook import DEFAULT_LEARNER, GeneratedRows, SampleRows
from privgmm.releases import Outcome, Refusal, Release, prepare
from privgmm.stages.agreement.stage import AgreementView
from privgmm.stages.standard_errors import StandardErrors
from privgmm.teaching.format import problem_in_words

__all__ = [
    "ALPHA_STOPS",
    "DELTA_STOPS",
    "EPSILON_STOPS",
    "ROW_COUNTS",
    "DemoRows",
    "Rehearsal",
    "RehearsalSetup",
    "expects_release",
    "load_demo",
    "rehearsed",
    "some_blocks",
]

DemoRows: TypeAlias = GeneratedRows | SampleRows
"""How to load demonstration data."""

EPSILON_STOPS = (
    *(0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8),
    *(1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0),
)
"""The values of epsilon that sliders offer, about evenly spaced on a log scale."""

DELTA_STOPS = (1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
"""The values of delta: from far below one over any number of rows to one over 10,000."""

ALPHA_STOPS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
"""The accuracies offered, in dist_GMM: beyond one half hardly anything is known."""

ROW_COUNTS = (*(lead * 10**power for power in range(3, 7) for lead in (1, 2, 3, 5, 7)), 10**7)
"""The numbers of rows that sliders offer for generated data, about evenly on a log scale."""

_HOPELESS = "No plan is expected to release from so few rows."

_MOST_BLOCKS = 40
"""Fits of blocks that are kept for the picture: more would cover each other."""

_LOADING, _PLANNING = threading.Lock(), threading.Lock()


@dataclasses.dataclass(frozen=True, slots=True)
class RehearsalSetup:
    """Everything that decides a rehearsal.

    Parameters
    ----------
    rows : GeneratedRows or SampleRows
    request : PlanRequest
    learner : str
    seed : int
        Draws the noise.
    """

    rows: DemoRows
    request: PlanRequest
    learner: str
    seed: int

    def at(self, epsilon: float) -> RehearsalSetup:
        """Return this setup at another epsilon."""
        return dataclasses.replace(self, request=self.request.but(epsilon=epsilon))

    def seeded(self, seed: int) -> RehearsalSetup:
        """Return this setup with other noise."""
        return dataclasses.replace(self, seed=seed)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Rehearsal:
    """The result of a rehearsal. It holds no rows.

    Parameters
    ----------
    scene : Scene
    problem : str
        Why there is no plan, or why it cannot run, as a sentence in Markdown; empty if it ran.
    plan : Plan or None
    private : Mixture or None
        What would have been published; None after a refusal.
    errors : StandardErrors or None
        Of that.
    nonprivate : Mixture or None
        The learner's fit to all rows.
    error, nonprivate_error : float or None
        dist_GMM to the truth, where it is known and the numbers of components agree. Where the
        truth is not known, `error` is measured from the fit without privacy.
    blocks : tuple of Mixture
        Fits of some blocks; none where no blocks voted.
    result : Release, Refusal or None
        What came out; None if nothing was run.
    """

    setup: RehearsalSetup
    problem: str
    plan: Plan | None = None
    private: Mixture | None = None
    errors: StandardErrors | None = None
    nonprivate: Mixture | None = None
    error: float | None = None
    nonprivate_error: float | None = None
    blocks: tuple[Mixture, ...] = ()
    result: Release | Refusal | None = None

    @property
    def released(self) -> bool:
        """Whether there is a mixture."""
        return self.private is not None


def expects_release(request: PlanRequest) -> bool:
    """Whether a plan is expected to release, as `planner.is_hopeful` says.

    That is most of the work of a plan and it is remembered, so one thread at a time does it: the
    second to ask for the same finds the answer of the first.
    """
    with _PLANNING:
        return planner.is_hopeful(request)


def load_demo(rows: DemoRows) -> Dataset:
    """Load demonstration data; the last four data sets are kept, and none is loaded twice."""
    with _LOADING:
        return _loaded(rows)


@functools.lru_cache(maxsize=4)
def _loaded(rows: DemoRows) -> Dataset:
    return rows.load()


def rehearsed(setup: RehearsalSetup) -> Rehearsal:
    """Run a rehearsal; equal setups give equal ones."""
    try:
        if not expects_release(setup.request):
            return _without_plan(setup, _HOPELESS)
        plan = plan_for(setup.request).plan
        outcome = prepare(
            load_demo(setup.rows).rows,
            plan,
            learner=None
            if plan.chooses_components
            else make_learner(setup.learner, plan.n_components),
            rng=setup.seed,
            # a ledger of its own: no rehearsal counts as a spend of this process
        ).draw(MemoryLedger())
    except InvalidInput as problem:
        return _without_plan(setup, problem_in_words(problem))
    return _summary(setup, outcome)


def _without_plan(setup: RehearsalSetup, problem: str) -> Rehearsal:
    k = setup.request.n_components
    fit = None if setup.request.choose_components else _nonprivate(setup.rows, setup.learner, k)
    return Rehearsal(
        setup, problem, nonprivate=fit, nonprivate_error=_error(fit, _truth(setup.rows))
    )


def _summary(setup: RehearsalSetup, outcome: Outcome) -> Rehearsal:
    result = outcome.result
    private = result.mixture if isinstance(result, Release) else None
    k = result.plan.n_components if private is None else private.n_components
    chooses = result.plan.chooses_components
    fit = _nonprivate(setup.rows, DEFAULT_LEARNER if chooses else setup.learner, k)
    truth = _truth(setup.rows)
    return Rehearsal(
        setup,
        "",
        result.plan,
        private,
        result.standard_errors if isinstance(result, Release) else None,
        fit,
        _error(private, fit if truth is None else truth),
        _error(fit, truth),
        some_blocks(outcome),
        result,
    )


def some_blocks(outcome: Outcome) -> tuple[Mixture, ...]:
    """Return some block fits to draw; none if no blocks voted. CONFIDENTIAL."""
    for view in outcome.curator.views:
        if isinstance(view, AgreementView):
            fits = view.fits
            return tuple(fits[i] for i in range(len(fits)) if fits.ok[i])[:_MOST_BLOCKS]
    return ()


def _truth(rows: DemoRows) -> Mixture | None:
    return load_demo(rows).truth


def _error(mixture: Mixture | None, reference: Mixture | None) -> float | None:
    if mixture is None or reference is None:
        return None
    if mixture.n_components != reference.n_components:
        return None
    return float(dist_gmm(mixture, reference))


@functools.lru_cache(maxsize=64)
def _nonprivate(rows: DemoRows, learner: str, k: int) -> Mixture | None:
    """Fit all rows without privacy; None if the learner finds no mixture."""
    batch = make_learner(learner, k).fit_blocks(load_demo(rows).rows[None], rng=0)
    return batch[0] if batch.ok[0] else None
