"""Play the guessing game: say from which of two data sets a release was made.

It is played against the code that releases, with its noise or, broken on purpose, without. All
people in it are generated. The best strategy knows both data sets and plays the same rounds.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np

from privgmm.arrays import Array
from privgmm.audit.guessing import Duel, Score, Silence, at_worst_count, duel_between
from privgmm.errors import PrivGMMError
from privgmm.mixture import Mixture
from privgmm.releases import Outcome
from privgmm.results import Release
from privgmm.stages.agreement.lifted_space import Anchored
from privgmm.stages.agreement.stage import AgreementView, AveragedAgreement
from privgmm.teaching import neighbours

__all__ = [
    "ABOUT",
    "DISTANCES",
    "PREDICTIONS",
    "ROW",
    "Game",
    "GameTable",
    "Match",
    "duel_of",
    "game_table",
]

_DRAWS = 400
"""Draws in each histogram of what might be published."""
ROW = 5
"""Position of the person who differs, from 0: any person who is in a block would do."""
DISTANCES = {"ordinary": 1.5, "outlier": 1e6, "worst case": 0.0}
"""How far the person moves, in units of the data; a component's spread is about 1."""
PREDICTIONS = ("about 5", "about 7", "all 10")
ABOUT = {
    "ordinary": "A and B hold the same people except for **one person**: in B they lie a small "
    "step to the side.",
    "outlier": "A and B hold the same people except for **one person**: in A they are like "
    "everybody else, in B they lie **a million away** from all others.",
    "worst case": "A and B differ as much as the proof allows any two neighbours to differ. No "
    "real data needs to look like this.",
}


class Game(NamedTuple):
    """A choice of game: who differs, and whether the release has its noise."""

    person: str
    noise: bool


@dataclasses.dataclass
class Match:
    """The state of play for one choice of ε and of game."""

    prediction: str | None = None
    you: Score = dataclasses.field(default_factory=lambda: Score(0, 0))
    rival: Score = dataclasses.field(default_factory=lambda: Score(0, 0))
    best: Score = dataclasses.field(default_factory=lambda: Score(0, 0))
    from_a: bool = True
    seen: Array | None = None
    deals: int = 0
    said_a: bool | None = None
    report: str = ""

    def deal(self, duel: Duel, noise: bool) -> None:
        """Toss the coin and draw what is seen; it stays until the guess."""
        rng = np.random.default_rng()
        self.from_a = bool(rng.random() < 0.5)
        self.seen, self.said_a = None, None
        self.deals += 1
        passed = rng.random() < (duel.pass_a if self.from_a else duel.pass_b)
        if noise and passed and duel.pair is not None:
            self.seen = duel.pair.draw([self.from_a], rng=rng)[0]

    def released(self, table: GameTable, noise: bool) -> Mixture | None:
        """Return what is published in this round; None for ⊥."""
        if not noise:
            return table.silent_a if self.from_a else table.silent_b
        return None if self.seen is None else table.item_a.published(table.item_b, self.seen)

    def guess(self, table: GameTable, noise: bool, said_a: bool) -> None:
        """Count a guess, once in a round, and that of the best strategy; report both."""
        if self.said_a is not None:
            return  # a second press of the key, before the rerun
        self.said_a = said_a
        was, right = "A" if self.from_a else "B", said_a == self.from_a
        start = f"It was **{was}**: you were **{'right' if right else 'wrong'}**. "
        self.you += Score(int(right), 1)
        if noise:
            loss = _loss(table.duel, self.seen)
            self.rival += Score(int((loss > 0) == self.from_a), 1)
            self.report = start + (
                f"The best strategy said {'A' if loss > 0 else 'B'}, with odds of "
                f"{math.exp(abs(loss)):.3f} to 1."
            )
        else:
            seen = self.released(table, noise=False)
            self.rival += Score(int((seen == table.silent_a) == self.from_a), 1)
            self.report = (
                start + f"What was published is exactly what {was} gives, to the last digit."
            )


