"""The cloud of the page Theorem 1.8: thousands of random pairs, and the one that was clicked."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import streamlit as st

from privgmm.dashboard.shared.lessons import LINKED, Writer, controls_panel, plainly
from privgmm.dashboard.theorem.board import load
from privgmm.distances.bounds import TVBounds
from privgmm.distances.gaussian_pairs import PAIR_KINDS, PairCloud, random_pairs
from privgmm.figures.theory import (
    HIGHEST,
    LOWEST,
    band_alt_text,
    band_figure,
    pair_alt_text,
    pair_figure,
)
from privgmm.teaching.format import number_in_words
from privgmm.teaching.pairs import UNIT_GAUSSIAN, ZOOMS, PlaneGaussian

__all__ = ["CLOUD_WRITERS", "chosen_dot", "exaggeration", "show_cloud"]

DIMENSIONS = (1, 2, 5, 20)
"""Dimensions of the random pairs."""
_EACH = 250
"""Pairs per dimension and kind of difference: 3,000 in all."""
_KIND_LABELS = {"mean": "▲ means", "covariance": "■ shapes", "both": "● both"}
CLOUD_WRITERS: dict[str, Writer] = {
    **plainly("dimensions", "ratio"),
    "kinds": lambda kind: _KIND_LABELS[kind],
}


@st.cache_resource(show_spinner="Drawing 3,000 random pairs and their exact TV…")
def _clouds(each: int) -> dict[tuple[int, str], PairCloud]:
    return {
        (d, kind): random_pairs(each, d, kind, rng=d) for d in DIMENSIONS for kind in PAIR_KINDS
    }


def show_cloud(known: TVBounds, swapped_delta: float) -> None:
    """Show the theorem's band with all pairs; `known` is the pair on the board."""
    with controls_panel("cloud", border=False):
        left, right = st.columns([1, 1.2])
        dimensions = left.pills(
            "Dimensions",
            DIMENSIONS,
            selection_mode="multi",
            default=DIMENSIONS,
            key="dimensions",
            **LINKED,
            help="3,000 random pairs, drawn once; choose which to show",
        )
        kinds = right.pills(
            "What differs",
            PAIR_KINDS,
            selection_mode="multi",
            default=PAIR_KINDS,
            format_func=lambda kind: _KIND_LABELS[kind],
            key="kinds",
            **LINKED,
        )
        ratio = st.toggle(
            "Divide by Δ",
            key="ratio",
            **LINKED,
            help="Draws TV/Δ: the bounds become level lines and the dots spread out",
        )
    everything = _clouds(_EACH)
    shown = [everything[d, kind] for d in dimensions for kind in kinds]
    event = st.plotly_chart(
        band_figure(shown, pair=known, swapped_delta=swapped_delta, ratio=ratio),
        key="band",
        on_select="rerun",
        selection_mode="points",
        config={"displaylogo": False, "scrollZoom": False},
        alt=band_alt_text(shown, pair=known),
    )
    st.caption(
        "Click a dot to see its pair. Filled star: your pair. Open star: the same pair with first "
        "and second swapped (Remark 1.9). Grey: TV ≥ 1/600, where the theorem says nothing. The "
        f"dashed lines are {LOWEST:.4f} Δ and {HIGHEST:.4f} Δ: between them lies every TV that we "
        "found as TV → 0. They are computed, not proved."
    )
    chosen = chosen_dot(event, everything)
    if chosen is not None:
        _clicked(*chosen)


def chosen_dot(
    event: Any, clouds: dict[tuple[int, str], PairCloud]
) -> tuple[PairCloud, int] | None:
    """Find the pair behind the dot that was clicked; None if there is none."""
    for point in event.get("selection", {}).get("points", []):
        data = point.get("customdata")
        # Plotly's events carry arrays as objects with the positions as names.
        values = list(data.values()) if isinstance(data, dict) else list(data or ())
        if len(values) == 4:
            cloud = clouds.get((int(values[1]), str(values[2])))
            if cloud is not None and 0 <= int(values[3]) < len(cloud):
                return cloud, int(values[3])
    return None


def exaggeration(delta: float) -> int:
    """Choose a zoom at which the pair is visible and still Gaussian (Delta < 1)."""
    return max((zoom for zoom in ZOOMS if delta * zoom <= 0.95), default=1)


def _clicked(cloud: PairCloud, index: int) -> None:
    delta, tv = float(cloud.delta[index]), float(cloud.tv[index])
    zoom = exaggeration(delta)
    mean, cov = cloud.pair(index).plane()
    mean, cov = zoom * mean, np.eye(2) + zoom * (cov - np.eye(2))
    d = cloud.n_features
    second = PlaneGaussian(
        float(mean[0]), float(mean[1]), math.sqrt(cov[0, 0]), math.sqrt(cov[1, 1]), 0.0
    )
    notes = ["In units that make the first Gaussian a standard one."]
    if zoom > 1:
        notes.append(f"**Drawn {zoom:,} times too far apart.**")
    if d > 2:
        notes.append(f"Of {d} coordinates, the two that differ most.")
    if d == 1:
        notes.append("The second coordinate is only there to draw an ellipse.")
    with st.container(border=True):
        picture, words = st.container(key="sharing").columns([1.4, 1])
        picture.plotly_chart(
            pair_figure(np.zeros(2), np.eye(2), mean, cov),
            key="clicked",
            config={"displaylogo": False, "scrollZoom": False},
            alt=pair_alt_text(mean, cov),
        )
        words.markdown(
            f"**The pair you clicked**\n\n{d} dimension{'s' * (d > 1)}  \nΔ = "
            f"{number_in_words(delta)}  \nTV = {number_in_words(tv)}  \nTV/Δ = {tv / delta:.4f}"
        )
        words.caption(" ".join(notes))
        words.button(
            "Put it on the board",
            key="take",
            icon=":material/drag_pan:",
            on_click=load,
            args=(UNIT_GAUSSIAN, second.within_limits(), zoom),
            disabled=d > 2 or second.within_limits() != _rounded(second),
            help="For pairs in one or two dimensions that fit on it",
        )


def _rounded(gaussian: PlaneGaussian) -> PlaneGaussian:
    return PlaneGaussian(*(round(value, 3) for value in dataclasses.astuple(gaussian)))
