"""Below the picture of a rehearsal: what other promises would give, filled in as it is known."""

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
    Scene,
    asked_ahead,
    neighbours,
)
from privgmm.dashboard.shared.answers import EPSILONS
from privgmm.dashboard.shared.jobs import is_known, still_open
from privgmm.dashboard.shared.made_up import loaded
from privgmm.data.datasets import Dataset
from privgmm.figures.promises import Tried, error_curve, promises_figure

__all__ = ["cloud", "rehearse_stops", "show_other_promises"]

_FIRST_FEW = 3


def cloud(scene: Scene) -> tuple[list[Rehearsal], list[Future[Any]]]:
    """Rehearsals of the same with other noise, and which others are worth waiting for."""
    answers = asked_ahead(scene.seeded(scene.seed + seed) for seed in CLOUD_SEEDS)
    known = [answer.result() for answer in answers if is_known(answer)]
    # they come one after the other: a picture of a few, and then one of all, are enough
    return known, still_open([answers[_FIRST_FEW], answers[-1]])


def _wanted(here: float) -> list[float]:
    """The epsilons to be seen below the picture, the most wanted first."""
    return list(dict.fromkeys((*PROMISES, *neighbours(here), *CURVE_EPSILONS)))


def rehearse_stops(scene: Scene) -> None:
    """Ask for all stops of the slider: wherever it is drawn to, the answer is there.

    Before anything else is asked ahead, which then comes first.
    """
    seen = _wanted(scene.request.epsilon)
    asked_ahead(scene.at(epsilon) for epsilon in EPSILONS if epsilon not in seen)


def show_other_promises(rehearsal: Rehearsal, dataset: Dataset) -> list[Future[Any]]:
    """The curve and the small pictures, as far as they are known; gives back what to wait for."""
    here = rehearsal.scene.request.epsilon
    others = [rehearsal.scene.at(epsilon) for epsilon in _wanted(here) if epsilon != here]
    answers = asked_ahead(others)
    known = [rehearsal, *(answer.result() for answer in answers if is_known(answer))]
    _draw(tuple(known), dataset, missing=len(others) + 1 - len(known))
    # first the small pictures, then the whole curve: the page is drawn twice, not ten times
    return still_open([answers[len(PROMISES) - 1], answers[-1]])


def _tried(known: tuple[Rehearsal, ...]) -> dict[float, Tried]:
    return {
        one.scene.request.epsilon: Tried(one.scene.request.epsilon, one.error, one.private)
        for one in known
    }


@functools.lru_cache(maxsize=32)
def _shared_curve(known: tuple[Rehearsal, ...]) -> go.Figure:
    """The curve with a dot at the first of them, made once for all visitors who see the same."""
    return error_curve(
        list(_tried(known).values()),
        here=known[0].scene.request.epsilon,
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
    """The small pictures, made once for all visitors who see the same."""
    scene, dataset = known[0].scene, loaded(known[0].scene.rows)
    return promises_figure(
        _ready(known),
        dataset.thumbnail,
        true=dataset.truth,
        here=scene.request.epsilon,
        height=235,
    )


def _ready(known: tuple[Rehearsal, ...]) -> list[Tried | float]:
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
        alt="The rows with the true and the private ellipses, for "
        + ", ".join(_promise_in_words(one) for one in _ready(known)),
    )


def _promise_in_words(one: Tried | float) -> str:
    if not isinstance(one, Tried):
        return f"ε = {one:g} (not known yet)"
    return f"ε = {one.epsilon:g}" + (" (refused)" if one.private is None else "")


def _in_words(tried: dict[float, Tried], rehearsal: Rehearsal) -> str:
    """The curve for those who do not see it."""
    words = [
        f"ε = {epsilon:g}: " + ("refused" if one.error is None else f"error {one.error:.3f}")
        for epsilon, one in sorted(tried.items())
    ]
    if rehearsal.nonprivate_error is not None:
        words.append(f"without privacy: error {rehearsal.nonprivate_error:.3f}")
    return "Error against ε. " + "; ".join(words) + "."
