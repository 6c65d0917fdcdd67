"""Rehearsals of the release that the settings on screen would make, in the background.

Equal rehearsals are computed once for all sessions. Two pools of workers share one cache: one
computes what is on screen, the other what may be asked next (other epsilons, other seeds).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from concurrent.futures import Future

from privgmm.dashboard.shared.answers import PLAN_POOL
from privgmm.dashboard.shared.fair_queue import RELEASES
from privgmm.dashboard.shared.state import Settings
from privgmm.teaching.background import WorkerPool
from privgmm.teaching.rehearsal import (
    EPSILON_STOPS,
    DemoRows,
    Rehearsal,
    RehearsalSetup,
    rehearsed,
)

__all__ = [
    "CLOUD_SEEDS",
    "ON_SCREEN",
    "PREFETCH",
    "PROMISES",
    "neighbours",
    "prefetched",
    "rehearsal_of",
    "setup_of",
]

ON_SCREEN = WorkerPool(workers=1, waiting=4)
"""Computes what is on screen. Only the last few questions matter: a slider moves on."""

PROMISES = (0.3, 1.0, 3.0, 10.0)
"""The epsilons of the four small pictures."""

CLOUD_SEEDS = tuple(range(1, 6))
"""Other seeds of the possible releases: five show how far the noise reaches, and come soon."""

_ONE_PAGE = len(EPSILON_STOPS) + 4 * len(CLOUD_SEEDS)

PREFETCH = WorkerPool(
    workers=1, waiting=2 * _ONE_PAGE, behind=(RELEASES, ON_SCREEN, PLAN_POOL), cache=ON_SCREEN
)
"""Computes what may be asked next, with room for the questions of two pages.

Everything that a visitor waits for comes first.
"""


def setup_of(settings: Settings, rows: DemoRows) -> RehearsalSetup:
    """Return the rehearsal of the settings on screen; without a seed the noise has seed 0."""
    # of demonstration data every row is a person
    request = settings.request.but(unit="row")
    return RehearsalSetup(rows, request, settings.learner, settings.seed or 0)


def rehearsal_of(setup: RehearsalSetup) -> Future[Rehearsal]:
    """Ask for the rehearsal on screen."""
    return ON_SCREEN.ask(setup, lambda: rehearsed(setup))


def prefetched(setups: Iterable[RehearsalSetup]) -> list[Future[Rehearsal]]:
    """Ask for rehearsals with low priority, the most wanted first."""
    # a pool serves the newest question first
    found = [PREFETCH.ask(setup, functools.partial(rehearsed, setup)) for setup in [*setups][::-1]]
    return found[::-1]


def neighbours(epsilon: float) -> list[float]:
    """Return the next stops of the slider on both sides, the larger one first."""
    place = EPSILON_STOPS.index(epsilon) if epsilon in EPSILON_STOPS else None
    if place is None:
        return []
    return [EPSILON_STOPS[i] for i in (place + 1, place - 1) if 0 <= i < len(EPSILON_STOPS)]
