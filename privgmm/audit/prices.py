"""What plans cost, from their plain numbers: never less than their own noise gives away.

A plan's price is a proved upper bound. From below it is bounded by what its worst pair of
neighbours gives away, and for Gaussian noise that is known exactly. A price below it is wrong,
however it was computed: a stage that is not counted, or counted once instead of k times.
"""

from __future__ import annotations

import math
from typing import Any

from scipy.optimize import brentq
from scipy.special import log_ndtr

from privgmm.audit.findings import Finding, within
from privgmm.methods.plan import Plan

__all__ = ["given_away", "least_price", "rounding_priced"]

_NEARLY = 0.995
"""Masks are a little more than the Gaussian shift that they are counted as."""


def _delta(mu: float, epsilon: float) -> float:
    """The exact delta of a Gaussian mechanism."""
    first = math.exp(log_ndtr(mu / 2 - epsilon / mu))
    return first - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))


def given_away(mu_squared: float, delta: float) -> float:
    """The exact epsilon of Gaussian mechanisms at `delta`, their ``1/multiplier^2`` added up."""
    mu = math.sqrt(mu_squared)
    if _delta(mu, 0.0) <= delta:
        return 0.0
    return float(brentq(lambda e: _delta(mu, e) - delta, 0.0, mu**2 + 40 * mu + 1))


def _mu_squared(numbers: dict[str, Any]) -> float:
    """What all noise of a plan gives away, from the plan as it is written to a file."""
    total, k = 0.0, int(numbers["n_components"])
    test, noise = numbers.get("test"), numbers.get("noise")
    if test is not None and noise is not None:
        total += float(test["sigma"]) ** -2
        gamma = float(numbers["gamma"])
        if "eta" in noise:
            # a frame has one component, whatever is fitted later
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
        for sigma in (frame["scale_sigma"], frame["location_sigma"]):
            total += frame["n_features"] * 2 / float(sigma) ** 2
        total += math.fsum(float(m) ** -2 for m in frame["multipliers"])
    refine = numbers.get("refine")
    if refine is not None:
        total += math.fsum(float(m) ** -2 for m in refine["multiplier"])
    for stage in ("sketch", "finish"):
        if stage in numbers:
            total += float(numbers[stage]["multiplier"]) ** -2
    return total


def least_price(plan: Plan) -> Finding:
    """What the worst pair of neighbours learns from a plan's noise, over what the plan says."""
    numbers, spent = plan.to_dict(), plan.spent()
    test = numbers.get("test")
    if test is not None and "epsilon" in test:
        # Theorem 2.3: what the vote alone is made to cost
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
    """The chance of misrounding must be part of what a stage asks of delta."""
    stage = plan.agreement
    price = stage.price()
    asked = price.rounding
    if price.budget is not None:
        # part of the budget there: what is left of it for Theorem 2.3 must be less than all
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
