"""The compiled ends of the learner `moments`: whitening of a block, and EM from a start.

Compiles functions of `kernels` and `ascent` into two that Python may call and the cache on disk
keeps.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numba import njit

from privgmm.arrays import Array
from privgmm.learners import kernels
from privgmm.learners.em import ascent
from privgmm.learners.em.ascent import accelerated_em
from privgmm.learners.kernels import CHUNK, spread_stride, whiten

__all__ = ["Polished", "Whitened", "polish", "whitened"]

_RISING = 1e-3  # nats that the last pass may add and still count as converged


def _compile(sources: int) -> tuple[Callable[..., int], Callable[..., float]]:
    """Compile both functions; the cache on disk remembers a checksum of the called sources."""

    @njit(cache=True, nogil=True, error_model="numpy")
    def run_whiten(block: Array, first: int, points: Array, mean: Array, root: Array) -> int:
        stride = spread_stride(block.shape[0])
        return whiten(block, first, stride, points, mean, root) if sources >= 0 else -1

    @njit(cache=True, nogil=True, error_model="numpy")
    def run_em(
        points: Array,
        n: int,
        weights: Array,
        means: Array,
        roots: Array,
        plain: int,
        passes: int,
        tol: float,
        trace: Array,
    ) -> float:
        reached = accelerated_em(points, n, weights, means, roots, plain, passes, tol, 0.0, trace)
        return reached if sources >= 0 else 0.0

    return cast("Callable[..., int]", run_whiten), cast("Callable[..., float]", run_em)


_run_whiten, _run_em = _compile(
    zlib.crc32(b"".join(Path(str(m.__file__)).read_bytes() for m in (kernels, ascent)))
)


class Whitened(NamedTuple):
    """A block in its own coordinates.

    ``mean + root @ rows[i]`` runs over the rows of the block, in a scattered order.

    Attributes
    ----------
    rows : (n, d)
    points : (chunks, p, 128)
        The rows in the layout of `kernels`.
    mean : (d,), root : (d, d)
    """

    rows: Array
    points: Array
    mean: Array
    root: Array


def whitened(block: Array, first: int) -> tuple[int, Whitened]:
    """Whiten a block (n, d); return 0 or a code of `kernels`, and the result.

    Rows are taken from `first` on in steps near the golden section, so that a prefix is spread
    over the block.
    """
    n, d = block.shape
    points = np.zeros(((n + CHUNK - 1) // CHUNK, d + d % 2, CHUNK))
    mean, root = np.empty(d), np.empty((d, d))
    fixed = np.ascontiguousarray(block)
    fixed = fixed.view()
    fixed.flags.writeable = False
    code = int(_run_whiten(fixed, first, points, mean, root))
    rows = np.ascontiguousarray(points[:, :d].transpose(0, 2, 1)).reshape(-1, d)[:n]
    return code, Whitened(rows, points, mean, root)


class Polished(NamedTuple):
    """A fit by EM and how it ended.

    Attributes
    ----------
    weights : (k,), means : (k, d), roots : (k, d, d)
        Lower Cholesky factors of the covariances.
    log_likelihood : float
        -inf after a collapse: then the rest means nothing.
    converged : bool
        Whether it stopped by itself, or at least no longer rose, before the passes ran out.
    """

    weights: Array
    means: Array
    roots: Array
    log_likelihood: float
    converged: bool


def polish(
    block: Whitened, weights: Array, means: Array, covariances: Array, *, passes: int, tol: float
) -> Polished:
    """Run EM on a whitened block from a mixture: at most `passes` passes, accelerated."""
    w, m = weights.copy(), means.copy()
    c = np.asarray(np.linalg.cholesky(covariances), dtype=np.float64)
    trace = np.full(passes, np.nan)
    reached = float(
        _run_em(block.points, len(block.rows), w, m, c, min(passes, 2), passes, tol, trace)
    )
    climbed = trace[~np.isnan(trace)]
    # at most one pass in three is a rejected one, which leaves no trace
    stopped = 1.5 * len(climbed) + 1 < passes
    rising = len(climbed) < 2 or bool(climbed[-1] - climbed[-2] > _RISING + tol * len(block.rows))
    return Polished(w, m, np.tril(c), reached, stopped or not rising)
