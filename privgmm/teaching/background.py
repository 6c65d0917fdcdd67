"""Background work: jobs that report progress, and pools of worker threads with a cache of answers.

A page or widget must answer in a fraction of a second, so longer work is done in daemon threads:

- a `Job` belongs to one session, reports its progress and can be cancelled;
- a `JobCache` runs a job that several sessions ask for once, for all of them;
- a `WorkerPool` computes each answer once, the newest question first.

On the dashboard `fair_queue` limits how much heavy work runs at once, and `refresh` reruns pages
when answers arrive.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, wait
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

__all__ = [
    "POLL_SECONDS",
    "Cancelled",
    "Job",
    "JobCache",
    "JobControl",
    "JobProgress",
    "WorkerPool",
    "follow",
    "is_known",
    "still_open",
]

_T = TypeVar("_T")

POLL_SECONDS = 0.25
"""By convention: a waiting thread checks this often whether it was cancelled."""
_REST_SECONDS = 0.5
"""By convention: pools of higher priority count as busy for this long after their last task, since
a slider that moved is often moved again."""


def _fulfil(future: Future[_T], work: Callable[[], _T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as problem:  # noqa: BLE001 - not lost: raised where the result is read
        future.set_exception(problem)


def is_known(answer: Future[Any]) -> bool:
    """Whether there is a result or an error; a dropped question has to be asked again."""
    return answer.done() and not answer.cancelled()


def still_open(answers: Iterable[Future[Any]]) -> list[Future[Any]]:
    """List the answers that are still to come."""
    return [answer for answer in answers if not is_known(answer)]


# ------------------------------------------------------------------------------------------- jobs


class Cancelled(Exception):
    """Raised inside a job at its next step after it was cancelled."""


class JobProgress(NamedTuple):
    """How far a job is; `waits` while it is in a queue."""

    done: int
    total: int
    text: str
    waits: bool = False

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return min(1.0, self.done / max(self.total, 1))


class JobControl:
    """Handed to the work of a job: it reports progress and learns that it was cancelled."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._progress = JobProgress(0, 1, "")

    @property
    def progress(self) -> JobProgress:
        """The latest report."""
        return self._progress

    @property
    def stopped(self) -> bool:
        """Whether the job was cancelled."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Cancel the job at its next step."""
        self._stop.set()

    def step(self, done: int, total: int, text: str, waits: bool = False) -> None:
        """Report progress; raise `Cancelled` if the job was cancelled."""
        self.report(done, total, text, waits)
        if self.stopped:
            raise Cancelled

    def report(self, done: int, total: int, text: str, waits: bool = False) -> None:
        """Report progress of work that can no longer be cancelled."""
        self._progress = JobProgress(done, total, text, waits)


