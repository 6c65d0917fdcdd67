"""Explain why blocks disagree and what to try: the hint of a stage of agreement.

CONFIDENTIAL: it is computed from fits and rows, and nothing here enters a release. `landscape`
sorts block fits into the solutions they fall into: one if all is well, several if the likelihood
has several optima. `hint` says it in words, and which number of components to try.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

from privgmm.arrays import Array, IntArray
from privgmm.distances.all_pairs import component_tables
from privgmm.distances.matching import bottleneck_matching
from privgmm.learners.em import EM
from privgmm.learners.learner import Learner, ReasonedLearner
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.stages.agreement.flatness import nearly_flat
from privgmm.stages.agreement.lifted_pairs import pairwise_lifted
from privgmm.stages.agreement.lifted_space import geometry_of
from privgmm.stages.agreement.scatter import pair_distances, simulate_blocks

__all__ = ["BlockSolution", "Landscape", "hint", "landscape", "largest_difference"]

_LEAST_SHARE, _LEAST_BLOCKS = 0.05, 5
"""Choice: a solution has at least this share and number of the blocks; fewer are strays."""
_APART = 2.0
"""Distances across two solutions, in units of those within: one cloud cut in two has 1.0 to 1.1."""
_NEAREST = 0.05
"""Share of the distances across that may be smaller, so that a few stray fits join nothing."""
_FAR = 1e3
"""Distances are cut here, where fits have nothing in common; larger ones may have overflowed."""


@dataclasses.dataclass(frozen=True, eq=False)
class BlockSolution:
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
    """Solutions that t blocks found. CONFIDENTIAL.

    Parameters
    ----------
    n_blocks : int
        t.
    solutions : tuple of BlockSolution
        The most frequent first. Blocks that agree with few others are in none.
    failed : array of int
        Blocks without a fit.
    """

    n_blocks: int
    solutions: tuple[BlockSolution, ...]
    failed: IntArray

    def share(self, solution: int) -> float:
        """Compute the share of all blocks that found a solution."""
        return len(self.solutions[solution].members) / self.n_blocks


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
        whole = tuple(BlockSolution(members, fits[int(i)], 0.0) for i in members)
        return Landscape(len(fits), whole, failed)
    # overflow between fits of wildly different scale: far is all that matters
    table = np.minimum(np.nan_to_num(distances[np.ix_(members, members)], nan=_FAR), _FAR)
    groups = _groups(table)
    groups.sort(key=lambda group: (-len(group), group[0]))
    solutions = []
    for group in groups:
        inner = table[np.ix_(group, group)]
        centre = members[group[int(np.argmin(inner.sum(axis=1)))]]
        solutions.append(BlockSolution(members[group], fits[int(centre)], _median(inner)))
    return Landscape(len(fits), tuple(solutions), failed)


def _median(table: Array) -> float:
    """Compute the median distance between two different items."""
    return float(np.median(squareform(table, checks=False))) if len(table) > 1 else 0.0


def _groups(table: Array) -> list[IntArray]:
    """Group items (n,) into solutions, from distances (n, n)."""
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
    """Add to each group the leftover fits that lie as near to it as its own."""
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
    """Compute nearly the smallest distance across, in units of the typical distance within."""
    across = float(np.quantile(table[np.ix_(first, second)], _NEAREST))
    within = max(_median(table[np.ix_(group, group)]) for group in (first, second))
    return across / max(within, 1 / _FAR**2)


def largest_difference(first: Mixture, second: Mixture) -> tuple[int, int, float]:
    """Match the components of two mixtures as well as possible; find the pair that matches worst.

    Returns the component in the one and in the other mixture, from 0, and the distance of their
    means in standard deviations of the first.
    """
    geometry = geometry_of(MixtureBatch.of([first, second]))
    table = component_tables(geometry, np.array([0]), np.array([1]))[0]
    matched = bottleneck_matching(table).permutation
    worst = int(np.argmax(table[np.arange(len(table)), matched]))
    other = int(matched[worst])
    offset = np.linalg.solve(first.cholesky[worst], second.means[other] - first.means[worst])
    return worst, other, float(np.linalg.norm(offset))


_MOST_BLOCKS, _TRIAL_BLOCKS, _REASONS_ASKED = 300, 80, 40
"""Choice: blocks looked at for solutions, for trials of another k, and for reasons."""
_AGREE, _NOISE = 0.9, 2.0
"""Choice: blocks agree if this share finds one solution and scatters at most this many times as
widely as fits of well separated components do."""
_BLURRED = 0.1
"""Choice: share of fits with ambiguous labels from which on they are the reason of a refusal."""
_SIMULATED = 200
"""Simulated blocks from which the expected scatter is read: right within a few percent."""


def _trial(blocks: Array, k: int, learner: Learner) -> float:
    """Fit blocks (t, s, d) with k components by EM; the share that agrees, 0 if they do not."""
    base = learner if isinstance(learner, EM) else EM(k)
    fits = dataclasses.replace(base, n_components=k).fit_blocks(blocks, rng=0)
    found = landscape(fits)
    if not found.solutions or _excess(found.solutions[0], blocks.shape[1]) > _NOISE:
        return 0.0
    return found.share(0) if found.share(0) >= _AGREE else 0.0


def hint(
    fits: MixtureBatch,
    distances: Array,
    take: Callable[[IntArray], Array],
    positions: IntArray,
    *,
    learner: Learner,
    passed: bool,
    try_others: bool = True,
) -> str | None:
    """Say what keeps the blocks from agreeing, and which k to try; None if they agree.

    Parameters
    ----------
    fits : MixtureBatch
        t fits.
    distances : array (t, t)
        As the test saw them: infinite for a fit and itself where it could not be labelled.
    take : callable(positions) -> rows
        Rows of the table by their positions.
    positions : array (t, s)
        Which rows made up each block.
    learner : Learner
        What made the fits.
    passed : bool
        Whether the blocks agreed closely enough for a release.
    try_others : bool
        Whether another number of components can be asked for: not for a frame, which has one.

    Notes
    -----
    Another number of components is suggested only after it was tried on (some of) the blocks:
    k + 1, k + 2 and then k - 1, since fewer always agree more easily.
    """
    some = _every(fits, -(-len(fits) // _MOST_BLOCKS))
    found = landscape(some)
    words = _failures(fits, take, positions, learner)
    split = len(found.solutions) > 1
    if not found.solutions or (passed and not split):
        return " ".join(words) or None
    size = positions.shape[1]
    excess = _excess(found.solutions[0], size)
    fitted = len(some) - len(found.failed)
    if split:
        words.append(_split(found))
    elif excess <= _NOISE and len(found.solutions[0].members) >= _AGREE * fitted:
        words.append(_noise_or_blur(fits, distances, size))
        return " ".join(words)
    else:
        words.append(
            f"The blocks share no clear solution: their fits scatter {excess:.2g} times as widely "
            f"as those of well separated components would with {size} rows a block."
        )
    if try_others:
        words.append(_suggestion(take(positions[:_TRIAL_BLOCKS]), fits.n_components, learner))
    return " ".join(words)


def _every(fits: MixtureBatch, step: int) -> MixtureBatch:
    return MixtureBatch.from_cholesky(
        fits.weights[::step], fits.means[::step], fits.cholesky[::step], fits.ok[::step]
    )


def _excess(solution: BlockSolution, rows: int) -> float:
    """Compare a solution's scatter with that of well separated components of its weights."""
    mixture = solution.mixture
    errors = simulate_blocks(_SIMULATED, rows, mixture.weights, mixture.n_features, rng=0)
    expected = pair_distances(errors, lifted=True)[np.triu_indices(_SIMULATED, 1)]
    return solution.scatter / float(np.median(expected))


