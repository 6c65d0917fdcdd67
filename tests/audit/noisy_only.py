"""Replay: what a stage publishes must be a function of its noisy sums alone.

A stage runs twice. The second time all exact numbers are others (other rows, or the same sums with
the sign turned), and the noise is such that every noisy sum is the one of the first run. Then
everything published must be equal, to the last bit: the value of every stage, refusals included.
Noise that is drawn and not used, and exact numbers used next to noisy ones, make a difference.

Counts of bins are shown above a threshold only. The second data set fills every bin that was shown
in the first run, and others besides: bins that were not shown stay below the threshold again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.findings import Finding, within
from privgmm.audit.sketch_attacks import ORIGIN_FRAME, QUIET, first_sketch, gaussian_rows
from privgmm.audit.wiretap import Heard, Side, Tap
from privgmm.data.people import ArrayPeople, CoordinateChange, People, PersonSum, Taken
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture
from privgmm.privacy.noise import SeededNoise
from privgmm.releases import prepare
from privgmm.results import Release
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.lifted_geometry import lift
from privgmm.stages.agreement.lifted_space import Anchored, LiftedSpace
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.agreement.votes import AgreementTest, h_index
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import Histogram, HistogramFrame
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.stage import Bottom, Drawn, Published, Stage, Work
from privgmm.stages.wide.pooled import Pooled
from privgmm.stages.wide.subspace import SketchedSubspace

__all__ = [
    "EXACT",
    "Disguised",
    "Replay",
    "bins_announced",
    "facts_of",
    "heaps",
    "lattice_rows",
    "other_rows",
    "persons_of",
    "replayed",
    "replayed_finish",
    "replayed_frame",
    "replayed_lifted_mask",
    "replayed_mask",
    "replayed_persons",
    "replayed_printed_vote",
    "replayed_refinement",
    "replayed_refusal",
    "replayed_release",
    "replayed_sketch",
    "replayed_stages",
    "replayed_vote",
]

_HIDDEN = 10**6
"""How far below its threshold the count of a bin lies that the first run did not show."""


class Replay(Tap):
    """A tap whose coins do not depend on how much noise was drawn.

    Parameters
    ----------
    seed : int
    first : Replay, optional
        The tap of the run whose noisy sums are shown again.
    """

    def __init__(self, seed: int, first: Replay | None = None) -> None:
        super().__init__(seed, () if first is None else first.heard)
        object.__setattr__(self, "_coins", SeededNoise(np.random.default_rng(seed + 1)))
        object.__setattr__(self, "_bins", {})
        object.__setattr__(self, "_first", first)
        object.__setattr__(self, "_counted", None)

    _coins: SeededNoise
    _bins: dict[int, tuple[IntArray, int]]
    _first: Replay | None
    _counted: tuple[IntArray, int] | None

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        """Draw from the coins."""
        return self._coins.normal(shape)

    def permutation(self, n: int) -> IntArray:
        """Draw from the coins."""
        return self._coins.permutation(n)

    def seed(self) -> int:
        """Draw from the coins."""
        return self._coins.seed()

    def key(self) -> bytes:
        """Draw from the coins."""
        return self._coins.key()

    def counting(self, bins: IntArray, threshold: int) -> None:
        """Announce that the next draw goes to the counts of these bins."""
        object.__setattr__(self, "_counted", (bins, threshold))

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        """Draw noise that records what it is added to."""
        if self._counted is not None:
            self._bins[len(self._asked)] = self._counted
            object.__setattr__(self, "_counted", None)
        return super().discrete_gaussian(sigma, size)

    def added(self, number: int, sums: IntArray, noise: IntArray) -> IntArray:
        """Record what the noise was added to, and return the noisy sums of the first run."""
        first = self._first
        if first is None or number not in self._bins:
            return super().added(number, sums, noise)
        if number not in first._bins or number in self._heard:
            raise InvalidInput("the second run adds noise to other counts than the first")
        bins, threshold = self._bins[number]
        earlier, before = first._bins[number][0], first._heard[number].shown
        seen = dict(zip(earlier.tolist(), before.tolist(), strict=True))
        missing = {bin_ for bin_, count in seen.items() if count >= threshold} - set(bins.tolist())
        if missing:
            raise InvalidInput(f"the second data set must fill the bins shown, but not {missing}")
        low = threshold - _HIDDEN
        found = [seen.get(bin_, low) for bin_ in bins.tolist()]
        shown = np.array([count if count >= threshold else low for count in found], dtype=np.int64)
        self._heard[number] = Heard(self._asked[number], sums.copy(), shown)
        return shown.copy()


@contextlib.contextmanager
def bins_announced() -> Iterator[None]:
    """Let histograms tell a `Replay` which bins they count, and run as they are otherwise."""
    real = Histogram.released

    def released(self: Histogram, sigma: float, threshold: int, source: Any) -> Any:
        source.counting(self.bins, threshold)
        return real(self, sigma, threshold, source)

    Histogram.released = released  # type: ignore[method-assign]  # put back below
    try:
        yield
    finally:
        Histogram.released = real  # type: ignore[method-assign]  # as it was


class Disguised(People):
    """The persons of a table, with all exact sums over them turned into others.

    Parameters
    ----------
    people : People
    change : callable(sums) -> sums
    """

    def __init__(self, people: People, change: Callable[[IntArray], IntArray]) -> None:
        super().__init__(len(people), people.n_rows, people.n_features)
        self.people, self.change = people, change

    def take(self, persons: IntArray) -> Taken:
        """Take rows as they are."""
        return self.people.take(persons)

    def total(self, task: PersonSum, what: str = "summing") -> IntArray:
        """Sum, and change the sums."""
        return self.change(self.people.total(task, what))

    def mapped(self, change: CoordinateChange) -> Disguised:
        """Return the same persons with rows in other coordinates."""
        return Disguised(self.people.mapped(change), self.change)


def other_rows(rows: Array, *, seed: int = 3) -> Array:
    """Move 45 % of the rows far to one side: no exact number is as before.

    The others stay, so that every bin that many rows fill is not empty.
    """
    rng = np.random.default_rng(seed)
    moved = rng.random(len(rows)) < 0.45
    spread = np.ptp(rows, axis=0)
    far = rows.max(axis=0) + spread * (1 + rng.random(rows.shape))
    return np.where(moved[:, None], far, rows)


def facts_of(value: Any) -> Any:
    """Return all that a stage published as plain values, floats to the last bit."""
    if isinstance(value, Bottom):
        return ["nothing", value.reason, value.column]
    if isinstance(value, Frame | PrivateSketch | Mixture):
        return value.to_dict()
    if isinstance(value, Published):
        sketch = None if value.sketch is None else value.sketch.to_dict()
        stated = value.to_dict() if isinstance(value, Release) else value.facts()
        return {"facts": stated, "sketch": sketch}
    if isinstance(value, Pooled):
        units = [value.units.centre.tolist(), value.units.scale.tolist()]
        return {"units": units, "mixture": value.mixture.to_dict()}
    if isinstance(value, SketchedSubspace):
        return [facts_of(value.pooled), facts_of(value.sketch)]
    raise InvalidInput(f"a stage published a {type(value).__name__}: say how to compare it")


def _differing(first: Any, second: Any) -> int:
    """Count the stages whose published values differ."""
    texts = [
        [json.dumps(facts_of(one), sort_keys=True) for one in side] for side in (first, second)
    ]
    longest = max(map(len, texts))
    padded = [side + [""] * (longest - len(side)) for side in texts]
    return sum(a != b for a, b in zip(*padded, strict=True))


def replayed(
    stage: Stage, first: People, second: People, public: Any, *, label: str, seed: int = 0
) -> Finding:
    """Run a stage on two data sets with the same noisy sums, and compare what it publishes."""

    def run(people: People, tap: Replay) -> Drawn:
        return stage.prepare(Work(people, tap), public).draw(tap)

    return _compared(run, first, second, f"{stage.kind} replayed, {label}", seed)


def replayed_stages(
    plan: Plan, first: People, second: People, *, label: str, seed: int = 0
) -> Finding:
    """Run all stages of a plan on two data sets with the same noisy sums, and compare.

    Fits of blocks are masked, not summed: a stage of agreement runs on the first data set only,
    and both sides go on from what it published.
    """
    found: list[Any] = []

    def run(people: People, tap: Replay) -> list[Drawn]:
        work, value, drawn = Work(people, tap), None, []
        for number, stage in enumerate(plan.stages):
            if isinstance(stage, Agreement):
                if not found:
                    free = SeededNoise(np.random.default_rng(seed))
                    found.append(stage.prepare(Work(first, free), value).draw(free))
                drawn.append(found[0])
            else:
                drawn.append(stage.prepare(work, value).draw(tap))
            value = drawn[-1].value
            if isinstance(value, Bottom):
                if number + 1 < len(plan.stages):
                    raise InvalidInput(f"{label}: the plan refused, so later stages did not run")
                break
        return drawn

    return _compared(run, first, second, f"all stages replayed, {label}", seed)


def replayed_release(plan: Plan, rows: Array, *, label: str, seed: int = 0) -> Finding:
    """Release other rows with the same noisy sums, and compare all that the release states."""

    def run(table: Array, tap: Replay) -> list[Drawn]:
        result = prepare(table, plan, rng=tap).draw().result
        if not isinstance(result, Release):
            raise InvalidInput(f"{label}: the plan refused, so later stages did not run")
        return [Drawn(result)]

    return _compared(run, rows, other_rows(rows), f"release replayed, {label}", seed)


def _compared(
    run: Callable[[Any, Replay], Drawn | list[Drawn]],
    first: Any,
    second: Any,
    name: str,
    seed: int,
) -> Finding:
    # overflow shows nothing in a release, and must show nothing here
    with bins_announced(), np.errstate(all="ignore"):
        one = Replay(seed)
        before = run(first, one)
        heard = one.heard
        other = Replay(seed, one)
        problem, differing = "", 1
        try:
            after = run(second, other)
            again = other.heard
        except InvalidInput as error:
            problem = f"; {error}"
        else:
            sides = [
                [drawn.value for drawn in (side if isinstance(side, list) else [side])]
                for side in (before, after)
            ]
            differing = _differing(*sides) + (len(again) != len(heard))
            # what a stage knows besides its value: its repr has all digits
            facts = [
                [repr(drawn.facts) for drawn in (side if isinstance(side, list) else [side])]
                for side in (before, after)
            ]
            differing += facts[0] != facts[1]
            if heard and all(
                a.sums.shape == b.sums.shape and np.array_equal(a.sums, b.sums)
                for a, b in zip(heard, again, strict=False)
            ):
                problem, differing = "; the second run has the same exact sums: a blind replay", 1
    return within(
        name,
        "published values that the noisy sums do not decide <= 0",
        differing,
        0,
        f"{len(heard)} draws shown again over other exact sums{problem}",
    )


# -------------------------------------------------------------------------------------- votes


@dataclasses.dataclass(frozen=True)
class _Noise(SeededNoise):
    """Noise of a given value."""

    value: float = 0.0

    def discrete_gaussian(self, sigma: float, size: int) -> IntArray:
        """Return the value."""
        return np.full(size, round(self.value), dtype=np.int64)

    def laplace(self, scale: float, size: int) -> Array:
        """Return the value."""
        return np.full(size, float(self.value))


def _heap(t: int, size: int) -> Array:
    """Make distances of t fits: the first `size` are alike, the others far from all."""
    distances = np.full((t, t), np.inf)
    distances[:size, :size] = 0.0
    distances[np.arange(t), np.arange(t)] = 0.0
    return distances


def _verdicts(test: Any, distances: Sequence[Array], noises: Callable[[int], list[float]]) -> int:
    """Count noisy statistics for which some votes pass and others do not."""
    sides = []
    for number, votes in enumerate(distances):
        source = np.random.default_rng(0)
        sides.append(
            [test.examine(votes, rng=_Noise(source, value)).passed for value in noises(number)]
        )
    return sum(len(set(side)) > 1 for side in zip(*sides, strict=True))


def replayed_vote(test: AgreementTest) -> Finding:
    """Compare verdicts on different votes whose noisy count is the same: the test decides by it."""
    least = max(test.full, test.core)
    heaps = [_heap(test.n_blocks, size) for size in range(least, test.n_blocks + 1)]
    counts = [h_index((one <= test.radius).sum(axis=1), test.full, test.core) for one in heaps]
    wanted = range(test.threshold - 8, test.threshold + 9)
    return within(
        "vote replayed",
        "noisy counts that do not decide <= 0",
        _verdicts(test, heaps, lambda i: [float(noisy - counts[i]) for noisy in wanted]),
        0,
        f"{len(heaps)} votes with a statistic of {min(counts)} to {max(counts)}",
    )


def replayed_printed_vote(test: PopulousTest) -> Finding:
    """Compare verdicts on different votes whose noisy share is the same, where shares may pass."""
    t, bound = test.n_blocks, test.noise.bound
    heaps = [_heap(t, size) for size in range(int(np.ceil(t * np.sqrt(0.9))), t + 1)]
    shares = [float((one <= test.radius).mean()) for one in heaps]
    # not at the threshold itself, where rounding of this sum would decide
    wanted = test.threshold + bound * np.array([-0.2, -0.1, -0.01, 0.01, 0.1, 0.2])
    reached = [
        value for value in wanted.tolist() if all(abs(value - share) < bound for share in shares)
    ]
    undecided = _verdicts(test, heaps, lambda i: [value - shares[i] for value in reached])
    return within(
        "printed vote replayed",
        "noisy shares that do not decide <= 0",
        undecided if len(reached) == len(wanted) else np.inf,
        0,
        f"{len(heaps)} votes, {len(reached)} noisy shares",
    )


# -------------------------------------------------------------------------------------- masks


class _Script:
    """Normal numbers in a given order, and no shuffle; not a source of other noise."""

    def __init__(self, *draws: Array) -> None:
        self.draws = list(draws)

    def normal(self, shape: int | tuple[int, ...]) -> Array:
        """Return the next numbers."""
        drawn = self.draws.pop(0)
        if drawn.shape != (shape if isinstance(shape, tuple) else (shape,)):
            raise InvalidInput(f"the script has {drawn.shape} where the mask draws {shape}")
        return drawn

    def permutation(self, n: int) -> IntArray:
        """Return the order as it is."""
        return np.arange(n, dtype=np.int64)


def _mixture(rng: np.random.Generator, k: int, d: int) -> Mixture:
    roots = np.tril(0.3 * rng.standard_normal((k, d, d)), -1) + np.eye(d) * rng.uniform(0.5, 2, d)
    return Mixture.from_roots(
        rng.dirichlet(np.full(k, 9.0)), 5 * rng.standard_normal((k, d)), roots
    )


def _masks_differ(space: Any, items: Sequence[Any], scripts: Sequence[_Script], label: str) -> int:
    shown = [space.mask(item, rng=script) for item, script in zip(items, scripts, strict=True)]
    if any(script.draws for script in scripts):
        raise InvalidInput(f"{label}: the mask drew less than it should")
    return sum(
        int((one != other).sum())
        for one, other in zip(*((m.weights, m.means, m.cholesky) for m in shown), strict=True)
    )


def replayed_mask(*, k: int = 2, d: int = 2, tries: int = 5) -> Finding:
    """Mask two different mixtures by Algorithm 2 with noise that makes noisy parameters equal.

    ``w + eta g``, ``mu + eta L g`` and ``L (I + eta G)`` of the second are those of the first to
    the last bits of a float, 2^-52, and what is published lies on a grid of 2^-40.
    """
    eta, differing, rng = 0.125, 0, np.random.default_rng(6)
    space = PaperSpace(eta, eta, eta)
    for _ in range(tries):
        one, two = _mixture(rng, k, d), _mixture(rng, k, d)
        weight, shape = 0.1 * rng.standard_normal(k), rng.standard_normal((k, d, d))
        mean = rng.standard_normal((k, d, 1))
        noisy = one.cholesky @ (np.eye(d) + eta * shape)
        place = one.means[:, :, None] + eta * one.cholesky @ mean
        back = np.linalg.inv(two.cholesky)
        scripts = [
            _Script(weight, shape, mean[:, :, 0]),
            _Script(
                (one.weights - two.weights) / eta + weight,
                (back @ noisy - np.eye(d)) / eta,
                (back @ (place - two.means[:, :, None]))[:, :, 0] / eta,
            ),
        ]
        differing += _masks_differ(space, (one, two), scripts, "Algorithm 2")
    return within(
        f"mask of Algorithm 2 replayed, k={k} d={d}",
        "published numbers that the noisy ones do not decide <= 0",
        differing,
        0,
        f"{tries} pairs of mixtures, at any distance",
    )


def replayed_lifted_mask(*, k: int = 2, d: int = 2, tries: int = 5) -> Finding:
    """Mask two different lifted mixtures with noise that makes ``U R (I + eta G)`` equal."""
    eta, p, differing, rng = 0.125, d + 1, 0, np.random.default_rng(7)
    space, first = LiftedSpace(eta), np.roll(np.arange(p), 1)
    back = np.argsort(first)
    for _ in range(tries):
        items, roots = [], []
        for _ in range(2):
            fit = _mixture(rng, k, d)
            # in the order in which the mask has them: the constant first, lower triangular
            own = np.eye(p) + np.tril(0.1 * rng.standard_normal((k, p, p)))
            own = own[:, back[:, None], back]
            items.append(Anchored(fit.weights, fit.means, fit.cholesky, own))
            roots.append(lift(fit.weights, fit.means, fit.cholesky) @ own)
        drawn = rng.standard_normal((k, p, p))
        noise = drawn[:, back[:, None], back]
        noisy = roots[0] @ (np.eye(p) + eta * noise)
        other = (np.linalg.solve(roots[1], noisy) - np.eye(p)) / eta
        scripts = [_Script(drawn), _Script(other[:, first[:, None], first])]
        differing += _masks_differ(space, items, scripts, "lifted")
    return within(
        f"lifted mask replayed, k={k} d={d}",
        "published numbers that the noisy ones do not decide <= 0",
        differing,
        0,
        f"{tries} pairs of mixtures, at any distance",
    )


# --------------------------------------------------------------------------------------- rows


def heaps(d: int, n: int, *, seed: int = 0) -> Array:
    """Draw two heaps of rows, apart along the first column."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d))
    rows[:, 0] += np.where(rng.random(n) < 0.4, -4.0, 4.0)
    return rows


