"""Sources of randomness, and the two laws that differentially private tests draw from.

By default noise is cryptographic and exact: OpenDP's samplers, which add no floating-point
artefacts of their own. A seed or a NumPy Generator gives reproducible noise for teaching; it
protects no one, and each release made with it says so.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import secrets
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, IntArray, positive
from privgmm.errors import InvalidInput

__all__ = [
    "KEY_BYTES",
    "DiscreteGaussian",
    "NoiseSource",
    "RandomState",
    "Randomness",
    "SecureNoise",
    "SeededNoise",
    "TruncatedLaplace",
    "WholeArray",
    "fine_normal",
    "noise_source",
    "whole_parts",
]

WholeArray = npt.NDArray[np.object_]
"""Python integers of any size."""

KEY_BYTES = 32
"""Two keys of SipHash, 128 bits each: for places, and for places that are shared."""
_LONGEST_TABLE = 1e4
"""Seeded draws of a discrete Gaussian up to this sigma come from a table of its law."""
_WIDEST = 1e17
"""Up to this sigma draws fit into 64 bits: 2^63 is 92 of these deviations."""


@runtime_checkable
class Randomness(Protocol):
    """A source of what a mask draws: standard normals and uniform permutations."""

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        """Draw independent standard normal numbers."""
        ...

    def permutation(self, n: int) -> IntArray:
        """Draw a uniformly random order of 0..n-1."""
        ...


@runtime_checkable
class NoiseSource(Randomness, Protocol):
    """A source of everything that a release draws."""

    @property
    def seeded(self) -> bool:
        """Whether the draws can be repeated and therefore protect no one."""
        ...

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        """Draw independent standard normal numbers."""
        ...

    def laplace(self, scale: float, size: int) -> Array:
        """Draw independent Laplace numbers of the given scale."""
        ...

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        """Draw independent discrete Gaussians: ``P(z) ~ exp(-z^2 / 2 sigma^2)``."""
        ...

    def permutation(self, n: int) -> IntArray:
        """Draw a uniformly random order of 0..n-1."""
        ...

    def seed(self) -> int:
        """Draw a 64-bit seed for randomness that need not stay secret (blocks, learners)."""
        ...

    def key(self) -> bytes:
        """Draw 256 bits that must stay secret: two keys for the order of persons."""
        ...


RandomState: TypeAlias = "NoiseSource | np.random.Generator | int | None"

_LEVEL_SIGMA, _LEVEL_BITS = 2.0**55, 52  # deviation and width of a level; proof in `fine_normal`


def fine_normal(rng: Randomness, shape: tuple[int, ...], bits: int) -> tuple[WholeArray, int]:
    """Draw normal numbers finer than floating point holds: ``integers 2^-unit``, exactly.

    Parameters
    ----------
    rng : Randomness
        A `NoiseSource` draws discrete Gaussians. Any other source has only normal draws (a silent
        or scripted one, for example), which are used as they are.
    shape : tuple of int
    bits : int
        The draws are multiples of at most ``2^-bits``.

    Returns
    -------
    integers : array of object
    unit : int

    Notes
    -----
    The sum over levels j = 0, 1, ... of ``2^(-52 j) Z_j``, each Z_j a discrete Gaussian of
    deviation one on the multiples of ``2^-55``. Each level is 2^52 times narrower than the one
    before it, and still eight steps of its lattice wide. Add, in thought, one level more that is
    a continuous normal law. A discrete Gaussian on a lattice of step h, and a normal law of
    deviation ``r >= 8 h (1 - 2^-50)``, have as their sum the density of a normal law times
    ``1 + x``, |x| <= ``3 exp(-2 pi^2 (r/h)^2)`` < 1e-540 (Poisson's summation formula); so level
    by level, from the finest upwards, the whole is a normal law but for such factors, of variance
    ``1 + 4^-52 + ... >= 1``. What was added in thought exceeds ``12 2^-bits`` with chance 4e-33.
    """
    if not isinstance(rng, NoiseSource):
        mantissas, exponents = whole_parts(rng.normal(shape))
        unit = max(0, -int(exponents.min(initial=0)))
        return np.asarray(mantissas << (exponents + unit), dtype=np.object_), unit
    levels = max(1, math.ceil(bits / _LEVEL_BITS))
    total = np.zeros(shape, dtype=np.object_)
    for _ in range(levels):
        level = rng.discrete_gaussian(_LEVEL_SIGMA, math.prod(shape)).reshape(shape)
        total = (total << _LEVEL_BITS) + level.astype(np.object_)
    return total, _LEVEL_BITS * levels + 3


def whole_parts(values: npt.ArrayLike) -> tuple[WholeArray, WholeArray]:
    """Split every number exactly into integers m and e with ``value = m 2^e``."""
    fractions, exponents = np.frexp(np.asarray(values, dtype=np.float64))
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    return mantissas.astype(np.object_), (exponents - 53).astype(np.object_)


@functools.cache
def _opendp() -> Any:
    """Load OpenDP when noise is first drawn: planning does without it."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


@functools.cache
def _opendp_gaussian(kind: type, sigma: float) -> Any:
    dp = _opendp()
    # 64 bits: the default of 32 would cut wide noise off
    domain = dp.atom_domain(T="i64") if kind is int else dp.atom_domain(T=float, nan=False)
    return dp.m.make_gaussian(dp.vector_domain(domain), dp.l2_distance(T=float), scale=sigma)


@functools.cache
def _opendp_laplace(scale: float) -> Any:
    dp = _opendp()
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    return dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=scale)


