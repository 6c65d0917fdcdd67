"""Two Gaussians in the plane, as Theorem 1.8 compares them: by their numbers, and in words."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, NamedTuple

import numpy as np

from privgmm.arrays import Array
from privgmm.distances.bounds import PREMISE, TVBounds
from privgmm.distances.total_variation import gaussian_tv
from privgmm.figures.theory import HIGHEST
from privgmm.teaching.format import number_in_words

__all__ = [
    "NARROWEST_SPREAD",
    "PAIR_PRESETS",
    "REACH",
    "START",
    "UNIT_GAUSSIAN",
    "WIDEST_SPREAD",
    "ZOOMS",
    "Pair",
    "PlaneGaussian",
    "Shadow",
    "chance_of_best_guess",
    "clearest_shadow",
    "theorem_in_words",
]

REACH = 3.5
"""Centres lie within this of the origin in each coordinate."""

NARROWEST_SPREAD, WIDEST_SPREAD = 0.1, 3.5
"""Limits of standard deviations: handles stay on the board and apart from the centre."""
ZOOMS = (1, 10, 100, 1000, 10_000)
"""Factors of the microscope; from about 1000 the theorem applies to most pairs on the board."""
_ANGLES = np.linspace(0.0, math.pi, 180, endpoint=False)
"""Directions tried, one per degree: total variation hardly changes between two."""


@dataclasses.dataclass(frozen=True, slots=True)
class PlaneGaussian:
    """A Gaussian in the plane, by the numbers that dragging changes.

    Parameters
    ----------
    x, y : float
        Centre.
    along, across : float
        Standard deviations along the long handle and across it.
    turn : float
        Degrees from the first axis to the long handle, anticlockwise.
    """

    x: float
    y: float
    along: float
    across: float
    turn: float

    @property
    def mean(self) -> Array:
        """Array (2,)."""
        return np.array([self.x, self.y])

    @property
    def covariance(self) -> Array:
        """Array (2, 2)."""
        angle = math.radians(self.turn)
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        root = turn * [self.along, self.across]
        return np.asarray(root @ root.T, dtype=np.float64)

    def within_limits(self) -> PlaneGaussian:
        """The nearest Gaussian that the controls can show."""
        return PlaneGaussian(
            x=_within(self.x, -REACH, REACH),
            y=_within(self.y, -REACH, REACH),
            along=_within(self.along, NARROWEST_SPREAD, WIDEST_SPREAD),
            across=_within(self.across, NARROWEST_SPREAD, WIDEST_SPREAD),
            turn=round(90 - (90 - self.turn) % 180, 1),
        )


def _within(value: float, low: float, high: float) -> float:
    return round(min(max(value, low), high), 3)


UNIT_GAUSSIAN = PlaneGaussian(0.0, 0.0, 1.0, 1.0, 0.0)
"""Mean zero and covariance one."""
START = (PlaneGaussian(-0.8, -0.4, 1.5, 0.9, -30.0), PlaneGaussian(0.6, 0.5, 1.2, 1.1, 60.0))
"""The first pair on the board: different, and with all handles visible."""
PAIR_PRESETS: dict[str, tuple[PlaneGaussian, PlaneGaussian, str]] = {
    "Start again": (*START, "The pair that the page starts with"),
    "Means only": (
        UNIT_GAUSSIAN,
        PlaneGaussian(0.8, 0.0, 1.0, 1.0, 0.0),
        "Equal shapes: TV = 0.3989 Δ as TV → 0, in any dimension",
    ),
    "Least TV": (
        UNIT_GAUSSIAN,
        PlaneGaussian(0.0, 0.0, 1.225, 0.707, 0.0),
        "One spread grows as the other shrinks: TV is as small as Δ allows, 0.2251 Δ",
    ),
    "Most TV": (
        UNIT_GAUSSIAN,
        PlaneGaussian(1.0, 0.0, 1.137, 1.399, 0.0),
        "A full shift and both spreads grow: in two dimensions TV is at most 0.4782 Δ",
    ),
}
"""Pairs by name, each with its explanation; the numbers are best constants of Theorem 1.8."""


class Pair(NamedTuple):
    """Two Gaussians in the plane, as means (2,) and covariances (2, 2)."""

    mean1: Array
    cov1: Array
    mean2: Array
    cov2: Array

    @classmethod
    def seen_through(cls, first: PlaneGaussian, second: PlaneGaussian, zoom: float) -> Pair:
        """Make the pair whose difference, `zoom` times larger, is the one on the board.

        Mean and covariance of the second move in a straight line to those of the first, so Delta
        is exactly `zoom` times smaller, and the covariance stays positive definite.
        """
        return cls(
            first.mean,
            first.covariance,
            first.mean + (second.mean - first.mean) / zoom,
            first.covariance + (second.covariance - first.covariance) / zoom,
        )

    def swapped(self) -> Pair:
        """Swap first and second."""
        return Pair(self.mean2, self.cov2, self.mean1, self.cov1)


@dataclasses.dataclass(frozen=True, eq=False)
class Shadow:
    """Two Gaussians of the plane on a line through the middle between their centres.

    Parameters
    ----------
    direction : array (2,)
        Of unit length.
    middle : array (2,)
        Where the line has its zero.
    means, deviations : arrays (2,)
        Of the two, along the line.
    tv : float
        Total variation between the two on the line: at most that in the plane.
    """

    direction: Array
    middle: Array
    means: Array
    deviations: Array
    tv: float

    def ends(self, reach: float) -> tuple[float, float, float, float]:
        """Two points (x, y, x, y) of the line at this distance from its zero."""
        (x0, y0), (x1, y1) = (self.middle + sign * reach * self.direction for sign in (-1, 1))
        return float(x0), float(y0), float(x1), float(y1)


def clearest_shadow(pair: Pair) -> Shadow:
    """Find the line on which the two differ most, of 180 directions."""
    middle = (pair.mean1 + pair.mean2) / 2
    directions = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)
    means = [(directions @ (mean - middle))[:, None] for mean in (pair.mean1, pair.mean2)]
    variances = [
        np.einsum("ai,ij,aj->a", directions, cov, directions)[:, None, None]
        for cov in (pair.cov1, pair.cov2)
    ]
    tv = np.asarray(gaussian_tv(means[0], variances[0], means[1], variances[1]))
    best = int(np.argmax(tv))
    return Shadow(
        directions[best],
        middle,
        np.array([mean[best, 0] for mean in means]),
        np.sqrt([variance[best, 0, 0] for variance in variances]),
        float(tv[best]),
    )


def chance_of_best_guess(tv: float) -> str:
    """Write ``(1 + TV) / 2`` in per cent, with enough digits to differ from 50%.

    Examples
    --------
    >>> chance_of_best_guess(0.4612), chance_of_best_guess(0.0007069), chance_of_best_guess(0.0)
    ('73%', '50.035%', '50%')
    >>> chance_of_best_guess(1e-9)
    'a little above 50%'
    """
    extra = 50 * tv
    if extra == 0 or extra >= 1:
        return f"{50 + extra:.0f}%"
    decimals = 1 - math.floor(math.log10(extra))
    return f"{50 + extra:.{decimals}f}%" if decimals <= 4 else "a little above 50%"


def theorem_in_words(
    known: TVBounds, zoom: int
) -> tuple[Literal["equal", "applies", "silent"], str]:
    """Say whether Theorem 1.8 speaks about a pair, and what it says, in Markdown.

    Parameters
    ----------
    known : TVBounds
    zoom : int
        The pair is drawn this many times too far apart.
    """
    delta, tv = float(known.delta), float(known.tv)
    if tv == 0:
        return "equal", "The two are equal: TV = Δ = 0. Move one."
    if known.applies:
        return "applies", (
            f"TV < 1/600, so the theorem applies: {number_in_words(float(known.lower), 3)} ≤ "
            f"**{number_in_words(tv)}** ≤ {number_in_words(float(known.upper), 3)}. Its lower "
            f"bound is {tv / float(known.lower):.0f} times too small for this pair, its upper "
            f"bound {float(known.upper) / tv - 1:.0%} too large."
        )
    inside = float(known.lower) <= tv <= float(known.upper)
    near = [z for z in ZOOMS if HIGHEST * delta * zoom / z < PREMISE]
    advice = (
        f"Set the microscope to {near[0]:,}× to come close enough."
        if near
        else "Bring the two closer together on the board."
    )
    return "silent", (
        "TV ≥ 1/600, so the theorem says nothing here. Δ/200 ≤ TV ≤ Δ/√2 "
        f"{'holds anyway' if inside else 'does not hold'}. {advice}"
    )
