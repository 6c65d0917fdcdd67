"""A release that runs: started behind the button, shown with its progress, cancelled on request.

It runs in the background, so the page stays responsive. Cancelling takes effect before anything is
written to the ledger and before noise is drawn, for example while blocks are fitted: nothing is
spent then. After that it is too late, and the note says so.
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
from privgmm.dashboard.shared.accounts import DataAccount, account_of
from privgmm.dashboard.shared.answers import answer_to, blocks_of
from privgmm.dashboard.shared.chosen_data import ChosenData
from privgmm.dashboard.shared.fair_queue import RELEASES, this_session
from privgmm.dashboard.shared.refresh import is_tick, refresh_part, rerun, wait_briefly
from privgmm.learners.registry import make_learner
from privgmm.ledger.memory import MemoryBook
from privgmm.ledger.protocol import Ledger
from privgmm.methods.plan import Plan
from privgmm.releases import Outcome, PreparedRelease, Refusal, Release, prepare
from privgmm.stages.sketch.fitting import MISFIT
from privgmm.teaching.background import Cancelled, Job, JobCache, JobControl, follow
from privgmm.teaching.format import problem_in_words

__all__ = ["Running", "collect", "running", "show_note", "show_running", "start"]

_RUNNING = "explore_running"


SHARED = JobCache(most=3e7)
"""Seeded releases of demonstration data, shared by all sessions. The limit counts cells of rows:
at most about 250 MB."""


class _Attempt:
    """The work of one release: plan, wait for a slot, fit blocks, then draw.

    Parameters
    ----------
    settings : Settings
    chosen : ChosenData
    ledger : Ledger
        Records the release before noise is drawn.
    owner : hashable
        Of the slot: the session.
    """

    def __init__(
        self, settings: state.Settings, chosen: ChosenData, ledger: Ledger, owner: Hashable
    ) -> None:
        self._settings, self._chosen = settings, chosen
        self._ledger, self._owner = ledger, owner
        self._prepared: PreparedRelease | None = None
        self._recorded = False

    @property
    def spent(self) -> bool:
        """Whether its price is in the ledger."""
        return self._recorded or (self._prepared is not None and self._prepared.drawn)

    @property
    def _same_for_all(self) -> bool:
        """Whether every session would get the same: demonstration data and seeded noise.

        Never uploaded rows, and never noise that cannot be repeated.
        """
        return self._settings.seed is not None and self._chosen.demo is not None

    def run(self, control: JobControl) -> Outcome:
        """Run the release; it may be cancelled until the noise is drawn."""
        planned = answer_to(self._settings.request)
        while not planned.done():
            control.step(0, 1, "Planning…")
            wait([planned], 0.1)
        plan = planned.result().plan
        if self._same_for_all:
            return self._of_all(plan, control)
        with RELEASES.slot(self._owner, control):
            self._prepared = self._prepare(plan, control)
            # the last chance to stop
            control.step(1, 1, _DRAWING)
            outcome = self._prepared.draw(self._ledger)
            _look_around(outcome, control)
        return outcome

    def _prepare(self, plan: Plan, control: JobControl) -> PreparedRelease:
        settings = self._settings

        def progress(done: int, total: int) -> None:
            control.step(done, total, f"{done:,} of {total:,} blocks fitted")

        blocks = blocks_of(plan)
        if blocks is None:
            control.step(0, 1, "Counting rows…")
        else:
            progress(0, blocks)
        return prepare(
            self._chosen.dataset.rows,
            plan,
            learner=None
            if plan.chooses_components
            else make_learner(settings.learner, plan.n_components),
            rng=settings.seed,
            groups=self._chosen.persons,
            progress=progress,
        )

    def _of_all(self, plan: Plan, control: JobControl) -> Outcome:
        """Return the release that all sessions share, charged to this session's account.

        Its noise is drawn once, after the first account was charged, and every further account is
        charged before it gets the result.
        """
        settings, weight = self._settings, float(self._chosen.dataset.rows.size)
        key = (self._chosen.rows, settings.request, settings.seed, settings.learner)

        def prepared(control: JobControl) -> PreparedRelease:
            with RELEASES.slot(self._owner, control):
                return self._prepare(plan, control)

        def drawn(control: JobControl) -> Outcome:
            with RELEASES.slot(self._owner, control):
                control.report(1, 1, _DRAWING)
                # one that was drawn and evicted is made again: it has the same seed
                ready = self._prepare(plan, control) if first.drawn else first
                # the sessions' accounts pay for it, not this one
                outcome = ready.draw(MemoryBook().open("of all"))
                _look_around(outcome, control)
            return outcome

        first = follow(SHARED.ask(("prepared", key), prepared, weight), control)
        # the last chance to stop
        control.step(1, 1, _DRAWING)
        intent = self._ledger.intend(plan, seeded=True, unit=first.unit)
        self._recorded = True
        job = SHARED.ask(("drawn", key), drawn, weight)
        outcome = follow(job, control, stoppable=False)
        result = dataclasses.replace(outcome.result, entry=intent.number, mark=intent.mark)
        _look_again(result, control)
        why = result.why if isinstance(result, Refusal) else None
        intent.conclude(released=result.released, reason=why)
        return dataclasses.replace(outcome, result=result)


_NEARLY = 0.3
"""Seconds that a tick waits for a release that has a slot: few can be that far at once."""
_DRAWING = "Drawing the noise and finding the mixture…"


def _look_around(outcome: Outcome, control: JobControl) -> None:
    """Compute here, where it can wait, what the page will show next to the result."""
    _look_again(outcome.result, control)
    control.report(1, 1, "Fitting all rows without privacy, to compare…")
    nonprivate_of(outcome)


def _look_again(result: Release | Refusal, control: JobControl) -> None:
    """Where the mixture does not explain the rows, find what would; the result keeps it."""
    if isinstance(result, Release) and (result.misfit or 0.0) > MISFIT:
        control.report(1, 1, "Finding what would explain the rows, which is free…")
        _ = result.verdict


@dataclasses.dataclass(frozen=True)
class Running:
    """A release that was requested and has not ended."""

    settings: state.Settings
    chosen: ChosenData
    account: DataAccount
    attempt: _Attempt
    job: Job[Outcome]

    @property
    def spent(self) -> bool:
        """Whether its price is in the ledger."""
        return self.attempt.spent


def running() -> Running | None:
    """Return the release that runs in this session, if there is one."""
    value = st.session_state.get(_RUNNING)
    return value if isinstance(value, Running) else None


def start(settings: state.Settings, chosen: ChosenData) -> None:
    """Start a release."""
    account = account_of(chosen)
    ledger = account.ledger(label=chosen.dataset.name)
    attempt = _Attempt(settings, chosen, ledger, this_session())
    state.note(None)
    st.session_state[_RUNNING] = Running(settings, chosen, account, attempt, Job(attempt.run))


def collect() -> None:
    """Keep the result of a release that has ended."""
    current = running()
    if current is None or not current.job.finished:
        return
    del st.session_state[_RUNNING]
    problem = current.job.problem()
    if problem is None:
        outcome = current.job.result()
        current.account.keep_receipt(outcome.result, current.chosen, current.settings.learner)
        state.keep(state.Shown(current.settings, current.chosen, outcome))
        if current.job.cancelling:
            state.note(state.Note("The noise had been drawn already.", spent=True, trouble=False))
    elif isinstance(problem, Cancelled):
        state.note(state.Note("", spent=current.spent, trouble=False))
    elif isinstance(problem, Exception):
        state.note(state.Note(problem_in_words(problem), spent=current.spent, trouble=True))
    else:
        raise problem


def show_running() -> None:
    """Show progress and Cancel; the page reruns at the end."""
    refresh_part(functools.partial(_progress, st.empty()))


def _progress(place: DeltaGenerator) -> None:
    current = running()
    if current is not None and is_tick() and not current.job.progress.waits:
        # its result is shown without waiting for the next tick
        wait_briefly([current.job.future], _NEARLY)
    if current is None or current.job.finished:
        rerun()
    with place.container(border=True, key="progress"):
        progress = current.job.progress
        st.progress(progress.share, text=progress.text or "Starting…")
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
    """Say how the last attempt ended, where its result does not say it all."""
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