def lattice_rows(d: int, n: int) -> Array:
    """Draw rows that no Gaussian mixture of few components explains."""
    rng = np.random.default_rng(1)
    return rng.choice([-1.5, -1.4, 1.5], size=(n, d)) + 0.05 * rng.standard_normal((n, d))


def persons_of(rows: Array, sizes: Sequence[int]) -> People:
    """Give the rows to persons with these numbers of rows."""
    return ArrayPeople.of(rows, np.repeat(np.arange(len(sizes)), sizes))


def _turned(sums: IntArray) -> IntArray:
    return -sums


def _mixed(sums: IntArray) -> IntArray:
    mixed = np.random.default_rng(4).permutation(3 * sums.ravel() + 7)
    return np.asarray(mixed.reshape(sums.shape), dtype=np.int64)


EXACT: dict[str, Callable[[Array], People]] = {
    "other rows": lambda rows: ArrayPeople.of(other_rows(rows)),
    # the largest of several sums becomes the least: a choice by exact sums falls otherwise
    "sums turned": lambda rows: Disguised(ArrayPeople.of(rows), _turned),
    "sums mixed": lambda rows: Disguised(ArrayPeople.of(rows), _mixed),
}
"""Data sets with other exact sums, made from the rows of the first."""


def replayed_finish(*, d: int = 1, n: int = 200, exact: str = "sums turned") -> Finding:
    """Replay a finish that makes a rich mixture and votes."""
    rows = lattice_rows(d, n)
    stage = Finish(1 if d == 1 else 2, d, n, SketchShape.default(d), QUIET)
    first = ArrayPeople.of(rows)
    return replayed(stage, first, EXACT[exact](rows), first_sketch(Side(rows)), label=exact)


