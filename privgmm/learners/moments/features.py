"""Test functions whose means a mixture is fitted to: Hermite polynomials, or cosines and sines.

The lowest floor of the learner `moments`. A family f_1 ... f_q of functions of a projection
``S = U^T x`` (m coordinates) offers three things: its means over rows, together with those of
``f_a(S)`` times other columns; its expectation under Gaussians, with two derivatives; and its
covariance under a mixture, by which residuals are weighted.

Notes
-----
For S ~ N(mu, Sigma) the derivatives of an expectation are expectations of derivatives:

    d E f / d mu = E grad f,        d E f / d Sigma = 1/2 E hess f.

Both families are closed under differentiation, so that one table of expectations holds all.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from privgmm.arrays import Array, IntArray

__all__ = ["Family", "FamilyExpectations", "Fourier", "Hermite", "fourier", "gathered", "hermite"]

_LOWEST = 0.1  # lowest frequency, which stands in for the mean and the variance
_SLICE = 65_536  # values of test functions worked on at once: they should stay in the cache


class FamilyExpectations(NamedTuple):
    """Hold expectations of a family under Gaussians of leading shape (...).

    Attributes
    ----------
    value : (..., q)
        E f_a.
    gradient : (..., q, m)
        E grad f_a.
    hessian : (..., q, m, m)
        E hess f_a.
    """

    value: Array
    gradient: Array
    hessian: Array


class Family(Protocol):
    """Functions f_1 ... f_q of m coordinates."""

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates m."""
        ...

    @property
    def n_functions(self) -> int:
        """Number of functions q."""
        ...

    def values(self, points: Array) -> Array:
        """Compute the values (n, q) at points (n, m)."""
        ...

    def expectations(self, means: Array, covariances: Array) -> FamilyExpectations:
        """Compute expectations under N(means, covariances), of shapes (..., m) and (..., m, m)."""
        ...

    def second_moments(self, weights: Array, means: Array, covariances: Array) -> Array:
        """Compute E f_a f_b, (..., q, q), under mixtures (..., k), (..., k, m), (..., k, m, m)."""
        ...


