"""One set of whitened rows into a mixture, by moments alone.

Puts together `projections`, `univariate`, `equations` and `reconstruction`; below `hierarchy`
and `moments`. Directions first; along each the mixture on a line; from each line a mixture in
all dimensions; then planes aimed at where the best of those differ, and the equations again.
The likelihood of a subsample decides between candidates, and nothing else.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.special import logsumexp

from privgmm.arrays import Array
from privgmm.learners.moments.equations import MixtureParts, imprecision, match_moments, weighting
from privgmm.learners.moments.features import Family, fourier, hermite
from privgmm.learners.moments.projections import aim, completed, non_gaussian_directions
from privgmm.learners.moments.reconstruction import Gathered, gather, reconstruct
from privgmm.learners.moments.univariate import fit_lines

__all__ = ["Estimate", "FeatureFamily", "estimate", "log_joint", "mean_log_density"]

FeatureFamily = Literal["fourier", "hermite"]

_SCREENED = 20_000  # rows that candidates are compared on before all rows are used
_SCORED = 20_000  # rows whose likelihood decides
_LARGE = 5_000  # rows from which on thoroughness pays
_FLOOR = 0.01  # variance given to a component that came out flat
_THINNEST = 2e-6  # variance, the whole having 1, that does not count as positive
_RUNNERS = 4  # candidates handed on, each of which may be polished by EM
_SAME = 2e-3  # nats per row: fits whose scores are closer count as one
_WORSE = 0.005  # nats per row that an aimed fit may cost before it is not believed


class Estimate(NamedTuple):
    """A mixture in whitened coordinates and what is known of its quality.

    Attributes
    ----------
    parts : MixtureParts
        Weights (k,), means (k, d), covariances (k, d, d), positive definite.
    positive : bool
        Whether the covariances came out positive definite, or had to be made so.
    score : float
        Mean log density over some rows, a constant left out.
    misfit : float
        Chi-square of the moment equations per degree of freedom: near 1 for a right fit.
    error : float
        Largest predicted standard error within the projection, in units of the components.
    """

    parts: MixtureParts
    positive: bool
    score: float
    misfit: float
    error: float


def estimate(
    rows: Array,
    n_components: int,
    features: FeatureFamily,
    rng: np.random.Generator,
    *,
    thorough: bool = True,
) -> list[Estimate]:
    """Fit k components to whitened rows (n, d) by moments: the estimate, then runners-up.

    Without `thorough`, few rows are given fewer rounds: enough for starts that EM takes up.
    """
    n, d = rows.shape
    k = n_components
    if k == 1:
        one = MixtureParts(np.ones(1), np.zeros((1, d)), np.eye(d)[None])
        return [Estimate(one, True, mean_log_density(rows[:_SCORED], one), 1.0, 0.0)]
    large = n >= _LARGE
    thorough = thorough or large
    screened, scored = rows[:_SCREENED], rows[:_SCORED]
    line = _family(features, 1, k, len(screened))
    u = non_gaussian_directions(rows, 4 if k == 2 and not large else 6, rng)
    fits = fit_lines(line, screened @ u, k, rng, keep=2 if large or k > 2 else 1, many=large)
    seen = [gather(line, screened, completed(direction)) for direction in u.T]
    whole = [
        _seen(line, seen[c], scored, fits.parts.at(i), float(fits.criterion[i]))
        for i, c in enumerate(fits.direction.tolist())
    ]
    whole.sort(key=lambda fit: -fit.score)
    if d == 1:
        best = _aimed(line, rows, scored, whole[0]) if n > len(screened) else whole[0]
        return _distinct([best, *whole])
    m = min(d, 3 if k == 4 and features == "fourier" else 2)
    plane = _family(features, m, k, len(screened))
    planes = [
        _aimed(plane, screened, scored, fit)
        for fit in whole[: 3 if large else 2 if thorough else 1]
    ]
    best = max(planes, key=lambda fit: fit.score)
    if whole[0].score > best.score + _WORSE:
        best = whole[0]
    for _ in range(2 if large else int(thorough)):
        again = _aimed(plane, rows, scored, best)
        if again.score < best.score - _WORSE:
            break
        best = again
    if large and d > m == 2:
        # A space holds more of what the rows know than a plane, but its frequencies lie thinner.
        space = _family(features, 3, k, len(screened))
        for _ in range(2):
            wider = _aimed(space, rows, scored, best)
            if not wider.score > best.score:
                break
            best = wider
    return _distinct([best, *sorted(planes + whole, key=lambda fit: -fit.score)])


def _distinct(fits: list[Estimate]) -> list[Estimate]:
    """Keep the first fit, and the next few whose scores differ."""
    kept: list[Estimate] = []
    for fit in fits:
        if len(kept) < _RUNNERS and all(abs(fit.score - one.score) > _SAME for one in kept):
            kept.append(fit)
    return kept


def _family(features: FeatureFamily, m: int, k: int, n: int) -> Family:
    return fourier(m, n >= _LARGE) if features == "fourier" else hermite(m, k)


def _aimed(family: Family, rows: Array, scored: Array, before: Estimate) -> Estimate:
    """Solve again where the components of a fit differ most, starting from that fit."""
    m = family.n_coordinates
    seen = gather(family, rows, aim(before.parts))
    u = seen.basis[:, :m]
    w, means, covariances = before.parts
    parts = MixtureParts(w, means @ u, u.T @ covariances @ u)
    for _ in range(2):
        factor = weighting(family, parts).factor
        found, criterion = match_moments(
            family, seen.target, factor, parts.at(None), seen.n_rows, steps=12
        )
        parts = found.at(0)
    return _seen(family, seen, scored, parts, float(criterion[0]))


def _seen(
    family: Family, seen: Gathered, scored: Array, parts: MixtureParts, criterion: float
) -> Estimate:
    """Extend a fit in a projection to all dimensions and measure its quality."""
    k, m = parts.means.shape
    weights = weighting(family, parts)
    full, positive = _made_positive(reconstruct(family, seen, parts, weights))
    unknowns = k * (1 + m + m * (m + 1) // 2) - 1
    freedom = max(float(weights.rank) - unknowns, 1.0)
    return Estimate(
        full,
        positive,
        mean_log_density(scored, full),
        criterion / freedom,
        imprecision(family, weights.factor, parts, seen.n_rows),
    )


def _made_positive(parts: MixtureParts) -> tuple[MixtureParts, bool]:
    """Make covariances positive definite; return whether they already were."""
    values, vectors = np.linalg.eigh(parts.covariances)
    flat = values <= _THINNEST
    if not flat.any():
        return parts, True
    values = np.where(flat, _FLOOR, values)
    covariances = (vectors * values[:, None, :]) @ vectors.swapaxes(1, 2)
    return parts._replace(covariances=(covariances + covariances.swapaxes(1, 2)) / 2), False


def mean_log_density(rows: Array, parts: MixtureParts) -> float:
    """Average the log density over rows (n, d), without the ``d ln(2 pi) / 2``."""
    joint = log_joint(rows, parts)
    return float(logsumexp(joint, axis=0).mean())


def log_joint(rows: Array, parts: MixtureParts) -> Array:
    """Compute the log of weight times density of each component, (k, n), without the constant."""
    roots = np.linalg.cholesky(parts.covariances)
    inverses = np.linalg.inv(roots)
    joint = np.empty((len(roots), len(rows)))
    for j, inverse in enumerate(inverses):
        y = (rows - parts.means[j]) @ inverse.T
        height = np.log(parts.weights[j]) - np.log(np.diagonal(roots[j])).sum()
        joint[j] = height - 0.5 * np.einsum("na,na->n", y, y)
    return joint
