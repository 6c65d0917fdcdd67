"""The result of a release: the verdict in words, the components, and what may be shared."""

from __future__ import annotations

import functools
import json
import math
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from privgmm.dashboard.shared.answers import blocks_of
from privgmm.dashboard.shared.state import Shown
from privgmm.data.datasets import Dataset
from privgmm.distances.parameters import dist_gmm, matched
from privgmm.errors import PrivGMMError
from privgmm.figures.mixtures import mixtures_figure
from privgmm.mixture import Mixture
from privgmm.records.notebook import notebook, script
from privgmm.releases import Outcome, Refusal, Release
from privgmm.results import LIKE_A_VALUE
from privgmm.stages.sketch.fitting import MISFIT
from privgmm.stages.standard_errors import StandardErrors
from privgmm.teaching.format import (
    count_in_words,
    error_in_words,
    escaped,
    method_title,
    number_in_words,
    times_short,
    with_error,
)

__all__ = [
    "comparison_table",
    "error_of",
    "nonprivate_of",
    "record",
    "show_sharing",
    "show_table",
    "show_verdict",
]

_WEAK = 0.95
"""A promise is called weak if epsilon and delta alone allow a larger chance of a right guess. By
convention: it is about epsilon 3."""


def show_verdict(outcome: Outcome, dataset: Dataset, needed: dict[str, float]) -> None:
    """Show the outcome in words.

    Parameters
    ----------
    outcome : Outcome
    dataset : Dataset
        The rows it was made from.
    needed : dict of str to float
        Rows that each method takes at the same budget, as far as known.
    """
    if isinstance(outcome.result, Release):
        _show_release(outcome.result)
    else:
        _show_refusal(outcome.result, dataset, needed)
    if outcome.result.seeded:
        st.warning(
            "The noise came from a seed, so a person who knows the seed can subtract it: good for "
            "teaching, not for real people's data.",
            icon=":material/warning:",
        )


def _show_release(result: Release) -> None:
    weak = result.budget.guess_ceiling > _WEAK
    # green is for what is useful: the verdict above says whether this is
    st.info(
        "**Released.** The released mixture may be shared. Whether one "
        f"{result.unit} was replaced, {result.attacker}."
        + (" Yet ε alone is a weak promise: choose a smaller one for real people." * weak),
        icon=":material/verified_user:",
    )
    _show_misfit(result)
    if result.sketch is not None:
        st.page_link(
            "pages/Look_again.py", label="Look again: it costs nothing", icon=":material/replay:"
        )


def _show_misfit(result: Release) -> None:
    """Say whether the rows look like such a mixture, where the method can tell. Public."""
    if result.misfit is None:
        return
    k = result.mixture.n_components
    what = "One Gaussian" if k == 1 else f"A mixture of {k} Gaussians"
    if result.misfit <= MISFIT:
        st.caption(
            f":material/done: {what} explains the rows to within the noise. Its misfit is "
            f"{number_in_words(result.misfit, 2)}; up to {MISFIT:g} may be noise. That may be "
            "shared too."
        )
    else:
        st.warning(
            f"**{what} does not explain these rows.** Its misfit is {result.misfit:.0f}; noise "
            f"alone hardly ever gives more than {MISFIT:g}. {result.verdict} What is shown is the "
            f"nearest mixture of {k} that was found.",
            icon=":material/difference:",
        )
    _show_choice(result)
    if result.floored:
        st.caption(f":material/compress: {LIKE_A_VALUE}")
    for tail in result.tails:
        st.caption(f":material/trending_flat: {escaped(tail)}")
    if recorded := result.recorded_in_lines():
        st.caption(f":material/stacked_bar_chart: {escaped(' '.join(recorded))}")


def _show_choice(result: Release) -> None:
    """Show which numbers of components were tried, if the number was left open. Public."""
    choice = result.choice
    if choice is None:
        return
    count = choice.n_components
    st.markdown(f"**{count} component{'s' * (count > 1)} chosen** from the sketch, for free")
    table = pd.DataFrame(
        {
            "components": [one.n_components for one in choice.tried],
            "misfit": [one.misfit for one in choice.tried],
            "criterion": choice.above_best,
            "chosen": ["✓" if one.n_components == count else "" for one in choice.tried],
        }
    )
    st.dataframe(
        table,
        hide_index=True,
        column_config={
            "misfit": st.column_config.NumberColumn(format="%.3g"),
            "criterion": st.column_config.NumberColumn(
                format="%.4g", help="By how much it is above the least"
            ),
        },
        key="choice",
    )
    st.caption(
        f":material/public: May be shared. A misfit above {MISFIT:g} is more than noise. The "
        "criterion adds up what is left unexplained and a price for every free number; the least "
        "wins, and is 0 here. Once the rows are explained and two more components did not help, no "
        f"more are tried; up to {choice.max_components} were offered."
    )


