"""Work beside the pages: jobs of one session, questions of all sessions, and how pages wait.

A page reruns in a fraction of a second or it feels broken, so what takes longer is done in threads
that end with the process. There are two kinds of such work, and one way to wait for both:

- a `Job` belongs to one session: it tells its progress and can be cancelled;
- a `Board` answers questions that any session may ask, each worked out once;
- a page draws what is known by now, and `watch` runs it again once there is more. `beside` does
  both for a part of a page that needs a single answer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, wait
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import streamlit as st

__all__ = [
    "BOARD",
    "GRACE",
    "Board",
    "Cancelled",
    "Job",
    "Progress",
    "Ticket",
    "beside",
    "is_known",
    "patience",
    "redraw",
    "still_open",
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
    """How far a job is."""

    done: int
    total: int
    text: str

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

    def step(self, done: int, total: int, text: str) -> None:
        """Tell the progress, and raise `Cancelled` if asked to stop."""
        self.tell(done, total, text)
        if self.stopped:
            raise Cancelled

    def tell(self, done: int, total: int, text: str) -> None:
        """Tell the progress of something that can no longer be stopped."""
        self._progress = Progress(done, total, text)


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


# -------------------------------------------------------------------- questions of any session


class _Task(NamedTuple):
    key: Hashable
    future: Future[Any]
    work: Callable[[], Any]


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
    """

    def __init__(self, workers: int = 2, keep: int = 512, waiting: int = 8) -> None:
        self._workers, self._keep, self._waiting = workers, keep, waiting
        self._answers: OrderedDict[Hashable, Future[Any]] = OrderedDict()
        self._stack: list[_Task] = []
        self._work_to_do = threading.Condition()
        self._started = False

    def ask(self, key: Hashable, work: Callable[[], T]) -> Future[T]:
        """The answer to the question `key`, under way or ready; `work` finds it if it is new."""
        with self._work_to_do:
            known = self._answers.get(key)
            if known is not None:
                self._answers.move_to_end(key)
                return known
            future: Future[T] = Future()
            self._answers[key] = future
            self._stack.append(_Task(key, future, work))
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
                while not self._stack:
                    self._work_to_do.wait()
                task = self._stack.pop()
            _fulfil(task.future, task.work)


# ------------------------------------------------------------------------- a page that waits

GRACE = 0.12
"""Seconds to wait for an answer that is nearly there, rather than flicker."""

BOARD = Board(workers=1, waiting=16)
"""For what is asked by `beside`."""

_NOTHING = "<span hidden></span>"


def patience(answers: Iterable[Future[Any]], seconds: float = GRACE) -> None:
    """Wait a moment for all of them."""
    wait(list(answers), seconds)


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


@st.fragment(run_every=0.5)
def watch(pending: Sequence[Future[Any]]) -> None:
    """Redraw the page as soon as one of the answers is there."""
    if any(answer.done() for answer in pending):
        redraw()
    st.html(_NOTHING)


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
