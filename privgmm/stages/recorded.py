"""Say how columns are recorded: values that many rows share, and grids that all values lie on.

Both are public, found by noisy counts (`sketch.histogram_frame`). A mixture of Gaussians has
neither: `as_recorded` puts them back into rows that are drawn from it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from privgmm.arrays import Array, BoolArray, IntArray
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture

__all__ = [
    "STEPS",
    "Atom",
    "as_published",
    "as_recorded",
    "atoms_from_dicts",
    "coarsest_step",
    "place_of",
    "single_values",
    "step_found",
    "value_codes",
]

STEPS = (1.0, 0.1, 0.01)
"""Choice: grids that are looked for. Each holds all points of those before it."""
_FEW = 0.1
"""Choice: share of the values other than zero that may lie off a grid, but for noise."""
_SEEN_AT, _NOISE = 12.0, 2.0
"""Choice, in deviations of noise: the least count of values other than zero from which a grid is
read, and what noise may add to the count of those that lie off it. Values on no grid then show one
less than once in a thousand columns, even where they are that few."""
_ON_VALUE = 0.03
"""Choice: how far a component's mean may lie from a value that it is, and how wide it may be, in
units of the bulk of the column. Widths are at least about a hundredth of that, by `NARROWEST`."""
_STRETCHES, _MOST_HELD = 100, 0.999
"""Choice: how often the reach of an atom is corrected, and how much of a column all may hold."""


@dataclasses.dataclass(frozen=True)
class Atom:
    """A value that a large share of the rows has in a column. Public.

    Parameters
    ----------
    column : str or int
        Name of the column; its number from 0 before names are known.
    value : float
    share : float
        Of all rows, or persons, with noise.

    Examples
    --------
    >>> print(Atom("capital_gain", 0.0, 0.917))
    92 % of rows have capital_gain = 0
    """

    column: str | int
    value: float
    share: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise InvalidInput(f"value must be finite, got {self.value!r}")
        if not 0 < self.share <= 1:
            raise InvalidInput(f"share must lie between 0 and 1, got {self.share!r}")

    def named(self, names: Sequence[str], before: Sequence[str] = ()) -> Atom:
        """Return the atom with the name of its column, which had another one before, or none."""
        return dataclasses.replace(self, column=names[place_of(self.column, before)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        return f"{100 * self.share:.2g} % of rows have {self.column} = {self.value:.10g}"


def place_of(column: str | int, names: Sequence[str]) -> int:
    """Return the number of a column, from 0, that is given by name or by number."""
    return column if isinstance(column, int) else list(names).index(column)


def atoms_from_dicts(listed: Sequence[dict[str, Any]]) -> tuple[Atom, ...]:
    """Read atoms back from what `Atom.to_dict` wrote."""
    return tuple(
        Atom(str(one["column"]), float(one["value"]), float(one["share"])) for one in listed
    )


def single_values(
    mixture: Mixture, atoms: Sequence[Atom], spreads: Mapping[str, float]
) -> dict[tuple[int, int], float]:
    """Find which components are a single value in a column: ``{(component, column): value}``.

    Parameters
    ----------
    mixture : Mixture
    atoms : sequence of Atom
        With names of columns.
    spreads : mapping from names to float
        How wide the bulk of each column is.
    """
    found: dict[tuple[int, int], float] = {}
    deviations = np.sqrt(np.einsum("kii->ki", mixture.covariances))
    for atom in atoms:
        if atom.column not in spreads:
            continue
        i = mixture.columns.index(str(atom.column))
        narrow = _ON_VALUE * spreads[str(atom.column)]
        on = (np.abs(mixture.means[:, i] - atom.value) <= narrow) & (deviations[:, i] <= narrow)
        found |= {(int(j), i): atom.value for j in np.flatnonzero(on)}
    return found


def value_codes(values: Array) -> IntArray:
    """Return a whole number (m,) for each value, the same for equal values only.

    Both zeros are one value. `codes.view(float64)` gives the values back.
    """
    return np.ascontiguousarray(values + 0.0, dtype=np.float64).view(np.int64)


def coarsest_step(values: Array) -> IntArray:
    """Return the place in `STEPS` of the coarsest grid that each value (m,) lies on.

    It is one more than the last place for values on none, and two more for zeros, which lie on all.
    """
    found = np.full(values.shape, len(STEPS), dtype=np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        for place in range(len(STEPS) - 1, -1, -1):
            found[_on_grid(values, STEPS[place])] = place
    found[values == 0] = len(STEPS) + 1
    return found


def _on_grid(values: Array, step: float) -> BoolArray:
    """Check which values are the float nearest to a multiple of the step."""
    if step >= 1:
        return np.asarray(np.rint(values / step) * step == values)
    per_one = round(1 / step)
    return np.asarray(np.rint(values * per_one) / per_one == values)


def step_found(counts: IntArray, sigma: float) -> float | None:
    """Read the step of a column's grid off noisy counts of `coarsest_step`; None if it has none."""
    listed = counts[: len(STEPS) + 1]
    other_than_zero = float(listed.sum())
    if other_than_zero < _SEEN_AT * sigma:
        return None
    for place, step in enumerate(STEPS):
        off = listed[place + 1 :]
        if off.sum() <= _FEW * other_than_zero + _NOISE * sigma * math.sqrt(off.size):
            return step
    return None


