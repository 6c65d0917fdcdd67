"""Work beside the pages: jobs of one session, questions of all sessions, and how pages wait.

A page reruns in a fraction of a second or it feels broken, so what takes longer is done in threads
that end with the process. There are some kinds of such work, and one way to wait for all of them:

- a `Job` belongs to one session: it tells its progress and can be cancelled;
- a `Line` gives turns to what is heavy: few at a time, round robin between sessions;
- `Once` does work that several sessions ask for once, and hands the result to all of them;
- a `Board` answers questions that any session may ask, each worked out once;
- a page draws what is known by now, and `watch` runs it again once there is more. `beside` does
  both for a part of a page that needs a single answer.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import functools
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.scriptrunner import get_script_run_ctx

from privgmm.ledger.cautions import ordinal

__all__ = [
    "BOARD",
    "GRACE",
    "HEAVY",
    "Board",
    "Cancelled",
    "Job",
    "Line",
    "Once",
    "Progress",
    "Ticket",
    "beside",
    "follow",
    "is_known",
    "is_tick",
    "on_the_clock",
    "patience",
    "place_clock",
    "redraw",
    "repaint",
    "still_open",
    "this_session",
    "watch",
]

T = TypeVar("T")


def _fulfil(future: Future[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as problem:  # noqa: BLE001 - not lost: whoever asks for the result gets it
        future.set_exception(problem)


# ------------------------------------------------------------------------ work of one session


class Cancelled(Exception):
    """Raised inside a job, at its next step, after somebody asked it to stop."""


class Progress(NamedTuple):
    """How far a job is; `waits` while others have to come to an end before."""

    done: int
    total: int
    text: str
    waits: bool = False

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return min(1.0, self.done / max(self.total, 1))


class Ticket:
    """What the work of a job is handed: it tells its progress and learns when to stop."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._progress = Progress(0, 1, "")

    @property
    def progress(self) -> Progress:
        """What was told last."""
        return self._progress

    @property
    def stopped(self) -> bool:
        """Whether somebody asked to stop."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Ask to stop at the next step."""
        self._stop.set()

    def step(self, done: int, total: int, text: str, waits: bool = False) -> None:
        """Tell the progress, and raise `Cancelled` if asked to stop."""
        self.tell(done, total, text, waits)
        if self.stopped:
            raise Cancelled

    def tell(self, done: int, total: int, text: str, waits: bool = False) -> None:
        """Tell the progress of something that can no longer be stopped."""
        self._progress = Progress(done, total, text, waits)


class Job(Generic[T]):
    """One piece of work in a thread of its own.

    Parameters
    ----------
    work : callable(Ticket)
        Its value is the job's result; it should call `Ticket.step` often.
    """

    def __init__(self, work: Callable[[Ticket], T]) -> None:
        self._ticket = Ticket()
        self._future: Future[T] = Future()
        threading.Thread(
            target=_fulfil, args=(self._future, lambda: work(self._ticket)), daemon=True
        ).start()

    @property
    def progress(self) -> Progress:
        """How far it is."""
        return self._ticket.progress

    @property
    def finished(self) -> bool:
        """Whether there is a result or an error."""
        return self._future.done()

    @property
    def future(self) -> Future[T]:
        """Its end, for those who wait for several things."""
        return self._future

    @property
    def cancelling(self) -> bool:
        """Whether somebody asked it to stop."""
        return self._ticket.stopped

    def cancel(self) -> None:
        """Ask it to stop at its next step."""
        self._ticket.stop()

    def problem(self, timeout: float | None = None) -> BaseException | None:
        """The error it ended with, if it did; waits for the end."""
        return self._future.exception(timeout)

    def result(self, timeout: float | None = None) -> T:
        """What it made; waits for the end."""
        return self._future.result(timeout)


# ------------------------------------------------------------------------ turns between sessions


@dataclasses.dataclass(frozen=True, order=True)
class _Place:
    """A place in the line: served by rounds, and within a round in the order of arrival."""

    round: int
    number: int


