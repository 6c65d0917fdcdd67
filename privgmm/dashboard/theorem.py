"""The page Theorem 1.8: how total variation and the distance of parameters go together."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from privgmm.arrays import Array
from privgmm.bounds import (
    PREMISE,
    TVBounds,
    best_constants,
    pinsker,
    theorem_1_8,
    theorem_b_1,
    theorem_b_2,
)
from privgmm.dashboard.drag import (
    NARROWEST_SPREAD,
    REACH,
    WIDEST_SPREAD,
    PlaneGaussian,
    drag_pair,
    is_held,
    moved,
)
from privgmm.dashboard.frame import frame, slider_ends
from privgmm.gaussian_pairs import KINDS, PairCloud, random_pairs
from privgmm.theory_figures import (
    HIGHEST,
    LOWEST,
    band_alt_text,
    band_figure,
    pair_alt_text,
    pair_figure,
)
from privgmm.total_variation import gaussian_tv

__all__ = ["Pair", "bounds_table", "exaggeration", "page"]

DIMENSIONS = (1, 2, 5, 20)
ZOOMS = (1, 10, 100, 1000, 10_000)
_EACH = 250
_DRAG = "drag"
_WHOLE = "theorem_whole_page"
_KIND_LABELS = {
    "mean": "▲ means",
    "covariance": "■ shapes",
    "both": "● both",
}
_GUESSES = ("near Δ/200", "half way", "near Δ/√2")

STANDARD = PlaneGaussian(0.0, 0.0, 1.0, 1.0, 0.0)
START = (PlaneGaussian(-0.8, -0.4, 1.5, 0.9, -30.0), PlaneGaussian(0.6, 0.5, 1.2, 1.1, 60.0))
PRESETS: dict[str, tuple[PlaneGaussian, PlaneGaussian, str]] = {
    "Start again": (*START, "The pair the page opens with"),
    "Means only": (
        STANDARD,
        PlaneGaussian(0.8, 0.0, 1.0, 1.0, 0.0),
        "Equal shapes: TV = 0.3989 Δ as TV → 0, whatever the dimension",
    ),
    "Least TV": (
        STANDARD,
        PlaneGaussian(0.0, 0.0, 1.225, 0.707, 0.0),
        "One spread grows as the other shrinks: TV is as small as Δ allows, 0.2251 Δ",
    ),
    "Most TV": (
        STANDARD,
        PlaneGaussian(1.0, 0.0, 1.137, 1.399, 0.0),
        "A full shift and both spreads grow: in two dimensions TV is at most 0.4782 Δ",
    ),
}


class Pair(NamedTuple):
    """Two Gaussians in the plane, as means (2,) and covariances (2, 2)."""

    mean1: Array
    cov1: Array
    mean2: Array
    cov2: Array

    @classmethod
    def seen_through(cls, first: PlaneGaussian, second: PlaneGaussian, zoom: float) -> Pair:
        """The pair whose difference, made `zoom` times larger, is the one on the board.

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
        """Second before first."""
        return Pair(self.mean2, self.cov2, self.mean1, self.cov1)


def page() -> None:
    """Draw the page."""
    frame(
        "How far apart are two Gaussians?",
        "Theorem 1.8 compares two answers: **TV**, how well anyone could tell them apart, and "
        "**Δ**, how much their parameters differ. If TV < 1/600, then Δ/200 ≤ TV ≤ Δ/√2.",
        icon=":material/compare:",
    )
    st.session_state[_WHOLE] = True
    try:
        pair = _board()
    finally:
        st.session_state[_WHOLE] = False
    known, swapped = theorem_1_8(*pair), theorem_1_8(*pair.swapped())
    _band(known, float(swapped.delta))
    _details(pair, known, swapped)


# ------------------------------------------------------------------------------- the board


