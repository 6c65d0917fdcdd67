"""What will it take? Plans chosen for a number of rows, and what-if questions, without data.

Everything here is computed from public numbers: rows, blocks, components, dimensions, budget.
The law of the block fits comes from `spread`, which ignores overlap between components; the
search leaves a margin for that.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from privgmm.arrays import Array, positive, whole_number
from privgmm.budget import Budget
from privgmm.errors import InvalidInput
from privgmm.methods.calibration import calibrate, checked, lifted_plan
from privgmm.methods.expectations import (
    OUTLOOKS,
    Core,
    Outlook,
    cheapest_core,
    expected_cores,
    forgiving_outlooks,
    outlook_at,
)
from privgmm.methods.plan import METHODS, Method, Plan
from privgmm.privacy.curves import RenyiCurve, gaussian_curve, lifted_mask_curve
from privgmm.stages.agreement.lifted_space import MEAN_TOLERANCE
from privgmm.stages.agreement.noise_levels import lifted_eta
from privgmm.stages.agreement.scatter import component_weights
from privgmm.stages.refinement.expected_error import best_refinement

__all__ = ["best_plan", "hopeful_plan", "lifted_feasible", "plan_as_asked"]

_ALPHAS = (0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0)
_BETA = 0.1
_FEWEST_BLOCKS, _MOST_BLOCKS, _BLOCK_CHOICES = 40, 1000, 14
_TIGHT_BLOCKS = (100, 200, 400)


def _block_choices(n_rows: int, weights: Array, d: int) -> list[int]:
    """Numbers of blocks worth trying: enough rows a block for the smallest component."""
    least = math.ceil(9 * (d + 1) / float(weights.min()))
    most = min(_MOST_BLOCKS, n_rows // least)
    if most < _FEWEST_BLOCKS:
        return []
    return sorted({int(t) for t in np.geomspace(_FEWEST_BLOCKS, most, _BLOCK_CHOICES)})


def _fixed_curve(core: Core, eta: float, k: int, d: int) -> RenyiCurve:
    """What test and mask cost together."""
    gamma = 2 * core.radius * core.move + 2 * MEAN_TOLERANCE
    return gaussian_curve(core.test.sigma) + k * lifted_mask_curve(gamma, eta, d + 1)


def _best_lifted(
    n_rows: int,
    budget: Budget,
    beta: float,
    k: int,
    d: int,
    weights: Array,
    outlook: Outlook,
    refine: bool,
) -> Plan | None:
    """The plan of least expected final error that the expected fits pass; None if none does."""
    best: tuple[float, Plan] | None = None
    for t in _block_choices(n_rows, weights, d):
        cores = expected_cores(t, n_rows // t, tuple(map(float, weights)), d, budget.delta, outlook)
        for alpha in _ALPHAS:
            eta = lifted_eta(d, alpha, beta / k)
            core = cheapest_core(cores, k, d, eta)
            if core is None:
                continue
            fixed = _fixed_curve(core, eta, k, d)
            steps, score = None, alpha
            if refine:
                found = best_refinement(n_rows, weights, d, alpha, fixed, budget)
                if found is None:
                    continue
                steps, score = found[0], found[1].total
            elif fixed.epsilon(budget.delta) > budget.epsilon:
                continue
            # a coarser start and more blocks must earn their keep
            score *= 1 + 0.01 * alpha + 0.02 * t / _MOST_BLOCKS
            if best is None or score < best[0]:
                smallest = None if k == 1 else float(weights.min())
                plan = lifted_plan(
                    budget, alpha, beta, k, d, steps, core.test, smallest, radius=core.radius
                )
                best = score, plan
    return None if best is None else best[1]


def best_plan(
    n_rows: int,
    *,
    method: Method = "lifted",
    epsilon: float,
    delta: float,
    n_components: int,
    n_features: int,
    beta: float = _BETA,
    smallest_weight: float | None = None,
    separation: float | None = None,
    forgiving: bool = False,
    refine: bool = True,
) -> Plan:
    """The Auto choice: blocks, split, test, mask and refinement for so many rows.

    Chooses the plan with the least expected final error among those expected to release in
    95 % of runs. Uses public numbers only, is deterministic and quick.

    Parameters
    ----------
    n_rows : int
        How many rows there are (public).
    method : {"lifted", "tight", "paper"}
    epsilon, delta : float
        The TOTAL budget.
    n_components, n_features : int
        k and d.
    beta : float
        The coarse release may miss its alpha this often.
    smallest_weight : float, optional
        The smallest component weight to plan for; 0.7 / k by default.
    separation : float, optional
        How many standard deviations apart the nearest two means are expected to be. By default
        4, and 6 or 8 where the rows do not allow 4.
    forgiving : bool
        Plan for real data with method `lifted`: components near each other, and fits of blocks
        that scatter up to two and a half times as widely as those of Gaussian rows. Costs some
        accuracy and rows, no privacy.
    refine : bool
        Whether to sharpen the coarse release by noisy passes over all rows.

    Raises
    ------
    InvalidInput
        If no plan is expected to release, with the rows it would take.
    """
    if method not in METHODS:
        raise InvalidInput(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    n = whole_number(n_rows, "n_rows", 1)
    budget = Budget(epsilon, delta)
    b = positive(beta, "beta", below=1.0)
    k = whole_number(n_components, "n_components", 1)
    d = whole_number(n_features, "n_features", 1)
    if method == "paper":
        return calibrate(
            "paper", epsilon=epsilon, delta=delta, alpha=0.5, beta=b, n_components=k, n_features=d
        )
    if method == "tight":
        return _best_tight(n, budget, b, k, d, _weights(k, smallest_weight, OUTLOOKS[0]))
    tries = forgiving_outlooks(k) if forgiving else OUTLOOKS
    if separation is not None:
        if forgiving:
            raise InvalidInput("separation and forgiving exclude each other: give one of them")
        tries = (outlook_at(positive(separation, "separation")),)
    for outlook in tries:
        weights = _weights(k, smallest_weight, outlook)
        plan = _best_lifted(n, budget, b, k, d, weights, outlook, refine)
        if plan is not None:
            return checked(plan)
    raise InvalidInput(
        f"no plan is expected to release {k} components in {d} dimensions from {n} rows within "
        f"{budget}: raise epsilon or delta, bring more rows, or use calibrate to try anyway"
    )


def plan_as_asked(
    n_rows: int,
    *,
    method: Method,
    epsilon: float,
    delta: float,
    n_components: int,
    n_features: int,
    alpha: float | None = None,
    n_blocks: int | None = None,
    forgiving: bool = False,
) -> Plan:
    """What a front door asks for: with an `alpha` the plan of `calibrate`, else of `best_plan`."""
    if alpha is None:
        return best_plan(
            n_rows,
            method=method,
            epsilon=epsilon,
            delta=delta,
            n_components=n_components,
            n_features=n_features,
            forgiving=forgiving,
        )
    return calibrate(
        method,
        epsilon=epsilon,
        delta=delta,
        alpha=alpha,
        n_components=n_components,
        n_features=n_features,
        n_blocks=n_blocks,
    )


def _weights(k: int, smallest: float | None, outlook: Outlook) -> Array:
    if smallest is None and k > 1:
        smallest = outlook.balance / k
    return component_weights(k, smallest)


def hopeful_plan(
    n_rows: int,
    budget: Budget,
    beta: float,
    k: int,
    d: int,
    smallest_weight: float | None = None,
    *,
    forgiving: bool = False,
) -> Plan | None:
    """The plan of the most hopeful outlook, quicker to find than `best_plan`; None if none."""
    for outlook in _hopeful(k, forgiving):
        weights = _weights(k, smallest_weight, outlook)
        plan = _best_lifted(n_rows, budget, beta, k, d, weights, outlook, refine=True)
        if plan is not None:
            return checked(plan)
    return None


def lifted_feasible(
    n_rows: int,
    budget: Budget,
    k: int,
    d: int,
    smallest_weight: float | None = None,
    *,
    forgiving: bool = False,
) -> bool:
    """Whether `best_plan` would find a lifted plan for so many rows, without building it."""
    return any(
        _fits_budget(n_rows, budget, k, d, _weights(k, smallest_weight, outlook), outlook)
        for outlook in _hopeful(k, forgiving)
    )


def _hopeful(k: int, forgiving: bool) -> tuple[Outlook, ...]:
    """Outlooks that decide alone: what a careful one allows, the most hopeful allows too.

    Forgiving ones are not ordered like that; the last are the likeliest to allow a plan.
    """
    return forgiving_outlooks(k)[::-1] if forgiving else OUTLOOKS[-1:]


def _fits_budget(
    n_rows: int, budget: Budget, k: int, d: int, weights: Array, outlook: Outlook
) -> bool:
    eta = lifted_eta(d, _ALPHAS[-1], _BETA / k)
    for t in _block_choices(n_rows, weights, d):
        cores = expected_cores(t, n_rows // t, tuple(map(float, weights)), d, budget.delta, outlook)
        core = cheapest_core(cores, k, d, eta)
        if core is None:
            continue
        fixed = _fixed_curve(core, eta, k, d)
        if best_refinement(n_rows, weights, d, _ALPHAS[-1], fixed, budget) is not None:
            return True
    return False


def _best_tight(n: int, budget: Budget, beta: float, k: int, d: int, weights: Array) -> Plan:
    """The plan with the smallest alpha that n rows are expected to pass.

    If no alpha up to one passes, the plan that asks for the fewest rows.
    """
    fewest: tuple[float, Plan] | None = None
    for alpha in (0.1, 0.2, 0.35, 0.5, 0.75, 1.0):
        for t in _TIGHT_BLOCKS:
            try:
                plan = _tight_plan(budget, alpha, beta, k, d, t, weights)
            except InvalidInput:
                # too few blocks for this budget: larger numbers follow
                continue
            needed = plan.rows_needed()
            if fewest is None or needed < fewest[0]:
                fewest = needed, plan
        if fewest is not None and fewest[0] <= n:
            return fewest[1]
    if fewest is None:
        raise InvalidInput(f"no number of blocks lets method 'tight' pass within {budget}")
    return fewest[1]


def _tight_plan(
    budget: Budget, alpha: float, beta: float, k: int, d: int, t: int, weights: Array
) -> Plan:
    plan = calibrate(
        "tight",
        epsilon=budget.epsilon,
        delta=budget.delta,
        alpha=alpha,
        beta=beta,
        n_components=k,
        n_features=d,
        n_blocks=t,
    )
    return dataclasses.replace(plan, smallest_weight=None if k == 1 else float(weights.min()))