class Line:
    """Turns for heavy work: a few at a time, and every session's next turn before anybody's second.

    Parameters
    ----------
    places : int
        How many work at once.

    Notes
    -----
    Fair queueing by rounds. Whoever joins gets the round that is being served, or the one after
    the last of the same owner, whichever is later. So somebody who asks for a hundred turns waits
    after each for all others who have one to wait for, and nobody is passed by more than once.
    """

    def __init__(self, places: int) -> None:
        self._places = self._free = places
        self._round, self._arrived = 0, 0
        self._waiting: list[_Place] = []
        self._last: dict[Hashable, int] = {}
        self._moved = threading.Condition()

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether nobody has a turn or waits for one."""
        return self._free == self._places and not self._waiting

    @contextlib.contextmanager
    def turn(self, owner: Hashable, ticket: Ticket) -> Iterator[None]:
        """Wait for a turn, telling the place in the line, and give it back at the end.

        Raises `Cancelled`, and leaves the line, if the ticket is stopped before it is one's turn.
        """
        with self._moved:
            place = self._join(owner)
            try:
                while not (self._free and self._waiting[0] == place):
                    ticket.step(0, 1, _in_line(self._waiting.index(place) + 1), waits=True)
                    self._moved.wait(_LOOK)
            except BaseException:
                self._leave(place)
                raise
            self._free -= 1
            self._round = place.round
            self._leave(place)
        try:
            yield
        finally:
            with self._moved:
                self._free += 1
                self._moved.notify_all()

    def _join(self, owner: Hashable) -> _Place:
        place = _Place(max(self._round, self._last.get(owner, -1) + 1), self._arrived)
        self._arrived += 1
        # those whose turns are over are forgotten
        self._last = {one: last for one, last in self._last.items() if last >= self._round}
        self._last[owner] = place.round
        bisect.insort(self._waiting, place)
        return place

    def _leave(self, place: _Place) -> None:
        self._waiting.remove(place)
        self._moved.notify_all()


_REST = 0.5
"""Seconds after which those who were first are taken to have no more to do."""
_LOOK = 0.25
"""Seconds after which whoever waits looks again whether to stop."""


def _in_line(place: int) -> str:
    """What to say to whoever waits.

    >>> _in_line(1), _in_line(3)
    ('Waiting for others: you are next.', 'Waiting for others: you are 3rd in line.')
    """
    if place == 1:
        return "Waiting for others: you are next."
    return f"Waiting for others: you are {ordinal(place)} in line."


HEAVY = Line(min(4, os.cpu_count() or 1))
"""For releases of all sessions: as many at once as there are processors for them."""


def this_session() -> Hashable:
    """What tells the session of the page that is drawn from others: whose turn it is."""
    context = get_script_run_ctx()
    return None if context is None else context.session_id


class Once:
    """Work that several sessions ask for: done once, by whoever comes first, for all.

    Nobody can stop it for the others, so it runs to its end; who does not want it any more stops
    following it. What failed is done anew when asked for again.

    Parameters
    ----------
    most : float
        How much is remembered, in the units of `weight`.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._jobs: OrderedDict[Hashable, tuple[Job[Any], float]] = OrderedDict()
        self._lock = threading.Lock()

    def ask(self, key: Hashable, work: Callable[[Ticket], T], weight: float) -> Job[T]:
        """The work of this name, under way or done; `work` does it if it is new."""
        with self._lock:
            known = self._jobs.get(key)
            if known is not None and not (known[0].finished and known[0].problem() is not None):
                self._jobs.move_to_end(key)
                return known[0]
            job = Job(work)
            self._jobs[key] = job, weight
            self._forget()
            return job

    def _forget(self) -> None:
        """Drop what was not asked for the longest time; never what is under way."""
        total = sum(weight for _, weight in self._jobs.values())
        for key, (job, weight) in list(self._jobs.items())[:-1]:
            if total <= self._most:
                return
            if job.finished:
                del self._jobs[key]
                total -= weight


def follow(job: Job[T], ticket: Ticket, *, stoppable: bool = True) -> T:
    """Wait for a job of all, telling its progress as one's own.

    Raises `Cancelled` if the ticket is stopped meanwhile, unless it is not `stoppable`.
    """
    tell = ticket.step if stoppable else ticket.tell
    while not job.finished:
        tell(*job.progress)
        wait([job.future], 0.1)
    return job.result()


# -------------------------------------------------------------------- questions of any session


