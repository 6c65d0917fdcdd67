"""Plan method `sketch`: choose frame and sketch, and divide the budget between them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from privgmm.errors import InvalidInput, MethodName, PrivGMMError
from privgmm.methods import registry
from privgmm.methods.calibration import no_plan, too_few_blocks
from privgmm.methods.method import PASS, Look, Method, Outlook, Prospect
from privgmm.methods.plan import Plan, checked
from privgmm.methods.request import PlanRequest
from privgmm.methods.searching import first_step
from privgmm.methods.sketch.forecast import (
    FIRST_SHARE,
    expected_error,
    frame_chance,
    sure_to_agree,
)
from privgmm.methods.sketch.frames import (
    FrameChoice,
    frame_by_hand,
    frame_stage,
    histogram_stage,
)
from privgmm.methods.typical import expected_mixture
from privgmm.mixture import Mixture
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.form import Form
from privgmm.stages.sketch.agreement_frame import FrameAgreement
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.stage import Stage

__all__ = ["SketchMethod"]

_COSTLY_FRAME = 0.12
"""An agreement frame that takes a larger share of the budget gives way to a histogram frame;
measured: beyond it the histograms leave more for the sketch."""
_WORKED_OUT = 9
"""Errors computed along a curve, by convention; they fall smoothly, so others are interpolated."""
_ROWS_PER_DECADE = 16
"""Resolution of the search for rows: steps of 15 %; `fewest_rows` refines it."""
_DECADES = (2, 12)
"""Powers of ten between which rows are searched: from 100, below which nothing is released, to the
largest number that integer sums hold."""
_MOST_COMPONENTS = 20
"""By convention: a larger sketch is taken up to this number of components, where the usual one is
too small. Most numbers of columns allow for more."""
_MANY = "lifted"
"""Method that is named where there are more components than a sketch resolves."""
_MOST_ROWS = 10**12
"""Largest number of rows that integer sums hold; beyond it only sampling error is left."""
_ROUNDING = 1 + 1e-9
"""Factor on the computed noise, so that rounding does not cost more than the budget; by convention
far above the rounding of a float."""


class SketchMethod(Method):
    """Plan a public frame, a noisy sketch of all rows in it, and a finish that spends the rest.

    A plan tolerates rows that are not a mixture as far as the budget permits. It is for one number
    of rows: the noise on the sketch depends on it.
    """

    name: ClassVar[str] = "sketch"
    title: ClassVar[str] = "Sketch"
    sentence: ClassVar[str] = "takes a noisy sketch of all rows and fits it, overlap or not"
    look: ClassVar[Look] = Look("#B8336A", "longdash", 4.0)
    largest_alpha: ClassVar[float] = math.inf
    error_is_promised: ClassVar[bool] = False
    plans_only_for_enough: ClassVar[bool] = True
    publishes_sketch: ClassVar[bool] = True

    # ----------------------------------------------------------------------------- planning

    def automatic(self, request: PlanRequest) -> Plan:
        """Take the frame that leaves most of the budget, and divide what it leaves."""
        self.check(request)
        choice = _frame(request)
        if choice is None:
            raise no_plan(request, f"raise {{epsilon}} or {{delta}}, or bring more {request.units}")
        return checked(_plan(request, choice))

    def calibrated(self, request: PlanRequest) -> Plan:
        """Make the plan with the frame's alpha and blocks as asked, expected to release or not."""
        self.check(request)
        choice = _frame(request)
        if choice is None:
            t = self.default_blocks(request) if request.n_blocks is None else request.n_blocks
            choice = frame_by_hand(
                request.n_features, request.budget, alpha=request.alpha, n_blocks=t
            )
            if choice is None:
                raise too_few_blocks(request.budget, t)
        return checked(_plan(request, choice))

    def check(self, request: PlanRequest) -> None:
        """Raise `InvalidInput` if the method cannot be asked this at all."""
        super().check(request)
        k, d = request.n_components, request.n_features
        most = max(_MOST_COMPONENTS, SketchShape.default(d).most_components(d))
        if k > most:
            raise InvalidInput(
                f"must be at most {{most}} for {{method_is}} and {{columns}} column{'s' * (d > 1)}",
                argument="n_components",
                value=k,
                remedy="a sketch does not resolve more; ask for fewer"
                + ", or use {able}" * _takes(_MANY, request),
                facts={
                    "most": most,
                    "columns": d,
                    "method_is": MethodName(self.name),
                    "able": MethodName(_MANY),
                },
            )

    def read(self, form: Form, request: PlanRequest) -> tuple[Stage, ...]:
        """Read a frame of either kind, a sketch, and the finish."""
        form.absent("refine")
        histograms = form.data.get("histogram_frame")
        frame: Stage
        if histograms is None:
            frame = FrameAgreement.from_form(form, 1, request.n_features)
        else:
            frame = HistogramFrame.from_form(form.part("histogram_frame"))
        first = Sketch.from_form(form.part("sketch"))
        last = Finish.from_form(
            form.part("finish"),
            first,
            n_components=request.n_components,
            covariance_type=request.covariance_type,
        )
        return frame, first, last

    # ------------------------------------------------------------------------------ what if

    def feasible(self, request: PlanRequest) -> bool:
        """Check whether there is a frame for the request's rows that is found in 95 % of runs."""
        n, mixture = request.rows, expected_mixture(request)
        if request.automatic:
            plain = histogram_stage(n, request.n_features, request.budget)
            # quick to plan, and the other frame is taken only where it is found as surely
            if plain is not None and frame_chance(plain.stage, mixture, n) >= PASS:
                return True
        choice = _frame(request)
        return choice is not None and frame_chance(choice.stage, mixture, n) >= PASS

    def rows_for(self, request: PlanRequest) -> float:
        """Find the rows from which there is a frame; it releases in 95 % of runs and more."""
        self.check(request)

        def holds(step: int) -> bool:
            return self.feasible(request.but(n_rows=_grid_rows(step), n_blocks=None))

        low, high = (decade * _ROWS_PER_DECADE for decade in _DECADES)
        step = first_step(low, high, holds)
        return math.inf if step is None else float(_grid_rows(step))

    def alpha_for(self, request: PlanRequest) -> float:
        """Forecast the error: it promises no alpha for what it publishes."""
        return self.error_for(request)

    def error_for(self, request: PlanRequest) -> float:
        """Forecast the error; infinite if the rows are too few."""
        return self.prospect(request).error

    def prospect(self, request: PlanRequest) -> Prospect:
        """Forecast chance and error of the plan that would be made."""
        return _prospect(request)

    def along_rows(
        self,
        request: PlanRequest,
        rows: Sequence[float],
        *,
        enough: float | None = None,  # noqa: ARG002 - every number of rows has its own plan
    ) -> tuple[Prospect, ...]:
        """Forecast chances and errors at many numbers of rows; some errors are interpolated."""
        return _along(request, [max(1, int(n)) for n in rows])

    def outlook(
        self,
        plan: Plan,
        mixture: Mixture,
        n_rows: int,
        *,
        learner: str | None = None,  # noqa: ARG002 - a frame brings its own
    ) -> Outlook:
        """Forecast the chance that the frame is found, and the error of the sketches in it.

        Where the plan leaves the number of components open, the true number is assumed.
        """
        frame, first, finish = plan.stages
        chance = frame_chance(frame, mixture, n_rows)
        k, most = mixture.n_components, plan.n_components
        if not (isinstance(first, Sketch) and isinstance(finish, Finish)):
            raise PrivGMMError(f"a plan of method {self.name!r} has a sketch and a finish")
        if k != most and not (plan.chooses_components and k < most):
            return Outlook(chance, None)
        left = first.multiplier**-2 + finish.multiplier**-2
        seen = expected_error(mixture, n_rows, frame, left, known=True)
        return Outlook(chance, seen.error, (seen.low, seen.high))

    # -------------------------------------------------------------------------------- audit

    def audited_plans(self, *, thorough: bool) -> tuple[Plan, ...]:
        """List plans with either kind of frame, for a few shapes."""
        shapes = [(2, 2, 100_000), (2, 2, 2_000)]
        if thorough:
            shapes += [(1, 1, 50_000), (3, 5, 100_000)]
        return tuple(
            self.automatic(PlanRequest(n_components=k, n_features=d, n_rows=n, method=self.name))
            for k, d, n in shapes
        )

    def attacked_cores(self, *, thorough: bool) -> tuple[Plan, ...]:
        """List frames that few blocks agree on, as wide as frames are, and narrow ones."""
        tight, loose = (20, 20, 20), (17, 23, 26)
        shapes = [(1, 3.0, tight)]
        if thorough:
            shapes += [(1, 7.0, tight), (2, 3.0, tight), (2, 3.0, loose), (2, 0.3, loose)]
        return tuple(
            Plan(_large_budget(d), (_small_frame(d, radius, *core),)) for d, radius, core in shapes
        )


