"""Deliberately broken variants, so that the audit can be seen to fail.

Each piece breaks one rule that privacy rests on, in the way a programmer plausibly would. They
are used nowhere else, but for `SilentMask`: visitors of the page Audit attack it, on made-up rows.
`broken_findings` runs the check that should catch each of them.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.cores import Mechanism, findings_of, strain
from privgmm.audit.counts import exact_sums, noise_of, row_shift, tail
from privgmm.audit.endtoend import (
    BlockMoments,
    Instance,
    boundary,
    empirical_epsilon,
    isolation,
    opposite,
    refused_neighbour,
    tiny_stage,
)
from privgmm.audit.findings import Finding, caught
from privgmm.audit.grids import impossible_outputs
from privgmm.audit.guessing import Silence
from privgmm.audit.histograms import lone_bins
from privgmm.audit.masks import exact_mask, masked_law, sampled_mask
from privgmm.audit.neighbours import Fits, Neighbours, cloud, edge, extremes, fan, moved_far
from privgmm.audit.rounding import reference_free
from privgmm.audit.sketch_attacks import (
    STANDARD,
    bimodal,
    first_sketch,
    gaussian_rows,
    persons_apart,
    turned,
)
from privgmm.audit.sketch_releases import cases, many_sketches, whole_releases
from privgmm.audit.wiretap import account
from privgmm.budget import Budget
from privgmm.data.people import People, Task
from privgmm.distances.matching import bottleneck_matchings
from privgmm.errors import InvalidInput
from privgmm.learners.learner import BlockRandomness
from privgmm.methods.lifted.method import LiftedMethod
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.gaussian_pairs import GaussianPair
from privgmm.privacy.noise import NoiseSource, Randomness
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.lifted_geometry import karcher_mean, lift, lifted_distance, unlift
from privgmm.stages.agreement.lifted_pairs import pairwise_lifted
from privgmm.stages.agreement.lifted_space import Anchored, LiftedSpace
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.space import MixtureSpace
from privgmm.stages.agreement.stage import Agreement, PickedAgreement
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.refinement.projection import vote_row_sums, vote_sums
from privgmm.stages.refinement.winsorised import Moments, moment_row_sums, winsorised_sums
from privgmm.stages.sketch.features import SketchShape, WaveTask
from privgmm.stages.sketch.finish import Finish, PreparedFinish
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.sketch.histogram_frame import Histogram, HistogramFrame
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.sketch.stage import PreparedSketch, Sketch
from privgmm.stages.stage import Drawn, RowSums, Work

__all__ = [
    "AbsoluteMean",
    "BothWays",
    "FaintMask",
    "FaintSketch",
    "FlatAllowed",
    "FlatWeights",
    "FloatingMask",
    "HalfSigma",
    "KeptRows",
    "NoMargin",
    "NoSeparation",
    "OpenVote",
    "PickOne",
    "QuietComponents",
    "QuietMask",
    "QuietSketch",
    "SharedSweeps",
    "ShownBins",
    "SilentMask",
    "SummedPersons",
    "WarmStart",
    "broken_findings",
    "with_space",
]

StageT = TypeVar("StageT", bound=Agreement)


@dataclasses.dataclass(frozen=True)
class WarmStart(BlockMoments):
    """Every block starts from the fit of the one before, and keeps a little of it."""

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> MixtureBatch:
        """One row now reaches all later fits."""
        fresh = super().fit_blocks(blocks, rng=rng)
        means = fresh.means.copy()
        for i in range(1, len(fresh)):
            means[i] = 0.9 * means[i] + 0.1 * means[i - 1]
        return MixtureBatch(fresh.weights, means, fresh.covariances, fresh.ok)


@dataclasses.dataclass(frozen=True)
class NoSeparation(LiftedSpace):
    """Fits are compared whether or not their components can be told apart."""

    def distances(self, items: MixtureBatch) -> Array:
        """Plain lifted distances."""
        return pairwise_lifted(items)

    def placed(self, items: MixtureBatch, radius: float) -> Array:
        """The same, placed on either side of the radius."""
        return pairwise_lifted(items, around=radius)

    def between(self, items: MixtureBatch, first: IntArray, second: IntArray) -> Array:
        """Plain lifted distances, pair by pair."""
        return bottleneck_matchings(self.tables(items, first, second)).values


@dataclasses.dataclass(frozen=True)
class PickOne(LiftedSpace):
    """The reference fit itself is masked, with noise that suits the average of all."""

    def representative(self, items: MixtureBatch, weights: Array, reference: int) -> Anchored:
        """The first full block, whatever the others say."""
        item = super().representative(items, weights, reference)
        p = items.n_features + 1
        return dataclasses.replace(item, roots=np.tile(np.eye(p), (items.n_components, 1, 1)))


@dataclasses.dataclass(frozen=True)
class AbsoluteMean(LiftedSpace):
    """Means are taken in the coordinates of the data: far from the origin they round badly."""

    def representative(self, items: MixtureBatch, weights: Array, reference: int) -> Anchored:
        """Karcher means of the roots as they stand."""
        members = np.flatnonzero(weights > 0)
        roots = lift(items.weights[members], items.means[members], items.cholesky[members])
        own = lift(items.weights[reference], items.means[reference], items.cholesky[reference])
        order = bottleneck_matchings(
            lifted_distance(own[None, :, None], roots[:, None])
        ).permutations
        picked = np.take_along_axis(roots, order[:, :, None, None], axis=1)
        means = [
            karcher_mean(picked[:, j], weights[members], tolerance=1e-8).root
            for j in range(items.n_components)
        ]
        w, m, factor = unlift(np.stack(means))
        p = items.n_features + 1
        return Anchored(w, m, factor, np.tile(np.eye(p), (items.n_components, 1, 1)))


@dataclasses.dataclass(frozen=True)
class FlatAllowed(LiftedSpace):
    """Fits however nearly flat are compared and averaged."""

    def distances(self, items: MixtureBatch) -> Array:
        """Lifted distances with no look at the condition of the fits (k = 1)."""
        return pairwise_lifted(items)

    def placed(self, items: MixtureBatch, radius: float) -> Array:
        """The same, placed on either side of the radius."""
        return pairwise_lifted(items, around=radius)


@dataclasses.dataclass(frozen=True)
class QuietMask(LiftedSpace):
    """Is priced at one noise level and draws half of it."""

    def _half(self) -> LiftedSpace:
        return LiftedSpace(self.eta / 2, self.clearance)

    def mask(self, item: Anchored, *, rng: Randomness) -> Mixture:
        """Half the noise."""
        return self._half().mask(item, rng=rng)

    def hardest_pairs(
        self, gamma: float, n_features: int, *, rng: np.random.Generator
    ) -> list[GaussianPair]:
        """What is drawn with half the noise."""
        return self._half().hardest_pairs(gamma, n_features, rng=rng)


@dataclasses.dataclass(frozen=True)
class FaintMask(LiftedSpace):
    """Is priced at one noise level and draws a third of it."""

    def mask(self, item: Anchored, *, rng: Randomness) -> Mixture:
        """A third of the noise."""
        return LiftedSpace(self.eta / 3, self.clearance).mask(item, rng=rng)


@dataclasses.dataclass(frozen=True)
class SilentMask(LiftedSpace):
    """Is priced at one noise level and draws none: what is published gives its rows away."""

    def mask(self, item: Anchored, *, rng: Randomness) -> Mixture:  # noqa: ARG002 - that is the bug
        """What was handed in, as it is."""
        return super().mask(item, rng=Silence())


@dataclasses.dataclass(frozen=True)
class FloatingMask(LiftedSpace):
    """The mask in floating point: its last bits tell which fit went in."""

    def mask(self, item: Anchored, *, rng: Randomness) -> Mixture:
        """``U R (I + eta G)`` as one would write it."""
        k, p, _ = item.roots.shape
        noisy = item.roots @ (np.eye(p) + self.eta * rng.normal((k, p, p)))
        weights, means, cholesky = unlift(noisy)
        total = item.weights * weights
        return Mixture.from_roots(
            total / total.sum(),
            item.means + np.einsum("kij,kj->ki", item.cholesky, means),
            item.cholesky @ cholesky,
        )


@dataclasses.dataclass(frozen=True)
class QuietComponents(PaperSpace):
    """Algorithm 2's mask, priced at three noise levels and drawn with half of each."""

    def hardest_pairs(
        self, gamma: float, n_features: int, *, rng: np.random.Generator
    ) -> list[GaussianPair]:
        """What is drawn with half the noise."""
        half = PaperSpace(self.eta_weight / 2, self.eta_mean / 2, self.eta_cov / 2)
        return half.hardest_pairs(gamma, n_features, rng=rng)


