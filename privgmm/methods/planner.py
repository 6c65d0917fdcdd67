"""Make plans on request: one policy for every door, and the two short forms of the library.

`plan_for` answers a `PlanRequest`. `best_plan` and `calibrate` take plain arguments: `best_plan`
leaves all choices to the method, `calibrate` leaves them to the user.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from privgmm.errors import InvalidInput, MethodName, Problem
from privgmm.methods import registry
from privgmm.methods.calibration import no_plan
from privgmm.methods.plan import Plan
from privgmm.methods.request import DEFAULT_METHOD, PlanRequest, components_asked
from privgmm.methods.searching import as_text, rounded_up
from privgmm.methods.usefulness import USUAL_BETA, Usefulness
from privgmm.methods.what_if import MOST_EPSILON, epsilon_for, feasible, rows_for
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.sketch.choice import MOST_OFFERED

__all__ = ["Answer", "best_plan", "calibrate", "is_hopeful", "plan_for", "usefulness_for"]


@dataclasses.dataclass(frozen=True)
class Answer:
    """Give a plan, and the reason not to run it, if there is one.

    Parameters
    ----------
    plan : Plan
    shortage : Problem or None
        Why the rows are too few for it, and what would help. None if they are expected to be
        enough, and also where every knob was set by hand and the plan can at least run.
    """

    plan: Plan
    shortage: Problem | None


def plan_for(request: PlanRequest) -> Answer:
    """Make the plan that a request asks for.

    What the request leaves open (mask, blocks) the method chooses for the rows at hand. If no
    choice is expected to release, a request that leaves everything open gets an error; one that
    sets a knob gets the method's usual value for the other, and a statement of the shortage. With
    both knobs set the plan is made as asked.

    Raises `InvalidInput` if there is no plan at all.
    """
    method = registry.get(request.method)
    method.check(request)
    if request.by_hand:
        plan = method.calibrated(request).answering(request)
        return Answer(plan, _cannot_run(plan, request))
    enough = method.plans_only_for_enough
    if not is_hopeful(request):
        raise _no_plan(request)
    try:
        plan = method.automatic(request)
    except InvalidInput as problem:
        if request.automatic:
            more = dataclasses.replace(
                problem.problem,
                remedy=problem.problem.remedy + _instead(request),
                facts={**problem.problem.facts, "default": MethodName(DEFAULT_METHOD)},
            )
            raise InvalidInput(more) from problem
        plan, enough = method.calibrated(request), False
    plan = plan.answering(request)
    shortage = None if enough else _too_few(plan, request)
    # the rows that it takes say more than the fewest on which it can run at all
    return Answer(plan, shortage or _cannot_run(plan, request))


def usefulness_for(
    request: PlanRequest, alpha: float | None = None, beta: float | None = None
) -> Usefulness:
    """Forecast whether the release that a request asks for will be useful, or why it is refused.

    Unlike `plan_for` it also answers where there is no plan, and then `plan_for` says what would
    help. Each alpha that follows for the same request is quick.
    """
    try:
        plan = plan_for(request).plan if is_hopeful(request) else None
    except InvalidInput:
        plan = None
    if plan is None:
        why = f"There are too few {request.units} for any plan at this budget."
        return Usefulness(
            chance=0.0,
            expected_error=None,
            alpha=request.alpha_or_usual if alpha is None else alpha,
            beta=request.beta if beta is None else beta,
            concerns=(why,),
        )
    return plan.usefulness(alpha, beta)


def is_hopeful(request: PlanRequest) -> bool:
    """Check whether `plan_for` would not say that no plan is expected to release.

    It is quicker than an error of `plan_for`, which also searches for what would help.
    """
    if not (request.automatic and registry.get(request.method).plans_only_for_enough):
        return True
    return feasible(request.but(alpha=None))


def _cannot_run(plan: Plan, request: PlanRequest) -> Problem | None:
    """Say why the plan cannot run at all on this number of rows."""
    return None if request.n_rows is None else plan.shortage(request.n_rows, request.unit)


def _too_few(plan: Plan, request: PlanRequest) -> Problem | None:
    """Say why the plan is not expected to release."""
    if request.n_rows is None:
        return None
    rows = rounded_up(plan.rows_needed())
    if rows <= request.n_rows:
        return None
    mask, remedy, least = plan.stage(Agreement).mask_accuracy, "raise {epsilon}", math.inf
    if not registry.get(request.method).plans_only_for_enough:
        least = epsilon_for(request.but(alpha=None, mask_accuracy=mask))
        remedy = "raise {epsilon} to {enough}" if math.isfinite(least) else "bring more"
    return Problem(
        f"{{method_is}} takes about {{needed}} {request.units} at {{mask_accuracy}} {{mask_is}} "
        "and {epsilon} {epsilon_is}, and there are {given}",
        remedy=f"{remedy}, or set {{mask_accuracy}} and {{n_blocks}} to try anyway"
        f"{_instead(request)}",
        facts={
            "method_is": MethodName(request.method),
            "default": MethodName(DEFAULT_METHOD),
            "needed": as_text(rows),
            "enough": as_text(least),
            "mask_is": float(mask),
            "epsilon_is": float(request.epsilon),
            "given": request.n_rows,
        },
    )


def _no_plan(request: PlanRequest) -> InvalidInput:
    """Build the error for a request that leaves everything open: why, and what would get a plan."""
    units = request.units
    any_answer = request.but(alpha=None)
    rows, least = rows_for(any_answer), epsilon_for(any_answer)
    ways = []
    if math.isfinite(rows):
        ways.append(f"it takes about {{needed}} {units} at this {{epsilon}}")
    if math.isfinite(least):
        ways.append(f"with {{rows}} {units} it takes an {{epsilon}} of about {{enough}}")
    if not ways:
        ways.append(
            f"no number of {units} will do, and with {{rows}} no {{epsilon}} up to {{most}}"
        )
    return no_plan(
        request,
        f"{'; '.join(ways)}. To try anyway, set {{mask_accuracy}} and {{n_blocks}}"
        f"{_instead(request)}",
        default=MethodName(DEFAULT_METHOD),
        needed=as_text(rows),
        enough=as_text(least),
        most=float(MOST_EPSILON),
    )


def _instead(request: PlanRequest) -> str:
    """Name the default method, to end a remedy, if it is expected to release these rows."""
    plain = request.but(method=DEFAULT_METHOD, mask_accuracy=None, n_blocks=None)
    default = registry.get(DEFAULT_METHOD)
    if request.method == default.name:
        return ""
    try:
        default.check(plain)
    except InvalidInput:
        # it cannot be asked this at all, for example because of the number of components
        return ""
    if not default.enough(plain):
        return ""
    return f"; {{default}} is expected to release from these {request.units}"


def best_plan(
    n_rows: int,
    *,
    method: str = DEFAULT_METHOD,
    epsilon: float,
    delta: float,
    n_components: int | Literal["auto"],
    n_features: int,
    alpha: float | None = None,
    beta: float = USUAL_BETA,
    smallest_weight: float | None = None,
    separation: float | None = None,
    max_components: int = MOST_OFFERED,
) -> Plan:
    """Make the plan of least expected error for a number of rows.

    Every number that the method needs is chosen among those with which a release is expected in
    95 % of runs. Uses public numbers only, is deterministic and quick. (Methods `paper` and
    `tight` give their best plan also where the rows do not suffice: ask `Plan.rows_needed`.)

    Parameters
    ----------
    n_rows : int
        How many rows there are (public).
    method : str
        A name in `privgmm.methods.names()`; by default `sketch`.
    epsilon, delta : float
        The TOTAL budget.
    n_components : int or "auto"
        k. "auto" leaves it open: it is chosen from a noisy sketch that was paid for once.
    n_features : int
        d.
    alpha : float, optional
        Accuracy that is asked for: a release is to be within alpha of the truth in dist_GMM, but
        for chance beta. `Plan.usefulness` says whether to expect that; the plan is the one of
        least expected error anyway.
    beta : float
        Chance with which alpha may be missed, and a mask its own accuracy.
    smallest_weight : float, optional
        The smallest component weight to plan for; 0.7 / k by default.
    separation : float, optional
        How many standard deviations apart the nearest two means are expected to be. By default
        4, and 6 or 8 where the rows do not allow 4.
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
        alpha=alpha,
        beta=beta,
        smallest_weight=smallest_weight,
        separation=separation,
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
    separation: float = 4.0,
) -> Plan:
    """Make a plan with every knob in the user's hands.

    Parameters
    ----------
    method : str
        A name in `privgmm.methods.names()`: Algorithms 1 and 2 with the paper's constants
        (`paper`), or with exact accounting (`tight`); the mean of the agreeing blocks in
        the lifted space (`lifted`).
    epsilon, delta : float
        The TOTAL budget of the release. Method `paper` can spend at most ``2 ln(2) / 3``.
    alpha, beta : float
        Accuracy of the mask, which is `PlanRequest.mask_accuracy`: what comes out of it is within
        alpha of what went in with probability 1 - beta, in dist_Param for `paper` and `tight`
        (alpha at most 1), in lifted distance for `lifted`.
    n_components, n_features : int
        k and d.
    n_blocks : int, optional
        t. By default the method's own: for `paper` the smallest that is sure to pass when all
        blocks agree, else ``400 / min(epsilon, 1)``.
    separation : float
        How many standard deviations apart the nearest two means are expected to be (`lifted`).
        Nearer ones are refused; expecting them nearer asks for more rows.
    """
    chosen = registry.get(method)
    try:
        request = PlanRequest(
            n_components=n_components,
            n_features=n_features,
            epsilon=epsilon,
            delta=delta,
            method=method,
            mask_accuracy=alpha,
            n_blocks=n_blocks,
            beta=beta,
            separation=separation,
        )
        return chosen.calibrated(request)
    except InvalidInput as problem:
        if problem.argument != "mask_accuracy":
            raise
        # it is called alpha here, as in the paper
        raise InvalidInput(dataclasses.replace(problem.problem, argument="alpha")) from problem