class _Task(NamedTuple):
    key: Hashable
    future: Future[Any]
    work: Callable[[], Any]
    after: Future[Any] | None

    @property
    def ready(self) -> bool:
        """Whether it may be begun."""
        return self.after is None or self.after.done()


class Board:
    """Questions and answers, newest question first.

    Whoever drags a slider asks a question at every stop: only the last one matters at once, so
    it is served first, and the oldest of many waiting ones are dropped (asking again revives
    them).

    Parameters
    ----------
    workers : int
        Threads.
    keep : int
        How many answers are remembered.
    waiting : int
        How many questions may wait.
    after : sequence of Line or Board
        What comes first: no question is begun while any of them has something to do, or a moment
        after, since whoever moves one slider often moves it on.
    """

    def __init__(
        self,
        workers: int = 2,
        keep: int = 512,
        waiting: int = 8,
        after: Sequence[Line | Board] = (),
    ) -> None:
        self._workers, self._keep, self._waiting = workers, keep, waiting
        self._after = tuple(after)
        self._busy = 0
        self._rested = 0.0
        self._answers: OrderedDict[Hashable, Future[Any]] = OrderedDict()
        self._stack: list[_Task] = []
        self._work_to_do = threading.Condition()
        self._started = False

    def ask(
        self, key: Hashable, work: Callable[[], T], after: Future[Any] | None = None
    ) -> Future[T]:
        """The answer to the question `key`, under way or ready; `work` finds it if it is new.

        It is not begun before the answer `after` is there.
        """
        with self._work_to_do:
            known = self._answers.get(key)
            if known is not None:
                self._answers.move_to_end(key)
                return known
            future: Future[T] = Future()
            self._answers[key] = future
            self._stack.append(_Task(key, future, work, after))
            while len(self._stack) > self._waiting:
                dropped = self._stack.pop(0)
                dropped.future.cancel()
                del self._answers[dropped.key]
            self._forget()
            self._start()
            self._work_to_do.notify()
            return future

    def settle(self, timeout: float = 120.0) -> None:
        """Wait until nothing is under way."""
        with self._work_to_do:
            pending = [future for future in self._answers.values() if not future.done()]
        wait(pending, timeout)

    @property
    def idle(self) -> bool:
        """Whether nothing is asked that is not answered."""
        return not (self._stack or self._busy)

    def _forget(self) -> None:
        old = [key for key, future in self._answers.items() if future.done()]
        for key in old[: max(0, len(self._answers) - self._keep)]:
            del self._answers[key]

    def _start(self) -> None:
        if not self._started:
            self._started = True
            for _ in range(self._workers):
                threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            with self._work_to_do:
                self._work_to_do.wait_for(lambda: self._stack)
            task = self._next()
            if task is None:
                time.sleep(_LOOK / 5)
                continue
            _fulfil(task.future, task.work)
            with self._work_to_do:
                self._busy -= 1

    def _next(self) -> _Task | None:
        """The newest question that may be begun, if there is one."""
        now = time.monotonic()
        if not all(first.idle for first in self._after):
            self._rested = now + _REST
        if now < self._rested:
            return None
        with self._work_to_do:
            ready = [task for task in self._stack if task.ready]
            if not ready:
                return None
            self._stack.remove(ready[-1])
            self._busy += 1
            return ready[-1]


# ------------------------------------------------------------------------- a page that waits

GRACE = 0.12
"""Seconds to wait for an answer that is nearly there, rather than flicker."""

BOARD = Board(workers=1, waiting=16)
"""For what is asked by `beside`."""

_NOTHING = "<span hidden></span>"


def patience(answers: Iterable[Future[Any]], seconds: float = GRACE) -> None:
    """Wait a moment for all of them, and let others draw meanwhile."""
    missing = [answer for answer in answers if not answer.done()]
    if missing:
        with _NOW.turn.given_up():
            wait(missing, seconds)


def is_known(answer: Future[Any]) -> bool:
    """Whether there is a result or an error; one that was dropped has to be asked for again."""
    return answer.done() and not answer.cancelled()


def still_open(answers: Iterable[Future[Any]]) -> list[Future[Any]]:
    """Those to wait for."""
    return [answer for answer in answers if not is_known(answer)]


