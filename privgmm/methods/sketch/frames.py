"""Plan frames: coordinates by the agreement of many small blocks, or by histograms.

Neither plan depends on the rows: planning knows how many there are, and nothing else of them. How
block fits scatter depends only on the rows per block and on the number of columns, because the fits
move with the rows under every affine map. So it is tabulated once, for Gaussian rows.

``python -m privgmm.methods.sketch.frames`` makes the table again (about ten minutes).
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from privgmm.arrays import Array, IntArray, frozen, whole_number
from privgmm.budget import Budget
from privgmm.learners.student import StudentT
from privgmm.methods.cores import (
    AGREEING,
    Core,
    best_cores,
    second_order_cost,
    upper_point,
)
from privgmm.privacy.curves import ORDERS, RenyiCurve, gaussian_curve
from privgmm.privacy.gaussian_account import mu_squared_after
from privgmm.stages.agreement.lifted_space import LiftedSpace, averaged_move
from privgmm.stages.agreement.noise_levels import lifted_eta
from privgmm.stages.agreement.votes import AgreementTest, friend_counts
from privgmm.stages.sketch.agreement_frame import FrameAgreement
from privgmm.stages.sketch.histogram_frame import (
    MOST_NOISE,
    HistogramFrame,
    histogram_radius,
    radius_range,
    variance_noise,
)
from privgmm.stages.stage import Stage

__all__ = [
    "MOST_FEATURES",
    "FrameChoice",
    "frame_by_hand",
    "frame_stage",
    "histogram_stage",
    "mu_squared_left",
    "scatter_table",
    "simulated_scatter",
]

MOST_FEATURES = 20
"""Most columns for which the agreement of blocks is planned: the table ends here, by convention."""

_BETA = 0.1
"""Chance that the mask moves a frame farther than its alpha; by convention."""
_ALPHAS = (0.75, 0.75, 1.0, 1.0, 1.0, 1.5, 1.5, 1.5, 1.5)
"""How far the mask may move a frame, by the number of columns, but for chance `_BETA`; 2 beyond
these. Measured: with these fewer than one frame in a thousand is off by a factor of three in some
direction. With 2 throughout, one in twenty-five is at d = 1 and 2, and some collapse: then waves
wrap around, and nothing published would show it."""
_LEARNER = "student"
_MOST_BLOCKS, _FEWEST_BLOCKS, _BLOCK_CHOICES = 1500, 60, 9
"""Numbers of blocks that are tried: most, least, and how many between them; by convention."""
_ROW_STEP, _ROW_STEPS = 1.15, 128
"""Factor between the rows per block that are tried, and how many are tried; by convention."""
_LEAST_SPARE = 4
"""Rows of the smallest blocks beyond the number of columns, as in the table."""
_STRAYS = 0.05
"""Share of blocks that may lie anywhere; by convention."""
_ALLOWANCES = (
    (0.08, (5.0, 4.0, 3.0)),
    (0.12, (2.5, 2.0, 1.6)),
    (0.30, (1.6, 1.4)),
    (0.60, (1.5, 1.3, 1.15)),
)
"""Shares of the budget that a frame may take, and for each how much wider than for Gaussian rows
the scatter of block fits may be, in the order tried. Measured: blocks of a mixture of four
components five standard deviations apart scatter up to three times as widely, and so do those of
many real tables."""
_BY_HAND = (0.3, 0.6, 0.9)
"""Shares of the budget for a frame with blocks and alpha set by hand, in the order tried; by
convention."""
_AGREEING_BY_HAND = 0.9
"""Share of blocks that must agree on such a frame; by convention."""
_RADII_BY_HAND = tuple(np.geomspace(7.0, 0.02, 40).tolist())
"""Radii that are tried for such a frame, the widest first; a grid by convention."""
_SIGMA_CHOICES = 16
"""Scales of the test's noise that are tried; a grid by convention."""
_PRICED_EXACTLY = 4
"""Tests per number of blocks that are priced in full: the cheapest by the second-order cost."""
_ROUNDING = 1e-9
"""Relative margin for rounding; by convention far above the rounding of a float."""
_SPARED = 1e-6
"""Share kept of what a frame leaves: noise on integers costs a little more than on real numbers."""


