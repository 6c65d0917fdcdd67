"""Total variation as a picture: the pair on the board, seen along the line where it differs most.

On a line two Gaussians are two bell curves, and TV is the part that they do not share. A point of
the plane says at least as much as its place on the line, so the line shows a part of TV, and all of
it where the shapes are equal.
"""

from __future__ import annotations

import streamlit as st

from privgmm.figures.theory import overlap_alt_text, overlap_figure
from privgmm.teaching.format import number_in_words
from privgmm.teaching.pairs import Shadow, chance_of_best_guess

__all__ = ["show_overlap"]


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
