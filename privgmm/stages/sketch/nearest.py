"""Find the mixture of few components nearest to a richer one, as EM would on unlimited rows.

Where no mixture of k components explains a sketch, the best fit to the sketch follows the waves,
not the rows. A richer mixture that does explain them, or that was found by other means, says what
the rows look like; the k components nearest to it, by Kullback and Leibler, are what maximum
likelihood would have given. Post-processing: everything here is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy
from numba import njit
from scipy.linalg import solve_triangular

from privgmm.arrays import Array
from privgmm.mixture import Mixture, cholesky_of_root
from privgmm.stages.quadrature import points_of, scores
from privgmm.stages.refinement.projection import merged_to, split_to
from privgmm.stages.sketch.structures import FULL, NARROWEST, Structure, local_slopes, pack, unpack

__all__ = ["free_scores", "nearest_mixture", "warm_nearest"]

_ROUNDS, _GAIN = 300, 1e-6
"""Choice: EM steps at most, and the gain in mean log density below which they end."""
_RIDGE, _SLOPE = 1e-9, 1e-6
"""Choice: added to Fisher's information to invert it; and the slope at which BFGS ends."""
_LIGHTEST = 1e-4
"""Choice: a component that would get less of the weight is left where it was."""


def nearest_mixture(
    reference: Mixture, n_components: int, structure: Structure, starts: Sequence[Mixture] = ()
) -> Mixture:
    """Find the mixture of k components, of a covariance type, nearest to a richer one.

    Parameters
    ----------
    reference : Mixture
        In frame coordinates.
    n_components : int
        k.
    structure : Structure
        What the covariance type leaves free.
    starts : sequence of Mixture
        Of k components, where to look besides merging and splitting components of `reference`.
    """
    d = reference.n_features
    own = (merged_to if reference.n_components >= n_components else split_to)(
        reference, n_components
    )
    rows, mass = points_of(reference)
    found = [
        _climbed(
            rows, mass, structure.nearest(pack(one.weights, one.means, one.cholesky), d), structure
        )
        for one in (own, *starts)
    ]
    _, theta = max(found, key=lambda one: one[0])
    return Mixture.from_roots(*unpack(_polished(rows, mass, theta, structure), d))


def free_scores(theta: Array, rows: Array, structure: Structure) -> tuple[Array, Array]:
    """Compute rows' scores (n, F) in the free numbers; also (P, F) from these to local ones."""
    mixture = Mixture.from_roots(*unpack(theta, rows.shape[1]))
    to_local = np.asarray(np.linalg.inv(local_slopes(mixture.cholesky)), dtype=np.float64)
    tangent = structure.tangent(theta, rows.shape[1])
    if tangent is not None:
        to_local = to_local @ tangent
    return scores(mixture, rows) @ to_local, to_local


def _polished(rows: Array, mass: Array, theta: Array, structure: Structure) -> Array:
    """Climb to the top near theta, since EM is slow where components overlap.

    By BFGS, in coordinates in which Fisher's information is the identity.
    """
    d = rows.shape[1]
    seen, _ = free_scores(theta, rows, structure)
    normal = (seen.T * mass) @ seen
    normal[np.diag_indices_from(normal)] += _RIDGE
    try:
        root = np.linalg.cholesky(normal)
    except np.linalg.LinAlgError:
        # components so thin that the ridge drowns in rounding: what was climbed to is kept
        return structure.widened(theta, d)[0]

    def below(y: Array) -> tuple[float, Array]:
        at = structure.moved(theta, solve_triangular(root, y, lower=True, trans=1), d)
        seen, _ = free_scores(at, rows, structure)
        level = float(mass @ Mixture.from_roots(*unpack(at, d)).log_density(rows))
        return -level, -solve_triangular(root, mass @ seen, lower=True)

    found = scipy.optimize.minimize(
        below, np.zeros(len(root)), jac=True, method="BFGS", options={"gtol": _SLOPE}
    )
    best = structure.moved(theta, solve_triangular(root, found.x, lower=True, trans=1), d)
    return structure.widened(best, d)[0]


def _climbed(rows: Array, mass: Array, theta: Array, structure: Structure) -> tuple[float, Array]:
    """Run EM from theta; returns the mean log density that it reaches, and where."""
    d = rows.shape[1]
    level = -math.inf
    for _ in range(_ROUNDS):
        parts = unpack(theta, d)
        mixture = Mixture.from_roots(*parts)
        try:
            inverses = np.linalg.inv(mixture.cholesky)
        except np.linalg.LinAlgError:
            # a component has become too thin to compute with: what was reached is kept
            break
        sums = np.zeros((len(theta), 1 + d + d * d))
        before = level
        level = _moment_sums(
            rows,
            mass,
            np.log(np.maximum(parts.weights, 1e-300)) - _log_volumes(mixture),
            parts.means,
            inverses,
            sums,
        )
        if level - before < _GAIN:
            break
        weights, means, roots = sums[:, 0].copy(), parts.means, parts.roots
        for c in np.flatnonzero(weights > _LIGHTEST).tolist():
            # about the old mean, so that nothing cancels
            step = sums[c, 1 : 1 + d] / weights[c]
            second = sums[c, 1 + d :].reshape(d, d) / weights[c] - np.outer(step, step)
            means[c] += step
            values, vectors = np.linalg.eigh(second)
            wide = np.sqrt(np.maximum(values, NARROWEST**2))
            roots[c] = cholesky_of_root(vectors * wide)
        weights = np.maximum(weights, 1e-12)
        theta = structure.nearest(pack(weights / weights.sum(), means, roots), d)
    return level, theta


def _log_volumes(mixture: Mixture) -> Array:
    """Compute ``ln det L + d/2 ln(2 pi)`` of each component (k,)."""
    diagonals = np.diagonal(mixture.cholesky, axis1=1, axis2=2)
    constant = 0.5 * mixture.n_features * math.log(2 * math.pi)
    return np.asarray(np.log(diagonals).sum(axis=1) + constant)


@njit(cache=True, nogil=True)
def _moment_sums(
    rows: Array, mass: Array, offsets: Array, means: Array, inverses: Array, sums: Array
) -> float:
    """Add each component's share, first and second moments about its mean to `sums` (k, width).

    Returns the mean log density.
    """
    n, d = rows.shape
    k = len(offsets)
    joint, gaps = np.empty(k), np.empty((k, d))
    level = 0.0
    for i in range(n):
        top = -np.inf
        for c in range(k):
            square = 0.0
            for p in range(d):
                gaps[c, p] = rows[i, p] - means[c, p]
            for p in range(d):
                u = 0.0
                for q in range(p + 1):
                    u += inverses[c, p, q] * gaps[c, q]
                square += u * u
            joint[c] = offsets[c] - 0.5 * square
            top = max(top, joint[c])
        total = 0.0
        for c in range(k):
            joint[c] = math.exp(joint[c] - top)
            total += joint[c]
        level += mass[i] * (top + math.log(total))
        for c in range(k):
            r = mass[i] * joint[c] / total
            if r == 0.0:
                continue
            sums[c, 0] += r
            for p in range(d):
                sums[c, 1 + p] += r * gaps[c, p]
                for q in range(d):
                    sums[c, 1 + d + p * d + q] += r * gaps[c, p] * gaps[c, q]
    return level


def warm_nearest() -> None:
    """Compile the kernel on something tiny."""
    pair = Mixture([0.5, 0.5], [[-1.0], [1.0]], [[[1.0]], [[1.0]]])
    nearest_mixture(pair, 1, FULL)