def replayed_persons() -> Finding:
    """Replay a finish on as many persons with other numbers of rows."""
    n = 200
    rows = lattice_rows(1, 2 * n)
    public = first_sketch(Side(rows[:n]))
    stage = Finish(1, 1, n, SketchShape.default(1), QUIET)
    first = persons_of(rows, [2] * n)
    second = persons_of(lattice_rows(1, 4 * n) + 0.1, [1, 7] * (n // 2))
    return replayed(stage, first, second, public, label="persons of other sizes")


def replayed_frame(exact: str = "other rows", *, d: int = 1) -> Finding:
    """Replay a frame made from histograms and two rounds of moments."""
    rows = 100 + heaps(d, 600)
    stage = HistogramFrame(
        n_features=d,
        scale_sigma=2.0,
        location_sigma=3.0,
        miss=1e-3,
        multipliers=(5.0, 5.0),
        radius=2.0,
    )
    return replayed(stage, ArrayPeople.of(rows), EXACT[exact](rows), None, label=exact)


def replayed_refusal() -> Finding:
    """Replay a frame whose bins are shown by luck: exact counts alone would refuse it."""
    rows = gaussian_rows(1_200, 1)
    rng = np.random.default_rng(2)
    far = rows.max() + np.ptp(rows) * rng.uniform(1, 20, size=rows.shape)
    other = np.where(rng.random(rows.shape) < 0.65, far, rows)
    stage = HistogramFrame(
        n_features=1, scale_sigma=40.0, location_sigma=130.0, miss=1e-3, multipliers=(), radius=2.0
    )
    return replayed(stage, ArrayPeople.of(rows), ArrayPeople.of(other), None, label="refusal")


def replayed_sketch() -> Finding:
    """Replay a sketch in a given frame."""
    rows = gaussian_rows(200, 1)
    stage = Sketch(SketchShape.default(1), 1.5, 200, 1)
    second = ArrayPeople.of(other_rows(rows))
    return replayed(stage, ArrayPeople.of(rows), second, ORIGIN_FRAME, label="a sketch")


def replayed_refinement() -> Finding:
    """Replay two steps of refinement."""
    far = Mixture([0.5, 0.5], [[0.0], [1e3]], [[[1.0]], [[1.0]]])
    rows = np.concatenate([gaussian_rows(60, 1), 1e3 + gaussian_rows(60, 1)])
    stage = Refinement((5.0, 5.0), (2.0, 2.0))
    other = ArrayPeople.of(rows + 0.3)
    return replayed(stage, ArrayPeople.of(rows), other, far, label="refinement")
