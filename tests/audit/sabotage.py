"""Deliberately broken variants, each with the check of the audit that must notice it.

Each class breaks one rule that privacy rests on, in a way that a programmer plausibly would.
`VARIANTS` names the checks. The few variants that the Audit page shows are in
`privgmm.audit.broken`; `mutations` changes single lines of the real code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.broken import ShownBins, with_space
from privgmm.audit.cores import Mechanism, findings_of, strain
from privgmm.audit.counts import exact_sums, noise_of, row_shift
from privgmm.audit.endtoend import (
    boundary,
    empirical_epsilon,
    opposite,
    refused_neighbour,
    tiny_stage,
)
from privgmm.audit.findings import Finding
from privgmm.audit.histograms import lone_bins
from privgmm.audit.masks import exact_mask, masked_law, sampled_mask
from privgmm.audit.neighbours import Fits, Neighbours, edge, extremes, fan, moved_far, random_fits
from privgmm.audit.rounding import reference_free
from privgmm.audit.sketch_attacks import bimodal, first_sketch, gaussian_rows
from privgmm.audit.sketch_releases import cases, many_sketches, whole_releases
from privgmm.audit.wiretap import audit_run
from privgmm.budget import Budget
from privgmm.data.people import People
from privgmm.distances.matching import bottleneck_matchings
from privgmm.methods.lifted.method import LiftedMethod
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.gaussian_pairs import GaussianPair
from privgmm.privacy.noise import NoiseSource, Randomness
from privgmm.stages.agreement.algorithm_1 import PopulousTest
from privgmm.stages.agreement.lifted_geometry import karcher_mean, lift, lifted_distance, unlift
from privgmm.stages.agreement.lifted_pairs import pairwise_lifted
from privgmm.stages.agreement.lifted_space import Anchored, LiftedSpace
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.stage import AveragedAgreement, PickedAgreement
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.refinement.projection import vote_row_sums, vote_sums
from privgmm.stages.refinement.winsorised import WinsorisedMoments, moment_row_sums, winsorised_sums
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.finish import Finish, PreparedFinish
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.stages.sketch.stage import Sketch
from privgmm.stages.stage import Drawn, RowSums, Work

__all__ = [
    "VARIANTS",
    "BothWays",
    "NoSeparation",
    "PickOne",
    "QuietMask",
    "SharedSweeps",
    "Unsettled",
]

Check = Callable[[np.random.Generator], Finding]


@dataclasses.dataclass(frozen=True)
class NoSeparation(LiftedSpace):
    """A comparison of all fits, also of those whose components cannot be distinguished."""

    def distances(self, items: MixtureBatch) -> Array:
        return pairwise_lifted(items)

    def placed(self, items: MixtureBatch, radius: float) -> Array:
        return pairwise_lifted(items, around=radius)

    def between(self, items: MixtureBatch, first: IntArray, second: IntArray) -> Array:
        return bottleneck_matchings(self.tables(items, first, second)).values


@dataclasses.dataclass(frozen=True)
class PickOne(LiftedSpace):
    """A mask of the reference fit itself, with noise for the average of all."""

    def representative(self, items: MixtureBatch, weights: Array, reference: int) -> Anchored:
        item = super().representative(items, weights, reference)
        p = items.n_features + 1
        return dataclasses.replace(item, roots=np.tile(np.eye(p), (items.n_components, 1, 1)))


@dataclasses.dataclass(frozen=True)
class AbsoluteMean(LiftedSpace):
    """Means in the coordinates of the data: far from the origin they round badly."""

    def representative(self, items: MixtureBatch, weights: Array, reference: int) -> Anchored:
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
    """A comparison of all fits, also of those that are nearly flat (k = 1)."""

    def distances(self, items: MixtureBatch) -> Array:
        return pairwise_lifted(items)

    def placed(self, items: MixtureBatch, radius: float) -> Array:
        return pairwise_lifted(items, around=radius)


@dataclasses.dataclass(frozen=True)
class QuietMask(LiftedSpace):
    """A mask that is priced at one noise level and draws half of it."""

    def _half(self) -> LiftedSpace:
        return LiftedSpace(self.eta / 2, self.clearance)

    def mask(self, item: Anchored, *, rng: Randomness) -> Mixture:
        return self._half().mask(item, rng=rng)

    def hardest_pairs(
        self, gamma: float, n_features: int, *, rng: np.random.Generator
    ) -> list[GaussianPair]:
        return self._half().hardest_pairs(gamma, n_features, rng=rng)


@dataclasses.dataclass(frozen=True)
class FaintMask(LiftedSpace):
    """A mask that is priced at one noise level and draws a third of it."""

    def mask(self, item: Anchored, *, rng: Randomness) -> Mixture:
        return LiftedSpace(self.eta / 3, self.clearance).mask(item, rng=rng)


@dataclasses.dataclass(frozen=True)
class QuietComponents(PaperSpace):
    """Algorithm 2's mask, priced at three noise levels and drawn with half of each."""

    def hardest_pairs(
        self, gamma: float, n_features: int, *, rng: np.random.Generator
    ) -> list[GaussianPair]:
        half = PaperSpace(self.eta_weight / 2, self.eta_mean / 2, self.eta_cov / 2)
        return half.hardest_pairs(gamma, n_features, rng=rng)


