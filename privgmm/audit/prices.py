"""Lower bounds on prices: a plan cannot cost less than its own noise gives away.

A plan's price is a proved upper bound. What its worst pair of neighbours gives away is a lower
bound, and for Gaussian noise that is known exactly. A price below it is wrong, however it was
computed: a stage was not counted, or counted once instead of k times.
"""

from __future__ import annotations

import math
from typing import Any

from scipy.optimize import brentq
from scipy.special import log_ndtr

from privgmm.audit.findings import Finding, within
from privgmm.methods.plan import Plan
from privgmm.stages.agreement.stage import Agreement

__all__ = ["given_away", "least_price", "rounding_priced", "shift_delta"]

_NEARLY = 0.995
"""Tolerance: the noise of a mask differs slightly between neighbours, unlike a Gaussian shift."""


def shift_delta(mu: float, epsilon: float) -> float:
    """Compute the exact delta of a Gaussian mechanism whose mean moves by mu deviations.

    Written here again, on purpose: the audit does not rely on the accounting code.
    """
    first = math.exp(log_ndtr(mu / 2 - epsilon / mu))
    return first - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


def given_away(mu_squared: float, delta: float) -> float:
    """Compute the exact epsilon of Gaussian mechanisms at `delta`; mu^2 is additive."""
    mu = math.sqrt(mu_squared)
    if shift_delta(mu, 0.0) <= delta:
        return 0.0
    return float(brentq(lambda e: shift_delta(mu, e) - delta, 0.0, mu**2 + 40 * mu + 1))


def _mu_squared(numbers: dict[str, Any]) -> float:
    """Add up what all noise of a plan gives away, from the plan as it is written to a file."""
    total, k = 0.0, int(numbers["n_components"])
    test, noise = numbers.get("test"), numbers.get("noise")
    if test is not None and noise is not None:
        total += float(test["sigma"]) ** -2
        gamma = float(numbers["gamma"])
        if "eta" in noise:
            # a frame has one component, however many are fitted later
            parts = 1 if "learner" in numbers else k
            total += parts * (-math.expm1(-gamma / 2) / float(noise["eta"])) ** 2
        else:
            shift = gamma / math.sqrt(1 + gamma)
            ratio = 1 - 1 / math.sqrt(1 + gamma)
            each = (
                (gamma / noise["eta_weight"]) ** 2
                + (shift / noise["eta_mean"]) ** 2
                + (ratio / noise["eta_cov"]) ** 2
            )
            total += k * float(each)
    frame = numbers.get("histogram_frame")
    if frame is not None:
        values = frame.get("values", {})
        counted = [frame["scale_sigma"], frame["location_sigma"]]
        for sigma in counted + [values[name] for name in ("sigma", "grid_sigma") if values]:
            total += frame["n_features"] * 2 / float(sigma) ** 2
        total += math.fsum(float(m) ** -2 for m in frame["multipliers"])
    refine = numbers.get("refine")
    if refine is not None:
        total += math.fsum(float(m) ** -2 for m in refine["multiplier"])
    pooled = numbers.get("pooled_looks")
    if pooled is not None:
        total += math.fsum(float(m) ** -2 for m in pooled["multipliers"])
    for stage in ("sketch", "subspace_sketch", "finish"):
        if stage in numbers:
            total += float(numbers[stage]["multiplier"]) ** -2
    return total


def least_price(plan: Plan) -> Finding:
    """Compare what a plan's noise gives away to the worst pair of neighbours with its price."""
    numbers, spent = plan.to_dict(), plan.spent()
    test = numbers.get("test")
    if test is not None and "epsilon" in test:
        # Theorem 2.3: what the vote alone is calibrated to cost
        e, delta = float(test["epsilon"]), float(test["delta"])
        measured = max(2 * e / spent.epsilon, 4 * math.exp(e) * delta / spent.delta)
        how = "Theorem 2.3 with the numbers of the vote"
    else:
        measured = _NEARLY * given_away(_mu_squared(numbers), spent.delta) / spent.epsilon
        how = "exact for Gaussian noise, from the plan as it is written to a file"
    return within(
        f"price, {plan.method}, k={plan.n_components}, d={plan.n_features}",
        "given away by the worst pair / priced <= 1",
        measured,
        1 + 1e-9,
        how,
    )


def rounding_priced(plan: Plan) -> Finding:
    """Check that the chance of misrounding is part of what an agreement stage asks of delta."""
    stage = plan.stage(Agreement)
    price = stage.price()
    asked = price.rounding
    if price.budget is not None:
        # it is part of the budget there: Theorem 2.3 must leave something of it
        numbers = plan.to_dict()["test"]
        bare = 4 * math.exp(float(numbers["epsilon"])) * float(numbers["delta"])
        asked = price.budget.delta - bare
    needed = stage.n_components * (stage.n_features + 1) ** 2 * 2.0**-60
    return within(
        f"price, {plan.method}: misrounding",
        "chance of misrounding / counted <= 1",
        needed / asked if asked > 0 else math.inf,
        1 + 1e-3,
        "from the plan's own numbers",
    )
