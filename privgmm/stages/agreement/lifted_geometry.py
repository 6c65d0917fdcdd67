"""Compute with lifted components: a weighted Gaussian as one positive definite matrix.

The component (w, mu, Sigma) in d dimensions corresponds to the p×p matrix, p = d + 1,

    T = w [[Sigma + mu mu^T, mu], [mu^T, 1]],

and every positive definite matrix is one component: w is the corner, mu the last column over w.
Distance: ``dist(T_1, T_2) = ‖ln eigenvalues(T_1^-1 T_2)‖_2``, the affine-invariant metric. It is a
true metric, unchanged by any affine map of the data, and the space it makes has non-positive
curvature, so that weighted means (Karcher means) exist and are unique. `lifted` masks and
averages in it; `lifted_pairs` computes all pairs of a batch.

T itself is never formed: it would square the condition number and cancel against the square of
the mean. The code holds roots ``T = U U^T``, in the block form ``U = [[C, b], [0, beta]]`` with C
lower triangular: ``beta = sqrt w``, ``b = sqrt(w) mu``, ``C = sqrt(w) L``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, finite_array
from privgmm.distances.parameters import forward_substitution
from privgmm.errors import InvalidInput
from privgmm.mixture import cholesky_of_root
from privgmm.stages.agreement.lifted_pairs import component_gaps, pairwise_lifted

__all__ = [
    "KarcherMean",
    "block_form",
    "component_gaps",
    "karcher_mean",
    "lift",
    "lifted_distance",
    "pairwise_lifted",
    "unlift",
]

_CLOSE = 0.5
"""Norm of ``N N^T - I`` up to which its eigenvalues give the distance without loss."""
_STEPS = 500
"""Choice: far more than convergence takes, so that the loop ends on any data."""
# Steps shortened this much and still uphill: rounding is all that is left.
_SMALLEST = 1e-4


def lift(weights: npt.ArrayLike, means: npt.ArrayLike, cholesky: npt.ArrayLike) -> Array:
    """Compute roots ``U = sqrt(w) [[L, mu], [0, 1]]`` of lifted components.

    Parameters
    ----------
    weights : array-like (...)
        Positive; 0 has no lifted form.
    means : array-like (..., d)
    cholesky : array-like (..., d, d)
        Lower Cholesky factors L of the covariances.

    Returns
    -------
    array (..., d+1, d+1)
    """
    w = finite_array(weights, "weights")
    m = finite_array(means, "means")
    d = m.shape[-1] if m.ndim else 0
    if d == 0 or m.shape[:-1] != w.shape:
        raise InvalidInput(f"means must have shape {w.shape} + (d,), got {m.shape}")
    factor = finite_array(cholesky, "cholesky", (*m.shape, d))
    if (w <= 0).any():
        raise InvalidInput("weights must be positive to be lifted: drop components of weight 0")
    root = np.zeros((*w.shape, d + 1, d + 1))
    root[..., :d, :d] = factor
    root[..., :d, d] = m
    root[..., d, d] = 1.0
    root *= np.sqrt(w)[..., None, None]
    return root


def unlift(roots: npt.ArrayLike) -> tuple[Array, Array, Array]:
    """Recover the component from any square root of its lifted matrix; inverse of `lift`.

    Parameters
    ----------
    roots : array-like (..., d+1, d+1)
        Any A with ``A A^T = T``, triangular or not.

    Returns
    -------
    weights (...), means (..., d), cholesky (..., d, d)
    """
    root = block_form(roots)
    beta = root[..., -1, -1]
    return (
        beta**2,
        root[..., :-1, -1] / beta[..., None],
        root[..., :-1, :-1] / beta[..., None, None],
    )


def block_form(roots: npt.ArrayLike) -> Array:
    """Turn A into ``A Q = [[C, b], [0, beta]]``, Q orthogonal, C lower, diagonal positive.

    One reflection clears the last row; a triangular factorisation does the rest. ``A A^T`` is not
    formed, so nothing is subtracted that was squared before. A root already in this form comes
    back bit for bit.
    """
    A = finite_array(roots, "roots")
    if A.ndim < 2 or A.shape[-1] != A.shape[-2] or A.shape[-1] < 2:
        raise InvalidInput(f"roots must have shape (..., d+1, d+1) with d >= 1, got {A.shape}")
    last = A[..., -1, :]
    length = np.linalg.norm(last, axis=-1)
    reflector = last.copy()
    reflector[..., -1] += np.where(last[..., -1] < 0, -length, length)
    reflector[~last[..., :-1].any(axis=-1)] = 0.0
    square = np.einsum("...i,...i->...", reflector, reflector)
    unit = reflector * (2 / np.where(square > 0, square, 1.0))[..., None]
    along = np.einsum("...ij,...j->...i", A, reflector)
    turned: Array = A - along[..., :, None] * unit[..., None, :]
    turned[..., :, -1] *= np.where(turned[..., -1, -1] < 0, -1.0, 1.0)[..., None]
    turned[..., -1, :-1] = 0.0
    turned[..., :-1, :-1] = cholesky_of_root(turned[..., :-1, :-1])
    if not (np.diagonal(turned, axis1=-2, axis2=-1) > 0).all():
        raise InvalidInput("roots must be invertible: a component is flat or has no weight")
    return turned


def _relative(first: Array, second: Array) -> Array:
    """Compute ``U_1^-1 U_2 - I`` of roots in block form, from differences only."""
    E = np.zeros(np.broadcast_shapes(first.shape, second.shape))
    ratio = (second[..., -1, -1] - first[..., -1, -1]) / first[..., -1, -1]
    start, end = first[..., -1, -1, None], second[..., -1, -1, None]
    # sqrt(w_2) (mu_2 - mu_1): data far from the origin make the two products nearly equal.
    shift = _cross(second[..., :-1, -1], start, first[..., :-1, -1], end) / start
    triangle = first[..., :-1, :-1]
    E[..., :-1, :-1] = forward_substitution(triangle, second[..., :-1, :-1] - triangle)
    E[..., :-1, -1] = forward_substitution(triangle, shift[..., None])[..., 0]
    E[..., -1, -1] = ratio
    return E


def _cross(a: Array, b: Array, c: Array, d: Array) -> Array:
    """Compute ``a b - c d`` with both products' rounding errors put back (Dekker)."""
    left, right = a * b, c * d
    return np.asarray((left - right) + (_lost(a, b, left) - _lost(c, d, right)))