@st.fragment
def _board() -> Pair:
    """The board and the numbers beside it.

    While the hand moves only this part runs; the picture of all pairs follows when it lets go.
    """
    left, right = st.container(key="split").columns([1, 1.3], gap="medium")
    stage = left.container(border=True)
    with right:
        summary = st.container()
        zoom = st.select_slider(
            "Microscope",
            ZOOMS,
            1000,
            format_func=lambda zoom: f"{zoom:,}×",
            key="zoom",
            bind="query-params",
            help="The board shows the difference this many times larger than it is. The theorem "
            "speaks of pairs so close that no eye could tell them apart.",
        )
        slider_ends("as drawn", "nearly equal")
        row = st.container(horizontal=True, gap="small")
        for name, (one, other, words) in PRESETS.items():
            row.button(name, key=f"preset {name}", help=words, on_click=_load, args=(one, other))
        with st.expander("Type the numbers", icon=":material/keyboard:"):
            first, second = _typed(1, START[0]), _typed(2, START[1])
    with left:
        _guess()
    with stage:
        st.markdown(
            "**Drag and stretch**",
            help="Move the numbered centres; pull the small handles to stretch and turn. With the "
            "keyboard: Tab to a handle, then arrow keys; or type the numbers.",
        )
        drag_pair(first, second, key=_DRAG, on_move=_moved)
    pair = Pair.seen_through(first, second, zoom)
    with summary:
        known = theorem_1_8(*pair)
        _numbers(known)
        _verdict(known, zoom)
    if not st.session_state[_WHOLE] and not is_held(_DRAG):
        st.rerun()
    return pair


def _typed(which: int, start: PlaneGaussian) -> PlaneGaussian:
    st.caption(f"{'First' if which == 1 else 'Second'} Gaussian, as on the board")
    left, right = st.columns(2)
    x = left.number_input(
        "Centre, across",
        -REACH,
        REACH,
        start.x,
        0.1,
        key=f"x{which}",
        bind="query-params",
    )
    y = right.number_input(
        "Centre, up", -REACH, REACH, start.y, 0.1, key=f"y{which}", bind="query-params"
    )
    along = left.number_input(
        "Spread along",
        NARROWEST_SPREAD,
        WIDEST_SPREAD,
        start.along,
        0.05,
        key=f"along{which}",
        bind="query-params",
        help="Standard deviation in the direction of the turn",
    )
    across = right.number_input(
        "Spread across",
        NARROWEST_SPREAD,
        WIDEST_SPREAD,
        start.across,
        0.05,
        key=f"across{which}",
        bind="query-params",
        help="Standard deviation at right angles to it",
    )
    turn = left.number_input(
        "Turn in degrees",
        -90.0,
        90.0,
        start.turn,
        5.0,
        key=f"turn{which}",
        bind="query-params",
    )
    return PlaneGaussian(x, y, along, across, turn)


def _load(first: PlaneGaussian, second: PlaneGaussian, zoom: int | None = None) -> None:
    """Put a pair on the board."""
    for which, gaussian in ((1, first), (2, second)):
        for name, value in dataclasses.asdict(gaussian).items():
            st.session_state[f"{name}{which}"] = value
    if zoom is not None:
        st.session_state["zoom"] = zoom


def _moved() -> None:
    pair = moved(_DRAG)
    if pair is not None:
        _load(*pair)


# ----------------------------------------------------------------------------- the numbers


def _numbers(known: TVBounds) -> None:
    delta, tv = float(known.delta), float(known.tv)
    columns = st.columns(3)
    columns[0].metric(
        "TV, exact",
        f"{tv:.4g}",
        help="Total variation: the largest difference the two Gaussians make to the probability "
        "of any event. Computed by a contour integral to about 15 digits, not sampled.",
    )
    columns[1].metric(
        "Δ, of parameters",
        f"{delta:.4g}",
        help="The larger of ‖Σ₁^-½ Σ₂ Σ₁^-½ − I‖ (Frobenius) and ‖Σ₁^-½ (μ₁ − μ₂)‖: the second "
        "Gaussian as seen where the first is a standard one.",
    )
    columns[2].metric(
        "TV / Δ",
        f"{tv / delta:.4g}" if delta > 0 else "–",
        help=f"The theorem allows 1/200 = 0.005 to 1/√2 = 0.7071. As TV → 0 we found nothing "
        f"outside {LOWEST:.4f} … {HIGHEST:.4f}, numerically.",
    )


def _verdict(known: TVBounds, zoom: int) -> None:
    delta, tv = float(known.delta), float(known.tv)
    if tv == 0:
        st.info("The two are equal: TV = Δ = 0. Move one.", icon=":material/drag_pan:")
    elif known.applies:
        st.success(
            f"TV < 1/600, so the theorem speaks: {known.lower:.3g} ≤ **{tv:.4g}** ≤ "
            f"{known.upper:.3g}. Its lower bound is {tv / float(known.lower):.0f} times too "
            f"small here, its upper {float(known.upper) / tv:.1f} times too large.",
            icon=":material/check_circle:",
        )
    else:
        inside = float(known.lower) <= tv <= float(known.upper)
        closer = next((z for z in ZOOMS if delta * zoom / z < PREMISE), ZOOMS[-1])
        st.warning(
            f"TV ≥ 1/600, so the theorem is silent. Δ/200 ≤ TV ≤ Δ/√2 "
            f"{'happens to hold' if inside else 'fails'} all the same. Set the microscope to "
            f"{closer:,}× to come close enough.",
            icon=":material/visibility_off:",
        )


