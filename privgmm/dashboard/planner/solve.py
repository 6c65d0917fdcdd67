"""Answers of the page Planner: the unknown, and curves over rows, worked out beside the page.

Pure questions about public numbers, put to a `Board` that all sessions share; no Streamlit in
here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np

from privgmm.dashboard.shared.jobs import Board
from privgmm.errors import InvalidInput
from privgmm.figures.what_if import FEWEST, MOST
from privgmm.methods import registry
from privgmm.methods.method import Method
from privgmm.methods.request import PlanRequest
from privgmm.methods.what_if import Prospect, along_rows, epsilon_for, error_for, rows_for

__all__ = [
    "ALPHA",
    "BOARD",
    "EPSILON",
    "ROWS",
    "Asked",
    "curve_of",
    "methods_in_order",
    "solution_of",
    "solve",
    "telling_rows",
]

BOARD = Board(workers=1, waiting=16)
"""One of its own: large k and d take long, and other pages should not wait for that."""

ROWS, EPSILON, ALPHA = "Rows", "ε", "α"


def methods_in_order() -> tuple[Method, ...]:
    """The methods as the page shows them: the newest first."""
    return registry.all_methods()[::-1]


class Asked(NamedTuple):
    """What was asked: one of rows, epsilon and alpha is the unknown.

    Parameters
    ----------
    solve : {"Rows", "ε", "α"}
        Which one.
    request : PlanRequest
        The rest. What it says of the unknown, and of the method, means nothing.
    """

    solve: str
    request: PlanRequest

    def of_method(self, name: str) -> Asked:
        """The same put to one method; what does not matter to it is set to one value.

        So a question is the same question whatever an idle control holds, and is worked out once.
        """
        method = registry.get(name)
        request = self.request.but(
            method=name, forgiving=self.request.forgiving and method.takes_forgiving
        )
        if self.solve == ROWS:
            request = request.but(n_rows=None)
        elif self.solve == EPSILON:
            request = request.but(epsilon=1.0)
        if self.solve == ALPHA or not method.error_is_promised:
            request = request.but(alpha=None)
        return Asked(self.solve, request)


def solve(asked: Asked) -> float:
    """The unknown, for the method of the request; infinite if nothing will do.

    Asked for alpha, methods that promise no final alpha answer with the error to expect.
    """
    try:
        if asked.solve == EPSILON:
            return float(epsilon_for(asked.request))
        if asked.solve == ROWS:
            return float(rows_for(asked.request))
        return float(error_for(asked.request))
    except InvalidInput:
        # no number of blocks lets the method pass within this budget
        return math.inf


def solution_of(asked: Asked, name: str) -> Future[float]:
    """`solve` for one method, under way or ready."""
    mine = asked.of_method(name)
    return BOARD.ask(("solve", mine), lambda: solve(mine))


def telling_rows(enough: float) -> list[float]:
    """Rows at which to draw a curve: dense where the chance rises, sparse elsewhere."""
    rise = float(enough) * np.geomspace(1 / 8, 4, 19)
    beyond = np.geomspace(min(float(enough), MOST), MOST, 14)
    rows = {FEWEST, *rise.tolist(), *beyond.tolist(), MOST}
    return sorted(n for n in rows if FEWEST <= n <= MOST)


def _at_solution(asked: Asked, solved: float) -> tuple[PlanRequest, float]:
    """The request with the unknown filled in, and rows that are enough for it."""
    request = asked.request
    if asked.solve == ROWS:
        return request, solved
    if asked.solve == EPSILON:
        return request.but(epsilon=solved), request.rows
    if registry.get(request.method).error_is_promised:
        return request.but(alpha=solved), request.rows
    return request, rows_for(request)


def _curve(asked: Asked, solved: float) -> tuple[Prospect, ...]:
    request, enough = _at_solution(asked, solved)
    rows = telling_rows(enough)
    try:
        points = along_rows(request, rows, enough=enough)
    except InvalidInput:
        # more rows than the method can count: the curve ends there
        points = tuple(_those_it_takes(request, rows, enough))
    # the plans are not drawn, and would only make the memory heavier
    return tuple(dataclasses.replace(point, plan=None) for point in points)


def _those_it_takes(
    request: PlanRequest, rows: Sequence[float], enough: float
) -> Iterator[Prospect]:
    for n in rows:
        try:
            yield from along_rows(request, [n], enough=enough)
        except InvalidInput:
            return


def curve_of(asked: Asked, name: str, solved: float) -> Future[tuple[Prospect, ...]]:
    """Chances and errors along the rows, for a method whose answer `solved` is finite."""
    mine = asked.of_method(name)
    return BOARD.ask(("curve", mine), lambda: _curve(mine, solved))
