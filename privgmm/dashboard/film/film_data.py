"""Hold a finished release and its stages as they were run, for the film to show.

The stages are those of the plan, so a release of any method has its film. Nothing here draws noise
for a result.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import streamlit as st

from privgmm.data.datasets import Dataset, generate, random_mixture
from privgmm.figures.window import Window, window_of
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan, calibrate
from privgmm.mixture import Mixture
from privgmm.releases import Outcome, release
from privgmm.stages.stage import Bottom

__all__ = ["DEMONSTRATIONS", "FilmData", "StageRun", "code_of", "demonstration"]


@dataclasses.dataclass(frozen=True, eq=False)
class FilmData:
    """A finished release, and what can be shown of how it was made. CONFIDENTIAL."""

    dataset: Dataset
    outcome: Outcome

    @property
    def plan(self) -> Plan:
        """The plan that was followed."""
        return self.outcome.result.plan

    @property
    def runs(self) -> tuple[StageRun, ...]:
        """The stages that were run, in order; a refusal ends them."""
        drawn = self.outcome.curator.drawn
        public = [None, *(one.value for one in drawn)]
        return tuple(
            StageRun(self, stage, before, one.value, one.view)
            for stage, before, one in zip(self.plan.stages, public, drawn, strict=False)
        )

    @property
    def window(self) -> Window:
        """The part of the plane that all steps show."""
        return window_of(self.dataset.rows)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are drawn: the first two."""
        return tuple(self.dataset.columns[:2])


@dataclasses.dataclass(frozen=True, eq=False)
class StageRun:
    """One stage as it was run: what was public before and after it, and what it saw. CONFIDENTIAL.

    Parameters
    ----------
    film : FilmData
    stage : Stage
        Of any kind: the file of a kind knows its fields, and those of its view.
    before : object
        What was public before the stage; None for the first.
    after : object
        What is public after it; `Bottom` if it refused.
    view : StageView
        What the stage saw.
    """

    film: FilmData
    stage: Any
    before: Any
    after: Any
    view: Any

    @property
    def refused(self) -> bool:
        """Whether the stage ended the release."""
        return isinstance(self.after, Bottom)

    @property
    def ending(self) -> str:
        """Why the release ended with this stage, as words to append; empty if it did not."""
        if not self.refused:
            return ""
        return (
            f" {self.after.why(self.film.dataset.columns)} The answer is **⊥**, and the release "
            "ends here. Nothing is said about the mixture."
        )

    @property
    def last(self) -> bool:
        """Whether no stage of the plan follows."""
        return self.stage is self.film.plan.stages[-1]


def code_of(function: Callable[..., Any]) -> tuple[str, str]:
    """Return where a function is defined, and its source."""
    place = f"{function.__module__}.{function.__qualname__}"
    return place, inspect.cleandoc("\n" + inspect.getsource(function))


def _two_clouds() -> Dataset:
    truth = Mixture(
        [0.55, 0.45],
        [[-3.2, 0.8], [3.2, -0.8]],
        [[[1.6, 0.7], [0.7, 1.2]], [[1.0, -0.5], [-0.5, 1.8]]],
    )
    return generate(truth, 30_000, rng=2)


def _average() -> FilmData:
    """Film many blocks that agree: their mean is masked and then refined."""
    data = _two_clouds()
    plan = best_plan(
        data.n_rows, method="lifted", epsilon=1.0, delta=1e-6, n_components=2, n_features=2
    )
    return FilmData(data, release(data.rows, plan, rng=3))


def _pick() -> FilmData:
    """Film blocks that agree: one of them is picked and masked."""
    data = generate(random_mixture(1, 2, condition=4.0, rng=4), 300_000, rng=5)
    plan = calibrate(
        "tight", epsilon=8.0, delta=1e-4, alpha=1.0, n_components=1, n_features=2, n_blocks=100
    )
    return FilmData(data, release(data.rows, plan, rng=6))


def _sketch() -> FilmData:
    """Film two components that overlap, found in noisy waves of all rows."""
    truth = Mixture(
        [0.6, 0.4],
        [[-0.8, -0.4], [1.2, 1.0]],
        [[[1.6, 0.9], [0.9, 0.9]], [[0.6, -0.5], [-0.5, 1.3]]],
    )
    data = generate(truth, 30_000, rng=8)
    plan = best_plan(
        data.n_rows, method="sketch", epsilon=1.0, delta=1e-6, n_components=2, n_features=2
    )
    return FilmData(data, release(data.rows, plan, rng=9))


def _refusal() -> FilmData:
    """Film a refusal: the paper's constants ask for far more rows than there are."""
    data = _two_clouds()
    plan = calibrate("paper", epsilon=1.0, delta=1e-6, alpha=0.5, n_components=2, n_features=2)
    return FilmData(data, release(data.rows, plan, rng=7))


DEMONSTRATIONS: dict[str, Callable[[], FilmData]] = {
    "Averaging": _average,
    "Picking one": _pick,
    "A sketch": _sketch,
    "A refusal": _refusal,
}
"""What makes each demonstration, by its name on the page and in links."""


@st.cache_resource(show_spinner="Preparing the demonstration…")
def demonstration(name: str) -> FilmData:
    """Make a seeded demonstration on generated rows; once for all sessions."""
    return DEMONSTRATIONS[name]()
