"""What the film shows: one finished release, divided into steps.

The steps are those that the stages of the plan name, so a plan of any method has its film. All
that is computed here is computed once. Nothing here draws noise for a result: the other draws
shown beside the mask come from fixed seeds.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import streamlit as st

from privgmm.audit.guessing import Silence
from privgmm.data.datasets import Dataset, generate, random_mixture
from privgmm.figures.film import BLOCK_LOOKS, Window, window_of
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan, calibrate
from privgmm.mixture import Mixture
from privgmm.privacy.noise import noise_source
from privgmm.records.notebook import DEFAULT_LEARNER
from privgmm.release import Outcome, release
from privgmm.stages.stage import Bottom, Scene, Stage

__all__ = ["DEMONSTRATIONS", "FilmData", "Step", "code_of", "demonstration"]

_OTHER_DRAWS = 40


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """One step of the film: a scene of a stage, and what the stage gave. NOT private.

    Parameters
    ----------
    scene : Scene
        Its key and its name.
    stage : Stage
    before : object
        What was public before the stage; None for the first stage.
    after : object
        What is public after it; `Bottom` if it refused.
    seen : object
        What the stage saw on the way.
    last : bool
        Whether no stage of the plan follows.
    """

    scene: Scene
    stage: Stage
    before: Any
    after: Any
    seen: Any
    last: bool


@dataclasses.dataclass(frozen=True, eq=False)
class FilmData:
    """A finished release and what can be shown of its making. NOT private.

    Parameters
    ----------
    dataset : Dataset
    outcome : Outcome
    learner : str
        What fitted the blocks, a name in `privgmm.learners.registry.LEARNERS`.
    """

    dataset: Dataset
    outcome: Outcome
    learner: str = DEFAULT_LEARNER

    @property
    def plan(self) -> Plan:
        """The plan that was followed."""
        return self.outcome.result.plan

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """The scenes of every stage that was run, in order; a refusal ends them."""
        steps: list[Step] = []
        before = None
        for stage, drawn in zip(self.plan.stages, self.outcome.curator.drawn, strict=False):
            after = drawn.value
            last = stage is self.plan.stages[-1]
            steps += [
                Step(scene, stage, before, after, drawn.seen, last)
                for scene in stage.scenes(passed=not isinstance(after, Bottom))
            ]
            before = after
        return tuple(steps)

    @functools.cached_property
    def window(self) -> Window:
        """The part of the plane that all steps show."""
        return window_of(self.dataset.rows)

    @functools.cached_property
    def followed(self) -> tuple[int, ...]:
        """A few blocks to follow: evenly spread from most to fewest friends."""
        order = np.argsort(-self.outcome.curator.votes, kind="stable")
        few = min(len(BLOCK_LOOKS), order.size)
        return tuple(int(order[i]) for i in np.linspace(0, order.size - 1, few).astype(int))

    @functools.cached_property
    def masked(self) -> Any:
        """What was handed to the mask, computed again from the fits: it takes no randomness."""
        curator = self.outcome.curator
        return self.plan.space.representative(
            curator.fits, curator.verdict.weights, curator.verdict.reference
        )

    @functools.cached_property
    def representative(self) -> Mixture:
        """The same as a mixture: masked without noise."""
        return self.plan.space.mask(self.masked, rng=Silence())

    @functools.cached_property
    def other_draws(self) -> tuple[Mixture, ...]:
        """What other noise would have given, from fixed seeds."""
        return tuple(
            self.plan.space.mask(self.masked, rng=noise_source(seed))
            for seed in range(_OTHER_DRAWS)
        )


def code_of(function: Callable[..., Any]) -> tuple[str, str]:
    """Where a function is defined, and its source."""
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
    """Many blocks agree, their mean is masked and then refined."""
    data = _two_clouds()
    plan = best_plan(
        data.n_rows, method="lifted", epsilon=1.0, delta=1e-6, n_components=2, n_features=2
    )
    return FilmData(data, release(data.rows, plan, rng=3))


def _pick() -> FilmData:
    """One of the blocks that agree is picked and masked."""
    data = generate(random_mixture(1, 2, condition=4.0, rng=4), 300_000, rng=5)
    plan = calibrate(
        "tight", epsilon=8.0, delta=1e-4, alpha=1.0, n_components=1, n_features=2, n_blocks=100
    )
    return FilmData(data, release(data.rows, plan, rng=6))


def _sketch() -> FilmData:
    """Two components that overlap, found in noisy waves of all rows."""
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
    """The paper's constants ask for far more rows than there are: ⊥."""
    data = _two_clouds()
    plan = calibrate("paper", epsilon=1.0, delta=1e-6, alpha=0.5, n_components=2, n_features=2)
    return FilmData(data, release(data.rows, plan, rng=7))


DEMONSTRATIONS: dict[str, Callable[[], FilmData]] = {
    "average": _average,
    "pick": _pick,
    "sketch": _sketch,
    "refusal": _refusal,
}


@st.cache_resource(show_spinner="Making the film…")
def demonstration(name: str) -> FilmData:
    """A seeded demonstration on made-up rows, made once."""
    return DEMONSTRATIONS[name]()
