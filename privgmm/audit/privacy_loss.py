"""Privacy losses: what the noise of a plan tells two data sets apart by, drawn and measured.

A mask draws Gaussian numbers and then squares and shuffles them into a mixture. Whoever sees the
numbers themselves sees more than is ever published, and for them everything is exact: two
Gaussian vectors, their likelihood ratio, and the delta at any epsilon. `guessing` plays with it;
here losses are also drawn at random and set against the curve that a plan was priced by.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import block_diag, solve_triangular

from privgmm.arrays import Array, frozen
from privgmm.distances.matching import bottleneck_matching
from privgmm.distances.total_variation import gaussian_hockey_stick
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.agreement.lifted_geometry import lift, lifted_distance, unlift
from privgmm.stages.agreement.lifted_space import Anchored, LiftedSpace
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.votes import AgreementTest

__all__ = [
    "GaussianPair",
    "MeasuredDelta",
    "farthest_from",
    "mask_pair",
    "masked_from",
    "measured_delta",
    "whole_losses",
    "worst_pair",
]


@dataclasses.dataclass(frozen=True, eq=False)
class GaussianPair:
    """What is seen if the data set is A, and if it is B: two Gaussian vectors.

    Parameters
    ----------
    mean_a, mean_b : array (m,)
    root_a, root_b : array (m, m)
        Lower triangular square roots of the covariances.
    """

    mean_a: Array
    root_a: Array
    mean_b: Array
    root_b: Array

    def __post_init__(self) -> None:
        m = self.mean_a.size
        if self.mean_b.shape != (m,) or self.root_a.shape != (m, m) != self.root_b.shape:
            raise InvalidInput("both vectors of a pair must have one length")
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, frozen(getattr(self, field.name)))

    def swapped(self) -> GaussianPair:
        """The same pair with A and B exchanged."""
        return GaussianPair(self.mean_b, self.root_b, self.mean_a, self.root_a)

    def and_shift(self, sigma: float) -> GaussianPair:
        """With one number more: noise of scale sigma around 0 for A, around 1 for B."""
        one = np.array([[sigma]])
        return GaussianPair(
            np.append(self.mean_a, 0.0),
            block_diag(self.root_a, one),
            np.append(self.mean_b, 1.0),
            block_diag(self.root_b, one),
        )

    def draw(self, from_a: npt.ArrayLike, *, rng: np.random.Generator) -> Array:
        """One vector (n, m) for each entry of `from_a` (n,): from A where True, else from B."""
        side = np.asarray(from_a, dtype=bool)[:, None]
        z = rng.standard_normal((side.size, self.mean_a.size))
        of_a = self.mean_a + z @ self.root_a.T
        return np.where(side, of_a, self.mean_b + z @ self.root_b.T)

    def loss(self, seen: Array) -> Array:
        """Privacy loss ``ln p_A(v) - ln p_B(v)`` (n,) of each seen vector (n, m)."""
        return _log_density(seen, self.mean_a, self.root_a) - _log_density(
            seen, self.mean_b, self.root_b
        )

    def losses(self, n: int, *, rng: np.random.Generator) -> Array:
        """The losses of n draws from A."""
        return self.loss(self.draw(np.ones(n, dtype=bool), rng=rng))

    def delta(self, epsilon: npt.ArrayLike) -> Array:
        """``∫ max(p_A - e^epsilon p_B, 0)``, exactly: the least delta at this epsilon."""
        covariances = self.root_a @ self.root_a.T, self.root_b @ self.root_b.T
        return np.asarray(
            gaussian_hockey_stick(
                self.mean_a, covariances[0], self.mean_b, covariances[1], epsilon
            ),
            dtype=np.float64,
        )


def _log_density(seen: Array, mean: Array, root: Array) -> Array:
    """Up to the constant that both sides share."""
    u = solve_triangular(root, (seen - mean).T, lower=True)
    return np.asarray(-0.5 * np.einsum("ij,ij->j", u, u) - np.log(np.diagonal(root)).sum())


def _matrix_parts(ratios: Array, eta: float) -> tuple[Array, Array, Array, Array]:
    """``I + eta G`` against ``D (I + eta G)``, ``D = diag(sqrt ratios)``, row after row."""
    p = ratios.size
    scale = np.repeat(np.sqrt(ratios), p)
    flat = np.eye(p).reshape(-1)
    return flat, eta * np.eye(p * p), scale * flat, np.diag(eta * scale)


def _ratios(root_a: Array, root_b: Array) -> Array:
    """Eigenvalues of ``T_A^-1 T_B`` from roots ``T = U U^T``: squared singular values."""
    values = np.linalg.svd(np.linalg.solve(root_a, root_b), compute_uv=False)
    return np.asarray(values**2, dtype=np.float64)


def _joined(parts: list[tuple[Array, Array, Array, Array]]) -> GaussianPair:
    mean_a, root_a, mean_b, root_b = zip(*parts, strict=True)
    return GaussianPair(
        np.concatenate(mean_a), block_diag(*root_a), np.concatenate(mean_b), block_diag(*root_b)
    )


def mask_pair(space: LiftedSpace | PaperSpace, item_a: Any, item_b: Any) -> GaussianPair:
    """What the mask draws for either of two representatives, before it is squared and shuffled.

    Parameters
    ----------
    space : LiftedSpace or PaperSpace
    item_a, item_b : Anchored or Mixture
        What ``space.representative`` gave for the two data sets.

    Notes
    -----
    The law of ``U (I + eta G)(I + eta G)^T U^T`` does not depend on the root U of T, so the two
    roots may be turned until ``U_A^-1 U_B`` is symmetric, and in its eigenvectors the two
    matrices drawn are ``I + eta G`` and ``D (I + eta G)`` with ``D^2`` the eigenvalues of
    ``T_A^-1 T_B``. Components are matched first: the guesser is told which is which.
    """
    if isinstance(space, LiftedSpace):
        roots_a, roots_b = _full_roots(item_a), _full_roots(item_b)
        order = bottleneck_matching(lifted_distance(roots_a[:, None], roots_b[None, :]))[1]
        return _joined(
            [
                _matrix_parts(_ratios(roots_a[j], roots_b[order[j]]), space.eta)
                for j in range(len(roots_a))
            ]
        )
    k = item_a.n_components
    table = np.array(
        [
            [space.distance(_single(item_a, i), _single(item_b, j)) for j in range(k)]
            for i in range(k)
        ]
    )
    twin = item_b.permuted(bottleneck_matching(table)[1])
    parts = []
    for j in range(k):
        parts += [
            _weight_parts(space.eta_weight, item_a.weights[j], twin.weights[j]),
            (
                item_a.means[j],
                space.eta_mean * item_a.cholesky[j],
                twin.means[j],
                space.eta_mean * twin.cholesky[j],
            ),
            _matrix_parts(_ratios(item_a.cholesky[j], twin.cholesky[j]), space.eta_cov),
        ]
    return _joined(parts)


def masked_from(item_a: Anchored, item_b: Anchored, seen: Array) -> Mixture:
    """The mixture that is published when a vector (m,) of `mask_pair` was drawn, not shuffled.

    With ``U_A^-1 U_B = V D W^T``, ``U_A V (I + eta G)`` is a masked root of A and
    ``U_A V D (I + eta G)`` one of B.
    """
    roots_a, roots_b = _full_roots(item_a), _full_roots(item_b)
    k, p, _ = roots_a.shape
    order = bottleneck_matching(lifted_distance(roots_a[:, None], roots_b[None, :]))[1]
    frames = np.linalg.svd(np.linalg.solve(roots_a, roots_b[order])).U
    weights, means, cholesky = unlift(roots_a @ frames @ seen.reshape(k, p, p))
    return Mixture.from_roots(weights / weights.sum(), means, cholesky)


def farthest_from(item: Anchored, gamma: float) -> Anchored:
    """Lifted components at distance gamma from each of `item`, in the direction that costs most."""
    scale = np.ones(item.roots.shape[-1])
    scale[0] = math.exp(-gamma / 2)
    return dataclasses.replace(item, roots=item.roots * scale)


def _full_roots(item: Anchored) -> Array:
    """Roots (k, d+1, d+1) of lifted components in the coordinates of the data."""
    return np.asarray(lift(item.weights, item.means, item.cholesky) @ item.roots, dtype=np.float64)


def _single(mixture: Mixture, j: int) -> Mixture:
    return Mixture.from_roots([1.0], mixture.means[j : j + 1], mixture.cholesky[j : j + 1])


def _weight_parts(eta: float, a: float, b: float) -> tuple[Array, Array, Array, Array]:
    return np.array([a]), np.array([[eta]]), np.array([b]), np.array([[eta]])


def worst_pair(plan: Plan) -> GaussianPair:
    """The mask on two representatives as far apart as the plan allows, gamma in each component.

    Notes
    -----
    For lifted matrices the divergence is largest when one eigenvalue of ``T_A^-1 T_B`` is
    ``exp(-gamma)`` and the others are one. For Algorithm 2 each component takes the largest
    difference in weight and in mean, and one covariance ratio at ``1/(1 + gamma)``; its price
    in `renyi.paper_mask_curve` adds the three although they share one gamma.
    """
    gamma, d, space = plan.gamma, plan.n_features, plan.space
    if isinstance(space, LiftedSpace):
        ratios = np.ones(d + 1)
        ratios[0] = math.exp(-gamma)
        return _joined([_matrix_parts(ratios, space.eta)] * plan.n_components)
    ratios = np.ones(d)
    ratios[0] = 1 / (1 + gamma)
    shift = np.zeros(d)
    shift[0] = gamma
    mean = (
        np.zeros(d),
        space.eta_mean * np.eye(d),
        shift * math.sqrt(ratios[0]),
        space.eta_mean * np.diag(np.sqrt(ratios)),
    )
    one = [
        _weight_parts(space.eta_weight, 0.0, gamma),
        mean,
        _matrix_parts(ratios, space.eta_cov),
    ]
    return _joined(one * plan.n_components)


def whole_losses(plan: Plan, n: int, *, rng: np.random.Generator) -> Array:
    """Losses (n,) of all that a plan draws, each part in its worst case: test, mask, refinement.

    The test's integer moves by one, the mask's input by gamma, each refinement's sums by their
    sensitivity. Losses of independent parts add.
    """
    total = worst_pair(plan).losses(n, rng=rng)
    sigmas = [] if plan.refine is None else list(plan.refine.multipliers)
    if not isinstance(plan.test, AgreementTest):
        raise InvalidInput("method 'paper' is priced by Theorem 2.3: take 'tight' or 'lifted'")
    law = DiscreteGaussian(plan.test.sigma)
    z = rng.choice(law.support, size=n, p=law.probabilities)
    total += (2 * z + 1) / (2 * law.sigma**2)
    for sigma in sigmas:
        total += (2 * sigma * rng.standard_normal(n) + 1) / (2 * sigma**2)
    return total


@dataclasses.dataclass(frozen=True, eq=False)
class MeasuredDelta:
    """delta at each epsilon, estimated from drawn losses, with bounds that hold at 95 % each."""

    epsilons: Array
    estimate: Array
    low: Array
    high: Array


def measured_delta(losses: Array, epsilons: npt.ArrayLike) -> MeasuredDelta:
    """``delta(epsilon) = E max(0, 1 - e^(epsilon - L))`` from losses L (n,) drawn from A.

    Notes
    -----
    Terms lie in [0, 1], so the empirical Bernstein bound of Maurer and Pontil (2009) holds for
    any n: ``sqrt(2 V ln(4/0.05) / n) + 7 ln(4/0.05) / (3 (n - 1))``, V the sample variance, for
    both sides together.
    """
    levels = np.asarray(epsilons, dtype=np.float64)
    n = losses.size
    if n < 2:
        raise InvalidInput(f"losses must hold at least two numbers, got {n}")
    terms = -np.expm1(np.minimum(levels[:, None] - losses, 0.0))
    mean, spread = terms.mean(axis=1), terms.var(axis=1, ddof=1)
    log = math.log(4 / 0.05)
    width = np.sqrt(2 * spread * log / n) + 7 * log / (3 * (n - 1))
    return MeasuredDelta(levels, mean, np.maximum(mean - width, 0), np.minimum(mean + width, 1))
