"""Mutations: single lines of the real code, changed one at a time, and the check that notices.

`sabotage` breaks rules in classes of its own. Here the real functions are changed: a line of their
source is replaced, the function is compiled again and takes the place of the old one while a check
of the audit runs. A line that privacy rests on, and that can be changed without a failing check,
would be a hole in the audit. A mutation whose line is gone is an error: it must move with the code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import inspect
import math
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy

from privgmm.audit.cores import Mechanism, findings_of, strain
from privgmm.audit.counts import exact_sums, person_shift, row_shift, sum_noise
from privgmm.audit.findings import Finding, caught, within
from privgmm.audit.grids import impossible_outputs, mask_scale, shuffled
from privgmm.audit.histograms import counts_move, lone_bins
from privgmm.audit.masks import exact_mask
from privgmm.audit.neighbours import Fits, Neighbours, extremes, fan, random_fits
from privgmm.audit.prices import least_price, rounding_priced
from privgmm.audit.real_releases import (
    caps_hold,
    fresh_jitter,
    isolated_learner,
    order_of_release,
    persons_in_blocks,
    refined_plan,
    rows_in_blocks,
)
from privgmm.audit.real_votes import examined_vote, printed_vote
from privgmm.audit.rounding import reference_free
from privgmm.audit.search import planted
from privgmm.audit.secure import secure_origin, secure_spread
from privgmm.audit.sketch_attacks import (
    ORIGIN_FRAME,
    QUIET,
    bimodal,
    first_sketch,
    gaussian_rows,
    persons_apart,
    sketched_subspace,
    turned,
)
from privgmm.audit.wiretap import Heard, Side, Tap, audit_run
from privgmm.budget import Budget
from privgmm.data.labels import label_texts
from privgmm.data.people import ArrayPeople, one_person, person_places
from privgmm.data.rows import row_source
from privgmm.errors import BudgetExceeded, InvalidInput, PrivGMMError
from privgmm.ledger.sqlite import SQLiteLedger
from privgmm.methods import registry
from privgmm.methods.lifted.method import LiftedMethod
from privgmm.methods.plan import Plan
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest
from privgmm.mixture import Mixture
from privgmm.privacy import guessing
from privgmm.privacy.gaussian_account import discrete_mu_squared, gaussian_delta
from privgmm.privacy.noise import SecureNoise, SeededNoise
from privgmm.releases import prepare
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.stage import Agreement, AveragedAgreement
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.refinement.noisy_moments import Refinement, cut_sums
from privgmm.stages.refinement.projection import preferred
from privgmm.stages.refinement.soft_looks import SoftLook, Units, look_row_sums
from privgmm.stages.refinement.winsorised import (
    WinsorisedMoments,
    moment_sensitivity,
    winsorised_sums,
)
from privgmm.stages.sketch.features import SketchShape, feature_sums
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import HistogramFrame, ValueCounts
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.wide.finish import WideFinish
from privgmm.stages.wide.pooled import Pooled, PooledLooks
from privgmm.stages.wide.subspace import Projection
from tests.audit.noisy_only import (
    other_rows,
    replayed,
    replayed_finish,
    replayed_frame,
    replayed_lifted_mask,
    replayed_mask,
    replayed_persons,
    replayed_printed_vote,
    replayed_refinement,
    replayed_refusal,
    replayed_sketch,
    replayed_vote,
)
from tests.records.test_sketch_of_plan import problems as receipt_problems
from tests.records.test_sketch_of_plan import released as released_sketch
from tests.records.test_sketch_of_plan import with_sketch

__all__ = [
    "GUARDS",
    "MUTATIONS",
    "NAMED",
    "REPLAYED",
    "Mutation",
    "mutated",
    "mutation_findings",
]

Check = Callable[[], Finding]


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A line of the code, what replaces it, and the check that must then fail.

    Parameters
    ----------
    name : str
    where : str
        ``module:function`` or ``module:Class.method``, without the name of the package.
    line, becomes : str
        Part of its source, found there exactly once, and what it is replaced by.
    check : callable
        Gives the finding; must pass on the code as it is.
    """

    name: str
    where: str
    line: str
    becomes: str
    check: Check


# ----------------------------------------------------------------------------- changing a line


def _compiled(function: Any, module: Any, line: str, becomes: str, where: str) -> Any:
    """Compile the function with its line changed, as an object to put in its place."""
    plain = function
    for attribute in ("fget", "func", "__func__", "py_func", "__wrapped__"):
        plain = getattr(plain, attribute, plain)
    source = textwrap.dedent(inspect.getsource(plain))
    if source.count(line) != 1:
        raise InvalidInput(
            f"a mutation of {where} changes {line!r}, which is there {source.count(line)} times: "
            "it must move with the code"
        )
    kept = source.replace(line, becomes).split("\n")
    # compiled kernels run as plain functions: the same numbers, slowly
    while kept[0].startswith(("@nb.njit", "@njit")):
        kept = kept[1:]
    scope: dict[str, Any] = {}
    code = compile("from __future__ import annotations\n" + "\n".join(kept), f"<{where}>", "exec")
    exec(code, vars(module), scope)
    return scope[plain.__name__]


@contextlib.contextmanager
def mutated(mutation: Mutation) -> Iterator[None]:
    """Change the line for the time of a `with` block, wherever the function is known."""
    name, path = mutation.where.split(":")
    module = importlib.import_module(f"privgmm.{name}")
    owner: Any = module
    *parents, last = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    old = inspect.getattr_static(owner, last)
    new = _compiled(old, module, mutation.line, mutation.becomes, mutation.where)
    places: list[tuple[Any, str]] = [(owner, last)]
    if not parents:
        # modules that imported the function by name have it too, this one included
        places += [
            (other, key)
            for other in list(sys.modules.values())
            if getattr(other, "__name__", "").partition(".")[0] in {"privgmm", "tests"}
            and other is not module
            for key, value in list(vars(other).items())
            if value is old
        ]
    try:
        for place, key in places:
            setattr(place, key, new)
        if isinstance(new, functools.cached_property):
            new.__set_name__(owner, last)
        yield
    finally:
        for place, key in places:
            setattr(place, key, old)


# ------------------------------------------------------------------------- checks, ready to run


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _plan(method: str, which: int = 0) -> Plan:
    return registry.get(method).audited_plans(thorough=True)[which]


def _stage(method: str) -> Agreement:
    return _plan(method).stage(Agreement)


def _shaped(t: int, m: int, full: int, core: int, k: int, d: int) -> AveragedAgreement:
    return LiftedMethod.shaped(t, m, full, core, n_components=k, n_features=d)


def _core(stage: Agreement, key: str, pairs: str = "planted") -> Finding:
    """Measure the worst that one changed block does to a core."""
    mechanism, rng = Mechanism(stage), _rng()
    found = planted(mechanism, rng, clouds=2)
    if pairs == "fan":
        found = [
            fan(stage, gap * stage.tau, np.pi / 2, rng, to=turn)
            for gap in (1.2, 2.3)
            for turn in (0.4, 0.8, 1.2)
        ]
    elif pairs == "wide":
        found = [extremes(stage), *(random_fits(stage, 0.1, rng) for _ in range(3))]
    label = f"{stage.shape}, {pairs}"
    return findings_of(label, [(strain(mechanism, one), one.name) for one in found], only=(key,))[0]


def _flanked() -> Finding:
    """Make three groups of fits that just count as members, until the core loses one block.

    They lie tau from the core on one side of it, and a little more than tau from each other.
    """
    core, heap = 19, 14
    t = core + 3 * heap
    stage = _shaped(t, core + heap, t - 1, core - 1, 1, 2)
    fits = Fits.equal(t, 1, 2)
    means, factors = fits.means.copy(), fits.cholesky.copy()
    for number in range(3):
        # about 68 degrees apart: moves of either mean, and of a width
        towards = np.eye(3)[number] + 0.22
        x, y, width = 0.97 * stage.tau * towards / np.linalg.norm(towards)
        span = slice(core + number * heap, core + (number + 1) * heap)
        means[span, 0] += np.array([x, y]) / math.sqrt(2)
        factors[span, 0, 0, 0] *= math.exp(width / 2)
    first = dataclasses.replace(fits, means=means, cholesky=factors)
    lost = means.copy()
    lost[1] += 1e6
    pair = Neighbours(first, dataclasses.replace(first, means=lost), 1, "flanked")
    found = strain(Mechanism(stage), pair)
    return findings_of(stage.shape, [(found, pair.name)], only=("move",))[0]


