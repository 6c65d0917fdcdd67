"""The guessing game: guess which of two neighbouring data sets a release was made from.

It is the definition of differential privacy, played. The guesser knows both data sets, how the
rows were dealt, every fit, and everything else except the noise. They are shown more than is ever
published: the numbers that a mask draws before it makes a mixture of them. So the likelihood of
what they see is known exactly for either data set, and with it the best guess and its chance of
success. No real guesser does better, and the promise must hold even for this one.

An outsider sees only what is published, many times, and learns to distinguish the two data sets:
`attack_on`. Both must stay below the ceiling that `Plan.ceiling` proves, and above the curve of
`Plan.tradeoff`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from privgmm.arrays import Array, BoolArray, IntArray
from privgmm.audit.findings import Finding, best_direction, clopper_pearson, within
from privgmm.audit.privacy_loss import measured_delta, whole_losses
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan
from privgmm.privacy.gaussian_pairs import GaussianPair
from privgmm.releases import Outcome
from privgmm.stages.agreement.stage import Agreement, AgreementView

__all__ = [
    "Attack",
    "Duel",
    "Score",
    "Silence",
    "at_worst_count",
    "attack_on",
    "ceiling_finding",
    "duel_between",
]

_MISS = 0.0025
"""Chance that a bound on one rate is wrong; by convention: two bounds hold with 99.5 %."""
_LEVELS = np.linspace(0.02, 0.98, 49)
"""Quantiles at which an outsider tries to cut: every 2 %, fine enough for samples of hundreds."""
_ROWS_PER_COLUMN = 10
"""Released rows per column from which a covariance is estimated; by convention."""


@dataclasses.dataclass(frozen=True)
class Silence:
    """A source of zeros in place of noise: what a mask publishes with it is CONFIDENTIAL."""

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        """Return zeros."""
        return np.zeros(shape)

    def permutation(self, n: int) -> IntArray:
        """Return the order as it is."""
        return np.arange(n, dtype=np.int64)


@dataclasses.dataclass(frozen=True)
class Score:
    """How often a guesser was right."""

    right: int
    rounds: int

    @property
    def share(self) -> float:
        """Share of right guesses; one half before the first guess."""
        return self.right / self.rounds if self.rounds else 0.5

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Compute Clopper and Pearson's interval for the chance of a right guess."""
        if self.rounds == 0:
            return 0.0, 1.0
        return clopper_pearson(self.right, self.rounds, (1 - confidence) / 2)

    def __add__(self, other: Score) -> Score:
        return Score(self.right + other.right, self.rounds + other.rounds)


@dataclasses.dataclass(frozen=True)
class Attack:
    """A test that says A or B, and how often it was wrong.

    Parameters
    ----------
    false_alarms, from_b : int
        How often it said A where it was B, and how often it was B.
    missed, from_a : int
        How often it said B where it was A, and how often it was A.
    """

    false_alarms: int
    from_b: int
    missed: int
    from_a: int

    @property
    def rates(self) -> tuple[float, float]:
        """Shares of false alarms and of misses."""
        return self.false_alarms / self.from_b, self.missed / self.from_a

    @property
    def success(self) -> float:
        """The share of right guesses where A and B are as likely."""
        return 1 - sum(self.rates) / 2

    def highest(self, miss: float = 0.025) -> tuple[float, float]:
        """Bound the chances of a false alarm and of a miss from above, each wrong with `miss`."""
        return (
            clopper_pearson(self.false_alarms, self.from_b, miss)[1],
            clopper_pearson(self.missed, self.from_a, miss)[1],
        )

    def lowest(self, miss: float = 0.025) -> tuple[float, float]:
        """Bound the same two chances from below, each wrong with `miss`."""
        return (
            clopper_pearson(self.false_alarms, self.from_b, miss)[0],
            clopper_pearson(self.missed, self.from_a, miss)[0],
        )

    def proved_success(self, miss: float = _MISS) -> float:
        """Bound the chance of a right guess from below, wrong with chance at most twice `miss`."""
        return 1 - sum(self.highest(miss)) / 2