@dataclasses.dataclass(frozen=True)
class HalfSigma(Refinement):
    """Refinement sums with half the noise that their multipliers name."""

    def sigma(self, step: int, unit: float, size: int) -> float:
        """Half."""
        return super().sigma(step, unit, size) / 2


@dataclasses.dataclass(frozen=True)
class SharedSweeps(LiftedSpace):
    """All pairs are diagonalised together until the slowest has converged (k = 1).

    Each distance is accurate, yet its last bits depend on all the other fits.
    """

    def placed(self, items: MixtureBatch, radius: float) -> Array:  # noqa: ARG002 - all pairs
        """All distances."""
        return self.distances(items)

    def distances(self, items: MixtureBatch) -> Array:
        """Cyclic Jacobi, side by side, with one stopping rule for everybody."""
        t = len(items)
        roots = lift(items.weights[:, 0], items.means[:, 0], items.cholesky[:, 0])
        i, j = np.triu_indices(t, 1)
        N = np.linalg.solve(roots[i], roots[j])
        K = N @ N.swapaxes(-1, -2) - np.eye(roots.shape[-1])
        p = K.shape[-1]
        off = ~np.eye(p, dtype=bool)
        for _ in range(30):
            rest = (K[:, off] ** 2).sum(axis=1)
            if not (rest > 1e-9 * (K**2).sum(axis=(1, 2))).any():
                break
            for a in range(p - 1):
                for b in range(a + 1, p):
                    angle = 0.5 * np.arctan2(2 * K[:, a, b], K[:, b, b] - K[:, a, a])
                    turn = np.tile(np.eye(p), (len(K), 1, 1))
                    turn[:, a, a] = turn[:, b, b] = np.cos(angle)
                    turn[:, a, b], turn[:, b, a] = np.sin(angle), -np.sin(angle)
                    K = turn.swapaxes(-1, -2) @ K @ turn
        values = np.linalg.norm(np.log1p(np.einsum("nii->ni", K)), axis=1)
        distances = np.zeros((t, t))
        distances[i, j] = distances[j, i] = values
        return distances


