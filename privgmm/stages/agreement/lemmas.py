"""Compute the paper's constants: noise and radii of Appendix F and G, sizes of Theorem 2.3.

Two forms of each lemma are kept together: how far apart two inputs may be at a given price
(``gamma``), and, the other way round, what a given distance costs (``epsilon``). Calibration
uses the first, re-pricing the second; a test checks that they are inverse.
"""

from __future__ import annotations

import dataclasses
import math

__all__ = [
    "COVARIANCE_CONSTANT",
    "TRIANGLE_FACTOR",
    "MaskPrice",
    "block_minimum",
    "epsilon_covariance",
    "epsilon_mean",
    "epsilon_weight",
    "eta_covariance",
    "eta_mean",
    "eta_weight",
    "gamma_covariance",
    "gamma_mean",
    "gamma_weight",
    "mixture_price",
    "share_of_component",
]

_LARGEST_EXPONENT = 700.0
"""``exp`` of more is beyond the largest float, ``exp(709.78)``."""

TRIANGLE_FACTOR = 1.5
"""z: dist_Param satisfies a 1-restricted 3/2-approximate triangle inequality (Lemma 5.2)."""

COVARIANCE_CONSTANT = 7.0
"""C_1 of Lemma F.5, which the paper leaves open.

With probability 1 - beta, ``||G|| <= 2 (sqrt d + sqrt ln(4/beta))``, so ``x = eta ||G||`` is at
most ``2 alpha / (C_1 sqrt d)``, and both Frobenius norms are at most
``sqrt d (1/(1-x)^2 - 1)``. For alpha <= 1 the worst case is d = 1, where
``C_1 >= 2 / (1 - 1/sqrt 2) = 6.83`` makes this at most alpha.
"""


def eta_weight(alpha: float, beta: float) -> float:
    """Compute eta_W of Lemma F.1: a weight moves by at most alpha with chance 1 - beta."""
    return alpha / math.sqrt(2 + 2 * math.log(1 / beta))


def eta_mean(alpha: float, beta: float, d: int) -> float:
    """Compute eta_Mean of Lemma F.2: a mean moves by at most alpha with chance 1 - beta."""
    return alpha / math.sqrt(3 * (d + math.log(1 / beta)))


def eta_covariance(alpha: float, beta: float, d: int) -> float:
    """Compute eta_Cov of Lemmas F.5 and F.7 (Section F.4 drops a factor sqrt d by mistake)."""
    return alpha / (
        COVARIANCE_CONSTANT * math.sqrt(d) * (math.sqrt(d) + math.sqrt(math.log(4 / beta)))
    )


def gamma_weight(eta: float, epsilon: float, delta: float) -> float:
    """Bound how far weights may be for (epsilon, delta) after R_W, by Lemma F.1."""
    return eta * epsilon / (2 * math.log(2 / delta))


def epsilon_weight(gamma: float, eta: float, delta: float) -> float:
    """Price R_W for weights gamma apart: Lemma F.1, inverted."""
    return 2 * gamma * math.log(2 / delta) / eta


def gamma_mean(eta: float, epsilon: float, delta: float) -> float:
    """Bound how far components may be for (epsilon, delta) after R_Mean, by Lemma F.2."""
    return min(0.5, math.sqrt(3) * eta * epsilon / (24 * math.log(2 / delta)))


def epsilon_mean(gamma: float, eta: float, delta: float) -> float:
    """Price R_Mean at distance gamma: Lemma F.2, inverted; infinite for gamma > 1/2."""
    if gamma > 0.5:
        return math.inf
    return 24 * gamma * math.log(2 / delta) / (math.sqrt(3) * eta)


def gamma_covariance(eta: float, epsilon: float, delta: float, d: int) -> float:
    """Bound how far covariances may be after R_Cov, by the four terms of Lemma F.6, Eq. (F.3)."""
    log = math.log(2 / delta)
    return min(
        math.sqrt(epsilon / (2 * d * (d + 1 / eta**2))),
        epsilon / (8 * d * math.sqrt(log)),
        epsilon / (8 * log),
        epsilon * eta / (12 * math.sqrt(d) * math.sqrt(log)),
    )


def epsilon_covariance(gamma: float, eta: float, delta: float, d: int) -> float:
    """Price R_Cov at distance gamma: Lemma F.6, inverted, the largest of its four prices."""
    log = math.log(2 / delta)
    return max(
        2 * d * (d + 1 / eta**2) * gamma**2,
        8 * d * math.sqrt(log) * gamma,
        8 * log * gamma,
        12 * math.sqrt(d) * math.sqrt(log) * gamma / eta,
    )


@dataclasses.dataclass(frozen=True)
class MaskPrice:
    """The price (epsilon, delta) of one masking mechanism, part of a larger account."""

    epsilon: float
    delta: float


def share_of_component(epsilon: float, delta: float, k: int) -> MaskPrice:
    """Share (epsilon, delta) of B_GMM among R_W, R_Mean and R_Cov of each component (App. G.1)."""
    part = delta / (6 * k)
    return MaskPrice(
        min(
            epsilon / (6 * math.sqrt(2 * k * math.log(1 / (3 * k * part)))),
            math.sqrt(epsilon / (36 * k)),
        ),
        part,
    )


def mixture_price(part: MaskPrice, k: int) -> MaskPrice:
    """Price B_GMM if each of R_W, R_Mean, R_Cov costs `part` (Lemma 3.5 and App. G.1).

    Basic composition makes a component cost (3 e, 3 delta); advanced composition over the k
    components, with delta' = 3 k delta, does the rest.
    """
    slack = 3 * k * part.delta
    e = 3 * part.epsilon
    if e > _LARGEST_EXPONENT:
        return MaskPrice(math.inf, 2 * slack)
    return MaskPrice(math.sqrt(2 * k * math.log(1 / slack)) * e + k * e * math.expm1(e), 2 * slack)


def block_minimum(epsilon: float, delta: float) -> int:
    """Compute Theorem 6.2's blocks ``max(5, ceil(20/e ln(1 + (exp(e) - 1)/(2 delta))))``.

    With as many blocks the noise of line 5 is at most 0.1, so that full agreement passes.
    """
    return max(5, math.ceil(20 / epsilon * math.log1p(math.expm1(epsilon) / (2 * delta))))
