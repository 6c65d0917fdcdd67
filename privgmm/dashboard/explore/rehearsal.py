"""Rehearsals: the release that the settings on screen would make, tried on demonstration data.

A rehearsal runs the code of a release, with noise from a seed, on generated or bundled rows. No
one's privacy is at stake, so nothing is spent, and it never gets a receipt. It is never made from
an uploaded file.

Equal rehearsals are computed once for all sessions. Two pools of workers share one cache: one
computes what is on screen, the other what may be asked next (other epsilons, other seeds).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from concurrent.futures import Future

from privgmm.dashboard.shared.answers import EPSILON_STOPS, PLAN_POOL, expects_release
from privgmm.dashboard.shared.background import WorkerPool
from privgmm.dashboard.shared.chosen_data import DemoRows, load_demo
from privgmm.dashboard.shared.fair_queue import RELEASES
from privgmm.dashboard.shared.state import Settings
from privgmm.distances.parameters import dist_gmm
from privgmm.errors import InvalidInput
from privgmm.learners.registry import make_learner
from privgmm.ledger.memory import MemoryLedger
from privgmm.methods.plan import Plan
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest
from privgmm.mixture import Mixture
from privgmm.records.notebook import DEFAULT_LEARNER
from privgmm.releases import Outcome, Release, prepare
from privgmm.stages.agreement.stage import AgreementView
from privgmm.stages.standard_errors import StandardErrors

__all__ = [
    "CLOUD_SEEDS",
    "CURVE_EPSILONS",
    "ON_SCREEN",
    "PREFETCH",
    "PROMISES",
    "Rehearsal",
    "RehearsalSetup",
    "neighbours",
    "prefetched",
    "rehearsal_of",
    "setup_of",
    "some_blocks",
]

ON_SCREEN = WorkerPool(workers=1, waiting=4)
"""Computes what is on screen. Only the last few questions matter: a slider moves on."""

PROMISES = (0.3, 1.0, 3.0, 10.0)
"""The epsilons of the four small pictures."""

CURVE_EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
"""The epsilons of the curve of errors, besides the current one."""

CLOUD_SEEDS = tuple(range(1, 13))
"""Other seeds of the noise cloud: twelve show how far the noise reaches."""

_ONE_PAGE = len(EPSILON_STOPS) + len(CURVE_EPSILONS) + len(PROMISES) + len(CLOUD_SEEDS)

PREFETCH = WorkerPool(
    workers=1, waiting=2 * _ONE_PAGE, behind=(RELEASES, ON_SCREEN, PLAN_POOL), cache=ON_SCREEN
)
"""Computes what may be asked next, with room for the questions of two pages.

Everything that a visitor waits for comes first.
"""

_HOPELESS = "no plan is expected to release from so few rows"

_MOST_BLOCKS = 40
"""Fits of blocks that are kept for the picture: more would cover each other."""


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
        Why there is no plan, or why it cannot run; empty if it ran.
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

    @property
    def released(self) -> bool:
        """Whether there is a mixture."""
        return self.private is not None


def setup_of(settings: Settings, rows: DemoRows) -> RehearsalSetup:
    """Return the rehearsal of the settings on screen; without a seed the noise has seed 0."""
    return RehearsalSetup(rows, settings.request, settings.learner, settings.seed or 0)


def rehearsal_of(setup: RehearsalSetup) -> Future[Rehearsal]:
    """Ask for the rehearsal on screen."""
    return ON_SCREEN.ask(setup, lambda: _rehearsed(setup))


def prefetched(setups: Iterable[RehearsalSetup]) -> list[Future[Rehearsal]]:
    """Ask for rehearsals with low priority, the most wanted first."""
    # a pool serves the newest question first
    found = [PREFETCH.ask(setup, functools.partial(_rehearsed, setup)) for setup in [*setups][::-1]]
    return found[::-1]


def neighbours(epsilon: float) -> list[float]:
    """Return the next stops of the slider on both sides."""
    place = EPSILON_STOPS.index(epsilon) if epsilon in EPSILON_STOPS else None
    if place is None:
        return []
    return [EPSILON_STOPS[i] for i in (place - 1, place + 1) if 0 <= i < len(EPSILON_STOPS)]


def _rehearsed(setup: RehearsalSetup) -> Rehearsal:
    """Run a rehearsal."""
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
        return _without_plan(setup, str(problem))
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
