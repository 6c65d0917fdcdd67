"""The privacy panel: method, budget, accuracy, blocks; and the plan they amount to."""

from __future__ import annotations

import math

import streamlit as st

from privgmm.calibration import METHODS, calibrate
from privgmm.dashboard.frame import slider_ends
from privgmm.dashboard.state import Settings
from privgmm.dashboard.words import METHOD_WORDS, method_label
from privgmm.datasets import Dataset
from privgmm.plan import Method, Plan

__all__ = ["choose_settings", "plan_for", "rows_needed"]

EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
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
        width="stretch",
    )
    if method in METHOD_WORDS:
        st.caption(f"{METHOD_WORDS[method][1].capitalize()}.")
    k = st.number_input(
        "Components to fit", 1, 8, 2, key="k", bind="query-params", help="k, the paper's letter"
    )
    epsilon = st.select_slider(
        "Privacy budget ε",
        EPSILONS,
        1.0,
        format_func=lambda value: f"{value:g}",
        key="epsilon",
        bind="query-params",
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
        help="The chance with which the promise may fail: well below one over the rows.",
    )
    alpha = st.select_slider(
        "Accuracy target α",
        ALPHAS,
        0.5,
        format_func=lambda value: f"{value:g}",
        key="alpha",
        bind="query-params",
        help="How far the noise may move the mixture. Smaller asks for more rows.",
    )
    slider_ends("more exact", "fewer rows")
    with st.expander("Blocks and noise", icon=":material/tune:"):
        automatic = st.toggle(
            "Choose the number of blocks for me", value=True, key="auto_t", bind="query-params"
        )
        n_blocks = None
        if not automatic:
            n_blocks = st.number_input(
                "Blocks t",
                5,
                100_000,
                400,
                key="t",
                bind="query-params",
                help="The rows are split into t blocks; each is fitted on its own.",
            )
        seeded = st.toggle(
            "Reproducible noise",
            key="seeded",
            bind="query-params",
            help="For teaching only: whoever knows the seed can subtract the noise.",
        )
        seed = None
        if seeded:
            seed = st.number_input("Noise seed", 0, 10**9, 0, key="noise_seed", bind="query-params")
            st.caption(":material/warning: A seeded release gives no privacy. Its record says so.")
    return Settings(
        data=dataset.fingerprint,
        data_name=dataset.name,
        method=method,
        epsilon=float(epsilon),
        delta=float(delta),
        alpha=float(alpha),
        n_components=int(k),
        n_blocks=None if n_blocks is None else int(n_blocks),
        seed=None if seed is None else int(seed),
    )


@st.cache_resource(max_entries=64, show_spinner="Planning…")
def _plan(
    method: Method,
    epsilon: float,
    delta: float,
    alpha: float,
    n_components: int,
    n_features: int,
    n_blocks: int | None,
) -> Plan:
    return calibrate(
        method,
        epsilon=epsilon,
        delta=delta,
        alpha=alpha,
        n_components=n_components,
        n_features=n_features,
        n_blocks=n_blocks,
    )


def plan_for(settings: Settings, n_features: int, *, method: Method | None = None) -> Plan:
    """The plan for these settings, or for another method at the same budget.

    It depends on no data, so it costs no privacy and may be made at every click.
    """
    name = settings.method if method is None else method
    n_blocks = settings.n_blocks if name == settings.method else None
    if n_blocks is None and name != "paper":
        n_blocks = _automatic_blocks(settings.epsilon)
    return _plan(
        name,
        settings.epsilon,
        settings.delta,
        settings.alpha,
        settings.n_components,
        n_features,
        n_blocks,
    )


def _automatic_blocks(epsilon: float) -> int:
    """Enough blocks for the test to pass with room: its noise grows like 1/epsilon."""
    return math.ceil(400 / min(epsilon, 1.0))


@st.cache_data(max_entries=64, show_spinner="Planning…")
def _rows_needed(_plan: Plan, key: str) -> float:  # noqa: ARG001 - the key stands for the plan
    return float(_plan.rows_needed())


def rows_needed(plan: Plan) -> float:
    """`Plan.rows_needed`, remembered."""
    return _rows_needed(plan, repr(plan.to_dict()))
