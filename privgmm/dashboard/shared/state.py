"""What a session remembers: which release is shown, for which settings, and how it ended.

A page reruns from top to bottom at every click. Noise must not: a release happens behind a
button, once, and its frozen outcome is kept here under a key that belongs to no widget.
"""

from __future__ import annotations

import dataclasses

import streamlit as st

from privgmm.dashboard.shared.answers import Ask
from privgmm.data.datasets import Dataset
from privgmm.learners.registry import LEARNERS
from privgmm.methods.plan import Method
from privgmm.records.notebook import DEFAULT_LEARNER, Rows, Run
from privgmm.release import Outcome

__all__ = ["Note", "Settings", "Shown", "keep", "note", "noted", "shown"]

_SHOWN = "explore_shown"
_NOTE = "explore_note"

_NAMES = {
    "method": "method",
    "learner": "learner",
    "epsilon": "ε",
    "delta": "δ",
    "alpha": "α",
    "n_components": "components",
    "n_blocks": "blocks",
    "seed": "noise seed",
    "forgiving": "forgiving",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Everything that decides a release, apart from the noise.

    Parameters
    ----------
    data : str
        Fingerprint of the rows.
    data_name : str
    method : str
    epsilon, delta : float
    alpha : float or None
        None lets the planner choose accuracy, blocks and refinement.
    n_components : int
    n_blocks : int or None
        None lets the plan choose.
    seed : int or None
        None for cryptographic noise.
    learner : str
        A name in `privgmm.learners.registry.LEARNERS`. No plan depends on it.
    forgiving : bool
        Whether the planner, where it chooses, allows for real data.
    """

    data: str
    data_name: str
    method: Method
    epsilon: float
    delta: float
    alpha: float | None
    n_components: int
    n_blocks: int | None
    seed: int | None
    learner: str = DEFAULT_LEARNER
    forgiving: bool = False

    @property
    def most_components(self) -> int | None:
        """The largest k the learner takes, if there are too many now; None if all is well."""
        most = LEARNERS[self.learner].most_components
        return most if most is not None and self.n_components > most else None

    def changes_since(self, earlier: Settings) -> list[str]:
        """What differs from earlier settings, in words; empty if nothing does."""
        changes = []
        if self.data != earlier.data:
            changes.append(f"data was {earlier.data_name}")
        for field, name in _NAMES.items():
            before, now = getattr(earlier, field), getattr(self, field)
            if before != now:
                changes.append(f"{name} was {'auto' if before is None else before}")
        return changes

    def ask(self, dataset: Dataset) -> Ask:
        """The question of what these settings take on so many rows and columns."""
        return Ask(
            method=self.method,
            epsilon=self.epsilon,
            delta=self.delta,
            alpha=self.alpha,
            n_components=self.n_components,
            n_blocks=self.n_blocks,
            n_rows=dataset.n_rows,
            n_features=dataset.n_features,
            forgiving=self.forgiving,
        )

    def run(self, rows: Rows, n_blocks: int | None) -> Run:
        """The same as a run that can be written down, with the blocks that were used."""
        return Run(
            rows,
            self.method,
            self.epsilon,
            self.delta,
            self.n_components,
            self.alpha,
            None if self.alpha is None else n_blocks,
            self.seed,
            self.learner,
            self.forgiving,
        )


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
        return self.settings.run(self.rows, self.outcome.result.plan.n_blocks)


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
