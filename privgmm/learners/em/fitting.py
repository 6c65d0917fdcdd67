"""Expectation-maximisation on t blocks at once: the learner that `release` uses by default.

Full covariances, maximum likelihood. The compiled work is in `kernels` (sweeps over rows),
`ascent` (EM with Anderson acceleration) and `seeding` (where to start); here it is put together
for a range of blocks, and ranges are handed to threads.
"""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit

from privgmm.arrays import Array, IntArray, positive, whole_number
from privgmm.learners import kernels
from privgmm.learners.em import ascent, seeding
from privgmm.learners.em.seeding import search, uniform
from privgmm.learners.kernels import CHUNK, FITTED, spread_stride, whiten
from privgmm.learners.learner import BlockRandomness, ReasonedLearner, Seeds, as_blocks, block_seeds
from privgmm.mixture import MixtureBatch

__all__ = ["EM", "warm_em"]

_T = TypeVar("_T", np.float64, np.uint64)

_TOO_FEW_ROWS, _COLLAPSED = 8, 9
"""Ends of a fit beyond those of all kernels."""
_REASONS = {
    FITTED: "",
    kernels.NOT_FINITE: "not finite",
    kernels.OUT_OF_RANGE: "out of range",
    kernels.RANK_DEFICIENT: "rank-deficient",
    _TOO_FEW_ROWS: "too few rows",
    _COLLAPSED: "component collapsed",
}
_REMEDIES = {
    "not finite": "fill NaN and infinite values in, by a rule that looks at no other row",
    "out of range": "rescale the columns: squares of their values leave double precision",
    "rank-deficient": "drop columns that are constant or combinations of others",
    "too few rows": "a mixture needs at least n_components * (n_features + 1) rows",
    "component collapsed": "use fewer components, drop repeated rows, or set prior_rows",
}
_WIDE_STARTS = 24  # the default of `n_restarts` beyond the first kind; see `EM`
_TELLING = 2.0  # a good fit's misfit is above this in one block of fifty
_LEFT = 1e-3  # nats in all: a thirtieth of a standard error for any number of rows
_TRIAL_PASSES = 3  # of each start before the poorer half is dropped
_TRIAL_ROWS = 512  # twice that from k = 5 on, or four a parameter