@dataclasses.dataclass(frozen=True)
class FrameChoice:
    """Choose a stage that gives a frame, and state what it leaves for later stages.

    Parameters
    ----------
    stage : Stage
    budget : Budget
        Of the whole release.
    share : float
        Share of the budget that the frame takes, between 0 and 1.
    inflation : float or None
        Factor by which block fits may scatter more widely than those of Gaussian rows; None for
        a frame without blocks.
    """

    stage: Stage
    budget: Budget
    share: float
    inflation: float | None = None

    @functools.cached_property
    def left(self) -> float:
        """The mu^2 that is left.

        One Gaussian mechanism of noise ``left^-1/2`` sensitivities (or several whose mu^2 add up to
        it) still fits into the budget after the frame.
        """
        return _left_after(self.stage, self.budget)


def mu_squared_left(fixed: RenyiCurve, epsilon: float, delta: float) -> float:
    """Compute the largest mu^2 of a Gaussian mechanism that fits after `fixed`, by Rényi curves.

    The sum proves epsilon if at some order a ``R(a) + a mu^2 / 2 + conversion(a) <= epsilon``,
    with the conversion of `RenyiCurve.epsilon`; so mu^2 is the largest that any order allows.
    It is 0 where nothing fits. Frames are compared by it, because it is quick; what the chosen one
    leaves is computed exactly.
    """
    a = ORDERS
    conversion = np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1)
    most = float((2 * (epsilon - conversion - fixed.values) / a).max())
    return max(0.0, most * (1 - _ROUNDING))


_NOTHING = RenyiCurve(np.zeros_like(ORDERS))


def _whole_account(epsilon: float, delta: float) -> float:
    return mu_squared_left(_NOTHING, epsilon, delta)


def _left_after(stage: Stage, budget: Budget) -> float:
    """Compute the mu^2 that still fits after a frame."""
    price = stage.price()
    off = price.rounding if price.gate else price.rounding + price.shortfall
    if price.exact:
        whole = mu_squared_after(_NOTHING, budget.epsilon, budget.delta - off)
        return (whole - price.mu_squared) * (1 - _SPARED)
    before = functools.reduce(RenyiCurve.__add__, price.curves)
    return mu_squared_after(before, budget.epsilon, budget.delta - off) * (1 - _SPARED)


# -------------------------------------------------------------------------- how block fits scatter

_TABLE = Path(__file__).with_name("scatter_table.npz")
_SPARE_ROWS = (4, 5, 6, 7, 8, 10, 12, 16, 20, 28, 40, 60, 100, 200, 500, 1000)
"""Rows per block beyond the number of columns, at which the table is made; a grid by convention."""
_SIMULATED, _REPLICATES, _RANKS = 400, 2, 100
"""Of the table: blocks per replicate, replicates, and groups of blocks; by convention."""


class Scatter(NamedTuple):
    """Describe how fits of Gaussian blocks scatter.

    Parameters
    ----------
    radii : array (q,)
        Distances within which the shares `AGREEING` of all pairs lie.
    friends : array (q, r)
        Which share of all blocks are friends of a block, at each radius: the best of r equal
        groups of blocks first, each with its poorest.
    """

    radii: Array
    friends: Array


