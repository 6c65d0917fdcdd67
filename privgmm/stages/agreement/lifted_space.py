"""Compare, average and mask mixtures in the lifted space of positive definite matrices.

A component (w, mu, Sigma) corresponds to the matrix ``T = w [[Sigma + mu mu^T, mu], [mu^T, 1]]``.
Under the affine-invariant distance these matrices form a space of non-positive curvature, in
which weighted means exist, are unique, and move little when a little weight moves. So the
agreeing fits can be averaged before they are masked, and the mask shrinks accordingly.

Two fits that match component by component may still blur: if some component of one lies almost as
near to a second component of the other, labels carried from fit to fit could disagree. Two fits
are compared only if that cannot happen (`blurred_pairs`).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import ClassVar

import numpy as np

from privgmm.arrays import Array, BoolArray, IntArray, positive
from privgmm.distances.all_pairs import component_tables
from privgmm.distances.matching import bottleneck_matching, bottleneck_matchings
from privgmm.distances.parameters import forward_substitution
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.curves import RenyiCurve, lifted_mask_curve
from privgmm.privacy.gaussian_pairs import GaussianPair, directions
from privgmm.privacy.noise import Randomness
from privgmm.stages.agreement.flatness import nearly_flat
from privgmm.stages.agreement.lifted_geometry import karcher_mean, lift, lifted_distance, unlift
from privgmm.stages.agreement.lifted_pairs import LiftedGeometry, component_gaps, pairwise_lifted
from privgmm.stages.agreement.public_grid import lifted_on_grid, misrounding_chance
from privgmm.stages.agreement.reading import Number
from privgmm.stages.agreement.space import ChosenWords, SpaceWords
from privgmm.stages.agreement.votes import Verdict

__all__ = [
    "Anchored",
    "LiftedSpace",
    "averaged_move",
    "blurred_pairs",
    "geometry_of",
    "mean_tolerance",
]

_PAIRS_AT_ONCE = 1 << 16
"""Choice: keeps tables of pairs small in memory; the result does not depend on it."""
_MARGIN = 1e-3
"""Relative; far wider than rounding, so that what is near a limit is counted, not inferred."""


def blurred_pairs(batch: MixtureBatch, distances: Array, clearance: float) -> BoolArray:
    """Find pairs (t, t) with two components that do not match yet lie within `clearance`.

    Parameters
    ----------
    batch : MixtureBatch
        t fits.
    distances : array (t, t)
        Their lifted distances.
    clearance : float
        How far apart components that do not match must be. Pairs whose fits are farther apart
        than a third of it are of no interest, and reported as blurred.

    Notes
    -----
    A component of j that matches mine within V is at least ``gap - V`` from my others, so fits
    with a wide gap need no further look. For the rest the components within `clearance` are
    counted: the k that match are among them, and there must be no others.
    """
    k = batch.n_components
    gaps = component_gaps(batch)
    # margins far wider than rounding: what is near a limit is counted, not inferred
    with np.errstate(invalid="ignore"):
        sure = np.maximum(gaps[:, None], gaps) - distances > clearance * (1 + _MARGIN)
    near = distances <= clearance / 3 * (1 + _MARGIN)
    blurred = ~(sure & near)
    rows, columns = np.nonzero(np.triu(near & ~sure, 1))
    diagonal = np.arange(len(batch))
    blurred[diagonal, diagonal] = ~(gaps > clearance)
    geometry = geometry_of(batch)
    for start in range(0, len(rows), _PAIRS_AT_ONCE):
        i = rows[start : start + _PAIRS_AT_ONCE].astype(np.int64)
        j = columns[start : start + _PAIRS_AT_ONCE].astype(np.int64)
        pair, a, b = np.nonzero(geometry.bounds(i, j)[0] <= clearance)
        exact = geometry.exact(i[pair], a, j[pair], b)
        within = np.bincount(pair[exact <= clearance], minlength=len(i))
        blurred[i, j] = blurred[j, i] = within != k
    return blurred


def geometry_of(batch: MixtureBatch) -> LiftedGeometry:
    """Return the geometry of a batch, with a standard fit in place of one that failed."""
    there = batch.ok & (np.nan_to_num(batch.weights) > 0).all(axis=1)
    return LiftedGeometry(
        np.where(there[:, None], batch.weights, 1.0),
        np.where(there[:, None, None], batch.means, 0.0),
        np.where(there[:, None, None, None], batch.cholesky, np.eye(batch.n_features)),
    )


_MEAN_TOLERANCE = 1e-8
"""Lifted distance; the solver's is a hundredth of it, and tests find the rest to cover rounding."""
_SOLVER_TOLERANCE = 1e-10
"""Asked of `karcher_mean`: small next to `_MEAN_TOLERANCE`, large next to rounding."""
_WIDE_REACH = 8.0
"""Up to this tau the tolerance is one number; tests cover tau of 3, 8 and 15 with hostile fits."""
_WIDEST_REACH = 22.0
"""Beyond, `mean_tolerance` alone is so large that the mask has no finite price at any order."""


