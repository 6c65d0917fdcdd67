"""A cloud of releases that might have been: the same plan on made-up twins of the data.

Twins are drawn from a mixture that is public anyway, the released one or the truth of made-up
rows, never from the rows themselves. So the cloud costs no budget, and one made from a release
may be shared with it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable
from concurrent.futures import wait

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from privgmm.dashboard.shared import state
from privgmm.dashboard.shared.format import problem_in_words
from privgmm.dashboard.shared.jobs import HEAVY, Job, Once, Ticket, redraw, repaint, this_session
from privgmm.distances.parameters import dist_gmm
from privgmm.learners.registry import make_learner
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture
from privgmm.release import Outcome, Release, release

__all__ = ["Cloud", "cloud_of", "public_mixture", "show_ghosts"]

_CLOUD = "explore_cloud"
_COUNTS = (10, 30, 100)
_REDRAW = 10


@dataclasses.dataclass
class Cloud:
    """Twins tried so far, for one outcome.

    Parameters
    ----------
    outcome : Outcome
        Which release it belongs to.
    wanted : int
        How many twins to try.
    released : list of Mixture
    errors : list of float
        dist_GMM of each to the mixture its twin was drawn from.
    refused : int
    drawn : int
        How many had been tried when the page was last drawn.
    job : Job or None
        None until it starts.
    """

    outcome: Outcome
    wanted: int
    released: list[Mixture] = dataclasses.field(default_factory=list)
    errors: list[float] = dataclasses.field(default_factory=list)
    refused: int = 0
    drawn: int = 0
    job: Job[None] | None = None

    @property
    def tried(self) -> int:
        """Twins tried."""
        return len(self.released) + self.refused

    @property
    def running(self) -> bool:
        """Whether more are to come."""
        return self.job is not None and not self.job.finished


def public_mixture(shown: state.Shown) -> Mixture | None:
    """The mixture to draw twins from: the truth if it is known, else what was released."""
    if shown.dataset.truth is not None:
        return shown.dataset.truth
    result = shown.outcome.result
    return result.mixture if isinstance(result, Release) else None


def cloud_of(shown: state.Shown) -> Cloud | None:
    """The cloud of this release, if there is one."""
    value = st.session_state.get(_CLOUD)
    return value if isinstance(value, Cloud) and value.outcome is shown.outcome else None


TWINS = Once(most=2000)
"""Results of twins: the same for every session that tries the same plan on the same mixture."""


@dataclasses.dataclass(frozen=True)
class _Trial:
    """What decides how a twin fares, but for its number: public, all of it."""

    model: Mixture
    plan: Plan
    learner: str
    n_rows: int

    def result(self, number: int, owner: Hashable, ticket: Ticket) -> Mixture | None:
        """What is released from a twin; None if that is refused. The seeds are fixed."""

        def progress(_done: int, _total: int) -> None:
            ticket.step(0, 1, "")

        plan, model = self.plan, self.model
        learner = None if plan.chooses_components else make_learner(self.learner, plan.n_components)
        rows_seed, noise_seed = np.random.SeedSequence([6023, number]).generate_state(2)
        with HEAVY.turn(owner, ticket):
            rows = model.sample(self.n_rows, rng=int(rows_seed))
            found = release(rows, plan, learner=learner, rng=int(noise_seed), progress=progress)
        return found.result.mixture if isinstance(found.result, Release) else None


def _work(ticket: Ticket, cloud: Cloud, trial: _Trial, owner: Hashable) -> None:
    """Release from twin after twin, taking turns with the other sessions."""
    for number in range(cloud.wanted):
        ticket.step(cloud.tried, cloud.wanted, f"{cloud.tried} of {cloud.wanted} twins")
        asked = TWINS.ask((trial, number), functools.partial(trial.result, number, owner), 1.0)
        while not asked.finished:
            ticket.step(cloud.tried, cloud.wanted, f"{cloud.tried} of {cloud.wanted} twins")
            wait([asked.future], 0.1)
        mixture = asked.result()
        if mixture is None:
            cloud.refused += 1
            continue
        cloud.released.append(mixture)
        if mixture.n_components == trial.model.n_components:
            cloud.errors.append(float(dist_gmm(mixture, trial.model)))


def _begin(shown: state.Shown, model: Mixture) -> None:
    earlier = st.session_state.get(_CLOUD)
    if isinstance(earlier, Cloud) and earlier.job is not None:
        earlier.job.cancel()
    cloud = Cloud(shown.outcome, int(st.session_state["twins"]))
    plan, n_rows = shown.outcome.result.plan, shown.dataset.n_rows
    trial = _Trial(model, plan, shown.settings.learner, n_rows)
    cloud.job = Job(functools.partial(_work, cloud=cloud, trial=trial, owner=this_session()))
    st.session_state[_CLOUD] = cloud


def show_ghosts(shown: state.Shown) -> None:
    """The panel: how many twins, start, progress, and what came of them."""
    model = public_mixture(shown)
    with st.container(border=True, key="ghosts"):
        st.markdown("**:material/blur_on: What else might have come out?**")
        if model is None:
            st.caption(
                "After a refusal there is no public mixture to draw twins from, and the rows "
                "themselves are not used for this."
            )
            return
        origin = "the true mixture" if shown.dataset.truth is not None else "the released mixture"
        st.caption(
            f"The same plan, tried on made-up twins of your data: {shown.dataset.n_rows:,} rows "
            f"each, drawn from {origin}. Costs no budget."
        )
        cloud = cloud_of(shown)
        if cloud is not None and cloud.running:
            cloud.drawn = cloud.tried
            repaint(functools.partial(_paint, cloud, st.empty()))
        else:
            row = st.container(horizontal=True, vertical_alignment="center")
            row.segmented_control(
                "Twins",
                _COUNTS,
                default=_COUNTS[1],
                required=True,
                key="twins",
                label_visibility="collapsed",
                persist_state="session",
            )
            row.button(
                "Show possible releases",
                key="ghosts_start",
                icon=":material/blur_on:",
                on_click=_begin,
                args=(shown, model),
            )
        if cloud is not None and cloud.tried:
            st.markdown(_summary(cloud))
            problem = None if cloud.running or cloud.job is None else cloud.job.problem()
            if isinstance(problem, Exception) and str(problem):
                st.error(problem_in_words(problem), icon=":material/error:")


def _paint(cloud: Cloud, place: DeltaGenerator) -> None:
    """Progress and a way to stop; the page is redrawn with every tenth twin and at the end."""
    if not cloud.running or cloud.tried >= cloud.drawn + _REDRAW:
        redraw()
    if cloud.job is not None:
        told = cloud.job.progress
        with place.container():
            st.progress(told.share, text=told.text or "Starting…")
            st.button(
                "Stop", key="ghosts_stop", icon=":material/cancel:", on_click=cloud.job.cancel
            )


def _summary(cloud: Cloud) -> str:
    words = f"Of {cloud.tried} twins **{len(cloud.released)}** released"
    words += f", {cloud.refused} refused." if cloud.refused else "."
    if cloud.errors:
        low, middle, high = np.quantile(cloud.errors, [0.05, 0.5, 0.95])
        words += (
            f" Error (dist_GMM to the mixture behind the twins): half within **{middle:.3f}**, "
            f"nine in ten between {low:.3f} and {high:.3f}."
        )
    return words.replace("dist_GMM", r"dist\_GMM")
