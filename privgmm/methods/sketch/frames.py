"""Plan frames: coordinates by histograms, or by the agreement of blocks if they are set by hand.

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
    second_order_costs,
    upper_point,
)
from privgmm.privacy.composition import Price
from privgmm.privacy.curves import (
    ORDERS,
    RenyiCurve,
    conversion,
    gaussian_curve,
    lifted_mask_losses,
)
from privgmm.privacy.gaussian_account import mu_squared_after
from privgmm.stages.agreement.lifted_space import LiftedSpace, averaged_move
from privgmm.stages.agreement.noise_levels import lifted_eta
from privgmm.stages.agreement.votes import AgreementTest, friend_counts
from privgmm.stages.sketch.agreement_frame import FrameAgreement
from privgmm.stages.sketch.histogram_frame import (
    MOST_NOISE,
    HistogramFrame,
    ValueCounts,
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
"""Chance that the mask moves a frame farther than its accuracy; by convention."""
_ACCURACIES = (0.75, 0.75, 1.0, 1.0, 1.0, 1.5, 1.5, 1.5, 1.5)
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
"""Shares of the budget for a frame with blocks and accuracy set by hand, in the order tried; by
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
_SPARED_PER_MU = 1e-9
"""The same, per unit of mu^2: more than ``r / 2^32`` of `gaussian_account`, which matters where
little noise is left."""
_ENOUGH = 1e6
"""By convention: more mu^2 is not spent, for noise of a thousandth of a row's weight is none."""


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

    @property
    def leaves_any(self) -> bool:
        """Check whether any mu^2 is left: quickly where Rényi curves alone say so."""
        price = self.stage.price()
        known = _whole_account(self.budget.epsilon, self.budget.delta - _set_aside(price))
        return price.mu_squared < known or self.left > 0

    @functools.cached_property
    def left(self) -> float:
        """The mu^2 that is left.

        One Gaussian mechanism of noise ``left^-1/2`` sensitivities (or several whose mu^2 add up to
        it) still fits into the budget after the frame.
        """
        price, budget = self.stage.price(), self.budget
        left = budget.delta - _set_aside(price)
        if price.exact:
            whole = _whole(budget.epsilon, left) - price.mu_squared
        else:
            before = functools.reduce(RenyiCurve.__add__, price.curves)
            whole = mu_squared_after(before, budget.epsilon, left)
        spent = min(whole, _ENOUGH)
        return spent * (1 - max(_SPARED, _SPARED_PER_MU * spent))


def mu_squared_left(fixed: RenyiCurve, epsilon: float, delta: float) -> float:
    """Compute the largest mu^2 of a Gaussian mechanism that fits after `fixed`, by Rényi curves.

    The sum proves epsilon if at some order a ``R(a) + a mu^2 / 2 + conversion(a) <= epsilon``,
    with the conversion of `RenyiCurve.epsilon`; so mu^2 is the largest that any order allows.
    It is 0 where nothing fits. Frames are compared by it, because it is quick; what the chosen one
    leaves is computed exactly.
    """
    return float(_left_by_curves(fixed.values, epsilon, delta))


def _left_by_curves(losses: Array, epsilon: float, delta: float) -> Array:
    """Compute `mu_squared_left` of curves whose values are `losses` (..., orders)."""
    most = (2 * (epsilon - conversion(delta) - losses) / ORDERS).max(axis=-1)
    return np.asarray(np.maximum(0.0, most * (1 - _ROUNDING)))


_NOTHING = RenyiCurve(np.zeros_like(ORDERS))


def _whole_account(epsilon: float, delta: float) -> float:
    return mu_squared_left(_NOTHING, epsilon, delta)


def _set_aside(price: Price) -> float:
    """Compute the part of delta that later stages cannot use."""
    return price.rounding if price.gate else price.rounding + price.shortfall


@functools.lru_cache(maxsize=256)
def _whole(epsilon: float, delta: float) -> float:
    """Compute the largest mu^2 of one Gaussian mechanism that has the budget to itself."""
    return mu_squared_after(_NOTHING, epsilon, delta)


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


def _usual_accuracy(n_features: int) -> float:
    return _ACCURACIES[n_features - 1] if n_features <= len(_ACCURACIES) else 2.0


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
        etas=np.array([lifted_eta(d, _usual_accuracy(d), _BETA) for d in features]),
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


def _cheapest(cores: list[Core], inflation: float, d: int, eta: float) -> list[Core]:
    """Keep the few cores whose test and mask cost least, to second order in gamma."""
    if len(cores) <= _PRICED_EXACTLY:
        return cores
    costs = second_order_costs(cores, inflation, k=1, d=d, eta=eta)
    return [cores[i] for i in costs.argsort(kind="stable")[:_PRICED_EXACTLY]]


