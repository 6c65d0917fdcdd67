"""Exact total variation and hockey-stick divergence between Gaussians, in any dimension.

`bounds` compares Theorem 1.8 with it, `parameters` builds the distance between mixtures of
Definition 1.4 from it, `mixture_variation` extends it to mixtures.
No sampling: each value is one contour integral (`contour`), good to about 1e-14.

Notes
-----
A pair is first brought to the form ``N(0, I)`` against ``N(m, diag(lam))`` by an affine map, under
which all these quantities are invariant. Two things keep the digits: the difference of the
covariances is formed before the change of coordinates, never after, so close pairs stay close; and
ill-conditioned covariances are mapped in double-double arithmetic.

The inputs are taken as exact. If they carry rounding errors of their own, those move the result by
about 1e-16 times the condition number of the covariance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, finite_array
from privgmm.distances.contour import (
    NotConverged,
    contour_hockey_stick,
    contour_overlap,
    whiten_twice,
)
from privgmm.errors import InvalidInput

__all__ = [
    "RelativeForm",
    "gaussian_hockey_stick",
    "gaussian_tv",
    "relative_form",
]

_ASYMMETRY = 1e-8  # of the scale of a covariance: what rounding leaves, and no more
_ILL = 1e-3  # ratio of eigenvalues below which whitening is done in double-double arithmetic
_CHUNK = 1 << 20  # matrix entries worked on at once: bounds memory, not results


class RelativeForm(NamedTuple):
    """The second Gaussian seen from the first, in coordinates where the first is ``N(0, I)``.

    Attributes
    ----------
    excess : array (..., d)
        Eigenvalues of ``S1^-½ S2 S1^-½ - I``, to full relative accuracy of the largest.
    eigenvalues : array (..., d)
        ``1 + excess``, kept apart because small ones must not be rebuilt by that sum.
    shift : array (..., d)
        ``S1^-½ (mu2 - mu1)`` along the eigenvectors.
    """

    excess: Array
    eigenvalues: Array
    shift: Array


def _gaussian(mean: npt.ArrayLike, cov: npt.ArrayLike, which: int) -> tuple[Array, Array]:
    """Check a mean (..., d) and a symmetric positive definite covariance (..., d, d)."""
    m = finite_array(mean, f"mean{which}")
    s = finite_array(cov, f"cov{which}")
    if m.ndim < 1 or m.shape[-1] == 0:
        raise InvalidInput(
            f"mean{which} must have shape (..., d) with d >= 1, got {m.shape}: "
            "write a one-dimensional mean as [mu]"
        )
    d = m.shape[-1]
    if s.ndim < 2 or s.shape[-2:] != (d, d):
        raise InvalidInput(f"cov{which} must have shape (..., {d}, {d}), got {s.shape}")
    diagonal = np.diagonal(s, axis1=-2, axis2=-1)
    if not (diagonal > 0).all():
        raise InvalidInput(
            f"cov{which} must be positive definite, but its diagonal holds {diagonal.min():g}"
        )
    spread = np.sqrt(diagonal)
    bound = _ASYMMETRY * spread[..., :, None] * spread[..., None, :]
    flipped = np.swapaxes(s, -1, -2)
    if (np.abs(s - flipped) > bound).any():
        raise InvalidInput(
            f"cov{which} must be symmetric (to 1e-8 of its scale): pass (S + S.T) / 2"
        )
    s = s / 2 + flipped / 2
    scale = _binary_scale(s)
    scaled = s * scale[..., :, None] * scale[..., None, :]
    try:
        pivots = np.diagonal(np.linalg.cholesky(scaled), axis1=-2, axis2=-1) ** 2
    except np.linalg.LinAlgError as problem:
        raise InvalidInput(
            f"cov{which} must be positive definite: it is flat or indefinite in some direction"
        ) from problem
    # A pivot is what is left of a variance once the coordinates before it are known.
    left = pivots / np.diagonal(scaled, axis1=-2, axis2=-1)
    if (left <= d * np.finfo(np.float64).eps).any():
        raise InvalidInput(
            f"cov{which} must be positive definite beyond rounding: one coordinate is a "
            f"combination of others to {left.min():.1e} of its variance"
        )
    return m, s


def _binary_scale(cov: Array) -> Array:
    """Return exact powers of two (..., d) that bring the diagonal near one."""
    exponent = np.frexp(np.diagonal(cov, axis1=-2, axis2=-1))[1]
    return np.asarray(np.ldexp(1.0, -(exponent // 2)), dtype=np.float64)


def _exact_difference(a: Array, b: Array) -> tuple[Array, Array]:
    """Compute ``a - b`` as a rounded value and its rounding error (Knuth)."""
    high = a - b
    part = high - a
    return high, (a - (high - part)) - (b + part)


def _conjugate(x: Array, a: Array) -> Array:
    product = x @ a @ np.swapaxes(x, -1, -2)
    return np.asarray((product + np.swapaxes(product, -1, -2)) / 2, dtype=np.float64)


def _whitener(cov: Array) -> Array:
    """Invert the lower Cholesky factor of `cov`; the inverse is lower triangular too."""
    return np.asarray(np.tril(np.linalg.inv(np.linalg.cholesky(cov))), dtype=np.float64)


def _reduce(mean1: Array, cov1: Array, mean2: Array, cov2: Array) -> RelativeForm:
    """Compute `relative_form` for a flat batch: means (n, d), covariances (n, d, d)."""
    scale = _binary_scale(cov1)
    square = scale[:, :, None] * scale[:, None, :]
    s1, s2 = cov1 * square, cov2 * square
    high, low = _exact_difference(s2, s1)
    shift_high, shift_low = _exact_difference(mean2 * scale, mean1 * scale)

    x = _whitener(s1)
    root = np.zeros_like(s1)
    shift = (x @ shift_high[:, :, None])[:, :, 0]
    excess, vectors = np.linalg.eigh(_conjugate(x, high))
    spectrum = np.linalg.eigvalsh(s1)
    ill = (spectrum[:, 0] < _ILL * spectrum[:, -1]) | (
        1 + excess[:, 0] < _ILL * (1 + excess[:, -1])
    )
    if ill.any():
        blank = np.zeros_like(s1[ill])
        first = np.stack([s1[ill], blank, blank, blank], axis=1)
        difference = np.stack([high[ill], low[ill], blank, blank], axis=1)
        factor = np.stack([blank, blank], axis=1)
        moved = np.stack([shift_high[ill], shift_low[ill]], axis=1)
        for arrays in zip(x[ill], first, difference, factor, moved, strict=True):
            whiten_twice(*arrays)
        roots = np.tril(factor[:, 0])
        if not np.isfinite(roots).all():
            raise InvalidInput("cov2 must be positive definite beyond rounding relative to cov1")
        again = _whitener(first[:, 0])
        excess[ill], vectors[ill] = np.linalg.eigh(_conjugate(again, difference[:, 0]))
        shift[ill] = (again @ moved[:, 0, :, None])[:, :, 0]
        root[ill] = again @ roots
    eigenvalues = 1 + excess
    far = np.abs(excess).max(axis=1) > 0.5
    if far.any():
        plain = far & ~ill
        root[plain] = x[plain] @ np.linalg.cholesky(s2[plain])
        vectors[far], sigma, _ = np.linalg.svd(root[far])
        eigenvalues[far] = sigma**2
        excess[far] = (sigma - 1) * (sigma + 1)
    return RelativeForm(excess, eigenvalues, (shift[:, None, :] @ vectors)[:, 0, :])


class _Pairs:
    """Pairs of checked Gaussians broadcast against each other, handed out in flat chunks."""

    def __init__(
        self,
        mean1: npt.ArrayLike,
        cov1: npt.ArrayLike,
        mean2: npt.ArrayLike,
        cov2: npt.ArrayLike,
        extra: Array | None = None,
    ) -> None:
        m1, s1 = _gaussian(mean1, cov1, 1)
        m2, s2 = _gaussian(mean2, cov2, 2)
        d = m1.shape[-1]
        if m2.shape[-1] != d:
            raise InvalidInput(
                f"mean2 must have as many coordinates as mean1 ({d}), got {m2.shape[-1]}"
            )
        leading = [m1.shape[:-1], s1.shape[:-2], m2.shape[:-1], s2.shape[:-2]]
        if extra is not None:
            leading.append(extra.shape)
        try:
            self.shape = np.broadcast_shapes(*leading)
        except ValueError as problem:
            raise InvalidInput(
                f"the leading shapes of mean1, cov1, mean2, cov2 must broadcast, got {leading}"
            ) from problem
        self.n_features = d
        self._grid = self.shape or (1,)
        self._arrays = (
            np.broadcast_to(m1, (*self._grid, d)),
            np.broadcast_to(s1, (*self._grid, d, d)),
            np.broadcast_to(m2, (*self._grid, d)),
            np.broadcast_to(s2, (*self._grid, d, d)),
        )

    def __len__(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def chunks(self) -> list[slice]:
        size = max(1, _CHUNK // self.n_features**2)
        return [slice(low, min(low + size, len(self))) for low in range(0, len(self), size)]

    def take(self, part: slice) -> tuple[Array, Array, Array, Array]:
        index = np.unravel_index(np.arange(part.start, part.stop), self._grid)
        m1, s1, m2, s2 = (array[index] for array in self._arrays)
        return m1, s1, m2, s2

    def shaped(self, flat: Array) -> float | Array:
        return float(flat[0]) if self.shape == () else flat.reshape(self.shape)


def _in_order(m1: Array, s1: Array, m2: Array, s2: Array) -> tuple[Array, Array, Array, Array]:
    """Order each pair independently of the caller's order, so that results are symmetric."""
    n = len(m1)
    step = np.concatenate([(s2 - s1).reshape(n, -1), m2 - m1], axis=1)
    first = (step != 0).argmax(axis=1)
    swap = step[np.arange(n), first] < 0
    v, a = swap[:, None], swap[:, None, None]
    return np.where(v, m2, m1), np.where(a, s2, s1), np.where(v, m1, m2), np.where(a, s1, s2)


