"""The privacy panel: method, budget, accuracy, blocks."""

from __future__ import annotations

import streamlit as st

from privgmm.calibration import METHODS
from privgmm.dashboard.answers import DEFAULT_ALPHA, EPSILONS
from privgmm.dashboard.frame import slider_ends
from privgmm.dashboard.state import Settings
from privgmm.dashboard.words import METHOD_WORDS, method_label
from privgmm.datasets import Dataset

__all__ = ["choose_settings"]

DELTAS = (1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
ALPHAS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)


def choose_settings(dataset: Dataset) -> Settings:
    """Draw the panel and give back what was chosen."""
    method = st.segmented_control(
        "Method",
        METHODS,
        default=METHODS[-1],
        required=True,
        format_func=method_label,
        key="method",
        bind="query-params",
        persist_state="session",
        width="stretch",
    )
    if method in METHOD_WORDS:
        st.caption(f"{METHOD_WORDS[method][1].capitalize()}.")
    k = st.number_input(
        "Components to fit",
        1,
        8,
        2,
        key="k",
        bind="query-params",
        persist_state="session",
        help="k, the paper's letter",
    )
    epsilon = st.select_slider(
        "Privacy budget ε",
        EPSILONS,
        1.0,
        format_func=lambda value: f"{value:g}",
        key="epsilon",
        bind="query-params",
        persist_state="session",
        help="The total promise of one release. Around 1 is strong; 10 is weak.",
    )
    slider_ends("more private", "more accurate")
    delta = st.select_slider(
        "Failure chance δ",
        DELTAS,
        1e-6,
        format_func=lambda value: f"{value:.0e}",
        key="delta",
        bind="query-params",
        persist_state="session",
        help="The chance with which the promise may fail: well below one over the rows.",
    )
    alpha, n_blocks = _choose_accuracy()
    return Settings(
        data=dataset.fingerprint,
        data_name=dataset.name,
        method=method,
        epsilon=float(epsilon),
        delta=float(delta),
        alpha=alpha,
        n_components=int(k),
        n_blocks=n_blocks,
        seed=_choose_noise(),
    )


def _choose_noise() -> int | None:
    """The seed of the noise; None for cryptographic noise."""
    with st.expander("Noise", icon=":material/tune:"):
        seeded = st.toggle(
            "Reproducible noise",
            key="seeded",
            bind="query-params",
            persist_state="session",
            help="For teaching only: whoever knows the seed can subtract the noise.",
        )
        if not seeded:
            return None
        seed = st.number_input(
            "Noise seed",
            0,
            10**9,
            0,
            key="noise_seed",
            bind="query-params",
            persist_state="session",
        )
        st.caption(":material/warning: A seeded release gives no privacy. Its record says so.")
    return int(seed)


def _choose_accuracy() -> tuple[float | None, int | None]:
    """Accuracy target and number of blocks; None where the planner is to choose."""
    automatic = st.toggle(
        "Auto: the plan with the least error",
        value=True,
        key="auto",
        bind="query-params",
        persist_state="session",
        help="Chooses accuracy, blocks and refinement from the number of rows alone",
    )
    if automatic:
        return None, None
    alpha = st.select_slider(
        "Accuracy target α",
        ALPHAS,
        DEFAULT_ALPHA,
        format_func=lambda value: f"{value:g}",
        key="alpha",
        bind="query-params",
        persist_state="session",
        help="How far the noise may move the mixture. Smaller asks for more rows.",
    )
    slider_ends("more exact", "fewer rows")
    blocks = st.number_input(
        "Blocks t",
        5,
        100_000,
        None,
        key="t",
        bind="query-params",
        persist_state="session",
        placeholder="chosen for you",
        help="The rows are split into t blocks; each is fitted on its own.",
    )
    return float(alpha), None if blocks is None else int(blocks)
