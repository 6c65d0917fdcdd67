"""Deliberately broken variants, so that the audit can be seen to fail.

Each piece breaks one rule that privacy rests on, in the way a programmer plausibly would. They
are used nowhere else. `broken_findings` runs the check that should catch each of them.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.cores import Mechanism, findings_of, strain
from privgmm.audit.counts import discrete_gaussian, refinement_shift, tail, truncated_laplace
from privgmm.audit.endtoend import (
    BlockMoments,
    boundary,
    empirical_epsilon,
    isolation,
    opposite,
    refused_neighbour,
    tiny_plan,
)
from privgmm.audit.findings import Finding, caught
from privgmm.audit.masks import exact_mask, masked_law, sampled_mask
from privgmm.audit.neighbours import Fits, Neighbours, cloud, edge, extremes, fan, moved_far
from privgmm.audit.rounding import reference_free
from privgmm.audit.search import small_plan
from privgmm.distances.all_pairs import component_tables
from privgmm.distances.matching import bottleneck_matchings
from privgmm.errors import InvalidInput
from privgmm.learners.learner import BlockRandomness
from privgmm.methods.plan import Plan
from privgmm.methods.planner import calibrate
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.privacy.noise import Randomness, TruncatedLaplace
from privgmm.stages.agreement.lifted_geometry import karcher_mean, lift, lifted_distance, unlift
from privgmm.stages.agreement.lifted_pairs import pairwise_lifted
from privgmm.stages.agreement.lifted_space import MEAN_TOLERANCE, Anchored, LiftedSpace, geometry_of
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.refinement.noisy_moments import Refinement

__all__ = [
    "AbsoluteMean",
    "FlatAllowed",
    "HalfDeviations",
    "NoSeparation",
    "PickOne",
    "QuietMask",
    "SharedSweeps",
    "WarmStart",
    "broken_findings",
]


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

    def between(self, items: MixtureBatch, first: IntArray, second: IntArray) -> Array:
        """Plain lifted distances, pair by pair."""
        return bottleneck_matchings(component_tables(geometry_of(items), first, second)).values


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
            karcher_mean(picked[:, j], weights[members], tolerance=MEAN_TOLERANCE).root
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


@dataclasses.dataclass(frozen=True)
class QuietMask(LiftedSpace):
    """Claims one noise level and draws half of it."""

    def mask(self, item: Anchored, *, rng: Randomness) -> Mixture:
        """Half the noise."""
        return LiftedSpace(self.eta / 2, self.clearance).mask(item, rng=rng)


@dataclasses.dataclass(frozen=True)
class HalfDeviations(Refinement):
    """Refinement sums with half the noise that their multipliers name."""

    def deviations(self, step: int, d: int) -> Array:
        """Half."""
        return super().deviations(step, d) / 2


@dataclasses.dataclass(frozen=True)
class SharedSweeps(LiftedSpace):
    """All pairs are diagonalised together until the slowest has converged (k = 1).

    Each distance is accurate, yet its last bits depend on all the other fits.
    """

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


def _worst(mechanism: Mechanism, pairs: list[Neighbours], key: str, label: str) -> Finding:
    found = [(strain(mechanism, pair), pair.name) for pair in pairs]
    return findings_of(label, found, only=(key,))[0]


def _core_variants(rng: np.random.Generator) -> list[tuple[str, Finding]]:
    narrow = small_plan(31, 20, 20, 20, n_components=1, n_features=2)
    pair = small_plan(31, 23, 29, 29, n_components=2, n_features=2)
    loose = small_plan(31, 17, 17, 17, n_components=2, n_features=2)
    no_rule = NoSeparation(_eta(pair))
    # so near that all fits are friends, whichever way they are turned
    mixed = [fan(pair, 1.2 * pair.tau, np.pi / 2, rng, to=turn) for turn in (0.4, 0.8, 1.2)]
    # as far as a bare majority of friends allows
    turned = [fan(loose, 2.3 * loose.tau, np.pi / 2, rng, to=turn) for turn in (0.4, 0.8, 1.2)]
    shared = Mechanism(narrow, SharedSweeps(_eta(narrow)), settled=False)

    def distance(fits: Fits) -> float:
        return float(shared.distances(fits.batch())[0, 1])

    edges = [one for _ in range(12) for one in edge(narrow, distance, rng)]
    far = [moved_far(cloud(pair, 0.02, rng), 1e15) for _ in range(6)]
    return [
        (
            "no separation rule (move)",
            _worst(Mechanism(pair, no_rule), mixed, "move", "k=2, d=2"),
        ),
        (
            "no separation rule (labels)",
            _worst(Mechanism(loose, no_rule), turned, "diameter", "k=2, d=2"),
        ),
        ("distances round with third fits", _worst(shared, edges, "flips", "k=1, d=2")),
        (
            "distances round with third fits (test)",
            _worst(shared, edges, "statistic", "k=1, d=2"),
        ),
        (
            "mean in absolute coordinates",
            _worst(Mechanism(pair, _absolute(pair)), far, "move", "k=2, d=2"),
        ),
        (
            "nearly flat fits averaged (rounding)",
            reference_free(Mechanism(narrow, FlatAllowed(_eta(narrow))), rng=rng),
        ),
        (
            "pick-one noise on an average",
            _worst(
                Mechanism(narrow, PickOne(_eta(narrow))), [extremes(narrow)], "move", "k=1, d=2"
            ),
        ),
    ]


def _absolute(plan: Plan) -> AbsoluteMean:
    return AbsoluteMean(_eta(plan), clearance=plan.separation * plan.tau)


def _eta(plan: Plan) -> float:
    if not isinstance(plan.space, LiftedSpace):
        raise InvalidInput(f"a lifted plan is meant, got method {plan.method!r}")
    return plan.space.eta


def _without_margin(plan: Plan) -> Mechanism:
    """The same plan, passing whenever the noisy count is not negative."""
    return Mechanism(dataclasses.replace(plan, test=dataclasses.replace(_test(plan), threshold=0)))


def _test(plan: Plan) -> AgreementTest:
    if not isinstance(plan.test, AgreementTest):
        raise InvalidInput(f"a plan with an agreement test is meant, got {plan.method!r}")
    return plan.test


def _noise_variants(runs: int, samples: int, rng: np.random.Generator) -> list[tuple[str, Finding]]:
    lifted = calibrate(
        "lifted", epsilon=1.0, delta=1e-6, alpha=1.0, n_components=2, n_features=2, n_blocks=200
    )
    tight = calibrate(
        "tight", epsilon=1.0, delta=1e-6, alpha=0.5, n_components=2, n_features=2, n_blocks=200
    )
    tiny = tiny_plan()
    half = LiftedSpace(_eta(lifted) / 2)
    etas = dataclasses.asdict(tight.space)
    thinner = PaperSpace(**{name: eta / 2 for name, eta in etas.items()})
    quiet = QuietMask(_eta(lifted))
    laplace = TruncatedLaplace(0.01, 0.2, 1e-6)
    timid = TruncatedLaplace(0.005, 0.2, 1e-6)
    test = _test(lifted)
    across, short = opposite(tiny), boundary(tiny)
    louder = Mechanism(tiny, LiftedSpace(_eta(tiny) / 2))
    picking = Mechanism(tiny, PickOne(_eta(tiny)))
    return [
        ("half the mask noise (drawn)", sampled_mask(lifted, space=half, samples=samples, rng=rng)),
        ("half the mask noise (exact)", exact_mask(lifted, space=half, rng=rng)),
        (
            "half of Algorithm 2's noise",
            sampled_mask(tight, space=thinner, samples=samples, rng=rng),
        ),
        ("mask draws half of what it claims", masked_law(lifted, space=quiet, rng=rng)),
        ("half the noise on the count", discrete_gaussian(test, sigma=test.sigma / 2)),
        ("half the truncated Laplace noise", truncated_laplace(laplace, drawn=timid)),
        (
            "half the refinement noise",
            refinement_shift(HalfDeviations((60.0, 90.0), (4.0, 3.0)), rng=rng),
        ),
        ("threshold without its margin (exact)", tail(lifted, threshold=0)),
        (
            "threshold without its margin (runs)",
            refused_neighbour(short, mechanism=_without_margin(tiny), runs=runs, rng=rng),
        ),
        (
            "half the mask noise (whole releases)",
            empirical_epsilon(across, mechanism=louder, runs=runs, rng=rng),
        ),
        (
            "pick-one noise (whole releases)",
            empirical_epsilon(across, mechanism=picking, runs=runs, rng=rng),
        ),
        (
            "warm start across blocks",
            isolation(WarmStart(2), rng.standard_normal((20, 10, 2)), rng=rng),
        ),
    ]


def broken_findings(*, runs: int, samples: int, rng: np.random.Generator) -> list[Finding]:
    """Every broken variant against the check that must catch it."""
    variants = _noise_variants(runs, samples, rng) + _core_variants(rng)
    return [caught(name, found) for name, found in variants]
