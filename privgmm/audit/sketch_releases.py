"""Whole releases by a sketch on neighbouring data: the epsilon that an outsider can prove.

Each run is a release like any other, from the rows to a mixture with its sketch and its frame, or
to a refusal. The outsider knows both data sets, and compares the published sketch with what each
of them would give without noise in the published frame. A run takes some milliseconds, so there
are hundreds of them, and the budget is one that hundreds of runs can refute. The noise of a sketch
alone is drawn thousands of times from one prepared stage.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from privgmm.arrays import Array
from privgmm.audit.endtoend import proved_epsilon
from privgmm.audit.findings import Finding, within
from privgmm.audit.wiretap import Side
from privgmm.budget import Budget
from privgmm.data.people import ArrayPeople
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan
from privgmm.methods.request import PlanRequest
from privgmm.methods.sketch.method import SketchMethod
from privgmm.privacy.curves import gaussian_curve
from privgmm.privacy.noise import SeededNoise
from privgmm.releases import release
from privgmm.results import Release
from privgmm.stages.sketch.features import SketchShape, feature_sums
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.private_sketch import ComplexArray, PrivateSketch
from privgmm.stages.sketch.stage import Sketch

__all__ = ["Case", "cases", "lean", "many_sketches", "one_turn", "small_plan", "whole_releases"]

PROMISE = Budget(1.0, 0.01)
"""A budget that hundreds of runs can refute: its delta is not much rarer than one run."""

_ROWS = 300
"""Few, so that one row matters and a release takes milliseconds."""
_COLUMNS = 5
"""Numbers that `_published` reads off a release."""
_SCALE = 1 << 30
"""Fixed-point units in which the outsider sums waves: rounding is far below the noise."""
_POWERS = 25.0
"""Powers of four over which rows are spread where most releases are to be refused."""


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """Two data sets (n, 1) that differ in one row, and the plan that both are released with."""

    name: str
    plan: Plan
    first: Array
    second: Array


def small_plan(budget: Budget = PROMISE) -> Plan:
    """Plan one component in one column from few rows: histograms, a sketch, and the finish."""
    request = PlanRequest(
        n_components=1,
        n_features=1,
        n_rows=_ROWS,
        epsilon=budget.epsilon,
        delta=budget.delta,
        method=SketchMethod.name,
    )
    return SketchMethod().automatic(request)


def one_turn(shape: SketchShape) -> float:
    """Compute the distance of two rows in one column that moves the sums most."""
    return 2 * math.pi / ((shape.n_frequencies + 1) * shape.step)


def cases() -> list[Case]:
    """List the cases: a row goes far away, moves the waves most, or decides on refusal."""
    plan = small_plan()
    rows = np.random.default_rng(0).standard_normal((_ROWS, 1))
    rows[0] = 0.0
    # differences are spread over many powers of four: hardly any bin holds enough of them
    rng = np.random.default_rng(1)
    spread = rng.choice([-1.0, 1.0], _ROWS) * 4.0 ** rng.uniform(0, _POWERS, _ROWS)
    pairs = []
    for name, start, value in (
        ("a row far away", rows, 1e6),
        ("hardly released", spread[:, None], 1e12),
        ("one turn", rows, one_turn(SketchShape.default(1))),
    ):
        other = start.copy()
        other[0] = value
        pairs.append(Case(name, plan, start, other))
    return pairs


def _towards(
    frame: Frame, shape: SketchShape, one: Array, two: Array
) -> tuple[ComplexArray, ComplexArray]:
    """Compute the exact values of both data sets in a frame: their middle and their difference.

    An outsider who knows both data sets can do so once the frame is published.
    """
    amplitudes = np.tile(shape.amplitudes, shape.n_directions)
    first, second = (
        (sums[0] + 1j * sums[1]) / (_SCALE * len(one) * amplitudes)
        for sums in (
            feature_sums(ArrayPeople.of(rows), frame, shape, scale=_SCALE).reshape(2, -1)
            for rows in (one, two)
        )
    )
    return (first + second) / 2, second - first


def lean(sketch: PrivateSketch, shape: SketchShape, case: Case) -> float:
    """Compute the log likelihood ratio of a published sketch, second data set over first."""
    middle, way = _towards(sketch.frame, shape, case.first, case.second)
    variance = sketch.deviations**2
    return float(np.sum(((sketch.values - middle) * way.conj()).real / variance))


def _published(rows: Array, case: Case, rng: np.random.Generator) -> Array | None:
    """Read numbers off one release, with the likelihood ratio of its sketch; None if refused."""
    result = release(rows, case.plan, rng=rng).result
    if not isinstance(result, Release):
        return None
    mixture, sketch = result.mixture, result.sketch
    if sketch is None:
        raise InvalidInput("a release by a sketch publishes that sketch")
    frame = sketch.frame
    return np.array(
        [
            float(mixture.means[0, 0]),
            math.log(mixture.covariances[0, 0, 0]),
            float(frame.centre[0]),
            math.log(abs(frame.root[0, 0])),
            lean(sketch, SketchShape.default(1), case),
        ]
    )


def _many(rows: Array, case: Case, runs: int, rng: np.random.Generator) -> Array:
    found = [_published(rows, case, rng) for _ in range(runs)]
    return np.stack([np.full(_COLUMNS, np.nan) if one is None else one for one in found])


def whole_releases(case: Case, *, runs: int, rng: np.random.Generator) -> Finding:
    """Prove an epsilon from releases, from rows to mixture, refusals included."""
    first, second = (_many(rows, case, runs, rng) for rows in (case.first, case.second))
    spent = case.plan.spent()
    epsilon, event = proved_epsilon(first, second, spent.delta)
    refused = int(np.isnan(first[:, 0]).sum()), int(np.isnan(second[:, 0]).sum())
    return within(
        f"sketch release, {case.name}",
        "epsilon proved from outputs <= promised",
        epsilon,
        spent.epsilon,
        f"2 x {runs} runs, {refused[0]} and {refused[1]} refused; event: {event}",
    )


def many_sketches(stage: Sketch, *, draws: int, rng: np.random.Generator) -> Finding:
    """Prove an epsilon from one sketch in one column, drawn many times.

    A row moves by one turn, which moves the sums most.
    """
    frame = Frame([0.0], [[1.0]])
    rows = rng.standard_normal((stage.n_units, 1))
    rows[0] = 0.0
    other = rows.copy()
    other[0] = one_turn(stage.shape)
    middle, way = _towards(frame, stage.shape, rows, other)
    source = SeededNoise(rng)
    seen = []
    for side in (rows, other):
        ready = stage.prepare(Side(side).work(source), frame)
        values = np.stack([ready.draw(source).value.values for _ in range(draws)])
        leans = ((values - middle) * way.conj()).real / stage.deviations**2
        seen.append(leans.sum(axis=1, keepdims=True))
    epsilon, event = proved_epsilon(seen[0], seen[1], PROMISE.delta)
    return within(
        f"sketch alone, multiplier={stage.multiplier:.3g}",
        "epsilon proved from outputs <= priced",
        epsilon,
        gaussian_curve(stage.multiplier).epsilon(PROMISE.delta),
        f"2 x {draws} draws of one stage; event: {event}",
    )
