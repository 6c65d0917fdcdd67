"""Refresh: how a page reruns when background work has something new to show.

A page renders what is known by now. `rerun_when_ready` reruns it when an answer arrives,
`refresh_part` renders one part of it at every tick of the refresh timer, and `result_or_notice`
shows a notice until a single answer is there. Pages of all sessions are rendered one at a time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import Any, NamedTuple, NoReturn, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.scriptrunner import get_script_run_ctx

from privgmm.dashboard.shared.fair_queue import RELEASES
from privgmm.teaching.background import WorkerPool, is_known

__all__ = [
    "BRIEFLY",
    "PAGE_POOL",
    "end_page",
    "is_tick",
    "place_timer",
    "refresh_part",
    "refreshing_page",
    "rerun",
    "rerun_when_ready",
    "result_or_notice",
    "wait_briefly",
]

_T = TypeVar("_T")

BRIEFLY = 0.12
"""Seconds to wait for an answer that is nearly there. By convention: about what a person does not
notice, so that the page does not flicker."""

PAGE_POOL = WorkerPool()
"""Computes what `result_or_notice` is asked. One worker: a second one would share the interpreter
with the pages and slow them down."""

_TICK = 0.4
"""Seconds between two ticks. By convention: often enough to look alive."""
_SLOWEST_TICK = 1.0
"""Seconds between two ticks at most, however many wait."""
_LOCK_TIMEOUT = 1.0
"""Seconds after which a page is rendered without the lock, because another one takes long."""
_NOTHING = "<span hidden></span>"

_RENDER_LOCK = threading.Lock()
"""Held while a page is rendered.