@functools.lru_cache(maxsize=512)
def frame_stage(
    n_units: int,
    n_features: int,
    budget: Budget,
    *,
    accuracy: float | None = None,
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
    accuracy : float, optional
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
    eta = float(_tabulated()[2][d - 1]) if accuracy is None else lifted_eta(d, accuracy, _BETA)
    choices = _block_choices(n, d)
    if n_blocks is not None:
        t = whole_number(n_blocks, "n_blocks", 1)
        choices = [t] if n // t >= d + _LEAST_SPARE else []
    cores = [_cores(t, n // t, d, budget.delta) for t in choices]
    total = _whole_account(budget.epsilon, budget.delta)
    best = functools.cache(lambda inflation: _best(cores, inflation, d, eta, budget))
    used = _usual_accuracy(d) if accuracy is None else accuracy
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
    n_features: int, budget: Budget, *, accuracy: float | None = None, n_blocks: int
) -> FrameChoice | None:
    """Plan an agreement frame with these blocks, whether they are expected to agree or not.

    Nine in ten blocks must agree, within the widest radius that three tenths of the budget pay for,
    or a larger share where blocks are few. None if there is no such radius.
    """
    d = whole_number(n_features, "n_features", 1)
    t = whole_number(n_blocks, "n_blocks", 1)
    used = _usual_accuracy(d) if accuracy is None else accuracy
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
    accuracy: float,
    eta: float,
    rows_per_block: int | None = None,
) -> FrameAgreement:
    return FrameAgreement(
        n_components=1,
        n_features=d,
        mask_accuracy=accuracy,
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
    tried = [core for listed in cores for core in _cheapest(listed, inflation, d, eta)]
    if not tried:
        return 0.0, None
    gammas = [averaged_move(inflation * core.radius, core.move) for core in tried]
    tests = np.array([gaussian_curve(core.test.sigma).values for core in tried])
    masks = np.maximum(lifted_mask_losses(gammas, eta, d + 1), 0.0)
    left = _left_by_curves(tests + masks, budget.epsilon, budget.delta)
    best = int(left.argmax())
    return (float(left[best]), tried[best]) if left[best] > 0 else (0.0, None)


# ------------------------------------------------------------------------------------ histograms

_MISS_SHARE = 0.1
"""Share of delta for the event, over all histograms and both neighbours, that a bin of one row
shows; by convention."""
_MOST_UNITS, _USUAL_ACCOUNT = 1 << 17, 0.05
"""Choice: rows or persons that a frame is found from at most, others being left out by chance, at a
mu^2 like that of epsilon 1. The noise is then below the scatter of that many rows, and a frame
needs to be right within a factor of two."""
_LEAST_SHOWN = (0.02, 0.05)
"""Choice: share of all pairs, and of all rows, that a bin must hold to be shown, where that is
cheap. Many rows may share a value of a column; the others still have to show how it spreads."""
_SHOWN_AT = 6.5
"""Counts of this many deviations of noise are shown nearly always, at the usual deltas."""
_FOR_WIDTHS, _FOR_PLACES = 0.03, 0.01
"""Choice: shares of the budget that is spent on either kind of histogram to that end."""
_MOST_NOISE = (0.042, 0.035)
"""Measured: noise on the counts, as a share of all pairs or rows, with which rows of a Gaussian
mixture still show a frame nearly always."""
_FOR_VALUES, _FOR_GRIDS = 0.02, 0.01
"""Choice: shares of the budget for the counts of single values, and for those on grids."""
_LEAST_ATOM, _ATOM_AT = 0.02, 8.0
"""Choice: share of the rows that a value needs to be shown, where that is cheap, and about how many
deviations of noise the threshold is."""
_INVENTED = 1e-6
"""Choice: chance that a column in which each value occurs once shows one of them."""
_GRID_NOISE = 0.01
"""Choice: noise on counts of values on a grid, as a share of the rows, where that is cheap."""
_FINEST = 6.0
"""Choice: noise on counts that is little enough for any budget; with less than 2, noise on integers
has no exact price."""
_MOST_FOR_HISTOGRAMS = 0.7
"""Largest share of the budget that histograms take, else there is no frame; by convention."""
_LOUD_ENOUGH = 1e5
"""Noise, in sensitivities, at which a round costs next to nothing; more would save nothing."""
_ROUNDS_SHARE, _CHEAP_ROUNDS = 0.16, 0.01
"""Largest share of the budget that all rounds of moments take together, and what they take at
least, however many rows there are."""
_MOST_ROUNDS, _FEWEST_ROUNDS = 8, 2
"""Rounds of moments with two columns or more; one column takes one round. Each can make a direction
a hundred times thinner: measured, eight find that of a shear of 1e5."""
_LOUDEST = 0.17
"""Noise on a variance, in units of the frame, with which one more round still does no harm."""
_QUIETEST, _AVERAGED = 0.06, 5
"""Noise on a variance, at the largest radius, in up to five rounds, and of more together what five
have; less is not worth more than `_CHEAP_ROUNDS`."""


@functools.lru_cache(maxsize=512)
def histogram_stage(
    n_units: int, n_features: int, budget: Budget, *, rounds: bool = True
) -> FrameChoice | None:
    """Plan the histogram frame for these rows; None if they are too few for the budget.

    Parameters are those of `frame_stage`, with any number of columns. Without `rounds` the frame
    knows each column by itself, and not how columns vary together.
    """
    given = whole_number(n_units, "n_units", 1)
    d = whole_number(n_features, "n_features", 1)
    proved = (1 - _MISS_SHARE) * budget.delta
    total = _whole_account(budget.epsilon, proved)
    if total <= 0:
        return None
    # small budgets, with much noise, take more rows
    most = math.ceil(_MOST_UNITS * max(1.0, math.sqrt(_USUAL_ACCOUNT / total)))
    n = min(given, most)
    scale_sigma, location_sigma = (
        _count_noise(count, least, most, share * total / d)
        for count, least, most, share in zip(
            (n // 2, n), _LEAST_SHOWN, _MOST_NOISE, (_FOR_WIDTHS, _FOR_PLACES), strict=True
        )
    )
    if min(scale_sigma, location_sigma) <= 0:
        return None
    if 2 * d * (scale_sigma**-2 + location_sigma**-2) > _MOST_FOR_HISTOGRAMS * total:
        return None
    multipliers = _rounds(n, d, total) if rounds else ()
    stage = HistogramFrame(
        n_features=d,
        scale_sigma=scale_sigma,
        location_sigma=location_sigma,
        # a thousandth is left for single values, whose threshold is far higher
        miss=0.999 * _MISS_SHARE * budget.delta / (4 * d),
        multipliers=multipliers,
        radius=histogram_radius(d, multipliers[0], n) if rounds else radius_range(d)[0],
        most_units=most if given > most else None,
        values=_value_counts(n, d, budget.delta, total),
    )
    price = stage.price()
    curve = functools.reduce(RenyiCurve.__add__, price.curves)
    left = mu_squared_left(curve, budget.epsilon, budget.delta - price.shortfall)
    if left <= 0 or stage.least_units() > n:
        return None
    share = 1 - left / _whole_account(budget.epsilon, budget.delta)
    choice = FrameChoice(stage, budget, share)
    # counts of few rows get so little noise that the exact account of integers leaves nothing
    return choice if choice.leaves_any else None


def _count_noise(count: int, least: float, most: float, mu_squared: float) -> float:
    """Choose noise on the counts of a histogram of this many rows or pairs.

    As little as a bin of the share `least` needs, if that costs no more than `mu_squared`. Few rows
    need less noise than that pays for: then at most the share `most` of the count.
    """
    paid = math.sqrt(2 / mu_squared)
    noise = max(least * count / _SHOWN_AT, paid, _FINEST)
    return min(noise, most * count, MOST_NOISE * (1 - _ROUNDING))


def _value_counts(n: int, d: int, delta: float, total: float) -> ValueCounts | None:
    """Choose the noise on counts of single values; None if half of the rows would not show one."""

    def paid(share: float) -> float:
        return math.sqrt(2 * d / (share * total))

    sigma = max(_LEAST_ATOM * n / _ATOM_AT, paid(_FOR_VALUES), _FINEST)
    grid_sigma = max(_GRID_NOISE * n, paid(_FOR_GRIDS), _FINEST)
    if max(sigma, grid_sigma) >= MOST_NOISE:
        return None
    miss = min(_INVENTED / n, 1e-3 * _MISS_SHARE * delta / (2 * d))
    threshold = 1 + upper_point(sigma, miss)
    return ValueCounts(sigma, threshold, grid_sigma) if threshold < n / 2 else None


def _rounds(n: int, d: int, total: float) -> tuple[float, ...]:
    """Choose the noise of each round. More rounds find thin directions; too many drown in noise.

    Rounds that agree are averaged. So dividing the same budget among more of them costs nothing,
    as long as the noise of each is small enough to recognise agreement.
    """
    least, most = radius_range(d)
    rounds = 1 if d == 1 else _MOST_ROUNDS
    paid = _ROUNDS_SHARE * total
    while (
        rounds > _FEWEST_ROUNDS and variance_noise(d, math.sqrt(rounds / paid), n, least) > _LOUDEST
    ):
        rounds -= 1
    quiet = _QUIETEST * math.sqrt(max(rounds / _AVERAGED, 1.0))
    enough = min(quiet / variance_noise(d, 1.0, n, most), _LOUD_ENOUGH)
    cheap = math.sqrt(rounds / (_CHEAP_ROUNDS * total))
    return (max(math.sqrt(rounds / paid), min(enough, cheap)),) * rounds


if __name__ == "__main__":
    _make_table()
