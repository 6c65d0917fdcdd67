"""Count what the room predicts: kept in this server's memory for two hours, and only as numbers.

Every session has one prediction for a question, its last one. No one's name is asked or kept.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable

__all__ = ["TALLY", "Tally"]

_KEPT = 7200.0
"""Seconds for which a prediction counts: one class, and not the one of the day before."""


class Tally:
    """Predictions of all sessions, by question.

    Parameters
    ----------
    clock : callable
        Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._said: dict[str, dict[Hashable, tuple[float, str]]] = {}

    def count(self, question: str, session: Hashable, words: str) -> None:
        """Count a session's prediction, instead of its earlier one."""
        with self._lock:
            self._said.setdefault(question, {})[session] = (self._clock(), words)

    def counts(self, question: str) -> Counter[str]:
        """Return how many predicted what; what is too old is forgotten, for all questions."""
        with self._lock:
            oldest = self._clock() - _KEPT
            for name, said in list(self._said.items()):
                kept = {who: one for who, one in said.items() if one[0] >= oldest}
                if kept:
                    self._said[name] = kept
                else:
                    del self._said[name]
            return Counter(words for _, words in self._said.get(question, {}).values())


TALLY = Tally()
"""The tally of this server."""