_VOTE = AgreementTest(60, 1.0, 4.0, 15, 31, 38, 36)


def _vote() -> Finding:
    return examined_vote(_VOTE, "m=31 M=38 G=36")


def _printed() -> Finding:
    return printed_vote(PopulousTest(60, 0.1, 0.8, 1e-3))


def _spread_of(law: str) -> Check:
    return lambda: secure_spread(draws=12_000, only=law)[0]


_FAR = Mixture([0.5, 0.5], [[0.0], [1e3]], [[[1.0]], [[1.0]]])


def _refinement_sides() -> tuple[Side, Side]:
    """Move a row from the edge of one component to the edge of the other: as far as any can."""
    rows = np.concatenate([gaussian_rows(60, 1), 1e3 + gaussian_rows(60, 1)])
    other = rows.copy()
    rows[0], other[0] = 2.0 * (1 - 1e-12), 1e3 + 2.0 * (1 - 1e-12)
    return Side(rows), Side(other)


def _refinement() -> Finding:
    return audit_run(Refinement((5.0, 5.0), (2.0, 2.0)), *_refinement_sides(), _FAR, label="far")


def _refinement_twice() -> Finding:
    """Take two steps, the second with far less noise: its cost must be in the price."""
    return audit_run(Refinement((50.0, 5.0), (2.0, 2.0)), *_refinement_sides(), _FAR, label="twice")


def _one_step() -> Finding:
    return audit_run(Refinement((5.0,), (2.0,)), *_refinement_sides(), _FAR, label="far, one step")


def _refinement_rows() -> Finding:
    return row_shift(Refinement((5.0,), (2.0,)), n_features=1, tries=60, rng=_rng())


def _refinement_persons() -> Finding:
    return person_shift(Refinement((5.0,), (2.0,)), n_features=1, rng=_rng())


_N = 200


def _sketch() -> Finding:
    plain, moved = turned(_N)
    return audit_run(
        Sketch(SketchShape.default(1), 1.5, _N, 1), plain, moved, ORIGIN_FRAME, label="turn"
    )


def _sketch_persons() -> Finding:
    one, other = persons_apart(_N)
    stage = Sketch(SketchShape.default(1), 1.5, _N, 1)
    return audit_run(stage, one, other, ORIGIN_FRAME, label="persons")


def _sketch_rows() -> Finding:
    return row_shift(Sketch(SketchShape.default(1), 1.5, _N, 1), n_features=1, tries=60, rng=_rng())


def _second_sketch() -> Finding:
    plain, moved = turned(_N)
    finish = Finish(1, 1, _N, SketchShape.default(1), 1.5)
    return audit_run(finish, plain, moved, first_sketch(plain), label="second sketch")


def _rich() -> Finding:
    heaps, parted = bimodal(_N)
    finish = Finish(1, 1, _N, SketchShape.default(1), QUIET)
    return audit_run(finish, heaps, parted, first_sketch(heaps), label="rich mixture")


def _noisy_vote() -> Finding:
    """Vote among three mixtures by the real code; one row changes its preference."""
    rows = gaussian_rows(50, 1)
    places = [Mixture([1.0], [[place]], [[[1.0]]]) for place in (0.0, 50.0, 60.0)]
    heard: list[list[Heard]] = []
    for value in (-500.0, 500.0):
        rows[0] = value
        tap = Tap(0, heard[0] if heard else ())
        preferred(ArrayPeople.of(rows), places, clip=2.0, multiplier=3.0, source=tap)
        heard.append(tap.heard)
    gaps = [
        float(np.linalg.norm((a.sums - b.sums).astype(np.float64))) / a.sigma
        for a, b in zip(*heard, strict=True)
    ]
    return within(
        "vote among mixtures",
        "cost of the draw on neighbours / priced <= 1",
        9.0 * sum(gap**2 for gap in gaps) if gaps else math.inf,
        1 + 1e-9,
        "one row of fifty replaced",
    )


def _finish_rows(which: int) -> Check:
    """Attack one of the sums of the finish: a second sketch, moments of three kinds, a vote."""

    def check() -> Finding:
        finish = Finish(1, 1, _N, SketchShape.default(1), 1.5)
        chosen = _Only(finish, which)
        return row_shift(chosen, n_features=1, tries=40, rng=_rng())  # type: ignore[arg-type]  # has what it needs

    return check


class _Only:
    """A stage with only one of its sums, to be attacked by itself."""

    kind = "finish"

    def __init__(self, stage: Finish, which: int) -> None:
        self.stage, self.which = stage, which

    def row_sums(self, n_features: int) -> Any:
        return (self.stage.row_sums(n_features)[self.which],)


def _frame() -> HistogramFrame:
    return HistogramFrame(
        n_features=1,
        scale_sigma=2.0,
        location_sigma=3.0,
        miss=1e-3,
        multipliers=(5.0,),
        radius=2.0,
    )


def _bins(which: int) -> Check:
    return lambda: lone_bins(_frame())[which]


def _counts() -> Finding:
    return counts_move(_frame(), rng=_rng())


def _looking_frame() -> HistogramFrame:
    return dataclasses.replace(_frame(), multipliers=(), values=ValueCounts(2.0, 10, 2.0))


def _values_shown() -> Finding:
    """Hold what single values show against the threshold that the plan has for them."""
    return lone_bins(dataclasses.replace(_looking_frame(), values=ValueCounts(2.0, 5, 2.0)))[2]


def _replayed_values(d: int = 1) -> Finding:
    """Replay counts of values and grids: a third of the rows are zero, the others hundredths."""
    rng = np.random.default_rng(4)
    rows = np.round(100 + 10 * rng.standard_normal((300, d)), 2)
    rows[rng.random(300) < 0.35] = 0.0
    other = np.where((rows == 0) & (rng.random(rows.shape) < 0.9), 0.0, np.rint(rows))
    few = np.flatnonzero(rows[:, 0] == 0.0)
    # fewer rows share the value than an atom takes
    other[few[9:]] = 3.0
    stage = dataclasses.replace(_looking_frame(), n_features=d)
    return replayed(stage, ArrayPeople.of(rows), ArrayPeople.of(other), None, label="values")


def _value_account() -> Finding:
    """Move a row from one value that many share to another, and from whole numbers to none."""
    rows = np.concatenate([np.full((100, 1), 3.0), np.full((100, 1), 1000.125)])
    other = rows.copy()
    other[0] = 1000.125
    stage = dataclasses.replace(_looking_frame(), scale_sigma=9.0, location_sigma=9.0)
    return audit_run(stage, Side(rows), Side(other), None, label="values that many share")


def _histogram_account() -> Finding:
    """Move a row, and its pair, from one crowded bin to another; only counts are drawn."""
    rows = np.concatenate([np.zeros((100, 1)), np.full((100, 1), 1000.0)])
    rows += 1e-3 * gaussian_rows(200, 1)
    other = rows.copy()
    other[0] = 1000.0
    stage = dataclasses.replace(_frame(), multipliers=())
    return audit_run(stage, Side(rows), Side(other), None, label="crowded bins")


def _moments() -> Finding:
    public = Mixture([1.0], [[0.0]], [[[1.0]]])

    def sums(part: Any, member: Any) -> Any:
        return winsorised_sums(ArrayPeople.of(part, member), public, WinsorisedMoments(2.0))[0]

    return exact_sums("moments, d=1", sums, 2 * gaussian_rows(60, 1), rng=_rng())


def _looked(label: str = "apart") -> Finding:
    """Move a row between directions in which the sums of one look move nearly as far as can be."""
    rows = gaussian_rows(400, 2)
    rows[0] = 1e6
    far = rows.copy()
    far[0, 1] = -1e6
    stage, frame = PooledLooks((1.5,), 400, 2), Frame([0.0, 0.0], np.eye(2))
    return audit_run(stage, Side(rows), Side(far), frame, label=label)


def _look_replayed() -> Finding:
    rows, frame = gaussian_rows(400, 2), Frame([0.0, 0.0], np.eye(2))
    other = ArrayPeople.of(rows + 0.5)
    return replayed(
        PooledLooks((1.5, 1.5), 400, 2), ArrayPeople.of(rows), other, frame, label="looks"
    )


def _look_rows() -> Finding:
    stage = WideFinish(2, 2, 400, 1.0, (0.2, 0.3))
    return row_shift(stage, n_features=2, tries=100, rng=_rng())


def _look_persons() -> Finding:
    return person_shift(PooledLooks((1.0,), 400, 2), n_features=2, rng=_rng())


