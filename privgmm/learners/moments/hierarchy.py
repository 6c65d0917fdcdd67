"""The recursion of Moitra and Valiant: cluster, whiten each cluster by itself, fit within.

Between `estimation`, which fits what shows in a projection of the whole, and `moments`. Where
components are far thinner or closer than the whole is wide (two thin sheets side by side in a
wide cloud), no projection of the whitened rows separates them: they look like one component. That
one can still be separated from the rest; and within its own rows, whitened by themselves, the parts
lie far apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from scipy.special import logsumexp

from privgmm.arrays import Array, IntArray
from privgmm.learners.kernels import FITTED
from privgmm.learners.moments.equations import MixtureParts
from privgmm.learners.moments.estimation import (
    Estimate,
    FeatureFamily,
    estimate,
    log_joint,
    mean_log_density,
)
from privgmm.learners.moments.polish import whitened

__all__ = ["deepest", "fits_by_clusters", "is_hidden"]

_THIN = 0.05  # variance, the whole having 1, below which parts may hide in a component
_VERY_THIN = 0.005  # the bound in place of `_THIN` for few rows
_RARE = 0.01  # weight below which an estimate is suspect
_IMPRECISE = 0.5  # predicted standard error above which an estimate is suspect
_MANY = 5_000  # rows from which on an imprecise estimate is not the rule
_OVERLAP = 0.02  # share of rows in doubt below which clusters are taken apart
_SHARPENINGS = 8  # most rounds of assigning rows to clusters
_SCORED = 20_000  # rows whose likelihood decides
_DEEPEST = 2  # levels of clusters within clusters: k <= 4 needs no more


def is_hidden(found: Estimate, n_rows: int) -> bool:
    """Return whether an estimate of k > 2 components suggests that one of them hides several.

    Of few rows only a very thin component is reason enough: an imprecise estimate is the rule.
    """
    weights, _, covariances = found.parts
    if len(weights) < 3:
        return False
    thinnest = float(np.linalg.eigvalsh(covariances).min())
    if n_rows < _MANY:
        return thinnest < _VERY_THIN
    return (
        thinnest < _THIN
        or bool(weights.min() < _RARE)
        or not (found.positive and found.error < _IMPRECISE)
    )


def fits_by_clusters(
    rows: Array,
    n_components: int,
    features: FeatureFamily,
    rng: np.random.Generator,
    *,
    depth: int = 0,
) -> list[Estimate]:
    """Fit mixtures of k components, put together from clusters of whitened rows (n, d).

    For k' < k: fit k' components, sharpen them by assigning every row to one, and if hardly a
    row is in doubt fit each cluster on its own, in every way to share out the k.

    Returns
    -------
    list of Estimate
        One for each k' whose clusters came apart: the allocation of best likelihood.
    """
    found: list[Estimate] = []
    for fewer in range(2, n_components):
        coarse = estimate(rows[:_SCORED], fewer, features, rng)[0].parts
        labels = _sharpened(rows, coarse)
        if labels is None:
            continue
        clusters = [rows[labels == j] for j in range(fewer)]
        fitted: dict[tuple[int, int], Estimate | None] = {}
        choices: list[Estimate] = []
        for shares in _allocations(n_components, fewer):
            for place in enumerate(shares):
                if place not in fitted:
                    fitted[place] = _within(clusters[place[0]], place[1], features, rng, depth)
            pieces = [fitted[place] for place in enumerate(shares)]
            together = _joined(rows, [len(part) for part in clusters], pieces)
            if together is not None:
                choices.append(together)
        if choices:
            found.append(max(choices, key=lambda choice: choice.score))
    return found


def _joined(rows: Array, sizes: list[int], pieces: list[Estimate | None]) -> Estimate | None:
    """Join the components of all clusters; the quality is that of the worst cluster."""
    there = [piece for piece in pieces if piece is not None]
    if len(there) < len(pieces):
        return None
    parts = MixtureParts(
        np.concatenate(
            [f.parts.weights * size / sum(sizes) for f, size in zip(there, sizes, strict=True)]
        ),
        np.concatenate([piece.parts.means for piece in there]),
        np.concatenate([piece.parts.covariances for piece in there]),
    )
    return Estimate(
        parts,
        all(piece.positive for piece in there),
        mean_log_density(rows[:_SCORED], parts),
        max(piece.misfit for piece in there),
        max(piece.error for piece in there),
    )


def _allocations(total: int, places: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to share out `total` components over clusters, at least one each."""
    for shares in itertools.product(range(1, total - places + 2), repeat=places):
        if sum(shares) == total:
            yield shares


def _sharpened(rows: Array, parts: MixtureParts) -> IntArray | None:
    """Assign rows to clusters (n,) until this settles; None when clusters overlap or run dry.

    Moments of a thin component are noisy; its own rows, once found, are not.
    """
    n, d = rows.shape
    labels: IntArray | None = None
    for _ in range(_SHARPENINGS):
        joint = log_joint(rows, parts)
        before, labels = labels, joint.argmax(axis=0)
        counts = np.bincount(labels, minlength=len(joint))
        if counts.min() < 10 * (d + 1):
            return None
        if before is not None and (before == labels).all():
            break
        clusters = [rows[labels == j] for j in range(len(joint))]
        covariances = np.stack([np.cov(part.T, bias=True).reshape(d, d) for part in clusters])
        if not np.linalg.eigvalsh(covariances).min() > 1e-14:
            return None
        means = np.stack([part.mean(axis=0) for part in clusters])
        parts = MixtureParts(counts / n, means, covariances)
    joint = log_joint(rows, parts)
    in_doubt = 1 - np.exp(joint.max(axis=0) - logsumexp(joint, axis=0)).mean()
    return labels if in_doubt < _OVERLAP else None


def _within(
    cluster: Array, share: int, features: FeatureFamily, rng: np.random.Generator, depth: int
) -> Estimate | None:
    """Fit `share` components to a cluster and return them in the coordinates of the whole."""
    n, d = cluster.shape
    if n < 2 * share * (1 + d + d * (d + 1) // 2):
        return None
    code, white = whitened(cluster, int(rng.integers(n)))
    if code != FITTED:
        return None
    best = estimate(white.rows, share, features, rng)[0]
    if depth < _DEEPEST and is_hidden(best, n):
        best = deepest(white.rows, best, features, rng, depth=depth + 1)
    w, means, covariances = best.parts
    parts = MixtureParts(
        w, white.mean + means @ white.root.T, white.root @ covariances @ white.root.T
    )
    return best._replace(parts=parts)


def deepest(
    rows: Array,
    found: Estimate,
    features: FeatureFamily,
    rng: np.random.Generator,
    *,
    depth: int = 0,
) -> Estimate:
    """Return an estimate, or what `fits_by_clusters` finds if its likelihood is larger."""
    k = len(found.parts.weights)
    flat = found._replace(score=mean_log_density(rows[:_SCORED], found.parts))
    deep = fits_by_clusters(rows, k, features, rng, depth=depth)
    return max([flat, *deep], key=lambda fit: fit.score)