def _check_panels(panels: npt.NDArray[np.int64]) -> None:
    if (panels < 0).any():
        raise NotConverged(
            f"the contour integral ran out of panels for {int((panels < 0).sum())} pairs: "
            "their covariances differ by more than floating point can resolve"
        )


def _overlap(pairs: _Pairs) -> tuple[Array, Array]:
    tv, log_overlap = np.empty(len(pairs)), np.empty(len(pairs))
    panels = np.empty(len(pairs), dtype=np.int64)
    for part in pairs.chunks():
        form = _reduce(*_in_order(*pairs.take(part)))
        contour_overlap(*_compiled_form(form), tv[part], log_overlap[part], panels[part])
    _check_panels(panels)
    return tv, log_overlap


def _compiled_form(form: RelativeForm) -> tuple[Array, Array, Array]:
    return (
        np.ascontiguousarray(form.excess),
        np.ascontiguousarray(form.eigenvalues),
        np.ascontiguousarray(form.shift**2),
    )


def gaussian_tv(
    mean1: npt.ArrayLike, cov1: npt.ArrayLike, mean2: npt.ArrayLike, cov2: npt.ArrayLike
) -> float | Array:
    """Compute the total variation ``½ ∫ |p1 - p2|`` between Gaussians (Definition 1.3).

    Parameters
    ----------
    mean1, mean2 : array-like (..., d)
    cov1, cov2 : array-like (..., d, d)
        Symmetric positive definite. Leading axes broadcast.

    Returns
    -------
    float or array (...)
        A float for a single pair. Exactly symmetric, and exactly 0 for equal Gaussians.

    Examples
    --------
    >>> round(gaussian_tv([0.0], [[1.0]], [1.0], [[1.0]]), 6)
    0.382925
    """
    pairs = _Pairs(mean1, cov1, mean2, cov2)
    return pairs.shaped(_overlap(pairs)[0])