@dataclasses.dataclass(frozen=True, eq=False)
class Duel:
    """Two neighbouring data sets, as the strongest guesser knows them.

    Parameters
    ----------
    pass_a, pass_b : float
        The chance of a release from each; otherwise the guesser sees a refusal.
    pair : GaussianPair or None
        What is seen after a release; None where not both can release.
    """

    pass_a: float
    pass_b: float
    pair: GaussianPair | None

    @property
    def best_success(self) -> float:
        """Chance that the best guess is right, exactly: one half plus half the total variation.

        ``TV = (P_A(refuse) - P_B(refuse))+ + ∫ (a p_A - b p_B)+`` with a, b the chances to pass.
        """
        a, b = self.pass_a, self.pass_b
        apart = max(0.0, b - a)
        if b == 0:
            # a release gives A away
            apart += a
        elif a > 0 and self.pair is not None:
            apart += a * float(self.pair.delta(math.log(b / a)))
        return 0.5 + 0.5 * apart

    def play(self, n: int, *, rng: np.random.Generator) -> Score:
        """Play n fair rounds as the guesser who names the likelier data set."""
        from_a = rng.random(n) < 0.5
        loss = self._losses(from_a, rng=rng)
        # where both are equally likely, a coin decides
        guess = np.where(loss == 0, rng.random(n) < 0.5, loss > 0)
        return Score(int((guess == from_a).sum()), n)

    def _losses(self, from_a: BoolArray, *, rng: np.random.Generator) -> Array:
        """Draw ``ln P_A - ln P_B`` (n,) of what is seen in each round."""
        n = from_a.size
        passed = rng.random(n) < np.where(from_a, self.pass_a, self.pass_b)
        with np.errstate(divide="ignore", invalid="ignore"):
            refused = np.log1p(-self.pass_a) - np.log1p(-self.pass_b)
            released = np.log(self.pass_a) - np.log(self.pass_b)
        loss = np.full(n, refused)
        if passed.any() and self.pair is not None:
            seen = self.pair.draw(from_a[passed], rng=rng)
            loss[passed] = released + self.pair.loss(seen)
        elif passed.any():
            loss[passed] = released
        return loss

    def attacks(
        self, n: int, odds: Sequence[float], *, rng: np.random.Generator
    ) -> tuple[Attack, ...]:
        """Play the best tests, n rounds from each side; each says A from its log odds upwards.

        All of them judge the same rounds.
        """
        of_a, of_b = (self._losses(np.full(n, side), rng=rng) for side in (True, False))
        return tuple(
            Attack(int((of_b > level).sum()), n, int((of_a <= level).sum()), n) for level in odds
        )


def at_worst_count(pair: GaussianPair, chances: Sequence[float]) -> Duel:
    """Make the duel over what a mask draws, at the count of the gate where it is easiest to win.

    Parameters
    ----------
    pair : GaussianPair
    chances : sequence of float
        Chances to pass at each value of the gate's count; neighbours differ by at most one.
    """
    listed = np.asarray(chances)
    a, b = np.concatenate([[listed[1:], listed[:-1]], [listed[:-1], listed[1:]]], axis=1)
    a, b = np.append(a, listed[-1]), np.append(b, listed[-1])
    apart = np.maximum(b - a, 0.0) + a * pair.delta(np.log(b / a))
    worst = int(np.argmax(apart))
    return Duel(float(a[worst]), float(b[worst]), pair)


