"""Explore: rows, ellipses and a verdict that follow sliders. Every picture is a rehearsal."""

from __future__ import annotations

import functools
from typing import Any

import plotly.graph_objects as go

from privgmm.data.datasets import GENERATORS, sample_names
from privgmm.errors import InvalidInput
from privgmm.figures.mixtures import mixtures_figure
from privgmm.methods import registry
from privgmm.methods.request import DEFAULT_METHOD, PlanRequest
from privgmm.methods.usefulness import USUAL_ALPHA
from privgmm.records.notebook import DEFAULT_LEARNER, GeneratedRows, SampleRows
from privgmm.showing.html import mixture_html
from privgmm.teaching.background import WorkerPool
from privgmm.teaching.format import number_in_words, problem_in_words
from privgmm.teaching.rehearsal import (
    ALPHA_STOPS,
    DELTA_STOPS,
    EPSILON_STOPS,
    ROW_COUNTS,
    DemoRows,
    Rehearsal,
    RehearsalSetup,
    load_demo,
    rehearsed,
)
from privgmm.teaching.verdict import Band, band_html, of_rehearsal, waiting
from privgmm.widgets.live import (
    Board,
    LiveFigure,
    dropdown,
    panels,
    slider,
    when_known,
    words,
    words_html,
)

__all__ = ["explore"]

_MOST_COMPONENTS = 6
_MOST_ROWS = 10**6
"""Rows offered at most: drawing more of them takes longer than a hand waits for."""
_BLOCKS = (50, 100, 200, 300, 400, 600, 800, 1000, 2000)
_OPEN = "left open"
_HEIGHT = 460

_ON_SCREEN = WorkerPool(workers=1, waiting=2)
_AHEAD = WorkerPool(workers=1, waiting=64, behind=(_ON_SCREEN,), cache=_ON_SCREEN)
"""Computes the other stops of the slider that moved last, the nearest first."""


def explore(
    data: str = "well_separated",
    *,
    n_components: int = 2,
    n_features: int = 2,
    n_rows: int = 3_000,
    epsilon: float = 1.0,
    method: str = DEFAULT_METHOD,
    seed: int = 1,
) -> Board:
    """Let ε, δ, α, t, rows and k be moved, and show what a release would be.

    Nothing is spent: the rows are generated, or come with the package, and the noise is seeded.

    Parameters
    ----------
    data : str
        A kind of mixture to draw rows from (`privgmm.data.datasets.GENERATORS`), or the name of a
        bundled sample (`sample_names`).
    n_components, n_features, n_rows : int
        Of generated rows; a sample has its own.
    epsilon : float
        Where the slider starts.
    method : str
    seed : int
        Draws the rows and the noise.
    """
    return _Explorer(
        _rows_of(data, n_components, n_features, n_rows, seed), epsilon, method, seed
    ).board


def _rows_of(data: str, k: int, d: int, n: int, seed: int) -> DemoRows:
    if data in GENERATORS:
        return GeneratedRows(data, k, d, n, seed)
    if data in sample_names():
        return SampleRows(data)
    known = ", ".join([*GENERATORS, *sample_names()])
    raise InvalidInput(f"data must be one of {known}; got {data!r}")


