"""What a session remembers: which release is shown, for which settings, and how it ended.

A page reruns from top to bottom at every click. Noise must not: a release happens behind a
button, once, and its frozen outcome is kept here under a key that belongs to no widget.
"""

from __future__ import annotations

import dataclasses

import streamlit as st

from privgmm.data.datasets import Dataset
from privgmm.learners.registry import LEARNERS
from privgmm.methods.request import PlanRequest
from privgmm.records.notebook import DEFAULT_LEARNER, Rows, Run
from privgmm.release import Outcome

__all__ = ["Note", "Settings", "Shown", "keep", "note", "noted", "shown"]

_SHOWN = "explore_shown"
_NOTE = "explore_note"


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Everything that decides a release, apart from the noise.

    Parameters
    ----------
    data : str
        Fingerprint of the rows.
    data_name : str
    request : PlanRequest
        What the plan is asked for, for as many rows and columns as the data have.
    seed : int or None
        None for cryptographic noise.
    learner : str
        A name in `privgmm.learners.registry.LEARNERS`. No plan depends on it.
    """

    data: str
    data_name: str
    request: PlanRequest
    seed: int | None
    learner: str = DEFAULT_LEARNER

    @property
    def most_components(self) -> int | None:
        """The largest k the learner takes, if there are too many now; None if all is well.

        Where the number of components is left open no blocks are fitted with it.
        """
        if self.request.choose_components:
            return None
        most = LEARNERS[self.learner].most_components
        return most if most is not None and self.request.n_components > most else None

    def changes_since(self, earlier: Settings) -> list[str]:
        """What differs from earlier settings, in words; empty if nothing does."""
        changes = [f"data was {earlier.data_name}"] if self.data != earlier.data else []
        now = self._named()
        return changes + [
            f"{name} was {'auto' if before is None else before}"
            for name, before in earlier._named().items()
            if before != now[name]
        ]

    def _named(self) -> dict[str, object]:
        """What can be changed beside the data, by the name it has on the page."""
        asked = self.request
        return {
            "method": asked.method,
            "learner": self.learner,
            "ε": asked.epsilon,
            "δ": asked.delta,
            "α": asked.alpha,
            "components": asked.components_in_words,
            "blocks": asked.n_blocks,
            "noise seed": self.seed,
            "forgiving": asked.forgiving,
        }

    def run(self, rows: Rows) -> Run:
        """The same as a run that can be written down."""
        return Run(rows, self.request, self.seed, self.learner)


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """A finished release together with what it was made from."""

    settings: Settings
    dataset: Dataset
    rows: Rows
    outcome: Outcome

    @property
    def run(self) -> Run:
        """How to make it again."""
        return self.settings.run(self.rows)


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """How the last attempt ended, where there is more to say than its result.

    Parameters
    ----------
    text : str
    spent : bool
        Whether its budget is gone.
    trouble : bool
        Whether something failed, as opposed to being stopped.
    """

    text: str
    spent: bool
    trouble: bool


def shown() -> Shown | None:
    """The release on display, if there is one."""
    value = st.session_state.get(_SHOWN)
    return value if isinstance(value, Shown) else None


def keep(value: Shown) -> None:
    """Put a release on display until the next one."""
    st.session_state[_SHOWN] = value


def noted() -> Note | None:
    """The last note, until the next attempt."""
    value = st.session_state.get(_NOTE)
    return value if isinstance(value, Note) else None


def note(value: Note | None) -> None:
    """Leave a note, or take it away."""
    st.session_state[_NOTE] = value
