"""Write mixtures as free numbers, and say which of them a covariance type leaves free.

A fit moves theta (k, 1 + d + d (d + 1) / 2), one component per row: log-weight, mean, and the lower
Cholesky factor row by row with the logarithm of its diagonal, all in frame coordinates. A
covariance type is a statement about the columns of the data, not about the frame: a `Structure`
says which mixtures it allows, how they can move, and which of them is nearest to any other.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import ClassVar, NamedTuple

import numpy as np

from privgmm.arrays import Array, BoolArray
from privgmm.covariance_structures import CovarianceStructure, covariance_structure
from privgmm.mixture import Mixture, cholesky_of_root
from privgmm.stages.sketch import kernels
from privgmm.stages.sketch.frame import Frame

__all__ = [
    "FULL",
    "NARROWEST",
    "MixtureArrays",
    "Structure",
    "local_slopes",
    "numbers_per_component",
    "pack",
    "structure_of",
    "unpack",
    "widened_roots",
]

NARROWEST = 0.01
"""Choice: least standard deviation of a component in any direction, in units of the frame."""


class MixtureArrays(NamedTuple):
    """A mixture as plain arrays, writable, as the kernels take them."""

    weights: Array
    means: Array
    roots: Array


def numbers_per_component(d: int) -> int:
    """Return ``1 + d + d (d + 1) / 2``: a weight, a mean and a covariance."""
    return 1 + d + d * (d + 1) // 2


def pack(weights: Array, means: Array, roots: Array) -> Array:
    """Turn a mixture, given by lower Cholesky factors, into free parameters theta."""
    row, column = np.tril_indices(means.shape[1])
    lower = roots[:, row, column].copy()
    lower[:, row == column] = np.log(lower[:, row == column])
    logs = np.log(np.maximum(weights, 1e-12))
    return np.concatenate([(logs - logs.mean())[:, None], means, lower], axis=1)


def unpack(theta: Array, d: int) -> MixtureArrays:
    """Turn theta into the arrays of the mixture that it stands for."""
    k = len(theta)
    parts = MixtureArrays(np.empty(k), np.empty((k, d)), np.empty((k, d, d)))
    kernels.unpack_into(theta, *parts)
    return parts


def local_slopes(roots: Array) -> Array:
    """Differentiate the parameters in local coordinates (P, P).

    Notes
    -----
    A covariance ``L exp(M) L'`` has, to first order in M, the Cholesky factor ``L + L H``, where
    H is the lower half of M with half its diagonal.
    """
    k, d, _ = roots.shape
    size = numbers_per_component(d)
    upper_row, upper_column = np.triu_indices(d)
    row, column = np.tril_indices(d)
    halves = np.zeros((len(upper_row), d, d))
    entry = np.where(upper_row == upper_column, 0.5, math.sqrt(0.5))
    halves[np.arange(len(upper_row)), upper_column, upper_row] = entry
    out = np.zeros((k * size, k * size))
    for c in range(k):
        at = c * size
        out[at, at] = 1.0
        out[at + 1 : at + 1 + d, at + 1 : at + 1 + d] = roots[c]
        moved = (roots[c] @ halves)[:, row, column]
        moved[:, row == column] /= np.diagonal(roots[c])
        out[at + 1 + d : at + size, at + 1 + d : at + size] = moved.T
    return out


# -------------------------------------------------------------------------- covariance types


_FITTED: dict[str, type[Structure]] = {}


class Structure(abc.ABC):
    """How mixtures of one covariance structure are fitted: which are allowed, how they move.

    A subclass names its structure: ``class Mine(Structure, fits="mine")``.
    """

    fits: ClassVar[str]
    """The name of the structure."""

    def __init_subclass__(cls, fits: str = "") -> None:
        if fits:
            cls.fits = fits
            _FITTED[fits] = cls

    @classmethod
    def in_frame(cls, frame: Frame) -> Structure:  # noqa: ARG003 - most are alike in all frames
        """Return the structure for mixtures in the coordinates of a frame."""
        return cls()

    @property
    def described(self) -> CovarianceStructure:
        """The structure in words and counts."""
        return covariance_structure(self.fits)

    def n_free(self, k: int, d: int) -> int:
        """Count the free numbers of k components, the common shift of log-weights included."""
        return k * (1 + d) + self.described.n_parameters(k, d)

    @abc.abstractmethod
    def nearest(self, theta: Array, d: int) -> Array:
        """Return an allowed mixture with these weights and means, its covariances made to fit."""

    @abc.abstractmethod
    def moved(self, theta: Array, step: Array, d: int) -> Array:
        """Move an allowed mixture by a step (F,) in the free numbers."""

    @abc.abstractmethod
    def tangent(self, theta: Array, d: int) -> Array | None:
        """Differentiate theta in the free numbers (P, F); None where they are theta itself."""

    def made_exact(self, mixture: Mixture) -> Mixture:
        """Remove from a mixture in data units the rounding errors of changing units."""
        return mixture

    @abc.abstractmethod
    def widened(self, theta: Array, d: int) -> tuple[Array, BoolArray]:
        """Widen components narrower than `NARROWEST`; also returns which (k,) changed."""


def widened_roots(roots: Array) -> tuple[Array, BoolArray]:
    """Widen lower roots (k, d, d) to widths of `NARROWEST`; also returns which (k,) changed."""
    axes, widths, _ = np.linalg.svd(roots)
    narrow: BoolArray = np.asarray((widths < NARROWEST).any(axis=1))
    wide = roots.copy()
    if narrow.any():
        stretched = axes * np.maximum(widths, NARROWEST)[:, None, :]
        wide[narrow] = cholesky_of_root(stretched[narrow])
    return wide, narrow


class _Full(Structure, fits="full"):
    """Any covariance for any component."""

    def nearest(self, theta: Array, d: int) -> Array:  # noqa: ARG002 - all are allowed
        return theta

    def moved(self, theta: Array, step: Array, d: int) -> Array:  # noqa: ARG002 - see above
        return np.asarray(theta + step.reshape(theta.shape))

    def tangent(self, theta: Array, d: int) -> Array | None:  # noqa: ARG002 - see above
        return None

    def widened(self, theta: Array, d: int) -> tuple[Array, BoolArray]:
        weights, means, roots = unpack(theta, d)
        wide, narrow = widened_roots(roots)
        return (pack(weights, means, wide) if narrow.any() else theta), narrow


FULL: Structure = _Full()


class _Tied(Structure, fits="tied"):
    """One covariance for all components, in any coordinates, so the frame does not matter."""

    def nearest(self, theta: Array, d: int) -> Array:
        weights, means, roots = unpack(theta, d)
        # roots next to each other, not a sum of covariances: nothing is squared
        joined = np.concatenate(list(np.sqrt(weights)[:, None, None] * roots), axis=1)
        return pack(weights, means, np.broadcast_to(cholesky_of_root(joined), roots.shape))

    def moved(self, theta: Array, step: Array, d: int) -> Array:
        k = len(theta)
        own = step[: k * (1 + d)].reshape(k, 1 + d)
        shared = np.tile(step[k * (1 + d) :], (k, 1))
        return np.asarray(theta + np.concatenate([own, shared], axis=1))

    def tangent(self, theta: Array, d: int) -> Array | None:
        k, size = theta.shape
        out = np.zeros((k, size, self.n_free(k, d)))
        for c in range(k):
            out[c, : 1 + d, c * (1 + d) : (c + 1) * (1 + d)] = np.eye(1 + d)
            out[c, 1 + d :, k * (1 + d) :] = np.eye(size - 1 - d)
        return out.reshape(k * size, -1)

    def widened(self, theta: Array, d: int) -> tuple[Array, BoolArray]:
        return FULL.widened(theta, d)


@dataclasses.dataclass(frozen=True)
class _Axes(Structure):
    """Covariances without correlation between the columns of the data.

    Their variances in data units are free, column by column or, if round, all of a component
    together. A covariance in the frame is ``W diag(v) W'``, W the inverse of the frame's root.
    """

    frame: Frame

    @classmethod
    def in_frame(cls, frame: Frame) -> Structure:
        return cls(frame)

    @property
    def _round(self) -> bool:
        return False

    def _variances(self, roots: Array) -> Array:
        """Compute the columns' variances (k, d), in units of the frame's extent along them."""
        along = (self.frame.root @ roots) / self._extents[:, None]
        return np.asarray(np.einsum("kij,kij->ki", along, along))

    @property
    def _extents(self) -> Array:
        """Standard deviation (d,) of each column of the data in a cloud as wide as the frame."""
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", self.frame.root, self.frame.root)))

    def _rounded(self, variances: Array) -> Array:
        """Make variances (k, d) equal in data units, if they have to be."""
        if not self._round:
            return variances
        squares = (self._extents / self._extents.max()) ** 2
        level = (variances * squares).mean(axis=1, keepdims=True)
        return np.asarray(level / squares)

    def _built(self, theta: Array, variances: Array, d: int) -> Array:
        parts = unpack(theta, d)
        roots = (self.frame.inverse * self._extents) * np.sqrt(variances)[:, None, :]
        built = theta.copy()
        built[:, 1 + d :] = pack(parts.weights, parts.means, cholesky_of_root(roots))[:, 1 + d :]
        return built

    def nearest(self, theta: Array, d: int) -> Array:
        return self._built(theta, self._rounded(self._variances(unpack(theta, d).roots)), d)

    def moved(self, theta: Array, step: Array, d: int) -> Array:
        k = len(theta)
        each = step.reshape(k, -1)
        logs = np.clip(each[:, 1 + d :], -20.0, 20.0)
        variances = self._variances(unpack(theta, d).roots) * np.exp(logs)
        moved = theta.copy()
        moved[:, : 1 + d] += each[:, : 1 + d]
        return self._built(moved, variances, d)

    def made_exact(self, mixture: Mixture) -> Mixture:
        """Set zeros off the diagonals, and one number on them if round."""
        widths = np.sqrt(np.diagonal(mixture.covariances, axis1=1, axis2=2))
        if self._round:
            widths = np.broadcast_to(widths.mean(axis=1, keepdims=True), widths.shape)
        roots = widths[:, :, None] * np.eye(mixture.n_features)
        return Mixture.from_roots(mixture.weights, mixture.means, roots)

    def tangent(self, theta: Array, d: int) -> Array | None:
        k, size = theta.shape
        parts = unpack(theta, d)
        variances = self._variances(parts.roots)
        row, column = np.triu_indices(d)
        root_two = np.where(row == column, 1.0, math.sqrt(2))
        free = self.n_free(k, d) // k
        out = np.zeros((k, size, k, free))
        for c in range(k):
            out[c, : 1 + d, c, : 1 + d] = np.eye(1 + d)
            # one column's variance grows: M = v b b', b the column's direction in own units
            b = np.linalg.solve(parts.roots[c], self.frame.inverse * self._extents)
            b = b * np.sqrt(variances[c])
            logs = b[row] * b[column] * root_two[:, None]
            to_theta = local_slopes(parts.roots[c : c + 1])[1 + d :, 1 + d :]
            grown = to_theta @ logs
            out[c, 1 + d :, c, 1 + d :] = grown.sum(axis=1, keepdims=True) if self._round else grown
        return out.reshape(k * size, k * free)

    def widened(self, theta: Array, d: int) -> tuple[Array, BoolArray]:
        variances = self._variances(unpack(theta, d).roots)
        narrow: BoolArray = np.asarray((variances < NARROWEST**2).any(axis=1))
        if not narrow.any():
            return theta, narrow
        if self._round:
            squares = (self._extents / self._extents.min()) ** 2
            least = np.maximum(variances, NARROWEST**2 / squares)
            narrow = np.asarray((least > variances).any(axis=1))
        else:
            least = np.maximum(variances, NARROWEST**2)
        return (self._built(theta, least, d), narrow) if narrow.any() else (theta, narrow)


class _Diagonal(_Axes, fits="diag"):
    """Each column of the data has its own variance, and no two are correlated."""


class _Spherical(_Axes, fits="spherical"):
    """One variance per component, the same for all columns of the data."""

    @property
    def _round(self) -> bool:
        return True


def structure_of(covariance_type: str, frame: Frame) -> Structure:
    """Return how a structure, named as in scikit-learn, is fitted in a frame."""
    return _FITTED[covariance_structure(covariance_type).name].in_frame(frame)