def _failures(
    fits: MixtureBatch,
    take: Callable[[IntArray], Array],
    positions: IntArray,
    learner: Learner,
) -> list[str]:
    failed = np.flatnonzero(~fits.ok)
    if not failed.size:
        return []
    head = f"{failed.size} of {len(fits)} blocks have no fit"
    asked = getattr(learner, "fit_blocks_with_reasons", None)
    if asked is None:
        return [f"{head}."]
    _, reasons = asked(take(positions[failed[:_REASONS_ASKED]]), rng=0)
    counted = collections.Counter(reason or "found on a second try" for reason in reasons)
    listed = "; ".join(f"{reason} ({count})" for reason, count in counted.most_common(3))
    more = f" of the first {_REASONS_ASKED}" if failed.size > _REASONS_ASKED else ""
    words = f"{head}: {listed}{more}."
    if reasons[0] and isinstance(learner, ReasonedLearner):
        remedy = learner.remedy(reasons[0])
        words += f" {remedy[0].upper()}{remedy[1:]}."
    return [words]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _component(mixture: Mixture, index: int) -> str:
    mean = ", ".join(f"{x:.3g}" for x in mixture.means[index][:4])
    dots = ", …" if mixture.n_features > 4 else ""
    return f"weight {mixture.weights[index]:.2g} at ({mean}{dots})"


def _split(found: Landscape) -> str:
    first, second = found.solutions[:2]
    text = (
        f"{_percent(found.share(0))} of the blocks agree on one solution, "
        f"{_percent(found.share(1))} on another"
    )
    if len(found.solutions) > 2:
        rest = sum(found.share(i) for i in range(2, len(found.solutions)))
        text += f", {_percent(rest)} on {len(found.solutions) - 2} more"
    ours, theirs, shift = largest_difference(first.mixture, second.mixture)
    return (
        f"{text}. The first two differ most in one component: "
        f"{_component(first.mixture, ours)} in the first, "
        f"{_component(second.mixture, theirs)} in the second, "
        f"{shift:.2g} of its standard deviations away."
    )


def _noise_or_blur(fits: MixtureBatch, distances: Array, size: int) -> str:
    """Explain why a test fails although the blocks find one solution."""
    blurred = fits.ok & np.isinf(np.diagonal(distances)) & ~nearly_flat(fits)
    share = float(blurred.sum() / max(fits.ok.sum(), 1))
    if share > _BLURRED:
        return (
            f"The blocks find one solution, but in {_percent(share)} of the fits two components "
            "lie too near each other for this plan to distinguish their labels; more rows will not "
            "change that. A smaller mask accuracy with fewer blocks, fewer components or method "
            "'tight' may help."
        )
    return (
        f"The blocks find one solution, and {size} rows a block let their fits scatter as they do: "
        "more rows, or a larger epsilon or mask accuracy, will help."
    )


def _suggestion(blocks: Array, k: int, learner: Learner) -> str:
    tried = [n for n in (k + 1, k + 2, k - 1) if n >= 1]
    for n in tried:
        if share := _trial(blocks, n, learner):
            keep = f" If there are {k}, finding them takes many more rows." if n < k else ""
            return (
                f"Try k = {n}: with it {_percent(share)} of the blocks agree on one solution.{keep}"
            )
    listed = ", ".join(str(n) for n in sorted(tried))
    return (
        f"No other k nearby ({listed}) makes them agree: more rows a block (fewer blocks, more "
        "data) or another learner may."
    )
