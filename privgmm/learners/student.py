"""Location and scatter of each block by the multivariate t law: a learner of one component.

For a frame of reference, not for a mixture: where a block of any shape lies and how wide it is.
Plain means and covariances follow every outlier. The maximum-likelihood fit of a t law with few
degrees of freedom gives a row at distance m a weight that falls like 1/m^2, so one row moves it by
a bounded amount, at any distance.

``python -m privgmm.learners.student`` writes the table behind `scatter_scale` again.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy
from numba import njit

from privgmm.arrays import Array, IntArray, positive, whole_number
from privgmm.errors import InvalidInput
from privgmm.learners.kernels import FITTED, NOT_FINITE, OUT_OF_RANGE, RANK_DEFICIENT
from privgmm.learners.learner import BlockRandomness, ReasonedLearner, as_blocks, block_seeds
from privgmm.mixture import MixtureBatch

__all__ = ["StudentT", "scatter_scale", "simulated_scale", "warm_student"]

_TOO_FEW_ROWS, _UNSETTLED = 8, 9
"""Ends of a fit beyond those of all kernels."""
_REASONS = {
    FITTED: "",
    NOT_FINITE: "not finite",
    OUT_OF_RANGE: "out of range",
    RANK_DEFICIENT: "rank-deficient",
    _TOO_FEW_ROWS: "too few rows",
    _UNSETTLED: "not settled",
}
_REMEDIES = {
    "not finite": "fill NaN and infinite values in, by a rule that looks at no other row",
    "out of range": "rescale the columns: squares of their values leave double precision",
    "rank-deficient": "drop columns that are constant or combinations of others",
    "too few rows": "a scatter matrix needs at least n_features + 2 rows",
    "not settled": "drop repeated rows: too many of them lie on one plane",
}

_LARGEST = 1e140  # squares of distances, in units of the median deviation, stay finite
_CONSTANT = 2e-15  # a column that varies less than this share of its size is rounding
_THINNEST_PIVOT = 4e-16  # of a column's variance: what is left of it is rounding
_ROUGH, _ROUGH_STEPS = 1e-2, 200  # relative change of weights at which coordinates are good enough
_TIGHT, _TIGHT_STEPS, _ACCEPTED = 1e-12, 1000, 1e-5
"""Choice: change of weights at which a fit ends, steps at most, and the change up to which one that
ran out of steps is still taken."""


# Sums over rows may be taken in any order, which lets one instruction serve several rows. The order
# depends on the number of rows only, so a fit is still a function of its block, bit for bit.
_SUMS = {"reassoc", "contract"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS)
def _total(weights: Array) -> float:
    total = 0.0
    for i in range(weights.size):
        total += weights[i]
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS)
def _weighted_sum(weights: Array, column: Array) -> float:
    total = 0.0
    for i in range(weights.size):
        total += weights[i] * column[i]
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS)
def _weighted_product(
    weights: Array, first: Array, first_mean: float, second: Array, second_mean: float
) -> float:
    total = 0.0
    for i in range(weights.size):
        total += weights[i] * (first[i] - first_mean) * (second[i] - second_mean)
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS)
def _renew(weights: Array, squares: Array, degrees: float, d: int) -> float:
    """Compute new weights from squared distances; return the sum of squared relative changes."""
    total = 0.0
    for i in range(weights.size):
        new = (degrees + d) / (degrees + squares[i])
        change = (new - weights[i]) / (new + weights[i])
        weights[i] = new
        total += change * change
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _weighted_scatter(points: Array, weights: Array, mean: Array, root: Array) -> bool:
    """Compute the weighted mean and scatter's Cholesky factor; False if it is flat.

    Points (d, s) are columns side by side.
    """
    d = points.shape[0]
    total = _total(weights)
    for a in range(d):
        mean[a] = _weighted_sum(weights, points[a]) / total
    for a in range(d):
        for b in range(a + 1):
            root[a, b] = _weighted_product(weights, points[a], mean[a], points[b], mean[b])
    for a in range(d):
        variance = root[a, a] / total
        for b in range(a + 1):
            value = root[a, b] / total
            for c in range(b):
                value -= root[a, c] * root[b, c]
            if b < a:
                root[a, b] = value / root[b, b]
            elif value > _THINNEST_PIVOT * variance and value < np.inf:
                root[a, a] = math.sqrt(value)
            else:
                return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _to_own(points: Array, mean: Array, root: Array, own: Array) -> None:
    """Transform points (d, s) to own = root^-1 (points - mean), in place if need be."""
    d, s = points.shape
    for a in range(d):
        for i in range(s):
            own[a, i] = points[a, i] - mean[a]
        for b in range(a):
            entry = root[a, b]
            for i in range(s):
                own[a, i] -= entry * own[b, i]
        for i in range(s):
            own[a, i] /= root[a, a]


@njit(cache=True, nogil=True, error_model="numpy")
def _reweigh(
    points: Array,
    degrees: float,
    mean: Array,
    root: Array,
    own: Array,
    squares: Array,
    weights: Array,
) -> float:
    """Compute new weights ``(nu + d) / (nu + m^2)``, m a row's distance; return the change.

    The change is the root of the sum of squares of all relative changes.
    """
    d, s = points.shape
    _to_own(points, mean, root, own)
    squares[:] = 0.0
    for a in range(d):
        for i in range(s):
            squares[i] += own[a, i] * own[a, i]
    return math.sqrt(_renew(weights, squares, degrees, d))


@njit(cache=True, nogil=True, error_model="numpy")
def _settle(
    points: Array,
    degrees: float,
    enough: float,
    steps: int,
    weights: Array,
    mean: Array,
    root: Array,
    own: Array,
    squares: Array,
) -> float:
    """Iterate from `weights` until they change by `enough`; return the last change, -1 if flat.

    Dividing the scatter by the sum of the weights (Kent, Tyler and Vardi, 1994) instead of the
    number of rows has the same fixed point, where the two are equal, and gets there sooner.
    """
    change = np.inf
    for _ in range(steps):
        if not _weighted_scatter(points, weights, mean, root):
            return -1.0
        change = _reweigh(points, degrees, mean, root, own, squares, weights)
        if change < enough:
            break
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def _standardise(block: Array, points: Array, centre: Array, unit: Array, column: Array) -> int:
    """Scale columns (d, s) by median and median deviation; return 0 or why not."""
    s, d = block.shape
    for a in range(d):
        for i in range(s):
            column[i] = block[i, a]
            if not np.isfinite(column[i]):
                return NOT_FINITE
            if not abs(column[i]) < _LARGEST:
                return OUT_OF_RANGE
        centre[a] = np.median(column)
        moved = 0
        for i in range(s):
            away = abs(block[i, a] - centre[a])
            if away > 0.0:
                column[moved] = away
                moved += 1
        if moved == 0:
            return RANK_DEFICIENT
        unit[a] = np.median(column[:moved])
        if unit[a] <= _CONSTANT * abs(centre[a]):
            return RANK_DEFICIENT
        if not unit[a] > 1.0 / _LARGEST:
            return OUT_OF_RANGE
        for i in range(s):
            points[a, i] = (block[i, a] - centre[a]) / unit[a]
            if not abs(points[a, i]) < _LARGEST:
                return OUT_OF_RANGE
    return FITTED


@njit(cache=True, nogil=True, error_model="numpy")
def _fit_range(
    blocks: Array, degrees: float, means: Array, roots: Array, reasons: IntArray
) -> None:
    """Fit each of blocks (t, s, d) into means (t, d) and lower roots (t, d, d).

    Each block twice: roughly in standardised columns, then, from the weights found, in the
    coordinates of the rough fit, where nothing cancels however sheared the rows are. Where
    reasons (t,) is not FITTED the fit is undefined.
    """
    t, s, d = blocks.shape
    points, own = np.empty((d, s)), np.empty((d, s))
    column, weights, squares = np.empty(s), np.empty(s), np.empty(s)
    centre, unit, mean = np.empty(d), np.empty(d), np.empty(d)
    rough, fine = np.empty((d, d)), np.empty((d, d))
    for block in range(t):
        if s < d + 2:
            reasons[block] = _TOO_FEW_ROWS
            continue
        reasons[block] = _standardise(blocks[block], points, centre, unit, column)
        if reasons[block] != FITTED:
            continue
        # any start leads to the same fit; this one gives far rows little weight from the beginning
        for i in range(s):
            far = 0.0
            for a in range(d):
                far = max(far, abs(points[a, i]))
            weights[i] = 1.0 / (1.0 + 0.25 * far * far)
        change = _settle(points, degrees, _ROUGH, _ROUGH_STEPS, weights, mean, rough, own, squares)
        if change < 0.0:
            reasons[block] = RANK_DEFICIENT
            continue
        _to_own(points, mean, rough, points)
        for a in range(d):
            means[block, a] = mean[a]
        change = _settle(points, degrees, _TIGHT, _TIGHT_STEPS, weights, mean, fine, own, squares)
        if change < 0.0:
            reasons[block] = RANK_DEFICIENT
            continue
        if not change < _ACCEPTED:
            reasons[block] = _UNSETTLED
            continue
        for a in range(d):
            shift = means[block, a]
            for b in range(a + 1):
                shift += rough[a, b] * mean[b]
                total = 0.0
                for c in range(b, a + 1):
                    total += rough[a, c] * fine[c, b]
                roots[block, a, b] = unit[a] * total
            means[block, a] = centre[a] + unit[a] * shift
            if not (roots[block, a, a] > 1.0 / _LARGEST and np.isfinite(means[block, a])):
                reasons[block] = OUT_OF_RANGE


@dataclasses.dataclass(frozen=True)
class StudentT(ReasonedLearner):
    """Maximum likelihood of the multivariate t law, scaled so that Gaussian rows give covariances.

    Parameters
    ----------
    n_components : int
        1: it describes a block as a whole.
    degrees : float
        Degrees of freedom nu, at least 1; the fewer, the less far rows count.

    Notes
    -----
    The fit solves ``mu = sum w x / sum w``, ``S = sum w (x - mu)(x - mu)^T / s`` with weights
    ``w = (nu + d) / (nu + (x - mu)^T S^-1 (x - mu))``. For nu >= 1 the solution is unique, so it
    does not depend on where the iteration starts, and it moves with the rows under every affine
    map. It exists unless too many rows lie on one plane (for hyperplanes a share of
    ``(nu + d - 1) / (nu + d)``; four fifths at nu = 3, d = 2). S is divided by its size for
    Gaussian blocks of this many rows, a public number (`scatter_scale`).

    A fit is a function of its block alone, to the last bit; seeds are not used. A block without a
    fit has ``ok`` False; it never raises.

    Examples
    --------
    >>> rows = np.repeat(np.random.default_rng(0).standard_normal((1, 500, 2)), 2, axis=0)
    >>> rows[1, 0] = 1e12
    >>> fits = StudentT().fit_blocks(rows)
    >>> fits.covariances[:, 0, 0, 0].round(1).tolist()
    [1.0, 1.0]
    """

    n_components: int = 1
    degrees: float = 3.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_components", whole_number(self.n_components, "n_components", 1))
        if self.n_components != 1:
            raise InvalidInput(
                f"n_components must be 1 for this learner, got {self.n_components}: choose another"
            )
        if positive(self.degrees, "degrees") < 1:
            raise InvalidInput(f"degrees must be at least 1, got {self.degrees!r}")

    def fit_blocks_with_reasons(
        self, blocks: npt.ArrayLike, *, rng: BlockRandomness = None
    ) -> tuple[MixtureBatch, list[str]]:
        """Fit each block and give a reason per block: empty, or why it has no fit.

        The reasons are "not finite", "out of range", "rank-deficient", "too few rows" and "not
        settled". They speak about the data and are CONFIDENTIAL.
        """
        rows = as_blocks(blocks)
        t, s, d = rows.shape
        block_seeds(rng, t)
        means, roots = np.zeros((t, d)), np.zeros((t, d, d))
        reasons = np.zeros(t, dtype=np.int64)
        self._fit(rows, means, roots, reasons)
        if s >= d + 2:
            roots /= math.sqrt(scatter_scale(s, d, self.degrees))
        batch = MixtureBatch.from_cholesky(
            np.ones((t, 1)), means[:, None], roots[:, None], reasons == FITTED
        )
        return batch, [_REASONS[int(reason)] for reason in reasons]

    def _fit(self, rows: Array, means: Array, roots: Array, reasons: IntArray) -> None:
        """Fit ranges of blocks in threads; the fits do not depend on how they are divided."""
        # read-only, so that one compiled version serves writable and read-only input
        rows = rows.view()
        rows.flags.writeable = False

        def fit(low: int, high: int) -> None:
            out = (array[low:high] for array in (means, roots, reasons))
            _fit_range(rows[low:high], float(self.degrees), *out)

        threads = min(len(rows), os.cpu_count() or 1)
        if threads <= 1 or rows.size < _WORTH_THREADS:
            fit(0, len(rows))
            return
        edges = np.linspace(0, len(rows), threads + 1).astype(int).tolist()
        with ThreadPoolExecutor(threads) as pool:
            for _done in pool.map(fit, edges[:-1], edges[1:]):
                pass

    def remedy(self, reason: str) -> str:
        """Say what to do about one of the reasons."""
        return _REMEDIES[reason]


_WORTH_THREADS = 20_000  # numbers in all blocks below which threads cost more than they save

# ------------------------------------------------------------------------------ how large S is

_TABLE = Path(__file__).with_name("student_scales.json")
_DEGREES = 3.0  # of freedom, for which the table was made
_MOST_FEATURES = 20  # columns up to which the table was made
_SPARE_ROWS = (2, 3, 4, 5, 6, 8, 10, 13, 17, 23, 32, 48, 80, 160, 400)
"""Rows per block beyond d, at which the table was made."""
_SIMULATED_ROWS = 80_000  # in all simulated blocks of one entry
_FEWEST_SIMULATED = 200  # blocks of one entry


@functools.lru_cache(maxsize=4096)
def scatter_scale(rows_per_block: int, n_features: int, degrees: float = _DEGREES) -> float:
    """Return the size of the t scatter of standard normal blocks of this many rows.

    ``exp(E ln det S / d)``, from a table of simulated blocks, linear in 1/rows in between; it ends
    in the exact value for many rows. For other degrees, or more than 20 columns, blocks are
    simulated at each call, from a fixed seed. Public and the same every time.

    >>> round(scatter_scale(10**9, 2), 3)
    0.679
    """
    s = whole_number(rows_per_block, "rows_per_block", n_features + 2)
    if degrees != _DEGREES or n_features > _MOST_FEATURES:
        return simulated_scale(s, n_features, degrees)
    spare, logs, limits = _tabulated()
    inverse = np.append(1.0 / (n_features + spare), 0.0)
    values = np.append(logs[n_features - 1], limits[n_features - 1])
    # np.interp wants its abscissae rising
    return math.exp(float(np.interp(1.0 / s, inverse[::-1], values[::-1])))


def simulated_scale(rows_per_block: int, n_features: int, degrees: float = _DEGREES) -> float:
    """Simulate blocks to find the size of their t scatter; the table is made of this."""
    s, d = rows_per_block, n_features
    t = max(_FEWEST_SIMULATED, _SIMULATED_ROWS // s)
    blocks = np.random.default_rng([s, d]).standard_normal((t, s, d))
    means, roots = np.zeros((t, d)), np.zeros((t, d, d))
    reasons = np.zeros(t, dtype=np.int64)
    StudentT(1, degrees)._fit(blocks, means, roots, reasons)
    diagonals = np.diagonal(roots[reasons == FITTED], axis1=1, axis2=2)
    return math.exp(2 * float(np.log(diagonals).mean()))


def _limit(d: int, degrees: float) -> float:
    """Solve ``E[(nu + d) q / (nu + q)] = d``, q a chi square over the size, for many rows."""

    def excess(size: float) -> float:
        def part(x: float) -> float:
            q = x / size
            return float((degrees + d) * q / (degrees + q) * scipy.stats.chi2.pdf(x, d))

        return scipy.integrate.quad(part, 0, np.inf)[0] - d

    return float(scipy.optimize.brentq(excess, 0.2, 1.5, xtol=1e-12))


@functools.cache
def _tabulated() -> tuple[Array, Array, Array]:
    """Read spare rows (m,), logarithms of sizes (20, m), and their limits (20,)."""
    table: dict[str, Any] = json.loads(_TABLE.read_text(encoding="utf-8"))
    return (
        np.asarray(table["spare_rows"], dtype=np.float64),
        np.log(np.asarray(table["sizes"], dtype=np.float64)),
        np.log(np.asarray(table["limits"], dtype=np.float64)),
    )


def _make_table() -> None:
    features = range(1, _MOST_FEATURES + 1)
    table = {
        "degrees": _DEGREES,
        "spare_rows": list(_SPARE_ROWS),
        "sizes": [
            [round(simulated_scale(d + spare, d), 5) for spare in _SPARE_ROWS] for d in features
        ],
        "limits": [round(_limit(d, _DEGREES), 8) for d in features],
    }
    _TABLE.write_text(json.dumps(table) + "\n", encoding="utf-8")


def warm_student() -> None:
    """Compile everything that `StudentT` runs, or load it from the cache on disk."""
    StudentT().fit_blocks(np.random.default_rng(0).standard_normal((1, 8, 2)))


if __name__ == "__main__":
    _make_table()