def gathered(family: Family, points: Array, columns: Array) -> Array:
    """Average ``f_a(S)`` times each column over the rows: (q, g) from (n, m) and (n, g)."""
    n = len(points)
    total = np.zeros((family.n_functions, columns.shape[1]))
    size = max(64, _SLICE // family.n_functions)
    for low in range(0, n, size):
        part = slice(low, low + size)
        total += family.values(points[part]).T @ columns[part]
    return total / n


class Fourier:
    """``cos(w . s)`` and ``sin(w . s)`` on frequencies w (p, m): q = 2 p, cosines first.

    Bounded, so that no outlier drowns the rest, and together they determine the distribution.
    The lowest frequencies stand in for the mean and the variance: without them a fit can alias.

    Parameters
    ----------
    rays : (r, m)
        Unit vectors.
    products : sequence of (int, int)
        The frequencies along each ray: the first is `_LOWEST`, and each entry adds one that is
        the sum of two before it. So one exponential per ray and row is enough; the others are
        products.
    """

    def __init__(self, rays: Array, products: Sequence[tuple[int, int]]) -> None:
        radii = [_LOWEST]
        for i, j in products:
            radii.append(radii[i] + radii[j])
        self.rays, self.products, self.radii = rays, tuple(products), np.array(radii)
        # frequencies of one radius after those of another, as `values` makes them
        spread = self.radii[:, None, None] * rays
        self.frequencies = spread.reshape(-1, rays.shape[1])
        self.outer = self.frequencies[:, :, None] * self.frequencies[:, None, :]

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates m."""
        return int(self.frequencies.shape[1])

    @property
    def n_functions(self) -> int:
        """Number of functions q."""
        return 2 * len(self.frequencies)

    def values(self, points: Array) -> Array:
        """Compute the values (n, q) at points (n, m)."""
        n, r = len(points), len(self.rays)
        turns = np.empty((len(self.radii), n, r), dtype=np.complex128)
        angle = points @ (_LOWEST * self.rays.T)
        turns[0].real, turns[0].imag = np.cos(angle), np.sin(angle)
        for at, (i, j) in enumerate(self.products, start=1):
            np.multiply(turns[i], turns[j], out=turns[at])
        out = np.empty((n, 2, len(self.radii), r))
        out[:, 0] = turns.real.transpose(1, 0, 2)
        out[:, 1] = turns.imag.transpose(1, 0, 2)
        return out.reshape(n, -1)

    def expectations(self, means: Array, covariances: Array) -> FamilyExpectations:
        """Compute expectations from the characteristic function ``exp(i w.mu - w.Sigma w / 2)``."""
        w, p = self.frequencies, len(self.frequencies)
        angle = means @ w.T
        size = _exp(-0.5 * np.einsum("...ab,pab->...p", covariances, self.outer))
        value = np.concatenate([size * np.cos(angle), size * np.sin(angle)], axis=-1)
        turned = np.concatenate([-value[..., p:], value[..., :p]], axis=-1)
        twice = np.concatenate([w, w])
        outer = np.concatenate([self.outer, self.outer])
        return FamilyExpectations(value, turned[..., None] * twice, -value[..., None, None] * outer)

    def second_moments(self, weights: Array, means: Array, covariances: Array) -> Array:
        """Compute second moments from the characteristic function at sums and differences."""
        w, p = self.frequencies, len(self.frequencies)
        angle = means @ w.T
        cross = np.einsum("pa,...ab,qb->...pq", w, covariances, w, optimize=True)
        own = 0.5 * np.diagonal(cross, axis1=-2, axis2=-1)
        both = own[..., :, None] + own[..., None, :]
        near = weights[..., None, None] * _exp(cross - both)
        far = weights[..., None, None] * _exp(-cross - both)
        c, s = np.cos(angle), np.sin(angle)
        cc, ss = c[..., :, None] * c[..., None, :], s[..., :, None] * s[..., None, :]
        sc, cs = s[..., :, None] * c[..., None, :], c[..., :, None] * s[..., None, :]
        even, odd = near * (cc + ss), far * (cc - ss)  # cosines of differences and of sums
        out = np.empty((*weights.shape[:-1], 2 * p, 2 * p))
        out[..., :p, :p] = 0.5 * (even + odd).sum(axis=-3)
        out[..., p:, p:] = 0.5 * (even - odd).sum(axis=-3)
        out[..., p:, :p] = 0.5 * (near * (sc - cs) + far * (sc + cs)).sum(axis=-3)
        out[..., :p, p:] = np.swapaxes(out[..., p:, :p], -1, -2)
        return out


def _exp(exponent: Array) -> Array:
    """Compute powers of e, and 0 below 1e-20: denormal arithmetic is a hundred times slower."""
    return np.asarray(np.where(exponent < -46.0, 0.0, np.exp(exponent)), dtype=np.float64)


class Hermite:
    """Products of normalised Hermite polynomials of total degree 1 to D: the moments to order D.

    ``h_n = He_n / sqrt(n!)`` is orthonormal under N(0, 1), and ``h_n' = sqrt(n) h_(n-1)``.

    Parameters
    ----------
    n_coordinates : int
        m.
    degree : int
        D.
    """

    def __init__(self, n_coordinates: int, degree: int) -> None:
        m = n_coordinates
        powers = [
            alpha
            for alpha in itertools.product(range(degree + 1), repeat=m)
            if sum(alpha) <= degree
        ]
        powers.sort(key=lambda alpha: (sum(alpha), alpha))
        place = {alpha: i for i, alpha in enumerate(powers)}
        self.degree = degree
        self.powers: IntArray = np.array(powers, dtype=np.int64).reshape(-1, m)
        # the function that a derivative leads to, and its factor; a power of 0 has factor 0
        self._down = np.zeros((len(powers), m), dtype=np.int64)
        for i, alpha in enumerate(powers):
            for c in range(m):
                below = (*alpha[:c], max(alpha[c] - 1, 0), *alpha[c + 1 :])
                self._down[i, c] = place[below]
        self._factor = np.sqrt(self.powers.astype(float))

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates m."""
        return int(self.powers.shape[1])

    @property
    def n_functions(self) -> int:
        """Number of functions q, without the constant."""
        return len(self.powers) - 1

    def _all(self, points: Array) -> Array:
        """Compute the values (..., q + 1) at points (..., m), the constant included."""
        table = np.empty((*points.shape, self.degree + 1))
        table[..., 0] = 1.0
        table[..., 1] = points
        for n in range(1, self.degree):
            table[..., n + 1] = (points * table[..., n] - np.sqrt(n) * table[..., n - 1]) / np.sqrt(
                n + 1
            )
        out = table[..., 0, :][..., self.powers[:, 0]]
        for c in range(1, self.n_coordinates):
            out = out * table[..., c, :][..., self.powers[:, c]]
        return out

    def values(self, points: Array) -> Array:
        """Compute the values (n, q) at points (n, m)."""
        return self._all(points)[:, 1:]

    def _expected(self, means: Array, covariances: Array, degree: int) -> tuple[Array, Array]:
        """Return nodes (..., nodes, m) and weights (nodes,), exact for polynomials to `degree`."""
        roots = np.linalg.cholesky(covariances)
        nodes, sizes = _quadrature(degree // 2 + 1, self.n_coordinates)
        return means[..., None, :] + np.einsum("...ab,nb->...na", roots, nodes), sizes

    def expectations(self, means: Array, covariances: Array) -> FamilyExpectations:
        """Compute expectations by Gauss-Hermite quadrature, exact for this degree."""
        nodes, sizes = self._expected(means, covariances, self.degree)
        table = np.einsum("...nq,n->...q", self._all(nodes), sizes)
        gradient = table[..., self._down] * self._factor
        second = gradient[..., self._down, :] * self._factor[..., None]
        return FamilyExpectations(table[..., 1:], gradient[..., 1:, :], second[..., 1:, :, :])

    def second_moments(self, weights: Array, means: Array, covariances: Array) -> Array:
        """Compute second moments by quadrature, exact for polynomials of twice the degree."""
        nodes, sizes = self._expected(means, covariances, 2 * self.degree)
        values = self._all(nodes)[..., 1:]
        scaled = values * (weights[..., None] * sizes)[..., None]
        return np.asarray((np.swapaxes(values, -1, -2) @ scaled).sum(axis=-3), dtype=np.float64)


@functools.cache
def _quadrature(count: int, m: int) -> tuple[Array, Array]:
    """Return nodes (count^m, m) and weights for the standard normal law in m dimensions."""
    x, sizes = np.polynomial.hermite_e.hermegauss(count)
    w = sizes / sizes.sum()
    nodes = np.array(list(itertools.product(x, repeat=m)))
    return nodes, np.array([float(np.prod(part)) for part in itertools.product(w, repeat=m)])


# 0.1 0.2 0.4 0.5 1 1.5 2 2.5 3.5 5
_COARSE = ((0, 0), (1, 1), (2, 0), (3, 3), (4, 3), (5, 3), (6, 3), (7, 4), (7, 7))
# 0.1 0.2 0.4, 0.8 1.2 ... 4.8, 6 9.2 13.2 18 24
_FINE = (
    (0, 0),
    (1, 1),
    *((i, 2) for i in range(2, 13)),
    (13, 4),
    (13, 12),
    (15, 11),
    (16, 13),
    (17, 14),
)


@functools.cache
def fourier(n_coordinates: int, fine: bool) -> Fourier:
    """Choose frequencies for projections of whitened rows, in units of one over their deviation.

    Rays over half the sphere, with radii 0.1 to 5, or to 24 if `fine`: with enough rows,
    components much thinner than the whole can be distinguished.
    """
    directions: Array
    if n_coordinates == 1:
        directions = np.ones((1, 1))
    elif n_coordinates == 2:
        angle = np.linspace(0.0, np.pi, 8 if fine else 5, endpoint=False)
        directions = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    else:
        # Axes of a cube, through its faces and edges (and corners): one of each pair of ends.
        # The first axis must be among them, being the one along which components differ most.
        ends = itertools.product((0, 1, -1), repeat=3)
        cube = [e for e in ends if next((x for x in e if x), 0) > 0 and (fine or 0 in e)]
        directions = np.array(cube, dtype=np.float64)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return Fourier(directions, _FINE if fine else _COARSE)


@functools.cache
def hermite(n_coordinates: int, n_components: int) -> Hermite:
    """Choose the moments that determine k components: to order 4 k - 2 along one direction.

    In a plane or a space lower orders are enough (2 k + 2), there being more of each.
    """
    degree = 4 * n_components - 2 if n_coordinates == 1 else 2 * n_components + 2
    return Hermite(n_coordinates, degree)