def _compile_fit_range(sources: int) -> Callable[..., int]:
    """Compile the fit of a range of blocks.

    The cache on disk looks at this file and at closure variables, not at the files of the
    functions called; so a checksum of those is made a closure variable, or a changed kernel would
    leave old code in use.
    """

    @njit(cache=True, nogil=True, error_model="numpy")
    def fit_range(
        blocks: Array,
        seeds: Seeds,
        starts: int,
        wide: int,
        telling: float,
        rows: int,
        trial: int,
        passes: int,
        tol: float,
        prior: float,
        weights: Array,
        means: Array,
        roots: Array,
        reasons: IntArray,
    ) -> int:
        """Fit each of blocks (t, s, d) into weights (t, k), means (t, k, d), roots (t, k, d, d).

        Starts make `trial` passes over a subsample of `rows`, the winner at most `passes` over
        all s. Where reasons (t,) is not FITTED the fit is undefined.
        """
        t, s, d = blocks.shape
        k = weights.shape[1]
        points = np.zeros(((s + CHUNK - 1) // CHUNK, d + d % 2, CHUNK))
        mean, root = np.empty(d), np.empty((d, d))
        state = np.empty(2, np.uint64)
        most = starts + wide
        w, m, c = np.empty((most, k)), np.empty((most, k, d)), np.empty((most, k, d, d))
        n = min(s, (rows + CHUNK - 1) // CHUNK * CHUNK)
        stride = spread_stride(s)
        for block in range(t):
            if s < d + 1 or s + k * prior < k * (d + 1):
                reasons[block] = _TOO_FEW_ROWS
                continue
            state[0], state[1] = seeds[block], np.uint64(0)
            first = min(int(uniform(state) * s), s - 1)
            reasons[block] = whiten(blocks[block], first, stride, points, mean, root)
            if reasons[block] != FITTED:
                continue
            if k == 1:
                weights[block, 0] = 1.0
                for a in range(d):
                    means[block, 0, a] = mean[a]
                    for b in range(a + 1):
                        roots[block, 0, a, b] = root[a, b]
                continue
            j = search(points, n, s, state, starts, telling, trial, passes, tol, prior, w, m, c)
            if j < 0:
                reasons[block] = _COLLAPSED
                continue
            # Back to the data's units: products of lower triangles are lower triangles.
            for i in range(k):
                weights[block, i] = w[j, i]
                for a in range(d):
                    means[block, i, a] = mean[a]
                    for b in range(a + 1):
                        means[block, i, a] += root[a, b] * m[j, i, b]
                        total = 0.0
                        for e in range(b, a + 1):
                            total += root[a, e] * c[j, i, e, b]
                        roots[block, i, a, b] = total
        return sources

    return cast("Callable[..., int]", fit_range)


_fit_range = _compile_fit_range(
    zlib.crc32(b"".join(Path(str(m.__file__)).read_bytes() for m in (kernels, ascent, seeding)))
)


@dataclasses.dataclass(frozen=True)
class EM(ReasonedLearner):
    """Maximum-likelihood mixtures of k Gaussians with full covariances.

    Parameters
    ----------
    n_components : int
        k.
    n_restarts : int, optional
        Starts tried for each block; the best likelihood wins. The first 4 (8 for k >= 5) come
        from k-means, the others are random points of random spread. By default the second kind,
        24 of them, is tried only if the best of the first leaves a block's rows skewed or
        heavy-tailed: real data rarely come in clusters, and a block that stops at a poorer
        optimum than the others does not agree with them.
    tol : float
        A fit has converged when what it may still gain, its last gain and its last step squared
        (in standard errors) are below `tol` nats per row, and below a thousandth of a nat in all.
    max_iter : int
        Most passes over all rows of a block.
    prior_rows : float
        Regularisation, off by default: the weight, in rows, of a prior that pulls each
        component's covariance towards the block's own covariance divided by k^(2/d) (Fraley and
        Raftery, 2007). It moves with the data under every affine map, unlike a fixed ridge.
    n_threads : int, optional
        Threads over ranges of blocks; the number of cores by default. The fits do not depend on
        it.

    Notes
    -----
    A block is first centred and whitened by its own mean and covariance, so the fit commutes
    with affine maps of the data. A block whose fit fails (its rows not finite, too few, on a
    hyperplane, or a component shrinking onto a few of them) has ``ok`` False; it never raises.

    Examples
    --------
    >>> from privgmm.mixture import Mixture
    >>> truth = Mixture([0.4, 0.6], [[0.0, 0.0], [6.0, 0.0]], [np.eye(2), np.eye(2)])
    >>> blocks = truth.sample(4000, rng=0).reshape(4, 1000, 2)
    >>> fits = EM(2).fit_blocks(blocks, rng=0)
    >>> bool(fits.ok.all()), np.sort(fits.weights, axis=1).round(1).tolist()[0]
    (True, [0.4, 0.6])
    """

    n_components: int
    _: dataclasses.KW_ONLY
    n_restarts: int | None = None
    tol: float = 3e-7
    max_iter: int = 500
    prior_rows: float = 0.0
    n_threads: int | None = None

    def __post_init__(self) -> None:
        for name in ("n_components", "n_restarts", "max_iter", "n_threads"):
            value = getattr(self, name)
            if value is None and name in ("n_restarts", "n_threads"):
                continue
            object.__setattr__(self, name, whole_number(value, name, 1))
        positive(self.tol, "tol", below=1.0)
        if self.prior_rows != 0:
            positive(self.prior_rows, "prior_rows")

    def fit_blocks_with_reasons(
        self, blocks: npt.ArrayLike, *, rng: BlockRandomness = None
    ) -> tuple[MixtureBatch, list[str]]:
        """Fit each block and give a reason per block: empty, or why it has no fit.

        The reasons are "not finite", "out of range", "rank-deficient", "too few rows" and
        "component collapsed". They speak about the data and are CONFIDENTIAL.
        """
        rows = _read_only(as_blocks(blocks))
        t, s, d = rows.shape
        k = self.n_components
        seeds = block_seeds(rng, t)
        weights, means = np.empty((t, k)), np.empty((t, k, d))
        roots, reasons = np.zeros((t, k, d, d)), np.zeros(t, dtype=np.int64)
        parameters = k * (1 + d + d * (d + 1) // 2)
        starts, wide, telling = 8 if k >= 5 else 4, _WIDE_STARTS, _TELLING
        if self.n_restarts is not None:
            starts = min(starts, self.n_restarts)
            wide, telling = self.n_restarts - starts, -np.inf
        options = (
            starts,
            wide,
            telling,
            max(_TRIAL_ROWS if k < 5 else 2 * _TRIAL_ROWS, 4 * parameters),
            _TRIAL_PASSES,
            self.max_iter,
            min(float(self.tol), _LEFT / max(s, 1)),
            float(self.prior_rows),
        )

        def fit(low: int, high: int) -> None:
            out = (array[low:high] for array in (weights, means, roots, reasons))
            _fit_range(rows[low:high], _read_only(seeds[low:high]), *options, *out)

        threads = min(t, self.n_threads or os.cpu_count() or 1)
        if threads <= 1:
            fit(0, t)
        else:
            # four ranges per thread: blocks take unequal time
            edges = np.linspace(0, t, min(t, 4 * threads) + 1).astype(int).tolist()
            with ThreadPoolExecutor(threads) as pool:
                for _done in pool.map(fit, edges[:-1], edges[1:]):
                    pass
        batch = MixtureBatch.from_cholesky(weights, means, roots, reasons == FITTED)
        return batch, [_REASONS[int(reason)] for reason in reasons]

    def remedy(self, reason: str) -> str:
        """Say what to do about one of the reasons."""
        return _REMEDIES[reason]


def _read_only(array: npt.NDArray[_T]) -> npt.NDArray[_T]:
    """Return a read-only view, so that one compiled version serves all input."""
    view = array.view()
    view.flags.writeable = False
    return view


def warm_em() -> None:
    """Compile everything that `EM` runs, or load it from the cache on disk."""
    EM(2, n_threads=1).fit_blocks(np.random.default_rng(0).standard_normal((1, 32, 2)), rng=0)
