"""Show the curator, after a refusal, what stood in the way and what to try."""

from __future__ import annotations

import dataclasses
from concurrent.futures import Future
from typing import Any

import streamlit as st

from privgmm.errors import PrivGMMError
from privgmm.releases import Outcome
from privgmm.teaching.background import Job
from privgmm.teaching.format import escaped

__all__ = ["show_hint"]

_HINT = "explore_hint"


@dataclasses.dataclass(frozen=True)
class _Hint:
    """A search for the hint on one outcome. It takes seconds, so it is done in the background."""

    outcome: Outcome
    job: Job[str | None]


def _found(outcome: Outcome) -> str | None:
    try:
        return outcome.curator.hint()
    except PrivGMMError:
        # a hint is an extra: without one the refusal says all there is to say
        return None


def show_hint(outcome: Outcome) -> list[Future[Any]]:
    """Show the hint after a refusal; return what is still to come."""
    if outcome.released:
        return []
    kept = st.session_state.get(_HINT)
    if not (isinstance(kept, _Hint) and kept.outcome is outcome):
        kept = _Hint(outcome, Job(lambda _: _found(outcome)))
        st.session_state[_HINT] = kept
    if kept.job.finished and kept.job.result() is None:
        return []
    with st.container(border=True, key="hint"):
        st.markdown("**:red[:material/lock: For the curator only]** · why nothing was released")
        if not kept.job.finished:
            st.caption(":material/hourglass_top: Looking for the reason…")
            return [kept.job.future]
        st.markdown(escaped(kept.job.result() or ""))
        st.caption(
            "Computed from the rows without noise: confidential, not to be shared. Acting on it is "
            "a choice made with the data, like any look at them."
        )
    return []
