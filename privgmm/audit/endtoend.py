"""Whole releases on neighbouring data: the epsilon that an outsider can prove.

The data sets are tiny, and go all the way from rows to a release. Fits are a function of the
rows, so only the noise is drawn many times: by `examine` for every run, and by the real mask for
many copies at once; some runs use the secure sampler. An event is chosen on one half of the runs,
and its odds on the other half bound epsilon from below.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.cores import Mechanism
from privgmm.audit.findings import Finding, best_direction, clopper_pearson, within
from privgmm.budget import Budget
from privgmm.data.people import ArrayPeople
from privgmm.errors import InvalidInput
from privgmm.learners.learner import BlockRandomness, Learner, block_seeds
from privgmm.methods.cores import averaged
from privgmm.methods.request import PlanRequest
from privgmm.mixture import MixtureBatch
from privgmm.privacy.noise import DiscreteGaussian, SecureNoise, SeededNoise
from privgmm.stages.agreement.blocks import deal
from privgmm.stages.agreement.lifted_space import Anchored
from privgmm.stages.agreement.stage import AveragedAgreement
from privgmm.stages.agreement.votes import AgreementTest
from privgmm.stages.stage import Bottom, Work

__all__ = [
    "TINY",
    "BlockMoments",
    "Instance",
    "boundary",
    "changed_fits",
    "drawn_releases",
    "empirical_epsilon",
    "isolation",
    "opposite",
    "proved_epsilon",
    "refused_neighbour",
    "releases",
    "secure_releases",
    "tiny_stage",
]

TINY = Budget(4.0, 0.01)
"""A budget so large that thousands of runs can show a leak."""

_MISS = 0.0025
"""Chance that a bound on one rate is wrong; by convention: two bounds hold with 99.5 %."""
_FEWEST_SEEN = 100
"""Released runs on either side below which no direction is estimated; by convention."""
_LEVELS = np.concatenate([[0.002, 0.005, 0.01, 0.02], np.linspace(0.05, 0.95, 19)])
"""Quantiles at which events are cut: every 5 %, and finer in the tail, where leaks show first."""


@dataclasses.dataclass(frozen=True)
class BlockMoments:
    """A learner that sorts the rows of a block by their first column into k equal parts.

    A fit is the weight, mean and covariance of each part; a block fails if a part has no spread.
    """

    n_components: int = 1

    def fit_blocks(self, blocks: Array, *, rng: BlockRandomness = None) -> MixtureBatch:  # noqa: ARG002 - nothing is drawn
        """Fit each block by itself."""
        t, s, d = blocks.shape
        k = self.n_components
        order = np.argsort(blocks[:, :, 0], axis=1, kind="stable")
        ranked = np.take_along_axis(blocks, order[:, :, None], axis=1)[:, : s // k * k]
        parts = ranked.reshape(t, k, s // k, d)
        means = parts.mean(axis=2)
        centred = parts - means[:, :, None]
        covariances = np.einsum("tksi,tksj->tkij", centred, centred) / (s // k)
        ok = (np.linalg.eigvalsh(covariances)[..., 0] > 0).all(axis=1)
        return MixtureBatch(np.full((t, k), 1 / k), means, covariances, ok)


@dataclasses.dataclass(frozen=True, eq=False)
class Instance:
    """Two data sets (n, d) that differ in one row, how to learn from them, and what is promised.

    For averaging stages: they mask thousands of copies of a mean as quickly as one.
    """

    stage: AveragedAgreement
    first: Array
    second: Array
    learner: Learner
    budget: Budget = TINY

    def __post_init__(self) -> None:
        changed = np.count_nonzero((self.first != self.second).any(axis=1))
        if changed > 1:
            raise InvalidInput(f"first and second must differ in at most one row, got {changed}")

    def fits(self) -> tuple[MixtureBatch, MixtureBatch]:
        """Deal both data sets into the same blocks, as a release does, and fit them."""
        positions = self.stage.dealt(len(self.first), seed=0)
        first, second = (
            self.learner.fit_blocks(rows[positions], rng=0) for rows in (self.first, self.second)
        )
        return first, second


def tiny_stage(
    n_components: int = 1,
    *,
    n_features: int = 1,
    budget: Budget = TINY,
    n_blocks: int = 200,
    sigma: float = 4.0,
    mask_accuracy: float = 0.015,
) -> AveragedAgreement:
    """Make a stage with few blocks and the widest radius that the budget allows."""
    t = n_blocks
    theta = DiscreteGaussian(sigma).upper_point(budget.delta)
    full = t - theta
    member = max(t // 2 + 1, t + 1 - full // 2) if n_components > 1 else t // 2 + 1
    request = PlanRequest(
        n_components=n_components,
        n_features=n_features,
        epsilon=budget.epsilon,
        delta=budget.delta,
    )
    test = AgreementTest(t, 1.0, sigma, theta, member, full, full)
    return averaged(request, test, mask_accuracy=mask_accuracy)


def _data(blocks: Array) -> Array:
    """Make rows (n, 1) that the deal sends into these blocks (t, s)."""
    t, s = blocks.shape
    rows = np.empty((t * s, 1))
    rows[deal(t * s, t, seed=0), 0] = blocks
    return rows


def _equal_blocks(stage: AveragedAgreement) -> Array:
    """Make equal blocks (t, 4 k) of four rows around each of k centres, 40 apart."""
    plain = [40.0 * a + np.array([-1.0, 1.0, -1.0, 1.0]) for a in range(stage.n_components)]
    return np.tile(np.concatenate(plain), (stage.n_blocks, 1))


def opposite(stage: AveragedAgreement) -> Instance:
    """Make data sets whose blocks are all alike except one, which one row moves by 2 tau.

    Around each centre a block has the rows -r, 0, r and y. With y of either sign the mean is
    ``y / 4``, and r makes the variance one, so the two fits are mirror images: tau from all others
    on either side, 2 tau apart.
    """
    y = 8 * math.sinh(stage.tau * (1 - 1e-9) / (2 * math.sqrt(2)))
    if 3 * y**2 >= 16:
        raise InvalidInput(f"tau = {stage.tau:g} is too wide for one row to span it")
    r = math.sqrt(2 * (1 - 3 * y**2 / 16))
    sides = []
    for sign in (-1.0, 1.0):
        blocks = _equal_blocks(stage)
        blocks[0, :4] = -r, 0.0, r, sign * y
        sides.append(_data(blocks))
    return Instance(stage, sides[0], sides[1], BlockMoments(stage.n_components))


def boundary(stage: AveragedAgreement) -> Instance:
    """Make the smallest core that may pass, h = 0, and the same core without one block, h = -1."""
    core = max(stage.test.full, stage.test.core)
    blocks = _equal_blocks(stage)
    blocks[core:] += 1e3 * np.arange(1, stage.n_blocks - core + 1)[:, None]
    lost = blocks.copy()
    lost[0, 0] -= 1e4
    return Instance(stage, _data(blocks), _data(lost), BlockMoments(stage.n_components))


class _InOrder(SeededNoise):
    """Seeded noise that does not shuffle, so that copies of one mixture stay together."""

    def permutation(self, n: int) -> IntArray:
        return np.arange(n, dtype=np.int64)


class _Dealt(SecureNoise):
    """Secure noise with a fixed deal of rows into blocks."""

    def seed(self) -> int:
        """Return the seed with which rows are dealt."""
        return 0


def releases(
    stage: AveragedAgreement, fits: MixtureBatch, runs: int, *, rng: np.random.Generator
) -> Array:
    """Draw many releases from the same fits, as rows of numbers; NaN where the test refused.

    The real test decides every run, and the real mask is applied at once to a copy of the
    representative for each run that passed. Weights are then normalised within each copy, and
    components put in order of their means, which undoes the shuffle. Columns: weights, means,
    log-variances (d = 1).
    """
    test, k = stage.test, stage.n_components
    source = _InOrder(rng)
    distances = Mechanism(stage).distances(fits)
    verdicts = [test.examine(distances, rng=source) for _ in range(runs)]
    out = np.full((runs, 3 * k), np.nan)
    passed = np.flatnonzero([verdict.passed for verdict in verdicts])
    if passed.size == 0:
        return out
    seen = verdicts[int(passed[0])]
    item = stage.space.representative(fits, seen.weights, seen.reference)
    many = Anchored(
        *(
            np.tile(part, (passed.size, *(1,) * (part.ndim - 1)))
            for part in (item.weights, item.means, item.cholesky, item.roots)
        )
    )
    masked = stage.space.mask(many, rng=source)
    weights = masked.weights.reshape(-1, k)
    weights = weights / weights.sum(axis=1, keepdims=True)
    means = masked.means.reshape(-1, k)
    logs = np.log(masked.covariances.reshape(-1, k))
    # the order of components is shuffled in a release, so it must not be a feature here
    order = np.argsort(means, axis=1)
    out[passed] = np.concatenate(
        [np.take_along_axis(part, order, axis=1) for part in (weights, means, logs)], axis=1
    )
    return out


def drawn_releases(instance: Instance, runs: int) -> tuple[Array, Array]:
    """Draw releases of both data sets by the stage itself, with secure noise.

    Rows are dealt once, as `Instance.fits` deals them; each run votes, averages and masks again.
    """
    sides = []
    for rows in (instance.first, instance.second):
        source = _Dealt()
        work = Work(ArrayPeople.of(rows), source, instance.learner)
        ready = instance.stage.prepare(work, None)
        out = np.full((runs, 3 * instance.stage.n_components), np.nan)
        for i in range(runs):
            value = ready.draw(source).value
            if not isinstance(value, Bottom):
                order = np.argsort(value.means[:, 0])
                parts = value.weights, value.means[:, 0], np.log(value.covariances[:, 0, 0])
                out[i] = np.concatenate([part[order] for part in parts])
        sides.append(out)
    return sides[0], sides[1]


def secure_releases(instance: Instance, *, runs: int) -> Finding:
    """Prove an epsilon from releases of the stage itself, with secure noise."""
    first, second = drawn_releases(instance, runs)
    epsilon, event = proved_epsilon(first, second, instance.budget.delta)
    same = len({row.tobytes() for row in first}) + int(np.isnan(first[:, 0]).sum())
    return within(
        f"release, k={instance.stage.n_components}, secure noise",
        "epsilon proved from outputs <= promised",
        # a release that repeats has noise that repeats
        epsilon if same >= runs else math.inf,
        instance.budget.epsilon,
        f"2 x {runs} whole releases; event: {event}",
    )


def _features(first: Array, second: Array, half: int) -> tuple[Array, Array]:
    """Add a column to those of the release: the direction that separates the two best."""
    seen = [part[:half][~np.isnan(part[:half, 0])] for part in (first, second)]
    if min(len(part) for part in seen) < _FEWEST_SEEN:
        return first, second
    towards = best_direction(*seen)
    return (
        np.column_stack([first, first @ towards]),
        np.column_stack([second, second @ towards]),
    )


def proved_epsilon(first: Array, second: Array, delta: float) -> tuple[float, str]:
    """Bound epsilon at `delta` from below, from two samples of outputs, at 99 % confidence.

    Every event is "refused", "released", or "released with a column above (below) a level".
    The best of them, and the better direction, are chosen on the first half of the samples;
    ``ln((p - delta) / q)`` is bounded on the second half by exact binomial bounds.
    """
    half = len(first) // 2
    one, two = _features(first, second, half)
    events: list[tuple[str, Array, Array]] = [
        ("refused", np.isnan(one[:, 0]), np.isnan(two[:, 0])),
        ("released", ~np.isnan(one[:, 0]), ~np.isnan(two[:, 0])),
    ]
    for column in range(one.shape[1]):
        pool = np.concatenate([one[:half, column], two[:half, column]])
        pool = pool[~np.isnan(pool)]
        if pool.size == 0 or pool.min() == pool.max():
            continue
        for level in np.quantile(pool, _LEVELS):
            above = f"column {column} > {level:.3g}"
            events.append((above, one[:, column] > level, two[:, column] > level))
            events.append((f"not {above}", one[:, column] <= level, two[:, column] <= level))
    # chosen on the first half and bounded on the second: the choice cannot favour a lucky event
    choice: tuple[float, str, Array, Array] | None = None
    for name, a, b in events:
        for word, p, q in ((name, a, b), (f"{name}, backwards", b, a)):
            bound = _bound(p[:half], q[:half], delta)
            if choice is None or bound > choice[0]:
                choice = bound, word, p, q
    if choice is None:
        raise InvalidInput("no event to choose from")
    _, word, p, q = choice
    return max(0.0, _bound(p[half:], q[half:], delta)), word


def _bound(p: Array, q: Array, delta: float) -> float:
    low = clopper_pearson(int(p.sum()), p.size, _MISS)[0] - delta
    high = clopper_pearson(int(q.sum()), q.size, _MISS)[1]
    return math.log(low / high) if low > 0 else -math.inf


def empirical_epsilon(
    instance: Instance,
    *,
    runs: int = 100_000,
    label: str = "",
    rng: np.random.Generator,
) -> Finding:
    """Prove an epsilon from whole releases; it must be below the promised one."""
    stage, budget = instance.stage, instance.budget
    first, second = (releases(stage, fits, runs, rng=rng) for fits in instance.fits())
    epsilon, event = proved_epsilon(first, second, budget.delta)
    return within(
        f"release, k={stage.n_components}, {label or 'one row'}",
        "epsilon proved from outputs <= promised",
        epsilon,
        budget.epsilon,
        f"2 x {runs} runs, delta {budget.delta:g}; event: {event}",
    )


def refused_neighbour(
    instance: Instance, *, runs: int = 100_000, rng: np.random.Generator
) -> Finding:
    """Count releases where the neighbour always refuses: at most a share delta of all runs."""
    stage, budget = instance.stage, instance.budget
    first, second = (releases(stage, fits, runs, rng=rng) for fits in instance.fits())
    if not np.isnan(second).all():
        raise InvalidInput("the second data set must always be refused, and was not")
    often = int(np.count_nonzero(~np.isnan(first[:, 0])))
    return within(
        f"release, k={stage.n_components}, neighbour always refuses",
        "P(release), lower bound <= delta",
        clopper_pearson(often, runs, _MISS)[0],
        budget.delta,
        f"{often} of {runs} runs",
    )


def changed_fits(before: MixtureBatch, after: MixtureBatch) -> list[int]:
    """List the fits that differ in any bit."""
    same = before.ok == after.ok
    for name in ("weights", "means", "cholesky"):
        first, second = getattr(before, name), getattr(after, name)
        equal = (first == second) | (np.isnan(first) & np.isnan(second))
        same &= equal.reshape(len(before), -1).all(axis=1)
    return [int(i) for i in np.flatnonzero(~same)]


def isolation(
    learner: Learner, blocks: Array, *, changes: int = 8, rng: np.random.Generator
) -> Finding:
    """Replace single rows, each of which may change one fit: blocks must not share anything.

    Seeds are fixed per block, so that a learner draws the same before and after.
    """
    t, s, d = blocks.shape
    seeds = block_seeds(rng, t)
    before = learner.fit_blocks(blocks, rng=seeds)
    worst = 0
    for _ in range(changes):
        changed = blocks.copy()
        where = int(rng.integers(t))
        changed[where, int(rng.integers(s))] += rng.choice([0.1, 10.0, 1e6]) * rng.normal(size=d)
        worst = max(worst, len(changed_fits(before, learner.fit_blocks(changed, rng=seeds))))
    return within(
        f"learner {type(learner).__name__}",
        "fits changed by one row <= 1",
        worst,
        1,
        f"{changes} rows replaced in {t} blocks",
    )