@dataclasses.dataclass(frozen=True)
class SecureNoise:
    """Cryptographic noise from OpenDP's exact samplers and the system's entropy."""

    @property
    def seeded(self) -> bool:
        """Always false: these draws cannot be repeated."""
        return False

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        """Draw independent standard normal numbers."""
        size = math.prod(shape) if isinstance(shape, tuple) else shape
        draws: list[float] = _opendp_gaussian(float, 1.0)([0.0] * size) if size else []
        return np.asarray(draws, dtype=np.float64).reshape(shape)

    def laplace(self, scale: float, size: int) -> Array:
        """Draw independent Laplace numbers of the given scale."""
        return np.asarray(_opendp_laplace(float(scale))([0.0] * size), dtype=np.float64)

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        """Draw independent discrete Gaussians, in exact integer arithmetic."""
        return np.asarray(_opendp_gaussian(int, float(sigma))([0] * size), dtype=np.int64)

    def permutation(self, n: int) -> IntArray:
        """Draw a uniformly random order of 0..n-1."""
        order = list(range(n))
        secrets.SystemRandom().shuffle(order)
        return np.asarray(order, dtype=np.int64)

    def seed(self) -> int:
        """Draw 64 fresh bits from the system's entropy."""
        return secrets.randbits(64)

    def key(self) -> bytes:
        """Draw 256 fresh bits from the system's entropy."""
        return secrets.token_bytes(KEY_BYTES)


@dataclasses.dataclass(frozen=True)
class SeededNoise:
    """Reproducible noise from a NumPy Generator: for teaching and tests, not for privacy."""

    generator: np.random.Generator

    @property
    def seeded(self) -> bool:
        """Always true: anyone who knows the seed knows the noise."""
        return True

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        """Draw independent standard normal numbers."""
        return self.generator.standard_normal(shape)

    def laplace(self, scale: float, size: int) -> Array:
        """Draw independent Laplace numbers of the given scale."""
        return self.generator.laplace(scale=scale, size=size)

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        """Draw independent discrete Gaussians by inverting the cumulative law.

        For a sigma above 1e4 a table of the law would be too long, and they are rounded normal
        draws instead, whose law differs from it by less than 1e-9 in total variation. Seeded
        noise is for teaching and need not be exact.
        """
        if sigma > _LONGEST_TABLE:
            positive(sigma, "sigma", below=_WIDEST)
            return np.rint(sigma * self.generator.standard_normal(size)).astype(np.int64)
        law = _tabulated(float(sigma))
        return self.generator.choice(law.support, size=size, p=law.probabilities)

    def permutation(self, n: int) -> IntArray:
        """Draw a uniformly random order of 0..n-1."""
        return self.generator.permutation(n).astype(np.int64)

    def seed(self) -> int:
        """Draw 64 bits from the generator."""
        return int(self.generator.integers(2**64, dtype=np.uint64))

    def key(self) -> bytes:
        """Draw 256 bits from the generator, which anyone who knows the seed can repeat."""
        return self.generator.bytes(KEY_BYTES)


def noise_source(rng: RandomState) -> NoiseSource:
    """Return secure noise for None, seeded noise for a seed or Generator, a source as it is."""
    if rng is None:
        return SecureNoise()
    if isinstance(rng, SecureNoise | SeededNoise):
        # the most frequent case; `isinstance` with a protocol is slow
        return rng
    if isinstance(rng, np.random.Generator):
        return SeededNoise(rng)
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool):
        if rng < 0:
            raise InvalidInput(f"rng must be a seed >= 0, got {rng}")
        return SeededNoise(np.random.default_rng(int(rng)))
    if isinstance(rng, NoiseSource):
        return rng
    raise InvalidInput(
        "rng must be None (cryptographic noise), a seed or a numpy Generator, got "
        f"{type(rng).__name__}"
    )