Rendering is Python's work, and one thread at a time does Python's work. If 25 pages compete for
it, the thread that talks to the browsers gets a hundredth of a second out of every eighth of one,
and no browser is answered for many seconds. Pages that wait for the lock cost nothing.
"""


class _RenderTurn:
    """A thread's hold on the render lock."""

    def __init__(self) -> None:
        self._mine = False

    def _acquire(self) -> None:
        self._mine = _RENDER_LOCK.acquire(timeout=_LOCK_TIMEOUT)

    def _release(self) -> None:
        if self._mine:
            self._mine = False
            _RENDER_LOCK.release()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Acquire the lock, and release it at the end."""
        self._acquire()
        try:
            yield
        finally:
            self._release()

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """Release the lock meanwhile, if it is held."""
        if not self._mine:
            yield
            return
        self._release()
        try:
            yield
        finally:
            self._acquire()


class _Address(NamedTuple):
    """A page and what its address holds.

    Parameters
    ----------
    page : str or None
        Streamlit's key of the page.
    query : dict of str to list of str
    """

    page: str | None
    query: dict[str, list[str]]


def _current_address() -> _Address:
    """Return the address of the page that is rendered, or that a tick was sent from."""
    context = get_script_run_ctx()
    query = {name: st.query_params.get_all(name) for name in st.query_params}
    return _Address(None if context is None else context.page_script_hash, query)


@dataclasses.dataclass
class _PageRun:
    """One run of a page, and what it asked of the refresh timer.

    Parameters
    ----------
    address : _Address
    place : DeltaGenerator
        Where the timer is.
    thread : Thread
        The one that rendered the page.
    pending : list of Future
        The page is rerun once one of them is there.
    parts : list of callable
        Rendered again at every tick.
    intervals : list of callable
        Seconds between two ticks that each of those who wait wants at present.
    interval : float
        Seconds between two ticks that the browser was given.
    due : float
        No tick of this run's own timer can come before this time.
    """

    address: _Address
    place: DeltaGenerator
    thread: threading.Thread = dataclasses.field(default_factory=threading.current_thread)
    pending: list[Future[Any]] = dataclasses.field(default_factory=list)
    parts: list[Callable[[], None]] = dataclasses.field(default_factory=list)
    intervals: list[Callable[[], float]] = dataclasses.field(default_factory=list)
    interval: float = math.inf
    due: float = math.inf

    @property
    def wanted_interval(self) -> float:
        """Seconds between two ticks that are wanted at present."""
        return min((interval() for interval in self.intervals), default=math.inf)

    @property
    def may_be_incomplete(self) -> bool:
        """Whether this tick may have cost the browser the end of the page.

        A run that has ended sends its last messages a moment later. If a tick comes in between,
        Streamlit starts a new run in a new thread and drops them: charts, the message that the
        page is complete, even the next timer. Only a tick of an older run can come that early,
        since the timer is started after everything else.
        """
        return threading.current_thread() is not self.thread and time.monotonic() < self.due


class _ThreadState(threading.local):
    """What this thread is rendering."""

    def __init__(self) -> None:
        self.page_run: _PageRun | None = None
        self.whole_page = False
        self.turn = _RenderTurn()


_THREAD = _ThreadState()


def wait_briefly(answers: Iterable[Future[Any]], seconds: float = BRIEFLY) -> None:
    """Wait a moment for all answers, and let other pages render meanwhile."""
    missing = [answer for answer in answers if not answer.done()]
    if missing:
        with _THREAD.turn.released():
            wait(missing, seconds)


def rerun() -> NoReturn:
    """Rerun the whole page, unless a link was clicked meanwhile: that comes first.

    Streamlit keeps one request at a time, and `st.rerun` overwrites a request for another page.
    Rendering anything, even nothing, takes up the request that is waiting.
    """
    st.html(_NOTHING)
    st.rerun()


def is_tick() -> bool:
    """Whether a part of the page is rendered by itself, for example at a tick of the timer."""
    return not _THREAD.whole_page


# -------------------------------------------------------------------------------------- the timer


def place_timer() -> None:
    """Place the refresh timer, before anything else on the page and at the same place on all.

    A part that refreshes itself is a fragment, and its browser may send one more tick after the
    page was rendered without it: the server then logs that there is no such fragment. One timer
    for all parts of all pages avoids this, as a late tick finds it. A tick that was sent from the
    page before makes the browser drop what it shows, so this page is then rendered once more.
    """
    _THREAD.page_run = _PageRun(_current_address(), st.empty())
    _place_fragment(_THREAD.page_run, None)


def _place_fragment(
    run: _PageRun, seconds: float | None, part: Callable[[], None] | None = None
) -> None:
    with run.place:
        st.fragment(_tick, run_every=seconds)(run, part)


class _PageEnd(Exception):
    """Ends a page before its last line."""


def end_page() -> NoReturn:
    """End the page here; what it has rendered so far stays, and refreshes itself."""
    raise _PageEnd


def refreshing_page(page: Callable[[], None]) -> Callable[[], None]:
    """Decorate a page: it is rendered under the lock, and its timer starts when all is rendered."""

    @functools.wraps(page)
    def rendered() -> None:
        with _THREAD.turn.held():
            _THREAD.page_run, _THREAD.whole_page = None, True
            try:
                with contextlib.suppress(_PageEnd):
                    page()
                _start_timer()
            finally:
                _THREAD.whole_page = False

    return rendered


def _start_timer() -> None:
    run = _THREAD.page_run
    if run is not None and run.intervals:
        run.interval = run.wanted_interval
        # a browser's timer may be early by a little
        run.due = time.monotonic() + 0.9 * run.interval
        _place_fragment(run, run.interval)


def _tick(run: _PageRun, newest: Callable[[], None] | None) -> None:
    """Render all parts at a tick; while the page is rendered, only the newest one."""
    st.html(_NOTHING)
    if not is_tick():
        if newest is not None:
            newest()
        return
    if _current_address().page != run.address.page:
        _return_to(run.address)
    if run.may_be_incomplete:
        # other ticks that are on their way arrive meanwhile: one rerun is enough for all of them
        time.sleep(_TICK)
        rerun()
    if any(answer.done() for answer in run.pending):
        rerun()
    for part in [*run.parts]:
        part()
    _update_interval(run)


def _return_to(address: _Address) -> None:
    """Render the page of this address, not the one that the tick was sent from."""
    context = get_script_run_ctx()
    pages = {} if context is None else context.pages_manager.get_pages()
    if address.page in pages:
        st.switch_page(pages[address.page]["script_path"], query_params=address.query)


def _update_interval(run: _PageRun) -> None:
    """Send the browser another interval at a tick, if another one is wanted now.

    Streamlit has no public call for that: placing the fragment again would need a whole rerun.
    """
    context, wanted = get_script_run_ctx(), run.wanted_interval
    if context is None or wanted == run.interval:
        return
    run.interval = wanted
    for fragment in context.fragment_ids_this_run or ():
        message = ForwardMsg()
        message.auto_rerun.fragment_id, message.auto_rerun.interval = fragment, wanted
        context.enqueue(message)


def _interval_for(waiting: int) -> float:
    """Seconds between two ticks for a queue of this length: ticks take time from the work.

    >>> _interval_for(0), _interval_for(4), _interval_for(100)
    (0.4, 0.6, 1.0)
    """
    return min(_SLOWEST_TICK, round(_TICK * (1 + waiting / 8), 2))


# -------------------------------------------------------------------------------- what pages call


def rerun_when_ready(pending: Sequence[Future[Any]]) -> None:
    """Rerun the page as soon as one of the answers is there."""
    run = _THREAD.page_run
    if run is not None and pending:
        run.pending += pending
        run.intervals.append(lambda: _TICK)


def refresh_part(part: Callable[[], None], *, every: float | None = None) -> None:
    """Render a part of the page now, and again at every tick of the timer.

    Parameters
    ----------
    part : callable
        Renders into a place of its own (``st.empty``), and may call `rerun`.
    every : float, optional
        Seconds between two ticks; by default fewer ticks while many wait for a release.
    """
    run = _THREAD.page_run
    if run is None:
        part()
        return
    run.parts.append(part)
    run.intervals.append(lambda: _interval_for(RELEASES.waiting) if every is None else every)
    _place_fragment(run, None, part)


def result_or_notice(key: Hashable, work: Callable[[], _T], notice: str) -> _T | None:
    """Return the answer to a question if it is there within a moment; else show a notice.

    Parameters
    ----------
    key : hashable
        Names the question, with everything that the answer depends on.
    work : callable
        Computes the answer in the background. It must not render anything.
    notice : str
        Shown until then.
    """
    answer = PAGE_POOL.ask(key, work)
    wait_briefly([answer])
    if is_known(answer):
        return answer.result()
    st.info(notice, icon=":material/hourglass_top:")
    rerun_when_ready([answer])
    return None
