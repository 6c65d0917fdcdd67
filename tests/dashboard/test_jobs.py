"""Work beside the pages: told of, stopped, answered once, newest first."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator

import pytest

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