def gaussian_hockey_stick(
    mean1: npt.ArrayLike,
    cov1: npt.ArrayLike,
    mean2: npt.ArrayLike,
    cov2: npt.ArrayLike,
    epsilon: npt.ArrayLike,
) -> float | Array:
    """Compute ``∫ max(p1 - e^epsilon p2, 0)``: the least delta for (epsilon, delta).

    Takes and broadcasts the arguments of `gaussian_tv`, and `epsilon` (...) of any sign. At
    epsilon 0 this is total variation. Small values keep their relative accuracy.

    Examples
    --------
    >>> round(gaussian_hockey_stick([0.0], [[1.0]], [1.0], [[1.0]], 1.0), 6)
    0.126937
    """
    level = finite_array(epsilon, "epsilon")
    pairs = _Pairs(mean1, cov1, mean2, cov2, level)
    eps = np.broadcast_to(level, pairs.shape).reshape(-1)
    value, panels = np.empty(len(pairs)), np.empty(len(pairs), dtype=np.int64)
    for part in pairs.chunks():
        m1, s1, m2, s2 = pairs.take(part)
        # ∫(p1 - e^eps p2)+ = 1 - e^eps + e^eps ∫(p2 - e^-eps p1)+ brings eps < 0 to eps > 0.
        back = eps[part] < 0
        v, a = back[:, None], back[:, None, None]
        form = _reduce(
            np.where(v, m2, m1), np.where(a, s2, s1), np.where(v, m1, m2), np.where(a, s1, s2)
        )
        magnitude = np.abs(eps[part])
        contour_hockey_stick(*_compiled_form(form), magnitude, value[part], panels[part])
        value[part] = np.where(
            back, -np.expm1(-magnitude) + np.exp(-magnitude) * value[part], value[part]
        )
    _check_panels(panels)
    return pairs.shaped(value)


def relative_form(
    mean1: npt.ArrayLike, cov1: npt.ArrayLike, mean2: npt.ArrayLike, cov2: npt.ArrayLike
) -> RelativeForm:
    """Express the second Gaussian relative to the first, for affine-invariant distances.

    Takes and broadcasts the arguments of `gaussian_tv`; each field has shape (..., d).

    Examples
    --------
    >>> relative_form([0.0], [[4.0]], [1.0], [[5.0]]).excess
    array([0.25])
    """
    pairs = _Pairs(mean1, cov1, mean2, cov2)
    d = pairs.n_features
    parts = [_reduce(*pairs.take(part)) for part in pairs.chunks()]
    if not parts:
        empty = np.empty((*pairs.shape, d))
        return RelativeForm(empty, empty, empty)
    return RelativeForm(
        *(np.concatenate(field).reshape(*pairs.shape, d) for field in zip(*parts, strict=True))
    )