def mean_tolerance(reach: float) -> float:
    """Bound the lifted distance from a computed mean to the true one, rounding included.

    Parameters
    ----------
    reach : float
        tau: all that is averaged lies within ``2 tau`` of each other, and of the mean.

    Notes
    -----
    What rounding hides in the logarithm of a member of distance D from the mean grows with the
    ratio of its largest to its smallest singular value, ``exp(D / sqrt 2)`` at most. So there is
    one number for a tau of up to 8, and for wider ones it grows like ``exp(sqrt 2 tau)``.
    """
    return _MEAN_TOLERANCE * math.exp(math.sqrt(2) * max(0.0, reach - _WIDE_REACH))


def averaged_move(reach: float, move: float) -> float:
    """Bound by gamma how far a core's mean moves, if `move` of its mass goes ``2 reach`` far.

    Twice the tolerance of a computed mean comes on top.
    """
    return 2 * reach * move + 2 * mean_tolerance(reach)


@dataclasses.dataclass(frozen=True, eq=False)
class Anchored:
    """Lifted components given relative to a reference fit.

    Parameters
    ----------
    weights, means, cholesky : arrays (k,), (k, d), (k, d, d)
        The reference.
    roots : array (k, d+1, d+1)
        Roots of the lifted components in its coordinates: ``U_ref root`` is a root of each.
    """

    weights: Array
    means: Array
    cholesky: Array
    roots: Array

    def matched(self, other: Anchored) -> tuple[Array, Array]:
        """Compute roots (k, d+1, d+1) of both in data coordinates, in one order of labels."""
        roots, others = (
            np.asarray(lift(item.weights, item.means, item.cholesky) @ item.roots)
            for item in (self, other)
        )
        table = lifted_distance(roots[:, None], others[None, :])
        return roots, others[bottleneck_matching(table)[1]]

    def farther(self, gamma: float) -> Anchored:
        """Move every component by gamma, in the direction that costs most."""
        scale = np.ones(self.roots.shape[-1])
        scale[0] = math.exp(-gamma / 2)
        return dataclasses.replace(self, roots=self.roots * scale)

    def published(self, other: Anchored, seen: Array) -> Mixture:
        """Build the mixture of a vector (m,) of ``gaussian_pair(self, other)``, not shuffled.

        With ``U_A^-1 U_B = V D W^T``, ``U_A V (I + eta G)`` is a masked root of A and
        ``U_A V D (I + eta G)`` one of B.
        """
        roots, others = self.matched(other)
        frames = np.linalg.svd(np.linalg.solve(roots, others)).U
        weights, means, cholesky = unlift(roots @ frames @ seen.reshape(roots.shape))
        return Mixture.from_roots(weights / weights.sum(), means, cholesky)


