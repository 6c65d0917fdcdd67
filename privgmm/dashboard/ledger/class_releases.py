"""The two releases that a step of the class makes by itself, so that there is something to add up.

Their rows are generated, so no one's privacy is at stake, and their account ends with the session.
"""

from __future__ import annotations

import streamlit as st

from privgmm.dashboard.shared.accounts import account_of
from privgmm.dashboard.shared.answers import answer_to
from privgmm.dashboard.shared.chosen_data import ChosenData
from privgmm.dashboard.shared.lessons import CLASS, current_lesson, revealed
from privgmm.methods.request import PlanRequest
from privgmm.records.notebook import DEFAULT_LEARNER, GeneratedRows
from privgmm.releases import release
from privgmm.teaching.rehearsal import load_demo

__all__ = ["release_twice"]

_ROWS = GeneratedRows("well_separated", 2, 2, 10_000, 1)
_REQUEST = PlanRequest(n_components=2, n_features=2, n_rows=10_000, epsilon=1.0, delta=1e-6)
_MADE = "ledger_class_releases"


def release_twice() -> None:
    """Make the two releases once per session, at the step that asks what they cost together."""
    if current_lesson() is not CLASS[-1] or not revealed() or _MADE in st.session_state:
        return
    st.session_state[_MADE] = True
    chosen = ChosenData(load_demo(_ROWS), _ROWS)
    account = account_of(chosen)
    with st.spinner("Releasing twice…"):
        plan = answer_to(_REQUEST).result().plan
        for _ in range(2):
            ledger = account.ledger(label=chosen.dataset.name)
            outcome = release(chosen.dataset.rows, plan, ledger=ledger)
            account.keep_receipt(outcome.result, chosen, DEFAULT_LEARNER)