def _grid() -> Finding:
    return impossible_outputs(LiftedSpace(0.25), outputs=20, rng=_rng())


def _mask(method: str) -> Check:
    return lambda: mask_scale(_stage(method), method, samples=16_000, rng=_rng())


def _weight_scale(space: PaperSpace) -> Finding:
    """Compare how widely masked weights scatter with a normal law of the priced level."""
    samples = 20_000
    drawn = space.mask_weight(np.full(samples, 0.5), 2, rng=SeededNoise(_rng()))
    low, high = np.quantile(drawn, [0.25, 0.75])
    # the interquartile range of a standard normal law, and the error of one that is measured
    error = math.log((high - low) / (1.3489795 * space.eta_weight)) / (1.17 / math.sqrt(samples))
    return within("mask, scale of weights", "error in standard errors <= 5", abs(error), 5.0)


def _exact(method: str) -> Check:
    return lambda: exact_mask(_stage(method), method, rng=_rng())


def _order(method: str) -> Check:
    return lambda: shuffled(_stage(method), method, samples=100)


def _price(method: str, which: int = 0) -> Check:
    return lambda: least_price(_plan(method, which))


def _rounding(method: str) -> Check:
    return lambda: rounding_priced(_plan(method))


def _refined_price() -> Finding:
    return least_price(refined_plan())


def _replayed_vote() -> Finding:
    return replayed_vote(_VOTE)


def _replayed_printed() -> Finding:
    return replayed_printed_vote(PopulousTest(60, 0.1, 0.8, 1e-3))


def _own_rows_only() -> Finding:
    """Replace a person by one with another number of rows: of all others the same row is taken."""
    rng, key, changed, compared = _rng(), bytes(range(32)), 0, 0
    sizes = rng.integers(1, 9, size=60)
    names = np.array([f"person {i}" for i in range(sizes.size)], dtype=object)

    def taken(numbers: Any, labels: Any) -> dict[str, float]:
        owners = np.repeat(labels, numbers)
        # a row says which of its person's rows it is
        rows = np.concatenate([np.arange(number) for number in numbers]).astype(np.float64)
        people = ArrayPeople.labelled(rows[:, None], owners, key)
        found = people.take(np.arange(len(people)))
        return dict(zip(owners[found.positions], found.rows[:, 0].tolist(), strict=True))

    before = taken(sizes, names)
    for place in range(0, sizes.size, 7):
        for size, name in ((1, names[place]), (13, names[place]), (4, "somebody else")):
            other, labels = sizes.copy(), names.copy()
            other[place], labels[place] = size, name
            after = taken(other, labels)
            kept = [one for one in before if one != names[place]]
            changed += sum(before[one] != after[one] for one in kept)
            compared += len(kept)
    return within(
        "rows taken of persons",
        "rows of others that changed with a person <= 0",
        changed,
        0,
        f"{compared} rows of all persons but the one who was replaced",
    )


def _ceiling() -> Finding:
    """Search for the best attacker that divergence and variation allow, against the bound on it.

    A linear program finds the law of the loss, on 4,001 losses, that gives an attacker most.
    """
    worst = -math.inf
    for divergence, variation, mu, epsilon in (
        (0.02, 1.0, 0.0, 0.0),
        (0.02, 0.05, 0.0, 0.1),
        (0.02, 0.08, 0.1, 0.1),
        (0.3, 0.3, 0.05, 0.5),
    ):
        losses = guessing._grid(math.sqrt(2 * divergence), 4001)
        basis, gains = guessing._basis(losses), guessing._gaussian_delta(epsilon - losses, mu)
        limits = np.array([1.0, 0.0, divergence, divergence, variation])
        best = scipy.optimize.linprog(
            -gains, basis[:, 2:].T, limits[2:], basis[:, :2].T, limits[:2], bounds=(0, None)
        )
        if best.fun is None:
            raise InvalidInput(f"no law of the loss was found: {best.message}")
        bound = guessing._after_curve(divergence, variation, mu, epsilon)
        worst = max(worst, -float(best.fun) - bound)
    return within(
        "ceiling on an attacker",
        "delta of the best law found - the bound <= 0",
        worst,
        1e-9,
        "linear programs on 4,001 losses",
    )


def _accepted_scales(kind: str) -> Check:
    """Try scales of moments around the guard: those that are accepted must keep the sensitivity."""

    def check() -> Finding:
        worst, accepted = 0.0, 0
        for c0, c2 in ((0.1, 1.0), (0.4, 1.0), (0.3, 0.5), (0.2, 0.25)):
            for share in (0.9, 0.999, 1.02, 1.2, 1.5, 2.0):
                scales = (c0, share * math.sqrt(2 * c0 * c2), c2)
                try:
                    move = _apart(kind, scales)
                except InvalidInput:
                    continue
                worst, accepted = max(worst, move), accepted + 1
        return within(
            f"scales of {kind} moments",
            "move of the sums / what the noise covers <= 1",
            worst if accepted else math.inf,
            1 + 1e-9,
            f"{accepted} scales that were accepted",
        )

    return check


def _apart(kind: str, scales: tuple[float, float, float]) -> float:
    """Measure how far two rows at the edge move the sums, at the angle that moves them most."""
    radius, public = 2.0, Mixture([1.0], [[0.0, 0.0]], np.eye(2)[None])
    cosine = max(-1.0, -(scales[1] ** 2) / (2 * scales[2] ** 2))
    sine = math.sqrt(1 - cosine**2)
    rows = radius * (1 - 1e-12) * np.array([[1.0, 0.0], [cosine, sine]])
    if kind == "winsorised":
        moments = WinsorisedMoments(radius, scales)
        (one, unit), (two, _) = (
            winsorised_sums(one_person(row[None]), public, moments) for row in rows
        )
        covered = moment_sensitivity(unit, moments, one.size)
    else:
        stage = Refinement((1.0,), (radius,), scales)
        unit = stage.unit(0, 2)
        one, two = (
            cut_sums(one_person(row[None]), public, radius, stage.scales, unit) for row in rows
        )
        covered = stage.sigma(0, unit, one.size)
    return float(np.linalg.norm((one - two).astype(np.float64))) / covered


def _near_rows() -> Finding:
    """Move rows whose squares are rounded to nothing, but for one: a length from them is too small.

    In twelve columns; a hard look, in which every row shows a direction.
    """
    near = np.full(12, 1.57e-162)
    near[0] = 1.6e-162
    worst = max(
        one.move(np.stack([near, other]))
        for tied in (False, True)
        for one in (look_row_sums(SoftLook(0.0, 1.0, tied=tied), 12),)
        for other in (-near, np.full(12, 1e3))
    )
    return within(
        "look, rows next to a centre",
        "move of the sums / what the noise covers <= 1",
        worst,
        1 + 1e-9,
        "two rows in twelve columns",
    )


def _looked_twice() -> Finding:
    """Take two looks, the second with far less noise: its cost must be in the price."""
    rows = gaussian_rows(400, 2)
    rows[0] = 1e6
    far = rows.copy()
    far[0, 1] = -1e6
    stage, frame = PooledLooks((50.0, 1.5), 400, 2), Frame([0.0, 0.0], np.eye(2))
    return audit_run(stage, Side(rows), Side(far), frame, label="twice")


