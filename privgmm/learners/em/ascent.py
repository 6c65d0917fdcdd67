"""EM from a start to its optimum, with Anderson acceleration.

Repeats the pass over the rows of `privgmm.learners.kernels`; `seeding` chooses where to start.
Compiled; one block, in its whitened coordinates (layouts: `kernels`).
"""

from __future__ import annotations

import numpy as np

from privgmm.arrays import Array
from privgmm.learners.kernels import CHUNK, cholesky, compiled, e_and_m, merged

__all__ = ["accelerated_em"]

_HALF_LOG_2_PI = 0.9189385332046727  # ln(2 pi) / 2
_ROOT_HALF = 0.7071067811865476  # sqrt(1/2)
_PIVOT = 1e-13  # a component that loses this much variance in one step has collapsed
_THINNEST = 1e-9  # standard deviation of a component, in units of its block's
_WINDOW = 8  # steps that Anderson's combination looks back on


@compiled
def _invert(
    weights: Array, means: Array, roots: Array, inverse: Array, bias: Array, height: Array
) -> None:
    """Compute what `e_and_m` reads from a mixture."""
    k, d = means.shape
    for j in range(k):
        total = np.log(weights[j]) - _HALF_LOG_2_PI * d
        for a in range(d):
            pivot = roots[j, a, a]
            total -= np.log(pivot)
            shift = 0.0
            for b in range(a):
                dot = 0.0
                for c in range(b, a):
                    dot += roots[j, a, c] * inverse[j, c, b]
                inverse[j, a, b] = -dot / pivot
                shift -= inverse[j, a, b] * means[j, b]
            inverse[j, a, a] = 1.0 / pivot
            bias[j, a] = shift - means[j, a] / pivot
        height[j] = total


@compiled
def _m_step(
    n: int,
    counts: Array,
    first: Array,
    second: Array,
    inverse: Array,
    prior: float,
    weights: Array,
    means: Array,
    roots: Array,
) -> bool:
    """Make the M step in square-root form, in place; False when a component collapses.

    In the component's own whitened coordinates the new mean is ``m`` and the new covariance
    ``C``, so ``mu <- mu + L m`` and ``L <- L chol(C)``: nothing large is ever subtracted.
    """
    k, d = means.shape
    shape = k ** (-2.0 / d)
    step = np.empty(d)
    inner = np.empty((d, d))
    for j in range(k):
        count = counts[j]
        if not count + prior >= d + 1:
            return False
        for a in range(d):
            step[a] = first[j, a] / count
        for a in range(d):
            for b in range(a + 1):
                value = second[j, a, b] / count - step[a] * step[b]
                if prior > 0.0:
                    pull = 0.0
                    for c in range(b + 1):
                        pull += inverse[j, a, c] * inverse[j, b, c]
                    value = (count * value + prior * shape * pull) / (count + prior)
                inner[a, b] = value
        if not cholesky(inner, d, _PIVOT):
            return False
        for a in range(d - 1, -1, -1):
            total = means[j, a]
            for c in range(a + 1):
                total += roots[j, a, c] * step[c]
            means[j, a] = total
            for b in range(a + 1):
                total = 0.0
                for c in range(b, a + 1):
                    total += roots[j, a, c] * inner[c, b]
                roots[j, a, b] = total
            if not roots[j, a, a] > _THINNEST:
                return False
        weights[j] = count / n
    return True


@compiled
def _log_prior(prior: float, roots: Array, inverse: Array) -> float:
    """Compute the log density, up to a constant, of the prior that `_m_step` uses."""
    k, d = roots.shape[:2]
    total = 0.0
    for j in range(k):
        for a in range(d):
            total -= prior * np.log(roots[j, a, a])
            for b in range(a + 1):
                total -= 0.5 * prior * k ** (-2.0 / d) * inverse[j, a, b] ** 2
    return total


@compiled
def _copy(
    weights: Array, means: Array, roots: Array, weights1: Array, means1: Array, roots1: Array
) -> None:
    """Copy a mixture; plain loops compile in a tenth of the time that slices take."""
    k, d = means.shape
    for j in range(k):
        weights1[j] = weights[j]
        for a in range(d):
            means1[j, a] = means[j, a]
            for b in range(a + 1):
                roots1[j, a, b] = roots[j, a, b]