def _guess() -> None:
    guess = st.segmented_control(
        "Guess first: for close pairs, where between its bounds does TV lie?",
        _GUESSES,
        key="guess",
        bind="query-params",
        help="On a logarithmic scale from Δ/200 to Δ/√2, for all pairs with TV < 1/600",
    )
    if guess is None:
        return
    share = [math.log(c * 200) / math.log(200 / math.sqrt(2)) for c in (LOWEST, HIGHEST)]
    right = guess == _GUESSES[-1]
    st.markdown(
        f"{':material/check: Yes' if right else ':material/close: No'}: always **near Δ/√2**, "
        f"{share[0]:.0%} to {share[1]:.0%} of the way up. The 1/200 can be improved about "
        f"{LOWEST * 200:.0f} times, the 1/√2 only {1 / HIGHEST / math.sqrt(2):.2f} times."
    )


# ----------------------------------------------------------------------------- the picture


@st.cache_resource(show_spinner="Drawing 3,000 random pairs and their exact TV…")
def _clouds(each: int) -> dict[tuple[int, str], PairCloud]:
    return {(d, kind): random_pairs(each, d, kind, rng=d) for d in DIMENSIONS for kind in KINDS}


def _band(known: TVBounds, swapped_delta: float) -> None:
    left, right = st.columns([1, 1.2])
    dimensions = left.pills(
        "Dimensions",
        DIMENSIONS,
        selection_mode="multi",
        default=DIMENSIONS,
        key="dimensions",
        bind="query-params",
        help="3,000 random pairs, drawn once; choose which to show",
    )
    kinds = right.pills(
        "What differs",
        KINDS,
        selection_mode="multi",
        default=KINDS,
        format_func=lambda kind: _KIND_LABELS[kind],
        key="kinds",
        bind="query-params",
    )
    ratio = st.toggle(
        "Divide by Δ",
        key="ratio",
        bind="query-params",
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
        "Click a dot to see its pair. Filled star: your pair; open star: the same with first and "
        "second swapped (Remark 1.9). Grey: TV ≥ 1/600, where the theorem says nothing. The "
        f"dashed lines, {LOWEST:.4f} Δ and {HIGHEST:.4f} Δ, bound TV as TV → 0; they were found "
        "numerically and are not proved."
    )
    chosen = chosen_dot(event, everything)
    if chosen is not None:
        _clicked(*chosen)


def chosen_dot(
    event: Any, clouds: dict[tuple[int, str], PairCloud]
) -> tuple[PairCloud, int] | None:
    """The pair behind the dot that was clicked; None if there is none."""
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
    """How often a difference can be enlarged and still be a Gaussian's (Delta < 1), and seen."""
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
    notes = ["Seen where the first Gaussian is standard."]
    if zoom > 1:
        notes.append(f"The difference is drawn {zoom:,} times larger.")
    if d > 2:
        notes.append(f"Of {d} coordinates, the two that differ most.")
    if d == 1:
        notes.append("The second coordinate is there to be seen only.")
    with st.container(border=True):
        picture, words = st.container(key="sharing").columns([1.4, 1])
        picture.plotly_chart(
            pair_figure(np.zeros(2), np.eye(2), mean, cov),
            key="clicked",
            config={"displaylogo": False, "scrollZoom": False},
            alt=pair_alt_text(mean, cov),
        )
        words.markdown(
            f"**The pair you clicked**\n\n{d} dimension{'s' * (d > 1)}  \nΔ = {delta:.4g}  \n"
            f"TV = {tv:.4g}  \nTV/Δ = {tv / delta:.4f}"
        )
        words.caption(" ".join(notes))
        words.button(
            "Put it on the board",
            key="take",
            icon=":material/drag_pan:",
            on_click=_load,
            args=(STANDARD, second.within_limits(), zoom),
            disabled=d > 2 or second.within_limits() != _rounded(second),
            help="For pairs in one or two dimensions that fit on it",
        )


