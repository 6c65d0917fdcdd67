"""The settings of a release: epsilon and components at hand, the others one click away."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from privgmm.dashboard.shared.format import method_title
from privgmm.dashboard.shared.lessons import LINKED
from privgmm.dashboard.shared.sliders import choose_alpha, choose_delta, choose_epsilon
from privgmm.dashboard.shared.state import Settings
from privgmm.data.datasets import Dataset
from privgmm.learners.registry import LEARNERS, OFFERED
from privgmm.methods import registry
from privgmm.methods.request import DEFAULT_METHOD, FEWEST_BLOCKS, PlanRequest
from privgmm.stages.sketch.choice import MOST_OFFERED

__all__ = ["choose_settings", "show_misfit"]


def choose_settings(dataset: Dataset, basics: DeltaGenerator, more: DeltaGenerator) -> Settings:
    """Show the controls in their two places; return the settings.

    Parameters
    ----------
    dataset : Dataset
    basics : container
        For epsilon and the number of components.
    more : container
        For everything else.

    Raises
    ------
    InvalidInput
        If the settings contradict each other or the number of rows.
    """
    with more:
        name = st.selectbox(
            "Method",
            registry.names(),
            index=registry.names().index(DEFAULT_METHOD),
            format_func=method_title,
            key="method",
            **LINKED,
            help="\n\n".join(
                f"**{method.title}**: {method.sentence}." for method in registry.all_methods()
            ),
        )
        method = registry.get(name)
        is_open = _leaves_components_open(offered=method.publishes_sketch)
    with basics:
        epsilon = choose_epsilon("epsilon")
        k = _choose_components(is_open=is_open)
    with more:
        delta = choose_delta("delta")
        automatic = _choose_automatic()
        alpha, n_blocks = (None, None) if automatic else _choose_accuracy()
        learner = _choose_learner()
        seed = _choose_noise()
    request = PlanRequest(
        n_components=k,
        choose_components=is_open,
        n_features=dataset.n_features,
        n_rows=dataset.n_rows,
        epsilon=epsilon,
        delta=delta,
        method=method.name,
        alpha=alpha,
        n_blocks=n_blocks,
    )
    return Settings(dataset.fingerprint, dataset.name, request, seed, learner)


def _leaves_components_open(*, offered: bool) -> bool:
    """Let the visitor leave the number of components open."""
    return offered and st.toggle(
        "Find the number of groups",
        key="auto_k",
        **LINKED,
        help="From the noisy sketch that is paid for once: every number up to the one you set is "
        "tried, and the best one for its size is taken. That costs no budget.",
    )


def _choose_components(*, is_open: bool) -> int:
    """Let the visitor choose how many components to fit, or the most."""
    if is_open:
        k = st.number_input(
            "Groups, at most",
            1,
            MOST_OFFERED,
            MOST_OFFERED,
            key="most_k",
            **LINKED,
            help="How many components are tried. Many of them in many columns take their time.",
        )
    else:
        k = st.number_input(
            "Groups to find",
            1,
            8,
            2,
            key="k",
            **LINKED,
            help="Components of the mixture: k, the paper's letter",
        )
    return int(k)


def _choose_learner() -> str:
    """Let the visitor choose the learner of blocks, and of all rows for comparison."""
    name = st.selectbox(
        "Learner",
        list(OFFERED),
        format_func=lambda name: LEARNERS[name].title,
        key="learner",
        **LINKED,
        help="Fits each block, unless the method has its own learner, and fits all rows without "
        "privacy, to compare. The promise is the same with any.\n\n"
        + "\n".join(f"- **{kind.title}**: {kind.good_at}" for kind in OFFERED.values()),
    )
    return str(name)


def show_misfit(settings: Settings) -> None:
    """Say that the learner cannot fit this number of components, with a click that helps."""
    most = settings.most_components
    if most is None:
        return
    st.warning(
        f"The learner **{LEARNERS[settings.learner].title}** takes at most {most} "
        f"component{'s' * (most > 1)}; you ask for {settings.request.n_components}.",
        icon=":material/error_med:",
    )
    able = next(
        (
            kind
            for kind in OFFERED.values()
            if kind.most_components is None or kind.most_components >= settings.request.n_components
        ),
        None,
    )
    with st.container(horizontal=True, key="misfit"):
        st.button(f"Fit {most}", key="fix_k", on_click=_set, args=("k", most))
        if able is not None:
            st.button(
                f"Use {able.title}", key="fix_learner", on_click=_set, args=("learner", able.name)
            )


def _set(key: str, value: int | str) -> None:
    st.session_state[key] = value


def _choose_noise() -> int | None:
    """Let the visitor choose a seed for the noise; None for cryptographic noise."""
    seeded = st.toggle(
        "Repeatable noise (no privacy)",
        key="seeded",
        **LINKED,
        help="For teaching only: a person who knows the seed can subtract the noise. The record of "
        "a seeded release says so.",
    )
    if not seeded:
        return None
    seed = st.number_input("Seed of the noise", 0, 10**9, 0, key="noise_seed", **LINKED)
    return int(seed)


def _choose_automatic() -> bool:
    return st.toggle(
        "Choose α and t for me",
        value=True,
        key="auto",
        **LINKED,
        help="The plan with the least expected error, computed from the number of rows alone",
    )


def _choose_accuracy() -> tuple[float, int | None]:
    """Let the visitor choose alpha and the blocks; None leaves blocks to the method."""
    alpha = choose_alpha(
        "alpha", remark="A smaller one needs more rows. **Noise cloud** under the picture shows it."
    )
    blocks = st.number_input(
        "Blocks t",
        FEWEST_BLOCKS,
        100_000,
        None,
        key="t",
        **LINKED,
        placeholder="chosen for you",
        help="The rows are dealt into t blocks, and each is fitted on its own. **Block fits** "
        "under the picture shows it: more blocks have fewer rows each, and their fits spread.",
    )
    return alpha, None if blocks is None else int(blocks)