def _show_refusal(result: Refusal, dataset: Dataset, needed: dict[str, float]) -> None:
    plan = result.plan
    mine = result.rows_needed
    lines = [
        f"**Refused: that is the guarantee at work.** {escaped(result.why)} Nothing else about the "
        "mixture is published. The answer “no” is differentially private and may be shared; its "
        "budget is spent."
    ]
    if math.isfinite(mine):
        lines.append(
            f"At these settings the method **{method_title(plan.method)}** needs about "
            f"**{count_in_words(mine)} rows**, {times_short(mine, dataset.n_rows)}."
        )
    else:
        lines.append("With so few blocks this plan cannot be sure to pass with any rows.")
    st.info("\n\n".join(lines), icon=":material/shield:")
    if needed:
        st.markdown("**What would pass, at the same ε and δ**")
        st.dataframe(
            pd.DataFrame(
                {
                    "Method": [method_title(method) for method in needed],
                    "Rows it takes": [count_in_words(rows) for rows in needed.values()],
                    "At hand": [f"{dataset.n_rows:,}"] * len(needed),
                }
            ),
            hide_index=True,
        )


def error_of(mixture: Mixture, truth: Mixture) -> float | None:
    """Compute dist_GMM to the truth; None if the numbers of components differ."""
    if mixture.n_components != truth.n_components:
        return None
    return float(dist_gmm(mixture, truth))


def nonprivate_of(outcome: Outcome) -> Mixture | None:
    """Fit all rows without privacy; None if the learner finds no mixture. CONFIDENTIAL."""
    try:
        return outcome.curator.nonprivate()
    except PrivGMMError:
        return None


def comparison_table(
    mixtures: dict[str, Mixture],
    reference: Mixture | None,
    columns: tuple[str, ...],
    standard_errors: dict[str, StandardErrors] | None = None,
) -> pd.DataFrame:
    """List the components of several mixtures, matching ones below each other.

    Parameters
    ----------
    mixtures : dict of str to Mixture
        By their names on the page.
    reference : Mixture or None
        Components are matched to it, and errors are measured from it.
    columns : tuple of str
        Names of the coordinates.
    standard_errors : dict of str to StandardErrors, optional
        Of mixtures whose errors are known: each number then has a column ± after it.
    """
    lines: list[tuple[int, int, dict[str, Any]]] = []
    for rank, (name, mixture) in enumerate(mixtures.items()):
        partner, errors = np.arange(mixture.n_components, dtype=np.int64), None
        if reference is not None and reference.means.shape == mixture.means.shape:
            partner, errors = matched(mixture, reference)
        spread = np.sqrt(np.einsum("kii->ki", mixture.covariances))
        for j in range(mixture.n_components):
            line: dict[str, Any] = {
                "component": int(partner[j]) + 1,
                "mixture": name,
                "error": None if errors is None or mixture is reference else float(errors[j]),
            }
            numbers = {"weight": mixture.weights[j]}
            numbers |= {f"mean {c}": mixture.means[j, i] for i, c in enumerate(columns)}
            numbers |= {f"sd {c}": spread[j, i] for i, c in enumerate(columns)}
            offs: dict[str, float] = {}
            if standard_errors and name in standard_errors:
                known = standard_errors[name]
                of_all = [
                    known.known_weights(mixture.weights)[j],
                    *known.known_means(mixture.covariances)[j],
                    *known.known_deviations(mixture.covariances)[j],
                ]
                offs = dict(zip(numbers, of_all, strict=True))
            for number, value in numbers.items():
                line[number] = value
                if standard_errors:
                    line[f"± {number}"] = offs.get(number)
            if mixture.n_features == 2:
                line["correlation"] = mixture.covariances[j, 0, 1] / spread[j].prod()
            lines.append((int(partner[j]), rank, line))
    lines.sort(key=lambda entry: entry[:2])
    return pd.DataFrame([line for _, _, line in lines])


def show_table(outcome: Outcome, dataset: Dataset, *, errors: bool = True) -> None:
    """Show the components of all mixtures, matched, marked with who may see them.

    With `errors`, the numbers of the release have their standard errors, where known.
    """
    mixtures: dict[str, Mixture] = {}
    if dataset.truth is not None:
        mixtures["True"] = dataset.truth
    baseline = nonprivate_of(outcome)
    if baseline is not None:
        mixtures["Non-private"] = baseline
    if isinstance(outcome.result, Release):
        mixtures["Private release"] = outcome.result.mixture
    if not mixtures:
        return
    reference = dataset.truth if dataset.truth is not None else baseline
    known: dict[str, StandardErrors] = {}
    if errors and isinstance(outcome.result, Release) and outcome.result.standard_errors:
        known["Private release"] = outcome.result.standard_errors
    table = comparison_table(mixtures, reference, dataset.columns, known)
    if isinstance(outcome.result, Release) and outcome.result.resolution:
        table.insert(2, "resolution", _resolutions(table, outcome.result, reference))
    # an error stands in its number's cell, so that all columns fit
    hidden = {name: None for name in table.columns if name.startswith("± ")}
    st.markdown("**Components**")
    st.dataframe(
        _with_errors(table),
        hide_index=True,
        column_config=hidden,
        key="components",
        placeholder="–",
    )
    measured = "the true one" if dataset.truth is not None else "the one without privacy"
    st.caption(
        ":material/lock: Only the lines of the release may be shared, without their "
        "errors. Error: difference in weight or exact total variation, whichever is larger, from "
        f"{measured}; the largest is dist\\_GMM."
    )
    if known:
        st.caption(
            ":material/public: ± are standard errors of the release, and may be shared. "
            + known["Private release"].meaning
        )


