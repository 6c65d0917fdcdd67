"""The method of moments on t blocks: the line of Pearson, Kalai, Moitra and Valiant.

Above `estimation` and `hierarchy`, which fit one block, and `polish`. Corollary 6.6 plugs the
learner of Moitra and Valiant into Theorem 6.2; this is the learner here that comes nearest to it,
and its docstring says how near.
"""

from __future__ import annotations

import dataclasses
from typing import get_args

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, one_blas_thread, positive, whole_number
from privgmm.errors import InvalidInput
from privgmm.learners import kernels
from privgmm.learners.learner import BlockRandomness, ReasonedLearner, as_blocks, block_seeds
from privgmm.learners.moments.estimation import Estimate, FeatureFamily, estimate
from privgmm.learners.moments.hierarchy import deepest, is_hidden
from privgmm.learners.moments.polish import Polished, Whitened, polish, whitened
from privgmm.mixture import MixtureBatch

__all__ = ["MOST_COMPONENTS", "Moments", "warm_moments"]

MOST_COMPONENTS = 4  # the equations of more components have too many false solutions

_PASSES = 500  # of a polish to convergence
_ROWS_A_PARAMETER = 2  # fewest rows per parameter; a convention
_MISFIT = 8.0  # chi-square per degree of freedom beyond which the equations have no solution
_IMPRECISE = 1.0  # predicted standard error, in units of a component, that is of no use
_ALONE = 0.5  # share of the variance of some direction that one row may make up
_THIN = 2e-3  # deviation, in units of the block's, that the equations cannot tell from 0

_REMEDIES = {
    "not finite": "fill NaN and infinite values in, by a rule that looks at no other row",
    "out of range": "rescale the columns: squares of their values leave double precision",
    "rank-deficient": "drop columns that are constant or combinations of others",
    "too few rows": "moments need two rows per parameter, and as many distinct rows as EM does",
    "component collapsed": "use fewer components, or drop repeated rows",
    "moments fit no mixture": "use other features, or leave polish at its default",
    "weight at its floor": "use fewer components",
    "moments too imprecise": "use more rows, or leave polish at its default",
    "polish did not converge": "use fewer components, or a fixed number of passes",
}
_WHITENING = {
    kernels.NOT_FINITE: "not finite",
    kernels.OUT_OF_RANGE: "out of range",
    kernels.RANK_DEFICIENT: "rank-deficient",
}


