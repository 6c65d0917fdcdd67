"""Rehearsals with other promises, below the picture, filled in as they are known."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from privgmm.dashboard.explore.epsilon_curve import show_epsilon_curve
from privgmm.dashboard.explore.picture import CLOUD, TIMES_TEN, chosen_axes, layers
from privgmm.dashboard.explore.rehearsal import (
    CLOUD_SEEDS,
    PROMISES,
    neighbours,
    prefetched,
)
from privgmm.dashboard.shared.lessons import current_lesson
from privgmm.data.datasets import Dataset
from privgmm.figures.promises import TriedEpsilon, promises_figure
from privgmm.teaching.background import is_known, still_open
from privgmm.teaching.rehearsal import EPSILON_STOPS, Rehearsal, RehearsalSetup, load_demo

__all__ = ["Stops", "noise_cloud"]

_SLIDER = "epsilon"
_FIRST_FEW = 3
"""Rehearsals of the cloud that are shown before all are known, by convention."""


def noise_cloud(setup: RehearsalSetup) -> tuple[list[Rehearsal], list[Future[Any]]]:
    """Return rehearsals with other noise that are known, and those worth waiting for."""
    answers = _with_other_noise(setup, CLOUD_SEEDS)
    known = [answer.result() for answer in answers if is_known(answer)]
    # two more pictures, of a few and of all, are enough
    return known, still_open([answers[_FIRST_FEW - 1], answers[-1]])


def _with_other_noise(setup: RehearsalSetup, seeds: Sequence[int]) -> list[Future[Rehearsal]]:
    return prefetched(setup.seeded(setup.seed + seed) for seed in seeds)


def _clouds_at_hand(setup: RehearsalSetup) -> dict[float, list[Rehearsal]]:
    """Return what is known of the clouds here and at the next stops; nothing waits for it."""
    here = setup.request.epsilon
    answers = {
        epsilon: _with_other_noise(setup.at(epsilon), CLOUD_SEEDS[:_FIRST_FEW])
        for epsilon in [*neighbours(here)[::-1], here]
    }
    return {
        epsilon: [answer.result() for answer in asked if is_known(answer)]
        for epsilon, asked in answers.items()
    }


def _all_stops(setup: RehearsalSetup) -> tuple[dict[float, Rehearsal], list[Future[Any]]]:
    """Return the rehearsals at all stops of the slider that are known, and whom to wait for.

    The small pictures and the next stops of the slider come first, then all others: the page reruns
    twice, not twenty times.
    """
    here = setup.request.epsilon
    wanted = dict.fromkeys((*PROMISES, *neighbours(here), *EPSILON_STOPS))
    order = [epsilon for epsilon in wanted if epsilon != here]
    answers = dict(zip(order, prefetched(setup.at(e) for e in order), strict=True))
    known = {e: answer.result() for e, answer in answers.items() if is_known(answer)}
    first = [epsilon for epsilon in (*PROMISES, *neighbours(here)) if epsilon != here]
    return known, still_open([answers[first[-1]], answers[order[-1]]])


class Stops:
    """The rehearsals at all stops of epsilon: the curve and the small pictures.

    Parameters
    ----------
    setup : RehearsalSetup
    found : Rehearsal or None
        The one of these settings, if it is known.
    alpha : float
        Accuracy asked for.
    dataset : Dataset
        The rows rehearsed on.
    moves_picture : bool
        Whether the picture shows the rehearsal, so that it follows the hand.
    stands_in : bool
        Whether the rows rehearsed on stand in for the visitor's own.
    """

    def __init__(
        self,
        setup: RehearsalSetup,
        found: Rehearsal | None,
        alpha: float,
        dataset: Dataset,
        *,
        moves_picture: bool = True,
        stands_in: bool = False,
    ) -> None:
        self._stands_in, self._dataset = stands_in, dataset
        # what is asked last is served first: the clouds only come when all stops are known
        self._ghosts = _clouds_at_hand(setup) if CLOUD in layers() and moves_picture else {}
        others, self.pending = _all_stops(setup)
        self._here, self._alpha = setup.request.epsilon, alpha
        self._known = others if found is None else {self._here: found, **others}
        self._measured = dataset.truth is None
        plain = moves_picture and dataset.n_features > 1 and TIMES_TEN not in layers()
        self._axes = chosen_axes(dataset) if plain else None

    def show_curve(self) -> None:
        """Show the error against epsilon, as a control; a lesson hides it with epsilon."""
        lesson = current_lesson()
        if lesson is not None and _SLIDER not in lesson.visible:
            return
        show_epsilon_curve(
            self._here,
            self._known,
            self._ghosts,
            alpha=self._alpha,
            axes=self._axes,
            reference="the fit without privacy" if self._measured else "the truth",
            stands_in=self._stands_in,
        )

    def show_promises(self) -> None:
        """Show the small pictures: the rehearsal on screen comes first."""
        known = tuple(self._known.values())
        if not known:
            return
        missing = len(EPSILON_STOPS) - len({one.setup.request.epsilon for one in known})
        who = "Stand-ins for your rows" if self._stands_in else "The same people"
        rows = "on stand-ins, not your rows, with" if self._stands_in else "with the same rows and"
        with st.container(key="beside"):
            st.markdown(f"**{who}, four promises**")
            _show_promises(known, self._dataset)
        st.caption(
            (f":material/hourglass_top: {missing} more rehearsals to come. " if missing > 0 else "")
            + f"Rehearsals {rows} the same seed; nothing is spent."
        )


def _tried(known: tuple[Rehearsal, ...]) -> dict[float, TriedEpsilon]:
    return {
        one.setup.request.epsilon: TriedEpsilon(one.setup.request.epsilon, one.error, one.private)
        for one in known
    }


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