@dataclasses.dataclass(frozen=True)
class HalfSigma(Refinement):
    """Refinement sums with half the noise that their multipliers name."""

    def sigma(self, step: int, unit: float, size: int) -> float:
        return super().sigma(step, unit, size) / 2


@dataclasses.dataclass(frozen=True)
class SharedSweeps(LiftedSpace):
    """Distances of pairs that are diagonalised together until the slowest converges (k = 1).

    Each distance is accurate, yet its last bits depend on all the other fits.
    """

    def placed(self, items: MixtureBatch, radius: float) -> Array:
        return self.distances(items)

    def distances(self, items: MixtureBatch) -> Array:
        # cyclic Jacobi with one stopping rule for all pairs
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
    """A shape whose frequencies weigh the same, at the price of Fejér's weights."""

    @property
    def weights(self) -> Array:
        return np.full(self.n_frequencies, 1 / self.n_frequencies)

    @property
    def amplitudes(self) -> Array:
        return np.sqrt(self.weights / self.n_directions)


@dataclasses.dataclass(frozen=True)
class FaintSketch(Sketch):
    """A sketch that is priced at one noise level and draws a fiftieth of it."""

    @property
    def sigma(self) -> float:
        return super().sigma / 50


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoMargin(HistogramFrame):
    """A frame that shows a bin as soon as its noisy count is positive."""

    @property
    def scale_threshold(self) -> int:
        return 1

    @property
    def location_threshold(self) -> int:
        return 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeptRows(HistogramFrame):
    """A frame whose rounds keep rows beyond R as they are."""

    def row_sums(self, n_features: int) -> tuple[RowSums, ...]:
        public = Mixture([1.0], np.zeros((1, n_features)), np.eye(n_features)[None])
        return (moment_row_sums(self.multipliers[0], self.moments, public, _kept_sums),)


