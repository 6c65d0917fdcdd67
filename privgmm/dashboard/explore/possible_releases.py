"""A cloud of possible releases: the same plan on generated twins of the data.

Twins are drawn from a public mixture (the released one, or the truth behind generated rows), never
from the rows. So the cloud costs no budget, and one made from a release may be shared with it.
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
from privgmm.dashboard.shared.fair_queue import RELEASES, this_session
from privgmm.dashboard.shared.refresh import refresh_part, rerun
from privgmm.distances.parameters import dist_gmm
from privgmm.learners.registry import make_learner
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture
from privgmm.releases import Outcome, Release, release
from privgmm.teaching.background import Job, JobCache, JobControl
from privgmm.teaching.format import error_in_words, problem_in_words

__all__ = ["Cloud", "cloud_of", "public_mixture", "show_ghosts"]

_CLOUD = "explore_cloud"
_COUNTS = (10, 30, 100)
"""Numbers of twins offered: a hundred show the spread, ten are quick."""
_RERUN_EVERY = 10
"""Twins after which the page reruns: a tenth of the most."""


@dataclasses.dataclass
class Cloud:
    """Releases from twins of the data, for one outcome.

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
        How many had been tried when the page was last rendered.
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
        """Number of twins tried."""
        return len(self.released) + self.refused

    @property
    def running(self) -> bool:
        """Whether more twins are to come."""
        return self.job is not None and not self.job.finished


def public_mixture(shown: state.Shown) -> Mixture | None:
    """Return the mixture to draw twins from: the truth if known, else the release."""
    if shown.chosen.dataset.truth is not None:
        return shown.chosen.dataset.truth
    result = shown.outcome.result
    return result.mixture if isinstance(result, Release) else None


def cloud_of(shown: state.Shown) -> Cloud | None:
    """Return the cloud of this release, if there is one."""
    value = st.session_state.get(_CLOUD)
    return value if isinstance(value, Cloud) and value.outcome is shown.outcome else None


TWINS = JobCache(most=2000)
"""Releases from twins, shared by sessions that try the same plan on the same mixture."""


@dataclasses.dataclass(frozen=True)
class _Trial:
    """Everything that decides the releases from twins, all of it public."""

    model: Mixture
    plan: Plan
    learner: str
    n_rows: int

    def result(self, number: int, owner: Hashable, control: JobControl) -> Mixture | None:
        """Release from one twin with fixed seeds; None if that is refused."""

        def progress(_done: int, _total: int) -> None:
            control.step(0, 1, "")

        plan, model = self.plan, self.model
        learner = None if plan.chooses_components else make_learner(self.learner, plan.n_components)
        rows_seed, noise_seed = np.random.SeedSequence([6023, number]).generate_state(2)
        with RELEASES.slot(owner, control):
            rows = model.sample(self.n_rows, rng=int(rows_seed))
            found = release(rows, plan, learner=learner, rng=int(noise_seed), progress=progress)
        return found.result.mixture if isinstance(found.result, Release) else None


def _work(control: JobControl, cloud: Cloud, trial: _Trial, owner: Hashable) -> None:
    """Release from twin after twin, sharing slots with other sessions."""
    for number in range(cloud.wanted):
        control.step(cloud.tried, cloud.wanted, f"{cloud.tried} of {cloud.wanted} twins")
        asked = TWINS.ask((trial, number), functools.partial(trial.result, number, owner), 1.0)
        while not asked.finished:
            control.step(cloud.tried, cloud.wanted, f"{cloud.tried} of {cloud.wanted} twins")
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
    plan, n_rows = shown.outcome.result.plan, shown.chosen.dataset.n_rows
    trial = _Trial(model, plan, shown.settings.learner, n_rows)
    cloud.job = Job(functools.partial(_work, cloud=cloud, trial=trial, owner=this_session()))
    st.session_state[_CLOUD] = cloud


def show_ghosts(shown: state.Shown) -> None:
    """Show the panel: number of twins, start, progress and summary."""
    model = public_mixture(shown)
    with st.container(border=True, key="ghosts"):
        st.markdown("**:material/blur_on: What else might have come out?**")
        if model is None:
            st.caption(
                "After a refusal there is no public mixture to draw twins from, and the rows "
                "themselves are not used for this."
            )
            return
        dataset = shown.chosen.dataset
        origin = "the released mixture" if dataset.truth is None else "the true mixture"
        st.caption(
            f"The same plan, tried on generated twins of your data: {dataset.n_rows:,} rows each, "
            f"drawn from {origin}. Costs no budget."
        )
        cloud = cloud_of(shown)
        if cloud is not None and cloud.running:
            cloud.drawn = cloud.tried
            refresh_part(functools.partial(_paint, cloud, st.empty()))
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
    """Show progress and Stop; the page reruns with every tenth twin and at the end."""
    if not cloud.running or cloud.tried >= cloud.drawn + _RERUN_EVERY:
        rerun()
    if cloud.job is not None:
        progress = cloud.job.progress
        with place.container():
            st.progress(progress.share, text=progress.text or "Starting…")
            st.button(
                "Stop", key="ghosts_stop", icon=":material/cancel:", on_click=cloud.job.cancel
            )


def _summary(cloud: Cloud) -> str:
    words = f"Of {cloud.tried} twins **{len(cloud.released)}** released"
    words += f", {cloud.refused} refused." if cloud.refused else "."
    if cloud.errors:
        low, middle, high = np.quantile(cloud.errors, [0.05, 0.5, 0.95])
        words += (
            " Error (dist_GMM to the mixture behind the twins): half within "
            f"**{error_in_words(middle)}**, nine in ten between "
            f"{error_in_words(low)} and {error_in_words(high)}."
        )
    return words.replace("dist_GMM", r"dist\_GMM")