class _Explorer:
    """The controls, and what they say."""

    def __init__(self, rows: DemoRows, epsilon: float, method: str, seed: int) -> None:
        self._rows, self._seed = rows, seed
        self._dataset = load_demo(rows)
        truth = self._dataset.truth
        k = 2 if truth is None else truth.n_components
        self.epsilon = slider(
            "Privacy ε", sorted({*EPSILON_STOPS, epsilon}), epsilon, say=lambda one: f"{one:g}"
        )
        self.delta = slider("Failure chance δ", DELTA_STOPS, 1e-6, say=number_in_words)
        self.k = slider("Groups k", range(1, max(_MOST_COMPONENTS, k) + 1), k)
        self.n = slider("Rows", _row_counts(rows), self._dataset.n_rows, say=lambda one: f"{one:,}")
        self.n.disabled = len(self.n.options) == 1
        self.alpha = slider("Accuracy α", (_OPEN, *ALPHA_STOPS), _OPEN)
        self.t = slider("Blocks t", (_OPEN, *_BLOCKS), _OPEN)
        self.method = dropdown(
            "Method", [(one.title, one.name) for one in registry.all_methods()], method
        )
        self._band = words()
        self._note = words()
        self._figure = LiveFigure(self._picture(None))
        self._shown: Rehearsal | None = None
        self._held = False
        self._last = "epsilon"
        for name in ("epsilon", "delta", "n", "k", "alpha", "t", "method"):
            getattr(self, name).observe(self._moved(name), "value")
        controls = (self.epsilon, self.delta, self.n, self.k, self.alpha, self.t, self.method)
        self.board = Board(
            [self._band, panels((*controls, self._note), (self._figure,))], self._still
        )
        self._ask()

    def _moved(self, name: str) -> Any:
        def react(_: Any) -> None:
            self._last = name
            self._ask()

        return react

    def _setup(self, **changes: Any) -> RehearsalSetup:
        """Return the rehearsal of the controls, some of them changed."""
        asked = {
            name: changes.get(name, getattr(self, name).value)
            for name in ("epsilon", "delta", "n", "k", "t", "method")
        }
        rows = self._rows
        if isinstance(rows, GeneratedRows):
            rows = GeneratedRows(
                rows.kind, rows.n_components, rows.n_features, asked["n"], rows.seed
            )
        # without alpha: no plan depends on it, and one rehearsal answers for all of them
        request = PlanRequest(
            n_components=asked["k"],
            n_features=self._dataset.n_features,
            n_rows=asked["n"],
            epsilon=asked["epsilon"],
            delta=asked["delta"],
            method=asked["method"],
            n_blocks=_set(asked["t"]),
        )
        return RehearsalSetup(rows, request, DEFAULT_LEARNER, self._seed)

    def _ask(self) -> None:
        """Ask for what the controls say, and for the stops next to it."""
        try:
            setup = self._setup()
        except InvalidInput as problem:
            self._note.value = words_html(f"**{problem_in_words(problem)}**")
            return
        answer = _ON_SCREEN.ask(setup, lambda: rehearsed(setup))
        if not when_known(answer, self._show):
            if self._shown is None:
                self._band.value = band_html(waiting("Rehearsing", "Nothing is spent"))
            self._note.value = words_html("Computing…")

    def _ahead(self) -> None:
        """Compute the other stops of the slider that moved last, the nearest first."""
        for name in dict.fromkeys(("epsilon", self._last)):
            control = getattr(self, name)
            stops = [one for _, one in control.options]
            here = stops.index(control.value)
            # a pool serves the newest question first
            for place in sorted(range(len(stops)), key=lambda i: -abs(i - here)):
                if place == here or (name == "n" and abs(place - here) > 1):
                    continue
                try:
                    setup = self._setup(**{name: stops[place]})
                except InvalidInput:
                    continue  # said when the slider is there
                _AHEAD.ask(setup, functools.partial(rehearsed, setup))

    def _show(self, found: Rehearsal) -> None:
        """Show a rehearsal, unless the controls have moved on."""
        if found.setup != self._setup():
            return
        self._shown, self._dataset = found, load_demo(found.setup.rows)
        self._band.value = band_html(self._judged(found))
        self._note.value = words_html(self._words(found))
        self._figure.draw(self._picture(found), hold=self._held)
        self._held = True
        self._ahead()

    def _judged(self, found: Rehearsal) -> Band:
        """Judge a rehearsal by the accuracy that is asked for."""
        alpha = _set(self.alpha.value) or USUAL_ALPHA
        return of_rehearsal(found, real=self._dataset.truth is None, alpha=alpha)

    def _picture(self, found: Rehearsal | None) -> go.Figure:
        return mixtures_figure(
            self._dataset.thumbnail,
            true=self._dataset.truth,
            nonprivate=None if found is None else found.nonprivate,
            private=None if found is None else found.private,
            errors=None if found is None else found.errors,
            columns=self._dataset.columns,
            n_rows=self._dataset.n_rows,
            height=_HEIGHT,
        )

    def _words(self, found: Rehearsal) -> str:
        if found.problem:
            return f"**{found.problem}**"
        return "**Confidential**: the picture shows rows. These are no one's, so nothing is spent."

    def _still(self) -> str:
        found = self._shown
        if found is None:
            return words_html("Run this cell to move the sliders.")
        band = band_html(self._judged(found))
        return band + ("" if found.private is None else mixture_html(found.private, found.errors))


def _row_counts(rows: DemoRows) -> tuple[int, ...]:
    if isinstance(rows, SampleRows):
        return (load_demo(rows).n_rows,)
    return tuple(sorted({*(one for one in ROW_COUNTS if one <= _MOST_ROWS), rows.n_rows}))


def _set(value: Any) -> Any:
    """Return what a slider says; None where it is left open."""
    return None if value == _OPEN else value
