"""Worst pairs for every mask: what leaks must lie below what was priced.

A mask is Gaussian noise followed by arithmetic on it. For two inputs as far apart as the plan
allows, the privacy loss of the Gaussian part is known exactly; its expectation
``delta(epsilon) = E[(1 - exp(epsilon - loss))+]`` is estimated by drawing and computed by
quadrature, and both must lie below the curve the plan was priced with.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import ks_2samp

from privgmm.arrays import Array
from privgmm.audit.findings import Finding, mean_upper_bound, within
from privgmm.distances.total_variation import gaussian_hockey_stick
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture
from privgmm.privacy.curves import RenyiCurve, lifted_mask_curve, paper_mask_curve
from privgmm.privacy.noise import SeededNoise
from privgmm.stages.agreement import lemmas as constants
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.lifted_space import Anchored, LiftedSpace
from privgmm.stages.agreement.paper_space import PaperSpace

__all__ = [
    "exact_mask",
    "masked_law",
    "paper_lemmas",
    "sampled_mask",
]

_DELTAS = (0.1, 1e-2, 1e-3)
_EXACT_DELTAS = (0.1, 1e-3, 1e-6, 1e-9)
_MISS = 1e-4


def _directions(size: int, rng: np.random.Generator) -> list[Array]:
    """Unit vectors: one axis, all axes alike, mixed signs, random; each with both signs."""
    shapes = [np.eye(size)[0], np.ones(size)]
    if size > 1:
        shapes += [np.where(np.arange(size) % 2, -1.0, 1.0), rng.standard_normal(size)]
    return [sign * s / np.linalg.norm(s) for s in shapes for sign in (-1.0, 1.0)]


def _matrix_law(roots: Array, eta: float) -> tuple[Array, Array]:
    """Means and variances (p^2,) of the entries of ``diag(roots) (I + eta G)``."""
    p = roots.size
    return np.diag(roots).reshape(-1), np.repeat((eta * roots) ** 2, p)


def _lifted_pairs(
    space: LiftedSpace, gamma: float, d: int, rng: np.random.Generator
) -> list[tuple[Array, Array, Array, Array]]:
    """Gaussian parts of masked components gamma apart: ``ln lam`` of length gamma."""
    p = d + 1
    base = _matrix_law(np.ones(p), space.eta)
    return [(*base, *_matrix_law(np.exp(gamma * u / 2), space.eta)) for u in _directions(p, rng)]


def _paper_pairs(
    space: PaperSpace, gamma: float, d: int, rng: np.random.Generator
) -> list[tuple[Array, Array, Array, Array]]:
    """Gaussian parts of B_Comp at dist_Comp gamma: weight, mean and covariance all move."""
    pairs = []
    for u in _directions(d, rng):
        lam = np.where(u > 0, 1 + gamma * u, 1 / (1 - gamma * u))
        worst = max(np.linalg.norm(lam - 1), np.linalg.norm(1 / lam - 1))
        lam = 1 + (lam - 1) * min(1.0, gamma / float(worst))
        for v in _directions(d, rng)[:2]:
            # the shift must be within gamma in the norms of both covariances
            shift = gamma * v / max(1.0, float(np.linalg.norm(v / np.sqrt(lam))))
            ones = np.ones(d)
            laws = []
            for weight, mean, roots in ((0.0, 0 * shift, ones), (gamma, shift, np.sqrt(lam))):
                m, s = _matrix_law(roots, space.eta_cov)
                laws.append(np.concatenate([[weight], mean, m]))
                laws.append(
                    np.concatenate([[space.eta_weight**2], (space.eta_mean * roots) ** 2, s])
                )
            pairs.append((laws[0], laws[1], laws[2], laws[3]))
    return pairs


def _pairs(
    plan: Plan, space: PaperSpace | LiftedSpace, rng: np.random.Generator
) -> tuple[list[tuple[Array, Array, Array, Array]], RenyiCurve]:
    """Worst pairs of one component as `space` masks them, and the price `plan` put on one."""
    d = plan.n_features
    if isinstance(plan.space, LiftedSpace) and isinstance(space, LiftedSpace):
        curve = lifted_mask_curve(plan.gamma, plan.space.eta, d + 1)
        return _lifted_pairs(space, plan.gamma, d, rng), curve
    if isinstance(plan.space, PaperSpace) and isinstance(space, PaperSpace):
        gamma = math.expm1(2 * math.log1p(plan.tau))
        s = plan.space
        curve = paper_mask_curve(gamma, s.eta_weight, s.eta_mean, s.eta_cov, d)
        return _paper_pairs(space, gamma, d, rng), curve
    raise InvalidInput("space must be of the plan's own kind")


def sampled_mask(
    plan: Plan,
    *,
    space: PaperSpace | LiftedSpace | None = None,
    samples: int = 100_000,
    rng: np.random.Generator,
) -> Finding:
    """Monte-Carlo delta of all k masked components at once, against their Rényi price.

    `space` draws the noise (the plan's own unless a broken one is tried); the plan prices it.
    """
    k = plan.n_components
    pairs, one = _pairs(plan, plan.space if space is None else space, rng)
    curve = k * one
    worst, where = 0.0, ""
    for m1, s1, m2, s2 in pairs:
        loss = np.zeros(samples)
        for _ in range(k):
            for j in range(m1.size):
                x = m1[j] + math.sqrt(s1[j]) * rng.standard_normal(samples)
                loss += (x - m2[j]) ** 2 / (2 * s2[j]) - (x - m1[j]) ** 2 / (2 * s1[j])
                loss += math.log(s2[j] / s1[j]) / 2
        for delta in _DELTAS:
            epsilon = curve.epsilon(delta)
            gain = -np.expm1(np.minimum(epsilon - loss, 0.0))
            ratio = mean_upper_bound(gain, _MISS) / curve.delta(epsilon)
            if ratio > worst:
                worst, where = ratio, f"at epsilon {epsilon:.3g}"
    return within(
        f"mask, {plan.method}, k={k}, d={plan.n_features}: drawn",
        "upper bound on delta(epsilon) / priced <= 1",
        worst,
        1.0,
        f"{len(pairs)} pairs, {samples} draws each; worst {where}",
    )


def exact_mask(
    plan: Plan, *, space: PaperSpace | LiftedSpace | None = None, rng: np.random.Generator
) -> Finding:
    """The hockey-stick divergence of one masked component by quadrature, against its price."""
    pairs, curve = _pairs(plan, plan.space if space is None else space, rng)
    worst, where = 0.0, ""
    for m1, s1, m2, s2 in pairs:
        for delta in _EXACT_DELTAS:
            epsilon = curve.epsilon(delta)
            exact = float(gaussian_hockey_stick(m1, np.diag(s1), m2, np.diag(s2), epsilon))
            if exact > worst * curve.delta(epsilon):
                worst, where = exact / curve.delta(epsilon), f"at epsilon {epsilon:.3g}"
    return within(
        f"mask, {plan.method}, k={plan.n_components}, d={plan.n_features}: one component, exact",
        "delta(epsilon) / priced <= 1",
        worst,
        1.0,
        f"{len(pairs)} pairs, delta down to {min(_EXACT_DELTAS):g}; worst {where}",
    )


def paper_lemmas(plan: Plan, *, space: PaperSpace | None = None) -> Finding:
    """Lemmas F.1, F.2 and F.6 at the plan's own numbers, by quadrature.

    Each of R_W, R_Mean, R_Cov at distance gamma must be (epsilon', delta')-close for the
    epsilon' that the lemma states at ``delta' = delta / (6 k)``.
    """
    if not isinstance(plan.test, PopulousTest) or not isinstance(plan.space, PaperSpace):
        raise InvalidInput("the lemmas of Appendix F price method 'paper' only")
    priced, drawn = plan.space, plan.space if space is None else space
    d, gamma = plan.n_features, 2 * constants.TRIANGLE_FACTOR * plan.tau
    part = plan.test.delta / (6 * plan.n_components)
    low = 1 / (1 + gamma)
    eye, stretch = np.eye(d), np.ones(d)
    stretch[0] = low
    shift = np.zeros(d)
    shift[-1] = gamma * (math.sqrt(low) if d == 1 else 1.0)
    m1, s1 = _matrix_law(np.ones(d), drawn.eta_cov)
    m2, s2 = _matrix_law(np.sqrt(stretch), drawn.eta_cov)
    mean = drawn.eta_mean**2
    weight = np.array([[drawn.eta_weight**2]])
    trials = (
        (
            constants.epsilon_weight(gamma, priced.eta_weight, part),
            (np.zeros(1), weight, np.array([gamma]), weight),
        ),
        (
            constants.epsilon_mean(gamma, priced.eta_mean, part),
            (np.zeros(d), mean * eye, shift, mean * np.diag(stretch)),
        ),
        (
            constants.epsilon_covariance(gamma, priced.eta_cov, part, d),
            (m1, np.diag(s1), m2, np.diag(s2)),
        ),
    )
    worst = 0.0
    for epsilon, (a, b, c, e) in trials:
        for one, two in (((a, b), (c, e)), ((c, e), (a, b))):
            exact = float(gaussian_hockey_stick(*one, *two, epsilon))
            worst = max(worst, exact / part)
    return within(
        f"mask, paper, k={plan.n_components}, d={d}: Lemmas F.1, F.2, F.6",
        "delta(epsilon') / delta' <= 1",
        worst,
        1.0,
        f"gamma {gamma:.2g}, delta' {part:.2g}, by quadrature",
    )


def masked_law(
    plan: Plan,
    *,
    space: PaperSpace | LiftedSpace | None = None,
    samples: int = 20_000,
    rng: np.random.Generator,
) -> Finding:
    """Does the code draw the law that was priced? Its outputs against the bare formula.

    One call masks `samples` equal components at once. Weights, means and variances along the
    first axis are compared with ``(I + eta G)(I + eta G)^T`` written out, by the largest gap
    between the two empirical laws; the limit is passed by chance once in a million.
    """
    mask = plan.space if space is None else space
    d = plan.n_features
    got: Mixture
    if isinstance(mask, LiftedSpace) and isinstance(plan.space, LiftedSpace):
        item = Anchored(
            np.full(samples, 1 / samples),
            np.zeros((samples, d)),
            np.broadcast_to(np.eye(d), (samples, d, d)),
            np.broadcast_to(np.eye(d + 1), (samples, d + 1, d + 1)),
        )
        got = mask.mask(item, rng=SeededNoise(rng))
        root = np.eye(d + 1) + plan.space.eta * rng.standard_normal((samples, d + 1, d + 1))
        square = root @ root.swapaxes(-1, -2)
        weights = square[:, d, d]
        means = square[:, 0, d] / weights
        variances = square[:, 0, 0] / weights - means**2
    elif isinstance(mask, PaperSpace) and isinstance(plan.space, PaperSpace):
        etas = plan.space
        start = Mixture(
            np.full(samples, 1 / samples),
            np.zeros((samples, d)),
            np.broadcast_to(np.eye(d), (samples, d, d)),
        )
        got = mask.mask(start, rng=SeededNoise(rng))
        weights = np.maximum(1 / samples + etas.eta_weight * rng.standard_normal(samples), 0.0)
        means = etas.eta_mean * rng.standard_normal(samples)
        root = np.eye(d) + etas.eta_cov * rng.standard_normal((samples, d, d))
        variances = np.einsum("nj,nj->n", root[:, 0], root[:, 0])
    else:
        raise InvalidInput("space must be of the plan's own kind")
    pairs = (
        (got.weights, weights / weights.sum()),
        (got.means[:, 0], means),
        (got.covariances[:, 0, 0], variances),
    )
    gap = max(float(ks_2samp(a, b).statistic) for a, b in pairs)
    return within(
        f"mask, {plan.method}, k={plan.n_components}, d={d}: law of the code",
        "gap between outputs and formula (Kolmogorov)",
        gap,
        math.sqrt(-math.log(1e-6 / 6) / 2) * math.sqrt(2 / samples),
        f"{samples} components masked by the real code",
    )
