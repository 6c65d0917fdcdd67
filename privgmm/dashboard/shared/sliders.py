"""The sliders of a promise, the same on every page: epsilon, delta, alpha."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from privgmm.dashboard.shared.answers import EPSILON_STOPS
from privgmm.dashboard.shared.format import number_in_words
from privgmm.dashboard.shared.layout import slider_ends
from privgmm.dashboard.shared.lessons import LINKED
from privgmm.methods.request import DEFAULT_ALPHA

__all__ = ["ALPHAS", "DELTAS", "choose_alpha", "choose_delta", "choose_epsilon"]

DELTAS = (1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
"""Values offered: from far below one over any number of rows to one over 10,000."""
ALPHAS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
"""Values offered; 1 is the largest alpha of the paper."""


def choose_epsilon(
    key: str,
    *,
    weaker: str = "more accurate",
    options: Sequence[float] = EPSILON_STOPS,
    meaning: str = "The total promise of one release. Around 1 is strong; 10 is weak.",
) -> float:
    """Let the visitor choose the privacy budget.

    Parameters
    ----------
    key : str
        Name of the widget, and in the address.
    weaker : str
        What a larger epsilon gives.
    options : sequence of float
    meaning : str
        Help text.
    """
    value = st.select_slider(
        "Privacy budget ε",
        options,
        1.0,
        format_func=lambda value: f"{value:g}",
        key=key,
        **LINKED,
        help=meaning,
    )
    slider_ends("stronger promise", weaker)
    return float(value)


def choose_delta(key: str) -> float:
    """Let the visitor choose delta."""
    _read_as_written_before(key)
    value = st.select_slider(
        "Failure chance δ",
        DELTAS,
        1e-6,
        format_func=number_in_words,
        key=key,
        **LINKED,
        help="How much of the promise may fail: keep it far below one divided by the rows.",
    )
    return float(value)


def _read_as_written_before(key: str) -> None:
    """Read older links, which say 1e-06 where links now say 10⁻⁶."""
    known = {f"{value:.0e}": value for value in DELTAS}
    said = st.query_params.get(key, "")
    if said in known and key not in st.session_state:
        del st.query_params[key]
        st.session_state[key] = known[said]


def choose_alpha(key: str, *, remark: str) -> float:
    """Let the visitor choose the accuracy target; `remark` says when it matters."""
    value = st.select_slider(
        "Accuracy target α",
        ALPHAS,
        DEFAULT_ALPHA,
        format_func=lambda value: f"{value:g}",
        key=key,
        **LINKED,
        help=f"How far the noise may move what the blocks agree on. {remark}",
    )
    slider_ends("more exact", "fewer rows")
    return float(value)
