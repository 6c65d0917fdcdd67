"""Open a small table with an epsilon that releases, and say so: a refusal is a poor first picture.

Only the number of rows decides it, which is public. It is done once for a table, never after the
visitor moved the slider, and never against a link that names an epsilon.
"""

from __future__ import annotations

import dataclasses

import streamlit as st

from privgmm.dashboard.explore.feasibility import Feasibility
from privgmm.dashboard.shared.chosen_data import ChosenData
from privgmm.dashboard.shared.lessons import current_lesson
from privgmm.dashboard.shared.refresh import rerun
from privgmm.dashboard.shared.state import Settings
from privgmm.records.notebook import GeneratedRows

__all__ = ["begin_opening", "open_with_release"]

_STATE, _NEXT = "explore_opening", "explore_opening_epsilon"


@dataclasses.dataclass
class _Opening:
    """What was chosen by itself, by fingerprint of the table.

    Parameters
    ----------
    linked : bool
        Whether the address named an epsilon when the session began: the first table keeps it.
    first : dict of str to float
        The epsilon at which each table was first seen.
    set_to : dict of str to float or None
        What was chosen; None where nothing had to be.
    """

    linked: bool
    first: dict[str, float] = dataclasses.field(default_factory=dict)
    set_to: dict[str, float | None] = dataclasses.field(default_factory=dict)


def begin_opening() -> None:
    """Set the slider as decided in the run before; comes before all widgets."""
    if _STATE not in st.session_state:
        st.session_state[_STATE] = _Opening("epsilon" in st.query_params)
    if _NEXT in st.session_state:
        st.session_state["epsilon"] = st.session_state.pop(_NEXT)


def open_with_release(settings: Settings, chosen: ChosenData, known: Feasibility) -> None:
    """Choose the smallest epsilon that is expected to release, if this table is new."""
    opening: _Opening = st.session_state[_STATE]
    table, epsilon = settings.data, settings.request.epsilon
    if isinstance(chosen.rows, GeneratedRows) or current_lesson() is not None:
        # rows can be generated until there are enough
        return
    keeps = opening.linked and not opening.first
    if opening.first.setdefault(table, epsilon) != epsilon or keeps or known.enough:
        opening.set_to.setdefault(table, None)
    if table not in opening.set_to and known.remedies is not None:
        found = opening.set_to[table] = known.remedies.epsilon
        if found is not None:
            st.session_state[_NEXT] = found
            rerun()
    if opening.set_to.get(table) == epsilon:
        st.caption(
            f"Opened at ε = {epsilon:g}: the smallest here at which {known.request.rows:,} "
            f"{known.request.units} are expected to give an answer."
        )
