"""The guessing game: tell which of two neighbouring data sets made a release.

The definition of differential privacy, played. The guesser knows both data sets, how the rows
were dealt, every fit, and everything else but the noise; and is shown more than is ever
published: the numbers a mask draws before they are squared and shuffled into a mixture. Then the
likelihood of what is shown is known exactly under either data set, and so are the best guess and
its chance of success. No real guesser does better, and the promise must hold even for this one.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.findings import clopper_pearson
from privgmm.errors import InvalidInput
from privgmm.privacy.gaussian_pairs import GaussianPair
from privgmm.release import Outcome

__all__ = ["Duel", "Score", "Silence", "duel_between"]


@dataclasses.dataclass(frozen=True)
class Silence:
    """No noise at all: what a mask makes of it is what it was given. NOT private."""

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        """Zeros."""
        return np.zeros(shape)

    def permutation(self, n: int) -> IntArray:
        """The order as it is."""
        return np.arange(n, dtype=np.int64)


@dataclasses.dataclass(frozen=True)
class Score:
    """How often a guesser was right."""

    right: int
    rounds: int

    @property
    def share(self) -> float:
        """Right guesses among all; a half before the first."""
        return self.right / self.rounds if self.rounds else 0.5

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Clopper and Pearson's interval for the chance of a right guess: never too short."""
        if self.rounds == 0:
            return 0.0, 1.0
        return clopper_pearson(self.right, self.rounds, (1 - confidence) / 2)

    def __add__(self, other: Score) -> Score:
        return Score(self.right + other.right, self.rounds + other.rounds)


@dataclasses.dataclass(frozen=True, eq=False)
class Duel:
    """Two neighbouring data sets, and all that the strongest guesser can know of each.

    Parameters
    ----------
    pass_a, pass_b : float
        The chance of a release from each; otherwise the guesser sees a refusal.
    pair : GaussianPair or None
        What is seen after a release; None where neither can release.
    """

    pass_a: float
    pass_b: float
    pair: GaussianPair | None

    @property
    def best_success(self) -> float:
        """The chance of the best guess, exactly: one half plus half the total variation.

        ``TV = (P_A(refuse) - P_B(refuse))+ + ∫ (a p_A - b p_B)+`` with a, b the chances to pass.
        """
        a, b = self.pass_a, self.pass_b
        apart = max(0.0, b - a)
        if a > 0 and self.pair is not None:
            apart += a if b == 0 else a * float(self.pair.delta(math.log(b / a)))
        return 0.5 + 0.5 * apart

    def play(self, n: int, *, rng: np.random.Generator) -> Score:
        """Fair rounds, n of them, by the guesser who takes the likelier data set."""
        from_a = rng.random(n) < 0.5
        passed = rng.random(n) < np.where(from_a, self.pass_a, self.pass_b)
        with np.errstate(divide="ignore", invalid="ignore"):
            refused = np.log1p(-self.pass_a) - np.log1p(-self.pass_b)
            released = np.log(self.pass_a) - np.log(self.pass_b)
        loss = np.full(n, refused)
        if passed.any() and self.pair is not None:
            seen = self.pair.draw(from_a[passed], rng=rng)
            loss[passed] = released + self.pair.loss(seen)
        # where nothing speaks for either, a coin decides
        guess = np.where(loss == 0, rng.random(n) < 0.5, loss > 0)
        return Score(int((guess == from_a).sum()), n)


def duel_between(first: Outcome, second: Outcome) -> Duel:
    """The duel between two outcomes of one plan, made from neighbours with one seed.

    With one seed the rows are dealt alike and the blocks fitted alike, so the fits differ in the
    block of the one row that differs. The noise in the outcomes themselves is not looked at.
    """
    plan = first.result.plan
    if plan != second.result.plan:
        raise InvalidInput("both outcomes must come from one plan")
    if plan.stages != (plan.agreement,):
        raise InvalidInput("a duel is exact only without refinement: plan with refine=False")
    chances, items = [], []
    for outcome in (first, second):
        verdict = outcome.curator.verdict
        chances.append(plan.test.pass_probability(verdict.counts))
        items.append(
            plan.space.representative(outcome.curator.fits, verdict.weights, verdict.reference)
            if chances[-1] > 0
            else None
        )
    if items[0] is None or items[1] is None:
        return Duel(chances[0], chances[1], None)
    return Duel(chances[0], chances[1], plan.space.gaussian_pair(items[0], items[1]))
