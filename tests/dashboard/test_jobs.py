"""Work beside the pages: told of, stopped, answered once, newest first."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from privgmm.dashboard.shared import jobs
from privgmm.dashboard.shared.jobs import (
    Board,
    Cancelled,
    Job,
    Line,
    Once,
    Progress,
    Ticket,
    follow,
)


def test_a_job_tells_its_progress_and_its_result() -> None:
    go = threading.Event()

    def work(ticket: Ticket) -> str:
        ticket.step(1, 4, "one of four")
        go.wait(10)
        return "done"

    job = Job(work)
    while job.progress.done == 0:
        pass
    assert job.progress == Progress(1, 4, "one of four")
    assert job.progress.share == 0.25
    assert not job.finished
    go.set()
    assert job.result(10) == "done"
    assert job.problem() is None


def test_a_job_stops_at_its_next_step_and_not_while_it_only_tells() -> None:
    gate, told = threading.Event(), threading.Event()

    def work(ticket: Ticket) -> None:
        gate.wait(10)
        ticket.tell(1, 2, "no way back")
        told.set()
        ticket.step(2, 2, "never said")

    job = Job(work)
    job.cancel()
    gate.set()
    assert isinstance(job.problem(10), Cancelled)
    assert told.is_set()
    assert job.cancelling


def test_the_share_of_nothing_is_nothing() -> None:
    assert Progress(0, 0, "").share == 0.0
    assert Progress(9, 3, "").share == 1.0


def test_a_board_works_each_answer_out_once() -> None:
    board = Board(workers=2)
    calls: list[int] = []

    def answer() -> int:
        calls.append(1)
        return 2

    first, second = board.ask("two", answer), board.ask("two", answer)
    assert first is second
    assert first.result(10) == 2
    assert calls == [1]


def test_a_board_hands_on_errors() -> None:
    def fail() -> int:
        raise ValueError("no")

    board = Board(workers=1)
    assert isinstance(board.ask("fail", fail).exception(10), ValueError)
    assert board.ask("next", lambda: 1).result(10) == 1


def test_the_newest_question_is_served_first_and_the_oldest_dropped() -> None:
    board = Board(workers=1, waiting=3)
    order: list[int] = []
    gate, begun = threading.Event(), threading.Event()

    def busy() -> None:
        begun.set()
        gate.wait(10)

    board.ask("busy", busy)
    assert begun.wait(10)
    futures = [board.ask(n, functools.partial(order.append, n)) for n in range(5)]
    assert [future.cancelled() for future in futures] == [True, True, False, False, False]
    gate.set()
    board.settle(10)
    assert order == [4, 3, 2]
    # asked again, a dropped question is answered after all
    board.ask(0, functools.partial(order.append, 0)).result(10)
    assert order[-1] == 0


def test_a_board_forgets_the_oldest_answers() -> None:
    board = Board(workers=1, keep=2)
    for n in range(4):
        board.ask(n, functools.partial(int, n)).result(10)
    assert board.ask(0, functools.partial(int, 100)).result(10) == 100
    assert board.ask(3, functools.partial(int, 100)).result(10) == 3


@pytest.mark.parametrize("stopped", [False, True])
def test_a_ticket_raises_only_when_asked_to_stop(stopped: bool) -> None:
    ticket = Ticket()
    if stopped:
        ticket.stop()
        with pytest.raises(Cancelled):
            ticket.step(1, 2, "x")
    else:
        ticket.step(1, 2, "x")
    assert ticket.progress == Progress(1, 2, "x")


# Turns between sessions


class Crowd:
    """Sessions that wait in one line; each turn is held until it is let go."""

    def __init__(self, places: int) -> None:
        self.line = Line(places)
        self.served: list[str] = []
        self.jobs: dict[str, Job[None]] = {}
        self._go = threading.Semaphore(0)

    def join(self, owner: str, name: str) -> None:
        """Ask for a turn, and wait until the place in the line is told or the turn begun."""

        def work(ticket: Ticket) -> None:
            with self.line.turn(owner, ticket):
                self.served.append(name)
                ticket.tell(1, 1, "working")
                self._go.acquire()

        job = Job(work)
        while not job.progress.text:
            pass
        self.jobs[name] = job

    def place(self, name: str) -> str:
        return self.jobs[name].progress.text

    def let_go(self, turns: int) -> None:
        for _ in range(turns):
            self._go.release()

    def finish(self) -> None:
        self.let_go(len(self.jobs))
        for job in self.jobs.values():
            job.problem(10)


def test_every_session_has_a_turn_before_anybody_has_a_second() -> None:
    crowd = Crowd(places=1)
    for owner, name in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1")]:
        crowd.join(owner, name)
    crowd.join("b", "b2")
    crowd.finish()
    assert crowd.served == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_whoever_waits_is_told_the_place() -> None:
    crowd = Crowd(places=1)
    for owner in ("a", "b", "c", "d"):
        crowd.join(owner, owner)
    assert crowd.place("a") == "working"
    assert crowd.place("b") == "Waiting for others: you are next."
    assert crowd.place("d") == "Waiting for others: you are 3rd in line."
    crowd.let_go(1)
    crowd.jobs["a"].result(10)
    while crowd.place("d") != "Waiting for others: you are 2nd in line.":
        pass
    crowd.finish()
    assert crowd.served == ["a", "b", "c", "d"]


def test_no_more_than_there_are_places_work_at_once() -> None:
    crowd = Crowd(places=2)
    for owner in ("a", "b", "c"):
        crowd.join(owner, owner)
    assert sorted(crowd.served) == ["a", "b"]
    assert crowd.place("c") == "Waiting for others: you are next."
    crowd.finish()
    assert crowd.served[-1] == "c"


def test_whoever_stops_leaves_the_line() -> None:
    crowd = Crowd(places=1)
    for owner in ("a", "b", "c"):
        crowd.join(owner, owner)
    crowd.jobs["b"].cancel()
    assert isinstance(crowd.jobs["b"].problem(10), Cancelled)
    crowd.finish()
    assert crowd.served == ["a", "c"]


def test_a_turn_that_fails_is_given_back() -> None:
    line, ticket = Line(1), Ticket()
    with pytest.raises(ValueError, match="no"), line.turn("a", ticket):
        raise ValueError("no")
    with line.turn("b", ticket):
        pass


def test_a_line_is_idle_when_nobody_works_or_waits() -> None:
    crowd = Crowd(places=1)
    idle = [crowd.line.idle]
    for owner in ("a", "b"):
        crowd.join(owner, owner)
    idle.append(crowd.line.idle)
    crowd.let_go(1)
    crowd.jobs["a"].result(10)
    idle.append(crowd.line.idle)
    crowd.finish()
    assert [*idle, crowd.line.idle] == [True, False, False, True]


def test_what_may_be_asked_next_waits_for_what_was_asked() -> None:
    crowd, first = Crowd(places=1), Board(workers=1)
    board = Board(workers=1, after=(crowd.line, first))
    assert board.ask("before", lambda: 1).result(10) == 1
    crowd.join("a", "a")
    asked = board.ask("meanwhile", lambda: 2)
    with pytest.raises(TimeoutError):
        asked.result(0.2)
    go = threading.Event()
    slow = first.ask("slow", lambda: go.wait(10))
    crowd.finish()
    with pytest.raises(TimeoutError):
        asked.result(0.2)
    assert not first.idle
    go.set()
    assert slow.result(10)
    assert asked.result(10) == 2
    assert first.idle


# Work for all sessions


def test_work_of_all_is_done_once_and_followed_by_each() -> None:
    once, calls, go = Once(most=10), [], threading.Event()

    def work(ticket: Ticket) -> int:
        calls.append(1)
        ticket.step(1, 4, "one of four")
        go.wait(10)
        return 7

    followers = [Job(lambda ticket: follow(once.ask("seven", work, 1), ticket)) for _ in range(4)]
    for follower in followers:
        while follower.progress.text != "one of four":
            pass
    # one who stops following does not stop it for the others
    followers[0].cancel()
    assert isinstance(followers[0].problem(10), Cancelled)
    go.set()
    assert [follower.result(10) for follower in followers[1:]] == [7, 7, 7]
    assert calls == [1]


def test_what_failed_is_done_anew_and_what_is_heavy_forgotten() -> None:
    once = Once(most=2)
    results: Iterator[int | Exception] = iter([ValueError("no"), 1, 2])

    def work(_: Ticket) -> int:
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    assert isinstance(once.ask("a", work, 1).problem(10), ValueError)
    assert once.ask("a", work, 1).result(10) == 1
    assert once.ask("a", work, 1).result(10) == 1
    # two more of weight one, and the oldest has to go
    once.ask("b", lambda _: 0, 1).result(10)
    once.ask("c", lambda _: 0, 1).result(10)
    assert once.ask("a", work, 1).result(10) == 2


# Pages that are drawn side by side


class Drawers:
    """Threads that draw a page each, as `on_the_clock` lets them."""

    def __init__(self) -> None:
        self.at_once, self.most = 0, 0
        self._lock = threading.Lock()

    def work(self) -> None:
        """Draw for a moment."""
        with self._lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        time.sleep(0.02)
        with self._lock:
            self.at_once -= 1

    def draw(self, page: Callable[[], None], threads: int = 4) -> None:
        """Let so many threads draw."""
        drawn = jobs.on_the_clock(page)
        crowd = [threading.Thread(target=drawn) for _ in range(threads)]
        for one in crowd:
            one.start()
        for one in crowd:
            one.join(10)


def test_pages_are_drawn_one_after_the_other() -> None:
    drawers = Drawers()
    drawers.draw(drawers.work)
    assert drawers.most == 1


def test_a_page_that_fails_gives_the_pen_back() -> None:
    def fails() -> None:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            jobs.on_the_clock(fails)()
    drawers = Drawers()
    drawers.draw(drawers.work)
    assert drawers.most == 1


def test_whoever_waits_for_an_answer_lets_others_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_POLITE", 30.0)
    drawers, answer = Drawers(), Future[None]()
    came, answered = [], []

    def page() -> None:
        came.append(1)
        if len(came) == 4:
            # only if the others have given up their turns while they wait
            answer.set_result(None)
        jobs.patience([answer], 5)
        answered.append(answer.done())
        drawers.work()

    drawers.draw(page)
    assert answered == [True] * 4
    assert drawers.most == 1


def test_nobody_waits_long_for_a_page_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_POLITE", 0.05)
    slow, drawn = threading.Event(), threading.Event()

    def takes_long() -> None:
        slow.wait(10)

    first = threading.Thread(target=jobs.on_the_clock(takes_long))
    first.start()
    second = threading.Thread(target=jobs.on_the_clock(drawn.set))
    second.start()
    assert drawn.wait(10), "drawn although the first still has the pen"
    slow.set()
    first.join(10)
    second.join(10)
    drawers = Drawers()
    drawers.draw(drawers.work, threads=2)
    assert drawers.most == 1, "and the pen is there for the next"
