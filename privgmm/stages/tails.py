"""State where the rows of a column were seen, and find rows far out that a mixture does not expect.

The histogram of a column shows only bins that hold enough rows (`sketch.histogram_frame`). What
lies elsewhere is not resolved. Where that is more than the published mixture puts there, the column
has a longer tail than the mixture says. All of this is public.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from privgmm.arrays import Array, IntArray
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.stages.recorded import place_of

__all__ = ["SeenRange", "ranges_from_dicts", "tail_sentences", "unseen_sentences"]

_FEW = 0.01
"""Choice: share of the rows from which a tail is pointed out."""
_SURELY = 4.0
"""Choice: deviations of noise and sampling beyond which a difference is not chance."""
_ROUNDED = 1e-9
"""Relative slack; by convention far above the rounding of a float."""


@dataclasses.dataclass(frozen=True)
class SeenRange:
    """Where the rows of a column were seen: the bins of a noisy histogram that were shown. Public.

    Parameters
    ----------
    column : str or int
        Name of the column; its number from 0 before names are known.
    stretches : tuple of (low, high)
        Bins that were shown, joined where they touch, from left to right.
    share : float
        Of all rows, or persons, that lie there, with noise.
    error : float
        Standard deviation of that share: noise, and sampling.
    centre, spread : float
        Where the bulk of the column lies and how wide it is, as the frame found it.
    """

    column: str | int
    stretches: tuple[tuple[float, float], ...]
    share: float
    error: float
    centre: float
    spread: float

    def __post_init__(self) -> None:
        stretches = tuple((float(low), float(high)) for low, high in self.stretches)
        edges = [edge for stretch in stretches for edge in stretch]
        if not edges or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
            raise InvalidInput(f"stretches must be finite and rise, got {self.stretches!r}")
        for name in ("share", "error", "spread"):
            if not 0 < getattr(self, name) < math.inf:
                raise InvalidInput(f"{name} must be positive, got {getattr(self, name)!r}")
        if not math.isfinite(self.centre):
            raise InvalidInput(f"centre must be finite, got {self.centre!r}")
        object.__setattr__(self, "stretches", stretches)

    @classmethod
    def of_bins(
        cls,
        column: int,
        shown: tuple[IntArray, IntArray],
        width: float,
        offset: float,
        *,
        n: int,
        sigma: float,
        centre: float,
    ) -> SeenRange:
        """Join the bins that were shown.

        Parameters
        ----------
        shown : tuple of arrays (b,)
            Bins in rising order, and their noisy counts.
        width, offset : float
            A value x lies in bin ``floor(x / width + offset)``.
        n : int
            Rows that were counted.
        sigma : float
            Scale of the noise on each count.
        """
        bins, counts = shown
        # counts that were shown reach the threshold, so this is more than one row
        share = min(max(float(counts.sum()), 1.0) / n, 1.0)
        ends = np.flatnonzero(np.diff(bins) > 1)
        first, last = bins[np.r_[0, ends + 1]], bins[np.r_[ends, bins.size - 1]]
        low, high = (first - offset) * width, (last + 1 - offset) * width
        error = math.sqrt(bins.size * sigma**2 + n * share * (1 - share)) / n
        stretches = tuple(zip(low.tolist(), high.tolist(), strict=True))
        return cls(column, stretches, share, error, centre, width / 2)

    @property
    def low(self) -> float:
        """Return the value below which no rows were seen."""
        return self.stretches[0][0]

    @property
    def high(self) -> float:
        """Return the value above which no rows were seen."""
        return self.stretches[-1][1]

    def named(self, names: Sequence[str], before: Sequence[str] = ()) -> SeenRange:
        """Return it with the name of its column, which had another one before, or none."""
        return dataclasses.replace(self, column=names[place_of(self.column, before)])

    @property
    def unseen(self) -> float:
        """Return the share of rows that lie elsewhere; zero where that may be chance, or small."""
        return self._beyond_doubt(1 - self.share)

    def unexpected(self, mixture: Mixture) -> float:
        """Compute the share of rows elsewhere that the mixture does not expect there.

        It is zero where noise and sampling may be the reason, or where it is small.
        """
        j = place_of(self.column, mixture.columns)
        spreads = np.sqrt(mixture.covariances[:, j, j])
        edges: Array = np.asarray(self.stretches)[:, :, None]
        below = ndtr((edges - mixture.means[:, j]) / spreads)
        expected = float((below[:, 1] - below[:, 0]).sum(axis=0) @ mixture.weights)
        return self._beyond_doubt(expected - self.share)

    def _beyond_doubt(self, share: float) -> float:
        return share if share > max(_FEW, _SURELY * self.error) else 0.0

    def contradictions(self, n: int, sigma: float, threshold: int) -> Iterator[str]:
        """Say what could not be found in n rows with this noise and threshold."""
        count = self.share * n
        # a share is cut at one, and is then no count over n
        if self.share < 1 and abs(count - round(count)) > _ROUNDED * n:
            yield f"the share of rows that were seen, {self.share!r}, is no part of {n} rows"
        shown = ((self.error * n) ** 2 - n * self.share * (1 - self.share)) / sigma**2
        wide = sum((high - low) / (2 * self.spread) for low, high in self.stretches)
        if not math.isclose(shown, wide, rel_tol=1e-6, abs_tol=1e-6):
            yield "the error of a share of rows that were seen does not follow from the noise"
        elif self.share < 1 and round(count) < round(shown) * threshold:
            yield "more bins are said to be shown than so few rows reach the threshold of"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**dataclasses.asdict(self), "stretches": [list(one) for one in self.stretches]}


def ranges_from_dicts(listed: Sequence[dict[str, Any]]) -> tuple[SeenRange, ...]:
    """Read ranges back from what `SeenRange.to_dict` wrote."""
    return tuple(
        SeenRange(
            str(one["column"]),
            tuple((float(low), float(high)) for low, high in one["stretches"]),
            *(float(one[name]) for name in ("share", "error", "centre", "spread")),
        )
        for one in listed
    )


def tail_sentences(ranges: Sequence[SeenRange], mixture: Mixture) -> list[str]:
    """Say of each column with a longer tail than the mixture's what that means. Public."""
    return [
        f"About {_percent(share)} of the rows have values of {one.column} so far out that the "
        "mixture does not expect them."
        for one in ranges
        if (share := one.unexpected(mixture))
    ]


def unseen_sentences(ranges: Sequence[SeenRange]) -> list[str]:
    """Say of each column with many rows far out where nothing is resolved, and what helps. Public.

    The scale that is offered follows from what the histogram showed, so it costs nothing to know.
    """
    said = []
    for one in ranges:
        if not one.unseen:
            continue
        shifted = str(one.column)
        if abs(one.centre) >= 1e-3 * one.spread:
            shifted = f"({one.column} {'-' if one.centre > 0 else '+'} {_number(abs(one.centre))})"
        said.append(
            f"Values of {one.column} below {_number(one.low)} or above {_number(one.high)} are not "
            f"resolved: about {_percent(one.unseen)} of the rows lie where too few are together to "
            f"be seen. A release of arcsinh({shifted} / {_number(one.spread)}) instead would have "
            "shorter tails."
        )
    return said


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _number(value: float) -> str:
    """Write three digits, and numbers from a thousand to ten million without an exponent."""
    if 1e3 <= abs(value) < 1e7:
        digits = 3 - len(str(int(abs(value))))
        return f"{round(value, digits):.0f}"
    return f"{value:.3g}"
