"""Work beside the pages: told of, stopped, answered once, newest first."""

from __future__ import annotations

import functools
import threading

import pytest

from privgmm.dashboard.shared.jobs import Board, Cancelled, Job, Progress, Ticket


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
