"""Extends a fit in a projection to all d dimensions, by linear algebra.

Above `equations`, below `moments`. Moitra and Valiant learn a mixture along one direction and
along others near it, and read the d-dimensional parameters off the differences, pairing the
components of one direction with those of the next. In the limit of directions ever nearer the
differences become derivatives, and what they read off becomes a linear system. Which component
is which never needs to be found: the unknowns of each are the coefficients of its own column.

Notes
-----
Let S = U^T x be the projection and Y, Z other coordinates. Within component j all are jointly
Gaussian, so by Stein's identity, with c_SY = Cov(S, Y) and expectations under the component,

    E[f(S) Y]   = mu_Y E f + c_SY . E grad f
    E[f(S) Y Z] = (mu_Y mu_Z + c_YZ) E f + (mu_Y c_SZ + mu_Z c_SY) . E grad f
                  + c_SY^T (E hess f) c_SZ

Sums over components, weighted, are means over the rows. The mixture of S is known; so the first
line is linear in (mu_Y, c_SY), and once those are known the second is linear in c_YZ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privgmm.arrays import Array
from privgmm.learners.moments.equations import MixtureParts, Weighting
from privgmm.learners.moments.features import Family, gathered

__all__ = ["Gathered", "gather", "reconstruct"]


class Gathered(NamedTuple):
    """The means over rows that the fit in one projection needs.

    Attributes
    ----------
    basis : (d, d)
        Orthonormal; its first m columns are the projection U.
    target : (q,)
        Of the test functions ``f_a(S)``.
    table : (q + 1, g)
        Of 1 and each ``f_a(S)``, times the other coordinates Y and their products Y Z.
    n_rows : int
    """

    basis: Array
    target: Array
    table: Array
    n_rows: int


def gather(family: Family, rows: Array, basis: Array) -> Gathered:
    """Average all that one fit needs in one pass over whitened rows (n, d)."""
    n, d = rows.shape
    m = family.n_coordinates
    turned = rows @ basis
    rest = turned[:, m:]
    y, z = np.triu_indices(d - m)
    columns = np.concatenate([np.ones((n, 1)), rest, rest[:, y] * rest[:, z]], axis=1)
    table = gathered(family, turned[:, :m], columns)
    whole = columns[:, 1:].mean(axis=0)[None]
    return Gathered(basis, table[:, 0], np.concatenate([whole, table[:, 1:]]), n)


def reconstruct(
    family: Family, means_of: Gathered, projected: MixtureParts, weights: Weighting
) -> MixtureParts:
    """Compute the mixture in all d coordinates from one in a projection.

    Parameters
    ----------
    family : Family
        Of m coordinates.
    means_of : Gathered
        From the rows.
    projected : MixtureParts
        The mixture of ``U^T x``: (k,), (k, m), (k, m, m).
    weights : Weighting
        Of the test functions at that mixture.

    Returns
    -------
    MixtureParts
        Symmetric covariances, not always positive definite.
    """
    basis, table, n = means_of.basis, means_of.table, means_of.n_rows
    d = len(basis)
    k, m = projected.means.shape
    w = projected.weights
    if m == d:
        return MixtureParts(
            w,
            projected.means @ basis.T,
            basis @ projected.covariances @ basis.T,
        )
    upper = np.triu_indices(d - m)
    expected = family.expectations(projected.means, projected.covariances)
    value = np.concatenate([np.ones((k, 1)), expected.value], axis=1)
    gradient = np.concatenate([np.zeros((k, 1, m)), expected.gradient], axis=1)
    hessian = np.concatenate([np.zeros((k, 1, m, m)), expected.hessian], axis=1)

    design = w[:, None, None] * np.concatenate([value[..., None], gradient], axis=2)
    design = design.transpose(1, 0, 2).reshape(len(table), -1)
    first = _least_squares(weights.raw @ design, weights.raw @ table[:, : d - m], n)
    first = first.reshape(k, 1 + m, d - m)
    mean, cross = first[:, 0], first[:, 1:]

    y, z = upper
    known = (
        value[..., None] * (mean[:, None, y] * mean[:, None, z])
        + np.einsum("kqa,kap->kqp", gradient, cross[:, :, z]) * mean[:, None, y]
        + np.einsum("kqa,kap->kqp", gradient, cross[:, :, y]) * mean[:, None, z]
        + np.einsum("kqab,kap,kbp->kqp", hessian, cross[:, :, y], cross[:, :, z], optimize=True)
    )
    left = table[:, d - m :] - np.einsum("k,kqp->qp", w, known)
    # pulled, by the weight of a row, towards the covariance of all rows, which is the identity
    centre = (y == z).astype(float)
    design = (w[:, None] * value).T
    left = left - design.sum(axis=1)[:, None] * centre
    second = _least_squares(weights.raw @ design, weights.raw @ left, n) + centre

    full = np.empty((k, d, d))
    full[:, :m, :m] = projected.covariances
    full[:, :m, m:] = cross
    full[:, m:, :m] = cross.swapaxes(1, 2)
    full[:, m + y, m + z] = second
    full[:, m + z, m + y] = second
    means = np.concatenate([projected.means, mean], axis=1)
    return MixtureParts(w, means @ basis.T, basis @ full @ basis.T)


def _least_squares(design: Array, right: Array, n: int) -> Array:
    """Solve for coefficients with a prior of variance 1 worth one row: all is whitened."""
    normal = design.T @ design + np.eye(design.shape[1]) / n
    return np.asarray(np.linalg.solve(normal, design.T @ right), dtype=np.float64)