class Job(Generic[_T]):
    """One piece of work in a thread of its own.

    Parameters
    ----------
    work : callable(JobControl)
        Its value is the job's result; it should call `JobControl.step` often.
    """

    def __init__(self, work: Callable[[JobControl], _T]) -> None:
        self._control = JobControl()
        self.future: Future[_T] = Future()
        threading.Thread(
            target=_fulfil, args=(self.future, lambda: work(self._control)), daemon=True
        ).start()

    @property
    def progress(self) -> JobProgress:
        """The latest report."""
        return self._control.progress

    @property
    def finished(self) -> bool:
        """Whether there is a result or an error."""
        return self.future.done()

    @property
    def cancelling(self) -> bool:
        """Whether it was cancelled."""
        return self._control.stopped

    def cancel(self) -> None:
        """Cancel it at its next step."""
        self._control.stop()

    def problem(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end; return the error it ended with, if any."""
        return self.future.exception(timeout)

    def result(self, timeout: float | None = None) -> _T:
        """Wait for the end; return the result."""
        return self.future.result(timeout)


class JobCache:
    """Jobs by key: sessions that ask for the same work share one job.

    A shared job cannot be cancelled: a session that loses interest stops following it. A job that
    failed is run again when asked for again.

    Parameters
    ----------
    most : float
        How much is kept, in the units of `weight`.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._jobs: OrderedDict[Hashable, tuple[Job[Any], float]] = OrderedDict()
        self._lock = threading.Lock()

    def ask(self, key: Hashable, work: Callable[[JobControl], _T], weight: float) -> Job[_T]:
        """Return the job of this key, running or done; start `work` if there is none."""
        with self._lock:
            known = self._jobs.get(key)
            if known is not None and not (known[0].finished and known[0].problem() is not None):
                self._jobs.move_to_end(key)
                return known[0]
            job = Job(work)
            self._jobs[key] = job, weight
            self._evict()
            return job

    def _evict(self) -> None:
        """Drop the least recently asked for; never a running job."""
        total = sum(weight for _, weight in self._jobs.values())
        for key, (job, weight) in list(self._jobs.items())[:-1]:
            if total <= self._most:
                return
            if job.finished:
                del self._jobs[key]
                total -= weight


def follow(job: Job[_T], control: JobControl, *, stoppable: bool = True) -> _T:
    """Wait for a shared job and report its progress as one's own.

    Raises `Cancelled` if `control` is stopped meanwhile, unless it is not `stoppable`.
    """
    report = control.step if stoppable else control.report
    while not job.finished:
        report(*job.progress)
        wait([job.future], 0.1)
    return job.result()


# ------------------------------------------------------------------------------------------ pools


class _HasIdle(Protocol):
    """A pool or queue that other pools let go first."""

    @property
    def idle(self) -> bool: ...


@dataclasses.dataclass(eq=False)
class _Task:
    """One question: its answer, and where it waits (None once it is running)."""

    key: Hashable
    work: Callable[[], Any]
    after: Future[Any] | None
    pool: WorkerPool | None
    future: Future[Any] = dataclasses.field(default_factory=Future)

    @property
    def ready(self) -> bool:
        """Whether it may be started."""
        return self.after is None or self.after.done()


class _Cache(OrderedDict[Hashable, _Task]):
    """Questions by key, the most recent last, with the lock that guards them."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition()


class WorkerPool:
    """Worker threads that compute answers, the newest question first, and remember them.

    A slider that is dragged asks a question at every stop and only the last one matters, so it is
    served first and the oldest waiting ones are dropped (asking again revives them).

    Parameters
    ----------
    workers : int
        Threads.
    keep : int
        Answers that are remembered.
    waiting : int
        Questions that may wait.
    behind : sequence of WorkerPool or FairQueue
        Of higher priority: no question is started while any of them is busy.
    cache : WorkerPool, optional
        A pool to share answers with, so that no question is computed by both.
    """

    def __init__(
        self,
        workers: int = 1,
        keep: int = 512,
        waiting: int = 16,
        behind: Sequence[_HasIdle] = (),
        cache: WorkerPool | None = None,
    ) -> None:
        self._workers, self._keep, self._waiting = workers, keep, waiting
        self._behind = tuple(behind)
        self._cache: _Cache = _Cache() if cache is None else cache._cache
        self._stack: list[_Task] = []
        self._busy = 0
        self._rested = 0.0
        self._started = False

    def ask(
        self, key: Hashable, work: Callable[[], _T], after: Future[Any] | None = None
    ) -> Future[_T]:
        """Return the answer to the question `key`, pending or ready; `work` computes a new one.

        It is not started before the answer `after` is there.
        """
        with self._cache.changed:
            task = self._cache.get(key)
            if task is None:
                task = self._cache[key] = _Task(key, work, after, None)
                self._enqueue(task)
            elif task.pool is not None and self in task.pool._behind:
                # it waits where this pool goes first: take it over
                task.pool._stack.remove(task)
                self._enqueue(task)
            self._cache.move_to_end(key)
            self._evict()
            return task.future

    def settle(self, timeout: float = 120.0) -> None:
        """Wait until every question is answered."""
        with self._cache.changed:
            pending = [task.future for task in self._cache.values() if not task.future.done()]
        wait(pending, timeout)

    @property
    def n_known(self) -> int:
        """Number of questions that are remembered, answered or not."""
        return len(self._cache)

    @property
    def idle(self) -> bool:
        """Whether no question waits or is being answered."""
        return not (self._stack or self._busy)

    def _enqueue(self, task: _Task) -> None:
        task.pool = self
        self._stack.append(task)
        while len(self._stack) > self._waiting:
            dropped = self._stack.pop(0)
            dropped.future.cancel()
            del self._cache[dropped.key]
        if not self._started:
            self._started = True
            for _ in range(self._workers):
                threading.Thread(target=self._serve, daemon=True).start()
        self._cache.changed.notify_all()

    def _evict(self) -> None:
        old = [key for key, task in self._cache.items() if task.future.done()]
        for key in old[: max(0, len(self._cache) - self._keep)]:
            del self._cache[key]

    def _serve(self) -> None:
        while True:
            with self._cache.changed:
                self._cache.changed.wait_for(lambda: self._stack)
            task = self._next()
            if task is None:
                time.sleep(POLL_SECONDS / 5)
                continue
            _fulfil(task.future, task.work)
            with self._cache.changed:
                self._busy -= 1

    def _next(self) -> _Task | None:
        """Take the newest question that may be started, if there is one."""
        now = time.monotonic()
        if not all(first.idle for first in self._behind):
            self._rested = now + _REST_SECONDS
        if now < self._rested:
            return None
        with self._cache.changed:
            ready = [task for task in self._stack if task.ready]
            if not ready:
                return None
            self._stack.remove(ready[-1])
            self._busy += 1
            ready[-1].pool = None
            return ready[-1]
