"""Algorithm 1, the private populous estimator, for any semimetric space."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from privgmm.arrays import Array, IntArray, positive
from privgmm.errors import InvalidInput
from privgmm.privacy.noise import RandomState, TruncatedLaplace, noise_source
from privgmm.stages.agreement import lemmas
from privgmm.stages.agreement.space import Space
from privgmm.stages.agreement.votes import PrivateTest, Verdict, friend_counts
from privgmm.stages.form import Form
from privgmm.stages.stage import Bottom

__all__ = ["Bottom", "Populous", "PopulousTest", "private_populous_estimator", "settled_distances"]

Item = TypeVar("Item")
Items = TypeVar("Items")

_PASS_SHARE = 0.8
_MAJORITY = 0.6
_SETTLE = 1e-3


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
    """

    n_blocks: int
    radius: float
    epsilon: float
    delta: float

    kind: ClassVar[str] = "populous"

    def __post_init__(self) -> None:
        positive(self.radius, "radius")
        if self.n_blocks < 5:
            raise InvalidInput(f"n_blocks must be at least 5 (Theorem 2.3), got {self.n_blocks}")

    @property
    def noise(self) -> TruncatedLaplace:
        """Line 5: TLap(2/t, epsilon, delta)."""
        return TruncatedLaplace(2 / self.n_blocks, self.epsilon, self.delta)

    @property
    def threshold(self) -> float:
        """Line 7: 0.8 plus the largest value the noise can take."""
        return _PASS_SHARE + self.noise.bound

    def examine(self, distances: Array, *, rng: RandomState) -> Verdict:
        """Lines 3 to 8: votes, their mean Q, noise, threshold, first populous block."""
        t = self.n_blocks
        counts = friend_counts(distances, self.radius)
        q = counts / t
        statistic = int(counts.sum()) / t**2
        noisy = statistic + float(self.noise.sample(1, rng=rng)[0])
        populous = q > _MAJORITY
        reference = int(np.argmax(populous)) if populous.any() else -1
        return Verdict(
            # Q >= 0.8 whenever the noisy value passes, and then some q_i > 0.6 exists
            passed=noisy >= self.threshold and reference >= 0,
            counts=counts,
            weights=np.asarray(np.arange(t) == reference, dtype=np.float64),
            reference=reference,
            statistic=statistic,
            noisy_statistic=noisy,
            threshold=self.threshold,
        )

    def sentences(self) -> list[str]:
        """What the test asks for, in plain words."""
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
        """Read the test back, checked as to form."""
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
        """The chance of passing at given friend counts, over the noise."""
        return float(1 - self.noise.cdf(self.threshold - int(counts.sum()) / self.n_blocks**2))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {
            "kind": self.kind,
            "bound": self.noise.bound,
            "threshold": self.threshold,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "m": int(np.floor(_MAJORITY * self.n_blocks)) + 1,
            "M": None,
            "G": None,
        }


@dataclasses.dataclass(frozen=True, eq=False)
class Populous(Generic[Item]):
    """What Algorithm 1 returned, and why.

    Parameters
    ----------
    value : Item or Bottom
        The private output.
    verdict : Verdict
        NOT private, but for ``passed``.
    distances : array (t, t)
        NOT private.
    """

    value: Item | Bottom
    verdict: Verdict
    distances: Array


def settled_distances(items: Items, space: Space[Items, Item], radius: float) -> Array:
    """All distances, those near the radius computed from their two items alone.

    Sensitivity rests on this: whether two unchanged items are friends must not depend on a third
    one. A fast computation of all pairs may round differently as others change; within a
    thousandth of the radius, far wider than its error, every pair is computed by itself.
    """
    distances = space.distances(items)
    with np.errstate(invalid="ignore"):
        close = np.abs(distances - radius) <= _SETTLE * radius
    first, second = (index.astype(np.int64) for index in np.nonzero(np.triu(close, 1)))
    if first.size:
        distances = distances.copy()
        values = space.between(items, first, second)
        distances[first, second] = distances[second, first] = values
    return distances


def private_populous_estimator(
    items: Items, space: Space[Items, Item], test: PrivateTest, rng: RandomState = None
) -> Populous[Item]:
    """Algorithm 1 from line 3 on: vote, test, represent, mask.

    Parameters
    ----------
    items : Items
        ``Y_1 .. Y_t``, one per block, in whatever container `space` understands.
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
    if not verdict.passed:
        return Populous(Bottom(), verdict, distances)
    chosen = space.representative(items, verdict.weights, verdict.reference)
    return Populous(space.mask(chosen, rng=source), verdict, distances)