@dataclasses.dataclass(frozen=True)
class LiftedSpace:
    """Mixtures under the lifted distance, averaged by Karcher means, masked as matrices.

    Parameters
    ----------
    eta : float
        Noise level of the mask ``U (I + eta G)(I + eta G)^T U^T``, ``T = U U^T``.
    clearance : float
        Two fits are compared only if any two components that do not match are farther apart
        than this: else labels would be ambiguous. 0 for a single component.
    reach : float
        tau: what is masked lies within twice as much of its reference; decides how fine the
        noise must be (`public_grid.noise_bits`). Less than 22: see `mean_tolerance`.
    """

    eta: float
    clearance: float = 0.0
    reach: float = 8.0

    lifted: ClassVar[bool] = True
    averages: ClassVar[bool] = True
    words: ClassVar[SpaceWords] = SpaceWords(
        distance="The distance is that of lifted matrices, a true metric, and τ stands for "
        "r/2z. Pairs whose components could be confused count as far apart.",
        chosen_label="Mean",
        chosen_title="Average those that agree",
        chosen="Instead of one fit, the mean of all fits in the core is taken, in the space of "
        "lifted matrices, where means exist, are unique, and move little when one block moves.",
        mask="Weight, mean and covariance are one lifted matrix and are masked together.",
        noise="Relative noise of the mask",
    )

    def __post_init__(self) -> None:
        positive(self.eta, "eta")
        if not (math.isfinite(self.clearance) and self.clearance >= 0):
            raise InvalidInput(f"clearance must be finite and >= 0, got {self.clearance!r}")
        positive(self.reach, "reach", below=_WIDEST_REACH)

    def mask_curve(self, gamma: float, n_features: int) -> RenyiCurve:
        """Compute the Rényi price of masking one component that can move by gamma."""
        return lifted_mask_curve(gamma, self.eta, n_features + 1)

    def misrounding(self, n_components: int, n_features: int) -> float:
        """Bound the chance that a number is rounded otherwise than in real numbers."""
        return misrounding_chance(n_components, n_features + 1)

    def noise(self) -> dict[str, float]:
        """Return eta by its name."""
        return {"eta": self.eta}

    def distances(self, items: MixtureBatch) -> Array:
        """Compute the lifted distances of all pairs (t, t).

        Infinite, diagonal included, for fits that failed or are too nearly flat to be computed
        with, and where labels blur.
        """
        return self._comparable(items, pairwise_lifted(items))

    def scattered(self, items: MixtureBatch, factor: float) -> Array:
        """Compute distances of fits that scatter `factor` times as widely as these."""
        return self._comparable(items, factor * pairwise_lifted(items))

    def placed(self, items: MixtureBatch, radius: float) -> Array:
        """Compute distances (t, t); for one component, only their side of the radius is exact.

        Bounds decide that without eigenvalues; see `Places`.
        """
        return self._comparable(items, pairwise_lifted(items, around=radius))

    def _comparable(self, items: MixtureBatch, distances: Array) -> Array:
        flat = nearly_flat(items)
        distances[flat], distances[:, flat] = np.inf, np.inf
        if items.n_components == 1:
            return distances
        return np.where(blurred_pairs(items, distances, self.clearance), np.inf, distances)

    def between(self, items: MixtureBatch, first: IntArray, second: IntArray) -> Array:
        """Compute the distances of pairs (first, second), each from its two fits alone."""
        tables = self.tables(items, first, second)
        values = bottleneck_matchings(tables).values
        if items.n_components == 1:
            return values
        within = np.count_nonzero(tables <= self.clearance, axis=(1, 2))
        return np.where(within == items.n_components, values, np.inf)

    def tables(self, items: MixtureBatch, first: IntArray, second: IntArray) -> Array:
        """Compute lifted distances (m, k, k) of all components of pairs (first, second)."""
        return component_tables(geometry_of(items), first, second)

    def representative(self, items: MixtureBatch, weights: Array, reference: int) -> Anchored:
        """Compute weighted Karcher means of the aligned components, seen from the reference.

        Every block that counts is aligned to the reference by the best matching; clearance
        makes that matching unique. Means are taken in the reference's own coordinates, where
        all members are near the identity, so that data far from the origin lose nothing.
        """
        members = np.flatnonzero(weights > 0)
        # the test's noise is drawn already: pairs that do not match may be so far apart that their
        # roots overflow, so only those of matched components are computed
        order = np.zeros((len(members), 1), dtype=np.int64)
        if items.n_components > 1:
            tables = self.tables(items, np.full_like(members, reference), members)
            order = bottleneck_matchings(tables).permutations
        roots = _relative_roots(items, members, order, reference)
        share = weights[members] / weights[members].sum()
        means = [
            karcher_mean(roots[:, j], share, tolerance=_SOLVER_TOLERANCE).root
            for j in range(items.n_components)
        ]
        return Anchored(
            items.weights[reference],
            items.means[reference],
            items.cholesky[reference],
            np.stack(means),
        )

    def describe_chosen(self, verdict: Verdict) -> ChosenWords:
        """Describe the blocks that were averaged, and the largest weight. CONFIDENTIAL."""
        weights = verdict.weights
        counted = int((weights > 0).sum())
        return ChosenWords(
            f"**{counted} blocks agree and are averaged**, each with a weight that climbs from 0 "
            "to 1 with its votes. One row moves one of these blocks, so it moves their mean by "
            "little, and little noise hides that.",
            f"the mean of the {counted} that count",
            (
                Number("Blocks that count", f"{counted} of {weights.size}", "Weight above zero"),
                Number(
                    "Largest share",
                    f"{float(weights.max() / weights.sum()):.2%}",
                    "The most that one block weighs in what goes to the mask",
                ),
            ),
        )

    def mask_variances(self, weights: Array, n_features: int) -> Array:
        """Compute what the noise on a lifted root adds: a mean is an entry off its diagonal."""
        d = n_features
        one = np.full(1 + d + d * (d + 1) // 2, 4 * self.eta**2)
        one[1 : 1 + d] = 2 * self.eta**2
        return np.tile(one, (len(weights), 1))

    def mask(self, item: Anchored, *, rng: Randomness) -> Mixture:
        """Mask every lifted component, shuffle, unlift, normalise the weights.

        The noise acts in the reference's coordinates, where it has the same law, and the result
        is carried back to those of the data afterwards, without rounding; it is published on the
        grid of `public_grid`.
        """
        shown = lifted_on_grid(
            item.weights,
            item.means,
            item.cholesky,
            item.roots,
            eta=self.eta,
            reach=self.reach,
            rng=rng,
        )
        order = rng.permutation(len(item.weights))
        return Mixture.from_roots(
            (shown.weights / shown.weights.sum())[order], shown.means[order], shown.factors[order]
        )

    # ----------------------------------------------------------------- what can be attacked

    def distance(self, first: Anchored, second: Anchored) -> float:
        """Compute the lifted distance of two representatives, under the best common order.

        ``N = R_1^-1 (U_1^-1 U_2) R_2``, where the roots R are relative to references U; between
        references the difference of means is taken first.
        """
        k, p, _ = first.roots.shape
        table = np.empty((k, k))
        for a, b in itertools.product(range(k), range(k)):
            right = np.concatenate(
                [second.cholesky[b], (second.means[b] - first.means[a])[:, None]], axis=1
            )
            between = np.eye(p)
            between[: p - 1] = forward_substitution(first.cholesky[a], right)
            between *= math.sqrt(second.weights[b] / first.weights[a])
            N = np.linalg.solve(first.roots[a], between @ second.roots[b])
            table[a, b] = 2 * np.linalg.norm(np.log(np.linalg.svd(N, compute_uv=False)))
        return float(bottleneck_matchings(table[None]).values[0])

    def scaling(self, radius: float, n_features: int) -> float:  # noqa: ARG002 - the same in any d
        """Return the radius itself: scaling a covariance is a straight line in this space."""
        return radius

    def gaussian_pair(self, item_a: Anchored, item_b: Anchored) -> GaussianPair:
        """Describe the matrices ``I + eta G`` of each component, for either representative."""
        roots_a, roots_b = item_a.matched(item_b)
        singular = np.linalg.svd(np.linalg.solve(roots_a, roots_b), compute_uv=False)
        return GaussianPair.joined([GaussianPair.of_matrix(s**2, self.eta) for s in singular])

    def worst_pair(self, gamma: float, n_components: int, n_features: int) -> GaussianPair:
        """Describe draws where one eigenvalue of ``T_A^-1 T_B`` is ``exp(-gamma)``, the others one.

        That is where the divergence is largest (`privacy.curves.lifted_mask_curve`).
        """
        ratios = np.ones(n_features + 1)
        ratios[0] = math.exp(-gamma)
        return GaussianPair.joined([GaussianPair.of_matrix(ratios, self.eta)] * n_components)

    def hardest_pairs(
        self, gamma: float, n_features: int, *, rng: np.random.Generator
    ) -> list[GaussianPair]:
        """List masked components gamma apart: logarithms of eigenvalues of length gamma."""
        return [
            GaussianPair.of_matrix(np.exp(gamma * u), self.eta)
            for u in directions(n_features + 1, rng=rng)
        ]

    def equal_components(self, n: int, n_features: int) -> Anchored:
        """Make n equal components, at the origin and of unit covariance."""
        d = n_features
        return Anchored(
            np.full(n, 1 / n),
            np.zeros((n, d)),
            np.broadcast_to(np.eye(d), (n, d, d)),
            np.broadcast_to(np.eye(d + 1), (n, d + 1, d + 1)),
        )

    def formula(self, n: int, n_features: int, *, rng: np.random.Generator) -> Array:
        """Draw ``(I + eta G)(I + eta G)^T`` and read it as weight, mean and covariance."""
        d = n_features
        root = np.eye(d + 1) + self.eta * rng.standard_normal((n, d + 1, d + 1))
        square = root @ root.swapaxes(-1, -2)
        weights = square[:, d, d]
        means = square[:, 0, d] / weights
        return np.stack([weights, means, square[:, 0, 0] / weights - means**2])


def _relative_roots(
    items: MixtureBatch, members: IntArray, order: IntArray, reference: int
) -> Array:
    """Compute ``U_a^-1 U_ib`` (n, k, p, p): member i's component b, seen from reference a.

    ``sqrt(w_b / w_a) [[L_a^-1 L_b, L_a^-1 (mu_b - mu_a)], [0, 1]]``, where b is ``order[i, a]``:
    differences of means come first, so nothing cancels.
    """
    d = items.n_features
    member = members[:, None], order
    shifts = items.means[member] - items.means[reference]
    right = np.concatenate([items.cholesky[member], shifts[..., None]], axis=-1)
    factor = np.broadcast_to(items.cholesky[reference], (*order.shape, d, d))
    roots = np.zeros((*order.shape, d + 1, d + 1))
    roots[..., :d, :] = forward_substitution(factor, right)
    roots[..., d, d] = 1.0
    ratio = items.weights[member] / items.weights[reference]
    return np.asarray(roots * np.sqrt(ratio)[..., None, None], dtype=np.float64)
