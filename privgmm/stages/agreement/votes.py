"""Test whether blocks agree: friend counts, and the exact test on them.

Two fits are friends when both exist and lie within a radius. The statistic is an integer of
sensitivity one, the noise an integer, and the accounting loses nothing to a split delta.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np

from privgmm.arrays import Array, IntArray, positive
from privgmm.errors import InvalidInput
from privgmm.privacy.composition import Price
from privgmm.privacy.curves import RenyiCurve, gaussian_curve
from privgmm.privacy.gaussian_pairs import Closeness
from privgmm.privacy.noise import DiscreteGaussian, RandomState, noise_source
from privgmm.stages.agreement.reading import (
    NoisyLaw,
    Number,
    VoteBand,
    VoteLine,
    VoteMark,
    VotesReading,
    VoteWords,
)
from privgmm.stages.form import Form

__all__ = [
    "AgreementTest",
    "NoiseClaim",
    "PrivateTest",
    "Standing",
    "Verdict",
    "core_sensitivity",
    "friend_counts",
    "h_index",
    "required_separation",
]

_EPSILONS, _LEAST_DELTA = (0.0, 0.1, 0.3, 1.0, 2.0, 4.0), 1e-15
"""Choice: epsilons of the claim about the noise; a delta below 1e-15 is too small to check."""

_CERTAIN, _MOST_COUNTS = 9.0, 10_000
"""This many scales of its noise above the threshold a test fails with chance 1e-19. Beyond this
many values, chances to pass are not listed one by one."""

_WIDEST_NOISE = 1e5
"""Largest scale read from a file; blocks that fit in memory need less noise."""


@dataclasses.dataclass(frozen=True, eq=False)
class Verdict:
    """What a test saw and said. CONFIDENTIAL, except for `passed`.

    Parameters
    ----------
    passed : bool
        Whether a release may follow: the one output of the test that is differentially private.
    counts : array of int (t,)
        Friends of each block, itself included.
    weights : array (t,)
        How much each block counts in the representative; zero outside the agreeing core.
    reference : int
        The first block that qualifies, -1 if none does.
    statistic, noisy_statistic, threshold : float
        The test passed if the noisy statistic reached the threshold (and, for the agreement
        test, if there is a core at all).
    """

    passed: bool
    counts: IntArray
    weights: Array
    reference: int
    statistic: float
    noisy_statistic: float
    threshold: float


@dataclasses.dataclass(frozen=True, eq=False)
class Standing:
    """How the votes stand before any noise is drawn. CONFIDENTIAL.

    Parameters
    ----------
    statistic : float
        What noise will be added to.
    weights : array (t,)
        How much each block counts in the representative; zero outside the agreeing core.
    reference : int
        The first block that qualifies, -1 if none does.
    may_pass : bool
        Whether there is noise with which the test passes.
    """

    statistic: float
    weights: Array
    reference: int
    may_pass: bool


@dataclasses.dataclass(frozen=True)
class NoiseClaim:
    """A claim about a test's noise: it hides how far one block moves the statistic.

    Parameters
    ----------
    name : str
        What the noise is called in a report.
    prices : tuple of Closeness
        How close the noise is claimed to be to itself moved by the test's sensitivity.
    rounding : float
        By how much, relatively, a delta computed for it may exceed its price: positive where the
        price is attained exactly.
    """

    name: str
    prices: tuple[Closeness, ...]
    rounding: float = 0.0


class PrivateTest(Protocol):
    """A differentially private test on a distance matrix."""

    words: ClassVar[VoteWords]
    """The words in which pages and reports describe the test."""
    counted_by: ClassVar[tuple[Callable[..., Any], ...]]
    """The functions that compute its statistic from distances, in the order they run."""

    @property
    def n_blocks(self) -> int:
        """Number of blocks that vote."""
        ...

    @property
    def radius(self) -> float:
        """Distance up to which two fits are friends."""
        ...

    def examine(self, distances: Array, *, rng: RandomState) -> Verdict:
        """Draw the noise and decide."""
        ...

    def pass_probability(self, counts: IntArray) -> float:
        """Compute the chance, over the noise, of passing at given friend counts."""
        ...

    def read_votes(self, counts: IntArray) -> VotesReading:
        """Describe friend counts for a picture. CONFIDENTIAL."""
        ...

    def noisy_law(self, statistic: float) -> NoisyLaw:
        """Describe the law of the noisy statistic for a picture. CONFIDENTIAL."""
        ...

    # ------------------------------------------------------------- what the audit asks for

    @property
    def sensitivity(self) -> float:
        """How far replacing one block can move the statistic."""
        ...

    @property
    def flank(self) -> int:
        """Number of blocks that can lie on each of two sides, apart, if the middle is to pass."""
        ...

    def standing(self, counts: IntArray) -> Standing:
        """Judge friend counts, before any noise. CONFIDENTIAL."""
        ...

    def least_counts(self) -> IntArray:
        """Return the least friend counts (t,) that can pass."""
        ...

    def noise_claim(self) -> NoiseClaim:
        """Claim how well the noise hides what one block moves."""
        ...

    def noise_delta(self, epsilon: float, shift: float) -> float:
        """Compute the exact delta at epsilon between the noise and the noise moved by `shift`."""
        ...

    def sentences(self) -> list[str]:
        """Say in plain words what the test asks for."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        ...