def simulated_scatter(rows_per_block: int, n_features: int) -> Scatter:
    """Simulate one cell of the table from Gaussian blocks.

    At each rank the replicate with fewer friends counts.
    """
    tables = []
    for seed in range(_REPLICATES):
        rng = np.random.default_rng([seed, rows_per_block, n_features])
        blocks = rng.standard_normal((_SIMULATED, rows_per_block, n_features))
        tables.append(LiftedSpace(1.0).distances(StudentT().fit_blocks(blocks, rng=0)))
    upper = np.triu_indices(_SIMULATED, 1)
    radii = np.quantile(np.concatenate([table[upper] for table in tables]), AGREEING)
    friends = [
        np.min([np.sort(friend_counts(table, radius))[::-1] for table in tables], axis=0)
        for radius in radii.tolist()
    ]
    poorest = np.stack(friends)[:, _SIMULATED // _RANKS - 1 :: _SIMULATED // _RANKS]
    return Scatter(radii, poorest / _SIMULATED)


def scatter_table(rows_per_block: int, n_features: int) -> Scatter:
    """Read scatter of block fits off the table, for any number of rows per block.

    Between entries, logarithms of radii are interpolated linearly in the logarithm of the rows.
    This is not below the truth, since they bend upwards. Of friends, the fewer of both entries
    count. Beyond the table radii fall like one over the square root of the rows.
    """
    radii, friends, _ = _tabulated()
    d = n_features
    rows = d + np.asarray(_SPARE_ROWS, dtype=np.float64)
    if rows_per_block >= rows[-1]:
        shrunk = radii[d - 1, -1] * math.sqrt(rows[-1] / rows_per_block)
        return Scatter(shrunk, friends[d - 1, -1])
    low = int(np.searchsorted(rows, rows_per_block, side="right")) - 1
    if rows_per_block == rows[low]:
        return Scatter(radii[d - 1, low], friends[d - 1, low])
    part = math.log(rows_per_block / rows[low]) / math.log(rows[low + 1] / rows[low])
    below, above = np.log(radii[d - 1, low]), np.log(radii[d - 1, low + 1])
    return Scatter(
        np.exp((1 - part) * below + part * above),
        np.minimum(friends[d - 1, low], friends[d - 1, low + 1]),
    )


@functools.cache
def _tabulated() -> tuple[Array, Array, Array]:
    """Load radii (20, m, q), shares of friends (20, m, q, r) and noise levels of the mask (20,)."""
    with np.load(_TABLE, allow_pickle=False) as table:
        return (
            frozen(table["radii"]),
            frozen(table["friends"] / _SIMULATED),
            frozen(table["etas"]),
        )


def _usual_alpha(n_features: int) -> float:
    return _ALPHAS[n_features - 1] if n_features <= len(_ALPHAS) else 2.0


def _make_table() -> None:
    radii, friends = [], []
    features = range(1, MOST_FEATURES + 1)
    for d in features:
        cells = [simulated_scatter(d + spare, d) for spare in _SPARE_ROWS]
        radii.append(np.stack([cell.radii for cell in cells]))
        counts = np.stack([cell.friends for cell in cells]) * _SIMULATED
        friends.append(np.rint(counts).astype(np.uint16))
    np.savez_compressed(
        _TABLE,
        radii=np.stack(radii),
        friends=np.stack(friends),
        etas=np.array([lifted_eta(d, _usual_alpha(d), _BETA) for d in features]),
    )


# --------------------------------------------------------------------------- agreement of blocks


def _expected_counts(friends: Array, t: int) -> IntArray:
    """Forecast friend counts (t,), in falling order; a stray has itself as its only friend."""
    rank = np.minimum((np.arange(1, t + 1) * friends.size) // t, friends.size - 1)
    kept = np.floor(np.floor(friends[rank] * t) * (1 - _STRAYS)).astype(np.int64)
    strays = math.ceil(_STRAYS * t)
    return np.concatenate([kept[: t - strays], np.ones(strays, dtype=np.int64)])


def _cores(t: int, rows_per_block: int, d: int, delta: float) -> list[Core]:
    scatter = scatter_table(rows_per_block, d)
    sigmas = np.geomspace(1.5, max(2.0, t / 8), _SIGMA_CHOICES).tolist()
    thetas = [upper_point(sigma, delta) for sigma in sigmas]
    found = []
    for radius, friends in zip(scatter.radii.tolist(), scatter.friends, strict=True):
        if not math.isfinite(radius):
            continue
        counts = _expected_counts(friends, t).astype(np.float64)
        tests = best_cores(counts, sigmas, thetas)
        found += [Core(test[0], radius, test[1]) for test in tests if test is not None]
    return found


def _block_choices(n_units: int, d: int) -> list[int]:
    most = min(_MOST_BLOCKS, n_units // (d + _LEAST_SPARE))
    if most < _FEWEST_BLOCKS:
        return []
    return sorted({int(t) for t in np.geomspace(min(100, most), most, _BLOCK_CHOICES)})


def _cheapest(cores: Iterable[Core], inflation: float, d: int, eta: float) -> list[Core]:
    """Keep the few cores whose test and mask cost least, to second order in gamma."""

    def cost(core: Core) -> float:
        gamma = 2 * inflation * core.radius * core.move
        return second_order_cost(core, gamma, k=1, d=d, eta=eta)

    return sorted(cores, key=cost)[:_PRICED_EXACTLY]


@functools.lru_cache(maxsize=512)
def frame_stage(
    n_units: int,
    n_features: int,
    budget: Budget,
    *,
    alpha: float | None = None,
    n_blocks: int | None = None,
) -> FrameChoice | None:
    """Plan the most tolerant agreement frame that costs little; None if none fits the budget.

    Parameters
    ----------
    n_units : int
        Rows, or persons.
    n_features : int
        Columns d; more than 20 are not tabulated, and give None.
    budget : Budget
        Budget of the whole release.
    alpha : float, optional
        How far the mask may move the frame. By default it nearly always stays right within a
        factor of three.
    n_blocks : int, optional
        By default the number that leaves most.

    Notes
    -----
    `AveragedAgreement` with one component: no labels, so nothing needs to be separated. The block
    fits of real rows scatter more widely than those of Gaussian rows, by `inflation`; the first
    allowance is taken whose frame costs at most its share of the budget (`_ALLOWANCES`).

    Where the rows suffice for the widest allowance, blocks get no more of them than it takes. With
    all rows the frame would cost less, but at most that first share less. With this many rows
    errors are mostly those of sampling, and fits of more rows would take longer.
    """
    d = whole_number(n_features, "n_features", 1)
    n = whole_number(n_units, "n_units", 1)
    if d > MOST_FEATURES:
        return None
    eta = float(_tabulated()[2][d - 1]) if alpha is None else lifted_eta(d, alpha, _BETA)
    choices = _block_choices(n, d)
    if n_blocks is not None:
        t = whole_number(n_blocks, "n_blocks", 1)
        choices = [t] if n // t >= d + _LEAST_SPARE else []
    cores = [_cores(t, n // t, d, budget.delta) for t in choices]
    total = _whole_account(budget.epsilon, budget.delta)
    best = functools.cache(lambda inflation: _best(cores, inflation, d, eta, budget))
    used = _usual_alpha(d) if alpha is None else alpha
    for limit, inflations in _ALLOWANCES:
        for inflation in inflations:
            left, core = best(inflation)
            if core is not None and 1 - left / total <= limit:
                rows = None
                if inflation == _ALLOWANCES[0][1][0]:
                    rows, left, core = _fewest_rows(core, left, n, d, eta, budget)
                stage = _agreement(core.test, inflation * core.radius, d, used, eta, rows)
                return FrameChoice(stage, budget, 1 - left / total, inflation)
    return None


def _fewest_rows(
    core: Core, left: float, n: int, d: int, eta: float, budget: Budget
) -> tuple[int | None, float, Core]:
    """Find the fewest rows per block for the widest allowance, what they leave, and the test.

    There are as many blocks as in `core`, which is a test for all n rows. The rows are None where
    blocks get all of them.
    """
    t = core.test.n_blocks
    limit, (inflation, *_) = _ALLOWANCES[0]
    least = (1 - limit) * _whole_account(budget.epsilon, budget.delta)
    # the same steps for every n, so that beyond some n the frame is the same
    counts = (d + _LEAST_SPARE) * _ROW_STEP ** np.arange(_ROW_STEPS)
    steps = [int(count) for count in counts if count < n // t] + [n // t]

    @functools.cache
    def found(step: int) -> tuple[float, Core | None]:
        return _best([_cores(t, steps[step], d, budget.delta)], inflation, d, eta, budget)

    step = bisect.bisect_left(range(len(steps) - 1), True, key=lambda i: found(i)[0] >= least)
    fewer_left, fewer = found(step)
    if step == len(steps) - 1 or fewer is None:
        return None, left, core
    return steps[step], fewer_left, fewer


def frame_by_hand(
    n_features: int, budget: Budget, *, alpha: float | None = None, n_blocks: int
) -> FrameChoice | None:
    """Plan an agreement frame with these blocks, whether they are expected to agree or not.

    Nine in ten blocks must agree, within the widest radius that three tenths of the budget pay for,
    or a larger share where blocks are few. None if there is no such radius.
    """
    d = whole_number(n_features, "n_features", 1)
    t = whole_number(n_blocks, "n_blocks", 1)
    used = _usual_alpha(d) if alpha is None else alpha
    eta = lifted_eta(d, used, _BETA)
    friends = math.floor(_AGREEING_BY_HAND * t)
    counts = np.where(np.arange(t) < friends, friends, 1).astype(np.float64)
    sigmas = np.geomspace(1.5, max(2.0, t / 8), _SIGMA_CHOICES).tolist()
    thetas = [upper_point(sigma, budget.delta) for sigma in sigmas]
    tests = [found for found in best_cores(counts, sigmas, thetas) if found is not None]
    total = _whole_account(budget.epsilon, budget.delta)
    for limit in _BY_HAND:
        for radius in _RADII_BY_HAND:
            cores = [Core(test, radius, move) for test, move in tests]
            left, core = _best([cores], 1.0, d, eta, budget)
            if core is not None and 1 - left / total <= limit:
                stage = _agreement(core.test, radius, d, used, eta)
                return FrameChoice(stage, budget, 1 - left / total)
    return None


def _agreement(
    test: AgreementTest,
    radius: float,
    d: int,
    alpha: float,
    eta: float,
    rows_per_block: int | None = None,
) -> FrameAgreement:
    return FrameAgreement(
        n_components=1,
        n_features=d,
        alpha=alpha,
        beta=_BETA,
        test=dataclasses.replace(test, radius=radius),
        eta=eta,
        learner=_LEARNER,
        rows_per_block=rows_per_block,
    )


def _best(
    cores: list[list[Core]], inflation: float, d: int, eta: float, budget: Budget
) -> tuple[float, Core | None]:
    """Find the test that leaves most, among the cheapest for each number of blocks."""
    best: tuple[float, Core | None] = (0.0, None)
    for listed in cores:
        for core in _cheapest(listed, inflation, d, eta):
            gamma = averaged_move(inflation * core.radius, core.move)
            mask = LiftedSpace(eta).mask_curve(gamma, d)
            curve = gaussian_curve(core.test.sigma) + mask
            left = mu_squared_left(curve, budget.epsilon, budget.delta)
            if left > best[0]:
                best = (left, core)
    return best


# ------------------------------------------------------------------------------------ histograms

_MISS_SHARE = 0.1
"""Share of delta for the event, over all histograms and both neighbours, that a bin of one row
shows; by convention."""
_SCALE_NOISE, _LOCATION_NOISE = 0.042, 0.035
"""Noise on the counts, as a share of all pairs or rows."""
_CHEAP = 0.005
"""Share of the budget per kind of histogram below which more noise is of no use; by convention."""
_MOST_FOR_HISTOGRAMS = 0.7
"""Largest share of the budget that histograms take, else there is no frame; by convention."""
_LOUD_ENOUGH = 1e5
"""Noise, in sensitivities, at which a round costs next to nothing; more would save nothing."""
_ROUNDS_SHARE = 0.16
"""Largest share of the budget that all rounds of moments take together."""
_MOST_ROUNDS, _FEWEST_ROUNDS = 5, 2
"""Rounds of moments with two columns or more; one column takes one round."""
_LOUDEST = 0.17
"""Noise on a variance, in units of the frame, with which one more round still does no harm."""
_QUIETEST = 0.06
"""Noise on a variance, at the largest radius; less is not worth its price."""


@functools.lru_cache(maxsize=512)
def histogram_stage(n_units: int, n_features: int, budget: Budget) -> FrameChoice | None:
    """Plan the histogram frame for these rows; None if they are too few for the budget.

    Parameters are those of `frame_stage`, with any number of columns.
    """
    n = whole_number(n_units, "n_units", 1)
    d = whole_number(n_features, "n_features", 1)
    proved = (1 - _MISS_SHARE) * budget.delta
    total = _whole_account(budget.epsilon, proved)
    widest = min(math.sqrt(2 * d / (_CHEAP * total)), MOST_NOISE * (1 - _ROUNDING))
    scale_sigma = min(_SCALE_NOISE * (n // 2), widest)
    location_sigma = min(_LOCATION_NOISE * n, widest)
    if min(scale_sigma, location_sigma) <= 0:
        return None
    if 2 * d * (scale_sigma**-2 + location_sigma**-2) > _MOST_FOR_HISTOGRAMS * total:
        return None
    multipliers = _rounds(n, d, _ROUNDS_SHARE * total)
    stage = HistogramFrame(
        n_features=d,
        scale_sigma=scale_sigma,
        location_sigma=location_sigma,
        miss=_MISS_SHARE * budget.delta / (4 * d),
        multipliers=multipliers,
        radius=histogram_radius(d, multipliers[0], n),
    )
    price = stage.price()
    curve = functools.reduce(RenyiCurve.__add__, price.curves)
    left = mu_squared_left(curve, budget.epsilon, budget.delta - price.shortfall)
    if left <= 0 or stage.least_units() > n:
        return None
    share = 1 - left / _whole_account(budget.epsilon, budget.delta)
    choice = FrameChoice(stage, budget, share)
    # counts of few rows get so little noise that the exact account of integers leaves nothing
    return choice if choice.left > 0 else None


def _rounds(n: int, d: int, mu_squared: float) -> tuple[float, ...]:
    """Choose the noise of each round. More rounds find thin directions; too many drown in noise.

    Rounds that agree are averaged. So dividing the same budget among more of them costs nothing,
    as long as the noise of each is small enough to recognise agreement.
    """
    least, most = radius_range(d)
    rounds = 1 if d == 1 else _MOST_ROUNDS
    while (
        rounds > _FEWEST_ROUNDS
        and variance_noise(d, math.sqrt(rounds / mu_squared), n, least) > _LOUDEST
    ):
        rounds -= 1
    enough = min(_QUIETEST / variance_noise(d, 1.0, n, most), _LOUD_ENOUGH)
    return (max(math.sqrt(rounds / mu_squared), enough),) * rounds


if __name__ == "__main__":
    _make_table()
