"""The band above the picture, and what it says of a release; of a rehearsal see `teaching`."""

from __future__ import annotations

import streamlit as st

from privgmm.dashboard.explore.result import error_of, nonprivate_of
from privgmm.dashboard.shared.state import Shown
from privgmm.releases import Release
from privgmm.teaching.format import number_in_words
from privgmm.teaching.verdict import (
    Band,
    band_html,
    errors_in_cells,
    guess_in_cell,
    in_doubt,
    tone_of,
)

__all__ = ["of_release", "show_band"]


def show_band(band: Band) -> None:
    """Show the band; screen readers announce changes."""
    st.html(band_html(band))


def of_release(shown: Shown) -> Band:
    """Judge a release."""
    outcome, truth = shown.outcome, shown.chosen.dataset.truth
    result = outcome.result
    private = result.mixture if isinstance(result, Release) else None
    fit = nonprivate_of(outcome)
    reference = fit if truth is None else truth
    error = None if private is None or reference is None else error_of(private, reference)
    without = None if fit is None or truth is None else error_of(fit, truth)
    cells = [guess_in_cell(result.plan), *errors_in_cells(error, without, truth=truth is not None)]
    spent = f"ε = {number_in_words(result.budget.epsilon, 3)} spent"
    mark = f"Seeded noise, {spent}" if result.seeded else f"Fresh noise, drawn once, {spent}"
    found = result.usefulness(shown.settings.alpha)
    if private is None:
        return Band("no", found.title, mark, cells)
    return Band(tone_of(found), found.title, mark, cells, in_doubt(found))