def as_recorded(
    rows: Array, mixture: Mixture, atoms: Sequence[Atom], steps: Sequence[float | None]
) -> Array:
    """Put heaps and grids back into rows (n, d) that were drawn from the mixture.

    The rows nearest to an atom's value in its column get the value itself: all within the distance
    that holds the atom's share of the mixture's rows. So the share is right whether or not the
    mixture has a component there, and what goes with the value is what the mixture has near it.
    Other values are rounded to their column's grid.
    """
    drawn = rows.copy()
    for j, name in enumerate(mixture.columns):
        column, step = rows[:, j], steps[j] if steps else None
        if step is not None:
            # dividing by a whole number gives the float nearest to each multiple
            per_one = round(1 / step) if step < 1 else 1
            coarse = max(step, 1.0)
            drawn[:, j] = np.rint(column * per_one / coarse) * coarse / per_one
        found = [atom for atom in atoms if atom.column in (name, j)]
        for atom, (low, high) in zip(found, _spans(mixture, j, found), strict=True):
            drawn[(column >= low) & (column < high), j] = atom.value
    return drawn


def as_published(
    rows: Array,
    mixture: Mixture,
    atoms: Sequence[Atom],
    steps: Sequence[float | None],
    whole: bool | Sequence[str | int] = (),
) -> tuple[Array, bool | Sequence[str | int]]:
    """Return drawn rows as `as_recorded` does, and which columns a table shows as integers.

    Those are the columns asked for by `whole`, and all that lie on a grid of whole numbers.
    """
    if not (atoms or steps):
        return rows, whole
    if not isinstance(whole, bool):
        listed = [whole] if isinstance(whole, str) else list(whole)
        whole = [*listed, *(j for j, step in enumerate(steps) if step and step >= 1)]
    return as_recorded(rows, mixture, atoms, steps), whole


def _spans(mixture: Mixture, column: int, atoms: Sequence[Atom]) -> list[tuple[float, float]]:
    """Find for each atom of a column the stretch (low, high) that holds its share of the mixture.

    It reaches equally far to both sides, but for where it meets that of another atom; reaches are
    stretched until the shares are right.
    """
    if not atoms:
        return []
    means = mixture.means[:, column]
    spreads = np.sqrt(mixture.covariances[:, column, column])
    values = np.array([atom.value for atom in atoms])
    shares = np.array([atom.share for atom in atoms])
    shares *= min(1.0, _MOST_HELD / shares.sum())
    order = np.argsort(values)
    gaps = np.diff(values[order])
    reach = np.full(values.size, spreads.min())
    for _ in range(_STRETCHES):
        ranked = reach[order]
        # two that meet divide the gap between them in proportion
        part = np.minimum(1.0, gaps / (ranked[:-1] + ranked[1:]))
        low = values[order] - ranked * np.concatenate([[1.0], part])
        high = values[order] + ranked * np.concatenate([part, [1.0]])
        held = mixture.weights @ (
            ndtr((high - means[:, None]) / spreads[:, None])
            - ndtr((low - means[:, None]) / spreads[:, None])
        )
        reach[order] *= np.clip(shares[order] / np.maximum(held, 1e-300), 0.5, 2.0)
    spans = np.empty((values.size, 2))
    spans[order] = np.column_stack([low, high])
    return [(one, two) for one, two in spans.tolist()]
