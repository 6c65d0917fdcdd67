"""The fit: its picture with bands, its components with standard errors, and their number."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from privgmm.dashboard.explore.result import comparison_table
from privgmm.dashboard.look_again.scene import (
    LookScene,
    components_in_words,
    draw,
    offer,
    relabelled,
)
from privgmm.data.spreadsheets import frame_csv
from privgmm.figures.mixtures import BAND, PRIVATE, figure_alt_text, mixtures_figure
from privgmm.figures.picture import path_figure
from privgmm.stages.sketch.choice import Choice
from privgmm.stages.sketch.fitting import MISFIT
from privgmm.teaching.format import number_in_words, with_error

__all__ = ["component_table", "fit_record", "public_figure", "show_fit", "show_path"]


def show_fit(scene: LookScene) -> None:
    """Show ellipses and bands, the table below them, and what can be downloaded."""
    draw(_figure(scene), key="look_fit", alt=_alt(scene))
    _say_who_may_see(scene)
    st.markdown("**Components**")
    st.dataframe(_readable(scene), hide_index=True, key="look_components")
    if scene.look.errors is not None:
        st.caption(
            f":material/public: ± is one standard error. {scene.look.errors.meaning} In the "
            "picture a band reaches two of them to either side of its line; where none can be seen "
            "it is narrower than the line."
        )
    line = st.container(horizontal=True)
    offer(
        line, "Mixture (JSON)", "privgmm-fit.json", lambda: json.dumps(fit_record(scene), indent=1)
    )
    offer(
        line,
        "Components (CSV)",
        "privgmm-components.csv",
        lambda: frame_csv(component_table(scene)),
    )
    offer(line, "Picture (HTML)", "privgmm-fit.html", lambda: str(public_figure(scene).to_html()))


def _say_who_may_see(scene: LookScene) -> None:
    if scene.with_rows:
        st.markdown(
            ":red-background[:material/lock: **Confidential**] The dots are real rows, for the "
            "curator alone. The downloads below leave them out."
        )
    else:
        ends = "" if scene.paid.n_features == 1 else " Ellipses lie at one and two deviations."
        st.caption(f":material/public: May be published.{ends}")


def _figure(scene: LookScene) -> go.Figure:
    held = scene.paid.dataset if scene.with_rows else None
    figure = mixtures_figure(
        None if held is None else held.thumbnail,
        private=scene.mixture,
        errors=scene.look.errors,
        axes=scene.axes if scene.paid.n_features > 1 else (0, 1),
        columns=scene.columns,
        n_rows=None if held is None else held.n_rows,
        height=440,
    )
    return relabelled(figure, {PRIVATE.label: scene.label})


def public_figure(scene: LookScene) -> go.Figure:
    """Draw the picture that may be published, without rows."""
    figure = mixtures_figure(
        private=scene.mixture, errors=scene.look.errors, axes=scene.axes, columns=scene.columns
    )
    return relabelled(figure, {PRIVATE.label: scene.label})


def _alt(scene: LookScene) -> str:
    words = figure_alt_text(private=scene.mixture, axes=scene.axes, columns=scene.columns)
    words = words.replace(PRIVATE.label, "Fit")
    if scene.look.errors is not None:
        widest = float(np.max(scene.look.errors.means[:, list(scene.axes)]))
        words += f" {BAND} around each, for a mean at most {number_in_words(2 * widest, 2)}."
    return words + (" Real rows behind it: confidential." if scene.with_rows else "")


def component_table(scene: LookScene) -> pd.DataFrame:
    """List every number of each component, with its standard error in a column after it."""
    errors = scene.look.errors
    known = None if errors is None else {"fit": errors}
    table = comparison_table({"fit": scene.mixture}, None, scene.columns, known)
    return table.drop(columns=["mixture", "error"])


def _readable(scene: LookScene) -> pd.DataFrame:
    """List the components with number and standard error in one cell."""
    table = component_table(scene)
    shown = {"component": table["component"].astype(str)}
    for name in table.columns:
        if name == "component" or name.startswith("± "):
            continue
        errors = table.get(f"± {name}")
        shown[name] = pd.Series(
            [
                number_in_words(value)
                if errors is None
                else with_error(float(value), float(errors[row]))
                for row, value in enumerate(table[name])
            ]
        )
    return pd.DataFrame(shown)


def fit_record(scene: LookScene) -> dict[str, Any]:
    """Return the fit as plain values, as `privgmm fit --out` writes it."""
    look, paid = scene.look, scene.paid
    return {
        "columns": list(scene.columns),
        "n_components": look.n_components,
        "covariance_type": look.covariance_type,
        "misfit": look.misfit,
        "verdict": look.verdict,
        "mixture": look.mixture.to_dict(),
        "standard_errors": None if look.errors is None else look.errors.to_dict(),
        "seeded": paid.seeded,
        "guarantee": paid.budget.to_dict(),
    }


def show_path(choice: Choice, *, complete: bool) -> None:
    """Show how well each number of components does, and which the criterion takes.

    Parameters
    ----------
    choice : Choice
        What has been tried so far.
    complete : bool
        Whether everything is known.
    """
    best = choice.n_components
    so_far = "" if complete else " so far"
    st.markdown(f"**The criterion takes {components_in_words(best)}**{so_far}, for free.")
    enough = next((one.n_components for one in choice.tried if one.misfit <= MISFIT), None)
    draw(
        path_figure(choice.tried, height=400),
        key="look_path",
        alt=f"Misfit and criterion of 1 to {len(choice.tried)} components. "
        + "; ".join(
            f"{one.n_components}: misfit {number_in_words(one.misfit, 3)}, criterion "
            f"{number_in_words(above, 3)} above the best"
            for one, above in zip(choice.tried, choice.above_best, strict=True)
        )
        + f". Chosen: {best}.",
    )
    st.caption(
        ":material/public: May be published. The **misfit** says how badly this number of "
        f"components explains the rows; up to {MISFIT:g} it may be noise. "
        + (
            "No number that was tried stays below that. "
            if enough is None
            else f"{components_in_words(enough)} are the fewest that stay below it. "
            if enough > 1
            else "One component is enough for that. "
        )
        + "The **criterion** adds a price for every free number, so that more components do not "
        "win by being more; the least is the best, and is 0 here."
    )
