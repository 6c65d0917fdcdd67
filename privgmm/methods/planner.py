"""Plans on request: one policy for every door, and the two short forms of the library.

`plan_for` answers a `PlanRequest`. `best_plan` and `calibrate` are the same question asked with
plain arguments: everything left to the method, and everything in the user's hands.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from privgmm.errors import InvalidInput
from privgmm.methods import registry
from privgmm.methods.method import Method
from privgmm.methods.plan import Plan
from privgmm.methods.request import DEFAULT_METHOD, PlanRequest, components_asked
from privgmm.methods.searching import as_told, rounded_up
from privgmm.methods.what_if import MOST_EPSILON, epsilon_for, feasible, rows_for
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.sketch.choice import MOST_OFFERED

__all__ = ["Answer", "best_plan", "calibrate", "is_hopeful", "plan_for"]


@dataclasses.dataclass(frozen=True)
class Answer:
    """A plan, and what stands against running it.

    Parameters
    ----------
    plan : Plan
    shortage : str
        Why the rows are too few for it, and what would help; empty if they are expected to do,
        and where every knob was set by hand and the plan can at least run.
    """

    plan: Plan
    shortage: str


def plan_for(request: PlanRequest) -> Answer:
    """The plan that a request asks for.

    What the request leaves open (alpha, blocks, refinement) the method chooses for the rows at
    hand. If no choice is expected to release, a request that leaves everything open gets an
    error; one that sets a knob gets the method's usual value for the other, and is told of the
    shortage. With both knobs set the plan is made as asked.

    Raises `InvalidInput` if there is no plan at all.
    """
    asked = request
    request = registry.get(asked.method).settled(asked)
    method = registry.get(request.method)
    method.check(request)
    if request.by_hand:
        plan = method.calibrated(request, _refinement(request))
        return Answer(plan, _cannot_run(plan, request))
    enough = method.plans_only_for_enough
    if not _is_hopeful(asked, request):
        raise InvalidInput(_no_plan(asked))
    try:
        plan = method.automatic(request)
    except InvalidInput as problem:
        if request.automatic:
            raise InvalidInput(f"{problem}{_instead(request)}") from problem
        plan, enough = method.calibrated(request, request.refinement), False
    shortage = "" if enough else _too_few(plan, request)
    # how many rows it would take says more than how few it can run on at all
    return Answer(plan, shortage or _cannot_run(plan, request))


def is_hopeful(request: PlanRequest) -> bool:
    """Whether `plan_for` gets beyond saying that no plan is expected to release.

    Sooner told than an error of `plan_for`, which also seeks what would help.
    """
    return _is_hopeful(request, registry.get(request.method).settled(request))


def _is_hopeful(asked: PlanRequest, settled: PlanRequest) -> bool:
    if not (settled.automatic and registry.get(settled.method).plans_only_for_enough):
        return True
    return feasible(asked.but(n_rows=settled.rows))


def _refinement(request: PlanRequest) -> Refinement | None:
    """For a plan by hand: as given, or where asked for the one the method would choose."""
    if request.refine is not True:
        return request.refinement
    try:
        return registry.get(request.method).automatic(request.but(alpha=None, n_blocks=None)).refine
    except InvalidInput:
        # no automatic plan to take one from: what was set by hand is tried as it is
        return None


def _cannot_run(plan: Plan, request: PlanRequest) -> str:
    """Why the plan cannot run at all on so few rows."""
    return "" if request.n_rows is None else plan.shortage(request.n_rows, request.unit)


def _too_few(plan: Plan, request: PlanRequest) -> str:
    """Why the plan is not expected to release."""
    if request.n_rows is None:
        return ""
    rows = rounded_up(plan.rows_needed())
    if rows <= request.n_rows:
        return ""
    remedy = "raise epsilon"
    if registry.get(request.method).error_is_promised:
        least = epsilon_for(request.but(alpha=plan.alpha))
        remedy = f"raise epsilon to {as_told(least)}" if math.isfinite(least) else "bring more"
    return (
        f"method {request.method!r} takes about {as_told(rows)} {request.units} at alpha "
        f"{plan.alpha:g} and epsilon {request.epsilon:g}, and there are {request.n_rows:,}: "
        f"{remedy}, or set alpha and n_blocks to try anyway{_instead(request)}"
    )


def _no_plan(request: PlanRequest) -> str:
    """Why a request that leaves everything open gets no plan, and what would get one."""
    n, units = request.rows, request.units
    rows, least = rows_for(request.but(n_rows=None)), epsilon_for(request)
    ways = []
    if math.isfinite(rows):
        ways.append(f"it takes about {as_told(rows)} {units} at this epsilon")
    if math.isfinite(least):
        ways.append(f"with {n:,} {units} it takes an epsilon of about {as_told(least)}")
    if not ways:
        ways.append(
            f"no number of {units} will do, and with {n:,} no epsilon up to {MOST_EPSILON:g}"
        )
    return (
        f"no plan is expected to release {request.n_components} components in "
        f"{request.n_features} dimensions from {n:,} {units} within {request.budget}: "
        f"{'; '.join(ways)}. To try anyway, set alpha and n_blocks{_instead(request)}"
    )


def _instead(request: PlanRequest) -> str:
    """Which other methods are expected to release from the same rows, to end a sentence."""
    others = [method for method in registry.all_methods() if method.name != request.method]
    able = [repr(method.name) for method in others if _would_do(method, request)]
    if not able:
        return ""
    return f"; method {' or '.join(able)} is expected to release from these {request.units}"


def _would_do(method: Method, request: PlanRequest) -> bool:
    """Whether this method, with all its choices open, is expected to release from the rows."""
    if not method.plans_only_for_enough:
        return False
    plain = _plain(request, method.name)
    try:
        method.check(plain)
    except InvalidInput:
        # it cannot be asked this at all, for so many components say
        return False
    return method.enough(plain)


def _plain(request: PlanRequest, method: str) -> PlanRequest:
    """The same question put to another method, with all its choices open."""
    return request.but(method=method, alpha=None, n_blocks=None, forgiving=False, refine=None)


def best_plan(
    n_rows: int,
    *,
    method: str = DEFAULT_METHOD,
    epsilon: float,
    delta: float,
    n_components: int | Literal["auto"],
    n_features: int,
    beta: float = 0.1,
    smallest_weight: float | None = None,
    separation: float | None = None,
    forgiving: bool = False,
    refine: bool = True,
    max_components: int = MOST_OFFERED,
) -> Plan:
    """The Auto choice: blocks, split, test, mask and refinement for so many rows.

    Chooses the plan with the least expected final error among those expected to release in
    95 % of runs. Uses public numbers only, is deterministic and quick. (Methods `paper` and
    `tight` give their best plan also where the rows do not suffice: ask `Plan.rows_needed`.)

    Parameters
    ----------
    n_rows : int
        How many rows there are (public).
    method : str
        `auto` takes the method of least expected error among those expected to release; or a
        name in `privgmm.methods.names()`.
    epsilon, delta : float
        The TOTAL budget.
    n_components : int or "auto"
        k. "auto" leaves it open: it is chosen from a noisy sketch that was paid for once.
    n_features : int
        d.
    beta : float
        The masked mixture may miss its alpha this often.
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
        Whether to sharpen the masked mixture by noisy passes over all rows.
    max_components : int
        How many components "auto" offers.

    Raises
    ------
    InvalidInput
        If no plan is expected to release.
    """
    k, is_open = components_asked(n_components, max_components)
    request = PlanRequest(
        n_components=k,
        choose_components=is_open,
        n_features=n_features,
        n_rows=n_rows,
        epsilon=epsilon,
        delta=delta,
        method=method,
        beta=beta,
        smallest_weight=smallest_weight,
        separation=separation,
        forgiving=forgiving,
        refine=refine,
    )
    return plan_for(request).plan


def calibrate(
    method: str,
    *,
    epsilon: float,
    delta: float,
    alpha: float,
    beta: float = 0.1,
    n_components: int,
    n_features: int,
    n_blocks: int | None = None,
    refine: Refinement | None = None,
    separation: float = 4.0,
) -> Plan:
    """A plan for one release, every knob in the user's hands.

    Parameters
    ----------
    method : str
        A name in `privgmm.methods.names()`: Algorithms 1 and 2 with the paper's constants
        (`paper`); the same with exact accounting (`tight`); the mean of the agreeing blocks in
        the lifted space (`lifted`).
    epsilon, delta : float
        The TOTAL budget of the release. Method `paper` can spend at most ``2 ln(2) / 3``.
    alpha, beta : float
        The masked mixture is within alpha of what went into the mask with probability 1 - beta:
        in dist_Param for `paper` and `tight` (alpha at most 1), in lifted distance for `lifted`.
    n_components, n_features : int
        k and d.
    n_blocks : int, optional
        t. By default the method's own: for `paper` the smallest that is sure to pass when all
        blocks agree, else ``400 / min(epsilon, 1)``.
    refine : Refinement, optional
        Noisy passes over all rows, within the same budget (`tight` and `lifted`).
    separation : float
        How many standard deviations apart the nearest two means are expected to be (`lifted`).
        Nearer ones are refused; expecting them nearer asks for more rows.
    """
    chosen = registry.get(method)
    request = PlanRequest(
        n_components=n_components,
        n_features=n_features,
        epsilon=epsilon,
        delta=delta,
        method=method,
        alpha=alpha,
        n_blocks=n_blocks,
        beta=beta,
        separation=separation,
        refine=refine,
    )
    return chosen.calibrated(request, refine)
