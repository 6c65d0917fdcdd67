"""What a session remembers: which release is shown, for which settings, and how it ended.

A page reruns from top to bottom at every click, and must not draw noise again. A release happens
once, behind a button, and its frozen outcome is kept here under a key that belongs to no widget.
"""

from __future__ import annotations

import dataclasses

import streamlit as st

from privgmm.dashboard.shared.chosen_data import ChosenData
from privgmm.learners.registry import LEARNERS
from privgmm.methods.request import PlanRequest
from privgmm.methods.usefulness import USUAL_ALPHA
from privgmm.records.notebook import DEFAULT_LEARNER, Rows, Run
from privgmm.releases import Outcome

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
        What the plan is asked for, with the numbers of rows and columns of the data.
    seed : int or None
        None for cryptographic noise.
    learner : str
        A name in `privgmm.learners.registry.LEARNERS`. No plan depends on it.
    alpha : float
        The accuracy that a release is judged by.
    """

    data: str
    data_name: str
    request: PlanRequest
    seed: int | None
    learner: str = DEFAULT_LEARNER
    alpha: float = USUAL_ALPHA

    @property
    def most_components(self) -> int | None:
        """The largest k that the learner takes, if the request asks for more; else None.

        No blocks are fitted with the learner if the number of components is left open.
        """
        if self.request.choose_components:
            return None
        most = LEARNERS[self.learner].most_components
        return most if most is not None and self.request.n_components > most else None

    def changes_since(self, earlier: Settings) -> list[str]:
        """Name in words what differs from earlier settings; empty if nothing does."""
        changes = [f"data was {earlier.data_name}"] if self.data != earlier.data else []
        now = self._named()
        return changes + [
            f"{name} was {'auto' if before is None else before}"
            for name, before in earlier._named().items()
            if before != now[name]
        ]

    def _named(self) -> dict[str, object]:
        """Return what can be changed besides the data, by the name it has on the page."""
        asked = self.request
        return {
            "method": asked.method,
            "learner": self.learner,
            "ε": asked.epsilon,
            "δ": asked.delta,
            "α": self.alpha if asked.alpha is None else asked.alpha,
            "mask accuracy": asked.mask_accuracy,
            "components": asked.components_in_words,
            "blocks": asked.n_blocks,
            "noise seed": self.seed,
        }

    def run(self, rows: Rows) -> Run:
        """Return these settings as a run that can be written down as code."""
        return Run(rows, self.request, self.seed, self.learner)


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """A finished release together with what it was made from."""

    settings: Settings
    chosen: ChosenData
    outcome: Outcome

    @property
    def run(self) -> Run:
        """The run that repeats it."""
        return self.settings.run(self.chosen.rows)


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """How the last attempt ended, where there is more to say than its result.

    Parameters
    ----------
    text : str
    spent : bool
        Whether its budget is spent.
    trouble : bool
        Whether something failed, rather than was cancelled.
    """

    text: str
    spent: bool
    trouble: bool


def shown() -> Shown | None:
    """Return the release on display, if there is one."""
    value = st.session_state.get(_SHOWN)
    return value if isinstance(value, Shown) else None


def keep(value: Shown) -> None:
    """Put a release on display until the next one."""
    st.session_state[_SHOWN] = value


def noted() -> Note | None:
    """Return the last note, until the next attempt."""
    value = st.session_state.get(_NOTE)
    return value if isinstance(value, Note) else None


def note(value: Note | None) -> None:
    """Leave a note, or remove it."""
    st.session_state[_NOTE] = value