def _resolutions(table: pd.DataFrame, result: Release, reference: Mixture | None) -> list[str]:
    """Return what the release says of each of its components, in the order of the table."""
    numbers = np.arange(result.mixture.n_components)
    if reference is not None and reference.means.shape == result.mixture.means.shape:
        numbers = matched(result.mixture, reference)[0]
    said = {int(numbers[j]) + 1: words for j, words in enumerate(result.resolution)}
    return [
        said[int(component)] if mixture == "Private release" else ""
        for component, mixture in zip(table["component"], table["mixture"], strict=True)
    ]


def _with_errors(table: pd.DataFrame) -> Any:
    """Write each number with its standard error, where it has one; all with four digits at most."""
    styled = table.style.format(_error_shown, subset=["error"])
    plain = ("component", "mixture", "error", "resolution")
    for name in [n for n in table.columns if n not in plain and not n.startswith("± ")]:
        off = table.get(f"± {name}")
        for row in table.index:
            known = None if off is None or pd.isna(off[row]) else float(off[row])
            styled = styled.format(
                functools.partial(_number_shown, off=known), subset=pd.IndexSlice[[row], [name]]
            )
    return styled


def _error_shown(error: Any) -> str:
    return "–" if pd.isna(error) else error_in_words(float(error))


def _number_shown(value: float, *, off: float | None) -> str:
    return number_in_words(value) if off is None else with_error(value, off)


def record(outcome: Outcome) -> dict[str, Any]:
    """Return what may be shared about an outcome, as plain values for JSON."""
    return outcome.result.to_dict()


def show_sharing(shown: Shown) -> None:
    """Show two boxes: what may be shared, and what is confidential."""
    outcome, dataset = shown.outcome, shown.chosen.dataset
    left, right = st.container(key="sharing").columns(2)
    with left.container(border=True, height="stretch"):
        st.markdown("**:green[:material/public: May be shared]**")
        released = isinstance(outcome.result, Release)
        what = "the released mixture" if released else "the answer “refused”"
        more = ""
        if isinstance(outcome.result, Release) and outcome.result.misfit is not None:
            more = "\n- whether such a mixture explains the rows"
            if outcome.result.choice is not None:
                more += "\n- how the number of components was chosen"
            if outcome.result.standard_errors is not None:
                more += "\n- the standard errors"
        st.markdown(
            f"- {what}{more}\n- the plan and the budget\n- anything computed from these alone"
        )
        buttons = st.container(horizontal=True)
        buttons.download_button(
            "Record (JSON)",
            data=lambda: json.dumps(record(outcome), indent=1),
            file_name="privgmm-release.json",
            mime="application/json",
            icon=":material/download:",
            on_click="ignore",
            key="download_record",
        )
        if isinstance(outcome.result, Release):
            mixture, standard_errors = outcome.result.mixture, outcome.result.standard_errors
            buttons.download_button(
                "Picture (HTML)",
                data=lambda: mixtures_figure(
                    private=mixture, errors=standard_errors, columns=dataset.columns
                ).to_html(),
                file_name="privgmm-release.html",
                mime="text/html",
                icon=":material/download:",
                on_click="ignore",
                key="download_picture",
            )
        _show_code(shown, buttons)
    with right.container(border=True, height="stretch"):
        st.markdown("**:red[:material/lock: Confidential: not to be shared]**")
        seen = (
            "the fits, distances and votes of the blocks"
            if blocks_of(outcome.result.plan) is not None
            else "counts and sums before their noise"
        )
        st.markdown(
            "- the picture above: it shows rows\n- the fit without privacy, and errors measured "
            f"with it\n- {seen}"
        )
        if dataset.truth is not None:
            st.caption("These rows are generated, so here it is only practice.")


def _show_code(shown: Shown, buttons: Any) -> None:
    """Offer the run as code: it contains no rows and no results."""
    run = shown.run
    for label, name, write, mime in (
        ("Notebook", "privgmm-run.ipynb", notebook, "application/x-ipynb+json"),
        ("Script", "privgmm-run.py", script, "text/x-python"),
    ):
        buttons.download_button(
            label,
            data=lambda write=write: write(run),
            file_name=name,
            mime=mime,
            icon=":material/code:",
            on_click="ignore",
            key=f"download_{label.lower()}",
        )
    st.caption(
        "Notebook and script make the same run again, exactly."
        if run.seed is not None
        else "Notebook and script make the run again with fresh noise, which spends again."
    )
