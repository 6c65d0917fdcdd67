"""Plan method `sketch`: choose frame and sketch, and divide the budget between them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from privgmm.errors import InvalidInput, MethodName
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
)
from privgmm.methods.sketch.frames import (
    FrameChoice,
    frame_by_hand,
    frame_stage,
    histogram_stage,
)
from privgmm.methods.sketch.wide import MANY_COLUMNS, wide_stages
from privgmm.methods.typical import expected_mixture
from privgmm.mixture import Mixture
from privgmm.stages.accuracy import ExpectedError
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.form import Form
from privgmm.stages.sketch.agreement_frame import FrameAgreement
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.stage import Stage
from privgmm.stages.wide.finish import WideFinish
from privgmm.stages.wide.pooled import PooledLooks
from privgmm.stages.wide.subspace import SubspaceSketch

__all__ = ["SketchMethod"]

_WORKED_OUT = 9
"""Errors computed along a curve where rows are few, where errors bend, and as many beyond; others
are interpolated. By convention."""
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
_MOST_FITTED = 50
"""Components that are fitted at most. Time grows like k^2.5; measured: 50 in two columns, 3 min."""
_TOO_LONG = "fitting more to a sketch would take many minutes"
_MOST_ROWS = 10**12
"""Largest number of rows that integer sums hold; beyond it only sampling error is left."""
_AUDITED_BLOCKS = 1000
"""Choice: blocks of the plans by hand that the audit runs."""
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
    # the colour of a release on every other page: it is the default
    look: ClassVar[Look] = Look("#D55E00", "solid", 4.0)
    largest_mask_accuracy: ClassVar[float] = math.inf
    plans_only_for_enough: ClassVar[bool] = True
    publishes_sketch: ClassVar[bool] = True

    # ----------------------------------------------------------------------------- planning

    def automatic(self, request: PlanRequest) -> Plan:
        """Find the frame by histograms, and divide what that leaves."""
        self.check(request)
        choice = _frame(request)
        if choice is None:
            raise no_plan(request, f"raise {{epsilon}} or {{delta}}, or bring more {request.units}")
        return checked(_plan(request, choice))

    def calibrated(self, request: PlanRequest) -> Plan:
        """Make the plan with the frame's accuracy and blocks as asked, hopeful or not."""
        self.check(request)
        choice = _frame(request)
        if choice is None:
            t = self.default_blocks(request) if request.n_blocks is None else request.n_blocks
            choice = frame_by_hand(
                request.n_features, request.budget, accuracy=request.mask_accuracy, n_blocks=t
            )
            if choice is None:
                raise too_few_blocks(request.budget, t)
        return checked(_plan(request, choice))

    def check(self, request: PlanRequest) -> None:
        """Raise `InvalidInput` if the method cannot be asked this at all."""
        super().check(request)
        k, d = request.n_components, request.n_features
        resolved = max(_MOST_COMPONENTS, SketchShape.default(d).most_components(d))
        most = min(resolved, _MOST_FITTED)
        if k > most:
            why = "a sketch does not resolve more" if most == resolved else _TOO_LONG
            raise InvalidInput(
                f"must be at most {{most}} for {{method_is}} and {{columns}} column{'s' * (d > 1)}",
                argument="n_components",
                value=k,
                remedy=f"{why}; ask for fewer" + ", or use {able}" * _takes(_MANY, request),
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
        frame: Stage
        if "n_blocks" in form.data or request.n_blocks is not None:
            frame = FrameAgreement.from_form(form, 1, request.n_features)
        else:
            frame = HistogramFrame.from_form(form.part("histogram_frame"))
        if "subspace_sketch" in form.data:
            sketched = SubspaceSketch.from_form(form.part("subspace_sketch"))
            _check_rows(form, request, sketched.n_units)
            looks = WideFinish.from_form(
                form.part("finish"),
                n_components=request.n_components,
                n_features=sketched.n_features,
                n_units=sketched.n_units,
                covariance_type=request.covariance_type,
            )
            return frame, PooledLooks.from_form(form.part("pooled_looks")), sketched, looks
        first = Sketch.from_form(form.part("sketch"))
        _check_rows(form, request, first.n_units)
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
        chance = self.chance(plan, mixture, n_rows)
        k, most = mixture.n_components, plan.n_components
        if k != most and not (plan.chooses_components and k < most):
            return Outlook(chance, None)
        return Outlook(chance, self.expected_error(plan, mixture, n_rows))

    def chance(self, plan: Plan, mixture: Mixture, n_rows: float) -> float:
        """Forecast the chance that the frame is found."""
        return frame_chance(plan.stages[0], mixture, math.floor(n_rows))

    def expected_error(
        self,
        plan: Plan,
        mixture: Mixture,
        n_rows: float,  # noqa: ARG002 - a plan is for one number of rows
    ) -> ExpectedError:
        """Forecast the error of the last stage, from all that is published before it."""
        last = plan.stages[-1]
        if isinstance(last, WideFinish):
            return last.expected_errors(mixture).law()
        return expected_error(mixture, plan.stages[0], plan.stage(Sketch), plan.stage(Finish))

    # -------------------------------------------------------------------------------- audit

    def audited_plans(self, *, thorough: bool) -> tuple[Plan, ...]:
        """List plans with either kind of frame, for a few shapes, and one for many columns."""
        shapes: list[tuple[int, int, int, int | None]] = [
            (2, 2, 100_000, _AUDITED_BLOCKS),
            (2, 2, 2_000, None),
            (2, MANY_COLUMNS, 20_000, None),
        ]
        if thorough:
            shapes += [(1, 1, 50_000, _AUDITED_BLOCKS), (3, 5, 10**6, None)]
        return tuple(
            self.automatic(
                PlanRequest(n_components=k, n_features=d, n_rows=n, n_blocks=t, method=self.name)
            )
            for k, d, n, t in shapes
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


def _check_rows(form: Form, request: PlanRequest, n_units: int) -> None:
    """Check that the rows asked for, where they are said, are those of the sketch."""
    if request.n_rows not in (None, n_units):
        raise InvalidInput(
            f"{form.name}.request.n_rows must be {n_units}, as in its sketch, got {request.n_rows}"
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
        mask_accuracy=2.0,
        beta=0.1,
        test=AgreementTest(31, radius, 1.0, 3, member, full, core),
        eta=0.3,
        learner="student",
    )


def _grid_rows(step: int) -> int:
    return round(10 ** (step / _ROWS_PER_DECADE))


def _frame(request: PlanRequest) -> FrameChoice | None:
    """Find the frame by histograms; by the agreement of blocks where mask or blocks are set.

    Measured: errors are the same in either, and histograms cost less and refuse less often.
    """
    n, d, budget = request.rows, request.n_features, request.budget
    if request.automatic:
        return histogram_stage(n, d, budget, rounds=not _is_wide(request))
    return frame_stage(n, d, budget, accuracy=request.mask_accuracy, n_blocks=request.n_blocks)


def _is_wide(request: PlanRequest) -> bool:
    """Check whether a plan for many columns answers; a knob set by hand asks for blocks."""
    return request.n_features >= MANY_COLUMNS and request.automatic


def _plan(request: PlanRequest, choice: FrameChoice) -> Plan:
    if _is_wide(request):
        return Plan(request, wide_stages(request, choice))
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
        return Prospect(SketchMethod.name, n, request.epsilon, 0.0, None, None)
    mixture, plan = expected_mixture(request), _plan(request, choice)
    return Prospect(
        SketchMethod.name,
        n,
        request.epsilon,
        frame_chance(choice.stage, mixture, n),
        registry.get(SketchMethod.name).expected_error(plan, mixture, n),
        plan,
    )


def _along(request: PlanRequest, rows: Sequence[int]) -> tuple[Prospect, ...]:
    """Forecast at many rows: a few are computed, errors between them interpolated in logarithms."""
    asked = {n: request.but(n_rows=n) for n in sorted(set(rows))}
    frames = {n: _frame(one) for n, one in asked.items() if n <= _MOST_ROWS}
    found = {n: choice for n, choice in frames.items() if choice is not None}
    bent, smooth = list(found)[:_WORKED_OUT], list(found)[_WORKED_OUT:]
    few = [*bent, *smooth[:: max(1, math.ceil(len(smooth) / _WORKED_OUT))], *smooth[-1:]]
    seen = {n: _prospect(one) for n, one in asked.items() if n not in found or n in few}
    if not found:
        return tuple(seen[n] for n in rows)
    known = [one for n in sorted(few) if (one := seen[n].expected_error) is not None]
    logs, quantiles = np.log(sorted(few)), np.array([one.quantiles for one in known])
    mixture = expected_mixture(request)
    for n, choice in found.items():
        if n in seen:
            continue
        between = [np.interp(math.log(n), logs, column) for column in np.log(quantiles).T]
        expected = ExpectedError(tuple(np.exp(np.minimum(between, 0.0)).tolist()))
        chance = frame_chance(choice.stage, mixture, n)
        plan = _plan(asked[n], choice)
        seen[n] = Prospect(SketchMethod.name, n, request.epsilon, chance, expected, plan)
    return tuple(seen[n] for n in rows)


def _shrunk(seen: Prospect, n: float, factor: float) -> Prospect:
    """Return a forecast for other rows, with all errors times a factor."""
    found = seen.expected_error
    return dataclasses.replace(
        seen, n_rows=n, expected_error=None if found is None else found.times(factor)
    )


registry.register(SketchMethod())
