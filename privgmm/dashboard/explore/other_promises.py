"""Rehearsals with other promises, below the picture, filled in as they are known."""

from __future__ import annotations

import functools
from concurrent.futures import Future
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from privgmm.dashboard.explore.rehearsal import (
    CLOUD_SEEDS,
    CURVE_EPSILONS,
    PROMISES,
    Rehearsal,
    RehearsalSetup,
    neighbours,
    prefetched,
)
from privgmm.dashboard.shared.answers import EPSILON_STOPS
from privgmm.dashboard.shared.background import is_known, still_open
from privgmm.dashboard.shared.chosen_data import load_demo
from privgmm.data.datasets import Dataset
from privgmm.figures.promises import TriedEpsilon, error_curve, promises_figure

__all__ = ["noise_cloud", "rehearse_stops", "show_other_promises"]

_FIRST_FEW = 3
"""Rehearsals of the cloud that are shown before all are known, by convention."""


def noise_cloud(setup: RehearsalSetup) -> tuple[list[Rehearsal], list[Future[Any]]]:
    """Return rehearsals with other noise that are known, and those worth waiting for."""
    answers = prefetched(setup.seeded(setup.seed + seed) for seed in CLOUD_SEEDS)
    known = [answer.result() for answer in answers if is_known(answer)]
    # two more pictures, of a few and of all, are enough
    return known, still_open([answers[_FIRST_FEW], answers[-1]])


def _wanted(here: float) -> list[float]:
    """List the epsilons shown below the picture, the most wanted first."""
    return list(dict.fromkeys((*PROMISES, *neighbours(here), *CURVE_EPSILONS)))


def rehearse_stops(setup: RehearsalSetup) -> None:
    """Ask for all stops of the slider, so that its next position has an answer.

    This comes before other questions of low priority: the newest is served first.
    """
    seen = _wanted(setup.request.epsilon)
    prefetched(setup.at(epsilon) for epsilon in EPSILON_STOPS if epsilon not in seen)


def show_other_promises(rehearsal: Rehearsal, dataset: Dataset) -> list[Future[Any]]:
    """Show the curve and the small pictures as far as known; return what to wait for."""
    here = rehearsal.setup.request.epsilon
    others = [rehearsal.setup.at(epsilon) for epsilon in _wanted(here) if epsilon != here]
    answers = prefetched(others)
    known = [rehearsal, *(answer.result() for answer in answers if is_known(answer))]
    _draw(tuple(known), dataset, missing=len(others) + 1 - len(known))
    # first the small pictures, then the whole curve: the page reruns twice, not ten times
    return still_open([answers[len(PROMISES) - 1], answers[-1]])


def _tried(known: tuple[Rehearsal, ...]) -> dict[float, TriedEpsilon]:
    return {
        one.setup.request.epsilon: TriedEpsilon(one.setup.request.epsilon, one.error, one.private)
        for one in known
    }


@functools.lru_cache(maxsize=32)
def _shared_curve(known: tuple[Rehearsal, ...]) -> go.Figure:
    """Draw the curve with a dot at the first rehearsal, once for all visitors."""
    return error_curve(
        list(_tried(known).values()),
        here=known[0].setup.request.epsilon,
        nonprivate=known[0].nonprivate_error,
        span=CURVE_EPSILONS,
        height=250,
    )


def _draw(known: tuple[Rehearsal, ...], dataset: Dataset, *, missing: int) -> None:
    tried = _tried(known)
    left, right = st.container(key="beside").columns([1, 1.25], gap="medium")
    with left:
        st.markdown("**Error against ε**")
        st.plotly_chart(
            _shared_curve(known),
            key="curve",
            config={"displayModeBar": False},
            alt=_in_words(tried, known[0]),
        )
    with right:
        st.markdown("**The same people, four promises**")
        _show_promises(known, dataset)
    st.caption(
        (f":material/hourglass_top: {missing} more to come. " if missing else "")
        + "Rehearsals with the same rows and the same seed; nothing is spent. Error: dist\\_GMM to "
        + ("the truth." if dataset.truth is not None else "the fit without privacy.")
    )


@functools.lru_cache(maxsize=32)
def _shared_promises(known: tuple[Rehearsal, ...]) -> go.Figure:
    """Draw the small pictures, once for all visitors."""
    setup, dataset = known[0].setup, load_demo(known[0].setup.rows)
    return promises_figure(
        _ready(known), dataset.thumbnail, true=dataset.truth, here=setup.request.epsilon, height=235
    )


def _ready(known: tuple[Rehearsal, ...]) -> list[TriedEpsilon | float]:
    tried = _tried(known)
    return [tried.get(epsilon, epsilon) for epsilon in PROMISES]


def _show_promises(known: tuple[Rehearsal, ...], dataset: Dataset) -> None:
    if dataset.n_features < 2:
        st.caption("Small pictures need two columns or more.")
        return
    st.plotly_chart(
        _shared_promises(known),
        key="promises",
        config={"displayModeBar": False},
        alt="The rows with the true and the released ellipses, for "
        + ", ".join(_promise_in_words(one) for one in _ready(known)),
    )


def _promise_in_words(one: TriedEpsilon | float) -> str:
    if not isinstance(one, TriedEpsilon):
        return f"ε = {one:g} (not known yet)"
    return f"ε = {one.epsilon:g}" + (" (refused)" if one.private is None else "")


def _in_words(tried: dict[float, TriedEpsilon], rehearsal: Rehearsal) -> str:
    """Describe the curve for those who do not see it."""
    words = [
        f"ε = {epsilon:g}: " + ("refused" if one.error is None else f"error {one.error:.3f}")
        for epsilon, one in sorted(tried.items())
    ]
    if rehearsal.nonprivate_error is not None:
        words.append(f"without privacy: error {rehearsal.nonprivate_error:.3f}")
    return "Error against ε. " + "; ".join(words) + "."
