"""The controls of a promise: epsilon and the groups to find at hand, the rest one click away."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from privgmm.dashboard.shared.format import method_title
from privgmm.dashboard.shared.sliders import (
    choose_alpha,
    choose_delta,
    choose_epsilon,
    choose_forgiving,
)
from privgmm.dashboard.shared.state import Settings
from privgmm.data.datasets import Dataset
from privgmm.learners.registry import LEARNERS, OFFERED
from privgmm.methods import registry
from privgmm.methods.request import DEFAULT_METHOD, FEWEST_BLOCKS, PlanRequest
from privgmm.stages.sketch.choice import MOST_OFFERED

__all__ = ["choose_settings", "show_misfit"]


def choose_settings(dataset: Dataset, basics: DeltaGenerator, more: DeltaGenerator) -> Settings:
    """Draw the controls in their two places and give back what was chosen.

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
        If what was chosen cannot be asked of so many rows.
    """
    with more:
        name = st.selectbox(
            "Method",
            registry.choices(),
            index=registry.choices().index(DEFAULT_METHOD),
            format_func=method_title,
            key="method",
            bind="query-params",
            persist_state="session",
            help="\n\n".join(
                f"**{method.title}**: {method.sentence}."
                for method in map(registry.get, registry.choices())
            ),
        )
        method = registry.get(name)
        is_open = _leaves_components_open(offered=method.can_choose_components)
    with basics:
        epsilon = choose_epsilon("epsilon")
        k = _choose_components(is_open=is_open)
    with more:
        delta = choose_delta("delta")
        automatic = _choose_automatic()
        alpha, n_blocks = (None, None) if automatic else _choose_accuracy()
        forgiving = automatic and method.takes_forgiving and choose_forgiving("forgiving")
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
        forgiving=forgiving,
    )
    return Settings(dataset.fingerprint, dataset.name, request, seed, learner)


def _leaves_components_open(*, offered: bool) -> bool:
    """Whether the number of components is only the most to choose from."""
    return offered and st.toggle(
        "Find the number of groups",
        key="auto_k",
        bind="query-params",
        persist_state="session",
        help="From the noisy sketch that is paid for once: every number up to the one you set is "
        "tried, and the one that explains the sketch best for its size is taken. That costs no "
        "budget. It takes a method that publishes a sketch.",
    )


def _choose_components(*, is_open: bool) -> int:
    """How many components to fit, or at most."""
    if is_open:
        k = st.number_input(
            "Groups, at most",
            1,
            MOST_OFFERED,
            MOST_OFFERED,
            key="most_k",
            bind="query-params",
            persist_state="session",
            help="How many components are tried. Many of them in many columns take their time.",
        )
    else:
        k = st.number_input(
            "Groups to find",
            1,
            8,
            2,
            key="k",
            bind="query-params",
            persist_state="session",
            help="Components of the mixture: k, the paper's letter",
        )
    return int(k)


def _choose_learner() -> str:
    """What fits blocks, or all rows to compare: any will do for the promise."""
    name = st.selectbox(
        "Learner",
        list(OFFERED),
        format_func=lambda name: LEARNERS[name].title,
        key="learner",
        bind="query-params",
        persist_state="session",
        help="What fits each block, unless the method brings its own, and what fits all rows "
        "without privacy, to compare. The promise is the same with any.\n\n"
        + "\n".join(f"- **{kind.title}**: {kind.good_at}" for kind in OFFERED.values()),
    )
    return str(name)


def show_misfit(settings: Settings) -> None:
    """If the learner cannot fit so many components: say so, with a click that helps."""
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
    """The seed of the noise; None for cryptographic noise."""
    seeded = st.toggle(
        "Repeatable noise (no privacy)",
        key="seeded",
        bind="query-params",
        persist_state="session",
        help="For teaching only: whoever knows the seed can subtract the noise. The record of a "
        "seeded release says so.",
    )
    if not seeded:
        return None
    seed = st.number_input(
        "Seed of the noise",
        0,
        10**9,
        0,
        key="noise_seed",
        bind="query-params",
        persist_state="session",
    )
    return int(seed)


def _choose_automatic() -> bool:
    return st.toggle(
        "Choose α and t for me",
        value=True,
        key="auto",
        bind="query-params",
        persist_state="session",
        help="The plan with the least expected error, worked out from the number of rows alone",
    )


def _choose_accuracy() -> tuple[float, int | None]:
    """Accuracy target and number of blocks; None lets the method choose it."""
    alpha = choose_alpha(
        "alpha",
        remark="A smaller one needs more rows. **Noise cloud** under the picture shows it.",
    )
    blocks = st.number_input(
        "Blocks t",
        FEWEST_BLOCKS,
        100_000,
        None,
        key="t",
        bind="query-params",
        persist_state="session",
        placeholder="chosen for you",
        help="The rows are dealt into t blocks, and each is fitted on its own. **Block fits** "
        "under the picture shows it: more blocks have fewer rows each, and their fits spread.",
    )
    return alpha, None if blocks is None else int(blocks)
