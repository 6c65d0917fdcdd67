"""Rehearsals: the release that the settings on screen would make, tried on rows that are nobody's.

A rehearsal runs the very code of a release, with noise from a seed, on generated rows or a shipped
sample. Nothing is spent, because nobody's privacy is at stake, and nothing of it may be mistaken
for a release: it never gets a receipt. It is never made from an uploaded file.

Equal rehearsals are worked out once for all sessions. Two boards share the work: one for what is on
screen, and one for what may be asked next (other epsilons, other seeds), so that the first never
waits for the second.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from concurrent.futures import Future

from privgmm.dashboard.shared.answers import BOARD, EPSILONS, is_hopeful
from privgmm.dashboard.shared.jobs import HEAVY, Board
from privgmm.dashboard.shared.made_up import MadeUp, loaded
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
from privgmm.release import Outcome, Release, prepare
from privgmm.stages.standard_errors import StandardErrors

__all__ = [
    "AHEAD",
    "CLOUD_SEEDS",
    "CURVE_EPSILONS",
    "NOW",
    "PROMISES",
    "Rehearsal",
    "Scene",
    "asked",
    "asked_ahead",
    "neighbours",
    "scene_of",
    "some_blocks",
]

NOW = Board(workers=1, waiting=4)
"""What is on screen."""

PROMISES = (0.3, 1.0, 3.0, 10.0)
"""The epsilons of the four small pictures."""

CURVE_EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
"""Where the curve of errors is worked out, besides where one is."""

CLOUD_SEEDS = tuple(range(1, 13))
"""Other seeds, which show how far the noise reaches."""

_ONE_PAGE = len(EPSILONS) + len(CURVE_EPSILONS) + len(PROMISES) + len(CLOUD_SEEDS)

AHEAD = Board(workers=1, waiting=2 * _ONE_PAGE, after=(HEAVY, NOW, BOARD))
"""What may be asked next: with room for all that a page or two would ask.

Whatever somebody waits for comes first.
"""

_HOPELESS = "no plan is expected to release from so few rows"

_MOST_BLOCKS = 40
"""So many fits of blocks are kept to be drawn."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scene:
    """What a rehearsal is of.

    Parameters
    ----------
    rows : GeneratedRows or SampleRows
    request : PlanRequest
    learner : str
    seed : int
        Draws the noise.
    """

    rows: MadeUp
    request: PlanRequest
    learner: str
    seed: int

    def at(self, epsilon: float) -> Scene:
        """The same at another epsilon."""
        return dataclasses.replace(self, request=self.request.but(epsilon=epsilon))

    def seeded(self, seed: int) -> Scene:
        """The same with other noise."""
        return dataclasses.replace(self, seed=seed)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Rehearsal:
    """What came of it. It holds no rows.

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

    scene: Scene
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


def scene_of(settings: Settings, rows: MadeUp) -> Scene:
    """The rehearsal that belongs to the settings on screen; unseeded ones take seed 0."""
    return Scene(rows, settings.request, settings.learner, settings.seed or 0)


def asked(scene: Scene) -> Future[Rehearsal]:
    """The rehearsal on screen, under way or ready."""
    return NOW.ask(scene, lambda: _rehearsed(scene))


def asked_ahead(scenes: Iterable[Scene]) -> list[Future[Rehearsal]]:
    """Others, the most wanted first."""
    # the board serves the newest question first
    found = [AHEAD.ask(scene, functools.partial(_rehearsed, scene)) for scene in [*scenes][::-1]]
    return found[::-1]


def neighbours(epsilon: float) -> list[float]:
    """The next stops of the slider to either side."""
    place = EPSILONS.index(epsilon) if epsilon in EPSILONS else None
    if place is None:
        return []
    return [EPSILONS[i] for i in (place - 1, place + 1) if 0 <= i < len(EPSILONS)]


@functools.lru_cache(maxsize=512)
def _rehearsed(scene: Scene) -> Rehearsal:
    """Run it; remembered, so that neither board does what the other has done."""
    try:
        if not is_hopeful(scene.request):
            return _without_plan(scene, _HOPELESS)
        plan = plan_for(scene.request).plan
        outcome = prepare(
            loaded(scene.rows).rows,
            plan,
            learner=None
            if plan.chooses_components
            else make_learner(scene.learner, plan.n_components),
            rng=scene.seed,
            # a ledger of its own: nothing here may count as a spend of this process
        ).draw(MemoryLedger())
    except InvalidInput as problem:
        return _without_plan(scene, str(problem))
    return _told(scene, outcome)


def _without_plan(scene: Scene, problem: str) -> Rehearsal:
    k = scene.request.n_components
    fit = None if scene.request.choose_components else _nonprivate(scene.rows, scene.learner, k)
    return Rehearsal(
        scene, problem, nonprivate=fit, nonprivate_error=_error(fit, _truth(scene.rows))
    )


def _told(scene: Scene, outcome: Outcome) -> Rehearsal:
    result = outcome.result
    private = result.mixture if isinstance(result, Release) else None
    k = result.plan.n_components if private is None else private.n_components
    chooses = result.plan.chooses_components
    fit = _nonprivate(scene.rows, DEFAULT_LEARNER if chooses else scene.learner, k)
    truth = _truth(scene.rows)
    return Rehearsal(
        scene,
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
    """Fits of some blocks, to be drawn; none where no blocks voted. NOT private."""
    if not outcome.result.plan.votes:
        return ()
    fits = outcome.curator.fits
    return tuple(fits[i] for i in range(len(fits)) if fits.ok[i])[:_MOST_BLOCKS]


def _truth(rows: MadeUp) -> Mixture | None:
    return loaded(rows).truth


def _error(mixture: Mixture | None, reference: Mixture | None) -> float | None:
    if mixture is None or reference is None:
        return None
    if mixture.n_components != reference.n_components:
        return None
    return float(dist_gmm(mixture, reference))


@functools.lru_cache(maxsize=64)
def _nonprivate(rows: MadeUp, learner: str, k: int) -> Mixture | None:
    """The learner's fit to all rows, as a curator would see it; None if it finds none."""
    batch = make_learner(learner, k).fit_blocks(loaded(rows).rows[None], rng=0)
    return batch[0] if batch.ok[0] else None
