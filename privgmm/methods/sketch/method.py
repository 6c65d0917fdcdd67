"""The method itself: which frame, which sketch, and how the account is divided between them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from privgmm.budget import Budget
from privgmm.errors import InvalidInput, PrivGMMError
from privgmm.methods.calibration import too_few_blocks
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
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.sketch.agreement_frame import FrameAgreement
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.stage import Stage

__all__ = ["SketchMethod"]

_COSTLY_FRAME = 0.12
"""An agreement frame that takes more of the account gives way to a histogram frame."""
_WORKED_OUT = 9
"""Of the errors along a curve so many are worked out; they fall smoothly."""
_ROWS_PER_DECADE = 16
_DECADES = (2, 12)
_MOST_ROWS = 10**12
_ROUNDING = 1 + 1e-9
_LAVISH = Budget(1000.0, 0.1)


class SketchMethod(Method):
    """A public frame, one noisy sketch of all rows, a fit for free, and the rest of the account.

    It always allows for real rows, as far as the account permits, so there is no forgiving plan to
    ask for. A plan is for one number of rows: the noise on the sketch depends on it.
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
        """The frame that leaves most of the account, and what it leaves divided."""
        self.check(request)
        choice = _frame(request)
        if choice is None:
            raise InvalidInput(
                f"no plan is expected to release {request.n_components} components in "
                f"{request.n_features} dimensions from {request.rows} {request.units} within "
                f"{request.budget}: raise epsilon or delta, or bring more {request.units}"
            )
        return checked(_plan(request, choice))

    def calibrated(self, request: PlanRequest, refinement: Refinement | None) -> Plan:
        """The plan with the frame's alpha and blocks as asked, expected to be found or not."""
        if refinement is not None:
            raise InvalidInput(f"refine is not known to method {self.name!r}: leave it out")
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
        if request.refinement is not None:
            raise InvalidInput(f"refine is not known to method {self.name!r}: leave it out")
        most = SketchShape.default(request.n_features).most_components(request.n_features)
        if request.n_components > most:
            raise InvalidInput(
                f"method {self.name!r} takes at most {most} components in {request.n_features} "
                f"dimensions, got {request.n_components}: ask for fewer, or another method"
            )

    def read(self, form: Form, n_components: int, n_features: int) -> tuple[Stage, ...]:
        """A frame of either kind, a sketch, and the finish."""
        histograms = form.data.get("histogram_frame")
        frame: Stage
        if histograms is None:
            frame = FrameAgreement.from_form(form, 1, n_features)
        else:
            frame = HistogramFrame.from_form(form.part("histogram_frame"))
        first = Sketch.from_form(form.part("sketch"))
        return frame, first, Finish.from_form(form.part("finish"), first, n_components)

    # ------------------------------------------------------------------------------ what if

    def feasible(self, request: PlanRequest) -> bool:
        """Whether there is a frame for so many rows, and it is found in 95 % of runs."""
        choice = _frame(request)
        if choice is None:
            return False
        return frame_chance(choice.stage, expected_mixture(request), request.rows) >= PASS

    def rows_for(self, request: PlanRequest) -> float:
        """Rows from which there is a frame; it releases in 95 % of runs and more."""
        self.check(request)

        def holds(step: int) -> bool:
            return self.feasible(request.but(n_rows=_grid_rows(step), n_blocks=None))

        low, high = (decade * _ROWS_PER_DECADE for decade in _DECADES)
        step = first_step(low, high, holds)
        return math.inf if step is None else float(_grid_rows(step))

    def alpha_for(self, request: PlanRequest) -> float:
        """The error to expect: it promises no alpha for what it publishes."""
        return self.error_for(request)

    def error_for(self, request: PlanRequest) -> float:
        """The error to expect; infinite if the rows are too few."""
        return self.prospect(request).error

    def prospect(self, request: PlanRequest) -> Prospect:
        """Chance of a release and error to expect, by the plan that would be made."""
        return _prospect(request)

    def along_rows(
        self,
        request: PlanRequest,
        rows: Sequence[float],
        *,
        enough: float | None = None,  # noqa: ARG002 - every number of rows has its own plan
    ) -> tuple[Prospect, ...]:
        """Chances and errors at many numbers of rows; some errors lie between those of others."""
        return _along(request, [max(1, int(n)) for n in rows])

    def outlook(
        self,
        plan: Plan,
        mixture: Mixture,
        n_rows: int,
        *,
        learner: str | None = None,  # noqa: ARG002 - a frame brings its own
    ) -> Outlook:
        """The chance that the frame is found, and what the sketches can tell in it.

        Where the number of components is chosen on the way, it is taken to be the true one.
        """
        frame, first, finish = plan.stages
        chance = frame_chance(frame, mixture, n_rows)
        k, most = mixture.n_components, plan.n_components
        if not (isinstance(first, Sketch) and isinstance(finish, Finish)):
            raise PrivGMMError(f"a plan of method {self.name!r} has a sketch and a finish")
        if k != most and not (plan.chooses_components and k < most):
            return Outlook(chance, None)
        left = first.multiplier**-2 + finish.multiplier**-2
        told = expected_error(mixture, n_rows, FrameChoice(frame, left, 0.0), known=True)
        return Outlook(chance, told.error, (told.low, told.high))

    # -------------------------------------------------------------------------------- audit

    def audited_plans(self, *, thorough: bool) -> tuple[Plan, ...]:
        """With either kind of frame, for a few shapes."""
        shapes = [(2, 2, 100_000), (2, 2, 2_000)]
        if thorough:
            shapes += [(1, 1, 50_000), (3, 5, 100_000)]
        return tuple(
            self.automatic(PlanRequest(n_components=k, n_features=d, n_rows=n, method=self.name))
            for k, d, n in shapes
        )

    def attacked_cores(self, *, thorough: bool) -> tuple[Plan, ...]:
        """Frames that few blocks agree on, as wide as frames are, and narrow ones."""
        tight, loose = (20, 20, 20), (17, 23, 26)
        shapes = [(1, 3.0, tight)]
        if thorough:
            shapes += [(1, 7.0, tight), (2, 3.0, tight), (2, 3.0, loose), (2, 0.3, loose)]
        return tuple(
            Plan(self.name, _LAVISH, 1, d, (_small_frame(d, radius, *core),))
            for d, radius, core in shapes
        )