def redraw() -> NoReturn:
    """Run the whole page again, unless somebody has clicked a link meanwhile: that comes first.

    Streamlit keeps one request at a time, and `st.rerun` writes this page over another that was
    asked for. Drawing something, if only nothing, takes up what is asked already.
    """
    st.html(_NOTHING)
    st.rerun()


_TICK = 0.4
"""Seconds between two looks at what is under way."""
_SLOWEST = 1.0


def _pace(waiting: int) -> float:
    """Seconds between two looks while so many wait for a turn: looking takes time from the work.

    >>> _pace(0), _pace(4), _pace(100)
    (0.4, 0.6, 1.0)
    """
    return min(_SLOWEST, round(_TICK * (1 + waiting / 8), 2))


class _Address(NamedTuple):
    """A page and what its address holds.

    Parameters
    ----------
    page : str or None
        What Streamlit tells pages apart by.
    query : dict of str to list of str
    """

    page: str | None
    query: dict[str, list[str]]


def _this_address() -> _Address:
    """Of the page that is drawn, or that a tick was sent from."""
    context = get_script_run_ctx()
    query = {name: st.query_params.get_all(name) for name in st.query_params}
    return _Address(None if context is None else context.page_script_hash, query)


@dataclasses.dataclass
class _Drawing:
    """One drawing of a page, and what it has asked its clock for.

    Parameters
    ----------
    address : _Address
    place : DeltaGenerator
        Where the clock is.
    thread : Thread
        The one that draws.
    pending : list of Future
        The page is drawn again once one of them is there.
    painters : list of callable
        Parts to be drawn again at every tick.
    paces : list of callable
        Seconds that each of those who wait wants between two ticks, as things are.
    interval : float
        Seconds between two ticks, as the browser was told.
    due : float
        Before this time no tick of its own can have come.
    """

    address: _Address
    place: DeltaGenerator
    thread: threading.Thread = dataclasses.field(default_factory=threading.current_thread)
    pending: list[Future[Any]] = dataclasses.field(default_factory=list)
    painters: list[Callable[[], None]] = dataclasses.field(default_factory=list)
    paces: list[Callable[[], float]] = dataclasses.field(default_factory=list)
    interval: float = math.inf
    due: float = math.inf

    @property
    def wanted(self) -> float:
        """Seconds between two ticks, as things are."""
        return min((pace() for pace in self.paces), default=math.inf)

    @property
    def doubtful(self) -> bool:
        """Whether this tick may have cost the browser the end of the page.

        A run of the page that has ended hands over its last messages a moment later. If a tick
        comes in between, Streamlit begins a new run in a new thread and drops them: charts, the
        word that the page is complete, even the next clock. Only a tick of an older drawing can
        come so early, since the clock is wound after everything else.
        """
        return threading.current_thread() is not self.thread and time.monotonic() < self.due


_PEN = threading.Lock()
"""Whoever draws a page has it.

A page is Python's work, and only one thread does Python's work at a time. If 25 take turns at it,
the thread that talks to the browsers gets a hundredth of a second out of every eighth of one, and
nobody is answered for many seconds. Pages that wait for the pen cost nothing.
"""
_POLITE = 1.0
"""Seconds after which a page is drawn without the pen: some other one takes long."""


