"""A release under way: started behind the button, shown as it goes, stopped on request.

The work runs beside the page, so the page stays alive. Cancelling takes effect before any noise is
drawn and before the ledger is told, while blocks are fitted for instance: then nothing was spent.
Once the noise is drawn there is no way back, and the note says so.
"""

from __future__ import annotations

import dataclasses
from concurrent.futures import wait

import streamlit as st

from privgmm.dashboard.explore.result import nonprivate_of
from privgmm.dashboard.shared import state
from privgmm.dashboard.shared.accounts import Account, account_of
from privgmm.dashboard.shared.answers import answer_to
from privgmm.dashboard.shared.chosen import Chosen
from privgmm.dashboard.shared.format import escaped
from privgmm.dashboard.shared.jobs import Cancelled, Job, Ticket, redraw
from privgmm.data.datasets import Dataset
from privgmm.learners.registry import make_learner
from privgmm.ledger.protocol import Ledger
from privgmm.records.notebook import Rows
from privgmm.release import Outcome, PreparedRelease, Release, prepare
from privgmm.stages.sketch.fitting import MISFIT

__all__ = ["Running", "collect", "running", "show_note", "show_running", "start"]

_RUNNING = "explore_running"


class _Attempt:
    """The work of one release: plan, fit blocks, and then draw.

    Parameters
    ----------
    settings : Settings
    dataset : Dataset
    ledger : Ledger
        Told of the release before noise is drawn.
    """

    def __init__(self, settings: state.Settings, dataset: Dataset, ledger: Ledger) -> None:
        self._settings, self._dataset, self._ledger = settings, dataset, ledger
        self._prepared: PreparedRelease | None = None

    @property
    def spent(self) -> bool:
        """Whether the ledger has been told of it."""
        return self._prepared is not None and self._prepared.drawn

    def run(self, ticket: Ticket) -> Outcome:
        """Do it; may be cancelled until the noise is drawn."""
        settings = self._settings
        planned = answer_to(settings.request)
        while not planned.done():
            ticket.step(0, 1, "Planning…")
            wait([planned], 0.1)
        plan = planned.result().plan

        def progress(done: int, total: int) -> None:
            ticket.step(done, total, f"{done:,} of {total:,} blocks fitted")

        if plan.votes:
            progress(0, plan.n_blocks)
        else:
            ticket.step(0, 1, "Counting rows…")
        self._prepared = prepare(
            self._dataset.rows,
            plan,
            learner=None
            if plan.chooses_components
            else make_learner(settings.learner, plan.n_components),
            rng=settings.seed,
            progress=progress,
        )
        # the last chance to stop
        ticket.step(1, 1, "Drawing the noise and finding the mixture…")
        outcome = self._prepared.draw(self._ledger)
        result = outcome.result
        if isinstance(result, Release) and (result.misfit or 0.0) > MISFIT:
            ticket.tell(1, 1, "Seeing what would explain the rows, which is free…")
            # kept by the result: the page only reads it
            _ = result.verdict
        ticket.tell(1, 1, "Fitting all rows without privacy, to compare…")
        nonprivate_of(outcome)
        return outcome


@dataclasses.dataclass(frozen=True)
class Running:
    """A release that has been asked for and has not ended."""

    settings: state.Settings
    dataset: Dataset
    rows: Rows
    account: Account
    attempt: _Attempt
    job: Job[Outcome]

    @property
    def spent(self) -> bool:
        """Whether the ledger has been told of it."""
        return self.attempt.spent


def running() -> Running | None:
    """The release under way in this session, if there is one."""
    value = st.session_state.get(_RUNNING)
    return value if isinstance(value, Running) else None


def start(settings: state.Settings, chosen: Chosen) -> None:
    """Begin a release."""
    dataset, account = chosen.dataset, account_of(chosen)
    attempt = _Attempt(settings, dataset, account.ledger(label=dataset.name))
    state.note(None)
    st.session_state[_RUNNING] = Running(
        settings, dataset, chosen.rows, account, attempt, Job(attempt.run)
    )


def collect() -> None:
    """If the release under way has ended, keep what came of it."""
    current = running()
    if current is None or not current.job.finished:
        return
    del st.session_state[_RUNNING]
    problem = current.job.problem()
    if problem is None:
        outcome = current.job.result()
        current.account.keep_receipt(
            outcome.result, current.dataset, current.rows, current.settings.learner
        )
        state.keep(state.Shown(current.settings, current.dataset, current.rows, outcome))
        if current.job.cancelling:
            state.note(state.Note("The noise had been drawn already.", spent=True, trouble=False))
    elif isinstance(problem, Cancelled):
        state.note(state.Note("", spent=current.spent, trouble=False))
    elif isinstance(problem, Exception):
        state.note(state.Note(escaped(str(problem)), spent=current.spent, trouble=True))
    else:
        raise problem


@st.fragment(run_every=0.4)
def show_running() -> None:
    """Progress and a way to stop; redraws the page at the end."""
    current = running()
    if current is None or current.job.finished:
        redraw()
    if current is not None:
        with st.container(border=True, key="progress"):
            told = current.job.progress
            st.progress(told.share, text=told.text or "Starting…")
            stopping = current.job.cancelling
            st.button(
                "Stopping…" if stopping else "Cancel",
                key="cancel",
                icon=":material/cancel:",
                on_click=current.job.cancel,
                disabled=stopping or current.spent,
            )
            st.caption(
                "The noise is drawn: the budget is spent."
                if current.spent
                else "Until the noise is drawn you may cancel, and nothing is spent."
            )


def show_note() -> None:
    """How the last attempt ended, where its result does not say it all."""
    last = state.noted()
    if last is None:
        return
    if last.trouble:
        ending = (
            "The budget is spent, but there is no result"
            if last.spent
            else "Nothing was drawn and nothing spent"
        )
        st.error(f"**{ending}.** {last.text}", icon=":material/error:")
    elif last.spent:
        st.warning(f"**Too late to cancel.** {last.text}", icon=":material/cancel:")
    else:
        st.info("**Cancelled.** Nothing was drawn and nothing spent.", icon=":material/cancel:")