@dataclasses.dataclass(frozen=True)
class TruncatedLaplace:
    """TLap(Delta, epsilon, delta) of Definition C.5: Laplace noise cut off at +-A.

    Parameters
    ----------
    sensitivity, epsilon, delta : float
        Adding this noise to a statistic of that sensitivity is (epsilon, delta)-DP
        (Theorem C.6), and the noise never exceeds `bound`.

    Notes
    -----
    ``scale`` is lambda = Delta/epsilon, ``bound`` is A = lambda ln(1 + (e^epsilon - 1)/(2 delta)),
    ``height`` is B = 1 / (2 lambda (1 - exp(-A/lambda))).
    """

    sensitivity: float
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        positive(self.sensitivity, "sensitivity")
        positive(self.epsilon, "epsilon")
        positive(self.delta, "delta", below=1.0)

    @property
    def scale(self) -> float:
        """Lambda, the scale of the Laplace law before it is cut."""
        return self.sensitivity / self.epsilon

    @property
    def bound(self) -> float:
        """A: no draw is larger in size."""
        return self.scale * math.log1p(math.expm1(self.epsilon) / (2 * self.delta))

    @property
    def height(self) -> float:
        """B, the density at zero."""
        return 1 / (2 * self.scale * -math.expm1(-self.bound / self.scale))

    def pdf(self, x: npt.ArrayLike) -> Array:
        """Compute the density."""
        size = np.abs(np.asarray(x, dtype=np.float64))
        return np.where(size <= self.bound, self.height * np.exp(-size / self.scale), 0.0)

    def cdf(self, x: npt.ArrayLike) -> Array:
        """Compute the cumulative probability."""
        y = np.clip(np.asarray(x, dtype=np.float64), -self.bound, self.bound)
        # e^(-|y|/lambda) - e^(-A/lambda) without cancellation: exactly zero at the bound
        excess = self._edge * np.expm1((self.bound - np.abs(y)) / self.scale)
        tail = self.height * self.scale * excess
        return np.where(y < 0, tail, 1 - tail)

    @property
    def _edge(self) -> float:
        return math.exp(-self.bound / self.scale)

    def sample(self, size: int, *, rng: RandomState = None) -> Array:
        """Draw exactly: Laplace noise, drawn again while it falls outside [-A, A]."""
        source = noise_source(rng)
        kept = np.empty(0)
        while kept.size < size:
            draws = source.laplace(self.scale, size - kept.size)
            kept = np.concatenate([kept, draws[np.abs(draws) <= self.bound]])
        return kept


@dataclasses.dataclass(frozen=True)
class DiscreteGaussian:
    """The law on the integers with ``P(z)`` proportional to ``exp(-z^2 / (2 sigma^2))``.

    Added to an integer statistic of sensitivity 1 its Rényi divergence of order a is at most
    ``a / (2 sigma^2)``, as for the continuous law (Canonne, Kamath and Steinke, 2020).
    """

    sigma: float

    def __post_init__(self) -> None:
        positive(self.sigma, "sigma", below=1e9)

    @functools.cached_property
    def support(self) -> IntArray:
        """Integers that carry all but about 1e-300 of the mass."""
        reach = math.ceil(38 * self.sigma) + 2
        return np.arange(-reach, reach + 1, dtype=np.int64)

    @functools.cached_property
    def probabilities(self) -> Array:
        """``P(z)`` for each z of `support`."""
        mass = np.exp(-0.5 * (self.support / self.sigma) ** 2)
        return np.asarray(mass / mass.sum(), dtype=np.float64)

    @functools.cached_property
    def _survival(self) -> Array:
        # summed from the far tail, so that tiny probabilities keep their relative accuracy
        return np.asarray(np.cumsum(self.probabilities[::-1])[::-1], dtype=np.float64)

    def survival(self, z: int) -> float:
        """Compute ``P(Z >= z)``."""
        index = z - int(self.support[0])
        if index <= 0:
            return 1.0
        return float(self._survival[index]) if index < self.support.size else 0.0

    def upper_point(self, delta: float) -> int:
        """Find the smallest integer theta with ``P(Z >= theta) <= delta``."""
        positive(delta, "delta", below=1.0)
        return int(self.support[int(np.argmax(self._survival <= delta))])

    def sample(self, size: int, *, rng: RandomState = None) -> IntArray:
        """Draw exactly, from the given source of noise."""
        return noise_source(rng).discrete_gaussian(self.sigma, size)


@functools.lru_cache(maxsize=16)
def _tabulated(sigma: float) -> DiscreteGaussian:
    """Return the discrete Gaussian of this sigma, with its table made only once."""
    return DiscreteGaussian(sigma)
