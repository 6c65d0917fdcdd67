"""Which pairs of fits can be labelled without doubt.

Two fits that match component by component may still blur: if some component of one lies almost
as near to a second component of the other, labels carried from fit to fit could disagree. The
lifted method compares two fits only if that cannot happen.
"""

from __future__ import annotations

import numpy as np

from privgmm.arrays import Array, BoolArray
from privgmm.mixture import MixtureBatch
from privgmm.spaces.lifted_pairs import LiftedGeometry, component_gaps

__all__ = ["blurred_pairs", "geometry_of"]

_PAIRS_AT_ONCE = 1 << 16
_MARGIN = 1e-3


def blurred_pairs(batch: MixtureBatch, distances: Array, clearance: float) -> BoolArray:
    """Pairs (t, t) with two components that do not match yet lie within `clearance`.

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
    # margins far wider than rounding: whatever is near a limit is counted, not inferred
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
    """The fits of a batch, a harmless one standing in where a fit failed."""
    there = batch.ok & (np.nan_to_num(batch.weights) > 0).all(axis=1)
    return LiftedGeometry(
        np.where(there[:, None], batch.weights, 1.0),
        np.where(there[:, None, None], batch.means, 0.0),
        np.where(there[:, None, None, None], batch.cholesky, np.eye(batch.n_features)),
    )
