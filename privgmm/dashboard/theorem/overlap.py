"""Total variation as a picture: the pair on the board, seen along the line where it differs most.

On a line two Gaussians are two bell curves, and TV is the part that they do not share. A point of
the plane says at least as much as its place on the line, so the line shows a part of TV, and all of
it where the shapes are equal.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import streamlit as st

from privgmm.arrays import Array
from privgmm.dashboard.shared.format import number_in_words
from privgmm.dashboard.theorem.board import Pair
from privgmm.distances.total_variation import gaussian_tv
from privgmm.figures.theory import overlap_alt_text, overlap_figure

__all__ = ["Shadow", "chance_of_best_guess", "clearest_shadow", "show_overlap"]

_ANGLES = np.linspace(0.0, math.pi, 180, endpoint=False)
"""Directions tried, one per degree: total variation hardly changes between two."""


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


def show_overlap(shadow: Shadow, drawn_tv: float, tv: float, zoom: int) -> None:
    """Show the picture, and how often the best guess is right.

    Parameters
    ----------
    shadow : Shadow
        Of the pair as drawn.
    drawn_tv, tv : float
        Total variation in the plane, of the pair as drawn and of the pair itself.
    zoom : int
        The difference is drawn this many times too large.
    """
    st.markdown(
        "**What TV means.** A coin picks 1 or 2, and you see one point from it. Which was it? Best "
        "is to name the higher curve. **The best guess is right (1 + TV)/2 of the time**: "
        f"{chance_of_best_guess(drawn_tv)} as drawn"
        + (f", {chance_of_best_guess(tv)} for the real pair." if zoom > 1 else ".")
    )
    st.plotly_chart(
        overlap_figure(shadow.means, shadow.deviations),
        key="overlap",
        config={"displaylogo": False, "displayModeBar": False, "scrollZoom": False},
        alt=overlap_alt_text(shadow.tv),
    )
    whole = shadow.tv > 0.995 * drawn_tv
    st.caption(
        "Along the dotted line on the board, where the two differ most"
        + (f", **drawn {zoom:,} times too far apart**" if zoom > 1 else "")
        + f". On this line TV = {number_in_words(shadow.tv, 3)}, the part not shared"
        + ("." if whole else f"; in the whole plane {number_in_words(drawn_tv, 3)}.")
    )
