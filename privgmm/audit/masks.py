"""Worst pairs for every mask: what leaks must lie below the price.

A mask is Gaussian noise followed by arithmetic on it. For two inputs as far apart as a stage
allows, the privacy loss of the Gaussian part is known exactly. Its
``delta(epsilon) = E[(1 - exp(epsilon - loss))+]`` is estimated by drawing and computed by
quadrature, and both must lie below the price. The space of a stage says what its mask draws; the
stage says what that costs: a Rényi curve, or lemmas about its parts.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import ks_2samp

from privgmm.audit.findings import Finding, mean_upper_bound, within
from privgmm.audit.grids import mask_scale
from privgmm.errors import InvalidInput
from privgmm.privacy.curves import RenyiCurve
from privgmm.privacy.noise import SeededNoise
from privgmm.stages.agreement.stage import Agreement

__all__ = ["exact_mask", "lemma_mask", "mask_findings", "masked_law", "sampled_mask"]

_DELTAS = (0.1, 1e-2, 1e-3)
"""Where drawn losses are held against the price: 10^5 draws see few losses that are rarer."""
_EXACT_DELTAS = (0.1, 1e-3, 1e-6, 1e-9)
"""Where quadrature is held against the price: beyond the deltas of usual budgets."""
_MISS = 1e-4
"""Chance that one upper bound is wrong; by convention, for some dozens of bounds in an audit."""
_BY_CHANCE = 1e-6
"""Chance that the law of the code is rejected although it is right; by convention."""


def mask_findings(
    stage: Agreement, label: str, *, samples: int, rng: np.random.Generator
) -> list[Finding]:
    """Run every check of a stage's mask that its price allows."""
    law = [masked_law(stage, label, rng=rng), mask_scale(stage, label, rng=rng)]
    if stage.mask_curve() is None:
        return [*law, lemma_mask(stage, label)]
    return [
        *law,
        sampled_mask(stage, label, samples=samples, rng=rng),
        exact_mask(stage, label, rng=rng),
    ]


def _name(stage: Agreement, label: str, what: str) -> str:
    return f"mask, {label}, k={stage.n_components}, d={stage.n_features}: {what}"


def _curve(stage: Agreement) -> RenyiCurve:
    curve = stage.mask_curve()
    if curve is None:
        raise InvalidInput("stage must have a Rényi price for its mask: attack its lemmas instead")
    return curve


def sampled_mask(
    stage: Agreement, label: str, *, samples: int = 100_000, rng: np.random.Generator
) -> Finding:
    """Compare the delta of all k masked components, from drawn losses, with their Rényi price."""
    k = stage.n_components
    curve = k * _curve(stage)
    pairs = stage.space.hardest_pairs(stage.gamma, stage.n_features, rng=rng)
    worst, where = 0.0, ""
    for pair in pairs:
        loss = np.zeros(samples)
        for _ in range(k):
            loss += pair.losses(samples, rng=rng)
        for delta in _DELTAS:
            epsilon = curve.epsilon(delta)
            gain = -np.expm1(np.minimum(epsilon - loss, 0.0))
            ratio = mean_upper_bound(gain, _MISS) / curve.delta(epsilon)
            if ratio > worst:
                worst, where = ratio, f"at epsilon {epsilon:.3g}"
    return within(
        _name(stage, label, "drawn"),
        "upper bound on delta(epsilon) / priced <= 1",
        worst,
        1.0,
        f"{len(pairs)} pairs, {samples} draws each; worst {where}",
    )


def exact_mask(stage: Agreement, label: str, *, rng: np.random.Generator) -> Finding:
    """Compare the exact delta of one masked component, by quadrature, with its price."""
    curve = _curve(stage)
    pairs = stage.space.hardest_pairs(stage.gamma, stage.n_features, rng=rng)
    worst, where = 0.0, ""
    for pair in pairs:
        for delta in _EXACT_DELTAS:
            epsilon = curve.epsilon(delta)
            ratio = float(pair.delta(epsilon)) / curve.delta(epsilon)
            if ratio > worst:
                worst, where = ratio, f"at epsilon {epsilon:.3g}"
    return within(
        _name(stage, label, "one component, exact"),
        "delta(epsilon) / priced <= 1",
        worst,
        1.0,
        f"{len(pairs)} pairs, delta down to {min(_EXACT_DELTAS):g}; worst {where}",
    )


def lemma_mask(stage: Agreement, label: str) -> Finding:
    """Check Lemmas F.1, F.2 and F.6 at the stage's own numbers, by quadrature.

    Each part of the mask, at distance gamma, must be (epsilon', delta')-close for the epsilon'
    that its lemma states at delta'.
    """
    pairs = stage.lemma_pairs()
    if not pairs:
        raise InvalidInput("stage must have a Rényi price for its mask, or lemmas that price it")
    return within(
        _name(stage, label, "Lemmas F.1, F.2, F.6"),
        "delta(epsilon') / delta' <= 1",
        max(float(one.pair.delta(one.price.epsilon)) / one.price.delta for one in pairs),
        1.0,
        f"gamma {stage.gamma:.2g}, delta' {pairs[0].price.delta:.2g}, by quadrature",
    )


def masked_law(
    stage: Agreement, label: str, *, samples: int = 8_000, rng: np.random.Generator
) -> Finding:
    """Compare the outputs of the code with the formula that was priced.

    One call masks `samples` equal components at once. Weights, means and variances along the
    first axis are compared with the formula written out, by the largest gap between the two
    empirical laws. Chance passes the limit once in a million runs.
    """
    space, d = stage.space, stage.n_features
    got = space.mask(space.equal_components(samples, d), rng=SeededNoise(rng))
    weights, means, variances = space.formula(samples, d, rng=rng)
    pairs = (
        (got.weights, weights / weights.sum()),
        (got.means[:, 0], means),
        (got.covariances[:, 0, 0], variances),
    )
    gap = max(float(ks_2samp(a, b).statistic) for a, b in pairs)
    return within(
        _name(stage, label, "law of the code"),
        "gap between outputs and formula (Kolmogorov)",
        gap,
        # three comparisons, each in two directions
        math.sqrt(-math.log(_BY_CHANCE / 6) / 2) * math.sqrt(2 / samples),
        f"{samples} components masked by the real code",
    )