def friend_counts(distances: Array, radius: float) -> IntArray:
    """Count ``N_i``, the fits within `radius` of fit i, itself included.

    A fit that does not exist has infinite distances, diagonal included, and so no friends.
    """
    return np.asarray(np.count_nonzero(distances <= radius, axis=1), dtype=np.int64)


def h_index(counts: IntArray, full: int, core: int) -> int:
    """Compute ``max{ h >= 0 : #{i : N_i >= M + h} >= G + h }``, or -1 if there is none.

    Notes
    -----
    ``full`` is M, ``core`` is G. Replacing one block changes every other count by at most one
    and removes at most one member, so the value changes by at most one: if h is feasible, then
    after the change at least G + h - 1 blocks have N_i >= M + h - 1.
    """
    ranked = np.sort(counts)[::-1]
    # the (G + h)-th largest count must reach M + h
    h = np.arange(ranked.size - core + 1)
    feasible = ranked[core - 1 :] >= full + h
    return int(h[feasible].max()) if feasible.any() else -1


@dataclasses.dataclass(frozen=True)
class AgreementTest:
    """Release if ``h >= 0`` and ``h + Z >= threshold``, Z a discrete Gaussian.

    Parameters
    ----------
    n_blocks : int
        t.
    radius : float
        tau: two fits within it are friends.
    sigma : float
        Scale of the discrete Gaussian.
    threshold : int
        theta, with ``P(Z >= theta) <= delta`` for the promised delta.
    member : int
        m: a block with at least m friends may enter the mean; at least ceil(t/2) + 1, so that
        any two such blocks, even of neighbouring data sets, share two friends, one of them in
        an unchanged block.
    full : int
        M >= m: a block with at least M friends counts fully.
    core : int
        G >= 1: at least this many full blocks in any data set that may pass.

    Notes
    -----
    Take neighbours D and D'. If one has h = -1 it always refuses, and the other has h <= 0 and
    releases with probability at most ``P(Z >= theta) <= delta``. Otherwise both have h >= 0 and
    the loss is that of the noisy count plus that of the mask. The cases exclude each other, so
    the total is the conversion of the Rényi sum at the same delta.
    """

    n_blocks: int
    radius: float
    sigma: float
    threshold: int
    member: int
    full: int
    core: int

    kind: ClassVar[str] = "agreement"
    counted_by: ClassVar[tuple[Callable[..., Any], ...]] = (friend_counts, h_index)
    words: ClassVar[VoteWords] = VoteWords(
        letter="h",
        votes="A block's votes are its friends, itself included. The test asks for a **core**: G "
        "blocks with M friends each, and then for room to spare. Start at (G, M) and climb one "
        "friend per block until the staircase of votes is met: the number of steps is **h**. "
        "Changing one block changes every other count by at most one, and so h by at most one.",
        statistic="The mean Q is replaced by h, a whole number that one row moves by at most 1, "
        "which needs less noise than Q.",
        change="one row moves it by at most 1",
        picked="At least G blocks have M friends each; the first of them is picked.",
    )

    def __post_init__(self) -> None:
        positive(self.radius, "radius")
        positive(self.sigma, "sigma")
        least = math.ceil(self.n_blocks / 2) + 1
        if not least <= self.member <= self.full <= self.n_blocks:
            raise InvalidInput(
                f"member and full must satisfy {least} <= member <= full <= n_blocks = "
                f"{self.n_blocks}, got {self.member} and {self.full}"
            )
        if not 1 <= self.core <= self.n_blocks:
            raise InvalidInput(f"core must lie in 1..{self.n_blocks}, got {self.core}")

    @property
    def shortfall(self) -> float:
        """``P(Z >= theta)``: how often it may pass where a neighbour never does."""
        return DiscreteGaussian(self.sigma).survival(self.threshold)

    @property
    def chances(self) -> tuple[float, ...]:
        """Chances to pass at h = 0, 1, ..., until it is certain or there are no more blocks.

        Empty where these are too many to look at one by one.
        """
        last = min(self.n_blocks, self.threshold + math.ceil(_CERTAIN * self.sigma))
        if last > _MOST_COUNTS:
            return ()
        law = DiscreteGaussian(self.sigma)
        return tuple(law.survival(self.threshold - h) for h in range(max(last, 0) + 1))

    def price(self, mask: RenyiCurve, *, rounding: float = 0.0, variation: float = 1.0) -> Price:
        """Price the test together with the mask that follows it, and its rounding.

        `variation` bounds the total variation that the mask leaves.
        """
        return Price(
            (gaussian_curve(self.sigma, sensitivity=self.sensitivity), mask),
            self.shortfall,
            gate=True,
            rounding=rounding,
            chances=self.chances,
            variation=variation,
        )

    @property
    def ramp(self) -> int:
        """L = M - m + 1: the counts over which a block's weight grows from 0 to 1."""
        return self.full - self.member + 1

    def ramp_weights(self, counts: IntArray) -> Array:
        """Weigh blocks by ``clip((N_i - m + 1) / L, 0, 1)``: 0 iff N_i < m, 1 iff N_i >= M."""
        return np.clip((counts - self.member + 1) / self.ramp, 0.0, 1.0)

    def examine(self, distances: Array, *, rng: RandomState) -> Verdict:
        """Count friends, draw the noise, decide."""
        counts = friend_counts(distances, self.radius)
        seen = self.standing(counts)
        noisy = seen.statistic + int(noise_source(rng).discrete_gaussian(self.sigma, 1)[0])
        return Verdict(
            passed=seen.may_pass and noisy >= self.threshold,
            counts=counts,
            weights=seen.weights,
            reference=seen.reference,
            statistic=seen.statistic,
            noisy_statistic=noisy,
            threshold=self.threshold,
        )

    def standing(self, counts: IntArray) -> Standing:
        """Judge friend counts: the h-index, and the weight of each block in the mean."""
        h = h_index(counts, self.full, self.core)
        qualified = counts >= self.full
        return Standing(
            statistic=h,
            weights=self.ramp_weights(counts),
            reference=int(np.argmax(qualified)) if qualified.any() else -1,
            may_pass=h >= 0,
        )

    def pass_probability(self, counts: IntArray) -> float:
        """Compute the chance, over the noise, of passing at given friend counts."""
        h = h_index(counts, self.full, self.core)
        return 0.0 if h < 0 else DiscreteGaussian(self.sigma).survival(self.threshold - h)

    def read_votes(self, counts: IntArray) -> VotesReading:
        """Describe for a picture which blocks may enter the core, and the climb from (G, M)."""
        h = h_index(counts, self.full, self.core)
        reach = max(h, 0) + max(2, round(0.06 * self.n_blocks))
        climb = VoteLine(
            "from (G, M), one friend per block",
            (self.core, self.full),
            (self.core + reach, self.full + reach),
            "guide",
        )
        met = VoteMark("they meet: h", f"h = {h}", (self.core + h, self.full + h))
        return VotesReading(
            bands=(
                VoteBand(self.full, "M", f"at least M = {self.full} friends"),
                VoteBand(self.member, "m", f"at least m = {self.member}"),
                VoteBand(0, "", "fewer: left out"),
            ),
            lines=(climb,),
            mark=met if h >= 0 else None,
            numbers=(
                Number("h", f"{h}", "Blocks and friends to spare; -1 if there is no core"),
                Number("M friends", f"{self.full}", "A block with this many friends counts fully"),
                Number("G blocks", f"{self.core}", "This many blocks must have M friends each"),
                Number("m friends", f"{self.member}", "With fewer, a block does not count at all"),
            ),
            words=f"Votes of {counts.size:,} blocks in falling order, median "
            f"{int(np.median(counts))}; {int((counts >= self.full).sum())} reach M = {self.full}. "
            f"h is {h}.",
        )

    def noisy_law(self, statistic: float) -> NoisyLaw:
        """Describe for a picture the discrete Gaussian around h; all of it refuses if h < 0."""
        law = DiscreteGaussian(self.sigma)
        seen = np.abs(law.support) <= max(4.5 * self.sigma, self.threshold - statistic + 1)
        values = np.asarray(statistic + law.support[seen], dtype=np.float64)
        return NoisyLaw(
            values=values,
            heights=law.probabilities[seen],
            passes=(values >= self.threshold) & (statistic >= 0),
            whole=True,
            words=f"Z is a discrete Gaussian of scale {self.sigma:.3g}, and h must exist.",
        )

    @property
    def sensitivity(self) -> float:
        """One: see `h_index`."""
        return 1.0

    @property
    def flank(self) -> int:
        """``t - M``: as many friends as a full block may lack."""
        return self.n_blocks - self.full

    def least_counts(self) -> IntArray:
        """Return counts with h = 0: G blocks have M friends each, the others only themselves."""
        return np.where(np.arange(self.n_blocks) < self.core, self.full, 1).astype(np.int64)

    def noise_claim(self) -> NoiseClaim:
        """Claim that noise on the count hides a move by one as well as a Gaussian of that scale."""
        curve = gaussian_curve(self.sigma)
        prices = tuple(Closeness(epsilon, curve.delta(epsilon)) for epsilon in _EPSILONS)
        return NoiseClaim(
            f"noisy count, sigma={self.sigma:.3g}",
            tuple(price for price in prices if price.delta > _LEAST_DELTA),
        )

    def noise_delta(self, epsilon: float, shift: float) -> float:
        """Sum ``(P(z) - e^epsilon P(z - shift))+`` over the integers, for a whole shift >= 1."""
        law, step = DiscreteGaussian(self.sigma).probabilities, round(shift)
        return float(np.maximum(law[step:] - math.exp(epsilon) * law[:-step], 0.0).sum())

    def worst_losses(self, n: int, *, rng: np.random.Generator) -> Array:
        """Draw privacy losses (n,) of the noisy count where it moves by one."""
        law = DiscreteGaussian(self.sigma)
        z = rng.choice(law.support, size=n, p=law.probabilities)
        return np.asarray((2 * z + 1) / (2 * law.sigma**2), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        return {
            "kind": self.kind,
            "sigma": self.sigma,
            "threshold": self.threshold,
            "m": self.member,
            "M": self.full,
            "G": self.core,
        }

    def sentences(self) -> list[str]:
        """Say in plain words what the test asks for."""
        return [
            f"At least {self.core} blocks must have {self.full} friends each, with a margin that, "
            f"plus noise of scale {self.sigma:.3g}, reaches {self.threshold}."
        ]

    @classmethod
    def from_form(cls, form: Form, n_blocks: int, radius: float) -> AgreementTest:
        """Read the test back from a plan, and check its form."""
        if form.of("kind") != cls.kind:
            raise InvalidInput(f"{form.name} must be of kind {cls.kind!r}")
        sigma = form.number("sigma")
        if sigma > _WIDEST_NOISE:
            raise InvalidInput(
                f"{form.name}.sigma must be at most {_WIDEST_NOISE:g}, got {sigma!r}"
            )
        sizes = (form.whole(key, 1) for key in ("m", "M", "G"))
        return cls(n_blocks, radius, sigma, form.whole("threshold", -(2**53)), *sizes)


def core_sensitivity(test: AgreementTest) -> float:
    """Bound how far the weighted mean of the core can move, in units of 2 tau.

    ``(1 + (t - G)/L) / G``: of the normalised weights one block may change completely, and each of
    at most t - G others by 1/L, out of a total of at least G.
    """
    return (1 + (test.n_blocks - test.core) / test.ramp) / test.core


def required_separation(test: AgreementTest, n_components: int) -> float:
    """Return c: fits are friends only if components that do not match are c tau apart.

    Notes
    -----
    Let i and j be members of the cores of D or D', f an unchanged friend of both. Component a
    of i matches a of f within tau, and that matches a of j within tau, so i and j match within
    2 tau. For b other than a, ``d(i_a, j_b) >= d(i_a, f_b) - d(f_b, j_b) > (c - 1) tau``.

    - If ``2 m + M >= 2 t + 2``, then i, j and a reference share one unchanged friend f, and so
      do i and the references of D and D'. With c = 3 the matching within 2 tau is unique and
      runs through f: aligning to the reference labels all members of both cores alike.
    - Otherwise i and j may be linked to the reference by different friends, which bounds
      equally labelled components by 4 tau only; with c = 5 every other pair is farther, so the
      label still agrees with the matching within 2 tau.

    Either way the labels in D and D' agree up to one common order, which the shuffle hides, and
    equally labelled components of all members of both cores are within 2 tau.
    """
    if n_components == 1:
        return 0.0
    shared = 2 * test.member + test.full >= 2 * test.n_blocks + 2
    return 3.0 if shared else 5.0
