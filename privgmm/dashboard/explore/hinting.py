"""Why the blocks disagree and what to try: words for the curator, after a refusal."""

from __future__ import annotations

import dataclasses
from concurrent.futures import Future
from typing import Any

import streamlit as st

from privgmm.dashboard.shared.format import escaped
from privgmm.dashboard.shared.jobs import Job
from privgmm.errors import PrivGMMError
from privgmm.release import Outcome

__all__ = ["show_hint"]

_HINT = "explore_hint"


@dataclasses.dataclass(frozen=True)
class _Hint:
    """The search for a hint on one outcome. It takes seconds, so it is made beside the page."""

    outcome: Outcome
    job: Job[str | None]


def _found(outcome: Outcome) -> str | None:
    try:
        return outcome.curator.hint()
    except PrivGMMError:
        # a hint is an extra: without one the refusal says all there is to say
        return None


def show_hint(outcome: Outcome) -> list[Future[Any]]:
    """After a refusal, what the fits tell the curator; gives back what is under way.

    There is nothing to tell where no blocks were fitted, or where their fits have fewer components
    than were asked for: those only look for where the rows lie.
    """
    plan = outcome.result.plan
    if outcome.released or not plan.votes:
        return []
    if plan.agreement.n_components != plan.n_components:
        return []
    kept = st.session_state.get(_HINT)
    if not (isinstance(kept, _Hint) and kept.outcome is outcome):
        kept = _Hint(outcome, Job(lambda _: _found(outcome)))
        st.session_state[_HINT] = kept
    if kept.job.finished and kept.job.result() is None:
        return []
    with st.container(border=True, key="hint"):
        st.markdown("**:red[:material/lock: For the curator only]** · why the blocks disagree")
        if not kept.job.finished:
            st.caption(":material/hourglass_top: Looking at the fits…")
            return [kept.job.future]
        st.markdown(escaped(kept.job.result() or ""))
        st.caption(
            "Read off the rows and the fits of the blocks: not private, not to be shared. Acting "
            "on it is a choice made with the data, like any look at them."
        )
    return []
