"""Hold public coordinates: a place and a shape in which rows are measured.

A frame only has to be right within a factor of two or so. What is taken from the rows in it is
bounded wherever they lie; a bad frame costs accuracy, never privacy.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from privgmm.arrays import Array, finite_array, frozen
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.privacy.noise import Randomness

__all__ = ["Frame", "random_rotation"]

_DIAGONAL_BITS = 7
"""Bits behind the leading one of a published diagonal entry: mantissas of eight bits."""
_BELOW_BITS, _CENTRE_BITS = 10, 8
"""Bits of the other entries and of the centre, in units of the diagonal: see `Frame.published`."""
_FLATTEST = 1e13
"""Condition numbers beyond this leave no correct digits in the inverse."""


@dataclasses.dataclass(frozen=True, eq=False, init=False)
class Frame:
    """Coordinates z of rows x = centre + root z.

    Parameters
    ----------
    centre : array-like (d,)
        The row that has coordinates zero.
    root : array-like (d, d)
        Invertible; its columns are the unit steps of z.

    Notes
    -----
    Columns of the data may have very different units. The inverse is therefore computed after
    each row of `root` is divided by a power of two near its length: coordinates are as accurate
    for metres next to nanometres, and multiplying a column of the data (and of the frame) by a
    power of two leaves them equal to the last bit.
    """

    centre: Array
    root: Array

    def __init__(self, centre: npt.ArrayLike, root: npt.ArrayLike) -> None:
        c = finite_array(centre, "centre", (None,))
        d = c.size
        if d == 0:
            raise InvalidInput("centre must have at least one coordinate, got none")
        r = finite_array(root, "root", (d, d))
        if not np.abs(r).max(axis=1).all():
            raise InvalidInput("root must be invertible: one of its rows is zero")
        object.__setattr__(self, "centre", frozen(c))
        object.__setattr__(self, "root", frozen(r))
        condition = float(np.linalg.cond(self._levelled))
        if not condition < _FLATTEST:
            raise InvalidInput(
                f"root must be invertible, but its condition number is {condition:.3g}: the "
                "frame is flat in some direction"
            )

    @classmethod
    def published(cls, centre: npt.ArrayLike, factor: npt.ArrayLike, *, rotation: Array) -> Frame:
        """Round a masked place and shape to a coarse public grid, then turn them.

        Parameters
        ----------
        centre : array-like (d,)
            Location, already masked.
        factor : array-like (d, d)
            Lower triangular with positive diagonal, already masked.
        rotation : array (d, d)
            Orthogonal and public, e.g. from `random_rotation`.

        Notes
        -----
        Masks are proved for real numbers and computed in floating point. The last bits of a
        masked number may be reachable from one of two neighbouring data sets only, and would
        then give away which one it was. Published numbers therefore lie on a grid whose cells are
        2^-11 to 2^-7 wide in units of the frame, while rounding errors are some 2^-52 times the
        condition number of the frame: the numbers of both neighbours fall into the same cell
        except with a tiny probability, about the number of entries times the ratio of the two.

        The grid: diagonal entries have mantissas of eight bits. With p_i the power of two at or
        below the rounded entry (i, i), the other entries of row i are multiples of 2^-10 p_i and
        coordinate i of the centre a multiple of 2^-8 p_i.

        Entries are rounded from the top row to the bottom row, and what rounding moved in the
        rows above is corrected below: if L is the factor and L' what is published, then
        ``L' = L (I + E)`` with E lower triangular, ``|E_ii| <= 2^-8`` and ``|E_ij| < 2^-10``
        for any correlations; likewise the centre moves by ``L e`` with
        ``|e_i| < 2^-8``. Rounding each entry by itself would move a frame of strongly correlated
        columns by many times its width. Powers of two that multiply a column go through.
        """
        c = finite_array(centre, "centre", (None,))
        low = finite_array(factor, "factor", (c.size, c.size))
        turn = finite_array(rotation, "rotation", (c.size, c.size))
        if np.triu(low, 1).any() or (np.diagonal(low) <= 0).any():
            raise InvalidInput("factor must be lower triangular with a positive diagonal")
        if np.abs(turn @ turn.T - np.eye(c.size)).max() > 1e-9:
            raise InvalidInput("rotation must be orthogonal: rotation @ rotation.T is not I")
        diagonal = np.array([_short(value) for value in np.diagonal(low).tolist()])
        units = np.ldexp(1.0, np.frexp(diagonal)[1] - 1)
        place = _settled(low, c, units * 2.0**-_CENTRE_BITS)
        below = units * 2.0**-_BELOW_BITS
        columns = [_settled(low, low[:, k], below, pinned=(k, diagonal[k])) for k in range(c.size)]
        return cls(place, np.column_stack(columns) @ turn)

    @property
    def n_features(self) -> int:
        """Dimension d."""
        return int(self.centre.size)

    @functools.cached_property
    def _units(self) -> Array:
        """A power of two (d,) near the length of each row of `root`."""
        exponents = np.frexp(np.abs(self.root).max(axis=1))[1]
        return np.asarray(np.ldexp(1.0, exponents - 1), dtype=np.float64)

    @functools.cached_property
    def _levelled(self) -> Array:
        return np.asarray(self.root / self._units[:, None], dtype=np.float64)

    @functools.cached_property
    def inverse(self) -> Array:
        """``root^-1`` (d, d)."""
        return frozen(np.linalg.inv(self._levelled) / self._units)

    def to_frame(self, rows: npt.ArrayLike) -> Array:
        """Compute the coordinates (n, d) of rows (n, d)."""
        x = finite_array(rows, "rows", (None, self.n_features))
        with np.errstate(over="ignore", invalid="ignore"):
            # one column after another, so that a row's last bits do not depend on other rows
            steps = x - self.centre
            z = np.zeros_like(steps)
            for q in range(self.n_features):
                z += steps[:, q, None] * self.inverse[:, q]
        return z

    def mixture_to_frame(self, mixture: Mixture) -> Mixture:
        """Transform a law of x into that of z."""
        return Mixture.from_roots(
            mixture.weights, self.to_frame(mixture.means), self.inverse @ mixture.cholesky
        )

    def mixture_from_frame(self, mixture: Mixture) -> Mixture:
        """Transform a law of z into that of x."""
        return mixture.transformed(self.root, self.centre)

    def axis(self, column: int) -> Array:
        """Compute the unit direction (d,) of z that is column `column` of the data.

        ``x_j = centre_j + (root^T e_j) . z``, so it is row j of `root`, normalised.
        """
        row = self._levelled[column]
        return np.asarray(row / np.linalg.norm(row), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, for JSON; `from_dict` gives an equal frame back."""
        return {"centre": self.centre.tolist(), "root": self.root.tolist()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Frame:
        """Read back what `to_dict` wrote."""
        if not (isinstance(data, dict) and {"centre", "root"} <= data.keys()):
            raise InvalidInput("a frame needs a JSON object of centre and root")
        return cls(data["centre"], data["root"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frame):
            return NotImplemented
        return np.array_equal(self.centre, other.centre) and np.array_equal(self.root, other.root)

    def __hash__(self) -> int:
        return hash((self.centre.tobytes(), self.root.tobytes()))


def random_rotation(d: int, *, rng: Randomness) -> Array:
    """Draw a uniformly random orthogonal matrix (d, d), to be made public.

    Turning by it makes what follows independent, in law, of the root that was chosen for a
    shape. Reflections count as rotations here.
    """
    q, r = np.linalg.qr(rng.normal((d, d)))
    # without the signs the law would depend on conventions of the factorisation
    return np.asarray(q * np.where(np.diagonal(r) < 0, -1.0, 1.0), dtype=np.float64)


def _short(value: float) -> float:
    """Round a positive number to a mantissa of eight bits."""
    mantissa, exponent = math.frexp(value)
    bits = _DIAGONAL_BITS + 1
    return math.ldexp(round(math.ldexp(mantissa, bits)), exponent - bits)


def _settled(
    low: Array, target: Array, steps: Array, *, pinned: tuple[int, float] | None = None
) -> Array:
    """Round `target` (d,) to multiples of `steps` (d,), so that it moves by ``low e``, e small.

    What rounding moved in one row moves the targets of the rows below it along the same column
    of `low`. One row may be `pinned` to a value of its own grid.
    """
    settled, wanted = np.zeros_like(target), target.copy()
    for i in range(target.size):
        settled[i] = round(float(wanted[i] / steps[i])) * steps[i]
        if pinned is not None and i == pinned[0]:
            settled[i] = pinned[1]
        wanted = wanted + (settled[i] - wanted[i]) / low[i, i] * low[:, i]
    return settled
