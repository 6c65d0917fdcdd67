"""Known values: what the fit says of the other columns, given some of them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from privgmm.dashboard.look_again.scene import LookScene, draw, relabelled
from privgmm.dashboard.shared.lessons import LINKED, controls_panel, plainly, scene_line
from privgmm.errors import InvalidInput
from privgmm.figures.mixtures import PRIVATE, figure_alt_text, ghosts_label, mixtures_figure
from privgmm.mixture import Mixture
from privgmm.teaching.format import all_of, escaped, number_in_words, with_error

__all__ = ["KNOWN_WRITERS", "show_known_values", "spread_of"]

_MOST_COLUMNS = 20
"""Columns whose known values are in the address: more than any table here has."""
_REACH = 3.0
"""Sliders reach this many standard deviations: nearly all rows lie within."""
KNOWN_WRITERS = plainly("known", *(f"given_{j}" for j in range(_MOST_COLUMNS)))


def spread_of(mixture: Mixture, column: int) -> tuple[float, float]:
    """Return mean and standard deviation of one column of a mixture."""
    means, variances = mixture.means[:, column], mixture.covariances[:, column, column]
    mean = float(mixture.weights @ means)
    return mean, math.sqrt(float(mixture.weights @ (variances + (means - mean) ** 2)))


def show_known_values(scene: LookScene) -> None:
    """Show the controls, the conditional mixture, and its components."""
    if scene.paid.n_features == 1:
        st.info("There is only one column, so nothing is left to say once it is known.")
        return
    with controls_panel("known", border=False):
        given = _choose(scene)
    if not given:
        st.info("Choose at least one column whose value is known.", icon=":material/touch_app:")
        return
    names, verb = [scene.columns[j] for j in given], "is" if len(given) == 1 else "are"
    rest = [j for j in range(scene.paid.n_features) if j not in given]
    said = all_of([f"{escaped(scene.columns[j])} = {number_in_words(v)}" for j, v in given.items()])
    scene_line(f"Known: {said}.")
    try:
        then = scene.mixture.condition(given)
    except InvalidInput:
        st.warning(
            f"No component reaches that far: where {said} the fit has no rows.",
            icon=":material/block:",
        )
        return
    before = scene.mixture.marginal(rest)
    left = tuple(scene.columns[j] for j in rest)
    st.markdown(_in_words(then, before, left, said))
    shown = _axes(scene, rest)
    draw(
        _figure(then, before, left, shown, f"where {all_of(names)} {verb} known"),
        key="look_known",
        alt=f"Where {said}: "
        + figure_alt_text(private=then, axes=shown, columns=left).replace(PRIVATE.label, "Fit"),
    )
    st.dataframe(_table(then, scene.mixture, left), hide_index=True, key="look_given")
    st.caption(
        ":material/public: May be published: it follows from the fit alone. It speaks of rows of "
        "this kind, not of any one person."
    )


def _choose(scene: LookScene) -> dict[int, float]:
    """Let the visitor choose which columns are known, and their values."""
    picked = st.multiselect(
        "What is known",
        scene.columns,
        default=[scene.columns[0]],
        max_selections=scene.paid.n_features - 1,
        key="known",
        **LINKED,
        width=420,
    )
    given = {}
    with st.container(horizontal=True):
        for name in picked:
            column = scene.columns.index(name)
            # from what was released, so that the slider stays when the fit changes
            mean, deviation = spread_of(scene.paid.mixture, column)
            power = math.floor(math.log10(deviation / 10))
            step = 10.0**power
            low, high = (
                round((mean + side * _REACH * deviation) / step) * step for side in (-1, 1)
            )
            key = f"given_{column}"
            if not low <= st.session_state.get(key, low) <= high:
                del st.session_state[key]
            given[column] = float(
                st.slider(
                    name,
                    low,
                    high,
                    round(mean / step) * step,
                    step,
                    format=f"%.{max(0, -power)}f",
                    key=key,
                    **LINKED,
                    width=320,
                )
            )
    return given


def _axes(scene: LookScene, rest: list[int]) -> tuple[int, int]:
    """Choose two of the other columns to draw: those in view, if they are among them."""
    seen = [rest.index(axis) for axis in scene.axes if axis in rest]
    others = [i for i in range(len(rest)) if i not in seen]
    first, second = (seen + others + [0, 0])[:2]
    return first, second


def _in_words(then: Mixture, before: Mixture, columns: tuple[str, ...], said: str) -> str:
    parts = []
    for j, name in enumerate(columns):
        (mean, deviation), (was, wide) = spread_of(then, j), spread_of(before, j)
        parts.append(
            f"{escaped(name)} is about **{with_error(mean, deviation)}** "
            f"(over all rows {with_error(was, wide)})"
        )
    return f"Where **{said}**, {all_of(parts)}."


def _figure(
    then: Mixture, before: Mixture, columns: tuple[str, ...], axes: tuple[int, int], label: str
) -> go.Figure:
    figure = mixtures_figure(private=then, ghosts=[before], axes=axes, columns=columns, height=400)
    for trace in figure.data:
        if trace.name == ghosts_label(1):
            trace.line.update(color="rgba(128, 128, 136, 0.4)", width=7)
    return relabelled(figure, {PRIVATE.label: label, ghosts_label(1): "over all rows"})


def _table(then: Mixture, fit: Mixture, columns: tuple[str, ...]) -> pd.DataFrame:
    """List the weights and means of the components, given the known values."""
    spread = np.sqrt(np.einsum("kii->ki", then.covariances))
    table = {
        "component": [str(j + 1) for j in range(then.n_components)],
        "share of all rows": [f"{weight:.1%}" for weight in fit.weights],
        "share then": [f"{weight:.1%}" for weight in then.weights],
    }
    for i, name in enumerate(columns):
        table[name] = [
            with_error(float(mean), float(deviation))
            for mean, deviation in zip(then.means[:, i], spread[:, i], strict=True)
        ]
    return pd.DataFrame(table)