def _kept_sums(
    people: People, public: Mixture, moments: WinsorisedMoments
) -> tuple[IntArray, float]:
    """Sum in units of R, but clip only at a hundred times R."""
    d, times = public.n_features, 100.0
    wide = dataclasses.replace(moments, radius=times * moments.radius)
    sums, unit = winsorised_sums(people, public, wide)
    factors = np.repeat([1.0, times, times**2], [1, d, d * (d + 1) // 2])
    return np.rint(sums * factors).astype(np.int64), unit


@dataclasses.dataclass(frozen=True)
class OpenVote(Finish):
    """A finish whose votes are not clipped."""

    def row_sums(self, n_features: int) -> tuple[RowSums, ...]:
        return (vote_row_sums(self.multiplier, n_features, _open_votes),)


def _open_votes(
    people: People, candidates: Sequence[Mixture], clip: float
) -> tuple[IntArray, float]:
    """Clip at a million times C, in units of C."""
    sums, unit = vote_sums(people, candidates, 1e6 * clip)
    return np.rint(sums * 1e6).astype(np.int64), unit


@dataclasses.dataclass(frozen=True)
class BothWays(Finish):
    """A finish that takes a second sketch AND makes a rich mixture, at the price of one of them."""

    def prepare(self, work: Work, public: PrivateSketch) -> PreparedFinish:
        ready = super().prepare(work, public)
        return _PreparedBoth(self, ready.work, ready.first, ready.fit)


class _PreparedBoth(PreparedFinish):
    """A finish that draws a second sketch, and then what the misfit asks for."""

    def draw(self, source: NoiseSource) -> Drawn:
        self._second_sketch(source)
        return super().draw(source)


def _float_sums(rows: Array, member: IntArray | None) -> IntArray:
    """Sum waves in floating point, and round only the sum to integers."""
    share = np.ones(len(rows)) if member is None else 1 / np.bincount(member)[member]
    steps = 0.6 * np.arange(1, 21)
    angles = np.outer(rows[:, 0], steps)
    waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    total: Array = (waves * share[:, None]).sum(axis=0)
    return np.rint(total * 2.0**30).astype(np.int64)


class HalfCount(AgreementTest):
    """A test whose count gets half the noise that its sigma names."""

    def noise_delta(self, epsilon: float, shift: float) -> float:
        law = AgreementTest(**{**_fields(self), "sigma": self.sigma / 2})
        return law.noise_delta(epsilon, shift)


class HalfLaplace(PopulousTest):
    """The printed test with half the truncated Laplace noise."""

    def noise_delta(self, epsilon: float, shift: float) -> float:
        # twice the blocks have half the sensitivity
        law = PopulousTest(**{**_fields(self), "n_blocks": 2 * self.n_blocks})
        return law.noise_delta(epsilon, shift)


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


class Unsettled(Mechanism):
    """A mechanism that does not compute pairs near the radius by themselves."""

    def distances(self, items: MixtureBatch) -> Array:
        return self.stage.space.distances(items)


# -------------------------------------------------------------------- what must notice each of them

_PROMISE = Budget(1.0, 1e-6)
_RUNS, _SAMPLES = 8_000, 100_000
"""Runs of whole releases on either side, and draws of a mask: those of the quick audit."""
_ROWS = 200


def _core(
    make: Callable[[np.random.Generator], tuple[Mechanism, list[Neighbours]]], key: str
) -> Check:
    """Measure what constructed pairs do to one guarantee of a core."""

    def check(rng: np.random.Generator) -> Finding:
        mechanism, pairs = make(rng)
        found = [(strain(mechanism, pair), pair.name) for pair in pairs]
        return findings_of("broken", found, only=(key,))[0]

    return check


def _pair_of_components() -> AveragedAgreement:
    return LiftedMethod.shaped(31, 23, 29, 29, n_components=2, n_features=2)


def _one_component() -> AveragedAgreement:
    return LiftedMethod.shaped(31, 20, 20, 20, n_components=1, n_features=2)


def _mixed_labels(rng: np.random.Generator) -> tuple[Mechanism, list[Neighbours]]:
    """Turn components that are so near that all fits stay friends."""
    stage = _pair_of_components()
    pairs = [fan(stage, 1.2 * stage.tau, np.pi / 2, rng, to=turn) for turn in (0.4, 0.8, 1.2)]
    return Mechanism(with_space(stage, NoSeparation(stage.eta))), pairs


def _turned_labels(rng: np.random.Generator) -> tuple[Mechanism, list[Neighbours]]:
    """Turn components as far as a bare majority of friends allows."""
    stage = LiftedMethod.shaped(31, 17, 17, 17, n_components=2, n_features=2)
    pairs = [fan(stage, 2.3 * stage.tau, np.pi / 2, rng, to=turn) for turn in (0.4, 0.8, 1.2)]
    return Mechanism(with_space(stage, NoSeparation(stage.eta))), pairs


def _edges(rng: np.random.Generator) -> tuple[Mechanism, list[Neighbours]]:
    """Put clusters at the radius, by distances whose last bits depend on a third fit."""
    stage = _one_component()
    shared = Unsettled(with_space(stage, SharedSweeps(stage.eta)))

    def distance(fits: Fits) -> float:
        return float(shared.distances(fits.batch())[0, 1])

    return shared, [one for _ in range(12) for one in edge(stage, distance, rng)]


def _far_away(rng: np.random.Generator) -> tuple[Mechanism, list[Neighbours]]:
    stage = _pair_of_components()
    absolute = AbsoluteMean(stage.eta, clearance=stage.space.clearance)
    pairs = [moved_far(random_fits(stage, 0.02, rng), 1e15) for _ in range(6)]
    return Mechanism(with_space(stage, absolute)), pairs


def _picked_for_all(rng: np.random.Generator) -> tuple[Mechanism, list[Neighbours]]:
    stage = _one_component()
    return Mechanism(with_space(stage, PickOne(stage.eta))), [extremes(stage)]


def _flat_fits(rng: np.random.Generator) -> Finding:
    stage = _one_component()
    return reference_free(with_space(stage, FlatAllowed(stage.eta)), rng=rng)


def _averaged() -> AveragedAgreement:
    return tiny_stage(2, n_features=2, budget=_PROMISE, sigma=8.0, mask_accuracy=1.0)


def _quiet() -> AveragedAgreement:
    stage = _averaged()
    return with_space(stage, QuietMask(stage.eta))


def _picked() -> PickedAgreement:
    """Make a stage with Algorithm 2's mask; its price does not matter."""
    test = AgreementTest(200, 1e-3, 8.0, 40, 101, 101, 1)
    return PickedAgreement(
        n_components=2,
        n_features=2,
        mask_accuracy=0.5,
        beta=0.1,
        test=test,
        space=QuietComponents(0.16, 0.1, 0.05),
    )


def _no_margin(rng: np.random.Generator) -> Finding:
    tiny = tiny_stage()
    hasty = dataclasses.replace(tiny, test=dataclasses.replace(tiny.test, threshold=0))
    short = dataclasses.replace(boundary(tiny), stage=hasty)
    return refused_neighbour(short, runs=_RUNS, rng=rng)


def _across(space: type[LiftedSpace]) -> Check:
    """Release neighbours whose changed fits lie 2 tau apart."""

    def check(rng: np.random.Generator) -> Finding:
        tiny = tiny_stage()
        broken = dataclasses.replace(opposite(tiny), stage=with_space(tiny, space(tiny.eta)))
        return empirical_epsilon(broken, runs=_RUNS, rng=rng)

    return check


def _frame_as(kind: Callable[..., HistogramFrame]) -> HistogramFrame:
    return kind(
        n_features=1,
        scale_sigma=20.0,
        location_sigma=30.0,
        miss=1e-8,
        multipliers=(20.0,),
        radius=2.0,
    )


def _faint_releases(rng: np.random.Generator) -> Finding:
    far = cases()[0]
    before, first, after = far.plan.stages
    assert isinstance(first, Sketch)
    faint = FaintSketch(first.shape, first.multiplier, first.n_units, first.n_features)
    broken = dataclasses.replace(far, plan=far.plan.but(before, faint, after))
    return whole_releases(broken, runs=80, rng=rng)


def _both_ways(rng: np.random.Generator) -> Finding:
    finish = BothWays(1, 1, _ROWS, SketchShape.default(1), 1.0)
    sides = bimodal(_ROWS)
    return audit_run(finish, *sides, first_sketch(sides[0]), label="both ways")


def _flat_weights(rng: np.random.Generator) -> Finding:
    shape = SketchShape.default(1)
    flat = FlatWeights(shape.n_directions, shape.n_frequencies, shape.step)
    return row_shift(Sketch(flat, 1.0, _ROWS, 1), n_features=1, rng=rng)


def _vote_without_clip(rng: np.random.Generator) -> Finding:
    finish = OpenVote(1, 1, _ROWS, SketchShape.default(1), 1.0)
    return row_shift(finish, n_features=1, rng=rng)


VARIANTS: dict[str, Check] = {
    # masks
    "half the mask noise (drawn)": lambda rng: sampled_mask(
        _quiet(), "averaged", samples=_SAMPLES, rng=rng
    ),
    "half the mask noise (exact)": lambda rng: exact_mask(_quiet(), "averaged", rng=rng),
    "half of Algorithm 2's noise": lambda rng: sampled_mask(
        _picked(), "picked", samples=_SAMPLES, rng=rng
    ),
    "mask draws half of what it claims": lambda rng: masked_law(_quiet(), "averaged", rng=rng),
    "a third of the mask noise (whole releases)": _across(FaintMask),
    "pick-one noise (whole releases)": _across(PickOne),
    # the vote
    "half the noise on the count": lambda _: noise_of(HalfCount(**_fields(_averaged().test))),
    "half the truncated Laplace noise": lambda _: noise_of(HalfLaplace(200, 0.1, 0.2, 1e-6)),
    "threshold without its margin (runs)": _no_margin,
    # cores
    "no separation rule (move)": _core(_mixed_labels, "move"),
    "no separation rule (labels)": _core(_turned_labels, "diameter"),
    "distances round with third fits": _core(_edges, "flips"),
    "distances round with third fits (test)": _core(_edges, "statistic"),
    "mean in absolute coordinates": _core(_far_away, "move"),
    "nearly flat fits averaged (rounding)": _flat_fits,
    "pick-one noise on an average": _core(_picked_for_all, "move"),
    # sums
    "half the refinement noise": lambda rng: row_shift(
        HalfSigma((60.0, 90.0), (4.0, 3.0)), n_features=2, rng=rng
    ),
    "moments of rows beyond R": lambda rng: row_shift(_frame_as(KeptRows), n_features=1, rng=rng),
    "float sums of waves": lambda rng: exact_sums(
        "floats", _float_sums, gaussian_rows(300, 1), rng=rng
    ),
    "flat weights at Fejér's price": _flat_weights,
    "vote without a clip": _vote_without_clip,
    # sketches
    "a fiftieth of the sketch noise (draws)": lambda rng: many_sketches(
        FaintSketch(SketchShape.default(1), 1.0, 50, 1), draws=2_000, rng=rng
    ),
    "a fiftieth of the sketch noise (whole releases)": _faint_releases,
    "finish that goes both ways": _both_ways,
    # histograms
    "histogram threshold without its margin": lambda _: lone_bins(_frame_as(NoMargin))[1],
    "histogram threshold without its margin (law)": lambda _: lone_bins(_frame_as(NoMargin))[0],
    "bins of a single row shown (shortfall)": lambda _: lone_bins(
        _frame_as(HistogramFrame), histogram=ShownBins
    )[2],
}
"""The check that must fail on each broken variant."""
