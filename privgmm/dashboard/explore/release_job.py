"""A release under way: started behind the button, shown as it goes, stopped on request.

The work runs beside the page, so the page stays alive. Cancelling takes effect before any noise is
drawn and before the ledger is told, while blocks are fitted for instance: then nothing was spent.
Once the noise is drawn there is no way back, and the note says so.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable
from concurrent.futures import wait

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from privgmm.dashboard.explore.result import nonprivate_of
from privgmm.dashboard.shared import state
from privgmm.dashboard.shared.accounts import Account, account_of
from privgmm.dashboard.shared.answers import answer_to
from privgmm.dashboard.shared.chosen import Chosen
from privgmm.dashboard.shared.format import problem_in_words
from privgmm.dashboard.shared.jobs import (
    HEAVY,
    Cancelled,
    Job,
    Once,
    Ticket,
    follow,
    is_tick,
    patience,
    redraw,
    repaint,
    this_session,
)
from privgmm.data.datasets import Dataset
from privgmm.learners.registry import make_learner
from privgmm.ledger.memory import MemoryBook
from privgmm.ledger.protocol import Ledger
from privgmm.methods.plan import Plan
from privgmm.records.notebook import FileRows, Rows
from privgmm.release import Outcome, PreparedRelease, Refusal, Release, prepare
from privgmm.stages.sketch.fitting import MISFIT

__all__ = ["Running", "collect", "running", "show_note", "show_running", "start"]

_RUNNING = "explore_running"


SHARED = Once(most=3e7)
"""Seeded releases of rows that are nobody's: the same for every session. In numbers they hold."""


class _Attempt:
    """The work of one release: plan, wait for a turn, fit blocks, and then draw.

    Parameters
    ----------
    settings : Settings
    dataset : Dataset
    rows : Rows
        How to come by the data again.
    ledger : Ledger
        Told of the release before noise is drawn.
    owner : hashable
        Whose turn it takes: the session's name.
    """

    def __init__(
        self,
        settings: state.Settings,
        dataset: Dataset,
        rows: Rows,
        ledger: Ledger,
        owner: Hashable,
    ) -> None:
        self._settings, self._dataset, self._rows = settings, dataset, rows
        self._ledger, self._owner = ledger, owner
        self._prepared: PreparedRelease | None = None
        self._told = False

    @property
    def spent(self) -> bool:
        """Whether the ledger has been told of it."""
        return self._told or (self._prepared is not None and self._prepared.drawn)

    @property
    def _same_for_all(self) -> bool:
        """Whether any session would get the very same: made-up or shipped rows, seeded noise.

        Never rows that somebody uploaded, and never noise that cannot be repeated.
        """
        return self._settings.seed is not None and not isinstance(self._rows, FileRows)

    def run(self, ticket: Ticket) -> Outcome:
        """Do it; may be cancelled until the noise is drawn."""
        planned = answer_to(self._settings.request)
        while not planned.done():
            ticket.step(0, 1, "Planning…")
            wait([planned], 0.1)
        plan = planned.result().plan
        if self._same_for_all:
            return self._of_all(plan, ticket)
        with HEAVY.turn(self._owner, ticket):
            self._prepared = self._prepare(plan, ticket)
            # the last chance to stop
            ticket.step(1, 1, _DRAWING)
            outcome = self._prepared.draw(self._ledger)
            _look_around(outcome, ticket)
        return outcome

    def _prepare(self, plan: Plan, ticket: Ticket) -> PreparedRelease:
        settings = self._settings

        def progress(done: int, total: int) -> None:
            ticket.step(done, total, f"{done:,} of {total:,} blocks fitted")

        if plan.votes:
            progress(0, plan.n_blocks)
        else:
            ticket.step(0, 1, "Counting rows…")
        return prepare(
            self._dataset.rows,
            plan,
            learner=None
            if plan.chooses_components
            else make_learner(settings.learner, plan.n_components),
            rng=settings.seed,
            progress=progress,
        )

    def _of_all(self, plan: Plan, ticket: Ticket) -> Outcome:
        """The same release that every other session gets, charged to this one's own account.

        Its noise is drawn once, after the first account was charged, and every further account is
        charged before it gets the result.
        """
        settings, weight = self._settings, float(self._dataset.rows.size)
        key = (self._rows, settings.request, settings.seed, settings.learner)

        def prepared(ticket: Ticket) -> PreparedRelease:
            with HEAVY.turn(self._owner, ticket):
                return self._prepare(plan, ticket)

        def drawn(ticket: Ticket) -> Outcome:
            with HEAVY.turn(self._owner, ticket):
                ticket.tell(1, 1, _DRAWING)
                # one that was drawn and forgotten is made again: it has the same seed
                ready = self._prepare(plan, ticket) if first.drawn else first
                # the accounts that pay for it are the sessions': this one is nobody's
                outcome = ready.draw(MemoryBook().open("of all"))
                _look_around(outcome, ticket)
            return outcome

        first = follow(SHARED.ask(("prepared", key), prepared, weight), ticket)
        # the last chance to stop
        ticket.step(1, 1, _DRAWING)
        intent = self._ledger.intend(plan, seeded=True, unit=first.unit)
        self._told = True
        job = SHARED.ask(("drawn", key), drawn, weight)
        outcome = follow(job, ticket, stoppable=False)
        result = dataclasses.replace(outcome.result, entry=intent.number, mark=intent.mark)
        _look_again(result, ticket)
        intent.conclude(released=result.released)
        return dataclasses.replace(outcome, result=result)


_NEARLY = 0.3
"""Seconds that a tick waits for a release that has its turn."""
_DRAWING = "Drawing the noise and finding the mixture…"


def _look_around(outcome: Outcome, ticket: Ticket) -> None:
    """What the page will show beside the result: worked out here, where it can wait."""
    _look_again(outcome.result, ticket)
    ticket.tell(1, 1, "Fitting all rows without privacy, to compare…")
    nonprivate_of(outcome)


def _look_again(result: Release | Refusal, ticket: Ticket) -> None:
    """Where the mixture does not explain the rows, what would: kept by the result."""
    if isinstance(result, Release) and (result.misfit or 0.0) > MISFIT:
        ticket.tell(1, 1, "Seeing what would explain the rows, which is free…")
        _ = result.verdict


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
    ledger = account.ledger(label=dataset.name)
    attempt = _Attempt(settings, dataset, chosen.rows, ledger, this_session())
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
        state.note(state.Note(problem_in_words(problem), spent=current.spent, trouble=True))
    else:
        raise problem


def show_running() -> None:
    """Progress and a way to stop; redraws the page at the end."""
    repaint(functools.partial(_progress, st.empty()))


def _progress(place: DeltaGenerator) -> None:
    current = running()
    if current is not None and is_tick() and not current.job.progress.waits:
        # few can be that far at once, so they may be told without waiting for the next tick
        patience([current.job.future], _NEARLY)
    if current is None or current.job.finished:
        redraw()
    with place.container(border=True, key="progress"):
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
