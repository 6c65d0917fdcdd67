"""Run Algorithm 1, the private populous estimator, in any semimetric space."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from privgmm.arrays import Array, IntArray, positive
from privgmm.errors import InvalidInput
from privgmm.privacy.gaussian_pairs import Closeness
from privgmm.privacy.noise import RandomState, TruncatedLaplace, noise_source
from privgmm.stages.agreement import lemmas
from privgmm.stages.agreement.reading import (
    NoisyLaw,
    Number,
    VoteBand,
    VoteLine,
    VotesReading,
    VoteWords,
)
from privgmm.stages.agreement.space import Places, Space
from privgmm.stages.agreement.votes import (
    NoiseClaim,
    PrivateTest,
    Standing,
    Verdict,
    friend_counts,
)
from privgmm.stages.form import Form
from privgmm.stages.stage import Bottom

__all__ = ["Bottom", "Populous", "PopulousTest", "private_populous_estimator", "settled_distances"]

Item = TypeVar("Item")
Items = TypeVar("Items")

_PASS_SHARE, _PASS_FRACTION = 0.8, Fraction(4, 5)
"""Algorithm 1, line 7, as a float for prices and pictures and exactly for the comparison."""
_MAJORITY = 0.6
"""Algorithm 1, line 8."""
_SETTLE = 1e-3
"""Relative to the radius; far wider than what a fast computation of all pairs rounds."""


@dataclasses.dataclass(frozen=True)
class PopulousTest:
    """Algorithm 1, lines 3 to 8, as printed.

    Parameters
    ----------
    n_blocks : int
        t, at least 5.
    radius : float
        r/(2z): how near two fits must be to vote for each other.
    epsilon, delta : float
        Of the truncated Laplace noise: those of Theorem 2.3, not the total.

    Notes
    -----
    Replacing one block changes Q by less than 2/t: its row and its column of the t x t table
    of votes, 2t - 1 of t^2 entries.

    Only whether the test passes is ever shown, and votes and noise are compared without rounding.
    The noise itself is an exact draw that was rounded to a floating-point number z, by at most
    ``2^-52 |z|``. Its density there is f(z), and ``|z| f(z)`` is at most ``1 + A/scale`` times the
    chance of larger noise, or, near the bound A, times delta; so chances change by factors, and
    delta by a share, of 1e-14.
    """

    n_blocks: int
    radius: float
    epsilon: float
    delta: float

    kind: ClassVar[str] = "populous"
    counted_by: ClassVar[tuple[Callable[..., Any], ...]] = (friend_counts,)
    words: ClassVar[VoteWords] = VoteWords(
        letter="Q",
        votes="A block's votes are its friends, itself included, as a share of all blocks. The "
        "mean of the shares is **Q**: 1 if all blocks agree. Changing one block changes Q by less "
        "than 2/t.",
        statistic="",
        change="one row moves it by less than 2/t",
        picked="",
    )

    def __post_init__(self) -> None:
        positive(self.radius, "radius")
        if self.n_blocks < 5:
            raise InvalidInput(f"n_blocks must be at least 5 (Theorem 2.3), got {self.n_blocks}")

    @property
    def noise(self) -> TruncatedLaplace:
        """Line 5: TLap(2/t, epsilon, delta)."""
        return TruncatedLaplace(2 / self.n_blocks, self.epsilon, self.delta)

    @property
    def majority(self) -> int:
        """Line 8: the fewest friends with which a block may be picked, more than 0.6 t."""
        return int(np.floor(_MAJORITY * self.n_blocks)) + 1

    @property
    def threshold(self) -> float:
        """Line 7: 0.8 plus the largest value the noise can take."""
        return _PASS_SHARE + self.noise.bound

    def examine(self, distances: Array, *, rng: RandomState) -> Verdict:
        """Run lines 3 to 8: votes, their mean Q, noise, threshold, first populous block."""
        counts = friend_counts(distances, self.radius)
        seen = self.standing(counts)
        drawn = float(self.noise.sample(1, rng=rng)[0])
        share = Fraction(int(counts.sum()), self.n_blocks**2)
        # without rounding: a sum just below the threshold must not pass
        enough = share + Fraction(drawn) >= Fraction(self.threshold)
        noisy = seen.statistic + drawn
        return Verdict(
            # Q >= 0.8 whenever the noisy value passes, and then some q_i > 0.6 exists
            passed=enough and seen.may_pass,
            counts=counts,
            weights=seen.weights,
            reference=seen.reference,
            statistic=seen.statistic,
            noisy_statistic=noisy,
            threshold=self.threshold,
        )

    def standing(self, counts: IntArray) -> Standing:
        """Judge friend counts by their mean share Q; below 0.8 no noise is enough."""
        t = self.n_blocks
        votes = int(counts.sum())
        statistic = votes / t**2
        populous = counts / t > _MAJORITY
        reference = int(np.argmax(populous)) if populous.any() else -1
        return Standing(
            statistic=statistic,
            weights=np.asarray(np.arange(t) == reference, dtype=np.float64),
            reference=reference,
            may_pass=Fraction(votes, t**2) >= _PASS_FRACTION and reference >= 0,
        )

    def read_votes(self, counts: IntArray) -> VotesReading:
        """Describe for a picture which blocks may be picked, and the mean share of friends."""
        t = self.n_blocks
        median, q = int(np.median(counts)), int(counts.sum()) / t**2
        mean = float(counts.mean())
        least = _PASS_SHARE * t
        return VotesReading(
            bands=(
                VoteBand(self.majority, "0.6 t", "more than 0.6 t friends"),
                VoteBand(0, "", "fewer"),
            ),
            lines=(
                VoteLine("their mean, Q t", (0.5, mean), (t + 0.5, mean), "value"),
                VoteLine(
                    "0.8 t: the threshold before its margin for noise",
                    (0.5, least),
                    (t + 0.5, least),
                    "limit",
                ),
            ),
            mark=None,
            numbers=(
                Number("Q", f"{q:.3g}", "Mean share of blocks that agree with a block"),
                Number("Median votes", f"{median}", f"Of {t:,} possible"),
            ),
            words=f"Votes of {t:,} blocks in falling order, median {median}; their mean share Q "
            f"is {q:.3g}.",
        )

    def noisy_law(self, statistic: float) -> NoisyLaw:
        """Describe for a picture the truncated Laplace noise around Q, out to its bound."""
        noise = self.noise
        reach = np.linspace(-noise.bound, noise.bound, 401)
        return NoisyLaw(
            values=statistic + reach,
            heights=noise.pdf(reach),
            passes=statistic + reach >= self.threshold,
            whole=False,
            words="",
        )

    def sentences(self) -> list[str]:
        """Say in plain words what the test asks for."""
        said = [
            f"The mean share of agreeing blocks, plus noise of at most {self.noise.bound:.3g}, "
            f"must reach {self.threshold:.3g}."
        ]
        least = lemmas.block_minimum(self.epsilon, self.delta)
        if self.n_blocks < least:
            said.append(
                f"With fewer than {least} blocks the noise can outweigh even full agreement: "
                "the test cannot be sure to pass."
            )
        return said

    @classmethod
    def from_form(cls, form: Form, n_blocks: int, radius: float) -> PopulousTest:
        """Read the test back from a plan, and check its form."""
        if form.of("kind") != cls.kind:
            raise InvalidInput(f"{form.name} must be of kind {cls.kind!r}")
        epsilon = form.number("epsilon")
        if epsilon > 1:
            raise InvalidInput(
                f"{form.name}.epsilon must be at most 1 (Lemma 5.1), got {epsilon!r}"
            )
        test = cls(n_blocks, radius, epsilon, form.number("delta"))
        form.agrees("bound", test.noise.bound)
        form.agrees("threshold", test.threshold)
        return test

    def pass_probability(self, counts: IntArray) -> float:
        """Compute the chance, over the noise, of passing at given friend counts."""
        return float(1 - self.noise.cdf(self.threshold - int(counts.sum()) / self.n_blocks**2))

    @property
    def sensitivity(self) -> float:
        """``2/t``: see the notes of the class."""
        return self.noise.sensitivity

    @property
    def flank(self) -> int:
        """A tenth of the blocks, so that four fifths of the votes remain."""
        return self.n_blocks // 10

    def least_counts(self) -> IntArray:
        """Return the fewest friends that can pass: each block has four fifths of all."""
        return np.full(self.n_blocks, math.ceil(_PASS_SHARE * self.n_blocks), dtype=np.int64)

    def noise_claim(self) -> NoiseClaim:
        """Claim Theorem C.6 for the noise; off the support of the moved noise it is attained."""
        price = Closeness(self.epsilon, self.delta)
        return NoiseClaim("truncated Laplace (Definition C.5)", (price,), rounding=1e-9)

    def noise_delta(self, epsilon: float, shift: float) -> float:
        """Integrate ``(f(x) - e^epsilon f(x - shift))+`` over x.

        Off the support of the moved noise everything counts, and is known exactly; on it, where
        the ratio of densities is at most ``exp(shift / scale)``, the integral is a plain sum.
        """
        law = self.noise
        edge = -law.bound + shift
        grid = np.linspace(edge, law.bound, 200_001)
        gain = np.maximum(law.pdf(grid) - math.exp(epsilon) * law.pdf(grid - shift), 0.0)
        # rounding at a ratio of exactly e^epsilon is not a gain
        gain = np.where(gain > 1e-12 * law.pdf(grid), gain, 0.0)
        return float(law.cdf(edge)) + float(np.trapezoid(gain, grid))

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        return {
            "kind": self.kind,
            "bound": self.noise.bound,
            "threshold": self.threshold,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "m": self.majority,
            "M": None,
            "G": None,
        }


@dataclasses.dataclass(frozen=True, eq=False)
class Populous(Generic[Item]):
    """What Algorithm 1 returned, and why.

    Parameters
    ----------
    value : Item or Bottom
        The differentially private output.
    verdict : Verdict
        CONFIDENTIAL, except for ``passed``.
    """

    value: Item | Bottom
    verdict: Verdict
    _measure: Callable[[], Array] = dataclasses.field(repr=False)

    @functools.cached_property
    def distances(self) -> Array:
        """All distances (t, t), computed when first read. CONFIDENTIAL."""
        return self._measure()


def settled_distances(items: Items, space: Space[Items, Item], radius: float) -> Array:
    """Compute the distances (t, t) that friends are counted by, exact near the radius.

    Sensitivity rests on this: whether two unchanged items are friends must not depend on a third
    one. A fast computation of all pairs may round differently as others change, and may stop as
    soon as it knows which side of the radius a pair is on; within a thousandth of the radius,
    far wider than its error, every pair is computed by itself, from its two items alone.
    """
    distances = space.placed(items, radius) if isinstance(space, Places) else space.distances(items)
    close = (distances >= (1 - _SETTLE) * radius) & (distances <= (1 + _SETTLE) * radius)
    first, second = (index.astype(np.int64) for index in np.nonzero(close))
    first, second = first[first < second], second[first < second]
    if first.size:
        distances = distances.copy()
        values = space.between(items, first, second)
        distances[first, second] = distances[second, first] = values
    return distances


def private_populous_estimator(
    items: Items, space: Space[Items, Item], test: PrivateTest, rng: RandomState = None
) -> Populous[Item]:
    """Run Algorithm 1 from line 3 on: vote, test, represent, mask.

    Parameters
    ----------
    items : Items
        ``Y_1 .. Y_t``, one per block, in a container that `space` understands.
    space : Space
        Distance, representative and mask.
    test : PrivateTest
        `PopulousTest` for the paper's own, `agreement.AgreementTest` for the exact one.
    rng : None, seed, Generator or NoiseSource
        None draws cryptographic noise.

    Returns
    -------
    Populous
        ``value`` is the masked representative, or `Bottom`.
    """
    source = noise_source(rng)
    distances = settled_distances(items, space, test.radius)
    verdict = test.examine(distances, rng=source)
    measure = functools.partial(space.distances, items)
    if not verdict.passed:
        return Populous(Bottom(), verdict, measure)
    chosen = space.representative(items, verdict.weights, verdict.reference)
    return Populous(space.mask(chosen, rng=source), verdict, measure)
