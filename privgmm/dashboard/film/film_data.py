"""What the film shows: one release taken apart, step by step, with the code that ran.

A reel is made from a finished outcome; everything in it is computed once. Nothing here draws
noise for a result: the other draws shown beside the mask come from fixed seeds.
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
from privgmm.learners.em import EM
from privgmm.learners.registry import make_learner
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan, calibrate
from privgmm.mixture import Mixture
from privgmm.privacy.noise import noise_source
from privgmm.records.notebook import DEFAULT_LEARNER
from privgmm.release import Outcome, Release, release
from privgmm.stages.agreement.algorithm_1 import settled_distances
from privgmm.stages.agreement.blocks import deal
from privgmm.stages.agreement.lifted_space import LiftedSpace
from privgmm.stages.agreement.votes import AgreementTest, friend_counts, h_index
from privgmm.stages.refinement.noisy_moments import refine

__all__ = ["DEMONSTRATIONS", "Reel", "code_of", "demonstration"]

_OTHER_DRAWS = 40


@dataclasses.dataclass(frozen=True, eq=False)
class Reel:
    """A finished release and what can be shown of its making. NOT private.

    Parameters
    ----------
    dataset : Dataset
    outcome : Outcome
    made_up : bool
        True for a demonstration: rows and noise from fixed seeds.
    learner : str
        What fitted the blocks, a name in `privgmm.learners.registry.LEARNERS`.
    """

    dataset: Dataset
    outcome: Outcome
    made_up: bool
    learner: str = DEFAULT_LEARNER

    @property
    def plan(self) -> Plan:
        """The plan that was followed."""
        return self.outcome.result.plan

    @property
    def steps(self) -> tuple[str, ...]:
        """Names of the steps there are to show: a refusal ends with the test."""
        names = ("Blocks", "Fits", "Distances", "Votes", "Noisy test")
        if not isinstance(self.outcome.result, Release):
            return names
        pick = "Mean" if isinstance(self.plan.space, LiftedSpace) else "Pick"
        return (*names, pick, "Mask", *(["Refinement"] if self.plan.refine is not None else []))

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

    @property
    def coarse(self) -> Mixture:
        """What came out of the mask."""
        coarse = self.outcome.curator.coarse
        return self.representative if coarse is None else coarse

    @property
    def released(self) -> Mixture | None:
        """The private mixture, if there is one."""
        result = self.outcome.result
        return result.mixture if isinstance(result, Release) else None

    @functools.cached_property
    def code(self) -> tuple[tuple[Callable[..., Any], ...], ...]:
        """For each step the functions that did it, in the order they ran."""
        space, test = type(self.plan.space), type(self.plan.test)
        votes: tuple[Callable[..., Any], ...] = (friend_counts,)
        if isinstance(self.plan.test, AgreementTest):
            votes = (friend_counts, h_index)
        functions: tuple[tuple[Callable[..., Any], ...], ...] = (
            (deal,),
            (_fitting(self.learner, self.plan.n_components),),
            (settled_distances, space.distances),
            votes,
            (test.examine,),
            (space.representative,),
            (space.mask,),
            (refine,),
        )
        return functions[: len(self.steps)]


def _fitting(name: str, n_components: int) -> Callable[..., Any]:
    """What fits the blocks."""
    learner = make_learner(name, n_components)
    if isinstance(learner, EM):
        return EM.fit_blocks_with_reasons
    fitting: Callable[..., Any] = type(learner).fit_blocks
    return fitting


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


def _lifted() -> Reel:
    data = _two_clouds()
    plan = best_plan(data.n_rows, epsilon=1.0, delta=1e-6, n_components=2, n_features=2)
    return Reel(data, release(data.rows, plan, rng=3), made_up=True)


def _picked() -> Reel:
    data = generate(random_mixture(1, 2, condition=4.0, rng=4), 300_000, rng=5)
    plan = calibrate(
        "tight", epsilon=8.0, delta=1e-4, alpha=1.0, n_components=1, n_features=2, n_blocks=100
    )
    return Reel(data, release(data.rows, plan, rng=6), made_up=True)


def _refused() -> Reel:
    data = _two_clouds()
    plan = calibrate("paper", epsilon=1.0, delta=1e-6, alpha=0.5, n_components=2, n_features=2)
    return Reel(data, release(data.rows, plan, rng=7), made_up=True)


DEMONSTRATIONS: dict[str, Callable[[], Reel]] = {
    "average": _lifted,
    "pick": _picked,
    "refusal": _refused,
}


@st.cache_resource(show_spinner="Making the film…")
def demonstration(name: str) -> Reel:
    """A seeded demonstration on made-up rows, made once."""
    return DEMONSTRATIONS[name]()
