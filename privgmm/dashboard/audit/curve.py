"""The section Trade-off: false alarms against misses, proved, stated and reached by attacks."""

from __future__ import annotations

import numpy as np
import streamlit as st

from privgmm.audit.guessing import Attack
from privgmm.budget import percent_at_most
from privgmm.dashboard.shared.refresh import result_or_notice
from privgmm.figures.guessing import tradeoff_figure
from privgmm.privacy.guessing import Tradeoff
from privgmm.teaching import neighbours
from privgmm.teaching.game import duel_of

__all__ = ["attacks", "show_tradeoff"]

_ROUNDS = 20_000
"""Rounds on either side: 95 % bars of a rate then span at most 1.4 percentage points."""
_SPREADS = (-1.6, -0.9, -0.45, 0.0, 0.45, 0.9, 1.6)
"""Log odds from which on a test says A, in units of the size that losses have."""
_NAMES = {
    "worst case": "the worst case",
    "outlier": "an outlier",
    "ordinary": "an ordinary person",
}


def attacks(epsilon: float) -> dict[str, tuple[Attack, ...]]:
    """Play the strongest tests against each kind of neighbours, many times."""
    rng = np.random.default_rng(17)
    found = {}
    for kind, name in _NAMES.items():
        duel = duel_of(epsilon, kind)
        # about the mu of a Gaussian mechanism whose best guess succeeds as often
        size = max(5 * (duel.best_success - 0.5), 1e-3)
        odds = [size * spread for spread in _SPREADS]
        found[f"best tests on {name}"] = duel.attacks(_ROUNDS, odds, rng=rng)
    return found


def _computed(epsilon: float) -> tuple[Tradeoff, Tradeoff, dict[str, tuple[Attack, ...]]]:
    plan = neighbours.plan(epsilon)
    return plan.tradeoff(), Tradeoff.of_budget(plan.spent()), attacks(epsilon)


def show_tradeoff(epsilon: float) -> None:
    """Draw the section Trade-off."""
    found = result_or_notice(
        ("tradeoff", epsilon),
        lambda: _computed(epsilon),
        f"Playing the strongest tests at ε = {epsilon:g}…",
    )
    if found is None:
        return
    proved, stated, tried = found
    with st.container(key="split"):
        side, picture = st.columns([1, 1.6], gap="medium")
    least = np.array([proved.missed(0.05), stated.missed(0.05)])
    with side:
        st.markdown(
            "A test for whether a row was replaced makes two kinds of mistakes: **false alarms** "
            "and **misses**. A coin trades one for the other, along the dotted line. The nearer a "
            "test comes to the lower left corner, the more it knows."
        )
        st.markdown(
            "No test, by anybody, lies below the **solid curve**: it is proved from the noise that "
            "this plan draws. The dashed curve follows from ε and δ alone. The points are the "
            f"strongest tests against three pairs of data sets, each played {_ROUNDS:,} times on "
            "either side."
        )
        with st.container(horizontal=True):
            st.metric(
                "Right at most",
                percent_at_most(proved.ceiling),
                help="Share of right guesses if A and B are equally likely: from the point of the "
                "solid curve that is nearest to the corner",
                width="content",
            )
            st.metric(
                "By ε and δ alone",
                percent_at_most(stated.ceiling),
                help="Share of right guesses that the dashed curve would allow",
                width="content",
            )
            st.metric(
                "Missed at 5% false alarms",
                f"{np.floor(1000 * least[0]) / 10:.1f}%",
                help="At least this share of changes stays unnoticed; by ε and δ alone "
                f"{np.floor(1000 * least[1]) / 10:.1f}%, by a coin 95%",
                width="content",
            )
    with picture:
        best = max((a for group in tried.values() for a in group), key=lambda a: a.success)
        st.plotly_chart(
            tradeoff_figure(proved, stated, tried),
            key="tradeoff",
            config={"displaylogo": False, "scrollZoom": False},
            alt="Misses against false alarms. At 5% false alarms at least "
            f"{least[0]:.1%} are missed, by ε and δ alone {least[1]:.1%}, by a coin 95%. The best "
            f"test that was played was right {best.success:.1%} of the time.",
        )
        st.caption(
            ":material/science: Generated rows. Bars are 95% intervals, so a point may lie below a "
            "curve by the length of its bar."
        )