class _Turn:
    """A thread's turn to draw."""

    def __init__(self) -> None:
        self._mine = False

    def _take(self) -> None:
        self._mine = _PEN.acquire(timeout=_POLITE)

    def _give_back(self) -> None:
        if self._mine:
            self._mine = False
            _PEN.release()

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for it, and give it back at the end."""
        self._take()
        try:
            yield
        finally:
            self._give_back()

    @contextlib.contextmanager
    def given_up(self) -> Iterator[None]:
        """Let others have it meanwhile."""
        if not self._mine:
            yield
            return
        self._give_back()
        try:
            yield
        finally:
            self._take()


class _Now(threading.local):
    """What is being drawn in this thread."""

    def __init__(self) -> None:
        self.drawing: _Drawing | None = None
        self.turn = _Turn()


_NOW = _Now()


def place_clock() -> None:
    """Give the page its clock, before anything else on it; every page has one, at the same place.

    A part that redraws itself by the clock is a fragment, and its browser may send one more tick
    when the page has been drawn without it: the server then logs that there is no such fragment.
    There is one clock for all parts of all pages, so a late tick finds it. One that was sent from
    the page before makes the browser drop what it shows, so this page is then drawn once more.
    """
    _NOW.drawing = _Drawing(_this_address(), st.empty())
    _hang(_NOW.drawing, None)


def _hang(
    drawing: _Drawing, seconds: float | None, paint: Callable[[], None] | None = None
) -> None:
    with drawing.place:
        st.fragment(_tick, run_every=seconds)(drawing, paint)


def on_the_clock(page: Callable[[], None]) -> Callable[[], None]:
    """A page whose clock is wound once all of it is drawn, if anything on it waits."""

    @functools.wraps(page)
    def drawn() -> None:
        with _NOW.turn.taken():
            _NOW.drawing = None
            page()
            _wind()

    return drawn


def _wind() -> None:
    drawing = _NOW.drawing
    if drawing is not None and drawing.paces:
        drawing.interval = drawing.wanted
        # a browser's timer may be early by a little
        drawing.due = time.monotonic() + 0.9 * drawing.interval
        _hang(drawing, drawing.interval)


def _draw_instead(address: _Address) -> None:
    """Draw this page, and not the one that the run is about."""
    context = get_script_run_ctx()
    pages = {} if context is None else context.pages_manager.get_pages()
    if address.page in pages:
        st.switch_page(pages[address.page]["script_path"], query_params=address.query)


def _tick(drawing: _Drawing, newest: Callable[[], None] | None) -> None:
    """What the clock does: of all parts at a tick, of the newest while the page is drawn."""
    st.html(_NOTHING)
    if not is_tick():
        if newest is not None:
            newest()
        return
    if _this_address().page != drawing.address.page:
        _draw_instead(drawing.address)
    if drawing.doubtful:
        # ticks that are on their way come and go meanwhile: one drawing is enough for all of them
        time.sleep(_TICK)
        redraw()
    if any(answer.done() for answer in drawing.pending):
        redraw()
    for paint in [*drawing.painters]:
        paint()
    _set_pace(drawing)


def _set_pace(drawing: _Drawing) -> None:
    """Tell the browser at a tick, if the clock should now go at another pace."""
    context, wanted = get_script_run_ctx(), drawing.wanted
    if context is None or wanted == drawing.interval:
        return
    drawing.interval = wanted
    for clock in context.fragment_ids_this_run or ():
        message = ForwardMsg()
        message.auto_rerun.fragment_id, message.auto_rerun.interval = clock, wanted
        context.enqueue(message)


def is_tick() -> bool:
    """Whether only a part of the page is drawn, as at a tick of the clock."""
    context = get_script_run_ctx()
    return context is not None and bool(context.fragment_ids_this_run)


def watch(pending: Sequence[Future[Any]]) -> None:
    """Redraw the page as soon as one of the answers is there."""
    drawing = _NOW.drawing
    if drawing is not None and pending:
        drawing.pending += pending
        drawing.paces.append(lambda: _TICK)


def repaint(paint: Callable[[], None], *, every: float | None = None) -> None:
    """Draw a part of the page now, and again at every tick of the clock.

    Parameters
    ----------
    paint : callable
        Draws into a place of its own (``st.empty``), and may call `redraw`.
    every : float, optional
        Seconds between two ticks; by default often, but less so while many wait for a turn.
    """
    drawing = _NOW.drawing
    if drawing is None:
        paint()
        return
    drawing.painters.append(paint)
    drawing.paces.append(lambda: _pace(HEAVY.waiting) if every is None else every)
    _hang(drawing, None, paint)


def beside(key: Hashable, work: Callable[[], T], saying: str) -> T | None:
    """The answer to a question if it is there within a moment, else None and a word on it.

    Parameters
    ----------
    key : hashable
        Names the question; everything the answer depends on is in it.
    work : callable
        Finds the answer, beside the page. It must not draw on the page.
    saying : str
        What to say meanwhile.
    """
    answer = BOARD.ask(key, work)
    patience([answer])
    if is_known(answer):
        return answer.result()
    st.info(saying, icon=":material/hourglass_top:")
    watch([answer])
    return None
