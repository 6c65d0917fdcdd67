"""Neighbouring sets of block fits that come close to breaking a guarantee.

Two sets differ in one fit, as the fits of two neighbouring data sets do. Constructed are fits at
exactly the radius, clusters two radii apart, a fit that bridges them, components that can be
confused, and data far from the origin or almost flat. `cores` measures what they do.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from privgmm.arrays import Array, BoolArray
from privgmm.errors import InvalidInput
from privgmm.mixture import MixtureBatch, cholesky_of_root
from privgmm.stages.agreement.stage import Agreement

__all__ = [
    "Fits",
    "Neighbours",
    "bridge",
    "edge",
    "extremes",
    "fan",
    "flattened",
    "moved_far",
    "random_fits",
    "swapped",
    "with_change",
]


@dataclasses.dataclass(frozen=True, eq=False)
class Fits:
    """Arrays of n fits: weights (n, k), means (n, k, d), cholesky (n, k, d, d), ok (n,)."""

    weights: Array
    means: Array
    cholesky: Array
    ok: BoolArray

    @classmethod
    def equal(cls, n: int, k: int, d: int, *, apart: float = 30.0) -> Fits:
        """Repeat one mixture n times: equal weights, unit covariances, means `apart` on a line."""
        means = np.zeros((n, k, d))
        means[:, :, 0] = apart * np.arange(k)
        factor = np.broadcast_to(np.eye(d), (n, k, d, d)).copy()
        return cls(np.full((n, k), 1 / k), means, factor, np.ones(n, dtype=bool))

    def scaled(self, steps: Array) -> Fits:
        """Move every component of fit i by the lifted distance ``|steps[i]|`` along one line.

        Scaling a covariance by ``exp(x / sqrt d)`` is a geodesic, and a flat one: distances
        along it are plain differences.
        """
        factor = np.exp(steps / (2 * math.sqrt(self.means.shape[2])))
        return dataclasses.replace(self, cholesky=self.cholesky * factor[:, None, None, None])

    def jittered(self, scale: Array, rng: np.random.Generator) -> Fits:
        """Move every fit at random by about ``scale[i]`` (n,), in the units of its components."""
        n, k, d = self.means.shape
        size = scale[:, None]
        weights = self.weights * np.exp(size * rng.standard_normal((n, k)))
        shift = size[..., None] * rng.standard_normal((n, k, d))
        turn = size[..., None, None] * rng.standard_normal((n, k, d, d))
        return Fits(
            weights / weights.sum(axis=1, keepdims=True),
            self.means + np.einsum("nkij,nkj->nki", self.cholesky, shift),
            cholesky_of_root(self.cholesky @ (np.eye(d) + turn)),
            self.ok,
        )

    def batch(self) -> MixtureBatch:
        """Return them in the form that stages take."""
        return MixtureBatch.from_cholesky(self.weights, self.means, self.cholesky, self.ok)

    def with_fit(self, index: int, other: Fits, which: int) -> Fits:
        """Replace fit `index` by fit `which` of `other`."""
        parts = []
        for mine, theirs in zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True):
            new = mine.copy()
            new[index] = theirs[which]
            parts.append(new)
        return Fits(*parts)


@dataclasses.dataclass(frozen=True, eq=False)
class Neighbours:
    """Two sets of fits that differ in the fit `changed` at most."""

    first: Fits
    second: Fits
    changed: int
    name: str

    def __post_init__(self) -> None:
        for one, two in zip(
            dataclasses.astuple(self.first), dataclasses.astuple(self.second), strict=True
        ):
            differ = np.flatnonzero(
                [not np.array_equal(a, b, equal_nan=True) for a, b in zip(one, two, strict=True)]
            )
            if set(differ.tolist()) - {self.changed}:
                raise InvalidInput(
                    f"{self.name}: first and second must differ in fit {self.changed} at most, but "
                    f"fits {differ.tolist()} differ"
                )

    def mapped(self, change: Callable[[Fits], Fits], name: str) -> Neighbours:
        """Change both sets alike."""
        return Neighbours(
            change(self.first), change(self.second), self.changed, f"{self.name}, {name}"
        )


def with_change(fits: Fits, other: Fits, name: str, changed: int = 0) -> Neighbours:
    """Pair the set `fits` with the same set whose fit `changed` is ``other[0]``."""
    return Neighbours(fits, fits.with_fit(changed, other, 0), changed, name)


def _start(stage: Agreement, n: int) -> Fits:
    return Fits.equal(n, stage.n_components, stage.n_features)


def _reach(stage: Agreement) -> float:
    """Compute how far `Fits.scaled` may go and stay just within tau."""
    # inside the radius by more than rounding of factors near one
    return stage.space.scaling(stage.tau * (1 - 1e-12) - 4e-15, stage.n_features)


def extremes(stage: Agreement, *, changed: int = 0) -> Neighbours:
    """Construct the largest move of the mean: every block that can lose weight loses it.

    A middle, and on either side, tau away and 2 tau from each other, as many fits as the test
    allows for (`PrivateTest.flank`). The changed fit goes from one side to the other and takes
    the weight with it. For the exact test the sides have ``t - M`` fits, each of which lacks one
    friend, and with m = M = G the bound is attained.
    """
    t = stage.n_blocks
    side = stage.test.flank
    middle = t - 1 - 2 * side
    if middle < 0:
        raise InvalidInput(f"sides of {side} of {t} blocks leave no middle")
    x = _reach(stage)
    steps = np.repeat([-x, 0.0, x], [side, middle, side])
    steps = np.insert(steps, changed, -x)
    other = _start(stage, 1).scaled(np.array([x]))
    return with_change(_start(stage, t).scaled(steps), other, "extremes", changed)


def bridge(stage: Agreement, *, share: float = 0.5) -> Neighbours:
    """Construct two clusters nearly 2 tau apart, and a fit between that befriends all or none."""
    t = stage.n_blocks
    x = _reach(stage)
    left = round(share * (t - 1))
    steps = np.concatenate([[0.0], np.full(left, -x), np.full(t - 1 - left, x)])
    other = _start(stage, 1).scaled(np.array([50 * stage.tau]))
    return with_change(_start(stage, t).scaled(steps), other, "bridge")


def random_fits(
    stage: Agreement,
    width: float,
    rng: np.random.Generator,
    *,
    kind: str = "near",
    gap: float | None = None,
) -> Neighbours:
    """Draw fits of spread ``width tau``; the changed one is near, far, failed or weightless.

    `gap` is the lifted distance between neighbouring components; wide by default.
    """
    t, k, d = stage.n_blocks, stage.n_components, stage.n_features
    apart = 30.0 if gap is None else _means_apart(gap)
    fits = Fits.equal(t, k, d, apart=apart).jittered(np.full(t, width * stage.tau), rng)
    other = Fits.equal(1, k, d, apart=apart).jittered(np.array([width * stage.tau]), rng)
    if kind == "far":
        other = dataclasses.replace(other, means=other.means + 1e3)
    elif kind == "failed":
        other = dataclasses.replace(other, ok=np.zeros(1, dtype=bool))
    elif kind == "weightless" and k > 1:
        weights = np.zeros((1, k))
        weights[0, 0] = 1.0
        other = dataclasses.replace(other, weights=weights)
    name = f"cloud, one {kind}" + ("" if gap is None else f", gap {gap / stage.tau:.3g} tau")
    return with_change(fits, other, name, int(rng.integers(t)))


def _means_apart(gap: float) -> float:
    """Convert a lifted distance of equal components to standard deviations of their means."""
    return 2 * math.sinh(gap / (2 * math.sqrt(2)))


def edge(
    stage: Agreement, distance: Callable[[Fits], float], rng: np.random.Generator
) -> list[Neighbours]:
    """Construct two clusters at the radius to the last bit, and a third fit that changes wildly.

    `distance` computes the distance of two fits. Whether the clusters are friends must not depend
    on the changed fit.
    """
    t, d = stage.n_blocks, stage.n_features
    base = _start(stage, 1)
    k = stage.n_components
    turn = np.tril(rng.standard_normal((k, d, d)))
    shift = rng.standard_normal((k, d))

    def at(s: float) -> Fits:
        factor = np.eye(d) + s * np.tril(turn, -1)
        factor[:, np.arange(d), np.arange(d)] = np.exp(s * np.diagonal(turn, axis1=-2, axis2=-1))
        return dataclasses.replace(base, means=base.means + s * shift, cholesky=factor[None])

    def two(s: float) -> Fits:
        return _start(stage, 2).with_fit(1, at(s), 0)

    low, high = 0.0, stage.tau
    while distance(two(high)) < stage.tau and high < 1e3:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if distance(two(middle)) <= stage.tau:
            low = middle
        else:
            high = middle
    fits = _start(stage, t)
    for i in range(t // 2, t):
        fits = fits.with_fit(i, at(low), 0)
    pairs = []
    for size in (0.1, 1.0, 3.0):
        wild = base.jittered(np.array([size]), rng)
        pairs.append(with_change(fits, wild, "edge", t - 1))
    return pairs


def fan(
    stage: Agreement, gap: float, turns: float, rng: np.random.Generator, *, to: float = 0.5
) -> Neighbours:
    """Construct pairs of components `gap` apart, turned like clock hands (k = 2, d >= 2).

    Turned by more than a right angle, a pair matches better with its labels exchanged. Without a
    rule on separation the labels then depend on which fit is the reference. The changed fit is
    the reference, and turns by `to` radians.
    """
    if stage.n_components != 2 or stage.n_features < 2:
        raise InvalidInput(
            "a fan needs two components in at least two dimensions, got "
            f"{stage.n_components} in {stage.n_features}"
        )
    t = stage.n_blocks
    length = _means_apart(gap)

    def turned(angles: Array) -> Fits:
        fits = Fits.equal(len(angles), 2, stage.n_features, apart=0.0)
        means = fits.means.copy()
        hand = length / 2 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        means[:, 0, :2], means[:, 1, :2] = hand, -hand
        return dataclasses.replace(fits, means=means)

    angles = turns * np.linspace(-1, 1, t - 1)
    angles = np.concatenate([[0.0], rng.permutation(angles)])
    return with_change(
        turned(angles), turned(np.array([to])), f"fan, gap {gap / stage.tau:.3g} tau"
    )


def swapped(pair: Neighbours, rng: np.random.Generator) -> Neighbours:
    """Shuffle the components of every fit, each in its own order."""
    n, k = pair.first.weights.shape
    orders = np.argsort(rng.random((n, k)), axis=1)

    def shuffle(fits: Fits) -> Fits:
        return Fits(
            np.take_along_axis(fits.weights, orders, axis=1),
            np.take_along_axis(fits.means, orders[:, :, None], axis=1),
            np.take_along_axis(fits.cholesky, orders[:, :, None, None], axis=1),
            fits.ok,
        )

    return pair.mapped(shuffle, "labels shuffled")


def moved_far(pair: Neighbours, offset: float) -> Neighbours:
    """Move all means by `offset` along every axis; they round there."""
    return pair.mapped(
        lambda fits: dataclasses.replace(fits, means=fits.means + offset), f"{offset:.0e} away"
    )


def flattened(pair: Neighbours, condition: float) -> Neighbours:
    """Squeeze the data towards a line: all factors then have about this condition number."""
    d = pair.first.means.shape[2]
    turn = np.linalg.qr(np.arange(1.0, d * d + 1).reshape(d, d) % 7 + np.eye(d))[0]
    squeeze = turn @ np.diag(np.geomspace(1.0, 1 / condition, d)) @ turn.T

    def change(fits: Fits) -> Fits:
        return dataclasses.replace(
            fits,
            means=fits.means @ squeeze.T,
            cholesky=cholesky_of_root(squeeze @ fits.cholesky),
        )

    return pair.mapped(change, f"condition {condition:.0e}")