def _wide_sides() -> tuple[Side, Side]:
    """Move a row far out of two heaps in three columns, from one direction to another."""
    rows = gaussian_rows(_N, 3)
    rows[: _N // 2, 0] += 8.0
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    other = rows.copy()
    # half way between the axes: the direction in units of the rows, not of the columns
    rows[0], other[0] = mean + 1e6 * spread * [0, 1, 1], mean + 1e6 * spread * [0, 1, -1]
    return Side(rows), Side(other)


def _wide_finish(k: int) -> Check:
    def check() -> Finding:
        plain, moved = _wide_sides()
        stage = WideFinish(k, 3, _N, 1.5, (0.1, 0.45))
        return audit_run(stage, plain, moved, sketched_subspace(plain.rows), label=f"k={k}")

    return check


def _wide_replayed() -> Finding:
    """Publish a release of many columns again from other rows and equal noisy sums."""
    plain, _ = _wide_sides()
    stage, seen = WideFinish(2, 3, _N, 1.5, (0.1, 0.45)), sketched_subspace(plain.rows)
    other = ArrayPeople.of(other_rows(plain.rows))
    return replayed(stage, ArrayPeople.of(plain.rows), other, seen, label="many columns")


def _projected() -> Finding:
    """Sum waves of projected rows: a row's place must not depend on other rows."""
    rows, shape = 2 * gaussian_rows(60, 3), SketchShape.default(2)
    pooled = Pooled(Units(np.zeros(3), np.ones(3)), Mixture([1.0], np.zeros((1, 3)), [np.eye(3)]))
    frame, onto = Frame(np.zeros(2), np.eye(2)), Projection.of(pooled, 2)

    def sums(part: Any, member: Any) -> Any:
        return feature_sums(ArrayPeople.of(part, member).mapped(onto), frame, shape, scale=2**30)

    return exact_sums("projected waves", sums, rows, rng=_rng())


def _refused_words() -> Finding:
    """Refuse two tables whose equal rows no noisy count shows: the words must be the same."""
    stage = HistogramFrame(
        n_features=1, scale_sigma=40.0, location_sigma=40.0, miss=1e-9, multipliers=(), radius=2.0
    )
    equal = np.zeros((40, 1))
    return replayed(
        stage,
        ArrayPeople.of(equal),
        ArrayPeople.of(gaussian_rows(40, 1)),
        None,
        label="words of a refusal",
    )


def _discrete_price() -> Finding:
    """Compare the exact loss of a discrete Gaussian with its price, where it has one."""
    worst, z = 0.0, np.arange(-60.0, 61.0)
    for sigma in (0.5, 0.6, 0.8, 1.9, 2.5):
        laws = np.exp(-((z - np.array([[0.0], [1.0]])) ** 2) / (2 * sigma**2))
        here, there = laws / laws.sum(axis=1, keepdims=True)
        mu_squared = discrete_mu_squared(sigma, 1.0)
        if math.isinf(mu_squared):
            continue
        for epsilon in np.linspace(0.0, 4.0, 41).tolist():
            exact = float(np.maximum(here - math.exp(epsilon) * there, 0).sum())
            worst = max(worst, exact - gaussian_delta(epsilon, math.sqrt(mu_squared)))
    return within(
        "price of noise on integers",
        "exact delta - priced <= 0",
        worst,
        1e-13,
        "five scales, 41 epsilons",
    )


def _curve_of_noise() -> Finding:
    return sum_noise(1.5, kind="any")


def _secret_keys() -> Finding:
    """Draw keys, and prepare releases of one table: no key and no order of persons may repeat."""
    rows, groups = gaussian_rows(3_000, 1), [f"person {i // 2}" for i in range(3_000)]
    request = PlanRequest(
        n_components=1, n_features=1, n_rows=1_500, epsilon=2.0, delta=1e-3, unit="person"
    )
    plan, keys = plan_for(request).plan, [SecureNoise().key() for _ in range(2)]
    orders = []
    for _ in range(2):
        ready = prepare(rows, plan, groups=groups)
        orders.append(ready._work.people.take(np.arange(1_500)).positions.tolist())
        ready.close()
    return within(
        "order of persons",
        "keys and orders that repeat, bits missing <= 0",
        (keys[0] == keys[1]) + (orders[0] == orders[1]) + (min(map(len, keys)) < 32),
        0,
        "two keys, two releases of one table",
    )


def _key_of_order() -> Finding:
    """Put persons in order with keys that differ in one half: each half must decide something."""
    labels = label_texts([f"person {i}" for i in range(200)])
    first = bytes(range(32))
    others = (bytes([255, *first[1:]]), bytes([*first[:16], 255, *first[17:]]))
    same = 0
    for half, other in zip((False, True), others, strict=True):
        one, two = (person_places(labels, key, again=half) for key in (first, other))
        same += int((one == two).sum())
    return within("key of an order", "places that the key leaves <= 0", same, 0, "200 labels")


def _rows_of_a_frame() -> Finding:
    """Take part of the rows for a frame: replacing a row may change one of those taken, no more."""
    stage = dataclasses.replace(_frame(), most_units=60)
    rows, worst = gaussian_rows(200, 1), 0
    for who in range(0, 200, 9):
        for value in (-1e9, 0.0, 1e9):
            other = rows.copy()
            other[who] = value
            one, two = (stage.prepare(Side(side).work(Tap(3)), None) for side in (rows, other))
            worst = max(worst, int((one.chosen != two.chosen).sum()))
    return within(
        "rows taken for a frame",
        "rows that changed with one <= 1",
        worst,
        1,
        "60 of 200 rows, 69 neighbours",
    )


def _caps_in_a_file() -> Finding:
    """Fill the cap of a file with spends that never end, as after crashes; read it elsewhere."""
    plan, allowed, missing = refined_plan(), 0, 0
    cap = Budget(20.0, 4e-3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        for _ in range(12):
            ledger = SQLiteLedger(path, "people", cap=cap)
            try:
                ledger.intend(plan, seeded=True)
                allowed += 1
                missing += len(SQLiteLedger(path, "people").entries) != allowed
            except BudgetExceeded:
                break
            except PrivGMMError:
                # the file does not know what was written into it
                missing += 1
    counted = max(allowed, 1)
    curve, delta = plan.curve() * counted, cap.delta - counted * plan.price().shortfall
    together = curve.epsilon(delta) if delta > 0 else math.inf
    return within(
        "ledger in a file, a cap",
        "what was allowed / the cap, and spends that are not on the disk <= 1",
        together / cap.epsilon + missing,
        1 + 1e-9,
        f"{allowed} releases that never ended",
    )


def _receipts_held() -> Finding:
    """Tamper with the sketch of a receipt: each change must be found."""
    missed = 0
    result = released_sketch("second sketch, histogram frame")
    missed += bool(receipt_problems(result))
    changes: tuple[dict[str, Any], ...] = (
        {"n_rows": result.sketch.n_rows + 500},
        {"noise": 0.5 * result.sketch.noise},
        {"noise": 1e-3 * result.sketch.noise},
    )
    for change in changes:
        missed += not receipt_problems(with_sketch(result, **change))
    return within(
        "receipt of a sketch",
        "changes that verify <= 0",
        missed,
        0,
        f"{len(changes)} changes to a receipt, and none",
    )


def _kinds_of_labels() -> Finding:
    """Name persons by integers in one file and by floats in another: one person may not be two."""
    counted = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, labels in enumerate(([1, 2, 2**53 + 2], [1.0, 2.0, float(2**53 + 2)])):
            table = pa.table({"a": [0.0, 1.0, 2.0], "who": labels})
            pq.write_table(table, Path(folder) / f"{number}.parquet")
        source = row_source(folder, ["a"])
        with contextlib.suppress(InvalidInput):
            counted = source.count_persons("who") - 3
    return within(
        "labels of two types", "persons counted twice <= 0", counted, 0, "three persons, two files"
    )


# ------------------------------------------------------------------------------- the mutations

_VOTES, _SPACE = "stages.agreement.votes", "stages.agreement.lifted_space"
_PAPER, _GRID = "stages.agreement.paper_space", "stages.agreement.public_grid"
_ALGORITHM, _STAGE = "stages.agreement.algorithm_1", "stages.agreement.stage"
_NOISE, _MOMENTS = "privacy.noise", "stages.refinement.noisy_moments"
_LOOKS = "stages.refinement.soft_looks"
_WINSORISED, _VOTING = "stages.refinement.winsorised", "stages.refinement.projection"
_SKETCH, _FEATURES = "stages.sketch.stage", "stages.sketch.features"
_FINISH, _HISTOGRAM = "stages.sketch.finish", "stages.sketch.histogram_frame"
_RELEASE, _COMPOSITION = "releases", "privacy.composition"
_WIDE = "stages.wide.finish"

NAMED: tuple[Mutation, ...] = (
    Mutation(
        "the vote passes always",
        f"{_VOTES}:AgreementTest.examine",
        "passed=seen.may_pass and noisy >= self.threshold",
        "passed=True",
        _vote,
    ),
    Mutation(
        "the guard h >= 0 dropped",
        f"{_VOTES}:AgreementTest.examine",
        "passed=seen.may_pass and noisy >= self.threshold",
        "passed=noisy >= self.threshold",
        _vote,
    ),
    Mutation(
        "a tenth less secure noise",
        f"{_NOISE}:SecureNoise.discrete_gaussian",
        "float(sigma)",
        "0.9 * float(sigma)",
        _spread_of("discrete Gaussian"),
    ),
    Mutation(
        "NumPy's generator instead of the secure one",
        f"{_NOISE}:noise_source",
        "return SecureNoise()",
        "return SeededNoise(np.random.default_rng())",
        secure_origin,
    ),
    Mutation(
        "refinement uses its noise twice",
        f"{_MOMENTS}:refine",
        "noise = rng.discrete_gaussian(sigma, sums.size).reshape(sums.shape)",
        "noise = noise if step else rng.discrete_gaussian(sigma, sums.size).reshape(sums.shape)",
        _refinement,
    ),
)
"""The mutations that every test run checks, not only a study."""

REPLAYED: tuple[Mutation, ...] = (
    Mutation(
        "a vote among mixtures decided by exact sums",
        f"{_VOTING}:preferred",
        "np.argmax(np.concatenate([[0], noisy]))",
        "np.argmax(np.concatenate([[0], sums]))",
        replayed_finish,
    ),
    Mutation(
        "a vote among mixtures with noise on the winner alone",
        f"{_VOTING}:preferred",
        "np.argmax(np.concatenate([[0], noisy]))",
        "np.argmax(np.concatenate([[0], np.where(sums == sums.max(), noisy, sums)]))",
        replayed_finish,
    ),
    Mutation(
        "a place from the exact counts of all bins",
        f"{_HISTOGRAM}:PreparedHistogramFrame._centre",
        "_quantile(shown, counts, 0.5)",
        "_quantile(places[-1].bins, places[-1].counts, 0.5)",
        replayed_frame,
    ),
    Mutation(
        "a place from the median of the rows",
        f"{_HISTOGRAM}:PreparedHistogramFrame._centre",
        "found.append(2 * scale * (_quantile(shown, counts, 0.5) - offset))",
        "found.append(float(np.median(self.chosen[:, j])))",
        replayed_frame,
    ),
    Mutation(
        "a width from the exact counts of all bins",
        f"{_HISTOGRAM}:PreparedHistogramFrame._scales",
        "width_of(bins, counts, offset)",
        "width_of(histogram.bins, histogram.counts, offset)",
        replayed_frame,
    ),
    Mutation(
        "exact counts of the bins that noise lets through",
        f"{_HISTOGRAM}:Histogram.released",
        "return self.bins[shown], noisy[shown]",
        "return self.bins[shown], self.counts[shown]",
        replayed_frame,
    ),
    Mutation(
        "bins shown by their exact counts",
        f"{_HISTOGRAM}:Histogram.released",
        "noisy >= threshold",
        "self.counts >= threshold",
        replayed_frame,
    ),
    Mutation(
        "a frame refused by exact counts",
        f"{_HISTOGRAM}:PreparedHistogramFrame._centre",
        "if not shown.size:",
        "if int(places[-1].counts.max()) < stage.location_threshold:",
        replayed_refusal,
    ),
    Mutation(
        "a round that counts exactly",
        f"{_WINSORISED}:noisy_moments_of",
        "return (sums + noise) / unit",
        "noisy = sums + noise\n    noisy[:, 0] = sums[:, 0]\n    return noisy / unit",
        replayed_finish,
    ),
    Mutation(
        "a round that moves to the exact mean",
        f"{_HISTOGRAM}:PreparedHistogramFrame._round",
        "mean = sums[1 : 1 + d]\n",
        "mean = np.linalg.solve(root, self.chosen.mean(axis=0) - centre)\n",
        replayed_frame,
    ),
    Mutation(
        "a sketch with noise on real parts only",
        f"{_SKETCH}:PreparedSketch.draw",
        "self._values(self.sums + noise)",
        "self._values(np.stack([(self.sums + noise)[0], self.sums[1]]))",
        replayed_sketch,
    ),
    Mutation(
        "a way to finish that a row decides",
        f"{_FINISH}:PreparedFinish.draw",
        "if takes_rich_route(self.fit, self.stage):",
        "if float(self.work.people.take(np.arange(len(self.work.people))).rows.max()) < 2.0:",
        functools.partial(replayed_finish, exact="other rows"),
    ),
    Mutation(
        "a finish that counts the rows of all persons",
        f"{_FINISH}:PreparedFinish._by_rich_mixture",
        "stage.n_features, len(people)",
        "stage.n_features, people.n_rows",
        replayed_persons,
    ),
    Mutation(
        "refinement from exact sums, the noise added for show",
        f"{_MOMENTS}:refine",
        "noisy = (sums + noise) / (unit * n)",
        "noisy = ((sums + noise) * 0 + sums) / (unit * n)",
        replayed_refinement,
    ),
    Mutation(
        "a vote of blocks decided without its noise",
        f"{_VOTES}:AgreementTest.examine",
        "noisy >= self.threshold",
        "seen.statistic >= self.threshold",
        _replayed_vote,
    ),
    Mutation(
        "the printed vote decided without its noise",
        f"{_ALGORITHM}:PopulousTest.examine",
        "share + Fraction(drawn)",
        "share + Fraction(self.noise.bound) / 2",
        _replayed_printed,
    ),
    Mutation(
        "exact weights next to masked means",
        f"{_PAPER}:PaperSpace.mask",
        "shares = weights / total if",
        "shares = item.weights[order] if",
        replayed_mask,
    ),
    Mutation(
        "exact means next to masked covariances",
        f"{_PAPER}:PaperSpace.mask",
        "shares, self.mask_mean(means, cholesky, shapes, rng=rng), shapes.factors",
        "shares, self.mask_mean(means, cholesky, shapes, rng=rng) * 0 + means, shapes.factors",
        replayed_mask,
    ),
    Mutation(
        "exact weights next to a lifted mask",
        f"{_SPACE}:LiftedSpace.mask",
        "(shown.weights / shown.weights.sum())[order]",
        "(item.weights / item.weights.sum())[order]",
        replayed_lifted_mask,
    ),
    # what else a table of mutations had missed
    Mutation(
        "a person's row that others' numbers of rows decide",
        "data.people:picked",
        "np.asarray(low % ",
        "np.asarray((low + np.uint64(sizes.sum())) % ",
        _own_rows_only,
    ),
    Mutation(
        "a ceiling that holds at the values of a linear program only",
        "privacy.guessing:_after_curve",
        " + _certified(y, scale, mu, epsilon)",
        "",
        _ceiling,
    ),
    Mutation(
        "scales of winsorised moments with a loose guard",
        f"{_WINSORISED}:WinsorisedMoments.__post_init__",
        "> 2 * self.scales[0]",
        "> 9 * self.scales[0]",
        _accepted_scales("winsorised"),
    ),
    Mutation(
        "scales of refinement with a loose guard",
        f"{_MOMENTS}:Refinement.__post_init__",
        "> 2 * self.scales[0]",
        "> 9 * self.scales[0]",
        _accepted_scales("cut"),
    ),
)
"""Noise that is drawn and not used, exact numbers next to noisy ones, and guards that let through.

Every test run checks them, as it does `NAMED`.
"""

GUARDS: tuple[Mutation, ...] = (
    Mutation(
        "rows whose squares underflow count for more",
        f"{_LOOKS}:_weighed_rows",
        "length > _NEAREST",
        "length > 0.0",
        _near_rows,
    ),
    Mutation(
        "a direction that all components show in full",
        f"{_LOOKS}:_weighed_rows",
        "pull = root / length",
        "pull = steps / length",
        _look_rows,
    ),
    Mutation(
        "a bound on looks without their first moments",
        f"{_LOOKS}:SoftLook.sensitivity",
        "math.hypot(_COUNT, _FIRST, _SECOND, _SIZE)",
        "math.hypot(_COUNT, _SECOND, _SIZE)",
        _look_rows,
    ),
    Mutation(
        "a person's rows taken for persons in a look",
        f"{_LOOKS}:LookTask._add",
        "if not singles:",
        "if False:",
        _look_persons,
    ),
    Mutation(
        "pooled looks at the price of the first",
        "stages.wide.pooled:PooledLooks.price",
        "tuple(map(gaussian_curve, self.multipliers))",
        "(gaussian_curve(self.multipliers[0]),)",
        _looked_twice,
    ),
    Mutation(
        "every look of many columns takes the whole account",
        f"{_WIDE}:WideFinish.part",
        "self.multiplier / math.sqrt(share)",
        "self.multiplier",
        _wide_finish(2),
    ),
    Mutation(
        "a last look that takes what the one before it took",
        f"{_WIDE}:PreparedWideFinish._looked_through",
        "share = left if near",
        "share = 1 - tied if near",
        _wide_finish(2),
    ),
    Mutation(
        "a first look that costs nothing",
        f"{_WIDE}:PreparedWideFinish._looked_through",
        "left -= share",
        "left -= share * bool(kept)",
        _wide_finish(2),
    ),
    Mutation(
        "one component looked at with half the noise",
        f"{_WIDE}:PreparedWideFinish._published",
        "stage.multiplier, source)",
        "0.5 * stage.multiplier, source)",
        _wide_finish(1),
    ),
    Mutation(
        "a remark on a release that a row decides",
        f"{_WIDE}:PreparedWideFinish._published",
        "floored=bool(narrow.any())",
        "floored=bool(np.ptp(self.work.people.take(np.arange(1, 99)).rows) > 500)",
        _wide_replayed,
    ),
    Mutation(
        "rows projected from their own mean",
        "stages.wide.subspace:Projection.__call__",
        "self.centre, self.matrix",
        "rows.mean(axis=0), self.matrix",
        _projected,
    ),
    Mutation(
        "words of a refusal from exact counts",
        f"{_HISTOGRAM}:PreparedHistogramFrame._scales",
        "(bins == ZERO_BIN).any()",
        "(histogram.bins == ZERO_BIN).any()",
        _refused_words,
    ),
    Mutation(
        "a threshold of places that forgets the row itself",
        f"{_HISTOGRAM}:HistogramFrame.location_threshold",
        "1 + _upper_point",
        "0 + _upper_point",
        _bins(1),
    ),
    Mutation(
        "rows taken for a frame by their values",
        f"{_HISTOGRAM}:HistogramFrame.prepare",
        "chosen = people.take(positions).rows",
        "chosen = np.sort(people.take(np.arange(len(people))).rows, axis=0)[positions]",
        _rows_of_a_frame,
    ),
    Mutation(
        "moments whose sensitivity lacks its root of two",
        f"{_WINSORISED}:WinsorisedMoments.sensitivity",
        "math.sqrt(2) * math.hypot",
        "math.hypot",
        _finish_rows(1),
    ),
    Mutation(
        "narrow noise on integers at the price of continuous noise",
        "privacy.gaussian_account:discrete_mu_squared",
        "** 2 - _GIVEN_UP",
        "** 2",
        _discrete_price,
    ),
    Mutation(
        "Gaussian noise at half its price",
        "privacy.curves:gaussian_curve",
        "ORDERS / (2 * multiplier**2)",
        "ORDERS / (4 * multiplier**2)",
        _curve_of_noise,
    ),
    Mutation(
        "a key that is always the same",
        f"{_NOISE}:SecureNoise.key",
        "secrets.token_bytes(KEY_BYTES)",
        "bytes(KEY_BYTES)",
        _secret_keys,
    ),
    Mutation(
        "persons in an order without a key",
        f"{_RELEASE}:_prepared",
        'b"" if groups is None else source.key()',
        'b"" if groups is None else bytes(32)',
        _secret_keys,
    ),
    Mutation(
        "both numbers of a person from one half of the key",
        "data.people:person_places",
        "key[16:] if again else",
        "key[:16] if again else",
        _key_of_order,
    ),
    Mutation(
        "labels of several types taken for one",
        "data.labels:check_one_kind",
        "if len(places) > 1:",
        "if False:",
        _kinds_of_labels,
    ),
    Mutation(
        "a file that lets every spend pass",
        "ledger.sqlite:SQLiteLedger.intend",
        "measure = self._read(database).admit(spend, unit)",
        "measure = None",
        _caps_in_a_file,
    ),
    Mutation(
        "a cap that forgets spends that never ended",
        "ledger.history:History.admit",
        "[*self.spends, spend]",
        "[*(one.spend for one in self.entries if one.released), spend]",
        _caps_in_a_file,
    ),
    Mutation(
        "an intent that is not on the disk when noise is drawn",
        "ledger.sqlite:_transaction",
        'database.execute("COMMIT")',
        'database.execute("ROLLBACK")',
        _caps_in_a_file,
    ),
    Mutation(
        "a receipt whose sketch is of more rows than planned",
        "records.receipt:_sketch_problems",
        "sketch.n_rows != drawn.n_units",
        "sketch.n_rows < drawn.n_units",
        _receipts_held,
    ),
    Mutation(
        "a receipt whose sketch has less noise than planned",
        "records.receipt:_as_noisy",
        "np.allclose(sketch.noise, noise,",
        "np.allclose(np.maximum(sketch.noise, noise), noise,",
        _receipts_held,
    ),
)
"""What keeps looks, frames, keys, ledgers and receipts; every test run checks them too."""

MUTATIONS: tuple[Mutation, ...] = (
    *NAMED,
    *REPLAYED,
    *GUARDS,
    # noise and where it comes from
    Mutation(
        "a tenth less secure Laplace noise",
        f"{_NOISE}:SecureNoise.laplace",
        "float(scale)",
        "0.9 * float(scale)",
        _spread_of("truncated Laplace"),
    ),
    Mutation(
        "discrete Gaussians from NumPy inside the secure source",
        f"{_NOISE}:SecureNoise.discrete_gaussian",
        "np.asarray(_opendp_gaussian(int, float(sigma))([0] * size), dtype=np.int64)",
        "np.rint(sigma * np.random.default_rng().standard_normal(size)).astype(np.int64)",
        secure_origin,
    ),
    Mutation(
        "shuffles from NumPy inside the secure source",
        f"{_NOISE}:SecureNoise.permutation",
        "secrets.SystemRandom().shuffle(order)",
        "np.random.shuffle(order)",
        secure_origin,
    ),
    Mutation(
        "noise of 32 bits",
        f"{_NOISE}:_opendp_gaussian",
        'atom_domain(T="i64")',
        'atom_domain(T="i32")',
        _spread_of("wide discrete Gaussian"),
    ),
    Mutation(
        "fine noise of one level",
        f"{_NOISE}:fine_normal",
        "for _ in range(levels):",
        "for _ in range(1):",
        _grid,
    ),
    # the vote
    Mutation(
        "a tenth less noise on the count",
        f"{_VOTES}:AgreementTest.examine",
        "discrete_gaussian(self.sigma, 1)",
        "discrete_gaussian(0.9 * self.sigma, 1)",
        _vote,
    ),
    Mutation(
        "the threshold without its margin",
        f"{_VOTES}:AgreementTest.examine",
        "noisy >= self.threshold",
        "noisy >= 0",
        _vote,
    ),
    Mutation(
        "friends at twice the radius",
        f"{_VOTES}:friend_counts",
        "distances <= radius",
        "distances <= 2 * radius",
        lambda: _core(_shaped(31, 20, 20, 20, 1, 2), "diameter"),
    ),
    Mutation(
        "an h-index that does not climb",
        f"{_VOTES}:h_index",
        ">= full + h",
        ">= full",
        lambda: _core(_shaped(31, 17, 20, 15, 2, 2), "statistic"),
    ),
    Mutation(
        "weights without a ramp",
        f"{_VOTES}:AgreementTest.ramp_weights",
        "np.clip((counts - self.member + 1) / self.ramp, 0.0, 1.0)",
        "np.where(counts >= self.member, 1.0, 0.0)",
        _flanked,
    ),
    Mutation(
        "a core that counts as one block",
        f"{_VOTES}:core_sensitivity",
        "(1 + (test.n_blocks - test.core) / test.ramp) / test.core",
        "0.1 / test.core",
        lambda: _core(_shaped(31, 20, 20, 20, 1, 2), "move", "wide"),
    ),
    Mutation(
        "the printed vote passes always",
        f"{_ALGORITHM}:PopulousTest.examine",
        "passed=enough and seen.may_pass",
        "passed=True",
        _printed,
    ),
    Mutation(
        "the printed threshold without its margin",
        f"{_ALGORITHM}:PopulousTest.threshold",
        "_PASS_SHARE + self.noise.bound",
        "_PASS_SHARE",
        _printed,
    ),
    Mutation(
        "half the noise of the printed vote",
        f"{_ALGORITHM}:PopulousTest.noise",
        "TruncatedLaplace(2 / self.n_blocks",
        "TruncatedLaplace(1 / self.n_blocks",
        _printed,
    ),
    # what is masked
    Mutation(
        "one fit masked with noise for the mean",
        f"{_SPACE}:LiftedSpace.representative",
        "share = weights[members] / weights[members].sum()",
        "share = (members == reference).astype(np.float64)",
        lambda: _core(_shaped(31, 20, 20, 20, 1, 2), "move", "wide"),
    ),
    Mutation(
        "fits however flat are compared",
        f"{_SPACE}:LiftedSpace._comparable",
        "distances[flat], distances[:, flat] = np.inf, np.inf",
        "flat[:] = False",
        lambda: reference_free(_shaped(31, 20, 20, 20, 1, 2), rng=_rng()),
    ),
    Mutation(
        "labels that blur are compared",
        f"{_SPACE}:LiftedSpace._comparable",
        "if items.n_components == 1:",
        "if True:",
        lambda: _core(_shaped(31, 17, 17, 17, 2, 2), "diameter", "fan"),
    ),
    Mutation(
        "a mean that moves half as far as it does",
        f"{_SPACE}:averaged_move",
        "2 * reach * move",
        "0.1 * reach * move",
        lambda: _core(_shaped(31, 20, 20, 20, 1, 2), "move", "wide"),
    ),
    Mutation(
        "a picked fit that moves half as far as it does",
        f"{_STAGE}:PickedAgreement.gamma",
        "math.expm1(2 * math.log1p(self.tau))",
        "math.expm1(0.9 * math.log1p(self.tau))",
        lambda: _core(
            registry.get("tight").attacked_cores(thorough=False)[0].stage(Agreement), "move"
        ),
    ),
    # masks
    Mutation(
        "a tenth less noise in the lifted mask",
        f"{_GRID}:lifted_on_grid",
        "_noisy_identity(rng, n, p, eta, bits)",
        "_noisy_identity(rng, n, p, 0.9 * eta, bits)",
        _mask("lifted"),
    ),
    Mutation(
        "a tenth less noise on covariances",
        f"{_PAPER}:PaperSpace.mask_covariance",
        "eta=self.eta_cov",
        "eta=0.9 * self.eta_cov",
        _mask("tight"),
    ),
    Mutation(
        "a tenth less noise on means",
        f"{_PAPER}:PaperSpace.mask_mean",
        "eta=self.eta_mean",
        "eta=0.9 * self.eta_mean",
        _mask("tight"),
    ),
    Mutation(
        "a tenth less noise on weights",
        f"{_PAPER}:PaperSpace.mask_weight",
        "eta=self.eta_weight",
        "eta=0.9 * self.eta_weight",
        lambda: _weight_scale(PaperSpace(0.1, 0.1, 0.1)),
    ),
    Mutation(
        "components in the order of their labels",
        f"{_SPACE}:LiftedSpace.mask",
        "order = rng.permutation(len(item.weights))",
        "order = np.arange(len(item.weights))",
        _order("lifted"),
    ),
    Mutation(
        "components of Algorithm 2 in order",
        f"{_PAPER}:PaperSpace.mask",
        "order = rng.permutation(item.n_components)",
        "order = np.arange(item.n_components)",
        _order("paper"),
    ),
    Mutation(
        "means off the public grid",
        f"{_GRID}:_settled_means",
        "return _real(cells, widths.exponents - GRID_BITS)",
        "return _real(wanted, widths.exponents - precision)",
        _grid,
    ),
    Mutation(
        "means that follow the grid of the input",
        f"{_GRID}:_settled_means",
        "cells[:, i], errors[:, i] = _rounded(wanted[:, i] + down, precision)",
        "cells[:, i] = (wanted[:, i] + down) // (3 << (precision - GRID_BITS)) * 3",
        _grid,
    ),
    Mutation(
        "a lifted mask priced at half its distance",
        f"{_SPACE}:LiftedSpace.mask_curve",
        "lifted_mask_curve(gamma, self.eta",
        "lifted_mask_curve(gamma / 2, self.eta",
        _exact("lifted"),
    ),
    Mutation(
        "a picked mask priced at half its distance",
        f"{_PAPER}:PaperSpace.mask_curve",
        "paper_mask_curve(gamma, ",
        "paper_mask_curve(gamma / 2, ",
        _exact("tight"),
    ),
    # prices
    Mutation(
        "k components at the price of one",
        f"{_STAGE}:ExactAgreement.price",
        "mask * self.n_components",
        "mask",
        _price("tight", 2),
    ),
    Mutation(
        "a paper plan at a quarter of its delta",
        f"{_STAGE}:PaperAgreement.price",
        "4 * math.exp(e) * dl",
        "dl",
        _price("paper"),
    ),
    Mutation(
        "misrounding left out of the price",
        f"{_STAGE}:ExactAgreement.price",
        "rounding=self.misrounding",
        "rounding=0.0",
        _rounding("lifted"),
    ),
    Mutation(
        "misrounding left out of the paper's price",
        f"{_STAGE}:PaperAgreement.price",
        " + self.misrounding",
        "",
        _rounding("paper"),
    ),
    Mutation(
        "refinement at the price of its first step",
        f"{_MOMENTS}:Refinement.price",
        "tuple(map(gaussian_curve, self.multipliers))",
        "(gaussian_curve(self.multipliers[0]),)",
        _refinement_twice,
    ),
    Mutation(
        "a sketch at half its price",
        f"{_SKETCH}:Sketch.price",
        "gaussian_curve(self.multiplier)",
        "gaussian_curve(1.5 * self.multiplier)",
        _sketch,
    ),
    Mutation(
        "histograms at the price of counts that move by one",
        f"{_HISTOGRAM}:HistogramFrame.price",
        "gaussian_curve(sigma / root_two,",
        "gaussian_curve(sigma,",
        _histogram_account,
    ),
    # refinement
    Mutation(
        "a tenth less noise in refinement",
        f"{_MOMENTS}:Refinement.sigma",
        "return self.multipliers[step]",
        "return 0.9 * self.multipliers[step]",
        _one_step,
    ),
    Mutation(
        "refinement without noise",
        f"{_MOMENTS}:refine",
        "(sums + noise)",
        "(sums + 0)",
        _refinement,
    ),
    Mutation(
        "rows beyond R count for refinement",
        f"{_MOMENTS}:add_moments",
        "if squares[a] > radius * radius:",
        "if squares[a] > 9 * radius * radius:",
        _refinement_rows,
    ),
    Mutation(
        "a person's rows added up in refinement",
        f"{_MOMENTS}:add_moments",
        "(2 * person[a, j] + size) // (2 * size)",
        "person[a, j]",
        _refinement_persons,
    ),
    # looks
    Mutation(
        "a tenth less noise on looks",
        f"{_LOOKS}:SoftLook.sigmas",
        "sigma = self.multiplier",
        "sigma = 0.9 * self.multiplier",
        _looked,
    ),
    Mutation(
        "less noise on entries off the diagonal",
        f"{_LOOKS}:SoftLook.sigmas",
        "math.sqrt(2) * _SECOND",
        "2 * _SECOND",
        _looked,
    ),
    Mutation(
        "a look with too small a bound",
        f"{_LOOKS}:SoftLook.integer_sensitivity",
        "steps**2 * self.sensitivity",
        "0.9 * steps**2 * self.sensitivity",
        _looked,
    ),
    Mutation(
        "looks without noise",
        f"{_LOOKS}:noisy_look",
        "(part + source.discrete_gaussian(sigma, part.size).reshape(part.shape))",
        "(part + 0)",
        _look_replayed,
    ),
    Mutation(
        "rows beyond reach count more",
        f"{_LOOKS}:_weighed_rows",
        "length = math.sqrt(softness + squares[a, i])",
        "length = 0.5 * math.sqrt(softness + squares[a, i])",
        _look_rows,
    ),
    Mutation(
        "shares that do not add up to one",
        f"{_LOOKS}:_weighed_rows",
        "r = share[a] / norm",
        "r = share[a]",
        _look_rows,
    ),
    Mutation(
        "a person's rows added up in a look",
        f"{_LOOKS}:_add_persons",
        "(2 * person[j] + size) // (2 * size)",
        "person[j]",
        _look_persons,
    ),
    # sketch
    Mutation(
        "a tenth less noise on a sketch",
        f"{_SKETCH}:Sketch.sigma",
        "self.multiplier * self.integer_sensitivity",
        "0.9 * self.multiplier * self.integer_sensitivity",
        _sketch,
    ),
    Mutation(
        "a sketch without noise",
        f"{_SKETCH}:PreparedSketch.draw",
        "self._values(self.sums + noise)",
        "self._values(self.sums)",
        _sketch,
    ),
    Mutation(
        "waves that move by one",
        f"{_FEATURES}:integer_sensitivity",
        "exact = scale * shape.sensitivity",
        "exact = scale",
        _sketch_rows,
    ),
    Mutation(
        "flat weights of waves",
        f"{_FEATURES}:SketchShape.weights",
        "2.0 * np.arange(count, 0, -1) / (count * (count + 1))",
        "np.full(count, 1.0 / count)",
        _sketch_rows,
    ),
    Mutation(
        "a person's waves added up",
        f"{_FEATURES}:WaveTask.added",
        "rows, starts, self.frame",
        "rows, np.arange(len(rows) + 1), self.frame",
        _sketch_persons,
    ),
    # finish
    Mutation(
        "every part of the finish takes the whole account",
        f"{_FINISH}:Finish.part",
        "self.multiplier / math.sqrt(share)",
        "0.5 * self.multiplier",
        _rich,
    ),
    Mutation(
        "a second sketch with half the noise",
        f"{_FINISH}:PreparedFinish._second_sketch",
        "again = self.stage.again",
        "again = dataclasses.replace(self.stage.again, multiplier=self.stage.multiplier / 2)",
        _second_sketch,
    ),
    Mutation(
        "a vote without a clip",
        f"{_VOTING}:_VoteTask.__call__",
        "np.nan_to_num(differences, nan=0.0), -self.clip, self.clip)",
        "np.nan_to_num(differences, nan=0.0), -9 * self.clip, 9 * self.clip)",
        _noisy_vote,
    ),
    Mutation(
        "a vote that moves by one",
        f"{_VOTING}:vote_sensitivity",
        "unit * 2 *",
        "unit * 1 *",
        _noisy_vote,
    ),
    Mutation(
        "a vote without noise",
        f"{_VOTING}:preferred",
        "noisy = sums + source.discrete_gaussian(sigma, sums.size)",
        "noisy = sums",
        _noisy_vote,
    ),
    Mutation(
        "a quarter of the noise on noisy EM",
        f"{_WINSORISED}:noisy_moments_of",
        "multiplier * sensitivity",
        "0.25 * multiplier * sensitivity",
        _rich,
    ),
    Mutation(
        "moments that move by one",
        f"{_WINSORISED}:moment_sensitivity",
        "rounded_sensitivity(moments.sensitivity",
        "rounded_sensitivity(0.7 * moments.sensitivity",
        _finish_rows(1),
    ),
    # histograms
    Mutation(
        "bins of one row shown",
        f"{_HISTOGRAM}:Histogram.released",
        "noisy >= threshold",
        "noisy >= 1",
        _bins(1),
    ),
    Mutation(
        "a threshold that forgets the row itself",
        f"{_HISTOGRAM}:HistogramFrame.scale_threshold",
        "1 + _upper_point",
        "0 + _upper_point",
        _bins(1),
    ),
    Mutation(
        "the shortfall of histograms left out",
        f"{_HISTOGRAM}:HistogramFrame.price",
        "self.shortfall",
        "0.0",
        _bins(2),
    ),
    Mutation(
        "half the noise on counts",
        f"{_HISTOGRAM}:Histogram.released",
        "discrete_gaussian(sigma, ",
        "discrete_gaussian(sigma / 2, ",
        _histogram_account,
    ),
    Mutation(
        "values shown whatever their count",
        f"{_HISTOGRAM}:ValueCounts.found",
        "histogram.released(self.sigma, self.threshold, source)",
        "histogram.released(self.sigma, 1, source)",
        _replayed_values,
    ),
    Mutation(
        "the shortfall of single values left out",
        f"{_HISTOGRAM}:HistogramFrame.shortfall",
        "values = 0.0 if of_values is None else",
        "values = 0.0 if True else",
        _values_shown,
    ),
    Mutation(
        "counts of values and grids at no price",
        f"{_HISTOGRAM}:HistogramFrame._sigmas",
        "if self.values is None:",
        "if True:",
        _value_account,
    ),
    Mutation(
        "half the noise on the counts of grids",
        f"{_HISTOGRAM}:ValueCounts.found",
        "source.discrete_gaussian(self.grid_sigma, places.size)",
        "source.discrete_gaussian(self.grid_sigma / 2, places.size)",
        _value_account,
    ),
    Mutation(
        "a tenth of the noise on the counts of values",
        f"{_HISTOGRAM}:ValueCounts.found",
        "histogram.released(self.sigma, ",
        "histogram.released(self.sigma / 10, ",
        _value_account,
    ),
    Mutation(
        "the exact share of a value published",
        f"{_HISTOGRAM}:ValueCounts.found",
        "np.minimum(counts / len(values), 1.0)",
        "np.minimum(histogram.counts[np.isin(histogram.bins, codes)] / len(values), 1.0)",
        _replayed_values,
    ),
    Mutation(
        "a grid decided by exact counts",
        f"{_HISTOGRAM}:ValueCounts.found",
        "step_found(noisy, self.grid_sigma)",
        "step_found(places, self.grid_sigma)",
        _replayed_values,
    ),
    Mutation(
        "atoms chosen by their exact shares",
        f"{_HISTOGRAM}:ValueCounts.found",
        "if share >= _LEAST_SHARE",
        "if (values == value).mean() >= _LEAST_SHARE",
        _replayed_values,
    ),
    Mutation(
        "rows in two pairs",
        f"{_HISTOGRAM}:HistogramFrame.prepare",
        "order[half : 2 * half]",
        "np.roll(order[:half], 1)",
        _counts,
    ),
    # releases, persons, learners, ledgers, jitter
    Mutation(
        "noise before the ledger knows",
        f"{_RELEASE}:PreparedRelease._intend",
        "intent, entry, mark = None, None, None",
        "intent, entry, mark = (source.discrete_gaussian(1.0, 1), None, None, None)[1:]",
        order_of_release,
    ),
    Mutation(
        "a plan beyond its budget runs",
        f"{_RELEASE}:_prepared",
        "if not plan.budget.covers(spent):",
        "if False:",
        order_of_release,
    ),
    Mutation(
        "a release drawn twice",
        f"{_RELEASE}:PreparedRelease._intend",
        "if self._drawn:",
        "if False:",
        order_of_release,
    ),
    Mutation(
        "a failing ledger takes the result along",
        f"{_RELEASE}:_concluded",
        "intent.conclude(released=released, reason=reason)",
        "pass",
        order_of_release,
    ),
    Mutation(
        "a cap that admits everything",
        f"{_COMPOSITION}:Measure.admits",
        "return epsilon >= 0 and delta >= 0",
        "return True",
        caps_hold,
    ),
    Mutation(
        "all rows of a person go into blocks",
        "data.people:ArrayPeople.labelled",
        "order, starts = person_order(hashes, labels, key)",
        "order, starts = np.arange(len(rows)), np.arange(len(rows) + 1)",
        persons_in_blocks,
    ),
    Mutation(
        "rows dealt into several blocks",
        "stages.agreement.blocks:deal",
        "order += np.arange(s, dtype=np.int64)[:, None] * n_blocks",
        "order += 0",
        rows_in_blocks,
    ),
    Mutation(
        "a foreign learner keeps its memory",
        "learners.isolation:fit_one_by_one",
        "own = copied(learner)",
        "own = learner",
        isolated_learner,
    ),
    Mutation(
        "a foreign learner sees all blocks",
        "learners.isolation:fit_apart",
        "return fit_one_by_one(learner, blocks, seeds, n_components)",
        'return BlockFits(learner.fit_blocks(blocks, rng=seeds), [""] * len(blocks))',
        isolated_learner,
    ),
    Mutation(
        "jitter that anybody can repeat",
        "data.jitter:jittered",
        "_secret(rows.shape) if rng is None else",
        "np.random.default_rng(0).random(rows.shape) if rng is None else",
        fresh_jitter,
    ),
)
"""All mutations, those of `NAMED`, `REPLAYED` and `GUARDS` first."""


def mutation_findings(mutations: tuple[Mutation, ...] = MUTATIONS) -> list[Finding]:
    """Run every mutation against its check: caught if the check fails because of it.

    The same check on the code as it is must pass, or it would catch anything.
    """
    found, sound = [], {}
    for mutation in mutations:
        if mutation.check not in sound:
            sound[mutation.check] = mutation.check()
        whole = sound[mutation.check]
        with mutated(mutation):
            changed = _finding(mutation)
        verdict = caught(mutation.name, changed)
        if not whole.passed:
            verdict = dataclasses.replace(
                verdict, passed=False, detail=f"the check fails on the code as it is: {whole}"
            )
        where = mutation.where.rpartition(":")[2]
        found.append(
            dataclasses.replace(verdict, detail=f"{where}: {mutation.becomes}; {verdict.detail}")
        )
    return found


def _finding(mutation: Mutation) -> Finding:
    """Run the check on the changed code; an `InvalidInput` by that code counts as a failure."""
    try:
        return mutation.check()
    except InvalidInput as problem:
        # the isolation of learners and the form of a plan are checked by the code itself
        return Finding(
            f"{mutation.where}", "runs at all", 1.0, 0.0, passed=False, detail=str(problem)
        )
