"""Distances between components and between mixtures (Definition 1.4, Sections 4 and 5).

`dist_comp` compares two weighted Gaussians by their parameters (Eq. 4), `dist_param` two
mixtures by their best-matched components, and `dist_gmm` two mixtures by weights and exact total
variation. One pair at a time; `all_pairs` does all pairs of a batch at once.

Everything starts from Cholesky factors. With ``Sigma_i = L_i L_i^T`` and ``M = L_1^-1 L_2``,
``M M^T`` has the spectrum of ``Sigma_1^-1 Sigma_2``; and with ``E = M - I = L_1^-1 (L_2 - L_1)``,
``M M^T - I = E + E^T + E E^T`` loses nothing when the two covariances are close.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, IntArray, finite_array
from privgmm.distances.matching import bottleneck_matching
from privgmm.distances.total_variation import gaussian_tv
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture

__all__ = [
    "component_distances",
    "dist_comp",
    "dist_gmm",
    "dist_param",
    "forward_substitution",
    "matched",
]

ComponentLike = tuple[float, npt.ArrayLike, npt.ArrayLike]


def forward_substitution(lower: Array, right: Array) -> Array:
    """Solve ``lower x = right`` by forward substitution, broadcasting over leading axes.

    Substitution, not a general solver: its error follows the rows' own scales, so columns of
    the data in very different units do no harm.
    """
    shape = np.broadcast_shapes(lower.shape[:-2], right.shape[:-2])
    solution = np.empty((*shape, *right.shape[-2:]))
    for r in range(lower.shape[-1]):
        known = (lower[..., r, None, :r] @ solution[..., :r, :])[..., 0, :]
        solution[..., r, :] = (right[..., r, :] - known) / lower[..., r, r, None]
    return solution


def _one_sided(mean1: Array, factor1: Array, mean2: Array, factor2: Array) -> Array:
    """Compute the larger of ``‖mu_1 - mu_2‖_Sigma1`` and the covariances' distance.

    The latter is ``‖Sigma_1^-1/2 Sigma_2 Sigma_1^-1/2 - I‖_F``; arguments broadcast.
    """
    E = forward_substitution(factor1, factor2 - factor1)
    excess = E + E.swapaxes(-1, -2) + E @ E.swapaxes(-1, -2)
    covariance = np.sqrt(np.einsum("...ij,...ij->...", excess, excess))
    y = forward_substitution(factor1, (mean2 - mean1)[..., None])[..., 0]
    return np.asarray(np.maximum(covariance, np.sqrt(np.einsum("...i,...i->...", y, y))))


def component_distances(
    weights1: Array,
    means1: Array,
    factors1: Array,
    weights2: Array,
    means2: Array,
    factors2: Array,
) -> Array:
    """Compute dist_Comp (Eq. 4) from Cholesky factors, broadcasting over leading axes.

    Parameters
    ----------
    weights1, weights2 : arrays (...)
    means1, means2 : arrays (..., d)
    factors1, factors2 : arrays (..., d, d)
        Lower Cholesky factors of the covariances.

    Notes
    -----
    Values too large for a float come out as inf, never as NaN.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.maximum(
            _one_sided(means1, factors1, means2, factors2),
            _one_sided(means2, factors2, means1, factors1),
        )
    both = np.maximum(np.abs(weights1 - weights2), far)
    return np.asarray(np.where(np.isnan(both), np.inf, both))


def dist_comp(first: ComponentLike, second: ComponentLike) -> float:
    """Compute dist_Comp of two components (Section 4, Eq. 4).

    Parameters
    ----------
    first, second : Component or (weight, mean (d,), covariance (d, d))

    Returns
    -------
    float
        The largest of ``|w_1 - w_2|``,
        ``dist_Mean = max over i of ‖mu_1 - mu_2‖_Sigma_i``, ``‖v‖_S² = v^T S^-1 v``, and
        ``dist_Cov = max(‖Sigma_1^1/2 Sigma_2^-1 Sigma_1^1/2 - I‖_F, same with 1 and 2 swapped)``.

    Notes
    -----
    A semimetric with a 1-restricted 3/2-approximate triangle inequality (Lemma 4.1). More is
    true: ``ln(1 + dist_Comp)`` is a metric.

    Examples
    --------
    >>> dist_comp((0.5, [0.0], [[1.0]]), (0.5, [3.0], [[4.0]]))
    3.0
    """
    w1, m1, l1 = _parts(first, "first")
    w2, m2, l2 = _parts(second, "second")
    if m1.shape != m2.shape:
        raise InvalidInput(
            f"components must have the same dimension, got {m1.shape[0]} and {m2.shape[0]}"
        )
    return float(component_distances(w1, m1, l1, w2, m2, l2))


def _parts(component: ComponentLike, name: str) -> tuple[Array, Array, Array]:
    if not isinstance(component, tuple) or len(component) != 3:
        raise InvalidInput(f"{name} must be a Component or a (weight, mean, covariance) tuple")
    weight = finite_array(component[0], f"{name} weight", ())
    mean = finite_array(component[1], f"{name} mean", (None,))
    covariance = finite_array(component[2], f"{name} covariance", (len(mean), len(mean)))
    # a mixture of one component, so that its constructor checks the covariance
    return weight, mean, Mixture([1.0], mean[None], covariance[None]).cholesky[0]


def _comparable(first: Mixture, second: Mixture) -> None:
    for name, value in (("first", first), ("second", second)):
        if not isinstance(value, Mixture):
            raise InvalidInput(f"{name} must be a Mixture, got {type(value).__name__}")
    if first.means.shape != second.means.shape:
        raise InvalidInput(
            "mixtures must have the same number of components and dimension, got "
            f"(k, d) = {first.means.shape} and {second.means.shape}"
        )


def dist_param(first: Mixture, second: Mixture) -> float:
    """Compute dist_Param of two mixtures (Section 5): `dist_comp` over the best matching.

    Zero if and only if the mixtures are equal up to the order of their components.
    """
    _comparable(first, second)
    table = component_distances(
        first.weights[:, None],
        first.means[:, None],
        first.cholesky[:, None],
        second.weights[None],
        second.means[None],
        second.cholesky[None],
    )
    return bottleneck_matching(table).value


def dist_gmm(first: Mixture, second: Mixture) -> float:
    """Compute dist_GMM of two mixtures (Definition 1.4), with the exact total variation.

    ``min over pi of max over i of max(|w_i - w'_pi(i)|, TV(component i, component pi(i)))``,
    in [0, 1].
    """
    return float(matched(first, second)[1].max())


def matched(mixture: Mixture, reference: Mixture) -> tuple[IntArray, Array]:
    """Find which component of the reference each one is, and how far from it.

    Returns
    -------
    partner : array (k,)
    distance : array (k,)
        ``max(|w - w'|, TV)``; the largest is dist_GMM (Definition 1.4).
    """
    _comparable(mixture, reference)
    variation = gaussian_tv(
        mixture.means[:, None],
        mixture.covariances[:, None],
        reference.means[None],
        reference.covariances[None],
    )
    table = np.maximum(np.abs(mixture.weights[:, None] - reference.weights[None]), variation)
    partner = bottleneck_matching(table).permutation
    return partner, table[np.arange(len(partner)), partner]
