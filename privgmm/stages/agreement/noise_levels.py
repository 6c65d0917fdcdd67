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


@functools.lru_cache(maxsize=8)
def _gaussian_matrices(p: int) -> Array:
    draws = _LAW_DRAWS if p < _WIDE else _WIDE_NUMBERS // p
    return np.random.default_rng(6023).standard_normal((draws, p, p))


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
    """
    root = np.eye(p) + eta * _gaussian_matrices(p)
    # half the time of singular values; what squaring loses matters far below any quantile
    lam = np.maximum(np.linalg.eigvalsh(root @ root.transpose(0, 2, 1)), np.finfo(float).tiny)
    errors = error(lam)
    if p >= _WIDE:
        return float(errors.mean() + errors.std(ddof=1) * -scipy.special.ndtri(miss))
    return float(np.quantile(errors, 1 - miss))


def _eta_for(p: int, alpha: float, miss: float, error: _Error) -> float:
    """Find the eta whose mask stays within alpha except with probability `miss`."""
    # for small eta the error is 2 eta times a chi variable with p (p + 1) / 2 degrees
    guess = alpha / (2 * math.sqrt(scipy.special.chdtri(p * (p + 1) / 2, miss)))

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
