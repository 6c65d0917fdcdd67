"""The runs of a comparison, computed in the background: the place asked for, then the others.

A place is a number of rows and an epsilon. At one place and for one seed all learners get the same
rows. That is one question to a pool that all sessions share, so equal comparisons are computed
once. A session asks for a few at a time; one that stops asks for no more.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from privgmm.baselines.comparison import LearningProblem, Result, contenders, run
from privgmm.budget import Budget
from privgmm.dashboard.compare.asking import MOST_ROWS, ComparisonQuestion
from privgmm.teaching.background import WorkerPool, is_known

__all__ = [
    "COMPARISON_POOL",
    "FEWEST_SEEDS",
    "SEEDS",
    "TRIED_EPSILONS",
    "TRIED_ROWS",
    "Comparison",
    "Place",
    "Trial",
    "TrialResults",
    "compare_so_far",
    "place_asked",
    "places_along_epsilon",
    "places_along_rows",
    "trials",
]

SEEDS = 5
"""Runs per place: the rows and the noise differ."""
FEWEST_SEEDS = 3
"""Runs before a headline: of fewer, a single lucky one decides. By convention."""
TRIED_EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
TRIED_ROWS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
"""Places on both curves besides the one asked for, evenly on a log scale."""
_BEYOND = 3
"""Rows are tried up to this multiple of those asked for: larger tables take long."""
_AT_ONCE = 3
"""Trials asked for at a time: a pool serves the newest question first."""

COMPARISON_POOL = WorkerPool(keep=2048)
"""A comparison is about sixty questions: thirty are remembered."""

TrialResults = Mapping[str, Result]
"""Results of all contenders, by key."""


class Place(NamedTuple):
    """A number of rows and an epsilon."""

    n_rows: int
    epsilon: float


class Trial(NamedTuple):
    """One piece of work: every learner, once, at one place."""

    place: Place
    seed: int


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What is known so far.

    Parameters
    ----------
    results : mapping of Place to tuple of Column
        One entry per seed that is known.
    done, total : int
        Trials.
    pending : tuple of Future
        Still to come.
    """

    results: Mapping[Place, tuple[TrialResults, ...]]
    done: int
    total: int
    pending: tuple[Future[TrialResults], ...]

    @property
    def complete(self) -> bool:
        """Whether everything is known."""
        return self.done == self.total

    def at(self, place: Place, key: str) -> tuple[Result, ...]:
        """Return how the runs of one contender ended at a place."""
        return tuple(
            results_of[key] for results_of in self.results.get(place, ()) if key in results_of
        )


def place_asked(asked: ComparisonQuestion) -> Place:
    """Return the place that was asked for."""
    return Place(asked.rows.n_rows, asked.budget.epsilon)


def places_along_epsilon(asked: ComparisonQuestion) -> tuple[Place, ...]:
    """List the places with the rows asked for, by epsilon."""
    values = {*TRIED_EPSILONS, asked.budget.epsilon}
    return tuple(Place(asked.rows.n_rows, epsilon) for epsilon in sorted(values))


def places_along_rows(asked: ComparisonQuestion) -> tuple[Place, ...]:
    """List the places with the epsilon asked for, by rows."""
    n = asked.rows.n_rows
    most = min(MOST_ROWS, max(_BEYOND * n, TRIED_ROWS[-2]))
    values = {n, *(other for other in TRIED_ROWS if other <= most)}
    return tuple(Place(rows, asked.budget.epsilon) for rows in sorted(values))


def trials(asked: ComparisonQuestion) -> tuple[Trial, ...]:
    """List all work in the order in which it is wanted: the nearest places first."""
    centre = place_asked(asked)

    def apart(place: Place) -> float:
        return abs(math.log(place.n_rows / centre.n_rows)) + abs(
            math.log(place.epsilon / centre.epsilon)
        )

    places = sorted(
        {*places_along_epsilon(asked), *places_along_rows(asked)}, key=lambda p: (apart(p), p)
    )
    # a first picture; enough for a headline; then all curves, seed by seed
    first = [Trial(centre, seed) for seed in range(FEWEST_SEEDS)]
    every = [Trial(place, seed) for seed in range(SEEDS) for place in places]
    return tuple(dict.fromkeys([*first, *every]))


def _run_trial(problem: LearningProblem, trial: Trial, delta: float) -> TrialResults:
    """Run every learner once at one place."""
    budget = Budget(trial.place.epsilon, delta)
    return {
        one.key: run(one.key, problem, trial.place.n_rows, budget, trial.seed)
        for one in contenders()
    }


def _ask(problem: LearningProblem, trial: Trial, delta: float) -> Future[TrialResults]:
    # the contenders are in the key, so that a method that is added later takes part
    who = tuple(one.key for one in contenders())
    return COMPARISON_POOL.ask(
        ("compare", problem, trial, delta, who), lambda: _run_trial(problem, trial, delta)
    )


def _groups(wanted: Sequence[Trial]) -> Iterator[Sequence[Trial]]:
    """Yield the first picture, then what the headline needs, then a few trials at a time.

    A pool serves the newest question first: the next group is not asked before this one is done, or
    the first question would come last.
    """
    yield wanted[:1]
    yield wanted[1:FEWEST_SEEDS]
    for start in range(FEWEST_SEEDS, len(wanted), _AT_ONCE):
        yield wanted[start : start + _AT_ONCE]


def compare_so_far(
    asked: ComparisonQuestion, known: dict[Trial, TrialResults], *, more: bool = True
) -> Comparison:
    """Collect what is known by now; ask for what comes next.

    Parameters
    ----------
    asked : Asked
    known : dict of Step to Column
        What this session has seen of the question; new results are added.
    more : bool
        Whether to ask for more.
    """
    problem, delta = asked.problem(), asked.budget.delta
    wanted = trials(asked)
    pending: tuple[Future[TrialResults], ...] = ()
    for group in _groups(wanted) if more else ():
        answers = {trial: _ask(problem, trial, delta) for trial in group if trial not in known}
        known.update({trial: one.result() for trial, one in answers.items() if is_known(one)})
        pending = tuple(one for one in answers.values() if not is_known(one))
        if pending:
            break
    results: dict[Place, tuple[TrialResults, ...]] = {}
    for trial in wanted:
        if trial in known:
            results[trial.place] = (*results.get(trial.place, ()), known[trial])
    return Comparison(results, sum(trial in known for trial in wanted), len(wanted), pending)
