"""The privacy panel: method, budget, accuracy, blocks; and the plan they amount to."""

from __future__ import annotations

import math

import streamlit as st

from privgmm.calibration import METHODS, calibrate
from privgmm.dashboard.frame import slider_ends
from privgmm.dashboard.state import Settings
from privgmm.dashboard.words import METHOD_WORDS, method_label
from privgmm.datasets import Dataset
from privgmm.errors import InvalidInput
from privgmm.plan import Method, Plan
from privgmm.planner import best_plan

__all__ = ["choose_settings", "fewest_rows", "plan_for", "rows_needed"]

EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
DELTAS = (1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
ALPHAS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
DEFAULT_ALPHA = 0.5


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
    alpha, n_blocks = _choose_accuracy()
    with st.expander("Noise", icon=":material/tune:"):
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
        alpha=alpha,
        n_components=int(k),
        n_blocks=n_blocks,
        seed=None if seed is None else int(seed),
    )


def _choose_accuracy() -> tuple[float | None, int | None]:
    """Accuracy target and number of blocks; None where the planner is to choose."""
    automatic = st.toggle(
        "Auto: the plan with the least error",
        value=True,
        key="auto",
        bind="query-params",
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
        placeholder="chosen for you",
        help="The rows are split into t blocks; each is fitted on its own.",
    )
    return float(alpha), None if blocks is None else int(blocks)


def plan_for(settings: Settings, dataset: Dataset) -> Plan:
    """The plan for these settings.

    It depends on no data but the number of rows and columns, which are public, so it costs no
    privacy and may be made at every click.
    """
    promise = (settings.method, settings.epsilon, settings.delta, settings.n_components)
    if settings.alpha is None:
        return _best_plan(dataset.n_rows, *promise, dataset.n_features)
    return _plan(settings.alpha, settings.n_blocks, *promise, dataset.n_features)


def fewest_rows(method: Method, settings: Settings, dataset: Dataset) -> float:
    """Rows of well separated components that a method takes at the same budget.

    For `lifted`, the smallest number (to a fifth) from which the planner expects a release; for
    the others, what their plan says of itself.
    """
    promise = (method, settings.epsilon, settings.delta, settings.n_components)
    if method == "lifted":
        return _fewest_rows(*promise, dataset.n_features)
    alpha = DEFAULT_ALPHA if settings.alpha is None else settings.alpha
    return rows_needed(_plan(alpha, None, *promise, dataset.n_features))


@st.cache_data(max_entries=64, show_spinner="Asking what would pass…")
def _fewest_rows(method: Method, epsilon: float, delta: float, k: int, d: int) -> float:
    low, high = 0, 80  # rows are 1000 * 1.2 ** step, up to two billion
    while high > low:
        step = (low + high) // 2
        try:
            _best_plan(round(1000 * 1.2**step), method, epsilon, delta, k, d)
        except InvalidInput:
            low = step + 1
        else:
            high = step
    return math.inf if low == 80 else 1000 * 1.2**low


@st.cache_resource(max_entries=64, show_spinner="Planning…")
def _best_plan(n: int, method: Method, epsilon: float, delta: float, k: int, d: int) -> Plan:
    return best_plan(n, method=method, epsilon=epsilon, delta=delta, n_components=k, n_features=d)


@st.cache_resource(max_entries=64, show_spinner="Planning…")
def _plan(
    alpha: float, t: int | None, method: Method, epsilon: float, delta: float, k: int, d: int
) -> Plan:
    if t is None and method != "paper":
        # Enough for the test to pass with room: its noise grows like 1/epsilon.
        t = math.ceil(400 / min(epsilon, 1.0))
    return calibrate(
        method,
        epsilon=epsilon,
        delta=delta,
        alpha=alpha,
        n_components=k,
        n_features=d,
        n_blocks=t,
    )


@st.cache_data(max_entries=64, show_spinner="Planning…")
def _rows_needed(_plan: Plan, key: str) -> float:  # noqa: ARG001 - the key stands for the plan
    return float(_plan.rows_needed())


def rows_needed(plan: Plan) -> float:
    """`Plan.rows_needed`, remembered."""
    return _rows_needed(plan, repr(plan.to_dict()))
