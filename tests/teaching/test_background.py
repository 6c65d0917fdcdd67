"""Background work: reported, cancelled, computed once, the newest question first."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator

import pytest

from privgmm.teaching.background import (
    Cancelled,
    Job,
    JobCache,
    JobControl,
    JobProgress,
    WorkerPool,
    follow,
)
from tests.dashboard.test_fair_queue import Crowd
from tests.dashboard.waiting import LONG, until


def test_a_job_tells_its_progress_and_its_result() -> None:
    go = threading.Event()

    def work(control: JobControl) -> str:
        control.step(1, 4, "one of four")
        go.wait(LONG)
        return "done"

    job = Job(work)
    until(lambda: job.progress.done > 0)
    assert job.progress == JobProgress(1, 4, "one of four")
    assert job.progress.share == 0.25
    assert not job.finished
    go.set()
    assert job.result(LONG) == "done"
    assert job.problem() is None


def test_a_job_stops_at_its_next_step_and_not_while_it_only_reports() -> None:
    gate, told = threading.Event(), threading.Event()

    def work(control: JobControl) -> None:
        gate.wait(LONG)
        control.report(1, 2, "no way back")
        told.set()
        control.step(2, 2, "never said")

    job = Job(work)
    job.cancel()
    gate.set()
    assert isinstance(job.problem(LONG), Cancelled)
    assert told.is_set()
    assert job.cancelling


def test_the_share_of_nothing_is_nothing() -> None:
    assert JobProgress(0, 0, "").share == 0.0
    assert JobProgress(9, 3, "").share == 1.0


def test_a_pool_works_each_answer_out_once() -> None:
    pool = WorkerPool(workers=2)
    calls: list[int] = []

    def answer() -> int:
        calls.append(1)
        return 2

    first, second = pool.ask("two", answer), pool.ask("two", answer)
    assert first is second
    assert first.result(LONG) == 2
    assert calls == [1]


def test_a_pool_hands_on_errors() -> None:
    def fail() -> int:
        raise ValueError("no")

    pool = WorkerPool(workers=1)
    assert isinstance(pool.ask("fail", fail).exception(LONG), ValueError)
    assert pool.ask("next", lambda: 1).result(LONG) == 1


def test_the_newest_question_is_served_first_and_the_oldest_dropped() -> None:
    pool = WorkerPool(workers=1, waiting=3)
    order: list[int] = []
    gate, begun = threading.Event(), threading.Event()

    def busy() -> None:
        begun.set()
        gate.wait(LONG)

    pool.ask("busy", busy)
    assert begun.wait(LONG)
    futures = [pool.ask(n, functools.partial(order.append, n)) for n in range(5)]
    assert [future.cancelled() for future in futures] == [True, True, False, False, False]
    gate.set()
    pool.settle(LONG)
    assert order == [4, 3, 2]
    # asked again, a dropped question is answered after all
    pool.ask(0, functools.partial(order.append, 0)).result(LONG)
    assert order[-1] == 0


def test_a_pool_forgets_the_oldest_answers() -> None:
    pool = WorkerPool(workers=1, keep=2)
    for n in range(4):
        pool.ask(n, functools.partial(int, n)).result(LONG)
    assert pool.ask(0, functools.partial(int, 100)).result(LONG) == 100
    assert pool.ask(3, functools.partial(int, 100)).result(LONG) == 3


@pytest.mark.parametrize("stopped", [False, True])
def test_a_control_raises_only_when_asked_to_stop(stopped: bool) -> None:
    control = JobControl()
    if stopped:
        control.stop()
        with pytest.raises(Cancelled):
            control.step(1, 2, "x")
    else:
        control.step(1, 2, "x")
    assert control.progress == JobProgress(1, 2, "x")


# Priorities


def test_what_may_be_asked_next_waits_for_what_was_asked() -> None:
    crowd, first = Crowd(slots=1), WorkerPool(workers=1)
    pool = WorkerPool(workers=1, behind=(crowd.queue, first))
    assert pool.ask("before", lambda: 1).result(LONG) == 1
    crowd.join("a", "a")
    asked = pool.ask("meanwhile", lambda: 2)
    with pytest.raises(TimeoutError):
        asked.result(0.2)
    go = threading.Event()
    slow = first.ask("slow", lambda: go.wait(LONG))
    crowd.finish()
    with pytest.raises(TimeoutError):
        asked.result(0.2)
    assert not first.idle
    go.set()
    assert slow.result(LONG)
    assert asked.result(LONG) == 2
    assert first.idle


def test_pools_that_share_a_cache_compute_nothing_twice() -> None:
    """What waits with low priority is taken over once it is asked for with high priority."""
    screen, calls = WorkerPool(), []
    go = threading.Event()
    blocked = WorkerPool()
    ahead = WorkerPool(behind=(blocked,), cache=screen)
    held = blocked.ask("held", lambda: go.wait(LONG))
    first = ahead.ask("x", lambda: calls.append(1))
    with pytest.raises(TimeoutError):
        first.result(0.2)
    # only what goes first takes over
    assert screen.ask("x", lambda: calls.append(2)) is first
    with pytest.raises(TimeoutError):
        first.result(0.2)
    ranked = WorkerPool(behind=(screen,), cache=screen)
    waiting = ranked.ask("y", lambda: calls.append(3), after=held)
    assert screen.ask("y", lambda: calls.append(4)) is waiting
    assert ranked.idle
    go.set()
    first.result(LONG)
    waiting.result(LONG)
    assert sorted(calls) == [1, 3]
    assert ahead.ask("y", lambda: calls.append(5)) is waiting


# Work for all sessions


def test_work_of_all_is_done_once_and_followed_by_each() -> None:
    cache, calls, go = JobCache(most=10), [], threading.Event()

    def work(control: JobControl) -> int:
        calls.append(1)
        control.step(1, 4, "one of four")
        go.wait(LONG)
        return 7

    followers = [
        Job(lambda control: follow(cache.ask("seven", work, 1), control)) for _ in range(4)
    ]
    until(lambda: all(one.progress.text == "one of four" for one in followers))
    # one who stops following does not stop it for the others
    followers[0].cancel()
    assert isinstance(followers[0].problem(LONG), Cancelled)
    go.set()
    assert [follower.result(LONG) for follower in followers[1:]] == [7, 7, 7]
    assert calls == [1]


def test_failed_jobs_run_again_and_heavy_ones_are_evicted() -> None:
    cache = JobCache(most=2)
    results: Iterator[int | Exception] = iter([ValueError("no"), 1, 2])

    def work(_: JobControl) -> int:
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    assert isinstance(cache.ask("a", work, 1).problem(LONG), ValueError)
    assert cache.ask("a", work, 1).result(LONG) == 1
    assert cache.ask("a", work, 1).result(LONG) == 1
    # two more of weight one, and the oldest has to go
    cache.ask("b", lambda _: 0, 1).result(LONG)
    cache.ask("c", lambda _: 0, 1).result(LONG)
    assert cache.ask("a", work, 1).result(LONG) == 2
