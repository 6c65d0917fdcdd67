"""The guessing game: predict, guess from which of two tables a release was made, see the score."""

from __future__ import annotations

import functools
from typing import Any

import ipywidgets
import numpy as np

from privgmm.audit.guessing import Score
from privgmm.budget import percent_at_most
from privgmm.figures.guessing import evidence_figure, round_figure, score_figure
from privgmm.showing.html import mixture_html
from privgmm.teaching import neighbours
from privgmm.teaching.background import WorkerPool
from privgmm.teaching.game import (
    ABOUT,
    DISTANCES,
    PREDICTIONS,
    ROW,
    GameTable,
    Match,
    game_table,
)
from privgmm.widgets.live import (
    Board,
    LiveFigure,
    button,
    dropdown,
    panels,
    slider,
    when_known,
    words,
    words_html,
)

__all__ = ["guess"]

_ROUNDS = 100_000
"""Rounds of the best strategy: its 95 % interval then spans at most 0.6 percentage points."""
_TABLES = WorkerPool(workers=1, waiting=2)
_BROKEN = (
    "**No noise: broken on purpose.** It runs on these generated people only; nothing of yours can "
    "be released like this."
)


def guess(*, epsilon: float = 1.0, person: str = "outlier") -> Board:
    """Play the guessing game on generated people: first predict, then guess.

    Parameters
    ----------
    epsilon : float
        One of `privgmm.teaching.neighbours.AUDIT_EPSILONS`, where its choice starts.
    person : str
        Who differs between the two tables: "ordinary", "outlier" or "worst case".
    """
    return _Guesser(epsilon, person).board


class _Guesser:
    """The controls, the state of play and what is seen of it."""

    def __init__(self, epsilon: float, person: str) -> None:
        self._matches: dict[tuple[float, str, bool], Match] = {}
        self.epsilon = slider(
            "Privacy ε", neighbours.AUDIT_EPSILONS, epsilon, say=lambda one: f"{one:g}"
        )
        self.person = dropdown("Who differs", [(one, one) for one in DISTANCES], person)
        self.noise = dropdown("Noise", [("on", True), ("off", False)], True)
        self._say = words()
        self._buttons = ipywidgets.HBox(layout={"flex_flow": "row wrap"})
        self._evidence = LiveFigure(evidence_figure(0.0, 1.0, None, name=" ", draws=None))
        rows = neighbours.data().rows
        self._round = LiveFigure(round_figure(None, rows, rows[ROW], rows[ROW]))
        self._scores = LiveFigure(score_figure({}, ceiling=0.55, stated=0.73))
        self._table: GameTable | None = None
        for one in (self.epsilon, self.person, self.noise):
            one.observe(lambda _: self._ask(), "value")
        self.board = Board(
            [
                panels(
                    (self.epsilon, self.person, self.noise, self._say, self._buttons),
                    (self._evidence, self._round, self._scores),
                )
            ],
            self._still,
        )
        self._ask()

    @property
    def _choice(self) -> tuple[float, str, bool]:
        return self.epsilon.value, self.person.value, self.noise.value

    @property
    def _match(self) -> Match:
        return self._matches.setdefault(self._choice, Match())

    def _ask(self) -> None:
        """Release from both tables, then play."""
        asked = self._choice
        self._table = None

        def show(table: GameTable) -> None:
            if asked == self._choice:
                self._table = table
                self._show()

        answer = _TABLES.ask(asked[:2], lambda: game_table(*asked[:2]))
        if not when_known(answer, show):
            self._say.value = words_html("Releasing from both tables…")
            self._buttons.children = ()

    def _play(self, act: Any) -> None:
        if self._table is not None:
            act(self._table)
            self._show()

    def _predict(self, prediction: str) -> None:
        self._match.prediction = prediction
        self._show()

    def _next(self) -> None:
        self._play(lambda table: self._match.deal(table.duel, self.noise.value))

    def _guess(self, said_a: bool) -> None:
        self._play(lambda table: self._match.guess(table, self.noise.value, said_a))

    def _play_best(self) -> None:
        def play(table: GameTable) -> None:
            rng = np.random.default_rng()
            if self.noise.value:
                self._match.best += table.duel.play(_ROUNDS, rng=rng)
                return
            # without noise it sees which table it was, if they differ at all
            right = _ROUNDS if table.differ() else int((rng.random(_ROUNDS) < 0.5).sum())
            self._match.best += Score(right, _ROUNDS)

        self._play(play)

    def _show(self) -> None:
        table, match, noise = self._table, self._match, bool(self.noise.value)
        if table is None:
            return
        if not match.deals:
            match.deal(table.duel, noise)
        self._say.value = words_html(self._words(match, noise))
        self._buttons.children = self._offered(match)
        seen, near = match.released(table, noise), table.magnified
        self._evidence.draw(
            evidence_figure(
                near.of_a,
                near.of_b,
                None if seen is None else near.read(seen),
                name=near.name,
                draws=(near.draws_a, near.draws_b) if noise else None,
            ),
        )
        rows = neighbours.data().rows
        moved = neighbours.moved_row(ROW, DISTANCES[self.person.value])
        alone = self.person.value == "worst case"
        self._round.draw(round_figure(seen, rows, rows[ROW], moved, in_doubt=not alone))
        self._scores.draw(self._score(match, noise))

    def _words(self, match: Match, noise: bool) -> str:
        said = ABOUT[self.person.value] + " A coin chose A or B, and one release was made from it."
        if not noise:
            said = f"{_BROKEN} {said}"
        if match.prediction is None:
            return f"{said} **Predict first: of 10 guesses, how many will be right?**"
        asked = "**Which one was it?**" if match.said_a is None else match.report
        plan = neighbours.plan(self.epsilon.value)
        ceiling = f"Proved ceiling: {percent_at_most(plan.ceiling)}." if noise else ""
        return (
            f"{said} {asked} You predicted {match.prediction} of 10; right so far: "
            f"{match.you.right} of {match.you.rounds}. {ceiling}"
        )

    def _offered(self, match: Match) -> tuple[ipywidgets.Button, ...]:
        if match.prediction is None:
            return tuple(
                button(words.capitalize(), functools.partial(self._predict, words), main=True)
                for words in PREDICTIONS
            )
        best = button(f"Best strategy, {_ROUNDS:,} rounds", self._play_best)
        if match.said_a is not None:
            return button("Next round", self._next, main=True), best
        return (
            button("It was A", lambda: self._guess(said_a=True), main=True),
            button("It was B", lambda: self._guess(said_a=False), main=True),
            best,
        )

    def _score(self, match: Match, noise: bool) -> Any:
        scores = {
            "You": match.you,
            "Best, same rounds": match.rival,
            "Best, many rounds": match.best,
        }
        plan = neighbours.plan(self.epsilon.value)
        return score_figure(
            scores, ceiling=plan.ceiling, stated=plan.spent().guess_ceiling, noise=noise
        )

    def _still(self) -> str:
        seen = None if self._table is None else self._match.released(self._table, noise=True)
        return f"{self._say.value}{'' if seen is None else mixture_html(seen)}"
