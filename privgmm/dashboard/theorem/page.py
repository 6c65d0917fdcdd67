"""The page Theorem 1.8: how total variation and the distance of parameters go together."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import streamlit as st

from privgmm.dashboard.shared.layout import frame
from privgmm.dashboard.shared.lessons import (
    LINKED,
    Writer,
    controls_panel,
    plainly,
    scene_line,
    show_link,
    written,
)
from privgmm.dashboard.shared.refresh import is_tick, refreshing_page, rerun
from privgmm.dashboard.theorem import board, cloud
from privgmm.dashboard.theorem.board import choose_zoom, hand_rests, show_board, type_pair
from privgmm.dashboard.theorem.cloud import show_cloud
from privgmm.dashboard.theorem.overlap import show_overlap
from privgmm.distances.bounds import (
    TVBounds,
    best_constants,
    pinsker,
    theorem_1_8,
    theorem_b_1,
    theorem_b_2,
)
from privgmm.distances.total_variation import gaussian_tv
from privgmm.figures.theory import HIGHEST, LOWEST
from privgmm.teaching.format import number_in_words
from privgmm.teaching.pairs import REACH, Pair, clearest_shadow, theorem_in_words

__all__ = ["bounds_table", "page"]

_WRITERS: dict[str, Writer] = {**board.BOARD_WRITERS, **cloud.CLOUD_WRITERS, **plainly("guess")}
_LOOK = """
<style>
.st-key-halves > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"]
  { flex-wrap: wrap; }
.st-key-halves > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]
  { min-width: min(100%, 21rem); }
</style>
"""
"""Board and picture side by side only where both are wide enough to be read."""
_GUESSES = ("near Δ/200", "half way", "near Δ/√2")


@refreshing_page
def page() -> None:
    """Render the page."""
    link = frame(
        "How far apart are two Gaussians?",
        "Theorem 1.8 compares two answers: **TV**, how well anyone could distinguish them, and "
        "**Δ**, how much their parameters differ. If TV < 1/600, then Δ/200 ≤ TV ≤ Δ/√2.",
    )
    st.html(_LOOK)
    pair = _board()
    known, swapped = theorem_1_8(*pair), theorem_1_8(*pair.swapped())
    show_cloud(known, float(swapped.delta))
    _details(pair, known, swapped)
    with link:
        # Last, when every widget of the page has its value.
        show_link(written(_WRITERS))


@st.fragment
def _board() -> Pair:
    """Render the board and its numbers.

    While the pair is dragged only this part reruns; the picture of all pairs follows at the end.
    """
    left, right = st.container(key="halves").columns([1, 1.15], gap="medium")
    with left:
        place = st.container(border=True)
        with controls_panel("pair", border=False):
            zoom = choose_zoom()
            first, second = type_pair()
        scene_line(f"The board shows the difference {zoom:,} times larger than it is.")
    drawn, pair = (Pair.seen_through(first, second, scale) for scale in (1, zoom))
    shadow, known = clearest_shadow(drawn), theorem_1_8(*pair)
    with place:
        show_board(first, second, shadow.ends(2 * REACH), zoom)
    with right:
        show_overlap(shadow, float(gaussian_tv(*drawn)), float(known.tv), zoom)
        _numbers(known)
        _verdict(known, zoom)
        _guess()
    if is_tick() and hand_rests():
        rerun()
    return pair


def _numbers(known: TVBounds) -> None:
    delta, tv = float(known.delta), float(known.tv)
    row = st.container(horizontal=True)
    row.metric(
        "TV, exact",
        number_in_words(tv),
        width="content",
        help="Total variation: the largest difference the two Gaussians make to the probability "
        "of any event. Computed by a contour integral to about 15 digits, not sampled.",
    )
    row.metric(
        "Δ of the parameters",
        number_in_words(delta),
        width="content",
        help="The larger of ‖Σ₁^-½ Σ₂ Σ₁^-½ − I‖ (Frobenius) and ‖Σ₁^-½ (μ₁ − μ₂)‖: the second "
        "Gaussian as seen where the first is a standard one.",
    )
    row.metric(
        "TV / Δ",
        number_in_words(tv / delta) if delta > 0 else "–",
        width="content",
        help=f"The theorem allows 1/200 = 0.005 to 1/√2 = 0.7071. As TV → 0 we found nothing "
        f"outside {LOWEST:.4f} … {HIGHEST:.4f}, numerically.",
    )


def _verdict(known: TVBounds, zoom: int) -> None:
    tone, words = theorem_in_words(known, zoom)
    show, icon = {
        "equal": (st.info, ":material/drag_pan:"),
        "applies": (st.success, ":material/check_circle:"),
        "silent": (st.warning, ":material/visibility_off:"),
    }[tone]
    show(words, icon=icon)


def _guess() -> None:
    guess = st.pills(
        "Guess first: for close pairs, where between its bounds does TV lie?",
        _GUESSES,
        key="guess",
        **LINKED,
        help="On a logarithmic scale from Δ/200 to Δ/√2, for all pairs with TV < 1/600",
    )
    if guess is None:
        return
    share = [math.log(c * 200) / math.log(200 / math.sqrt(2)) for c in (LOWEST, HIGHEST)]
    right = guess == _GUESSES[-1]
    st.markdown(
        f"{':material/check: Yes' if right else ':material/close: No'}: **near Δ/√2** in every "
        f"close pair we tried, {share[0]:.0%} to {share[1]:.0%} of the way up. The 1/200 can be "
        f"improved about {LOWEST * 200:.0f} times, the 1/√2 only "
        f"{1 / HIGHEST / math.sqrt(2):.2f} times."
    )


def bounds_table(pair: Pair, known: TVBounds, swapped: TVBounds) -> pd.DataFrame:
    """List what each result of the paper says about a pair, with the exact value."""
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


def _shown(value: str | float | None) -> str:
    if isinstance(value, str):
        return value
    return "–" if value is None or math.isnan(value) else number_in_words(value)


def _details(pair: Pair, known: TVBounds, swapped: TVBounds) -> None:
    bounds, constants, reading = st.tabs(
        ["Every bound on this pair", "The true constants", "What the theorems say"]
    )
    with bounds:
        st.dataframe(bounds_table(pair, known, swapped).map(_shown), hide_index=True)
        st.caption(
            f"Δ is {number_in_words(float(known.delta))} with the first as the standard, "
            f"{number_in_words(float(swapped.delta))} with the second. TV is the same both ways, "
            "so by Remark 1.9 the better of both bounds holds: "
            f"{number_in_words(float(max(known.lower, swapped.lower)))} ≤ TV ≤ "
            f"{number_in_words(float(min(known.upper, swapped.upper)))}."
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