def _lost(x: Array, y: Array, product: Array) -> Array:
    """Compute ``x y - product`` exactly, product being x y rounded; 0 where halves overflow."""
    splitter = 2.0**27 + 1
    high_x, high_y = x * splitter, y * splitter
    high_x, high_y = high_x - (high_x - x), high_y - (high_y - y)
    low_x, low_y = x - high_x, y - high_y
    lost = ((high_x * high_y - product) + high_x * low_y + low_x * high_y) + low_x * low_y
    return np.where(np.isfinite(lost), lost, 0.0)


def lifted_distance(first: npt.ArrayLike, second: npt.ArrayLike) -> Array:
    """Compute the affine-invariant distance of lifted components, given by any roots.

    Parameters
    ----------
    first, second : array-like (..., p, p)
        Broadcast over leading axes.

    Returns
    -------
    array (...)
        ``‖ln eigenvalues(T_1^-1 T_2)‖_2``; inf where it overflows.

    Notes
    -----
    With ``N = U_1^-1 U_2 = I + E``: close pairs use the eigenvalues delta of
    ``N N^T - I = E + E^T + E E^T`` and ``ln(1 + delta)``, far ones the singular values of N above 1
    and those of ``N^-1 = U_2^-1 U_1`` above 1, so that neither end of the spectrum is lost.
    """
    U1, U2 = block_form(first), block_form(second)
    if U1.shape[-1] != U2.shape[-1]:
        raise InvalidInput(f"roots must have the same size, got {U1.shape[-1]} and {U2.shape[-1]}")
    with np.errstate(over="ignore", invalid="ignore"):
        E = _relative(U1, U2)
        K = E + E.swapaxes(-1, -2) + E @ E.swapaxes(-1, -2)
        size = np.linalg.norm(K, axis=(-2, -1))
        far = ~(size < _CLOSE)
    logs = np.empty(E.shape[:-1])
    logs[~far] = np.log1p(np.linalg.eigvalsh(K[~far]))
    if far.any():
        with np.errstate(over="ignore", invalid="ignore"):
            back = np.broadcast_to(_relative(U2, U1), E.shape)[far]
        logs[far] = _far_logs(E[far], back)
    return np.asarray(np.linalg.norm(logs, axis=-1))


