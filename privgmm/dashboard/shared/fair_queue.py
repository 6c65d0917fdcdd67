"""A fair queue for heavy work: a few slots, shared evenly by all sessions."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import os
import threading
from collections.abc import Hashable, Iterator

import streamlit as st

from privgmm.ledger.cautions import ordinal
from privgmm.teaching.background import POLL_SECONDS, JobControl

__all__ = ["RELEASES", "FairQueue", "this_session"]


@dataclasses.dataclass(frozen=True, order=True)
class _Position:
    """A position in the queue: by rounds, and within a round in the order of arrival."""

    round: int
    number: int


class FairQueue:
    """Slots for heavy work; every session's next slot comes before any session's second.

    Parameters
    ----------
    slots : int
        How many work at once.

    Notes
    -----
    Fair queueing by rounds. A newcomer gets the round that is being served, or the one after the
    last of the same owner, the later of the two. So an owner who asks for a hundred slots waits
    after each for all other waiting owners, and no one is overtaken more than once.
    """

    def __init__(self, slots: int) -> None:
        self._slots = self._free = slots
        self._round, self._arrived = 0, 0
        self._waiting: list[_Position] = []
        self._last: dict[Hashable, int] = {}
        self._changed = threading.Condition()

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether all slots are free and no one waits."""
        return self._free == self._slots and not self._waiting

    @contextlib.contextmanager
    def slot(self, owner: Hashable, control: JobControl) -> Iterator[None]:
        """Wait for a slot, reporting the position in the queue, and free it at the end.

        Raises `Cancelled`, and leaves the queue, if `control` is stopped before.
        """
        with self._changed:
            position = self._join(owner)
            try:
                while not (self._free and self._waiting[0] == position):
                    ahead = self._waiting.index(position)
                    control.step(0, 1, _in_words(ahead + 1), waits=True)
                    self._changed.wait(POLL_SECONDS)
            except BaseException:
                self._leave(position)
                raise
            self._free -= 1
            self._round = position.round
            self._leave(position)
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._changed.notify_all()

    def _join(self, owner: Hashable) -> _Position:
        position = _Position(max(self._round, self._last.get(owner, -1) + 1), self._arrived)
        self._arrived += 1
        # owners whose rounds are over need not be remembered
        self._last = {one: last for one, last in self._last.items() if last >= self._round}
        self._last[owner] = position.round
        bisect.insort(self._waiting, position)
        return position

    def _leave(self, position: _Position) -> None:
        self._waiting.remove(position)
        self._changed.notify_all()


def _in_words(position: int) -> str:
    """Say how long the queue is.

    >>> _in_words(1), _in_words(3)
    ('Waiting for others: you are next.', 'Waiting for others: you are 3rd in line.')
    """
    if position == 1:
        return "Waiting for others: you are next."
    return f"Waiting for others: you are {ordinal(position)} in line."


RELEASES = FairQueue(min(4, os.cpu_count() or 1))
"""For releases of all sessions: one slot per processor, at most four."""

_SESSION = "fair_queue_owner"


def this_session() -> Hashable:
    """Return what identifies the current session as an owner of slots."""
    owner: Hashable = st.session_state.setdefault(_SESSION, object())
    return owner
