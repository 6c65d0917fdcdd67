"""Answers of the page Planner: the unknown, and curves over rows, worked out beside the page.

Pure questions about public numbers, put to a `Board` that all sessions share; no Streamlit in
here.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np

from privgmm.dashboard.shared.answers import DEFAULT_ALPHA
from privgmm.dashboard.shared.jobs import Board
from privgmm.errors import InvalidInput
from privgmm.figures.what_if import FEWEST, MOST
from privgmm.methods.plan import Method
from privgmm.methods.what_if import (
    Prospect,
    Question,
    along_rows,
    alpha_for,
    epsilon_for,
    rows_for,
)

__all__ = [
    "ALPHA",
    "BOARD",
    "EPSILON",
    "ORDER",
    "ROWS",
    "Asked",
    "curve_of",
    "solution_of",
    "solve",
    "telling_rows",
]

BOARD = Board(workers=1, waiting=16)
"""One of its own: large k and d take long, and other pages should not wait for that."""

ORDER: tuple[Method, ...] = ("lifted", "tight", "paper")
ROWS, EPSILON, ALPHA = "Rows", "ε", "α"


class Asked(NamedTuple):
    """What was asked: one of rows, epsilon and alpha is the unknown.

    Parameters
    ----------
    solve : {"Rows", "ε", "α"}
    question : Question
        What stays fixed.
    epsilon, alpha, n_rows : float
        The unknown one holds a value of no meaning.
    """

    solve: str
    question: Question
    epsilon: float
    alpha: float
    n_rows: float

    def of_method(self, method: Method) -> Asked:
        """The same with what does not matter to a method set to one value: asked once for all."""
        return self._replace(
            epsilon=1.0 if self.solve == EPSILON else self.epsilon,
            # `lifted` takes no alpha
            alpha=DEFAULT_ALPHA if self.solve == ALPHA or method == "lifted" else self.alpha,
            n_rows=1.0 if self.solve == ROWS else self.n_rows,
        )


@functools.lru_cache(maxsize=1024)
def _needed(question: Question, method: Method, epsilon: float, alpha: float) -> float:
    """Rows from which a method releases in 95 of 100 runs; infinite if it never does."""
    try:
        return float(rows_for(question, method, epsilon=epsilon, alpha=alpha))
    except InvalidInput:
        # no number of blocks lets the method pass within this budget
        return math.inf


def _error(question: Question, n_rows: float, epsilon: float) -> float:
    enough = _needed(question, "lifted", epsilon, DEFAULT_ALPHA)
    if enough > n_rows:
        return math.inf
    return along_rows(question, "lifted", [n_rows], epsilon=epsilon, enough=enough)[0].error


def solve(asked: Asked, method: Method) -> float:
    """The unknown, for one method; infinite if nothing will do.

    Asked for alpha, `lifted` answers with the error to expect: it promises an alpha for its
    coarse start only, and then refines it.
    """
    question, epsilon, alpha, n_rows = asked.of_method(method)[1:]
    if asked.solve == EPSILON:
        return float(epsilon_for(question, method, n_rows=n_rows, alpha=alpha))
    if asked.solve == ROWS:
        return _needed(question, method, epsilon, alpha)
    if method == "lifted":
        return _error(question, n_rows, epsilon)
    try:
        return float(alpha_for(question, method, n_rows=n_rows, epsilon=epsilon))
    except InvalidInput:
        # no number of blocks lets the method pass within this budget
        return math.inf


def solution_of(asked: Asked, method: Method) -> Future[float]:
    """`solve`, under way or ready."""
    plain = asked.of_method(method)
    return BOARD.ask(("solve", plain, method), lambda: solve(plain, method))


def telling_rows(enough: float) -> list[float]:
    """Rows at which to draw a curve: dense where the chance rises, sparse elsewhere."""
    rise = float(enough) * np.geomspace(1 / 8, 4, 19)
    beyond = np.geomspace(min(float(enough), MOST), MOST, 14)
    rows = {FEWEST, *rise.tolist(), *beyond.tolist(), MOST}
    return sorted(n for n in rows if FEWEST <= n <= MOST)


def _settings(asked: Asked, method: Method, solved: float) -> tuple[float, float, float]:
    """Rows that are enough, epsilon and alpha of the curve of a method whose answer is finite."""
    if asked.solve == EPSILON:
        return asked.n_rows, solved, asked.alpha
    if method == "lifted":
        enough = _needed(asked.question, method, asked.epsilon, DEFAULT_ALPHA)
        return enough, asked.epsilon, DEFAULT_ALPHA
    if asked.solve == ALPHA:
        return asked.n_rows, asked.epsilon, solved
    return solved, asked.epsilon, asked.alpha


def _curve(asked: Asked, method: Method, solved: float) -> tuple[Prospect, ...]:
    enough, epsilon, alpha = _settings(asked, method, solved)
    points = along_rows(
        asked.question, method, telling_rows(enough), epsilon=epsilon, alpha=alpha, enough=enough
    )
    # the plans are not drawn, and would only make the memory heavier
    return tuple(dataclasses.replace(point, plan=None) for point in points)


def curve_of(asked: Asked, method: Method, solved: float) -> Future[tuple[Prospect, ...]]:
    """Chances and errors along the rows, for a method whose answer `solved` is finite."""
    plain = asked.of_method(method)
    return BOARD.ask(("curve", plain, method), lambda: _curve(plain, method, solved))