@dataclasses.dataclass(frozen=True)
class FlatWeights(SketchShape):
    """All frequencies weigh the same, at the price of Fejér's weights."""

    @property
    def weights(self) -> Array:
        """One over L each."""
        return np.full(self.n_frequencies, 1 / self.n_frequencies)

    @property
    def amplitudes(self) -> Array:
        """Of flat weights."""
        return np.sqrt(self.weights / self.n_directions)


@dataclasses.dataclass(frozen=True)
class QuietSketch(Sketch):
    """Is priced at one noise level and draws half of it."""

    @property
    def sigma(self) -> float:
        """Half."""
        return super().sigma / 2


@dataclasses.dataclass(frozen=True)
class FaintSketch(Sketch):
    """Is priced at one noise level and draws a fiftieth of it."""

    @property
    def sigma(self) -> float:
        """Next to nothing."""
        return super().sigma / 50


@dataclasses.dataclass(frozen=True, eq=False)
class _EveryRow(Task):
    """A task that takes each row for a person."""

    task: WaveTask

    def __call__(self, rows: Array, starts: IntArray) -> IntArray:
        """The sums over these rows."""
        del starts
        return self.task(rows, np.arange(len(rows) + 1, dtype=np.int64))


@dataclasses.dataclass(frozen=True)
class SummedPersons(Sketch):
    """Every row of a person counts in full."""

    def prepare(self, work: Work, public: Frame) -> PreparedSketch:
        """Sums over rows, with noise for averages over each person's."""
        every = _EveryRow(WaveTask(public, self.shape, self.scale))
        return PreparedSketch(self, public, work.people.total(every))


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoMargin(HistogramFrame):
    """Shows a bin as soon as its noisy count is positive."""

    @property
    def scale_threshold(self) -> int:
        """One."""
        return 1

    @property
    def location_threshold(self) -> int:
        """One."""
        return 1


