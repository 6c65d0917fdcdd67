"""The section Measure: drawn privacy losses against the curve that the plan was priced by."""

from __future__ import annotations

import numpy as np
import streamlit as st

from privgmm.arrays import Array
from privgmm.audit.privacy_loss import MeasuredDelta, measured_delta, whole_losses
from privgmm.dashboard.shared.lessons import Writer, controls_panel, scene_line
from privgmm.dashboard.shared.refresh import result_or_notice
from privgmm.figures.guessing import delta_figure
from privgmm.stages.agreement.stage import AveragedAgreement
from privgmm.teaching import neighbours

__all__ = ["LOSS_WRITERS", "measure_losses", "measurement"]

_DRAWS = (1_000, 10_000, 100_000, 1_000_000)
"""Choices: bars shrink with the square root of the draws."""
_PARTS = {"mask": "The mask", "whole": "The whole release"}
_POINTS = 14
"""Epsilons at which delta is measured: bars that do not touch each other."""
LOSS_WRITERS: dict[str, Writer] = {"part": lambda name: _PARTS[name], "draws": lambda n: f"{n:,}"}


def measurement(epsilon: float, part: str, draws: int) -> tuple[MeasuredDelta, Array, Array | None]:
    """Measure delta at some epsilons; return it with the promised and the exact one, if known."""
    plan = neighbours.plan(epsilon)
    rng = np.random.default_rng(11)
    levels = np.linspace(0, 0.6 * epsilon, _POINTS)
    if part == "whole":
        losses, curve, exact = whole_losses(plan, draws, rng=rng), plan.curve(), None
    else:
        stage = plan.stage(AveragedAgreement)
        pair = stage.worst_pair()
        losses, exact = pair.losses(draws, rng=rng), pair.delta(levels)
        curve = stage.n_components * stage.space.mask_curve(stage.gamma, stage.n_features)
    promised = np.array([curve.delta(level) for level in levels])
    return measured_delta(losses, levels), promised, exact


def measure_losses(epsilon: float) -> None:
    """Draw the section Measure."""
    with st.container(key="split"):
        side, picture = st.columns([1, 1.6], gap="medium")
    with side:
        with controls_panel("losses", border=False):
            part = st.segmented_control(
                "What to measure",
                list(_PARTS),
                default="mask",
                required=True,
                format_func=lambda name: _PARTS[name],
                key="part",
                bind="query-params",
            )
            draws = int(
                st.select_slider(
                    "Draws",
                    _DRAWS,
                    100_000,
                    format_func=lambda n: f"{n:,}",
                    key="draws",
                    bind="query-params",
                    help="More draws see rarer losses and give shorter bars",
                )
            )
        scene_line(f"{_PARTS[part]}, {draws:,} draws.")
        found = result_or_notice(
            ("losses", epsilon, part, draws),
            lambda: measurement(epsilon, part, draws),
            f"Drawing {draws:,} losses at ε = {epsilon:g}…",
        )
        if found is None:
            return
        measured, promised, exact = found
        over = int(np.count_nonzero(measured.low > promised))
        st.markdown(
            "The **privacy loss** of a release is the logarithm of how much likelier it is from "
            "one data set than from its neighbour. Losses are drawn here in the worst case that "
            "the plan allows: "
            + (
                "what is masked differs by γ in every component."
                if part == "mask"
                else "the test's count moves by one and what is masked by γ in every component."
            )
            + " δ at ε is the mean of max(0, 1 − exp(ε − loss)). It must stay **below the curve** "
            "that the plan was priced by."
        )
        with st.container(horizontal=True):
            st.metric(
                "Points above the curve",
                f"{over} of {measured.epsilons.size}",
                help="Points whose whole 95% bar lies above the promise; there should be none",
                width="content",
            )
            st.metric(
                "δ at ε = 0",
                f"{measured.estimate[0]:.4f}",
                help="Total variation between the two neighbours: a guesser gains half of it. "
                "For the whole release the test's noisy count is taken as visible, as the account "
                "does. It is not published, so the real limit is lower: see Trade-off.",
                width="content",
            )
            st.metric(
                "promised",
                f"{promised[0]:.4f}",
                help="What the Rényi curve promises there",
                width="content",
            )
    with picture:
        st.plotly_chart(
            delta_figure(measured, promised, exact=exact),
            key="losses",
            config={"displaylogo": False, "scrollZoom": False},
            alt=f"Delta against epsilon, from {draws:,} drawn losses. Measured from "
            f"{measured.estimate[0]:.3g} at epsilon 0 to {measured.estimate[-1]:.3g} at "
            f"{measured.epsilons[-1]:.3g}; promised from {promised[0]:.3g} to {promised[-1]:.3g}.",
        )
        st.caption(
            ":material/public: No rows were used: the picture follows from the plan alone. The "
            "bars hold for any number of draws (empirical Bernstein bound)."
            + ("" if exact is None else " The dashed line is computed without drawing.")
        )
