"""The sliders of a promise, the same on every page: epsilon, delta, alpha."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from privgmm.dashboard.shared.answers import EPSILONS
from privgmm.dashboard.shared.format import all_of, number_in_words
from privgmm.dashboard.shared.layout import slider_ends
from privgmm.methods import registry
from privgmm.methods.request import DEFAULT_ALPHA

__all__ = ["ALPHAS", "DELTAS", "choose_alpha", "choose_delta", "choose_epsilon", "choose_forgiving"]

DELTAS = (1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
ALPHAS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)


def choose_epsilon(
    key: str,
    *,
    weaker: str = "more accurate",
    options: Sequence[float] = EPSILONS,
    meaning: str = "The total promise of one release. Around 1 is strong; 10 is weak.",
) -> float:
    """The budget.

    Parameters
    ----------
    key : str
        Its name in the address.
    weaker : str
        What a larger one buys.
    options : sequence of float
    meaning : str
        Said on request.
    """
    value = st.select_slider(
        "Privacy budget ε",
        options,
        1.0,
        format_func=lambda value: f"{value:g}",
        key=key,
        bind="query-params",
        persist_state="session",
        help=meaning,
    )
    slider_ends("more private", weaker)
    return float(value)


def choose_delta(key: str) -> float:
    """The chance of failure."""
    _read_as_written_before(key)
    value = st.select_slider(
        "Failure chance δ",
        DELTAS,
        1e-6,
        format_func=number_in_words,
        key=key,
        bind="query-params",
        persist_state="session",
        help="How much of the promise may fail: keep it far below one divided by the rows.",
    )
    return float(value)


def _read_as_written_before(key: str) -> None:
    """Links once said 1e-06 where they say 10⁻⁶ now."""
    known = {f"{value:.0e}": value for value in DELTAS}
    said = st.query_params.get(key, "")
    if said in known and key not in st.session_state:
        del st.query_params[key]
        st.session_state[key] = known[said]


def choose_alpha(key: str, *, remark: str) -> float:
    """The accuracy target; `remark` says when it matters."""
    value = st.select_slider(
        "Accuracy target α",
        ALPHAS,
        DEFAULT_ALPHA,
        format_func=lambda value: f"{value:g}",
        key=key,
        bind="query-params",
        persist_state="session",
        help=f"How far the noise may move what the blocks agree on. {remark}",
    )
    slider_ends("more exact", "fewer rows")
    return float(value)


def choose_forgiving(key: str) -> bool:
    """Whether to allow for real data, with the methods that can."""
    able = [method.title for method in registry.all_methods() if method.takes_forgiving]
    return st.toggle(
        "Allow for real data",
        key=key,
        bind="query-params",
        persist_state="session",
        help="Real rows are not a Gaussian mixture: components lie nearer, and the fits of blocks "
        "scatter more widely, than with generated rows. Allowing for it costs some accuracy and "
        f"rows, no privacy. Only for {all_of(able)}.",
    )
