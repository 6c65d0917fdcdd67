"""The runs of a comparison: worked out beside the page, place by place, the asked one first.

A place is a number of rows and an epsilon. At one place and for one seed everybody learns from the
same rows: that is one question to the `Board`, which all sessions share, so the same comparison is
worked out once. A session asks for a few at a time; whoever stops asks for no more.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from privgmm.baselines.comparison import Problem, Result, contenders, run
from privgmm.budget import Budget
from privgmm.dashboard.compare.asking import MOST_ROWS, Asked
from privgmm.dashboard.shared.jobs import Board, is_known

__all__ = [
    "BOARD",
    "EPSILONS",
    "ROWS",
    "SEEDS",
    "Column",
    "Found",
    "Place",
    "Step",
    "along_epsilon",
    "along_rows",
    "find",
    "here",
    "steps",
]

SEEDS = 5
"""Runs per place: the rows and the noise differ."""
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
ROWS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
_BEYOND = 3
"""Rows are tried up to so many times those asked for, so that nobody waits for many more."""
_AT_ONCE = 3

BOARD = Board(workers=1, keep=2048, waiting=12)

Column = Mapping[str, Result]
"""How everybody ended, by the key of the contender."""


class Place(NamedTuple):
    """Where the learners are compared."""

    n_rows: int
    epsilon: float


class Step(NamedTuple):
    """One piece of work: everybody, once, at one place."""

    place: Place
    seed: int


@dataclasses.dataclass(frozen=True)
class Found:
    """What is known so far.

    Parameters
    ----------
    results : mapping of Place to tuple of Column
        One column per seed that is known.
    done, total : int
        Steps.
    pending : tuple of Future
        Under way.
    """

    results: Mapping[Place, tuple[Column, ...]]
    done: int
    total: int
    pending: tuple[Future[Column], ...]

    @property
    def complete(self) -> bool:
        """Whether there is no more to come."""
        return self.done == self.total

    def at(self, place: Place, key: str) -> tuple[Result, ...]:
        """How the runs of one contender ended there."""
        return tuple(column[key] for column in self.results.get(place, ()) if key in column)


def here(asked: Asked) -> Place:
    """The place asked for."""
    return Place(asked.rows.n_rows, asked.budget.epsilon)


def along_epsilon(asked: Asked) -> tuple[Place, ...]:
    """Places with the rows asked for, in the order of epsilon."""
    values = {*EPSILONS, asked.budget.epsilon}
    return tuple(Place(asked.rows.n_rows, epsilon) for epsilon in sorted(values))


def along_rows(asked: Asked) -> tuple[Place, ...]:
    """Places with the epsilon asked for, in the order of rows."""
    n = asked.rows.n_rows
    most = min(MOST_ROWS, max(_BEYOND * n, ROWS[-2]))
    values = {n, *(other for other in ROWS if other <= most)}
    return tuple(Place(rows, asked.budget.epsilon) for rows in sorted(values))


def steps(asked: Asked) -> tuple[Step, ...]:
    """All work, in the order in which it is wanted: what is nearest to the question first."""
    centre = here(asked)

    def apart(place: Place) -> float:
        return abs(math.log(place.n_rows / centre.n_rows)) + abs(
            math.log(place.epsilon / centre.epsilon)
        )

    places = sorted({*along_epsilon(asked), *along_rows(asked)}, key=lambda p: (apart(p), p))
    return tuple(Step(place, seed) for seed in range(SEEDS) for place in places)


def _column(problem: Problem, step: Step, delta: float) -> Column:
    """Everybody once at one place."""
    budget = Budget(step.place.epsilon, delta)
    return {
        one.key: run(one.key, problem, step.place.n_rows, budget, step.seed) for one in contenders()
    }


def _ask(problem: Problem, step: Step, delta: float) -> Future[Column]:
    # who takes part is in the question, so that a method added later is not left out
    everybody = tuple(one.key for one in contenders())
    return BOARD.ask(
        ("compare", problem, step, delta, everybody), lambda: _column(problem, step, delta)
    )


def _groups(wanted: Sequence[Step]) -> Iterator[Sequence[Step]]:
    """The place asked for by itself, then a few at a time.

    A board serves the newest question first: the next group is not asked before this one is done,
    or the first question would come last.
    """
    yield wanted[:1]
    for start in range(1, len(wanted), _AT_ONCE):
        yield wanted[start : start + _AT_ONCE]


def find(asked: Asked, known: dict[Step, Column], *, more: bool = True) -> Found:
    """What is known by now; asks for what comes next.

    Parameters
    ----------
    asked : Asked
    known : dict of Step to Column
        What this session has seen of this question; it is added to.
    more : bool
        Whether to ask for more.
    """
    problem, delta = asked.problem(), asked.budget.delta
    wanted = steps(asked)
    pending: tuple[Future[Column], ...] = ()
    for group in _groups(wanted) if more else ():
        answers = {step: _ask(problem, step, delta) for step in group if step not in known}
        known.update({step: one.result() for step, one in answers.items() if is_known(one)})
        pending = tuple(one for one in answers.values() if not is_known(one))
        if pending:
            break
    results: dict[Place, tuple[Column, ...]] = {}
    for step in wanted:
        if step in known:
            results[step.place] = (*results.get(step.place, ()), known[step])
    return Found(results, sum(step in known for step in wanted), len(wanted), pending)
