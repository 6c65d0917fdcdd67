"""The settings of a release: the four knobs and the components at hand, the others a click away."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from privgmm.dashboard.explore.epsilon_curve import hand_followed
from privgmm.dashboard.explore.knobs import Knobs, choose_knobs
from privgmm.dashboard.shared.chosen_data import ChosenData
from privgmm.dashboard.shared.lessons import LINKED
from privgmm.dashboard.shared.sliders import choose_epsilon
from privgmm.dashboard.shared.state import Settings
from privgmm.learners.registry import LEARNERS, OFFERED
from privgmm.methods import registry
from privgmm.methods.request import DEFAULT_METHOD, PlanRequest
from privgmm.stages.sketch.choice import MOST_OFFERED
from privgmm.teaching.format import method_title

__all__ = ["FIRST_EPSILON", "choose_settings", "show_misfit"]

FIRST_EPSILON = 0.4
"""The epsilon to open with: there the cost of privacy is seen at first sight, and fades when the
slider is dragged."""


def choose_settings(
    chosen: ChosenData, basics: DeltaGenerator, more: DeltaGenerator
) -> tuple[Settings, Knobs]:
    """Show the controls in their two places; return the settings, and the knobs.

    Parameters
    ----------
    chosen : ChosenData
    basics : container
        For epsilon, the other knobs and the number of components.
    more : container
        For everything else.

    Raises
    ------
    InvalidInput
        If the settings contradict each other or the number of rows.
    """
    dataset = chosen.dataset
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
        epsilon = choose_epsilon("epsilon", value=FIRST_EPSILON)
        hand_followed()
        knobs = choose_knobs()
        k = _choose_components(is_open=is_open)
    with more:
        learner = _choose_learner()
        seed = _choose_noise()
    request = PlanRequest(
        n_components=k,
        choose_components=is_open,
        n_features=dataset.n_features,
        n_rows=chosen.n_units,
        unit=chosen.unit,
        epsilon=epsilon,
        delta=knobs.delta,
        method=method.name,
        # without alpha: no plan depends on it, and one rehearsal answers for all of them
        n_blocks=knobs.n_blocks,
    )
    settings = Settings(
        dataset.fingerprint, dataset.name, request, seed, learner, alpha=knobs.alpha
    )
    return settings, knobs


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
        with st.container(horizontal=True, vertical_alignment="center", key="line_k"):
            st.markdown("Groups to find")
            k = st.number_input(
                "Groups to find",
                1,
                8,
                2,
                key="k",
                **LINKED,
                label_visibility="collapsed",
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
