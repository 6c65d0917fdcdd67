"""Compute densities and pictures of one or two columns from a sketch; they may be published.

The picture starts from a mixture that is known to follow the rows, as well as any does. What the
waves say beyond it, the residual, is turned into a density by Fourier's integral (in two columns:
back-projection, as in tomography) and added, but only where it stands out from its own noise. So a
good fit shows no ringing, and a bad one shows what it misses.

Everything here is post-processing of public numbers.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.ndimage import uniform_filter1d
from scipy.special import ndtr

from privgmm.arrays import Array, frozen
from privgmm.mixture import Mixture
from privgmm.stages.sketch.features import columns_apart
from privgmm.stages.sketch.frame import Frame

__all__ = ["Base", "DensityCurve", "DensityImage", "Waves", "curve_of", "image_of", "span_of"]

_LOUD_ALONE, _LOUD_TOGETHER = 3.7, 2.75
"""Power of a residual near one frequency, in units of its noise, from which on it is shown: in one
direction (6 numbers), and among the directions of a plane (18 numbers). Noise alone is as large at
one frequency in a thousand, or in ten thousand."""
_OUTSIDE = 0.0005
"""Choice: share of the mixture that a picture leaves out on either side."""
_ROOM = 0.06
"""Choice: share of its width that a picture adds on either side."""
_EMPTY = 0.001
"""Choice, of the peak: where the mixture has less, values below zero show how large ripples are."""
_RIPPLES = 0.99
"""Choice: share of those places at which ripples are no deeper than the depth assumed for them."""
_CHUNK = 4096
"""Choice: places at a time, to bound memory."""
_FINE, _COARSE = 2048, 160
"""Choice: points of the grids on which a curve, or an image along each axis, is normalised."""
_RAKES = 20
"""Choice: rounds in which an image is scaled to its two columns in turn."""
_MEAN_OF_ABSOLUTE = math.sqrt(2 / math.pi)
"""Mean of the absolute value of a standard normal number."""


class Base(NamedTuple):
    """The mixture that a picture starts from, and its errors.

    Parameters
    ----------
    mixture : Mixture
        In frame coordinates.
    covariance : array (P, P)
        Of its errors, in its local coordinates.
    explains : bool
        Whether the rows are such a mixture, as far as the sketch shows.
    """

    mixture: Mixture
    covariance: Array
    explains: bool


class Waves(NamedTuple):
    """A sketch as arrays over directions and frequencies.

    Parameters
    ----------
    frame : Frame
    directions : array (D, d)
    step : float
    values : array of complex (D, L)
    noise : array (L,)
    n_rows : int
    """

    frame: Frame
    directions: Array
    step: float
    values: npt.NDArray[np.complex128]
    noise: Array
    n_rows: int

    @property
    def lengths(self) -> Array:
        """Frequencies (L,) along a direction."""
        return np.asarray(self.step * np.arange(1, len(self.noise) + 1))


@dataclasses.dataclass(frozen=True, eq=False)
class DensityCurve:
    """The density of one column. Public.

    Parameters
    ----------
    column : str
    grid : array (g,)
        Where, in the units of the column.
    densities : array (g,)
    deviations : array (g,)
        Standard errors of the densities: sampling of the rows and noise.
    resolution : float
        Half the shortest wave of the sketch: narrower details were not looked at.
    """

    column: str
    grid: Array
    densities: Array
    deviations: Array
    resolution: float

    def __post_init__(self) -> None:
        for name in ("grid", "densities", "deviations"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    @property
    def expected_variation(self) -> float:
        """Expected total variation distance to the density of the rows, as far as noise goes."""
        mean = _MEAN_OF_ABSOLUTE * self.deviations
        return float(0.5 * np.trapezoid(mean, self.grid))


@dataclasses.dataclass(frozen=True, eq=False)
class DensityImage:
    """The joint density of two columns. Public.

    Parameters
    ----------
    columns : pair of str
        Across and upwards.
    x, y : arrays (nx,), (ny,)
        Where, in the units of the columns.
    densities : array (ny, nx)
    deviations : array (ny, nx)
        Standard errors of the densities: sampling of the rows and noise.
    resolution : pair of float
        Half the shortest wave of the sketch along each column: narrower details were not looked
        at.
    plane_seen : bool
        Whether waves ran in all directions of the plane. If not (with more than two columns),
        the picture is the fitted mixture, raked to the densities of its two columns.
    """

    columns: tuple[str, str]
    x: Array
    y: Array
    densities: Array
    deviations: Array
    resolution: tuple[float, float]
    plane_seen: bool

    def __post_init__(self) -> None:
        for name in ("x", "y", "densities", "deviations"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    @property
    def expected_variation(self) -> float:
        """Expected total variation distance to the density of the rows, as far as noise goes."""
        mean = _MEAN_OF_ABSOLUTE * self.deviations
        return float(0.5 * np.trapezoid(np.trapezoid(mean, self.x, axis=1), self.y))


# ----------------------------------------------------------------------------- the mixture's part


def _density(base: Base, matrix: Array, places: Array) -> tuple[Array, Array]:
    """Compute the density of ``matrix @ z`` at places (g, q), and its standard error.

    `matrix` (q, d) takes frame coordinates to those of the picture, q = 1 or 2.
    """
    mixture = base.mixture
    k, d = mixture.means.shape
    row, column = np.triu_indices(d)
    double = np.where(row == column, 1.0, math.sqrt(2))
    width = 1 + d + len(row)
    means = mixture.means @ matrix.T
    roots = matrix @ mixture.cholesky
    inverses = np.linalg.inv(roots @ roots.swapaxes(1, 2))
    norms = np.sqrt(np.linalg.det(inverses)) / (2 * math.pi) ** (len(matrix) / 2)
    density, variance = np.empty(len(places)), np.empty(len(places))
    for start in range(0, len(places), _CHUNK):
        part = slice(start, start + _CHUNK)
        slopes = np.empty((len(places[part]), k, width))
        for a in range(k):
            gaps = places[part] - means[a]
            pulled = gaps @ inverses[a]
            heights = mixture.weights[a] * norms[a] * np.exp(-0.5 * (gaps * pulled).sum(axis=1))
            along = pulled @ roots[a]
            own = roots[a].T @ inverses[a] @ roots[a]
            slopes[:, a, 0] = heights
            slopes[:, a, 1 : 1 + d] = heights[:, None] * along
            second = along[:, row] * along[:, column] - own[row, column]
            slopes[:, a, 1 + d :] = 0.5 * heights[:, None] * second * double
        total = slopes[:, :, 0].sum(axis=1)
        slopes[:, :, 0] -= mixture.weights * total[:, None]
        flat = slopes.reshape(len(total), -1)
        density[part] = total
        variance[part] = np.einsum("ij,ij->i", flat @ base.covariance, flat)
    return density, np.sqrt(np.maximum(variance, 0.0))


def _plain_density(mixture: Mixture, matrix: Array, places: Array) -> Array:
    """Compute the density of ``matrix @ z`` at places (g, q), without its error."""
    roots = matrix @ mixture.cholesky
    seen = Mixture(mixture.weights, mixture.means @ matrix.T, roots @ roots.swapaxes(1, 2))
    return seen.density(places)


def _characteristic(mixture: Mixture, frequencies: Array) -> npt.NDArray[np.complex128]:
    """Compute ``E exp(i f.z)`` at frequencies (..., d)."""
    seen = np.einsum("...i,kij->...kj", frequencies, mixture.cholesky)
    return np.asarray(
        np.exp(1j * frequencies @ mixture.means.T - 0.5 * (seen**2).sum(axis=-1)) @ mixture.weights
    )


class _Residual(NamedTuple):
    """Residual of the waves beyond the mixture, damped where it is noise.

    Parameters
    ----------
    values : array of complex (D', L)
        Times the window, which lies between zero (noise) and one.
    errors : array (D', L)
        How far their real and imaginary parts may be off: noise that went through the window and,
        unless the mixture explains the rows, what the window held back.
    """

    values: npt.NDArray[np.complex128]
    errors: Array

    @property
    def silent(self) -> bool:
        """Whether nothing stands out."""
        return not self.values.any()


def _residual(waves: Waves, base: Base, chosen: npt.NDArray[np.intp], loud: float) -> _Residual:
    """Compute the residual of the directions `chosen`, in the order of their angle.

    The power is that of a frequency and of its neighbours, along the direction and across it.
    """
    frequencies = waves.directions[chosen][:, None, :] * waves.lengths[:, None]
    expected = _characteristic(base.mixture, frequencies)
    residual = waves.values[chosen] - expected
    sampling = (1 - np.minimum(np.abs(expected) ** 2, 1)) / (2 * waves.n_rows)
    deviations = np.sqrt(waves.noise**2 + sampling)
    power = np.abs(residual) ** 2 / (2 * deviations**2)
    power = uniform_filter1d(power, 3, axis=1, mode="nearest")
    if len(chosen) > 2:
        # beyond the last angle comes the first again, with its waves turned around
        power = uniform_filter1d(power, 3, axis=0, mode="wrap")
    window = np.where(power > loud, 1 - 1 / np.maximum(power, 1.0), 0.0)
    errors = window * deviations
    if not base.explains:
        held = (1 - window) * np.sqrt(np.maximum(power - 1, 0.0)) * deviations
        errors = np.hypot(errors, held)
    return _Residual(residual * window, errors)


# ------------------------------------------------------------------------------------- one column


def _span(means: Array, deviations: Array, weights: Array) -> tuple[float, float]:
    """Find the interval of components (k,) in one column, but for a small share of them."""
    ends = []
    for share in (_OUTSIDE, 1 - _OUTSIDE):
        low = float((means - 9 * deviations).min())
        high = float((means + 9 * deviations).max())
        for _ in range(60):
            middle = (low + high) / 2
            if weights @ ndtr((middle - means) / deviations) < share * weights.sum():
                low = middle
            else:
                high = middle
        ends.append(high)
    room = _ROOM * (ends[1] - ends[0])
    return ends[0] - room, ends[1] + room


def _axis(frame: Frame, column: int) -> tuple[Array, float]:
    """Return the matrix (1, d) that gives a column, but for its centre, and its extent."""
    row = frame.root[column]
    return row[None], float(np.linalg.norm(row))


def span_of(waves: Waves, base: Base, column: int) -> tuple[float, float]:
    """Find the interval of a column that is worth showing."""
    row, _ = _axis(waves.frame, column)
    seen = row @ base.mixture.cholesky
    spread = np.sqrt(np.einsum("kij,kij->k", seen, seen))
    low, high = _span(base.mixture.means @ row[0], spread, base.mixture.weights)
    centre = float(waves.frame.centre[column])
    return centre + low, centre + high


def curve_of(waves: Waves, base: Base, column: int, name: str, grid: Array) -> DensityCurve:
    """Compute the density of one column at the points of a grid (g,).

    Notes
    -----
    Direction number `column` of a sketch is that of the column: its waves are a noisy
    characteristic function of the column alone, of which the residual is a Fourier series with
    the period ``2 pi / h`` in units of the frame. Beyond half a period nothing is added.
    """
    frame = waves.frame
    row, extent = _axis(frame, column)
    residual = _residual(waves, base, np.array([column], dtype=np.intp), _LOUD_ALONE)

    steps = grid - frame.centre[column]
    densities, error = _density(base, row, steps[:, None])
    if not (residual.silent and base.explains):
        each = waves.step / (math.pi * extent)
        half = math.pi / waves.step

        def seen(t: Array, smooth: Array) -> Array:
            phases, flat = np.outer(t, waves.lengths), residual.values[0] * each
            added = np.cos(phases) @ flat.real + np.sin(phases) @ flat.imag
            return np.maximum(smooth + np.where(np.abs(t) <= half, added, 0.0), 0.0)

        low, high = (end - frame.centre[column] for end in span_of(waves, base, column))
        fine = np.linspace(min(low, -half * extent), max(high, half * extent), _FINE)
        smooth = _plain_density(base.mixture, row, fine[:, None])
        # what was below zero is taken from the rest
        kept = float(smooth.sum()) / float(seen(fine / extent, smooth).sum())
        densities = kept * seen(steps / extent, densities)
        noise = float(np.linalg.norm(residual.errors)) * each
        error = np.hypot(error, np.where(np.abs(steps) <= half * extent, noise, 0.0))
    resolution = extent * math.pi / float(waves.lengths[-1])
    return DensityCurve(name, grid, densities, error, resolution)


# ------------------------------------------------------------------------------------ two columns


def image_of(
    waves: Waves, base: Base, columns: tuple[int, int], names: tuple[str, str], x: Array, y: Array
) -> DensityImage:
    """Compute the joint density of two columns on the grid of x (nx,) and y (ny,)."""
    frame = waves.frame
    matrix = frame.root[list(columns)]
    centre = frame.centre[list(columns)]
    places = np.stack(np.meshgrid(x, y), axis=2).reshape(-1, 2)
    smooth, error = _density(base, matrix, places - centre)
    seen = frame.n_features == 2
    if seen:
        densities, error = _back_projected(waves, base, places, smooth, error)
    else:
        densities = smooth
    image, deviations = (one.reshape(len(y), len(x)) for one in (densities, error))
    if not seen:
        image = _raked(waves, base, columns, x, y, image)
    extents = (_axis(frame, column)[1] for column in columns)
    across, upwards = (extent * math.pi / float(waves.lengths[-1]) for extent in extents)
    return DensityImage(names, x, y, image, deviations, (across, upwards), seen)


def _back_projected(
    waves: Waves, base: Base, places: Array, smooth: Array, error: Array
) -> tuple[Array, Array]:
    """Add the directions' residual to the mixture's density (g,); also returns the error.

    Notes
    -----
    ``p(z) = 1/(2 pi^2)`` times the integral, over directions of the half circle and lengths
    s > 0, of ``s Re(g(s v) exp(-i s v.z))``, g the characteristic function. Each direction
    stands for the angles nearer to it than to others.

    Between the directions nothing is known, and so sharp edges leave ripples far away, as high as
    they are deep. Where the mixture has next to nothing, all that goes below zero is ripple, and
    shows how large ripples are. What is no larger is not shown: there the mixture's density stays.
    """
    # those that are evenly spread: integrals over equal angles are the most accurate
    angles = np.arctan2(waves.directions[:, 1], waves.directions[:, 0]) % math.pi
    order = np.argsort(angles)
    order = order[order >= columns_apart(*waves.directions.shape)]
    ring = angles[order]
    shares = 0.5 * (np.roll(ring, -1) - np.roll(ring, 1)) % (0.5 * math.pi)
    if len(ring) < 3:
        shares = np.full(len(ring), math.pi / len(ring))
    residual = _residual(waves, base, order, _LOUD_TOGETHER)
    if residual.silent and base.explains:
        return smooth, error
    scale = abs(float(np.linalg.det(waves.frame.inverse)))
    each = waves.lengths * waves.step * shares[:, None] * scale / (2 * math.pi**2)
    frequencies = (waves.directions[order][:, None, :] * waves.lengths[:, None]).reshape(-1, 2)
    flat = (residual.values * each).ravel()
    half = math.pi / waves.step

    def added_at(z: Array) -> Array:
        added = np.empty(len(z))
        for start in range(0, len(z), _CHUNK):
            phases = z[start : start + _CHUNK] @ frequencies.T
            added[start : start + _CHUNK] = np.cos(phases) @ flat.real + np.sin(phases) @ flat.imag
        return np.where(np.linalg.norm(z, axis=1) <= half, added, 0.0)

    line = np.linspace(-half, half, _COARSE)
    all_around = np.stack(np.meshgrid(line, line), axis=2).reshape(-1, 2)
    own, added = scale * base.mixture.density(all_around), added_at(all_around)
    below = (own + added < 0) & (own < _EMPTY * own.max())
    ripple = float(np.quantile(-(own + added)[below], _RIPPLES)) if below.any() else 0.0
    # what was below zero is taken from the rest
    kept = float(own.sum()) / float(_above_ripples(own, added, ripple).sum())
    z = waves.frame.to_frame(places)
    noise = float(np.linalg.norm(residual.errors * each))
    inside = np.linalg.norm(z, axis=1) <= half
    densities = kept * _above_ripples(smooth, added_at(z), ripple)
    return densities, np.hypot(error, np.where(inside, noise, 0.0))


def _above_ripples(smooth: Array, added: Array, ripple: float) -> Array:
    """Add to a mixture's density (g,), except where the sum is no more than ripple."""
    whole = smooth + added
    if ripple > 0:
        size = np.maximum(np.abs(whole), smooth)
        whole = smooth + added * np.clip(size / ripple - 1, 0.0, 1.0)
    return np.maximum(whole, 0.0)


def _raked(
    waves: Waves, base: Base, columns: tuple[int, int], x: Array, y: Array, image: Array
) -> Array:
    """Scale an image (ny, nx) to the densities of its two columns, as the waves show them.

    Of all densities with these two the nearest, by Kullback and Leibler, to the mixture's: it is
    the mixture's times a factor for each of x and y.
    """
    places, wanted, loud = [], [], False
    for column in columns:
        places.append(np.linspace(*span_of(waves, base, column), _COARSE))
        wanted.append(curve_of(waves, base, column, "", places[-1]).densities)
        chosen = np.array([column], dtype=np.intp)
        loud |= not _residual(waves, base, chosen, _LOUD_ALONE).silent
    if not loud:
        return image
    grid = np.stack(np.meshgrid(*places), axis=2).reshape(-1, 2)
    matrix, centre = waves.frame.root[list(columns)], waves.frame.centre[list(columns)]
    joint = _plain_density(base.mixture, matrix, grid - centre).reshape(_COARSE, _COARSE)
    across, upwards = np.ones(_COARSE), np.ones(_COARSE)
    cells = [float(place[1] - place[0]) for place in places]
    tiny = np.finfo(float).tiny
    for _ in range(_RAKES):
        across = wanted[0] / np.maximum(upwards @ joint * cells[1], tiny)
        upwards = wanted[1] / np.maximum(joint @ across * cells[0], tiny)
    return np.asarray(
        image * np.interp(x, places[0], across) * np.interp(y, places[1], upwards)[:, None]
    )
