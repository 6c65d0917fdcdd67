"""The sliders of a promise, the same on every page: epsilon, delta, alpha."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from privgmm.dashboard.shared.layout import slider_ends
from privgmm.dashboard.shared.lessons import LINKED
from privgmm.methods.usefulness import USUAL_ALPHA
from privgmm.teaching.format import number_in_words
from privgmm.teaching.rehearsal import ALPHA_STOPS, DELTA_STOPS, EPSILON_STOPS

__all__ = ["choose_alpha", "choose_delta", "choose_epsilon"]


def choose_epsilon(
    key: str,
    *,
    value: float = 1.0,
    weaker: str = "more accurate",
    options: Sequence[float] = EPSILON_STOPS,
    meaning: str = "The total promise of one release. Around 1 is strong; 10 is weak.",
) -> float:
    """Let the visitor choose the privacy budget.

    Parameters
    ----------
    key : str
        Name of the widget, and in the address.
    value : float
        Before anything is chosen.
    weaker : str
        What a larger epsilon gives.
    options : sequence of float
    meaning : str
        Help text.
    """
    chosen = st.select_slider(
        "Privacy budget ε",
        options,
        value,
        format_func=lambda value: f"{value:g}",
        key=key,
        **LINKED,
        help=meaning,
    )
    slider_ends("stronger promise", weaker)
    return float(chosen)


def choose_delta(key: str, **changed: Any) -> float:
    """Let the visitor choose delta; `changed` says what to call when it is moved."""
    _read_as_written_before(key)
    value = st.select_slider(
        "Failure chance δ",
        DELTA_STOPS,
        1e-6,
        format_func=number_in_words,
        key=key,
        **LINKED,
        **changed,
        help="How much of the promise may fail: keep it far below one divided by the rows.",
    )
    return float(value)


def _read_as_written_before(key: str) -> None:
    """Read older links, which say 1e-06 where links now say 10⁻⁶."""
    known = {f"{value:.0e}": value for value in DELTA_STOPS}
    said = st.query_params.get(key, "")
    if said in known and key not in st.session_state:
        del st.query_params[key]
        st.session_state[key] = known[said]


def choose_alpha(key: str, **changed: Any) -> float:
    """Let the visitor choose the accuracy that is asked for; `changed` as for `choose_delta`."""
    value = st.select_slider(
        "Accuracy α",
        ALPHA_STOPS,
        USUAL_ALPHA,
        format_func=lambda value: f"{value:g}",
        key=key,
        **LINKED,
        **changed,
        help="How far what is released may be from the truth, in nine of ten releases. It is a "
        "distance (dist\\_GMM): 0 is perfect, 1 is wrong. A mean that is off by half a standard "
        "deviation is 0.2 off.",
    )
    slider_ends("more exact", "fewer rows")
    return float(value)