def attack_on(first: Array, second: Array) -> Attack:
    """Learn to distinguish releases from A and from B, as an outsider can, and test it.

    Parameters
    ----------
    first, second : arrays (n, m)
        Numbers of each release, NaN where it was refused.

    Notes
    -----
    On the first halves the outsider learns the direction that separates the two best, where to
    cut, and what a refusal means. The second halves show how good that test is.
    """
    if len(first) < 4 or first.shape != second.shape:
        raise InvalidInput(
            f"first and second must have the same shape and at least 4 rows, got {first.shape} "
            f"and {second.shape}"
        )
    half = len(first) // 2
    towards = _direction(first[:half], second[:half])
    of_a, of_b = first @ towards, second @ towards
    refused_a, refused_b = np.isnan(of_a), np.isnan(of_b)
    pool = np.concatenate([of_a[:half], of_b[:half]])
    pool = pool[~np.isnan(pool)]
    cuts = np.quantile(pool, _LEVELS) if pool.size else np.zeros(1)
    best: tuple[int, BoolArray, BoolArray] | None = None
    for cut in cuts:
        for sign in (1.0, -1.0):
            for refusal in (True, False):
                says_a, says_b = (
                    np.where(refused, refusal, sign * (value - cut) > 0)
                    for refused, value in ((refused_a, of_a), (refused_b, of_b))
                )
                right = int(says_a[:half].sum()) + int((~says_b[:half]).sum())
                if best is None or right > best[0]:
                    best = right, says_a, says_b
    if best is None:
        raise InvalidInput("no test to choose from")
    _, says_a, says_b = best
    return Attack(
        int(says_b[half:].sum()),
        len(second) - half,
        int((~says_a[half:]).sum()),
        len(first) - half,
    )


def _direction(first: Array, second: Array) -> Array:
    """Find the combination of columns (m,) that separates what was released best."""
    seen = [part[~np.isnan(part).any(axis=1)] for part in (first, second)]
    if min(len(part) for part in seen) < _ROWS_PER_COLUMN * first.shape[1]:
        return np.ones(first.shape[1])
    return best_direction(*seen)


def ceiling_finding(plan: Plan, *, draws: int, rng: np.random.Generator) -> Finding | None:
    """Hold all noise of a plan, at its worst, against the proved ceiling.

    Returns None for a plan whose losses cannot be drawn. Losses of a gate are those of its noisy
    count, so the ceiling is the one with counts shown.
    """
    sight = plan.price().sight
    if plan.price().curve is None or sight is None:
        return None
    try:
        losses = whole_losses(plan, draws, rng=rng)
    except InvalidInput:
        # a stage that does not draw its losses; its other claims are attacked elsewhere
        return None
    found = measured_delta(losses, [0.0])
    return within(
        f"guesses, {plan.method}, k={plan.n_components}, d={plan.n_features}, "
        f"{plan.stages[0].kind} first",
        "right guesses at the worst, lower bound <= proved ceiling",
        (1 + float(found.low[0])) / 2,
        sight.with_counts().tradeoff().ceiling,
        f"{draws} draws, {(1 + float(found.estimate[0])) / 2:.2%} right",
    )


def duel_between(first: Outcome, second: Outcome) -> Duel:
    """Make the duel between two outcomes of one plan, from neighbouring rows and one seed.

    With one seed the rows are dealt alike and the blocks fitted alike, so the fits differ only in
    the block of the row that differs. The noise in the outcomes themselves is not used.
    """
    plan = first.result.plan
    if plan != second.result.plan:
        raise InvalidInput("both outcomes must come from one plan")
    stage = plan.stage(Agreement)
    if plan.stages != (stage,):
        raise InvalidInput(
            "a duel is exact only without refinement: plan an agreement and no other stage"
        )
    chances, items = [], []
    for outcome in (first, second):
        view = outcome.curator.view(AgreementView)
        chances.append(stage.test.pass_probability(view.verdict.counts))
        items.append(
            stage.space.representative(view.fits, view.verdict.weights, view.verdict.reference)
            if chances[-1] > 0
            else None
        )
    if items[0] is None or items[1] is None:
        return Duel(chances[0], chances[1], None)
    return Duel(chances[0], chances[1], stage.space.gaussian_pair(items[0], items[1]))
