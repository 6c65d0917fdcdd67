"""The solutions that block fits fall into: one if all is well, several if a likelihood has optima.

NOT private, and used nowhere in a release: it reads the fits themselves, to tell the curator why
blocks disagree (`hints`).
"""

from __future__ import annotations

import dataclasses
import itertools
from functools import cached_property

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from privgmm.arrays import Array, IntArray
from privgmm.matching import bottleneck_matching
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.pairwise import component_tables
from privgmm.spaces.lifted_labels import geometry_of
from privgmm.spaces.lifted_pairs import pairwise_lifted

__all__ = ["Difference", "Landscape", "Solution", "landscape", "largest_difference"]

_LEAST_SHARE = 0.05
_LEAST_BLOCKS = 5
_APART = 2.0
_NEAREST = 0.05
_FAR = 1e3


@dataclasses.dataclass(frozen=True, eq=False)
class Solution:
    """Fits that differ by noise alone.

    Parameters
    ----------
    members : array of int
        The blocks that found it.
    mixture : Mixture
        The fit with the smallest total distance to the others.
    scatter : float
        Median lifted distance between two of the fits.
    """

    members: IntArray
    mixture: Mixture
    scatter: float


@dataclasses.dataclass(frozen=True, eq=False)
class Landscape:
    """What t blocks found. NOT private.

    Parameters
    ----------
    n_blocks : int
        t.
    solutions : tuple of Solution
        The most frequent first. Blocks that agree with few others are in none.
    failed : array of int
        Blocks without a fit.
    spread : float
        Median lifted distance between any two fits, of whatever solution.
    """

    n_blocks: int
    solutions: tuple[Solution, ...]
    failed: IntArray
    spread: float

    @cached_property
    def shares(self) -> Array:
        """Share of all blocks in each solution."""
        return np.array([len(s.members) / self.n_blocks for s in self.solutions])


@dataclasses.dataclass(frozen=True, eq=False)
class Difference:
    """The pair of matched components in which two mixtures differ most.

    Parameters
    ----------
    first, second : int
        The component in the one and in the other mixture, from 0.
    shift : float
        Distance of the means, in standard deviations of the first along the way.
    """

    first: int
    second: int
    shift: float


def landscape(fits: MixtureBatch) -> Landscape:
    """Sort block fits into solutions.

    Notes
    -----
    Fits are joined by average linkage of their lifted distances, free of units and labels. Two
    groups are different solutions if each holds five blocks and a twentieth of all, and if nearly
    all distances across (all but the smallest 5 %) exceed twice the typical distance within
    either. One cloud cut in two is far from that, be it round (1.0) or a line (1.1). Any other
    fit goes to the solution it is within twice the typical distance of, or to none.
    """
    distances = pairwise_lifted(fits)
    there = np.isfinite(np.diagonal(distances))
    members = np.flatnonzero(there).astype(np.int64)
    failed = np.flatnonzero(~there).astype(np.int64)
    if len(members) < 2:
        whole = tuple(Solution(members, fits[int(i)], 0.0) for i in members)
        return Landscape(len(fits), whole, failed, 0.0)
    # overflow between fits of wildly different scale: far is all that matters
    table = np.minimum(np.nan_to_num(distances[np.ix_(members, members)], nan=_FAR), _FAR)
    groups = _groups(table)
    groups.sort(key=lambda group: (-len(group), group[0]))
    solutions = []
    for group in groups:
        inner = table[np.ix_(group, group)]
        centre = members[group[int(np.argmin(inner.sum(axis=1)))]]
        solutions.append(Solution(members[group], fits[int(centre)], _median(inner)))
    return Landscape(len(fits), tuple(solutions), failed, _median(table))


def _median(table: Array) -> float:
    """Median distance between two different items."""
    return float(np.median(squareform(table, checks=False))) if len(table) > 1 else 0.0


def _groups(table: Array) -> list[IntArray]:
    """The items (n,) of each solution, from distances (n, n)."""
    n = len(table)
    least = max(min(_LEAST_BLOCKS, n // 2), int(np.ceil(_LEAST_SHARE * n)))
    tree = linkage(squareform(table, checks=False), method="average")
    found: list[list[IntArray]] = [[np.array([i], dtype=np.int64)] for i in range(n)]
    for left, right in tree[:, :2].astype(int):
        groups = found[left] + found[right]
        large = [group for group in groups if len(group) >= least]
        small = [group for group in groups if len(group) < least]
        if not large:
            found.append([np.concatenate(groups)])
        else:
            found.append(_merged(table, large) + small)
    groups = [group for group in found[-1] if len(group) >= least] or found[-1]
    return _with_strays(table, groups)


def _merged(table: Array, groups: list[IntArray]) -> list[IntArray]:
    """Join groups until any two are apart.

    Done at every step of the linkage: a few fits may have a gap by chance, that closes when
    their groups have grown.
    """
    groups = list(groups)
    while len(groups) > 1:
        pairs = list(itertools.combinations(range(len(groups)), 2))
        ratios = [_separation(table, groups[a], groups[b]) for a, b in pairs]
        nearest = int(np.argmin(ratios))
        if ratios[nearest] > _APART:
            break
        a, b = pairs[nearest]
        groups.append(np.concatenate([groups[a], groups[b]]))
        del groups[b], groups[a]
    return groups


def _with_strays(table: Array, groups: list[IntArray]) -> list[IntArray]:
    """The groups, each with the fits left over that lie as near to it as its own."""
    reach = np.array([_APART * _median(table[np.ix_(group, group)]) for group in groups])
    # from every fit to every group, in units of how far the group reaches
    typical = np.stack([np.median(table[:, group], axis=1) for group in groups], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.nan_to_num(typical / reach, nan=0.0)
    nearest = np.where(relative.min(axis=1) <= 1, relative.argmin(axis=1), -1)
    for number, group in enumerate(groups):
        nearest[group] = number
    return [np.flatnonzero(nearest == number).astype(np.int64) for number in range(len(groups))]


def _separation(table: Array, first: IntArray, second: IntArray) -> float:
    """Nearly the smallest distance across, in units of the typical distance within."""
    across = float(np.quantile(table[np.ix_(first, second)], _NEAREST))
    within = max(_median(table[np.ix_(group, group)]) for group in (first, second))
    return across / max(within, 1 / _FAR**2)


def largest_difference(first: Mixture, second: Mixture) -> Difference:
    """Match the components of two mixtures as well as possible; the pair that matches worst."""
    geometry = geometry_of(MixtureBatch.of([first, second]))
    table = component_tables(geometry, np.array([0]), np.array([1]))[0]
    matched = bottleneck_matching(table).permutation
    worst = int(np.argmax(table[np.arange(len(table)), matched]))
    other = int(matched[worst])
    offset = np.linalg.solve(first.cholesky[worst], second.means[other] - first.means[worst])
    return Difference(worst, other, float(np.linalg.norm(offset)))
