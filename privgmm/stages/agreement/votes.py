"""Do the blocks agree? Friend counts, and the exact test on them.

Two fits are friends when both exist and lie within a radius. The statistic is an integer of
sensitivity one, the noise an integer, and the accounting loses nothing to a split delta.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, Protocol

import numpy as np

from privgmm.arrays import Array, IntArray, positive
from privgmm.errors import InvalidInput
from privgmm.privacy.composition import Price
from privgmm.privacy.curves import RenyiCurve, gaussian_curve
from privgmm.privacy.noise import DiscreteGaussian, RandomState, noise_source
from privgmm.stages.form import Form

__all__ = [
    "AgreementTest",
    "PrivateTest",
    "Verdict",
    "core_sensitivity",
    "friend_counts",
    "h_index",
    "required_separation",
]

_WIDEST_NOISE = 1e5
"""Of a test read from a file: wider noise than any number of blocks that fits in memory needs."""


@dataclasses.dataclass(frozen=True, eq=False)
class Verdict:
    """What a test saw and said. NOT private, except for `passed`.

    Parameters
    ----------
    passed : bool
        Whether a release may follow: the one private output of the test.
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


class PrivateTest(Protocol):
    """A private test on a distance matrix."""

    @property
    def n_blocks(self) -> int:
        """How many blocks vote."""
        ...

    @property
    def radius(self) -> float:
        """How near two fits must be to be friends."""
        ...

    def examine(self, distances: Array, *, rng: RandomState) -> Verdict:
        """Draw the noise and decide."""
        ...

    def pass_probability(self, counts: IntArray) -> float:
        """The chance of passing at given friend counts, over the noise."""
        ...

    def sentences(self) -> list[str]:
        """What the test asks for, in plain words."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        ...


def friend_counts(distances: Array, radius: float) -> IntArray:
    """``N_i``: how many fits lie within `radius` of fit i, itself included.

    A fit that does not exist has infinite distances, diagonal included, and so no friends.
    """
    return np.asarray(np.count_nonzero(distances <= radius, axis=1), dtype=np.int64)


def h_index(counts: IntArray, full: int, core: int) -> int:
    """``max{ h >= 0 : #{i : N_i >= M + h} >= G + h }``, or -1 if there is none.

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

    def price(self, mask: RenyiCurve) -> Price:
        """What the test costs together with the mask that follows it."""
        return Price((gaussian_curve(self.sigma) + mask,), self.shortfall, gate=True)

    @property
    def ramp(self) -> int:
        """L = M - m + 1: over how many counts a block's weight climbs from 0 to 1."""
        return self.full - self.member + 1

    def ramp_weights(self, counts: IntArray) -> Array:
        """``v_i = clip((N_i - m + 1) / L, 0, 1)``: positive iff N_i >= m, one iff N_i >= M."""
        return np.clip((counts - self.member + 1) / self.ramp, 0.0, 1.0)

    def examine(self, distances: Array, *, rng: RandomState) -> Verdict:
        """Count friends, draw the noise, decide."""
        counts = friend_counts(distances, self.radius)
        h = h_index(counts, self.full, self.core)
        z = int(noise_source(rng).discrete_gaussian(self.sigma, 1)[0])
        qualified = counts >= self.full
        return Verdict(
            passed=h >= 0 and h + z >= self.threshold,
            counts=counts,
            weights=self.ramp_weights(counts),
            reference=int(np.argmax(qualified)) if qualified.any() else -1,
            statistic=h,
            noisy_statistic=h + z,
            threshold=self.threshold,
        )

    def pass_probability(self, counts: IntArray) -> float:
        """The chance of passing at given friend counts, over the noise."""
        h = h_index(counts, self.full, self.core)
        return 0.0 if h < 0 else DiscreteGaussian(self.sigma).survival(self.threshold - h)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {
            "kind": self.kind,
            "sigma": self.sigma,
            "threshold": self.threshold,
            "m": self.member,
            "M": self.full,
            "G": self.core,
        }

    def sentences(self) -> list[str]:
        """What the test asks for, in plain words."""
        return [
            f"At least {self.core} blocks must have {self.full} friends each, with a margin that, "
            f"plus noise of scale {self.sigma:.3g}, reaches {self.threshold}."
        ]

    @classmethod
    def from_form(cls, form: Form, n_blocks: int, radius: float) -> AgreementTest:
        """Read the test back, checked as to form."""
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
    """How far the weighted mean of the core can move, in units of 2 tau.

    ``(1 + (t - G)/L) / G``: of the normalised weights one block may change wholly, and each of
    at most t - G others by 1/L, out of a total of at least G.
    """
    return (1 + (test.n_blocks - test.core) / test.ramp) / test.core


def required_separation(test: AgreementTest, n_components: int) -> float:
    """The factor c: two fits are friends only if components that do not match are c tau apart.

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
      label agrees with the matching within 2 tau all the same.

    Either way the labels in D and D' agree up to one common order, which the shuffle hides, and
    equally labelled components of all members of both cores are within 2 tau.
    """
    if n_components == 1:
        return 0.0
    shared = 2 * test.member + test.full >= 2 * test.n_blocks + 2
    return 3.0 if shared else 5.0
