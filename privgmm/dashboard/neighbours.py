"""The made-up data that the audit plays with, and releases from it and its neighbours.

Rows and noise come from fixed seeds: nobody is in them, and the same choice gives the same
answer. One seed deals the rows and fits the blocks alike, so two releases can be compared.
"""

from __future__ import annotations

import math

import numpy as np
import streamlit as st

from privgmm.arrays import Array
from privgmm.datasets import Dataset, generate
from privgmm.mixture import Mixture
from privgmm.plan import Plan
from privgmm.planner import best_plan
from privgmm.release import Outcome, release

__all__ = ["EPSILONS", "choose_epsilon", "data", "moved", "outcome", "plan"]

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
_ROWS = 40_000
_SEED = 3


@st.cache_resource(show_spinner=False)
def data() -> Dataset:
    """Two clouds of rows, easy to see and to learn."""
    truth = Mixture(
        [0.55, 0.45],
        [[-3.2, 0.8], [3.2, -0.8]],
        [[[1.6, 0.7], [0.7, 1.2]], [[1.0, -0.5], [-0.5, 1.8]]],
    )
    return generate(truth, _ROWS, rng=2)


def choose_epsilon() -> float:
    """The slider for the promise that is put to the test."""
    return float(
        st.select_slider(
            "Privacy budget ε",
            EPSILONS,
            1.0,
            format_func=lambda value: f"{value:g}",
            key="audit_epsilon",
            bind="query-params",
            help="The promise to put to the test; δ is one in a million.",
            width=420,
        )
    )


@st.cache_resource(show_spinner="Planning…")
def plan(epsilon: float) -> Plan:
    """The plan for the made-up rows; no refinement, so that every step can be followed."""
    d = data()
    return best_plan(
        d.n_rows,
        epsilon=epsilon,
        delta=1e-6,
        n_components=2,
        n_features=d.n_features,
        refine=False,
    )


def moved(row: int, distance: float) -> Array:
    """The row's value after it is sent off, up and to the right."""
    unit = np.array([math.cos(0.6), math.sin(0.6)])
    return np.asarray(data().rows[row] + distance * unit, dtype=np.float64)


@st.cache_resource(max_entries=24, show_spinner="Releasing…")
def outcome(epsilon: float, row: int | None = None, distance: float = 0.0) -> Outcome:
    """The release from the made-up rows, one of them sent off if asked for; seeded."""
    rows = data().rows
    if row is not None:
        rows = rows.copy()
        rows[row] = moved(row, distance)
    return release(rows, plan(epsilon), rng=_SEED)
