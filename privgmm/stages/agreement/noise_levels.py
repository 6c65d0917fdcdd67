"""Choose noise levels for a wanted accuracy, by quantiles of how far a mask moves its input."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import scipy

from privgmm.arrays import Array

__all__ = ["covariance_eta", "lifted_eta"]

_LAW_DRAWS = 6_000
"""Choice: an error in eta changes accuracy, which is announced, and never the price."""
_WIDE, _WIDE_NUMBERS = 17, 400 * 17
"""From this many dimensions on the error is close to normal, and mean and deviation of few draws
give its quantile: the more dimensions, the less it scatters, and the fewer draws are enough."""
_FIRST_LOOK = 1 / 16
"""Share of the draws, the largest first, whose errors are computed first; measured: mostly enough
for a mask that is fine."""


@functools.lru_cache(maxsize=8)
def _gaussian_matrices(p: int) -> tuple[Array, Array]:
    """Draw matrices G (n, p, p), the largest first, and their Frobenius norms (n,)."""
    draws = _LAW_DRAWS if p < _WIDE else _WIDE_NUMBERS // p
    matrices = np.random.default_rng(6023).standard_normal((draws, p, p))
    norms = np.linalg.norm(matrices, axis=(1, 2))
    # a mean of all of them is taken in the order in which they were drawn
    order = np.argsort(-norms) if p < _WIDE else np.arange(draws)
    return matrices[order], norms[order]


_Error = Callable[[Array], Array]
"""The error of ``P = (I + eta G)(I + eta G)^T``, from its eigenvalues (n, p)."""


def _lifted_error(lam: Array) -> Array:
    """Compute ``||ln eig P||``."""
    return np.asarray(np.linalg.norm(np.log(lam), axis=1))


def _paper_error(lam: Array) -> Array:
    """Compute ``max(||P - I||_F, ||P^-1 - I||_F)``."""
    return np.asarray(
        np.maximum(np.linalg.norm(lam - 1, axis=1), np.linalg.norm(1 / lam - 1, axis=1))
    )


def _mask_quantile(p: int, eta: float, miss: float, error: _Error) -> float:
    """Estimate the error of P, G p x p, that is exceeded with chance `miss`.

    From a fixed set of draws, so that the same eta gives the same answer.

    Notes
    -----
    Only the largest errors matter. Let x be eta times the Frobenius norm of G. By Mirsky's theorem
    the singular values s of ``I + eta G`` satisfy ``sum (s - 1)^2 <= x^2``; so either error is at
    most ``x (2 + x) / (1 - x)^2`` if x < 1. Draws whose bound is below the quantile of the others
    are not looked at.
    """
    matrices, norms = _gaussian_matrices(p)
    if p >= _WIDE:
        errors = _errors(matrices, eta, error)
        return float(errors.mean() + errors.std(ddof=1) * -scipy.special.ndtri(miss))
    errors, known, seen = np.zeros(len(norms)), 0, math.ceil(_FIRST_LOOK * len(norms))
    while True:
        errors[known:seen] = _errors(matrices[known:seen], eta, error)
        x = eta * norms[seen] if seen < len(norms) else 0.0
        others = x * (2 + x) / (1 - x) ** 2 if x < 1 else math.inf
        # a margin far above the rounding of a float
        if others <= float(np.quantile(errors, 1 - miss, method="lower")) * (1 - 1e-9):
            return float(np.quantile(errors, 1 - miss))
        known, seen = seen, min(2 * seen, len(norms))


def _errors(matrices: Array, eta: float, error: _Error) -> Array:
    """Compute the errors (n,) of masks with these draws G (n, p, p)."""
    root = np.eye(matrices.shape[1]) + eta * matrices
    # half the time of singular values; what squaring loses matters far below any quantile
    lam = np.maximum(np.linalg.eigvalsh(root @ root.transpose(0, 2, 1)), np.finfo(float).tiny)
    return error(lam)


def _eta_for(p: int, alpha: float, miss: float, error: _Error) -> float:
    """Find the eta whose mask stays within alpha except with probability `miss`."""
    # for small eta the error is 2 eta times a chi variable with p (p + 1) / 2 degrees
    guess = alpha / (2 * math.sqrt(scipy.special.chdtri(p * (p + 1) / 2, miss)))

    # the ends of the interval are asked for again by the root finder
    @functools.cache
    def excess(log_eta: float) -> float:
        return math.log(_mask_quantile(p, math.exp(log_eta), miss, error) / alpha)

    low, high = math.log(guess) - 0.1, math.log(guess) + 0.1
    while excess(low) > 0:
        low -= 0.5
    while excess(high) < 0:
        high += 0.2
    return math.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-4))


@functools.lru_cache(maxsize=512)
def lifted_eta(n_features: int, alpha: float, miss: float) -> float:
    """Find eta: a masked lifted component is within alpha except with probability `miss`."""
    return _eta_for(n_features + 1, alpha, miss, _lifted_error)


@functools.lru_cache(maxsize=512)
def covariance_eta(n_features: int, alpha: float, miss: float) -> float:
    """Find eta: R_Cov is within alpha, in both norms of dist_Cov, except with chance `miss`."""
    return _eta_for(n_features, alpha, miss, _paper_error)
