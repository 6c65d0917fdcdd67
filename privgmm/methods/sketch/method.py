"""The method itself: which frame, which sketch, and how the account is divided between them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from privgmm.budget import Budget
from privgmm.data.generators import random_mixture
from privgmm.errors import InvalidInput
from privgmm.methods.method import Look, Method, Prospect
from privgmm.methods.plan import Plan, checked
from privgmm.methods.request import PlanRequest
from privgmm.methods.searching import first_step
from privgmm.methods.sketch.frames import FrameChoice, frame_stage, histogram_stage
from privgmm.mixture import Mixture
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.form import Form
from privgmm.stages.refinement.expected_error import forecast_error
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.sketch.agreement_frame import FrameAgreement
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.finish import FEW_COLUMNS, REFINED_RADIUS, Finish
from privgmm.stages.sketch.fitting import expected_errors, expected_information
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.stage import Stage

__all__ = ["SketchMethod"]

_FIRST = 0.4
"""Share of what the frame leaves that the first sketch takes."""
_COSTLY_FRAME = 0.12
"""An agreement frame that takes more of the account gives way to a histogram frame."""
_SEPARATION = 4.0
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
        """The plan with the frame's alpha and blocks as asked."""
        if refinement is not None:
            raise InvalidInput(f"refine is not known to method {self.name!r}: leave it out")
        return self.automatic(request)

    def check(self, request: PlanRequest) -> None:
        """Raise `InvalidInput` if the method cannot be asked this at all."""
        super().check(request)
        if request.refinement is not None:
            raise InvalidInput(f"refine is not known to method {self.name!r}: leave it out")

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
        """Whether there is a frame for so many rows."""
        return _frame(request) is not None

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
        """Chances and errors at many numbers of rows."""
        return tuple(_prospect(request.but(n_rows=max(1, int(n)))) for n in rows)

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
    """The agreement frame where it costs little, else whichever frame leaves more."""
    n, d, budget = request.rows, request.n_features, request.budget
    agreed = frame_stage(n, d, budget, alpha=request.alpha, n_blocks=request.n_blocks)
    if not request.automatic or (agreed is not None and agreed.share <= _COSTLY_FRAME):
        return agreed
    found = [one for one in (agreed, histogram_stage(n, d, budget)) if one is not None]
    return max(found, key=lambda one: one.left, default=None)


def _plan(request: PlanRequest, choice: FrameChoice) -> Plan:
    k, d, n = request.n_components, request.n_features, request.rows
    shape = SketchShape.default(d)
    first, rest = (_ROUNDING / math.sqrt(share * choice.left) for share in (_FIRST, 1 - _FIRST))
    stages = (choice.stage, Sketch(shape, first, n, d), Finish(k, d, n, shape, rest))
    return Plan(SketchMethod.name, request.budget, k, d, stages)


@functools.lru_cache(maxsize=256)
def _prospect(request: PlanRequest) -> Prospect:
    """Chance and expected error of the plan that would be made."""
    n = request.rows
    if n > _MOST_ROWS:
        # more than is ever summed: what is left is sampling error, which falls like the root
        most = _prospect(request.but(n_rows=_MOST_ROWS))
        return dataclasses.replace(most, n_rows=n, error=most.error * math.sqrt(_MOST_ROWS / n))
    choice = _frame(request)
    if choice is None:
        return Prospect(SketchMethod.name, n, request.epsilon, 0.0, math.inf, None)
    plan = _plan(request, choice)
    return Prospect(
        SketchMethod.name,
        n,
        request.epsilon,
        plan.pass_probability(n),
        _expected_error(request, choice),
        plan,
    )


def _expected_error(request: PlanRequest, choice: FrameChoice) -> float:
    """By the information of the sketch at a mixture like the one asked about.

    With few columns all that the frame leaves goes into sketches. With many, refinement adds what
    its moments tell, and nothing can be better than the error without privacy.
    """
    n, d = request.rows, request.n_features
    mixture = _typical(request)
    frame = Frame(*_location_and_root(mixture))
    seen = frame.mixture_to_frame(mixture)
    shape = SketchShape.default(d)
    share = 1.0 if d <= FEW_COLUMNS else _FIRST
    stage = Sketch(shape, 1 / math.sqrt(share * choice.left), n, d)
    information = expected_information(seen, shape.frequencies(frame), stage.deviations, n)
    sketched = np.asarray(expected_errors(information, mixture.weights))
    if d <= FEW_COLUMNS:
        return float(np.linalg.norm(sketched))
    rest = 1 / math.sqrt((1 - _FIRST) * choice.left)
    moments = Refinement((rest,), (REFINED_RADIUS * math.sqrt(d),))
    refined, least = (
        np.array([told.weight, told.mean, told.covariance])
        for told in (forecast_error(n, mixture.weights, d, steps) for steps in (moments, None))
    )
    # one over the root of the sum of squares; nothing where both are nothing
    together = sketched * refined / np.maximum(np.hypot(sketched, refined), np.finfo(float).tiny)
    return float(np.linalg.norm(np.maximum(together, least)))


def _typical(request: PlanRequest) -> Mixture:
    """A mixture of the separation and weights that the request expects, or usual ones."""
    k = request.n_components
    separation = _SEPARATION if request.separation is None else request.separation
    weights = np.full(k, 1 / k)
    if request.smallest_weight is not None and k > 1:
        weights = np.full(k, (1 - request.smallest_weight) / (k - 1))
        weights[0] = request.smallest_weight
    return random_mixture(k, request.n_features, separation=separation, weights=weights, rng=0)


def _location_and_root(mixture: Mixture) -> tuple[np.ndarray, np.ndarray]:
    """Mean and a root of the covariance of all components together."""
    mean = mixture.weights @ mixture.means
    gaps = mixture.means - mean
    spread = mixture.covariances + gaps[:, :, None] * gaps[:, None, :]
    whole = np.einsum("k,kij->ij", mixture.weights, spread)
    return mean, np.linalg.cholesky(whole)
