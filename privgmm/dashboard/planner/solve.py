"""Answers of the page Planner: the unknown, and curves over rows, computed in the background.

All questions are about public numbers, and all sessions share one pool of workers. No Streamlit in
here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np

from privgmm.errors import InvalidInput
from privgmm.figures.what_if import FEWEST, MOST
from privgmm.methods.request import PlanRequest
from privgmm.methods.what_if import Prospect, along_rows, alpha_for, epsilon_for, rows_for
from privgmm.teaching.background import WorkerPool

__all__ = [
    "PLANNER_POOL",
    "SOLVE_ALPHA",
    "SOLVE_EPSILON",
    "SOLVE_ROWS",
    "PlannerQuestion",
    "prospect_curve",
    "solution_of",
    "solve_for",
    "telling_rows",
]

PLANNER_POOL = WorkerPool()
"""A pool of its own: large k and d take long, and other pages should not wait for that."""

SOLVE_ROWS, SOLVE_EPSILON, SOLVE_ALPHA = "Rows", "ε", "α"


class PlannerQuestion(NamedTuple):
    """A question with one unknown: rows, epsilon or alpha.

    Parameters
    ----------
    unknown : {"Rows", "ε", "α"}
    request : PlanRequest
        The rest. Its values of the unknown and of the method are ignored.
    """

    unknown: str
    request: PlanRequest

    def of_method(self, name: str) -> PlannerQuestion:
        """Put the question to one method; what does not matter to it gets a fixed value.

        So unused controls do not make another question, and each is answered once.
        """
        request = self.request.but(method=name)
        if self.unknown == SOLVE_ROWS:
            request = request.but(n_rows=None)
        elif self.unknown == SOLVE_EPSILON:
            request = request.but(epsilon=1.0)
        if self.unknown == SOLVE_ALPHA:
            request = request.but(alpha=None)
        return PlannerQuestion(self.unknown, request)


def solve_for(asked: PlannerQuestion) -> float:
    """Compute the unknown for the method of the request; infinite if there is none."""
    try:
        if asked.unknown == SOLVE_EPSILON:
            return float(epsilon_for(asked.request))
        if asked.unknown == SOLVE_ROWS:
            return float(rows_for(asked.request))
        return float(alpha_for(asked.request))
    except InvalidInput:
        # no number of blocks lets the method pass within this budget
        return math.inf


def solution_of(asked: PlannerQuestion, name: str) -> Future[float]:
    """Ask for the unknown of one method."""
    mine = asked.of_method(name)
    return PLANNER_POOL.ask(("solve", mine), lambda: solve_for(mine))


def telling_rows(enough: float) -> list[float]:
    """Choose rows for a curve: dense where the chance rises, sparse elsewhere."""
    rise = float(enough) * np.geomspace(1 / 8, 4, 19)
    beyond = np.geomspace(min(float(enough), MOST), MOST, 14)
    rows = {FEWEST, *rise.tolist(), *beyond.tolist(), MOST}
    return sorted(n for n in rows if FEWEST <= n <= MOST)


def _at_solution(asked: PlannerQuestion, solved: float) -> tuple[PlanRequest, float]:
    """Fill in the unknown; return the request and rows that are enough for it."""
    request = asked.request
    if asked.unknown == SOLVE_EPSILON:
        request = request.but(epsilon=solved)
    request = request.but(n_rows=None, alpha=None)
    return request, rows_for(request)


def _curve(asked: PlannerQuestion, solved: float) -> tuple[Prospect, ...]:
    request, enough = _at_solution(asked, solved)
    rows = telling_rows(enough)
    try:
        points = along_rows(request, rows, enough=enough)
    except InvalidInput:
        # more rows than the method can count: the curve ends there
        points = tuple(_those_it_takes(request, rows, enough))
    # the plans are not drawn and would only take memory
    return tuple(dataclasses.replace(point, plan=None) for point in points)


def _those_it_takes(
    request: PlanRequest, rows: Sequence[float], enough: float
) -> Iterator[Prospect]:
    for n in rows:
        try:
            yield from along_rows(request, [n], enough=enough)
        except InvalidInput:
            return


def prospect_curve(
    asked: PlannerQuestion, name: str, solved: float
) -> Future[tuple[Prospect, ...]]:
    """Ask for chances and errors along rows, for a method with a finite answer."""
    mine = asked.of_method(name)
    return PLANNER_POOL.ask(("curve", mine), lambda: _curve(mine, solved))