class ShownBins(Histogram):
    """Every bin that is not empty is shown, with noise on its count."""

    def released(
        self, sigma: float, threshold: int, source: NoiseSource
    ) -> tuple[IntArray, IntArray]:
        """No look at the threshold."""
        return super().released(sigma, -(10**9) * max(threshold, 1), source)


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeptRows(HistogramFrame):
    """Rounds in which rows beyond R are kept as they are."""

    def row_sums(self, n_features: int) -> tuple[RowSums, ...]:
        """Moments of all rows, however far."""
        public = Mixture([1.0], np.zeros((1, n_features)), np.eye(n_features)[None])
        return (moment_row_sums(self.multipliers[0], self.moments, public, _kept_sums),)


def _kept_sums(people: People, public: Mixture, moments: Moments) -> tuple[IntArray, float]:
    """In units of R, but pulled in only at a hundred times R."""
    d, times = public.n_features, 100.0
    wide = dataclasses.replace(moments, radius=times * moments.radius)
    sums, unit = winsorised_sums(people, public, wide)
    factors = np.repeat([1.0, times, times**2], [1, d, d * (d + 1) // 2])
    return np.rint(sums * factors).astype(np.int64), unit


@dataclasses.dataclass(frozen=True)
class OpenVote(Finish):
    """Votes count in full, however much a row prefers one mixture."""

    def row_sums(self, n_features: int) -> tuple[RowSums, ...]:
        """Differences of log density that are not clipped."""
        return (vote_row_sums(self.multiplier, n_features, _open_votes),)


def _open_votes(
    people: People, candidates: Sequence[Mixture], clip: float
) -> tuple[IntArray, float]:
    """Clipped at a million times C, in units of C."""
    sums, unit = vote_sums(people, candidates, 1e6 * clip)
    return np.rint(sums * 1e6).astype(np.int64), unit


@dataclasses.dataclass(frozen=True)
class BothWays(Finish):
    """Takes a second sketch AND makes a rich mixture, each at the price of one."""

    def prepare(self, work: Work, public: PrivateSketch) -> PreparedFinish:
        """Fit as usual."""
        ready = super().prepare(work, public)
        return _PreparedBoth(self, ready.work, ready.first, ready.fit)


class _PreparedBoth(PreparedFinish):
    """Goes one way after the other."""

    def draw(self, source: NoiseSource) -> Drawn:
        """A second sketch, and then what the misfit asks for."""
        self._second_sketch(source)
        return super().draw(source)


def _float_sums(rows: Array, member: IntArray | None) -> IntArray:
    """Waves are summed as floating-point numbers, and only the sum is made an integer."""
    share = np.ones(len(rows)) if member is None else 1 / np.bincount(member)[member]
    steps = 0.6 * np.arange(1, 21)
    angles = np.outer(rows[:, 0], steps)
    waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    total: Array = (waves * share[:, None]).sum(axis=0)
    return np.rint(total * 2.0**30).astype(np.int64)


def with_space(stage: StageT, space: MixtureSpace) -> StageT:
    """The stage with another space than its own: what is promised stays, what is run changes."""
    broken = copy.copy(stage)
    object.__setattr__(broken, "space", space)
    return broken


def _worst(mechanism: Mechanism, pairs: list[Neighbours], key: str, label: str) -> Finding:
    found = [(strain(mechanism, pair), pair.name) for pair in pairs]
    return findings_of(label, found, only=(key,))[0]


def _core_variants(rng: np.random.Generator) -> list[tuple[str, Finding]]:
    shaped = LiftedMethod.shaped
    narrow = shaped(31, 20, 20, 20, n_components=1, n_features=2)
    pair = shaped(31, 23, 29, 29, n_components=2, n_features=2)
    loose = shaped(31, 17, 17, 17, n_components=2, n_features=2)
    no_rule = NoSeparation(pair.eta)
    # so near that all fits are friends, whichever way they are turned
    mixed = [fan(pair, 1.2 * pair.tau, np.pi / 2, rng, to=turn) for turn in (0.4, 0.8, 1.2)]
    # as far as a bare majority of friends allows
    turned = [fan(loose, 2.3 * loose.tau, np.pi / 2, rng, to=turn) for turn in (0.4, 0.8, 1.2)]
    shared = Mechanism(with_space(narrow, SharedSweeps(narrow.eta)), settled=False)

    def distance(fits: Fits) -> float:
        return float(shared.distances(fits.batch())[0, 1])

    edges = [one for _ in range(12) for one in edge(narrow, distance, rng)]
    far = [moved_far(cloud(pair, 0.02, rng), 1e15) for _ in range(6)]
    absolute = AbsoluteMean(pair.eta, clearance=pair.space.clearance)
    return [
        (
            "no separation rule (move)",
            _worst(Mechanism(with_space(pair, no_rule)), mixed, "move", "k=2, d=2"),
        ),
        (
            "no separation rule (labels)",
            _worst(Mechanism(with_space(loose, no_rule)), turned, "diameter", "k=2, d=2"),
        ),
        ("distances round with third fits", _worst(shared, edges, "flips", "k=1, d=2")),
        (
            "distances round with third fits (test)",
            _worst(shared, edges, "statistic", "k=1, d=2"),
        ),
        (
            "mean in absolute coordinates",
            _worst(Mechanism(with_space(pair, absolute)), far, "move", "k=2, d=2"),
        ),
        (
            "nearly flat fits averaged (rounding)",
            reference_free(with_space(narrow, FlatAllowed(narrow.eta)), rng=rng),
        ),
        (
            "pick-one noise on an average",
            _worst(
                Mechanism(with_space(narrow, PickOne(narrow.eta))),
                [extremes(narrow)],
                "move",
                "k=1, d=2",
            ),
        ),
    ]


def _picked() -> PickedAgreement:
    """A stage of Algorithm 2's mask, whatever it costs."""
    test = AgreementTest(200, 1e-3, 8.0, 40, 101, 101, 1)
    return PickedAgreement(
        n_components=2,
        n_features=2,
        alpha=0.5,
        beta=0.1,
        test=test,
        space=QuietComponents(0.16, 0.1, 0.05),
    )


def _noise_variants(runs: int, samples: int, rng: np.random.Generator) -> list[tuple[str, Finding]]:
    promise = Budget(1.0, 1e-6)
    averaged = tiny_stage(2, n_features=2, budget=promise, sigma=8.0, alpha=1.0)
    quiet = with_space(averaged, QuietMask(averaged.eta))
    test = averaged.test
    laplace = PopulousTest(200, 0.1, 0.2, 1e-6)
    tiny = tiny_stage()
    across, short = opposite(tiny), boundary(tiny)
    hasty = dataclasses.replace(tiny, test=dataclasses.replace(tiny.test, threshold=0))
    return [
        (
            "half the mask noise (drawn)",
            sampled_mask(quiet, "averaged", samples=samples, rng=rng),
        ),
        ("half the mask noise (exact)", exact_mask(quiet, "averaged", rng=rng)),
        (
            "half of Algorithm 2's noise",
            sampled_mask(_picked(), "picked", samples=samples, rng=rng),
        ),
        ("mask draws half of what it claims", masked_law(quiet, "averaged", rng=rng)),
        ("no mask noise at all", impossible_outputs(SilentMask(0.25), rng=rng)),
        ("mask in floating point", impossible_outputs(FloatingMask(0.25), rng=rng)),
        (
            "half the noise on the count",
            noise_of(test, drawn=dataclasses.replace(test, sigma=test.sigma / 2)),
        ),
        (
            "half the truncated Laplace noise",
            # twice the blocks: noise for half the sensitivity
            noise_of(laplace, drawn=dataclasses.replace(laplace, n_blocks=400)),
        ),
        (
            "half the refinement noise",
            row_shift(HalfSigma((60.0, 90.0), (4.0, 3.0)), n_features=2, rng=rng),
        ),
        (
            "threshold without its margin (exact)",
            tail(dataclasses.replace(test, threshold=0), promise.delta, "averaged"),
        ),
        (
            "threshold without its margin (runs)",
            refused_neighbour(dataclasses.replace(short, stage=hasty), runs=runs, rng=rng),
        ),
        (
            "a third of the mask noise (whole releases)",
            empirical_epsilon(_run_with(across, FaintMask(tiny.eta)), runs=runs, rng=rng),
        ),
        (
            "pick-one noise (whole releases)",
            empirical_epsilon(_run_with(across, PickOne(tiny.eta)), runs=runs, rng=rng),
        ),
        (
            "warm start across blocks",
            isolation(WarmStart(2), rng.standard_normal((20, 10, 2)), rng=rng),
        ),
    ]


def _sketch_variants(rng: np.random.Generator) -> list[tuple[str, Finding]]:
    shape = SketchShape.default(1)
    flat = FlatWeights(shape.n_directions, shape.n_frequencies, shape.step)
    n = 200
    plain, moved = turned(n)
    one, other = persons_apart(n)
    frame = HistogramFrame(
        n_features=1,
        scale_sigma=20.0,
        location_sigma=30.0,
        miss=1e-8,
        multipliers=(20.0,),
        radius=2.0,
    )
    loose = NoMargin(**{f.name: getattr(frame, f.name) for f in dataclasses.fields(frame)})
    kept = KeptRows(**{f.name: getattr(frame, f.name) for f in dataclasses.fields(frame)})
    far = cases()[0]
    before, first, after = far.plan.stages
    if not isinstance(first, Sketch):
        raise InvalidInput("a plan of sketch has a sketch after its frame")
    faint = FaintSketch(first.shape, first.multiplier, first.n_units, first.n_features)
    return [
        (
            "flat weights at Fejér's price",
            row_shift(Sketch(flat, 1.0, n, 1), n_features=1, rng=rng),
        ),
        (
            "half the sketch noise (account)",
            account(QuietSketch(shape, 1.0, n, 1), plain, moved, STANDARD, label="one turn"),
        ),
        (
            "a fiftieth of the sketch noise (draws)",
            many_sketches(FaintSketch(shape, 1.0, 50, 1), draws=2_000, rng=rng),
        ),
        (
            "a fiftieth of the sketch noise (whole releases)",
            whole_releases(
                dataclasses.replace(far, plan=far.plan.but(before, faint, after)),
                runs=80,
                rng=rng,
            ),
        ),
        (
            "float sums of waves",
            exact_sums("floats", _float_sums, gaussian_rows(300, 1), rng=rng),
        ),
        (
            "sums over persons' rows at the price of means",
            account(SummedPersons(shape, 1.0, n, 1), one, other, STANDARD, label="persons"),
        ),
        ("histogram threshold without its margin", lone_bins(frame, drawn=loose)[1]),
        (
            "histogram threshold without its margin (law)",
            lone_bins(frame, drawn=loose)[0],
        ),
        ("bins of a single row shown", lone_bins(frame, histogram=ShownBins)[1]),
        (
            "bins of a single row shown (shortfall)",
            lone_bins(frame, histogram=ShownBins)[2],
        ),
        ("moments of rows beyond R", row_shift(kept, n_features=1, rng=rng)),
        (
            "vote without a clip",
            row_shift(OpenVote(1, 1, n, shape, 1.0), n_features=1, rng=rng),
        ),
        (
            "finish that goes both ways",
            account(
                BothWays(1, 1, n, shape, 1.0),
                *bimodal(n),
                first_sketch(bimodal(n)[0]),
                label="both ways",
            ),
        ),
    ]


def _run_with(instance: Instance, space: MixtureSpace) -> Instance:
    return dataclasses.replace(instance, stage=with_space(instance.stage, space))


def broken_findings(*, runs: int, samples: int, rng: np.random.Generator) -> list[Finding]:
    """Every broken variant against the check that must catch it."""
    variants = _noise_variants(runs, samples, rng) + _core_variants(rng) + _sketch_variants(rng)
    return [caught(name, found) for name, found in variants]
