"""Goodness of fit: one number for the curator, from the test functions of `moments`.

Above `features`, `equations` and `projections`; it judges the fit of any learner. It depends on the
rows and is CONFIDENTIAL.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from privgmm.arrays import finite_array
from privgmm.errors import InvalidInput
from privgmm.learners.kernels import FITTED
from privgmm.learners.moments.equations import MixtureParts, weighting
from privgmm.learners.moments.features import fourier, gathered
from privgmm.learners.moments.polish import whitened
from privgmm.learners.moments.projections import aim, non_gaussian_directions
from privgmm.mixture import Mixture

__all__ = ["goodness_of_fit"]

_AIMED, _SOUGHT = 3, 6  # directions where components differ, and where rows are least Gaussian
_RIDGE, _ROWS = 1e-4, 10.0  # no single far row may decide


def goodness_of_fit(
    rows: npt.ArrayLike, mixture: Mixture, *, rng: np.random.Generator | int | None = 0
) -> float:
    """Compute the worst chi-square per degree of freedom over directions.

    It is near 1 for a right mixture.

    Along each of some directions (where the mixture's components differ most, and where the rows
    are least Gaussian) the empirical characteristic function is compared with the mixture's, each
    frequency weighted by the inverse covariance of all. At the truth the largest of them is 1 to 2
    (rarely 3); heavy tails, outliers or too few components give 3 to thousands. It grows with
    the number of rows whenever the model is not exactly right, and it says nothing about how
    precise a right fit is.

    Parameters
    ----------
    rows : array-like (n, d)
    mixture : Mixture
        Of d features.
    rng : Generator, int or None
        Chooses the directions.

    Examples
    --------
    >>> truth = Mixture([0.4, 0.6], [[0.0], [4.0]], [[[1.0]], [[2.0]]])
    >>> rows = truth.sample(2000, rng=0)
    >>> goodness_of_fit(rows, truth) < 2
    True
    >>> goodness_of_fit(rows, Mixture([1.0], [rows.mean(axis=0)], [[[rows.var()]]])) > 5
    True
    """
    x = finite_array(rows, "rows", (None, mixture.n_features))
    if len(x) < x.shape[1] + 2:
        raise InvalidInput(f"rows must be more than the columns plus one, got {x.shape}")
    generator = np.random.default_rng(rng)
    code, white = whitened(x, 0)
    if code != FITTED:
        raise InvalidInput(
            "rows must have full rank: drop columns that are constant or combinations of others"
        )
    means = solve_triangular(white.root, (mixture.means - white.mean).T, lower=True).T
    roots = np.stack([solve_triangular(white.root, c, lower=True) for c in mixture.cholesky])
    parts = MixtureParts(mixture.weights, means, roots @ roots.swapaxes(1, 2))
    found = [non_gaussian_directions(white.rows, _SOUGHT, generator)]
    if mixture.n_components > 1:
        found.append(aim(parts)[:, :_AIMED])
    family = fourier(1, False)
    ones = np.ones((len(x), 1))
    worst = 0.0
    for u in np.concatenate(found, axis=1).T:
        along = MixtureParts(
            parts.weights,
            (parts.means @ u)[:, None],
            np.einsum("a,kab,b->k", u, parts.covariances, u)[:, None, None],
        )
        weights = weighting(family, along, ridge=max(_RIDGE, _ROWS / len(x)))
        expected = along.weights @ family.expectations(along.means, along.covariances).value
        seen = gathered(family, (white.rows @ u)[:, None], ones)[:, 0]
        residual = weights.factor @ (seen - expected)
        worst = max(worst, len(x) * float(residual @ residual) / float(weights.rank))
    return worst
