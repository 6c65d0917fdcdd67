"""The fair queue: slots go round, positions are reported, and every slot is freed."""

from __future__ import annotations

import threading

import pytest

from privgmm.dashboard.shared.fair_queue import FairQueue
from privgmm.teaching.background import Cancelled, Job, JobControl
from tests.dashboard.waiting import LONG, until


class Crowd:
    """Sessions that wait in one queue; each slot is held until it is let go."""

    def __init__(self, slots: int) -> None:
        self.queue = FairQueue(slots)
        self.served: list[str] = []
        self.jobs: dict[str, Job[None]] = {}
        self._go = threading.Semaphore(0)

    def join(self, owner: str, name: str) -> None:
        """Ask for a slot, and wait until the position is reported or the slot taken."""

        def work(control: JobControl) -> None:
            with self.queue.slot(owner, control):
                self.served.append(name)
                control.report(1, 1, "working")
                self._go.acquire()

        job = Job(work)
        until(lambda: bool(job.progress.text))
        self.jobs[name] = job

    def place(self, name: str) -> str:
        return self.jobs[name].progress.text

    def let_go(self, slots: int) -> None:
        for _ in range(slots):
            self._go.release()

    def finish(self) -> None:
        self.let_go(len(self.jobs))
        for job in self.jobs.values():
            job.problem(LONG)


def test_every_session_has_a_slot_before_any_has_a_second() -> None:
    crowd = Crowd(slots=1)
    for owner, name in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1")]:
        crowd.join(owner, name)
    crowd.join("b", "b2")
    crowd.finish()
    assert crowd.served == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_the_position_in_the_queue_is_reported() -> None:
    crowd = Crowd(slots=1)
    for owner in ("a", "b", "c", "d"):
        crowd.join(owner, owner)
    assert crowd.place("a") == "working"
    assert crowd.place("b") == "Waiting for others: you are next."
    assert crowd.place("d") == "Waiting for others: you are 3rd in line."
    crowd.let_go(1)
    crowd.jobs["a"].result(LONG)
    until(lambda: crowd.place("d") == "Waiting for others: you are 2nd in line.")
    crowd.finish()
    assert crowd.served == ["a", "b", "c", "d"]


def test_no_more_work_at_once_than_there_are_slots() -> None:
    crowd = Crowd(slots=2)
    for owner in ("a", "b", "c"):
        crowd.join(owner, owner)
    assert sorted(crowd.served) == ["a", "b"]
    assert crowd.place("c") == "Waiting for others: you are next."
    crowd.finish()
    assert crowd.served[-1] == "c"


def test_a_cancelled_job_leaves_the_queue() -> None:
    crowd = Crowd(slots=1)
    for owner in ("a", "b", "c"):
        crowd.join(owner, owner)
    crowd.jobs["b"].cancel()
    assert isinstance(crowd.jobs["b"].problem(LONG), Cancelled)
    crowd.finish()
    assert crowd.served == ["a", "c"]


def test_a_slot_whose_work_fails_is_freed() -> None:
    queue, control = FairQueue(1), JobControl()
    with pytest.raises(ValueError, match="no"), queue.slot("a", control):
        raise ValueError("no")
    with queue.slot("b", control):
        pass


def test_a_queue_is_idle_when_no_one_works_or_waits() -> None:
    crowd = Crowd(slots=1)
    idle = [crowd.queue.idle]
    for owner in ("a", "b"):
        crowd.join(owner, owner)
    idle.append(crowd.queue.idle)
    crowd.let_go(1)
    crowd.jobs["a"].result(LONG)
    idle.append(crowd.queue.idle)
    crowd.finish()
    assert [*idle, crowd.queue.idle] == [True, False, False, True]