def _takes(method: str, request: PlanRequest) -> bool:
    """Check whether another method can be asked this."""
    try:
        registry.get(method).check(request.but(method=method))
    except InvalidInput:
        return False
    return True


def _large_budget(d: int) -> PlanRequest:
    """Build a request that no attacked frame exceeds: its geometry is attacked, not its price."""
    return PlanRequest(
        n_components=1, n_features=d, epsilon=1000.0, delta=0.1, method=SketchMethod.name
    )


def _small_frame(d: int, radius: float, member: int, full: int, core: int) -> FrameAgreement:
    """Build an agreement on a frame with few blocks, at any price."""
    return FrameAgreement(
        n_components=1,
        n_features=d,
        alpha=2.0,
        beta=0.1,
        test=AgreementTest(31, radius, 1.0, 3, member, full, core),
        eta=0.3,
        learner="student",
    )


def _grid_rows(step: int) -> int:
    return round(10 ** (step / _ROWS_PER_DECADE))


def _frame(request: PlanRequest) -> FrameChoice | None:
    """Choose the agreement frame where it is cheap and sure to be found, else the better frame.

    The better one leaves most of the budget, among frames that are found nearly always. If neither
    is, it is the one found more often.
    """
    n, d, budget = request.rows, request.n_features, request.budget
    agreed = frame_stage(n, d, budget, alpha=request.alpha, n_blocks=request.n_blocks)
    if not request.automatic:
        return agreed
    mixture = expected_mixture(request)
    if agreed is not None and agreed.share <= _COSTLY_FRAME and sure_to_agree(agreed, mixture, n):
        return agreed
    found = [one for one in (agreed, histogram_stage(n, d, budget)) if one is not None]
    if len(found) < 2:
        return found[0] if found else None
    return max(found, key=lambda one: (min(frame_chance(one.stage, mixture, n), PASS), one.left))


