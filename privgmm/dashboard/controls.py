"""The privacy panel: method, budget, accuracy, blocks."""

from __future__ import annotations

import streamlit as st

from privgmm.calibration import METHODS
from privgmm.dashboard.promise import choose_alpha, choose_delta, choose_epsilon
from privgmm.dashboard.state import Settings
from privgmm.dashboard.words import METHOD_WORDS, method_label
from privgmm.datasets import Dataset

__all__ = ["choose_settings"]


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
    epsilon = choose_epsilon("epsilon")
    delta = choose_delta("delta")
    alpha, n_blocks = _choose_accuracy()
    return Settings(
        data=dataset.fingerprint,
        data_name=dataset.name,
        method=method,
        epsilon=epsilon,
        delta=delta,
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
    alpha = choose_alpha("alpha", remark="Smaller asks for more rows.")
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
    return alpha, None if blocks is None else int(blocks)
