"""Outputs of masks: the scale of their noise, their shuffle, and outputs that give rows away.

An output that one data set can have and its neighbour cannot would give the row away. So the
neighbour is asked for the same output: the noise that this takes is computed in fractions and
handed to the real mask.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.findings import Finding, within
from privgmm.mixture import Mixture
from privgmm.privacy.noise import SeededNoise
from privgmm.stages.agreement.lifted_space import Anchored, LiftedSpace
from privgmm.stages.agreement.public_grid import GRID_BITS, noise_bits
from privgmm.stages.agreement.stage import Agreement

__all__ = ["Levels", "impossible_outputs", "mask_scale", "needed_noise", "shuffled"]

_SIGMAS = 5.0
"""Standard errors that chance may cause; by convention: one check in two million fails by it."""
_RANGE_ERROR = 1.17
"""Relative standard error of the interquartile range of n normal draws, times sqrt n."""
_LEVEL_BITS = 52
"""Bits of each level of the fine noise, see `privacy.noise.fine_normal`."""


def _spread(values: Array) -> float:
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low)


def mask_scale(
    stage: Agreement, label: str, *, samples: int = 8_000, rng: np.random.Generator
) -> Finding:
    """Compare how widely masked means and covariances scatter with the formula written out.

    Interquartile ranges of 8,000 draws are known to within 2 %: a tenth less noise fails.
    """
    space, d = stage.space, stage.n_features
    got = space.mask(space.equal_components(samples, d), rng=SeededNoise(rng))
    _, means, variances = space.formula(samples, d, rng=rng)
    error = _RANGE_ERROR * math.sqrt(2 / samples)
    worst = max(
        abs(math.log(_spread(a) / _spread(b))) / error
        for a, b in ((got.means[:, 0], means), (got.covariances[:, 0, 0], variances))
    )
    return within(
        f"mask, {label}, k={stage.n_components}, d={d}: scale of the code",
        "error of interquartile ranges, in standard errors <= 5",
        worst,
        _SIGMAS,
        f"{samples} components masked by the real code",
    )


def shuffled(stage: Agreement, label: str, *, samples: int = 400) -> Finding:
    """Count how often two components come out in the order of the input: in half of all runs."""
    space, d = stage.space, stage.n_features
    source = SeededNoise(np.random.default_rng(0))
    item = space.equal_components(2, d)
    far = _apart(item)
    kept = sum(
        bool(np.diff(space.mask(far, rng=source).means[:, 0])[0] > 0) for _ in range(samples)
    )
    return within(
        f"mask, {label}: order of components",
        "distance from one half, in standard errors <= 5",
        abs(kept - samples / 2) / (math.sqrt(samples) / 2),
        _SIGMAS,
        f"{kept} of {samples} in the order of the input",
    )


def _apart(item: Mixture | Anchored) -> Mixture | Anchored:
    """Move the second component of a representative far to the right."""
    means = item.means.copy()
    means[1, 0] += 1e6
    if isinstance(item, Mixture):
        return Mixture.from_roots(item.weights, means, item.cholesky)
    return Anchored(item.weights, means, item.cholesky, item.roots)


# -------------------------------------------------------------------- outputs that give away


class Levels(SeededNoise):
    """Noise that returns given fine noise, level by level, in multiples of 2^-unit."""

    def __init__(self, noise: Sequence[Fraction], levels: int) -> None:
        super().__init__(np.random.default_rng(0))
        unit = _LEVEL_BITS * levels + 3
        whole = [round(x * 2**unit) for x in noise]
        digits = [
            [(z >> (_LEVEL_BITS * (levels - 1 - j))) if j == 0 else self._digit(z, levels, j)
             for z in whole]
            for j in range(levels)
        ]  # fmt: skip
        object.__setattr__(self, "_digits", iter(digits))
        object.__setattr__(self, "_plain", np.array([float(x) for x in noise]))

    _digits: Iterator[list[int]]
    _plain: Array

    @staticmethod
    def _digit(z: int, levels: int, j: int) -> int:
        return (z >> (_LEVEL_BITS * (levels - 1 - j))) & ((1 << _LEVEL_BITS) - 1)

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:  # noqa: ARG002 - the noise is given
        """Return the next level."""
        return np.asarray(np.clip(next(self._digits), -(2**62), 2**62), dtype=np.int64)

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        """Return the given noise, rounded to floating point."""
        return np.asarray(self._plain.reshape(shape))

    def permutation(self, n: int) -> IntArray:
        """Return the order as it is."""
        return np.arange(n, dtype=np.int64)


def needed_noise(place: float, size: float, item: Anchored, eta: float) -> list[Fraction]:
    """Compute the noise (4,) that gives a lifted component in one column this mean and width."""
    mean, width = Fraction(place), Fraction(size)
    low, centre = (Fraction(float(x)) for x in (item.cholesky[0, 0, 0], item.means[0, 0]))
    (r00, r01), (_, r11) = ([Fraction(float(x)) for x in row] for row in item.roots[0])
    # [[1, 0], [mean, width]] = root M for a lower M: the constant comes first, weights stay
    root = [[r11, Fraction(0)], [centre * r11 + low * r01, low * r00]]
    M = [[1 / root[0][0], Fraction(0)], [Fraction(0), width / root[1][1]]]
    M[1][0] = (mean - root[1][0] * M[0][0]) / root[1][1]
    e = Fraction(eta)
    return [(M[0][0] - 1) / e, M[0][1] / e, M[1][0] / e, (M[1][1] - 1) / e]


def impossible_outputs(
    space: LiftedSpace, label: str = "lifted", *, outputs: int = 60, rng: np.random.Generator
) -> Finding:
    """Count outputs that a neighbour could not give, or that lie off the public grid."""
    one = Anchored(np.ones(1), np.array([[3.0]]), np.array([[[1.0]]]), np.eye(2)[None])
    two = Anchored(
        np.ones(1), np.array([[3.1]]), np.array([[[1.4]]]), np.array([[[1.1, 0.07], [0.0, 0.9]]])
    )
    levels = math.ceil(noise_bits(space.eta, space.eta, 2, space.reach) / _LEVEL_BITS)
    faults = 0
    for _ in range(outputs):
        shown = space.mask(one, rng=SeededNoise(rng))
        width, mean = float(shown.cholesky[0, 0, 0]), float(shown.means[0, 0])
        power = Fraction(2) ** (math.frexp(width)[1] - 1)
        cells = (Fraction(x) / power * 2**GRID_BITS for x in (width, mean))
        off = any(cell.denominator != 1 for cell in cells)
        again = space.mask(two, rng=Levels(needed_noise(mean, width, two, space.eta), levels))
        same = np.array_equal(again.means, shown.means) and np.array_equal(
            again.cholesky, shown.cholesky
        )
        faults += off or not same
    return within(
        f"mask, {label}: outputs that give rows away",
        "outputs that the neighbour cannot give <= 0",
        faults,
        0,
        f"{outputs} outputs; the noise that each takes computed in fractions",
    )