def _small_frame(d: int, radius: float, member: int, full: int, core: int) -> FrameAgreement:
    """An agreement on a frame with few blocks, whatever it costs."""
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
    """The agreement frame where it costs little and is sure to be found, else what leaves more.

    Whatever leaves most of the account among the frames that are found nearly always; if none is,
    the one found most often.
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
    shape = SketchShape.default(d)
    shares = (FIRST_SHARE, 1 - FIRST_SHARE)
    first, rest = (_ROUNDING / math.sqrt(share * choice.left) for share in shares)
    finish = Finish(k, d, n, shape, rest, choose=request.choose_components)
    stages = (choice.stage, Sketch(shape, first, n, d), finish)
    return Plan(SketchMethod.name, request.budget, k, d, stages)


@functools.lru_cache(maxsize=256)
def _prospect(request: PlanRequest) -> Prospect:
    """Chance and expected error of the plan that would be made."""
    n = request.rows
    if n > _MOST_ROWS:
        # more than is ever summed: what is left is sampling error, which falls like the root
        most = _prospect(request.but(n_rows=_MOST_ROWS))
        return _shrunk(most, n, math.sqrt(_MOST_ROWS / n))
    choice = _frame(request)
    if choice is None:
        return Prospect(SketchMethod.name, n, request.epsilon, 0.0, math.inf, None)
    mixture = expected_mixture(request)
    told = expected_error(mixture, n, choice, known=request.expected is not None)
    return Prospect(
        SketchMethod.name,
        n,
        request.epsilon,
        frame_chance(choice.stage, mixture, n),
        told.error,
        _plan(request, choice),
        (told.low, told.high),
    )


def _along(request: PlanRequest, rows: Sequence[int]) -> tuple[Prospect, ...]:
    """Prospects at many rows: a few worked out, and errors between them by their logarithms."""
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
    """The same at other rows, with all errors times a factor."""
    low, high = seen.error_band
    return dataclasses.replace(
        seen, n_rows=n, error=factor * seen.error, error_band=(factor * low, factor * high)
    )