@dataclasses.dataclass(frozen=True)
class Moments(ReasonedLearner):
    """Mixtures of k <= 4 Gaussians from moments, polished by maximum likelihood.

    Parameters
    ----------
    n_components : int
        k, at most 4: the equations of more components have too many false solutions.
    features : "fourier" or "hermite"
        Whose means are matched. Hermite polynomials are the moments proper, as in the
        literature; cosines and sines obey the same algebra, are bounded, and lose less: along a
        line the polynomials of this degree miss from a tenth to nine tenths of what the rows
        know about a mixture. What is said of the accuracy of one is not true of the other.
    polish : int, optional
        Passes of EM over all rows, started from the moments. None, the default, goes on to
        convergence, so that blocks agree with each other as well as those of `EM` do; 0 returns
        the fit of the moments alone.
    tol : float
        A polish has converged when what it may still gain, its last gain and its last step
        squared (in standard errors) are below `tol` nats per row.

    Notes
    -----
    What is done to a block, and where:

    1. Isotropic position: centred and whitened by its own mean and covariance (`kernels`).
    2. Projection on directions where the rows are least Gaussian (`projections`).
    3. The mixture along each, from its moments: for k = 2 the roots of Pearson's polynomial,
       equal means included (`pearson`); for k = 3 and 4 many guesses. Then Levenberg-Marquardt
       on all moment equations, weighted by their covariance (`univariate`, `equations`).
    4. All d dimensions by linear algebra from moments along one direction, times coordinates
       (`reconstruction`). The pairing of components across directions follows from this.
    5. Steps 3 and 4 again in a plane (or, with many rows, a space of three dimensions) aimed at
       where the components differ.
    6. Where components look alike in every projection: cluster, whiten each cluster by itself, and
       start over within it (`hierarchy`).

    Kept of Moitra and Valiant (2010): isotropic position, projection, univariate moments, linear
    reconstruction, and the recursion that clusters and whitens again. Changed: directions are
    aimed instead of random, nearby ones are taken in the limit, test functions need not be
    polynomials, an optimiser takes the place of the search over a grid, and the likelihood of
    some rows decides between candidates. Not there: their schedules of parameters, their proofs
    and their guarantees. Theorem 6.5 is not claimed for this code. Privacy does not depend on it:
    fit i depends on block i alone.

    Examples
    --------
    >>> from privgmm.mixture import Mixture
    >>> truth = Mixture([0.4, 0.6], [[0.0, 0.0], [6.0, 0.0]], [np.eye(2), np.eye(2)])
    >>> fit = Moments(2, polish=0).fit(truth.sample(2000, rng=0), rng=0)
    >>> np.sort(fit.weights).round(1).tolist()
    [0.4, 0.6]
    """

    n_components: int
    _: dataclasses.KW_ONLY
    features: FeatureFamily = "fourier"
    polish: int | None = None
    tol: float = 1e-7

    def __post_init__(self) -> None:
        k = whole_number(self.n_components, "n_components", 1)
        object.__setattr__(self, "n_components", k)
        if k > MOST_COMPONENTS:
            raise InvalidInput(
                f"n_components must be at most {MOST_COMPONENTS} for the method of moments, "
                f"got {k}: use EM"
            )
        families = get_args(FeatureFamily)
        if self.features not in families:
            raise InvalidInput(
                f"features must be one of {', '.join(families)}, got {self.features!r}"
            )
        if self.polish is not None:
            object.__setattr__(self, "polish", whole_number(self.polish, "polish", 0))
        positive(self.tol, "tol", below=1.0)

    def fit_blocks_with_reasons(
        self, blocks: npt.ArrayLike, *, rng: BlockRandomness = None
    ) -> tuple[MixtureBatch, list[str]]:
        """Fit each block and give a reason per block: empty, or why it has no fit.

        The reasons are those of `EM.fit_blocks_with_reasons` and "moments fit no mixture",
        "weight at its floor", "moments too imprecise" (these for ``polish=0`` only) and "polish
        did not converge". They speak about the data and are CONFIDENTIAL.
        """
        rows = as_blocks(blocks)
        t, _, d = rows.shape
        k = self.n_components
        seeds = block_seeds(rng, t)
        weights, means = np.full((t, k), np.nan), np.full((t, k, d), np.nan)
        roots, reasons = np.full((t, k, d, d), np.nan), [""] * t
        # one block at a time: sums over many at once could round by which blocks are together
        with np.errstate(all="ignore"), one_blas_thread():
            for i in range(t):
                fit = self._fit_block(rows[i], int(seeds[i]))
                if isinstance(fit, str):
                    reasons[i] = fit
                else:
                    weights[i], means[i], roots[i] = fit.weights, fit.means, fit.roots
        ok = np.array([reason == "" for reason in reasons], dtype=bool)
        return MixtureBatch.from_cholesky(weights, means, roots, ok), reasons

    def remedy(self, reason: str) -> str:
        """Say what to do about one of the reasons."""
        return _REMEDIES[reason]

    def _fit_block(self, block: Array, seed: int) -> Polished | str:
        """Fit one block (s, d) in its own units, or say why there is no fit."""
        s, d = block.shape
        k = self.n_components
        parameters = k * (1 + d + d * (d + 1) // 2) - 1
        if s < max(d + 1, k * (d + 1)) or (k > 1 and s < _ROWS_A_PARAMETER * parameters):
            return "too few rows"
        rng = np.random.default_rng(seed)
        code, white = whitened(block, int(rng.integers(s)))
        if code != kernels.FITTED:
            return _WHITENING[code]
        if k == 1:
            return Polished(np.ones(1), white.mean[None], np.tril(white.root)[None], 0.0, True)
        if len(np.unique(white.rows, axis=0)) < k * (d + 1):
            return "component collapsed"
        found = estimate(white.rows, k, self.features, rng, thorough=self.polish is not None)
        if is_hidden(found[0], s):
            found.insert(0, deepest(white.rows, found[0], self.features, rng))
        fit = self._finished(white, found)
        if isinstance(fit, str):
            return fit
        return fit._replace(
            means=white.mean + fit.means @ white.root.T, roots=np.tril(white.root @ fit.roots)
        )

    def _finished(self, white: Whitened, candidates: list[Estimate]) -> Polished | str:
        """Return the first candidate as it is, or the best after a polish."""
        n, d = white.rows.shape
        if self.polish == 0:
            found = candidates[0]
            weights, means, covariances = found.parts
            roots = np.asarray(np.linalg.cholesky(covariances), dtype=np.float64)
            alone = (white.rows**2).sum(axis=1).max() > _ALONE * n
            if alone or np.diagonal(roots, axis1=1, axis2=2).min() < _THIN:
                return "component collapsed"
            if not found.positive or not found.misfit < _MISFIT:
                return "moments fit no mixture"
            if weights.min() < max(1e-3, (d + 1) / n):
                return "weight at its floor"
            if not found.error < _IMPRECISE:
                return "moments too imprecise"
            return Polished(weights, means, roots, 0.0, True)
        # A fixed number of passes is a finish to the moments; to convergence, they are a start.
        passes = _PASSES if self.polish is None else int(self.polish)
        fits = [
            polish(white, *found.parts, passes=passes, tol=float(self.tol))
            for found in (candidates if self.polish is None else candidates[:1])
        ]
        best = max(fits, key=lambda fit: fit.log_likelihood)
        if not np.isfinite(best.log_likelihood):
            return "component collapsed"
        if self.polish is None and not best.converged:
            return "polish did not converge"
        return best


def warm_moments() -> None:
    """Compile everything that `Moments` runs, or load it from the cache on disk."""
    rows = np.random.default_rng(0).standard_normal((1, 64, 2))
    Moments(2).fit_blocks(rows, rng=0)