@compiled
def _encode(
    weights: Array,
    means: Array,
    roots: Array,
    frame: Array,
    means0: Array,
    roots0: Array,
    out: Array,
) -> None:
    """Encode a mixture as a vector z whose Euclidean length counts in standard errors.

    Relative to a frame mixture (w0, mu0, L0): ``ln w_j``, ``a_j = L0^-1 (mu_j - mu0)`` and
    ``A_j = L0^-1 Sigma_j L0^-T``, each scaled by the root of its Fisher information per row when
    the labels are known. Sums of such vectors with weights that add to one commute with every
    affine map of the data, and so does the length.
    """
    k, d = means.shape
    shift, relative = np.empty(d), np.empty((d, d))
    at = 0
    for j in range(k):
        scale = frame[j]
        out[at] = scale * np.log(weights[j])
        at += 1
        for a in range(d):
            total = means[j, a] - means0[j, a]
            for c in range(a):
                total -= roots0[j, a, c] * shift[c]
            shift[a] = total / roots0[j, a, a]
            out[at] = scale * shift[a]
            at += 1
            for b in range(a + 1):
                total = roots[j, a, b]
                for c in range(b, a):
                    total -= roots0[j, a, c] * relative[c, b]
                relative[a, b] = total / roots0[j, a, a]
            for b in range(a + 1):
                total = 0.0
                for c in range(b + 1):
                    total += relative[a, c] * relative[b, c]
                out[at] = scale * total * (_ROOT_HALF if a == b else 1.0)
                at += 1


@compiled
def _decode(
    z: Array, frame: Array, means0: Array, roots0: Array, weights: Array, means: Array, roots: Array
) -> bool:
    """Invert `_encode`; False when z encodes no mixture (a covariance is not positive)."""
    k, d = means.shape
    inner = np.empty((d, d))
    shift = np.empty(d)
    at = 0
    total_weight = 0.0
    for j in range(k):
        scale = frame[j]
        weights[j] = np.exp(min(z[at] / scale, 1.0))
        total_weight += weights[j]
        at += 1
        for a in range(d):
            shift[a] = z[at] / scale
            at += 1
            for b in range(a + 1):
                inner[a, b] = z[at] / scale / (_ROOT_HALF if a == b else 1.0)
                at += 1
        if not cholesky(inner, d, 1e-3):
            return False
        for a in range(d):
            total = means0[j, a]
            for c in range(a + 1):
                total += roots0[j, a, c] * shift[c]
            means[j, a] = total
            for b in range(a + 1):
                total = 0.0
                for c in range(b, a + 1):
                    total += roots0[j, a, c] * inner[c, b]
                roots[j, a, b] = total
            if not roots[j, a, a] > _THINNEST:
                return False
    for j in range(k):
        weights[j] /= total_weight
    return bool(np.isfinite(total_weight))


@compiled
def _combine(z: Array, g: Array, f: Array, dg: Array, df: Array, held: int) -> float:
    """Make Anderson's step in place of z; return the gain per row it promises, or NaN.

    With f = g - z the residual of the EM map at z, and the last `held` differences of g and f in
    the rows of dg and df: ``z <- g - gamma dG``, gamma minimising ``|f - gamma dF|``. In these
    coordinates n f is the gradient of the log-likelihood, so a Newton step v gains n f.v / 2.
    """
    size = z.shape[0]
    gram = np.empty((held, held))
    gamma = np.empty(held)
    for a in range(held):
        for b in range(a + 1):
            total = 0.0
            for i in range(size):
                total += df[a, i] * df[b, i]
            gram[a, b] = total
        # differences of successive steps may be parallel up to rounding
        gram[a, a] *= 1.0 + 1e-9
        total = 0.0
        for i in range(size):
            total += df[a, i] * f[i]
        gamma[a] = total
    if not cholesky(gram, held, 0.0):
        return np.nan
    for a in range(held):
        for b in range(a):
            gamma[a] -= gram[a, b] * gamma[b]
        gamma[a] /= gram[a, a]
    for a in range(held - 1, -1, -1):
        for b in range(a + 1, held):
            gamma[a] -= gram[b, a] * gamma[b]
        gamma[a] /= gram[a, a]
    promised = 0.0
    for i in range(size):
        total = g[i]
        for a in range(held):
            total -= gamma[a] * dg[a, i]
        promised += 0.5 * f[i] * (total - z[i])
        z[i] = total
    return promised


@compiled
def _misfit(n: int, d: int, weights: Array, counts: Array, first: Array, second: Array) -> float:
    """Measure how far the rows are from the fitted Gaussian components, in standard errors.

    Skewness and kurtosis of each component, rows weighted by their probability of belonging to
    it. With y whitened rows and q = |y|^2: the sums of ``q y`` have variance ``2 (d + 2)`` a
    row, and in ``T = sum of q y y^T - (d + 2) I`` the trace has ``8 d (d + 2)`` and the rest,
    squared and summed, ``4 (d + 4)`` per degree of freedom (contractions of Hermite tensors of
    order 3 and 4), a row counting ``r^2``. Together they are about chi-square when the rows come
    from the mixture fitted. Returned is the excess over its mean, in its standard deviations.
    """
    k = weights.shape[0]
    total = 0.0
    for j in range(k):
        trace, square = 0.0, 0.0
        for a in range(d):
            total += first[j, a] ** 2 / (2 * (d + 2) * counts[j])
            off = second[j, a, a] - (d + 2) * n * weights[j]
            trace += off
            square += off**2
            for b in range(a):
                square += 2.0 * second[j, a, b] ** 2
        total += trace**2 / (8 * d * (d + 2) * counts[j])
        total += (square - trace**2 / d) / (4 * (d + 4) * counts[j])
    freedom = k * d * (d + 3) // 2
    return float((total - freedom) / np.sqrt(2.0 * freedom))