def _far_logs(forth: Array, back: Array) -> Array:
    """Compute ``2 ln singular values`` of ``N = I + forth``, where ``N^-1 = I + back``."""
    identity = np.eye(forth.shape[-1])
    logs = np.full(forth.shape[:-1], np.inf)
    fine = np.isfinite(forth).all(axis=(-2, -1)) & np.isfinite(back).all(axis=(-2, -1))
    large = np.linalg.svd(identity + forth[fine], compute_uv=False)
    inverse = np.linalg.svd(identity + back[fine], compute_uv=False)[..., ::-1]
    logs[fine] = 2 * np.where(large >= 1, np.log(np.maximum(large, 1.0)), -np.log(inverse))
    return logs


class KarcherMean(NamedTuple):
    """A mean and how far it can be from the true one.

    ``root`` (p, p) in block form; ``residual_bound``, in the lifted distance.
    """

    root: Array
    residual_bound: float


def karcher_mean(
    roots: npt.ArrayLike, weights: npt.ArrayLike, tolerance: float = 1e-12
) -> KarcherMean:
    """Find the weighted mean of lifted components, the X of least ``sum of v_i dist²(X, T_i)``.

    Parameters
    ----------
    roots : array-like (n, p, p)
        Any roots of the T_i.
    weights : array-like (n,)
        v_i >= 0, not all zero; they are normalised.
    tolerance : float
        The residual bound at which to stop. Where rounding stops it earlier, the best mean that
        was reached is returned, with its bound: a mean that is computed after the test has
        passed must not fail on some data, or the failure would reveal something about them.

    Notes
    -----
    In coordinates of one of the T_i, where the others are near I and well conditioned, the mean
    is ``Y Y^T`` and ``f = ½ sum v_i dist²`` has the gradient ``-G``,
    ``G = sum v_i ln(N_i N_i^T)``, ``N_i = Y^-1 U_ref^-1 U_i``. The step is ``Y ← Y exp(h G / 2)``.
    The second derivatives of f lie between 1 and ``H = sum v_i (c_i/2) coth(c_i/2)``, c_i the
    spread of the eigenvalues of ``ln(N_i N_i^T)``, and ``h = 2/(1 + H)`` is the best fixed step for
    such bounds; it is halved whenever the gradient did not shrink. As f is 1-strongly convex, the
    true mean is within ``‖G‖_F`` of the present one. The bound returned adds what rounding may have
    hidden in G. Storing the root in the data's own coordinates rounds once more, as storing any
    component does.
    """
    U, v = _mean_input(roots, weights, tolerance)
    p = U.shape[-1]
    reference = U[np.argmax(v)]
    identity = np.eye(p)
    members = identity + _relative(reference, U)
    Y, trial = identity, identity
    norm, bound, step, shrink = np.inf, np.inf, 1.0, 1.0
    G = np.zeros((p, p))
    for _ in range(_STEPS):
        left, singular, _ = np.linalg.svd(np.linalg.solve(trial, members))
        logs = 2 * np.log(singular)
        new = np.einsum("n,nij,nj,nkj->ik", v, left, logs, left)
        new_norm = float(np.linalg.norm(new))
        if new_norm < norm:
            Y, G, norm, shrink = trial, new, new_norm, min(1.0, 2 * shrink)
            half = np.maximum((logs[:, 0] - logs[:, -1]) / 2, 1e-8)
            step = 2 / (1 + float(v @ (half / np.tanh(half))))
            bound = norm + 16 * p * np.finfo(np.float64).eps * float(v @ np.exp(half))
        else:
            shrink /= 2
        if shrink < _SMALLEST or bound <= tolerance:
            break
        values, vectors = np.linalg.eigh((G + G.T) / 2)
        trial = Y @ (vectors * np.exp(shrink * step * values / 2)) @ vectors.T
    return KarcherMean(block_form(reference @ block_form(Y)), bound)


def _mean_input(
    roots: npt.ArrayLike, weights: npt.ArrayLike, tolerance: float
) -> tuple[Array, Array]:
    A = finite_array(roots, "roots")
    if A.ndim != 3 or len(A) == 0:
        raise InvalidInput(f"roots must have shape (n, p, p) with n >= 1, got {A.shape}")
    v = finite_array(weights, "weights", (len(A),))
    if (v < 0).any() or not v.any():
        raise InvalidInput("weights must be >= 0 and not all zero")
    if not tolerance > 0:
        raise InvalidInput(f"tolerance must be positive, got {tolerance!r}")
    counted = v > 0
    return block_form(A[counted]), v[counted] / v[counted].sum()