def _plan(request: PlanRequest, choice: FrameChoice) -> Plan:
    k, d, n = request.n_components, request.n_features, request.rows
    shape = SketchShape.default(d, k)
    shares = (FIRST_SHARE, 1 - FIRST_SHARE)
    first, rest = (_ROUNDING / math.sqrt(share * choice.left) for share in shares)
    finish = Finish(
        k,
        d,
        n,
        shape,
        rest,
        choose=request.choose_components,
        covariance_type=request.covariance_type,
    )
    stages = (choice.stage, Sketch(shape, first, n, d), finish)
    return Plan(request, stages)


@functools.lru_cache(maxsize=256)
def _prospect(request: PlanRequest) -> Prospect:
    """Forecast chance and error of the plan that would be made, once per request."""
    n = request.rows
    if n > _MOST_ROWS:
        # more than integer sums hold; the error is sampling error, which falls like the root
        most = _prospect(request.but(n_rows=_MOST_ROWS))
        return _shrunk(most, n, math.sqrt(_MOST_ROWS / n))
    choice = _frame(request)
    if choice is None:
        return Prospect(SketchMethod.name, n, request.epsilon, 0.0, math.inf, None)
    mixture = expected_mixture(request)
    seen = expected_error(mixture, n, choice.stage, choice.left, known=request.expected is not None)
    return Prospect(
        SketchMethod.name,
        n,
        request.epsilon,
        frame_chance(choice.stage, mixture, n),
        seen.error,
        _plan(request, choice),
        (seen.low, seen.high),
    )


def _along(request: PlanRequest, rows: Sequence[int]) -> tuple[Prospect, ...]:
    """Forecast at many rows: a few are computed, errors between them interpolated in logarithms."""
    asked = {n: request.but(n_rows=n) for n in sorted(set(rows))}
    frames = {n: _frame(one) for n, one in asked.items() if n <= _MOST_ROWS}
    found = {n: choice for n, choice in frames.items() if choice is not None}
    few = list(found)[:: max(1, math.ceil(len(found) / _WORKED_OUT))] + list(found)[-1:]
    seen = {n: _prospect(one) for n, one in asked.items() if n not in found or n in few}
    if not found:
        return tuple(seen[n] for n in rows)
    logs = np.log([(n, seen[n].error, *seen[n].error_band) for n in sorted(few)])
    mixture = expected_mixture(request)
    for n, choice in found.items():
        if n in seen:
            continue
        error, low, high = (
            float(np.exp(np.interp(math.log(n), logs[:, 0], column))) for column in logs[:, 1:].T
        )
        chance = frame_chance(choice.stage, mixture, n)
        plan = _plan(asked[n], choice)
        seen[n] = Prospect(SketchMethod.name, n, request.epsilon, chance, error, plan, (low, high))
    return tuple(seen[n] for n in rows)


def _shrunk(seen: Prospect, n: float, factor: float) -> Prospect:
    """Return a forecast for other rows, with all errors times a factor."""
    low, high = seen.error_band
    return dataclasses.replace(
        seen, n_rows=n, error=factor * seen.error, error_band=(factor * low, factor * high)
    )


registry.register(SketchMethod())