class _Magnified(NamedTuple):
    """The published number in which A and B differ most.

    Parameters
    ----------
    component : int
        From left to right.
    part : int
        Of `_numbers`: the centre in each column, then the width in each.
    of_a, of_b : float
        What each publishes without noise.
    draws_a, draws_b : array (draws,)
        What each might publish with noise; empty if not both can release.
    """

    component: int
    part: int
    of_a: float
    of_b: float
    draws_a: Array
    draws_b: Array

    @property
    def name(self) -> str:
        """Name of the number."""
        what, column = divmod(self.part, neighbours.data().n_features)
        side = ("left", "right")[self.component]
        return f"{('centre', 'width')[what]} of the {side} cluster, x{column + 1}"

    def read(self, mixture: Mixture) -> float:
        """Read the number off a mixture."""
        return float(_numbers(mixture)[self.component, self.part])


@dataclasses.dataclass(frozen=True, eq=False)
class GameTable:
    """Both sides of a game: the duel, the mask's inputs, and its outputs without noise."""

    duel: Duel
    item_a: Anchored
    item_b: Anchored
    silent_a: Mixture
    silent_b: Mixture
    magnified: _Magnified

    def differ(self) -> bool:
        """Whether A and B publish different numbers without noise."""
        return self.silent_a != self.silent_b


def _numbers(mixture: Mixture) -> Array:
    """List means and standard deviations (k, 2d) from left to right: releases are shuffled."""
    order = np.argsort(mixture.means[:, 0])
    widths = np.sqrt(np.einsum("kii->ki", mixture.covariances))
    return np.concatenate([mixture.means, widths], axis=1)[order]


@functools.lru_cache(maxsize=16)
def game_table(epsilon: float, person: str) -> GameTable:
    """Release from both data sets, and prepare the game between them."""
    stage, first = neighbours.plan(epsilon).stage(AveragedAgreement), neighbours.outcome(epsilon)
    item = _masked(first)
    silent_a = _published(neighbours.outcome(epsilon, noise=False))
    if person == "worst case":
        other = item.farther(stage.gamma)
        duel = at_worst_count(stage.space.gaussian_pair(item, other), stage.price().chances)
        # no rows lead to this representative, so it is masked directly, without noise
        silent_b = stage.space.mask(other, rng=Silence())
    else:
        second = neighbours.outcome(epsilon, ROW, DISTANCES[person])
        duel, other = duel_between(first, second), _masked(second)
        silent_b = _published(neighbours.outcome(epsilon, ROW, DISTANCES[person], noise=False))
    return GameTable(
        duel, item, other, silent_a, silent_b, _magnify(duel, item, other, silent_a, silent_b)
    )


def _magnify(
    duel: Duel, item_a: Anchored, item_b: Anchored, silent_a: Mixture, silent_b: Mixture
) -> _Magnified:
    of_a, of_b = _numbers(silent_a), _numbers(silent_b)
    component, part = divmod(int(np.argmax(np.abs(of_a - of_b))), of_a.shape[1])
    values = float(of_a[component, part]), float(of_b[component, part])
    found = _Magnified(component, part, *values, np.empty(0), np.empty(0))
    if duel.pair is None:
        return found
    # the same noise on both sides: what differs in the picture is due to the one person
    drawn = [
        np.array(
            [
                found.read(item_a.published(item_b, seen))
                for seen in duel.pair.draw(np.full(_DRAWS, side), rng=np.random.default_rng(23))
            ]
        )
        for side in (True, False)
    ]
    return found._replace(draws_a=drawn[0], draws_b=drawn[1])


def duel_of(epsilon: float, person: str) -> Duel:
    """Make the duel over neighbours of this kind."""
    return game_table(epsilon, person).duel


def _masked(outcome: Outcome) -> Anchored:
    """Return what went into the mask. CONFIDENTIAL."""
    space = outcome.result.plan.stage(AveragedAgreement).space
    view = outcome.curator.view(AgreementView)
    return space.representative(view.fits, view.verdict.weights, view.verdict.reference)


def _published(outcome: Outcome) -> Mixture:
    if not isinstance(outcome.result, Release):
        raise PrivGMMError("the generated rows were refused: there is nothing to guess from")
    return outcome.result.mixture


def _loss(duel: Duel, seen: Array | None) -> float:
    """Compute ``ln P_A - ln P_B`` of what is seen."""
    if seen is None or duel.pair is None:
        return math.log1p(-duel.pass_a) - math.log1p(-duel.pass_b)
    return math.log(duel.pass_a) - math.log(duel.pass_b) + float(duel.pair.loss(seen[None])[0])