@merged
def accelerated_em(
    points: Array,
    n: int,
    weights: Array,
    means: Array,
    roots: Array,
    plain: int,
    passes: int,
    tol: float,
    prior: float,
    trace: Array,
) -> float:
    """Run EM on the first n points, in place; return the log-likelihood, -inf after a collapse.

    The first `plain` passes are plain EM. From then on the next mixture is Anderson's
    combination of the last steps, dropped for the plain step whenever the likelihood fell: so
    the likelihood never falls by more than rounding (1e-3 tol n).

    Stops when three numbers, in nats per row, are below `tol`: the last gain, half the squared
    EM step in standard errors, and the gain that Anderson's model still promises. The first two
    alone stop early wherever components overlap and EM creeps.

    With `passes` 0 nothing moves, and what is returned is how far the rows are from Gaussian
    components (`_misfit`): a mode of this function, since a second call of the sweep would cost
    seconds of compilation.

    Parameters
    ----------
    prior : float
        Rows of a prior that pulls every covariance towards ``k^(-2/d) I``, the block's own
        covariance shared out by volume (Fraley and Raftery, 2007). The objective is then the
        log posterior.
    trace : (any,)
        Receives the objective at each accepted pass, as far as there is room.
    """
    k, d = means.shape
    p = points.shape[1]
    size = k * (1 + d + d * (d + 1) // 2)
    y, r = np.empty((k + 1, p, CHUNK)), np.empty((k, CHUNK))
    top, share = np.empty(CHUNK), np.empty(CHUNK)
    counts, first, second = np.empty(k), np.empty((k, p)), np.empty((k, p, p))
    inverse, bias, height = np.zeros((k, p, p)), np.zeros((k, p)), np.empty(k)
    # The frame of the coordinates z, and the plain step to fall back on.
    frame, means0, roots0 = np.empty(k), np.empty((k, d)), np.empty((k, d, d))
    weights1, means1, roots1 = np.empty(k), np.empty((k, d)), np.empty((k, d, d))
    z, g, f = np.empty(size), np.empty(size), np.empty(size)
    dg, df = np.empty((_WINDOW, size)), np.empty((_WINDOW, size))
    # differences held (-1: z has no frame yet), where the next one goes, passes accepted
    held, slot, accepted = -1, 0, 0
    mixed = False
    best = -np.inf
    judged = passes == 0
    for _ in range(max(passes, 1)):
        _invert(weights, means, roots, inverse, bias, height)
        now = e_and_m(
            points, n, inverse, bias, height, y, r, top, share, counts, first, second, judged
        )
        if judged:
            return float(_misfit(n, d, weights, counts, first, second))
        if prior > 0.0:
            now += _log_prior(prior, roots, inverse)
        # written so that NaN counts as a fall
        fell = mixed and not now >= best - 1e-3 * tol * n
        if not fell:
            if held < 0 and plain <= 0:
                _copy(weights, means, roots, frame, means0, roots0)
                for j in range(k):
                    frame[j] = np.sqrt(frame[j])
                _encode(weights, means, roots, frame, means0, roots0, z)
            stepped = _m_step(n, counts, first, second, inverse, prior, weights, means, roots)
            if not (stepped or mixed):
                return -np.inf
            fell = not stepped
        if fell:
            _copy(weights1, means1, roots1, weights, means, roots)
            mixed, held, plain = False, -1, 1
            continue
        gain = now - best
        best = now
        if accepted < trace.shape[0]:
            trace[accepted] = now
        accepted += 1
        mixed = False
        if plain > 0:
            plain -= 1
            continue
        # differences of successive g and f are made in place: minus the old, later plus the new
        for i in range(size):
            dg[slot, i], df[slot, i] = -g[i], -f[i]
        _encode(weights, means, roots, frame, means0, roots0, g)
        step = 0.0
        for i in range(size):
            f[i] = g[i] - z[i]
            step += f[i] * f[i]
        if held < 0:
            held, slot = 0, 0
            for i in range(size):
                z[i] = g[i]
            if step < 1e-4 * tol:
                return float(best)
            continue
        for i in range(size):
            dg[slot, i] += g[i]
            df[slot, i] += f[i]
        slot = (slot + 1) % _WINDOW
        held = min(held + 1, _WINDOW)
        promised = _combine(z, g, f, dg, df, held)
        if gain < tol * n and step < 2.0 * tol and abs(promised) < tol:
            return float(best)
        _copy(weights, means, roots, weights1, means1, roots1)
        mixed = np.isfinite(promised) and _decode(z, frame, means0, roots0, weights, means, roots)
        if not mixed:
            _copy(weights1, means1, roots1, weights, means, roots)
            held, plain = -1, 1
    return float(best)