def _rounded(gaussian: PlaneGaussian) -> PlaneGaussian:
    return PlaneGaussian(*(round(value, 3) for value in dataclasses.astuple(gaussian)))


# ----------------------------------------------------------------------------- the details


def bounds_table(pair: Pair, known: TVBounds, swapped: TVBounds) -> pd.DataFrame:
    """What each result of the paper says about a pair, beside the exact value."""
    zero = np.zeros(2)
    line = (pair.mean1[0], pair.cov1[0, 0], pair.mean2[0], pair.cov2[0, 0])
    b_2 = theorem_b_2(*line)
    shapes = gaussian_tv(zero, pair.cov1, zero, pair.cov2)
    on_line = gaussian_tv([line[0]], [[line[1]]], [line[2]], [[line[3]]])
    silent = "" if known.applies else " (silent: TV ≥ 1/600)"
    rows = [
        (f"Theorem 1.8{silent}", "the pair", known.lower, known.tv, known.upper),
        (f"Remark 1.9{silent}", "the pair, swapped", swapped.lower, swapped.tv, swapped.upper),
        ("Lemma A.4 (Pinsker)", "the pair", None, known.tv, pinsker(*pair)),
        ("Theorem B.1", "its shapes, at one mean", theorem_b_1(pair.cov1, pair.cov2), shapes, None),
        ("Theorem B.2", "its shadow on the first axis", b_2.lower, on_line, b_2.upper),
    ]
    return pd.DataFrame(rows, columns=["result", "about", "lower", "exact TV", "upper"])


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    return "–" if pd.isna(value) else f"{value:.4g}"  # type: ignore[call-overload]


def _details(pair: Pair, known: TVBounds, swapped: TVBounds) -> None:
    bounds, constants, reading = st.tabs(
        ["Every bound on this pair", "The true constants", "What the theorems say"]
    )
    with bounds:
        st.dataframe(bounds_table(pair, known, swapped).map(_shown), hide_index=True)
        st.caption(
            f"Δ is {known.delta:.4g} one way round and {swapped.delta:.4g} the other. TV does not "
            "care which comes first, so by Remark 1.9 the better of both bounds holds: "
            f"{max(known.lower, swapped.lower):.4g} ≤ TV ≤ {min(known.upper, swapped.upper):.4g}."
        )
    with constants:
        st.dataframe(
            _constants(),
            hide_index=True,
            column_config={
                name: st.column_config.NumberColumn(format="%.4f") for name in ("lowest", "highest")
            },
        )
        st.caption(
            "The range of TV/Δ as TV → 0, which is that of ½ E|v·g + ½ Σ aᵢ (gᵢ² − 1)| over "
            "directions with max(‖a‖, ‖v‖) = 1, g standard normal. The search is numerical. "
            "Proved: a shift of the mean can only add to the lowest."
        )
    with reading:
        st.markdown(
            r"""
**Theorem 1.8.** If $d_{TV} < 1/600$, then $\Delta/200 \le d_{TV} \le \Delta/\sqrt 2$ with
$\Delta = \max\{\|\Sigma_1^{-1/2}\Sigma_2\Sigma_1^{-1/2} - I\|_F,\ \|\Sigma_1^{-1/2}(\mu_1 -
\mu_2)\|_2\}$. Algorithms can then work with parameters and still promise closeness in TV.

**Remark 1.9.** TV is symmetric, Δ is not: the bounds hold for Δ either way round.

**Theorem B.1.** With equal means, $\min\{1, \|\Sigma_1^{-1/2}\Sigma_2\Sigma_1^{-1/2} - I\|_F\}/100
\le d_{TV}$, however far apart.

**Theorem B.2.** In one dimension, $\tfrac1{200}\min\{1, \max\{|\sigma_1^2 -
\sigma_2^2|/\sigma_1^2,\ 40|\mu_1 - \mu_2|/\sigma_1\}\} \le d_{TV} \le
\tfrac32|\sigma_1^2 - \sigma_2^2|/\sigma_1^2 + \tfrac12|\mu_1 - \mu_2|/\sigma_1$.
"""
        )


@st.cache_data(show_spinner=False)
def _constants() -> pd.DataFrame:
    rows = [(str(d), *best_constants(d)) for d in (1, 2, 3, 4, 20)]
    rows += [("→ ∞", LOWEST, HIGHEST), ("Theorem 1.8", 1 / 200, 1 / math.sqrt(2))]
    return pd.DataFrame(rows, columns=["dimension", "lowest", "highest"])
